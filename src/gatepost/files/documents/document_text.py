"""The text of documents: what a person reads in text files and in the XML of Word, Excel, PowerPoint and OpenDocument.

A letter that asks for money reads the same in a document as in a mail. Its text is taken from the XML of each part
without parsing it: a few elements hold text, some others end a paragraph. Parts are recognised by these elements, since
their names are the author's choice. The readers of other formats give their text themselves; the pages of PDFs are read
in `files.pictures`. Text that the message's own reader has read (`File.shown`) is not read again.

Of each document only the beginning becomes a `Text`: a letter is short, and the first pages of a long report say what
it is about. Links are looked for in more of it. One budget holds for all documents of a message.

Some text files hold other files: uuencode, xxencode, BinHex, yEnc, and base64 alone. Mail programs decode these where
they stand in a message, which `mail.encodings.embedded` reads. As files of their own, attached or in an archive
(`invoice.uue`), they are opened by the unpackers of people's desks. Text that only contains such a file somewhere, like
an old posting, is read as text as well.
"""

import re
from collections.abc import Iterable
from html import unescape

from gatepost.files.documents.contents_builder import ContentsBuilder
from gatepost.files.file_types import find_last_extensions
from gatepost.files.values import File
from gatepost.mail.encodings.charset import decode_charset
from gatepost.mail.encodings.embedded import EmbeddedFile, find_binhex, find_uuencoded, find_yenc
from gatepost.mail.encodings.transfer import decode_base64
from gatepost.mail.message import Text
from gatepost.mail.text import normalise_lines

MAX_SHOWN = 20_000
MAX_DOCUMENTS = 6
MAX_XML = 4 << 20
MAX_PLAIN = 1 << 20

# `<w:t>` (Word), `<a:t>` (PowerPoint) and `<t>` (Excel) hold text, and `UnicodeString` in XPS; the end of a paragraph,
# cell or row ends a line.
_RUN = re.compile(
    r"<(?:\w{1,20}:)?t(?:\s[^<>]{0,200})?>([^<]*)|\bUnicodeString\s{0,5}=\s{0,5}\"([^\"<]*)\"|<(?:\w{1,20}:)?(?:br|cr|tab)\b[^<>]{0,200}/>|</(?:\w{1,20}:)?(?:p|si|is|tr)>"
)
_OPEN_DOCUMENT_BREAK = re.compile(r"</text:(?:p|h)>|<text:(?:line-break|tab|s)\b[^<>]{0,200}/>")
_ELEMENT = re.compile(r"<[^<>]*>")
# Programs open text by these names: editors, Word and Excel, which look at the content.
_READABLE = frozenset(
    "txt text csv tsv tab prn log md asc nfo readme 1st doc docx dot rtf wri xls xlsx odt pdf eml msg vcf ics".split()
)
_CONTROLS = re.compile(rb"[\x01-\x08\x0e-\x1a\x1c-\x1f\x7f]")
_RUN_MARKS = (b":t>", b":t ", b"<t>", b"<t ", b"UnicodeString")
_BODY_MARKS = (b"<office:text", b"<office:spreadsheet", b"<office:presentation")


def has_text(content: bytes) -> bool:
    """Return whether a part in XML may have text in it."""
    return any(mark in content for mark in (*_RUN_MARKS, *_BODY_MARKS))


def read_xml_text(content: bytes) -> str:
    """Return the text of one part in XML; "" where it has none."""
    for mark in _BODY_MARKS:
        if (start := content.find(mark)) >= 0:
            text = content[start : start + MAX_XML].decode("utf-8", "replace")
            return tidy_text(unescape(_ELEMENT.sub("", _OPEN_DOCUMENT_BREAK.sub("\n", text))))
    text = content[:MAX_XML].decode("utf-8", "replace")
    return tidy_text(unescape("".join([_read_run(match) for match in _RUN.finditer(text)])))


def _read_run(match: re.Match[str]) -> str:
    text, drawn = match.groups()
    return f"{drawn} " if drawn is not None else "\n" if text is None else text


def tidy_text(text: str) -> str:
    """Return the text with single blanks between words and without empty lines."""
    return "\n".join(filter(None, (" ".join(line.split()) for line in text.split("\n"))))


def is_readable(file: File) -> bool:
    """Return whether a person reads a file that is text: by its name, since source code and data are text as well.
    Macros and what scripts hold have names of this program's making, without an extension, and are parts of a
    document."""
    extensions = [extension for name in file.names for extension in find_last_extensions(name)]
    return not _READABLE.isdisjoint(extensions) if extensions else not file.within


