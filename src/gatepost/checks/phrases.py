"""The phrases of the phrasebooks that a message contains, by theme: in its subject and in its visible text.

Several checks ask about the same phrases, so the text is searched once for all of them. Lines that quote another mail
(`> `) are read as well: a lure in them is read by its reader. Of a very long text only the beginning is read: a lure
stands where its reader sees it.

Phrases are written as `data/lures/themes.toml` says: `(a|b)` is either, a `?` after a group or a letter makes it
optional, a `*` at the end of a word stands for any ending. Written out, they would be millions. So each phrase is known
by its longest words: one pass over the text finds those (natively by the hash of their first bytes, else as Aho and
Corasick do, CACM 18, 1975), and the rest of the phrase is matched from there, backwards and forwards. No part of a
phrase repeats, so the work is bounded for every place that was found.
"""

import math
import re
import tomllib
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from itertools import islice, product
from pathlib import Path
from typing import Any

import ahocorasick_rs
import msgspec

from gatepost.checks.known_names import read_names
from gatepost.checks.reading import Reading
from gatepost.mail.message import Message, Text
from gatepost.names import MAX_SUBJECT, remove_accents
from gatepost.process.kept_results import load_kept, read_toml
from gatepost.speedups import native, read_native

# `message_phrases.c` has the same: of all texts of one sort together.
MAX_CHARS = 60_000
MAX_EXPANDED = 5_000
SHORT = 4
# The native index tells words apart by their first bytes of UTF-8.
SHORTEST = 3

# Accents, the vowel signs of Arabic, and what nobody sees.
_MARKS = re.compile(r"[\u0300-\u036f\u0640\u064b-\u0655\u0670\u200b-\u200f\u2060\u00ad\ufeff]+")
_SURROGATES = re.compile("[\ud800-\udfff]")
# Letters with a stroke or without a dot have no accent that could be taken off, and many people write them plain.
_STRUCK = str.maketrans("ıłŁđĐøØ", "illddoo")
_HAS_STRUCK = re.compile("[ıłŁđĐøØ]")
_PLAIN = (("’", "'"), ("‘", "'"), ("“", '"'), ("”", '"'), ("\u2010", "-"), ("\u2011", "-"), ("–", "-"))
# Long, and yet in every other letter.
_EVERYDAY = frozenset(
    "your you're email click free account please price prices call information will more mail send make message order "
    "online service services support customer product products website business address number company today these "
    "transaction payment delivery order warning error there available contact".split()
)
# In every letter, several times: a phrase that is known by one of these is looked at again and again.
_CONSTANT = frozenset(
    "the of and to in is for you our us are not all new more no any be on at it as or with from have by an if will can "
    "this that was has but out one now here who get other over under like last just make view ring men bel user form "
    "file list price news change market report company power de la le les des et en el los las que der die das und zu "
    "von mit den ein eine del per con di il che por para um uma os as do da".split()
)
# Plain text of a phrase, and the mark that ends it.
_PIECE = re.compile(r"([^\\(?|)]*)([\\(?|)]?)")
# Where writing has no blanks between words, a phrase ends anywhere.
_UNSPACED = "\u2e80"


class PhraseError(ValueError):
    """A phrase that cannot be read."""


# What stands on one side of the words by which a phrase is known, for the native index: whether it ends with a word,
# then the alternatives of each slot.
Rest = tuple[bool | tuple[str, ...], ...]


class Phrase(msgspec.Struct, frozen=True):
    """One phrase of a theme, split at the words by which it is known: what stands before (reversed), and after.

    `skip` is how many characters of what is searched for stand before those words. `left` and `right` are characters of
    which one must stand right before and right after them: a look at one character rules most places out.
    """

    theme: str
    skip: int
    before: str
    after: str
    open_end: bool
    left: str = ""
    right: str = ""


class Cue(msgspec.Struct, frozen=True):
    """A phrase that was found: its theme, the words as they stand in the folded text, and where they start."""

    theme: str
    words: str
    start: int


