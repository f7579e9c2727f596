"""Inputs to begin with: small files of every format, made by the makers that the tests use, and texts of every sort."""

import base64
import io
import random
import re
import struct
import wave
from collections.abc import Callable, Iterable

import msgspec
from PIL import Image
from tests.files import document_formats as documents
from tests.files.compound_files import make_compound, make_project
from tests.files.coverage import FORMATS
from tests.files.letter_formats import LETTER_FORMATS
from tests.pages import acting_pages, gated_pages
from tests.pages import xml_pages as drawn_pages
from tests.pages.smuggling_pages import TRICKS
from tests.web.authenticators import Authenticator

from bench.nasty import message
from gatepost.analysis.report import Report
from gatepost.questions import Dns
from gatepost.service.commands import ABBY_YML, GUARD_YML
from gatepost.view.values import NotShown
from gatepost.web.second_factors import encode
from gatepost.workers.protocol import Ask, Failed, Frame, Judged, Ready, pack_frame

Seeds = Callable[[], list[bytes]]
PAYLOAD = b"var a = 'https://evil.example/login';\r\n" * 3
LETTER = "Dear Friend, see https://evil.example/login?a=1 or www.other.example. Your password is: 1234"


def lines(*texts: str | bytes) -> Seeds:
    """Return the texts as they stand."""
    return lambda: [text.encode() if isinstance(text, str) else text for text in texts]


def formats(*extensions: str) -> Seeds:
    """Return one file for each row of both matrices, of files and of texts, that is mailed under these extensions."""

    def make() -> list[bytes]:
        return [
            *(each.make("a.js", PAYLOAD) for each in FORMATS if each.extension in extensions),
            *(each.make((LETTER, "Bye", "\u00e4")) for each in LETTER_FORMATS if each.extension in extensions),
        ]

    return make


def milter_conversations() -> list[bytes]:
    """Return what mail servers of both versions send for a message."""
    offers = [bytes.fromhex("00000006000001ff001fffff"), bytes.fromhex("000000020000003f0000007f")]
    frames = [
        (b"D", b"C{client_addr}\x00192.0.2.7\0j\0mx.example\0"),
        (b"C", b"mail.example\x004\x30\x39192.0.2.7\0"),
        (b"H", b"mail.example\0"),
        (b"M", b"<a@x.example>\0SIZE=100\0"),
        (b"R", b"<@r.example:b@y.example>\0"),
        (b"L", b"Subject\0 Minutes\n\tof Tuesday\0"),
        (b"N", b""),
        (b"B", b"Hello\r\n"),
        (b"E", b""),
        (b"A", b""),
        (b"K", b""),
        (b"C", b"local\0U"),
        (b"Q", b""),
    ]
    rest = b"".join((len(data) + 1).to_bytes(4) + letter + data for letter, data in frames)
    return [(len(offer) + 1).to_bytes(4) + b"O" + offer + rest for offer in offers]


def everything() -> list[bytes]:
    """Return one file for each row of the coverage matrix."""
    return [each.make("a.js", PAYLOAD) for each in FORMATS]


def pictures(*kinds: str) -> Seeds:
    """Return small pictures in these formats of Pillow."""

    def make() -> list[bytes]:
        found = []
        for kind in kinds:
            for mode in ("L", "RGB"):
                out = io.BytesIO()
                picture = Image.frombytes("L", (60, 60), random.Random(7).randbytes(3_600)).convert(mode)
                picture.save(out, kind)
                found.append(out.getvalue())
        return found

    return make


def messages() -> list[bytes]:
    """Return messages of the grammar of broken MIME, and sound ones with every sort of part."""
    dice = random.Random(7)
    made = [message(dice) for _ in range(40)]
    return [*made, documents.eml("a.zip", PAYLOAD), documents.web_archive("a.js", PAYLOAD), signed_message()]


def native_texts() -> list[bytes]:
    """Return messages, pages and letters with what the native functions look for in text: numbers for people only,
    spelled words, addresses, quoted lines, letters that are not ASCII."""
    made = lines(
        "call (8o5) 5s5-0100 or eight zero five, five five five, zero one zero zero",
        "v.i.a.g.r.a f r e e p i l l s e-mail E-MAIL \U0001d400\u0430\u200b\u00ad caf\u00e9 Stra\u00dfe \u4e2d\u6587",
        "ver\u00adify your acc\u200bount \u062d\u0650\u0633\u0627\u0628\u0643 \u9a8c\u8bc1\u60a8\u7684\u8d26\u6237",
        "> click here\n   > e\u0301 \U0001f4b0\n| wallet",
        'On Monday Ann wrote:\n> quoted\n-- \nAnn <ann@a.example>, "Bob, B." <b@b.example>; www.x.example/a',
        "from unknown (HELO a.example) (192.0.2.1) by mx.b.example (8.15/8.15) with SMTP for <ann@b.example>; Tue",
        "<script>a</script><SVG ><iframe src=a><p class=\"x\" style='a'>&lt;script onload=expression(a)</p><math>",
    )
    return [*made(), *pages(), *messages()[:12]]


