"""Archives of every format, written by hand, each with one file: what the coverage matrix and the attacks are made of.

Formats that are opened get a real archive. Those that are only recognised get the header by which programs know them
and content that is packed, so that nothing of the file inside stands there in the clear.
"""

import binascii
import bz2
import gzip
import io
import lzma
import struct
import subprocess
import tarfile
import zipfile
import zlib
from collections.abc import Callable

import zstandard

Make = Callable[[str, bytes], bytes]


def zipped(name: str, content: bytes, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        archive.writestr(zipfile.ZipInfo(name, (2026, 1, 1, 0, 0, 0)), content, method)
    return out.getvalue()


def zip_with(method: int) -> Make:
    return lambda name, content: zipped(name, content, method)


def tarred(name: str, content: bytes) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        info = tarfile.TarInfo(name)
        info.size = len(content)
        archive.addfile(info, io.BytesIO(content))
    return out.getvalue()


def lzip(_name: str, content: bytes) -> bytes:
    chain = [{"id": lzma.FILTER_LZMA1, "dict_size": 1 << 16, "lc": 3, "lp": 0, "pb": 2}]
    packed = lzma.compress(content, lzma.FORMAT_ALONE, filters=chain)[13:]
    body = b"LZIP\x01\x10" + packed
    return body + struct.pack("<IQQ", zlib.crc32(content), len(content), len(body) + 20)


def skippable_zstd(_name: str, content: bytes) -> bytes:
    return b"\x53\x2a\x4d\x18\x04\0\0\0skip" + zstandard.compress(content)


def compress(_name: str, content: bytes) -> bytes:
    """LZW as compress(1) writes it; short enough that the width stays below 16 bits."""
    table = {bytes([value]): value for value in range(256)}
    following, width, bits, count, out = 257, 9, 0, 0, bytearray(b"\x1f\x9d\x90")
    group = 0

    def emit(code: int) -> None:
        nonlocal bits, count, group
        bits |= code << count
        count += width
        group += 1
        while count >= 8:
            out.append(bits & 255)
            bits >>= 8
            count -= 8

    word = b""
    for value in content:
        longer = word + bytes([value])
        if longer in table:
            word = longer
            continue
        emit(table[word])
        if following < 1 << 16:
            table[longer] = following
            following += 1
            if following > 1 << width and width < 16:
                while group % 8:
                    emit(0)
                width, group = width + 1, 0
        word = bytes([value])
    emit(table[word])
    if count:
        out.append(bits & 255)
    return bytes(out)


def lz4(_name: str, content: bytes) -> bytes:
    """A frame with one block of literals and one match."""
    block = bytearray()
    literals = len(content) + 8

    def length(count: int) -> bytes:
        return b"" if count < 15 else bytes([255] * ((count - 15) // 255) + [(count - 15) % 255])

    block += bytes([min(literals, 15) << 4]) + length(literals) + content + b"\n" * 8 + b"\x01\0"
    block += bytes([5 << 4]) + b"\n" * 5
    return b"\x04\x22\x4d\x18\x60\x40\x82" + struct.pack("<I", len(block)) + bytes(block) + bytes(4)


def ar(name: str, content: bytes) -> bytes:
    head = f"{name + '/':<16}{0:<12}{0:<6}{0:<6}{644:<8}{len(content):<10}`\n".encode()
    return b"!<arch>\n" + head + content + b"\n" * (len(content) & 1)


def deb(name: str, content: bytes) -> bytes:
    data = gzip.compress(tarred(name, content), mtime=0)
    return ar("debian-binary", b"2.0\n") + ar("data.tar.gz", data)[8:]


def cpio(name: str, content: bytes) -> bytes:
    def entry(label: str, data: bytes, mode: int) -> bytes:
        raw = label.encode() + b"\0"
        fields = (1, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(raw), 0)
        head = b"070701" + b"".join(b"%08X" % field for field in fields) + raw
        head += bytes(-len(head) % 4)
        return head + data + bytes(-len(data) % 4)

    return entry(name, content, 0o100644) + entry("TRAILER!!!", b"", 0)


def old_cpio(name: str, content: bytes) -> bytes:
    def entry(label: str, data: bytes, mode: int) -> bytes:
        head = b"070707" + b"%06o%06o%06o%06o%06o%06o%06o%011o%06o%011o" % (
            1, 1, mode, 0, 0, 1, 0, 0, len(label.encode()) + 1, len(data),
        )  # fmt: skip
        return head + label.encode() + b"\0" + data

    return entry(name, content, 0o100644) + entry("TRAILER!!!", b"", 0)


def binary_cpio(name: str, content: bytes) -> bytes:
    def entry(label: str, data: bytes, mode: int) -> bytes:
        raw = label.encode() + b"\0"
        words = (0o070707, 1, 1, mode, 0, 0, 1, 0, 0, 0, len(raw), len(data) >> 16, len(data) & 0xFFFF)
        return struct.pack("<13H", *words) + raw + bytes(len(raw) & 1) + data + bytes(len(data) & 1)

    return entry(name, content, 0o100644) + entry("TRAILER!!!", b"", 0)


def rpm(name: str, content: bytes) -> bytes:
    header = b"\x8e\xad\xe8\x01" + bytes(4) + struct.pack(">II", 0, 0)
    lead = b"\xed\xab\xee\xdb\x03\0" + bytes(90)
    return lead + header + header + gzip.compress(cpio(name, content), mtime=0)


def szdd(_name: str, content: bytes) -> bytes:
    packed = b"".join(b"\xff" + content[at : at + 8] for at in range(0, len(content), 8))
    return b"SZDD\x88\xf0\x27\x33A\0" + struct.pack("<I", len(content)) + packed


def cabinet(name: str, content: bytes, method: int = 1) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    packed = b"CK" + packer.compress(content) + packer.flush() if method == 1 else content
    data = bytes(4) + struct.pack("<HH", len(packed), len(content)) + packed
    entry = struct.pack("<IIHHHH", len(content), 0, 0, 0, 0, 0x80) + name.encode() + b"\0"
    start = 44 + len(entry)
    head = b"MSCF" + struct.pack("<IIIII", 0, start + len(data), 0, 44, 0) + b"\x03\x01\x01\0\x01\0\0\0" + bytes(4)
    return head + struct.pack("<IHH", start, 1, method) + entry + data


def lzx_cabinet(name: str, content: bytes) -> bytes:
    return cabinet(name, zlib.compress(content), 0x1503)


def rar4(name: str, content: bytes) -> bytes:
    def block(kind: int, flags: int, body: bytes) -> bytes:
        rest = bytes([kind]) + struct.pack("<HH", flags, 7 + len(body)) + body
        return (zlib.crc32(rest) & 0xFFFF).to_bytes(2, "little") + rest

    raw = name.encode("cp437", "replace")
    head = struct.pack(
        "<IIBIIBBHI", len(content), len(content), 3, zlib.crc32(content), 0, 29, 0x30, len(raw), 0o100644
    )
    return (
        b"Rar!\x1a\x07\0" + block(0x73, 0, bytes(6)) + block(0x74, 0x8000, head + raw) + content + block(0x7B, 0, b"")
    )


def rar5(name: str, content: bytes, method: int = 0) -> bytes:
    def number(value: int) -> bytes:
        out = bytearray()
        while value > 0x7F:
            out.append(value & 0x7F | 0x80)
            value >>= 7
        return bytes([*out, value])

    def block(kind: int, flags: int, body: bytes) -> bytes:
        rest = number(kind) + number(flags) + body
        rest = number(len(rest)) + rest
        return zlib.crc32(rest).to_bytes(4, "little") + rest

    raw = name.encode()
    body = number(len(content)) + number(4) + number(len(content)) + number(0o100644)
    body += zlib.crc32(content).to_bytes(4, "little") + number(method) + number(1) + number(len(raw)) + raw
    return b"Rar!\x1a\x07\x01\0" + block(1, 0, number(0)) + block(2, 2, body) + content + block(5, 0, b"\0")


def greedy_rar(name: str, content: bytes) -> bytes:
    return rar5(name, zlib.compress(content), 1 << 7 | 15 << 10)


def sevenzip(name: str, content: bytes, *, method: bytes = b"\x21", properties: bytes = b"\x10") -> bytes:
    """An archive with LZMA2 and a plain directory."""

    def number(value: int) -> bytes:
        return bytes([value]) if value < 0x80 else b"\xc0" + struct.pack("<H", value)

    chain = [{"id": lzma.FILTER_LZMA2, "dict_size": 1 << 20}]
    packed = lzma.compress(content, lzma.FORMAT_RAW, filters=chain)
    pack = b"\x06" + number(0) + number(1) + b"\x09" + number(len(packed)) + b"\0"
    coder = bytes([0x20 | len(method)]) + method + number(len(properties)) + properties
    folder = b"\x07\x0b" + number(1) + b"\0" + number(1) + coder + b"\x0c" + number(len(content)) + b"\0"
    raw = name.encode("utf-16-le") + b"\0\0"
    files = b"\x05" + number(1) + b"\x11" + number(len(raw) + 1) + b"\0" + raw + b"\0"
    header = b"\x01\x04" + pack + folder + b"\0" + files + b"\0"
    start = struct.pack("<QQI", len(packed), len(header), zlib.crc32(header))
    return b"7z\xbc\xaf\x27\x1c\0\x04" + struct.pack("<I", zlib.crc32(start)) + start + packed + header


def unknown_sevenzip(name: str, content: bytes) -> bytes:
    return sevenzip(name, content, method=b"\x04\xf7\x11\x7f", properties=b"")


def iso(name: str, content: bytes) -> bytes:
    """ISO 9660 with one file in the root."""

    def both(value: int, size: int) -> bytes:
        return value.to_bytes(size, "little") + value.to_bytes(size, "big")

    def record(label: bytes, sector: int, size: int, flags: int) -> bytes:
        body = b"\0" + both(sector, 4) + both(size, 4) + bytes(7) + bytes([flags, 0, 0]) + both(1, 2)
        body += bytes([len(label)]) + label
        body += bytes((len(body) + 1) & 1)
        return bytes([len(body) + 1]) + body

    folder = record(b"\0", 18, 2048, 2) + record(b"\x01", 18, 2048, 2)
    folder += record(name.upper().encode("ascii", "replace") + b";1", 19, len(content), 0)
    volume = b"\x01CD001\x01\0" + b" " * 64 + bytes(8) + both(40, 4) + bytes(32) + both(1, 2) * 2 + both(2048, 2)
    volume += both(10, 4) + bytes(16) + record(b"\0", 18, 2048, 2)
    end = b"\xffCD001\x01"
    data = content.ljust(-(-len(content) // 2048) * 2048, b"\0")
    return bytes(16 * 2048) + volume.ljust(2048, b"\0") + end.ljust(2048, b"\0") + folder.ljust(2048, b"\0") + data


def arj(name: str, content: bytes, method: int = 0) -> bytes:
    def header(kind: int, size: int, label: bytes) -> bytes:
        body = bytes([30, 11, 1, 0, 0, method if kind == 0 else 0, kind, 0]) + bytes(4)
        body += struct.pack("<III", size, size, 0) + bytes(6) + label + b"\0\0"
        return b"\x60\xea" + struct.pack("<H", len(body)) + body + struct.pack("<IH", zlib.crc32(body), 0)

    return header(2, 0, b"a.arj") + header(0, len(content), name.encode("cp437", "replace")) + content + b"\x60\xea\0\0"


def ace(name: str, content: bytes) -> bytes:
    main = b"\0\0\x90**ACE**" + bytes(20)
    raw = name.encode("cp437", "replace")
    file = b"\x01\x01\0" + struct.pack("<I", len(content)) + bytes(22) + struct.pack("<H", len(raw)) + raw
    return b"".join(b"\0\0" + len(head).to_bytes(2, "little") + head for head in (main, file)) + content


def only_head(head: bytes, size: int = 0) -> Make:
    """A container that is recognised and not opened: its head, then the content packed."""
    return lambda _name, content: head.ljust(size, b"\0") + zlib.compress(content) + bytes(512)


def only_tail(tail: bytes) -> Make:
    return lambda _name, content: (
        (b"\x01\x02\x03\0" + zlib.compress(content)).ljust(4096, b"\0") + tail.ljust(512, b"\0")
    )


def fat(name: str, content: bytes) -> bytes:
    """A floppy disk of 1.44 MB, cut behind its data: boot sector, two tables, root folder, one file."""
    boot = b"\xeb\x3c\x90MSDOS5.0" + struct.pack("<HBHBHHBHHHII", 512, 1, 1, 2, 224, 2880, 0xF0, 9, 18, 2, 0, 0)
    boot = (boot + b"\0\0\x29" + bytes(4) + b"NO NAME    FAT12   ").ljust(510, b"\0") + b"\x55\xaa"
    stem, _, ending = name.upper().partition(".")
    entry = f"{stem[:8]:<8}{ending[:3]:<3}".encode("ascii", "replace") + b"\x20" + bytes(14)
    entry += struct.pack("<HI", 2, len(content))
    return boot + bytes(512 * 18) + entry.ljust(512 * 14, b"\0") + content


def partitioned(name: str, content: bytes) -> bytes:
    table = bytes(446) + b"\x80\0\0\0\x07\0\0\0" + struct.pack("<II", 1, 2880) + bytes(48) + b"\x55\xaa"
    return table + fat(name, content)


def lzh(name: str, content: bytes) -> bytes:
    raw = name.encode()
    packed = zlib.compress(content)
    head = b"-lh5-" + struct.pack("<IIIBB", len(packed), len(content), 0, 0x20, 0) + bytes([len(raw)]) + raw + bytes(2)
    return bytes([len(head), sum(head) & 255]) + head + packed + b"\0"


def system_packed(*command: str) -> Make:
    """What a program of the system makes of the content on its standard input."""
    return lambda _name, content: subprocess.run(command, input=content, capture_output=True, check=True).stdout


def gzipped(_name: str, content: bytes) -> bytes:
    return gzip.compress(content, mtime=0)


def bzipped(_name: str, content: bytes) -> bytes:
    return bz2.compress(content)


def uuencoded(name: str, content: bytes) -> bytes:
    lines = b"".join(binascii.b2a_uu(content[at : at + 45]) for at in range(0, len(content), 45))
    return b"begin 644 " + name.strip().encode() + b"\n" + lines + b"`\nend\n"


def xxencoded(name: str, content: bytes) -> bytes:
    letters = b"+-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
    head, body = uuencoded(name, content).split(b"\n", 1)
    table = bytes.maketrans(bytes([0x60, *range(0x21, 0x60)]), letters)
    return head + b"\n" + body.partition(b"\nend")[0].replace(b" ", b"`").translate(table) + b"\nend\n"


def yencoded(name: str, content: bytes) -> bytes:
    coded = bytes((byte + 42) % 256 for byte in content)
    for critical in (0x3D, 0x00, 0x0A, 0x0D):
        coded = coded.replace(bytes([critical]), b"=" + bytes([(critical + 64) % 256]))
    head = f"=ybegin line=128 size={len(content)} name={name}\r\n".encode()
    return head + coded + b"\r\n=yend\r\n"


def behind(first: bytes, make: Make) -> Make:
    return lambda name, content: first + make(name, content)
