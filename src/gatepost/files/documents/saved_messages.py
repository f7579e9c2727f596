"""Mail as a file: saved messages (.eml, .msg), web archives (.mht), mailboxes, winmail.dat, and signed messages (.p7m).

A message that is attached to a message is read with it. One inside an archive, a document or a saved message comes
here: it is read by the same reader, its parts become files, its text and links are those of the file. A web archive
(RFC 2557) is a message without a sender; Word opens one under the name of a document.

Outlook attaches a message as a file of its own form (.msg, MS-OXMSG), or inside of a winmail.dat (TNEF, MS-OXTNEF) as
an embedded object. Both hold properties instead of header fields and parts: the header section as it came
(PidTagTransportMessageHeaders, MS-OXPROPS section 2.1057), the bodies, the attachments. `open_saved_message` writes
such a message anew by RFC 5322 and MIME, so that whatever reads mail can read what people report. Every size is a
stranger's claim and is limited here; a file that is no message gives nothing.
"""

import base64
import re
from collections.abc import Callable, Iterable, Iterator, Mapping

import msgspec

from gatepost.files.documents import compound
from gatepost.files.documents.compound import STREAM, CompoundEntry, CompoundFile
from gatepost.files.documents.contents_builder import ContentsBuilder
from gatepost.files.file_types import find_last_extensions
from gatepost.files.values import File
from gatepost.mail.encodings import openpgp, outlook
from gatepost.mail.encodings.cms import open_cms
from gatepost.mail.encodings.outlook import MAX_TEXT, decompress_rtf, extract_html
from gatepost.mail.message import MESSAGE_TYPES, Message, Part
from gatepost.mail.part_places import MAX_MESSAGES, find_attached_messages
from gatepost.mail.reader import read
from gatepost.mail.text import detect_form

MAX_MAILBOX = 500
# Of a longer mailbox, the last messages are read, too, and those between that are more than plain text.
LAST_MESSAGES, MAX_FURTHER = 20, 900
MAX_PLAIN_HEADER = 16_384
_EMPTY_LINE = re.compile(rb"\n\r?\n")
_CONTENT_TYPE = re.compile(rb"(?:^|\n)content-type\s{0,9}:\s{0,99}([^\r\n]{0,200})")
_PACKED = re.compile(rb"\ncontent-(?:transfer-encoding\s{0,9}:\s{0,99}(?:base64|x-|uu)|disposition|encoding)")
_IN_TEXT = re.compile(
    rb"\n(?:begin[ -](?:base64 )?\d|=ybegin |-----begin pgp message|\(this file must|<(?:!doctype|html|svg))|<script",
    re.IGNORECASE,
)
_FROM_LINE = re.compile(rb"^From [^\r\n]{0,300}\r?\n", re.MULTILINE)


def inspect_message(builder: ContentsBuilder) -> None:
    """Add the parts and links of a message or web archive."""
    if not _is_read_already(builder.file):
        _add_message(builder.file.content, builder)


def inspect_mailbox(builder: ContentsBuilder) -> None:
    """Add the messages of a mailbox (RFC 4155); one alone, such as a patch that git wrote, is read at once."""
    content = builder.file.content
    starts = [match for match in _FROM_LINE.finditer(content) if _is_after_empty_line(content, match.start())]
    if len(starts) <= 1:
        _add_message(content[starts[0].end() :] if starts else content, builder)
        return
    ends = [match.start() for match in starts[1:]] + [len(content)]
    added = 0
    for number, (match, end) in enumerate(zip(starts, ends, strict=True), 1):
        if MAX_MAILBOX < number <= len(starts) - LAST_MESSAGES:
            if _is_plain_message(content, match.end(), end):
                builder.add_unread("text")
                continue
            if added > MAX_FURTHER:
                builder.add_unread("count")
                return
            added += 1
        builder.add_member(f"message {number}.eml", content[match.end() : end], end - match.start())


