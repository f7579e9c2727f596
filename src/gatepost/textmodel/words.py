"""The words of a mail that its writer chose: without quotes, signatures, list footers, addresses and machine text.

A model that may look at everything learns the collection instead of the mail: the footer of a list, the name of the
person whose mailbox it was, the reply that everybody quotes. So those are cut away first. Nothing is cut that could
serve as a hiding place: a signature is short, and a mail that consists of quotes alone is read whole.

What is left is read as a person reads it: no case, no accents, look-alike letters as the letter that they pose as,
numbers as their length.
"""

import re
import unicodedata
from collections.abc import Iterable

from gatepost.latin import unaccented
from gatepost.mail.message import Text
from gatepost.names import skeleton

MAX_CHARS = 6_000
MAX_TEXTS = 6
MAX_WORDS = 1_000
MAX_WORD = 24
MAX_SUBJECT = 500
MAX_SIGNATURE = 12
FEW_LINES, FEW_CHARS = 2, 60

_WORD = re.compile(r"[^\W_]+|[$€£%!]")
_SIGNS = "$%!"
# Everything but letters, digits and signs as a blank: many times faster than an expression that looks for words.
_BLANKED = bytes(code if chr(code).isalnum() or chr(code) in _SIGNS else 32 for code in range(128)).ljust(256)
_LIST_TAG = re.compile(r"\[[^\]\n]{1,40}\]")
_REPLY = re.compile(r"(?:\s*(?:re|fwd?|aw|wg|sv|vs|tr|rv|antw)(?:\[\d+\])?\s*:)+", re.IGNORECASE)
_MARKS = re.compile(r"[\u0300-\u036f\u200b-\u200f\u2060\u00ad\ufe00-\ufe0f\ufeff]+")
# Without these, which stand between words and in no word, most Latin text is Latin-1.
_BETWEEN = "’‘“”–—…•"
_UNSPACED = "\u2e80"
_EASTERN = re.compile(r"[\u2e80-\ud7ff]")
_LEET = str.maketrans("01345789", "oieastbg")
# Lines that mail programs write above what they quote or forward.
_FIELDS = frozenset(
    {"from", "to", "cc", "sent", "date", "subject", "reply-to", "url", "von", "an", "gesendet", "betreff"}
)
_SAID = (" wrote:", " writes:", " schrieb:", " écrit :", " escribió:", " scrisse:", " said:")


def body_words(texts: Iterable[Text]) -> list[str]:
    """The words of all that a person reads; no text twice, the attached ones last."""
    found: list[str] = []
    seen: set[str] = set()
    room = MAX_CHARS
    for text in sorted(texts, key=lambda text: text.attached)[:MAX_TEXTS]:
        own = _written(text.visible[:room])
        # The two halves of an alternative say the same; only words that the first does not have are news.
        words = _split(folded(own))
        if not seen.issuperset(words):
            found += words
            seen.update(words)
        room -= len(own)
        if room <= 0:
            break
    return found[:MAX_WORDS]


def subject_words(subject: str) -> list[str]:
    """The words of a subject, without its list's tag and the marks of replies."""
    subject = _REPLY.sub(" ", _LIST_TAG.sub(" ", subject[:MAX_SUBJECT]))
    return _split(folded(_without_machine(subject)))


def name_words(name: str) -> list[str]:
    """The words of a display name."""
    return _split(folded(_without_machine(name[:200])))[:12]


def folded(text: str) -> str:
    """No case, no accents, no invisible characters, and blanks for some that stand between words."""
    if not text.isascii():
        for mark in _BETWEEN:
            text = text.replace(mark, " ")
        plain = unaccented(text)
        text = _MARKS.sub("", unicodedata.normalize("NFKD", text)) if plain is None else plain
    return text.lower()


def meant(word: str) -> str:
    """What an unknown word may stand for: `v1agra`, `pаypаl` with Cyrillic letters, a number by its length; or ""."""
    if not word:
        return ""
    if word.isdigit():
        return "0" * min(len(word), 9)
    if not word.isascii():
        return skeleton(word[:MAX_WORD])
    if word.isalpha() or word[0].isdigit():
        return ""
    return word.translate(_LEET)


def _split(text: str) -> list[str]:
    if text.isascii():
        for sign in _SIGNS:
            if sign in text:
                text = text.replace(sign, f" {sign} ")
        return text.encode("ascii").translate(_BLANKED).decode("ascii").split()
    words = _WORD.findall(text)
    return [part for word in words for part in _parts(word)] if _EASTERN.search(text) else words


def _parts(word: str) -> Iterable[str]:
    """Where writing has no blanks between words, every two characters are one."""
    if word[0] < _UNSPACED or len(word) < 3:
        return (word,)
    return (word[place : place + 2] for place in range(min(len(word), 200) - 1))


def _written(text: str) -> str:
    """What the writer of this mail wrote; all of the text where that would be next to nothing."""
    lines = [line for line in text.split("\n") if line]
    own = [line for line in _unsigned(lines) if not _is_foreign(line)]
    if "@" in text or "://" in text or "www." in text:
        own = [_without_machine(line) for line in own]
    if sum(map(len, own)) < FEW_CHARS and len(lines) > FEW_LINES:
        own = [_without_machine(line) for line in lines]
    return "\n".join(own)


def _unsigned(lines: list[str]) -> list[str]:
    """Without a signature (RFC 3676 section 4.3) or the footer that a list puts under a line."""
    for place in range(max(0, len(lines) - MAX_SIGNATURE), len(lines)):
        line = lines[place].rstrip()
        if line == "--" or line.startswith(("__________", "-----BEGIN PGP")):
            return lines[:place]
    return lines


def _is_foreign(line: str) -> bool:
    """A quoted line, or one that introduces quotes."""
    if line[0] in ">|":
        return True
    if ":" not in line:
        return False
    colon = line.find(":", 0, 12)
    if colon > 0 and line[:colon].strip("* \t").lower() in _FIELDS:
        return True
    return line.endswith(_SAID)


def _without_machine(line: str) -> str:
    """Without addresses of any kind."""
    if "@" not in line and "://" not in line and "www." not in line:
        return line
    return " ".join(word for word in line.split() if "@" not in word and "://" not in word and "www." not in word)
