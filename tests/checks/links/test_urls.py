"""The checks of `links/urls`: the tricks, and what looks like them."""

import base64

import msgspec
import pytest
from tests.known_senders import SELDOM, know_list, know_member, know_sender

from gatepost.checks.links.urls import brand_in_path, download, recipient_in_link, redirects, shortened_links, url_form
from gatepost.checks.reading import Check, Reading
from gatepost.findings.kinds import (
    URL_BRAND_IN_PATH,
    URL_DEEP_SUBDOMAIN,
    URL_DOUBLE_EXTENSION,
    URL_DOWNLOAD,
    URL_MANY_HYPHENS,
    URL_ODD_PORT,
    URL_OPEN_REDIRECT,
    URL_PERSONAL_REDIRECT,
    URL_RECIPIENT_ADDRESS,
    URL_SHORTENED_LINKS,
    URL_SHORTENER,
    URL_USERINFO,
)
from gatepost.mail.message import Envelope, Field, Headers, Link, Message, Text
from gatepost.names import Address


def link(url: str, shown: str = "", source: str = "html", wrapped: tuple[str, ...] = ()) -> Link:
    host = url.partition("://")[2].partition("/")[0].partition("?")[0].rpartition("@")[2].partition(":")[0]
    return Link(url, url, host, shown, "1", source, wrapped)  # type: ignore[arg-type]


def kinds(check: Check, *links: Link, sender: str = "x@shop.com") -> list[str]:
    local, _, domain = sender.partition("@")
    reading = Reading(Message(senders=(Address("", local, domain),), links=links))
    return [finding.kind for finding in check(reading)]


# Shapes of host names.
@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("https://a.b.c.d.evil.com/", [URL_DEEP_SUBDOMAIN.id]),
        ("https://secure-login-for-your-account.com/", [URL_MANY_HYPHENS.id]),
        ("https://www.corp.com/", []),
        ("https://a.b.corp.co.uk/", []),
        ("https://my-other-shop.com/", []),
        ("https://a.b.c.d.google.com/", []),
        ("https://a.b.c.d.akamaihd.net/", []),
        ("https://us-east1-team-one-386404.cloudfunctions.net/", []),  # hosted pages are named by machines
        ("https://192.0.2.1/", []),
        ("https://xn--a-b-c-d-e-1ga.com/", []),
    ],
)
def test_host_shape(url: str, found: list[str]) -> None:
    assert kinds(url_form, link(url)) == found


# Links to unusual doors.
@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("http://evil.com:4080/login", [URL_ODD_PORT.id]),
        ("https://evil.com:8443/", [URL_ODD_PORT.id]),
        ("http://evil.com:81?x", [URL_ODD_PORT.id]),
        ("https://corp.com/", []),
        ("https://corp.com/a:80/b", []),
        ("https://corp.com/?x=a:8080", []),
        ("https://corp.com/#:8080", []),
    ],
)
def test_odd_port(url: str, found: list[str]) -> None:
    assert kinds(url_form, link(url)) == found


# False hosts before the real one.
@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("https://bank.com@evil.com/", [URL_USERINFO.id]),
        ("http://user:secret@evil.com/", [URL_USERINFO.id]),
        ("https://medium.com/@ann/story", []),
        ("https://corp.com/?mail=ann@corp.com", []),
        ("https://corp.com/", []),
        ("ftp://anonymous@ftp.corp.com/", []),
    ],
)
def test_userinfo(url: str, found: list[str]) -> None:
    assert kinds(url_form, link(url)) == found


