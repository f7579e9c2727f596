"""The tree of a message: ordinary ones first, then those that two mail programs read in two ways."""

import base64
from collections.abc import Callable

import pytest

from gatepost.mail.budget import ReadBudget
from gatepost.mail.message import Part
from gatepost.mail.reader import MessageParts
from gatepost.mail.reader import read as read_message

HEAD = b"From: a@example.org\r\n"
SECRET = b"the file that must be found, with enough bytes in it to be worth a line of base64 or two: 0123456789"
CODED = base64.encodebytes(SECRET).replace(b"\n", b"\r\n")


def read(raw: bytes) -> tuple[tuple[Part, ...], list[str]]:
    budget = ReadBudget()
    parts = MessageParts(raw, budget).flat
    return parts, [defect.kind for defect in budget.defects]


def shape(parts: tuple[Part, ...]) -> list[tuple[str, str, bytes]]:
    return [(part.path, part.content_type, part.content) for part in parts]


def multipart(*parts: bytes, boundary: bytes = b"b", declared: bytes | None = None) -> bytes:
    named = b'Content-Type: multipart/mixed; boundary="%s"\r\n\r\n' % (boundary if declared is None else declared)
    return HEAD + named + b"".join(b"--%s\r\n%s\r\n" % (boundary, part) for part in parts) + b"--%s--\r\n" % boundary


def test_no_multipart() -> None:
    assert read(HEAD + b"\r\nhello") == ((MessageParts(HEAD + b"\r\nhello", ReadBudget()).flat), [])
    assert shape(read(HEAD + b"\r\nhello")[0]) == [("1", "text/plain", b"hello")]


def test_multipart() -> None:
    parts, defects = read(multipart(b"\r\none", b"Content-Type: text/html\r\n\r\n<b>two</b>\r\n"))
    assert shape(parts) == [
        ("1", "multipart/mixed", b""),
        ("1.1", "text/plain", b"one"),
        ("1.2", "text/html", b"<b>two</b>\r\n"),
    ]
    assert parts[0].children == parts[1:]
    assert defects == []


def test_line_feeds_alone_are_as_good() -> None:
    raw = multipart(b"\r\none", b"\r\ntwo").replace(b"\r\n", b"\n")
    assert [part.content for part in read(raw)[0]] == [b"", b"one", b"two"]


def test_nested_multipart_and_outer_boundary_closes_inner() -> None:
    inner = b'Content-Type: multipart/alternative; boundary="i"\r\n\r\n--i\r\n\r\nin'
    parts, defects = read(multipart(inner, b"\r\nout"))
    assert [(part.path, part.content) for part in parts] == [
        ("1", b""),
        ("1.1", b""),
        ("1.1.1", b"in"),
        ("1.2", b"out"),
    ]
    assert defects == []


@pytest.mark.parametrize("encoding", [b"7bit", b"base64", b"quoted-printable"])
def test_message_in_any_encoding(encoding: bytes) -> None:
    message = b"Subject: inner\r\nContent-Type: text/html\r\n\r\n<p>hello</p>"
    body = base64.encodebytes(message) if encoding == b"base64" else message
    head = b"Content-Type: message/rfc822\r\nContent-Transfer-Encoding: %s\r\n\r\n" % encoding
    parts, _ = read(multipart(head + body))
    inner = next(part for part in parts if part.path == "1.1.1")
    assert (inner.content_type, inner.content) == ("text/html", b"<p>hello</p>")
    assert inner.headers.first("subject") == "inner"
    assert parts[1].children == (inner,)


def test_message_attached_as_a_file_is_opened() -> None:
    inner = base64.encodebytes(b"Subject: inner\r\n\r\nhello")
    head = b"Content-Type: application/octet-stream; name=a.EML\r\nContent-Transfer-Encoding: base64\r\n\r\n"
    parts, _ = read(multipart(head + inner))
    assert [(part.path, part.content[-5:]) for part in parts] == [("1", b""), ("1.1", b"hello"), ("1.1.1", b"hello")]


def test_digest_parts_are_messages() -> None:
    raw = HEAD + b"Content-Type: multipart/digest; boundary=b\r\n\r\n--b\r\n\r\nSubject: x\r\n\r\nhello\r\n--b--"
    assert shape(read(raw)[0])[1:] == [("1.1", "message/rfc822", b""), ("1.1.1", "text/plain", b"hello")]