def native_links() -> list[bytes]:
    """Return texts with links as people and programs write them, and with what makes a link odd."""
    made = lines(
        LETTER,
        "see <http://a.example/b?c=d#e>, (www2.a.com/x_(y)) or a.com, bit.ly/z; ann@a.com http://a.b-c.example:80/../d",
        "hxxp://a[.]b h**ps[:]//c(dot)d mailto:a@b.com,c.org ftp://x.y HTTP://A.COM?b=http%3A%2F%2Fc.d \\\\e.com\\f",
        "a@b.c/ xn--a.com 0x7f.1 a..b/%2e/ a.com./b www.google.com/url?q=https://b.net a.com?u=aHR0cHM6Ly9iLm5ldA==",
        "<URL:http://a.example/b\n c> http://\u4e2d.com/\uff0c www\u0663.a b.u\u212a/c http://a.com\u67e5 \u201ca.com",
    )
    return made()


def saved_messages() -> list[bytes]:
    """Return messages as Outlook saves them, with a header section, bodies and an attachment."""
    header = "From: a@a.example\r\nSubject: x\r\nContent-Type: text/html;\r\n charset=utf-8\r\n\r\n"
    streams = {
        "__substg1.0_007D001F": header.encode("utf-16-le"),
        "__substg1.0_0037001E": b"Subject",
        "__substg1.0_1000001F": "See the file".encode("utf-16-le"),
        "__substg1.0_10130102": b"<p>See the <a href='http://a.example/'>file</a></p>",
        "__attach_version1.0_#00000000/__substg1.0_37010102": PAYLOAD,
        "__attach_version1.0_#00000000/__substg1.0_3707001F": "a.zip".encode("utf-16-le"),
    }
    return [make_compound(streams), documents.msg("a.js", PAYLOAD), documents.tnef("a.eml", PAYLOAD)]


def signed_message() -> bytes:
    """Return a message with every field that authentication reads; no signature is right."""
    tags = b"v=1; a=rsa-sha256; c=relaxed/simple; d=a.example; s=s1; h=from:to:subject; t=1; x=9999999999;"
    digest = b" bh=47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=; b=AAAA"
    return (
        b"Received: from mx.a.example (mx.a.example [192.0.2.1]) by b.example with ESMTPS id 1; Tue, 10 Nov 2026\r\n"
        b"ARC-Seal: i=1; a=rsa-sha256; t=1; cv=none; d=a.example; s=s1; b=AAAA\r\n"
        b"ARC-Message-Signature: i=1; " + tags.removeprefix(b"v=1; ") + digest + b"\r\n"
        b"ARC-Authentication-Results: i=1; b.example; spf=pass smtp.mailfrom=a@a.example\r\n"
        b"Authentication-Results: b.example; dkim=pass (ok) header.d=a.example\r\n"
        b"DKIM-Signature: " + tags + digest + b"\r\nFrom: =?utf-8?q?A=C3=A4?= <a@a.example>, 'x' (y) <b@c.example>\r\n"
        b"To: undisclosed:;\r\nSubject: =?utf-8?b?w6Q=?= x\r\nDate: Tue, 10 Nov 2026 09:12:00 +0000\r\n\r\n"
    )  # fmt: skip


def pages() -> list[bytes]:
    """Return pages with styles, scripts, frames, forms and what else makes a reader work."""
    made = lines(
        "<html><head><base href=https://a.example/><style>.x{display:none}@media all{p{color:#fff}}</style></head>"
        "<body bgcolor=white><p class=x style='font-size:0'>hidden</p><a href='javascript:alert(1)'>a</a>"
        f"<form action=https://b.example><input type=password></form>{LETTER}<img src=cid:1 onerror=x()></body></html>",
        "<script>var a='ht'+'tps://e'+String.fromCharCode(118)+'il.example';location.replace(a+atob('L3g='))</script>",
        "<svg xmlns='x'><script>location='https://a.example'</script><rect x=1 y=1 width=2 height=2/></svg>",
        "<iframe srcdoc='&lt;p&gt;a'></iframe><template><b>x</b></template><!--[if mso]><p>a</p><![endif]-->"
        "<meta http-equiv=refresh content='0;url=https://a.example'><table><tr><td bgcolor=#000><td></table>",
        "<a href='https://x.example'>https://evil-mail<b></b>box.example</a><object data='data:text/html;base64,PGI+'>",
    )
    return [*made(), documents.page("a", PAYLOAD)]


