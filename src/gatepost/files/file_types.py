"""What a file is: by its content, and by the name under which programs save and open it.

`identify` looks at the first bytes, since names and declared types are claims, and the content is what programs open.
The answer is a short name, mostly the usual extension ("exe", "pdf", "ole"). `file_types.toml` has a row for each
type.

A name is taken as Windows takes it, not as it is spelled in the message. Windows drops dots and blanks at the end, so
`invoice.js. .` is saved as `invoice.js`. It takes what follows a colon for a stream inside the file
(`invoice.js::$DATA`), and C programs stop at a NUL. Characters that only direct the writing (U+202E) or have no width
are part of the name and not of what a person sees. Disc images add a version (`INVOICE.JS;1`). A name that differs from
the spelled one is not a finding by itself: it is what checks ask about.
"""

import re
from collections.abc import Iterable
from importlib.resources import files
from typing import Literal

import msgspec

from gatepost.mail.encodings.openpgp import is_openpgp
from gatepost.names import FILE_NAME_ENDS, normal_file_name

MAX_EXTENSIONS = 8


def list_extensions(name: str) -> tuple[str, ...]:
    """Return the extensions of a name, the last one first: `a.pdf.js` has js and pdf.

    Where a colon starts a stream of the file, the extension before it comes first, since that is what is opened.
    """
    normal = normal_file_name(name)
    found: dict[str, None] = {}
    for text in (*(normal[: at.start()].rstrip(FILE_NAME_ENDS) for at in re.finditer(":", normal)), normal):
        parts = [part.strip(FILE_NAME_ENDS) for part in text.split(".")[1:]]
        found.update(dict.fromkeys(part for part in reversed(parts[-MAX_EXTENSIONS:]) if part))
    return tuple(found)


def find_last_extensions(name: str) -> tuple[str, ...]:
    """Return what may be the extension by which a name is opened: mostly one, none for a name without a dot."""
    normal = normal_file_name(name)
    texts = (*(normal[: at.start()].rstrip(FILE_NAME_ENDS) for at in re.finditer(":", normal)), normal)
    return tuple(dict.fromkeys(text.rpartition(".")[2].strip(FILE_NAME_ENDS) for text in texts if "." in text))


