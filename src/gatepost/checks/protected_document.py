"""Content that only its recipient can read: password-protected documents, S/MIME (RFC 8551) and OpenPGP (RFC 9580).

Doctors, lawyers and banks send such mail every day, so it is stated and weighs nothing. (An encrypted archive is
another matter: it is how programs travel.) A workbook under the password that Excel tries by itself is hidden from
nobody but scanners; old write-protected ones look the same. So is a document whose password stands beside it.
"""

from collections.abc import Iterator

from gatepost.findings import Finding, Kind, Reading
from gatepost.mail.message import Part

ENCRYPTED = Kind("limit:encrypted", "Content is encrypted for its recipient, so it could not be read")
FALSE = Kind("file:default-password", "A workbook is encrypted, with a password that Excel enters by itself")
GIVEN = Kind("file:document-password", "A document is encrypted, and the mail gives its password away")
KINDS = (ENCRYPTED, FALSE, GIVEN)

_SMIME = frozenset({"application/pkcs7-mime", "application/x-pkcs7-mime"})
# The object identifiers id-envelopedData and id-ct-authEnvelopedData, as they stand in the first bytes.
_ENVELOPED = (
    bytes.fromhex("06092a864886f70d010703"),
    bytes.fromhex("060b2a864886f70d0109100117"),
)


def check(reading: Reading) -> Iterator[Finding]:
    for part in reading.message.parts:
        if form := _form(part):
            yield ENCRYPTED.at(part.path, form=form)
    for file in reading.files:
        for form in dict.fromkeys(file.seen("encrypted")):
            yield ENCRYPTED.at(file.path, about=file.document, form=form)
        if file.seen("default-password"):
            yield FALSE.at(file.path, about=file.document, type=file.type)
        for password in file.seen("document-password"):
            yield GIVEN.at(file.path, about=file.document, type=file.type, password=password)


def _form(part: Part) -> str:
    """How a part is encrypted, "" where it is not: signed S/MIME looks the same from outside."""
    if part.content_type in _SMIME and any(mark in part.content[:64] for mark in _ENVELOPED):
        return "S/MIME"
    if part.content_type == "multipart/encrypted" or part.content.startswith(b"-----BEGIN PGP MESSAGE-----"):
        return "OpenPGP"
    return ""