def test_preamble_and_epilogue_are_parts_but_the_usual_greeting_is_none() -> None:
    raw = multipart(b"\r\none").replace(
        b"\r\n\r\n--b", b"\r\n\r\nThis is a multi-part message in MIME format.\r\n--b", 1
    )
    assert len(read(raw)[0]) == 2
    parts, defects = read(raw.replace(b"This is a", b"Odd", 1) + b"and after " * 100)
    assert [part.path for part in parts] == ["1", "1~preamble", "1~epilogue", "1.1"]
    assert defects == ["mime:outside-parts"]


@pytest.mark.parametrize(
    ("head", "names"),
    [
        (b"Content-Disposition: attachment; filename=a.exe", {"a.exe"}),
        (b"Content-Type: text/plain; name=a.exe", {"a.exe"}),
        (b"Content-Type: text/plain; name=a.txt\r\nContent-Disposition: inline; filename=a.exe", {"a.txt", "a.exe"}),
        (b"Content-Disposition: attachment; filename*=utf-8''%61.exe; filename=a.txt", {"a.txt", "a.exe"}),
        (b'Content-Disposition: attachment; filename="=?utf-8?b?YS5leGU=?="', {"a.exe"}),
        (b"Content-Disposition: attachment; filename==?utf-8?q?a=2Eexe?=", {"a.exe"}),
        (b'Content-Disposition: attachment; filename="\xc3\xa9.exe"', {"é.exe"}),
        (b'Content-Disposition: attachment; filename="\xe9.exe"', {"é.exe"}),
        (b'Content-Disposition: attachment; filename="a\xe2\x80\xaetxt.exe"', {"a\u202etxt.exe"}),
        (
            b"Content-Disposition: attachment; filename=a.txt\r\nContent-Disposition: x; filename=a.exe",
            {"a.txt", "a.exe"},
        ),
    ],
)
def test_every_name_is_kept(head: bytes, names: set[str]) -> None:
    (part,) = (part for part in read(multipart(head + b"\r\n\r\nx"))[0] if part.path == "1.1")
    assert names <= set(part.names)


ATTACHED = b"Content-Type: application/zip\r\nContent-Transfer-Encoding: base64\r\n\r\n" + CODED
HIDDEN = {
    "duplicate type, multipart first": (
        multipart(ATTACHED).replace(b"\r\n\r\n", b"\r\nContent-Type: text/plain\r\n\r\n", 1),
        "mime:duplicate-header",
    ),
    "duplicate type, multipart second": (
        multipart(ATTACHED).replace(HEAD, HEAD + b"Content-Type: text/plain\r\n", 1),
        "mime:duplicate-header",
    ),
    "duplicate encoding": (
        multipart(ATTACHED.replace(b"Content-Tr", b"Content-Transfer-Encoding: 7bit\r\nContent-Tr")),
        "mime:duplicate-header",
    ),
    "two boundaries": (
        multipart(ATTACHED).replace(b'boundary="b"', b"boundary=other; boundary=b"),
        "mime:competing-boundaries",
    ),
    "no boundary": (multipart(ATTACHED).replace(b'; boundary="b"', b""), "mime:missing-boundary"),
    "no type": (multipart(ATTACHED).replace(b"Content-Type", b"X-Type", 1), "mime:hidden-part"),
    "boundary is a prefix": (multipart(ATTACHED, boundary=b"b-and-more", declared=b"b"), "mime:boundary-prefix"),
    "after the end": (multipart(b"\r\nnothing") + b"--b\r\n" + ATTACHED + b"--b--\r\n", "mime:part-after-end"),
    "field behind a carriage return": (
        multipart(ATTACHED.replace(b"\r\nContent-Tr", b"\r\nX: y\rContent-Tr")),
        "mime:bare-cr",
    ),
    "delimiter behind a carriage return": (multipart(ATTACHED).replace(b"\r\n--b\r\n", b"\r--b\r"), "mime:bare-cr"),
    "NUL in the encoding": (multipart(ATTACHED.replace(b": base64", b": ba\0se64")), "mime:nul"),
    "field without a colon": (multipart(ATTACHED.replace(b"ing: base", b"ing base")), "mime:junk-in-header"),
    "no empty line": (multipart(ATTACHED.replace(b"\r\n\r\n", b"\r\n", 1)), "mime:header-cut-short"),
    "unknown encoding": (multipart(ATTACHED.replace(b": base64", b": xx-base64")), "mime:unknown-encoding"),
    "no encoding": (multipart(b"Content-Type: application/zip\r\n\r\n" + CODED), "mime:undeclared-encoding"),
    "multipart that is base64": (
        HEAD
        + b"Content-Type: multipart/mixed; boundary=b\r\nContent-Transfer-Encoding: base64\r\n\r\n"
        + base64.encodebytes(b"--b\r\n\r\n" + SECRET + b"\r\n--b--\r\n"),
        "mime:encoded-multipart",
    ),
    "multipart that is a file": (
        multipart(ATTACHED.replace(b"application/zip", b"multipart/mixed; boundary=zz")),
        "mime:no-parts",
    ),
    "comment around the boundary": (
        multipart(ATTACHED).replace(b'boundary="b"', b"(() boundary=b )"),
        "mime:odd-content-type",
    ),
    "same boundary inside": (
        multipart(b'Content-Type: multipart/mixed; boundary="b"\r\n\r\n--b\r\n\r\nx\r\n--b--\r\n', ATTACHED),
        "mime:same-boundary",
    ),
    "broken base64": (multipart(ATTACHED.replace(b"\r\n\r\n", b"\r\n\r\nABC\r\n\r\n")), "mime:broken-base64"),
}


