"""Kinds of list entries that are plain values or patterns of file names, and what every kind must be able to do.

Any spelling of the same entry is the same entry: `key` is what spellings are compared and stored by, `shown` what
people read (for all kinds but people the two are the same). A normal form can be several times as long as the text that
was entered: a link of a thousand letters that need escaping has nine thousand bytes. Indexes of databases take less, so
a key that is too long ends in a digest of itself.

The kinds here are networks (an IP address or a CIDR block in canonical form, RFC 4632 and RFC 5952), files by their
SHA-256, types of files (an extension or a MIME type), phrases (whole words in the visible text or the subject,
whatever their case and accents), and patterns over names of files: `invoice*.iso`, `*.pdf.exe`, `setup.msi`.

A `*` in a pattern stands for any characters, or for none. A pattern covers the whole name of a file, without its
folders, in the form in which Windows would save it (`names.normal_file_name`). Case and look-alike letters do not
matter. The name before a colon counts too, since Windows takes what follows for a stream inside the file. A message can
have thousands of names, and a list a hundred thousand patterns. So patterns are kept by a piece of text that every name
they cover contains, and a name is compared with those whose piece it has. Names and patterns that all have the same
pieces could still make that long. Therefore all names of a message have one budget, `MAX_WORK`, and a message that goes
beyond it is not called clean.
"""

import math
import re
import socket
import unicodedata
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from hashlib import sha256
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Literal

import msgspec

from gatepost.names import FILE_NAME_ENDS, MAX_FILE_NAME, drop_ends, fold_lookalikes, normal_file_name, plain_file_name
from gatepost.questions import Scope

Category = Literal["block", "allow", "policy", "trust", "protect"]
# What a value is to the message that it was found in.
Role = Literal["envelope", "from", "sender", "host", "link", "file", "type", "name", "text"]

MAX_ENTRY = 1_000
# What an index of PostgreSQL takes in any case, with a digest behind it (a third of a page of 8 KiB).
MAX_KEY_BYTES = 2_600
_SURELY_SHORT = MAX_KEY_BYTES // 4


class NormalForm(msgspec.Struct, frozen=True):
    """An entry in normal form: `key` is compared and stored, `shown` is what people read."""

    key: str
    shown: str


class ListRefusal(msgspec.Struct, frozen=True):
    """Why a text is no entry of this kind, or why a list cannot exist, in words for the person who entered it.

    `field` is the field of the API, or of `ListDefinition`, that is at fault.
    """

    reason: str
    field: str = "entry"


class UnkeyedEntry(msgspec.Struct, frozen=True):
    """An entry of a list that is handed to workers whole."""

    list: str
    scope: Scope
    key: str
    shown: str
    expires: int | None = None


class FindingLimit(Exception):  # noqa: N818  a limit that was reached, not a fault of the program
    """The texts of a message are not compared any further: together with the entries they would take too long."""


class EntryFinder(ABC):
    """Finds entries in the texts of a message. `work` is the sum of what that took so far, in looks at a character."""

    work = 0

    @abstractmethod
    def find(self, texts: Sequence[str]) -> Iterator[tuple[int, UnkeyedEntry]]:
        """Yield the entries that cover something, each with the number of the text. Raises `FindingLimit`."""


def refuse_nothing(_key: str, _category: Category) -> str:
    """Refuse no entry, for kinds of which none is too wide."""
    return ""


def list_own_key(value: str) -> tuple[str, ...]:
    """Return the value itself, for kinds of which an entry covers what is equal to it."""
    return (value,)


class EntryKind(msgspec.Struct, frozen=True):
    """A kind of entry. `normalise` is total; `refuse` says why a normal form is too wide for a category of list, or "".

    What an entry covers is found in one of two ways. `list_keys` returns every key that an entry covering a value would
    have, so that exact look-ups find it in lists of any length. A kind whose entries are found inside of a text has
    `make_finder` instead, which compiles all entries of a snapshot. `is_free_text` says that an entry can have ` # ` in
    it, so that only a tab separates it from its comment in a line of text.
    """

    name: str
    description: str
    example: str
    normalise: Callable[[str], NormalForm | ListRefusal]
    refuse: Callable[[str, Category], str] = refuse_nothing
    list_keys: Callable[[str], tuple[str, ...]] = list_own_key
    make_finder: Callable[[Iterable[UnkeyedEntry]], EntryFinder] | None = None
    is_free_text: bool = False


