"""What a link shows to its reader: the text over it, or a QR code."""

import re
from collections.abc import Iterator

from gatepost.checks.headers.bulk_mail import measure_openness
from gatepost.checks.known_names import is_genuine, is_guard, is_tenant, is_under
from gatepost.checks.phrases import find_phrases, quote
from gatepost.findings import Reading, check
from gatepost.kinds import TEXT_QR_LURE, URL_DRAWN_CODE, URL_QR_CODE, URL_TEXT_MISMATCH, Finding
from gatepost.names import org_domain, public_suffix
from gatepost.strengths import coefficients

_SHOWN_SOURCES = frozenset({"html", "file"})

# Only where the whole text is an address: a sentence that mentions a domain promises nothing.
_SHOWN_ADDRESS = re.compile(
    r"^\s*(?:https?://)?(?:[\w-]{1,63}\.){1,10}([a-z]{2,24})(?::\d{1,5})?(?:[/?#]\S*)?\s*$", re.IGNORECASE
)
_CLICK_COUNTER = re.compile(r"(?:clicks?|links?|track(?:ing)?|trk|go|e|em|email|mail|news|r|t|url\d*)\d{0,6}[.-]")
_FILE_ENDINGS = frozenset("html htm php asp aspx jsp pdf doc txt zip jpg png gif exe js css".split())
_TRUSTED_SITE_COUNTED, _OTHER_SITE, _OTHER_SITE_COUNTED = coefficients(
    URL_TEXT_MISMATCH, "trusted_counted", "other", "other_counted"
)


@check(URL_TEXT_MISMATCH, needs={"link"})
def link_text(reading: Reading) -> Iterator[Finding]:
    """Links whose text is an address of one site and whose target is another.

    `<a href="https://evil.example">https://bank.example</a>`: people read the text, programs follow the target. Honest
    mailers wrap links for counting, and then most show words, not another site's address; those that show one say less.
    """
    for link in reading.links:
        if link.source not in _SHOWN_SOURCES or not link.host:
            continue
        shown = _read_shown_host(link.shown)
        if (
            shown
            and not is_guard(link.host)
            and org_domain(shown) not in {org_domain(host) for host in (link.host, *link.wrapped)}
        ):
            strength = _measure_mismatch(shown, link.host, reading)
            yield URL_TEXT_MISMATCH.at(link.where, strength=strength, about=link.url, shown=shown, leads_to=link.host)


def _measure_mismatch(shown: str, host: str, reading: Reading) -> float:
    """A site that is imitated often says most. Mailing services count clicks on shown addresses, too."""
    protected = reading.protected.own_domains | reading.protected.partner_domains
    counted = _CLICK_COUNTER.match(host) or is_tenant(host) or is_genuine(host) or "list-unsubscribe" in reading.fields
    if (is_genuine(shown) or is_under(shown, protected)) and not is_genuine(host):
        return _TRUSTED_SITE_COUNTED if counted else 1.0
    # Under the sender's own domain it is the sender's own counter.
    if counted or reading.is_discussion or org_domain(host) in reading.sender_domains:
        return round(_OTHER_SITE_COUNTED * measure_openness(reading), 2)
    return _OTHER_SITE


def _read_shown_host(text: str) -> str:
    match = _SHOWN_ADDRESS.match(text[:500])
    if not match or match.group(1).lower() in _FILE_ENDINGS:
        return ""
    host = re.split(r"[/?#:]", text.strip().lower().removeprefix("http://").removeprefix("https://"), maxsplit=1)[0]
    return host if public_suffix(host) != host else ""


_LONG_TEXT = 8_000
_MOST_SCAN_REASONS = 3
_SCAN_REASONS = ("credential", "limitation", "salary", "document", "mailbox", "crypto")
_SCAN_BASE, _PER_SCAN_REASON, _SCAN_CODE = coefficients(TEXT_QR_LURE, "base", "per_reason", "code")


@check(URL_QR_CODE, URL_DRAWN_CODE, TEXT_QR_LURE)
def qr_codes(reading: Reading) -> Iterator[Finding]:
    """Links in QR codes, and texts that ask to scan one.

    A code in a picture takes the reader from the company's machine, with its filters, to a telephone without any, whose
    small screen hides where the link leads. Tickets, payment slips and posters carry codes honestly, so a code alone is
    a small thing; what it leads to is looked at like every other link. Together with talk of accounts, pay or
    documents, a request to scan is a lure.

    Whoever draws a code with four hundred cells of a table, with block characters or with the halves of a picture hides
    it from programs that look for pictures. Honest senders have no reason to.
    """
    hosts = {link.host: link for file in reading.files for link in file.links if link.source == "qr" and link.host}
    for host, link in hosts.items():
        yield URL_QR_CODE.at(link.where, about=link.url, leads_to=host)
    for file in reading.files:
        for how in file.seen("drawn-code") if file.traits else ():
            yield URL_DRAWN_CODE.at(file.path, about=file.document, how=how)
    phrases = find_phrases(reading)
    words = phrases.of("scan")
    if not words or phrases.length > _LONG_TEXT:
        return
    reasons = phrases.of(*_SCAN_REASONS)
    code = any(link.source == "qr" for link in reading.links)
    degree = _SCAN_BASE + _PER_SCAN_REASON * min(_MOST_SCAN_REASONS, len(reasons)) + _SCAN_CODE * code
    yield TEXT_QR_LURE.at("text", strength=round(min(1.0, degree), 2), words=quote((*words, *reasons)))