@pytest.mark.parametrize("trick", HIDDEN)
def test_hidden_file_is_found_and_the_trick_is_named(trick: str) -> None:
    raw, kind = HIDDEN[trick]
    parts, defects = read(raw)
    assert any(SECRET in part.content for part in parts)
    assert kind in defects
    assert len({part.path for part in parts}) == len(parts)


def test_readings_of_one_leaf_stand_beside_it() -> None:
    parts, _ = read(multipart(b"Content-Type: text/plain\r\nContent-Type: text/html\r\n\r\n<b>x</b>"))
    assert [(part.path, part.content_type) for part in parts[1:3]] == [
        ("1.1", "text/plain"),
        ("1.1~text/html", "text/html"),
    ]


def test_uuencoded_file_in_text() -> None:
    text = b"Hello\r\n\r\nbegin 644 a.exe\r\n#;VYE\r\n`\r\nend\r\n"
    parts, defects = read(HEAD + b"\r\n" + text)
    assert shape(parts) == [("1", "text/plain", text), ("1~uu1", "application/octet-stream", b"one")]
    assert (parts[1].names, defects) == (("a.exe",), ["mime:uuencode"])


@pytest.mark.parametrize(
    "text",
    [
        b"You asked about Content-Type: headers.\r\n> Content-Type: text/plain\r\n",
        b'<meta http-equiv="Content-Type" content="text/html">\r\n',
        b"-- \r\nAnn\r\n---\r\n--- a/file\r\n+++ b/file\r\n",
        b"begin at the beginning\r\nand end\r\n",
        b"1 + 1 = 2\r\n=ybeginning\r\n",
    ],
)
def test_ordinary_text_is_read_once(text: bytes) -> None:
    for raw in (HEAD + b"\r\n" + text, multipart(b"\r\n" + text)):
        parts, defects = read(raw)
        assert len([part for part in parts if part.content]) == 1
        assert defects == []


def test_nested_names_of_fragments_and_external_bodies() -> None:
    assert read(HEAD + b"Content-Type: message/partial; id=x\r\n\r\nx")[1] == ["mime:partial"]
    assert read(HEAD + b"Content-Type: message/external-body; access-type=URL\r\n\r\nx")[1] == ["mime:external-body"]


def test_files_behind_too_many_beginnings_are_named_as_a_limit() -> None:
    _, defects = read(HEAD + b"\r\n" + b"begin 644 a\r\nprose that is no data at all\r\n" * 600)
    assert defects == ["limit:alternatives"]


JUNK = {
    "colon": b":",
    "colon and text": b": x",
    "mbox": b"From x",
    "mbox, quoted": b">From someone",
    "folded text": b" foo",
    "white space": b" ",
    "tab": b"\t",
    "word": b"hello",
    "form feed": b"\x0c",
    "vertical tab": b"\x0b",
    "HTTP": b"GET / HTTP/1.1",
    "name with blanks": b"no such field: x",
    "dashes": b"--",
    "another delimiter": b"--other",
    "NUL": b"\0",
    "eight bits": b"\xff\xfe",
    "name of eight bits": "Größe: 1".encode(),
    "two lines": b"hello\r\nworld",
    "many lines": b"hello\r\n" * 200 + b"end",
    "long line": b"x" * 5_000,
    "field behind a blank": b" Content-Type: text/plain",
}
_FIELDS = [b'Content-Type: application/zip; name="a.zip"', b"Content-Transfer-Encoding: base64"]
_TOP = [b"From: a@example.org", b"Subject: x", b"MIME-Version: 1.0"]


