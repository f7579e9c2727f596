"""Host and sender domains that look like a domain that people trust."""

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

import msgspec

from gatepost.checks.known_names import (
    BY_LABEL,
    NEARBY,
    NEARBY_WORDS,
    find_registered_label,
    index_protected,
    is_genuine,
    is_tenant,
    is_under,
)
from gatepost.checks.links.hosts import measure_mention
from gatepost.checks.reading import Reading, check
from gatepost.findings import kinds
from gatepost.findings.kinds import Finding
from gatepost.findings.strengths import coefficients
from gatepost.lists.addresses import ProtectedName
from gatepost.names import is_ip, is_mixed_script, keep_answers, normal_domain, org_domain, skeleton, unicode_domain

_SHORTEST_TYPO = 6
_SHORTEST_INSIDE = 6
_LONGEST_LABEL = 63
_TOO_SHORT_BELOW = 3
_MOST_WORDS = 12
# Of a tenant's domains so many (the shortest) are compared, and so many of those looked for with a letter more, less or
# changed: each is kept in as many forms as it has letters. To index them takes 0.4 s in each worker, once.
_MOST_COMPARED, _MOST_RESEMBLED = 25_000, 2_500
# The shorter names of one country are near to, or inside, words of the others ("Enefit" and "benefit").
_SHORTEST_LOCAL = 8
_LURE_WORDS = (
    "login signin logon secure security account verify verif update support service help alert billing payment refund "
    "bonus reward gift winner claim wallet auth confirm customer portal access recover unlock track parcel paket "
    "delivery resgate premio konto kunden cliente client compte suporte atendimento online mail web"
).split()
_DOMAIN_ENDS = frozenset("com net org co gov br uk de fr".split())

_TRICKS = (
    "look_alike_letters one_letter_off other_ending between_hyphens_lure between_hyphens inside_lure inside "
    "domain_as_subdomain name_as_subdomain"
).split()
_LOOKALIKE_LETTERS, _ONE_LETTER_OFF, _OTHER_ENDING, *_PLACED = coefficients("imitation", *_TRICKS)
_HYPHENS_LURE, _HYPHENS, _INSIDE_LURE, _INSIDE, _DOMAIN_BELOW, _NAME_BELOW = _PLACED


class Imitation(msgspec.Struct, frozen=True):
    """What a host imitates, by which trick, and how sure that is."""

    of: str
    trick: str
    strength: float


class _Names(msgspec.Struct, frozen=True):
    """Labels that may be imitated, by label, by skeleton, and by what is left when one letter is taken out. `halves`
    are the beginnings and ends of the latter, by their length: what is one letter off keeps one of both."""

    labels: dict[str, str]
    skeletons: dict[str, str]
    shortened: dict[str, tuple[str, ...]]
    halves: dict[int, tuple[set[str], set[str]]]
    distinct: frozenset[str]
    inside: frozenset[str]
    lengths: tuple[int, ...]
    beginnings: frozenset[str]


