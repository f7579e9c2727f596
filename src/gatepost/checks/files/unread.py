"""What could not be read: archives, containers of rare formats, and files that are not what their name says."""

from collections.abc import Iterator

from gatepost.files.file_names import find_last_extensions
from gatepost.files.file_types import (
    ARCHIVE_EXTENSIONS,
    ARCHIVE_MIME_TYPES,
    CONTAINERS,
    DOCUMENT_EXTENSIONS,
    FAMILIES,
    promises_archive,
)
from gatepost.files.signatures import identify
from gatepost.files.values import UnreadReason
from gatepost.findings import Reading, check
from gatepost.kinds import (
    FILE_DAMAGED_ARCHIVE,
    FILE_DAMAGED_DOCUMENT,
    FILE_ENCRYPTED_ARCHIVE,
    FILE_ENCRYPTED_ARCHIVE_OPENED,
    FILE_UNREADABLE,
    LIMIT_ARCHIVE_DEPTH,
    LIMIT_ARCHIVE_FILES,
    LIMIT_ARCHIVE_METHOD,
    LIMIT_ARCHIVE_RATIO,
    LIMIT_ARCHIVE_SIZE,
    LIMIT_IMAGE_SIZE,
    MIME_BROKEN_BASE64,
    MIME_BROKEN_BINHEX,
    MIME_BROKEN_QUOTED_PRINTABLE,
    MIME_BROKEN_UUENCODE,
    MIME_BROKEN_YENC,
    Finding,
    Kind,
)
from gatepost.mail.message import Part

_KIND_BY_REASON: dict[UnreadReason, Kind] = {
    "encrypted": FILE_ENCRYPTED_ARCHIVE,
    "depth": LIMIT_ARCHIVE_DEPTH,
    "count": LIMIT_ARCHIVE_FILES,
    "size": LIMIT_ARCHIVE_SIZE,
    "ratio": LIMIT_ARCHIVE_RATIO,
    "damaged": FILE_DAMAGED_ARCHIVE,
    "unsupported": LIMIT_ARCHIVE_METHOD,
    "pixels": LIMIT_IMAGE_SIZE,
}


@check(
    FILE_ENCRYPTED_ARCHIVE,
    LIMIT_ARCHIVE_DEPTH,
    LIMIT_ARCHIVE_FILES,
    LIMIT_ARCHIVE_SIZE,
    LIMIT_ARCHIVE_RATIO,
    FILE_DAMAGED_ARCHIVE,
    FILE_DAMAGED_DOCUMENT,
    LIMIT_ARCHIVE_METHOD,
    LIMIT_IMAGE_SIZE,
    FILE_ENCRYPTED_ARCHIVE_OPENED,
    needs={"trait", "unread"},
)
def archives(reading: Reading) -> Iterator[Finding]:
    """Archives that could not be read whole, and those that took a password.

    An encrypted archive with its password in the mail is the oldest way past a scanner; an archive that unfolds without
    end is a way to stop one, and one that is cut short or of a rare format opens in a program that is more patient than
    this one. What was not read is said here, so that nothing unread passes as clean. A document that is damaged is
    shown as far as it goes, and has been read as far; that is a sign and no more. Some honest senders do write the
    password under the archive; theirs are opened, looked at, and let through.
    """
    for file in reading.files:
        for reason in file.unread:
            kind = _KIND_BY_REASON[reason]
            if kind is FILE_DAMAGED_ARCHIVE and file.type not in CONTAINERS:
                kind = FILE_DAMAGED_DOCUMENT
            yield kind.at(file.path, about=file.sha256, type=file.type)
        for trait in file.traits:
            if trait.name == "opened-with-password":
                yield FILE_ENCRYPTED_ARCHIVE_OPENED.at(
                    file.path, about=file.sha256, type=file.type, password=trait.detail
                )


_BROKEN_ENCODINGS = frozenset(
    kind.id
    for kind in (
        MIME_BROKEN_BASE64,
        MIME_BROKEN_BINHEX,
        MIME_BROKEN_QUOTED_PRINTABLE,
        MIME_BROKEN_UUENCODE,
        MIME_BROKEN_YENC,
    )
)


@check(FILE_UNREADABLE, needs={"attachment", "defect"})
def unreadable_files(reading: Reading) -> Iterator[Finding]:
    """Files that nothing here could open, under a name that promises a program which would.

    `invoice.zip` whose content has no mark of an archive is either a format that is not known here, or was damaged on
    its way, or is put together by something that the recipient is told to run. An attachment whose transfer encoding
    (RFC 2045 section 6) is broken may be repaired by a mail program that is more patient; where what came out is not
    what the name says, the true content was not seen. An honest sender's archive opens.
    """
    broken = {defect.where for defect in reading.message.defects if defect.kind in _BROKEN_ENCODINGS}
    for part in reading.message.parts:
        if part.path in broken and part.names and _is_lost(part, reading):
            yield FILE_UNREADABLE.at(part.path, name=part.names[0], content=identify(part.content))
    for file in reading.files:
        if file.type not in ("data", "text"):
            continue
        name = next(filter(promises_archive, file.names), "")
        if name or file.declared.lower() in ARCHIVE_MIME_TYPES:
            yield FILE_UNREADABLE.at(file.path, about=file.sha256, name=name or file.declared, content=file.type)


def _is_lost(part: Part, reading: Reading) -> bool:
    """Return whether no reading of a part is what its name says, though the name says something definite."""
    extensions = {extension for name in part.names for extension in find_last_extensions(name)}
    if not extensions & (ARCHIVE_EXTENSIONS | DOCUMENT_EXTENSIONS):
        return False
    types = {identify(part.content)}
    types |= {identify(other.content) for other in reading.message.parts if other.path.startswith(f"{part.path}~")}
    return not any(kind in FAMILIES and extensions & FAMILIES[kind].extensions for kind in types)
