"""Archives that could not be read whole.

An encrypted archive with its password in the mail is the oldest way past a scanner; an archive that unfolds without
end is a way to stop one. What was not read is said here, so that nothing unread passes as clean.
"""

from collections.abc import Iterator

from gatepost.files.tree import Unread
from gatepost.findings import Finding, Kind, Reading

ENCRYPTED = Kind("file:encrypted-archive", "An archive is encrypted, so its content could not be read")
DEPTH = Kind("limit:archive-depth", "Archives are nested too deep to be read to the end")
COUNT = Kind("limit:archive-files", "An archive holds more files than are read")
SIZE = Kind("limit:archive-size", "The files unfold to more than is read")
RATIO = Kind("limit:archive-ratio", "An archive unfolds to so many times its size that it was not read to the end")
DAMAGED = Kind("file:damaged-archive", "An archive is damaged, so not all of it could be read")
UNSUPPORTED = Kind("limit:archive-method", "An archive is packed in a way that cannot be read")
KINDS = (ENCRYPTED, DEPTH, COUNT, SIZE, RATIO, DAMAGED, UNSUPPORTED)

_BY_REASON: dict[Unread, Kind] = {
    "encrypted": ENCRYPTED,
    "depth": DEPTH,
    "count": COUNT,
    "size": SIZE,
    "ratio": RATIO,
    "damaged": DAMAGED,
    "unsupported": UNSUPPORTED,
}


def check(reading: Reading) -> Iterator[Finding]:
    for file in reading.files:
        for reason in file.unread:
            yield _BY_REASON[reason].at(file.path, about=file.sha256, type=file.type)
