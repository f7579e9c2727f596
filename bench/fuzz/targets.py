"""The table of fuzz targets: every function that reads bytes or text of strangers, with inputs to begin with.

A target takes any bytes and returns a value that can be compared. Faults that a reader states by an exception of its
own (`FrameError`, `ListFileError`) are values here; any other exception is a failure. `cheap` targets take
microseconds.
"""

import msgspec

from bench.fuzz import readers, seeds
from bench.fuzz.seeds import Seeds, formats, lines, pictures
from gatepost.auth import dmarc, header
from gatepost.auth.sending_host import _read_hop
from gatepost.digests.links import DigestLink, read_link, sign_link
from gatepost.files import drawn_codes, file_names, signatures
from gatepost.files.saved_messages import find_reported_messages, open_saved_message
from gatepost.files.values import File, UnpackBudget
from gatepost.files.walk import find_files
from gatepost.mail.addresses import parse_addresses
from gatepost.mail.encodings import cms, tnef
from gatepost.mail.headers import decode_words
from gatepost.mail.html.script import read_scripts
from gatepost.mail.links import find_targets
from gatepost.mail.message import Message, Part
from gatepost.mail.reader import read
from gatepost.policy.file import read_policy_file
from gatepost.policy.rules import shipped_policy
from gatepost.smtp.commands import SmtpLimits, parse_command
from gatepost.smtp.sasl import parse_challenge
from gatepost.store.digests import DigestKey
from gatepost.view.message import build_view

_ID = "018f0000-0000-7000-8000-000000000001"