def _is_plain_message(content: bytes, start: int, end: int) -> bool:
    """Return whether a message of a long mailbox is plain text and nothing else, by a glance at its bytes."""
    head = _EMPTY_LINE.search(content, start, end)
    if head is None or head.start() - start > MAX_PLAIN_HEADER:
        return False
    fields = content[start : head.start()].lower()
    if not all(kind.startswith(b"text/plain") for kind in _CONTENT_TYPE.findall(fields)) or _PACKED.search(fields):
        return False
    return _IN_TEXT.search(content, head.end(), end) is None


def _is_after_empty_line(content: bytes, place: int) -> bool:
    return not place or content[max(0, place - 4) : place].replace(b"\r", b"").endswith(b"\n\n")


def inspect_tnef(builder: ContentsBuilder) -> None:
    """Add the bodies and attachments of a winmail.dat that is not attached to the message itself."""
    if _is_part(builder.file):
        return
    for inner in outlook.find_tnef(builder.file.content, min(MAX_TEXT, builder.budget.slow_left)):
        if not inner.whole:
            builder.add_unread("damaged")
        if inner.content_type == outlook.PACKED_RTF or (
            inner.content_type == "application/rtf" and not builder.budget.take_slow(len(inner.content))
        ):
            builder.add_unread("size")
        declared = "" if inner.names else inner.content_type
        builder.add_member(inner.names, inner.content, len(inner.content), declared=declared)


def inspect_cms(builder: ContentsBuilder) -> None:
    """Add the content of a signed or compressed message; a certificate or a signature alone has none."""
    file = builder.file
    opened = open_cms(file.content)
    if opened.form == "encrypted":
        builder.add_trait("encrypted", "S/MIME")
    elif not opened.whole:
        builder.add_unread("damaged")
    if not (_is_part(file) and is_smime(file.declared, file.names)):
        builder.add_member("signed content", opened.content, len(file.content))


_NOT_SEARCHED = ("image/", "audio/", "video/")


def inspect_openpgp(builder: ContentsBuilder) -> None:
    """Add the files of an OpenPGP message that is not encrypted; keys and signatures hold none."""
    file = builder.file
    for opened in openpgp.find_openpgp(file.content, builder.allowance(len(file.content)), file.names):
        if opened.encrypted:
            builder.add_trait("encrypted", "OpenPGP")
        if opened.is_cut:
            builder.add_unread("ratio")
        if opened.is_damaged:
            builder.add_unread("damaged")
        if _is_part(file) and not file.declared.startswith(_NOT_SEARCHED):
            continue  # the reader of the message has opened it
        for literal in opened.files:
            names = openpgp.name_literal(literal, file.names) or ("content",)
            builder.add_member(names, literal.content, len(literal.content))


def is_smime(content_type: str, names: Iterable[str]) -> bool:
    """Return whether a part is S/MIME by its type or name; the message reader opens those that are attached to it."""
    return content_type in ("application/pkcs7-mime", "application/x-pkcs7-mime") or any(
        "p7m" in find_last_extensions(name) for name in names
    )


def _is_read_already(file: File) -> bool:
    """Return whether the reader of the message itself has read this file."""
    if file.is_body:
        return True
    if not _is_part(file):
        return False
    return file.declared in MESSAGE_TYPES or any(name.lower().endswith(".eml") for name in file.names)


def _is_part(file: File) -> bool:
    """Return whether the file is a part of the message in its first reading, the only one that is looked into there."""
    return bool(file.declared) and "~" not in file.path.partition("/")[0]


def _add_message(raw: bytes, builder: ContentsBuilder) -> None:
    message = read(raw)
    is_page = any(_WEB_ARCHIVES.intersection(find_last_extensions(name)) for name in builder.file.names)
    for part in message.files:
        _add_part(part, builder, is_page=is_page)
    for link in message.links:
        builder.add_link(link.target, link.shown)
    builder.add_text("\n".join([message.subject, *(text.visible for text in message.texts)]))
    if any(defect.kind.startswith("limit:") for defect in message.defects):
        builder.add_unread("size")


_WEB_ARCHIVES = frozenset({"mht", "mhtml"})


