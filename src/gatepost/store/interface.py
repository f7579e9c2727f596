"""What every storage engine can do. One interface, several engines; callers never see SQL."""

from typing import Protocol

import msgspec

from gatepost.analysis import Report
from gatepost.mail.message import Envelope


class MessageRecord(msgspec.Struct, frozen=True):
    """One analysis as it is kept. Times are Unix milliseconds."""

    ggrid: str
    created: int
    completed: int
    envelope: Envelope
    size: int
    sha256: str
    report: Report


class Tenant(msgspec.Struct, frozen=True):
    """A customer of the deployment. `uid` is a lower-case UUID."""

    uid: str
    name: str
    created: int


class StorageError(Exception):
    """Storage cannot be used; the text says what to do about it."""


class Store(Protocol):
    """All that is kept. Every method that changes something returns only when the change survives a kill."""

    async def close(self) -> None: ...

    async def record_message(self, record: MessageRecord) -> MessageRecord:
        """Keep a result; a stored one never changes, so the first of a ggrid is kept and returned."""
        ...

    async def message(self, ggrid: str) -> MessageRecord | None: ...

    async def purge_messages(self, before: int) -> int:
        """Delete what was completed before that time; returns how many."""
        ...

    async def create_tenant(self, name: str) -> Tenant: ...

    async def tenants(self) -> tuple[Tenant, ...]: ...

    async def tenant(self, uid: str) -> Tenant | None: ...