class Target(msgspec.Struct, frozen=True):
    """One reader. `most` bounds the size of an input."""

    name: str
    run: readers.Run
    seeds: Seeds
    cheap: bool = False
    most: int = 8_192


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
    Target("picture-pdf", readers.read_picture("pdf"), formats("pdf")),
    Target(
        "picture-svg",
        readers.draw_svg,
        lines("<svg><rect x=1 y='2' width='30' height='30' fill='#000'/><path d='M1 1h5v5z'/></svg>"),
    ),
    Target(
        "drawn-codes",
        lambda data: drawn_codes.find_drawn_codes(File("1", data, "text", "0" * 64)),
        lines("\u2588\u2580\u2584 " * 60, "<table>" + "<tr><td bgcolor=#000><td></tr>" * 30),
    ),
    Target(
        "signatures",
        signatures.identify,
        seeds.everything,
        cheap=True,
    ),
    Target(
        "file-names",
        lambda data: file_names.find_last_extensions(readers.decode_text(data)),
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

MAIL: tuple[Target, ...] = (
    Target("mime", read, seeds.messages),
    Target("attached-messages", find_reported_messages, seeds.messages),
    Target("saved-messages", open_saved_message, seeds.saved_messages),
    Target("part-places", readers.find_part_places, seeds.messages),
    Target("native-twins", readers.compare_native, seeds.messages, cheap=True),
    Target("html", lambda data: readers.read_part(data, "text/html"), seeds.pages),
    Target(
        "plain-text",
        lambda data: readers.read_part(data, "text/plain; format=flowed"),
        lines(seeds.LETTER, "a \nb\n> c"),
    ),
    Target(
        "css",
        readers.read_styles,
        lines(
            "p{color:red}@media print{a{}} .x{display:none;background:url(a)}/**/#i,b{c:\\41}",
            "font:1px a;color:rgb(1,2,3);opacity:0;clip:rect(0,0,0,0)",
        ),
    ),
    Target(
        "script",
        lambda data: read_scripts(readers.decode_text(data)),
        lines(
            "var a='x'+\"y\";document.write(unescape('%3c')+a);[1,2].join('');`${a}`",
            "eval(atob('YQ=='));location.href='ht'+'tp://a'/*b*/",
        ),
    ),
    Target(
        "charset",
        readers.read_charset,
        lines(
            b"utf-7       +2AA-a",
            b"iso-2022-jp \x1b$B\x80a",
            b"utf-16      a\0b",
            b"shift_jis   \x82\xa0",
            b"gb18030     \x81\x30",
        ),
    ),
    Target("transfer", readers.decode_transfer, lines("QUJD\r\nQQ==QQ==", "=41=\r\n=G x")),
    Target(
        "embedded",
        readers.find_embedded,
        lines(
            b"begin 644 a\n#86)C\n`\nend\n",
            b"(This file must be converted with BinHex 4.0)\n:!!3r2cm:",
            b"=ybegin line=1 size=3 name=a\nabc\n=yend size=3",
        ),
    ),
    Target(
        "compressed-rtf",
        readers.read_compressed_rtf,
        lines(
            b"\x2d\0\0\0\x2b\0\0\0LZFu\xf1\xc5\xc7\xa7\x03\0\x0a\0rcpg125\x42\x32\x0a\xf3 hel\x09\0 bw\x05\xb0ld}"
            b"\x0a\x80\x0f\xa0",
            rb"{\rtf1\fromhtml1{\*\htmltag64 <p>}a\'e4}",
        ),
    ),
    Target("tnef", lambda data: list(tnef.find_tnef(data)), formats("dat")),
    Target("cms", cms.open_cms, formats("p7m")),
    Target(
        "addresses",
        lambda data: parse_addresses(readers.decode_text(data), 100),
        lines('"a\\"b" (c(d)) <e@f.example>, g: h@i, j@k;, =?utf-8?q?x?= <@r:l@m>'),
        cheap=True,
        most=1_000,
    ),
    Target(
        "encoded-words",
        lambda data: decode_words(readers.decode_text(data)),
        lines("a =?utf-8?q?=C3=A4_b?= =?iso-2022-jp?B?GyRC?= c"),
        cheap=True,
        most=1_000,
    ),
    Target(
        "links",
        lambda data: list(find_targets(readers.decode_text(data))),
        lines(seeds.LETTER, "hxxps://a[.]example/b, mailto:a@b \\\\host\\share <www.a.example>"),
        most=2_000,
    ),
    Target(
        "urls",
        readers.read_url,
        lines(
            "https://user:p@EXAMPLE.com:443/a/../b?c#d",
            "https://urldefense.com/v3/__https://a.example__;Iw!!x$",
            "data:text/html;base64,PGI+",
        ),
        cheap=True,
        most=1_000,
    ),
    Target("view", build_view, seeds.messages),
    Target("analysis", readers.analyse_message, seeds.messages),
)

AUTHENTICATION: tuple[Target, ...] = (
    Target(
        "authenticate",
        readers.authenticate_message,
        lambda: [
            seeds.signed_message() + b"v=spf1 include:b.example mx a:%{d} ~all\nv=DMARC1; p=reject\nv=DKIM1; p=AAAA\n"
        ],
    ),
    Target(
        "spf",
        readers.read_spf,
        lines(
            "v=spf1 ip4:192.0.2.0/24 ip6:2001:db8::/32 a:%{ir}.%{v}._spf.%{d2} exp=e.example "
            "redirect=_x.%{l-}.example -all"
        ),
        cheap=True,
        most=1_000,
    ),
    Target(
        "dkim-key",
        readers.read_key,
        lines(
            "v=DKIM1; k=rsa; h=sha256; s=email; t=y:s; p=MFwwDQYJKoZIhvcNAQEBBQADSwAwSAJBAL",
            "v=DKIM1; k=ed25519; p=11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=",
        ),
        most=1_000,
    ),
    Target(
        "dkim-signature",
        readers.read_signature,
        lines(
            b"v=1; a=rsa-sha256; c=relaxed/simple; d=a.example; s=s; i=@a.example; h=from:to; l=1; t=1; "
            b"x=2; q=dns/txt; bh=AAAA; b=AAAA",
            b"i=1; a=rsa-sha256; cv=none; d=a; s=s; b=AA==",
        ),
        cheap=True,
        most=1_000,
    ),
    Target(
        "dmarc",
        lambda data: dmarc.parse_record(data.decode("latin-1")),
        lines("v=DMARC1; p=reject; sp=none; np=quarantine; adkim=s; rua=mailto:a@b!1m; t=y; psd=n"),
        cheap=True,
        most=1_000,
    ),
    Target(
        "authentication-results",
        lambda data: header.read_authserv_id(readers.decode_text(data)),
        lines('(a(b)) "mx.example" (c) 1; dkim=pass'),
        cheap=True,
        most=1_000,
    ),
    Target(
        "received",
        lambda data: _read_hop(readers.decode_text(data)),
        lines("from a ([IPv6:2001:db8::1] (helo=b)) by c with LMTP (d) id e for <f@g>; Tue"),
        cheap=True,
        most=1_000,
    ),
    Target(
        "dns-answers",
        readers.read_dns,
        lines(
            b"\0\0\xc0\x0c\0\x10\0\1\0\0\1,\0\x0c\x0bv=spf1 -all",
            b"\0\0\xc0\x0c\0\x0f\0\1\0\0\1,\0\x05\0\x0a\1x\xc0\x0c",
            b"\0\0\xc0\x0c\0\5\0\1\0\0\1,\0\4\1y\xc0\x0c\1y\xc0\x0c\0\1\0\1\0\0\0\1\0\4\x7f\0\0\2",
        ),
        cheap=True,
        most=1_000,
    ),
)

SERVICE: tuple[Target, ...] = (
    Target(
        "smtp-commands",
        lambda data: parse_command(data, SmtpLimits()),
        lines(
            'MAIL FROM:<"a\\"b"@c.example> SIZE=1 BODY=8BITMIME',
            "RCPT TO:<@a,@b:c@d> NOTIFY=NEVER",
            "BDAT 10 LAST",
            "XCLIENT NAME=a ADDR=[UNAVAILABLE] LOGIN=+41",
            "EHLO [192.0.2.1]",
        ),
        cheap=True,
        most=600,
    ),
    Target(
        "smtp-data",
        readers.receive_data,
        lines(
            "a\r\n..b\r\n.\r\nc",
            ".\r\n",
            "a\n.\r\n",
            "Received: a\r\nX-Gatepost-Id: 1\r\n b\r\nAuthentication-Results: b.example; x\r\n\r\nc",
        ),
        cheap=True,
        most=600,
    ),
    Target(
        "milter-frames",
        readers.read_milter_frames,
        seeds.milter_conversations,
        cheap=True,
    ),
    Target(
        "smtp-replies",
        readers.read_replies,
        lines(
            "250-a\r\n250 2.0.0 b\r\n",
            "421 4.3.2 \x01\r\n354 go\r\n",
            "250 2.0.0 Ok: queued as 4XyZ\r\n250 OK id=1tAbCd-0001-5x\r\n",
            "250 2.6.0 <a@b> [InternalId=1234, Hostname=c]\r\n250 2.0.0 <d@e> fGhI Saved\r\n",
        ),
        cheap=True,
        most=600,
    ),
    Target(
        "scram-challenge",
        lambda data: parse_challenge(readers.decode_text(data), "n"),
        lines("r=nonce,s=c2FsdA==,i=4096", "r=n,s=,i=99999999", "m=x,r=nn,s=é,i=٤"),
        cheap=True,
        most=600,
    ),
    Target(
        "digest-link",
        lambda data: read_link(readers.decode_text(data), [DigestKey(1, bytes(32), 0)], 0),
        lambda: [sign_link(DigestLink(_ID, _ID, 1_000), DigestKey(1, bytes(32), 0)).encode()],
        cheap=True,
        most=300,
    ),
    Target("security-key", readers.read_new_key, seeds.security_keys, most=4_000),
    Target("security-key-answer", readers.read_key_answer, seeds.key_answers, most=2_000),
    Target("upload", readers.receive_upload, seeds.uploads, most=2_000),
    Target("worker-frames", readers.read_frames, seeds.frames, cheap=True, most=2_000),
    Target(
        "list-entries",
        readers.normalise_entry,
        lines(
            "ann@example.com",
            "Name <a@b.example>",
            "*.example.com",
            "hxxps://x[.]y/*",
            "192.0.2.0/24",
            "2001:db8::1",
            "sha256:" + "a" * 64,
            "exe",
            "пример.рф",
            "a phrase",
        ),
        most=300,
    ),
    Target(
        "list-files",
        readers.read_list_file,
        lines('entry,comment,expires\n"a@b","x ""y""",2027-01-01\n', '{"entry":"a","comment":null}\n', "# c\na\n"),
        cheap=True,
        most=1_000,
    ),
    Target("settings", readers.read_settings, seeds.configurations, most=4_096),
    Target(
        "policy",
        lambda data: read_policy_file(readers.decode_text(data), shipped_policy()),
        lines(
            '[verdicts.spam]\nthreshold = 5.0\n[kinds."text:urgency"]\nweight = 1\nverdict = "spam"\n'
            "[groups]\na.cap = 2\n"
        ),
        most=2_000,
    ),
)

TARGETS: tuple[Target, ...] = (*MAIL, *FILES, *AUTHENTICATION, *SERVICE)