def _with_junk(junk: bytes, place: int) -> bytes:
    lines = [*_FIELDS[:place], junk, *_FIELDS[place:]]
    return b"\r\n".join(lines) + b"\r\n\r\n" + CODED


def _message_with_junk(junk: bytes, place: int) -> bytes:
    lines = [*_TOP, b"Content-Type: multipart/mixed; boundary=in"]
    lines.insert(place, junk)
    attached = (
        b'\r\n\r\n--in\r\nContent-Type: application/zip; name="a.zip"\r\nContent-Transfer-Encoding: base64\r\n\r\n'
    )
    return b"\r\n".join(lines) + attached + CODED + b"--in--\r\n"


NESTINGS: dict[str, Callable[[bytes, int], bytes]] = {
    "part": lambda junk, place: multipart(b"\r\ntext", _with_junk(junk, place)),
    "only part": lambda junk, place: multipart(_with_junk(junk, place)),
    "part of a part": lambda junk, place: multipart(
        b"Content-Type: multipart/mixed; boundary=c\r\n\r\n--c\r\n" + _with_junk(junk, place) + b"\r\n--c--"
    ),
    "multipart inside": lambda junk, place: multipart(
        junk * (place == 0)
        + b"\r\n" * (place == 0)
        + b"Content-Type: multipart/mixed; boundary=c\r\n\r\n--c\r\n"
        + ATTACHED
        + b"\r\n--c--"
    ),
    "message": _message_with_junk,
    "attached message": lambda junk, place: multipart(
        b"Content-Type: message/rfc822\r\n\r\n" + _message_with_junk(junk, place)
    ),
    "attached message in base64": lambda junk, place: multipart(
        b"Content-Type: message/rfc822\r\nContent-Transfer-Encoding: base64\r\n\r\n"
        + base64.encodebytes(_message_with_junk(junk, place))
    ),
    "file of a message": lambda junk, place: multipart(
        b'Content-Type: application/octet-stream; name="a.eml"\r\nContent-Transfer-Encoding: base64\r\n\r\n'
        + base64.encodebytes(_message_with_junk(junk, place))
    ),
    "part of an attached message": lambda junk, place: multipart(
        b"Content-Type: message/rfc822\r\n\r\n" + multipart(_with_junk(junk, place), boundary=b"c")
    ),
}


@pytest.mark.parametrize("end", [b"\r\n", b"\n"], ids=["CRLF", "LF"])
@pytest.mark.parametrize("nesting", NESTINGS)
@pytest.mark.parametrize("junk", JUNK)
def test_a_line_that_is_no_field_hides_no_file(junk: str, nesting: str, end: bytes) -> None:
    for place in range(2):
        raw = NESTINGS[nesting](JUNK[junk], place).replace(b"\r\n", end)
        parts, defects = read(raw)
        assert any(part.content == SECRET for part in parts), place
        assert len({part.path for part in parts}) == len(parts)
        is_said = {"mime:junk-in-header", "mime:nul", "mime:hidden-part"} & set(defects)
        # mbox's own line before a message is ordinary, and a line that begins with a blank continues a field.
        is_mbox = junk == "mbox" and place == 0 and "message" in nesting and "part of" not in nesting
        is_mbox |= junk == "mbox, quoted" and place == 0 and "message" in nesting and "part of" not in nesting
        is_absent = nesting == "multipart inside" and place == 1
        assert is_said or is_mbox or is_absent or (place and JUNK[junk][:1] in b" \t"), (place, defects)


@pytest.mark.parametrize("junk", JUNK)
def test_a_line_before_the_header_hides_no_header(junk: str) -> None:
    message = read_message(_message_with_junk(JUNK[junk], 0))
    assert (message.subject, [str(sender) for sender in message.senders]) == ("x", ["a@example.org"])
    assert not [defect for defect in message.defects if defect.kind == "mime:no-header"]