# Links that start at a well-known site.
@pytest.mark.parametrize(
    ("host", "wrapped", "sender", "found"),
    [
        ("evil.com", ("www.google.com",), "x@shop.com", [URL_OPEN_REDIRECT.id]),
        (
            "evil.com",
            ("nam01.safelinks.protection.outlook.com", "www.google.com"),
            "x@shop.com",
            [URL_OPEN_REDIRECT.id],
        ),
        ("evil.com", (), "x@shop.com", []),
        ("evil.com", ("nam01.safelinks.protection.outlook.com",), "x@shop.com", []),
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
        ("https://bit.ly/x", "x@shop.com", [URL_SHORTENER.id]),
        ("https://go.short.io/x", "x@shop.com", [URL_SHORTENER.id]),
        ("https://t.co/x", "x@shop.com", [URL_SHORTENER.id]),
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
        ("https://evil.com/setup.exe", [URL_DOWNLOAD.id]),
        ("https://evil.com/a/invoice.zip?x=1", [URL_DOWNLOAD.id]),
        ("https://evil.com/invoice.pdf.js", [URL_DOUBLE_EXTENSION.id, URL_DOWNLOAD.id]),
        ("https://evil.com/invoice.pdf.html", [URL_DOUBLE_EXTENSION.id]),
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
        ("http://evil.com/~x/www.paypal.com/login", [URL_BRAND_IN_PATH.id]),
        ("http://evil.com/paypal.com/", [URL_BRAND_IN_PATH.id]),
        ("http://evil.com/paypal/login.php", [URL_BRAND_IN_PATH.id]),
        ("http://evil.com/paypal-login/index.html", [URL_BRAND_IN_PATH.id]),
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
    host = url.partition("://")[2].partition("/")[0]
    link = Link(url, url, host, "", "1", "html")
    message = Message(senders=(Address("", "x", "shop.com"),), links=(link,))
    found = list(recipient_in_link(Reading(message, Envelope("x@shop.com", ("<Ann@corp.example>",)))))
    assert [(finding.kind, finding.strength) for finding in found] == (
        [(URL_RECIPIENT_ADDRESS.id, strength)] if strength else []
    )


def test_without_recipients_there_is_nothing_to_find() -> None:
    link = Link("https://evil.com/@", "https://evil.com/@", "evil.com", "", "1", "html")
    assert list(recipient_in_link(Reading(Message(links=(link,)), Envelope("x@shop.com", ("", "<>"))))) == []


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
def test_personal_redirect(url: str, source: str, found: bool) -> None:
    message = Message(senders=(Address("", "x", "shop.com"),), links=(link(url, source=source),))
    reading = Reading(message, Envelope("x@shop.com", ("<ann@corp.example>",)))
    assert (URL_PERSONAL_REDIRECT.id in [finding.kind for finding in recipient_in_link(reading)]) is found


# Shortened links and hardly a word.
SHORTENED = (link("https://bit.ly/3AbCdE1"), link("https://tinyurl.com/4zd3jacb"))


def shortened(links: tuple[Link, ...], sender: str, text: str, field: str) -> Reading:
    local, _, domain = sender.partition("@")
    message = Message(
        headers=Headers((Field(field, "<1@x>", b""),) if field else ()),
        senders=(Address("", local, domain),),
        links=links,
        texts=(Text("1", "plain", text),),
    )
    return Reading(message)


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
    assert [finding.kind for finding in shortened_links(reading)] == [URL_SHORTENED_LINKS.id] * found


def test_shortened_links_of_people_and_lists_that_are_known() -> None:
    assert not list(shortened_links(know_sender(shortened(SHORTENED, "x@gmail.com", "Open", "in-reply-to"))))
    assert not list(shortened_links(know_member(shortened(SHORTENED, "x@gmail.com", "Open", "list-post"))))
    assert list(shortened_links(know_sender(shortened(SHORTENED, "x@gmail.com", "Open", ""))))


def test_a_known_sender_may_shorten_its_links() -> None:
    reading = shortened(SHORTENED[:1], "x@shop.com", "Open", "list-unsubscribe")
    assert [finding.strength for finding in redirects(reading)] == [1.0]
    assert [finding.strength for finding in redirects(know_sender(reading))] == [0.5]


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
