"""Links: the form of a URL (its parts, its path, redirections, what it carries or downloads), and what a link shows to
its reader (the text over it, or a QR code).
"""

import base64
import re
from collections.abc import Iterator
from functools import lru_cache

from gatepost.checks.headers.bulk_mail import measure_openness
from gatepost.checks.known_names import (
    BY_LABEL,
    compile_names,
    ending_exists,
    index_protected,
    is_freemail,
    is_genuine,
    is_guard,
    is_hosted_page,
    is_shortener,
    is_tenant,
    is_under,
)
from gatepost.checks.links.hosts import measure_mention
from gatepost.checks.phrases import find_phrases, quote
from gatepost.checks.reading import Reading, check
from gatepost.findings import kinds
from gatepost.findings.kinds import Finding
from gatepost.findings.strengths import coefficients
from gatepost.names import is_ip, normal_domain, org_domain, public_suffix

_DEEP_LEVELS = 4
_MANY_HYPHENS = 4
_PORT = re.compile(r"[a-z]{2,5}://[^/?#]{0,400}:(\d{1,5})(?=[/?#]|\Z)")
_TEST_PORTS = frozenset(
    {"8000", "8008", "8080", "8081", "8443", "8888", "3000", "5000", "9000", "9090", "2082", "2083"}
)
(_TEST_PORT,) = coefficients(kinds.URL_ODD_PORT, "test_port")
(_PLAIN_USER_NAME,) = coefficients(kinds.URL_USERINFO, "plain_name")


@check(kinds.URL_ODD_PORT, kinds.URL_DEEP_SUBDOMAIN, kinds.URL_MANY_HYPHENS, kinds.URL_USERINFO, needs={"odd-url"})
def url_form(reading: Reading) -> Iterator[Finding]:
    """URLs in forms that people do not choose: a name before the host, an unusual port, a host many levels deep or
    strung together by hyphens.

    In `https://bank.example@evil.example/` (RFC 3986 section 3.2.1) what stands before the @ is a user name to a
    browser and looks like the host to a person; old FTP sites had such links, so those are left out. Kits run on
    another port of a broken-into machine, beside the real site; administrators do mail links with ports to each other,
    so a port weighs little, and less where test servers use it. `secure.login.account.update.example.com` fills the
    address bar, so that its end is not seen. Content networks and click counters are deep as well, so depth counts from
    the registered name, and services with customers below are left out.
    """
    for link in reading.web_links:
        # A colon after the scheme's own is needed.
        if link.url.find(":", 7) > 0 and (match := _PORT.match(link.url)):
            strength = _TEST_PORT if match[1] in _TEST_PORTS else 1.0
            yield kinds.URL_ODD_PORT.at(link.where, strength=strength, about=link.url, host=link.host, port=match[1])
            break
    yield from _find_userinfo(reading)
    strength = measure_mention(reading)
    for host, link in reading.sites.items():
        depth, hyphens = _measure_host(host)
        if depth >= _DEEP_LEVELS:
            yield kinds.URL_DEEP_SUBDOMAIN.at(link.where, strength=strength, about=link.url, host=host, levels=depth)
        if hyphens >= _MANY_HYPHENS:
            yield kinds.URL_MANY_HYPHENS.at(link.where, strength=strength, about=link.url, host=host)


def _find_userinfo(reading: Reading) -> Iterator[Finding]:
    for link in reading.web_links:
        if "@" in link.url and link.url.startswith("http"):
            authority = link.url.partition("://")[2].partition("/")[0]
            user, at, _ = authority.rpartition("@")
            if at:
                strength = 1.0 if "." in user else _PLAIN_USER_NAME
                yield kinds.URL_USERINFO.at(link.where, strength=strength, about=link.url, host=link.host)
                return


def has_odd_form(host: str) -> bool:
    """Return whether a host is deep, or has many hyphens."""
    depth, hyphens = _measure_host(host)
    return depth >= _DEEP_LEVELS or hyphens >= _MANY_HYPHENS


