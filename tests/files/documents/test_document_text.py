"""The text of documents: the same letter in every form is found by the same checks."""

import io
import zipfile
from collections.abc import Callable
from email.message import EmailMessage
from html import escape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatepost.analysis import analyse
from gatepost.files.documents import office_xml
from gatepost.files.documents.document_text import MAX_SHOWN, read_xml_text
from gatepost.files.qr_codes import find_qr_codes
from gatepost.files.values import MAX_TEXT, File, UnpackBudget
from gatepost.files.walk import find_files
from gatepost.mail.message import Envelope
from gatepost.mail.reader import read
from gatepost.questions import Antivirus, Dns, DnsAnswer, LookupAnswer
from gatepost.report import Report
from gatepost.stages import Context

LETTERS = {
    "text:advance-fee": (
        "Dear Friend,",
        "I am the widow of the late Colonel Ahmed, and I got your contact in my search for a reliable person.",
        "My late husband deposited the sum of $12.5 million with a security company before his sudden death.",
        "As his next of kin I need your assistance to claim the fund. This transaction is confidential and risk free.",
        "You will receive 30% of the total sum. Kindly send your full name, address and bank account details.",
        "God bless you, Mrs. Amina",
    ),
    "text:call-back": (
        "Your subscription renewal has been processed",
        "Your annual subscription has been renewed successfully and $399.99 has been charged to your account.",
        "If you did not authorize this transaction, call our customer support to cancel and get a refund.",
        "Call us at +1 (888) 555-0123 within 24 hours.",
    ),
}


def _zipped(**parts: str) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in parts.items():
            archive.writestr(name, text)
    return out.getvalue()


def docx(lines: tuple[str, ...]) -> bytes:
    """Word splits a line into runs wherever it likes."""
    runs = (
        "".join(f"<w:r><w:t xml:space='preserve'>{escape(half)}</w:t></w:r>" for half in _halves(line))
        for line in lines
    )
    body = "".join(f"<w:p>{run}</w:p>" for run in runs)
    return _zipped(
        **{
            "[Content_Types].xml": "<Types/>",
            "word/document.xml": f"<?xml version='1.0'?><w:document><w:body>{body}</w:body></w:document>",
        }
    )


def _halves(line: str) -> tuple[str, str]:
    return line[: len(line) // 2], line[len(line) // 2 :]


def xlsx(lines: tuple[str, ...]) -> bytes:
    items = "".join(f"<si><t>{escape(line)}</t></si>" for line in lines)
    return _zipped(
        **{"[Content_Types].xml": "<Types/>", "xl/sharedStrings.xml": f"<?xml version='1.0'?><sst>{items}</sst>"}
    )


def pptx(lines: tuple[str, ...]) -> bytes:
    items = "".join(f"<a:p><a:r><a:t>{escape(line)}</a:t></a:r></a:p>" for line in lines)
    return _zipped(
        **{"[Content_Types].xml": "<Types/>", "ppt/slides/slide1.xml": f"<?xml version='1.0'?><p:sld>{items}</p:sld>"}
    )


def odf(kind: str) -> Callable[[tuple[str, ...]], bytes]:
    def make(lines: tuple[str, ...]) -> bytes:
        items = "".join(f"<text:p><text:span>{escape(line)}</text:span></text:p>" for line in lines)
        body = f"<office:{kind}>{items}</office:{kind}>"
        text = (
            f"<?xml version='1.0'?><office:document-content><office:body>{body}</office:body></office:document-content>"
        )
        return _zipped(mimetype="application/vnd.oasis.opendocument", **{"content.xml": text})

    return make


def pdf(lines: tuple[str, ...]) -> bytes:
    shown = " ".join(f"({line.replace('(', chr(92) + '(').replace(')', chr(92) + ')')}) Tj T*" for line in lines)
    commands = f"BT /F1 9 Tf 12 TL 40 800 Td {shown} ET".encode()
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 595 842]/Contents 4 0 R/Resources<</Font<</F1 5 0 R>>>>>>",
        b"<</Length %d>>stream\n%s\nendstream" % (len(commands), commands),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
    ]
    body = b"".join(b"%d 0 obj%s endobj\n" % (number, each) for number, each in enumerate(objects, 1))
    return b"%PDF-1.4\n" + body + b"trailer<</Root 1 0 R/Size 6>>\n%%EOF\n"


