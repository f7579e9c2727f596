"""What hostile giants cost: counters of work, which do not depend on the machine. `bench.giants` has the seconds."""

import struct

import pytest
from tests.files.compound_files import make_compound

from gatepost.files.documents import dispatch
from gatepost.files.documents.contents_builder import MAX_WRITTEN
from gatepost.files.documents.document_text import MAX_PLAIN
from gatepost.files.documents.pdf import MAX_PARSED
from gatepost.files.file_types import identify
from gatepost.files.values import MAX_TEXT, MAX_TEXT_SOURCE, Contents, File, UnpackBudget
from gatepost.files.walk import find_files
from gatepost.mail.reader import read

_SECTION = bytes.fromhex("e4525c7b8cd8a74daeb15378d02996d3")
GIANTS: dict[str, tuple[str, bytes]] = {
    "text on one line": ("a.txt", b"word " * 3_000_000),
    "links": ("a.txt", b"".join(b"https://x%d.example/ " % number for number in range(200_000))),
    "comments": ("a.csv", b'1,"https://a.example"\n' * 300_000),
    "card": ("a.vcf", b"BEGIN:VCARD\r\nNOTE:" + b"a\r\n " * 1_000_000),
    "groups of rich text": ("a.rtf", b"{\\rtf1" + b"{\\b a}" * 1_000_000),
    "fields of rich text": ("a.rtf", b"{\\rtf1 a letter" + b"{\\*\\fldinst HYPERLINK x" * 300_000),
    "section": ("a.one", _SECTION + b"w\0o\0r\0d\0 \0" * 500_000),
    "slides": (
        "a.ppt",
        make_compound({"PowerPoint Document": (struct.pack("<HHI", 0, 0xFA8, 4) + b"word") * 300_000}),
    ),
}


def inspect(name: str, content: bytes, budget: UnpackBudget) -> Contents:
    return dispatch.inspect(File(f"1/{name}", content, identify(content), "0" * 64, (name,)), budget)


@pytest.mark.parametrize("name", GIANTS)
def test_text_and_links_stay_within_the_budget(name: str) -> None:
    budget = UnpackBudget()
    found = inspect(*GIANTS[name], budget)
    assert found.text
    assert budget.text <= MAX_TEXT
    assert budget.text_source <= MAX_TEXT_SOURCE
    assert len(found.links) <= MAX_WRITTEN
    assert len(found.text) <= MAX_PLAIN


def test_many_links_in_a_text_are_no_reason_to_hold_it() -> None:
    """A log or a list of addresses has any number of them."""
    assert inspect(*GIANTS["links"], UnpackBudget()).unread == ("text",)


@pytest.mark.variant
def test_objects_of_a_pdf_are_parsed_until_the_budget_ends() -> None:
    content = b"%PDF-1.4\n" + b"".join(b"%d 0 obj<</S/URI/URI(http://a)>>endobj\n" % number for number in range(60_000))
    found = inspect("a.pdf", content, UnpackBudget())
    assert "size" in found.unread
    assert MAX_PARSED < 60_000 * 130, "or else the file is too small for this test"


def test_an_attached_page_is_read_once() -> None:
    """Its links are those of the message, and what was seen in it is known of the file."""
    head = b'From: a@b.example\r\nContent-Type: text/html; name="a.html"\r\nContent-Disposition: attachment\r\n\r\n'
    page = b"<form action=https://c.example><input type=password></form><script>1</script>"
    message = read(head + page)
    (file,) = find_files(message)
    assert file.shown
    assert {"page-form", "page-password-field", "page-script"} <= {trait.name for trait in file.traits}
    assert (file.links, file.text) == ((), "")
    assert [link.host for link in message.links] == ["c.example"]
