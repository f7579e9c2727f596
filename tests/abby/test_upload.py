import asyncio
import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatepost.abby.scan import MAX_PLAIN, read_upload, split_plain
from gatepost.api.errors import Failure
from gatepost.api.http import ClientLeft, parse_boundary

PARAMETERS = json.dumps({"a": 1}).encode()
DISPOSITION = b'Content-Disposition: form-data; name="%s"'


class Sink:
    def __init__(self) -> None:
        self.content = b""
        self.most = 0

    @property
    def size(self) -> int:
        return len(self.content)

    def write(self, data: bytes) -> None:
        self.content += data
        self.most = max(self.most, len(data))

    async def settle(self) -> None:
        """It keeps everything."""


def upload(boundary: bytes, email: bytes, parameters: bytes = PARAMETERS) -> bytes:
    return b"\r\n".join(
        [
            b"--" + boundary,
            DISPOSITION % b"parameters" + b"\r\nContent-Type: application/json\r\n",
            parameters,
            b"--" + boundary,
            DISPOSITION % b"email" + b"\r\n",
            email,
            b"--" + boundary + b"--\r\n",
        ]
    )


def read(chunks: list[bytes], boundary: str = "B", leave: bool = False) -> tuple[bytes | Failure | ClientLeft, Sink]:
    sink = Sink()
    messages: list[dict[str, Any]] = [{"type": "http.request", "body": chunk, "more_body": True} for chunk in chunks]
    messages.append({"type": "http.disconnect"} if leave else {"type": "http.request", "body": b"", "more_body": False})
    queue = iter(messages)

    async def receive() -> dict[str, Any]:
        return next(queue)

    return asyncio.run(read_upload(receive, boundary, sink)), sink


def cut(body: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted(place % (len(body) + 1) for place in places), len(body)]
    return [body[start:end] for start, end in pairwise(edges)]


@given(
    st.binary(min_size=1) | st.text("\r\n-B", min_size=1).map(str.encode),
    st.lists(st.integers(min_value=0), max_size=8),
)
def test_however_it_is_cut_the_bytes_arrive(email: bytes, places: list[int]) -> None:
    boundary = "Bxq7" * 6
    result, sink = read(cut(upload(boundary.encode(), email), places), boundary)
    assert result == PARAMETERS
    assert sink.content == email


@given(st.text('\r\n-B: ;="name', max_size=60).map(str.encode), st.lists(st.integers(min_value=0), max_size=4))
def test_reading_is_total(body: bytes, places: list[int]) -> None:
    result, _ = read(cut(body, places))
    assert isinstance(result, bytes | Failure)


@given(st.binary(max_size=200))
def test_damage_never_raises(noise: bytes) -> None:
    whole = upload(b"B", b"mail")
    for at in range(0, len(whole), 17):
        result, _ = read([whole[:at] + noise + whole[at:]])
        assert isinstance(result, bytes | Failure)


def test_every_truncation_is_malformed() -> None:
    whole = upload(b"B", b"mail")
    for end in range(1, len(whole) - 2):
        result, _ = read([whole[:end]])
        assert isinstance(result, Failure)
        assert result.error.code == "malformed_request"


def test_a_client_that_leaves() -> None:
    result, _ = read([b"--B\r\n"], leave=True)
    assert isinstance(result, ClientLeft)


def test_the_message_is_never_held_whole() -> None:
    chunks = [upload(b"B", b"")[:-9], *[b"x" * 65536] * 100, b"\r\n--B--\r\n"]
    result, sink = read(chunks)
    assert result == PARAMETERS
    assert sink.size == 6_553_600
    assert sink.most <= 2 * 65536


@pytest.mark.parametrize("over", [0, 1])
def test_the_limit_is_on_the_whole_body(over: int, monkeypatch: pytest.MonkeyPatch) -> None:
    body = upload(b"B", b"x" * 100)
    monkeypatch.setattr("gatepost.abby.scan.MAX_BODY", len(body) - over)
    result, _ = read([body])
    assert (isinstance(result, Failure) and result.error.status == 413) == bool(over)


