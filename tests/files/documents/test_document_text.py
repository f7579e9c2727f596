"""The text of documents: the same letter in every form is found by the same checks."""

from collections.abc import Callable
from email.message import EmailMessage

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.files.archive_formats import zipped
from tests.files.letter_formats import LETTER_FORMATS, LetterFormat, docx
from tests.files.test_attacks import judge
from tests.variants import one_in

from gatepost.analysis.report import Report
from gatepost.files.documents import dispatch
from gatepost.files.documents.document_text import MAX_SHOWN, is_readable, read_xml_text
from gatepost.files.documents.old_office import MAX_TEXT as MAX_OLD_TEXT
from gatepost.files.documents.old_office import read_shared_strings, read_word_text
from gatepost.files.documents.rtf import read_rtf_text
from gatepost.files.qr_codes import find_qr_codes
from gatepost.files.values import MAX_TEXT, File, UnpackBudget
from gatepost.files.walk import find_files
from gatepost.mail.reader import read

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


def name_of(form: LetterFormat, stem: str = "letter") -> str:
    return f"{stem}.{form.extension}".rstrip(".")


every_form = pytest.mark.parametrize("form", LETTER_FORMATS, ids=lambda form: form.title)


@pytest.mark.parametrize("packed", one_in(2, [False, True]), ids=["attached", "in a zip"])
@every_form
@pytest.mark.parametrize("kind", LETTERS)
def test_a_letter_is_found_in_every_form(kind: str, form: LetterFormat, packed: bool) -> None:
    content, name = form.make(LETTERS[kind]), name_of(form)
    if packed:
        content, name = zipped(name, content), "letter.zip"
    assert kind in judge(mail(name, content)).tags


@every_form
def test_an_ordinary_document_is_delivered(form: LetterFormat) -> None:
    lines = ("Minutes of the meeting", "Present: Ann, Bob", "The budget for 2027 was agreed. Next meeting: 3 December.")
    found = judge(mail(name_of(form, "minutes"), form.make(lines)))
    assert found.decision == "deliver"
    # The text model may say a little about so few words; no check of text finds anything.
    assert not [tag for tag in found.tags if tag.startswith("text:") and not tag.startswith("text:model-")]


@every_form
def test_written_links_are_links(form: LetterFormat) -> None:
    lines = ("See https://evil.example/login?a=1&b=2 or www.other.example/x.", "Bye")
    message = read(mail(name_of(form), form.make(lines)))
    files = find_qr_codes(find_files(message))
    links = [*message.links, *(link for file in files for link in file.links)]
    assert {link.url for link in links} == {"https://evil.example/login?a=1&b=2", "http://www.other.example/x"}


@every_form
def test_a_long_document_does_not_weaken_the_mail(form: LetterFormat) -> None:
    letter = "\n".join(LETTERS["text:advance-fee"])
    alone = judge(mail("a.bin", b"\x01\x02", letter))
    beside = judge(mail(name_of(form), form.make(("An ordinary line of a report.",) * 300), letter))

    def points(found: Report) -> list[float]:
        return [line.strength for line in found.lines if line.kind == "text:advance-fee"]

    assert points(beside) == points(alone) != []


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text + b"\0" * 4,
        lambda text: text.replace(b" ", b"\0 "),
        lambda text: text.decode().encode("utf-16-le"),
    ],
    ids=["at the end", "between words", "two bytes, no mark"],
)
def test_nuls_do_not_hide_a_letter(change: Callable[[bytes], bytes]) -> None:
    letter = "\n".join(LETTERS["text:advance-fee"]).encode()
    assert "text:advance-fee" in judge(mail("letter.txt", change(letter))).tags
    assert "text:advance-fee" not in judge(mail("letter.bin", b"\x02\x07" + change(letter))).tags


@every_form
def test_a_line_that_is_a_link_is_one(form: LetterFormat) -> None:
    message = read(
        mail(name_of(form), form.make(("The minutes are here:", "https://evil.example/minutes?id=4", "Ann")))
    )
    files = find_qr_codes(find_files(message))
    links = [*message.links, *(link for file in files for link in file.links)]
    assert {link.url for link in links} == {"https://evil.example/minutes?id=4"}


@pytest.mark.variant
def test_text_is_bounded() -> None:
    found = judge(mail("a.docx", docx(("word " * 100,) * 2_000)))
    assert not [tag for tag in found.tags if tag.startswith("limit:")]
    assert len(read_xml_text(b"<w:t>" + b"word " * 20_000 + b"</w:t>")) > MAX_SHOWN
    budget = UnpackBudget()
    for number in range(40):
        content = b"<?xml?><w:document>%d<w:t>" % number + b"word " * 200_000
        dispatch.inspect(File("1", content, "xml", "0" * 64), budget)
    assert budget.text == MAX_TEXT
    assert budget.text_source < 3_000_000


@pytest.mark.parametrize("piece", ["<", "<w:t ", "<w:t>", "</w:p>", "<w:br", "\u2003", "&", "<text:s ", "\n "])
@pytest.mark.parametrize("head", one_in(2, ["<w:t>", "<office:text>"]))
def test_giant_parts_are_read(head: str, piece: str) -> None:
    assert isinstance(read_xml_text((head + piece * (3_000_000 // len(piece))).encode()), str)


@given(st.binary())
def test_any_bytes(content: bytes) -> None:
    read_xml_text(b"<w:t>" + content)
    read_xml_text(b"<office:text" + content)


@pytest.mark.parametrize(
    ("name", "within", "expected"),
    [
        ("letter.txt", "", True),
        ("letter", "", True),
        ("LETTER.DOC", "", True),
        ("script.py", "", False),
        ("data.json", "", False),
        ("VBA/ThisDocument", "0" * 64, False),
        ("body.txt", "0" * 64, True),
    ],
)
def test_source_code_is_no_letter(name: str, within: str, expected: bool) -> None:
    assert is_readable(File("1", b"x", "text", "1" * 64, (name,), within=within)) is expected


@given(st.binary(max_size=300), st.binary(max_size=300))
def test_any_bytes_in_old_documents(head: bytes, rest: bytes) -> None:
    table = b"\x02" + len(rest).to_bytes(4, "little") + rest
    word = (b"\xec\xa5" + head).ljust(0x1A2, b"\0") + bytes(4) + len(table).to_bytes(4, "little") + rest
    assert isinstance(read_word_text(word, table), str)
    assert isinstance(read_shared_strings([bytes(8) + head, rest, head]), str)
    assert isinstance(read_rtf_text(b"{\\rtf1" + head + rest), str)


def test_text_of_old_documents_is_bounded() -> None:
    """A piece may be named by thousands of entries, and a table of strings may promise more than it holds."""
    pieces = b"".join(number.to_bytes(4, "little") for number in range(0, 20_001 * 100, 100))
    pieces += b"\0\0\x00\x02\0\x40\0\0" * 20_000
    table = b"\x02" + len(pieces).to_bytes(4, "little") + pieces
    head = bytearray(0x1AA)
    head[:2], head[0x1A2:] = b"\xec\xa5", bytes(4) + len(table).to_bytes(4, "little")
    assert len(read_word_text(bytes(head) + b"a" * 1_000, table)) <= MAX_OLD_TEXT
    strings = bytes(8) + (b"\xff\xff\0" + b"b" * 65_535) * 20
    assert len(read_shared_strings([strings])) <= MAX_OLD_TEXT + 65_600
    assert len(read_rtf_text(b"{\\rtf1" + b"{" * 50_000 + b"text" + b"\\bin9999999 x")) == 4
