"""What the model looks at: words of text, subject and display name, and marks of the message's build.

A model that may look at everything learns the collection instead of the mail: the footer of a list, the name of the
person whose mailbox it was, the reply that all members quote. So quotes, signatures, list footers, addresses and
machine text are cut away first. Nothing is cut that could serve as a hiding place: a signature is short, and a mail
that consists of quotes alone is read whole. What is left is read as a person reads it: no case, no accents, look-alike
letters as the letter that they pose as, numbers as their length.

Marks state shapes (how many links, which types of files, how much is hidden), never a name: a host, a mail program or a
recipient would only tell the model which collection it is looking at. Nor do they state what a sender can write to be
excused: fields of lists, newsletters and answers, or links to the sender's own site.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator
from functools import lru_cache

import msgspec

from gatepost.files.values import File
from gatepost.mail.message import Link, Message, Text
from gatepost.names import org_domain, remove_accents, skeleton
from gatepost.speedups import native

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
# Writing without blanks between words: Thai, Lao, Burmese, Khmer, Chinese, Japanese; Korean words end in particles.
_EASTERN = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\ud7ff]")
_CHINESE = "\u2e80"
# How many characters make a word there: a Chinese one mostly has two, an Indic syllable alone has as many.
_CHINESE_WORD, _THAI_WORD = 2, 4
_LEET = str.maketrans("01345789", "oieastbg")
# Lines that mail programs write above what they quote or forward.
_FIELDS = frozenset(
    {"from", "to", "cc", "sent", "date", "subject", "reply-to", "url", "von", "an", "gesendet", "betreff"}
)
_SAID = (" wrote:", " writes:", " schrieb:", " écrit :", " escribió:", " scrisse:", " said:")


def list_body_words(texts: Iterable[Text]) -> list[str]:
    """Return the words of all that a person reads; no text twice, the attached ones last."""
    found: list[str] = []
    seen: set[str] = set()
    room = MAX_CHARS
    for text in sorted(texts, key=lambda text: text.attached)[:MAX_TEXTS]:
        words, kept = _written_words(text.visible[:room])
        # The two halves of an alternative say the same; only words that the first does not have are news.
        if not seen.issuperset(words):
            found += words
            seen.update(words)
        room -= kept
        if room <= 0:
            break
    return found[:MAX_WORDS]


def _written_words(text: str) -> tuple[list[str], int]:
    """Return the words that the writer of a text chose, and how many characters of it were kept."""
    if native and text.isascii():
        found: tuple[list[str], int] = native.written_words(text)
        return found
    return find_written_words(text)


def find_written_words(text: str) -> tuple[list[str], int]:
    """The Python twin of `written_words` in `_speedups.c`, and the form for text that is not ASCII."""
    own = _keep_written(text)
    return _split_words(fold(own)), len(own)


def list_subject_words(subject: str) -> list[str]:
    """Return the words of a subject, without its list's tag and the marks of replies."""
    subject = subject[:MAX_SUBJECT]
    if "[" in subject:
        subject = _LIST_TAG.sub(" ", subject)
    if ":" in subject:
        subject = _REPLY.sub(" ", subject)
    return _split_words(fold(_strip_addresses(subject)))


def list_name_words(name: str) -> list[str]:
    """Return the words of a display name."""
    return _split_words(fold(_strip_addresses(name[:200])))[:12]


def fold(text: str) -> str:
    """Return the text without case, accents and invisible characters, with blanks for some signs that stand between
    words."""
    if not text.isascii():
        for mark in _BETWEEN:
            text = text.replace(mark, " ")
        plain = remove_accents(text)
        if plain is None:
            # Composed again: a Korean syllable and a voiced Japanese one are one character each.
            plain = unicodedata.normalize("NFC", _MARKS.sub("", unicodedata.normalize("NFKD", text)))
        text = plain
    return text.lower()


def guess_word(word: str) -> str:
    """Return what an unknown word may stand for: `v1agra`, `pаypаl` with Cyrillic letters, a number by its length; or
    ""."""
    if not word:
        return ""
    if word.isdigit():
        return "0" * min(len(word), 9)
    if not word.isascii():
        return skeleton(word[:MAX_WORD])
    if word.isalpha() or word[0].isdigit():
        return ""
    return word.translate(_LEET)


def _split_words(text: str) -> list[str]:
    if text.isascii():
        for sign in _SIGNS:
            if sign in text:
                text = text.replace(sign, f" {sign} ")
        return text.encode("ascii").translate(_BLANKED).decode("ascii").split()
    words: list[str] = native.split_words(text) if native else _WORD.findall(text)
    return [part for word in words for part in _cut_unspaced(word)] if _EASTERN.search(text) else words


def _cut_unspaced(word: str) -> Iterable[str]:
    """Return the words of writing that has no blanks between words: every few characters are one."""
    if not _EASTERN.match(word):
        return (word,)
    size = _CHINESE_WORD if word[0] >= _CHINESE else _THAI_WORD
    if len(word) <= size:
        return (word,)
    return (word[place : place + size] for place in range(min(len(word), 200) - size + 1))


def _keep_written(text: str) -> str:
    """Return what the writer of this mail wrote; all of the text where that would be next to nothing."""
    lines = [line for line in text.split("\n") if line]
    own = [line for line in _strip_signature(lines) if not _is_foreign(line)]
    if "@" in text or "://" in text or "www." in text:
        own = [_strip_addresses(line) for line in own]
    if sum(map(len, own)) < FEW_CHARS and len(lines) > FEW_LINES:
        own = [_strip_addresses(line) for line in lines]
    return "\n".join(own)


