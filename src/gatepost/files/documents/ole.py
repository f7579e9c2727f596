"""Office documents in compound files (.doc, .xls, .ppt) and their embedded objects.

One file may be several things at once: a Word document with a spreadsheet and a packaged program inside has streams of
all three. So nothing is decided by the file's name or class: every stream is inspected by what its name says it is.

Embedded files mostly have the form of the old Object Packager (MS-OLEDS section 2.3.6): a label, the path it came from,
the bytes.
"""

import re
from collections.abc import Callable

import msgspec

from gatepost.files.archives import decompress
from gatepost.files.archives.appended import APPENDED, cut_tail
from gatepost.files.documents import compound, office_encryption, old_office, spreadsheets
from gatepost.files.documents.compound import ROOT, STREAM, CompoundEntry, CompoundFile
from gatepost.files.documents.contents_builder import ContentsBuilder
from gatepost.files.documents.document_text import tidy_text
from gatepost.files.documents.old_office import read_word_text
from gatepost.files.documents.saved_messages import inspect_msg
from gatepost.files.documents.script_strings import find_addresses

MAX_NAME = 500


class PackagedFile(msgspec.Struct, frozen=True):
    """A packaged file with every name that it bears, or the command that stands in its place."""

    names: tuple[str, ...] = ("embedded object",)
    content: bytes = b""
    command: str = ""


def read_package(data: bytes) -> PackagedFile:
    """Read a package; the result has no content where the bytes are no package."""
    if data[:2] != b"\x02\0":
        return PackagedFile()
    label, place = _read_text(data, 2)
    source, place = _read_text(data, place)
    kind = int.from_bytes(data[place + 2 : place + 4], "little")
    place += 4
    if kind == 1:  # no file, but a command line
        command, _ = _read_text(data, place + 2)
        return PackagedFile(_strip_folders(label, source), command=command)
    length = int.from_bytes(data[place : place + 4], "little")
    temporary = data[place + 4 : place + 4 + min(length, MAX_NAME)]
    place += 4 + length
    size = int.from_bytes(data[place : place + 4], "little")
    content = data[place + 4 : place + 4 + size]
    return PackagedFile(
        _strip_folders(label, source, temporary.split(b"\0", 1)[0].decode("cp1252", "replace")), content
    )


def _read_text(data: bytes, place: int) -> tuple[str, int]:
    end = data.find(b"\0", place, place + MAX_NAME)
    if end < 0:
        return "", len(data)
    return data[place:end].decode("cp1252", "replace"), end + 1


def _strip_folders(*paths: str) -> tuple[str, ...]:
    names = [path.replace("\\", "/").rpartition("/")[2] for path in paths]
    return tuple(dict.fromkeys(name for name in names if name)) or ("embedded object",)


MAX_STREAMS = 2_000
PASSWORD_COST = 125  # a hundred thousand rounds of SHA-512: sixteen passwords, two seconds at most
COST = 4  # a stream is searched several times over
_INSTALLER = bytes.fromhex("84100c0000000000c000000000000046")
_DDE = re.compile(rb"[\x13\x01]\s{0,20}(DDE(?:AUTO)?\b[^\x13\x14\x15]{0,1000})", re.IGNORECASE)
_DDE_WIDE = re.compile(rb"\x13\0(?:\s\0){0,20}(D\0D\0E\0(?:[^\x13-\x15]\0){0,1000})", re.IGNORECASE)
_PACKED = re.compile(r"_\d{5,12}\Z")
_REMOTE = re.compile(r"(?:https?|ftp|file|mhtml|ms-\w{1,20}|search-ms)[:!]|\\\\", re.IGNORECASE)


def inspect(builder: ContentsBuilder) -> None:
    """Add everything of interest in one compound file."""
    document = CompoundFile(builder.file.content)
    if not document.entries:
        builder.add_unread("damaged")
        return
    root = document.root
    if root is not None and root.kind == ROOT and root.clsid == _INSTALLER:
        builder.add_trait("installer", "MSI")
    streams = [entry for entry in document.entries if entry.kind == STREAM]
    # Only these are read: a saved message has a dozen other streams for each of its recipients.
    readers = ((entry, _unpack_storage if _PACKED.match(entry.name) else _READERS.get(entry.name)) for entry in streams)
    wanted = [(entry, read) for entry, read in readers if read]
    if len(wanted) > MAX_STREAMS:
        builder.add_unread("count")
    for entry, read in wanted[:MAX_STREAMS]:
        read(_read_stream(document, entry, builder), builder)
    by_path = {entry.path: entry for entry in streams}
    if "ENCRYPTEDPACKAGE" in by_path:
        _decrypt_package(document, by_path, builder)
    if "WORDDOCUMENT" in by_path:
        _decrypt_word(document, by_path, builder)
        _add_word_text(document, by_path, builder)
    if any(path.startswith("__PROPERTIES") for path in by_path):
        inspect_msg(document, builder)
    compound.inspect(document, builder)
    builder.add_member(APPENDED, cut_tail(builder.file.content, document.end))
    if not document.is_whole:
        builder.add_unread("damaged")


