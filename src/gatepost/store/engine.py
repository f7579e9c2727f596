"""Statements, work and operations: what is to be done with the database, written once for both engines.

A piece of work is a generator: it yields a statement and is sent its result. So the rules (what counts, what is full,
what is audited) stand in one place, while SQLite runs them in its writer thread and PostgreSQL over the network.

Every store operation is declared once, as a method of its subject's class that yields statements. The decorator says
how an engine has to run it: `change` in one transaction that is durable when the call returns, `query` for reading,
`snapshot` for reading several times as of one moment, `large_query` for reading that may take long. Operations that
need more than one piece of work, or none, call the engine themselves.
"""

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Mapping, Sequence
from functools import partial, wraps
from itertools import starmap
from typing import Any, Concatenate, ParamSpec, TypeAlias, TypeVar

import apsw
import msgspec

from gatepost.store.errors import StorageError
from gatepost.store.sql import Bulk, Row, Sql

A = TypeVar("A")
T = TypeVar("T")
P = ParamSpec("P")
S = TypeVar("S", bound="Operations")


class Many(msgspec.Struct, frozen=True):
    """A parameter that is an array of text or of numbers; never empty."""

    values: tuple[Any, ...]


class Read(msgspec.Struct, frozen=True):
    """A statement whose result is its rows."""

    statement: Sql
    parameters: Row = ()


class Write(msgspec.Struct, frozen=True):
    """A statement whose result is the number of rows that it changed."""

    statement: Sql
    parameters: Row = ()


class AnnouncedWrite(Write, frozen=True, kw_only=True):
    """A write that the observer of the store is told of, as `news`, once its transaction is durable."""

    news: Any


class Script(msgspec.Struct, frozen=True):
    """Several statements in the words of one engine, as a schema file has them; it has no result."""

    statements: str


class Rollback(Exception):  # noqa: N818  an outcome, not a fault
    """Ends a piece of work with a result, and with nothing of it applied."""

    def __init__(self, result: Any) -> None:
        super().__init__(result)
        self.result = result


Step: TypeAlias = Read | Write | Bulk | Script
Work: TypeAlias = Generator[Step, Any, T]

DAY_MILLISECONDS = 86_400_000


def write_rows(statement: Sql, *parameters: object) -> Work[int]:
    """One write as a whole piece of work; returns how many rows it changed."""
    changed: int = yield Write(statement, parameters)
    return changed


def storable(text: str) -> str:
    """Text as both engines can hold it: PostgreSQL has no NUL, and lone surrogates are not UTF-8."""
    if text.isascii():
        return text.replace("\0", "\N{REPLACEMENT CHARACTER}") if "\0" in text else text
    plain = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return plain.replace("\0", "\N{REPLACEMENT CHARACTER}")


class StoreCounters(msgspec.Struct, frozen=True):
    """Work done so far: changes written, in how many commits, and commits that failed."""

    changes: int
    commits: int
    failures: int


ChangeObserver: TypeAlias = Callable[[Any], None]


class Engine(ABC):
    """A database that does work. Work is handed over as a function, since it may have to be done again."""

    # How many groups of records are written at the same time.
    groups_under_way = 1
    # Whether one machine alone has the database.
    is_local = False
    # Whether the bytes of small messages that are held lie here.
    keeps_held_bytes = False
    # Whether a join looks up every row by itself, whatever number of them there are.
    joins_by_lookup = False
    _observer: ChangeObserver | None = None
    _closed = False

    def _check_open(self) -> None:
        if self._closed:
            raise StorageError("The storage is closed.")

    def observe_changes(self, observer: ChangeObserver) -> None:
        """Have every announced change reported from now on, once it is durable; the observer must not raise."""
        self._observer = observer

    def change(self, work: Callable[[], Work[T]]) -> Coroutine[Any, Any, T]:
        """Do work that changes something, in one transaction; returns when it is durable, and what it announces is
        reported."""
        return self._apply(work) if self._observer is None else self._apply_observed(work, self._observer)

    async def change_for_mail(self, work: Callable[[], Work[T]]) -> T:
        """Do a change that a message makes, as `change` does: its commit is shared with the records of messages, and
        waits for no other change. What it announces is not reported."""
        return await self._apply(work)

    async def _apply_observed(self, work: Callable[[], Work[T]], observer: ChangeObserver) -> T:
        announced: list[Any] = []
        result = await self._apply(partial(_collect_news, work, announced))
        for news in announced:
            observer(news)
        return result

    @abstractmethod
    async def _apply(self, work: Callable[[], Work[T]]) -> T:
        """Do the work of a change."""

    @abstractmethod
    async def change_together(
        self,
        all_at_once: Callable[[apsw.Connection, Sequence[A]], Sequence[T]],
        work: Callable[[Sequence[A]], Work[Sequence[T]]],
        arguments: Sequence[A],
    ) -> Sequence[T | Exception]:
        """Do a change that every message makes, for a group of them (`change_groups`); returns when it is durable.
        There is one result for each argument, or the fault of that one alone. SQLite calls `all_at_once`; PostgreSQL
        does `work`, whose first statement makes the whole change and is a transaction of its own."""

    @abstractmethod
    async def query(self, work: Callable[[], Work[T]]) -> T:
        """Do work that only reads."""

    @abstractmethod
    async def query_once(self, work: Callable[[], Work[T]]) -> T:
        """Do work that only reads, and sees one moment throughout."""

    @abstractmethod
    async def search(self, work: Callable[[], Work[T]]) -> T:
        """Do work that may read very many rows, and sees one moment throughout. Few searches run at a time, and none of
        them keeps other work from being done: mail must not wait for what people look for."""

    @abstractmethod
    def stream(
        self, read: Read, convert: Callable[[Sequence[Row]], T], first: int, batch: int
    ) -> AsyncGenerator[T, None]:
        """The rows of one statement in batches of `batch` (the first one of `first`), each as `convert` returns it.
        The next batch is read ahead."""

    async def listen(self, channel: str, wake: Callable[[], None]) -> None:  # noqa: B027
        """Call `wake` for every notice on a channel, for as long as the storage can tell; SQLite cannot."""

    async def drop_days(self, before: int, tenants: Mapping[str, int]) -> tuple[int, int]:  # noqa: ARG002
        """Drop whole days of results of which nothing is kept, and make room for the days that come: results are kept
        from `before` on, those of some tenants from their own times on. Returns how many went, and before which time
        the others have to go one by one. On SQLite, all go one by one."""
        return 0, before

    @abstractmethod
    async def close(self) -> None:
        """Finish what is under way and close the database."""

    @abstractmethod
    def counters(self) -> StoreCounters:
        """How much was written so far."""


