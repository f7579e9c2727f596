"""Header sections (RFC 5322 section 2.2, RFC 6532) and the encoded words in them (RFC 2047).

A section gives its fields in their order with their bytes, unfolded and decoded. It ends at the first empty line. Real
and hostile mail has lines in it that are no fields. Some mail programs let the body begin there, others skip them and
read on. One such line between fields is skipped. Several in a row, or any before the first field, are skipped where a
field follows that says what the body is; otherwise they are taken for the body. Where lines were skipped, the section
says so (`HeaderSection.junk`), and the reader keeps the other reading as well. This holds for every section: that of
the message, of a part, and of an attached message or file.

`=?utf-8?q?caf=C3=A9?=` is an encoded word (with the language tag of RFC 2231, if it has one). Mail programs are lenient
with them, and so is this module: encoded words count inside quoted strings and in the middle of a word, may be longer
than 75 characters, and a character may be split over neighbours, whose bytes are joined before decoding.

Address lists (RFC 5322 sections 3.4 and 4.4) are read in one pass over tokens, with everything that obsolete syntax
allows: routes, comments as names, missing commas, groups, empty members. Encoded words are decoded after the list is
taken apart, so that an encoded comma cannot make two senders out of one.
"""

import binascii
import re
from collections.abc import Callable

import msgspec

from gatepost.findings import kinds
from gatepost.mail.budget import ReadBudget
from gatepost.mail.encodings.charset import decode_charset, encode_charset
from gatepost.mail.encodings.transfer import decode_base64
from gatepost.mail.message import Field, Headers
from gatepost.names import MAX_FIELD, Address, bound_host
from gatepost.speedups import native

_WORD = re.compile(r"=\?([^?\s]{1,80})\?([bBqQ])\?([^?]*)\?=")
_CONTROLS = dict.fromkeys((*range(9), *range(10, 32), 127), " ")


def decode_words(text: str, most: int = 2_000) -> str:
    """Decode the encoded words in a text, at most so many of them; other text stays as it is."""
    if "=?" not in text:
        return text
    pieces: list[str] = []
    run: list[tuple[str, bytes]] = []
    end = 0
    for count, word in enumerate(_WORD.finditer(text)):
        if count >= most:
            break
        between = text[end : word.start()]
        # White space between two encoded words is not part of the text (RFC 2047 section 6.2).
        if between and not (run and between.isspace()):
            pieces += (_join_words(run), between)
            run = []
        charset = word[1].partition("*")[0].lower()
        run.append((charset, _decode_word(word[2], word[3], charset)))
        end = word.end()
    pieces += (_join_words(run), text[end:])
    return "".join(pieces)


def _decode_word(encoding: str, text: str, charset: str) -> bytes:
    # Raw eight-bit characters do not belong here; where they are, they are in the charset that the word names.
    content = text.encode("ascii") if text.isascii() else encode_charset(text, charset)
    if encoding in "bB":
        return decode_base64(content).content
    return binascii.a2b_qp(content, header=True)


def _join_words(run: list[tuple[str, bytes]]) -> str:
    """Join neighbouring words of the same charset before decoding: a character may be split over them."""
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


_FIELD = re.compile(rb"([!-9;-~]++)[ \t]*+:([^\n]*+(?:\n[ \t][^\n]*+)*)(?:\n|\Z)")
# Only at the beginning of a line: tried at every character of a long line without a colon, it would be quadratic.
_TEXT_FIELD = re.compile(r"^([!-9;-~]++[ \t]*+):([^\n]*+(?>\n[ \t][^\n]*+)*+)\n", re.MULTILINE)
_LINE = re.compile(rb"[^\n]*+(?:\n[ \t][^\n]*+)*(?:\n|\Z)")
_EMPTY_LINE = re.compile(rb"\n\r?\n")
# What ends a run of lines that are no fields: an empty line, perhaps a delimiter, or a field that describes a body.
_CONTENT_FIELD = rb"content-(?:type|transfer-encoding|disposition)[ \t]*+:"
_MESSAGE_FIELD = rb"(?:mime-version|from|to|subject|date|received|message-id|return-path|dkim-signature)[ \t]*+:"
_END_OF_JUNK = re.compile(rb"^(?:\r?$|--|(" + _CONTENT_FIELD + rb"))", re.MULTILINE | re.IGNORECASE)
_END_OF_LEADING_JUNK = re.compile(
    rb"^(?:\r?$|--|(" + _CONTENT_FIELD + rb"|" + _MESSAGE_FIELD + rb"))", re.MULTILINE | re.IGNORECASE
)
_BARE_CR = re.compile(rb"\r(?!\n|\Z)")


