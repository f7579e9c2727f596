"""Names that are known: imitated companies and the domains that they own, free mail, shorteners, hosted pages.

The lists stand in `data` and are read once, when this module is imported: the worker that runs a check has no access to
files. All questions are pure functions of a name, and their answers are kept.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator
from functools import lru_cache
from importlib.resources import files

import msgspec

from gatepost.names import is_icann_suffix, org_domain, skeleton
from gatepost.strengths import coefficients

MAX_WORDS = 24
_LONGEST_PHRASE = 4
_REMEMBERED = 8192
# A shorter disguised word is too easily another word.
_SHORTEST_DISGUISED = 5
_GIVEN_AWAY, _CHEAP = coefficients("cheap-ending", "given_away", "cheap")

_WORD = re.compile(r"[^\W_]+")
_INSIDE = str.maketrans("", "", "™®©'’`´&+\u00ad\u200b\u200c\u200d\u200e\u200f\u2060\ufeff")
_MARKS = re.compile(r"[\u0300-\u036f\u180b-\u180f\ufe00-\ufe0f\U000e0100-\U000e01ef]+")
# An upper-case I inside a word that goes on in small letters poses as an l ("BIueCross").
_POSING_I = re.compile(r"(?<=[A-Za-z])I(?=[a-z])")
# What can pose as something else in plain ASCII.
_POSING = re.compile(r"[01|]|rn|vv|[A-Za-z]I|RN|VV")


class Brand(msgspec.Struct, frozen=True):
    """A name that is imitated. `label` is how it stands in a domain; `everywhere` are labels that its owner holds under
    nearly every suffix; `ordinary` names mean something else, too."""

    name: str
    label: str
    domains: frozenset[str]
    everywhere: frozenset[str]
    ordinary: bool


class Mention(msgspec.Struct, frozen=True):
    """A brand named in a text: `rest` are the words around it, `disguised` whether look-alike letters spell it."""

    brand: Brand
    rest: tuple[str, ...]
    disguised: bool


class _Brands(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    brands: dict[str, list[str]]
    ordinary: dict[str, list[str]]


def _read_data(name: str) -> str:
    return files("gatepost.checks").joinpath("data", name).read_text("utf-8")


def read_names(name: str) -> dict[str, frozenset[str]]:
    """Return the words of a list by its sections; "" is what stands before the first."""
    sections: dict[str, list[str]] = {"": []}
    section = ""
    for line in _read_data(name).splitlines():
        if line.startswith("["):
            section = line.strip("[] ")
        elif not line.startswith("#"):
            sections.setdefault(section, []).extend(line.split())
    return {name: frozenset(words) for name, words in sections.items()}


def list_words(text: str) -> tuple[str, ...]:
    """Return the words of a name as a person reads them: no accents, no invisible characters, compatibility forms
    plain."""
    text = text.translate(_INSIDE)
    if not text.isascii():
        text = _MARKS.sub("", unicodedata.normalize("NFKD", text))
    return tuple(_WORD.findall(text.casefold()))[:MAX_WORDS]


def _make_brand(name: str, domains: Iterable[str], ordinary: bool) -> Brand:
    owned = frozenset(domains)
    everywhere = frozenset(domain[:-2] for domain in owned if domain.endswith(".*"))
    listed = frozenset(domain for domain in owned if not domain.endswith(".*"))
    return Brand(name, "".join(list_words(name)), listed, everywhere, ordinary)


def _read_brands() -> tuple[Brand, ...]:
    stated = msgspec.toml.decode(_read_data("brands.toml"), type=_Brands)
    plain = [_make_brand(name, domains, ordinary=False) for name, domains in stated.brands.items()]
    return (*plain, *(_make_brand(name, domains, ordinary=True) for name, domains in stated.ordinary.items()))


def _index_phrases(brands: Iterable[Brand]) -> dict[str, Brand]:
    """Brands by how their name is written: with spaces between its words, and without."""
    found: dict[str, Brand] = {}
    for brand in brands:
        found.setdefault(" ".join(list_words(brand.name)), brand)
        found.setdefault(brand.label, brand)
    return found


BRANDS = _read_brands()
BY_LABEL: dict[str, Brand] = {brand.label: brand for brand in reversed(BRANDS)}
OWNED: frozenset[str] = frozenset().union(*(brand.domains for brand in BRANDS))
EVERYWHERE: frozenset[str] = frozenset().union(*(brand.everywhere for brand in BRANDS))
NEARBY = read_names("nearby.txt")[""]
_PHRASES = _index_phrases(BRANDS)
# By what a name looks like, in whichever case its letters are written.
_DISGUISES = {skeleton(phrase): brand for phrase, brand in _PHRASES.items() if len(brand.label) >= _SHORTEST_DISGUISED}
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


def _list_parents(host: str) -> Iterator[str]:
    """Yield the host and every name above it."""
    labels = host.split(".")[-10:]
    for start in range(len(labels)):
        yield ".".join(labels[start:])


def is_under(host: str, names: frozenset[str]) -> bool:
    """Return whether a host is one of the names or stands below one."""
    return any(parent in names for parent in _list_parents(host))


def owns(brand: Brand, domain: str) -> bool:
    """Return whether a domain is one of the brand's own."""
    return is_under(domain, brand.domains) or find_registered_label(domain) in brand.everywhere


