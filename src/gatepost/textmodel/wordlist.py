"""The words of a mail that its writer chose: without quotes, signatures, list footers, addresses and machine text.

A model that may look at everything learns the collection instead of the mail: the footer of a list, the name of the
person whose mailbox it was, the reply that everybody quotes. So those are cut away first. Nothing that a spammer could
use as a hiding place is cut: a signature is short, and a mail that consists of quotes is read whole.

What is left is read as a person reads it: no case, no accents, look-alike letters as the letter, numbers as their shape.
"""

import re
import unicodedata

from gatepost.mail.message import Text
from gatepost.names import skeleton

MAX_CHARS = 12_000
MAX_WORDS = 2_000
MAX_WORD = 24
MAX_SIGNATURE = 500
FEW_WORDS = 8

_WORD = re.compile(r"[^\W_]+(?:'[^\W\d_]{1,2}\b)?|[$€£%!]")
_MACHINE = re.compile(r"(?:https?://|www\.|(?<!\S)[^\s@]++@|<mailto:|\[cid:)\S*+", re.IGNORECASE)
_QUOTED = re.compile(r"(?m)^[ \t]{0,4}[>|][^\n]*+")
# "On Monday Ann wrote:", and the block of header lines that mail programs put above what is forwarded.
_INTRODUCED = re.compile(
    r"(?m)^(?:[^\n]{0,200}\b(?:wrote|writes|schrieb|écrit|escribió|scrisse|schreef)[^\n]{0,40}:[ \t]*$"
    r"|[ \t>]*(?:from|to|cc|sent|date|subject|reply-to)[ \t]*:[^\n]*+|-{2,}[^\n]{0,80}-{2,}[ \t]*$)",
    re.IGNORECASE,
)
_SIGNED = re.compile(r"(?m)^(?:-- ?|_{10,}|-----BEGIN PGP[^\n]*+)$")
_LIST_TAG = re.compile(r"\[[^\]\n]{1,40}\]")
_REPLY = re.compile(r"(?:\s*(?:re|fwd?|aw|wg|sv|vs|tr|rv|antw)(?:\[\d+\])?\s*:)+", re.IGNORECASE)
_MARKS = re.compile(r"[\u0300-\u036f\u200b-\u200f\u2060\u00ad\ufe00-\ufe0f\ufeff]+")
_LETTERED = re.compile(r"(?<![^\W\d_])(?:[^\W\d_][ .*_\-]){3,40}[^\W\d_](?![^\W\d_])")
_UNSPACED = "\u2e80"
_LEET = str.maketrans("01345789", "oieastbg")


def folded(text: str) -> str:
    """No case, no accents, no invisible characters; words that were spelt out with blanks are put together."""
    if not text.isascii():
        text = _MARKS.sub("", unicodedata.normalize("NFKD", text.replace("’", "'")))
    return text.lower()


def written(text: str) -> str:
    """What the writer of this mail wrote: no quotes, no introductions of quotes, no signature, no machine text."""
    own = text
    if "\n>" in own or own.startswith(">"):
        own = _QUOTED.sub("", own)
    signed = _SIGNED.search(own)
    while signed and len(own) - signed.end() > MAX_SIGNATURE:
        signed = _SIGNED.search(own, signed.end())
    if signed:
        own = own[: signed.start()]
    if ":" in own:
        own = _INTRODUCED.sub("", own)
    own = _MACHINE.sub(" ", own)
    return own if len(own.split(None, FEW_WORDS)) >= FEW_WORDS else _MACHINE.sub(" ", text)


def words_in(text: str) -> list[str]:
    """The words of a folded text in their order."""
    found = _WORD.findall(text)[:MAX_WORDS]
    return found if text.isascii() else [word for each in found for word in _split(each)]


def _split(word: str) -> list[str]:
    """Where writing has no blanks, every two characters are a word."""
    if word[0] < _UNSPACED or len(word) < 3:
        return [word]
    return [word[place : place + 2] for place in range(min(len(word), 200) - 1)]


def plain_form(word: str) -> str:
    """A word that nobody knows, as it may have been meant: `v1agra`, `pаypаl` with Cyrillic letters; a number's shape."""
    if word.isdigit():
        return "0" * min(len(word), 9)
    if word.isascii():
        return word.translate(_LEET) if not word.isalpha() and not word[0].isdigit() else ""
    return skeleton(word[:MAX_WORD])


def subject_words(subject: str) -> list[str]:
    """The words of a subject, without its list's tag and the marks of replies."""
    subject = _REPLY.sub(" ", _LIST_TAG.sub(" ", subject[:500]))
    return words_in(folded(_MACHINE.sub(" ", subject)))


def body_words(texts: tuple[Text, ...]) -> list[str]:
    """The words of all that a person reads; each text once, the attached ones last."""
    found: list[str] = []
    room = MAX_CHARS
    seen: set[str] = set()
    for text in sorted(texts, key=lambda text: text.attached)[:4]:
        own = written(text.visible[:room])
        start = own.strip()[:80]
        if start in seen:
            continue
        seen.add(start)
        found += words_in(folded(own))
        room -= len(own)
        if room <= 0:
            break
    return found[:MAX_WORDS]