def _add_part(part: Part, builder: ContentsBuilder, *, is_page: bool) -> None:
    """Add one part. A body keeps its type, so that it is no attached page, but for a web archive (RFC 2557)."""
    is_body = part.content_type.startswith("text/") and not part.names and not is_page
    ending = ".html" if is_page and "html" in part.content_type else ""
    names = part.names or ((f"part {part.path}{ending}",) if not is_body else ())
    declared, shown = part.content_type if is_body else "", bool(detect_form(part)) and not is_page
    builder.add_member(names, part.content, len(part.content), declared=declared, shown=shown)


MAX_HEADER = 256 << 10
MAX_BODY = 4 << 20
MAX_ATTACHED = 32 << 20
MAX_FILES = 50
MAX_STREAMS = 5_000
_VALUE = "__SUBSTG1.0_"
_FORMS = {"001F": "utf-16-le", "001E": "cp1252"}
_HEADERS, _SUBJECT, _PLAIN, _SENDER_NAME, _SENDER, _SMTP_SENDER, _SHOWN_TO = (
    "007D", "0037", "1000", "0C1A", "0C1F", "5D01", "0E04",
)  # fmt: skip
_HTML, _HTML_TEXT, _RICH_TEXT, _DATA = "10130102", "1013001F", "10090102", "37010102"
_FILE_NAMES = ("3707", "3704", "3001")
_NOT_A_FIELD = re.compile(r"[\r\n\0]+")
# What describes a body that is written anew; a folded line belongs to its field.
_BODY_FIELDS = re.compile(
    r"^(?:content-[a-z-]{1,40}|mime-version)[ \t]*:[^\n]*\n(?:[ \t][^\n]*\n)*", re.IGNORECASE | re.MULTILINE
)
_BOUNDARY = "=_saved-message"
# What the path of a file says that came in a winmail.dat.
_OF_TNEF = "~tnef"


class SavedMessage(msgspec.Struct):
    """A message by its properties. `header` is its header section as it came, "" where none was kept."""

    header: str = ""
    subject: str = ""
    sender: str = ""
    to: str = ""
    plain: str = ""
    html: bytes = b""
    files: list[tuple[str, bytes]] = []


def find_reported_messages(raw: bytes) -> tuple[bytes, ...]:
    """Return the messages that are attached to a message, in any form in which mail programs attach one."""
    found = list(find_attached_messages(raw))
    if len(found) < MAX_MESSAGES:
        message = read(raw)
        for part in _list_own_files(message):
            content = _read_eml_of_tnef(part) or open_saved_message(part.content)
            if content and len(found) < MAX_MESSAGES:
                found.append(content)
    return tuple(found)


def open_saved_message(content: bytes) -> bytes:
    """Return a file that Outlook saved as mail; b"" where the bytes are no such file."""
    saved = None
    if content.startswith(compound.SIGNATURE):
        saved = _read_msg(content)
    elif content.startswith(outlook.SIGNATURE):
        saved = _read_tnef(content)
    return _write_message(saved) if saved else b""


def _list_own_files(message: Message) -> list[Part]:
    """Return the files of a message that stand in no message attached to it, each in its first reading. A winmail.dat
    is the message itself once more; what it carries stands beside it."""
    inside = tuple(f"{part.path}." for part in message.attached)
    return [
        part
        for part in message.files
        if not part.path.startswith(inside)
        and (_OF_TNEF in part.path or ("~" not in part.path and not part.content.startswith(outlook.SIGNATURE)))
    ]


def _read_eml_of_tnef(part: Part) -> bytes:
    return part.content if _OF_TNEF in part.path and part.is_named(".eml") and part.content.strip() else b""


