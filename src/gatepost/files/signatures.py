"""What a file is, by its first bytes. Names and declared types are claims; the content is what programs open.

The answer is a short name, mostly the usual extension ("exe", "pdf", "ole"); `FAMILIES` groups them and says which
extensions each may honestly bear.
"""

import msgspec

HEAD = 1024


class Family(msgspec.Struct, frozen=True):
    """A type of file: the extensions that honestly go with it, and whether opening it runs code."""

    extensions: frozenset[str]
    executable: bool = False


def _make_family(extensions: str, *, executable: bool = False) -> Family:
    return Family(frozenset(extensions.split()), executable)


_ZIP_FORMATS = (
    "zip docx docm dotx dotm xlsx xlsm xltx xltm xlsb xlam pptx pptm potx ppsx ppsm jar apk odt ods odp epub kmz "
    "xpi war ear whl vsix ipa key numbers pages thmx nupkg cbz usdz 3mf"
)
FAMILIES: dict[str, Family] = {
    "exe": _make_family("exe dll scr com cpl ocx sys drv pif msstyles mui efi", executable=True),
    "elf": _make_family("elf so o bin ko axf", executable=True),
    "macho": _make_family("dylib bundle o", executable=True),
    "java-class": _make_family("class", executable=True),
    "lnk": _make_family("lnk", executable=True),
    "script": _make_family("sh py pl rb bash zsh", executable=True),
    "zip": _make_family(_ZIP_FORMATS),
    "pdf": _make_family("pdf ai fdf"),
    "ole": _make_family("doc dot xls xlt ppt pot pps msg msi msp mst vsd pub db thumbs wps hwp mpp"),
    "msi": _make_family("msi msp mst", executable=True),
    "rtf": _make_family("rtf doc"),
    "onenote": _make_family("one onetoc2"),
    "cab": _make_family("cab msu"),
    "chm": _make_family("chm"),
    "rar": _make_family("rar cbr r00"),
    "7z": _make_family("7z cb7"),
    "gzip": _make_family("gz tgz svgz emz gzip"),
    "bzip2": _make_family("bz2 tbz tbz2"),
    "xz": _make_family("xz txz"),
    "zstd": _make_family("zst tzst"),
    "tar": _make_family("tar ova gem"),
    "iso": _make_family("iso img udf"),
    "vhd": _make_family("vhd vhdx"),
    "ace": _make_family("ace"),
    "arj": _make_family("arj"),
    "png": _make_family("png apng"),
    "jpeg": _make_family("jpg jpeg jpe jfif"),
    "gif": _make_family("gif"),
    "bmp": _make_family("bmp dib"),
    "tiff": _make_family("tif tiff"),
    "webp": _make_family("webp"),
    "heif": _make_family("heic heif avif"),
    "html": _make_family("html htm xhtml shtml mht mhtml hta eml"),
    "svg": _make_family("svg"),
    "xml": _make_family("xml xsl xslt svg rss rels vcxproj plist xhtml html kml gpx wsdl xsd config mobileconfig"),
    "eml": _make_family("eml mht mhtml nws"),
    "ics": _make_family("ics ical ifb"),
    "vcard": _make_family("vcf vcard"),
    "pgp": _make_family("pgp gpg asc sig"),
    "wav": _make_family("wav"),
    "mp3": _make_family("mp3"),
    "mp4": _make_family("mp4 m4a m4v mov 3gp"),
    "eicar": _make_family("com txt"),
}

MIME_TYPES: dict[str, str] = {
    "exe": "application/vnd.microsoft.portable-executable",
    "elf": "application/x-elf",
    "java-class": "application/java-vm",
    "lnk": "application/x-ms-shortcut",
    "zip": "application/zip",
    "pdf": "application/pdf",
    "ole": "application/x-ole-storage",
    "rtf": "application/rtf",
    "onenote": "application/onenote",
    "cab": "application/vnd.ms-cab-compressed",
    "chm": "application/vnd.ms-htmlhelp",
    "rar": "application/vnd.rar",
    "7z": "application/x-7z-compressed",
    "gzip": "application/gzip",
    "bzip2": "application/x-bzip2",
    "xz": "application/x-xz",
    "zstd": "application/zstd",
    "tar": "application/x-tar",
    "iso": "application/x-iso9660-image",
    "png": "image/png",
    "jpeg": "image/jpeg",
    "gif": "image/gif",
    "bmp": "image/bmp",
    "tiff": "image/tiff",
    "webp": "image/webp",
    "html": "text/html",
    "svg": "image/svg+xml",
    "xml": "application/xml",
    "ics": "text/calendar",
    "vcard": "text/vcard",
    "mp3": "audio/mpeg",
    "mp4": "video/mp4",
    "wav": "audio/wav",
}

