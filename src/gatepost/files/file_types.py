"""The types of files that `signatures` tells apart: the extensions that each may honestly bear, its MIME type, and
which of them run code or hold other files."""

import re

import msgspec

from gatepost.files.file_names import find_last_extensions, list_extensions


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
    "compress": _make_family("z taz"),
    "lzma": _make_family("lzma tlz"),
    "lzip": _make_family("lz tlz"),
    "lz4": _make_family("lz4"),
    "ar": _make_family("ar a deb udeb ipk lib"),
    "cpio": _make_family("cpio"),
    "rpm": _make_family("rpm"),
    "szdd": _make_family("ex_ dl_ sy_ in_ tx_"),
    "lzh": _make_family("lzh lha lzs pma"),
    "wim": _make_family("wim esd swm ppkg"),
    "xar": _make_family("xar pkg xip safariextz"),
    "dmg": _make_family("dmg smi img"),
    "squashfs": _make_family("squashfs sqsh snap sfs"),
    "cramfs": _make_family("cramfs img"),
    "vmdk": _make_family("vmdk"),
    "qcow2": _make_family("qcow2 qcow img"),
    "vdi": _make_family("vdi"),
    "fat": _make_family("img ima vfd flp dsk bin raw dd iso"),
    "ntfs": _make_family("img raw dd bin iso"),
    "ext": _make_family("img raw dd bin ext2 ext3 ext4"),
    "hfs": _make_family("img dmg hfs iso"),
    "disk": _make_family("img raw dd bin iso"),
    "alz": _make_family("alz"),
    "egg": _make_family("egg"),
    "rar1": _make_family("rar"),
    "kwaj": _make_family("ex_ dl_ sy_"),
    "stuffit": _make_family("sit sitx sea"),
    "zoo": _make_family("zoo"),
    "lrzip": _make_family("lrz"),
    "zpaq": _make_family("zpaq"),
    "freearc": _make_family("arc"),
    "warc": _make_family("warc"),
    "isz": _make_family("isz"),
    "activemime": _make_family("mso"),
    "lzop": _make_family("lzo"),
    "snappy": _make_family("sz"),
    "pst": _make_family("pst ost nst pab"),
    "tnef": _make_family("dat tnef"),
    "cms": _make_family("p7m p7s p7b p7c p7z"),
    "dex": _make_family("dex odex", executable=True),
    "png": _make_family("png apng"),
    "jpeg": _make_family("jpg jpeg jpe jfif"),
    "gif": _make_family("gif"),
    "bmp": _make_family("bmp dib"),
    "tiff": _make_family("tif tiff"),
    "webp": _make_family("webp"),
    "heif": _make_family("heic heif avif"),
    "jpeg2000": _make_family("jp2 j2k jpf jpx j2c"),
    "ico": _make_family("ico cur"),
    "html": _make_family("html htm xhtml shtml mht mhtml hta eml"),
    "svg": _make_family("svg"),
    "xml": _make_family("xml xsl xslt svg rss rels vcxproj plist xhtml html kml gpx wsdl xsd config mobileconfig"),
    "eml": _make_family("eml mht mhtml nws txt patch diff mbox mbx doc xls mail msg"),
    "mbox": _make_family("mbox mbx mbs eml txt patch diff"),
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

# Types that hold other files. `archives.unpack` and `documents.dispatch` open most; the rest is said to be unread.
CONTAINERS: frozenset[str] = frozenset(
    "zip cab chm rar 7z gzip bzip2 xz zstd tar iso vhd ace arj compress lzma lzip lz4 ar cpio rpm szdd lzh wim xar dmg "
    "squashfs cramfs vmdk qcow2 vdi fat ntfs ext hfs disk alz egg rar1 kwaj stuffit zoo lrzip zpaq freearc warc isz "
    "pst activemime lzop snappy".split()
)
UNOPENED: frozenset[str] = frozenset(
    "chm vhd lzh wim xar dmg squashfs cramfs vmdk qcow2 vdi fat ntfs ext hfs disk alz egg rar1 kwaj stuffit zoo lrzip "
    "zpaq freearc warc isz pst lzop snappy".split()
)

# Names and declared types that promise an archive. Extensions with other meanings (bin, dat, img, key) are left out.
ARCHIVE_EXTENSIONS: frozenset[str] = frozenset(
    "zip zipx jar war ear apk rar r00 cbr 7z cb7 cbz gz tgz gzip bz2 tbz tbz2 xz txz zst tzst tar cab msu iso udf vhd "
    "vhdx ace arj z taz lzma tlz lz lz4 cpio deb rpm lzh lha wim esd swm xar dmg squashfs vmdk qcow2 vdi alz egg sit "
    "sitx zoo arc pea xz kgb uha zpaq sqx b1 ice gca bh cpt pak br lzo sz lzfse zz whl crx xpi "
    "nupkg vsix ova hdd nrg mdf mds daa uif isz ecm toast warc ex_ dl_".split()
)
_VOLUME = re.compile(r"[zrc]\d\d|\d{2,4}")


def promises_archive(name: str) -> bool:
    """Return whether a name promises an archive or a volume of one (`a.z01`, `a.7z.002`, `a.r00`)."""
    last = find_last_extensions(name)
    if ARCHIVE_EXTENSIONS.intersection(last):
        return True
    if not any(_VOLUME.fullmatch(extension) for extension in last):
        return False
    others = list_extensions(name)[1:2]
    return last[0][0] in "zrc" or bool(ARCHIVE_EXTENSIONS.intersection(others))


ARCHIVE_MIME_TYPES: frozenset[str] = frozenset(
    "application/zip application/x-zip application/x-zip-compressed application/x-rar application/x-rar-compressed "
    "application/vnd.rar application/x-7z-compressed application/gzip application/x-gzip application/x-bzip2 "
    "application/x-xz application/zstd application/x-tar application/x-lzh application/x-lzh-compressed "
    "application/x-lha application/vnd.ms-cab-compressed application/x-iso9660-image application/x-arj "
    "application/x-ace-compressed application/x-cpio application/x-compress application/java-archive "
    "application/vnd.android.package-archive application/x-ms-wim application/x-apple-diskimage".split()
)
# Names that promise a document or a program with a format of its own.
DOCUMENT_EXTENSIONS: frozenset[str] = frozenset().union(
    *(FAMILIES[kind].extensions for kind in ("exe", "pdf", "ole", "rtf", "onenote", "chm", "lnk", "zip", "cms"))
)
