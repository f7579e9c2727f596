"""The checks of `files/unread`: what could not be read is said, and what is only odd is not."""

import pytest
from tests.checks.readings import find_kinds
from tests.files.archive_formats import zipped

from gatepost.checks.files.traits import archives, unreadable_files
from gatepost.checks.reading import Reading
from gatepost.files.values import File, Trait, UnreadReason
from gatepost.files.walk import find_files
from gatepost.mail.reader import read


@pytest.mark.parametrize(
    ("unread", "kinds"),
    [
        (("encrypted",), ["file:encrypted-archive"]),
        (("depth", "ratio"), ["limit:archive-depth", "limit:archive-ratio"]),
        (("damaged",), ["file:damaged-archive"]),
        (("pixels",), ["limit:image-size"]),
        ((), []),
    ],
)
def test_archives(unread: tuple[UnreadReason, ...], kinds: list[str]) -> None:
    assert (
        find_kinds(archives, Reading(files=(File("1/a.zip", b"x", "zip", "0" * 64, ("a.zip",), unread=unread),)))
        == kinds
    )


def test_a_password_from_the_mail_is_a_finding_of_its_own() -> None:
    opened = File("1/a.zip", b"x", "zip", "0" * 64, traits=(Trait("opened-with-password", "7361"), Trait("other")))
    (finding,) = archives(Reading(files=(opened,)))
    assert (finding.kind, finding.where) == ("file:encrypted-archive-opened", "1/a.zip")
    assert finding.facts["password"] == "7361"


def test_damage_to_a_document_is_another_matter() -> None:
    damaged = File("1/a.doc", b"x", "ole", "0" * 64, ("a.doc",), unread=("damaged",))
    assert find_kinds(archives, Reading(files=(damaged,))) == ["file:damaged-document"]


@pytest.mark.parametrize(
    ("name", "kind", "declared", "is_said"),
    [
        ("invoice.zip", "data", "", True),
        ("invoice.zip", "text", "", True),
        ("invoice.RAR.", "data", "", True),
        ("invoice.lzh", "data", "application/octet-stream", True),
        ("invoice", "data", "application/zip", True),
        ("invoice.zip", "zip", "application/zip", False),
        ("invoice.zip", "rar", "", False),  # another archive, which was opened
        ("firmware.bin", "data", "", False),
        ("notes.doc", "text", "", False),  # people do save text so
        ("disk.dat", "data", "", False),
    ],
)
def test_archives_by_name_only(name: str, kind: str, declared: str, is_said: bool) -> None:
    file = File(f"1/{name}", b"x", kind, "0" * 64, (name,), declared)
    assert bool(list(unreadable_files(Reading(files=(file,))))) == is_said


def letter(name: str, body: bytes) -> Reading:
    head = f'Content-Type: application/octet-stream; name="{name}"\r\nContent-Transfer-Encoding: base64\r\n\r\n'
    message = read(b"From: a@b.example\r\n" + head.encode() + body)
    return Reading(message=message, files=find_files(message))


GARBAGE = b"!!!! this was lost on its way, and nothing of it is left !!!!\r\n"


@pytest.mark.parametrize(
    ("name", "body", "is_said"),
    [
        ("invoice.zip", GARBAGE, True),
        ("invoice.pdf", GARBAGE, True),
        ("invoice.exe", GARBAGE, True),
        ("invoice.docx", GARBAGE, True),
        ("invoice.zip", b"%%%%\r\n", True),
        ("notes.txt", GARBAGE, False),
        ("photo.jpg", GARBAGE, False),
    ],
)
def test_a_broken_encoding_that_hides_the_content(name: str, body: bytes, is_said: bool) -> None:
    assert bool(list(unreadable_files(letter(name, body)))) == is_said


def test_a_broken_encoding_that_leaves_the_content_readable() -> None:
    import base64

    body = base64.encodebytes(zipped("a.txt", b"hello" * 50)) + b"-- \r\nsent by a list\r\n"
    assert not [finding for finding in unreadable_files(letter("a.zip", body)) if finding.where == "1"]
