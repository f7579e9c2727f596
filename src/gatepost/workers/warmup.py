"""Reading everything from disk before a worker is sealed.

Python loads codecs and many modules at their first use, and after sealing there is no first use any more. So the loader
imports every codec and analyses one specimen of every format; the answers to their questions come from a small
make-believe zone with real keys, so that signatures are verified all the way. `tests/workers/test_pool.py`
holds this module to its promise: every specimen gives the same report inside a sealed worker as outside.
"""

import base64
import bz2
import codecs
import encodings
import gzip
import importlib
import io
import lzma
import pkgutil
import tarfile
import time
import traceback
import zipfile
from collections.abc import Iterable
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import zstandard
import zxingcpp
from PIL import Image

from gatepost import names
from gatepost.analysis.analyse import analyse
from gatepost.analysis.report import Report
from gatepost.analysis.stages import Context
from gatepost.checks.composites import load_composites
from gatepost.checks.reading import Check
from gatepost.mail import links
from gatepost.mail.encodings import charset
from gatepost.mail.message import Envelope
from gatepost.policy import conditions
from gatepost.process.kept_results import load_kept
from gatepost.questions import (
    Answer,
    Answers,
    Antivirus,
    AskAntivirus,
    AskCampaign,
    AskReputation,
    AskSightings,
    Campaign,
    Dns,
    DnsAnswer,
    FacetAge,
    Lookup,
    LookupAnswer,
    Question,
    Questions,
    Reputation,
    Sightings,
)
from gatepost.view.message import build_page, build_view, draw_picture

NOW = 1_700_000_000.0
ENVELOPE = Envelope("ann@sender.example", ("bob@receiver.example",), "192.0.2.1", "mail.sender.example")

# Modules that the standard library fetches inside a function, at its first call.
_LATE = (
    "_strptime bisect calendar copy datetime decimal fractions heapq html.entities idna ipaddress linecache locale "
    "lzma bz2 zlib quopri string stringprep textwrap traceback unicodedata warnings email.utils encodings.idna "
    "encodings.punycode"
).split()
_CHARSETS = ("utf-8", "utf-7", "utf-16", "iso-8859-1", "iso-8859-15", "windows-1251", "koi8-r", "shift_jis", "big5")
_CHARSETS_EAST = ("iso-2022-jp", "euc-jp", "gb2312", "gb18030", "euc-kr", "hz", "cp949", "cp1252")
_NOT_HERE = frozenset({"encodings.mbcs", "encodings.oem"})  # Windows only

_RSA_KEY = (
    "MIGfMA0GCSqGSIb3DQEBAQUAA4GNADCBiQKBgQCnEUjBUa1C9+iDKGhuwVJ9VmKYyccrhKTUCvrvuP2jjtrqV3Jw2i7zJVusBkxKQ2tc0l0kW9zr"
    "Qrs5sNoEEJt+yupjuBUuThkvgUEpRTi2fFEp+MN0z4ZR3reNUyZ9q9qfpJwsRMeNEagzJB++x6xL9xASoXfHGAfLpOgyKV7gPQIDAQAB"
)
_ED25519_KEY = "atihJlwJRDQq9laQ1iKHgC06GESXGapGzIob4xqq3vI="
_ZONE = {
    Dns("sender.example", "TXT"): ("v=spf1 include:more.example exists:%{ir}.%{d} a ptr mx -all",),
    Dns("more.example", "TXT"): ("v=spf1 ip4:198.51.100.0/24 ip6:2001:db8::/32 ~all",),
    Dns("sender.example", "MX"): ("10 mail.sender.example",),
    Dns("sender.example", "A"): ("192.0.2.77",),
    Dns("mail.sender.example", "A"): ("192.0.2.1",),
    Dns("1.2.0.192.in-addr.arpa", "PTR"): ("mail.sender.example",),
    Dns("_dmarc.sender.example", "TXT"): ("v=DMARC1; p=reject; sp=none; rua=mailto:d@sender.example",),
    Dns("rsa._domainkey.sender.example", "TXT"): (f"v=DKIM1; k=rsa; p={_RSA_KEY}",),
    Dns("ed._domainkey.sender.example", "TXT"): (f"v=DKIM1; k=ed25519; p={_ED25519_KEY}",),
}
# EICAR's test string, in two halves: whole, an antivirus would take this module for a virus.
_EICAR = rb"X5O!P%@AP[4\PZX54(P^)7CC)7}$EICAR" + rb"-STANDARD-ANTIVIRUS-TEST-FILE!$H+H*"
_PAGE = (
    b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj\n"
    b"3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 99 99]/Contents 4 0 R/Resources<</Font<</F<</Type/Font"
    b"/Subtype/Type1/BaseFont/Arial>>>>>>>>endobj\n4 0 obj<</Length 52>>stream\n9 9 9 9 re f BT /F 9 Tf 9 30 Td "
    b"(Hello world) Tj ET   \nendstream endobj\ntrailer<</Root 1 0 R/Size 5>>\n%%EOF"
)
_HTML = """<html><head><title>t</title><style>p{color:#fff}</style><meta http-equiv=refresh content="0;url=https://a.test">
</head><body><p style="display:none">hidden</p><a href="https://xn--bcher-kva.example/%41?x=1">https://bank.example</a>
<form action="https://192.0.2.9/login"><input type=password></form><img src="cid:1"><script>atob("eA==")</script>
<a href="http://пример.example/">link</a></body></html>"""


