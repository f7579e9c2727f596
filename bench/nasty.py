"""Messages made to hurt: a grammar of broken MIME for fuzzing, and the giants that every budget is tested with."""

import base64
import random
from collections.abc import Callable

MIB = 1 << 20
HEAD = b"From: a@example.org\r\nTo: b@example.net\r\nSubject: x\r\nMIME-Version: 1.0\r\n"
MIXED = HEAD + b'Content-Type: multipart/mixed; boundary="b"\r\n\r\n'
BASE64 = b"Content-Transfer-Encoding: base64\r\n"
QUOTED = b"Content-Transfer-Encoding: quoted-printable\r\n"

_TYPES = (
    b"text/plain", b"text/html; charset=utf-7", b"multipart/mixed", b"multipart/", b"multipart", b"()multipart/mixed",
    b"message/rfc822", b"message/partial; id=x", b"application/ms-tnef", b"multipart/digest", b'"text/plain"', b"",
    b"image/png; name*0*=utf-8''%e2; name*1*=%80%ae; name=x", b"text/plain; charset=iso-2022-jp", b"\xff/\xfe",
)  # fmt: skip
_ENCODINGS = (
    b"base64", b"quoted-printable", b"7bit", b"x-uuencode", b"yenc", b"binhex40", b"x-gzip64", b"base64 qp", b"",
    b"(c) base64", b"BASE64\0", b"zip",
)  # fmt: skip
_BOUNDARIES = (b"b", b"b ", b"bb", b"b--", b"", b" ", b"--", b"b\\", b'"', b"b;c", b"\xc3\xa9")
_LINE_ENDS = (b"\r\n", b"\n", b"\r", b"\r\r\n", b"\n\r", b"\0\n", b"")
_BODIES = (
    b"hello", b"=41=", b"==41=G", b"=\r", b"QUJD", b"QQ==QQ==", b"Q", b"begin 644 x", b"M" + b"1" * 60, b"end", b"`",
    b"=ybegin line=1 size=3 name=a", b"=yend size=3", b"(This file must be converted with BinHex 4.0)", b":!!3r2cm:",
    b"\x78\x9f\x3e\x22\x01\x00\x02\x05\x90\x06\x00\xff\xff\xff\x7f", b"<a href=//x>y</a>", b"\x1b$B\x80", b"+2AA-",
    b"\0",
)  # fmt: skip
_FIELDS = (
    b'Content-Disposition: attachment; filename="a\\"', b"Content-Type:", b"X-Foo", b" Content-Type: text/html",
    b": x",
    b"Subject: =?utf-8?q?=ff=?= =?iso-2022-jp?b?GyRC?=", b'From: ((("\\" <<@a:b@c>, d:;', b"\tfolded", b"From \0x",
)  # fmt: skip


def message(dice: random.Random) -> bytes:
    """A message from the grammar: header, and a body of delimiters, fields, encodings and oddities."""
    pick = dice.choice
    end = pick(_LINE_ENDS) if dice.random() < 0.3 else b"\r\n"
    lines: list[bytes] = [b"From: a@example.org"] if dice.random() < 0.9 else []
    for _ in range(dice.randint(1, 24)):
        lines += _entity(dice)
    ends = (pick(_LINE_ENDS) if dice.random() < 0.05 else end for _ in lines)
    return b"".join(piece for pair in zip(lines, ends, strict=True) for piece in pair)


def _entity(dice: random.Random) -> list[bytes]:
    pick = dice.choice
    boundary = pick(_BOUNDARIES)
    choices: tuple[Callable[[], list[bytes]], ...] = (
        lambda: [b"Content-Type: " + pick(_TYPES) + b"; boundary=" + pick((b"", b'"')) + boundary + pick((b"", b'"'))],
        lambda: [b"Content-Type: multipart/mixed; boundary=b", b"", b"--b"],
        lambda: [b"Content-Transfer-Encoding: " + pick(_ENCODINGS)],
        lambda: [b"--" + boundary + pick((b"", b"--", b" ", b"x"))],
        lambda: [b""],
        lambda: [pick(_BODIES) for _ in range(dice.randint(1, 4))],
        lambda: [pick(_FIELDS)],
        lambda: [base64.b64encode(dice.randbytes(dice.randint(0, 60)))],
        lambda: [dice.randbytes(dice.randint(0, 30))],
    )
    return pick(choices)()


