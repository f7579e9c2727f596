"""One message on its way through a core: the request, its form on the wire, the result, how busy the core is, and what
each tenant may have of it.

Over HTTPS a request is four bytes of length, big-endian, that much JSON, and then the raw message. The parts come in
whatever pieces the network makes; the message goes to the spool as it arrives.

A message can be changed on its way to the next hop: stretches of bytes go, and a notice comes in their place. guard's
process parses no mail. A sealed worker says where a part lies (`Cuts`), guard writes what goes there, and everything
between the edits leaves as it came.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Annotated, Literal, TypeAlias

import msgspec

from gatepost.analysis.report import Report
from gatepost.api.errors import EMPTY_EMAIL, INVALID_PARAMETERS, MALFORMED_REQUEST, PAYLOAD_TOO_LARGE, Failure
from gatepost.api.scanning import MAX_BODY
from gatepost.ids import canonical
from gatepost.mail.message import Envelope, Receipt
from gatepost.process.health import OF_SLOTS, Code, Health, HealthLedger, Reason, make_reason
from gatepost.scanning.spool import MessageBody, SpooledBody
from gatepost.times import now

MAX_CUTS = 200


class Cut(msgspec.Struct, frozen=True):
    """Bytes of a message that go: the part with this `path`, in whose place a notice goes, or with "" nothing."""

    start: Annotated[int, msgspec.Meta(ge=0)]
    end: Annotated[int, msgspec.Meta(ge=0)]
    path: Annotated[str, msgspec.Meta(max_length=1_000)] = ""


class Cuts(msgspec.Struct, frozen=True, tag=True):
    """What goes from a message that is stripped of attachments; without any cut it cannot be stripped."""

    cuts: Annotated[tuple[Cut, ...], msgspec.Meta(max_length=MAX_CUTS)] = ()


class Edit(msgspec.Struct, frozen=True, order=True):
    """The bytes from `start` to `end` of a message are replaced by `text`."""

    start: int
    end: int
    text: bytes = b""


def order_edits(edits: Iterable[Edit], size: int) -> tuple[Edit, ...] | None:
    """Return the edits in their order; None where two overlap, or one is outside of a message of that size."""
    found = tuple(sorted(edits))
    position = 0
    for edit in found:
        if not position <= edit.start <= edit.end <= size:
            return None
        position = edit.end
    return found


def apply_edits(pieces: Iterable[bytes], edits: Sequence[Edit]) -> Iterator[bytes]:
    """Yield a message, which comes in pieces, with edits that are in order."""
    begin = position = number = 0
    for piece in pieces:
        end = begin + len(piece)
        while number < len(edits) and edits[number].start < end:
            edit = edits[number]
            number += 1
            if edit.start > position:
                yield piece[position - begin : edit.start - begin]
            if edit.text:
                yield edit.text
            position = edit.end
        if position < end:
            yield piece[position - begin :]
            position = end
        begin = end
    yield from (edit.text for edit in edits[number:] if edit.text)


# How a message came: from a mail server that hands it over (smtp) or asks for a verdict (milter, spamd, rspamd), by the
# scan API, or by a person on the scan page, which is a trial; "" is not known.
Source: TypeAlias = Literal["", "smtp", "milter", "spamd", "rspamd", "rest", "page"]


_QUEUE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+/-]{0,99}", re.ASCII)
# One Received field (RFC 5321 section 4.4) and the id in it; both are cut.
_RECEIVED = re.compile(rb"\nreceived[ \t]*+:([^\r\n]*+(?>\r?\n[ \t][^\r\n]*+)*+)", re.IGNORECASE)
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
    # With a line end before it: what begins with a fixed character is looked for ten times as fast as a line's start.
    found = _RECEIVED.search(b"\n" + head[:MAX_RECEIVED])
    return received_id(found[1]) if found else ""


class ScanRequest(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a source hands to the core beside the bytes of a message. `ggrid` names the analysis for good; `created` is
    Unix time in milliseconds; `source` decides whether the message may be released later. `unfit` is why the message
    cannot be sent on as it came, "" if it can: then `deliver` and `bounce` become `quarantine`. `client` is the address
    that it came from over SMTP, and `queue_id` the id that it has in the queue there. `can_act`: the source carries out
    actions of the policy (see `policy.rules`); for others, the decision is all. `guesses`: the recipients are what the
    header says, where a sender may have written it."""

    ggrid: str
    created: int
    envelope: Envelope
    source: Source = ""
    unfit: str = ""
    client: str = ""
    queue_id: str = ""
    can_act: bool = False
    guesses: bool = False

    @property
    def is_trial(self) -> bool:
        """Did a person upload it on the scan page? Then it is no mail: it is neither counted nor held nor learnt."""
        return self.source == "page"