_PREFIXES: tuple[tuple[bytes, str], ...] = (
    (b"MZ", "exe"),
    (b"\x7fELF", "elf"),
    (b"\xca\xfe\xba\xbe", "java-class"),
    (b"\xfe\xed\xfa\xce", "macho"),
    (b"\xfe\xed\xfa\xcf", "macho"),
    (b"\xcf\xfa\xed\xfe", "macho"),
    (b"\xce\xfa\xed\xfe", "macho"),
    (b"L\0\0\0\x01\x14\x02\0", "lnk"),
    (b"#!", "script"),
    (b"PK\x03\x04", "zip"),
    (b"PK\x05\x06", "zip"),
    (b"PK\x07\x08PK\x03\x04", "zip"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "ole"),
    (b"{\\rt", "rtf"),
    (b"\xe4\x52\x5c\x7b\x8c\xd8\xa7\x4d", "onenote"),
    (b"MSCF", "cab"),
    (b"ITSF", "chm"),
    (b"Rar!\x1a\x07", "rar"),
    (b"7z\xbc\xaf\x27\x1c", "7z"),
    (b"\x1f\x8b", "gzip"),
    (b"BZh", "bzip2"),
    (b"\xfd7zXZ\0", "xz"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"vhdxfile", "vhd"),
    (b"conectix", "vhd"),
    (b"\x60\xea", "arj"),
    (b"\x89PNG\r\n\x1a\n", "png"),
    (b"\xff\xd8\xff", "jpeg"),
    (b"GIF8", "gif"),
    (b"BM", "bmp"),
    (b"II*\0", "tiff"),
    (b"MM\0*", "tiff"),
    (b"BEGIN:VCALENDAR", "ics"),
    (b"BEGIN:VCARD", "vcard"),
    (b"-----BEGIN PGP", "pgp"),
    (b"ID3", "mp3"),
)
_BY_FIRST: dict[int, tuple[tuple[bytes, str], ...]] = {
    first: tuple(pair for pair in _PREFIXES if pair[0][0] == first) for first in {magic[0] for magic, _ in _PREFIXES}
}


_INSTALLER = tuple(
    number.to_bytes(4, "little") + bytes.fromhex("00000000c000000000000046") for number in (0xC1082, 0xC1084, 0xC1086)
)


def identify(content: bytes) -> str:
    """Return the type of a file by its content; "text" or "data" where nothing tells."""
    if not content:
        return "empty"
    for magic, name in _BY_FIRST.get(content[0], ()):
        if content.startswith(magic) and _is_confirmed(name, content):
            return "msi" if name == "ole" and _is_installer(content) else name
    return _identify_further_in(content) or _identify_text(content)


def _is_confirmed(name: str, content: bytes) -> bool:
    """Return whether a second look confirms a short signature: prose may start with "MZ" or "BM"."""
    if name == "exe":
        return (len(content) > 64 and not content[:64].isascii()) or b"\0" in content[:64]
    if name == "bmp":
        return content[6:10] == b"\0\0\0\0"
    if name == "arj":
        return len(content) > 34 and content[2] < 0xFF and content[3] < 0x0B
    if name == "script":
        return b"/" in content[:64].split(b"\n", 1)[0]
    return True


def _is_installer(content: bytes) -> bool:
    """Return whether a compound file is a Windows Installer package: by the class of its root ([MS-CFB] section
    2.6.1)."""
    size = 1 << min(int.from_bytes(content[30:32], "little"), 16)
    root = (int.from_bytes(content[48:52], "little") + 1) * size
    return content[root + 80 : root + 96] in _INSTALLER


def _identify_further_in(content: bytes) -> str:
    """Return the type by a signature that does not stand at the start; "" where there is none."""
    if b"%PDF-" in content[:HEAD]:  # readers look for it in the first kilobyte
        return "pdf"
    if content[257:262] == b"ustar":
        return "tar"
    if content[7:14] == b"**ACE**":
        return "ace"
    if content[4:8] == b"ftyp":
        return "heif" if content[8:12] in (b"heic", b"heix", b"mif1", b"avif") else "mp4"
    if content[:4] == b"RIFF":
        return {b"WEBP": "webp", b"WAVE": "wav"}.get(content[8:12], "data")
    if content[0x8001:0x8006] in (b"CD001", b"BEA01"):
        return "iso"
    if content[-512:-504] == b"conectix":  # a disc of fixed size has its mark at the end only
        return "vhd"
    return ""


def _identify_text(content: bytes) -> str:
    head = content[:HEAD].lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if head.startswith((b"<!doctype html", b"<html", b"<head", b"<body", b"<script")):
        return "html"
    if head.startswith(b"<svg") or (head.startswith(b"<?xml") and b"<svg" in head):
        return "svg"
    if head.startswith(b"<?xml"):
        return "html" if b"<html" in head else "xml"
    return "data" if b"\0" in content[:HEAD] else "text"
