"""The test virus, in files and in prose."""

from pathlib import Path

import pytest

from gatepost.checks.files import eicar
from gatepost.checks.files.eicar import SIGNATURE, check
from gatepost.files.values import File
from gatepost.findings import Reading
from gatepost.kinds import FILE_EICAR


def file(content: bytes, *names: str, declared: str = "application/octet-stream") -> File:
    return File("1", content, "data", "0" * 64, names, declared)


@pytest.mark.parametrize(
    ("found", "kinds"),
    [
        (file(SIGNATURE, "eicar.com"), [FILE_EICAR.id]),
        (file(b"padding" + SIGNATURE + b"more"), [FILE_EICAR.id]),
        (file(SIGNATURE, declared="text/plain"), [FILE_EICAR.id]),
        (file(b"\r\n " + SIGNATURE, declared="text/plain"), [FILE_EICAR.id]),
        (file(b"To test it, send " + SIGNATURE, "note.txt", declared="text/plain"), [FILE_EICAR.id]),
        (file(b"To test your scanner, send it " + SIGNATURE, declared="text/plain"), []),  # a letter about it
        (file(SIGNATURE[:-1], "eicar.com"), []),
        (file(b"", "eicar.com"), []),
    ],
)
def test_eicar(found: File, kinds: list[str]) -> None:
    assert [finding.kind for finding in check(Reading(files=(found,)))] == kinds


def test_this_module_is_no_virus_itself() -> None:
    assert SIGNATURE not in Path(eicar.__file__).read_bytes()