class HeaderSection(msgspec.Struct, frozen=True):
    """A header section as read: where the body begins, what was not read, and whether it reads in only one way.

    `junk` is the first line that was skipped, where another program would let the body begin; -1 if there is none.
    """

    headers: Headers
    body: int
    unread: tuple[int, int] = (0, 0)
    odd: bool = False
    junk: int = -1


def read_section(
    source: bytes, start: int, boundaries: frozenset[bytes], where: str, budget: ReadBudget, *, is_part: bool = False
) -> HeaderSection:
    """Read the header section that begins at `start`; a line that is one of `boundaries` ends it too. `is_part` says
    that it is the section of a part of a multipart rather than that of a message."""
    return _read_ordinary(source, start, where, budget) or _read_odd(
        source, start, boundaries, where, budget, is_part=is_part
    )


def _read_ordinary(source: bytes, start: int, where: str, budget: ReadBudget) -> HeaderSection | None:
    """Read the section in one pass if it is ASCII fields and nothing else up to an empty line; else return None."""
    limits, work = budget.limits, budget.work
    most = min(limits.header_fields, limits.all_header_fields - work.fields)

    def decode(value: str) -> str:
        return _decode_field_words(value, where, budget)

    found = _split_fields(source, start, MAX_FIELD, limits.header_bytes, most, Field, decode)
    if found is None:
        return None
    fields, body, has_bare_cr, has_bare_lf = found
    work.fields += len(fields)
    if has_bare_cr:
        budget.note(kinds.MIME_BARE_CR, where)
    elif has_bare_lf:
        budget.note(kinds.MIME_BARE_LF, where)
    return HeaderSection(Headers(fields), body, odd=bool(has_bare_cr))


def split_fields(
    source: bytes,
    start: int,
    window: int,
    largest: int,
    most: int,
    make: Callable[[str, str, bytes], Field],
    decode: Callable[[str], str],
) -> tuple[tuple[Field, ...], int, bool, bool] | None:
    """Split a section at `start` that has at most so many bytes and fields; `decode` takes values with encoded words.

    Returns the fields, where the body begins, whether there is a carriage return without a line feed, and whether there
    are line ends of both kinds. None where anything is not ordinary. `_speedups.c` has the same.
    """
    end, body = _find_empty_line(source, start, start + window)
    section = source[start : end + 1]
    if end < 0 or not section.isascii() or b"\0" in section or b"\n--" in section or section.startswith(b"--"):
        return None
    found = _TEXT_FIELD.findall(section.decode("ascii"))
    if len(found) > most or len(section) > largest:
        return None
    if sum([len(name) + len(value) + 2 for name, value in found]) != len(section):
        return None
    fields: list[Field] = []
    place, has_words = 0, b"=?" in section
    for name, value in found:
        until = place + len(name) + len(value) + 2
        text = value.replace("\r\n", "").replace("\n", "").strip() if "\n" in value else value.strip()
        if has_words and "=?" in text:
            text = decode(text)
        fields.append(make(name.rstrip().lower(), text, section[place:until]))
        place = until
    crlf = section.count(b"\r\n")
    return tuple(fields), body, section.count(b"\r") != crlf, bool(crlf) and section.count(b"\n") != crlf


_split_fields = native.split_fields if native else split_fields


