"""Address lists: `Ann <ann@example.com>, friends: bob@example.com;` (RFC 5322 sections 3.4 and 4.4, RFC 6532).

One pass over tokens, with everything that obsolete syntax allows: routes, comments as names, missing commas' worth of
white space, groups, empty members. Encoded words are decoded after the list is taken apart, so that an encoded comma
cannot make two senders out of one.
"""

import re

from gatepost.mail import headers
from gatepost.names import Address
from gatepost.speedups import native

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
    """Return the addresses in a field's value, and whether there were more than `most`. It takes any input, in linear
    time."""
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
    """Return one mailbox as it is mostly written, `name <address>` or an address alone, in one match; None for all
    else."""
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
    """Return the comment that was opened just before `start`, and where it ends; comments nest (RFC 5322 section
    3.2.2)."""
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
    return headers.decode_words(name).strip()[:_LONGEST]


def _make_address(name: str, address: str) -> Address:
    address = address.strip()[:_LONGEST]
    if address.startswith("@") and ":" in address:
        address = address.rpartition(":")[2]  # a route (RFC 5322 section 4.4) is not part of the address
    local, at, domain = address.rpartition("@")
    if not at:
        return Address(name, domain.strip(), "")
    local = local.strip()
    if local.startswith('"') and (plain := _PLAIN_LOCAL.fullmatch(local)):
        local = plain[1]
    return Address(name, local, domain.strip(" .\t").lower())
