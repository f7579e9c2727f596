"""What stands behind every page: the same store, cores and rules that the APIs use, and nothing of its own."""

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

import msgspec

from gatepost import __version__
from gatepost.abby.cores import Cores
from gatepost.abby.credentials import Guesses
from gatepost.abby.dryrun import DryRuns
from gatepost.abby.exports import Exports
from gatepost.abby.holding import HeldMailRoom
from gatepost.abby.web.passwords import Passwords
from gatepost.abby.web.rendering import Renderer
from gatepost.guard.spool import Spool
from gatepost.policy import Policies
from gatepost.store.store import Store


class Diagnosis(Protocol):
    """One row of an examination: what was looked at, ok, warn or fail, what was found, and what to do about it."""

    @property
    def what(self) -> str: ...

    @property
    def state(self) -> str: ...

    @property
    def found(self) -> str: ...

    @property
    def advice(self) -> str: ...


Examination: TypeAlias = Callable[[], Sequence[Diagnosis]]


def unexamined() -> tuple[Diagnosis, ...]:
    """Nobody can be asked."""
    return ()


def unlearnt(_raw: bytes, _wanted: bool) -> None:
    """Nobody learns."""


class Installation(msgspec.Struct, frozen=True):
    """What the system page tells of this process: its version, since when it runs, the settings in force without their
    secrets, as (file, key, value), and an examination that may take some seconds. `learn` keeps a message that was
    judged wrongly for the text model's next training."""

    version: str = __version__
    started: float = 0.0
    settings: tuple[tuple[str, str, str], ...] = ()
    examine: Examination = unexamined
    learn: Callable[[bytes, bool], object] = unlearnt


class Desk(msgspec.Struct, frozen=True):
    """Everything that pages need."""

    store: Store
    cores: Cores
    room: HeldMailRoom
    spool: Spool
    policies: Policies
    trials: DryRuns
    exports: Exports
    passwords: Passwords
    guesses: Guesses
    renderer: Renderer
    installation: Installation
    scan_seconds: float
    clock: Callable[[], float] = time.time
    examining: asyncio.Lock = msgspec.field(default_factory=asyncio.Lock)

    def now(self) -> int:
        """Unix milliseconds."""
        return int(self.clock() * 1000)