def _find_empty_line(source: bytes, start: int, window: int) -> tuple[int, int]:
    """Return where the line before the first empty line ends, and where that one ends; -1 for none up to `window`."""
    first = source.find(b"\n", start, window)
    # The likelier kind of line end first: the search for the other one is then a short one.
    likely, other = (b"\n\r\n", b"\n\n") if first > 0 and source[first - 1] == 0x0D else (b"\n\n", b"\n\r\n")
    end = source.find(likely, start, window)
    sooner = source.find(other, start, end if end >= 0 else window)
    return (sooner, sooner + len(other)) if sooner >= 0 else (end, end + len(likely))


def _read_odd(
    source: bytes, start: int, boundaries: frozenset[bytes], where: str, budget: ReadBudget, *, is_part: bool
) -> HeaderSection:
    """Read the section line by line, with everything that can be wrong with it."""
    fields: list[Field] = []
    position, odd, junk = start, False, -1
    limit = min(len(source), start + budget.limits.header_bytes)
    most = min(budget.limits.header_fields, budget.limits.all_header_fields - budget.work.fields)
    while position < limit:
        first = source[position]
        if first == 0x2D and boundaries and is_delimiter(source, position, boundaries):
            budget.note(kinds.MIME_HEADER_CUT_SHORT, where)
            odd = True
            break
        match = _FIELD.match(source, position, limit)
        if match is None:
            if first == 0x0A or (first == 0x0D and source.startswith(b"\r\n", position)):
                position += 1 if first == 0x0A else 2
                break
            has_fields = any(field.name for field in fields)
            after = _skip_junk(source, position, limit, boundaries, has_fields=has_fields, is_part=is_part)
            if after == position:
                odd = has_fields or not is_part
                if has_fields:
                    budget.note(kinds.MIME_HEADER_CUT_SHORT, where)
                break
            line = source[position:after]
            if fields or is_part or not line.startswith(_MBOX) or line.count(b"\n") > 1:
                budget.note(kinds.MIME_JUNK_IN_HEADER, where, ascii(line[:80]))
                odd, junk = True, junk if junk >= 0 else position
            fields.append(Field("", _decode_text(line), line))
            position = after
        else:
            if len(fields) >= most:
                budget.note(kinds.LIMIT_HEADER_FIELDS, where)
                return _end_early(source, start, position, fields, budget)
            fields.append(_make_field(match, where, budget))
            position = match.end()
    if position >= limit and limit < len(source):
        budget.note(kinds.LIMIT_HEADER_SIZE, where)
        return _end_early(source, start, position, fields, budget)
    budget.work.fields += len(fields)
    odd |= _check_line_ends(source[start:position], where, budget)
    return HeaderSection(Headers(tuple(fields)), position, odd=odd, junk=junk)


def unfold(field: Field) -> str:
    """Return a field's value with its encoded words as they stand: what parameters are parsed from."""
    return _decode_text(field.raw.partition(b":")[2])[:MAX_FIELD] if b"=?" in field.raw else field.value


def is_delimiter(source: bytes, position: int, boundaries: frozenset[bytes]) -> bool:
    """Return whether the line at `position` is `--` and one of the boundaries, or its end."""
    end = source.find(b"\n", position, position + 1000)
    line = source[position + 2 : end if end >= 0 else position + 1000].rstrip(b" \t\r")
    return source.startswith(b"--", position) and (line in boundaries or line.removesuffix(b"--") in boundaries)


_MBOX = (b"From ", b">From ")


def _skip_junk(
    source: bytes, position: int, limit: int, boundaries: frozenset[bytes], *, has_fields: bool, is_part: bool
) -> int:
    """Return where reading goes on after a line that is no field; the same place if the body begins there."""
    line = _LINE.match(source, position, limit)
    assert line is not None  # the pattern matches anything
    after = line.end()
    is_single = source.startswith((b"\n", b"\r\n"), after) or _FIELD.match(source, after, limit)
    if has_fields and after < limit and is_single:
        return after
    pattern = _END_OF_JUNK if has_fields or is_part else _END_OF_LEADING_JUNK
    for found in pattern.finditer(source, position + 1, limit):
        if found[1]:
            return found.start()
        if not source.startswith(b"--", found.start()) or is_delimiter(source, found.start(), boundaries):
            break
    return after if not has_fields and not is_part and line[0].startswith(_MBOX) else position


