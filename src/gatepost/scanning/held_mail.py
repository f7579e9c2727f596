"""Held mail between those who keep it and those who ask for it: the seven orders, their results, and their wire form.

An order is a frozen value. The quarantine of a core, a core over HTTPS and abby's set of all cores each have one method
for it, `carry_out(order)`; the operations themselves are written once, in `guard.quarantine`, where the bytes are.

Over HTTPS each order is a `POST` to its `path` with a small JSON object, answered with JSON that has a `type`, even
where nothing is held; an exported message is answered as it is, as `message/rfc822`. Paths, fields and tags stay as
they are: during an upgrade abby and the cores are of different versions.
"""

import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Annotated, Any, ClassVar, Generic, Protocol, TypeAlias, TypeVar

import msgspec

from gatepost.analysis.report import Report
from gatepost.api.errors import MALFORMED_REQUEST, Failure
from gatepost.scanning.request import ScanRequest, ScanResult
from gatepost.scanning.spool import MessageBody
from gatepost.store.audit import Actor
from gatepost.store.message_records import Holding
from gatepost.view.values import HtmlView, NotShown, Picture, View

MESSAGE = "message/rfc822"
# Verdicts of which a release is a right of its own.
DANGEROUS_VERDICTS = frozenset({"malware", "phishing"})
# Verdicts of which a recipient may release its own copy.
RECIPIENT_VERDICTS = frozenset({"spam", "bulk"})
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class Released(msgspec.Struct, frozen=True, tag="released"):
    """The next hop has the message: since when, by whose order, for whom. Each later release gets the same answer."""

    ggrid: str
    time: int
    by: str
    recipients: tuple[str, ...]


class NotHeld(msgspec.Struct, frozen=True, tag="notHeld"):
    """Nothing is held here under this ggrid."""


class NotSent(msgspec.Struct, frozen=True, tag="notSent"):
    """The message was not sent and is held as before. `reason` is the end of a sentence. `forbidden`: such a message is
    not sent, or not to these recipients by this caller, however often they ask."""

    reason: str
    forbidden: bool = False


class Deleted(msgspec.Struct, frozen=True, tag="deleted"):
    """The message is gone for good; its result stays on record."""


class Busy(msgspec.Struct, frozen=True, tag="busy"):
    """Another release of the message is under way, or was cut off less than a lease ago."""


ReleaseOutcome: TypeAlias = Released | NotHeld | NotSent | Busy


class HeldMailOrder(msgspec.Struct, Generic[R_co], frozen=True):
    """Something to be done with one held message; the result is of type `R_co`, or `NotHeld`. With a `tenant`, mail of
    no other tenant is found. `path` and `answer` are the path of the request and the type of the JSON answer."""

    path: ClassVar[str]
    answer: ClassVar[Any]

    ggrid: str
    tenant: str | None = None


class ReleaseOrder(HeldMailOrder[Released | NotSent | Busy], frozen=True, kw_only=True):
    """Send a message on, to its own recipients or to these, without another analysis. Unless the caller may send
    `anywhere`, the recipients are among its own, or in the domains of its tenant. Malware and phishing are sent only if
    the caller may send what is `dangerous`."""

    path = "/release"
    answer = ReleaseOutcome

    by: Actor
    recipients: tuple[str, ...] = ()
    anywhere: bool = False
    dangerous: bool = False


class RecipientReleaseOrder(HeldMailOrder[Released | NotSent | Busy], frozen=True, kw_only=True):
    """Send a message on to one of its recipients; it stays held for the others. A recipient who orders it gets spam and
    bulk mail only; others need to be allowed to send what is `dangerous`, as with any release. It has a path of its
    own: a core of an older version would send nothing."""

    path = "/release-to-recipient"
    answer = ReleaseOutcome

    by: Actor
    recipient: str
    dangerous: bool = False


class ViewOrder(HeldMailOrder[View | NotShown], frozen=True):
    """Show a message: plain text, in which nothing acts."""

    path = "/look"
    answer = View | NotShown | NotHeld


class PictureOrder(HeldMailOrder[Picture | NotShown], frozen=True, kw_only=True):
    """Show the picture that the view of a message lists under this index, drawn anew as PNG."""

    path = "/picture"
    answer = Picture | NotShown | NotHeld

    index: Annotated[int, msgspec.Meta(ge=0, lt=1 << 31)]


