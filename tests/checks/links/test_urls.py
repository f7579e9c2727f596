"""The checks of `links/urls`: the tricks, and what looks like them."""

import base64

import msgspec
import pytest
from tests.checks.readings import find_kinds, find_strengths, link, mail_from
from tests.known_senders import SELDOM, know_list, know_member, know_sender

from gatepost.checks.links.urls import brand_in_path, download, recipient_in_link, redirects, shortened_links, url_form
from gatepost.checks.reading import Check, Reading
from gatepost.mail.links import Source
from gatepost.mail.message import Envelope, Link, Message


def kinds(check: Check, *links: Link, sender: str = "x@shop.com") -> list[str]:
    return find_kinds(check, mail_from(sender, links=links))


# Shapes of host names.
@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("https://a.b.c.d.evil.com/", ["url:deep-subdomain"]),
        ("https://secure-login-for-your-account.com/", ["url:many-hyphens"]),
        ("https://www.corp.com/", []),
        ("https://a.b.corp.co.uk/", []),
        ("https://my-other-shop.com/", []),
        ("https://a.b.c.d.google.com/", []),
        ("https://a.b.c.d.akamaihd.net/", []),
        ("https://us-east1-team-one-386404.cloudfunctions.net/", []),  # hosted pages are named by machines
        ("https://192.0.2.1/", []),
        ("https://xn--a-b-c-d-e-1ga.com/", []),
        # Links to unusual doors.
        ("http://evil.com:4080/login", ["url:odd-port"]),
        ("https://evil.com:8443/", ["url:odd-port"]),
        ("http://evil.com:81?x", ["url:odd-port"]),
        ("https://corp.com/", []),
        ("https://corp.com/a:80/b", []),
        ("https://corp.com/?x=a:8080", []),
        ("https://corp.com/#:8080", []),
        # False hosts before the real one.
        ("https://bank.com@evil.com/", ["url:userinfo"]),
        ("http://user:secret@evil.com/", ["url:userinfo"]),
        ("https://medium.com/@ann/story", []),
        ("https://corp.com/?mail=ann@corp.com", []),
        ("ftp://anonymous@ftp.corp.com/", []),
    ],
)
def test_url_form(url: str, found: list[str]) -> None:
    assert kinds(url_form, link(url)) == found


# Links that start at a well-known site.
SAFE_LINKS = "nam01.safelinks.protection.outlook.com"


@pytest.mark.parametrize(
    ("host", "wrapped", "sender", "found"),
    [
        ("evil.com", ("www.google.com",), "x@shop.com", ["url:open-redirect"]),
        ("evil.com", (SAFE_LINKS, "www.google.com"), "x@shop.com", ["url:open-redirect"]),
        ("evil.com", (), "x@shop.com", []),
        ("evil.com", (SAFE_LINKS,), "x@shop.com", []),
        ("shop.com", ("click.mailer.com",), "x@shop.com", []),  # a click counter
        ("news.com", ("www.google.com",), "alerts@google.com", []),
        ("accounts.google.com", ("www.google.com",), "x@shop.com", []),
        ("www.youtube.com", ("www.facebook.com",), "x@shop.com", []),
    ],
)
def test_redirect(host: str, wrapped: tuple[str, ...], sender: str, found: list[str]) -> None:
    assert kinds(redirects, link(f"https://{host}/", wrapped=wrapped), sender=sender) == found


# Links through shorteners.
@pytest.mark.parametrize(
    ("url", "sender", "found"),
    [
        ("https://bit.ly/x", "x@shop.com", ["url:shortener"]),
        ("https://go.short.io/x", "x@shop.com", ["url:shortener"]),
        ("https://t.co/x", "x@shop.com", ["url:shortener"]),
        ("https://t.co/x", "x@t.co", []),
        ("https://habit.ly/x", "x@shop.com", []),
        ("https://bit.ly.corp.com/x", "x@shop.com", []),
        ("https://corp.com/bit.ly/x", "x@shop.com", []),
    ],
)
def test_shortener(url: str, sender: str, found: list[str]) -> None:
    assert kinds(redirects, link(url), sender=sender) == found


def test_a_picture_is_not_followed() -> None:
    assert kinds(redirects, link("https://bit.ly/x", source="image")) == []


# Links that download.
@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("https://evil.com/setup.exe", ["url:download"]),
        ("https://evil.com/a/invoice.zip?x=1", ["url:download"]),
        ("https://evil.com/invoice.pdf.js", ["url:double-extension", "url:download"]),
        ("https://evil.com/invoice.pdf.html", ["url:double-extension"]),
        ("https://corp.com/report.pdf", []),
        ("https://shop.com/tool.exe", []),  # the sender's own
        ("https://corp.com/", []),
        ("https://exe.zip/", []),
        ("https://corp.com/exe", []),
        ("https://corp.com/page?file=setup.exe", []),
        ("https://corp.com/jquery.min.html", []),
    ],
)
def test_download(url: str, found: list[str]) -> None:
    assert kinds(download, link(url)) == found


# Trusted names in foreign paths.
@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("http://evil.com/~x/www.paypal.com/login", ["url:brand-in-path"]),
        ("http://evil.com/paypal.com/", ["url:brand-in-path"]),
        ("http://evil.com/paypal/login.php", ["url:brand-in-path"]),
        ("http://evil.com/paypal-login/index.html", ["url:brand-in-path"]),
        ("https://www.paypal.com/login", []),
        ("https://web.archive.org/web/www.paypal.com/", []),
        ("https://lists.com/archive/x1@mail.gmail.com/", []),
        ("https://news.com/2026/paypal-raises-its-fees-again-account-holders-angry", []),
        ("https://shop.com/brands/dewalt/", []),
        ("https://evil.com/?u=paypal.com/login", []),
        ("https://corp.com/login", []),
        ("https://corp.com/", []),
    ],
)
def test_brand_in_path(url: str, found: list[str]) -> None:
    assert kinds(brand_in_path, link(url)) == found


