"""Office documents in compound files (.doc, .xls, .ppt), their embedded objects, and what else comes in such a file.

One file may be several things at once: a Word document with a spreadsheet and a packaged program inside has streams of
all three. So nothing is decided by the file's name or class: every stream is looked at for what its name says it is.
"""

import re
from collections.abc import Callable, Iterable

from gatepost.files import biff, inflate, officecrypt, outlook, slides, vba
from gatepost.files.budget import Budget
from gatepost.files.compound import ROOT, STREAM, Compound, Entry
from gatepost.files.insight import Insight
from gatepost.files.package import packaged
from gatepost.files.tree import Contents, File
from gatepost.files.unravel import commands
from gatepost.files.webaddresses import addresses_in

MAX_STREAMS = 2_000
PASSWORD_COST = 400  # a hundred thousand rounds of SHA-512: five passwords, half a second
COST = 4  # a stream is searched several times over
_INSTALLER = bytes.fromhex("84100c0000000000c000000000000046")
_DDE = re.compile(rb"[\x13\x01]\s{0,20}(DDE(?:AUTO)?\b[^\x13\x14\x15]{0,1000})", re.IGNORECASE)
_DDE_WIDE = re.compile(rb"\x13\0(?:\s\0){0,20}(D\0D\0E\0(?:[^\x13-\x15]\0){0,1000})", re.IGNORECASE)
_PACKED = re.compile(r"_\d{5,12}\Z")
_REMOTE = re.compile(r"(?:https?|ftp|file|mhtml|ms-\w{1,20}|search-ms)[:!]|\\\\", re.IGNORECASE)


def inspect(file: File, budget: Budget, passwords: Iterable[str] = ()) -> Contents:
    """Everything of interest in one compound file; `passwords` are those that the mail gives away."""
    insight = Insight(file, budget, passwords)
    document = Compound(file.content)
    if not document.entries:
        insight.unread("damaged")
        return insight.contents()
    root = document.root
    if root is not None and root.kind == ROOT and root.clsid == _INSTALLER:
        insight.trait("installer", "MSI")
    streams = [entry for entry in document.entries if entry.kind == STREAM]
    if len(streams) > MAX_STREAMS:
        insight.unread("count")
    for entry in streams[:MAX_STREAMS]:
        read = _packed if _PACKED.match(entry.name) else _READERS.get(entry.name)
        if read:
            read(_read(document, entry, insight), insight)
    _open_package(document, streams, insight)
    if any(entry.path.startswith("__PROPERTIES") for entry in streams):
        outlook.inspect(document, insight)
    vba.inspect(document, insight)
    if not document.is_whole:
        insight.unread("damaged")
    return insight.contents()


def _read(document: Compound, entry: Entry, insight: Insight) -> bytes:
    """A stream, paid for: a thousand entries may name the same sectors."""
    room = insight.room(COST * min(entry.size, len(insight.file.content)))
    content = document.read(entry, room)
    if room < min(entry.size, len(insight.file.content)):
        insight.unread("size")
    insight.budget.pay(COST * len(content), 0)
    return content


def _open_package(document: Compound, streams: list[Entry], insight: Insight) -> None:
    """A whole modern document, encrypted."""
    found = {entry.path: entry for entry in streams}
    if "ENCRYPTEDPACKAGE" not in found:
        return
    information = document.read(found["ENCRYPTIONINFO"], 8192) if "ENCRYPTIONINFO" in found else b""
    encrypted = _read(document, found["ENCRYPTEDPACKAGE"], insight)
    plain = insight.unlocked(
        officecrypt.DEFAULT, PASSWORD_COST, lambda password: officecrypt.package(information, encrypted, password)
    )
    if plain:
        insight.member("decrypted document", plain)
    else:
        insight.trait("encrypted", "Office")


def _encrypted(_: bytes, insight: Insight) -> None:
    insight.trait("encrypted", "Office")


def _word(content: bytes, insight: Insight) -> None:
    """The text with its fields; a flag in the header (MS-DOC section 2.5.2) says whether it is encrypted."""
    if content[:2] == b"\xec\xa5" and content[11:12] and content[11] & 1:
        insight.trait("encrypted", "Word")
        return
    upper = content.upper()
    if b"DDE" in upper:
        for match in _DDE.finditer(content):
            _dde(match.group(1).decode("latin-1"), insight)
    if b"D\0D\0E\0" in upper:
        for match in _DDE_WIDE.finditer(content):
            _dde(match.group(1).decode("utf-16-le", "replace"), insight)
    insight.links(addresses_in(content))


def _dde(command: str, insight: Insight) -> None:
    insight.trait("dde", command)
    insight.member("DDE command", commands(command))


def _native(content: bytes, insight: Insight) -> None:
    """An object that the old packager made: any file, under any name."""
    package = packaged(content[4:])
    if package.content:
        insight.trait("embedded-object", package.names[0])
        insight.member(package.names, package.content)
    elif package.command:
        insight.trait("embedded-command", package.command)
    else:
        insight.member("embedded object", content[4:])


def _whole(content: bytes, insight: Insight) -> None:
    """An object that is a file of its own."""
    insight.trait("embedded-object", "document")
    insight.member("embedded document", content)


def _packed(content: bytes, insight: Insight) -> None:
    """An object of a document in Word 2003's XML: a length, then a compressed compound file."""
    if content[4:5] == b"x":
        out, unread = inflate.deflate(content[6:], insight.room(len(content)))
        insight.unread(unread)
        insight.member("embedded storage", out, len(content))


def _link(content: bytes, insight: Insight) -> None:
    """An object that stands elsewhere (MS-OLEDS section 2.3.3): where, is said in a moniker."""
    for address in addresses_in(content):
        if _REMOTE.match(address):
            insight.trait("remote-object", address)
            insight.link(address)


_READERS: dict[str, Callable[[bytes, Insight], None]] = {
    "ENCRYPTEDSUMMARY": _encrypted,
    "WORDDOCUMENT": _word,
    "WORKBOOK": biff.inspect,
    "BOOK": biff.inspect,
    "POWERPOINT DOCUMENT": slides.inspect,
    "CURRENT USER": slides.inspect_user,
    "\x01OLE10NATIVE": _native,
    "PACKAGE": _whole,
    "CONTENTS": _whole,
    "EMBEDDEDODF": _whole,
    "\x01OLE": _link,
    "\x03LINKINFO": _link,
}