FORMS: dict[str, Callable[[tuple[str, ...]], bytes]] = {
    "docx": docx,
    "xlsx": xlsx,
    "pptx": pptx,
    "odt": odf("text"),
    "ods": odf("spreadsheet"),
    "odp": odf("presentation"),
    "pdf": pdf,
}


def mail(name: str, content: bytes, text: str = "Please see the attachment.") -> bytes:
    message = EmailMessage()
    message["From"] = "Ann <ann@sender.example>"
    message["To"] = "bob@example.net"
    message["Subject"] = "Letter"
    message["Date"] = "Sun, 15 Nov 2026 10:00:00 +0000"
    message["Message-ID"] = "<1@sender.example>"
    message.set_content(text)
    message.add_attachment(content, maintype="application", subtype="octet-stream", filename=name)
    return message.as_bytes()


def report(raw: bytes) -> Report:
    asking = analyse(raw, Envelope("ann@sender.example", ("bob@example.net",)), Context(now=1_794_302_520.0))
    answers: tuple[object, ...] | None = None
    while True:
        try:
            questions = asking.send(answers)  # type: ignore[arg-type]
        except StopIteration as end:
            done: Report = end.value
            return done
        answers = tuple(
            DnsAnswer("no-name")
            if isinstance(each, Dns)
            else LookupAnswer()
            if "Lookup" in type(each).__name__
            else Antivirus()
            for each in questions
        )


@pytest.mark.parametrize("packed", [False, True], ids=["attached", "in a zip"])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", LETTERS)
def test_a_letter_is_found_in_every_form(kind: str, form: str, packed: bool) -> None:
    content, name = FORMS[form](LETTERS[kind]), f"letter.{form}"
    if packed:
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as archive:
            archive.writestr(name, content)
        content, name = out.getvalue(), "letter.zip"
    assert kind in report(mail(name, content)).tags


@pytest.mark.parametrize("form", FORMS)
def test_an_ordinary_document_is_delivered(form: str) -> None:
    lines = ("Minutes of the meeting", "Present: Ann, Bob", "The budget for 2027 was agreed. Next meeting: 3 December.")
    found = report(mail(f"minutes.{form}", FORMS[form](lines)))
    assert found.decision == "deliver"
    assert not [tag for tag in found.tags if tag.startswith("text:")]


@pytest.mark.parametrize("form", FORMS)
def test_written_links_are_links(form: str) -> None:
    lines = ("See https://evil.example/login?a=1&b=2 or www.other.example/x.", "Bye")
    files = find_qr_codes(find_files(read(mail(f"a.{form}", FORMS[form](lines)))))
    links = [link for file in files for link in file.links]
    assert [link.url for link in links] == ["https://evil.example/login?a=1&b=2", "http://www.other.example/x"]
    assert {link.source for link in links} == {"file"}


@pytest.mark.parametrize("form", FORMS)
def test_a_long_document_does_not_weaken_the_mail(form: str) -> None:
    letter = "\n".join(LETTERS["text:advance-fee"])
    alone = report(mail("a.bin", b"\x01\x02", letter))
    beside = report(mail(f"a.{form}", FORMS[form](("An ordinary line of a report.",) * 300), letter))

    def points(found: Report) -> list[float]:
        return [line.strength for line in found.lines if line.kind == "text:advance-fee"]

    assert points(beside) == points(alone) != []


def test_text_is_bounded() -> None:
    found = report(mail("a.docx", docx(("word " * 100,) * 2_000)))
    assert not [tag for tag in found.tags if tag.startswith("limit:")]
    assert len(read_xml_text(b"<w:t>" + b"word " * 20_000 + b"</w:t>")) > MAX_SHOWN
    budget = UnpackBudget()
    for number in range(40):
        content = b"<?xml?><w:document>%d<w:t>" % number + b"word " * 200_000
        office_xml.inspect(File("1", content, "xml", "0" * 64), budget)
    assert budget.text == MAX_TEXT
    assert budget.text_source < 3_000_000


@pytest.mark.parametrize("piece", ["<", "<w:t ", "<w:t>", "</w:p>", "<w:br", "\u2003", "&", "<text:s ", "\n "])
@pytest.mark.parametrize("head", ["<w:t>", "<office:text>"])
def test_giant_parts_are_read(head: str, piece: str) -> None:
    assert isinstance(read_xml_text((head + piece * (3_000_000 // len(piece))).encode()), str)


@given(st.binary())
def test_any_bytes(content: bytes) -> None:
    read_xml_text(b"<w:t>" + content)
    read_xml_text(b"<office:text" + content)
