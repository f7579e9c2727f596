"""Files in the form of the old Object Packager (MS-OLEDS section 2.3.6): a label, the path it came from, the bytes.

Office documents in compound files (.doc, .xls, .ppt), their embedded objects, and what else comes in such a file.

One file may be several things at once: a Word document with a spreadsheet and a packaged program inside has streams of
all three. So nothing is decided by the file's name or class: every stream is looked at for what its name says it is.

Outlook's saved messages (.msg, MS-OXMSG): each property is a stream, each attachment a storage of such streams.
"""

import re
from collections.abc import Callable, Iterable

import msgspec

from gatepost.files.archives import decompress
from gatepost.files.budget import Budget
from gatepost.files.documents import office_encryption, powerpoint_binary, spreadsheets, vba
from gatepost.files.documents.compound import ROOT, STREAM, Compound, Entry
from gatepost.files.documents.insight import Insight
from gatepost.files.documents.script_strings import addresses_in, commands
from gatepost.files.values import Contents, File

MAX_NAME = 500


class Package(msgspec.Struct, frozen=True):
    """A packaged file with every name that it bears, or the command that stands in its place."""

    names: tuple[str, ...] = ("embedded object",)
    content: bytes = b""
    command: str = ""


def read_package(data: bytes) -> Package:
    """Read a package; without content where the bytes are none."""
    if data[:2] != b"\x02\0":
        return Package()
    label, place = _text(data, 2)
    source, place = _text(data, place)
    kind = int.from_bytes(data[place + 2 : place + 4], "little")
    place += 4
    if kind == 1:  # no file, but a command line
        command, _ = _text(data, place + 2)
        return Package(_names(label, source), command=command)
    length = int.from_bytes(data[place : place + 4], "little")
    temporary = data[place + 4 : place + 4 + min(length, MAX_NAME)]
    place += 4 + length
    size = int.from_bytes(data[place : place + 4], "little")
    content = data[place + 4 : place + 4 + size]
    return Package(_names(label, source, temporary.split(b"\0", 1)[0].decode("cp1252", "replace")), content)


def _text(data: bytes, place: int) -> tuple[str, int]:
    end = data.find(b"\0", place, place + MAX_NAME)
    if end < 0:
        return "", len(data)
    return data[place:end].decode("cp1252", "replace"), end + 1


def _names(*paths: str) -> tuple[str, ...]:
    names = [path.replace("\\", "/").rpartition("/")[2] for path in paths]
    return tuple(dict.fromkeys(name for name in names if name)) or ("embedded object",)


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
        _inspect_msg(document, insight)
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
        office_encryption.DEFAULT,
        PASSWORD_COST,
        lambda password: office_encryption.package(information, encrypted, password),
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
    package = read_package(content[4:])
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
        out, unread = decompress.deflate(content[6:], insight.room(len(content)))
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
    "WORKBOOK": spreadsheets.inspect_workbook,
    "BOOK": spreadsheets.inspect_workbook,
    "POWERPOINT DOCUMENT": powerpoint_binary.inspect,
    "CURRENT USER": powerpoint_binary.inspect_user,
    "\x01OLE10NATIVE": _native,
    "PACKAGE": _whole,
    "CONTENTS": _whole,
    "EMBEDDEDODF": _whole,
    "\x01OLE": _link,
    "\x03LINKINFO": _link,
}


MAX_ATTACHMENTS = 500
_MSG_VALUE = "__SUBSTG1.0_"
_MSG_DATA, _LONG_NAME, _SHORT_NAME = "37010102", "3707", "3704"
_MSG_BODIES = {"1000001F": "body.txt", "1000001E": "body.txt", "10130102": "body.html", "1013001F": "body.html"}


def _inspect_msg(document: Compound, insight: Insight) -> None:
    """Attachments and bodies as files."""
    folders: dict[str, dict[str, Entry]] = {}
    for entry in document.entries:
        folder, _, name = entry.path.rpartition("/")
        if entry.kind == STREAM and name.startswith(_MSG_VALUE) and len(folders) <= MAX_ATTACHMENTS:
            folders.setdefault(folder, {})[name[len(_MSG_VALUE) :]] = entry
    for folder, values in folders.items():
        if folder.rpartition("/")[2].startswith("__ATTACH") and _MSG_DATA in values:
            _msg_attachment(document, values[_MSG_DATA], _msg_name(document, values), insight)
        for tag, name in _MSG_BODIES.items():
            if tag in values:
                _msg_attachment(document, values[tag], name, insight)


def _msg_attachment(document: Compound, entry: Entry, name: str, insight: Insight) -> None:
    content = document.read(entry, insight.room(entry.size))
    if entry.path.endswith("001F"):
        content = content.decode("utf-16-le", "replace").encode()
    insight.member(name, content, len(content))


def _msg_name(document: Compound, values: dict[str, Entry]) -> str:
    for tag in (_LONG_NAME, _SHORT_NAME):
        for form, charset in (("001F", "utf-16-le"), ("001E", "cp1252")):
            if entry := values.get(tag + form):
                return document.read(entry, 1_000).decode(charset, "replace").strip("\0") or "attachment"
    return "attachment"
