"""What a message says, as far as the phrasebooks know it: which themes its subject and visible text speak of.

Several checks ask about the same words, so the text is searched once for all of them. What a mail quotes from another
(`> `) was said by somebody else and is left out. Of a very long text the beginning is read: nobody scrolls for a lure.
"""

import re
import tomllib
from collections.abc import Iterable
from importlib.resources import files

import msgspec

from gatepost.checks.phrasebook import MAX_CHARS, Phrasebook, folded
from gatepost.findings import Reading
from gatepost.mail.message import Message

MAX_TEXTS = 6
MAX_SHOWN = 6

_QUOTED = re.compile(r"(?m)^[ \t]{0,4}[>|][^\n]{0,2000}")


class Wording(msgspec.Struct, frozen=True):
    """Phrases by theme, each once, in the order in which they stand; those `in_subject` apart. `size` is the number of
    characters of the longest text, `text` all that was read, folded."""

    themes: dict[str, tuple[str, ...]] = {}
    in_subject: frozenset[str] = frozenset()
    size: int = 0
    text: str = ""

    def said(self, *themes: str) -> tuple[str, ...]:
        """The phrases of these themes."""
        found: tuple[str, ...] = ()
        for theme in themes:
            found += self.themes.get(theme, ())
        return found

    def count(self, *themes: str) -> int:
        """How many different phrases of these themes there are."""
        return len(self.said(*themes))


def _load(name: str) -> dict[str, list[str]]:
    languages: dict[str, dict[str, list[str]]] = tomllib.loads(
        files("gatepost.checks").joinpath("phrases", name).read_text("utf-8")
    )
    return {theme: [phrase for said in book.values() for phrase in said] for theme, book in languages.items()}


LURES = _load("lures.toml")
WARES = _load("wares.toml")
_BOOK = Phrasebook(LURES | WARES)


def warm() -> None:
    """Compile every phrase now, for a process that others are forked from: each of those would do it again."""
    _BOOK.warm()


def wording(reading: Reading) -> Wording:
    """The wording of a message, worked out once."""
    return reading.once(_wording)


def shown(words: Iterable[str]) -> str:
    """Some of the phrases, as a fact of a finding."""
    return "; ".join(list(words)[:MAX_SHOWN])


def _wording(reading: Reading) -> Wording:
    subject = folded(reading.message.subject[:1000])
    texts = _texts(reading.message)
    text = f" {subject} \n {' '.join(texts)} "
    themes: dict[str, dict[str, None]] = {}
    in_subject: set[str] = set()
    for cue in sorted(_BOOK.within(text), key=lambda cue: cue.start):
        themes.setdefault(cue.theme, {})[cue.words] = None
        if cue.start <= len(subject):
            in_subject.add(cue.theme)
    found = {theme: tuple(words) for theme, words in themes.items()}
    return Wording(found, frozenset(in_subject), max(map(len, texts), default=0), text)


def _texts(message: Message) -> list[str]:
    """The texts, folded, without those that repeat another word for word."""
    found: dict[str, None] = {}
    room = MAX_CHARS
    for text in message.texts[:MAX_TEXTS]:
        plain = text.visible[:room]
        if "\n>" in plain or plain.startswith((">", "|")):
            plain = _QUOTED.sub("", plain)
        found.setdefault(folded(plain))
        room -= len(plain)
        if room <= 0:
            break
    return list(found)
