"""Compound files: streams are found whatever the tables say, and no table leads in a circle for long."""

import struct
from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from gatepost.files.documents.compound import STREAM, CompoundFile

Compounds = Callable[..., bytes]


def streams(content: bytes) -> dict[str, bytes]:
    document = CompoundFile(content)
    return {entry.path: document.read(entry, 1 << 20) for entry in document.entries if entry.kind == STREAM}


def test_streams_and_storages(compound: Compounds) -> None:
    content = compound({"a": b"one", "VBA/dir": b"two" * 1000, "VBA/Module1": b"three"})
    assert streams(content) == {"A": b"one", "VBA/DIR": b"two" * 1000, "VBA/MODULE1": b"three"}


def test_a_limit_is_a_limit(compound: Compounds) -> None:
    document = CompoundFile(compound({"a": bytes(100_000)}))
    entry = next(entry for entry in document.entries if entry.name == "A")
    assert len(document.read(entry, 1_000)) == 1_000


def test_a_table_in_a_circle_ends(compound: Compounds) -> None:
    content = bytearray(compound({"a": bytes(512 * 40)}))
    table = content.rfind(struct.pack("<II", 1, 2))
    content[table : table + 8] = struct.pack("<II", 1, 0)  # sector 1 leads back to 0
    document = CompoundFile(bytes(content))
    entry = next(entry for entry in document.entries if entry.name == "A")
    assert len(document.read(entry, 1 << 20)) == 1024
    assert not document.is_whole


def test_a_directory_in_a_circle_ends(compound: Compounds) -> None:
    content = bytearray(compound({"a": b"x", "b": b"y"}))
    place = content.find("a".encode("utf-16-le").ljust(64, b"\0"))
    content[place + 68 : place + 80] = struct.pack("<III", 1, 1, 1)  # its own brother and child
    assert streams(bytes(content)) == {"A": b"x", "B": b"y"}  # b is an orphan now, and still listed


def test_a_stream_longer_than_its_file_ends(compound: Compounds) -> None:
    content = bytearray(compound({"a": b"x"}))
    place = content.find("a".encode("utf-16-le").ljust(64, b"\0"))
    content[place + 120 : place + 128] = struct.pack("<Q", 1 << 31)
    assert len(streams(bytes(content))["A"]) <= len(content)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_no_damage_raises(compound: Compounds, data: st.DataObject) -> None:
    content = bytearray(compound({"a": bytes(2_000), "VBA/dir": b"two" * 1000}))
    for _ in range(data.draw(st.integers(1, 20))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(content)))
    assert isinstance(streams(bytes(content[:cut])), dict)