class ScanResult(msgspec.Struct, frozen=True):
    """What the core answers, once the record is durable. `edits` are the changes that the action of the report makes
    to the message. One that `is_held` was held by the commit of its record."""

    ggrid: str
    created: int
    completed: int
    report: Report
    receipt: Receipt | None = None
    edits: tuple[Edit, ...] = ()
    is_held: bool = False


class Load(msgspec.Struct, frozen=True, omit_defaults=True):
    """How busy a core is, and what is wrong with it. It throttles from `threshold` on and is full at `maximum`;
    `waiting` counts the messages that wait for a slot there."""

    in_processing: int
    threshold: int
    maximum: int
    waiting: int = 0
    reasons: tuple[Reason, ...] = ()

    @property
    def full(self) -> bool:
        return self.in_processing >= self.maximum

    @property
    def throttling(self) -> bool:
        return self.in_processing >= self.threshold

    @property
    def health(self) -> Health:
        """How the core is: its slots, and what it has said besides."""
        slots = self._describe_slots()
        said = [each for each in self.reasons if each.code in slots or each.code not in OF_SLOTS]
        known = {each.code for each in said}
        return Health.of([*said, *(make_reason(code, slots[code], now()) for code in slots.keys() - known)])

    def with_reasons(self, ledger: HealthLedger) -> "Load":
        """Return this load with everything that is wrong in its process."""
        slots = self._describe_slots()
        for code in OF_SLOTS:
            ledger.note(code, slots.get(code, ""))
        reasons = ledger.reasons
        return msgspec.structs.replace(self, reasons=reasons) if reasons else self

    def _describe_slots(self) -> dict[Code, str]:
        """Why messages wait for a slot, or are delayed."""
        if self.full:
            return {"full": f"all {self.maximum:,} slots are in use"}
        used = f"{self.in_processing:,} of {self.maximum:,} slots are in use"
        return {"throttling": f"new messages are delayed: {used}"} if self.throttling else {}


# A tenant may have so many times as much of a thing as is free of it.
SHARE = 3


class Shares:
    """What each tenant has of a thing that all share, such as slots or the bytes of a spool; None is the deployment.
    The more one has, the more must be free for it to get more (the dynamic threshold of Choudhury and Hahne, 1998): a
    tenant that takes all that it can leaves a quarter to others."""

    def __init__(self, maximum: int) -> None:
        self.maximum, self.used = maximum, 0
        self._of: Counter[str | None] = Counter()

    @property
    def free(self) -> int:
        return self.maximum - self.used

    def has_room(self, tenant: str | None, amount: int = 1) -> bool:
        """Whether a tenant may have so much more: it is free, and the tenant has less than its share."""
        return amount <= self.free and self._of.get(tenant, 0) < SHARE * max(1, self.free)

    def take(self, tenant: str | None, amount: int = 1) -> None:
        self.used += amount
        self._of[tenant] += amount

    def give_back(self, tenant: str | None, amount: int = 1) -> None:
        self.used -= amount
        self._of[tenant] -= amount
        if not self._of[tenant]:
            del self._of[tenant]


