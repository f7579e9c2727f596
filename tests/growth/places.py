"""The places of a message at which a sender can write something long, and what can be repeated there.

A place is a message with a hole. What fills it is one unit, again and again: a letter, a label, a separator, an escape,
whatever begins something that must end. The pairs of both are the rows of the matrix.
"""

import base64
import io
import zipfile
from collections.abc import Callable

from gatepost.mail.message import Envelope

Made = tuple[bytes, Envelope]
Place = Callable[[bytes], Made]

ENVELOPE = Envelope("ann@a.example", ("bob@b.example",), "192.0.2.1", "mx.a.example")
HEAD = b"From: Ann <ann@a.example>\r\nTo: bob@b.example\r\nDate: Thu, 19 Nov 2026 10:00:00 +0000\r\n"
BODY = b"\r\nHello Bob,\r\n\r\nplease look at https://www.a.example/x and call me.\r\n\r\nAnn\r\n"
HTML = b"MIME-Version: 1.0\r\nContent-Type: text/html; charset=utf-8\r\n\r\n<html><body><p>Hello "

# Letters and labels, separators, escapes, brackets, blanks, letters of other scripts, what begins links and markup.
UNITS = (
    *b"a www. . - a- A1 @ a@b.example, a@ , ; ;a= : / ../ \\ \\\\ ? &a=b # %41 %2 = =41 =? ( ) < > <a </".split(),
    *b"' \\\" xn-- xn--a. 1 1. 1, [ ] | { } &amp; &#65; & http:// https://a.example/?u= [.] * _ + ! $ ^ ` ~".split(),
    *b"<!-- rn 0 <b> <div> /* */ // -- QUJD \\u0041 I IlI".split(),
    *(b" ", b"\t", b"\r\n ", b"\r\n", b"\n\n", b".\n", b"=\r\n", b"=?utf-8?q?x?= ", b"http://a.example/ ", b"word "),
    *(b"ab cd, ", b"From: ", b"--b\r\n", b", Ltd ", b"Dear ", b"a.b ", b"Ann <a@b.example>, ", b"\x00", b"\xff"),
    b'"',
    *(letter.encode() for letter in ("\u00e9", "\u200b", "\u0430", "\uff0e")),
)


def field(name: bytes, before: bytes = b"", after: bytes = b"") -> Place:
    """A header field, over as many lines as a sender would fold it to, or none."""
    return lambda value: (name + b": " + before + value + after + b"\r\n" + HEAD + b"Subject: x\r\n" + BODY, ENVELOPE)


def text(before: bytes, after: bytes = b"") -> Place:
    return lambda value: (HEAD + b"Subject: x\r\n\r\nHello " + before + value + after + b" bye\r\n", ENVELOPE)


def html(before: bytes, after: bytes = b"") -> Place:
    return lambda value: (HEAD + HTML + before + value + after + b"</p></body></html>", ENVELOPE)


def attached(head: bytes, before: bytes = b"", after: bytes = b"") -> Place:
    """A part with these fields; its content is Base64."""

    def make(value: bytes) -> Made:
        content = base64.encodebytes(before + value + after).replace(b"\n", b"\r\n")
        return carry(head, content), ENVELOPE

    return make


def carry(head: bytes, content: bytes) -> bytes:
    start = (
        HEAD + b"MIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\r\nSee it.\r\n--b\r\n"
    )
    return start + head + b"\r\nContent-Transfer-Encoding: base64\r\n\r\n" + content + b"\r\n--b--\r\n"


def named(before: bytes, after: bytes = b"") -> Place:
    """A field of a part: its content is the same."""
    return lambda value: (carry(before + value + after, b"QUJD"), ENVELOPE)