def fold(text: str) -> str:
    """Return the text as it is compared: no case, no accents, plain quotes, single blanks, `email` for `e-mail`."""
    if native and not text.isascii() and (known := native.transliterate(text, *_FOLDED)) is not None:
        squeezed: str = native.squeeze(known, False)
        return squeezed.replace("e-mail", "email")
    return fold_any(text)


def fold_any(text: str) -> str:
    """`fold` for any text, and the Python twin of `transliterate` in `_speedups.c`."""
    if not text.isascii():
        text = _remove_marks(text)
    if native and text.isascii():
        folded: str = native.fold_ascii(text)
        return folded
    return fold_plain(text)


def _remove_marks(text: str) -> str:
    for mark, plain in _PLAIN:
        text = text.replace(mark, plain)
    if text.isascii():
        return text
    plain_text = remove_accents(text)
    text = _MARKS.sub("", unicodedata.normalize("NFKD", text)) if plain_text is None else plain_text
    return text.translate(_STRUCK) if _HAS_STRUCK.search(text) else text


def fold_plain(text: str) -> str:
    """The Python twin of `fold_ascii` in `_speedups.c`, and the form for text that is not ASCII."""
    text = text.casefold()
    text = native.squeeze(text, False) if native else " ".join(text.split())
    return text.replace("e-mail", "email")


_LONGER, _MOST_LONGER, _LONGEST, _UNKNOWN = 0xE000, 4_000, 4, "\uffff"


def _fold_characters() -> tuple[str, tuple[str, ...]]:
    """Return what each character of two bytes is folded to: one character, or the number of a longer text from U+E000
    on. U+FFFF is what depends on its neighbours (marks that normal forms put in order) or takes more."""
    found: list[str] = []
    longer: list[str] = []
    for code in range(1 << 16):
        # Surrogates and characters of private use are no letters, and those of two numbers are used here.
        is_known = not 0xD800 <= code < 0xF900 and not 0xAC00 <= code < 0xD7A4
        text = _remove_marks(chr(code)).casefold() if is_known else ""
        is_known = is_known and not any(map(unicodedata.combining, text))
        is_known = is_known and all(each < "\ud800" or "\uf900" <= each < _UNKNOWN for each in text)
        if is_known and len(text) == 1:
            found.append(text)
        elif is_known and len(text) <= _LONGEST and len(longer) < _MOST_LONGER:
            found.append(chr(_LONGER + len(longer)))
            longer.append(text)
        else:
            found.append(_UNKNOWN)
    return "".join(found), tuple(longer)


def _load_folded() -> tuple[str, tuple[str, ...]]:
    """Return the table of `transliterate`, which is kept: to make it takes a tenth of a second."""
    sources = [Path(__file__).read_bytes(), Path(__file__).parents[1].joinpath("names.py").read_bytes()]
    return load_kept(__file__, "kept-folded", sources, tuple[str, tuple[str, ...]], _fold_characters)


_FOLDED = _load_folded() if native else ("", ())


class CompiledPhrase(msgspec.Struct, frozen=True, array_like=True):
    """One phrase of a book, taken apart: what its `Phrase` has, and its words, each with its `skip` and `open_end`."""

    theme: str
    before: str
    after: str
    left: str
    right: str
    rests: tuple[Rest, Rest]
    words: list[tuple[str, int, bool]]


class PackedBook(msgspec.Struct, frozen=True, array_like=True):
    """Phrases as the native index takes them: the theme of each, and what `pack_phrases` made of them."""

    themes: list[str]
    index: bytes


