"""The result of one analysis as plain data: the verdict and the ledger that explains it.

Storage, guard's event loop, abby and the web pages import this module; it loads no check, no parser and no model.
"""

from collections.abc import Iterable
from typing import Literal

import msgspec

from gatepost.auth.results import Authentication
from gatepost.lists.rulings import Subject
from gatepost.policy.rules import Decision, MessageAction, Verdict


class Line(msgspec.Struct, frozen=True, omit_defaults=True):
    """One finding as it was judged. Points are hundredths; `counted` is what remained of `weight`, `note` says why.
    `override` is what an operator's policy changed of its weight, verdict, group or cap."""

    kind: str
    title: str
    where: str
    facts: dict[str, str]
    weight: int
    counted: int
    verdict: Verdict
    conclusive: bool = False
    group: str = ""
    note: str = ""
    strength: float = 1.0
    about: str = ""
    override: str = ""


class ListNote(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one list entry did to the message, or why it did nothing."""

    list: str
    scope: str
    entry: str
    effect: Literal["blocked", "allowed", "cleared", "refused"]
    where: str
    comment: str = ""
    reason: str = ""


class Outcome(msgspec.Struct, frozen=True):
    """A stage of the analysis that did not run to its end, and why. Silence is never success."""

    stage: str
    state: Literal["failed", "skipped"]
    reason: str = ""


class FileSeen(msgspec.Struct, frozen=True, omit_defaults=True):
    """A file in the report: where it was, what it is, and its hash, without its content."""

    path: str
    type: str
    size: int
    sha256: str
    names: tuple[str, ...] = ()
    unread: str = ""


class PreparedRecord(msgspec.Struct, frozen=True, array_like=True):
    """What a worker prepares of the record of a message, as storage keeps it: the packed `report`, empty where packing
    does not pay; the `header` section; the `queue_id` in the topmost Received field; the `evidence`, None where it is
    too much (`store.evidence`). guard believes nothing of it: see `store.record_packing`."""

    report: bytes = b""
    header: bytes = b""
    queue_id: str = ""
    evidence: str | None = None


class Report(msgspec.Struct, frozen=True, dict=True):
    """The whole account of one analysis: the result and the ledger that explains it. `signature` is the near-duplicate
    signature of the text, `sender_names` the display names of `senders`, cut, which are what most people see;
    `features` is the feature row, from which a report on the message teaches; `action` is what guard did with it over
    SMTP beside the decision.

    A report can remember what a worker has prepared of the record of its message. A changed copy of it does not."""

    verdict: Verdict
    decision: Decision
    tags: tuple[str, ...]
    score: int
    reason: str
    lines: tuple[Line, ...] = ()
    outcomes: tuple[Outcome, ...] = ()
    authentication: Authentication = Authentication()
    files: tuple[FileSeen, ...] = ()
    subject: str = ""
    senders: tuple[str, ...] = ()
    lists: tuple[ListNote, ...] = ()
    subjects: tuple[Subject, ...] = ()
    overrides: tuple[str, ...] = ()
    signature: tuple[int, ...] = ()
    message_id: str = ""
    features: bytes = b""
    sender_names: tuple[str, ...] = ()
    action: MessageAction | None = None

    @property
    def prepared(self) -> PreparedRecord | None:
        """What a worker has prepared; None where nobody has."""
        return self.__dict__.get("prepared")

    def remember(self, prepared: PreparedRecord) -> None:
        """Keep what was prepared with this report."""
        self.__dict__["prepared"] = prepared


def undecided(reason: str, outcomes: Iterable[Outcome] = ()) -> Report:
    """What is answered when an analysis as a whole could not conclude: never a disguised delivery."""
    return Report("unscannable", "undecided", (), 0, reason, outcomes=tuple(outcomes))


class ShownSender(msgspec.Struct, frozen=True):
    """The sender as most mail programs show it. Name and address are apart: a page isolates each of them."""

    name: str
    address: str


def shown_sender(report: Report, envelope_sender: str) -> ShownSender:
    """Return display name and address of From, or the envelope sender of a message without one."""
    if not report.senders:
        return ShownSender("", envelope_sender)
    name = report.sender_names[0] if report.sender_names else ""
    return ShownSender(name if name != report.senders[0] else "", report.senders[0])