def show_as_key(key: str) -> NormalForm:
    """Return a normal form that is shown as it is compared."""
    return NormalForm(key, key)


def limit_key(key: str) -> str:
    """Return a key as it is compared and stored. A key that was cut is longer than any that was not."""
    if len(key) <= _SURELY_SHORT:
        return key
    # Half a character, which is no UTF-8, counts as the sign that storage puts in its place.
    raw = key.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").encode()
    if len(raw) <= MAX_KEY_BYTES:
        return key
    return raw[:MAX_KEY_BYTES].decode("utf-8", "ignore") + sha256(raw).hexdigest()


def limit_keys(keys: tuple[str, ...]) -> tuple[str, ...]:
    """Apply `limit_key` to many keys, of which hardly any is long."""
    return keys if max(map(len, keys), default=0) <= _SURELY_SHORT else tuple(map(limit_key, keys))


_DEFANGED = re.compile(r"\[(\.|dot|:|@|at)\]|\((\.|dot|@|at)\)|\{(\.|dot|@|at)\}|\[(:?//)\]", re.IGNORECASE)
_DEFANGED_SCHEME = re.compile(r"(?:hxxp|h\*\*p|meow)(s?)(?=\[?:)", re.IGNORECASE)
_SIGNS = {"dot": ".", "at": "@"}


def refang(text: str) -> str:
    """Return a text with `hxxps://x[.]y` written as the link that it stands for.

    Reports write indicators so that nobody follows them by accident. Brackets that have another meaning (IPv6, address
    literals) do not hold a single sign, so they are left alone.
    """
    if not any(sign in text for sign in "[({*") and text[:1].lower() not in "hm":
        return text
    plain = _DEFANGED_SCHEME.sub(r"http\1", text, count=1) if _DEFANGED_SCHEME.match(text) else text
    return _DEFANGED.sub(_refang_sign, plain)


def _refang_sign(match: re.Match[str]) -> str:
    sign = next(group for group in match.groups() if group).lower()
    return _SIGNS.get(sign, sign)


IpAddress = IPv4Address | IPv6Address
IpNetwork = IPv4Network | IPv6Network

# An address literal as SMTP writes it (RFC 5321 section 4.1.3).
_IPV6_TAG = re.compile(r"^ipv6:", re.IGNORECASE)
_WIDEST = {4: {"allow": 16}, 6: {"allow": 32}}
_WIDEST_OTHERWISE = {4: 8, 6: 16}


def normalise_network(text: str) -> NormalForm | ListRefusal:
    """Normalise a network: host bits are cleared, a single address has no mask, IPv4 inside IPv6 is IPv4."""
    if _is_plain(text):
        return show_as_key(text)
    text = refang(text.strip())
    if "%" in text:
        return ListRefusal("has a zone after %, which no address of a sending host has")
    network = parse_network(text)
    return (
        ListRefusal("is neither an IP address nor a CIDR block")
        if network is None
        else show_as_key(_format_network(network))
    )


def _is_plain(text: str) -> bool:
    """Return whether this is an IPv4 address in normal form already, as most entries are."""
    try:
        return socket.inet_ntop(socket.AF_INET, socket.inet_pton(socket.AF_INET, text)) == text
    except (OSError, ValueError):
        return False


def parse_network(text: str) -> IpNetwork | None:
    """Parse an address or CIDR block; return None where it is neither."""
    try:
        network = ip_network(_IPV6_TAG.sub("", text.strip().strip("[]")), strict=False)
    except ValueError:
        return None
    if isinstance(network, IPv6Network) and network.prefixlen >= 96:
        mapped = network.network_address.ipv4_mapped
        if mapped is not None:
            return IPv4Network((int(mapped), network.prefixlen - 96))
    return network


def refuse_network(key: str, category: Category) -> str:
    """Return why a network is too wide, or "". Private ranges may have any size."""
    network = parse_network(key) if "/" in key else None
    if network is None or network.is_private:
        return ""
    widest = _WIDEST[network.version].get(category, _WIDEST_OTHERWISE[network.version])
    return f"is too wide: at most a /{widest} here" if network.prefixlen < widest else ""