class Phrasebook:
    """Phrases by theme, ready to be found; `packed` is what `pack_book` made of them."""

    def __init__(self, phrases: Sequence[CompiledPhrase], packed: PackedBook | None = None) -> None:
        if native and packed is None:
            packed = pack_book(phrases)
        self._themes = packed.themes if packed else []
        self._native = native.PhraseIndex(packed.index) if packed else None
        known = _index_words(phrases)
        words = [word for word in known if self._native is None or not _is_indexed(word)]
        self._by_word = [[_make_phrase(phrases[number], *how) for number, how in known[word]] for word in words]
        self._search = ahocorasick_rs.AhoCorasick(words) if words else None

    def search_natively(self, message: Message) -> "Phrases | None":
        """Return the phrases and signs of a message's texts in one call; None where the native index cannot tell."""
        if self._native is None or self._search is not None:
            return None
        text, subject_length, own, documents, cues, themes, in_subject, places, signs = self._native.search_message(
            self._themes, message.subject, message.texts, *_FOLDED, _fold_beginning
        )
        length = _measure_letter(cues, subject_length + 4, own, documents) if documents else max(own, default=0)
        return Phrases(themes, in_subject, length, text, places, signs)

    def find(self, text: str) -> Iterator[Cue]:
        """Yield every phrase in a folded text, as often as it stands there."""
        if self._native is not None:
            for phrase, start, end in self._native.find(text):
                yield Cue(self._themes[phrase], text[start:end].strip(), start)
        if self._search is None:
            return
        reverse = ""
        # Lone surrogates have no UTF-8, are no letters and stand in no phrase, as the character for what is not known.
        searched = text if text.isascii() else _SURROGATES.sub("\ufffd", text)
        for index, start, end in self._search.find_matches_as_indexes(searched, overlapping=True):
            for phrase in self._by_word[index]:
                first = start + phrase.skip
                if not _may_stand(phrase, text, first, end):
                    continue
                if phrase.before:
                    reverse = reverse or text[::-1]
                if span := _find_span(phrase, text, reverse, first, end):
                    yield Cue(phrase.theme, text[span[0] : span[1]].strip(), span[0])


def _index_words(phrases: Sequence[CompiledPhrase]) -> dict[str, list[tuple[int, tuple[int, bool]]]]:
    """Return the phrases by each of the words by which they are known: their numbers, with `skip` and `open_end`."""
    known: dict[str, list[tuple[int, tuple[int, bool]]]] = {}
    for number, each in enumerate(phrases):
        for word, skip, open_end in each.words:
            known.setdefault(word, []).append((number, (skip, open_end)))
    return known


def _make_phrase(each: CompiledPhrase, skip: int, open_end: bool) -> Phrase:
    return Phrase(each.theme, skip, each.before, each.after, open_end, each.left, "" if open_end else each.right)


def _is_indexed(word: str) -> bool:
    return len(word.encode()) >= SHORTEST


def pack_book(phrases: Sequence[CompiledPhrase]) -> PackedBook:
    """Return phrases for the native index, which has those words that are not too short for it."""
    known = _index_words(phrases)
    words = [
        (word, skip, open_end, number)
        for word, those in known.items()
        if _is_indexed(word)
        for number, (skip, open_end) in those
    ]
    around = [(*each.rests, each.left, each.right) for each in phrases]
    return PackedBook([each.theme for each in phrases], native.pack_phrases(around, words))


def compile_phrases(themes: Mapping[str, Iterable[str]]) -> list[CompiledPhrase]:
    """Return the phrases of these themes, taken apart."""
    return [_compile_phrase(theme, text) for theme, phrases in themes.items() for text in phrases]


def _compile_phrase(theme: str, text: str) -> CompiledPhrase:
    before, known_by, after = _split(_parse_slots(text))
    if "" in known_by:
        raise PhraseError(f"{text!r} of {theme} could be nothing at all")
    if any("*" in word[:-1] for word in known_by):
        raise PhraseError(f"{text!r} of {theme} has a * inside; put the word into brackets: (word*) (…)")
    reverse = [[each[::-1] for each in slot] for slot in reversed(before)]
    words = []
    for word in known_by:
        # Inside other words, short ones are everywhere.
        blank = " " if len(word) <= SHORT and word.isascii() and word[0] != " " else ""
        words.append((blank + word.removesuffix("*"), len(blank), word.endswith("*")))
    return CompiledPhrase(
        theme=theme,
        before=_build_pattern(reverse),
        after=_build_pattern(after),
        left=_list_first_characters(reverse),
        right=_list_first_characters(after),
        rests=(_build_rest(reverse), _build_rest(after)),
        words=words,
    )


