"""Real documents: every carrier of the test virus is malware, every other one is recognised for what it is."""

import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.files.test_coverage import report_on
from tests.variants import one_in

from gatepost.files.values import UnpackBudget
from gatepost.files.walk import find_files
from gatepost.mail.message import Message, Part

Shared = Callable[[str], Path]

# Where the name does not tell: what is seen in the document, and nothing else of these.
TOLD = frozenset({"macro", "macro-autorun", "macro-call", "dde", "encrypted", "remote-object", "program-action"})
PASSWORD = b"infected-test"


def traits(content: bytes, name: str, budget: UnpackBudget | None = None) -> set[str]:
    part = Part("1", content_type="application/octet-stream", names=(name,), content=content)
    return {trait.name for file in find_files(Message(parts=(part,)), budget) for trait in file.traits}


def samples(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Every document below a folder; those in encrypted archives taken out of them."""
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        if path.suffix == ".zip":
            with zipfile.ZipFile(path) as archive:
                yield from ((name, archive.read(name, PASSWORD)) for name in archive.namelist())
        else:
            yield path.name, path.read_bytes()


def test_every_carrier_of_the_test_virus_is_malware(shared: Shared) -> None:
    carriers = sorted((shared("files") / "eicar").glob("eicar*"))
    verdicts = {path.name: report_on(path.name, path.read_bytes()).verdict for path in carriers}
    assert len(verdicts) == 28
    assert {name for name, verdict in verdicts.items() if verdict != "malware"} == set()


@pytest.mark.parametrize(
    "name", ["harmless-clean.docx", "harmless-clean.doc", "harmless-clean.docm", "RTF-Spec-1.7.rtf"]
)
def test_harmless_documents_are_delivered(shared: Shared, name: str) -> None:
    report = report_on(name, (shared("files") / "office/msodde" / name).read_bytes())
    assert (report.verdict, report.decision) == ("clean", "deliver")


@pytest.mark.parametrize(
    "name", one_in(2, ["encrypted.doc", "encrypted.docx", "encrypted.xls", "encrypted.xlsb", "encrypted.ppt"])
)
def test_a_protected_document_is_tagged_and_delivered(shared: Shared, name: str) -> None:
    content = (shared("files") / "office/encrypted" / name).read_bytes()
    report = report_on(name.replace("encrypted", "report"), content)  # the name would give the password away
    tags = [tag for tag in report.tags if tag.startswith(("file:", "limit:"))]
    assert (report.decision, tags) == ("deliver", ["file:encrypted-document", "limit:encrypted"])


@pytest.mark.parametrize("name", ["encrypted.docx", "encrypted.doc", "encrypted.xls", "encrypted.xlsb"])
def test_a_protected_document_is_opened_with_the_password_of_the_mail(shared: Shared, name: str) -> None:
    """The password of these samples is the word that they are named by."""
    content = (shared("files") / "office/encrypted" / name).read_bytes()
    report = report_on(name, content)
    assert "file:document-password" in report.tags
    assert "limit:encrypted" not in report.tags


FORM = b"""%PDF-1.7
1 0 obj << /Type /Catalog /AcroForm << /SigFlags 3 /Fields [2 0 R 3 0 R] >> /AF [4 0 R] >> endobj
2 0 obj << /FT /Sig /V << /Type /Sig /ByteRange [0 1 2 3] /Contents <00ff> >> >> endobj
3 0 obj << /FT /Tx /AA << /F << /S /JavaScript /JS (AFNumber_Format\\(2, 0\\)) >> >> >> endobj
4 0 obj << /Type /Filespec /F (factur-x.xml) /EF << /F 5 0 R >> >> endobj
5 0 obj << /Type /EmbeddedFile >> stream
<?xml version='1.0'?><rsm:CrossIndustryInvoice/>
endstream endobj
"""
CALENDAR = b"BEGIN:VCALENDAR\r\nMETHOD:REQUEST\r\nORGANIZER:mailto:ann@a.example\r\nURL:https://meet.example/1\r\nEND:VCALENDAR"
CHART = b"<html><canvas id=c></canvas><script>draw(c, [1, 2, 3]); a.download = 'chart.png'</script></html>"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("signed form and electronic invoice.pdf", FORM),
        ("invitation.ics", CALENDAR),
        ("invoice.html", b"<html><body><h1>Invoice 17</h1><table><tr><td>Total</td><td>12.00</td></tr></table>"),
        ("report.html", CHART),
        ("table.csv", b"name,total\nann,-1\nbob,=A1+B2\n"),
        ("letter.rtf", b"{\\rtf1 Dear {\\b Bob}, see {\\field{\\*\\fldinst PAGE}{\\fldrslt 1}}}"),
    ],
)
def test_ordinary_attachments_are_delivered(name: str, content: bytes) -> None:
    report = report_on(name, content)
    assert (report.verdict, report.decision) == ("clean", "deliver"), report.lines


def told(name: str, content: bytes) -> set[str]:
    return traits(content, name) & TOLD


@pytest.mark.parametrize(
    ("folder", "least"),
    [
        ("msodde", {"dde"}),
        ("ooxml", {"dde"}),
        ("excel4-macros", {"macro", "macro-autorun"}),
        ("oleform", {"macro"}),
        ("olevba", {"macro"}),
        ("oleobj/external_link", {"remote-object"}),
    ],
)
def test_documents_are_recognised(shared: Shared, folder: str, least: set[str]) -> None:
    found = {name: told(name, content) for name, content in samples(shared("files") / "office" / folder)}
    assert found
    for name, seen in found.items():
        wanted = set() if name.startswith(("harmless", "RTF-Spec")) else least
        assert seen >= wanted, name
        assert wanted or not seen, name


@pytest.mark.variant
def test_protected_documents_are_recognised(shared: Shared) -> None:
    found = {name: traits(content, "report") for name, content in samples(shared("files") / "office/encrypted")}
    assert len(found) == 17
    for name, seen in found.items():
        assert ("default-password" if "standardpassword" in name else "encrypted") in seen, name
        assert ("dde" in seen) == name.startswith("dde"), name  # behind the password that Excel enters by itself
        assert ("macro" in seen) == name.startswith("autostart"), name


def test_embedded_files_are_unfolded(shared: Shared) -> None:
    for name, content in samples(shared("files") / "office/oleobj"):
        part = Part("1", content_type="application/octet-stream", names=(name,), content=content)
        names = {each for file in find_files(Message(parts=(part,))) for each in file.names}
        if name.startswith("embedded-simple"):
            assert "simple-text-file.txt" in names, name
        elif "calc_embedded" in name:
            assert "calc.exe" in names
        elif "lnk_file" in name:
            assert "calc.lnk" in names


def test_an_exploit_in_rich_text(shared: Shared) -> None:
    content = (shared("files") / "office/rtfobj/issue_251.rtf").read_bytes()
    assert traits(content, "a.rtf") >= {"embedded-object", "equation-editor"}


SPECIMENS = (
    "eicar/eicar-word-macro-cmd-echo.doc",
    "eicar/eicar-excel-dde-cmd-powershell-echo.xls",
    "eicar/eicar-powerpoint-action-macro-msgbox.ppt",
    "eicar/eicar-adobe-acrobat-javascript-alert.pdf",
    "eicar/eicar-adobe-acrobat-attachment.pdf",
    "office/oleobj/sample_with_lnk_file.doc",
    "office/msodde/dde-in-excel2003.xml",
    "office/rtfobj/issue_251.rtf",
    "office/encrypted/dde-test-encrypt-standardpassword.xls",
    "office/excel4-macros/excel4_sample_macro.xlsb",
)


@pytest.mark.parametrize("name", one_in(3, SPECIMENS))
def test_no_damage_to_a_real_document_raises(shared: Shared, name: str) -> None:
    original = (shared("files") / name).read_bytes()

    @settings(max_examples=25, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(st.data())
    def damaged(data: st.DataObject) -> None:
        content = bytearray(original)
        for _ in range(data.draw(st.integers(1, 40))):
            place = data.draw(st.integers(0, len(content) - 1))
            content[place : place + data.draw(st.integers(0, 8))] = data.draw(st.binary(max_size=8))
        budget = UnpackBudget()
        traits(bytes(content), "a.bin", budget)
        assert budget.spent <= budget.max_bytes

    damaged()