def _measure_host(host: str) -> tuple[int, int]:
    """Return how many levels stand below the registered name, and how many hyphens are in one label."""
    if is_ip(host) or is_genuine(host) or is_tenant(host):
        return 0, 0
    below = host.removesuffix(org_domain(host)).rstrip(".")
    # An internationalised label is one word to its reader; hosted pages are named by machines.
    has_hyphens = "-" in host and "xn--" not in host and not is_hosted_page(host)
    hyphens = max(label.count("-") for label in host.split(".")) if has_hyphens else 0
    return below.count(".") + 1 if below else 0, hyphens


# Click counters of the well-known themselves, for their customers.
_CLICK_COUNTERS = frozenset({"l.facebook.com", "lm.facebook.com", "l.instagram.com", "awstrack.me"})


@check(kinds.URL_SHORTENER, kinds.URL_OPEN_REDIRECT, needs={"redirect"})
def redirects(reading: Reading) -> Iterator[Finding]:
    """Links that do not show where they end: through a shortener, or through a well-known site that redirects.

    `https://www.google.com/url?q=https://evil.example`: the eye, and many a filter, stops at the first host. Wrappers
    of mail security products and click counters of mailing services redirect openly, and are left out; so is a site
    that redirects in its own mail. Newsletters and people use shorteners, too, so those weigh little by themselves;
    mail that claims to be a company and hides its own site behind one has a reason.
    """
    for host, link in reading.sites.items():
        # Twitter's own mail links through t.co.
        if is_shortener(host) and org_domain(host) not in reading.sender_domains:
            yield kinds.URL_SHORTENER.at(link.where, strength=measure_openness(reading), about=link.url, host=host)
            break
    for link in reading.web_links:
        if not link.wrapped:
            continue
        start = next((host for host in link.wrapped if not is_guard(host) and not is_under(host, _CLICK_COUNTERS)), "")
        if start and is_genuine(start) and not is_genuine(link.host):
            if org_domain(start) in reading.sender_domains or org_domain(start) == org_domain(link.host):
                continue
            yield kinds.URL_OPEN_REDIRECT.at(link.where, about=link.url, starts=start, leads_to=link.host)
            return


_SHORT_NOTE = 400
_SEVERAL_SHORTENED = 2


@check(kinds.URL_SHORTENED_LINKS, needs={"shortener"})
def shortened_links(reading: Reading) -> Iterator[Finding]:
    """Free mailboxes that send several shortened links and hardly a word, as text or around a picture.

    The picture shows a prize; the links hide a chain of pages that pay for clicks. A friend who found something sends
    one link and says what it is; answers of known senders, and known lists, are left out.
    """
    senders = reading.message.senders[:1]
    if reading.is_known_answer or reading.is_known_post:
        return
    if not any(is_freemail(normal_domain(sender.domain)) for sender in senders):
        return
    shortened = {link.url for link in reading.web_links[:50] if is_shortener(link.host)}
    others = [host for host in reading.sites if not is_shortener(host)]
    if len(shortened) < _SEVERAL_SHORTENED or len(others) > 1:
        return
    texts = (text.visible for text in reading.message.texts if not text.attached)
    words = max((sum(len(word) for word in text.split() if "://" not in word) for text in texts), default=0)
    if words <= _SHORT_NOTE:
        yield kinds.URL_SHORTENED_LINKS.at(reading.web_links[0].where, links=len(shortened), letters=words)


_PROGRAM_ENDINGS = frozenset(
    "exe scr pif cpl bat cmd js jse vbs vbe wsf hta ps1 lnk msi msix appx jar apk iso img vhd xll".split()
)
_ARCHIVE_ENDINGS = frozenset("zip rar 7z ace cab arj".split())
_NAME_ENDINGS = re.compile(r"(?:\.([a-z0-9]{2,5}))?\.([a-z0-9]{2,5})\Z", re.IGNORECASE)
_LONGEST_ENDINGS = 12
_QUERY = re.compile(r"[?#]")
_DOWNLOAD_ENDINGS = _PROGRAM_ENDINGS | _ARCHIVE_ENDINGS | {"htm", "html"}
_DOCUMENT_ENDINGS = frozenset("pdf doc docx xls xlsx jpg jpeg png txt rtf mp3 mp4".split())
(_ARCHIVE_DOWNLOAD,) = coefficients(kinds.URL_DOWNLOAD, "archive")


