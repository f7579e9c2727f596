"""A SQLite file that one process writes for all processes of a node: the process, and its clients.

Readers of a WAL do not disturb each other, but writers of several processes would take turns at the file, each with a
commit of its own. So one process writes. It takes changes from all clients over a Unix socket, commits those that have
come together as a group, and answers after the commit: a group holds changes of all processes. Where it ends in
between, its clients are told that storage failed, as after any other fault of storage; the next change connects anew.

A change goes as the function and its argument (see `sqlite.Change`). Both ends are this program, forked from one
process, and the socket lies in a folder that only its user can enter. They are pickled, but what is read can name only
operations of this package and plain data (`_Unpickler`): functions that the modules of `store` define themselves,
values and faults of Gatepost, and a few types of the standard library. So whoever reaches the socket can change data,
which its user could do anyway, and not run other code. Records of messages,
which are most of all that is written, go as finished rows in MessagePack, without the name of a function: who asks
packs and indexes them. A group of records is one request with one answer.
"""

import asyncio
import builtins
import io
import os
import pickle
import selectors
import socket
import struct
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta, timezone
from enum import Enum
from functools import partial
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from types import FunctionType
from typing import Any, TypeVar, cast

import msgspec
from msgspec._utils import rebuild  # type: ignore[attr-defined]

from gatepost.store.engine import Operations, StoreCounters
from gatepost.store.errors import StorageError
from gatepost.store.message_records import MessageRecord, RecordRow, insert_all, prepare_row
from gatepost.store.sql import compose
from gatepost.store.sqlite import (
    LINGER_SECONDS,
    Change,
    CommitTurns,
    GroupCommits,
    PendingChange,
    WritesChanges,
    open_file,
)

A = TypeVar("A")
R = TypeVar("R")

# Length of what follows, number of the request, flags. A request has only the flag that it has the rows of records.
_HEAD = struct.Struct("<IIB")
_SAME, _FAULT, _COMMIT, _ROWS, _LIGHT = 1, 2, 4, 8, 16
_READ_BYTES = 256 << 10
_ENDED = "The process that writes the storage has ended; it is being started again."


class _Pickler(pickle.Pickler):
    """Functions go by name, also those behind the decorators of `engine`; the object whose method is called goes as its
    class, since a change uses its arguments alone."""

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, FunctionType) and obj.__module__ != __name__ and obj is not rebuild:
            return _find_function, (obj.__module__, obj.__qualname__)
        if isinstance(obj, Operations):
            return _make_operations, (type(obj),)
        return NotImplemented


# Packages whose functions are operations.
_OPERATIONS: tuple[str, ...] = ("gatepost.store.",)
# What values are made of besides those of Gatepost.
_PLAIN = {
    ("functools", "partial"): partial,
    ("builtins", "set"): set,
    ("builtins", "frozenset"): frozenset,
    ("builtins", "bytearray"): bytearray,
    ("collections", "Counter"): Counter,
    ("collections", "OrderedDict"): OrderedDict,
    ("datetime", "datetime"): datetime,
    ("datetime", "timezone"): timezone,
    ("datetime", "timedelta"): timedelta,
    (rebuild.__module__, rebuild.__qualname__): rebuild,
    (compose.__module__, compose.__qualname__): compose,
}


def _find_function(module: str, name: str) -> Callable[..., Any]:
    """Return an operation by its name: a function that a module of `store` defines, not one that it has imported."""
    if not module.startswith(_OPERATIONS):
        raise pickle.UnpicklingError(f"{module} has no operations")
    found: Callable[..., Any] = attrgetter(name)(import_module(module))
    found = getattr(found, "__wrapped__", found)
    if not isinstance(found, FunctionType) or (found.__module__, found.__qualname__) != (module, name):
        raise pickle.UnpicklingError(f"{module}.{name} is no operation")
    return found


def _make_operations(kind: type[Operations]) -> Operations:
    if not issubclass(kind, Operations):
        raise pickle.UnpicklingError("no class of operations")
    return object.__new__(kind)


