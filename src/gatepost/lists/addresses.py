"""Kinds of list entries that name who sends or receives: domains, senders, people, and the domains of tenants.

A host is written alone or with a wildcard: `example.com` is that name, `*.example.com` every name below it. A domain of
one's own or of a partner includes all names below it. A sender is an address, a domain, or `*.domain`. People are
written as `Name <address>`; the spelling is kept, and names are compared folded. Names of companies and products are
written as `Name <domain, domain>`, with the domains from which they are used rightly.

Usual spellings are understood (`Name <ann@example.com>` and `*@example.com` for a sender, `example[.]com` anywhere).
What no message could ever match is refused with the reason, since an entry without effect looks like protection.
"""

import re

import msgspec

from gatepost.lists.entries import (
    Category,
    EntryKind,
    ListRefusal,
    NormalForm,
    fold_phrase,
    limit_keys,
    refang,
    show_as_key,
)
from gatepost.names import is_icann_suffix, is_ip, is_public_suffix, normal_address, normal_domain, public_suffix

_LABELS = re.compile(
    r"(?=.{1,253}\Z)(?:[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?\.)*[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?\Z"
)


def normalise_host(text: str) -> str | ListRefusal:
    """Return a host name in normal form, with labels as DNS allows them (RFC 1035 section 2.3.4, and underscores)."""
    if _LABELS.match(text):
        return text
    host = normal_domain(text)
    if not _LABELS.match(host):
        return ListRefusal("is not a host name")
    return host


def normalise_pattern(text: str) -> str | ListRefusal:
    """Return a host name or `*.` and one."""
    wild = text.startswith("*.")
    host = normalise_host(text[2:] if wild else text)
    if isinstance(host, ListRefusal):
        return ListRefusal("would match everything") if text.strip() in ("*", "*.") else host
    if host.rpartition(".")[2].isdigit():
        return ListRefusal(_describe_number(host))
    return f"*.{host}" if wild else host


def _describe_number(host: str) -> str:
    """Return why a name whose last label is a number cannot be a domain (RFC 3696 section 2)."""
    if is_ip(host):
        return "is an IP address, not a domain: the address of a sending host belongs in a list of networks"
    return "is not a host name: the last label of a domain is never a number"


def refuse_wide(pattern: str, category: Category) -> str:
    """Return why a pattern, such as `com` or `github.io`, is too wide for a category, or ""."""
    host = pattern.removeprefix("*.")
    if category == "allow" and public_suffix(host) == host:
        return f"is too wide: anybody can get a name under {host}"
    if category != "allow" and is_icann_suffix(host):
        return f"is too wide: {host} is a public suffix, not one owner's domain"
    return ""


def list_patterns(host: str) -> tuple[str, ...]:
    """Return the entries that would match this host: itself, and a wildcard at every level above it."""
    labels = host.split(".")[-12:]
    return (host, *(f"*.{'.'.join(labels[cut:])}" for cut in range(1, len(labels))))


def normalise_domain(text: str) -> NormalForm | ListRefusal:
    """Normalise a domain. `*.example.com` and `@example.com` mean `example.com`, which includes the names below."""
    text = refang(text.strip()).removeprefix("*@").removeprefix("@").removeprefix("*.")
    host = _refuse_no_domain(text) or normalise_pattern(text)
    if isinstance(host, str) and host.startswith("*."):
        return ListRefusal("is not a host name: it has more than one wildcard")
    return host if isinstance(host, ListRefusal) else show_as_key(host)


def _refuse_no_domain(text: str) -> ListRefusal | None:
    """Return why a text that is an address or a URL is no domain; None for everything else."""
    if "@" in text:
        return ListRefusal("is an address: write its domain alone")
    return ListRefusal("is a URL: write its host alone") if "://" in text else None


