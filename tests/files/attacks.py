"""A generator of attacks: programs, scripts and letters under disguised names, in containers, in carriers of mail.

Each message is made by one number, so that a failure names the message that it is about: `make_attack(SEED, number)`
for what is run, `make_letter(SEED, number)` for what is read.
"""

import base64
import binascii
import quopri
import random
from collections.abc import Callable
from urllib.parse import quote

import msgspec
from tests.files import document_formats as d
from tests.files.coverage import FORMATS, Format
from tests.files.letter_formats import LETTER_FORMATS

SEED = 20_261_115

_SCRIPTS = {
    "js": b'var s = new ActiveXObject("WScript.Shell"); s.Run("calc");',
    "vbs": b'CreateObject("WScript.Shell").Run "calc"',
    "hta": b"<hta:application><script>alert(1)</script>",
    "bat": b"@echo off\r\nstart calc\r\n",
    "cmd": b"@start calc\r\n",
    "ps1": b"Start-Process calc\r\n",
    "wsf": b'<job><script language="JScript">WScript.Echo(1)</script></job>',
    "sct": b"<scriptlet><registration/></scriptlet>",
    "msc": b'<?xml version="1.0"?><MMC_ConsoleFile ConsoleVersion="3.0"/>',
    "rdp": b"full address:s:evil.example\r\n",
    "jnlp": b'<?xml version="1.0"?><jnlp codebase="https://evil.example/"/>',
    "library-ms": b'<?xml version="1.0"?><libraryDescription><url>\\\\evil.example\\share</url></libraryDescription>',
    "searchconnector-ms": b'<?xml version="1.0"?><searchConnectorDescription/>',
    "appinstaller": b'<?xml version="1.0"?><AppInstaller Uri="https://evil.example/"/>',
    "settingcontent-ms": b'<?xml version="1.0"?><PCSettings/>',
    "website": b"[InternetShortcut]\r\nURL=file://evil.example/a.exe\r\n",
    "url": b"[InternetShortcut]\r\nURL=file://evil.example/share/a.exe\r\n",
    "reg": b"Windows Registry Editor Version 5.00\r\n",
    "inf": b"[Version]\r\nSignature=$CHICAGO$\r\n",
    "py": b"import os\nos.system('calc')\n",
    "lnk": bytes.fromhex("4c0000000114020000000000c000000000000046") + bytes(60),
    "exe": d.program("", b"data"),
    "scr": d.program("", b"data"),
    "diagcab": b"not really a cabinet",
    "msix": b"not really a package",
    "theme": b"[Theme]\r\nDisplayName=x\r\n",
}

_DISGUISES: tuple[Callable[[str], str], ...] = (
    lambda name: name,
    lambda name: name.upper(),
    lambda name: f"{name}.",
    lambda name: f"{name}...",
    lambda name: f"{name} ",
    lambda name: f"{name} . .",
    lambda name: f"{name}\u00a0",
    lambda name: f"{name}\u3000.",
    lambda name: f"{name}\u2800",
    lambda name: f"\u202e{name}",
    lambda name: f"{name}\u202c",
    lambda name: f"{name}\u200b",
    lambda name: name.replace(".", ".pdf" + " " * 60 + "."),
    lambda name: name.replace(".", ".pdf."),
    lambda name: f"{name}::$DATA",
    lambda name: f"folder\\{name}",
)


class Attack(msgspec.Struct, frozen=True):
    """One message, and how it was made."""

    raw: bytes
    story: str


