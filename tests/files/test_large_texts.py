"""Large texts of ordinary business: logs, tables, dumps. Their size alone is no reason to hold a message."""

import base64
import gzip
import io
import lzma
import quopri
import random
import tarfile
import zipfile
from collections.abc import Callable

import pytest
from PIL import Image
from tests.files.test_attacks import judge
from tests.variants import one_in

from gatepost.files.file_types import identify
from gatepost.files.values import MAX_TEXT_SOURCE, File, UnpackBudget
from gatepost.files.walk import find_files
from gatepost.mail.message import Message, Part
from gatepost.mail.reader import read

SIZE = 5_000_000
LINES = {
    "log": "2026-11-{day:02d}T10:00:00Z INFO host{day}.corp.example app[{number}]: order paid https://api.corp.example/v1/{number}\n",
    "csv": "{number},alpha,beta gamma,12.50,2026-10-{day:02d}\n",
    "json": '{{"id": {number}, "name": "alpha", "url": "https://x.corp.example/{number}"}}\n',
    "sql": "-- row {number}\nINSERT INTO orders VALUES ({number},'alpha','beta',NULL);\n",
    "dashes": "-- row {number}\n",
    "txt": "Alpha beta gamma delta, the order of house number {number} is paid.\n",
}
HEAD = (
    b"From: Ann <ann@a.example>\r\nTo: bob@b.example\r\nSubject: The export\r\n"
    b"Date: Tue, 10 Nov 2026 09:12:00 +0000\r\nMIME-Version: 1.0\r\n"
)


