"""Words without a sentence: filler that makes advertising look like a letter to a machine that counts words.

`lantern gravel marmot oblique tundra …`, at the end of the text or where nobody sees it. Every language is held
together by small words: a third of what people write is `the`, `of`, `und`, `de`. Thirty words of running text without
one are not written by a person. Lists of goods and footers are, but they have capitals, commas and lines of their own;
and where the rest of the text has no small words that we know either, the language is one that we cannot tell.
"""

import re
from collections.abc import Iterator

from gatepost.findings import Finding, Kind, Reading

SALAD = Kind("text:word-salad", "A long run of words makes no sentence")
KINDS = (SALAD,)

RUN = 30
MAX_TAIL = 1_500
MAX_HEAD = 1_000
_LEAST_SMALL = 4
# Thirty words with their spaces are hardly ever shorter; whatever is as long has one of these windows to itself.
_SHORTEST = 5 * RUN
_WINDOW = _SHORTEST // 2
_BREAK = re.compile(r"[^a-zà-ÿ \n\t]")
_BREAKS = re.compile(r"[^a-zà-ÿ \n\t]+")
_SMALL = frozenset(
    "the of and to in is it you that for on with as are be this have from or not your we our at by was will can if all"
    " an has they my me do us but which so he she his her their there been were would about more one no what when who"
    " der die das und ist zu den mit von auf für nicht ein eine sie wir ich es im dem des sich auch wie als ihr bei"
    " le la les de des et un une est pas pour que qui dans sur vous nous avec au du en ce se il elle ne par plus votre"
    " el los las y una por con para del es se su al lo como más pero sus no si te tu mi"
    " il di che non per sono una gli le con si da del della è in ti mi lei"
    " o os as do da em um uma não com para que é se na no por mais dos você seu sua"
    " het een van en op te dat niet voor met zijn er aan om ook als maar je ik".split()
)


def check(reading: Reading) -> Iterator[Finding]:
    for text in reading.message.texts[:4]:
        if text.attached:
            continue
        for place, words in (("the end", text.visible[-MAX_TAIL:]), ("hidden text", text.hidden[:MAX_TAIL])):
            found = _salad(words)
            if found and _is_spoken(text.visible[:MAX_HEAD]):
                yield SALAD.at(text.where, place=place, words=found)
                return


def _salad(text: str) -> str:
    """The first run of words without small ones."""
    windows = range(0, len(text) - _WINDOW + 1, _WINDOW)
    if all(_BREAK.search(text, start, start + _WINDOW) for start in windows):
        return ""
    for chunk in _BREAKS.split(text):
        if len(chunk) < _SHORTEST:
            continue
        words = chunk.split()
        for start in range(0, len(words) - RUN + 1, RUN // 2):
            run = words[start : start + RUN]
            if len(set(run)) > RUN // 2 and sum(word in _SMALL for word in run) <= 1:
                return " ".join(run[:12])
    return ""


def _is_spoken(text: str) -> bool:
    """Whether a text is in a language whose small words are known."""
    return sum(word in _SMALL for word in text.lower().split()) >= _LEAST_SMALL
