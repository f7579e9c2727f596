"""Where a message ends, and what is no message: only CRLF.CRLF ends one, whatever the pieces it comes in."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatepost.smtp.content import DotStream, DotStuffer, LineEnds

END = b"\r\n.\r\n"
# Every ending that some server has taken for one, and that is none (CVE-2023-51764, -51765, -51766 and later finds).
FALSE_ENDINGS = (
    b"\n.\n",
    b"\r.\r",
    b"\n.\r\n",
    b"\r\n.\n",
    b"\r\n.\r",
    b"\r.\r\n",
    b"\n\n.\r\n",
    b"\r\r.\r\n",
    b"\n.\r",
    b"\r.\n",
    b"\r\n\0.\r\n",
    b"\r\n.\0\r\n",
    b"\0\r\n.\r\0\n",
    b"\r\0\n.\r\n",
    b"\r\n.\r\0\n",
    b"\n\r\n.\n",
    b"\r\r\n.\r\r\n",
    b"\r\n.\r\r\n",
)


def fed(data: bytes, *cuts: int) -> tuple[bytes, bytes | None, bool]:
    """Feed in pieces: the message, what came behind it, and whether it was sound."""
    stream = DotStream()
    whole, rest = b"", None
    for start, end in zip((0, *cuts), (*cuts, len(data)), strict=True):
        if rest is not None:
            rest += data[start:end]
            continue
        content, rest = stream.feed(data[start:end])
        whole += content
    return whole, rest, stream.ends.sound


@pytest.mark.parametrize(
    ("sent", "message", "rest"),
    [
        (b"a\r\n.\r\n", b"a\r\n", b""),
        (b".\r\n", b"", b""),
        (b".\r\nQUIT\r\n", b"", b"QUIT\r\n"),
        (b"..\r\n.\r\n", b".\r\n", b""),
        (b"...a\r\n..\r\n.b\r\n.\r\n", b"..a\r\n.\r\nb\r\n", b""),
        (b"\r\n.\r\n", b"\r\n", b""),
        (b"a\r\n.\r\n.\r\n", b"a\r\n", b".\r\n"),
        (b"a.\r\n.\r\n", b"a.\r\n", b""),
    ],
)
def test_the_dot_ends_a_message_and_stuffing_goes(sent: bytes, message: bytes, rest: bytes) -> None:
    for cut in range(len(sent) + 1):
        assert fed(sent, cut) == (message, rest, True)


@pytest.mark.parametrize("ending", FALSE_ENDINGS, ids=repr)
def test_no_other_ending_ends_a_message_and_none_is_sound(ending: bytes) -> None:
    sent = b"a: b\r\n\r\nbody" + ending + b"MAIL FROM:<smuggled@x.example>\r\n" + END[2:]
    for cut in range(len(sent)):
        message, rest, sound = fed(sent, cut)
        assert rest == b""
        assert b"MAIL FROM:<smuggled" in message
        assert not sound


@given(st.lists(st.sampled_from([b"\r\n", b".", b"..", b"a", b"\r\n."]), max_size=12), st.data())
def test_what_is_stuffed_comes_back(pieces: list[bytes], data: Any) -> None:
    message = b"".join(pieces)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(message)), max_size=3)))
    stuffer = DotStuffer()
    sent = b"".join(stuffer.feed(message[a:b]) for a, b in zip((0, *cuts), (*cuts, len(message)), strict=True))
    sent += stuffer.end
    whole, rest, sound = fed(sent)
    assert (rest, sound) == (b"", True)
    assert whole == message if message.endswith(b"\r\n") or not message else whole == message + b"\r\n"


@given(st.lists(st.sampled_from([b"\r", b"\n", b"\0", b"a", b"\r\n"]), max_size=8), st.integers(0, 16))
def test_line_ends_are_seen_across_pieces(pieces: list[bytes], cut: int) -> None:
    data = b"".join(pieces)
    ends = LineEnds()
    ends.check(data[:cut])
    ends.check(data[cut:])
    assert ends.sound == (not set(data.replace(b"\r\n", b"")) & set(b"\r\n\0"))


@pytest.mark.parametrize("ending", FALSE_ENDINGS, ids=repr)
@pytest.mark.parametrize("chunked", [False, True])
async def test_nothing_is_smuggled_through_the_gateway(ending: bytes, chunked: bool, deployment: Any, hop: Any) -> None:
    smuggled = b"MAIL FROM:<s@x.example>\r\nRCPT TO:<t@y.example>\r\nDATA\r\nSubject: smuggled\r\n\r\nx\r\n"
    sent = b"Subject: one\r\n\r\nx" + ending + smuggled
    next_hop = hop()
    async with deployment(next_hop) as gate:
        client = await gate.connect()
        if chunked:
            for line in ("EHLO c", "MAIL FROM:<a@x.example>", "RCPT TO:<b@y.example>"):
                await client.say(line)
            answer = await client.say(b"BDAT %d LAST\r\n" % len(sent) + sent)
        else:
            await client.up_to_data()
            answer = await client.say(sent + b".\r\n")
        assert answer.startswith("550 5.6.0")
        assert (await client.say("NOOP")).startswith("250")
        assert next_hop.messages == []
        assert not [line for line in next_hop.lines if "s@x.example" in line]
        assert gate.guard.scanned == []
