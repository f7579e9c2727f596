"""Mail as a file: saved messages (.eml), web archives (.mht), mailboxes, winmail.dat, and signed messages (.p7m).

A message that is attached to a message is read with it. One inside an archive, a document or a saved message comes
here: it is read by the same reader, its parts become files, its text and links are those of the file. A web archive
(RFC 2557) is a message without a sender; Word opens one under the name of a document.
"""

import re
from collections.abc import Iterable

from gatepost.files.documents.contents_builder import ContentsBuilder
from gatepost.files.file_types import find_last_extensions
from gatepost.files.values import Contents, File, UnpackBudget
from gatepost.mail.encodings import outlook
from gatepost.mail.encodings.cms import open_cms
from gatepost.mail.encodings.outlook import MAX_TEXT
from gatepost.mail.message import Part
from gatepost.mail.reader import read
from gatepost.mail.text import detect_form

MAX_MESSAGES = 500
_NOTHING = Contents()
_FROM_LINE = re.compile(rb"^From [^\r\n]{0,300}\r?\n", re.MULTILINE)
_READ_WITH_THE_MESSAGE = frozenset({"message/rfc822", "message/global", "message/news"})


def inspect(file: File, budget: UnpackBudget) -> Contents:
    """Return the parts and links of a message or web archive."""
    if _is_read_already(file):
        return _NOTHING
    builder = ContentsBuilder(file, budget)
    _add_message(file.content, builder)
    return builder.build()


def inspect_mailbox(file: File, budget: UnpackBudget) -> Contents:
    """Return the messages of a mailbox (RFC 4155); one alone, such as a patch that git wrote, is read at once."""
    builder = ContentsBuilder(file, budget)
    content = file.content
    starts = [match for match in _FROM_LINE.finditer(content) if _is_after_empty_line(content, match.start())]
    if len(starts) <= 1:
        _add_message(content[starts[0].end() :] if starts else content, builder)
        return builder.build()
    if len(starts) > MAX_MESSAGES:
        builder.add_unread("count")
    ends = [match.start() for match in starts[1:]] + [len(content)]
    for number, (match, end) in enumerate(zip(starts[:MAX_MESSAGES], ends, strict=False), 1):
        builder.add_member(f"message {number}.eml", content[match.end() : end], end - match.start())
    return builder.build()


def _is_after_empty_line(content: bytes, place: int) -> bool:
    return not place or content[max(0, place - 4) : place].replace(b"\r", b"").endswith(b"\n\n")


def inspect_tnef(file: File, budget: UnpackBudget) -> Contents:
    """Return the bodies and attachments of a winmail.dat that is not attached to the message itself."""
    if _is_part(file):
        return _NOTHING
    builder = ContentsBuilder(file, budget)
    for inner in outlook.find_tnef(file.content, min(MAX_TEXT, budget.slow_left)):
        if not inner.whole:
            builder.add_unread("damaged")
        if inner.content_type == outlook.PACKED_RTF or (
            inner.content_type == "application/rtf" and not budget.take_slow(len(inner.content))
        ):
            builder.add_unread("size")
        declared = "" if inner.names else inner.content_type
        builder.add_member(inner.names, inner.content, len(inner.content), declared=declared)
    return builder.build()


def inspect_cms(file: File, budget: UnpackBudget) -> Contents:
    """Return the content of a signed or compressed message; a certificate or a signature alone has none."""
    builder = ContentsBuilder(file, budget)
    opened = open_cms(file.content)
    if opened.form == "encrypted":
        builder.add_trait("encrypted", "S/MIME")
    elif not opened.whole:
        builder.add_unread("damaged")
    if not (_is_part(file) and is_smime(file.declared, file.names)):
        builder.add_member("signed content", opened.content, len(file.content))
    return builder.build()


def is_smime(content_type: str, names: Iterable[str]) -> bool:
    """Return whether a part is S/MIME by its type or name; the message reader opens those that are attached to it."""
    return content_type in ("application/pkcs7-mime", "application/x-pkcs7-mime") or any(
        "p7m" in find_last_extensions(name) for name in names
    )


def _is_read_already(file: File) -> bool:
    """Return whether the reader of the message itself has read this file."""
    if file.declared.startswith("text/") and not file.names:
        return True
    if not _is_part(file):
        return False
    return file.declared in _READ_WITH_THE_MESSAGE or any(name.lower().endswith(".eml") for name in file.names)


def _is_part(file: File) -> bool:
    """Return whether the file is a part of the message in its first reading, the only one that is looked into there."""
    return bool(file.declared) and "~" not in file.path.partition("/")[0]


def _add_message(raw: bytes, builder: ContentsBuilder) -> None:
    message = read(raw)
    for part in message.files:
        _add_part(part, builder)
    for link in message.links:
        builder.add_link(link.target, link.shown)
    builder.add_text("\n".join([message.subject, *(text.visible for text in message.texts)]))
    if any(defect.kind.startswith("limit:") for defect in message.defects):
        builder.add_unread("size")


def _add_part(part: Part, builder: ContentsBuilder) -> None:
    """Add one part; a body keeps its type, so that it is not taken for an attached page."""
    is_body = part.content_type.startswith("text/") and not part.names
    names = part.names or ((f"part {part.path}",) if not is_body else ())
    declared, shown = part.content_type if is_body else "", bool(detect_form(part))
    builder.add_member(names, part.content, len(part.content), declared=declared, shown=shown)