def _read_stream(document: CompoundFile, entry: CompoundEntry, builder: ContentsBuilder) -> bytes:
    """Return a stream and charge for it: a thousand entries may name the same sectors."""
    room = builder.allowance(COST * min(entry.size, len(builder.file.content)))
    content = document.read(entry, room)
    if room < min(entry.size, len(builder.file.content)):
        builder.add_unread("size")
    builder.budget.pay(COST * len(content), 0)
    return content


def _decrypt_package(document: CompoundFile, found: dict[str, CompoundEntry], builder: ContentsBuilder) -> None:
    """Decrypt a whole modern document that stands in a compound file."""
    information = document.read(found["ENCRYPTIONINFO"], 8192) if "ENCRYPTIONINFO" in found else b""
    encrypted = _read_stream(document, found["ENCRYPTEDPACKAGE"], builder)
    plain = builder.try_passwords(
        PASSWORD_COST, lambda password: office_encryption.decrypt_package(information, encrypted, password)
    )
    if plain:
        builder.add_member("decrypted document", plain)
    else:
        builder.add_trait("encrypted", "Office")


def _decrypt_word(document: CompoundFile, found: dict[str, CompoundEntry], builder: ContentsBuilder) -> None:
    """Decrypt the text of a document of the old form, and inspect it as if it had not been encrypted."""
    head = document.read(found["WORDDOCUMENT"], 32)
    if not _is_encrypted_word(head):
        return
    table = found.get("1TABLE" if head[11] & 2 else "0TABLE")
    parameters = document.read(table, 4_096) if table else b""
    content = _read_stream(document, found["WORDDOCUMENT"], builder)
    plain = builder.try_passwords(1, lambda password: office_encryption.decrypt_word(content, parameters, password))
    if plain:
        _inspect_word(plain, builder)
    else:
        builder.add_trait("encrypted", "Word")


def _add_word_text(document: CompoundFile, found: dict[str, CompoundEntry], builder: ContentsBuilder) -> None:
    """Add the text of a Word document, to find which it takes two streams."""
    content = _read_stream(document, found["WORDDOCUMENT"], builder)
    if _is_encrypted_word(content):
        return
    table = found.get("1TABLE" if content[11:12] and content[11] & 2 else "0TABLE")
    pieces = _read_stream(document, table, builder) if table else b""
    builder.add_text(tidy_text(read_word_text(builder.take_source(content), pieces)))


def _is_encrypted_word(content: bytes) -> bool:
    return content[:2] == b"\xec\xa5" and len(content) > 11 and bool(content[11] & 1)


def _inspect_word(content: bytes, builder: ContentsBuilder) -> None:
    """Inspect the text with its fields; a flag in the header (MS-DOC section 2.5.2) says whether it is encrypted."""
    if _is_encrypted_word(content):  # it takes a second stream to open it: see `_decrypt_word`
        return
    upper = content.upper()
    if b"DDE" in upper:
        for match in _DDE.finditer(content):
            builder.add_command("dde", "DDE command", match.group(1).decode("latin-1"))
    if b"D\0D\0E\0" in upper:
        for match in _DDE_WIDE.finditer(content):
            builder.add_command("dde", "DDE command", match.group(1).decode("utf-16-le", "replace"))
    builder.add_links(find_addresses(content))


def _inspect_native(content: bytes, builder: ContentsBuilder) -> None:
    """Inspect an object that the old packager made: any file, under any name."""
    package = read_package(content[4:])
    if package.content:
        builder.add_trait("embedded-object", package.names[0])
        builder.add_member(package.names, package.content)
    elif package.command:
        builder.add_trait("embedded-command", package.command)
    else:
        builder.add_member("embedded object", content[4:])


def _add_whole(content: bytes, builder: ContentsBuilder) -> None:
    """Add an object that is a file of its own."""
    builder.add_trait("embedded-object", "document")
    builder.add_member("embedded document", content)


def _unpack_storage(content: bytes, builder: ContentsBuilder) -> None:
    """Unpack an object of a document in Word 2003's XML: a length, then a compressed compound file."""
    if content[4:5] == b"x":
        out, unread = decompress.deflate(content[6:], builder.allowance(len(content)))
        builder.add_unread(unread)
        builder.add_member("embedded storage", out, len(content))


def _inspect_link(content: bytes, builder: ContentsBuilder) -> None:
    """Inspect an object that stands elsewhere (MS-OLEDS section 2.3.3); a moniker says where."""
    for address in find_addresses(content):
        if _REMOTE.match(address):
            builder.add_trait("remote-object", address)
            builder.add_link(address)


_READERS: dict[str, Callable[[bytes, ContentsBuilder], None]] = {
    "ENCRYPTEDSUMMARY": lambda _, builder: builder.add_trait("encrypted", "Office"),
    "WORDDOCUMENT": _inspect_word,
    "WORKBOOK": spreadsheets.inspect_workbook,
    "BOOK": spreadsheets.inspect_workbook,
    "POWERPOINT DOCUMENT": old_office.inspect,
    "CURRENT USER": old_office.inspect_user,
    "\x01OLE10NATIVE": _inspect_native,
    "PACKAGE": _add_whole,
    "CONTENTS": _add_whole,
    "EMBEDDEDODF": _add_whole,
    "\x01OLE": _inspect_link,
    "\x03LINKINFO": _inspect_link,
}
