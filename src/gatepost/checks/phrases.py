"""The phrases of the phrasebooks that a message contains, by theme: in its subject and in its visible text.

Several checks ask about the same phrases, so the text is searched once for all of them. Lines that quote another mail
(`> `) are left out, since the sender did not write them. Of a very long text only the beginning is read: a lure stands
where its reader sees it.
"""

import re
import tomllib
from collections.abc import Iterable
from importlib.resources import files
from itertools import islice

import msgspec

from gatepost.checks.phrasebook import MAX_CHARS, Cue, Phrasebook, fold
from gatepost.findings import Reading
from gatepost.mail.message import Text

MAX_TEXTS = 6
MAX_SHOWN = 6

# With the line end before it: what begins with a fixed character is looked for ten times as fast as a line's start.
_QUOTED = re.compile(r"\n[ \t]{0,4}[>|][^\n]{0,2000}")


class Phrases(msgspec.Struct, frozen=True):
    """The phrases of a message by theme, each once, in the order in which they stand. `in_subject` are the themes of
    the subject, `text` is everything that was read, folded. `length` is the number of characters of the longest text,
    or that of a document which has more of the phrases: a long document beside a lure does not weaken it."""

    themes: dict[str, tuple[str, ...]] = {}
    in_subject: frozenset[str] = frozenset()
    length: int = 0
    text: str = ""

    def of(self, *themes: str) -> tuple[str, ...]:
        """Return the phrases of these themes."""
        found: tuple[str, ...] = ()
        for theme in themes:
            found += self.themes.get(theme, ())
        return found

    def count_of(self, *themes: str) -> int:
        """Return how many different phrases of these themes there are."""
        return len(self.of(*themes))


def _load(name: str) -> dict[str, list[str]]:
    languages: dict[str, dict[str, list[str]]] = tomllib.loads(
        files("gatepost.checks").joinpath("data", name).read_text("utf-8")
    )
    return {theme: [phrase for phrases in book.values() for phrase in phrases] for theme, book in languages.items()}


LURES = _load("lures.toml")
WARES = _load("wares.toml")
_BOOK = Phrasebook(LURES | WARES)


def find_phrases(reading: Reading) -> Phrases:
    """Return the phrases of a message; they are searched for once."""
    return reading.once(_search)


def quote(words: Iterable[str]) -> str:
    """Return the first few phrases, as a fact of a finding."""
    return "; ".join(list(words)[:MAX_SHOWN])


def _search(reading: Reading) -> Phrases:
    subject = fold(reading.message.subject[:1000])
    own = _fold_texts(text for text in reading.message.texts if text.form != "document")
    documents = _fold_texts(reading.documents) if reading.documents else []
    text = f" {subject} \n {' '.join([*own, *documents])} "
    cues = sorted(_BOOK.find(text), key=lambda cue: cue.start)
    themes: dict[str, dict[str, None]] = {}
    in_subject: set[str] = set()
    for cue in cues:
        themes.setdefault(cue.theme, {})[cue.words] = None
        if cue.start <= len(subject):
            in_subject.add(cue.theme)
    found = {theme: tuple(words) for theme, words in themes.items()}
    length = max(map(len, own), default=0)
    if documents:
        length = _measure_letter(cues, len(subject) + 4, own, documents)
    return Phrases(found, frozenset(in_subject), length, text)


def _measure_letter(cues: list[Cue], start: int, own: list[str], documents: list[str]) -> int:
    """Return the length of the mail's own text, or of the document that has more phrases than it; `start` is where the
    first text begins in what was searched."""
    start += sum(len(text) + 1 for text in own)
    most, length = len({cue.words for cue in cues if cue.start < start}), max(map(len, own), default=0)
    for text in documents:
        count = len({cue.words for cue in cues if start <= cue.start < start + len(text)})
        if count > most:
            most, length = count, len(text)
        start += len(text) + 1
    return length


def _fold_texts(texts: Iterable[Text]) -> list[str]:
    """Return the texts, folded, without those that repeat another word for word."""
    found: dict[str, None] = {}
    room = MAX_CHARS
    for text in islice(texts, MAX_TEXTS):
        plain = text.visible[:room]
        if "\n>" in plain or plain.startswith((">", "|")):
            plain = _QUOTED.sub("\n", f"\n{plain}")[1:]
        found.setdefault(fold(plain))
        room -= len(plain)
        if room <= 0:
            break
    return list(found)
