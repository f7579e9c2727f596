"""Names that are known: imitated companies and the domains that they own, free mail, shorteners, hosted pages.

The lists stand in `data` and are read once, when this module is imported: the worker that runs a check has no access to
files. All questions are pure functions of a name, and their answers are kept.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from itertools import accumulate, pairwise
from pathlib import Path

import msgspec

from gatepost.findings.strengths import coefficients
from gatepost.lists.addresses import ProtectedName
from gatepost.names import is_icann_suffix, keep_answers, org_domain, skeleton
from gatepost.process.kept_results import load_kept

MAX_WORDS = 24
# So many names of an operator are looked for, the shortest first: to index them takes 0.2 s in each worker, once.
MAX_PROTECTED_NAMES = 20_000
# A shorter disguised word is too easily another word.
_SHORTEST_DISGUISED = 5
_GIVEN_AWAY, _CHEAP = coefficients("cheap-ending", "given_away", "cheap")

# Scripts that set no blanks between words, or hang words on names (Thai, Lao, Burmese, Khmer, kana, Han, Hangul).
_UNSPACED_RANGES = (
    "\u0e01-\u0e3a\u0e40-\u0e4e\u0e81-\u0ece\u1000-\u103f\u1780-\u17d3\u3005-\u3007\u3041-\u3096\u30a1-\u30fa"
    "\u30fc-\u30fe\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\uf900-\ufaff\U00020000-\U0003ffff"
)
# Vowel signs of Indian scripts belong to their word, though Unicode calls them marks.
_INDIAN_SIGNS = "".join(sign for sign in map(chr, range(0x900, 0xE00)) if unicodedata.category(sign) in ("Mn", "Mc"))
_WORD = re.compile(r"[^\W_]+")
# "Amazonプライム" is two words.
_WORD_OF_ANY_SCRIPT = re.compile(rf"[{_UNSPACED_RANGES}]+|(?:[^\W_{_UNSPACED_RANGES}]|[{_INDIAN_SIGNS}])+")
_UNSPACED = re.compile(f"[{_UNSPACED_RANGES}]")
# Japanese letters use Latin ones of full width as a matter of course.
_FULL_WIDTH = str.maketrans({code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)})
_INSIDE = str.maketrans("", "", "™®©'’`´&+\u00ad\u200b\u200c\u200d\u200e\u200f\u2060\ufeff")
# Accents, vowel points of Hebrew and Arabic with the stretcher of its letters, and selectors of variants.
_MARKS = re.compile(
    r"[\u0300-\u036f\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u0640\u064b-\u065f\u0670\u06d6-\u06dc"
    r"\u180b-\u180f\ufe00-\ufe0f\U000e0100-\U000e01ef]+"
)
# An upper-case I inside a word that goes on in small letters poses as an l ("BIueCross").
_POSING_I = re.compile(r"(?<=[A-Za-z])I(?=[a-z])")
# What can pose as something else in plain ASCII.
_POSING = re.compile(r"[01|]|rn|vv|[A-Za-z]I|RN|VV")


class Brand(msgspec.Struct, frozen=True):
    """A name that is imitated. `label` is how it stands in a domain; `everywhere` are labels that its owner holds under
    nearly every suffix; `ordinary` names mean something else, too; `local` ones are those of one country; a `protected`
    one is that of an operator, who has named all of its domains."""

    name: str
    label: str
    domains: frozenset[str]
    everywhere: frozenset[str]
    ordinary: bool
    local: bool
    protected: bool = False


class Mention(msgspec.Struct, frozen=True):
    """A brand named in a text: `rest` are the words around it, `disguised` whether look-alike letters spell it."""

    brand: Brand
    rest: tuple[str, ...]
    disguised: bool


class BrandFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What one file of `data/brands` states: domains by name, several names of one owner with " / " between them."""

    brands: dict[str, list[str]]
    ordinary: dict[str, list[str]]


def read_names(name: str) -> dict[str, frozenset[str]]:
    """Return the words of a list by its sections; "" is what stands before the first."""
    sections: dict[str, list[str]] = {"": []}
    section = ""
    for line in files("gatepost.checks").joinpath("data", name).read_text("utf-8").splitlines():
        if line.startswith("["):
            section = line.strip("[] ")
        elif not line.startswith("#"):
            sections.setdefault(section, []).extend(line.split())
    return {name: frozenset(words) for name, words in sections.items()}