def normalise_tenant_domain(text: str) -> NormalForm | ListRefusal:
    """Normalise a recipient domain of a tenant: one name, without the names below it.

    Mail for all of `co.uk` cannot be one tenant's, and a wildcard would match nothing, since recipients are looked up
    by their exact domain.
    """
    text = refang(text.strip())
    if text.startswith("*"):
        return ListRefusal("has a wildcard: a tenant has exact domains, so name each one")
    host = _refuse_no_domain(text.removeprefix("@")) or normalise_pattern(text.removeprefix("@"))
    if isinstance(host, str) and is_public_suffix(host):
        return ListRefusal(f"is too wide: {host} is a public suffix, under which anybody can get a name")
    return host if isinstance(host, ListRefusal) else show_as_key(host)


def refuse_domain(key: str, _category: Category) -> str:
    """Return why a domain is too wide, or ""."""
    return refuse_wide(key, "allow")


DOMAIN = EntryKind("domain", "a domain, the names below it included", "example.com", normalise_domain, refuse_domain)


_SPACES = re.compile(r"[\s\x00-\x1f\x7f]")
# A local part that is its own normal form, as most are.
_PLAIN_SENDER = re.compile(r"[a-z0-9.+_=-]+\Z")
_NAMED = re.compile(r"[^<>]*+<\s*+([^<>]*[^<>\s])\s*+>\Z")
_LINK = re.compile(r"[a-z][a-z0-9+.-]{0,30}://|mailto:", re.IGNORECASE)
_QUOTED = re.compile(r'"[^"\\]*+(?>\\.[^"\\]*+)*+"\Z')
# Signs that no mail program leaves in a local part that is not quoted (RFC 5322 section 3.2.3), and wildcards.
_NEVER_LOCAL = re.compile(r"[*<>,;:]")


def normalise_sender(text: str) -> NormalForm | ListRefusal:
    """Normalise a sender: `Ann@Example.COM`, `<ann@example.com>` and `Ann <ann@example.com>` are one address;
    `@example.com` and `*@example.com` are the domain."""
    local, _, domain = text.rpartition("@")
    if _PLAIN_SENDER.match(local) and _LABELS.match(domain):
        return show_as_key(text)
    text = refang(text.strip())
    if named := _NAMED.match(text):
        text = named.group(1)
    scheme = _LINK.match(text)
    if scheme:
        return ListRefusal(f"is a link: write the address alone, without {scheme.group()}")
    local, at, domain = text.rpartition("@")
    if not at or local in ("", "*"):
        pattern = normalise_pattern(domain)
        return pattern if isinstance(pattern, ListRefusal) else _refuse_word(pattern) or show_as_key(pattern)
    host = _normalise_literal(domain) or normalise_host(domain)
    if "@" in local and not _QUOTED.match(local):
        return ListRefusal("has more than one @: an entry is one address")
    if isinstance(host, ListRefusal) or _SPACES.search(local) or _NEVER_LOCAL.search(local):
        return ListRefusal("is neither an address nor a domain nor *.domain")
    return show_as_key(normal_address(f"{local}@{host}"))


# Names without a dot that mail of machines really has as its domain (RFC 6761 section 6, and usual private names).
_LOCAL_NAMES = frozenset({"localhost", "localdomain", "local", "internal", "lan", "home", "test", "invalid"})


def _refuse_word(pattern: str) -> ListRefusal | None:
    """Return why a word without a dot is no domain: it is the name of a person or the first part of an address. What
    stands behind the @ of a whole address may be any name, since senders write `root@server`."""
    host = pattern.removeprefix("*.")
    if "." in host or host in _LOCAL_NAMES or is_public_suffix(host):
        return None
    return ListRefusal("is neither an address nor a domain: a domain has a dot in it")


def _normalise_literal(domain: str) -> str:
    """Return an address literal (RFC 5321 section 4.1.3) as messages are compared with it; "" for other domains."""
    literal = normal_domain(domain)
    return literal if literal.startswith("[") and literal.endswith("]") and is_ip(literal) else ""


def refuse_sender(key: str, category: Category) -> str:
    """Return why a sender pattern is too wide, or ""; addresses never are."""
    return "" if "@" in key else refuse_wide(key, category)


