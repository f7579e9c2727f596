"""Documents, saved messages and pictures of every kind that can carry a file, written by hand, each with one file."""

import base64
import email.message
import struct
import zlib

from tests.files import archive_formats
from tests.files.archive_formats import zipped
from tests.files.compound_files import make_compound

PNG = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNkYAAAAAYAAjCB0C8AAAAASUVORK5CYII=")


def package(name: str, content: bytes) -> bytes:
    """The form of the old Object Packager (MS-OLEDS section 2.3.6)."""
    raw = name.encode("cp1252", "replace") + b"\0"
    return (
        b"\x02\0"
        + raw
        + raw
        + b"\0\0\x03\0"
        + struct.pack("<I", len(raw))
        + raw
        + struct.pack("<I", len(content))
        + content
    )


def native(name: str, content: bytes) -> bytes:
    body = package(name, content)
    return struct.pack("<I", len(body)) + body


def doc(name: str, content: bytes) -> bytes:
    return make_compound({"WordDocument": bytes(64), "ObjectPool/\x01Ole10Native": native(name, content)})


def docx(name: str, content: bytes) -> bytes:
    inner = make_compound({"\x01Ole10Native": native(name, content)})
    return _office({"word/document.xml": b"<w:document/>", "word/embeddings/oleObject1.bin": inner})


def docx_with_web_archive(name: str, content: bytes) -> bytes:
    relation = b'<Relationships><Relationship Type="x/aFChunk" Target="afchunk.mht"/></Relationships>'
    return _office({"word/_rels/document.xml.rels": relation, "word/afchunk.mht": web_archive(name, content)})


def _office(parts: dict[str, bytes]) -> bytes:
    import io
    import zipfile

    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in {"[Content_Types].xml": b"<Types/>", **parts}.items():
            archive.writestr(zipfile.ZipInfo(name, (2026, 1, 1, 0, 0, 0)), content, zipfile.ZIP_DEFLATED)
    return out.getvalue()


def flat_opc(name: str, content: bytes) -> bytes:
    inner = make_compound({"\x01Ole10Native": native(name, content)})
    digits = base64.encodebytes(inner)
    return (
        b'<?xml version="1.0"?><pkg:package><pkg:part pkg:name="/a.bin"><pkg:binaryData>'
        + digits
        + (b"</pkg:binaryData></pkg:part></pkg:package>")
    )


def flat_opendocument(name: str, content: bytes) -> bytes:
    inner = make_compound({"\x01Ole10Native": native(name, content)})
    return (
        b'<?xml version="1.0"?><office:document office:mimetype="application/vnd.oasis.opendocument.text">'
        b"<draw:object-ole><office:binary-data>"
        + base64.encodebytes(inner)
        + b"</office:binary-data></draw:object-ole></office:document>"
    )


def rtf(name: str, content: bytes) -> bytes:
    data = struct.pack("<II", 0x501, 2) + struct.pack("<I", 8) + b"Package\0" + bytes(8)
    body = package(name, content)
    data += struct.pack("<I", len(body)) + body
    return b"{\\rtf1 see {\\object\\objemb{\\*\\objdata " + data.hex().encode() + b"}}}"


def pdf(name: str, content: bytes) -> bytes:
    packed = zlib.compress(content)
    label = (b"\xfe\xff" + name.encode("utf-16-be")).hex().encode()
    objects = (
        b"<< /Type /Catalog >>",
        b"<< /Type /Filespec /F <" + label + b"> /EF << /F 3 0 R >> >>",
        b"<< /Type /EmbeddedFile /Filter /FlateDecode /Length %d >>\nstream\n%b\nendstream" % (len(packed), packed),
    )
    body = b"".join(b"%d 0 obj %b endobj\n" % (number, each) for number, each in enumerate(objects, 1))
    return b"%PDF-1.7\n" + body + b"trailer << /Root 1 0 R >>\n%%EOF\n"


_ONENOTE = bytes.fromhex("e4525c7b8cd8a74daeb15378d02996d3")


def onenote(name: str, content: bytes) -> bytes:
    mark = bytes.fromhex("e716e3bd65261145a4c48d4d0b7a9eac")
    format_ = bytes.fromhex("3fdd9a101b91f549a5d01791edc8aed8")
    head = (_ONENOTE + bytes(32) + format_).ljust(1024, b"\0")
    label = name.encode("utf-16-le") + b"\0\0\0\0"
    return head + label + mark + struct.pack("<Q", len(content)) + bytes(12) + content + bytes(64)


def onenote_from_the_web(_name: str, content: bytes) -> bytes:
    format_ = bytes.fromhex("2fe98d63d4a6c14b9a36b3fc2511a5b7")
    return (_ONENOTE + bytes(32) + format_).ljust(256, b"\0") + zlib.compress(content)


def msg(name: str, content: bytes) -> bytes:
    attached = "__attach_version1.0_#00000000"
    return make_compound(
        {
            "__properties_version1.0": bytes(32),
            "__substg1.0_1000001F": "see the file".encode("utf-16-le"),
            f"{attached}/__substg1.0_37010102": content,
            f"{attached}/__substg1.0_3707001F": name.encode("utf-16-le"),
        }
    )