def test_too_slow_is_too_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes that come just often enough not to be idle do not hold a connection for ever."""
    monkeypatch.setattr("gatepost.api.http.FIRST_SECONDS", 0.02)
    sent = 0

    async def receive() -> dict[str, Any]:
        nonlocal sent
        sent += 1
        await asyncio.sleep(0.001)
        return {"type": "http.request", "body": b"x", "more_body": sent < 20_000}

    result = asyncio.run(read_upload(receive, "B", Sink()))
    assert isinstance(result, Failure)
    assert "slowly" in result.message
    assert sent < 20_000


def test_much_at_first_earns_no_time_for_a_trickle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gatepost.api.http.FIRST_SECONDS", 0.05)
    # By its mean rate alone, a body that began like this could take an hour.
    pieces = [upload(b"B", b"")[:-9] + b"x" * 4_000_000]

    async def receive() -> dict[str, Any]:
        await asyncio.sleep(0.001)
        return {"type": "http.request", "body": pieces.pop() if pieces else b"x", "more_body": True}

    result = asyncio.run(read_upload(receive, "B", Sink()))
    assert isinstance(result, Failure)
    assert "slowly" in result.message


@pytest.mark.parametrize(
    ("content_type", "expected"),
    [
        ("multipart/form-data; boundary=abc", "abc"),
        ('Multipart/Form-Data; charset=x; Boundary="a b:c"', "a b:c"),
        ("multipart/form-data;boundary=abc", "abc"),
        ("multipart/form-data", 400),
        ("multipart/form-data; boundary=", 400),
        ('multipart/form-data; boundary="a\x01"', 400),
        ("multipart/form-data; boundary=" + "a" * 201, 400),
        ("multipart/form-dataa; boundary=a", 415),
        ("multipart/mixed; boundary=a", 415),
        ("application/json", 415),
        ("text/plain; x=multipart/form-data", 415),
        ("", 415),
    ],
)
def test_boundaries(content_type: str, expected: str | int) -> None:
    found = parse_boundary([(b"content-type", content_type.encode("latin-1"))])
    assert (found.error.status if isinstance(found, Failure) else found) == expected


@given(st.binary(max_size=300))
def test_any_content_type_is_read(value: bytes) -> None:
    assert isinstance(parse_boundary([(b"content-type", value)]), str | Failure)


def plain(parameters: bytes, email: bytes, end: bytes = b"\r\n", more: bytes = b"") -> bytes:
    head = DISPOSITION % b"parameters" + b"\r\nContent-Type: application/json\r\n\r\n"
    second = DISPOSITION % b"email" + b'; filename="m.eml"\r\nContent-Type: message/rfc822\r\n\r\n'
    return b"--B\r\n" + head + parameters + b"\r\n--B\r\n" + second + email + b"\r\n" + more + b"--B--" + end


def read_whole(body: bytes) -> tuple[bytes | Failure | ClientLeft, bytes]:
    """As it arrives most often: in one piece, which is known to be the last."""
    sink = Sink()

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    return asyncio.run(read_upload(receive, "B", sink)), sink.content


def test_an_ordinary_upload_is_split_without_the_parser() -> None:
    email = b"Subject: x\r\n\r\n--A\r\ntext\r\n--B \r\n"
    assert split_plain(plain(PARAMETERS, b"a"), "B") == (PARAMETERS, b"a")
    assert split_plain(plain(PARAMETERS, email.replace(b"--B", b"--C")), "B")
    first, second = plain(PARAMETERS, b"a").removesuffix(b"--B--\r\n").split(b"--B\r\n")[1:]
    assert split_plain(b"--B\r\n" + second + b"--B\r\n" + first + b"--B--", "B") == (PARAMETERS, b"a")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"--B",
        plain(PARAMETERS, b""),
        plain(PARAMETERS, b"a", end=b"x"),
        plain(PARAMETERS, b"a")[:-6],
        plain(PARAMETERS, b"a").replace(b"application/json", b"text/plain"),
        plain(PARAMETERS, b"a").replace(b'"parameters"', b'"email"'),
        plain(PARAMETERS, b"a").replace(b'"email"', b'"other"'),
        plain(PARAMETERS, b"a").replace(b"m.eml", b"m%22.eml"),
        plain(PARAMETERS, b"a").replace(b"message/rfc822", b"message/rfc822\r\nContent-Transfer-Encoding: base64"),
        plain(PARAMETERS, b"a\r\n--Bx"),
        plain(PARAMETERS, b"a", more=b"--B\r\n" + DISPOSITION % b"other" + b"\r\n\r\n\r\n"),
        plain(PARAMETERS, b"a" * MAX_PLAIN),
    ],
)
def test_what_is_unusual_goes_to_the_parser(body: bytes) -> None:
    assert split_plain(body, "B") is None


@given(
    st.binary(max_size=40),
    st.text("\r\n-Ba", max_size=30).map(str.encode),
    st.lists(
        st.tuples(st.integers(min_value=0), st.sampled_from([b"", b"\r\n", b"--B", b'"', b"%", b"x"])), max_size=2
    ),
)
def test_splitting_says_what_the_parser_says(parameters: bytes, email: bytes, changes: list[tuple[int, bytes]]) -> None:
    body = plain(parameters, email)
    for place, put in changes:
        at = place % (len(body) + 1)
        body = body[:at] + put + body[at + (not put) :]
    whole = read_whole(body)
    # Two pieces, the second of them empty, never take the short way.
    in_pieces, sink = read([body])
    assert isinstance(whole[0], Failure) == isinstance(in_pieces, Failure)
    if isinstance(whole[0], bytes):
        assert whole == (in_pieces, sink.content)