def list_sender_keys(address: str) -> tuple[str, ...]:
    """Return every entry that would match this address."""
    address = normal_address(address)
    local, _, domain = address.rpartition("@")
    if not local or not domain:
        return ()
    return limit_keys((address, *list_patterns(domain)))


SENDER = EntryKind(
    "sender",
    "an address, a domain, or *.domain for every name below it",
    "ann@example.com",
    normalise_sender,
    refuse_sender,
    list_sender_keys,
)

RECIPIENT = EntryKind(
    "recipient",
    "an address that exists, a domain of which every address does, or *.domain",
    "ann@example.com",
    normalise_sender,
    refuse_sender,
    list_sender_keys,
)


_PERSON = re.compile(r"\s*(\S[^<>]{0,400}?)\s*<\s*([^<>\s]{1,320})\s*>\s*\Z")


def normalise_person(text: str) -> NormalForm | ListRefusal:
    """Normalise `Name <address>`: the spelling is shown, the folded name is compared."""
    match = _PERSON.match(text)
    if not match:
        return ListRefusal("is not written as: Name <address>")
    name, address = match.group(1).strip(' "'), normal_address(match.group(2))
    local, _, domain = address.rpartition("@")
    if not name or not local or isinstance(normalise_host(domain), ListRefusal):
        return ListRefusal("is not written as: Name <address>")
    return NormalForm(f"{fold_phrase(name)} <{address}>", f"{name} <{address}>")


PERSON = EntryKind(
    "person", "a person and the address that is theirs", "Ann Example <ann@example.com>", normalise_person
)


_MAX_NAME = 100
_MAX_NAME_DOMAINS = 30
# "HP" is a name, but so short a one stands in too many others.
_SHORTEST_NAME = 3
_NAMED_DOMAINS = re.compile(r"([^<>]{1,1000})(?:<([^<>]{0,1000})>\s*)?\Z")


class ProtectedName(msgspec.Struct, frozen=True):
    """The name of a company, brand or product, and the domains that may use it."""

    name: str
    domains: tuple[str, ...] = ()


def normalise_name(text: str) -> NormalForm | ListRefusal:
    """Normalise `Name <domain, domain>`, or `Name` for the own domains: spelling is shown, folded names compared."""
    match = _NAMED_DOMAINS.match(text)
    name = " ".join(match.group(1).strip(' "').split()) if match else ""
    if match is None or not name:
        return ListRefusal("is not written as: Name <domain, domain>")
    if "@" in name or "://" in name:
        return ListRefusal("is not written as: Name <domain, domain>; an address or a link is no name")
    letters = sum(map(str.isalnum, name))
    if len(name) > _MAX_NAME or letters < (_SHORTEST_NAME if name.isascii() else 2):
        return ListRefusal(
            f"is no name that can be told from others: it needs {_SHORTEST_NAME} to {_MAX_NAME} characters"
        )
    domains: set[str] = set()
    for each in re.split(r"[\s,;]+", (match.group(2) or "").strip()):
        if each:
            domain = normalise_domain(each)
            if isinstance(domain, ListRefusal):
                return ListRefusal(f"has {each}, which {domain.reason}")
            if reason := refuse_wide(domain.key, "allow"):
                return ListRefusal(f"has {each}, which {reason}")
            domains.add(domain.key)
    if len(domains) > _MAX_NAME_DOMAINS:
        return ListRefusal(
            f"has more than {_MAX_NAME_DOMAINS} domains: write the others into a second entry of the name"
        )
    owners = f" <{', '.join(sorted(domains))}>" if domains else ""
    return NormalForm(fold_phrase(name) + owners, name + owners)


def parse_name(shown: str) -> ProtectedName:
    """Return what an entry in normal form says."""
    name, _, domains = shown.partition(" <")
    return ProtectedName(name, tuple(domains.removesuffix(">").split(", ")) if domains else ())


NAME = EntryKind(
    "name",
    "the name of a company, brand or product, and the domains that use it beside the own ones",
    "Example Bank <example.com, example.net>",
    normalise_name,
)
