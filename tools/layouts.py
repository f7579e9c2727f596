"""Lay out letters as notices: the HTML, links, header fields and DNS with which services send mail.

A book of notices (`letters/*-notices.toml`) says what a service, or somebody who imitates one, writes. `lay_out` gives
a letter the looks of one of several mailers, drawn by a digest of its text: a linked logo, a hidden preheader, a
button, a table, a footer, a tracking pixel, links through a counter of clicks, and fields of the service that sends it.
Honest notices and lures are drawn alike, and SPF and DMARC prove the domain in From of all of them, so that only what
they say and where they lead tells them apart.
"""

import random
import re
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from email.header import Header
from email.mime.base import MIMEBase
from email.mime.multipart import MIMEMultipart
from email.mime.text import MIMEText
from email.utils import format_datetime, formataddr
from html import escape
from zlib import crc32

import msgspec

from gatepost.names import org_domain

RECIPIENT = "reader@recipient.example"
_NETWORKS = ("192.0.2", "198.51.100", "203.0.113")
_START = datetime(2026, 1, 5, 6, 0, tzinfo=UTC)
_LINK = re.compile(r"\[([^\]\n]{1,300})\]\((https?://[^)\s]{1,500})\)")
_URL = re.compile(r"(?<!\()https?://[^\s)\]]+")
_ITEM = re.compile(r"[-•*] ")
# A line of a table: "Total: 12,50 €", "2 × Cup …… 12.00".
_ROW = re.compile(r"(.{2,60}?)(?:[:：]\s*|\s*(?:\.{3,}|…{1,})\s*)(\S.{0,60})")


class Notice(msgspec.Struct, frozen=True):
    """A message as a service sends it, its envelope, and the DNS records that prove its sender."""

    raw: bytes
    mail_from: str
    client: str
    helo: str
    records: Mapping[str, Mapping[str, list[str]]]


class _Look(msgspec.Struct, frozen=True):
    """What is drawn for one letter: colours, pictures and links."""

    chance: random.Random
    site: str
    name: str
    colour: str
    rewrite: Callable[[str], str]
    logo: str
    pixel: str
    preheader: str


def lay_out(name: str, address: str, subject: str, text: str) -> Notice:
    """Return a letter as a service would send it."""
    chance = random.Random(crc32(text.encode()))  # noqa: S311  a letter looks the same each time
    domain = address.rpartition("@")[2]
    look = _draw_look(chance, name, domain, text)
    mailer = chance.choice(_MAILERS)
    bounces = f"{chance.choice(['bounces', 'mail', 'em', 'bounce', 'send'])}.{org_domain(domain)}"
    mail_from = address if chance.random() < 0.3 else f"bounce-{_token(chance, 10).lower()}@{bounces}"
    # Letters of one domain come from one host. These networks are for documentation (RFC 5737).
    number = crc32(org_domain(domain).encode())
    client, host = f"{_NETWORKS[number % 3]}.{number // 3 % 250 + 2}", f"mail.{org_domain(domain)}"
    body = _write_body(chance, look, text)
    when = _START + timedelta(minutes=chance.randrange(400_000))
    body["Received"] = (
        f"from {host} ({host} [{client}])\n\tby mx.recipient.example (Postfix) with ESMTPS id {_token(chance, 11)}\n"
        f"\tfor <{RECIPIENT}>; {format_datetime(when)}"
    )
    body["From"] = formataddr((name, address))
    body["To"] = RECIPIENT
    body["Subject"] = Header(subject, "utf-8").encode()
    body["Date"] = format_datetime(when - timedelta(seconds=chance.randrange(1, 9)))
    body["Message-ID"] = f"<{_token(chance, 22)}@{chance.choice([host, domain])}>"
    for field, value in mailer(chance, domain).items():
        body[field] = value
    return Notice(body.as_bytes(), mail_from, client, host, _prove(domain, mail_from, client, host))


def _prove(domain: str, mail_from: str, client: str, host: str) -> dict[str, dict[str, list[str]]]:
    """Return the records of SPF (RFC 7208), DMARC (RFC 7489) and the names of the host."""
    site = org_domain(domain)
    senders = {mail_from.rpartition("@")[2], domain, site}
    records = {name: {"TXT": [f"v=spf1 ip4:{client} -all"], "MX": [f"10 {host}"]} for name in senders}
    records[f"_dmarc.{site}"] = {"TXT": ["v=DMARC1; p=quarantine"]}
    records.setdefault(host, {})["A"] = [client]
    records[f"{'.'.join(reversed(client.split('.')))}.in-addr.arpa"] = {"PTR": [host]}
    return records


def _token(chance: random.Random, size: int) -> str:
    return urlsafe_b64encode(chance.randbytes(size)).decode()[:size].replace("_", "x").replace("-", "y")


