"""Bodies come back byte for byte, from memory or disk, and leave nothing behind."""

import asyncio
import hashlib
import os
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gatepost.scanning import spool
from gatepost.scanning.spool import PREFIX, BytesBody, MessageBody, Spool, SpooledBody
from gatepost.store.errors import StorageError


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(st.binary(max_size=40), max_size=8), st.integers(0, 60), st.integers(1, 50), st.booleans())
def test_what_goes_in_comes_out(tmp_path: Path, pieces: list[bytes], limit: int, size: int, forced: bool) -> None:
    whole = b"".join(pieces)

    async def fill(body: SpooledBody) -> None:
        for piece in pieces:
            body.write(piece)
            await body.settle()
        await body.finish()
        assert body.on_disk == (len(whole) > limit)
        if forced:
            await body.to_disk()
            await body.to_disk()
            assert body.on_disk

    with Spool(tmp_path, limit).new() as body:
        asyncio.run(fill(body))
        assert (body.size, body.sha256) == (len(whole), hashlib.sha256(whole).hexdigest())
        for _ in range(2):
            assert body.read() == whole
            assert b"".join(body.chunks(size)) == whole
            assert all(1 <= len(chunk) <= size for chunk in body.chunks(size))
        assert list(tmp_path.iterdir()) == [], "no name in the folder even while it is open"
    body.close()


async def test_what_was_never_settled_is_there_at_the_end(tmp_path: Path) -> None:
    body = Spool(tmp_path, 10).new()
    for _ in range(5):
        body.write(b"twelve bytes")
    await body.finish()
    assert body.on_disk
    assert body.read() == b"twelve bytes" * 5
    body.close()


@pytest.mark.parametrize("limit", [0, 100], ids=["on disk", "in memory"])
async def test_bytes_that_lie_elsewhere_are_a_body_like_any_other(tmp_path: Path, limit: int) -> None:
    def describe(body: MessageBody) -> tuple[int, str, bytes, bytes, bytes, list[bytes]]:
        return body.size, body.sha256, body.read(), body.head(3), body.head(100), list(body.chunks(2))

    expected = (5, hashlib.sha256(b"abcde").hexdigest(), b"abcde", b"abc", b"abcde", [b"ab", b"cd", b"e"])
    with Spool(tmp_path, limit).new() as spooled:
        spooled.write(b"abcde")
        await spooled.finish()
        given = BytesBody(b"abcde")
        for _ in range(2):
            assert describe(spooled) == describe(given) == expected
            await spooled.to_disk()
            await given.to_disk()


def test_the_folder_is_private(tmp_path: Path) -> None:
    Spool(tmp_path / "a" / "spool")
    assert (tmp_path / "a" / "spool").stat().st_mode & 0o077 == 0


def test_a_kill_leaves_nothing(tmp_path: Path) -> None:
    script = textwrap.dedent("""
        import asyncio, sys, time
        from pathlib import Path
        from gatepost.scanning.spool import Spool
        body = Spool(Path(sys.argv[1]), 10).new()
        body.write(b"x" * 100_000)
        asyncio.run(body.settle())
        print("written", flush=True)
        time.sleep(60)
    """)
    process = subprocess.Popen([sys.executable, "-c", script, tmp_path], stdout=subprocess.PIPE)
    assert process.stdout
    assert process.stdout.readline() == b"written\n"
    process.kill()
    process.communicate()
    assert list(tmp_path.iterdir()) == []


def test_leftovers_of_a_system_without_nameless_files_are_removed(tmp_path: Path) -> None:
    old, fresh, other = tmp_path / f"{PREFIX}old", tmp_path / f"{PREFIX}fresh", tmp_path / "other"
    for path in (old, fresh, other):
        path.write_bytes(b"")
    for path in (old, other):
        os.utime(path, (time.time() - 3600, time.time() - 3600))
    Spool(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"{PREFIX}fresh", "other"]


async def test_a_closed_body_is_not_read(tmp_path: Path) -> None:
    body = Spool(tmp_path, 1).new()
    body.write(b"abc")
    await body.finish()
    body.close()
    with pytest.raises(ValueError, match="closed"):
        body.read()


async def test_a_disk_that_does_not_answer_stops_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool, "PATIENCE_SECONDS", 0.1)
    answers = threading.Event()
    spool._disk.submit(answers.wait)
    given_up, fresh = Spool(tmp_path, 1).new(), Spool(tmp_path, 1).new()
    try:
        given_up.write(b"abc")
        with pytest.raises(StorageError, match="its disk does not answer"):
            await given_up.settle()
        given_up.close()
    finally:
        answers.set()
    fresh.write(b"abc")
    await fresh.finish()
    assert fresh.read() == b"abc", "it is used again when it answers"
    fresh.close()


async def test_a_body_that_is_closed_while_it_is_written_leaves_no_file_open(tmp_path: Path) -> None:
    held, body = threading.Event(), Spool(tmp_path, 1).new()
    spool._disk.submit(held.wait)
    body.write(b"abc")
    writing = asyncio.ensure_future(body.settle())
    await asyncio.sleep(0)
    body.close()
    held.set()
    await writing
    await asyncio.get_running_loop().run_in_executor(spool._disk, int)
    assert body._file is not None
    assert body._file.closed


def test_a_full_disk_is_a_storage_fault(tmp_path: Path) -> None:
    """A limit on the size of files stands for the disk: the system refuses the same calls (setrlimit(2))."""
    program = f"""
        import asyncio, resource, signal
        from pathlib import Path
        from gatepost.scanning.spool import Spool
        from gatepost.store.errors import StorageError

        def refused(act):
            try:
                asyncio.run(act())
            except StorageError as fault:
                return "cannot be written" in str(fault)

        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
        spool = Spool(Path({str(tmp_path)!r}), 1000)
        large = spool.new()
        large.write(b"x" * 5000)
        assert refused(large.settle)
        waiting = spool.new()
        waiting.write(b"x" * 500)
        asyncio.run(waiting.finish())
        assert refused(waiting.to_disk), "a message that has to wait"
        piecemeal = Spool(Path({str(tmp_path)!r}), 10).new()
        piecemeal.write(b"x" * 50)
        asyncio.run(piecemeal.settle())
        piecemeal.write(b"x" * 60)
        assert refused(piecemeal.finish), "what comes behind what the disk took"
        print("done")
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "done", done.stderr
