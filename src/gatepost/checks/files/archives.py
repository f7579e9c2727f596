"""Archives that could not be read whole, and those that took a password.

An encrypted archive with its password in the mail is the oldest way past a scanner; an archive that unfolds without
end is a way to stop one. What was not read is said here, so that nothing unread passes as clean. Some honest senders
do write the password under the archive; theirs are opened, looked at, and let through.
"""

from collections.abc import Iterator

from gatepost.files.values import UnreadReason
from gatepost.findings import Reading
from gatepost.kinds import (
    FILE_DAMAGED_ARCHIVE,
    FILE_ENCRYPTED_ARCHIVE,
    FILE_ENCRYPTED_ARCHIVE_OPENED,
    LIMIT_ARCHIVE_DEPTH,
    LIMIT_ARCHIVE_FILES,
    LIMIT_ARCHIVE_METHOD,
    LIMIT_ARCHIVE_RATIO,
    LIMIT_ARCHIVE_SIZE,
    LIMIT_IMAGE_SIZE,
    Finding,
    Kind,
)

KINDS = (
    FILE_ENCRYPTED_ARCHIVE,
    LIMIT_ARCHIVE_DEPTH,
    LIMIT_ARCHIVE_FILES,
    LIMIT_ARCHIVE_SIZE,
    LIMIT_ARCHIVE_RATIO,
    FILE_DAMAGED_ARCHIVE,
    LIMIT_ARCHIVE_METHOD,
    LIMIT_IMAGE_SIZE,
    FILE_ENCRYPTED_ARCHIVE_OPENED,
)
NEEDS = frozenset({"trait", "unread"})

_BY_REASON: dict[UnreadReason, Kind] = {
    "encrypted": FILE_ENCRYPTED_ARCHIVE,
    "depth": LIMIT_ARCHIVE_DEPTH,
    "count": LIMIT_ARCHIVE_FILES,
    "size": LIMIT_ARCHIVE_SIZE,
    "ratio": LIMIT_ARCHIVE_RATIO,
    "damaged": FILE_DAMAGED_ARCHIVE,
    "unsupported": LIMIT_ARCHIVE_METHOD,
    "pixels": LIMIT_IMAGE_SIZE,
}


def check(reading: Reading) -> Iterator[Finding]:
    for file in reading.files:
        for reason in file.unread:
            yield _BY_REASON[reason].at(file.path, about=file.sha256, type=file.type)
        for trait in file.traits:
            if trait.name == "opened-with-password":
                yield FILE_ENCRYPTED_ARCHIVE_OPENED.at(
                    file.path, about=file.sha256, type=file.type, password=trait.detail
                )