class _Unpickler(pickle.Unpickler):
    """Reads operations and plain data alone."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in _PLAIN:
            return _PLAIN[module, name]
        if module == __name__ and name in ("_find_function", "_make_operations"):
            return globals()[name]
        if module == "builtins" and (name == "Exception" or name.endswith("Error")):
            return getattr(builtins, name)
        found = attrgetter(name)(import_module(module)) if module.startswith("gatepost.") else None
        if not isinstance(found, type) or found.__module__ != module or not _is_value(found):
            raise pickle.UnpicklingError(f"{module}.{name} is no value of Gatepost")
        return found


def _is_value(kind: type) -> bool:
    values = (msgspec.Struct, tuple, Exception, Enum, Operations)
    return issubclass(kind, values) or bool(getattr(kind, "is_part_of_changes", False))


def _dump(value: object) -> bytes:
    buffer = io.BytesIO()
    _Pickler(buffer, pickle.HIGHEST_PROTOCOL).dump(value)
    return buffer.getvalue()


def _load(data: bytes) -> Any:
    return _Unpickler(io.BytesIO(data)).load()


_rows = msgspec.msgpack.Encoder()
_read_rows = msgspec.msgpack.Decoder(tuple[RecordRow, ...])


class WriterSocket:
    """The socket of the process that writes, in a folder of its user. Its path may be longer than sun_path (unix(7)),
    so it is reached through a descriptor of the folder."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        self.address = f"/proc/self/fd/{self._folder}/{name}"

    def listen(self) -> socket.socket:
        """Bind the socket and listen; whoever is left from a process that was killed is replaced."""
        Path(self.address).unlink(missing_ok=True)
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listening.bind(self.address)
        Path(self.address).chmod(0o600)
        listening.listen(64)
        listening.setblocking(False)
        return listening

    def remove(self) -> None:
        """Delete the socket's file."""
        Path(self.address).unlink(missing_ok=True)