def _may_stand(phrase: Phrase, text: str, first: int, end: int) -> bool:
    """Return whether the characters right before and after the words allow the phrase."""
    if phrase.right and (end >= len(text) or text[end] not in phrase.right):
        return False
    return not (phrase.before and phrase.left) or (first > 0 and text[first - 1] in phrase.left)


def _find_span(phrase: Phrase, text: str, reverse: str, start: int, end: int) -> tuple[int, int] | None:
    """Return where the phrase begins and ends around the words at `start`, if all of it is there, in whole words."""
    if phrase.before:
        found = _compile(phrase.before).match(reverse, len(text) - start)
        if not found:
            return None
        start = len(text) - found.end()
    elif _is_inside_word(text, start):
        return None
    if phrase.open_end:
        while end < len(text) and text[end].isalnum():
            end += 1
    if phrase.after:
        found = _compile(phrase.after).match(text, end)
        return (start, found.end()) if found else None
    return None if _is_inside_word(text, end) else (start, end)


def _is_inside_word(text: str, place: int) -> bool:
    """Return whether a cut at this place would go through a word."""
    if place <= 0 or place >= len(text):
        return False
    left, right = text[place - 1], text[place]
    return left.isalnum() and right.isalnum() and left < _UNSPACED and right < _UNSPACED


@cache
def _compile(pattern: str) -> re.Pattern[str]:
    """Compile a pattern when it is first needed: most phrases never are."""
    return re.compile(pattern)


def _build_pattern(slots: list[list[str]]) -> str:
    """Return the slots one after another, up to the end of a word, as a regular expression; "" where there are none."""
    if not slots:
        return ""
    choices = ("|".join(map(_escape, _sort_choice(slot))) for slot in slots)
    return "".join(f"(?:{choice})" for choice in choices) + (r"(?!(?<=\w)\w)" if _ends_with_word(slots) else "")


def _ends_with_word(slots: list[list[str]]) -> bool:
    return (slots[-1][0][-1:] or slots[-1][-1][-1:]) < _UNSPACED


def _build_rest(slots: list[list[str]]) -> Rest:
    """Return the slots as the native index takes them; nothing where there are none."""
    return (_ends_with_word(slots), *(tuple(_sort_choice(slot)) for slot in slots)) if slots else ()


def _list_first_characters(slots: list[list[str]]) -> str:
    """Return the characters with which the slots can begin; "" where that can be any, or nothing."""
    found: set[str] = set()
    for slot in slots:
        found.update(each[0] for each in slot if each)
        if "" not in slot:
            return "" if "*" in found else "".join(sorted(found))
    return ""


def _sort_choice(alternatives: list[str]) -> list[str]:
    return sorted(alternatives, key=len, reverse=True)


@cache
def _escape(alternative: str) -> str:
    return re.escape(alternative).replace(r"\*", r"\w{0,20}")


def _split(slots: list[list[str]]) -> tuple[list[list[str]], list[str], list[list[str]]]:
    """Return the slot by which a phrase is best known, with the fixed words around it, and what stands outside."""
    key = min(range(len(slots)), key=lambda index: sum(map(_estimate_frequency, slots[index])))
    known_by, start, end = slots[key], key, key + 1
    while start > 0 and len(slots[start - 1]) == 1:
        start -= 1
        known_by = [slots[start][0] + word for word in known_by]
    while end < len(slots) and len(slots[end]) == 1 and not any(word.endswith("*") for word in known_by):
        known_by = [word + slots[end][0] for word in known_by]
        end += 1
    return slots[:start], known_by, slots[end:]


