"""Lay out letters as notices: the HTML, links, header fields and DNS with which services send mail.

A book of notices (`letters/*-notices.toml`) says what a service, or somebody who imitates one, writes. `lay_out` gives
a letter one of several looks (`letters/layouts`), drawn by a digest of its text: a linked logo, a hidden preheader, a
button, a table, a footer, a tracking pixel, links through a counter of clicks, and fields of the service that sends it.
Honest notices and lures are drawn alike, and SPF and DMARC prove the domain in From of all of them, so that only what
they say and where they lead tells them apart.
"""

import random
import re
import tomllib
from base64 import urlsafe_b64encode
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from email.header import Header
from email.mime.base import MIMEBase
from email.mime.multipart import MIMEMultipart
from email.mime.text import MIMEText
from email.utils import format_datetime, formataddr
from functools import cache
from pathlib import Path
from typing import Any
from zlib import crc32

import msgspec
from jinja2 import Environment, FileSystemLoader, Template
from markupsafe import Markup, escape

from gatepost.names import org_domain

RECIPIENT = "reader@recipient.example"
LAYOUTS = Path(__file__).parents[1] / "letters" / "layouts"
# Networks for documentation (RFC 5737).
_NETWORKS = ("192.0.2", "198.51.100", "203.0.113")
_START = datetime(2026, 1, 5, 6, 0, tzinfo=UTC)
_LINK = re.compile(r"\[([^\]\n]{1,300})\]\((https?://[^)\s]{1,500})\)")
_ITEM = re.compile(r"[-•*] ")
# A line of a table: "Total: 12,50 €", "2 × Cup …… 12.00".
_ROW = re.compile(r"(.{2,60}?)(?:[:：]\s*|\s*(?:\.{3,}|…+)\s*)(\S.{0,60})")


class Notice(msgspec.Struct, frozen=True):
    """A message as a service sends it, its envelope, and the DNS records that prove its sender."""

    raw: bytes
    mail_from: str
    client: str
    helo: str
    records: Mapping[str, Mapping[str, list[str]]]


def lay_out(name: str, address: str, subject: str, text: str) -> Notice:
    """Return a letter as a service would send it."""
    draw = _Draw(text)
    domain = address.rpartition("@")[2]
    site = org_domain(domain)
    mail_from = address if draw.happens(0.3) else f"bounce-{draw.token(10).lower()}@{draw.one_of(*_BOUNCES)}.{site}"
    # Letters of one domain come from one host.
    number, host = crc32(site.encode()), f"mail.{site}"
    client = f"{_NETWORKS[number % 3]}.{number // 3 % 250 + 2}"
    when = _START + timedelta(minutes=draw.number(400_000))
    body = _write_body(draw, name, site, text)
    body["Received"] = (
        f"from {host} ({host} [{client}])\n\tby mx.recipient.example (Postfix) with ESMTPS id {draw.token(11)}\n"
        f"\tfor <{RECIPIENT}>; {format_datetime(when)}"
    )
    body["From"] = formataddr((name, address))
    body["To"] = RECIPIENT
    body["Subject"] = Header(subject, "utf-8").encode()
    body["Date"] = format_datetime(when - timedelta(seconds=draw.number(8)))
    body["Message-ID"] = f"<{draw.token(22)}@{draw.one_of(host, domain)}>"
    for field, value in draw.one_of(*_load_senders()).items():
        body[field] = value.format(token=draw.token(28), number=draw.number(250), domain=domain)
    return Notice(body.as_bytes(), mail_from, client, host, _prove({mail_from, address}, site, client, host))


_BOUNCES = ("bounces", "em", "mail", "send")


class _Draw:
    """What is drawn for a letter, the same each time."""

    def __init__(self, text: str) -> None:
        self._chance = random.Random(crc32(text.encode()))  # noqa: S311  nothing here is secret

    def happens(self, share: float) -> bool:
        """Return whether something happens that happens to this share of all letters."""
        return self._chance.random() < share

    def number(self, most: int) -> int:
        """Return a number from 1 on."""
        return self._chance.randint(1, most)

    def one_of(self, *things: Any) -> Any:
        """Return one of these things."""
        return self._chance.choice(things)

    def token(self, size: int) -> str:
        """Return letters and digits."""
        return urlsafe_b64encode(self._chance.randbytes(size)).decode()[:size].replace("_", "x").replace("-", "y")


@cache
def _load_senders() -> tuple[dict[str, str], ...]:
    """Return the fields of each service or program that sends notices."""
    return tuple(tomllib.loads((LAYOUTS / "senders.toml").read_text("utf-8"))["senders"])


@cache
def _load_pages() -> tuple[Template, ...]:
    """Return the layouts."""
    pages = Environment(loader=FileSystemLoader(LAYOUTS), autoescape=True, trim_blocks=True)
    return tuple(pages.get_template(path.name) for path in sorted(LAYOUTS.glob("*.html")))


def _prove(addresses: set[str], site: str, client: str, host: str) -> dict[str, dict[str, list[str]]]:
    """Return the records of SPF (RFC 7208) and DMARC (RFC 7489), and the names of the host."""
    senders = {site, *(address.rpartition("@")[2] for address in addresses)}
    records = {name: {"TXT": [f"v=spf1 ip4:{client} -all"], "MX": [f"10 {host}"]} for name in senders}
    records[f"_dmarc.{site}"] = {"TXT": ["v=DMARC1; p=quarantine"]}
    records.setdefault(host, {})["A"] = [client]
    records[f"{'.'.join(reversed(client.split('.')))}.in-addr.arpa"] = {"PTR": [host]}
    return records