def _read_msg(content: bytes) -> SavedMessage | None:
    """Read a .msg file: each property is a stream, each attachment a storage of such streams."""
    document = CompoundFile(content)
    folders: dict[str, dict[str, CompoundEntry]] = {}
    for folder, tag, entry in _list_properties(document.entries[:MAX_STREAMS]):
        if not folder or folder.startswith("__ATTACH"):
            folders.setdefault(folder, {})[tag] = entry
    values = folders.pop("", None)
    if not values:
        return None
    text = _make_text_reader(document, values)
    saved = SavedMessage(text(_HEADERS, MAX_HEADER), text(_SUBJECT), text(_SMTP_SENDER) or text(_SENDER))
    saved.sender = _write_mailbox(text(_SENDER_NAME), saved.sender)
    saved.to, saved.plain = text(_SHOWN_TO), text(_PLAIN, MAX_BODY)
    if _HTML in values:
        saved.html = document.read(values[_HTML], MAX_BODY)
    elif _HTML_TEXT in values:
        saved.html = text(_HTML_TEXT[:4], MAX_BODY).encode()
    elif _RICH_TEXT in values:
        saved.html = extract_html(decompress_rtf(document.read(values[_RICH_TEXT], MAX_BODY), MAX_BODY)[0])
    room = MAX_ATTACHED
    for folder, attached in list(folders.items())[:MAX_FILES]:
        if "/" not in folder and _DATA in attached and room > 0:
            data = document.read(attached[_DATA], room)
            room -= len(data)
            read_name = _make_text_reader(document, attached)
            saved.files.append((next(filter(None, map(read_name, _FILE_NAMES)), "attachment"), data))
    return saved


def _list_properties(entries: Iterable[CompoundEntry]) -> Iterator[tuple[str, str, CompoundEntry]]:
    """Yield the properties of a .msg file: the storage that each is in, its tag and type in hex digits, its stream."""
    for entry in entries:
        folder, _, name = entry.path.rpartition("/")
        if entry.kind == STREAM and name.startswith(_VALUE):
            yield folder, name[len(_VALUE) :], entry


def _make_text_reader(document: CompoundFile, values: Mapping[str, CompoundEntry]) -> Callable[..., str]:
    def read_text(tag: str, limit: int = 2_000) -> str:
        for form, charset in _FORMS.items():
            if entry := values.get(tag + form):
                return document.read(entry, limit).decode(charset, "replace").rstrip("\0")
        return ""

    return read_text


def _read_tnef(content: bytes) -> SavedMessage | None:
    """Read the message in a TNEF container; None where it has no text and no header, only files."""
    texts = {f"{each.id:04X}": each.text for each in outlook.read_message_properties(content)}
    saved = SavedMessage(texts.get(_HEADERS, "")[:MAX_HEADER], texts.get(_SUBJECT, ""), to=texts.get(_SHOWN_TO, ""))
    saved.sender = _write_mailbox(texts.get(_SENDER_NAME, ""), texts.get(_SMTP_SENDER) or texts.get(_SENDER, ""))
    for inner in outlook.find_tnef(content, MAX_BODY):
        if inner.names:
            if len(saved.files) < MAX_FILES:
                saved.files.append((inner.names[0], inner.content[:MAX_ATTACHED]))
        elif inner.content_type == "text/plain" and not saved.plain:
            saved.plain = inner.content[:MAX_BODY].decode("utf-8", "replace")
        elif inner.content_type == "text/html" and not saved.html:
            saved.html = inner.content[:MAX_BODY]
    is_message = saved.header or saved.subject or saved.sender
    return saved if is_message and (saved.plain or saved.html or saved.header) else None


def _write_mailbox(name: str, address: str) -> str:
    """Return name and address as From has them; an address of Exchange's own form ("/O=…") is none."""
    name, address = (_NOT_A_FIELD.sub(" ", each).strip() for each in (name, address))
    quoted = name.replace("\\", "").replace('"', "")
    return f'"{quoted}" <{address}>' if "@" in address else f'"{quoted}" <>' if quoted else ""


def _write_message(saved: SavedMessage) -> bytes:
    """Return the message in the form that it had on the wire, as far as its properties tell."""
    header = _BODY_FIELDS.sub("", saved.header.replace("\r\n", "\n").replace("\0", "").strip("\n") + "\n").lstrip("\n")
    # A header section ends at its first empty line, whatever stands behind it.
    header = header.partition("\n\n")[0].rstrip("\n")
    if not header:
        stated = (("From", saved.sender), ("To", saved.to), ("Subject", saved.subject))
        header = "\n".join(f"{name}: {_NOT_A_FIELD.sub(' ', value)}" for name, value in stated if value)
    parts = [_write_part("text/plain; charset=utf-8", saved.plain.encode("utf-8", "replace"))] if saved.plain else []
    if saved.html:
        parts.append(_write_part(f"text/html; charset={_guess_charset(saved.html)}", saved.html))
    for name, content in saved.files:
        shown = _NOT_A_FIELD.sub(" ", name).replace("\\", "").replace('"', "")[:200]
        fields = f'Content-Disposition: attachment; filename="{shown}"\n'
        parts.append(_write_part("application/octet-stream", content, fields))
    kind = "mixed" if saved.files else "alternative"
    head = f'{header}\nMIME-Version: 1.0\nContent-Type: multipart/{kind}; boundary="{_BOUNDARY}"\n\n'
    mark = f"--{_BOUNDARY}".encode()
    return head.encode("utf-8", "replace") + b"".join(mark + b"\n" + part + b"\n" for part in parts) + mark + b"--\n"


