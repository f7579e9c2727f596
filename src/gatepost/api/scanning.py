"""The Email Scanning API's types: one definition that validates requests, writes answers and makes the documentation.

Names are camelCase on the wire. Points are decimals with two places, written as JSON numbers: what `counted` says
adds up to `score`, exactly, for clients that read them as decimals.
"""

from decimal import Decimal
from functools import lru_cache
from ipaddress import ip_address
from typing import Annotated, Literal

import msgspec

from gatepost.auth.results import Origin
from gatepost.policy.rules import ActionName, Decision, Verdict
from gatepost.process.health import Reason, State

MAX_BODY = 52_428_800
MAX_RECIPIENTS = 1000
MAX_PARAMETERS = 1 << 20

# An IPv6 address that ends in an IPv4 address, all groups written out.
_MAX_ADDRESS = 45


def normalize_address(value: str) -> str | None:
    """Return an IP address in its usual form; None for a text that is not an address, or has a zone."""
    return _parse_address(value) if len(value) <= _MAX_ADDRESS else None


@lru_cache(1024)
def _parse_address(value: str) -> str | None:
    try:
        return str(ip_address(value)) if "%" not in value else None
    except ValueError:
        return None


Uuid = Annotated[str, msgspec.Meta(extra_json_schema={"format": "uuid"})]
DateTime = Annotated[str, msgspec.Meta(extra_json_schema={"format": "date-time"})]
EnvelopeText = Annotated[
    str,
    msgspec.Meta(
        extra_json_schema={"pattern": r"^[^\x00\r\n]*$"}, extra={"fault": "must be text without CR, LF and NUL"}
    ),
]
IpAddress = Annotated[
    str,
    msgspec.Meta(
        extra_json_schema={"anyOf": [{"format": "ipv4"}, {"format": "ipv6"}]},
        extra={"check": normalize_address, "fault": "must be an IPv4 or IPv6 address"},
    ),
]
Sha256 = Annotated[str, msgspec.Meta(extra_json_schema={"pattern": "^[0-9a-f]{64}$"})]
Points = Decimal


class _Wire(msgspec.Struct, frozen=True, rename="camel"):
    """camelCase on the wire; fields that a reader does not know are ignored."""


class BorderMtaData(_Wire, frozen=True):
    """Data retrieved at the border MTA that received the email. Envelope strings hold any text without CR, LF and NUL;
    addresses come with or without angle brackets."""

    envelope_from: Annotated[
        EnvelopeText, msgspec.Meta(description="Envelope FROM address; empty or `<>` for bounces, which have no sender")
    ]
    envelope_recipients: Annotated[
        tuple[EnvelopeText, ...],
        msgspec.Meta(min_length=1, max_length=MAX_RECIPIENTS, description="Envelope TO addresses"),
    ]
    remote_address: Annotated[
        IpAddress | None, msgspec.Meta(description="IP address of the sending MTA, as seen at the border MTA")
    ] = None
    sender_helo: Annotated[
        EnvelopeText | None,
        msgspec.Meta(description="HELO or EHLO (host or IP) of the sending mail client, as seen at the border MTA"),
    ] = None


class MessageAnalysisRequest(_Wire, frozen=True):
    """The `parameters` part of the upload."""

    border_mta_data: BorderMtaData
    tenant_uid: Annotated[
        Uuid | None,
        msgspec.Meta(
            description="Tenant to which the resulting guard request is assigned; "
            "without it only the deployment-global scope applies"
        ),
    ] = None


class MessageAnalysisResult(_Wire, frozen=True):
    """What the analysis came to. `decision` is the only field that a mail system acts on."""

    ggrid: Annotated[Uuid, msgspec.Meta(description="Unique ID of the message analysis")]
    created: Annotated[DateTime, msgspec.Meta(description="Time the analysis was opened")]
    completed: Annotated[DateTime, msgspec.Meta(description="Time the analysis concluded")]
    decision: Decision
    verdict: Annotated[Verdict, msgspec.Meta(description="Verdict applied to the message")]
    tags: Annotated[
        tuple[str, ...], msgspec.Meta(description="All tags associated with the message: sorted, each once")
    ]