@cache
def _estimate_frequency(alternative: str) -> float:
    """A guess at how often this stands in a text: short words everywhere, long ones seldom."""
    word = alternative.strip("* ")
    if not any(character.isalpha() for character in word):
        return 100.0
    if word in _CONSTANT:
        return 0.5
    return 0.04 if word in _EVERYDAY else 0.2 ** len(word)


def _parse_slots(phrase: str) -> list[list[str]]:
    """A phrase as a row of slots, each with its alternatives; text outside of groups is a slot with one."""
    slots, end = _parse_alternative(phrase, 0)
    if end != len(phrase):
        raise PhraseError(f"{phrase!r} has a bracket too many")
    return slots


def _parse_alternative(text: str, place: int) -> tuple[list[list[str]], int]:
    """Slots from `place` to the end of the phrase or of the alternative that it is in."""
    slots: list[list[str]] = []
    plain = ""
    while piece := _PIECE.match(text, place):
        plain += piece[1]
        place, mark = piece.end(), piece[2]
        if mark == "\\":
            plain, place = plain + text[place], place + 1
        elif mark == "(":
            slots += [[_fold_edges(plain)]] if plain else []
            plain = ""
            group, place = _parse_group(text, place)
            slots.append(group)
        elif mark != "?":  # the end, or that of this alternative
            place -= len(mark)
            break
        elif plain:
            slots += [[_fold_edges(plain[:-1])]] if plain[:-1] else []
            slots.append([_fold_edges(plain[-1]), ""])
            plain = ""
        else:
            slots[-1].append("")
    slots += [[_fold_edges(plain)]] if plain else []
    return slots, place


def _parse_group(text: str, place: int) -> tuple[list[str], int]:
    """Return the alternatives of a group that was just opened, written out, and where it ends."""
    found: dict[str, None] = {}
    while True:
        slots, place = _parse_alternative(text, place)
        # Most alternatives are plain words.
        found.update(dict.fromkeys(slots[0] if len(slots) == 1 else map("".join, product(*slots))))
        if place >= len(text) or len(found) > MAX_EXPANDED:
            raise PhraseError(f"{text!r} has an open bracket or too many alternatives")
        place += 1
        if text[place - 1] == ")":
            return list(found), place


@cache
def _fold_edges(text: str) -> str:
    """Fold as any text is, but keep the blanks at the edges, which matter here."""
    inner = fold(text)
    if not inner:
        return " " if text else ""
    return (" " if text[0] == " " else "") + inner + (" " if text[-1] == " " else "")


MAX_TEXTS = 6
MAX_SHOWN = 6
# The part of the phrases that a passage has, and the characters around them.
PASSAGE_SHARE = 0.75
MOST_THEMES = 6
MOST_MARKED = 3
# A sender can warn of lures, and write the subject of a bounce.
_UNMARKED = frozenset({"warning", "bounce"})
PASSAGE_ROOM = 400

# With the line end before it: what begins with a fixed character is looked for ten times as fast as a line's start.
_QUOTE_MARK = re.compile(r"\n[ \t]{0,4}[>|]")


