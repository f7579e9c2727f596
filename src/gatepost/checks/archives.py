"""Archives that could not be read whole, and those that took a password.

An encrypted archive with its password in the mail is the oldest way past a scanner; an archive that unfolds without
end is a way to stop one. What was not read is said here, so that nothing unread passes as clean. Some honest senders
do write the password under the archive; theirs are opened, looked at, and let through.
"""

from collections.abc import Iterator

from gatepost.files.values import UnreadReason
from gatepost.findings import Finding, Kind, Reading

ENCRYPTED = Kind("file:encrypted-archive", "An archive is encrypted, so its content could not be read")
DEPTH = Kind("limit:archive-depth", "Archives are nested too deep to be read to the end")
COUNT = Kind("limit:archive-files", "An archive holds more files than are read")
SIZE = Kind("limit:archive-size", "The files unfold to more than is read")
RATIO = Kind("limit:archive-ratio", "An archive or picture unfolds to so much that it was not read to the end")
DAMAGED = Kind("file:damaged-archive", "An archive is damaged, so not all of it could be read")
UNSUPPORTED = Kind("limit:archive-method", "An archive is packed in a way that cannot be read")
PIXELS = Kind("limit:image-size", "A picture is too large, or there are too many, to be looked at for QR codes")
OPENED = Kind("file:encrypted-archive-opened", "An archive is encrypted, and the mail gives its password away")
KINDS = (ENCRYPTED, DEPTH, COUNT, SIZE, RATIO, DAMAGED, UNSUPPORTED, PIXELS, OPENED)
NEEDS = frozenset({"trait", "unread"})

_BY_REASON: dict[UnreadReason, Kind] = {
    "encrypted": ENCRYPTED,
    "depth": DEPTH,
    "count": COUNT,
    "size": SIZE,
    "ratio": RATIO,
    "damaged": DAMAGED,
    "unsupported": UNSUPPORTED,
    "pixels": PIXELS,
}


def check(reading: Reading) -> Iterator[Finding]:
    for file in reading.files:
        for reason in file.unread:
            yield _BY_REASON[reason].at(file.path, about=file.sha256, type=file.type)
        for trait in file.traits:
            if trait.name == "opened-with-password":
                yield OPENED.at(file.path, about=file.sha256, type=file.type, password=trait.detail)