@check(kinds.URL_DOWNLOAD, kinds.URL_DOUBLE_EXTENSION, needs={"download-url"})
def download(reading: Reading) -> Iterator[Finding]:
    """Links that download a program, or an archive that may hold one.

    What a mail system refuses as an attachment comes as a link. Software is offered by link for good reasons, too, on
    lists above all; an archive weighs less than a program, and a name with two endings (`invoice.pdf.exe`) has no good
    reason.
    """
    if reading.is_known_post:
        return
    for link in reading.web_links:
        if not may_download(link.url):
            continue
        match = _NAME_ENDINGS.search(_name_in_path(link.url[:2000])[-_LONGEST_ENDINGS:])
        if not match:
            continue
        inner, ending = (match[1] or "").lower(), match[2].lower()
        if inner in _DOCUMENT_ENDINGS and (ending in _PROGRAM_ENDINGS or ending in ("htm", "html", "zip")):
            yield kinds.URL_DOUBLE_EXTENSION.at(link.where, about=link.url, ending=f".{inner}.{ending}")
        if ending not in _PROGRAM_ENDINGS and ending not in _ARCHIVE_ENDINGS:
            continue
        # A vendor's own programs on its own site are news, not a trick.
        if org_domain(link.host) not in reading.sender_domains:
            yield kinds.URL_DOWNLOAD.at(
                link.where,
                strength=1.0 if ending in _PROGRAM_ENDINGS else _ARCHIVE_DOWNLOAD,
                about=link.url,
                ending=ending,
            )
            return


def may_download(url: str) -> bool:
    """Return whether a URL ends like what `download` looks for."""
    return url.partition("?")[0].rpartition(".")[2].partition("#")[0].lower() in _DOWNLOAD_ENDINGS


def _name_in_path(url: str) -> str:
    """Return the last part of a URL's path; "" for one without a path."""
    _, slash, path = _QUERY.split(url, 1)[0].partition("://")[2].partition("/")
    return path.rpartition("/")[2] if slash else ""


MAX_PATH = 300
_NAMED_BY_PATH = frozenset({"web.archive.org", "archive.org", "validator.w3.org", "github.com", "gitlab.com"})
_LURE_WORD_OR_DOMAIN = re.compile(r"login|signin|secure|verify|account|update|webscr|confirm|\.com?/|\.com?\.|\.com$")
_LURE_WORD = re.compile(r"login|signin|secure|verify|account|update|webscr|confirm")
_BRAND_LABELS = [
    label
    for label, brand in BY_LABEL.items()
    if not brand.ordinary and len(label) >= (8 if brand.local else 5) and label.isascii()
]
_BRAND_NAME = compile_names(_BRAND_LABELS)
_SHORTEST_IN_PATH = 5
_PATH_SIGNS = re.compile(r"[^a-z0-9]")


@check(kinds.URL_BRAND_IN_PATH, needs={"lure-path"})
def brand_in_path(reading: Reading) -> Iterator[Finding]:
    """Links with a trusted site's name in the path of a foreign one:
    `http://broken-into.example/~x/www.paypal.com/login`.

    Kits are unpacked into a folder that bears the victim's name. Archives, proxies and news carry names in paths, too:
    only a whole domain as a folder counts, or the brand's name in one with a word like "login".
    """
    for link in reading.web_links:
        path = _read_path(link.url)
        if not _LURE_WORD_OR_DOMAIN.search(path) or link.host in _NAMED_BY_PATH or is_genuine(link.host):
            continue
        if found := _find_brand(path.partition("#")[0]) or _find_protected(path, link.host, reading):
            yield kinds.URL_BRAND_IN_PATH.at(link.where, about=link.url, host=link.host, named=found)
            return


