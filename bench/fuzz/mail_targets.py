"""Fuzz targets: the readers of messages, and of the records and fields that authenticate them."""

from bench.fuzz import native_twins, readers, seeds
from bench.fuzz.seeds import formats, lines
from bench.fuzz.target import Target
from gatepost.auth import dmarc_record, results
from gatepost.auth.sending_host import _read_hop
from gatepost.files.documents.saved_messages import find_reported_messages, open_saved_message
from gatepost.mail.encodings import cms, openpgp, outlook
from gatepost.mail.headers import decode_words, parse_addresses
from gatepost.mail.html.script import read_scripts
from gatepost.mail.links import find_targets
from gatepost.mail.reader import read
from gatepost.view.message import build_view

MAIL: tuple[Target, ...] = (
    Target("mime", read, seeds.messages),
    Target("attached-messages", find_reported_messages, seeds.messages),
    Target("saved-messages", open_saved_message, seeds.saved_messages),
    Target("part-places", readers.find_part_places, seeds.messages),
    Target("native-twins", native_twins.compare_native, seeds.messages, cheap=True),
    Target("native-text-twins", native_twins.compare_native_texts, seeds.native_texts, cheap=True),
    Target("native-link-twins", native_twins.compare_native_links, seeds.native_links),
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
    Target("tnef", lambda data: list(outlook.find_tnef(data)), formats("dat")),
    Target("cms", cms.open_cms, formats("p7m")),
    Target("openpgp", lambda data: list(openpgp.find_openpgp(data, 1 << 20)), formats("gpg", "asc")),
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
        lambda data: dmarc_record.parse_record(data.decode("latin-1")),
        lines("v=DMARC1; p=reject; sp=none; np=quarantine; adkim=s; rua=mailto:a@b!1m; t=y; psd=n"),
        cheap=True,
        most=1_000,
    ),
    Target(
        "authentication-results",
        lambda data: results.read_authserv_id(readers.decode_text(data)),
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
