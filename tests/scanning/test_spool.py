"""Bodies come back byte for byte, from memory or disk, and leave nothing behind."""

import hashlib
import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gatepost.scanning.spool import PREFIX, BytesBody, MessageBody, Spool


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(st.binary(max_size=40), max_size=8), st.integers(0, 60), st.integers(1, 50), st.booleans())
def test_what_goes_in_comes_out(tmp_path: Path, pieces: list[bytes], limit: int, size: int, forced: bool) -> None:
    whole = b"".join(pieces)
    with Spool(tmp_path, limit).new() as body:
        for piece in pieces:
            body.write(piece)
        assert body.read() == whole, "also before it is finished"
        body.finish()
        assert body.on_disk == (len(whole) > limit)
        if forced:
            body.to_disk()
            body.to_disk()
            assert body.on_disk
        assert (body.size, body.sha256) == (len(whole), hashlib.sha256(whole).hexdigest())
        for _ in range(2):
            assert body.read() == whole
            assert b"".join(body.chunks(size)) == whole
            assert all(1 <= len(chunk) <= size for chunk in body.chunks(size))
        assert list(tmp_path.iterdir()) == [], "no name in the folder even while it is open"
    body.close()


def test_writing_goes_on_after_a_move_to_disk(tmp_path: Path) -> None:
    body = Spool(tmp_path).new()
    body.write(b"first ")
    body.to_disk()
    assert body.read() == b"first "
    body.write(b"second")
    body.finish()
    assert body.read() == b"first second"
    body.close()


@pytest.mark.parametrize("limit", [0, 100], ids=["on disk", "in memory"])
def test_bytes_that_lie_elsewhere_are_a_body_like_any_other(tmp_path: Path, limit: int) -> None:
    def describe(body: MessageBody) -> tuple[int, str, bytes, bytes, bytes, list[bytes]]:
        return body.size, body.sha256, body.read(), body.head(3), body.head(100), list(body.chunks(2))

    expected = (5, hashlib.sha256(b"abcde").hexdigest(), b"abcde", b"abc", b"abcde", [b"ab", b"cd", b"e"])
    with Spool(tmp_path, limit).new() as spooled:
        spooled.write(b"abcde")
        assert describe(spooled) == expected, "also before it is finished"
        spooled.finish()
        given = BytesBody(b"abcde")
        for _ in range(2):
            assert describe(spooled) == describe(given) == expected
            spooled.to_disk()
            given.to_disk()


def test_the_folder_is_private(tmp_path: Path) -> None:
    Spool(tmp_path / "a" / "spool")
    assert (tmp_path / "a" / "spool").stat().st_mode & 0o077 == 0


def test_a_kill_leaves_nothing(tmp_path: Path) -> None:
    script = textwrap.dedent("""
        import sys, time
        from pathlib import Path
        from gatepost.scanning.spool import Spool
        body = Spool(Path(sys.argv[1]), 10).new()
        body.write(b"x" * 100_000)
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


def test_a_closed_body_is_not_read(tmp_path: Path) -> None:
    body = Spool(tmp_path, 1).new()
    body.write(b"abc")
    body.close()
    with pytest.raises(ValueError, match="closed"):
        body.read()


def test_a_full_disk_is_a_storage_fault(tmp_path: Path) -> None:
    """A limit on the size of files stands for the disk: the system refuses the same calls (setrlimit(2))."""
    program = f"""
        import resource, signal
        from pathlib import Path
        from gatepost.scanning.spool import Spool
        from gatepost.store.errors import StorageError

        def refused(act):
            try:
                act()
            except StorageError as fault:
                return "cannot be written" in str(fault)

        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
        spool = Spool(Path({str(tmp_path)!r}), 1000)
        large = spool.new()
        assert refused(lambda: large.write(b"x" * 5000))
        waiting = spool.new()
        waiting.write(b"x" * 500)
        waiting.finish()
        assert refused(waiting.to_disk), "a message that has to wait"
        piecemeal = Spool(Path({str(tmp_path)!r}), 10).new()
        piecemeal.write(b"x" * 50)
        piecemeal.write(b"x" * 60)
        assert refused(piecemeal.finish), "what the file object still had"
        print("done")
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "done", done.stderr