class RemoteWriter(WritesChanges):
    """The process that writes, as the event loop of another process uses it."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._link: _Link | None = None
        self._connecting = asyncio.Lock()
        self._closed = False
        self._changes = self._commits = self._failures = 0

    async def apply(self, change: Change[A, R], argument: A, *, light: bool = False) -> R:
        """Have a change applied by the process that writes."""
        flags, result = await self._ask(_LIGHT if light else 0, _dump((change, argument)))
        if flags & _FAULT:
            self._failures += 1
            raise result
        self._changes += 1
        return cast("R", argument if flags & _SAME else result)

    async def apply_together(self, change: Change[A, R], arguments: Sequence[A]) -> Sequence[R | Exception]:  # noqa: ARG002
        """Have the records of messages written, which alone are changed together: they go as rows."""
        rows = [prepare_row(cast("MessageRecord", argument)) for argument in arguments]
        flags, outcomes = await self._ask(_ROWS, _rows.encode(rows))
        if flags & _SAME:
            self._changes += len(arguments)
            return cast("Sequence[R]", arguments)
        if flags & _FAULT:
            self._failures += len(arguments)
            raise outcomes
        failures = sum(isinstance(outcome, Exception) for outcome in outcomes)
        self._failures += failures
        self._changes += len(arguments) - failures
        results = zip(arguments, outcomes, strict=True)
        return [cast("R", argument) if outcome is None else outcome for argument, outcome in results]

    async def _ask(self, flags: int, body: bytes) -> tuple[int, Any]:
        if self._closed:
            raise StorageError("The storage is closed.")
        link = self._link or await self._connect()
        try:
            flags, result = await link.ask(flags, body)
        except Exception:
            self._failures += 1
            raise
        self._commits += bool(flags & _COMMIT)
        return flags, result

    async def close(self) -> None:
        self._closed = True
        if self._link:
            await self._link.finish()

    def counters(self) -> StoreCounters:
        """A commit is counted by the process whose change was the first in it."""
        return StoreCounters(self._changes, self._commits, self._failures)

    async def _connect(self) -> "_Link":
        async with self._connecting:
            if self._link is None:
                try:
                    _, link = await asyncio.get_running_loop().create_unix_connection(
                        lambda: _Link(self._forget), self._address
                    )
                except OSError:
                    raise StorageError(_ENDED) from None
                self._link = link
            return self._link

    def _forget(self) -> None:
        self._link = None


class _Link(asyncio.Protocol):
    """One connection to the process that writes."""

    def __init__(self, on_end: Callable[[], None]) -> None:
        self._on_end = on_end
        self._transport: asyncio.Transport | None = None
        self._waiting: dict[int, asyncio.Future[tuple[int, Any]]] = {}
        self._numbers = 0
        self._received = bytearray()
        self._unsent: list[bytes] = []
        self._idle: asyncio.Future[None] | None = None
        self._loop = asyncio.get_running_loop()

    async def ask(self, flags: int, body: bytes) -> tuple[int, Any]:
        """Return the flags and the result of a request."""
        if self._transport is None:
            raise StorageError(_ENDED)
        self._numbers = self._numbers + 1 & 0xFFFFFFFF
        answer: asyncio.Future[tuple[int, Any]] = self._loop.create_future()
        self._waiting[self._numbers] = answer
        if not self._unsent:
            self._loop.call_soon(self._send)
        self._unsent += (_HEAD.pack(len(body), self._numbers, flags), body)
        return await answer

    def _send(self) -> None:
        unsent, self._unsent = self._unsent, []
        if self._transport and not self._transport.is_closing():
            self._transport.write(b"".join(unsent))

    async def finish(self) -> None:
        """Close the connection once every change is answered."""
        if self._waiting:
            self._idle = asyncio.get_running_loop().create_future()
            await self._idle
        if self._transport:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._received += data
        for number, flags, body in _take_frames(self._received):
            answer = self._waiting.pop(number)
            if not answer.done():
                answer.set_result((flags, None) if flags & _SAME else _read_answer(flags, body))
        if self._idle and not self._waiting:
            self._idle.set_result(None)
            self._idle = None

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  whyever, it is gone
        self._on_end()
        self._transport = None
        waiting, self._waiting = self._waiting, {}
        for answer in waiting.values():
            if not answer.done():
                answer.set_exception(StorageError(_ENDED))
        if self._idle and not self._idle.done():
            self._idle.set_result(None)


def _read_answer(flags: int, body: bytes) -> tuple[int, Any]:
    try:
        return flags, _load(body)
    except Exception as fault:  # noqa: BLE001  whatever it is, who waits is told
        return flags | _FAULT, StorageError(f"An answer of the process that writes is not readable: {fault}.")


def _take_frames(buffer: bytearray) -> list[tuple[int, int, bytes]]:
    """Take all whole frames out of a buffer: number, flags and body of each."""
    frames, at = [], 0
    while at + _HEAD.size <= len(buffer):
        length, number, flags = _HEAD.unpack_from(buffer, at)
        end = at + _HEAD.size + length
        if end > len(buffer):
            break
        frames.append((number, flags, bytes(buffer[at + _HEAD.size : end])))
        at = end
    del buffer[:at]
    return frames


class _Client:
    """A process that has its changes written here."""

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        self.connection = connection
        self.received, self.unsent = bytearray(), bytearray()

    def read(self) -> list[tuple[int, int, bytes]] | None:
        """Return the requests that have come whole; None where the client has ended."""
        try:
            data = self.connection.recv(_READ_BYTES)
        except BlockingIOError:
            return []
        except OSError:
            return None
        self.received += data
        return _take_frames(self.received) if data else None

    def send(self) -> None:
        """Send what can be sent without waiting; a client that does not read does not hold up the others."""
        try:
            sent = self.connection.send(self.unsent)
        except OSError:  # it would have to wait, or has gone: the next read tells
            return
        del self.unsent[:sent]


class _Request(msgspec.Struct, eq=False):
    """What a client waits for: one change, or several that are answered together."""

    client: _Client
    number: int
    changes: list["_RequestedChange"]
    together: bool = False
    flags: int = 0


class _RequestedChange(PendingChange, eq=False, kw_only=True):
    request: _Request


def _read_request(client: _Client, number: int, flags: int, body: bytes) -> list[_RequestedChange]:
    change: Change[Any, Any]
    request = _Request(client, number, [], bool(flags & _ROWS))
    try:
        if request.together:
            changes = [_RequestedChange(insert_all, row, True, request=request) for row in _read_rows.decode(body)]
        else:
            change, argument = _load(body)
            changes = [_RequestedChange(change, argument, bool(flags & _LIGHT), request=request)]
    except Exception as fault:  # noqa: BLE001  a request that cannot be read fails alone, like a change that fails
        request.together = False
        changes = [_RequestedChange(_refuse_unreadable, str(fault), request=request)]
    request.changes = changes
    return changes


def _refuse_unreadable(_connection: object, reasons: Sequence[str]) -> Sequence[Any]:
    raise StorageError(f"A change is not readable for the process that writes: {reasons[0]}.")


class WriterServer:
    """Writes what clients ask for, until `control` ends and the last client has left."""

    def __init__(self, file: Path, listening: socket.socket, control: socket.socket) -> None:
        self._commits = GroupCommits(open_file(file))
        self._listening, self._control = listening, control
        self._selector = selectors.DefaultSelector()
        self._selector.register(listening, selectors.EVENT_READ)
        self._selector.register(control, selectors.EVENT_READ)
        self._clients: set[_Client] = set()
        self._controlled = True
        self._ended, self._was_group = 0.0, False

    def run(self) -> None:
        """Serve; returns when nobody is left who could ask."""
        waiting: CommitTurns[_RequestedChange] = CommitTurns()
        while self._controlled or self._clients or waiting:
            is_new = self._gather(0 if waiting else None, waiting)
            if is_new and self._was_group and time.monotonic() - self._ended < LINGER_SECONDS:
                # As in the writer thread: more is about to come, and a commit costs far more than a change.
                self._gather(LINGER_SECONDS, waiting)
            if waiting:
                group = waiting.next_group()
                self._write(group)
                self._ended, self._was_group = time.monotonic(), len(group) > 1
        self._commits.close()

    def _gather(self, seconds: float | None, waiting: CommitTurns[_RequestedChange]) -> bool:
        """Take what has come within so many seconds; return whether a change was among it."""
        is_new = False
        for key, events in self._selector.select(seconds):
            if key.fileobj is self._listening:
                self._accept()
            elif key.fileobj is self._control:
                self._selector.unregister(self._control)
                self._controlled = False
            else:
                for change in self._handle(cast("_Client", key.data), events):
                    waiting.add(change)
                    is_new = True
        return is_new

    def _accept(self) -> None:
        try:
            connection, _ = self._listening.accept()
        except OSError:
            return
        client = _Client(connection)
        self._clients.add(client)
        self._selector.register(connection, selectors.EVENT_READ, client)

    def _handle(self, client: _Client, events: int) -> list[_RequestedChange]:
        if events & selectors.EVENT_WRITE:
            self._send(client)
        if not events & selectors.EVENT_READ:
            return []
        frames = client.read()
        if frames is None:
            self._selector.unregister(client.connection)
            client.connection.close()
            self._clients.discard(client)
            return []
        return [change for frame in frames for change in _read_request(client, *frame)]

    def _write(self, group: Sequence[_RequestedChange]) -> None:
        before = self._commits.commits
        self._commits.commit(group)
        commits = self._commits.commits - before
        for change in group:
            # Where the group had to be taken apart, each of its changes has a commit of its own.
            if commits > 0 and change.fault is None:
                change.request.flags |= _COMMIT
                commits -= 1
        # Changes of one kind are applied in their order: with the last of a request all are done.
        done = [change.request for change in group if change is change.request.changes[-1]]
        for request in done:
            request.client.unsent += _answer(request)
        for client in {request.client for request in done}:
            self._send(client)

    def _send(self, client: _Client) -> None:
        if client not in self._clients:
            return
        client.send()
        wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if client.unsent else 0)
        if self._selector.get_key(client.connection).events != wanted:
            self._selector.modify(client.connection, wanted, client)


def _answer(request: _Request) -> bytes:
    flags, changes = request.flags, request.changes
    if all(change.fault is None and change.result is change.argument for change in changes):
        flags, body = flags | _SAME, b""
    elif request.together:
        body = _dump([_outcome(change) for change in changes])
    elif changes[0].fault is not None:
        flags, body = flags | _FAULT, _dump(_outcome(changes[0]))
    else:
        body = _dump(changes[0].result)
    return _HEAD.pack(len(body), request.number, flags) + body


def _outcome(change: _RequestedChange) -> Any:
    """The fault or the result of a change, as it can be sent; None where the result is the argument."""
    if change.fault is None:
        return None if change.result is change.argument else change.result
    try:
        _dump(change.fault)
    except Exception:  # noqa: BLE001  whatever it holds, its client is told
        return StorageError(f"The change failed ({type(change.fault).__name__}).")
    return change.fault