class Phrases(msgspec.Struct, frozen=True):
    """The phrases of a message by theme, each once, in the order in which they stand. `in_subject` are the themes of
    the subject, `text` is everything that was read, folded. `length` is the number of characters of the longest text,
    or that of a document which has more of the phrases; `places` are where the phrases of a theme begin in the text.
    `signs` are what the native search saw of the texts beside phrases (see `find_text_signs` in `triggers.py`)."""

    themes: dict[str, tuple[str, ...]] = {}
    in_subject: frozenset[str] = frozenset()
    length: int = 0
    text: str = ""
    places: dict[str, list[int]] = {}
    signs: int | None = None

    def of(self, *themes: str) -> tuple[str, ...]:
        """Return the phrases of these themes."""
        found: tuple[str, ...] = ()
        for theme in themes:
            found += self.themes.get(theme, ())
        return found

    def length_of(self, *themes: str) -> int:
        """Return the number of characters of the passage in which most phrases of these themes stand, with some room
        around it: prose below a lure, or a long document beside it, does not weaken it. One phrase makes no passage:
        its text as a whole counts."""
        places = sorted(place for theme in themes for place in self.places.get(theme, ()))
        most = math.ceil(len(places) * PASSAGE_SHARE)
        if most < 2:
            return self.length
        passage = min(last - first for first, last in zip(places, places[most - 1 :], strict=False))
        return min(self.length, passage + PASSAGE_ROOM)

    def count_of(self, *themes: str) -> int:
        """Return how many different phrases of these themes there are."""
        return len(self.of(*themes))


_DATA = files("gatepost.checks").joinpath("data")


def _read_data(*names: str) -> Any:
    return tomllib.loads(_DATA.joinpath(*names).read_text("utf-8"))


def _list_books() -> list[str]:
    names = sorted(each.name for each in _DATA.joinpath("lures").iterdir() if each.name.endswith(".toml"))
    return [name for name in names if name != "themes.toml"]


def load_lures() -> dict[str, dict[str, list[str]]]:
    """Return the phrases of lures by language, then by theme."""
    return {name.removesuffix(".toml"): _read_data("lures", name) for name in _list_books()}


def load_themes() -> dict[str, str]:
    """Return what each theme of lures is about."""
    themes: dict[str, str] = _read_data("lures", "themes.toml")
    return themes


def join_lures() -> dict[str, list[str]]:
    """Return the phrases of lures by theme, those of all languages together."""
    found: dict[str, list[str]] = {}
    for book in load_lures().values():
        for theme, phrases in book.items():
            found.setdefault(theme, []).extend(phrases)
    return found


WARES = {
    ware: [phrase for phrases in book.values() for phrase in phrases]
    for ware, book in read_toml(_DATA / "wares.toml", __file__).items()
}
THEMES = frozenset(load_themes()) | WARES.keys()


def _load_shipped() -> Phrasebook:
    """Return the shipped phrases, which are kept: to take 7,900 of them apart takes a second."""
    sources = [_DATA.joinpath("lures", name).read_bytes() for name in _list_books()]
    sources += [_DATA.joinpath("wares.toml").read_bytes(), Path(__file__).read_bytes()]
    if native:
        return Phrasebook(
            (),
            load_kept(
                __file__,
                "kept-phrase-index",
                [*sources, read_native()],
                PackedBook,
                lambda: pack_book(_compile_shipped()),
            ),
        )
    return Phrasebook(load_kept(__file__, "kept-phrases", sources, list[CompiledPhrase], _compile_shipped))


def _compile_shipped() -> list[CompiledPhrase]:
    return compile_phrases(join_lures() | WARES)


SHIPPED = _load_shipped()


def _fold_contact_word(word: str) -> str:
    folded = fold(word.replace("_", " "))
    return f" {folded}" if folded.isascii() else folded


_CONTACT_WORDS = {
    sort: tuple(map(_fold_contact_word, sorted(words))) for sort, words in read_names("contact_words.txt").items()
}


def find_phrases(reading: Reading) -> Phrases:
    """Return the phrases of a message; they are searched for once."""
    return reading.once(_search)


def mark_themes(phrases: Phrases) -> list[str]:
    """Return the themes of a message as marks for the text model: what a lure wants is the same in every language."""
    themes = {theme: words for theme, words in phrases.themes.items() if theme not in _UNMARKED}
    found = [f"#themes {min(len(themes), MOST_THEMES)}"]
    for theme, words in themes.items():
        found.append(f"#theme {theme}")
        found += [f"#theme {theme} {count}" for count in range(2, min(len(words), MOST_MARKED) + 1)]
        if theme in phrases.in_subject:
            found.append(f"#theme {theme} subject")
    return found