def _index_labels(
    labels: dict[str, str], distinct: frozenset[str], held: frozenset[str], resembled: Iterable[str]
) -> _Names:
    """Return labels for comparison; what holds a `held` one, or is near to a `resembled` one, is no chance."""
    shortened: dict[str, tuple[str, ...]] = {}
    halves: dict[int, tuple[set[str], set[str]]] = {}
    # In an order of their own: of two names that are as near, the same one is told by every process.
    for label in sorted(resembled):
        if len(label) >= _SHORTEST_TYPO:
            heads, tails = halves.setdefault(len(label), (set(), set()))
            heads.add(label[: len(label) // 2])
            tails.add(label[len(label) // 2 + 1 :])
            for left in dict.fromkeys((label, *_drop_one_letter(label))):
                shortened[left] = (*shortened.get(left, ()), label)
    inside = frozenset(label for label in held if len(label) >= _SHORTEST_INSIDE)
    lengths = tuple(sorted({len(label) for label in inside}, reverse=True))
    # In one piece: a list of customers' own domains can have a hundred thousand.
    long = [label for label in labels if len(label) > 3]
    looks = dict(zip(skeleton("\n".join(long)).replace("-", "").split("\n"), long, strict=True)) if long else {}
    beginnings = frozenset(label[:_SHORTEST_INSIDE] for label in inside)
    return _Names(labels, looks, shortened, halves, distinct, inside, lengths, beginnings)


def _drop_one_letter(label: str) -> list[str]:
    return [label[:at] + label[at + 1 :] for at in range(len(label))]


def _index_known() -> _Names:
    # A name that is also a word, and known in one country only, is a word in most domains ("speedy-delivery").
    known = {
        label: brand for label, brand in BY_LABEL.items() if label.isascii() and not (brand.ordinary and brand.local)
    }
    distinct = frozenset(label for label, brand in known.items() if not brand.ordinary)
    resembled = frozenset(label for label in distinct if len(label) >= _SHORTEST_LOCAL or not known[label].local)
    return _index_labels({label: brand.name for label, brand in known.items()}, distinct, resembled, resembled)


_KNOWN = _index_known()


@check(kinds.SENDER_LOOKALIKE_DOMAIN, kinds.URL_LOOKALIKE_DOMAIN, needs={"imitating-name", "protected"})
def lookalike(reading: Reading) -> Iterator[Finding]:
    """Domains that look like, or contain, a domain that people trust.

    `paypa1.com`, `paypall.com`, `secure-paypal-login.com`, `paypal.com.evil.example`: the eye stops at the name it
    knows. Compared are the tenant's own and partner domains, the names that it protects, and the well-known ones; a
    name that stands under a service with customers (`github.zendesk.com`) is a customer.
    """
    trusted, protected = reading.protected.trusted_domains, reading.protected.names
    for sender in reading.message.senders:
        domain = normal_domain(sender.domain)
        if seen := _find_imitation(domain, trusted, protected):
            yield kinds.SENDER_LOOKALIKE_DOMAIN.at(
                "From", strength=seen.strength, domain=domain, imitates=seen.of, trick=seen.trick
            )
    share = measure_mention(reading)
    for host, link in reading.sites.items():
        if seen := _find_imitation(host, trusted, protected):
            facts = {"host": host, "imitates": seen.of, "trick": seen.trick}
            yield kinds.URL_LOOKALIKE_DOMAIN.at(
                link.where, strength=round(share * seen.strength, 2), about=link.url, **facts
            )


def _find_imitation(host: str, trusted: frozenset[str], protected: frozenset[ProtectedName]) -> Imitation | None:
    if (trusted or protected) and (seen := _find_trusted_imitation(host, trusted, protected)):
        return seen
    return find_known_imitation(host)


@keep_answers
def find_known_imitation(host: str) -> Imitation | None:
    """Return the well-known name that a host imitates, if any."""
    return None if "." not in host or is_ip(host) or is_genuine(host) else _compare(host, _KNOWN)


@lru_cache(1024)
def _find_trusted_imitation(
    host: str, trusted: frozenset[str], protected: frozenset[ProtectedName]
) -> Imitation | None:
    """Return the own or partner domain or the protected name that a host imitates, if any."""
    if "." not in host or is_ip(host) or is_under(host, trusted):
        return None
    return _compare(host, _index_trusted(trusted, protected))


@lru_cache(16)
def _index_trusted(trusted: frozenset[str], protected: frozenset[ProtectedName]) -> _Names:
    compared = sorted(trusted, key=len)[:_MOST_COMPARED] if len(trusted) > _MOST_COMPARED else trusted
    named = index_protected(protected).by_label if protected else {}
    labels = {label: brand.name for label, brand in named.items() if label.isascii()}
    labels |= {find_registered_label(domain): domain for domain in compared}
    long = frozenset(label for label in labels if len(label) >= _SHORTEST_INSIDE)
    return _index_labels(labels, long, long, sorted(long, key=lambda label: (len(label), label))[:_MOST_RESEMBLED])


def _compare(host: str, names: _Names) -> Imitation | None:
    label = find_registered_label(host)
    if label in NEARBY or label in NEARBY_WORDS:
        return None
    if label in names.labels:
        return _match_other_ending(host, label, names)
    return (
        _match_look(label, names)
        or _match_typo(label, names)
        or _match_inside(label, names)
        or _match_below(host, label, names)
    )


def _match_other_ending(host: str, label: str, names: _Names) -> Imitation | None:
    """Companies own their name in many countries; the cheap endings are for the others."""
    ending = host.rpartition(".")[2]
    common = len(ending) == 2 or ending in ("com", "net", "org")
    return None if common or len(label) <= 3 else Imitation(names.labels[label], "other ending", _OTHER_ENDING)


def _match_look(label: str, names: _Names) -> Imitation | None:
    seen = skeleton(unicode_domain(label)).replace("-", "")
    if found := names.skeletons.get(seen):
        return Imitation(names.labels[found], "look-alike letters", _LOOKALIKE_LETTERS)
    return None


def _match_typo(label: str, names: _Names) -> Imitation | None:
    if len(label) < _SHORTEST_TYPO - 1 or len(label) > 40 or not _has_half(label, names):
        return None
    for left in (label, *_drop_one_letter(label)):
        for near in names.shortened.get(left, ()):
            # The first letter is the one that every reader sees.
            if near[0] == label[0] and abs(len(near) - len(label)) <= 1 and _is_one_edit(label, near):
                return Imitation(names.labels[near], "one letter off", _ONE_LETTER_OFF)
    return None


def _has_half(label: str, names: _Names) -> bool:
    """Return whether a label begins or ends as a name of about its length does. One letter that is added, dropped or
    changed, or two that are swapped, leave one half of a name as it is; the letter after the first half belongs to
    neither, since a swap may reach it."""
    length = len(label)
    for other in (length - 1, length, length + 1):
        if found := names.halves.get(other):
            heads, tails = found
            if label[: other // 2] in heads or label[length - other + other // 2 + 1 :] in tails:
                return True
    return False


def _is_one_edit(one: str, other: str) -> bool:
    """One letter added, dropped, changed, or two neighbours swapped."""
    if len(one) != len(other):
        return True  # they share a form with one letter less, and differ by one in length
    differing = [at for at in range(len(one)) if one[at] != other[at]]
    if len(differing) == 1:
        return True
    first, *rest = differing
    return rest == [first + 1] and one[first] == other[first + 1] and one[first + 1] == other[first]


def _match_inside(label: str, names: _Names) -> Imitation | None:
    """`secure-paypal-login`, `paypalsupport`: the name with something around it."""
    tokens = label.split("-") if "-" in label else ()
    whole = (token for token in tokens if token in names.labels and (token in names.distinct or _is_lure(label)))
    if found := next(whole, "") or _find_hyphenated(tokens, names):
        return Imitation(names.labels[found], "name between hyphens", _HYPHENS_LURE if _is_lure(label) else _HYPHENS)
    if (found := _find_inside(label, names)) and not any(near in label for near in NEARBY):
        return Imitation(names.labels[found], "name inside another", _INSIDE_LURE if _is_lure(label) else _INSIDE)
    return None


def _find_hyphenated(tokens: Sequence[str], names: _Names) -> str:
    """Return a name whose words stand between hyphens: `wells-fargo-login`; "" if there is none."""
    tokens = tokens[:_MOST_WORDS]
    for start in range(len(tokens) - 1):
        for end in range(start + 2, len(tokens) + 1):
            joined = "".join(tokens[start:end])
            if joined in names.inside:
                return joined
    return ""


def _find_inside(label: str, names: _Names) -> str:
    """Return the longest name at the first place of a label where one stands; "" if there is none. A label has 63
    characters at most (RFC 1035 section 2.3.4), so that there are few pieces, however many names there are."""
    label = label[:_LONGEST_LABEL]
    for start in range(len(label) - _SHORTEST_INSIDE + 1):
        if label[start : start + _SHORTEST_INSIDE] not in names.beginnings:
            continue
        for length in names.lengths:
            if label[start : start + length] in names.inside and start + length <= len(label):
                return label[start : start + length]
    return ""


def _is_lure(label: str) -> bool:
    return any(lure in label for lure in _LURE_WORDS)


def _match_below(host: str, label: str, names: _Names) -> Imitation | None:
    """`paypal.com.evil.example`, `paypal.evil.example`: the name as a part that costs nothing."""
    below = host.removesuffix(org_domain(host)).rstrip(".")
    if len(below) <= _TOO_SHORT_BELOW or is_tenant(host):
        return None
    above = below.split(".")
    for at, part in enumerate(above):
        if part not in names.labels or len(part) <= _TOO_SHORT_BELOW:
            continue
        if at + 1 < len(above) and above[at + 1] in _DOMAIN_ENDS:
            return Imitation(names.labels[part], "domain as a subdomain", _DOMAIN_BELOW)
        if part in names.distinct and part != label:
            return Imitation(names.labels[part], "name as a subdomain", _NAME_BELOW)
    return None


@check(kinds.URL_HOMOGRAPH, kinds.SENDER_HOMOGRAPH, needs={"punycode"})
def homograph(reading: Reading) -> Iterator[Finding]:
    """Host names written in look-alike letters.

    `аpple.com` with a Cyrillic а is another domain than `apple.com` and looks the same (UTS 39). Whole-script names in
    other languages are ordinary: only names that mix scripts within one label, or whose every letter looks Latin and is
    not, are reported.
    """
    for host, link in {link.host: link for link in reading.links if "xn--" in link.host}.items():
        if imitated := _find_latin_lookalike(host):
            yield kinds.URL_HOMOGRAPH.at(link.where, about=link.url, shown=unicode_domain(host), imitates=imitated)
    for sender in reading.message.senders:
        if imitated := _find_latin_lookalike(sender.domain):
            yield kinds.SENDER_HOMOGRAPH.at("From", shown=unicode_domain(sender.domain), imitates=imitated)


def _find_latin_lookalike(host: str) -> str:
    """Return the Latin name that this one looks like, or nothing."""
    if "xn--" not in host:
        return ""
    for label in unicode_domain(host).split("."):
        seen = skeleton(label)
        has_latin = any("a" <= letter <= "z" for letter in label.lower())
        if not label.isascii() and seen.isascii() and (is_mixed_script(label) or not has_latin):
            return skeleton(unicode_domain(host))
    return ""
