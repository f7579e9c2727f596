"""Raw bytes come back as they were, lie where nobody else reads them, and are on disk when `put` returns."""

import asyncio
import os
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from obstore.store import MemoryStore
from tests.own_names import replace_in

from gatepost.guard.quarantine import raw_store
from gatepost.guard.quarantine.raw_store import RawFolder, RawObjects, RawStore, open_raw_store
from gatepost.ids import new_id
from gatepost.scanning.spool import BytesBody, Spool
from gatepost.store.errors import StorageError
from gatepost.times import DAY

Made = Callable[[], RawStore]


@pytest.fixture(params=["folder", "objects"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> RawStore:
    return RawFolder(tmp_path / "q") if request.param == "folder" else RawObjects("s3://b/p", MemoryStore())


async def listed(store: RawStore, age: float) -> set[str]:
    return {ggrid async for batch in store.older_than(age) for ggrid in batch}


async def test_there_and_back(store: RawStore, tmp_path: Path) -> None:
    small, large, empty = new_id(), new_id(), new_id()
    await store.put(small, BytesBody(b"\0\xff\r\n.\r\n"))
    await store.put(empty, BytesBody(b""))
    with Spool(tmp_path / "spool", memory_limit=10).new() as body:
        body.write(b"x" * (3 << 20))
        await body.finish()
        assert body.on_disk
        await store.put(large, body)
    assert await store.get(small.upper()) == b"\0\xff\r\n.\r\n"
    assert await store.get(large) == b"x" * (3 << 20)
    assert await store.get(empty) == b""
    assert await store.get(new_id()) is None
    await store.put(small, BytesBody(b"the same again"))
    assert await store.get(small) == b"the same again"
    assert await listed(store, 0) == {small, large, empty}
    assert await listed(store, 3600) == set()
    await store.delete(small)
    await store.delete(small)
    assert await store.get(small) is None
    assert await listed(store, 0) == {large, empty}


@pytest.mark.parametrize("days", [-3, 3])
async def test_ages_are_those_of_the_place_whatever_the_clock_of_the_node_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, days: int
) -> None:
    """A node whose clock is days ahead would sweep bytes away whose record is on its way; one behind, never any."""
    store = RawFolder(tmp_path / "q")
    ggrid = new_id()
    await store.put(ggrid, BytesBody(b"x"))
    (file,) = [path for path in (tmp_path / "q").rglob("*") if path.is_file()]
    shift = days * DAY // 1_000
    written = file.stat().st_mtime
    os.utime(file, (written + shift, written + shift))
    monkeypatch.setattr(raw_store, "_read_clock", lambda _folder: written + shift + 1)
    assert await listed(store, 3600) == set()
    assert await listed(store, 0) == {ggrid}


@pytest.mark.parametrize("name", ["", "../../etc/passwd", "a/b", "..", "\0", "x" * 36])
async def test_nothing_but_a_ggrid_names_a_file(store: RawStore, name: str) -> None:
    for call in (store.get, store.delete):
        with pytest.raises(ValueError, match="ggrid"):
            await call(name)
    with pytest.raises(ValueError, match="ggrid"):
        await store.put(name, BytesBody(b""))


def test_a_folder_is_private_and_has_no_half_files(tmp_path: Path) -> None:
    ggrid = new_id()
    old_mask = os.umask(0)
    try:
        store = RawFolder(tmp_path / "q")
        asyncio.run(store.put(ggrid, BytesBody(b"x")))
    finally:
        os.umask(old_mask)
    assert stat.S_IMODE((tmp_path / "q").stat().st_mode) == 0o700
    files = [path for path in (tmp_path / "q").rglob("*") if path.is_file()]
    assert [path.name for path in files] == [f"{ggrid}.eml"]
    assert stat.S_IMODE(files[0].stat().st_mode) == 0o600


def test_it_is_synced_before_put_returns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[str] = []
    fsync, replace = os.fsync, Path.replace

    def synced(descriptor: int) -> None:
        steps.append("sync " + Path(f"/proc/self/fd/{descriptor}").readlink().name[:9])
        fsync(descriptor)

    def renamed(self: Path, target: Path) -> Path:
        steps.append("rename")
        return replace(self, target)

    store = RawFolder(tmp_path / "q")
    replace_in(monkeypatch, raw_store, "os", fsync=synced)
    monkeypatch.setattr(Path, "replace", renamed)
    ggrid = new_id()
    asyncio.run(store.put(ggrid, BytesBody(b"x")))
    # The new folder's name, the file, its name.
    assert steps == ["sync q", f"sync .{ggrid[:8]}", "rename", f"sync {ggrid[-2:]}"]


def test_a_write_that_fails_leaves_nothing(tmp_path: Path) -> None:
    class Broken(BytesBody):
        def chunks(self, size: int) -> Iterator[bytes]:
            raise OSError(28, "No space left on device")

    store = RawFolder(tmp_path / "q")
    with pytest.raises(StorageError, match="no space left"):
        asyncio.run(store.put(new_id(), Broken(b"")))
    assert not [path for path in (tmp_path / "q").rglob("*") if path.is_file()]


def test_what_a_kill_left_half_written_goes_when_it_is_old(tmp_path: Path) -> None:
    store = RawFolder(tmp_path / "q")
    ggrid = new_id()
    asyncio.run(store.put(ggrid, BytesBody(b"x")))
    bucket = tmp_path / "q" / ggrid[-2:]
    old, young = bucket / f".{new_id()}.eml.00", bucket / f".{new_id()}.eml.01"
    for path in (old, young, bucket / "somebody's notes", tmp_path / "q" / "README"):
        path.write_bytes(b"half")
    os.utime(old, (time.time() - 7200,) * 2)
    assert asyncio.run(listed(store, 3600)) == set()
    assert not old.exists()
    assert young.exists()
    assert asyncio.run(listed(store, 0)) == {ggrid}


def test_a_place_that_cannot_be_used_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StorageError, match="cannot be used"):
        open_raw_store(None, tmp_path / "file" / "q")
    with pytest.raises(StorageError, match="cannot be used"):
        RawObjects("s3://")


@pytest.mark.parametrize(
    ("url", "folder"),
    [(None, "{}/default"), ("file:{}/a", "{}/a"), ("file://{}/b", "{}/b"), ("file:///{}/c%20d", "{}/c d")],
)
def test_addresses_of_folders(tmp_path: Path, url: str | None, folder: str) -> None:
    store = open_raw_store(url and url.format(tmp_path), tmp_path / "default")
    assert isinstance(store, RawFolder)
    assert Path(folder.format(tmp_path)).is_dir()


@pytest.mark.parametrize("url", ["s3://bucket/prefix?region=eu-west-1", "gs://bucket", "az://container/prefix"])
def test_addresses_of_object_stores(tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "account")
    assert isinstance(open_raw_store(url, tmp_path / "q"), RawObjects)
    assert not (tmp_path / "q").exists()