@lru_cache(4096)
def list_network_keys(address: str) -> tuple[str, ...]:
    """Return every entry that would match this address, narrowest first."""
    try:
        place = ip_address(address)
    except ValueError:
        return ()
    if isinstance(place, IPv6Address) and place.ipv4_mapped is not None:
        place = place.ipv4_mapped
    if isinstance(place, IPv4Address):
        return tuple(_format_network(IPv4Network((int(place), length), strict=False)) for length in range(32, -1, -1))
    return tuple(_format_network(IPv6Network((int(place), length), strict=False)) for length in range(128, -1, -1))


def _format_network(network: IpNetwork) -> str:
    return str(network.network_address) if network.prefixlen == network.max_prefixlen else str(network)


NETWORK = EntryKind(
    "network", "an IP address or a CIDR block", "192.0.2.0/24", normalise_network, refuse_network, list_network_keys
)


_DIGEST = re.compile(r"[0-9a-f]{64}\Z")


def normalise_digest(text: str) -> NormalForm | ListRefusal:
    """Normalise a SHA-256 to lower case."""
    digest = text.strip().lower().removeprefix("sha256:")
    return show_as_key(digest) if _DIGEST.match(digest) else ListRefusal("is not a SHA-256: 64 hex digits")


DIGEST = EntryKind(
    "sha256",
    "the SHA-256 of a file",
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    normalise_digest,
)


_EXTENSION = re.compile(r"[\w+-]{1,40}(?:\.[\w+-]{1,40}){0,2}\Z")
# The names of types and subtypes begin with a letter or a digit (RFC 6838 section 4.2).
_MIME = re.compile(r"[a-z0-9][\w!#$&^.+-]{0,99}/[a-z0-9][\w!#$&^.+-]{0,99}\Z", re.ASCII)


def normalise_file_type(text: str) -> NormalForm | ListRefusal:
    """Normalise a file type: `.DOCM`, `*.docm` and `docm` are one."""
    name = text.strip().lower().removeprefix("*").removeprefix(".")
    if _EXTENSION.match(name) or _MIME.match(name):
        return show_as_key(name)
    return ListRefusal("is neither a file extension nor a MIME type")


FILETYPE = EntryKind("file-type", "a file extension or a MIME type", "docm", normalise_file_type)


LEAST = 3

_MARKS = re.compile(r"[\u0300-\u036f\u200b-\u200f\u2060\u00ad\ufeff]+")
_SPACES = re.compile(r"\s+")
_WORD = re.compile(r"\w+")


def fold_phrase(text: str) -> str:
    """Return the text with case and accents folded, invisible characters removed and white space as single blanks."""
    if text.isascii():
        return " ".join(text.lower().split())
    # Twice: letters such as U+1D400 have no other case, and become capitals only when they are taken apart.
    plain = _MARKS.sub("", unicodedata.normalize("NFKD", text.casefold()).casefold())
    return _SPACES.sub(" ", unicodedata.normalize("NFKC", plain)).strip()


def normalise_phrase(text: str) -> NormalForm | ListRefusal:
    """Normalise a phrase by folding it; refuse one that is too short or has no letter."""
    phrase = fold_phrase(text)
    if len(phrase) < LEAST:
        return ListRefusal(f"is too short: a phrase has at least {LEAST} characters")
    if not any(char.isalnum() for char in phrase):
        return ListRefusal("has no letter or digit")
    return show_as_key(phrase)


# Of the texts of a message: how many characters are compared, where those of a text that is not ASCII count twice, and
# how many pieces of them are looked up. Each is about 0.2 s.
MAX_PHRASE_TEXT = 1_000_000
MAX_LOOKS = 500_000
# So many characters of a piece take as long to cut out and compare as the look-up itself.
_LOOK_CHARACTERS = 256
# Where a phrase can begin: at a word, or at a sign.
_BEGINNING = re.compile(r"\w+|[^\w\s]")


