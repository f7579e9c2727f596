"""Files that are text and hold other files: uuencode, xxencode, BinHex, yEnc, and base64 alone.

Mail programs decode these where they stand in a message, which `mail.encodings.embedded` reads. As files of their own,
attached or in an archive (`invoice.uue`), they are opened by the unpackers of people's desks. Text that only contains
such a file somewhere, like an old posting, is read as text as well.
"""

import re

from gatepost.files.documents.contents_builder import ContentsBuilder
from gatepost.files.documents.document_text import read_plain_text
from gatepost.files.file_names import find_last_extensions
from gatepost.files.values import Contents, File, UnpackBudget
from gatepost.mail.encodings.embedded import EmbeddedFile, find_binhex, find_uuencoded, find_yenc
from gatepost.mail.encodings.transfer import decode_base64

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


def inspect(file: File, budget: UnpackBudget) -> Contents:
    """Return the files in the text; a text that bears the name of one and holds none, or only a part, is said to be
    unread."""
    builder = ContentsBuilder(file, budget)
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
        builder.add_text(read_plain_text(budget.take_text_source(content)))
    return builder.build()


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
