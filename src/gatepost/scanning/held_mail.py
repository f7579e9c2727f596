"""What the quarantine is to those who hand mail to it, and what a release comes to.

A source codes against `Holding`; the quarantine sends through `Sends`, which the relay is.
"""

from collections.abc import Sequence
from typing import Protocol, TypeAlias

import msgspec

from gatepost.scanning.request import MessageBody, ScanRequest, ScanResult


class Holding(Protocol):
    """Where a source leaves mail that must not go on."""

    async def keep(self, request: ScanRequest, result: ScanResult, raw: MessageBody) -> None:
        """Hold a message. Returns when bytes and record survive a power cut; else raises `StorageError`."""
        ...

    async def undecided_before(self, digest: str) -> int:
        """How often this digest of bytes and envelope was undecided in the last 24 hours, this time not counted.

        This time is put on record, so the calls for one message that stays undecided answer 0, 1, 2.
        """
        ...


class Replied(Protocol):
    """The last word of the next hop (RFC 5321 section 4.2): 2yz means that the message is its own from now on."""

    @property
    def code(self) -> int: ...


class Sends(Protocol):
    """The way to the next hop. All recipients get the message, or none: a reply other than 2yz says that none did."""

    async def send(self, sender: str, recipients: Sequence[str], raw: bytes) -> Replied: ...


class Released(msgspec.Struct, frozen=True, tag="released"):
    """It is with the next hop: since when, by whose order, for whom. The same answer for whoever asks again."""

    ggrid: str
    time: int
    by: str
    recipients: tuple[str, ...]


class NotHeld(msgspec.Struct, frozen=True, tag="notHeld"):
    """Nothing is held here under this ggrid."""


class NotSent(msgspec.Struct, frozen=True, tag="notSent"):
    """The next hop did not take it; it is held as before. `reason` is the end of a sentence."""

    reason: str


class Deleted(msgspec.Struct, frozen=True, tag="deleted"):
    """It is gone for good; its result stays on record."""


class Busy(msgspec.Struct, frozen=True, tag="busy"):
    """Somebody else is releasing it, or was cut off while doing so less than a lease ago."""


Outcome: TypeAlias = Released | NotHeld | NotSent | Busy
