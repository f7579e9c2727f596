"""Where attachments lie: what is cut is gone, what is left reads as before, and in doubt nothing is cut."""

import pytest

from gatepost.mail.part_places import find_parts
from gatepost.mail.reader import read

NOTICE = b"Content-Type: text/plain\r\n\r\nremoved"


def part(head: str, body: str = "x") -> bytes:
    return f"--b\r\n{head}\r\n\r\n{body}\r\n".encode()


def mixed(
    *parts: bytes, end: bytes = b"--b--\r\n", head: bytes = b'Content-Type: multipart/mixed; boundary="b"'
) -> bytes:
    return b"From: a@x.example\r\nMIME-Version: 1.0\r\n" + head + b"\r\n\r\n" + b"".join(parts) + end


TEXT = part("Content-Type: text/plain", "hello")
EXE = part('Content-Type: application/octet-stream; name="a.exe"\r\nContent-Transfer-Encoding: base64', "TVo=")
PICTURE = part('Content-Type: image/png; name="p.png"\r\nContent-Transfer-Encoding: base64', "iVBORw0=")


def cut(raw: bytes, *wanted: str) -> tuple[list[str], bytes]:
    """The paths that were cut, and the message with notices."""
    places = find_parts(raw, wanted)
    left, position = b"", 0
    for start, end, path in places:
        left += raw[position:start] + (NOTICE if path else b"")
        position = end
    return [path for _, _, path in places if path], left + raw[position:]


def test_an_attachment_goes_and_the_rest_stays() -> None:
    paths, left = cut(mixed(TEXT, EXE, PICTURE), "1.2/a.exe")
    assert paths == ["1.2"]
    assert left == mixed(TEXT, b"--b\r\n" + NOTICE + b"\r\n", PICTURE)
    contents = [part.content for part in read(left).parts if not part.children]
    assert contents[0] == b"hello"
    assert contents[1] == b"removed"
    assert contents[2].startswith(b"\x89PNG")


def test_the_attachment_that_holds_a_file_goes() -> None:
    inner = mixed(TEXT, EXE).replace(b'"b"', b'"c"').replace(b"--b", b"--c")
    attached = b"--b\r\nContent-Type: message/rfc822\r\n\r\n" + inner + b"\r\n"
    raw = mixed(TEXT, attached, PICTURE)
    # A part inside of a message that is attached as it is has a place of its own; its text has that of the message.
    assert cut(raw, "1.2.1.2/a.exe")[0] == ["1.2.1.2"]
    assert cut(raw, "1.2.1.1~uu1/b.zip/c.js")[0] == ["1.2"]
    assert cut(raw, "1.2.1.2/a.exe", "1.2", "1.3/p.png/x")[0] == ["1.2", "1.3"]


@pytest.mark.parametrize("wanted", ["1.1", "1", "1~2-base64", "message", "Subject", "", "1.9", "1.1x", "1.2x/a.exe"])
def test_what_is_no_attachment_is_passed_over(wanted: str) -> None:
    assert find_parts(mixed(TEXT, EXE), [wanted]) == []


@pytest.mark.parametrize(
    "raw",
    [
        mixed(TEXT, EXE, head=b"Content-Type: multipart/mixed; boundary=b; boundary=c"),
        mixed(TEXT, EXE, end=b"--b--\r\n--b\r\nContent-Type: text/plain\r\n\r\nx\r\n--b--\r\n"),
        mixed(TEXT, EXE, head=b"Content-Type: multipart/mixed"),
        # The same bytes are in a part that no finding names.
        mixed(EXE.replace(b"a.exe", b"b.exe"), EXE),
    ],
)
def test_in_doubt_nothing_is_cut(raw: bytes) -> None:
    assert find_parts(raw, ["1.2/a.exe"]) == []


def test_a_message_that_is_an_attachment() -> None:
    raw = (
        b'From: a@x.example\r\nContent-Type: application/x-dosexec;\r\n name="a.exe"\r\nSubject: s\r\n'
        b"Content-Transfer-Encoding: base64\r\nMIME-Version: 1.0\r\n\r\nTVo=\r\n"
    )
    paths, left = cut(raw, "1/a.exe")
    assert paths == ["1"]
    assert left == b"From: a@x.example\r\nSubject: s\r\n" + NOTICE
