"""The words of a mail as the model reads them.

A model that may look at everything learns the collection instead of the mail: the footer of a list, the name of the
person whose mailbox it was, the reply that all members quote. So quotes, signatures, list footers, addresses and
machine text are cut away first. Nothing is cut that could serve as a hiding place: a signature is short, and a mail
that consists of quotes alone is read whole. What is left is read as a person reads it: no case, no accents, look-alike
letters as the letter that they pose as, numbers as their length.

The model also reads what the words speak about, in any language: words that mean the same are one concept (`account`,
`blocked`, `parcel`). Each language has a dictionary (`data/concepts/<language>.toml`) that names the words and stems of
some 120 concepts. What the model learned in English about an account that is blocked then holds in Hungarian as well.
All dictionaries are searched in one pass (natively by the hash of the first bytes of each word, else as Aho and
Corasick do, CACM 18, 1975), so a mail costs the same in every language, and its language need not be guessed. A word
that several languages spell alike but mean differently counts as the English one, else as what most of them mean.
"""

import re
import tomllib
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path

import ahocorasick_rs
import msgspec

from gatepost.mail.message import Message, Text
from gatepost.names import remove_accents, skeleton
from gatepost.near_duplicates import find_smallest_hashes
from gatepost.process.kept_results import load_kept
from gatepost.speedups import native, read_native

MAX_CHARS = 6_000
MAX_TEXTS = 6
MAX_WORDS = 1_000
MAX_WORD = 24
MAX_SUBJECT = 500
MAX_NAMES = 2
MAX_NAME, MAX_NAME_WORDS = 200, 12
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


class MessageWords(msgspec.Struct, frozen=True):
    """The words of one message, those of its body in their order: the Python twin of `WordArray` in `_speedups.c`."""

    names: list[str]
    subject: list[str]
    body: list[str]

    def __len__(self) -> int:
        return len(self.body)

    @property
    def total(self) -> int:
        """How many words there are in all."""
        return len(self.names) + len(self.subject) + len(self.body)

    def smallest_hashes(self, _run: int, count: int, least: int, /) -> list[int]:
        """Return the smallest hashes of runs of words of the body."""
        return find_smallest_hashes(self.body, count, least)

    def row(self, _most: int, _most_rest: int, _others: list[str], /) -> bytes | None:
        """Return the packed feature row; None here, since `learnt` packs it."""
        return None


# Natively, words are one piece of memory, of which strings are made only where somebody asks for them.
make_words: type[MessageWords] = native.WordArray if native else MessageWords


def read_words(message: Message, texts: Iterable[Text] | None = None) -> MessageWords:
    """Return the words of names, subject and body; `texts` are those of the body, all of the message by default."""
    return _join_words(
        [sender.name[:MAX_NAME] for sender in message.senders[:MAX_NAMES]],
        message.subject,
        message.texts if texts is None else texts,
    )


def list_body_words(texts: Iterable[Text]) -> list[str]:
    """Return the words of all that a person reads; no text twice, the attached ones last."""
    return _join_words([], "", texts).body


def _join_words(names: list[str], subject: str, texts: Iterable[Text]) -> MessageWords:
    subject = _strip_reply_marks(subject)
    shown = _list_visible(texts)
    if native:
        found: MessageWords | None = native.WordArray.read(
            names, subject, shown, _PLAIN_LETTERS, SPECIALS, MAX_NAME_WORDS, MAX_CHARS, MAX_WORDS
        )
        if found is not None:
            return found
    return make_words(*find_words(names, subject, shown))


def _list_visible(texts: Iterable[Text]) -> list[str]:
    own: list[str] = []
    attached: list[str] = []
    for text in texts:
        (attached if text.attached else own).append(text.visible)
    return (own + attached if attached else own)[:MAX_TEXTS]


def find_words(names: list[str], subject: str, texts: list[str]) -> tuple[list[str], list[str], list[str]]:
    """The Python twin of `WordArray.read` in `_speedups.c`, and the form for text that is not Latin."""
    of_names = [word for name in names for word in _split_field(name)[:MAX_NAME_WORDS]]
    return of_names, _split_field(subject), find_body_words(texts, MAX_CHARS)


def find_body_words(texts: list[str], room: int) -> list[str]:
    """Return the words of texts; of each so many characters as the ones before leave."""
    found: list[str] = []
    seen: set[str] = set()
    for text in texts:
        kept = _keep_written(text[:room])
        words = split_words(fold(kept))
        # The two halves of an alternative say the same; only words that the first does not have are news.
        if not seen.issuperset(words):
            found += words
            seen.update(words)
        room -= len(kept)
        if room <= 0:
            break
    return found[:MAX_WORDS]