class _Links:
    """Links as the mailer of a letter writes them: as they are, or through a counter of clicks."""

    def __init__(self, draw: _Draw) -> None:
        self._draw = draw
        self._form = draw.one_of(*["{url}"] * 3, _COUNTED_BY_HOST, _COUNTED_BY_PATH, _COUNTED_BY_QUERY)
        self._host = draw.one_of("click", "links", "email", "track", "url1204")

    def write(self, url: str) -> str:
        """Return the address to which a link leads."""
        site = org_domain(re.split(r"[/?#:]", url.partition("://")[2], maxsplit=1)[0])
        begin, token = "&" if "?" in url else "?", self._draw.token(60)
        return str(self._form.format(url=url, site=site, host=self._host, token=token, begin=begin))


_COUNTED_BY_HOST = "https://{host}.{site}/ls/click?upn=u001.{token}"
_COUNTED_BY_PATH = "https://{host}.{site}/c/eJw{token}"
_COUNTED_BY_QUERY = "{url}{begin}utm_source=crm&utm_medium=email&mid={token}"


def _write_body(draw: _Draw, name: str, site: str, text: str) -> MIMEBase:
    links = _Links(draw)
    plain = _LINK.sub(lambda link: f"{link[1]}: {links.write(link[2])}", text.strip("\n")) + "\n"
    if draw.happens(0.08):
        return MIMEText(plain, "plain", "utf-8")
    colour = f"#{draw.number(0xFFFFFF):06x}"
    pixel = Markup('<img src="https://{}/o/{}.gif" width="1" height="1" alt="">').format(site, draw.token(24))
    page = draw.one_of(*_load_pages()).render(
        colour=colour,
        logo=_draw_logo(draw, name, site, links) if draw.happens(0.85) else "",
        pixel=pixel if draw.happens(0.6) else "",
        preheader=_LINK.sub(r"\1", text.strip().partition("\n\n")[0])[:110] if draw.happens(0.5) else "",
        blocks=list(_write_blocks(links, colour, text)),
    )
    html = MIMEText(page, "html", "utf-8")
    if draw.happens(0.2):
        return html
    return MIMEMultipart("alternative", f"=_{draw.token(16)}", (MIMEText(plain, "plain", "utf-8"), html))


def _draw_logo(draw: _Draw, name: str, site: str, links: _Links) -> Markup:
    """Return the name of the sender, or a picture of it, which most mailers link to their site."""
    if draw.happens(0.25):
        return Markup("<strong>{}</strong>").format(name)
    host, width = draw.one_of("static", "img", "cdn", "www"), draw.one_of(96, 120, 140, 160, 180)
    source = f"https://{host}.{site}/{draw.token(6).lower()}/logo.png"
    picture = Markup('<img src="{}" alt="{}" width="{}" border="0">').format(source, name, width)
    home = links.write(f"https://www.{site}/")
    return picture if draw.happens(0.4) else Markup('<a href="{}">{}</a>').format(home, picture)


def _write_blocks(links: _Links, colour: str, text: str) -> Iterator[tuple[str, Markup]]:
    """Yield the paragraphs of a text as HTML, each with its kind: the last ones are small."""
    parts = [part.splitlines() for part in text.strip().split("\n\n") if part.strip()]
    for number, lines in enumerate(parts):
        kind = "small" if number > 2 and number >= len(parts) - 2 else "text"
        yield kind, _write_block(links, colour, lines, is_small=kind == "small")


def _write_block(links: _Links, colour: str, lines: Sequence[str], *, is_small: bool) -> Markup:
    if len(lines) == 1 and _LINK.fullmatch(lines[0].strip()) and not is_small:
        style = f"display:inline-block;padding:12px 26px;background-color:{colour};color:#ffffff;border-radius:4px"
        return _write_line(links, lines[0].strip(), style)
    if all(map(_ITEM.match, lines)):
        return Markup("<ul>{}</ul>").format(
            _join(Markup("<li>{}</li>").format(_write_line(links, line[2:])) for line in lines)
        )
    rows = [_ROW.fullmatch(line) for line in lines]
    if len(lines) > 1 and all(rows) and not any(map(_LINK.search, lines)):
        cells = (Markup('<tr><td>{}</td><td align="right">{}</td></tr>').format(row[1], row[2]) for row in rows if row)
        return Markup('<table width="100%" cellpadding="4">{}</table>').format(_join(cells))
    return Markup("<br>\n").join(_write_line(links, line) for line in lines)


def _join(parts: Iterator[Markup]) -> Markup:
    return Markup("").join(parts)


def _write_line(links: _Links, line: str, style: str = "") -> Markup:
    """Return a line with its links as HTML; one with a style is a button."""
    written, place = Markup(""), 0
    for link in _LINK.finditer(line):
        target = links.write(link[2])
        anchor = Markup('<a href="{}" style="{}">{}</a>') if style else Markup('<a href="{}">{}{}</a>')
        written += escape(line[place : link.start()]) + anchor.format(target, style, link[1])
        place = link.end()
    return written + escape(line[place:])
