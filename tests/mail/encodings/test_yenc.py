from hypothesis import given
from hypothesis import strategies as st

from gatepost.mail.encodings.embedded import decode_yenc, find_yenc

CRITICAL = (0, 10, 13, 61)


def encoded(data: bytes) -> bytes:
    shifted = ((byte + 42) % 256 for byte in data)
    body = b"".join(b"=%c" % ((byte + 64) % 256) if byte in CRITICAL else bytes([byte]) for byte in shifted)
    return b"=ybegin line=128 size=%d name=a.bin\r\n%s\r\n=yend size=%d\r\n" % (len(data), body, len(data))


@given(st.binary(max_size=300))
def test_round_trip(data: bytes) -> None:
    (file,) = find_yenc(b"text\r\n" + encoded(data) + b"text")
    assert (file.names, file.content, file.whole) == (("a.bin",), data, True)


def test_cut_off_or_short_is_not_whole() -> None:
    (file,) = find_yenc(encoded(b"hello")[:45])
    assert not file.whole
    (file,) = find_yenc(encoded(b"hello").replace(b"size=5 name", b"size=6 name"))
    assert (file.content, file.whole) == (b"hello", False)


def test_part_line_is_no_data() -> None:
    (file,) = find_yenc(encoded(b"hello").replace(b"a.bin\r\n", b"a.bin\r\n=ypart begin=1 end=5\r\n"))
    assert file.content == b"hello"


@given(st.binary(max_size=100))
def test_any_bytes(content: bytes) -> None:
    decode_yenc(content)
    list(find_yenc(b"=ybegin line=1 size=x\n" + content))