def may_lure(url: str) -> bool:
    """Return whether the path of a URL has what `brand_in_path` looks for."""
    return _LURE_WORD_OR_DOMAIN.search(_read_path(url)) is not None


def _read_path(url: str) -> str:
    start = url.find("/", 8) + 1
    return url[start : start + MAX_PATH].partition("?")[0].lower() if start else ""


def _find_brand(path: str) -> str:
    folders = path.split("/")
    for folder in folders:
        name = folder.removeprefix("www.")
        # Archives of mail name their folders by Message-ID.
        if "." in name and "@" not in name and ending_exists(name) and is_genuine(name):
            return name
    match = _BRAND_NAME.search(path) if _LURE_WORD.search(path) else None
    # The name by itself or with the lure: "paypal/login", "paypal-login"; in a headline it stands among other words.
    return match.group() if match and any(_is_about_brand(folder, match.group()) for folder in folders) else ""


def _find_protected(path: str, host: str, reading: Reading) -> str:
    """Return the name of the operator's that stands in a path beside a lure, by itself or with it; "" for none."""
    names, owned = reading.protected.names, reading.protected.trusted_domains
    if not names or is_under(host, owned):
        return ""
    labels = index_protected(names).by_label if _LURE_WORD.search(path) else {}
    for folder in path.split("/"):
        if "." in folder and "@" not in folder and is_under(folder, owned):
            return folder
        for word in _PATH_SIGNS.split(folder):
            if len(word) >= _SHORTEST_IN_PATH and word in labels and _is_about_brand(folder, word):
                return labels[word].name
    return ""


def _is_about_brand(folder: str, name: str) -> bool:
    rest = folder.replace(name, "", 1)
    return name in folder and (not rest.strip("-_.") or (_LURE_WORD.search(rest) is not None and rest.count("-") < 3))


MAX_RECIPIENTS = 5
_FAREWELLS = (
    "unsub optout opt-out opt_out remove preference abmeld desinscri desabon subscri descadastr cancelar baja disiscri "
    "afmeld profile leave"
).split()
(_RECIPIENT_ELSEWHERE,) = coefficients(kinds.URL_RECIPIENT_ADDRESS, "elsewhere")


@check(kinds.URL_RECIPIENT_ADDRESS, kinds.URL_PERSONAL_REDIRECT, needs={"link"})
def recipient_in_link(reading: Reading) -> Iterator[Finding]:
    """Links that carry the recipient's address: in the path, the query, the fragment, plain or in base64.

    A phishing page shows the victim's own address in its form, and takes it from the link; the fragment, as in
    `#ann@example.com`, does not even reach the server's log. Newsletters carry it in their links to unsubscribe, and
    those lead to the sender's own domain or to its mailing service.

    A page that sends its reader on by itself (an attachment, mostly) to such an address is the entrance of a phishing
    kit: whoever has a page to show sends it, and whoever knows the reader already need not pass the address on.
    """
    if not reading.web_links or reading.is_known_post:
        return
    text = "\n".join(link.url for link in reading.web_links)
    named = (*reading.envelope.recipients, *map(str, reading.message.recipients[:MAX_RECIPIENTS]))
    addresses = {each.strip("<>").casefold() for each in named[: 2 * MAX_RECIPIENTS] if "@" in each}
    needles = [needle for address in addresses for needle in _spell_address(address) if needle in text]
    for link in reading.web_links if needles else ():
        if not any(needle in link.url for needle in needles):
            continue
        shown = f"{link.url} {link.shown}".casefold()
        if org_domain(link.host) not in reading.sender_domains and not any(mark in shown for mark in _FAREWELLS):
            in_fragment = any(needle in link.url.partition("#")[2] for needle in needles)
            yield kinds.URL_RECIPIENT_ADDRESS.at(
                link.where, strength=1.0 if in_fragment else _RECIPIENT_ELSEWHERE, about=link.url, host=link.host
            )
            redirects = (link for link in reading.web_links if link.source == "refresh")
            redirect = next((each for each in redirects if any(needle in each.url for needle in needles)), None)
            if redirect and org_domain(redirect.host) not in reading.sender_domains:
                yield kinds.URL_PERSONAL_REDIRECT.at(redirect.where, about=redirect.url, host=redirect.host)
            return


