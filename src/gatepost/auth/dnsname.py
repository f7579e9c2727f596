"""Names as DNS is asked for them: A-labels in lower case, within the bounds of RFC 1035 section 2.3.4.

Domains reach authentication from hostile places (envelope, From, macros in SPF records), so nothing here raises:
what cannot be asked is the empty string or False.
"""

from ipaddress import IPv4Address, IPv6Address, ip_address

import idna

MAX_NAME = 253
MAX_LABEL = 63

IpAddress = IPv4Address | IPv6Address


def a_labels(domain: str) -> str:
    """A domain in lower case, in A-labels (RFC 5890 section 2.3), without a trailing dot; "" where it has none."""
    domain = domain.removesuffix(".")
    if domain.isascii():
        return domain.lower()
    if len(domain) > MAX_NAME:
        return ""
    return ".".join(_a_label(label) for label in _dots(domain).split("."))


def queryable(name: str) -> bool:
    """Can DNS be asked for this name? Odd but printable characters may be in it: SPF macros make such names."""
    if not 0 < len(name) <= MAX_NAME or not (name.isascii() and name.isprintable()):
        return False
    return all(0 < len(label) <= MAX_LABEL for label in name.split("."))


def is_domain(name: str) -> bool:
    """Is this a name of several labels that a mail domain can have (RFC 7208 section 4.3)?"""
    return "." in name and queryable(name) and name[0] != "[" and " " not in name


def address(text: str) -> IpAddress | None:
    """An IP address, IPv4 where it is one in IPv6 clothes (RFC 7208 section 5); None where it is not an address."""
    try:
        found = ip_address(text)
    except ValueError:
        return None
    return (found.ipv4_mapped or found) if isinstance(found, IPv6Address) else found


def reverse_name(host: IpAddress) -> str:
    """The name under which an address keeps its PTR records (RFC 1035 section 3.5, RFC 3596 section 2.5)."""
    return f"{reversed_labels(host)}.{'in-addr' if host.version == 4 else 'ip6'}.arpa"


def reversed_labels(host: IpAddress) -> str:
    """The address with its most specific part first, as the reverse zones spell it."""
    parts = str(host).split(".") if host.version == 4 else format(int(host), "032x")
    return ".".join(reversed(parts))


def _dots(domain: str) -> str:
    """The other full stops that Unicode text is written with (UTS 46 section 2.3)."""
    return domain.replace("\u3002", ".").replace("\uff0e", ".").replace("\uff61", ".")


def _a_label(label: str) -> str:
    if label.isascii():
        return label.lower()
    try:
        return idna.alabel(idna.uts46_remap(label, std3_rules=False)).decode("ascii")
    except UnicodeError:
        # Registries sell names that IDNA 2008 refuses (emoji); they resolve all the same.
        return f"xn--{label.lower().encode('punycode', 'replace').decode('ascii')}"
