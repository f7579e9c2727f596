"""Host names written in look-alike letters.

`аpple.com` with a Cyrillic а is another domain than `apple.com` and looks the same (UTS 39). Whole-script names in
other languages are ordinary: only names that mix scripts within one label, or whose every letter looks Latin and is
not, are reported.
"""

from collections.abc import Iterator

from gatepost.findings import Reading
from gatepost.kinds import SENDER_HOMOGRAPH, URL_HOMOGRAPH, Finding
from gatepost.names import is_mixed_script, skeleton, unicode_domain

KINDS = (URL_HOMOGRAPH, SENDER_HOMOGRAPH)


def check(reading: Reading) -> Iterator[Finding]:
    for host, link in {link.host: link for link in reading.links if "xn--" in link.host}.items():
        if imitated := _find_imitated(host):
            yield URL_HOMOGRAPH.at(link.where, about=link.url, shown=unicode_domain(host), imitates=imitated)
    for sender in reading.message.senders:
        if imitated := _find_imitated(sender.domain):
            yield SENDER_HOMOGRAPH.at("From", shown=unicode_domain(sender.domain), imitates=imitated)


def _find_imitated(host: str) -> str:
    """Return the Latin name that this one looks like, or nothing."""
    if "xn--" not in host:
        return ""
    for label in unicode_domain(host).split("."):
        seen = skeleton(label)
        if not label.isascii() and seen.isascii() and (is_mixed_script(label) or not _has_latin(label)):
            return skeleton(unicode_domain(host))
    return ""


def _has_latin(label: str) -> bool:
    return any("a" <= letter <= "z" for letter in label.lower())
