"""Whether a name was typed by a machine: `zw6ht96`, `bqtirvjmdsvqgksn`, `62nwxj8mam`.

Names that people choose can be spoken: vowels come every few letters, and digits stand at an end. This measures how far
a label is from that, between 0 and 1. Abbreviations joined to words ("cbsnews") stay under the bar.
"""

import re
from functools import lru_cache

_SHORTEST = 7
_BAR = 0.65
_CONSONANTS = re.compile(r"[bcdfghjklmnpqrstvwxz]{5,}")
# Two letters that are one sound, and endings that many words have.
_ONE_SOUND = re.compile(r"tch|sch|ght|[scptwg]h|ck|st|nd|nt|ng|ss|ll|tt|rs|ts|ns|rt|rd")
_TURNS = re.compile(r"(?<=[a-z])\d|(?<=\d)[a-z]")
_VOWELS = re.compile(r"[aeiouy]")
_OTHERS = re.compile(r"[b-df-hj-np-tv-xz]")
_CAPITALS = re.compile(r"[A-Z]")
_MANY_CAPITALS = 3


@lru_cache(8192)
def randomness(label: str) -> float:
    """0 for a name that a person may have chosen, else up to 1."""
    if len(label) < _SHORTEST or not label.isascii():
        return 0.0
    # "aLaZFLJt" is no word in capitals and no two words joined.
    capitals = len(_CAPITALS.findall(label)) if not label.isupper() else 0
    hopping = capitals >= _MANY_CAPITALS and label[0].islower()
    label = label.lower()
    turns = len(_TURNS.findall(label))
    longest = max((len(_ONE_SOUND.sub("-", run)) for run in _CONSONANTS.findall(label)), default=0)
    score = 0.3 * max(0, turns - 1) + 0.3 * max(0, longest - 4)
    vowels = len(_VOWELS.findall(label))
    letters = vowels + len(_OTHERS.findall(label))
    if letters >= _SHORTEST and vowels < 0.15 * letters:
        score += 0.3
    score += 0.7 * hopping
    return min(1.0, score) if score >= _BAR else 0.0
