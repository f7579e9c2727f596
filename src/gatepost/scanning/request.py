"""One message on its way through a core: the request, its body, the result, and the core itself as a protocol."""

from typing import Literal, Protocol, TypeAlias

import msgspec

from gatepost.mail.message import Envelope
from gatepost.report import Report

# How long a core waits for a free slot when it is asked to say that it has one.
SLOT_SECONDS = 1.0

# How a message came: from a mail server, by the scan API, or by a person on the scan page, which is a trial; "" is not
# known. A message that came with a report is read for learning: it is neither judged nor put on record.
Source: TypeAlias = Literal["", "smtp", "rest", "page", "report"]


class MessageBody(Protocol):
    """The raw bytes of a message, in memory or on disk; read as often as needed, closed once by its maker."""

    @property
    def size(self) -> int: ...

    def read(self) -> bytes:
        """All bytes at once."""
        ...


class ScanRequest(msgspec.Struct, frozen=True):
    """What a source hands to the core. `ggrid` names the analysis for good; `created` is Unix time in milliseconds;
    `source` decides whether the message may be released later. `unfit` is why the message cannot be sent on as it came,
    "" if it can: then `deliver` and `bounce` become `quarantine`."""

    ggrid: str
    created: int
    envelope: Envelope
    body: MessageBody
    source: Source = ""
    unfit: str = ""

    @property
    def is_trial(self) -> bool:
        """Did a person upload it on the scan page? Then it is no mail: it is neither counted nor held nor learnt."""
        return self.source == "page"


class ScanResult(msgspec.Struct, frozen=True):
    """What the core answers, once the record is durable."""

    ggrid: str
    created: int
    completed: int
    report: Report


class Load(msgspec.Struct, frozen=True, omit_defaults=True):
    """How busy a core is. It throttles from `threshold` on and is full at `maximum`. `fault` is why no message could be
    taken to its end, such as storage that is away; `slowed` why mail waits with its senders, such as a next hop that
    cannot be reached; `warned` is what will become a fault, such as a certificate that ends soon."""

    in_processing: int
    threshold: int
    maximum: int
    fault: str = ""
    slowed: str = ""
    warned: tuple[str, ...] = ()

    @property
    def full(self) -> bool:
        return self.in_processing >= self.maximum

    @property
    def trouble(self) -> str:
        """Why messages are not taken to their end, or slowly."""
        return self.fault or self.slowed

    @property
    def throttling(self) -> bool:
        return self.in_processing >= self.threshold


class Condition(msgspec.Struct):
    """The state of what all messages of a process need, as it was seen last: see `Load`. Warnings are by component."""

    fault: str = ""
    slowed: str = ""
    warnings: dict[str, str] = msgspec.field(default_factory=dict)

    @property
    def warned(self) -> tuple[str, ...]:
        """What will become a fault."""
        return tuple(self.warnings.values())

    def describe(self, load: Load) -> Load:
        """Return a load with what is known besides its slots."""
        if self.fault or self.slowed or self.warnings:
            return msgspec.structs.replace(load, fault=self.fault, slowed=self.slowed, warned=self.warned)
        return load


class ScansMail(Protocol):
    """A core within this process; `guard.service.Guard` is one."""

    def load(self) -> Load:
        """How busy it is."""
        ...

    async def wait_for_slot(self) -> None:
        """Return once a slot is free, which is not reserved, or `SLOT_SECONDS` later."""
        ...

    async def scan(self, request: ScanRequest) -> "ScanResult | Full":
        """Analyse one message. Raises `StorageError` where the result cannot be put on record."""
        ...


class RestCore(ScansMail, Protocol):
    """A core within this process as REST scans get it."""

    @property
    def rest_enabled(self) -> bool:
        """Whether `restApi` is among the scan sources."""
        ...


class Full(msgspec.Struct, frozen=True):
    """The core has no slot; nothing was done."""

    load: Load