def list_words_of_lines(text: str) -> list[tuple[str, ...]]:
    """Return the words of each line, as `list_words` does; many short lines take less time together."""
    if not text.isascii():
        return [list_words(line) for line in text.split("\n")]
    lines = text.translate(_INSIDE).lower().split("\n")
    return [tuple(_WORD.findall(line)[:MAX_WORDS]) for line in lines]


def list_words(text: str) -> tuple[str, ...]:
    """Return the words of a name as a person reads them: no accents, nothing invisible, compatibility forms plain."""
    text = text.translate(_INSIDE)
    if text.isascii():
        return tuple(_WORD.findall(text.lower()))[:MAX_WORDS]
    # Syllables of Hangul and voiced kana are put together again: their parts are no letters.
    text = unicodedata.normalize("NFC", _MARKS.sub("", unicodedata.normalize("NFKD", text)))
    return tuple(_WORD_OF_ANY_SCRIPT.findall(text.casefold()))[:MAX_WORDS]


def _make_brand(name: str, domains: Iterable[str], *, ordinary: bool, local: bool) -> Brand:
    owned = frozenset(domains)
    everywhere = frozenset(domain[:-2] for domain in owned if domain.endswith(".*"))
    listed = frozenset(domain for domain in owned if not domain.endswith(".*"))
    return Brand(name, "".join(list_words(name)), listed, everywhere, ordinary, local)


def read_brand_files() -> dict[str, BrandFile]:
    """Return what each file of brands states, by its name: a country, or `international`."""
    return {
        file.name.removesuffix(".toml"): msgspec.toml.decode(file.read_bytes(), type=BrandFile)
        for file in _list_brand_files()
    }


def _list_brand_files() -> list[Traversable]:
    folder = files("gatepost.checks").joinpath("data", "brands")
    return sorted((file for file in folder.iterdir() if file.name.endswith(".toml")), key=lambda file: file.name)


def _read_brands() -> tuple[Brand, ...]:
    """Return the brands of all countries: those that mean nothing else first. A name that several files state belongs
    to all of its owners there, and is ordinary where one of them says so."""
    domains: dict[str, list[str]] = {}
    ordinary: set[str] = set()
    known_abroad: set[str] = set()
    for country, stated in read_brand_files().items():
        for section in (stated.brands, stated.ordinary):
            for entry, owned in section.items():
                names = entry.split(" / ")
                for name in names:
                    domains.setdefault(name, []).extend(owned)
                ordinary.update(names if section is stated.ordinary else ())
                known_abroad.update(names if country == "international" else ())
    brands = [
        _make_brand(name, owned, ordinary=name in ordinary, local=name not in known_abroad)
        for name, owned in domains.items()
    ]
    return tuple(sorted(brands, key=lambda brand: brand.ordinary))


class _Phrases(msgspec.Struct, frozen=True):
    """Brands by how their name is written, and how many words the longest name has that begins with a word."""

    brands: dict[str, Brand]
    longest: dict[str, int]


def _index_phrases(brands: dict[str, Brand]) -> _Phrases:
    longest: dict[str, int] = {}
    for phrase in brands:
        first = phrase.partition(" ")[0]
        longest[first] = max(longest.get(first, 0), phrase.count(" ") + 1)
    return _Phrases(brands, longest)


class Spellings(msgspec.Struct, frozen=True, array_like=True):
    """How names are written, with spaces between the words and without, and what that looks like in whichever case
    their letters are written: the places of the brands in their order."""

    plain: dict[str, int]
    disguised: dict[str, int]


def _list_spellings(brands: Sequence[Brand]) -> Spellings:
    plain: dict[str, int] = {}
    for place, brand in enumerate(brands):
        if not _UNSPACED.search(brand.label):
            plain.setdefault(" ".join(list_words(brand.name)), place)
            plain.setdefault(brand.label, place)
    disguised = {
        skeleton(phrase): place
        for phrase, place in plain.items()
        if len(brands[place].label) >= _SHORTEST_DISGUISED and phrase.isascii()
    }
    return Spellings(plain, disguised)


