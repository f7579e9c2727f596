"""ARJ and ACE: names, encryption, and what was only stored."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.files.opening import damaged, open_file

from gatepost.files.archives import old_archives
from gatepost.files.values import UnpackBudget

PAYLOAD = b"the payload that must be found"
# Made with arj from a file of that text: stored, and stored under a password.
SAMPLES: dict[str, str] = {
    "test0": (
        "YOotACILAQIQAAJmgBj5aoAY+WoAAAAAAAAAAAAAAAAAAAAAAAB0ZXN0MC5hcmoAANyzsLkAAGDqNgAuCwECEAAAgH8Y+WoeAAAAHgAAAKLd"
        "irsAAKQRAAAAAAAAfxj5an8Y+WoAAAAAaW4udHh0AADO3wxuAAB0aGUgcGF5bG9hZCB0aGF0IG11c3QgYmUgZm91bmRg6gAA"
    ),
    "testg": (
        "YOotACILAQIRAAIAgBj5aoAY+WoAAAAAAAAAAAAAAAABAAAAAAB0ZXN0Zy5hcmoAACUY76AAAGDqNgAuCwECEQAAgH8Y+WoeAAAAHgAAAKLd"
        "irsAAKQRAAAAAAAAfxj5an8Y+WoAAAAAaW4udHh0AAA/xj3qAACHjYbSlZWKiYyTgdSHjYKGxZmGlpfSh5HTg4yHi5Bg6gAA"
    ),
}


def sample(name: str) -> bytes:
    return base64.b64decode(SAMPLES[name])


def ace(method: int = 0, flags: int = 1, name: bytes = b"in.txt") -> bytes:
    main = b"\0\0\x90**ACE**" + bytes(20)
    file = b"\x01" + flags.to_bytes(2, "little") + len(PAYLOAD).to_bytes(4, "little") + bytes(16)
    file += bytes([method]) + bytes(5) + len(name).to_bytes(2, "little") + name
    return b"".join(b"\0\0" + len(head).to_bytes(2, "little") + head for head in (main, file)) + PAYLOAD


@pytest.mark.parametrize(
    ("content", "kind", "unread", "inside"),
    [
        (sample("test0"), "arj", (), PAYLOAD),
        (sample("testg"), "arj", ("encrypted",), b""),
        (sample("test0")[:-10], "arj", ("damaged",), None),
        (ace(), "ace", (), PAYLOAD),
        (ace(method=2), "ace", ("unsupported",), b""),
        (ace(flags=0x4001), "ace", ("encrypted",), b""),
        (ace()[:-40], "ace", ("damaged",), None),
    ],
)
def test_old_archives(content: bytes, kind: str, unread: tuple[str, ...], inside: bytes | None) -> None:
    outer, *inner = open_file(content)
    assert (outer.type, outer.unread) == (kind, unread)
    if inside is not None:
        assert [(file.names, file.content) for file in inner] == [(("in.txt",), inside)]


@given(st.sampled_from([sample("test0"), ace()]).flatmap(damaged))
def test_no_damage_raises(content: bytes) -> None:
    list(old_archives.read_arj(content, UnpackBudget(), ()))
    list(old_archives.read_ace(content, UnpackBudget(), ()))
