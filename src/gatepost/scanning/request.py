"""One message on its way through a core: the request, the result, and how busy the core is."""

import re
import time
from typing import Literal, TypeAlias

import msgspec

from gatepost.mail.message import Envelope, Receipt
from gatepost.report import Report
from gatepost.scanning.edits import Edit

# How a message came: from a mail server that hands it over or that asks for a verdict (milter), by the scan API, or by
# a person on the scan page, which is a trial; "" is not known.
Source: TypeAlias = Literal["", "smtp", "milter", "rest", "page"]


_QUEUE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+/-]{0,99}", re.ASCII)
# One Received field (RFC 5321 section 4.4) and the id in it; both are cut.
_RECEIVED = re.compile(rb"(?:\A|\n)received[ \t]*+:([^\r\n]*+(?:\r?\n[ \t][^\r\n]*+)*+)", re.IGNORECASE)
_RECEIVED_ID = re.compile(rb"[\s)]id[ \t\r\n]++([A-Za-z0-9][A-Za-z0-9._+/-]{0,99})(?=[\s;]|$)")
MAX_RECEIVED = 2_000


def is_queue_id(text: str) -> bool:
    """Whether a text can be the id of a message in a queue."""
    return bool(_QUEUE_ID.fullmatch(text))


def received_id(field: bytes) -> str:
    """Return the queue id that a Received field names; "" if it names none."""
    found = _RECEIVED_ID.search(field[:MAX_RECEIVED])
    return found[1].decode("ascii") if found else ""


def first_received_id(head: bytes) -> str:
    """Return the queue id that the topmost Received field at the beginning of a message names; "" if there is none."""
    found = _RECEIVED.search(head[:MAX_RECEIVED])
    return received_id(found[1]) if found else ""


class ScanRequest(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a source hands to the core beside the bytes of a message. `ggrid` names the analysis for good; `created` is
    Unix time in milliseconds; `source` decides whether the message may be released later. `unfit` is why the message
    cannot be sent on as it came, "" if it can: then `deliver` and `bounce` become `quarantine`. `client` is the address
    that it came from over SMTP, and `queue_id` the id that it has in the queue there. `can_act`: the source carries out
    actions of the policy (see `policy.rules`); for others, the decision is all."""

    ggrid: str
    created: int
    envelope: Envelope
    source: Source = ""
    unfit: str = ""
    client: str = ""
    queue_id: str = ""
    can_act: bool = False

    @property
    def is_trial(self) -> bool:
        """Did a person upload it on the scan page? Then it is no mail: it is neither counted nor held nor learnt."""
        return self.source == "page"


class ScanResult(msgspec.Struct, frozen=True):
    """What the core answers, once the record is durable. `edits` are the changes that the action of the report makes
    to the message."""

    ggrid: str
    created: int
    completed: int
    report: Report
    receipt: Receipt | None = None
    edits: tuple[Edit, ...] = ()


class Load(msgspec.Struct, frozen=True, omit_defaults=True):
    """How busy a core is. It throttles from `threshold` on and is full at `maximum`. `fault` is why no message could be
    taken to its end, such as storage that is away; `slowed` why mail waits with its senders, such as a next hop that
    cannot be reached; `warned` is what an operator should look at although mail is taken, such as a certificate that
    ends soon or a sender over a limit. `waiting` counts the messages that wait for a slot there."""

    in_processing: int
    threshold: int
    maximum: int
    fault: str = ""
    slowed: str = ""
    warned: tuple[str, ...] = ()
    waiting: int = 0

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
    """The state of what all messages of a process need, as it was seen last: see `Load`. Warnings are by component; a
    note is one that is shown until a time of the monotonic clock."""

    fault: str = ""
    slowed: str = ""
    warnings: dict[str, str] = msgspec.field(default_factory=dict)
    note: str = ""
    until: float = 0.0

    def remark(self, note: str, seconds: float) -> None:
        """Show a note for so long."""
        self.note, self.until = note, time.monotonic() + seconds

    @property
    def warned(self) -> tuple[str, ...]:
        """What an operator should look at."""
        is_noted = self.note and time.monotonic() < self.until
        return (*self.warnings.values(), *((self.note,) if is_noted else ()))

    def describe(self, load: Load) -> Load:
        """Return a load with what is known besides its slots."""
        if self.fault or self.slowed or self.warnings or self.note:
            return msgspec.structs.replace(load, fault=self.fault, slowed=self.slowed, warned=self.warned)
        return load


class Full(msgspec.Struct, frozen=True):
    """The core takes no message now; nothing was done. `overloaded`: the messages that wait there hold too much."""

    load: Load
    overloaded: bool = False
