"""Office documents of the old form, and what else hides in a compound file."""

import struct
import zlib
from collections.abc import Callable

import pytest

from gatepost.files.documents import dispatch
from gatepost.files.values import MAX_READ, Contents, File, UnpackBudget

Compounds = Callable[..., bytes]
Projects = Callable[..., dict[str, bytes]]


def contents(content: bytes, budget: UnpackBudget | None = None) -> Contents:
    return dispatch.inspect(File("1", content, "ole", "0" * 64), budget or UnpackBudget())


def traits(content: bytes) -> dict[str, str]:
    return {trait.name: trait.detail for trait in contents(content).traits}


def biff(*records: tuple[int, bytes]) -> bytes:
    return b"".join(struct.pack("<HH", kind, len(data)) + data for kind, data in records)


DOWNLOADER = """Attribute VB_Name = "M"
Private Sub Document_Open()
  Set s = CreateObject("WScr" & "ipt.Shell")
  s.Run "powershell -e ZQBjAGgAbwAgACIAaABlAGwAbABvACAAdABoAGUAcgBlACIA"
End Sub
"""


def test_a_macro_is_read_with_its_strings(compound: Compounds, project: Projects) -> None:
    found = contents(compound(project(M=DOWNLOADER)))
    names = {trait.name: trait.detail for trait in found.traits}
    assert names["macro"] == "M"
    assert names["macro-autorun"] == "Document_Open"
    assert "wscript.shell" in names["macro-call"]  # put together from two pieces
    assert b'echo "hello there"' in found.members[-1].content  # from base64


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ('Attribute VB_Name = "ThisWorkbook"\r\nOption Explicit\r\n', set()),  # every workbook with macros has such
        ("Sub Total()\r\n  Cells(1, 1) = 2\r\nEnd Sub", {"macro"}),
        ("Sub Workbook_Open()\r\n  Calculate\r\nEnd Sub", {"macro", "macro-autorun"}),
        ('Sub Send()\r\n  Set m = CreateObject("Outlook.Application")\r\nEnd Sub', {"macro"}),
        ('Sub X()\r\n  Shell ("calc.exe")\r\nEnd Sub', {"macro", "macro-call"}),
        ('Declare Function VirtualAlloc Lib "kernel32" () As Long', {"macro", "macro-call"}),
    ],
)
def test_macros(compound: Compounds, project: Projects, source: str, expected: set[str]) -> None:
    assert set(traits(compound(project(M=source)))) == expected


def test_a_macro_whose_list_is_spoilt_is_found(compound: Compounds, project: Projects) -> None:
    streams = project(M=DOWNLOADER) | {"VBA/dir": b"spoilt"}
    assert traits(compound(streams))["macro"] == "M"


def test_a_project_that_cannot_be_read_is_a_macro(compound: Compounds) -> None:
    assert traits(compound({"VBA/dir": b"spoilt", "VBA/M": b"spoilt"})) == {"macro": "its source cannot be read"}


@pytest.mark.parametrize(
    ("streams", "expected"),
    [
        ({"WordDocument": b"\xec\xa5\0\0\0\0\0\0\0\0\0\x01" + bytes(50)}, {"encrypted": "Word"}),
        ({"WordDocument": b"\xec\xa5" + bytes(50)}, {}),
        ({"EncryptedPackage": b"x", "EncryptionInfo": b"y"}, {"encrypted": "Office"}),
        ({"Workbook": biff((0x809, bytes(16)), (0x2F, bytes(6)))}, {"encrypted": "Excel"}),
        ({"Workbook": biff((0x809, bytes(16)), (0x85, bytes(4) + b"\0\0\x01\0S"))}, {}),
        (
            {"Workbook": biff((0x85, bytes(4) + b"\x02\x01\x01\0M"))},
            {"macro": "Excel 4.0", "macro-cells": "very hidden"},
        ),
        ({"Workbook": biff((0x1AE, b"\0\0\x05\0\0cmd\x03/c calc"))}, {"dde": "cmd /c calc"}),
        ({"Workbook": biff((0x1AE, b"\x03\0\x01\x04"))}, {}),  # a reference to the book itself
        ({"Book": biff((0x17, b"\x06\x03Sheet1"))}, {}),  # the same in Excel 5
        ({"WordDocument": b'text \x13 DDEAUTO c:\\x.exe "/k" \x14r\x15'}, {"dde": 'DDEAUTO c:\\x.exe "/k"'}),
        ({"WordDocument": 'a\x13DDE "x"\x14'.encode("utf-16-le")}, {"dde": 'DDE "x"'}),
        ({"WordDocument": b"a letter about DDE and DDEAUTO"}, {}),
        ({"Current User": bytes(12) + b"\xdf\xc4\xd1\xf3"}, {"encrypted": "PowerPoint"}),
        ({"Current User": bytes(12) + b"\x5f\xc0\x91\xe3"}, {}),
        ({"\x01Ole": "http://evil.test/a.hta".encode("utf-16-le")}, {"remote-object": "http://evil.test/a.hta"}),
        ({"\x01Ole": bytes(20)}, {}),
    ],
)
def test_streams(compound: Compounds, streams: dict[str, bytes], expected: dict[str, str]) -> None:
    assert traits(compound(streams)) == expected


def test_an_installer(compound: Compounds) -> None:
    clsid = bytes.fromhex("84100c0000000000c000000000000046")
    assert traits(compound({"a": b"x"}, clsid)) == {"installer": "MSI"}