def running_pages() -> list[bytes]:
    """Return pages whose scripts do all that the stand-in browser knows."""
    acting = (*acting_pages.COMMANDS.values(), *acting_pages.LOGINS.values(), *acting_pages.UNKNOWN.values())
    return [*(trick(b"marked").encode() for trick in TRICKS.values()), *(html.encode() for html in acting)]


def page_codes() -> list[bytes]:
    """Return scripts that use all of the stand-in browser, and values that no function expects."""
    codes = re.findall(rb"<script[^>]*>([^<]{10,2000})</script>", b"\n".join(running_pages()))
    calls = lines(
        "document.querySelector('b.x > *:not(#a)[c^=d]').innerHTML=`<p a=${{}}>`;f.p.value=null;f.submit()",
        "new Blob([new Uint8Array(9),null,{}],{type:{}}).slice(-1).text().then(x=>new URL(x,'a:'))",
        "new XMLHttpRequest().open();fetch({url:{}});new WebSocket(null).send(document);navigator.sendBeacon()",
        "document.createElement('canvas').getContext('2d').getImageData(-1,0,1e3,1e3);t.content.cloneNode(1).append(t)",
        "customElements.define('a-b',class extends HTMLElement{});document.write('<a-b>'.repeat(9));t.outerHTML=t",
        "Object.defineProperty(Object.prototype,'x',{get(){throw 1}});setInterval('x',-1);addEventListener({},{})",
        "document.evaluate('//*[@a]',null);document.createTreeWalker().nextNode();getSelection().addRange({})",
        "$('b').on('click',x=>x).val(1).html(null);location=location;open();prompt()();new Worker('data:,1')",
    )
    return [*codes, *calls()]


def gated_codes() -> list[bytes]:
    """Return scripts that ask for something before they act, in every form of a condition."""
    forms = lines(
        "for(var k in a&&b)if(k)continue;else do{x?y:z}while(0)",
        "x=>x?.y??z||w&&`a${b?c:d}`;/a[/]?b&&c/.test(y)?(()=>{return a&&b})():{}",
        "try{f()}catch{g()}finally{h&&1}switch(a){case b&&c:break}var o={a:b&&c,get d(){return e||f}}",
        "a\nb&&c\n(function(){})()||d;label:for(;i<9&&j;)if(i)break label;async()=>{await a&&b;yield_?1:2}",
    )
    return [*(code.encode() for code in gated_pages.GATES.values()), *forms()]


def large_pages() -> list[bytes]:
    """Return pages in which something repeats, with scripts, comments and quotes that do not fit together."""
    rows = "<tr id=r17><td class='a'>1<td>2</tr>" * 12
    return [
        f"<table>{rows}<script>a=1</script>{rows}<!-- <script>b=2</script> -->{rows}</table>".encode(),
        f'{rows}<a title="x>{rows}" href=javascript:c()>{rows}<script src=x>d()</script >{rows}<p>e'.encode(),
        f"{rows}<textarea><script>f()</script></textarea>{rows}<svg:script>g()</svg:script>{rows}".encode(),
        f"{rows}<img src=x onerror=h()>{rows}<style>a{{}}</style><template><b>i</b></template>{rows}".encode(),
        *pages(),
    ]


def xml_pages() -> list[bytes]:
    """Return pictures and XML with scripts, prefixes, entities and transformations, and honest ones."""
    acting = (*drawn_pages.SMUGGLING.values(), *drawn_pages.ACTING.values())
    return [*(text.encode() for _, text in acting), b"<!DOCTYPE a [<!ENTITY b '&c;&c;'><!ENTITY c 'd'>]><a>&b;</a>"]


def page_effects() -> list[bytes]:
    """Return rows of effects, as the stand-in browser notes them."""
    rows = (
        '[["blob","1","a/b","TVqQ"],["named","1","a.exe"],["save","1","","load",""],["save","2","b"],["cut"]]',
        '[["write","<form action=//a.example><input type=password>","load"],["markup","AnswerOfServer0815","load"]]',
        '[["go","https://a.example/","location","load"],["frame","//b.example","user"],["go","x:y"],["says","x"]]',
        '[["request","POST","https://a.example","p=Typed-Secret-73","fetch","user"],["given","axios","//c.example"]]',
        '[["clipboard","powershell -e a","user"],["code","eval","1"],["inflate","gzip","\\u001f"],["wasm",""]]',
        '[["blocks","F12"],["looks","webdriver"],["missing","a"],["error","b"],["decrypts","load"]]',
    )
    return lines(*rows)()


