"""What stands behind every page: the same store, cores and rules that the APIs use, and nothing of its own.

The scopes that a visitor can choose from, by name.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

import msgspec

from gatepost import __version__
from gatepost.abby.authenticator import Guesses
from gatepost.abby.cores import Cores
from gatepost.abby.held_mail import HeldMailOnCores
from gatepost.abby.lists import Exports
from gatepost.policy.layers import Policies
from gatepost.rejudge.dry_run import ListDryRuns
from gatepost.scanning.spool import Spool
from gatepost.store.store import Store
from gatepost.store.tenants import Tenant
from gatepost.web.credentials import Passwords
from gatepost.web.rendering import PageRenderer
from gatepost.web.request import GLOBAL, SignedInRequest


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


def no_examination() -> tuple[Diagnosis, ...]:
    """Nobody can be asked."""
    return ()


def no_feedback(_raw: bytes, _wanted: bool) -> None:
    """Nobody learns."""


class Installation(msgspec.Struct, frozen=True):
    """What the system page tells of this process: its version, since when it runs, the settings in force without their
    secrets, as (file, key, value), and an examination that may take some seconds. `learn` keeps a message that was
    judged wrongly for the text model's next training."""

    version: str = __version__
    started: float = 0.0
    settings: tuple[tuple[str, str, str], ...] = ()
    examine: Examination = no_examination
    learn: Callable[[bytes, bool], object] = no_feedback


class WebContext(msgspec.Struct, frozen=True):
    """Everything that pages need."""

    store: Store
    cores: Cores
    held_mail: HeldMailOnCores
    spool: Spool
    policies: Policies
    dry_runs: ListDryRuns
    exports: Exports
    passwords: Passwords
    guesses: Guesses
    renderer: PageRenderer
    installation: Installation
    scan_seconds: float
    clock: Callable[[], float] = time.time
    examining: asyncio.Lock = msgspec.field(default_factory=asyncio.Lock)

    def now(self) -> int:
        """Unix milliseconds."""
        return int(self.clock() * 1000)


WHOLE = "the whole deployment"


class Scopes(msgspec.Struct, frozen=True):
    """Tenants that the visitor may see; `whole` says whether the deployment-global scope is theirs too."""

    tenants: tuple[Tenant, ...]
    whole: bool

    @property
    def choices(self) -> tuple[tuple[str, str], ...]:
        """(value, name) for a field."""
        named = tuple((tenant.uid, tenant.name) for tenant in self.tenants)
        return ((GLOBAL, WHOLE), *named) if self.whole else named

    def name(self, uid: str | None) -> str:
        """What a scope is called."""
        if uid is None:
            return WHOLE
        return next((tenant.name for tenant in self.tenants if tenant.uid == uid), uid)


async def scopes(desk: WebContext, visit: SignedInRequest) -> Scopes:
    """All of them, or the visitor's own."""
    if visit.user.tenant:
        own = await desk.store.tenant(visit.user.tenant)
        return Scopes((own,) if own else (), whole=False)
    return Scopes(await desk.store.tenants(), whole=True)