def _index_lengths(labels: Iterable[str]) -> dict[str, tuple[int, ...]]:
    """The lengths of the labels that begin with the same two characters, the longest first: at a place of a text, one
    piece is looked up for each length, however many labels there are."""
    found: dict[str, set[int]] = {}
    for label in labels:
        found.setdefault(label[:2], set()).add(len(label))
    return {beginning: tuple(sorted(lengths, reverse=True)) for beginning, lengths in found.items()}


class BrandIndex:
    """Brands, to be found in short texts. A text costs the same however many brands there are."""

    def __init__(self, brands: Sequence[Brand], spellings: Spellings | None = None) -> None:
        self.by_label = {brand.label: brand for brand in reversed(brands)}
        spellings = spellings or _list_spellings(brands)
        self._phrases = _index_phrases({phrase: brands[place] for phrase, place in spellings.plain.items()})
        self._disguises = _index_phrases({phrase: brands[place] for phrase, place in spellings.disguised.items()})
        self._without_blanks = {brand.label: brand for brand in reversed(brands) if _UNSPACED.search(brand.label)}
        self._lengths = _index_lengths(self._without_blanks)

    def find(self, text: str) -> tuple[Mention, ...]:
        """Return the brands that a short text names, each once."""
        words = list_words(text)
        plain = {
            brand: msgspec.structs.replace(mention, disguised=_is_disguised(brand, text))
            for brand, mention in _find_in(words, self._phrases, disguised=False)
        }
        if not text.isascii():
            plain |= self._find_without_blanks(words)
        if text.isascii() and not _POSING.search(text):
            return tuple(plain.values())
        seen = list_words(skeleton(_POSING_I.sub("l", text.translate(_INSIDE))))
        for brand, mention in _find_in(seen, self._disguises, disguised=True):
            plain.setdefault(brand, mention)
        return tuple(plain.values())

    def _find_without_blanks(self, words: tuple[str, ...]) -> dict[Brand, Mention]:
        """Return brands whose script sets no blanks, with what stands before and after them in the same run of letters.

        Blanks do not count, since they say nothing there. Where a name begins or ends in another script ("JR東日本"), a
        word must begin or end there.
        """
        found: dict[Brand, Mention] = {}
        if not any(_UNSPACED.match(word) for word in words):
            return found
        joined = "".join(words)
        borders = tuple(accumulate(map(len, words), initial=0))
        at = 0
        while at < len(joined) - 1:
            brand = self._find_at(joined, at, borders)
            if brand:
                found.setdefault(brand, Mention(brand, _list_around(joined, at, at + len(brand.label), borders), False))
            at += len(brand.label) if brand else 1
        return found

    def _find_at(self, joined: str, at: int, borders: tuple[int, ...]) -> Brand | None:
        if at not in borders and not _UNSPACED.match(joined, at):
            return None
        for length in self._lengths.get(joined[at : at + 2], ()):
            end = at + length
            brand = self._without_blanks.get(joined[at:end])
            if brand and (end in borders or _UNSPACED.match(joined, end - 1)):
                return brand
        return None


def compile_names(names: Iterable[str]) -> re.Pattern[str]:
    """Return a pattern that finds the longest of the names at the first place where one stands. It groups names by how
    they begin, so that at most places one look tells that there is none."""
    beginnings: dict[str, dict[str, list[str]]] = {}
    for name in sorted(names, key=len, reverse=True):
        beginnings.setdefault(name[:1], {}).setdefault(name[1:2], []).append(re.escape(name[2:]))
    groups = (
        re.escape(first)
        + "(?:"
        + "|".join(f"{re.escape(second)}(?:{'|'.join(rest)})" for second, rest in after.items())
        + ")"
        for first, after in beginnings.items()
    )
    return re.compile("|".join(groups))


class _ShippedBrands(msgspec.Struct, frozen=True, array_like=True):
    brands: tuple[Brand, ...]
    spellings: Spellings


def _make_shipped() -> _ShippedBrands:
    brands = _read_brands()
    return _ShippedBrands(brands, _list_spellings(brands))