def compounds() -> list[bytes]:
    """Return compound files: documents, workbooks, presentations, saved messages and macro projects."""
    sheet = b"\x09\x08\x10\0" + bytes(16) + b"\x85\0\x0e\0" + bytes(4) + b"\x01\x01" + b"\x06\0Sheet1" + b"\x0a\0\0\0"
    slides = (
        struct.pack("<HHI", 0xF, 1000, 40) + struct.pack("<HHI", 0, 0xFBA, 8) + "a\0b".encode("utf-16-le") + b"\0\0"
    )
    return [
        *formats("doc", "xls", "ppt", "msg")(),
        make_compound({"Workbook": sheet}),
        make_compound({"PowerPoint Document": slides, "Current User": bytes(40)}),
        make_compound({**make_project(a='Sub AutoOpen()\nShell "calc"\nEnd Sub'), "\x01Ole": b"http://a.example/x"}),
        make_compound({"EncryptedPackage": bytes(64), "EncryptionInfo": b"\x04\0\x04\0\x40\0\0\0<encryption/>"}),
    ]


def office_parts() -> list[bytes]:
    """Return parts of documents in XML."""
    return (
        lines(
            f"<?xml version='1.0'?><w:document><w:p><w:r><w:t>{LETTER}</w:t></w:r><w:br/></w:p></w:document>",
            "<?xml?><Relationships><Relationship Id='a' Type='x/attachedTemplate' Target='https://a.example/x.dotm' "
            "TargetMode='External'/></Relationships>",
            "<?xml?><w:p><w:fldChar w:fldCharType='begin'/><w:instrText>DDEAUTO c:\\\\cmd</w:instrText><w:fldChar "
            "w:fldCharType='end'/></w:p>",
            f"<?xml?><office:document-content><office:text><text:p>{LETTER}</text:p></office:text></office:document-content>",
            "<?xml?><sst><si><t>=HYPERLINK(&quot;https://a.example&quot;)</t></si></sst>",
            b"\xff\xfe" + "<?xml?><a xlink:href='b'>c</a>".encode("utf-16-le"),
        )()
        + formats("xml", "fodt")()
    )


def frames() -> list[bytes]:
    """Return frames as a worker sends them."""
    bodies: Iterable[tuple[Frame, msgspec.Struct]] = (
        (Frame.READY, Ready(("seccomp",), ())),
        (Frame.ASK, Ask(1, (Dns("a.example", "TXT"),))),
        (Frame.DONE, Judged(Report("clean", "deliver", ("text:urgency",), 1, "nothing"))),
        (Frame.DONE, NotShown("too-large")),
        (Frame.FAILED, Failed("parse", "it crashed")),
    )
    return [pack_frame(kind, 1, body) for kind, body in bodies]


def uploads() -> list[bytes]:
    """Return bodies of multipart/form-data with the boundary `b`."""
    parameters = (
        b'--b\r\nContent-Disposition: form-data; name="parameters"\r\nContent-Type: application/json\r\n\r\n{}\r\n'
    )
    email = b"--b\r\nContent-Disposition: form-data; name=\"email\"; filename*=utf-8''a\r\n\r\nFrom: a\r\n\r\nx\r\n"
    plain = email.replace(b"*=utf-8''a", b'="a.eml"\r\nContent-Type: message/rfc822')
    ordinary = [parameters + plain + b"--b--\r\n", plain + parameters + b"--b--"]
    return [*ordinary, parameters + email + b"--b--\r\n", email + parameters + b"--b--\r\nrest", b"--b\n\n" + email]


def configurations() -> list[bytes]:
    """Return the configuration files that a first start writes, and odd YAML."""
    return [GUARD_YML.encode(), ABBY_YML.encode(), b"a: &x [1, *x]\nb: {c: *x}\nrestApi {}\n? [k]\n: v\n- ${env:X}\n"]


def security_keys() -> list[bytes]:
    """Attestation objects of security keys."""
    return [Authenticator("https://mail.example.com", counter, 1).attestation() for counter in (0, 7)]


def key_answers() -> list[bytes]:
    """What a security key has signed: client data and authenticator data, with a line feed between them."""
    signed = Authenticator("https://mail.example.com", 7, 1).sign(encode(bytes(32)))
    parts = ("key-client-data", "key-authenticator-data", "key-signature")
    return [b"\n".join(base64.urlsafe_b64decode(signed[name] + "==") for name in parts)]


def sound() -> list[bytes]:
    """Return a file that is no document: whatever reader it is given to has to refuse it."""
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(1)
        file.setframerate(8000)
        file.writeframes(bytes(400))
    return [out.getvalue()]