def member(value: bytes) -> Made:
    """A name in an archive."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(value.decode("latin-1").replace("\0", "0")[:30_000] + ".js", "a")
    head = b'Content-Type: application/zip; name="a.zip"'
    return carry(head, base64.encodebytes(file.getvalue())), ENVELOPE


def at_border(**parts: Callable[[str], object]) -> Place:
    """A value of the envelope."""

    def make(value: bytes) -> Made:
        given = value.decode("utf-8", "replace").translate({0: " ", 10: " ", 13: " "})
        kept = {"sender": "ann@a.example", "recipients": ("bob@b.example",), "helo": "mx.a.example"}
        made = kept | {name: fill(given) for name, fill in parts.items()}
        return HEAD + b"Subject: x\r\n" + BODY, Envelope(remote_address="192.0.2.1", **made)  # type: ignore[arg-type]

    return make


PLACES: dict[str, Place] = {
    "name of a sender": field(b"From", b'"', b'" <x@evil.example>'),
    "mailbox of a sender": field(b"From", b"X <", b"@evil.example>"),
    "domain of a sender": field(b"From", b"X <x@", b".example>"),
    "list of recipients": field(b"Cc"),
    "address for answers": field(b"Reply-To", b"<x@", b">"),
    "subject": field(b"Subject"),
    "identifier": field(b"Message-ID", b"<", b"@a.example>"),
    "references": field(b"References"),
    "host of a hop": field(
        b"Received", b"from ", b" (a [192.0.2.1]) by mx.b.example with ESMTP; Thu, 19 Nov 2026 10:00:00 +0000"
    ),
    "text of a hop": field(b"Received", b"from a.example by b.example ("),
    "date": field(b"Date"),
    "program": field(b"X-Mailer"),
    "where to leave": field(b"List-Unsubscribe", b"<https://", b"/x>"),
    "list": field(b"List-Id", b"x <", b">"),
    "results": field(b"Authentication-Results", b"mx.b.example; dkim=pass header.d="),
    "signature": field(b"DKIM-Signature", b"v=1; a=rsa-sha256; d=a.example; s=s; h=from:to; bh=AAAA; b="),
    "domain of a signature": field(b"DKIM-Signature", b"v=1; a=rsa-sha256; s=s; h=from; bh=AAAA; b=AAAA; d="),
    "fields of a signature": field(b"DKIM-Signature", b"v=1; a=rsa-sha256; s=s; d=a.example; bh=AAAA; b=AAAA; h="),
    "seal": field(b"ARC-Seal", b"i=1; a=rsa-sha256; cv=none; d=a.example; s=s; b="),
    "received SPF": field(b"Received-SPF", b"pass (", b") client-ip=192.0.2.1"),
    "path back": field(b"Return-Path", b"<", b"@a.example>"),
    "type": field(b"Content-Type", b"text/plain; charset="),
    "boundary": field(b"Content-Type", b'multipart/mixed; boundary="', b'"'),
    "parameters": field(b"Content-Type", b"text/plain"),
    "field of no meaning": field(b"X-Something"),
    "name of a field": lambda value: (b"X-" + value + b": a\r\n" + HEAD + BODY, ENVELOPE),
    "header": lambda value: (value + b"\r\n" + HEAD + BODY, ENVELOPE),
    "text": text(b""),
    "word": text(b"x"),
    "host": text(b"https://", b"example.com/"),
    "path": text(b"https://a.example/"),
    "query": text(b"https://a.example/?x="),
    "wrapped link": text(b"https://www.google.com/url?q=https://"),
    "fragment": text(b"https://a.example/#"),
    "user": text(b"https://", b"@a.example/"),
    "bare host": text(b"", b"example.com"),
    "mailbox in a text": text(b"mailto:", b"@a.example"),
    "angle": text(b"<https://a.example/"),
    "number": text(b"call +1 800 "),
    "sum": text(b"you won $ ", b" USD"),
    "quote": text(b"\r\n> "),
    "page": html(b""),
    "name of an element": html(b"<x", b">"),
    "attribute": html(b"<p ", b">"),
    "value": html(b'<p title="', b'">'),
    "class": html(b'<style>.a{color:red}</style><p class="', b'">'),
    "host of a link": html(b'<a href="https://', b'example.com/">x</a>'),
    "target": html(b'<a href="', b'">x</a>'),
    "text of a link": html(b'<a href="https://evil.example/">', b"</a>"),
    "picture": html(b'<img src="https://', b'.example/a.png">'),
    "text of a picture": html(b'<img alt="', b'" src=cid:a>'),
    "set of pictures": html(b'<img srcset="', b'">'),
    "form": html(b'<form action="https://', b'.example/"><input type=password></form>'),
    "refresh": html(b'<meta http-equiv=refresh content="0;url=https://', b'.example/">'),
    "base": html(b'<base href="https://', b'.example/"><a href="x">y</a>'),
    "data": html(b'<a href="data:text/html,', b'">x</a>'),
    "style": html(b'<p style="', b'">x</p>'),
    "value of a style": html(b'<p style="font-family:', b'">x</p>'),
    "rules": html(b"<style>", b"</style>"),
    "selector": html(b"<style>", b"{color:red}</style>"),
    "property": html(b"<style>p{background:url(", b")}</style>"),
    "comment": html(b"<!--", b"-->"),
    "conditional": html(b"<!--[if mso]>", b"<![endif]-->"),
    "script": html(b"<script>", b"</script>"),
    "text of a script": html(b"<script>var a='", b"';location=a</script>"),
    "address in a script": html(b"<script>location='https://", b".example/'</script>"),
    "handler": html(b'<p onclick="', b'">'),
    "template": html(b"<template>", b"</template>"),
    "drawing": html(b"<svg>", b"</svg>"),
    "title": html(b"<title>", b"</title>"),
    "name of a file": named(b'Content-Type: application/x; name="', b'.exe"'),
    "continued name": named(b"Content-Disposition: attachment; filename*0*=utf-8''", b".exe"),
    "encoding": named(b"Content-Transfer-Encoding: "),
    "name in an archive": member,
    "calendar": attached(
        b"Content-Type: text/calendar; name=a.ics", b"BEGIN:VCALENDAR\r\nDESCRIPTION:", b"\r\nEND:VCALENDAR"
    ),
    "card": attached(b"Content-Type: text/vcard; name=a.vcf", b"BEGIN:VCARD\r\nURL:https://", b"\r\nEND:VCARD"),
    "document": attached(
        b"Content-Type: application/pdf; name=a.pdf",
        b"%PDF-1.4\n1 0 obj<</Type/Catalog/OpenAction<</S/URI/URI(https://",
        b")>>>>endobj\ntrailer<</Root 1 0 R>>",
    ),
    "rich text": attached(b"Content-Type: application/rtf; name=a.rtf", b"{\\rtf1 ", b"}"),
    "shortcut": attached(
        b"Content-Type: application/x; name=a.url", b"[InternetShortcut]\r\nURL=https://", b".example/"
    ),
    "attached page": attached(
        b"Content-Type: text/html; name=a.html", b"<html><script>location='https://", b"/'</script>"
    ),
    "attached message": attached(b"Content-Type: message/rfc822", b"From: a@b.example\r\nSubject: ", b"\r\n\r\nx"),
    "attached text": attached(b"Content-Type: text/csv; name=a.csv", b"a,"),
    "attached script": attached(b"Content-Type: application/x; name=a.js", b"var a='", b"';"),
    "attached drawing": attached(b"Content-Type: image/svg+xml; name=a.svg", b"<svg>", b"</svg>"),
    "sender at the border": at_border(sender=lambda value: f"{value}@a.example"),
    "domain at the border": at_border(sender=lambda value: f"ann@{value}.example"),
    "recipient": at_border(recipients=lambda value: (f"bob@{value}.example",)),
    "greeting": at_border(helo=lambda value: f"{value}.example"),
}