def mutation(raw: bytes, dice: random.Random) -> bytes:
    """A real message with a few bytes changed, lost, doubled, or replaced by pieces of the grammar."""
    data = bytearray(raw)
    for _ in range(dice.randint(1, 12)):
        at = dice.randrange(len(data) + 1)
        size = min(dice.choice((1, 2, 8, 80, 1000)), len(data) - at)
        match dice.randrange(6):
            case 0:
                del data[at : at + size]
            case 1:
                data[at:at] = data[at : at + size]
            case 2:
                data[at : at + size] = dice.randbytes(size)
            case 3:
                data[at:at] = dice.choice(_LINE_ENDS) + b"".join(_entity(dice)) + dice.choice(_LINE_ENDS)
            case 4:
                data[at : at + size] = dice.choice((b"\0", b"\r", b"\n", b"=", b"--", b'"', b"(", b";", b"\\"))
            case _:
                other = dice.randrange(len(data) + 1)
                data[at:at] = data[other : other + size]
    return bytes(data)


def _deep(kind: bytes) -> bytes:
    levels = (b"Content-Type: " + kind % number + b"\r\n\r\n--b%d\r\n" % number for number in range(10_000))
    return HEAD + b"".join(levels) + b"\r\nx"


def _messages_in_base64() -> bytes:
    raw = HEAD + b"\r\n" + b"A" * (5 * MIB)
    for _ in range(6):
        raw = HEAD + b"Content-Type: message/rfc822\r\n" + BASE64 + b"\r\n" + base64.encodebytes(raw)
    return raw