def _draw_look(chance: random.Random, name: str, domain: str, text: str) -> _Look:
    site = org_domain(domain)
    rewrite = chance.choices([str, _count_by_host, _count_by_path, _count_by_query], [50, 20, 15, 15])[0]
    drawn, seed = _token(chance, 6).lower(), chance.random()
    picture = f"https://{chance.choice(['static', 'img', 'cdn', 'www'])}.{site}/{drawn}/logo.png"
    logo = f'<img src="{picture}" alt="{escape(name)}" width="{chance.choice([96, 120, 140, 160, 180])}" border="0">'
    if seed < 0.45:
        logo = f'<a href="{_rewrite(rewrite, f"https://www.{site}/", chance)}">{logo}</a>'
    elif seed < 0.75:
        logo = f"<strong>{escape(name)}</strong>"
    pixel = f'<img src="https://{site}/o/{_token(chance, 24)}.gif" width="1" height="1" alt="">'
    first = text.strip().split("\n\n")[-1 if chance.random() < 0.2 else 0]
    return _Look(
        chance=chance,
        site=site,
        name=name,
        colour=f"#{chance.randrange(1 << 24):06x}",
        rewrite=lambda url: _rewrite(rewrite, url, chance),
        logo=logo if chance.random() < 0.85 else "",
        pixel=pixel if chance.random() < 0.6 else "",
        preheader=escape(_LINK.sub(r"\1", first)[:110]) if chance.random() < 0.5 else "",
    )


def _rewrite(how: Callable[..., str], url: str, chance: random.Random) -> str:
    return url if how is str else how(url, chance)


def _count_by_host(url: str, chance: random.Random) -> str:
    """The address of a counter of clicks that has a host of its own under the site."""
    return f"https://{chance.choice(['click', 'links', 'email', 'track', 'url1204'])}.{_site_of(url)}/ls/click?upn=u001.{_token(chance, 70)}"


def _count_by_path(url: str, chance: random.Random) -> str:
    return f"https://{chance.choice(['email', 'mg', 'e'])}.{_site_of(url)}/c/eJw{_token(chance, 90)}"


def _count_by_query(url: str, chance: random.Random) -> str:
    mark = f"utm_source=crm&utm_medium=email&utm_campaign={_token(chance, 8).lower()}&mid={_token(chance, 12)}"
    return f"{url}{'&' if '?' in url else '?'}{mark}"


def _site_of(url: str) -> str:
    return org_domain(url.partition("://")[2].partition("/")[0].partition("?")[0].partition(":")[0])


def _write_body(chance: random.Random, look: _Look, text: str) -> MIMEBase:
    plain = _LINK.sub(lambda link: f"{link[1]}: {look.rewrite(link[2])}", text.strip("\n")) + "\n"
    kind = chance.random()
    if kind < 0.08:
        return MIMEText(plain, "plain", "utf-8")
    page = chance.choice(_LAYOUTS)(look, _write_blocks(look, text))
    if kind < 0.3:
        return MIMEText(page, "html", "utf-8")
    return MIMEMultipart(
        "alternative", f"=_{_token(chance, 16)}", (MIMEText(plain, "plain", "utf-8"), MIMEText(page, "html", "utf-8"))
    )


class _Block(msgspec.Struct, frozen=True):
    """A part of a page: "button", "list", "rows", "small" (the last paragraphs) or "text", as HTML without a frame."""

    kind: str
    lines: tuple[str, ...]


def _write_blocks(look: _Look, text: str) -> list[_Block]:
    parts = [part.splitlines() for part in text.strip().split("\n\n") if part.strip()]
    blocks = []
    for number, lines in enumerate(parts):
        blocks.append(_write_block(look, lines, is_last=number > 2 and number >= len(parts) - 2))
    return blocks


def _write_block(look: _Look, lines: Sequence[str], *, is_last: bool) -> _Block:
    if len(lines) == 1 and (link := _LINK.fullmatch(lines[0].strip())):
        return _Block("small" if is_last else "button", (_write_links(look, link[0]),))
    if all(map(_ITEM.match, lines)):
        return _Block("list", tuple(_write_links(look, line[2:]) for line in lines))
    if len(lines) > 1 and all(_ROW.fullmatch(line) and "](" not in line for line in lines):
        cells = (_ROW.fullmatch(line) for line in lines)
        return _Block(
            "rows", tuple(f"<td>{escape(row[1])}</td><td align=right>{escape(row[2])}</td>" for row in cells if row)
        )
    return _Block("small" if is_last else "text", tuple(_write_links(look, line) for line in lines))


