"""Ordinary messages are read in one native pass, to the parts that `MessageParts` finds; others are left to it."""

import random

import pytest
from bench.nasty import message, mutation
from hypothesis import given
from hypothesis import strategies as st

from gatepost.mail.budget import ReadBudget, ReadLimits
from gatepost.mail.reader import MessageParts, read_ordinary
from gatepost.speedups import native

pytestmark = pytest.mark.skipif(native is None, reason="not run: the native speedups were not built here")

HEAD = b"From: a@example.org\r\nSubject: =?utf-8?q?caf=C3=A9?=\r\n"
PLAIN = HEAD + b"\r\nhello\r\n"
QUOTED = HEAD + b"Content-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n"
BASE64 = HEAD + b"Content-Type: text/html\r\nContent-Transfer-Encoding: BASE64\r\n\r\n"
BOTH = (
    HEAD
    + b'Content-Type: multipart/alternative;\r\n\tboundary="b1"; charset=utf-8\r\n\r\n'
    + b"This is a multi-part message in MIME format.\r\n--b1\r\nContent-Type: text/plain\r\n\r\nhello\r\n"
    + b"--b1\r\nContent-Type: text/html\r\n\r\n<p>hello</p>\r\n--b1--\r\n"
)
NESTED = (
    HEAD
    + b"Content-Type: Multipart/Mixed; boundary=outer\r\n\r\n--outer\r\n"
    + b"Content-Type: multipart/related; boundary=inner; type=text/html\r\n\r\n--inner\r\n\r\nhello\r\n--inner\r\n"
    + b"Content-Type: image/png; name=a.png\r\nContent-Transfer-Encoding: base64\r\n\r\niVBORw0KGgo=\r\n--inner--\r\n"
    + b"\r\n--outer\r\nContent-Type: application/pdf\r\nContent-Description: a.pdf\r\n\r\n%PDF-1.4\r\n--outer--\r\n"
)
ORDINARY = {
    "plain": PLAIN,
    "line feeds": PLAIN.replace(b"\r\n", b"\n"),
    "no body": HEAD + b"\r\n",
    "quoted-printable": QUOTED + b"a =3D b=\r\nc=20=\nd",
    "equals sign at the end": QUOTED + b"hello=",
    "base64": BASE64 + b"PHA+aGVs\r\nbG88L3A+\r\n",
    "letter too many": BASE64 + b"PHA+aGVsbG88L3A+C",
    "base64 with padding": BASE64 + b"PHA+aGVsbG88L3A+Cg==",
    "alternatives": BOTH,
    "a part without a header": BOTH.replace(b"Content-Type: text/plain\r\n", b""),
    "parts in parts": NESTED,
    "blanks behind a delimiter": BOTH.replace(b"--b1\r\n", b"--b1 \t\r\n"),
    "a line of dashes": BOTH.replace(b"hello", b"hello\r\n-- \r\nAnn"),
}
ODD = {
    "nothing": b"",
    "no empty line": HEAD,
    "no field": b"hello\r\n\r\nhello",
    "eight bits in the header": HEAD.replace(b"=?", b"\xe9=?") + b"\r\nhello",
    "a line that is no field": HEAD + b"hello\r\n\r\nhello",
    "both kinds of line end": HEAD + b"To: b@example.org\n\r\nhello",
    "two types": HEAD + b"Content-Type: text/plain\r\nContent-Type: text/html\r\n\r\nhello",
    "an encoded word in the type": HEAD + b"Content-Type: text/plain; name==?utf-8?q?a?=\r\n\r\nhello",
    "unknown encoding": HEAD + b"Content-Transfer-Encoding: x-rot13\r\n\r\nhello",
    "NUL": PLAIN + b"\0",
    "equals sign": QUOTED + b"a = b",
    "escapes in both cases": QUOTED + b"=3D=3d=E9=e9",
    "foreign letter": BASE64 + b"PHA+aGVsb.G88L3A+\r\n",
    "undeclared base64": HEAD + b"\r\n" + b"PHA+aGVsbG88L3A+" * 9,
    "uuencode": HEAD + b"\r\nbegin 644 a.txt\r\n#86)C\r\n \r\nend\r\n",
    "no end": BOTH.removesuffix(b"--b1--\r\n"),
    "no parts": BOTH.replace(b"--b1\r\n", b"-b1\r\n"),
    "no boundary": BOTH.replace(b'boundary="b1"; ', b""),
    "two boundaries": BOTH.replace(b"charset=utf-8", b"boundary=b2"),
    "boundary in pieces": BOTH.replace(b'boundary="b1"', b'boundary*0="b"; boundary*1="1"'),
    "boundary with a blank": BOTH.replace(b'"b1"', b'"b1 "'),
    "boundary in a comment": BOTH.replace(b'"b1"', b'(x) "b1"'),
    "boundary that goes on": BOTH.replace(b"hello", b"hello\r\n--b1x"),
    "part after the end": BOTH + b"--b1\r\n\r\nhello\r\n--b1--\r\n",
    "text before the parts": BOTH.replace(b"This is a multi", b"This is the multi"),
    "text after the parts": BOTH + b"good bye\r\n",
    "field in the text": BOTH.replace(b"<p>", b"\r\n Content-Type: text/html\r\n\r\n<p>"),
    "outer boundary inside": NESTED.replace(b"--inner--", b"--other--"),
    "same boundary": NESTED.replace(b"inner", b"outer"),
    "message": HEAD + b"Content-Type: message/rfc822\r\n\r\n" + PLAIN,
    "message as a file": HEAD + b"Content-Type: application/octet-stream; name=a.eml\r\n\r\n" + PLAIN,
    "two names": HEAD + b"Content-Type: image/png; name=a\r\nContent-Disposition: inline; filename=b\r\n\r\nx",
    "digest": BOTH.replace(b"alternative", b"digest"),
    "large": PLAIN + b"a" * (1 << 20),
    "many parts": BOTH.replace(b"--b1--", b"--b1\r\n\r\nx\r\n" * 99 + b"--b1--"),
    "many dashes": BOTH.replace(b"hello", b"\r\n--x" * 9999),
}


def compare(raw: bytes) -> bool:
    """Whether a message was ordinary; then both readings are the same, with the same work and without a defect."""
    budget, other = ReadBudget(), ReadBudget()
    found = read_ordinary(raw, budget)
    if found is not None:
        parts = MessageParts(raw, other)
        assert found == (parts.root.entity.headers, parts.root.start, parts.flat)
        assert not other.defects
        assert budget.work == other.work
    else:
        assert budget.work == other.work
    return found is not None


@pytest.mark.parametrize("name", ORDINARY)
def test_ordinary_messages_are_read_in_one_pass(name: str) -> None:
    assert compare(ORDINARY[name])


@pytest.mark.parametrize("name", ODD)
def test_odd_messages_are_left_to_the_other_reader(name: str) -> None:
    assert not compare(ODD[name])


def test_another_budget_is_left_to_the_other_reader() -> None:
    assert read_ordinary(PLAIN, ReadBudget(ReadLimits(parts=3))) is None


@given(st.integers(0, 1 << 32))
def test_mutations_are_read_alike(seed: int) -> None:
    dice = random.Random(seed)
    compare(message(dice))
    compare(mutation(dice.choice(list(ORDINARY.values())), dice))


def test_what_is_no_description_is_refused() -> None:
    tools = (str, str, str, str, lambda *_: (1, 2), str, str)
    with pytest.raises(TypeError):
        native.read_ordinary(PLAIN, *tools)