class PhraseFinder(EntryFinder):
    """Finds whole phrases in text, with all phrases of a snapshot in one table.

    At each place of a text where phrases begin with the word or sign that stands there, one piece is looked up for each
    length that those phrases have, however many phrases there are. Who writes both the list and the mail could choose
    many lengths and repeat that word. So all texts of a message have one budget, and a message that goes beyond it is
    not called clean. A phrase is compared as it is shown, which is its whole normal form.
    """

    def __init__(self, entries: Iterable[UnkeyedEntry]) -> None:
        self._phrases: dict[str, list[UnkeyedEntry]] = {}
        lengths: dict[str, set[int]] = {}
        for entry in entries:
            first = _BEGINNING.search(entry.shown)
            if first:
                self._phrases.setdefault(entry.shown, []).append(entry)
                lengths.setdefault(first.group(), set()).add(len(entry.shown))
        self._lengths = {first: tuple(found) for first, found in lengths.items()}
        self._characters = self._most = 0

    def find(self, texts: Sequence[str]) -> Iterator[tuple[int, UnkeyedEntry]]:
        """Yield the entries that each text contains, each once, with the place of the text."""
        if not self._phrases:
            return
        self._characters, self._most = MAX_PHRASE_TEXT, self.work + MAX_LOOKS
        for place, text in enumerate(texts):
            for entry in dict.fromkeys(self._find_within(text)):
                yield place, entry

    def _find_within(self, text: str) -> Iterator[UnkeyedEntry]:
        cost = 1 if text.isascii() else 2
        compared = text[: self._characters // cost]
        self._characters -= len(compared) * cost
        folded = fold_phrase(compared)
        phrases, lengths_of = self._phrases, self._lengths
        for first in _BEGINNING.finditer(folded):
            lengths = lengths_of.get(first.group())
            if lengths is None:
                continue
            start = first.start()
            for length in lengths:
                self.work += 1 + length // _LOOK_CHARACTERS
                piece = folded[start : start + length]
                found = phrases.get(piece)
                if found and _is_whole(folded, start + len(piece)):
                    yield from found
            if self.work > self._most:
                raise FindingLimit("its phrases and the texts of the message are too many to compare")
        if len(compared) < len(text):
            raise FindingLimit("the texts of the message are too long to compare")


def _is_whole(text: str, end: int) -> bool:
    """Return whether no word goes on behind this place."""
    return not (text[end - 1].isalnum() and text[end : end + 1].isalnum())


PHRASE = EntryKind(
    "phrase",
    "words as they stand in the visible text or the subject",
    "wire transfer today",
    normalise_phrase,
    make_finder=PhraseFinder,
    is_free_text=True,
)


# No file system of a mail reader takes a longer name.
MAX_PATTERN = 255
MAX_WILDCARDS = 8
# So many characters in a row make a pattern narrow enough, and are what it is found by.
LEAST_LITERAL = 3
# About 0.4 s on one core.
MAX_WORK = 4_000_000
# The lengths of the pieces that patterns are kept by are these and `LEAST_LITERAL`.
_LONG, _MIDDLE = 8, 5
# What a comparison takes beside its looks at characters, and what folding one takes that is not ASCII.
_COMPARISON, _FOLDING = 20, 16
# So many patterns tell which pieces are frequent.
_SAMPLE = 5_000
_WILDCARDS = re.compile(r"\*+")
_ENDS = FILE_NAME_ENDS.replace("*", "").replace("?", "")


def normalise_file_name(text: str) -> NormalForm | ListRefusal:
    """Normalise a pattern: lower case, without what Windows drops at the end of a name, each run of `*` as one."""
    pattern = drop_ends(plain_file_name(text), _ENDS)
    if "/" in pattern or "\\" in pattern:
        return ListRefusal("is a path: a pattern is compared with the name of a file alone, without its folders")
    if "?" in pattern:
        return ListRefusal("has a ?: only * stands for other characters, and no name of a file has a ?")
    pattern = _WILDCARDS.sub("*", pattern)
    if len(pattern) > MAX_PATTERN:
        return ListRefusal(f"is longer than {MAX_PATTERN} characters, as no name of a file is")
    if pattern.count("*") > MAX_WILDCARDS:
        return ListRefusal(f"has more than {MAX_WILDCARDS} *")
    if not any(_is_narrow(piece) for piece in fold_lookalikes(pattern).split("*")):
        return ListRefusal(
            f"is too wide: it needs {LEAST_LITERAL} characters in a row that are no *, one a letter or digit"
        )
    return show_as_key(pattern)


def _is_narrow(piece: str) -> bool:
    return len(piece) >= LEAST_LITERAL and any(map(str.isalnum, piece))


def is_covered(name: str, pattern: str) -> bool:
    """Return whether a pattern covers a name, both folded. Each piece is looked for once, behind the one before: where
    it is found first leaves the most room for the others."""
    first, *between = pattern.split("*")
    if not between:
        return name == pattern
    last = between.pop()
    end = len(name) - len(last)
    if not name.startswith(first) or not name.endswith(last) or end < len(first):
        return False
    place = len(first)
    for piece in between:
        place = name.find(piece, place, end)
        if place < 0:
            return False
        place += len(piece)
    return True


class FileNameFinder(EntryFinder):
    """Finds the patterns that cover names of files. They are compiled for the first name: most messages have none."""

    def __init__(self, entries: Iterable[UnkeyedEntry]) -> None:
        self._entries = tuple(entries)
        self._index: _Index = {}
        self._most = 0

    def find(self, texts: Sequence[str]) -> Iterator[tuple[int, UnkeyedEntry]]:
        """Yield the entries that cover each name, with the place of the name."""
        if not self._index and self._entries and texts:
            self._index = _make_index(self._entries)
        self._most = self.work + MAX_WORK
        found: dict[str, tuple[UnkeyedEntry, ...]] = {}
        for place, text in enumerate(texts):
            self._spend(min(len(text), MAX_FILE_NAME) * (1 if text.isascii() else _FOLDING))
            folded = fold_lookalikes(normal_file_name(text))
            covering: dict[UnkeyedEntry, None] = {}
            for name in dict.fromkeys((folded, folded.partition(":")[0].rstrip(FILE_NAME_ENDS))):
                if name not in found:
                    found[name] = tuple(self._entries[number] for number in sorted(self._find_covering(name)))
                covering.update(dict.fromkeys(found[name]))
            yield from ((place, entry) for entry in covering)

    def _find_covering(self, name: str) -> Iterator[int]:
        """Yield the numbers of the entries that cover one name, which is folded."""
        for size, by_piece in self._index.items():
            self._spend(len(name))
            pieces = {name[start : start + size] for start in range(len(name) - size + 1)}
            for piece in pieces & by_piece.keys():
                for pattern, number in by_piece[piece]:
                    self._spend(_COMPARISON)
                    if name.startswith(pattern.partition("*")[0]):
                        self._spend(len(name))
                        if is_covered(name, pattern):
                            yield number

    def _spend(self, looks: int) -> None:
        self.work += looks
        if self.work > self._most:
            raise FindingLimit("its patterns and the names of the files are too many to compare")


# Patterns with their numbers, by the length of the piece that they are kept by, and by that piece.
_Index = dict[int, dict[str, list[tuple[str, int]]]]


def _make_index(entries: Sequence[UnkeyedEntry]) -> _Index:
    """Return the index of all patterns. Each is kept by that one of its pieces that the fewest of a sample have."""
    patterns = fold_lookalikes("\n".join(entry.shown for entry in entries)).split("\n")
    sample = patterns[:: 1 + len(patterns) // _SAMPLE]
    frequency = Counter(piece for pattern in sample for piece in _list_pieces(pattern))
    index: _Index = {}
    for number, pattern in enumerate(patterns):
        chosen, least = "", math.inf
        for piece in _list_pieces(pattern):
            count = frequency[piece]
            if count < least or (count == least and len(piece) > len(chosen)):
                chosen, least = piece, count
        index.setdefault(len(chosen), {}).setdefault(chosen, []).append((pattern, number))
    return index


def _list_pieces(pattern: str) -> list[str]:
    """Return some pieces of each run of characters in a pattern: its beginning, its end, and the middle of a long one.
    The longer a piece, the fewer names have it by chance."""
    pieces = []
    for run in pattern.split("*"):
        length = len(run)
        if length < LEAST_LITERAL:
            continue
        size = _LONG if length >= _LONG else _MIDDLE if length >= _MIDDLE else LEAST_LITERAL
        pieces.append(run[:size])
        if length > size:
            pieces.append(run[-size:])
        if length > 2 * size:
            pieces.append(run[(length - size) // 2 : (length + size) // 2])
    return pieces


FILE_NAME = EntryKind(
    "file-name",
    "the name of a file, in which * stands for any characters",
    "invoice*.csv",
    normalise_file_name,
    make_finder=FileNameFinder,
    is_free_text=True,
)