class SystemStatus(_Wire, frozen=True, omit_defaults=True):
    """`RED`: no core answers, or no core takes a message to its end. `YELLOW`: otherwise, some core throttles, is full,
    does not answer or has a next hop that takes no mail. `GREEN`: else."""

    message_queue_status: Annotated[State, msgspec.Meta(description="Status of the message queue")]
    reasons: Annotated[
        tuple[Reason, ...], msgspec.Meta(description="Why, worst first; absent where the status is `GREEN`")
    ] = ()


class LedgerLine(_Wire, frozen=True):
    """One finding as it was judged."""

    tag: Annotated[str, msgspec.Meta(description="What was found; the tag of the result")]
    title: Annotated[str, msgspec.Meta(description="The same as a sentence")]
    where: Annotated[str, msgspec.Meta(description="What it was found on: a header, a part, a file, a link")]
    facts: Annotated[dict[str, str], msgspec.Meta(description="What was seen there")]
    weight: Annotated[Points, msgspec.Meta(description="Points that policy gives it")]
    counted: Annotated[Points, msgspec.Meta(description="Points that remained under the caps and after overrides")]
    verdict: Annotated[Verdict, msgspec.Meta(description="The verdict that it points to")]
    conclusive: Annotated[bool, msgspec.Meta(description="It needs no threshold")]
    group: Annotated[str, msgspec.Meta(description="Findings of one group count together up to a cap; empty for none")]
    note: Annotated[str, msgspec.Meta(description="Why it counted less than its weight, and what overrode it")]
    override: Annotated[
        str, msgspec.Meta(description="What an operator's policy changed of its weight, verdict, group or cap")
    ] = ""


class ListEffect(_Wire, frozen=True):
    """What one list entry did to the message, or why it did nothing."""

    list: str
    scope: Annotated[str, msgspec.Meta(description="`global` or `tenant`")]
    entry: str
    effect: Literal["blocked", "allowed", "cleared", "refused"]
    where: Annotated[str, msgspec.Meta(description="What it was found on")]
    comment: str
    reason: Annotated[str, msgspec.Meta(description="Why it was refused")]


class StageOutcome(_Wire, frozen=True):
    """A stage of the analysis that did not run to its end, and why."""

    stage: str
    state: Literal["failed", "skipped"]
    reason: str


class Ledger(_Wire, frozen=True):
    """The whole account: the `counted` points of all findings add up to `score`."""

    score: Points
    reason: Annotated[str, msgspec.Meta(description="The sentence that says how the verdict was reached")]
    findings: tuple[LedgerLine, ...]
    outcomes: tuple[StageOutcome, ...]
    lists: Annotated[tuple[ListEffect, ...], msgspec.Meta(description="What list entries changed")] = ()
    overrides: Annotated[
        tuple[str, ...],
        msgspec.Meta(
            description="Rules for verdicts that differ from the shipped policy, and what it would have come to by that"
        ),
    ] = ()


class SpfOutcome(_Wire, frozen=True):
    """RFC 7208."""

    result: str
    domain: str
    scope: str
    reason: str


class DkimOutcome(_Wire, frozen=True):
    """RFC 6376: one signature."""

    result: str
    domain: str
    selector: str
    algorithm: str
    reason: str


class DmarcOutcome(_Wire, frozen=True):
    """RFC 9989."""

    result: str
    domain: str
    policy: str
    spf_aligned: bool
    dkim_aligned: bool
    reason: str


class ArcOutcome(_Wire, frozen=True):
    """RFC 8617."""

    result: str
    instances: int
    sealers: tuple[str, ...]
    reason: str


class IprevOutcome(_Wire, frozen=True):
    """RFC 8601 section 3."""

    result: str
    name: str
    reason: str