# Signs and letters that have no ASCII letter, and the bytes that stand for them natively: control characters, which a
# text that is not ASCII has as any other sign between words. The last byte is for what nobody sees.
SPECIALS = "€£æðøþßđħıłŋœŧə"
_SPECIAL_BYTES = bytes((*range(2, 9), *range(14, 27)))
_UNSEEN = 27


def _replace_letter(code: int) -> int:
    """Return the byte that stands for a character where `WordArray.read` reads text that is not ASCII: ASCII as it is,
    a letter with an accent as its letter with the high bit set, one of `SPECIALS` as its own byte, a blank as 31, what
    else stands between words as 1, and 0 for what takes more than that."""
    character = chr(code)
    if code < 128:
        return 1 if code in _SPECIAL_BYTES or code == _UNSEEN else code
    plain = fold(character)
    if plain in SPECIALS and plain:
        return _SPECIAL_BYTES[SPECIALS.index(plain)]
    if not plain:
        return _UNSEEN
    if len(plain) != 1 or plain in "$%!":
        return 0
    if plain.isascii() and plain.isalpha():
        return ord(plain) | 0x80
    if character.isspace():
        return 31 if plain == " " else 0
    return 0 if plain.isalnum() or plain == "_" else 1


def _strip_reply_marks(subject: str) -> str:
    """Return a subject without its list's tag and the marks of replies."""
    subject = subject[:MAX_SUBJECT]
    if "[" in subject:
        subject = _LIST_TAG.sub(" ", subject)
    if ":" in subject:
        subject = _REPLY.sub(" ", subject)
    return subject


def _split_field(text: str) -> list[str]:
    return split_words(fold(_strip_addresses(text)))


def fold(text: str) -> str:
    """Return the text without case, accents and invisible characters, with blanks for signs between words."""
    if not text.isascii():
        for mark in _BETWEEN:
            text = text.replace(mark, " ")
        plain = remove_accents(text)
        if plain is None:
            # Composed again: a Korean syllable and a voiced Japanese one are one character each.
            plain = unicodedata.normalize("NFC", _MARKS.sub("", unicodedata.normalize("NFKD", text)))
        text = plain
    return text.lower()


def _load_plain_letters() -> bytes:
    """Return the table of letters of Latin scripts, and of signs up to those of Chinese writing."""
    sources = [Path(__file__).read_bytes(), Path(__file__).parents[1].joinpath("names.py").read_bytes()]
    codes = range(ord(_CHINESE))
    return load_kept(__file__, "kept-letters", sources, bytes, lambda: bytes(map(_replace_letter, codes)))


_PLAIN_LETTERS = _load_plain_letters() if native else b""


def guess_word(word: str) -> str:
    """Return what an unknown word may stand for: `v1agra`, `pаypаl` with Cyrillic letters, a number; or ""."""
    if not word:
        return ""
    if word.isdigit():
        return "0" * min(len(word), 9)
    if not word.isascii():
        return skeleton(word[:MAX_WORD])
    if word.isalpha() or word[0].isdigit():
        return ""
    return word.translate(_LEET)


def split_words(text: str) -> list[str]:
    """Return the words of a folded text in their order."""
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


CONCEPT = "c:"
# Concepts are close to each other within this many characters, with at most so many others between them.
NEAR = 60
BESIDE = 4
MAX_FOUND = 600

_DATA = files("gatepost.textmodel").joinpath("data", "concepts")


class Term(msgspec.Struct, frozen=True, array_like=True):
    """Words of a dictionary as they stand in folded text, a blank before them; with `open_end` any ending follows."""

    words: str
    concept: str
    open_end: bool


class PackedTerms(msgspec.Struct, frozen=True, array_like=True):
    """Terms as the native index takes them: the names of their concepts, and what `pack_concepts` made of them."""

    names: tuple[str, ...]
    index: bytes


def pack_terms(terms: Sequence[Term]) -> PackedTerms:
    """Return terms for the native index: without the blank, and the longest first."""
    names = tuple(sorted({term.concept for term in terms}))
    numbers = {name: number for number, name in enumerate(names)}
    packed = [(term.words[1:], numbers[term.concept], term.open_end) for term in terms]
    packed.sort(key=lambda term: len(term[0].encode()), reverse=True)
    return PackedTerms(names, native.pack_concepts(packed, len(names)))