def _strip_signature(lines: list[str]) -> list[str]:
    """Return the lines without a signature (RFC 3676 section 4.3) or the footer that a list puts under a line."""
    for place in range(max(0, len(lines) - MAX_SIGNATURE), len(lines)):
        line = lines[place].rstrip()
        if line == "--" or line.startswith(("__________", "-----BEGIN PGP")):
            return lines[:place]
    return lines


def _is_foreign(line: str) -> bool:
    """Return whether a line is quoted, or introduces quotes."""
    if line[0] in ">|":
        return True
    if ":" not in line:
        return False
    colon = line.find(":", 0, 12)
    if colon > 0 and line[:colon].strip("* \t").lower() in _FIELDS:
        return True
    return line.endswith(_SAID)


def _strip_addresses(line: str) -> str:
    """Return the line without mail and web addresses."""
    if "@" not in line and "://" not in line and "www." not in line:
        return line
    return " ".join(word for word in line.split() if "@" not in word and "://" not in word and "www." not in word)


MAX_LINKS = 60

_FOLLOWED = frozenset({"text", "html", "form", "file", "qr"})


def find_marks(message: Message, files: tuple[File, ...]) -> list[str]:
    """Return every mark of a message, each once."""
    found = [
        *_mark_shape(message),
        *_mark_links(message),
        *_mark_files(message, files),
        *_mark_subject(message.subject),
    ]
    return list(dict.fromkeys(found))


def _round_down(count: int) -> int:
    """Return the largest of a few steps that a count reaches."""
    if count >= 64:
        return 64
    return 1 << (count.bit_length() - 1) if count > 0 else 0


def _mark_shape(message: Message) -> Iterator[str]:
    shown = [text for text in message.texts if not text.attached]
    forms = {text.form for text in shown}
    yield "#form " + ("none" if not forms else "both" if len(forms) > 1 else min(forms))
    chars = max((len(text.visible) for text in shown), default=0)
    yield f"#chars {_round_down(chars // 50)}"
    hidden = max((len(text.hidden) for text in shown), default=0)
    if hidden > 100:
        yield f"#hidden {min(3, 3 * hidden // (chars + 1))}"


def _mark_links(message: Message) -> Iterator[str]:
    links = [link for link in message.links if link.host and link.source in _FOLLOWED]
    pictures = [link for link in message.links if link.source == "image"]
    yield f"#links {_round_down(len(links))}"
    yield f"#images {_round_down(len(pictures))}"
    if owners := _find_owners(links):
        yield f"#owners {_round_down(len(set(owners.values())))}"
        for host, owner in owners.items():
            yield from _describe_host(host, owner)
        for link in links[:MAX_LINKS]:
            yield from _mark_address(link)


def _find_owners(links: list[Link]) -> dict[str, str]:
    return {host: org_domain(host) for host in dict.fromkeys(link.host for link in links[:MAX_LINKS])}


@lru_cache(2048)
def _describe_host(host: str, owner: str) -> tuple[str, ...]:
    return tuple(_mark_host(host, owner))


def _mark_host(host: str, owner: str) -> Iterator[str]:
    if host.replace(".", "").isdigit() or ":" in host:
        yield "#host number"
        return
    yield "#host ending " + host.rpartition(".")[2][:12]
    name = owner.partition(".")[0]
    if "-" in name:
        yield "#host hyphen"
    if len(name) > 15:
        yield "#host long"
    if not name.isalpha() and any(map(str.isdigit, name)):
        yield "#host digits"


def _mark_address(link: Link) -> Iterator[str]:
    place, _, query = link.url.partition("://")[2].partition("/")[2].partition("?")
    yield f"#path {min(4, place.count('/'))}" if place else "#path none"
    if query:
        yield f"#query {_round_down(len(query) // 16)}"
    yield "#secure" if link.url.startswith("https") else "#insecure"
    if link.source in ("form", "qr"):
        yield f"#link {link.source}"


def _mark_files(message: Message, files: tuple[File, ...]) -> Iterator[str]:
    bodies = {text.where for text in message.texts if not text.attached}
    for file in files[:50]:
        if file.path not in bodies:
            yield f"#file {file.type}"


def _mark_subject(subject: str) -> Iterator[str]:
    if not subject.strip():
        yield "#subject empty"
        return
    yield f"#subject long {_round_down(len(subject) // 10)}"
    if subject.isupper() and len(subject) > 5:
        yield "#subject loud"
    if not subject.isascii() and any(ord(char) > 0x2600 for char in subject if not char.isalpha()):
        yield "#subject picture"


SUBJECT, NAME, MARK = "s:", "f:", "#"


class Features(msgspec.Struct, frozen=True):
    """One message as the model sees it: `text` in its order, because neighbours make pairs; `rest` in no order."""

    text: list[str]
    rest: list[str]
    marks: list[str]

    def with_marks(self, marks: list[str]) -> "Features":
        """Return the same message with further marks."""
        return Features(self.text, self.rest, [*self.marks, *marks])


def extract_features(message: Message, files: tuple[File, ...] = (), written: list[str] | None = None) -> Features:
    """Return everything that the model may know of a message; `written` are its `list_body_words`, where the caller has
    them."""
    names = [word for sender in message.senders[:2] for word in list_name_words(sender.name)]
    rest = [SUBJECT + word for word in list_subject_words(message.subject)]
    rest += [NAME + word for word in names]
    return Features(list_body_words(message.texts) if written is None else written, rest, find_marks(message, files))


@lru_cache(8192)
def normalise_word(word: str) -> str:
    """Return the word under which an unknown one may be known; "" where there is none."""
    if word.startswith((SUBJECT, NAME)):
        form = guess_word(word[2:])
        return word[:2] + form if form else ""
    return guess_word(word)