def _make_field(match: re.Match[bytes], where: str, budget: ReadBudget) -> Field:
    name, raw = match[1].decode("ascii").lower(), match[0]
    value = _decode_text(match[2])
    if len(value) > MAX_FIELD:
        value = value[:MAX_FIELD]
        budget.note(kinds.LIMIT_ADDRESSES if name in ("to", "cc") else kinds.LIMIT_HEADER_SIZE, where, name)
    if "=?" in value:
        value = _decode_field_words(value, where, budget)
    if b"\0" in raw:
        budget.note(kinds.MIME_NUL, where)
    return Field(name, value, raw)


def _decode_field_words(value: str, where: str, budget: ReadBudget) -> str:
    if value.count("=?") > budget.limits.encoded_words:
        budget.note(kinds.LIMIT_ENCODED_WORDS, where)
    return decode_words(value, budget.limits.encoded_words)


def _decode_text(value: bytes) -> str:
    value = value.replace(b"\r\n", b"").replace(b"\n", b"").replace(b"\0", b"").strip()
    return value.decode("ascii") if value.isascii() else decode_charset(value, None)[0]


def _end_early(source: bytes, start: int, position: int, fields: list[Field], budget: ReadBudget) -> HeaderSection:
    """Return a section of which only the beginning was read: its body is still where the first empty line is."""
    budget.work.fields += len(fields)
    end = _EMPTY_LINE.search(source, max(start, position - 1))
    body = end.end() if end else len(source)
    return HeaderSection(Headers(tuple(fields)), body, unread=(position, body), odd=True)


def _check_line_ends(section: bytes, where: str, budget: ReadBudget) -> bool:
    crlf = section.count(b"\r\n")
    if section.count(b"\r") != crlf and _BARE_CR.search(section):
        budget.note(kinds.MIME_BARE_CR, where)
        return True
    if crlf and section.count(b"\n") != crlf:
        budget.note(kinds.MIME_BARE_LF, where)
    return False


_TOKEN = re.compile(r"\"([^\"\\]*+(?:\\.[^\"\\]*+)*)\"?|<([^<>]*+)>?|([,;:])|(\()|([^\",;:<(]++)", re.DOTALL)
_ESCAPE = re.compile(r"\\(.)")
_COMMENT_EDGE = re.compile(r"\\.|[()]", re.DOTALL)
_ORDINARY = re.compile(r"\s*+(?:\"([^\"\\]*+)\"\s*+|([^\",;:<(]++))?(?:<([^<>]*+)>\s*+)?")
_PLAIN_LOCAL = re.compile(r"\"([\w.!#$%&'*+/=?^`{|}~-]+)\"")
_LONGEST = 1_000


class _Mailbox:
    """The pieces of one mailbox while its tokens are read."""

    __slots__ = ("angle", "bare", "comments", "phrase")

    def __init__(self) -> None:
        self.phrase: list[str] = []
        self.bare: list[str] = []
        self.comments: list[str] = []
        self.angle: str | None = None

    def build(self) -> Address | None:
        bare = "".join(self.bare)
        comments = " ".join(self.comments)
        if self.angle is None and "@" in bare:
            return _make_address(_decode_name(comments), bare)
        phrase = " ".join(self.phrase)
        # Some programs show comments with the name, and a name is all that a reader sees.
        name = _decode_name(f"{phrase} ({comments})" if phrase and comments else phrase or comments)
        return _make_address(name, self.angle) if self.angle is not None else Address(name, "", "") if name else None


