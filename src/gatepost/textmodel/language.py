"""Which language a mail is written in, roughly: by its script, and else by its commonest small words.

Only for tables that say where figures hold; nothing is judged by it.
"""

from collections.abc import Sequence

MIN_VOTES = 3
_SCRIPTS = (
    ("Cyrillic", 0x400, 0x52F),
    ("Hebrew or Arabic", 0x590, 0x6FF),
    ("Chinese, Japanese or Korean", 0x2E80, 0xD7FF),
)
_SMALL = {
    "English": "the and to of you is for this your with that are have not we it be on",
    "German": "und der die das ist nicht sie wir mit fur auf ein eine ihre ihr zu von den",
    "French": "le la les et vous est pour votre nous dans des une sur pas avec ce qui",
    "Spanish": "el los las y su para por que una con del es esta usted no se lo",
    "Portuguese": "o os as e voce para por que uma com do da seu sua nao em um",
    "Italian": "il gli e di che per una con del sono non questo tuo la lei si",
    "Dutch": "de het een en van is voor niet met uw je wij op dat te aan",
}
_VOTES: dict[str, tuple[str, ...]] = {
    word: tuple(name for name, words in _SMALL.items() if word in words.split())
    for word in {word for words in _SMALL.values() for word in words.split()}
}


def language_of(words: Sequence[str]) -> str:
    """The language of these words, "other" where none of the known ones stands out, "too short" for a few."""
    foreign = [word for word in words if not word.isascii()]
    if len(foreign) * 3 > len(words):
        for name, first, last in _SCRIPTS:
            if sum(first <= ord(word[0]) <= last for word in foreign) * 2 > len(foreign):
                return name
    votes = dict.fromkeys(_SMALL, 0.0)
    for word in words:
        for name in _VOTES.get(word, ()):
            votes[name] += 1 / len(_VOTES[word])
    best = max(votes, key=lambda name: votes[name])
    if votes[best] >= MIN_VOTES:
        return best
    return "too short" if len(words) < 20 else "other"
