"""Readings in as few words as a row of a table has, and what a check finds in one."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, TypeVar

from gatepost.checks.reading import Check, Reading
from gatepost.mail.links import Source
from gatepost.mail.message import Envelope, Field, Headers, Link, Message, Text
from gatepost.mail.reader import read
from gatepost.names import Address

T = TypeVar("T")
NO_FIELDS: Mapping[str, str] = MappingProxyType({})


def letter(
    text: str = "",
    subject: str = "Hello",
    *,
    link: str = "",
    picture: bool = False,
    sender: str = "Service <desk@sender.example>",
    envelope: str = "desk@sender.example",
    fields: str = "",
) -> Reading:
    """A letter, written as mail and read by the reader: HTML where there is a link or a picture, else plain text."""
    body, kind = text, "plain"
    if link or picture:
        inside = '<img src="https://pictures.example/x.png">' if picture else "Continue"
        body = f"<p>{text.replace(chr(10), '<br>')}</p>" + (f'<a href="{link}">{inside}</a>' if link else inside)
        kind = "html"
    raw = f"From: {sender}\nTo: ann@house.example\nSubject: {subject}\n{fields}"
    raw += f"Content-Type: text/{kind}; charset=utf-8\n\n{body}\n"
    return Reading(read(raw.encode()), Envelope(envelope, ("ann@house.example",), "192.0.2.1"))


def open_letter(written: str, link: str = "") -> Reading:
    """A letter whose first line is its subject."""
    subject, _, text = written.partition("\n")
    return letter(text, subject, link=link)


def list_rows(table: Mapping[str, Iterable[T]]) -> list[tuple[str, T]]:
    """The rows of a table that states once what its rows have in common."""
    return [(common, each) for common, rows in table.items() for each in rows]


def mail_from(
    sender: str = "",
    name: str = "",
    *,
    links: Iterable[Link] = (),
    fields: Mapping[str, str] = NO_FIELDS,
    text: str = "",
    **known: Any,
) -> Reading:
    """A mail of which only the parts that are named here matter: the address in From, its name, links, header fields
    and a text, and what else is `known` of the mail."""
    local, _, domain = sender.partition("@")
    message = Message(
        headers=Headers(tuple(Field(field, value, b"") for field, value in fields.items())),
        senders=(Address(name, local, domain),) if sender else (),
        links=tuple(links),
        texts=(Text("1", "plain", text),) if text else (),
    )
    return Reading(message, **known)


def link(url: str, shown: str = "", source: Source = "html", wrapped: tuple[str, ...] = ()) -> Link:
    host = url.partition("://")[2].partition("/")[0].partition("?")[0].rpartition("@")[2].partition(":")[0]
    return Link(url, url, host, shown, "1", source, wrapped)


def links_to(*hosts: str, shown: str = "") -> tuple[Link, ...]:
    return tuple(link(f"https://{host}/", shown) for host in hosts)


def find_kinds(check: Check, reading: Reading, least: float = 0.0) -> list[str]:
    """The tags of what a check finds, from the strength `least` on."""
    return [finding.kind for finding in check(reading) if finding.strength >= least]


def find_strengths(check: Check, reading: Reading) -> list[float]:
    return [finding.strength for finding in check(reading)]