def parse_addresses(text: str, most: int) -> tuple[list[Address], bool]:
    """Return the addresses in any value, in linear time, and whether there were more than `most`."""
    # Lists without comments, groups, escapes and encoded words.
    if native and (plain := native.ordinary_addresses(text, Address)) is not None and len(plain) < most:
        return plain, False
    return parse_any_addresses(text, most)


def parse_any_addresses(text: str, most: int) -> tuple[list[Address], bool]:
    """The same for every value; `ordinary_addresses` in `_speedups.c` is the native form for most of them."""
    if most > 0 and (address := _parse_ordinary(text)) is not None:
        return ([address] if _has_content(address) else []), False
    found: list[Address] = []
    mailbox = _Mailbox()
    position = 0
    while position < len(text):
        token = _TOKEN.match(text, position)
        if token is None:
            position += 1
            continue
        position = token.end()
        if token[3] is None:
            if token[4]:
                comment, position = _read_comment(text, position)
                mailbox.comments.append(comment)
            else:
                _add_token(mailbox, token)
            continue
        if token[3] == ":" and "@" not in "".join(mailbox.bare):
            mailbox = _Mailbox()  # what stood before is the name of a group
            continue
        if len(found) >= most:
            return found, True
        _finish_mailbox(mailbox, found)
        mailbox = _Mailbox()
    if len(found) >= most:
        return found, True
    _finish_mailbox(mailbox, found)
    return found, False


def _parse_ordinary(text: str) -> Address | None:
    """Return one mailbox as it is mostly written, `name <address>` or an address, in one match; else None."""
    match = _ORDINARY.fullmatch(text)
    if match is None:
        return None
    quoted, phrase, angle = match.groups()
    if angle is not None:
        return _make_address(_decode_name(" ".join(phrase.split()) if phrase else quoted or ""), angle)
    return _make_address("", "".join(phrase.split())) if phrase and "@" in phrase else None


def _add_token(mailbox: _Mailbox, token: re.Match[str]) -> None:
    if token[2] is not None:
        if mailbox.angle is None or not mailbox.angle.strip():
            mailbox.angle = token[2]
        else:
            mailbox.phrase.append(token[2])
    elif token[1] is not None:
        mailbox.phrase.append(_ESCAPE.sub(r"\1", token[1]) if "\\" in token[1] else token[1])
        mailbox.bare.append(f'"{token[1]}"')
    elif token[5] and not token[5].isspace():
        pieces = token[5].split()
        mailbox.phrase.append(" ".join(pieces))
        mailbox.bare.append("".join(pieces))


def _finish_mailbox(mailbox: _Mailbox, found: list[Address]) -> None:
    address = mailbox.build()
    if address is not None and _has_content(address):
        found.append(address)


def _has_content(address: Address) -> bool:
    return bool(address.name or address.local or address.domain)


def _read_comment(text: str, start: int) -> tuple[str, int]:
    """Return the comment that was opened just before `start`, and its end; comments nest (RFC 5322 section 3.2.2)."""
    depth, position = 1, start
    while edge := _COMMENT_EDGE.search(text, position):
        position = edge.end()
        if edge[0] == "(":
            depth += 1
        elif edge[0] == ")":
            depth -= 1
            if depth == 0:
                return text[start : edge.start()], position
    return text[start:], len(text)


def _decode_name(name: str) -> str:
    return decode_words(name).strip()[:_LONGEST]


def _make_address(name: str, address: str) -> Address:
    address = address.strip()[:_LONGEST]
    if address.startswith("@") and ":" in address:
        address = address.rpartition(":")[2]  # a route (RFC 5322 section 4.4) is not part of the address
    local, at, domain = address.rpartition("@")
    if not at:
        return Address(name, domain.strip(), "")
    host = domain.strip(" .\t").lower()
    if bound_host(host) != host:
        return Address(name, address, "")
    local = local.strip()
    if local.startswith('"') and (plain := _PLAIN_LOCAL.fullmatch(local)):
        local = plain[1]
    return Address(name, local, host)