class Operations:
    """Base of the operations on one subject, such as `messages.Messages`: they run on one engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def _repeat(self, step: Callable[[], Work[int]]) -> int:
        """Run a change again until it finds nothing to do; returns the sum of its results.

        Each run is small enough that a result which arrives meanwhile waits for milliseconds, not seconds.
        """
        total = 0
        while done := await self._engine.change(step):
            total += done
        return total

    async def _repeat_write(self, statement: Sql, *parameters: object) -> int:
        """Run a statement that changes some rows again until it finds none; returns how many it changed."""
        return await self._repeat(partial(write_rows, statement, *parameters))


def _collect_news(work: Callable[[], Work[T]], announced: list[Any]) -> Work[T]:
    """Do work, perhaps again, and collect what it announces. Work that ends with a rollback announces nothing."""
    announced.clear()
    running = work()
    sent: Any = None
    try:
        while True:
            step = running.send(sent)
            if isinstance(step, AnnouncedWrite):
                announced.append(step.news)
            sent = yield step
    except StopIteration as stop:
        result: T = stop.value
        return result
    except Rollback:
        announced.clear()
        raise


def _declare(
    way: Callable[[Engine], Callable[[Callable[[], Work[Any]]], Coroutine[Any, Any, Any]]],
) -> Callable[[Callable[Concatenate[S, P], Work[T]]], Callable[Concatenate[S, P], Coroutine[Any, Any, T]]]:
    """Return a decorator for operations whose work an engine does in this way."""

    def declare(work: Callable[Concatenate[S, P], Work[T]]) -> Callable[Concatenate[S, P], Coroutine[Any, Any, T]]:
        @wraps(work)
        def run(self: S, /, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, T]:
            return way(self._engine)(partial(work, self, *args, **kwargs))

        return run

    return declare


# An operation that changes something, in one transaction; it returns when the change is durable.
change = _declare(lambda engine: engine.change)
# A change that a message waits for.
mail_change = _declare(lambda engine: engine.change_for_mail)
# An operation that only reads.
query = _declare(lambda engine: engine.query)
# An operation that reads several times and sees one moment throughout.
snapshot = _declare(lambda engine: engine.query_once)
# An operation that may read very many rows, and sees one moment throughout.
large_query = _declare(lambda engine: engine.search)


def convert_each(make: Callable[..., T], rows: Sequence[Row]) -> list[T]:
    """A batch of a stream as values: `make` is called with the columns of each row."""
    return list(starmap(make, rows))


def cancel_read(ahead: asyncio.Future[Any]) -> None:
    """Cancel the read of a batch that is no longer wanted; should it fail, that is not reported either."""
    ahead.cancel()
    ahead.add_done_callback(lambda done: done.cancelled() or done.exception())


def now() -> int:
    """The current time in Unix milliseconds."""
    return time.time_ns() // 1_000_000


def normalize_scope(scope: str | None) -> str | None:
    """A scope as it is stored: a tenant's uid in lower case, None for the global scope."""
    return storable(scope.lower()) if scope else None