class AuthenticationOutcome(_Wire, frozen=True):
    """Who sent the message, in the words of RFC 8601."""

    host: Annotated[str, msgspec.Meta(description="Address of the sending host; empty where it is not known")]
    host_source: Literal["border", "received", "unknown"]
    spf: SpfOutcome
    dkim: tuple[DkimOutcome, ...]
    dmarc: DmarcOutcome
    arc: ArcOutcome
    iprev: IprevOutcome
    origin: Annotated[
        Origin,
        msgspec.Meta(
            description="Where the message comes from: outside, an own network, a client that had logged in, or unknown"
            " where nobody told; empty for messages of older versions"
        ),
    ] = ""


class AnalysedFile(_Wire, frozen=True):
    """A file of the message: attached, embedded, or inside another file."""

    path: Annotated[str, msgspec.Meta(description="The way to it from the message")]
    type: Annotated[str, msgspec.Meta(description="What the content is")]
    size: int
    sha256: Sha256
    names: tuple[str, ...]
    unread: Annotated[str, msgspec.Meta(description="Why its inside was not read; empty where it was")]


class RecordedEnvelope(_Wire, frozen=True):
    """The border MTA's data as they are on record, without angle brackets."""

    envelope_from: str
    envelope_recipients: tuple[str, ...]
    remote_address: str | None
    sender_helo: str | None


class MessageRelease(_Wire, frozen=True):
    """A held message that went on to the next hop."""

    ggrid: Uuid
    released: Annotated[DateTime, msgspec.Meta(description="When the next hop had taken it")]
    released_by: Annotated[str, msgspec.Meta(description="By whose order: `token:` and its name, `user:…`, `cli`")]
    recipients: Annotated[tuple[str, ...], msgspec.Meta(description="Whom it went to")]


class StrippedAttachment(_Wire, frozen=True):
    """An attachment that was taken out of a message before it was delivered."""

    name: str
    size: Annotated[int, msgspec.Meta(description="Bytes")]
    sha256: Annotated[str, msgspec.Meta(description="Of its content; empty where it is not known")]
    reason: Annotated[str, msgspec.Meta(description="The findings that name it")]


class TakenAction(_Wire, frozen=True):
    """What was done over SMTP with a message beside its decision."""

    name: Annotated[ActionName, msgspec.Meta(description="The action of the policy")]
    summary: Annotated[str, msgspec.Meta(description="What was done, for people")]
    mark: Annotated[str, msgspec.Meta(description="What was put before the subject")] = ""
    to: Annotated[str, msgspec.Meta(description="The mailbox that it was redirected or copied to")] = ""
    files: Annotated[tuple[StrippedAttachment, ...], msgspec.Meta(description="Attachments that were taken out")] = ()
    failed: Annotated[
        str, msgspec.Meta(description="Why it was not carried out; the decision was, as without an action")
    ] = ""


class AnalysedMessage(_Wire, frozen=True):
    """A result with its ledger, as it is on record."""

    ggrid: Uuid
    created: DateTime
    completed: DateTime
    decision: Decision
    verdict: Verdict
    tags: tuple[str, ...]
    border_mta_data: RecordedEnvelope
    tenant_uid: Uuid | None
    size: Annotated[int, msgspec.Meta(description="Bytes of the raw message")]
    sha256: Annotated[Sha256, msgspec.Meta(description="Of the raw message")]
    subject: str
    senders: tuple[str, ...]
    ledger: Ledger
    authentication: AuthenticationOutcome
    files: tuple[AnalysedFile, ...]
    release: Annotated[
        MessageRelease | None, msgspec.Meta(description="How it went on after it was held; null where it did not")
    ] = None
    action: Annotated[
        TakenAction | None, msgspec.Meta(description="The action of the policy that was carried out; null without one")
    ] = None


ENCODER = msgspec.json.Encoder(decimal_format="number")


def encode_scanning(value: object) -> bytes:
    """A value of these types as JSON."""
    return ENCODER.encode(value)