# Recipients are the operator's own people: the same ones again and again.
@lru_cache(4096)
def _spell_address(address: str) -> tuple[str, ...]:
    # Cut where the last group of three bytes is whole: what follows would change the rest.
    digits = base64.b64encode(address.encode("utf-8")).decode("ascii").rstrip("=")
    return address, address.replace("@", "%40"), digits[: len(address.encode("utf-8")) // 3 * 4]


_SHOWN_SOURCES = frozenset({"html", "file"})

# Only where the whole text is an address: a sentence that mentions a domain promises nothing.
_SHOWN_ADDRESS = re.compile(
    r"^\s*(?:https?://)?(?:[\w-]{1,63}\.){1,10}([a-z]{2,24})(?::\d{1,5})?(?:[/?#]\S*)?\s*$", re.IGNORECASE
)
_CLICK_COUNTER = re.compile(r"(?:clicks?|links?|track(?:ing)?|trk|go|e|em|email|mail|news|r|t|url\d*)\d{0,6}[.-]")
_FILE_ENDINGS = frozenset("html htm php asp aspx jsp pdf doc txt zip jpg png gif exe js css".split())
_TRUSTED_SITE_COUNTED, _OTHER_SITE, _OTHER_SITE_COUNTED = coefficients(
    kinds.URL_TEXT_MISMATCH, "trusted_counted", "other", "other_counted"
)


@check(kinds.URL_TEXT_MISMATCH, needs={"shown-name"})
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
            yield kinds.URL_TEXT_MISMATCH.at(
                link.where, strength=strength, about=link.url, shown=shown, leads_to=link.host
            )


def _measure_mismatch(shown: str, host: str, reading: Reading) -> float:
    """A site that is imitated often says most. Mailing services count clicks on shown addresses, too."""
    protected = reading.protected.trusted_domains
    counted = _CLICK_COUNTER.match(host) or is_tenant(host) or is_genuine(host) or reading.is_known_newsletter
    if (is_genuine(shown) or is_under(shown, protected)) and not is_genuine(host):
        return _TRUSTED_SITE_COUNTED if counted else 1.0
    # Under the sender's own domain it is the sender's own counter.
    if counted or reading.is_known_post or org_domain(host) in reading.sender_domains:
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
_SCAN_BASE, _PER_SCAN_REASON, _SCAN_CODE, _SCAN_HOME = coefficients(
    kinds.TEXT_QR_LURE, "base", "per_reason", "code", "home"
)


@check(kinds.URL_QR_CODE, kinds.URL_DRAWN_CODE, kinds.TEXT_QR_LURE, needs={"trait", "link-in-file", "theme:scan"})
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
        yield kinds.URL_QR_CODE.at(link.where, about=link.url, leads_to=host)
    for file in reading.files:
        for how in file.seen("drawn-code") if file.traits else ():
            yield kinds.URL_DRAWN_CODE.at(file.path, about=file.document, how=how)
    phrases = find_phrases(reading)
    words = phrases.of("scan")
    if not words or phrases.length > _LONG_TEXT:
        return
    reasons = phrases.of(*_SCAN_REASONS)
    code = any(link.source == "qr" for link in reading.links)
    degree = _SCAN_BASE + _PER_SCAN_REASON * min(_MOST_SCAN_REASONS, len(reasons)) + _SCAN_CODE * code
    # Tickets of a railway that is known lead to that railway.
    is_home = bool(hosts) and all(org_domain(host) in reading.sender_domains for host in hosts)
    strength = min(1.0, degree) * (_SCAN_HOME if is_home and reading.is_known_sender else 1.0)
    yield kinds.TEXT_QR_LURE.at("text", strength=round(strength, 2), words=quote((*words, *reasons)))