def warm_up(checks: tuple[Check, ...] = (), messages: Iterable[bytes] = ()) -> None:
    """Load all that an analysis may need; `checks` are those of plug-ins, which find something in `messages`."""
    for module in pkgutil.iter_modules(encodings.__path__, "encodings."):
        if module.name not in _NOT_HERE:
            importlib.import_module(module.name)
    for name in _LATE:
        importlib.import_module(name)
    time.localtime()
    names.preload_suffixes()
    links.preload_wrappers()
    charset.preload_codecs()
    conditions.evaluate("authenticated", conditions.make_variables())
    load_composites()
    for raw in (*specimens(), *messages):
        report_on(raw, checks)
        _show(raw)
    _format_exception()


def specimens() -> tuple[bytes, ...]:
    """Return a message of every kind that is read, kept, since to make them takes longer than to read them."""
    return load_kept(__file__, "kept-specimens", [Path(__file__).read_bytes()], tuple[bytes, ...], make_specimens)


def make_specimens() -> tuple[bytes, ...]:
    """Return the specimens, made anew."""
    return (
        b"",
        b"\x00\xff not a message at all",
        b"From: a@b\r\n\r\nshort\r\n",
        _mixed_specimen(),
        *(_charset_specimen(charset) for charset in (*_CHARSETS, *_CHARSETS_EAST, "no-such-charset")),
        _signed_specimen(b"rsa", b"rsa-sha256"),
        _signed_specimen(b"ed", b"ed25519-sha256"),
        _broken_specimen(),
    )


def _show(raw: bytes) -> None:
    """Show the message as to a person, every picture in it, and its HTML."""
    build_page(raw)
    for line in build_view(raw).pictures:
        draw_picture(raw, line.index)


def report_on(raw: bytes, checks: tuple[Check, ...] = ()) -> Report:
    """Analyse one specimen, with answers from the make-believe zone."""
    analysis = analyse(raw, ENVELOPE, Context(now=NOW, sender_history=True, campaigns=True, extra=checks))
    try:
        questions = next(analysis)
        while True:
            questions = analysis.send(answers_to(questions))
    except StopIteration as stop:
        report: Report = stop.value
        return report


def answers_to(questions: Questions) -> Answers:
    """Return the answers of the make-believe zone."""
    return tuple(_answer_to(question) for question in questions)


def _answer_to(question: Question) -> Answer:
    if isinstance(question, Lookup):
        return LookupAnswer()
    if isinstance(question, AskAntivirus):
        return Antivirus()
    if isinstance(question, AskCampaign):
        return Campaign()
    if isinstance(question, AskReputation):
        return Reputation()
    if isinstance(question, AskSightings):
        return Sightings(True, (FacetAge(),) * len(question.keys), (FacetAge(1, 9),) * 2, (FacetAge(),) * 2)
    records = _ZONE.get(question)
    return DnsAnswer("found", records) if records else DnsAnswer("no-name")


def _mixed_specimen() -> bytes:
    """One message with every transfer encoding, a web page, a message in a message and every archive."""
    inner = EmailMessage()
    inner["From"], inner["Subject"] = "inner@sender.example", "inner"
    inner.set_content("see www.bank.example or call 555")
    message = EmailMessage()
    message["From"] = '"Bücher, billing@bank.example" <ann@sender.example>'
    message["To"], message["Subject"] = "bob@receiver.example", "Grüße =?utf-8?q?=E2=82=AC?="
    message["Date"], message["Message-ID"] = "Tue, 14 Nov 2023 22:13:20 +0000", "<1@sender.example>"
    message["Received"] = "from x (x [192.0.2.1]) by y with ESMTPS id 1; Tue, 14 Nov 2023 22:13:20 +0000"
    message.set_content("Grüße, http://a.test/ä\n", cte="quoted-printable")
    message.add_alternative(_HTML, subtype="html", cte="base64")
    for name, content in _files().items():
        message.add_attachment(content, maintype="application", subtype="octet-stream", filename=name)
    message.add_attachment(inner)
    return message.as_bytes()