def make_attack(seed: int, number: int) -> Attack:
    """Return one message; the same numbers give the same message."""
    rng = random.Random(f"{seed}:{number}")
    extension = rng.choice(sorted(_SCRIPTS))
    content = _SCRIPTS[extension]
    disguise = rng.randrange(len(_DISGUISES))
    name = _DISGUISES[disguise](f"invoice.{extension}")
    story = [ascii(name)]
    layers = rng.choices([0, 1, 2, 3], [2, 5, 3, 1])[0]
    for _ in range(layers):
        each = rng.choice(FORMATS)
        content = each.make(_plain(name, each), content)
        name = f"{_plain(name, each)}.{each.extension}" if not each.named else f"{rng.choice(_STEMS)}.{each.extension}"
        story.append(each.title)
        if each.outcome == "said" or _must_stay(each):
            break
    if layers and each.outcome == "opened" and each.group == "archives" and rng.random() < 0.1:
        content = content[: len(content) * 2 // 3]
        story.append("cut short")
    carrier = rng.choice(_CARRIERS)
    story.append(carrier.__name__.strip("_"))
    return Attack(carrier(name, content, rng), " < ".join(story))


_STEMS = ("files", "scan 2026-11", "Rechnung", "photo", "документы", "a")


# What a letter says, by the finding that names it; the second only has a link, which a list blocks.
BLOCKED = "login.blocked.example"
LETTERS: dict[str, tuple[str, ...]] = {
    "text:advance-fee": (
        "Dear Friend,",
        "I am the widow of the late Colonel Ahmed, and I got your contact in my search for a reliable person.",
        "My late husband deposited the sum of $12.5 million with a security company before his sudden death.",
        "As his next of kin I need your assistance to claim the fund. This transaction is confidential and risk free.",
        "You will receive 30% of the total sum. Kindly send your full name, address and bank account details.",
    ),
    "list:blocked-urls": ("The minutes are here:", f"https://{BLOCKED}/minutes?id=4", "Ann"),
}
_SHELLS = tuple(each for each in FORMATS if each.group in ("archives", "compressed files") and each.outcome == "opened")


def make_letter(seed: int, number: int) -> tuple[Attack, str]:
    """Return a message whose attachment is a letter, and the tag that it must get."""
    rng = random.Random(f"{seed}:letter:{number}")
    tag = rng.choice(sorted(LETTERS))
    form = rng.choice(LETTER_FORMATS)
    content = form.make(LETTERS[tag])
    name = rng.choice(_LETTER_DISGUISES)(f"{rng.choice(_STEMS)}.{form.extension}".rstrip("."))
    story = [tag, form.title, ascii(name)]
    for _ in range(rng.choices([0, 1, 2, 3], [3, 4, 2, 1])[0]):
        each = rng.choice(_SHELLS)
        content = each.make(name, content)
        name = f"{rng.choice(_STEMS)}.{each.extension}" if each.named else f"{name}.{each.extension}"
        story.append(each.title)
    carrier = rng.choice(_CARRIERS)
    story.append(carrier.__name__.strip("_"))
    return Attack(carrier(name, content, rng), " < ".join(story)), tag


# Names under which a person still opens the letter.
_LETTER_DISGUISES: tuple[Callable[[str], str], ...] = (
    lambda name: name,
    lambda name: name,
    lambda name: name.upper(),
    lambda name: f"{name} ",
    lambda name: f"\u200b{name}",
    lambda name: f"v2 {name}",
)


def _plain(name: str, each: Format) -> str:
    """Old formats keep no other letters than their own, and a stream keeps no name but its own."""
    return name if each.group != "documents and messages" else name.replace('"', "")


def _must_stay(each: Format) -> bool:
    """A picture, page or document shows its own extension; packed once more, it is like any other file."""
    return each.group == "behind a picture"


def _write(kind: str, name: str, body: bytes, encoding: str, *, disposition: str = "attachment") -> bytes:
    safe = name.replace("\r", "").replace("\n", "")
    label = f"filename*=utf-8''{quote(safe, safe='')}"
    head = f"Content-Type: {kind}\r\nContent-Disposition: {disposition}; {label}\r\n"
    return head.encode() + f"Content-Transfer-Encoding: {encoding}\r\n\r\n".encode() + body


def _envelop(*parts: bytes) -> bytes:
    head = (
        b"From: Ann <ann@a.example>\r\nTo: bob@b.example\r\nSubject: The file\r\nMIME-Version: 1.0\r\n"
        b"Date: Tue, 10 Nov 2026 09:12:00 +0000\r\nMessage-ID: <1@a.example>\r\n"
        b'Content-Type: multipart/mixed; boundary="=_x"\r\n\r\n'
    )
    note = b"Content-Type: text/plain\r\n\r\nHello Bob, please find the file attached. Ann\r\n"
    return head + b"".join(b"--=_x\r\n" + part + b"\r\n" for part in (note, *parts)) + b"--=_x--\r\n"


def _in_base64(name: str, content: bytes, _rng: random.Random) -> bytes:
    return _envelop(_write("application/octet-stream", name, base64.encodebytes(content), "base64"))


def _inline(name: str, content: bytes, rng: random.Random) -> bytes:
    kind = rng.choice(["image/png", "text/plain", "application/pdf"])
    return _envelop(_write(kind, name, base64.encodebytes(content), "base64", disposition="inline"))


def _in_quoted_printable(name: str, content: bytes, _rng: random.Random) -> bytes:
    return _envelop(_write("application/octet-stream", name, quopri.encodestring(content), "quoted-printable"))


def _in_broken_base64(name: str, content: bytes, rng: random.Random) -> bytes:
    digits = base64.encodebytes(content)
    place = rng.randrange(1 + len(digits) // 2)
    return _envelop(_write("application/octet-stream", name, digits[:place] + b"=!\r\n" + digits[place:], "base64"))


def _in_a_message(name: str, content: bytes, rng: random.Random) -> bytes:
    return _envelop(b"Content-Type: message/rfc822\r\n\r\n" + _in_base64(name, content, rng))


def _in_a_saved_message(name: str, content: bytes, rng: random.Random) -> bytes:
    inner = base64.encodebytes(_in_base64(name, content, rng))
    return _envelop(_write("application/octet-stream", "letter.eml", inner, "base64"))


def _in_winmail(name: str, content: bytes, _rng: random.Random) -> bytes:
    body = base64.encodebytes(d.tnef(name, content))
    return _envelop(_write("application/ms-tnef", "winmail.dat", body, "base64"))


def _signed(name: str, content: bytes, rng: random.Random) -> bytes:
    inner = _in_base64(name, content, rng)
    data = d.der(0x30, d.der(6, bytes.fromhex("2a864886f70d010701")), d.der(0xA0, d.der(4, inner)))
    body = d.der(0x30, d.der(2, b"\x01"), d.der(0x31), data, d.der(0x31))
    whole = d.der(0x30, d.der(6, bytes.fromhex("2a864886f70d010702")), d.der(0xA0, body))
    return _envelop(_write("application/pkcs7-mime", "smime.p7m", base64.encodebytes(whole), "base64"))


def _uuencoded(name: str, content: bytes, _rng: random.Random) -> bytes:
    lines = b"".join(binascii.b2a_uu(content[at : at + 45]) for at in range(0, len(content), 45))
    text = b"begin 644 " + name.strip().encode() + b"\n" + lines + b"`\nend\n"
    return _envelop(b"Content-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: 8bit\r\n\r\n" + text)


_CARRIERS = (
    _in_base64,
    _inline,
    _in_quoted_printable,
    _in_broken_base64,
    _in_a_message,
    _in_a_saved_message,
    _in_winmail,
    _signed,
    _uuencoded,
)