def _write_links(look: _Look, line: str) -> str:
    written, place = [], 0
    for link in _LINK.finditer(line):
        written += [
            escape(line[place : link.start()], quote=False),
            f'<a href="{escape(look.rewrite(link[2]))}">{escape(link[1])}</a>',
        ]
        place = link.end()
    return "".join([*written, escape(line[place:], quote=False)])


def _button(look: _Look, anchor: str, style: str) -> str:
    return anchor.replace("<a ", f'<a style="{style}" target="_blank" ', 1)


def _lay_table(look: _Look, blocks: Sequence[_Block]) -> str:
    """A centred table of 600 pixels, as most mailers write it."""
    hidden = f'<div style="display:none;max-height:0;overflow:hidden">{look.preheader}</div>' if look.preheader else ""
    rows = "\n".join(
        f'<tr><td style="padding:10px 32px;font:{12 if block.kind == "small" else 15}px/1.5 Arial,sans-serif;color:#{"888" if block.kind == "small" else "222"}">{_fill(look, block)}</td></tr>'
        for block in blocks
    )
    return (
        '<!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.0 Transitional//EN" "http://www.w3.org/TR/xhtml1/DTD/xhtml1-transitional.dtd">\n'
        '<html xmlns="http://www.w3.org/1999/xhtml"><head><meta http-equiv="Content-Type" content="text/html; charset=UTF-8">'
        '<style type="text/css">@media only screen and (max-width:600px){.wrap{width:100% !important}}</style></head>\n'
        f'<body style="margin:0;background-color:#f4f4f4">{hidden}<table width="100%" cellpadding="0" cellspacing="0" border="0"><tr><td align="center">\n'
        f'<table class="wrap" width="600" cellpadding="0" cellspacing="0" border="0" style="background:#ffffff"><tr><td align="center" style="padding:24px">{look.logo}</td></tr>\n'
        f"{rows}\n</table></td></tr></table>{look.pixel}</body></html>\n"
    )


def _lay_columns(look: _Look, blocks: Sequence[_Block]) -> str:
    """Nested blocks with comments for Outlook, as MJML writes them."""
    outlook = '<!--[if mso | IE]><table align="center" border="0" cellpadding="0" cellspacing="0" width="600"><tr><td><![endif]-->'
    end = "<!--[if mso | IE]></td></tr></table><![endif]-->"
    cells = "\n".join(
        f'{outlook}<div style="margin:0px auto;max-width:600px"><table align="center" border="0" cellpadding="0" cellspacing="0" role="presentation" style="width:100%"><tbody><tr>'
        f'<td style="direction:ltr;font-size:0px;padding:12px 0;text-align:left"><div style="font-family:Helvetica,Arial,sans-serif;font-size:{11 if block.kind == "small" else 14}px;line-height:1.6;color:#333333">{_fill(look, block)}</div></td></tr></tbody></table></div>{end}'
        for block in blocks
    )
    hidden = f'<div style="display:none;font-size:1px;color:#ffffff;line-height:1px;max-height:0px;opacity:0;overflow:hidden">{look.preheader}</div>'
    return (
        '<!doctype html><html xmlns:v="urn:schemas-microsoft-com:vml"><head><title></title><!--[if !mso]><!--><meta http-equiv="X-UA-Compatible" content="IE=edge"><!--<![endif]-->'
        '<style type="text/css">#outlook a { padding:0; } body { margin:0;padding:0; } .col-per-100 { width:100% !important; }</style></head>'
        f'<body style="word-spacing:normal;background-color:#ffffff">{hidden if look.preheader else ""}<div>{look.logo}\n{cells}</div>{look.pixel}</body></html>\n'
    )


def _lay_card(look: _Look, blocks: Sequence[_Block]) -> str:
    """A card of blocks on a grey page, as programs for developers send."""
    inner = "\n".join(
        f'<p style="font-size:12px;color:#777">{_fill(look, block)}</p>'
        if block.kind == "small"
        else f"<div>{_fill(look, block)}</div>"
        for block in blocks
    )
    return (
        f'<html lang="x"><head><meta name="viewport" content="width=device-width"><meta charset="utf-8"></head><body style="background:#f6f9fc;font-family:-apple-system,BlinkMacSystemFont,Roboto,sans-serif">'
        f'{f"<span style=display:none>{look.preheader}</span>" if look.preheader else ""}<div style="max-width:560px;margin:24px auto;background:#fff;border:1px solid #e1e4e8;border-radius:6px;padding:32px">'
        f"{look.logo}<hr>{inner}</div>{look.pixel}</body></html>\n"
    )


