"""A SQLite file that another process writes: the same store, also when that process is killed."""

import asyncio
import importlib
import os
import pickle
import signal
import socket
import subprocess
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import apsw
import pytest

from gatepost.store import open_store, writer_process
from gatepost.store.api_keys import ApiKey
from gatepost.store.engine import Rollback
from gatepost.store.errors import NotFound, StorageError
from gatepost.store.list_lookup import HitCount
from gatepost.store.sqlite import PendingChange, SqliteEngine
from gatepost.store.store import Store
from gatepost.store.writer_process import RemoteWriter, WriterServer, WriterSocket, _take_frames

from .conftest import NewRecord


class Writing:
    """The process that writes, and its parent, which holds the socket."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.place = WriterSocket(folder, "writer.sock")
        self.listening = self.place.listen()
        self.pid = 0
        self.start()

    def start(self) -> None:
        self.control, theirs = socket.socketpair()
        self.pid = os.fork()
        if not self.pid:
            code = 1
            try:
                self.control.close()
                WriterServer(self.folder / "g.db", self.listening, theirs).run()
                code = 0
            finally:
                os._exit(code)
        theirs.close()

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        self.control.close()
        self.pid = 0

    def stop(self) -> int:
        self.control.close()
        pid, self.pid = self.pid, 0
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.fixture
def writing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Writing]:
    # Functions of this file are operations as well.
    monkeypatch.setattr(writer_process, "_OPERATIONS", ("gatepost.store.", "tests.store."))
    # Longer than a Unix socket's path may be.
    folder = tmp_path / ("long" * 30)
    folder.mkdir()
    process = Writing(folder)
    yield process
    if process.pid:
        process.kill()
    process.listening.close()
    process.place.remove()
    assert [path.name for path in folder.iterdir() if path.suffix == ".sock"] == []


def run(writing: Writing, scenario: Callable[[Store], Awaitable[None]]) -> None:
    async def body() -> None:
        store = open_store("sqlite:g.db", writing.folder, writing.place.address)
        try:
            await scenario(store)
        finally:
            await store.close()

    asyncio.run(body())


def test_the_store_is_the_same(writing: Writing, new_record: NewRecord) -> None:
    async def use(store: Store) -> None:
        record = new_record()
        assert await store.messages.record(record) is record
        again = new_record(ggrid=record.ggrid, subject="another")
        assert await store.messages.record(again) == record, "the first of a ggrid stays"
        several = [new_record(tenant=None if number % 2 else "t") for number in range(50)]
        assert await asyncio.gather(*map(store.messages.record, several)) == several
        assert await store.messages.find(several[7].ggrid) == several[7]
        secret, key = await store.api_keys.create("key", None, False, None)  # type: ignore[misc]
        assert await store.api_keys.revoke("nobody's") == NotFound("key")
        found = await store.api_keys.authenticate(secret)
        assert isinstance(found, ApiKey)
        assert found.id == key.id
        await store.list_lookup.record_hits([HitCount(None, "no such list", "x", 1, 1)])
        assert await store.messages.purge(10_000) == 51
        counters = store.counters()
        assert counters.failures == 0
        assert counters.commits < counters.changes, "records that come together share a commit"

    run(writing, use)
    assert writing.stop() == 0


def test_a_kill_is_a_fault_of_storage_and_the_next_process_goes_on(writing: Writing, new_record: NewRecord) -> None:
    async def use(store: Store) -> None:
        first = await store.messages.record(new_record())
        os.kill(writing.pid, signal.SIGSTOP)
        pending = asyncio.ensure_future(store.messages.record(new_record()))
        await asyncio.sleep(0.05)
        writing.kill()
        with pytest.raises(StorageError, match="has ended"):
            await pending
        waiting = asyncio.ensure_future(store.messages.record(new_record()))
        await asyncio.sleep(0.05)
        assert not waiting.done(), "the parent holds the socket: nobody is refused"
        writing.start()
        second = await waiting
        assert await store.messages.find(first.ggrid) == first
        assert await store.messages.find(second.ggrid) == second

    run(writing, use)


def _raise() -> None:
    raise ValueError("on arrival")


class _Odd:
    def __reduce__(self) -> tuple[object, tuple[()]]:
        return _raise, ()


def boom(_connection: apsw.Connection, _arguments: object) -> list[int]:
    raise ZeroDivisionError("by a change")


def unpicklable(_connection: apsw.Connection, arguments: object) -> list[object]:
    raise Rollback(lambda: arguments)


def test_a_change_that_fails_fails_alone(writing: Writing, new_record: NewRecord) -> None:
    async def use(store: Store) -> None:
        engine = store._engine
        assert isinstance(engine, SqliteEngine)
        writer = engine._writer
        assert isinstance(writer, RemoteWriter)
        good, bad, odd = await asyncio.gather(
            store.messages.record(new_record()),
            writer.apply(boom, 1),
            writer.apply(unpicklable, 2),
            return_exceptions=True,
        )
        assert not isinstance(good, BaseException)
        assert isinstance(bad, ZeroDivisionError)
        assert isinstance(odd, StorageError)
        with pytest.raises(StorageError, match="not readable"):
            await writer.apply(unpicklable, _Odd())
        assert writer.counters().failures == 3
        assert await store.messages.find(good.ggrid) == good

    run(writing, use)


class Call:
    """A pickle that calls something when it is read."""

    def __init__(self, function: object, *arguments: object) -> None:
        self._call = (function, arguments)

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return self._call


def test_a_request_names_operations_and_data_alone(writing: Writing, new_record: NewRecord, tmp_path: Path) -> None:
    """Whoever reaches the socket changes data, and runs no other code."""
    trace = tmp_path / "trace"
    hostile: list[object] = [
        Call(os.system, f"touch {trace}"),
        Call(eval, f"open({str(trace)!r}, 'w')"),
        Call(getattr, "text", "upper"),
        Call(open, str(trace), "w"),
        Call(subprocess.Popen, ["touch", str(trace)]),
        Call(importlib.import_module, "antigravity"),
        Call(writer_process._find_function, "os", "system"),
        Call(writer_process._find_function, "gatepost.store.sqlite", "os.system"),
        Call(writer_process._find_function, "gatepost.store.sqlite", "Path.unlink"),
        Call(writer_process._find_function, "gatepost.store.writer_process", "os.fork"),
        Call(writer_process._find_function, "gatepost.service.commands", "guard"),
        Call(writer_process._make_operations, Path),
        Call(Path, str(trace)),
        Call(WriterSocket, tmp_path, "x"),
    ]
    for each in hostile:
        with pytest.raises((pickle.UnpicklingError, ImportError, AttributeError)):
            writer_process._load(pickle.dumps((each, 1)))

    async def use(store: Store) -> None:
        engine = store._engine
        assert isinstance(engine, SqliteEngine)
        writer = engine._writer
        assert isinstance(writer, RemoteWriter)
        for each in hostile:
            flags, fault = await writer._ask(0, pickle.dumps((each, 1)))
            assert flags & writer_process._FAULT
            assert "not readable" in str(fault)
        for junk in (b"", b"\x80", b"\x80\x05.", b"x" * 1_000, pickle.dumps(1), pickle.dumps((1, 2))):
            flags, _ = await writer._ask(0, junk)
            assert flags & writer_process._FAULT
        record = new_record()
        assert await store.messages.record(record) == record

    run(writing, use)
    assert not trace.exists()


def test_the_writer_outlives_its_parent_while_it_is_needed(writing: Writing, new_record: NewRecord) -> None:
    async def use(store: Store) -> None:
        await store.messages.record(new_record())
        writing.control.close()
        await asyncio.sleep(0.05)
        last = await store.messages.record(new_record())
        assert await store.messages.find(last.ggrid) == last

    run(writing, use)
    pid, writing.pid = writing.pid, 0
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_frames_in_pieces() -> None:
    whole = bytes.fromhex("03000000 07000000 01") + b"abc" + bytes.fromhex("00000000 08000000 00")
    buffer, found = bytearray(), []
    for number in range(len(whole)):
        buffer += whole[number : number + 1]
        found += _take_frames(buffer)
    assert found == [(7, 1, b"abc"), (8, 0, b"")]
    assert PendingChange(boom, 1).fault is None