class HtmlOrder(HeldMailOrder[HtmlView | NotShown], frozen=True):
    """Show the HTML of a message as its reader would have seen it, in pieces in which nothing acts."""

    path = "/html"
    answer = HtmlView | NotShown | NotHeld


class ExportOrder(HeldMailOrder[bytes], frozen=True, kw_only=True):
    """Hand out a message as it came; audited, as a reading where a page shows the bytes, unless nobody gets them: a
    report keeps them to learn from."""

    path = "/export"
    answer = NotHeld

    by: Actor
    for_learning: bool = False
    is_reading: bool = False


class DeleteOrder(HeldMailOrder[Deleted | Busy], frozen=True, kw_only=True):
    """Delete a message; audited. Unless that is `for_good`, it can be restored for some days."""

    path = "/delete"
    answer = Deleted | Busy | NotHeld

    by: Actor
    for_good: bool = True


ORDERS: tuple[type[HeldMailOrder[Any]], ...] = (
    *(ReleaseOrder, RecipientReleaseOrder, ViewOrder, PictureOrder, HtmlOrder, ExportOrder, DeleteOrder),
)
_DECODERS: dict[str, msgspec.json.Decoder[HeldMailOrder[Any]]] = {
    kind.path: msgspec.json.Decoder(kind) for kind in ORDERS
}
_ANSWER_DECODERS: dict[str, msgspec.json.Decoder[Any]] = {
    kind.path: msgspec.json.Decoder(kind.answer) for kind in ORDERS
}


def read_order(path: str, encoded: bytes) -> HeldMailOrder[Any] | Failure:
    """Decode the body of a request to this path."""
    try:
        return _DECODERS[path].decode(encoded)
    except (ValueError, RecursionError):
        return Failure(MALFORMED_REQUEST, "the body is not such an order")


def read_answer(order: HeldMailOrder[R], encoded: bytes) -> R | NotHeld:
    """Decode the JSON answer to an order; `ValueError` where it is none."""
    answer: R | NotHeld = _ANSWER_DECODERS[order.path].decode(encoded)
    return answer


class CarriesOutOrders(Protocol):
    """A quarantine within this process. Raises `StorageError`."""

    async def carry_out(self, order: HeldMailOrder[R]) -> R | NotHeld:
        """Do what the order says, if the bytes of the message are here."""
        ...


# Is told the report on a message before it is put on record, and says with what the message is to be held at once.
ReportObserver = Callable[[Report], Holding | None]


def ignore_report(_report: Report) -> None:
    """The observer of a source that holds nothing, or waits for the record."""


class HoldsMail(Protocol):
    """The quarantine, for the source of a message that must not go on."""

    def begin(self, ggrid: str, raw: MessageBody) -> Holding | None:
        """Return with what a message that is going to be held is held by the commit that puts its result on record.
        Where this cannot be, begin to write its bytes, while its result is put on record. `keep` or `forget` must
        follow before the body is closed."""
        ...

    async def forget(self, ggrid: str) -> None:
        """End what `begin` began for a message that is not held after all; where nothing was begun, do nothing."""
        ...

    async def keep(self, request: ScanRequest, result: ScanResult, raw: MessageBody) -> None:
        """Hold a message, unless the result says that it is held. Returns when bytes and record survive a power cut;
        else raises `StorageError`."""
        ...

    async def take_back(self, ggrid: str) -> None:
        """Hold a message no longer that its sender was told to send again."""
        ...

    async def undecided_before(self, digest: str) -> int:
        """Return how often this digest of bytes and envelope was undecided in the last 24 hours, this time not counted.

        This time is put on record, so the calls for one message that stays undecided answer 0, 1, 2.
        """
        ...


@contextlib.asynccontextmanager
async def bytes_ahead(quarantine: HoldsMail, ggrid: str, raw: MessageBody) -> AsyncIterator[ReportObserver]:
    """Give what is to be told the report on a message, so that one that will be held is held by the commit of its
    record, or at least has its bytes written while its record is: each takes a wait for the disk. What was not held
    when the block ends is not kept."""

    def observe(report: Report) -> Holding | None:
        if report.decision == "quarantine" and (report.action is None or report.action.failed):
            return quarantine.begin(ggrid, raw)
        return None

    try:
        yield observe
    finally:
        await quarantine.forget(ggrid)