def names_contact(sort: str, text: str) -> bool:
    """Return whether a folded text names a `meeting` or a `messenger`."""
    return any(word in text for word in _CONTACT_WORDS[sort])


def quote(words: Iterable[str]) -> str:
    """Return the first few phrases, as a fact of a finding."""
    return "; ".join(list(words)[:MAX_SHOWN])


def _search(reading: Reading) -> Phrases:
    return search_message(reading.message)


def search_message(message: Message) -> Phrases:
    """Return the phrases of a message that nobody has searched yet."""
    return SHIPPED.search_natively(message) or search_texts(SHIPPED, message)


def search_texts(book: Phrasebook, message: Message) -> Phrases:
    """The Python twin of `search_message` in `message_phrases.c`, without its signs."""
    subject = fold(message.subject[:MAX_SUBJECT])
    own = _fold_texts(text for text in message.texts if text.form != "document")
    documents = _fold_texts(text for text in message.texts if text.form == "document")
    text = f" {subject} \n {' '.join([*own, *documents])} "
    cues = sorted(book.find(text), key=lambda cue: cue.start)
    length = max(map(len, own), default=0)
    if documents:
        lengths = list(map(len, own)), list(map(len, documents))
        length = _measure_letter([(cue.start, cue.words) for cue in cues], len(subject) + 4, *lengths)
    return _gather(cues, len(subject), length, text)


def search_book(book: Phrasebook, reading: Reading) -> Phrases:
    """Return the phrases of another book that a message contains; the text is that of the shipped phrasebooks."""
    shipped = find_phrases(reading)
    cues = sorted(book.find(shipped.text), key=lambda cue: cue.start)
    return _gather(cues, shipped.text.index("\n") - 2, shipped.length, shipped.text)


def _gather(cues: Iterable[Cue], subject_length: int, length: int, text: str) -> Phrases:
    """Return phrases by theme; those that begin within so many characters stand in the subject."""
    themes: dict[str, dict[str, None]] = {}
    in_subject: set[str] = set()
    places: dict[str, list[int]] = {}
    for cue in cues:
        themes.setdefault(cue.theme, {})[cue.words] = None
        if cue.start <= subject_length:
            in_subject.add(cue.theme)
        else:
            places.setdefault(cue.theme, []).append(cue.start)
    found = {theme: tuple(words) for theme, words in themes.items()}
    return Phrases(found, frozenset(in_subject), length, text, places)


def _measure_letter(cues: list[tuple[int, str]], start: int, own: list[int], documents: list[int]) -> int:
    """Return the length of the mail's own text, or of the document that has more phrases than it, from the lengths of
    all, and from where each phrase begins; `start` is where the first text begins in what was searched."""
    start += sum(own) + len(own)
    most, found = len({words for place, words in cues if place < start}), max(own, default=0)
    for length in documents:
        count = len({words for place, words in cues if start <= place < start + length})
        if count > most:
            most, found = count, length
        start += length + 1
    return found


def _fold_texts(texts: Iterable[Text]) -> list[str]:
    """Return the texts, folded, without those that repeat another word for word."""
    found: dict[str, None] = {}
    room = MAX_CHARS
    for text in islice(texts, MAX_TEXTS):
        folded, length = _fold_beginning(text.visible, room, True)
        found.setdefault(folded)
        room -= length
        if room <= 0:
            break
    return list(found)


def _fold_beginning(text: str, most: int, can_quote: bool) -> tuple[str, int]:
    """Return so many characters of a text, folded and without marks of quotes, and how many they were before."""
    plain = text[:most]
    if can_quote and ("\n>" in plain or plain.startswith((">", "|"))):
        plain = _QUOTE_MARK.sub("\n", f"\n{plain}")[1:]
    return fold(plain), len(plain)