def find_registered_label(domain: str) -> str:
    """Return what its owner chose: the label below the public suffix."""
    return org_domain(domain).partition(".")[0]


@lru_cache(_REMEMBERED)
def _find_roles(host: str) -> frozenset[str]:
    """Return what a host is, by the names that it stands under."""
    found: frozenset[str] = frozenset()
    for parent in _list_parents(host):
        if places := _PLACES.get(parent):
            found |= places
    return found | {"genuine"} if find_registered_label(host) in EVERYWHERE else found


def is_genuine(host: str) -> bool:
    """Return whether a host belongs to one of the imitated."""
    return "genuine" in _find_roles(host)


@lru_cache(_REMEMBERED)
def find_brands(text: str) -> tuple[Mention, ...]:
    """Return the brands that a short text names, each once."""
    plain = {
        brand: msgspec.structs.replace(mention, disguised=_is_disguised(brand, text))
        for brand, mention in _find_in(list_words(text), _PHRASES, disguised=False)
    }
    if text.isascii() and not _POSING.search(text):
        return tuple(plain.values())
    seen = list_words(skeleton(_POSING_I.sub("l", text.translate(_INSIDE))))
    for brand, mention in _find_in(seen, _DISGUISES, disguised=True):
        plain.setdefault(brand, mention)
    return tuple(plain.values())


def _is_disguised(brand: Brand, text: str) -> bool:
    """Return whether the name stands there only in letters of another alphabet or with invisible characters inside."""
    if text.isascii():
        return False
    first = unicodedata.normalize("NFC", brand.name).casefold().split(" ")[0]
    return first not in text.casefold() and list_words(first)[0] not in text.casefold()


def _find_in(words: tuple[str, ...], index: dict[str, Brand], *, disguised: bool) -> Iterator[tuple[Brand, Mention]]:
    for start in range(len(words)):
        for end in range(min(len(words), start + _LONGEST_PHRASE), start, -1):
            if brand := index.get(" ".join(words[start:end])):
                yield brand, Mention(brand, (*words[:start], *words[end:]), disguised)
                break


def is_freemail(domain: str) -> bool:
    """Return whether anybody gets an address at this domain without showing who they are."""
    return domain in _FREEMAIL


@lru_cache(_REMEMBERED)
def ending_exists(domain: str) -> bool:
    """Return whether a registry gives out names under a domain's ending. Some do so only two levels deep (`co.za`)."""
    labels = domain.rsplit(".", 2)
    return is_icann_suffix(labels[-1]) or is_icann_suffix(".".join(labels[-2:]))


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


def is_guard(host: str) -> bool:
    """Return whether a mail security product rewrites links to this host, to check each click."""
    return "guard" in _find_roles(host)


def measure_ending(domain: str) -> float:
    """Return how badly a domain's ending is reputed: 1 for names that are given away, 0 for the rest."""
    ending = domain.rpartition(".")[2]
    return _GIVEN_AWAY if ending in _ENDINGS["given-away"] else _CHEAP if ending in _ENDINGS["cheap"] else 0.0
