"""Encoded words in header fields: `=?utf-8?q?caf=C3=A9?=` (RFC 2047, with the language tag of RFC 2231).

Mail programs are lenient, and so are we: encoded words count inside quoted strings and in the middle of a word, may
be longer than 75 characters, and a character may be split over neighbours (their bytes are joined before decoding).
"""

import binascii
import re

from gatepost.mail.charset import decode as decode_charset
from gatepost.mail.charset import encode as encode_charset
from gatepost.mail.encodings import decode_base64

WORD = re.compile(r"=\?([^?\s]{1,80})\?([bBqQ])\?([^?]*)\?=")
_CONTROLS = dict.fromkeys((*range(9), *range(10, 32), 127), " ")


def decode(text: str, most: int = 2_000) -> str:
    """Decode the encoded words in a text, at most so many of them; what is none stays as it stands."""
    if "=?" not in text:
        return text
    pieces: list[str] = []
    run: list[tuple[str, bytes]] = []
    end = 0
    for count, word in enumerate(WORD.finditer(text)):
        if count >= most:
            break
        between = text[end : word.start()]
        # White space between two encoded words is not part of the text (RFC 2047 section 6.2).
        if between and not (run and between.isspace()):
            pieces += (_joined(run), between)
            run = []
        charset = word[1].partition("*")[0].lower()
        run.append((charset, _content(word[2], word[3], charset)))
        end = word.end()
    pieces += (_joined(run), text[end:])
    return "".join(pieces)


def _content(encoding: str, text: str, charset: str) -> bytes:
    # Raw eight-bit characters do not belong here; where they are, they are in the charset that the word names.
    content = text.encode("ascii") if text.isascii() else encode_charset(text, charset)
    if encoding in "bB":
        return decode_base64(content).content
    return binascii.a2b_qp(content, header=True)


def _joined(run: list[tuple[str, bytes]]) -> str:
    """Neighbours in the same charset are one string of bytes: a character may be split over them."""
    pieces: list[str] = []
    index = 0
    while index < len(run):
        charset = run[index][0]
        until = index + 1
        while until < len(run) and run[until][0] == charset:
            until += 1
        content = b"".join(piece for _, piece in run[index:until])
        # A decoded line break must not become one in the header.
        pieces.append(decode_charset(content, charset)[0].translate(_CONTROLS))
        index = until
    return "".join(pieces)
