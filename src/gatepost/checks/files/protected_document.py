"""Content that only its recipient can read: password-protected documents, S/MIME (RFC 8551) and OpenPGP (RFC 9580).

Doctors, lawyers and banks send such mail every day, so it is stated and weighs nothing. (An encrypted archive is
another matter: it is how programs travel.) A workbook under the password that Excel tries by itself is hidden from
scanners only; old write-protected ones look the same. So is a document whose password stands beside it.
"""

from collections.abc import Iterator

from gatepost.findings import Reading
from gatepost.kinds import FILE_DEFAULT_PASSWORD, FILE_DOCUMENT_PASSWORD, LIMIT_ENCRYPTED, Finding
from gatepost.mail.message import Part

KINDS = (LIMIT_ENCRYPTED, FILE_DEFAULT_PASSWORD, FILE_DOCUMENT_PASSWORD)

_SMIME = frozenset({"application/pkcs7-mime", "application/x-pkcs7-mime"})
# The object identifiers id-envelopedData and id-ct-authEnvelopedData, as they stand in the first bytes.
_ENVELOPED = (
    bytes.fromhex("06092a864886f70d010703"),
    bytes.fromhex("060b2a864886f70d0109100117"),
)


def check(reading: Reading) -> Iterator[Finding]:
    for part in reading.message.parts:
        if form := _encryption_of(part):
            yield LIMIT_ENCRYPTED.at(part.path, form=form)
    for file in reading.files:
        for form in dict.fromkeys(file.seen("encrypted")):
            yield LIMIT_ENCRYPTED.at(file.path, about=file.document, form=form)
        if file.seen("default-password"):
            yield FILE_DEFAULT_PASSWORD.at(file.path, about=file.document, type=file.type)
        for password in file.seen("document-password"):
            yield FILE_DOCUMENT_PASSWORD.at(file.path, about=file.document, type=file.type, password=password)


def _encryption_of(part: Part) -> str:
    """Return how a part is encrypted, "" where it is not: signed S/MIME looks the same from outside."""
    if part.content_type in _SMIME and any(mark in part.content[:64] for mark in _ENVELOPED):
        return "S/MIME"
    if part.content_type == "multipart/encrypted" or part.content.startswith(b"-----BEGIN PGP MESSAGE-----"):
        return "OpenPGP"
    return ""