class NativeConcepts:
    """The terms of all dictionaries, ready to be found."""

    def __init__(self, packed: PackedTerms) -> None:
        self.index = native.ConceptIndex(packed.index, packed.names)

    def find(self, words: list[str]) -> list[tuple[int, str]]:
        """Return the concepts of a text in their order, each with its place."""
        found: list[tuple[int, str]] = self.index.find(words, MAX_FOUND)
        return found

    def list_features(self, words: list[str]) -> list[str]:
        """Return what `find_concepts` does."""
        features: list[str] = self.index.features(words, MAX_FOUND, NEAR, BESIDE)
        return features


class ConceptIndex:
    """The Python twin of `NativeConcepts`."""

    index = None

    def __init__(self, terms: Sequence[Term]) -> None:
        self._concepts = [term.concept for term in terms]
        self._open_ends = [term.open_end for term in terms]
        self._search = ahocorasick_rs.AhoCorasick(
            [term.words for term in terms], matchkind=ahocorasick_rs.MatchKind.LeftmostLongest
        )

    def find(self, words: list[str]) -> list[tuple[int, str]]:
        """Return the concepts of a text in their order, each with its place."""
        text = f" {' '.join(words)} "
        concepts, open_ends = self._concepts, self._open_ends
        return [
            (start, concepts[term])
            for term, start, end in self._search.find_matches_as_indexes(text)[:MAX_FOUND]
            if open_ends[term] or text[end] == " "
        ]

    def list_features(self, words: list[str]) -> list[str]:
        """Return what `find_concepts` does."""
        found = self.find(words)
        features: dict[str, None] = {}
        for place, (start, concept) in enumerate(found):
            features[_name(concept, concept)] = None
            for other_start, other in found[place + 1 : place + 1 + BESIDE]:
                if other_start - start > NEAR:
                    break
                features[_name(concept, other)] = None
        return list(features)


def find_concepts(words: list[str]) -> list[str]:
    """Return a text's concepts as sorted features: `c:account`, and `c:account+blocked` for two that are close."""
    return load_index().list_features(words)


@cache
def _name(one: str, other: str) -> str:
    """Return the feature of a concept, or of two; there are some 8,000 of them."""
    return CONCEPT + (one if one == other else f"{min(one, other)}+{max(one, other)}")


def list_languages() -> list[str]:
    """Return the languages that have a dictionary."""
    return sorted(each.name.removesuffix(".toml") for each in _DATA.iterdir() if each.name.endswith(".toml"))


def load_dictionary(language: str) -> dict[str, list[str]]:
    """Return the words of one language by concept, as they are written."""
    return tomllib.loads(_DATA.joinpath(f"{language}.toml").read_text("utf-8"))


def read_term(entry: str, concept: str) -> Term:
    """Return an entry of a dictionary as it is looked for: folded and split as the text is."""
    return Term(" " + " ".join(split_words(fold(entry.removesuffix("*")))), concept, entry.endswith("*"))


def join_dictionaries() -> list[Term]:
    """Return the terms of all languages, each once."""
    english = {term.words: term for term in _read_terms("en")}
    others: dict[str, list[Term]] = {}
    for language in list_languages():
        for term in _read_terms(language):
            if term.words not in english:
                others.setdefault(term.words, []).append(term)
    return [*english.values(), *map(_choose, others.values())]


def _read_terms(language: str) -> Iterator[Term]:
    for concept, entries in load_dictionary(language).items():
        for entry in entries:
            yield read_term(entry, concept)


def _choose(terms: list[Term]) -> Term:
    """Return what most languages mean by a spelling."""
    concepts = [term.concept for term in terms]
    concept = max(dict.fromkeys(concepts), key=concepts.count)
    return Term(terms[0].words, concept, any(term.open_end for term in terms if term.concept == concept))


@cache
def load_index() -> NativeConcepts | ConceptIndex:
    """Return the index of the shipped dictionaries, which is kept: to read them takes half a second."""
    books = (_DATA.joinpath(f"{language}.toml") for language in list_languages())
    sources = [Path(__file__).read_bytes(), *(book.read_bytes() for book in books)]
    if native:
        kept = load_kept(
            __file__,
            "kept-concept-index",
            [*sources, read_native()],
            PackedTerms,
            lambda: pack_terms(join_dictionaries()),
        )
        return NativeConcepts(kept)
    return ConceptIndex(load_kept(__file__, "kept-concepts", sources, list[Term], join_dictionaries))