# Links that carry the recipient's address.
ENCODED = base64.b64encode(b"ann@corp.example").decode().rstrip("=")


@pytest.mark.parametrize(
    ("url", "strength"),
    [
        ("https://evil.com/login#ann@corp.example", 1.0),
        (f"https://evil.com/x#{ENCODED}", 1.0),
        ("https://evil.com/login?e=ann@corp.example", 0.3),
        ("https://evil.com/login?e=ann%40corp.example", 0.3),
        (f"https://evil.com/{ENCODED}/x", 0.3),
        ("https://shop.com/login#ann@corp.example", 0.0),  # the sender's own site
        ("https://mailer.com/unsubscribe?e=ann@corp.example", 0.0),
        ("https://evil.com/login#bob@corp.example", 0.0),
        ("https://evil.com/ann", 0.0),
        ("https://evil.com/", 0.0),
    ],
)
def test_recipient_in_link(url: str, strength: float) -> None:
    reading = mail_from("x@shop.com", links=[link(url)], envelope=Envelope("x@shop.com", ("<Ann@corp.example>",)))
    found = [(finding.kind, finding.strength) for finding in recipient_in_link(reading)]
    assert found == ([("url:recipient-address", strength)] if strength else [])


def test_without_recipients_there_is_nothing_to_find() -> None:
    message = Message(links=(link("https://evil.com/@"),))
    assert not list(recipient_in_link(Reading(message, Envelope("x@shop.com", ("", "<>")))))


# Pages that redirect to an address that carries the recipient's.
@pytest.mark.parametrize(
    ("url", "source", "found"),
    [
        ("https://evil.com/#ann@corp.example", "refresh", True),
        ("https://evil.com/?e=ann%40corp.example", "refresh", True),
        ("https://evil.com/#" + base64.b64encode(b"ann@corp.example").decode(), "refresh", True),
        ("https://evil.com/#ann@corp.example", "html", False),
        ("https://shop.com/?e=ann@corp.example", "refresh", False),
        ("https://evil.com/", "refresh", False),
        ("https://list.com/unsubscribe?e=ann@corp.example", "refresh", False),
    ],
)
def test_personal_redirect(url: str, source: Source, found: bool) -> None:
    links = [link(url, source=source)]
    reading = mail_from("x@shop.com", links=links, envelope=Envelope("x@shop.com", ("<ann@corp.example>",)))
    assert ("url:personal-redirect" in find_kinds(recipient_in_link, reading)) is found


# Shortened links and hardly a word.
SHORTENED = (link("https://bit.ly/3AbCdE1"), link("https://tinyurl.com/4zd3jacb"))


def shortened(links: tuple[Link, ...], sender: str, text: str, field: str) -> Reading:
    return mail_from(sender, links=links, text=text, fields={field: "<1@x>"} if field else {})


@pytest.mark.parametrize(
    ("links", "sender", "text", "field", "found"),
    [
        (SHORTENED, "x@gmail.com", "Open", "", True),
        (SHORTENED, "x@gmail.com", "", "", True),
        ((*SHORTENED, link("https://i.example.com/a.png")), "x@gmail.com", "Open", "", True),
        (SHORTENED[:1], "x@gmail.com", "Here is the way to the lake", "", False),
        (SHORTENED, "x@shop.com", "Open", "", False),
        (SHORTENED, "x@gmail.com", "word " * 200, "", False),
        (SHORTENED, "x@gmail.com", "Open", "in-reply-to", True),
        (SHORTENED, "x@gmail.com", "Open", "list-post", True),
        ((*SHORTENED, link("https://a.com/"), link("https://b.com/")), "x@gmail.com", "Open", "", False),
        ((), "x@gmail.com", "Open", "", False),
    ],
)
def test_shortened_links(links: tuple[Link, ...], sender: str, text: str, field: str, found: bool) -> None:
    reading = shortened(links, sender, text, field)
    assert find_kinds(shortened_links, reading) == ["url:shortened-links"] * found


def test_shortened_links_of_people_and_lists_that_are_known() -> None:
    assert not list(shortened_links(know_sender(shortened(SHORTENED, "x@gmail.com", "Open", "in-reply-to"))))
    assert not list(shortened_links(know_member(shortened(SHORTENED, "x@gmail.com", "Open", "list-post"))))
    assert list(shortened_links(know_sender(shortened(SHORTENED, "x@gmail.com", "Open", ""))))


def test_a_known_sender_may_shorten_its_links() -> None:
    reading = shortened(SHORTENED[:1], "x@shop.com", "Open", "list-unsubscribe")
    assert find_strengths(redirects, reading) == [1.0]
    assert find_strengths(redirects, know_sender(reading)) == [0.5]


@pytest.mark.parametrize(
    ("check", "url"),
    [(download, "https://evil.com/setup.exe"), (recipient_in_link, "https://evil.com/#ann@corp.example")],
)
def test_members_of_a_known_list_link_to_what_they_like(check: Check, url: str) -> None:
    posted = shortened((link(url),), "x@shop.com", "Look", "list-post")
    reading = msgspec.structs.replace(posted, envelope=Envelope("x@shop.com", ("<ann@corp.example>",)))
    assert list(check(reading))
    assert list(check(know_list(reading, SELDOM)))
    assert not list(check(know_member(reading)))