@pytest.mark.parametrize(
    "text", [b"Hello Ann,\r\nNote: see below\r\n", b"From here on\r\nSubject: none\r\n", b"--\r\nAnn\r\n"]
)
def test_a_part_without_header_is_text(text: bytes) -> None:
    parts, defects = read(multipart(text))
    assert shape(parts)[1:] == [("1.1", "text/plain", text.removesuffix(b"\r\n") + b"\r\n")]
    assert "mime:junk-in-header" not in defects


def test_a_part_behind_many_lines_that_could_begin_one_is_found() -> None:
    hidden = b" --y\r\nContent-Type: application/octet-stream; name=a.exe\r\n\r\nMZ\r\n"
    parts, defects = read(HEAD + b"Content-Type: multipart/mixed; boundary=b\r\n\r\n" + b" --x\r\n" * 5_000 + hidden)
    assert any("a.exe" in part.names for part in parts)
    assert "limit:alternatives" not in defects


# A carriage return by itself, for which mail programs part ways: such a message is read a second time.
_ODD_FIELD = b"X-Mailer: a\rb\r\n"
_QUOTED = (
    b"Content-Type: text/html\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n<p>caf=C3=A9 =3D =E2=82=AC=20\r\n"
)


def _list_other_readings(raw: bytes) -> list[tuple[str, bytes]]:
    return [(part.path.partition("-")[2], part.content) for part in read(raw)[0] if "~" in part.path]


@pytest.mark.parametrize("boundary", [b"b", b"----=_Part_1.2", b"=_?:=3D"])
@pytest.mark.parametrize(
    ("label", "part"), [("quoted-printable", _QUOTED), ("base64", _FIELDS[1] + b"\r\n\r\n" + CODED)]
)
def test_the_line_that_ends_a_multipart_is_not_read_in_every_way(label: str, part: bytes, boundary: bytes) -> None:
    raw = _ODD_FIELD + multipart(b"\r\ntext", part, boundary=boundary)
    inner = b"Content-Type: multipart/alternative; boundary=in\r\n\r\n--in\r\n" + part + b"\r\n--in--\r\n"
    for message in (raw, _ODD_FIELD + multipart(inner, boundary=boundary)):
        assert "mime:bare-cr" in read(message)[1]
        assert {name for name, _ in _list_other_readings(message)} <= {label}


def test_what_is_broken_before_or_after_the_line_that_ends_a_multipart_is_read_in_every_way() -> None:
    odd = _ODD_FIELD + multipart(_QUOTED, boundary=b"=_1")
    dropped = "quoted-printable-equals-dropped"
    assert dropped in dict(_list_other_readings(odd.replace(b"<p>", b"<p =x>")))
    after = dict(_list_other_readings(odd + b"=3Ca href=3Dhttps://e.example>\r\n"))
    assert b"<a href=https://e.example>" in after[dropped]
    # Of two boundaries each may be the one that a program believes, and then the other is content.
    assert dropped in dict(_list_other_readings(odd.replace(b'boundary="=_1"', b'boundary="=_1"; boundary="=_2"')))


def test_base64_in_paragraphs_is_read_in_each_way_before_a_line_that_ends_a_multipart() -> None:
    """Some programs end base64 at an empty line: what comes first is then the whole file."""
    first, second = b"UEsDBAoAAAAAAO6Tn0m2", b"aW5ub2NlbnQgdGVzdCBm"
    fields = b"Content-Type: application/zip\r\nContent-Transfer-Encoding: base64\r\n\r\n"
    raw = _ODD_FIELD + multipart(fields + first + b"\r\n\r\n" + second)
    assert base64.b64decode(first) in {content for _, content in _list_other_readings(raw)}


def test_undeclared_quoted_printable_is_told_from_links() -> None:
    links = b"<p><a href='https://e.example/?a=x&b=y&id=20&c=z&d=q'>a</a>" * 9
    for declared, body, is_decoded in ((b"", links, False), (b"", b"caf=C3=A9 =E2=82=AC =3D =20", True)):
        raw = _ODD_FIELD + multipart(b"Content-Type: text/html\r\n" + declared + b"\r\n" + body)
        assert bool(_list_other_readings(raw)) == is_decoded
    encoding = b"Content-Transfer-Encoding: x; quoted-printable\r\n"
    assert _list_other_readings(_ODD_FIELD + multipart(b"Content-Type: text/html\r\n" + encoding + b"\r\n" + links))