def _load_shipped() -> _ShippedBrands:
    """Return the shipped brands. They are kept: to make them takes a tenth of the start of a worker's loader."""
    sources = [file.read_bytes() for file in _list_brand_files()]
    # `skeleton` is made of a table of `names`.
    sources += [Path(__file__).read_bytes(), Path(__file__).parents[1].joinpath("names.py").read_bytes()]
    return load_kept(__file__, "kept-brands", sources, _ShippedBrands, _make_shipped)


_SHIPPED = _load_shipped()
BRANDS = _SHIPPED.brands
SHIPPED = BrandIndex(BRANDS, _SHIPPED.spellings)
BY_LABEL = SHIPPED.by_label
OWNED: frozenset[str] = frozenset().union(*(brand.domains for brand in BRANDS))
EVERYWHERE: frozenset[str] = frozenset().union(*(brand.everywhere for brand in BRANDS))
_FORWARDERS = read_names("forwarders.txt")[""]
_NEARBY = read_names("nearby.txt")
NEARBY = _NEARBY[""]
NEARBY_WORDS = _NEARBY["words"]
_FREEMAIL = read_names("freemail.txt")[""]
_ENDINGS = read_names("endings.txt")


def _index_roles() -> dict[str, frozenset[str]]:
    """Return what each listed name is: one table, so that a host is looked up once for all questions."""
    hosting = read_names("hosting.txt")
    lists = {
        "genuine": OWNED,
        "shortener": read_names("shorteners.txt")[""],
        "page": hosting["pages"],
        "form": hosting["forms"],
        "picture": hosting["pictures"],
        "tenant": read_names("tenants.txt")[""],
        "guard": read_names("guards.txt")[""],
    }
    found: dict[str, frozenset[str]] = {}
    for place, names in lists.items():
        for name in names:
            found[name] = found.get(name, frozenset()) | {place}
    return found


_PLACES = _index_roles()
# So many labels of a host are looked at, from its end.
MAX_LABELS = 10
_OF_STRANGERS = frozenset({"page", "form", "picture", "tenant", "shortener"})


def is_under(host: str, names: frozenset[str]) -> bool:
    """Return whether a host is one of the names or stands below one."""
    if host.count(".") >= MAX_LABELS:
        host = ".".join(host.split(".")[-MAX_LABELS:])
    while host:
        if host in names:
            return True
        host = host.partition(".")[2]
    return False


def owns(brand: Brand, domain: str) -> bool:
    """Return whether a domain is one of the brand's own."""
    return is_under(domain, brand.domains) or find_registered_label(domain) in brand.everywhere


def find_registered_label(domain: str) -> str:
    """Return what its owner chose: the label below the public suffix."""
    return org_domain(domain).partition(".")[0]


@keep_answers
def _find_roles(host: str) -> frozenset[str]:
    """Return what a host is, by the names that it stands under."""
    found = frozenset[str]()
    # The host and every name above it.
    parent = host if host.count(".") < MAX_LABELS else ".".join(host.split(".")[-MAX_LABELS:])
    while parent:
        if parent in _PLACES:
            found |= _PLACES[parent]
        parent = parent.partition(".")[2]
    return found | {"genuine"} if find_registered_label(host) in EVERYWHERE else found


def is_genuine(host: str) -> bool:
    """Return whether a host belongs to one of the imitated."""
    return "genuine" in _find_roles(host)


def is_company_host(host: str) -> bool:
    """Return whether a host belongs to one of the imitated, and no stranger has a page, a form or an address there."""
    roles = _find_roles(host)
    return "genuine" in roles and roles.isdisjoint(_OF_STRANGERS) and not is_freemail(host)


@lru_cache(8192)
def find_brands(text: str) -> tuple[Mention, ...]:
    """Return the well-known brands that a short text names, each once."""
    return SHIPPED.find(text)


@lru_cache(16)
def index_protected(names: frozenset[ProtectedName]) -> BrandIndex:
    """Return the names that an operator protects, ready to be found. What several entries of one name say adds up."""
    domains: dict[str, list[str]] = {}
    spelled: dict[str, str] = {}
    for each in sorted(names, key=lambda each: (len(each.name), each.name))[:MAX_PROTECTED_NAMES]:
        label = "".join(list_words(each.name))
        if label:
            spelled.setdefault(label, each.name)
            domains.setdefault(label, []).extend(each.domains)
    return BrandIndex(
        [
            Brand(name, label, frozenset(domains[label]), frozenset(), ordinary=False, local=False, protected=True)
            for label, name in spelled.items()
        ]
    )