def _lay_shop(look: _Look, blocks: Sequence[_Block]) -> str:
    """A coloured heading over a text, as shop programs write it."""
    first, *others = blocks
    inner = "\n".join(f"<p>{_fill(look, block)}</p>" for block in others if block.kind != "small")
    small = "<br>".join(_fill(look, block) for block in others if block.kind == "small")
    return (
        '<!DOCTYPE html><html dir="auto"><head><meta charset="UTF-8"><title></title></head><body leftmargin="0" marginwidth="0" topmargin="0"><div id="wrapper" style="background-color:#f7f7f7;padding:70px 0">'
        f'<div id="template_header_image"><p style="margin-top:0">{look.logo}</p></div><table border="0" width="600" id="template_container" style="background-color:#fff;border:1px solid #dedede">'
        f'<tr><td id="header_wrapper" style="padding:36px 48px;background-color:{look.colour}"><h1 style="font-size:30px;font-weight:300;color:#fff">{_fill(look, first)}</h1></td></tr>'
        f'<tr><td id="body_content_inner" style="padding:48px;color:#636363;font-size:14px">{inner}</td></tr></table>'
        f'<table width="600"><tr><td id="credit" style="font-size:12px;text-align:center">{small}</td></tr></table></div>{look.pixel}</body></html>\n'
    )


def _lay_plainly(look: _Look, blocks: Sequence[_Block]) -> str:
    """Paragraphs without a frame, as business programs write them."""
    inner = "".join(f"<p>{_fill(look, block)}</p>\n" for block in blocks)
    return f"<html><body>\n{inner}{look.logo if look.chance.random() < 0.4 else ''}{look.pixel}</body></html>\n"


def _fill(look: _Look, block: _Block) -> str:
    if block.kind == "button":
        style = f"display:inline-block;padding:12px 26px;background-color:{look.colour};color:#ffffff;text-decoration:none;border-radius:4px;font-weight:bold"
        return _button(look, block.lines[0], style)
    if block.kind == "list":
        return f"<ul>{''.join(f'<li>{line}</li>' for line in block.lines)}</ul>"
    if block.kind == "rows":
        return f'<table width="100%" cellpadding="4">{"".join(f"<tr>{line}</tr>" for line in block.lines)}</table>'
    return "<br>\n".join(block.lines)


_LAYOUTS = (_lay_table, _lay_columns, _lay_card, _lay_shop, _lay_plainly)


def _send_by_amazon(chance: random.Random, domain: str) -> dict[str, str]:
    return {
        "Feedback-ID": f"::1.eu-west-1.{_token(chance, 40)}=:AmazonSES",
        "X-SES-Outgoing": f"2026.02.03-54.240.7.{chance.randrange(250)}",
    }


def _send_by_sendgrid(chance: random.Random, domain: str) -> dict[str, str]:
    return {
        "X-SG-EID": f"u001.{_token(chance, 60)}",
        "X-SG-ID": f"u001.{_token(chance, 40)}",
        "X-Entity-ID": f"u001.{_token(chance, 12)}",
    }


def _send_by_mailgun(chance: random.Random, domain: str) -> dict[str, str]:
    return {"X-Mailgun-Sid": f"WyI{_token(chance, 30)}", "X-Mailgun-Sending-Ip": f"198.51.100.{chance.randrange(250)}"}


def _send_by_postmark(chance: random.Random, domain: str) -> dict[str, str]:
    return {
        "X-PM-Message-Id": _token(chance, 30),
        "X-PM-Message-Options": "v1;1.x",
        "Feedback-ID": "s82-x:s82:a1:postmark",
    }


def _send_by_brevo(chance: random.Random, domain: str) -> dict[str, str]:
    return {
        "X-Mailin-EID": _token(chance, 40),
        "X-Mailin-Client": str(chance.randrange(1_000_000)),
        "List-Unsubscribe": f"<https://{domain}/u/{_token(chance, 20)}>",
    }


def _send_by_program(chance: random.Random, domain: str) -> dict[str, str]:
    return {
        "X-Mailer": chance.choice(
            ["PHPMailer 6.9.1 (https://github.com/PHPMailer/PHPMailer)", "nodemailer", "WooCommerce", "Drupal"]
        )
    }


def _send_as_news(chance: random.Random, domain: str) -> dict[str, str]:
    return {
        "List-Unsubscribe": f"<mailto:unsubscribe-{_token(chance, 12).lower()}@{domain}>, <https://{domain}/unsubscribe/{_token(chance, 16)}>",
        "List-Unsubscribe-Post": "List-Unsubscribe=One-Click",
        "Precedence": "bulk",
    }


def _send_plainly(chance: random.Random, domain: str) -> dict[str, str]:
    return {"Auto-Submitted": "auto-generated"} if chance.random() < 0.4 else {}


_MAILERS = (
    _send_by_amazon,
    _send_by_sendgrid,
    _send_by_mailgun,
    _send_by_postmark,
    _send_by_brevo,
    _send_by_program,
    _send_as_news,
    _send_plainly,
    _send_plainly,
    _send_plainly,
)
