"""Marks tell shapes and relations, and never a name."""

import pytest

from gatepost.files.values import File
from gatepost.mail.message import Field, Headers, Link, Message, Text
from gatepost.mail.reader import read
from gatepost.names import Address
from gatepost.textmodel.features import marks


def link(url: str, source: str = "html") -> Link:
    return Link(url, url, url.partition("://")[2].partition("/")[0], "", "1", source)  # type: ignore[arg-type]


def mail(*urls: str, domain: str = "shop.example") -> Message:
    return Message(senders=(Address("", "a", domain),), links=tuple(link(url) for url in urls))


@pytest.mark.parametrize(
    ("urls", "mark"),
    [
        (["https://www.shop.example/a"], "#own-links all"),
        (["https://shop.example/", "https://track.example.net/"], "#own-links some"),
        (["https://evil.test/"], "#own-links none"),
        (["https://192.0.2.7/login"], "#host number"),
        (["https://pay-pal.test/"], "#host hyphen"),
        (["http://a.test/x/y?id=1"], "#insecure"),
        ([], "#links 0"),
    ],
)
def test_links(urls: list[str], mark: str) -> None:
    assert mark in marks(mail(*urls), ())


def test_no_mark_names_a_host() -> None:
    found = marks(mail("https://very-special-host7.example/path", domain="sender-name.example"), ())
    assert not [mark for mark in found if "special" in mark or "sender-name" in mark]


@pytest.mark.parametrize(
    ("fields", "mark"),
    [
        (["in-reply-to"], "#answers"),
        (["list-unsubscribe"], "#leave link"),
        (["list-unsubscribe", "list-unsubscribe-post"], "#leave one-click"),
        (["list-unsubscribe", "list-post"], "#list"),
    ],
)
def test_how_mail_stands_among_people(fields: list[str], mark: str) -> None:
    headers = Headers(tuple(Field(name, "x", b"") for name in fields))
    assert mark in marks(Message(headers=headers), ())
    assert mark not in marks(Message(), ())


def test_attached_files_and_hidden_text() -> None:
    text = Text("1", "html", "short", "hidden words " * 20)
    found = marks(Message(texts=(text,)), (File("1", b"", "html", ""), File("2", b"", "pdf", "")))
    assert "#file pdf" in found
    assert "#file html" not in found  # that is the text itself
    assert "#hidden 3" in found


def test_marks_come_once() -> None:
    found = marks(read(b"From: a@b.example\r\n\r\nhttps://a.test/ https://b.test/ https://c.test/\r\n"), ())
    assert len(found) == len(set(found))