def remove_nuls(content: bytes) -> bytes:
    """Return text that NULs make look like data, without them: editors show it all the same, and so they do text with
    two bytes to a character that no mark begins. b"" where it is no text."""
    text = content[:MAX_PLAIN].replace(b"\0", b"")
    return text if len(text) >= len(content[:MAX_PLAIN]) // 2 and not _CONTROLS.search(text) else b""


def read_plain_text(content: bytes) -> str:
    """Return the text of a file that is nothing but text, as far as its beginning goes."""
    return tidy_text(normalise_lines(decode_charset(content[:MAX_PLAIN], None)[0]))


def add_plain_text(content: bytes, builder: ContentsBuilder) -> None:
    """Add the text of a file that is nothing but text, as far as the budget goes."""
    builder.add_unread("text" if len(content) > MAX_PLAIN else None)
    builder.add_text(read_plain_text(builder.take_source(content)))


def collect_texts(files: Iterable[File]) -> tuple[Text, ...]:
    """Return the text of each document among the files, its parts together, under the path of the document."""
    paths: dict[str, str] = {}
    pieces: dict[str, list[str]] = {}
    for file in files:
        if not file.within:
            paths.setdefault(file.sha256, file.path)
        if file.text:
            paths.setdefault(file.document, file.path)
            pieces.setdefault(file.document, []).append(file.text)
    found = list(pieces.items())[:MAX_DOCUMENTS]
    return tuple(
        Text(paths[document], "document", "\n".join(texts)[:MAX_SHOWN], attached=True) for document, texts in found
    )


MAX_ENCODED = 32 << 20
# Extensions by which unpackers take a text for one of these.
_EXTENSIONS = frozenset({"uue", "uu", "uud", "xx", "xxe", "b64", "base64", "mim", "mme", "hqx", "bhx", "yenc", "ync"})
_MARKS = (b"begin ", b"begin-base64 ", b"=ybegin ", b"must be converted with BinHex")
_XX_BEGIN = re.compile(rb"^begin [0-7]{3,6} +([^\r\n]{1,255})\r?\n(?=[+\-0-9A-Za-z])", re.MULTILINE)
_XX_ALPHABET = b"+-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_TO_UU = bytes.maketrans(_XX_ALPHABET, bytes([0x60, *range(0x21, 0x60)]))
_BASE64_ONLY = re.compile(rb"[A-Za-z0-9+/_\-\s]{16,}+={0,2}\s*")


def is_encoded(file: File) -> bool:
    """Return whether a text is a file in disguise: by its name, or by a mark that no prose has by chance."""
    return _has_name(file) or any(mark in file.content for mark in _MARKS)


def inspect(builder: ContentsBuilder) -> None:
    """Add the files in the text; a text that names one and does not hold it whole is said to be unread."""
    file = builder.file
    content = file.content[:MAX_ENCODED]
    if len(file.content) > MAX_ENCODED:
        builder.add_unread("size")
    found = [*find_uuencoded(content), *find_binhex(content), *find_yenc(content)]
    if _has_name(file) and not found:
        found = [*_find_xxencoded(content), *_find_base64(file, content)]
    for each in found:
        builder.add_member(each.names or ("decoded",), each.content, len(content))
    if _has_name(file) and not (found and all(each.whole for each in found)):
        builder.add_unread("unsupported")
    if not file.shown:
        add_plain_text(content, builder)


def _has_name(file: File) -> bool:
    return any(_EXTENSIONS.intersection(find_last_extensions(name)) for name in file.names)


def _find_xxencoded(content: bytes) -> list[EmbeddedFile]:
    """Return the files in xxencode: uuencode in an alphabet of letters and digits."""
    begin = _XX_BEGIN.search(content)
    if begin is None:
        return []
    body = content[begin.end() :].partition(b"\nend")[0].translate(_TO_UU)
    return [
        EmbeddedFile("xx", (each.names or ("decoded",)), each.content, whole=each.whole)
        for each in find_uuencoded(b"begin 644 " + begin[1] + b"\n" + body + b"\nend\n")
    ]


def _find_base64(file: File, content: bytes) -> list[EmbeddedFile]:
    """Return the file whose base64 a text wholly is, named as the text without its extension."""
    if not _BASE64_ONLY.fullmatch(content):
        return []
    decoded = decode_base64(content)
    names = tuple(name.rpartition(".")[0] or "decoded" for name in file.names)
    return [EmbeddedFile("base64", names, decoded.content, whole=decoded.whole)]