class Full(msgspec.Struct, frozen=True):
    """The core takes no message now; nothing was done. `overloaded`: the messages that wait there hold too much."""

    load: Load
    overloaded: bool = False


# What a core answers to a scan whose result its storage could not keep (RFC 4918 section 11.5).
STORAGE_FAILED = 507
CONTENT_TYPE = "application/vnd.gatepost.scan"
MAX_HEAD = 4 << 20
CHUNK = 256 << 10
_LENGTH = 4


_decoder = msgspec.json.Decoder(ScanRequest)


def split_upload(data: bytes) -> tuple[ScanRequest, bytes] | None:
    """Return request and message of a whole body in memory; None where something is wrong, which `ScanUpload` names."""
    end = _LENGTH + int.from_bytes(data[:_LENGTH])
    if not _LENGTH < end <= MAX_HEAD or end >= len(data):
        return None
    request = _read_head(data[_LENGTH:end])
    return None if isinstance(request, Failure) else (request, data[end:])


class ScanUpload:
    """Takes the pieces of one request body. The spooled body is the caller's to close."""

    def __init__(self, body: SpooledBody) -> None:
        self._body = body
        self._start = bytearray()
        self._request: ScanRequest | None = None

    def feed(self, piece: bytes) -> Failure | None:
        """Take one piece; return what is wrong, after which no more may come."""
        rest = piece if self._request else self._read_start(piece)
        if isinstance(rest, Failure):
            return rest
        if self._body.size + len(rest) > MAX_BODY:
            return Failure(PAYLOAD_TOO_LARGE, f"the message is larger than {MAX_BODY} bytes")
        if rest:
            self._body.write(rest)
        return None

    def finish(self) -> ScanRequest | Failure:
        """Return the request, once all has come; the body is still to be finished."""
        if self._request is None:
            return Failure(MALFORMED_REQUEST, "the body ends before the message begins")
        if not self._body.size:
            return Failure(EMPTY_EMAIL, "the message has no bytes")
        return self._request

    def _read_start(self, piece: bytes) -> bytes | Failure:
        """Collect what comes before the message; returns what this piece has of the message."""
        self._start += piece
        if len(self._start) < _LENGTH:
            return b""
        end = _LENGTH + int.from_bytes(self._start[:_LENGTH])
        if end > MAX_HEAD:
            return Failure(PAYLOAD_TOO_LARGE, "the part before the message is too long")
        if len(self._start) < end:
            return b""
        head, rest = _read_head(bytes(self._start[_LENGTH:end])), bytes(self._start[end:])
        self._start.clear()
        if isinstance(head, Failure):
            return head
        self._request = head
        return rest


def _read_head(encoded: bytes) -> ScanRequest | Failure:
    try:
        head = _decoder.decode(encoded)
    except msgspec.ValidationError as fault:
        return Failure(INVALID_PARAMETERS, str(fault))
    except (ValueError, RecursionError):
        return Failure(MALFORMED_REQUEST, "the part before the message is not valid JSON in UTF-8")
    ggrid = canonical(head.ggrid)
    if ggrid is None:
        return Failure(INVALID_PARAMETERS, "ggrid must be a UUID")
    # What comes over HTTPS came by the scan API, unless abby says that a person uploaded it; it carries out no action.
    source: Source = "page" if head.source == "page" else "rest"
    return ScanRequest(ggrid, head.created, head.envelope, source)


def frame_request(request: ScanRequest, body: MessageBody) -> tuple[int, Iterator[bytes]]:
    """Return how long the body of a request over HTTPS is, and its pieces."""
    head = msgspec.json.encode(ScanRequest(request.ggrid, request.created, request.envelope, request.source or "rest"))
    return _LENGTH + len(head) + body.size, chain((len(head).to_bytes(_LENGTH, "big") + head,), body.chunks(CHUNK))