class FileType(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A row of `file_types.toml`: the extensions that honestly go with a type, its MIME type, the first bytes by which
    it is known, and whether opening it runs code or gives other files."""

    extensions: str
    marks: tuple[str, ...] = ()
    mime: str = ""
    runs: bool = False
    holds: Literal["", "opened", "unopened"] = ""


_TABLE = msgspec.toml.decode(files("gatepost.files").joinpath("file_types.toml").read_bytes(), type=dict[str, FileType])
EXTENSIONS: dict[str, frozenset[str]] = {name: frozenset(row.extensions.split()) for name, row in _TABLE.items()}
MIME_TYPES: dict[str, str] = {name: row.mime for name, row in _TABLE.items() if row.mime}
EXECUTABLES: frozenset[str] = frozenset(name for name, row in _TABLE.items() if row.runs)
# Types that hold other files. `archives.unpack` and `documents.dispatch` open most; the rest is said to be unread.
CONTAINERS: frozenset[str] = frozenset(name for name, row in _TABLE.items() if row.holds)
UNOPENED: frozenset[str] = frozenset(name for name, row in _TABLE.items() if row.holds == "unopened")
_MARKS = [(mark.encode("latin-1"), name) for name, row in _TABLE.items() for mark in row.marks]
_BY_FIRST: dict[int, list[tuple[bytes, str]]] = {
    first: [pair for pair in _MARKS if pair[0][0] == first] for first in {mark[0] for mark, _ in _MARKS}
}

# Names and declared types that promise an archive. Extensions with other meanings (bin, dat, img, key) are left out.
ARCHIVE_EXTENSIONS: frozenset[str] = frozenset(
    "zip zipx jar war ear apk rar r00 cbr 7z cb7 cbz gz tgz gzip bz2 tbz tbz2 xz txz zst tzst tar cab msu iso udf vhd "
    "vhdx ace arj z taz lzma tlz lz lz4 cpio deb rpm lzh lha wim esd swm xar dmg squashfs vmdk qcow2 vdi alz egg sit "
    "sitx zoo arc pea xz kgb uha zpaq sqx b1 ice gca bh cpt pak br lzo sz lzfse zz whl crx xpi "
    "nupkg vsix ova hdd nrg mdf mds daa uif isz ecm toast warc ex_ dl_".split()
)
_VOLUME = re.compile(r"[zrc]\d\d|\d{2,4}")


def promises_archive(name: str) -> bool:
    """Return whether a name promises an archive or a volume of one (`a.z01`, `a.7z.002`, `a.r00`)."""
    last = find_last_extensions(name)
    if ARCHIVE_EXTENSIONS.intersection(last):
        return True
    if not any(_VOLUME.fullmatch(extension) for extension in last):
        return False
    others = list_extensions(name)[1:2]
    return last[0][0] in "zrc" or bool(ARCHIVE_EXTENSIONS.intersection(others))


# Text that programs show or read as data, and never run.
_TEXT_EXTENSIONS = frozenset(
    "txt log csv tsv json jsonl ndjson sql md xml yaml yml out asc geojson dat nmea gcode".split()
)


def is_text_name(names: Iterable[str]) -> bool:
    """Return whether all names of a file are those of text that nothing runs."""
    found = [find_last_extensions(name) for name in names]
    return bool(found) and all(each and _TEXT_EXTENSIONS.issuperset(each) for each in found)


# Of these, what no browser shows as a page (`.xml`) and no program opens further (`.asc`).
_PLAIN_EXTENSIONS = _TEXT_EXTENSIONS - {"xml", "asc"}
TEXT_HEAD, LONG_TEXT = 4_096, 1 << 20
_PICTURES = frozenset({"png", "jpeg", "gif", "bmp", "webp", "tiff"})
# What spreadsheets take for a formula, which may start a program.
_FORMULA_CELL = re.compile(rb"(?:\A|[\r\n,;\t])[\"' ]{0,3}[=@+-]\s{0,3}[A-Za-z@]{2}")


def is_plain_text(names: Iterable[str], content: bytes) -> bool:
    """Return whether names and first bytes of a file are those of text that nothing runs, shows or opens further."""
    names = tuple(names)
    if not is_text_name(names) or not reads_as_text(content) or identify(content[: 16 * TEXT_HEAD]) != "text":
        return False
    extensions = {extension for name in names for extension in find_last_extensions(name)}
    return extensions <= _PLAIN_EXTENSIONS and not (
        extensions & {"csv", "tsv"} and _FORMULA_CELL.search(content[: 16 * TEXT_HEAD])
    )


def is_plain_picture(names: Iterable[str], content: bytes) -> bool:
    """Return whether a file is a picture by its first bytes and by all of its names."""
    kind = identify(content)
    return kind in _PICTURES and all(EXTENSIONS[kind].issuperset(find_last_extensions(name) or [""]) for name in names)


ARCHIVE_MIME_TYPES: frozenset[str] = frozenset(
    "application/zip application/x-zip application/x-zip-compressed application/x-rar application/x-rar-compressed "
    "application/vnd.rar application/x-7z-compressed application/gzip application/x-gzip application/x-bzip2 "
    "application/x-xz application/zstd application/x-tar application/x-lzh application/x-lzh-compressed "
    "application/x-lha application/vnd.ms-cab-compressed application/x-iso9660-image application/x-arj "
    "application/x-ace-compressed application/x-cpio application/x-compress application/java-archive "
    "application/vnd.android.package-archive application/x-ms-wim application/x-apple-diskimage".split()
)
# Names that promise a document or a program with a format of its own.
DOCUMENT_EXTENSIONS: frozenset[str] = frozenset().union(
    *(EXTENSIONS[kind] for kind in ("exe", "pdf", "ole", "rtf", "onenote", "chm", "lnk", "zip", "cms"))
)


HEAD = 1024


_INSTALLER = tuple(
    number.to_bytes(4, "little") + bytes.fromhex("00000000c000000000000046") for number in (0xC1082, 0xC1084, 0xC1086)
)


def has_mark(content: bytes) -> bool:
    """Return whether bytes begin with the mark of a type."""
    return any(content.startswith(mark) for mark, _ in _BY_FIRST.get(content[0], ()))


def identify(content: bytes) -> str:
    """Return the type of a file by its content; "text" or "data" where nothing tells."""
    if not content:
        return "empty"
    for magic, name in _BY_FIRST.get(content[0], ()):
        if content.startswith(magic) and _is_confirmed(name, content):
            return "msi" if name == "ole" and _is_installer(content) else name
    return _identify_further_in(content) or _identify_text(content)


def _is_confirmed(name: str, content: bytes) -> bool:
    """Return whether a second look confirms a short signature: prose may start with "MZ" or "BM"."""
    if name == "exe":
        return (len(content) > 64 and not content[:64].isascii()) or b"\0" in content[:64]
    if name == "bmp":
        return content[6:10] == b"\0\0\0\0"
    if name == "arj":
        return len(content) > 34 and content[2] < 0xFF and content[3] < 0x0B
    if name == "script":
        return b"/" in content[:64].split(b"\n", 1)[0]
    if name == "cpio" and content[:1] in b"\xc7\x71":
        return len(content) > 26 and int.from_bytes(content[20:22], "little" if content[0] == 0xC7 else "big") < 1_024
    if name == "zoo":
        return content[20:24] == b"\xdc\xa7\xc4\xfd"
    if name == "vmdk":
        return content[:1] == b"#" or not reads_as_text(content)
    # A letter may begin with any letters: what is said to be unread is not text.
    return name not in _BINARY or not reads_as_text(content)


# Types that hold other files and whose own bytes are not text, though their marks are letters.
_BINARY = (CONTAINERS | {"mp3"}) - {"warc", "vmdk", "cpio", "ar"}
_UNWRITTEN = re.compile(rb"[\0-\x08\x0e-\x1a\x1c-\x1f\x7f]")


def reads_as_text(content: bytes) -> bool:
    """Return whether the first bytes are text: ASCII or UTF-8 without characters that nobody writes."""
    head = content[:HEAD]
    if _UNWRITTEN.search(head):
        return False
    try:
        head.decode("utf-8")
    except UnicodeDecodeError as fault:
        return fault.start >= len(head) - 3 and len(content) > HEAD
    return True


def _is_installer(content: bytes) -> bool:
    """Return whether a compound file is a Windows Installer package, by its root's class ([MS-CFB] section 2.6.1)."""
    size = 1 << min(int.from_bytes(content[30:32], "little"), 16)
    root = (int.from_bytes(content[48:52], "little") + 1) * size
    return content[root + 80 : root + 96] in _INSTALLER


def _identify_further_in(content: bytes) -> str:
    """Return the type by a signature that does not stand at the start; "" where there is none."""
    for place, magic, name in _INSIDE:
        if content.startswith(magic, place) and not reads_as_text(content):
            return name
    if is_pdf(content):
        return "pdf"
    if content[4:8] == b"ftyp":
        return "heif" if content[8:12] in _HEIF_BRANDS else "mp4"
    if content[:4] == b"RIFF":
        return {b"WEBP": "webp", b"WAVE": "wav"}.get(content[8:12], "data")
    if _LZH_METHOD.match(content, 2) and len(content) > 21 and content[20] < 4:
        return "lzh"
    if content[1:4] == b"\x2a\x4d\x18" and content[0] & 0xF0 == 0x50:  # a skippable frame comes first
        return "lz4" if _follows_skipped(content, b"\x04\x22\x4d\x18") else "zstd"
    # A message of RFC 5652: a sequence that starts with one of its object identifiers.
    if content[0] == 0x30 and any(content.find(mark, 0, 24) > 0 for mark in _CMS_IDENTIFIERS):
        return "cms"
    if is_openpgp(content):
        return "pgp"
    if _is_lzma(content):
        return "lzma"
    return _identify_disk(content)


def is_pdf(content: bytes) -> bool:
    """Return whether readers of PDF would open it: its mark is in the first kilobyte, even of a tar."""
    return b"%PDF-" in content[:HEAD] or content.startswith(b"%FDF-")


_HEIF_BRANDS = frozenset({b"heic", b"heix", b"hevc", b"heim", b"heis", b"mif1", b"msf1", b"avif", b"avis"})
_INSIDE: tuple[tuple[int, bytes, str], ...] = (
    (257, b"ustar", "tar"),
    (7, b"**ACE**", "ace"),
    (4, b"jP  \r\n\x87\n", "jpeg2000"),
    (0, b"\xff\x4f\xff\x51", "jpeg2000"),
    (0, b"\0\0\x01\0", "ico"),
    (0x8001, b"CD001", "iso"),
    (0x8001, b"BEA01", "iso"),
    (0x40, b"\x7f\x10\xda\xbe", "vdi"),
    (3, b"NTFS    ", "ntfs"),
    (32, b"NXSB", "hfs"),
)
_LZH_METHOD = re.compile(rb"-(?:l[hzx][0-9a-z]|pm[0-9s]|pc1)-")
_CMS_IDENTIFIERS = (bytes.fromhex("06092a864886f70d0107"), bytes.fromhex("060b2a864886f70d01091001"))


def _is_lzma(content: bytes) -> bool:
    """Return whether this is the old .lzma form, which has no signature: plausible properties, a dictionary of a usual
    size, an unpacked size that is unknown or below a terabyte, and the first byte of the range coder, which is 0."""
    if len(content) < 18 or content[0] >= 225 or content[13] != 0:
        return False
    dictionary, size = int.from_bytes(content[1:5], "little"), int.from_bytes(content[5:13], "little")
    usual = dictionary >= 4096 and (dictionary & (dictionary - 1) == 0 or dictionary % (3 << 11) == 0)
    return usual and (size == (1 << 64) - 1 or 0 < size < 1 << 40)


def _follows_skipped(content: bytes, magic: bytes) -> bool:
    place = 0
    for _ in range(64):
        if content[place + 1 : place + 4] != b"\x2a\x4d\x18":
            break
        place += 8 + int.from_bytes(content[place + 4 : place + 8], "little")
    return content.startswith(magic, place)


def _identify_disk(content: bytes) -> str:
    """Return the type of a raw image of a disk or of one file system on it. Their marks are short, and the rest of the
    same record confirms them; a text is none of them, whatever it has at such a place."""
    if reads_as_text(content):
        return ""
    if content[-512:-504] == b"conectix":  # a disc of fixed size has its mark at the end only
        return "vhd"
    if content[-512:-504] == b"koly\0\0\0\x04":
        return "dmg"
    if content[1024:1026] in (b"H+", b"HX", b"BD") and len(content) > 4096 and _is_hfs(content):
        return "hfs"
    if content[1080:1082] == b"\x53\xef" and len(content) > 4096 and int.from_bytes(content[1048:1052], "little") < 7:
        return "ext"
    if content[510:512] != b"\x55\xaa":
        return ""
    if content[0] in (0xEB, 0xE9) and content[11:13] in (b"\0\x02", b"\0\x04", b"\0\x08", b"\0\x10"):
        return "fat"
    entries = [content[place : place + 16] for place in range(446, 510, 16)]
    is_table = all(entry[0] in (0, 0x80) for entry in entries) and any(entry[4] for entry in entries)
    return "disk" if is_table and len(content) > 1024 else ""


def _is_hfs(content: bytes) -> bool:
    """Return whether a volume header of HFS or HFS+ (TN1150) has a right version or a right size of blocks."""
    if content[1024:1026] != b"BD":
        return content[1026:1028] in (b"\0\x04", b"\0\x05")
    size = int.from_bytes(content[1044:1048], "big")
    return size > 0 and size % 512 == 0


def _identify_text(content: bytes) -> str:
    head = content[:HEAD].lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    # `<script:module>` is a macro of OpenDocument.
    if head.startswith((b"<!doctype html", b"<html", b"<head", b"<body", b"<script")) and head[7:8] != b":":
        return "html"
    if head.startswith(b"<svg") or (head.startswith(b"<?xml") and b"<svg" in head):
        return "svg"
    if head.startswith(b"<?xml"):
        return "html" if b"<html" in head else "xml"
    if b"\0" in content[:HEAD]:
        return "data"
    return _identify_message(head) or "text"


_FIELDS = re.compile(rb"(?:[!-9;-~]{1,60}[ \t]*:[^\r\n]*\r?\n(?:[ \t][^\r\n]*\r?\n){0,20}){1,60}")
_MAIL_FIELDS = re.compile(
    rb"^(?:from|to|date|subject|received|return-path|message-id|mime-version|content-type|content-transfer-encoding|"
    rb"delivered-to|x-mailer|x-mozilla-status|reply-to)[ \t]*:",
    re.MULTILINE,
)
_MIME_FIELDS = re.compile(rb"^(?:mime-version[ \t]*:|content-type[ \t]*:[ \t]*[\w-]{1,40}/)", re.MULTILINE)


def _identify_message(head: bytes) -> str:
    """Return "eml" for a message or web archive (RFC 5322, RFC 2557) and "mbox" for a mailbox, by the fields at the
    start; `head` is in lower case. Text may start with one such line, so two are asked for, or one of MIME's."""
    box = head.startswith(b"from ")
    start = head.find(b"\n") + 1 if box else 0
    fields = _FIELDS.match(head, start) if start >= 0 else None
    if fields is None:
        return ""
    found = len({name.strip() for name in _MAIL_FIELDS.findall(fields.group())})
    if found >= 2 or _MIME_FIELDS.search(fields.group()):
        return "mbox" if box else "eml"
    return ""