def _files() -> dict[str, bytes]:
    return {
        "ä.zip": _zip({"eicar.com": _EICAR, "inner.zip": _zip({"a.js": b"x()"})}),
        "a.tar": _tar(),
        "a.tar.gz": gzip.compress(_tar(), mtime=0),
        "a.txt.bz2": bz2.compress(b"text"),
        "a.txt.xz": lzma.compress(b"text"),
        "a.pdf": b"%PDF-1.4\n1 0 obj<</URI(https://a.test)>>endobj\ntrailer<<>>\n%%EOF",
        "b.pdf": _PAGE,
        "a.exe": b"MZ" + bytes(100),
        "a.rtf": rb"{\rtf1 hello}",
        "a.doc": b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(504),
        "a.zst": zstandard.compress(b"text"),
        "a.eml": b"From: a@sender.example\nSubject: text\nMIME-Version: 1.0\n\ntext",
        "a.lzma": lzma.compress(b"text", lzma.FORMAT_ALONE),
        **{f"a.{form}": _picture(form) for form in ("png", "jpeg", "gif", "bmp", "webp")},
        **{f"a.{form}": _picture(form) for form in ("tiff", "ico", "jpeg2000", "avif")},
    }


def _picture(form: str) -> bytes:
    """A QR code."""
    drawn: Any = zxingcpp.create_barcode("https://a.test/", zxingcpp.BarcodeFormat.QRCode).to_image(scale=3)
    height, width = drawn.shape
    packed = io.BytesIO()
    Image.frombytes("L", (width, height), bytes(drawn)).save(packed, form)
    return packed.getvalue()


def _zip(files: dict[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
    return packed.getvalue()


def _tar() -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        entry = tarfile.TarInfo("inside.txt")
        entry.size = 4
        archive.addfile(entry, io.BytesIO(b"text"))
    return packed.getvalue()


def _charset_specimen(charset: str) -> bytes:
    try:
        body = codecs.encode("text, Text", charset)
    except LookupError:
        body = b"text"
    name = charset.encode()
    word = b"=?" + name + b"?b?" + base64.b64encode(body) + b"?="
    head = b"From: " + word + b" <a@sender.example>\r\nSubject: " + word + b"\r\nMIME-Version: 1.0\r\n"
    return head + b'Content-Type: text/plain; charset="' + name + b'"\r\n\r\n' + body + b"\r\n"


def _signed_specimen(selector: bytes, algorithm: bytes) -> bytes:
    """A DKIM signature whose body hash is right and whose signature is not."""
    return (
        b"DKIM-Signature: v=1; a=" + algorithm + b"; c=relaxed/relaxed; d=sender.example; s=" + selector + b";\r\n"
        b" h=From:Subject; bh=frcCV1k9oG9oKj3dpUqdJg1PxRT2RSN/XKdLCPjaYaY=;\r\n"
        b" b=" + base64.b64encode(bytes(128 if selector == b"rsa" else 64)) + b"\r\n"
        b"From: Ann <ann@sender.example>\r\nSubject: signed\r\n\r\n"
    )


def _broken_specimen() -> bytes:
    """What goes wrong in mail: a boundary that never comes, base64 that is none, a date that is none."""
    return (
        b"From: =?utf-8?b?!!!?= <@>, x@xn--a.example\nDate: yesterday\nReceived: nonsense\nReceived: from\n"
        b"DKIM-Signature: v=1; a=rsa-sha1; b=@@\nARC-Seal: i=1; cv=none; a=rsa-sha256; d=x; s=y; b=z\n"
        b"Content-Type: multipart/mixed; boundary=b\n\n--b\nContent-Transfer-Encoding: base64\n\n@@@\n"
        b"--b\nContent-Type: application/zip; name*=utf-8''a%2\nContent-Transfer-Encoding: x-uuencode\n\nPK\x03\x04\n"
    )


def _format_exception() -> None:
    """Format an exception once: the modules for that are fetched at the first one."""
    try:
        raise LookupError("a specimen")
    except LookupError:
        traceback.format_exc()
