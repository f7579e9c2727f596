"""Every format that can hold a file: the file is found in it, or the message is unscannable and names the format."""

import email.message

import pytest
from tests.files.archive_formats import zipped
from tests.files.coverage import FORMATS, Format
from tests.files.test_attacks import judge

from gatepost.analysis.report import Report
from gatepost.checks.files.malware import EICAR_SIGNATURE
from gatepost.files.archives import libarchive

# A script that is the test virus as well, long enough that packing it leaves nothing in the clear.
PAYLOAD = b"// a script\r\nvar a = 1;\r\n" * 40 + EICAR_SIGNATURE + b"\r\n" * 40
NAME = "payload.js"


def report_on(name: str, content: bytes, kind: tuple[str, str] = ("application", "octet-stream")) -> Report:
    message = email.message.EmailMessage()
    message["From"], message["To"], message["Subject"] = "Ann <ann@a.example>", "bob@b.example", "The file"
    message["Date"], message["Message-ID"] = "Tue, 10 Nov 2026 09:12:00 +0000", "<1@a.example>"
    message.set_content("Hello Bob,\n\nplease find the file attached, as we said on the telephone.\n\nAnn\n")
    message.add_attachment(content, *kind, filename=name)
    return judge(message.as_bytes())


def check(each: Format, report: Report, outer: str) -> None:
    assert report.decision != "deliver"
    if each.outcome == "said" or (each.needs_library and not libarchive.is_installed()):
        assert report.verdict in ("unscannable", "malware")
        lines = [line for line in report.lines if line.verdict == "unscannable" and line.facts.get("type") == each.type]
        assert lines, [(line.kind, line.where, line.facts) for line in report.lines]
        return
    found = [line.where for line in report.lines if line.kind == "file:eicar"]
    inside = [where for where in found if where != outer]
    assert inside, (found, [(file.path, file.type, file.unread) for file in report.files])
    assert not each.named or any(where.lower().endswith(NAME) for where in inside)


@pytest.mark.parametrize("each", FORMATS, ids=lambda each: each.title)
def test_alone(each: Format) -> None:
    name = f"{NAME}.{each.extension}"
    check(each, report_on(name, each.make(NAME, PAYLOAD)), f"1.2/{name}")


@pytest.mark.parametrize("each", FORMATS, ids=lambda each: each.title)
def test_inside_a_zip(each: Format) -> None:
    name = f"{NAME}.{each.extension}"
    report = report_on("files.zip", zipped(name, each.make(NAME, PAYLOAD)))
    check(each, report, f"1.2/files.zip/{name}")


@pytest.mark.parametrize(
    "each", [each for each in FORMATS if each.group in ("archives", "compressed files")], ids=lambda each: each.title
)
def test_cut_short(each: Format) -> None:
    """Half a container is never a clean file."""
    whole = each.make(NAME, PAYLOAD)
    report = report_on(f"{NAME}.{each.extension}", whole[: max(len(whole) // 2, 24)])
    assert report.decision != "deliver"