def make(kind: str, size: int = SIZE) -> bytes:
    block = "".join(LINES[kind].format(number=number, day=number % 28 + 1) for number in range(20_000)).encode()
    return (block * (size // len(block) + 1))[:size].replace(b"\n", b"\r\n")


def encode(content: bytes, encoding: str) -> bytes:
    if encoding == "base64":
        return base64.encodebytes(content).replace(b"\n", b"\r\n")
    return quopri.encodestring(content) if encoding == "quoted-printable" else content


def attach(content: bytes, kind: str, name: str, encoding: str) -> bytes:
    return (
        HEAD
        + b"Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\r\nHello Bob, the export is attached.\r\n--b\r\n"
        + f'Content-Type: {kind}; name="{name}"\r\nContent-Disposition: attachment; filename="{name}"\r\n'.encode()
        + f"Content-Transfer-Encoding: {encoding}\r\n\r\n".encode()
        + encode(content, encoding)
        + b"\r\n--b--\r\n"
    )


@pytest.mark.parametrize(
    ("kind", "declared", "encoding"),
    [
        ("log", "text/plain", "base64"),
        ("log", "text/x-log", "8bit"),
        ("csv", "text/plain", "quoted-printable"),
        ("csv", "text/csv", "7bit"),
        ("json", "text/json", "base64"),
        ("sql", "text/plain", "7bit"),
        ("sql", "text/x-sql", "base64"),
        ("dashes", "application/sql", "8bit"),
        ("txt", "text/plain; format=flowed", "binary"),
        ("txt", "application/octet-stream", "base64"),
    ],
)
def test_attached(kind: str, declared: str, encoding: str) -> None:
    report = judge(attach(make(kind), declared, f"export.{kind}", encoding))
    assert report.decision == "deliver", report.tags
    if declared.startswith("text/") and declared != "text/csv":
        assert "limit:text-size" in report.tags


def repeat(row: str, size: int) -> bytes:
    block = "".join(row.format(number=number, day=number % 28 + 1) for number in range(5_000)).encode()
    return (block * (size // len(block) + 1))[:size]


def make_table(size: int) -> bytes:
    row = (
        '<tr><td>{number}</td><td style="color:#333">12.50</td>'
        '<td><a href="https://shop.corp.example/o/{number}">order</a></td></tr>\n'
    )
    return b"<!DOCTYPE html><html><body><h1>Orders</h1><table>" + repeat(row, size) + b"</table></body></html>"


def make_report(size: int) -> bytes:
    """A page with a script that sorts its rows, fields, handlers and pictures in every row."""
    row = (
        '<tr id="r{number}" onclick="sort({number})"><td><img src="i.png" alt=""> alpha</td>'
        '<td><input type="checkbox" name="c{number}"></td></tr>\n'
    )
    script = b"<script>function sort(n){document.getElementById('t').dataset.s=n}</script>"
    return (
        b"<html><head>" + script + b"</head><body><table id=t>" + repeat(row, size) + b"</table>" + script + b"</body>"
    )


def make_office_page(size: int) -> bytes:
    row = (
        '<tr height=20 style="height:15.0pt"><td class=xl65 x:num>{number}</td>'
        "<td><![if !supportEmptyParas]>&nbsp;<![endif]><o:p></o:p></td></tr>\r\n"
    )
    head = (
        b'<html xmlns:o="urn:schemas-microsoft-com:office:office"><head><meta name=Generator content="Excel 15"></head>'
    )
    return head + b"<body><table border=0>" + repeat(row, size) + b"</table></body></html>"


def make_article(size: int) -> bytes:
    picture = b'<p>Figure %d of the article shows it.</p><img alt="" src="data:image/png;base64,%s">'
    return b"<html><body>" + b"".join(picture % (number, b"iVBORw0K" * 50_000) for number in range(size // 400_000))


def make_chart(size: int) -> bytes:
    numbers = ",".join(str(number * 0.37) for number in range(size // 8))
    script = f'Plotly.newPlot("c",[{{"y":[{numbers}]}}],{{}})'
    return f"<html><body><p>Orders of this year</p><div id=c></div><script>{script}</script></body></html>".encode()


def make_drawing(size: int) -> bytes:
    row = '<path d="M{number} 1L2 {day}z" fill="#123456"/><text x="{day}" y="{number}">a</text>\n'
    return b'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1000 1000">' + repeat(row, size) + b"</svg>"


def make_mailbox(size: int) -> bytes:
    letter = (
        "From ann@a.example Tue Nov 10 09:12:00 2026\nFrom: Ann <ann@a.example>\nTo: bob@b.example\n"
        "Subject: Order {number}\nDate: Tue, {day:02d} Nov 2026 09:12:00 +0000\nContent-Type: text/plain\n\n"
        "Hello Bob,\norder {number} is paid.\n\n"
    )
    return repeat(letter, size)


def make_letter(size: int) -> bytes:
    return HEAD + b"Content-Type: text/plain\r\n\r\n" + make("log", size)


def make_calendar(size: int) -> bytes:
    event = (
        "BEGIN:VEVENT\r\nUID:{number}@a.example\r\nDTSTART:202611{day:02d}T100000Z\r\nSUMMARY:Meeting\r\nEND:VEVENT\r\n"
    )
    return b"BEGIN:VCALENDAR\r\nVERSION:2.0\r\n" + repeat(event, size) + b"END:VCALENDAR\r\n"


def make_cards(size: int) -> bytes:
    return repeat(
        "BEGIN:VCARD\r\nVERSION:3.0\r\nFN:Ann {number}\r\nURL:https://a.example/{number}\r\nEND:VCARD\r\n", size
    )


def make_xml(size: int) -> bytes:
    row = '<order id="{number}"><name>alpha</name><url>https://x.corp.example/{number}</url></order>\n'
    return b'<?xml version="1.0"?><orders xmlns="urn:corp:orders">' + repeat(row, size) + b"</orders>"


def make_workbook(size: int) -> bytes:
    numbers = random.Random(3)
    rows = "".join(
        f'<row r="{row}"><c r="A{row}"><v>{numbers.random()!r}</v></c>'
        f'<c r="B{row}" t="inlineStr"><is><t>alpha</t></is></c></row>'
        for row in range(1, size // 40)
    )
    space = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    content = f'<worksheet xmlns="{space}"><sheetData>{rows}</sheetData></worksheet>'
    types = '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"/>'
    return zipped("[Content_Types].xml", types.encode(), ("xl/worksheets/sheet1.xml", content.encode()))


FILES: dict[str, tuple[str, Callable[[int], bytes]]] = {
    "orders.html": ("text/html", make_table),
    "sorted.html": ("text/html", make_report),
    "export.htm": ("text/html", make_office_page),
    "article.html": ("text/html", make_article),
    "chart.html": ("application/octet-stream", make_chart),
    "plan.svg": ("image/svg+xml", make_drawing),
    "archive.mbox": ("application/mbox", make_mailbox),
    "year.ics": ("text/calendar", make_calendar),
    "people.vcf": ("text/vcard", make_cards),
    "orders.xml": ("application/xml", make_xml),
    "saved.eml": ("application/octet-stream", make_letter),
    "orders.xlsx": ("application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", make_workbook),
}
ENCODINGS = ["base64", "quoted-printable", "8bit", "7bit", "binary"]
EACH_FILE = [
    pytest.param(name, ENCODINGS[number % 5], 7_000_000) for number, name in enumerate(FILES) if name != "orders.xlsx"
]
EACH_FILE += [
    pytest.param(name, encoding, 30_000_000, marks=[] if (number + place) % 5 == 1 else pytest.mark.long)
    for number, name in enumerate(FILES)
    for place, encoding in enumerate(ENCODINGS if name != "orders.xlsx" else ["base64"])
]


@pytest.mark.variant
@pytest.mark.parametrize(("name", "encoding", "size"), EACH_FILE)
def test_other_large_files_are_delivered_and_tagged(name: str, encoding: str, size: int) -> None:
    declared, make_file = FILES[name]
    report = judge(attach(make_file(size), declared, name, encoding))
    assert report.decision == "deliver", report.lines
    if declared != "application/xml" or size > MAX_TEXT_SOURCE:
        assert {"limit:text-size", "limit:text-file", "limit:image-size"}.intersection(report.tags)


@pytest.mark.variant
def test_what_a_long_calendar_and_a_long_mailbox_hold_is_found() -> None:
    payload = b"MZ" + bytes(range(256)) * 20
    event = b"\r\nATTACH;ENCODING=BASE64;VALUE=BINARY;FILENAME=setup.exe:" + base64.b64encode(payload) + b"\r\n"
    calendar = make_calendar(6_000_000).replace(b"END:VCALENDAR", event + b"END:VCALENDAR")
    letter = (
        b"From a@b.example Tue Nov 10 09:12:00 2026\nFrom: a@b.example\n"
        b"Content-Type: application/octet-stream; name=setup.exe\nContent-Transfer-Encoding: base64\n\n"
        + base64.encodebytes(payload)
        + b"\n"
    )
    mailbox = make_mailbox(3_000_000) + b"\n\n" + letter + make_mailbox(3_000_000)
    for name, content in {"a.ics": calendar, "a.mbox": mailbox}.items():
        files = find_files(Message(parts=(Part("1", names=(name,), content=content),)))
        assert payload in [file.content for file in files], name
        assert files[0].unread == ("text",)


@pytest.mark.parametrize("encoding", one_in(3, ["base64", "quoted-printable", "8bit"]))
def test_as_the_body(encoding: str) -> None:
    head = f"Content-Type: text/plain\r\nContent-Transfer-Encoding: {encoding}\r\n\r\n".encode()
    report = judge(HEAD + head + encode(make("log"), encoding))
    assert report.decision == "deliver", report.tags
    assert "limit:text-size" in report.tags


def test_a_lure_at_the_end_of_a_long_text_is_read() -> None:
    lure = b"\r\nYour mailbox is full. Verify your password at https://login.evil.example/verify today.\r\n"
    message = read(attach(make("txt") + lure, "text/plain", "note.txt", "base64"))
    assert "login.evil.example" in {link.host for link in message.links}
    assert any("Verify your password" in text.visible for text in message.texts)


def zipped(name: str, content: bytes, *more: tuple[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for each, inner in ((name, content), *more):
            archive.writestr(each, inner)
    return out.getvalue()


@pytest.mark.parametrize("name", one_in(2, ["server.log", "orders.csv"]))
@pytest.mark.parametrize(
    "packed", ["zip", pytest.param("gz", marks=pytest.mark.variant), pytest.param("xz", marks=pytest.mark.variant)]
)
def test_packed_texts_that_are_cut(name: str, packed: str) -> None:
    """What is cut for its size is said; the rest of a log is a log."""
    content = make("log") * 6
    make_file = {
        "zip": lambda: zipped(name, content),
        "gz": lambda: gzip.compress(content),
        "xz": lambda: lzma.compress(content, preset=0),
    }
    part = Part("1", content_type="application/octet-stream", names=(f"{name}.{packed}",), content=make_file[packed]())
    first, *_ = find_files(Message(parts=(part,)), UnpackBudget(8 << 20))
    assert first.unread == ("text",)


@pytest.mark.parametrize(("name", "content"), [("a.js", make("log") * 6), ("a.log", bytes(30 << 20))])
def test_other_files_that_are_cut(name: str, content: bytes) -> None:
    part = Part("1", content_type="application/zip", names=("a.zip",), content=zipped(name, content))
    first, *_ = find_files(Message(parts=(part,)), UnpackBudget(8 << 20))
    assert first.unread in (("size",), ("ratio",))


PROGRAM = b"MZ" + bytes(range(256)) * 20
PLAIN = {"log": b"10:00 order paid\n", "csv": b"1,alpha,2.50\n", "png": b"\x89PNG\r\n\x1a\n" + bytes(40)}


def count_files(number: int) -> list[tuple[str, bytes]]:
    names = [*PLAIN]
    return [
        (f"export/{each:05d}.{names[each % 3]}", PLAIN[names[each % 3]] + str(each).encode()) for each in range(number)
    ]


def tarred(files: list[tuple[str, bytes]]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, content in files:
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return out.getvalue()


PACKERS: dict[str, Callable[[list[tuple[str, bytes]]], bytes]] = {
    "zip": lambda files: zipped(*files[0], *files[1:]),
    "tar": tarred,
    "tar.gz": lambda files: gzip.compress(tarred(files), 1),
    "tar.xz": lambda files: lzma.compress(tarred(files), preset=0),
}


def find_in(packed: str, files: list[tuple[str, bytes]], budget: UnpackBudget | None = None) -> tuple[File, ...]:
    part = Part("1", names=(f"export.{packed}",), content=PACKERS[packed](files))
    return find_files(Message(parts=(part,)), budget)


def list_unread(files: tuple[File, ...]) -> set[str]:
    return {reason for file in files for reason in file.unread}


@pytest.mark.parametrize("packed", one_in(2, PACKERS))
def test_thousands_of_plain_texts_and_pictures_leave_room_for_what_acts(packed: str) -> None:
    """What could do something is opened wherever it stands among them; of the rest it is said that it was not read."""
    budget = UnpackBudget(max_files=200)
    hidden = [("run.js", b"x()"), ("note.txt", PROGRAM), ("a.png", PROGRAM), ("a.csv", b"1,=cmd|'/c calc'!A1\n")]
    files = find_in(packed, [*count_files(900), *hidden], budget)
    assert list_unread(files) == {"text", "pixels"}
    assert {content for _, content in hidden} <= {file.content for file in files}
    assert len(files) < 200


@pytest.mark.parametrize("packed", one_in(2, PACKERS))
def test_more_of_what_could_act_than_is_opened_is_said(packed: str) -> None:
    scripts = [(f"{number}.js", b"x(%d)" % number) for number in range(210)]
    assert "count" in list_unread(find_in(packed, [*count_files(300), *scripts], UnpackBudget(max_files=200)))
    assert "count" in list_unread(find_in(packed, count_files(2_100), UnpackBudget(max_files=200)))


@pytest.mark.parametrize("packed", ["tar.gz", pytest.param("tar", marks=pytest.mark.variant), "zip"])
def test_logs_that_are_larger_than_is_kept_leave_room_for_what_acts(packed: str) -> None:
    lines = random.Random(7)
    log = b"".join(b"%d order paid\n" % lines.randrange(10**9) for _ in range(90_000))
    logs = [(f"server.{number}.log", log) for number in range(6)]
    budget = UnpackBudget(4 << 20)
    files = find_in(packed, [*logs, ("run.js", b"x()"), ("note.log", PROGRAM)], budget)
    assert list_unread(files) == {"text"}
    assert {b"x()", PROGRAM} <= {file.content for file in files}
    assert budget.spent <= 4 << 20
    large = PROGRAM + lines.randbytes(5 << 20)
    assert "size" in list_unread(find_in(packed, [*logs, ("server.7.log", large)], UnpackBudget(4 << 20)))


def test_one_tar_of_a_message_is_read_piece_by_piece() -> None:
    """Each takes about a second, and what is passed over is not charged."""
    content = gzip.compress(tarred([("server.log", make("log") * 2)]), 1)
    parts = tuple(Part(str(number), names=(f"{number}.tgz",), content=content + bytes(number)) for number in range(3))
    unread = [file.unread for file in find_files(Message(parts=parts), UnpackBudget(2 << 20)) if "tgz" in file.path]
    assert unread.count(("text",)) == 1
    assert ("size",) in unread


def test_a_tar_that_is_read_piece_by_piece_is_read_to_its_end() -> None:
    whole = gzip.compress(tarred([("server.log", make("log") * 2), ("run.js", b"x()")]), 1)
    for content in (whole[:-2_000], whole + PROGRAM):
        part = Part("1", names=("export.tgz",), content=content)
        assert "damaged" in list_unread(find_files(Message(parts=(part,)), UnpackBudget(2 << 20)))


@pytest.mark.variant
@pytest.mark.parametrize("name", ["many.zip", "many.tar.gz", "logs.tar.gz", "logs.zip", "blank.png"])
@pytest.mark.parametrize("encoding", ["base64", "binary"])
def test_large_files_of_business_are_delivered(name: str, encoding: str) -> None:
    packed = name.partition(".")[2]
    if name == "blank.png":
        out = io.BytesIO()
        Image.new("1", (11_800, 11_900), 1).save(out, "PNG")
        content = out.getvalue()
    else:
        chosen = random.Random(5)
        log = b"".join(b"2026-11-10 10:00:00 order %d paid\n" % chosen.randrange(10**6) for _ in range(280_000))
        logs = [(f"server.{number}.log", log) for number in range(16)]
        content = PACKERS[packed](count_files(5_000) if name.startswith("many") else logs)
    report = judge(attach(content, "application/octet-stream", name, encoding))
    assert report.decision == "deliver", report.lines
    assert {"limit:text-file", "limit:image-size"}.intersection(report.tags)


PROSE = b"Dear Sir, this is a letter of many words.\n" * 200


@pytest.mark.parametrize(
    ("place", "mark"),
    [
        *((1024, mark) for mark in (b"BD", b"H+", b"HX")),
        (257, b"ustar"),
        (7, b"**ACE**"),
        (32, b"NXSB"),
        (3, b"NTFS    "),
        (2, b"-lh5-"),
        (2, b"-pm-a-"),
        (0x8001, b"CD001"),
        *(
            (0, mark)
            for mark in (b"MSCF", b"ITSF", b"LRZI", b"KDMV", b"EGGA", b"7kSt", b"zPQ", b"SIT!", b"hsqs", b"xar!")
        ),
        *((0, mark) for mark in (b"StuffIt", b"vhdxfile", b"conectix", b"!BDN", b"IsZ!", b"RE~^", b"BZh", b"Rar!")),
        (len(PROSE) - 512, b"koly"),
        (len(PROSE) - 512, b"conectix"),
    ],
)
def test_a_text_is_no_image_and_no_archive(place: int, mark: bytes) -> None:
    text = PROSE * 6 if place > len(PROSE) else PROSE
    letter = text[:place] + mark + text[place + len(mark) :]
    assert identify(letter) == "text"
