"""Archives, programs and disguises."""

import pytest

from gatepost.checks.files import archives, executables
from gatepost.files.values import File, Trait, UnreadReason
from gatepost.findings import Reading
from gatepost.kinds import FILE_EXECUTABLE, FILE_RUNNABLE_NAME

PROGRAM_KINDS = {FILE_EXECUTABLE.id, FILE_RUNNABLE_NAME.id}


def file(name: str, kind: str = "data", unread: tuple[UnreadReason, ...] = ()) -> Reading:
    return Reading(files=(File(f"1/{name}", b"x", kind, "0" * 64, (name,), unread=unread),))


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
    assert [finding.kind for finding in archives.check(file("a.zip", "zip", unread))] == kinds


def test_a_password_from_the_mail_is_a_finding_of_its_own() -> None:
    opened = File("1/a.zip", b"x", "zip", "0" * 64, traits=(Trait("opened-with-password", "7361"), Trait("other")))
    (finding,) = archives.check(Reading(files=(opened,)))
    assert (finding.kind, finding.where) == ("file:encrypted-archive-opened", "1/a.zip")
    assert finding.facts["password"] == "7361"


@pytest.mark.parametrize(
    ("name", "kind", "kinds"),
    [
        ("setup.exe", "exe", ["file:executable", "file:runnable-name"]),
        ("photo.jpg", "exe", ["file:executable"]),
        ("invoice.JS ", "text", ["file:runnable-name"]),
        ("invoice.pdf", "pdf", []),
        ("build.sh", "script", []),  # programmers mail these to each other
        ("exe", "data", []),
        ("notes.txt", "text", []),
    ],
)
def test_executable(name: str, kind: str, kinds: list[str]) -> None:
    found = [finding.kind for finding in executables.check(file(name, kind))]
    assert [kind for kind in found if kind in PROGRAM_KINDS] == kinds


@pytest.mark.parametrize(
    ("name", "kind", "kinds"),
    [
        ("invoice.pdf.exe", "exe", ["file:double-extension"]),
        ("invoice.pdf .exe", "exe", ["file:double-extension"]),
        ("photo\u202egpj.exe", "exe", ["file:right-to-left-name"]),
        ("photo.jpg", "exe", ["file:type-mismatch"]),
        ("photo.jpg", "png", ["file:type-mismatch"]),
        ("backup.tar.gz", "gzip", []),
        ("setup.exe", "exe", []),
        ("v1.2.exe", "exe", []),
        ("report.docx", "zip", []),
        ("report.docx", "data", []),  # unknown content proves nothing
        ("report.xyz", "exe", []),  # an unknown extension promises nothing
        ("name", "pdf", []),
    ],
)
def test_disguise(name: str, kind: str, kinds: list[str]) -> None:
    found = [finding.kind for finding in executables.check(file(name, kind))]
    assert [kind for kind in found if kind not in PROGRAM_KINDS] == kinds