def find_imitated(text: str, names: frozenset[ProtectedName]) -> tuple[Mention, ...]:
    """Return the brands, well-known or protected, that a short text names; what an operator says of one is true."""
    known = find_brands(text)
    if not names:
        return known
    own = {mention.brand.label: mention for mention in index_protected(names).find(text)}
    joined = tuple(_join_owners(mention, own.pop(mention.brand.label, None)) for mention in known)
    return (*joined, *own.values())


def _join_owners(known: Mention, own: Mention | None) -> Mention:
    if own is None:
        return known
    brand = msgspec.structs.replace(known.brand, domains=known.brand.domains | own.brand.domains, ordinary=False)
    return msgspec.structs.replace(known, brand=brand)


def _is_disguised(brand: Brand, text: str) -> bool:
    """Return whether the name stands there only in letters of another alphabet or with invisible characters inside."""
    if text.isascii():
        return False
    if _UNSPACED.search(text):
        text = text.translate(_FULL_WIDTH)
    first = unicodedata.normalize("NFC", brand.name).casefold().split(" ")[0]
    return first not in text.casefold() and list_words(first)[0] not in text.casefold()


def _find_in(words: tuple[str, ...], index: _Phrases, *, disguised: bool) -> Iterator[tuple[Brand, Mention]]:
    found = 0  # where the last name ends: what it contains ("Bank of Scotland") is no other company
    for start, word in enumerate(words):
        for end in range(min(len(words), start + index.longest.get(word, 0)), max(start, found), -1):
            if brand := index.brands.get(" ".join(words[start:end])):
                yield brand, Mention(brand, (*words[:start], *words[end:]), disguised)
                found = end
                break


def _list_around(joined: str, start: int, end: int, borders: tuple[int, ...]) -> tuple[str, ...]:
    """Return the words outside a part of the joined text, and what is left of those that it cuts."""
    before = (joined[left : min(right, start)] for left, right in pairwise(borders) if left < start)
    after = (joined[max(left, end) : right] for left, right in pairwise(borders) if right > end)
    return (*before, *after)


def is_freemail(domain: str) -> bool:
    """Return whether anybody gets an address at this domain without showing who they are."""
    return domain in _FREEMAIL


def ending_exists(domain: str) -> bool:
    """Return whether a registry gives out names under a domain's ending. Some do so only two levels deep (`co.za`)."""
    labels = domain.rsplit(".", 2)
    return _is_ending(labels[-1]) or _is_ending(".".join(labels[-2:]))


# Domains are many, and their endings few.
_is_ending = keep_answers(is_icann_suffix)


def is_shortener(host: str) -> bool:
    """Return whether a host redirects to anywhere without saying where."""
    return "shortener" in _find_roles(host)


def is_hosted_page(host: str) -> bool:
    """Return whether anybody can put a page on this host within minutes."""
    return "page" in _find_roles(host)


def is_form_service(host: str) -> bool:
    """Return whether anybody can put a form on this host within minutes."""
    return "form" in _find_roles(host)


def is_picture_host(host: str) -> bool:
    """Return whether anybody can put a picture on this host within seconds."""
    return "picture" in _find_roles(host)


def is_tenant(host: str) -> bool:
    """Return whether the names on this host are those of a service's customers."""
    return "tenant" in _find_roles(host)


def is_forwarder(host: str) -> bool:
    """Return whether a host is that of a service which forwards mail from addresses that were made to be given away."""
    return is_under(host, _FORWARDERS)


def is_guard(host: str) -> bool:
    """Return whether a mail security product rewrites links to this host, to check each click."""
    return "guard" in _find_roles(host)


def measure_ending(domain: str) -> float:
    """Return how badly a domain's ending is reputed: 1 for names that are given away, 0 for the rest."""
    ending = domain.rpartition(".")[2]
    return _GIVEN_AWAY if ending in _ENDINGS["given-away"] else _CHEAP if ending in _ENDINGS["cheap"] else 0.0