def _write_part(kind: str, content: bytes, fields: str = "") -> bytes:
    head = f"Content-Type: {kind}\n{fields}Content-Transfer-Encoding: base64\n\n"
    return head.encode("utf-8", "replace") + base64.encodebytes(content)


def _guess_charset(html: bytes) -> str:
    try:
        html.decode("utf-8")
    except UnicodeDecodeError:
        return "windows-1252"
    return "utf-8"


MAX_ATTACHMENTS = 500
_MSG_BODIES = {"1000001F": "body.txt", "1000001E": "body.txt", "10130102": "body.html", "1013001F": "body.html"}
_MSG_EMBEDDED = "__SUBSTG1.0_3701000D"


def inspect_msg(document: CompoundFile, builder: ContentsBuilder) -> None:
    """Add the attachments and bodies of a saved message (.msg, MS-OXMSG), where each property is a stream and each
    attachment a storage of such streams. Recipients and the table of property names are storages, too, and have no
    body: streams there that bear the number of one are something else."""
    folders: dict[str, dict[str, CompoundEntry]] = {}
    for folder, tag, entry in _list_properties(document.entries):
        if not _holds_content(folder):
            continue
        if folder not in folders and len(folders) > MAX_ATTACHMENTS:
            builder.add_unread("count")
            break
        folders.setdefault(folder, {})[tag] = entry
    for folder, values in folders.items():
        if folder.rpartition("/")[2].startswith("__ATTACH"):
            if _DATA in values:
                _add_msg_part(document, values[_DATA], _find_msg_name(document, values), builder)
            continue
        for form, charset in _FORMS.items():
            if subject := values.get(_SUBJECT + form):
                builder.add_text(document.read(subject, 1_000).decode(charset, "replace"))
        for tag, name in _MSG_BODIES.items():
            if tag in values:
                _add_msg_part(document, values[tag], name, builder)
        if _RICH_TEXT in values:
            _add_rich_text(document, values[_RICH_TEXT], builder)


def _holds_content(folder: str) -> bool:
    """Return whether a storage is a message or an attachment."""
    name = folder.rpartition("/")[2]
    return not name or name.startswith("__ATTACH") or name == _MSG_EMBEDDED


def _add_rich_text(document: CompoundFile, entry: CompoundEntry, builder: ContentsBuilder) -> None:
    room = builder.allowance(entry.size)
    packed = document.read(entry, room)
    size = int.from_bytes(packed[4:8], "little")
    if size > min(room, MAX_TEXT) or not builder.budget.take_slow(size):
        builder.add_unread("size")
        return
    rtf, whole = decompress_rtf(packed)
    builder.add_unread(None if whole else "damaged")
    builder.add_member("body.rtf", rtf, len(packed))
    builder.add_member("body.html", extract_html(rtf), len(rtf))


def _add_msg_part(document: CompoundFile, entry: CompoundEntry, name: str, builder: ContentsBuilder) -> None:
    content = document.read(entry, builder.allowance(entry.size))
    if entry.path.endswith("001F"):
        content = content.decode("utf-16-le", "replace").encode()
    builder.add_member(name, content, len(content))


def _find_msg_name(document: CompoundFile, values: dict[str, CompoundEntry]) -> str:
    for tag in _FILE_NAMES[:2]:
        for form, charset in _FORMS.items():
            if entry := values.get(tag + form):
                return document.read(entry, 1_000).decode(charset, "replace").strip("\0") or "attachment"
    return "attachment"
