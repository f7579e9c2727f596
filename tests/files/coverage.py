"""The coverage matrix: every format that can hold a file, and whether it is opened or said to be unread.

`test_coverage` proves each row, and `tools.reference` makes `docs/reference/file-formats.md` of it.
"""

import base64
import lzma
import zipfile
from typing import Literal

import msgspec
import zstandard
from tests.files import archive_formats as a
from tests.files import document_formats as d
from tests.files import openpgp_formats

Outcome = Literal["opened", "said"]


class Format(msgspec.Struct, frozen=True):
    """One row: what people call the format, the extension under which it is mailed, how to make one, and what becomes
    of it. `type` is what the ledger calls it where that is not opened; `named` is False where the format keeps no
    name of the file inside, and `needs_library` says that without libarchive it is said instead."""

    title: str
    extension: str
    make: a.Make
    outcome: Outcome = "opened"
    type: str = ""
    named: bool = True
    group: str = "archives"
    needs_library: bool = False


def _said(title: str, extension: str, make: a.Make, kind: str = "", group: str = "archives") -> Format:
    return Format(title, extension, make, "said", kind or extension, group=group)


def _stream(title: str, extension: str, make: a.Make, *, by_library: str = "") -> Format:
    """A compressed file; of the type `by_library`, where libarchive opens it."""
    needed = bool(by_library)
    return Format(title, extension, make, "opened", by_library, False, "compressed files", needed)


def _document(title: str, extension: str, make: a.Make, *, named: bool = True) -> Format:
    return Format(title, extension, make, named=named, group="documents and messages")


def _said_disk(title: str, extension: str, make: a.Make, kind: str = "") -> Format:
    return _said(title, extension, make, kind, "disks and file systems")


