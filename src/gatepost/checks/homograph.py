"""Host names written in look-alike letters.

`аpple.com` with a Cyrillic а is another domain than `apple.com` and looks the same (UTS 39). Whole-script names in
other languages are ordinary: only names that mix scripts within one label, or whose every letter looks Latin and is
not, are reported.
"""

from collections.abc import Iterator

from gatepost.findings import Finding, Kind, Reading
from gatepost.names import is_mixed_script, skeleton, unicode_domain

LINK = Kind("url:homograph", "A link leads to a host whose name imitates another in look-alike letters")
SENDER = Kind("sender:homograph", "The sender's domain imitates another in look-alike letters")
KINDS = (LINK, SENDER)


def check(reading: Reading) -> Iterator[Finding]:
    for host, link in {link.host: link for link in reading.links if "xn--" in link.host}.items():
        if imitated := _imitated(host):
            yield LINK.at(link.where, about=link.url, shown=unicode_domain(host), imitates=imitated)
    for sender in reading.message.senders:
        if imitated := _imitated(sender.domain):
            yield SENDER.at("From", shown=unicode_domain(sender.domain), imitates=imitated)


def _imitated(host: str) -> str:
    """The Latin name that this one looks like, or nothing."""
    if "xn--" not in host:
        return ""
    for label in unicode_domain(host).split("."):
        seen = skeleton(label)
        if not label.isascii() and seen.isascii() and (is_mixed_script(label) or not _has_latin(label)):
            return skeleton(unicode_domain(host))
    return ""


def _has_latin(label: str) -> bool:
    return any("a" <= letter <= "z" for letter in label.lower())