def test_a_packaged_file_is_unfolded_under_all_its_names(compound: Compounds) -> None:
    package = b"\x02\0letter.txt\0C:\\tmp\\letter.exe\0\0\0\x03\0" + struct.pack("<I", 7) + b"C:\\x.e\0"
    package += struct.pack("<I", 4) + b"MZ\0\0"
    found = contents(compound({"ObjectPool/\x01Ole10Native": struct.pack("<I", len(package)) + package}))
    assert found.members[0].names == ("letter.txt", "letter.exe", "x.e")
    assert found.members[0].content == b"MZ\0\0"


def test_a_command_in_place_of_a_file(compound: Compounds) -> None:
    package = b"\x02\0letter\0C:\\letter.doc\0\0\0\x01\0\x01\0cmd /c calc\0"
    found = contents(compound({"\x01Ole10Native": struct.pack("<I", len(package)) + package}))
    assert [trait.detail for trait in found.traits] == ["cmd /c calc"]


def test_the_storages_of_a_presentation_are_unfolded(compound: Compounds) -> None:
    data = struct.pack("<I", 5) + zlib.compress(b"inner")[:-4]
    record = struct.pack("<HHI", 0x10, 0x1011, len(data)) + data
    container = struct.pack("<HHI", 0x0F, 0x03E8, len(record)) + record
    assert contents(compound({"PowerPoint Document": container})).members[0].content == b"inner"


def test_a_program_that_a_slide_starts(compound: Compounds) -> None:
    action = struct.pack("<HHI", 0, 0x0FF3, 16) + bytes(8) + b"\x02" + bytes(7)
    text = "cmd.exe /c calc".encode("utf-16-le")
    record = action + struct.pack("<HHI", 0x20, 0x0FBA, len(text)) + text
    assert traits(compound({"PowerPoint Document": record})) == {"program-action": "cmd.exe /c calc"}


def test_attachments_of_a_saved_message(compound: Compounds) -> None:
    found = contents(
        compound(
            {
                "__properties_version1.0": bytes(32),
                "__substg1.0_1000001F": "see http://a.test".encode("utf-16-le"),
                "__attach_version1.0_#00000000/__substg1.0_37010102": b"MZ\0",
                "__attach_version1.0_#00000000/__substg1.0_3707001F": "a.exe".encode("utf-16-le"),
            }
        )
    )
    assert {member.names[0]: member.content for member in found.members} == {
        "body.txt": b"see http://a.test",
        "a.exe": b"MZ\0",
    }


def test_links(compound: Compounds) -> None:
    text = b"a https://a.test/x\x14 " + "https://b.test/y ".encode("utf-16-le") + b"http://schemas.microsoft.com/office"
    assert [link.host for link in contents(compound({"WordDocument": text})).links] == ["a.test", "b.test"]


def test_streams_that_share_their_sectors_cost_no_more_than_the_budget(compound: Compounds) -> None:
    content = bytearray(compound({f"S{n}/WordDocument": b"" for n in range(100)} | {"big": bytes(100_000)}))
    sector = first_sector(bytes(content), "big")
    name = "WordDocument".encode("utf-16-le").ljust(64, b"\0")
    place = content.find(name)
    while place >= 0:
        content[place + 116 : place + 128] = struct.pack("<IQ", sector, 100_000)
        place = content.find(name, place + 128)
    budget = UnpackBudget()
    budget.read = MAX_READ - 5_000_000
    assert contents(bytes(content), budget).unread == ("size",)
    assert budget.read <= MAX_READ


def first_sector(content: bytes, name: str) -> int:
    place = content.find(name.encode("utf-16-le").ljust(64, b"\0"))
    return int(struct.unpack_from("<I", content, place + 116)[0])


@pytest.mark.variant
def test_a_message_to_many_is_read_whole(compound: Compounds) -> None:
    """A dozen streams for each of two hundred recipients are no reason to stop."""
    streams = {"__properties_version1.0": bytes(32), "__substg1.0_1000001F": "see".encode("utf-16-le")}
    for number in range(200):
        for value in range(0x3001, 0x300D):
            streams[f"__recip_version1.0_#{number:08X}/__substg1.0_{value:04X}001F"] = b"a\0"
    streams["__attach_version1.0_#00000000/__substg1.0_37010102"] = b"MZ\0"
    found = contents(compound(streams))
    assert found.unread == ()
    assert {member.content for member in found.members} == {b"see", b"MZ\0"}


def test_the_table_of_property_names_is_no_body(compound: Compounds) -> None:
    streams = {"__properties_version1.0": bytes(32), "__nameid_version1.0/__substg1.0_10130102": b"<script>x</script>"}
    assert contents(compound(streams)).members == ()


def test_rich_text_of_a_message_is_unpacked(compound: Compounds) -> None:
    rtf = rb'{\rtf1\fromhtml1 {\*\htmltag84 <a href="https://evil.example/">}x{\*\htmltag92 </a>}}'
    body = b"".join(b"\0" + rtf[at : at + 8] for at in range(0, len(rtf), 8))
    packed = struct.pack("<II", len(body) + 12, len(rtf)) + b"LZFu" + bytes(4) + body
    found = contents(compound({"__properties_version1.0": bytes(32), "__substg1.0_10090102": packed}))
    assert {member.names[0]: member.content for member in found.members} == {
        "body.rtf": rtf,
        "body.html": b'<a href="https://evil.example/">x</a>',
    }