FORMATS: tuple[Format, ...] = (
    Format("zip, deflated", "zip", a.zipped),
    Format("zip, stored", "zip", a.zip_with(zipfile.ZIP_STORED)),
    Format("zip, bzip2", "zip", a.zip_with(zipfile.ZIP_BZIP2)),
    Format("zip, LZMA", "zip", a.zip_with(zipfile.ZIP_LZMA)),
    Format("Java archive", "jar", d.jar),
    Format("Android package", "apk", a.zipped),
    Format("7z", "7z", a.sevenzip),
    _said("7z with an unknown method", "7z", a.unknown_sevenzip),
    Format("RAR 4, stored", "rar", a.rar4),
    Format("RAR 5, stored", "rar", a.rar5),
    _said("RAR 5 with a dictionary of 4 GB", "rar", a.greedy_rar),
    _said("RAR 1.4", "rar", a.only_head(b"RE~^"), "rar1"),
    Format("tar", "tar", a.tarred),
    Format("Microsoft cabinet, MSZIP", "cab", a.cabinet),
    _said("Microsoft cabinet, LZX or Quantum", "cab", a.lzx_cabinet),
    _said("ARJ", "arj", a.arj),
    _said("ACE", "ace", a.ace),
    Format("Unix archive (ar)", "ar", a.ar),
    Format("Debian package", "deb", a.deb),
    Format("cpio (newc)", "cpio", a.cpio),
    Format("cpio (odc)", "cpio", a.old_cpio),
    Format("cpio (binary)", "cpio", a.binary_cpio),
    Format("RPM package", "rpm", a.rpm),
    _said("LHA", "lzh", a.lzh),
    _said("Windows image", "wim", a.only_head(b"MSWIM\0\0\0")),
    _said("xar, macOS package", "xar", a.only_head(b"xar!\0\x1c\0\x01")),
    _said("ALZip", "alz", a.only_head(b"ALZ\x01\x0a\0")),
    _said("EGG", "egg", a.only_head(b"EGGA\0\x01")),
    _said("StuffIt", "sit", a.only_head(b"StuffIt (c)1997-"), "stuffit"),
    _said("Zoo", "zoo", a.only_head(b"ZOO 2.10 Archive.\x1a\0\0\xdc\xa7\xc4\xfd")),
    _said("FreeArc", "arc", a.only_head(b"ArC\x01\0"), "freearc"),
    _said("ZPAQ", "zpaq", a.only_head(b"7kSt\xa0\x31\x83")),
    _said("Compiled help", "chm", a.only_head(b"ITSF\x03\0\0\0")),
    _said("Outlook data file", "pst", a.only_head(b"!BDN\0\0\0\0SM")),
    Format("uuencode", "uue", a.uuencoded),
    Format("xxencode", "xxe", a.xxencoded),
    Format("yEnc", "yenc", a.yencoded),
    Format("base64", "b64", lambda _, content: base64.encodebytes(content), named=False),
    _stream("gzip", "gz", a.gzipped),
    _stream("bzip2", "bz2", a.bzipped),
    _stream("xz", "xz", lambda _, content: lzma.compress(content)),
    _stream("LZMA, old form", "lzma", lambda _, content: lzma.compress(content, lzma.FORMAT_ALONE)),
    _stream("lzip", "lz", a.lzip),
    _stream("Zstandard", "zst", lambda _, content: zstandard.compress(content)),
    _stream("Zstandard behind a skippable frame", "zst", a.skippable_zstd),
    _stream("compress, with libarchive", "Z", a.compress, by_library="compress"),
    _stream("LZ4, with libarchive", "lz4", a.lz4, by_library="lz4"),
    _said("Microsoft compress (SZDD)", "js_", a.szdd, "szdd", "compressed files"),
    _said("Microsoft compress (KWAJ)", "ex_", a.only_head(b"KWAJ\x88\xf0\x27\xd1\x03\0"), "kwaj", "compressed files"),
    _said("lzop", "lzo", a.only_head(b"\x89LZO\0\r\n\x1a\n"), "lzop", "compressed files"),
    _said("Snappy", "sz", a.only_head(b"\xff\x06\0\0sNaPpY"), "snappy", "compressed files"),
    _said("lrzip", "lrz", a.only_head(b"LRZI\0\x06"), "lrzip", "compressed files"),
    Format("ISO 9660", "iso", a.iso, group="disks and file systems"),
    _said_disk("FAT", "img", a.fat, "fat"),
    _said_disk("disk with partitions", "img", a.partitioned, "disk"),
    _said_disk("NTFS", "img", a.only_head(b"\xebR\x90NTFS    \0\x02"), "ntfs"),
    _said_disk("ext2, ext3, ext4", "img", a.only_head(bytes(1080) + b"\x53\xef", 4096), "ext"),
    _said_disk("HFS+", "img", a.only_head(bytes(1024) + b"H+\0\x04", 4096), "hfs"),
    _said_disk("Apple disk image", "dmg", a.only_tail(b"koly\0\0\0\x04")),
    _said_disk("SquashFS", "squashfs", a.only_head(b"hsqs\x02\0\0\0")),
    _said_disk("Virtual PC disk", "vhd", a.only_head(b"conectix\0\0\0\x02")),
    _said_disk("Hyper-V disk", "vhdx", a.only_head(b"vhdxfileM\0i\0"), "vhd"),
    _said_disk("VMware disk", "vmdk", a.only_head(b"KDMV\x01\0\0\0")),
    _said_disk("QEMU disk", "qcow2", a.only_head(b"QFI\xfb\0\0\0\x03")),
    _said_disk(
        "VirtualBox disk",
        "vdi",
        a.only_head(b"<<< Oracle VM VirtualBox Disk Image >>>\n".ljust(64) + b"\x7f\x10\xda\xbe"),
    ),
    _document("Word 97 with a packaged file", "doc", d.doc),
    _document("Office Open XML with a packaged file", "docx", d.docx),
    _document("Office Open XML with a web archive (altChunk)", "docx", d.docx_with_web_archive),
    _document("Word as one XML file", "xml", d.flat_opc),
    _document("OpenDocument as one XML file", "fodt", d.flat_opendocument),
    _document("Rich text with a packaged file", "rtf", d.rtf),
    _document("PDF with an embedded file", "pdf", d.pdf),
    _document("OneNote section", "one", d.onenote),
    _said("OneNote section, saved from the web", "one", d.onenote_from_the_web, "onenote", "documents and messages"),
    _document("Outlook message", "msg", d.msg),
    _document("message", "eml", d.eml),
    _document("mailbox", "mbox", d.mbox),
    _document("web archive", "mht", d.web_archive),
    _document("web archive under the name of a document", "doc", d.web_archive),
    _document("winmail.dat (TNEF)", "dat", d.tnef),
    _document("S/MIME, signed", "p7m", d.signed),
    _document("S/MIME, signed, BER", "p7m", d.signed_in_pieces),
    *(
        _document(f"OpenPGP that is not encrypted: {title}", "asc" if "armour" in title else "gpg", make)
        for title, make in openpgp_formats.FORMATS.items()
    ),
    _document("ActiveMime of Office", "mso", d.active_mime, named=False),
    _document("form with a PDF (XDP)", "xdp", d.form_with_pdf),
    _document("web page that saves a file", "html", d.page),
    _document("web page that puts a file together", "html", d.page_in_pieces),
    *(
        Format(f"{title} behind a picture", "png", d.behind_picture(make), named=named, group="behind a picture")
        for title, make, named in (
            ("zip", a.zipped, True),
            ("7z", a.sevenzip, True),
            ("RAR", a.rar5, True),
            ("cabinet", a.cabinet, True),
            ("Windows program", d.program, False),
        )
    ),
    *(
        Format(f"zip behind {title}", extension, a.behind(first, a.zipped), group="behind other files")
        for title, extension, first in (
            ("a PDF", "pdf", d.pdf("note.txt", b"a note")),
            ("gzip", "gz", a.gzipped("", b"a note")),
            ("bzip2", "bz2", a.bzipped("", b"a note")),
            ("xz", "xz", lzma.compress(b"a note")),
            ("7z", "7z", a.sevenzip("note.txt", b"a note")),
            ("RAR", "rar", a.rar5("note.txt", b"a note")),
            ("cabinet", "cab", a.cabinet("note.txt", b"a note")),
            ("Word 97", "doc", d.doc("note.txt", b"a note")),
        )
    ),
    Format(
        "7z behind Office Open XML",
        "docx",
        a.behind(a.zipped("word/document.xml", b"<w/>"), a.sevenzip),
        group="behind other files",
    ),
)
