"""Messages that hide an EICAR file or a banned file name behind broken MIME: each must be found.

The suite is made by a program that writes the same two parts in hundreds of broken ways; each way is read as meant
by some mail program.
"""

import io
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gatepost.mail.message import Message
from gatepost.mail.reader import read

EICAR = b"X5O!P%@AP[4\\PZX54(P^)7CC)7}$EICAR-STANDARD-" + b"ANTIVIRUS-TEST-FILE!$H+H*"
# The generator wrote a Perl reference ("ARRAY(0x55…)") in the place of the file: there is none to be found.
EMPTY = {"1799ae063770c865.eml", "5b5ec77678ee0353.eml"}


def messages(shared: Callable[[str], Path], folder: str, count: int) -> Iterator[tuple[str, Message]]:
    paths = sorted((shared("attack-dev") / folder).glob("*/*.eml"))
    assert len(paths) == count
    for path in paths:
        yield path.name, read(path.read_bytes())


def carries_eicar(content: bytes) -> bool:
    if EICAR in content:
        return True
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            return any(EICAR in archive.read(name) for name in archive.namelist())
    except (zipfile.BadZipFile, OSError, ValueError, EOFError, NotImplementedError):
        return False


def test_every_hidden_file_is_found(shared: Callable[[str], Path]) -> None:
    missed = [
        name
        for name, message in messages(shared, "mime_is_broken_content", 185)
        if not any(carries_eicar(part.content) for part in message.files)
    ]
    assert set(missed) == EMPTY


@pytest.mark.parametrize("name", sorted(EMPTY))
def test_a_message_without_its_file_is_read_all_the_same(shared: Callable[[str], Path], name: str) -> None:
    raw = (shared("attack-dev") / "mime_is_broken_content" / "attack_mime_eicar" / name).read_bytes()
    contents = [part.content for part in read(raw).files]
    assert len(contents) == 2
    assert all(content.startswith(b"ARRAY(0x") for content in contents)


def test_every_hidden_name_is_seen(shared: Callable[[str], Path]) -> None:
    for name, message in messages(shared, "mime_is_broken_filename", 71):
        endings = {shown.rpartition(".")[2] for part in message.parts for shown in part.names}
        assert {"zip", "txt"} <= endings, name


def test_plain_ways_to_write_it_have_no_defect(shared: Callable[[str], Path]) -> None:
    """What the suite's author calls valid(3) and valid(2) is read without a word of doubt."""
    doubted = [
        name
        for name, message in messages(shared, "mime_is_broken_content", 185)
        if "valid(3)" in (message.headers.first("x-payload-id") or "") and message.defects
    ]
    assert doubted == []