def eml(name: str, content: bytes, subject: str = "the file") -> bytes:
    message = email.message.EmailMessage()
    message["From"], message["To"], message["Subject"] = "Ann <ann@a.example>", "bob@b.example", subject
    message["Date"], message["Message-ID"] = "Tue, 10 Nov 2026 09:12:00 +0000", "<1@a.example>"
    message.set_content("Please find the file attached.")
    message.add_attachment(content, "application", "octet-stream", filename=name)
    message.set_boundary("=_message")
    return message.as_bytes()


def mbox(name: str, content: bytes) -> bytes:
    one = b"From ann@a.example Tue Nov 10 09:12:00 2026\n" + eml("note.txt", b"a note") + b"\n"
    return one + b"From ann@a.example Tue Nov 10 09:13:00 2026\n" + eml(name, content) + b"\n"


def web_archive(name: str, content: bytes) -> bytes:
    return (
        b'MIME-Version: 1.0\r\nContent-Type: multipart/related; boundary="x"\r\n\r\n--x\r\nContent-Location: file:///C:/a.htm\r\n'
        b"Content-Type: text/html\r\n\r\n<p>see</p>\r\n--x\r\nContent-Location: file:///C:/" + name.encode()
        + b'\r\nContent-Transfer-Encoding: base64\r\nContent-Type: application/octet-stream; name="' + name.encode()
        + b'"\r\n\r\n' + base64.encodebytes(content) + b"\r\n--x--\r\n"
    )  # fmt: skip


def tnef(name: str, content: bytes) -> bytes:
    def attribute(number: int, value: bytes) -> bytes:
        return struct.pack("<BHHI", 2, number, 6, len(value)) + value + struct.pack("<H", sum(value) & 0xFFFF)

    raw = name.encode("cp1252", "replace") + b"\0"
    return (
        b"\x78\x9f\x3e\x22\x01\0" + attribute(0x9002, bytes(14)) + attribute(0x8010, raw) + attribute(0x800F, content)
    )


def der(tag: int, *parts: bytes) -> bytes:
    body = b"".join(parts)
    size = len(body)
    length = bytes([size]) if size < 0x80 else b"\x83" + size.to_bytes(3, "big")
    return bytes([tag]) + length + body


_SIGNED, _DATA, _ENVELOPED = (bytes.fromhex(f"2a864886f70d01070{number}") for number in (2, 1, 3))


def signed(name: str, content: bytes) -> bytes:
    """S/MIME, opaque: a whole message in a structure that looks encrypted."""
    data = der(0x30, der(6, _DATA), der(0xA0, der(4, eml(name, content))))
    return der(0x30, der(6, _SIGNED), der(0xA0, der(0x30, der(2, b"\x01"), der(0x31), data, der(0x31))))


def signed_in_pieces(name: str, content: bytes) -> bytes:
    """The same in BER: lengths that are not stated, and the content in pieces."""
    raw = eml(name, content)
    pieces = b"".join(der(4, raw[at : at + 100]) for at in range(0, len(raw), 100))
    inner = b"\x30\x80" + der(6, _DATA) + b"\xa0\x80\x24\x80" + pieces + bytes(6)
    return b"\x30\x80" + der(6, _SIGNED) + b"\xa0\x80\x30\x80" + der(2, b"\x01") + b"\x31\x80\0\0" + inner + bytes(6)


def page(_name: str, content: bytes) -> bytes:
    """HTML smuggling: the file is a literal in a script that saves it."""
    digits = base64.b64encode(archive_formats.zipped("payload.js", content))
    return (
        b"<html><script>var b=new Blob([Uint8Array.from(atob('" + digits + b"'),c=>c.charCodeAt(0))]);"
        b"var a=document.createElement('a');a.href=URL.createObjectURL(b);a.download='a.zip';a.click()</script></html>"
    )


def behind_picture(make: archive_formats.Make) -> archive_formats.Make:
    return lambda name, content: PNG + make(name, content)


def program(_name: str, content: bytes) -> bytes:
    """The head of a Windows program that holds the content as data."""
    head = b"MZ" + bytes(58) + struct.pack("<I", 128) + b"\x0e\x1f This program cannot be run in DOS mode.\r\r\n$"
    return head.ljust(128, b"\0") + b"PE\0\0\x4c\x01" + bytes(200) + content


def jar(name: str, content: bytes) -> bytes:
    return zipped(f"META-INF/{name}", content)


def active_mime(_name: str, content: bytes) -> bytes:
    head = bytes.fromhex("000001f004000000ffffffff000007f0dd080000040000000400000000000000")
    return b"ActiveMime" + head + struct.pack("<I", len(content)) + zlib.compress(content)


def form_with_pdf(name: str, content: bytes) -> bytes:
    digits = base64.encodebytes(pdf(name, content))
    return (
        b'<?xml version="1.0"?><xdp:xdp xmlns:xdp="http://ns.adobe.com/xdp/"><pdf><document><chunk>'
        + digits
        + (b"</chunk></document></pdf></xdp:xdp>")
    )


def page_in_pieces(name: str, content: bytes) -> bytes:
    """HTML smuggling: the script puts the file together from pieces before it decodes and saves it."""
    digits = base64.b64encode(archive_formats.zipped(name, content)).decode()
    pieces = [digits[at : at + 40] for at in range(0, len(digits), 40)]
    names = "".join(f"var p{number} = '{piece}';" for number, piece in enumerate(pieces))
    total = "+".join(f"p{number}" for number in range(len(pieces)))
    save = "a.href = URL.createObjectURL(new Blob([u])); a.download = 'a.zip'; a.click()"
    return f"<html><script>{names} var u = atob({total}); {save}</script></html>".encode()