GIANTS: dict[str, Callable[[], bytes]] = {
    "100,000 parts": lambda: MIXED + b"--b\r\nContent-Type: text/plain\r\n\r\nx\r\n" * 100_000 + b"--b--",
    "delimiters only": lambda: MIXED + b"--b\r\n" * (10 * MIB),
    "depth 10,000, multipart": lambda: _deep(b"multipart/mixed; boundary=b%d"),
    "depth 10,000, message": lambda: HEAD + b"Content-Type: message/rfc822\r\n\r\n" * 10_000 + b"\r\nx",
    "messages in base64": _messages_in_base64,
    "one boundary everywhere": lambda: MIXED + b"--b\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n" * 200_000,
    "50 MiB header field": lambda: HEAD + b"X: " + b"a" * (50 * MIB) + b"\r\n\r\nx",
    "8M header fields": lambda: HEAD + b"X: y\r\n" * (8 * MIB) + b"\r\nx",
    "50 MiB of folding": lambda: HEAD + b"X: y\r\n" + b" z\r\n" * (12 * MIB) + b"\r\nx",
    "50 MiB line": lambda: b"a" * (50 * MIB),
    "1M recipients": lambda: b"To: " + b"u@example.com, " * 1_000_000 + b"\r\nFrom: a@b\r\n\r\nx",
    "70,000 recipients": lambda: b"To: " + b"u@example.com, " * 65_000 + b"\r\nFrom: a@b\r\n\r\nx",
    "parentheses in To": lambda: b"To: " + b"(" * 900_000 + b"\r\nFrom: a@b\r\n\r\nx",
    "quotes in To": lambda: b"To: " + b'"\\' * 400_000 + b"\r\nFrom: a@b\r\n\r\nx",
    "5 MB encoded word": lambda: HEAD + b"Subject: =?utf-8?b?" + b"QUJD" * (5 * MIB // 4) + b"?=\r\n\r\nx",
    "70,000 encoded words": lambda: HEAD + b"X: " + b"=?utf-8?q?a?= " * 70_000 + b"\r\n\r\nx",
    "encoded word bait": lambda: HEAD + b"X: " + b"=?a?b?" * 160_000 + b"\r\n\r\nx",
    "boundary bait": lambda: HEAD + b"Content-Type: multipart/mixed; " + b"boundary=" * 100_000 + b"\r\n\r\nx",
    "comment bait": lambda: HEAD + b"Content-Type: text/plain; " + b"(" * 900_000 + b"\r\n\r\nx",
    "escape bait": lambda: HEAD + b'Content-Type: text/plain; name="' + b"\\\\" * 500_000 + b"\r\n\r\nx",
    "lines of dashes": lambda: MIXED + b"--\r\n" * (12 * MIB),
    "prefixes of a boundary": lambda: MIXED + b"--bx\r\n" * (8 * MIB),
    "fields in the body": lambda: HEAD + b"\r\n" + b"\r\ncontent-t" * (4 * MIB),
    "parts behind carriage returns": lambda: MIXED + b"\r--b\rContent-Type: x" * (2 * MIB),
    "50 MiB text": lambda: HEAD + b"\r\n" + b"hello world this is text\r\n" * (2 * MIB),
    "50 MiB base64": lambda: HEAD + BASE64 + b"\r\n" + (b"QUJD" * 19 + b"\r\n") * (50 * MIB // 78),
    "broken base64": lambda: HEAD + BASE64 + b"\r\n" + b"QQ==" * (12 * MIB),
    "2 MiB of base64 to repair": lambda: HEAD + BASE64 + b"\r\n" + b"Q=A\n" * (MIB // 2),
    "broken quoted-printable": lambda: HEAD + QUOTED + b"\r\n" + b"=" * (50 * MIB),
    "quoted-printable to repair": lambda: HEAD + QUOTED + b"\r\n" + b"=G=a=" * 400_000,
    "soft breaks with spaces": lambda: HEAD + QUOTED + b"\r\n" + b"= \n" * (16 * MIB),
    "begin lines": lambda: HEAD + b"\r\n" + b"begin 644 a\n" * (4 * MIB),
    "50 MiB uuencode": lambda: HEAD + b"\r\nbegin 644 a\n" + (b"M" + b"1" * 60 + b"\n") * 800_000,
    "yEnc escapes": lambda: HEAD + b"\r\n=ybegin line=128 size=1 name=x\r\n" + b"=" * (50 * MIB),
    "BinHex": lambda: HEAD + b"\r\n(This file must be converted with BinHex 4.0)\n:" + b"!" * (50 * MIB),
    "TNEF attributes": lambda: HEAD + b"\r\n\x78\x9f\x3e\x22\0\0" + b"\x01\x0f\x80\x06\0\0\0\0\0\0\0" * (4 * MIB),
    "NULs": lambda: b"\0" * (50 * MIB),
    "empty lines": lambda: b"\n" * (50 * MIB),
}


def _letter(body: bytes, senders: bytes = b"a@example.org") -> bytes:
    return b"From: " + senders + b"\r\nTo: b@example.net\r\nSubject: x\r\n\r\n" + body


def _attach_names(names: list[str]) -> bytes:
    parts = (
        f'--b\r\nContent-Type: application/x-y; name="{name}"\r\n\r\nx{number}\r\n'.encode()
        for number, name in enumerate(names)
    )
    return MIXED + b"".join(parts) + b"--b--"


def _attach_bytes(content: bytes, count: int) -> bytes:
    part = b"--b\r\nContent-Type: application/octet-stream\r\n" + BASE64 + b"\r\n%b\r\n"
    return MIXED + b"".join(part % base64.encodebytes(b"%d" % number + content) for number in range(count)) + b"--b--"


def _head_fields(names: int, length: int) -> bytes:
    return b"".join(b"X-%d: %b\r\n" % (number, b"ab" * (length // 2)) for number in range(names))


# Rules of a customer and a mail that are made for each other: conditions, and the message. A policy has 200 rules.
RULE_PAIRS: dict[str, Callable[[float], tuple[list[str], bytes]]] = {
    "rules with expressions over the header": lambda share: (
        [
            f'headers.exists(name, headers[name].exists(text, text.matches("[ab]*a[ab]{{{9 + n % 7}}}c{n}")))'
            for n in range(int(200 * share))
        ],
        _head_fields(int(200 * share), 2_000) + _letter(b"x"),
    ),
    "rules with lists in lists": lambda share: (
        [
            f'links.exists(a, links.exists(b, a + b == "x{n}")) || links.exists(a, tags.exists(b, a == b + "{n}"))'
            for n in range(int(200 * share))
        ],
        _letter(b"".join(b"https://h%d.example/ \r\n" % number for number in range(int(4_000 * share)))),
    ),
}
# YARA rules of an operator, as text, and the message.
YARA_PAIRS: dict[str, Callable[[float], tuple[str, bytes]]] = {
    "YARA rules that begin everywhere": lambda share: (
        "".join(f"rule r{n} {{ strings: $a = /aab[ab]{{3}}b.{{0,20}}c{n}/ condition: $a }}\n" for n in range(10)),
        _attach_bytes(b"aab" * 10_000, int(100 * share)),
    ),
}
# How many custom lists a customer has, all of addresses of links, and the message.
CUSTOM_PAIRS: dict[str, Callable[[float], tuple[int, bytes]]] = {
    "custom lists and links": lambda share: (
        int(100 * share),
        _letter(
            b"".join(
                b"https://a%d.b.c.d.e.f.g.example%d.com/p/q/r/s/t/u/v?x=%d \r\n" % (n, n, n)
                for n in range(int(2_000 * share))
            )
        ),
    ),
}
# Features that a learnt model weighs, and the message. A model has 65,536 of them, in each of two scopes.
MODEL_PAIRS: dict[str, Callable[[float], tuple[int, bytes]]] = {
    "learnt models": lambda share: (
        int(65_536 * share),
        _letter(b"".join(b"word%d other%d " % (number, number) for number in range(int(60_000 * share)))),
    ),
}

# A list of a customer and a mail that are made for each other, at this share of what the limits allow: names of lists
# with their entries, and the message. A scope may have 100,000 entries in a list, and 8 MiB of all these together.
PAIRS: dict[str, Callable[[float], tuple[dict[str, list[str]], bytes]]] = {
    "phrases of one first word": lambda share: (
        {"blocked-phrases": [f"the b{number}" for number in range(int(100_000 * share))]},
        _letter(b"the " * int(250_000 * share)),
    ),
    "phrases inside each other": lambda share: (
        {"blocked-phrases": ["a " * length + "b" for length in range(1, int(490 * share))]},
        _letter(b"a " * int(500_000 * share)),
    ),
    "phrases of signs": lambda share: (
        {"blocked-phrases": ["!" * length + "a" for length in range(2, int(900 * share))]},
        _letter(b"!" * int(1_000_000 * share)),
    ),
    "people": lambda share: (
        {"protected-people": [f"Ann{n} Lee <a{n}@b.example>" for n in range(int(100_000 * share))]},
        _letter(b"x", b", ".join(b'"Lee Ann%d" <u%d@example.com>' % (n, n) for n in range(int(1_000 * share)))),
    ),
    "people of one name": lambda share: (
        {"protected-people": [f"Ann Lee <a{number}@b.example>" for number in range(int(100_000 * share))]},
        _letter(b"x", b", ".join(b'"Lee Ann" <u%d@example.com>' % number for number in range(int(1_000 * share)))),
    ),
    "names": lambda share: (
        {"protected-names": [f"青葉{chr(0x4E00 + n // 90) * (1 + n % 90)}" for n in range(int(9_000 * share))]},
        _letter(
            b"x", b", ".join(b'"=?utf-8?q?%s?=" <u%d@example.com>' % (b"=E9=9D=92=E8=91=89" * 6, n) for n in range(5))
        ),
    ),
    "own and partner domains": lambda share: (
        {
            "own-domains": [f"company{number}.example" for number in range(int(75_000 * share))],
            "partner-domains": [f"partner{number}.example" for number in range(int(75_000 * share))],
        },
        _letter(b"".join(b"https://xcompany%d-login.top/ \r\n" % number for number in range(int(4_000 * share)))),
    ),
    "relays": lambda share: (
        {"trusted-relays": [f"10.{n >> 16}.{n >> 8 & 255}.{n & 255}" for n in range(int(100_000 * share))]},
        b"".join(b"Received: from x [10.9.%d.%d] by y\r\n" % (n >> 8, n & 255) for n in range(int(1_000 * share)))
        + _letter(b"x"),
    ),
    "names of files": lambda share: (
        {"blocked-file-names": [f"*abc*x{number}*a*a*a*a*a*iso" for number in range(int(100_000 * share))]},
        _attach_names([f"{'abc' * 70}{number}.iso" for number in range(int(3_000 * share))]),
    ),
}
