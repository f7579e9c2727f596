"""Types of the operations on messages: searching results and held mail, text of held mail, actions on many at once.

Requests refuse unknown fields: a filter that is misspelt would find everything.
"""

from decimal import Decimal
from typing import Annotated, Literal

import msgspec

from gatepost.api.scanning import DateTime, IpAddress, MessageRelease, Uuid
from gatepost.policy.rules import Decision, Verdict

MAX_BODY = 64 << 10
MAX_PAGE = 500
DEFAULT_PAGE = 100
MAX_ACTIONS = 100
MESSAGE_CURSOR = r"[0-9]{1,18}\.[0-9]{1,18}"
HELD_CURSOR = r"([0-9]{1,18}\.)?[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}"

_Address = Annotated[str, msgspec.Meta(max_length=320)]
_Subject = Annotated[str, msgspec.Meta(max_length=200)]
_Tag = Annotated[str, msgspec.Meta(max_length=200)]
_Host = Annotated[str, msgspec.Meta(min_length=1, max_length=253)]
_Name = Annotated[str, msgspec.Meta(min_length=1, max_length=500)]
_Query = Annotated[str, msgspec.Meta(max_length=2_000)]
_QueueId = Annotated[str, msgspec.Meta(min_length=1, max_length=100)]
_Hash = Annotated[
    str,
    msgspec.Meta(
        extra_json_schema={"pattern": "^[0-9a-fA-F]{64}$"}, extra={"fault": "must be a SHA-256 of 64 hex digits"}
    ),
]
_Limit = Annotated[int, msgspec.Meta(ge=1, le=MAX_PAGE)]
_OTHER_PAGE = {"fault": "must be the next of another page"}
_MessageCursor = Annotated[str, msgspec.Meta(extra_json_schema={"pattern": f"^{MESSAGE_CURSOR}$"}, extra=_OTHER_PAGE)]
_HeldCursor = Annotated[str, msgspec.Meta(extra_json_schema={"pattern": f"^{HELD_CURSOR}$"}, extra=_OTHER_PAGE)]
_CURSOR = msgspec.Meta(description="The `next` of the page before, with the same filters")


class _Request(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """camelCase on the wire; unknown fields are refused, null means absent."""


class _SearchRequest(_Request, frozen=True, kw_only=True):
    """What results and held mail are both searched by."""

    tenant_uid: Annotated[
        Uuid | None, msgspec.Meta(description="Only mail of this tenant; without it, of all tenants and of none")
    ] = None
    subject: Annotated[
        _Subject | None, msgspec.Meta(description="Words that must all occur in the subject; the first eight count")
    ] = None
    verdict: Verdict | None = None
    remote_address: Annotated[IpAddress | None, msgspec.Meta(description="IP address of the sending host")] = None
    link_host: Annotated[
        _Host | None,
        msgspec.Meta(description="Host of a link, or a name above it, up to the domain that was registered"),
    ] = None
    file_name: Annotated[
        _Name | None,
        msgspec.Meta(description="Whole name of a file, attached or inside of another file; case does not matter"),
    ] = None
    file_hash: Annotated[
        _Hash | None, msgspec.Meta(description="SHA-256 of a file, attached or inside of another file")
    ] = None
    message_id: Annotated[_Name | None, msgspec.Meta(description="The Message-ID, with or without angle brackets")] = (
        None
    )
    header_from: Annotated[
        _Name | None,
        msgspec.Meta(
            description="Sender as readers see it: an address or a domain of the From field, or words of a display name"
        ),
    ] = None
    query: Annotated[
        _Query | None,
        msgspec.Meta(
            description="A search as in the web interface: `from:evil.example (verdict:phishing OR score>8) after:7d`. "
            "Days and times without an offset are UTC. It holds besides the other filters"
        ),
    ] = None
    anywhere: Annotated[
        _Name | None,
        msgspec.Meta(
            description="A text that fits in whatever way it can be meant: address, domain, subject, display name, IP "
            "address, link, file name or hash, Message-ID, queue id here or at the next hop, tag, ggrid or its first 8 "
            "digits or more"
        ),
    ] = None
    queue_id: Annotated[
        _QueueId | None,
        msgspec.Meta(description="Queue id of the message at the border MTA (XFORWARD IDENT, or its Received field)"),
    ] = None
    limit: Annotated[
        _Limit | None, msgspec.Meta(description=f"Most messages on the page; {DEFAULT_PAGE} by default")
    ] = None


class SearchMessagesRequest(_SearchRequest, frozen=True, kw_only=True):
    """Which results to return; without a filter, all of them."""

    since: Annotated[DateTime | None, msgspec.Meta(description="Completed at this time or later")] = None
    until: Annotated[DateTime | None, msgspec.Meta(description="Completed before this time")] = None
    sender: Annotated[
        _Address | None,
        msgspec.Meta(
            description="Envelope sender: an address, a domain, or a part of an address (no dot in it, or `*` around"
            " it); an empty text is a bounce"
        ),
    ] = None
    recipient: Annotated[
        _Address | None, msgspec.Meta(description="Envelope recipient, in the same forms as `sender`")
    ] = None
    decision: Decision | None = None
    tag: Annotated[_Tag | None, msgspec.Meta(description="A whole tag")] = None
    ggrid: Annotated[Uuid | None, msgspec.Meta(description="One message; only `tenantUid` counts beside it")] = None
    next_hop_id: Annotated[
        _QueueId | None,
        msgspec.Meta(description="Id that a next hop gave the message: `queued as …` in its reply and its log"),
    ] = None
    cursor: Annotated[_MessageCursor | None, _CURSOR] = None


class SearchHeldMessagesRequest(_SearchRequest, frozen=True, kw_only=True):
    """Which held mail to return; without a filter, all of it."""

    since: Annotated[DateTime | None, msgspec.Meta(description="Held since this time or later")] = None
    until: Annotated[DateTime | None, msgspec.Meta(description="Held since before this time")] = None
    sender: Annotated[
        _Address | None, msgspec.Meta(description="Envelope sender: an address or a domain; an empty text is a bounce")
    ] = None
    recipient: Annotated[_Address | None, msgspec.Meta(description="Envelope recipient: an address or a domain")] = None
    released: Annotated[bool | None, msgspec.Meta(description="Released messages instead of held ones")] = None
    cursor: Annotated[_HeldCursor | None, _CURSOR] = None


class HeldMessagesRequest(_Request, frozen=True, kw_only=True):
    """The held messages that an action is for."""

    ggrids: Annotated[
        tuple[Uuid, ...],
        msgspec.Meta(min_length=1, max_length=MAX_ACTIONS, description="The same message twice counts once"),
    ]
    tenant_uid: Annotated[
        Uuid | None, msgspec.Meta(description="Messages of other tenants count as not held; without it, any tenant")
    ] = None


class _Wire(msgspec.Struct, frozen=True, rename="camel"):
    """camelCase on the wire."""


class FoundMessage(_Wire, frozen=True):
    """A result in one line; `getMessage` has all of it. Long lists of recipients are cut after 100."""

    ggrid: Uuid
    completed: DateTime
    decision: Decision
    verdict: Verdict
    tags: tuple[str, ...]
    score: Decimal
    tenant_uid: Uuid | None
    envelope_from: str
    envelope_recipients: tuple[str, ...]
    subject: str
    size: Annotated[int, msgspec.Meta(description="Bytes of the raw message")]


_NEXT = msgspec.Meta(
    description="The `cursor` of the next page; null after the last one. A page can be short and have one"
)
_REACHED = msgspec.Meta(
    description="How far back messages were looked at, where the work of one call ended before the page was full"
)


class FoundMessages(_Wire, frozen=True):
    """A page of results, newest first."""

    messages: tuple[FoundMessage, ...]
    next: Annotated[str | None, _NEXT] = None
    reached: Annotated[DateTime | None, _REACHED] = None


class FoundHeldMessage(_Wire, frozen=True):
    """Held or released mail in one line."""

    ggrid: Uuid
    held_since: DateTime
    state: Annotated[
        Literal["held", "releasing", "released"], msgspec.Meta(description="`releasing`: the next hop is being asked")
    ]
    verdict: Verdict
    tags: tuple[str, ...]
    score: Decimal
    tenant_uid: Uuid | None
    envelope_from: str
    envelope_recipients: tuple[str, ...]
    subject: str
    size: Annotated[int, msgspec.Meta(description="Bytes of the raw message")]
    release: MessageRelease | None = None


class FoundHeldMessages(_Wire, frozen=True):
    """A page of held mail, newest first."""

    messages: tuple[FoundHeldMessage, ...]
    next: Annotated[str | None, _NEXT] = None
    reached: Annotated[DateTime | None, _REACHED] = None


class TextHeader(_Wire, frozen=True):
    """A header field, decoded."""

    name: str
    value: str


class TextPart(_Wire, frozen=True):
    """One part of the message."""

    path: str
    type: str
    size: int
    names: tuple[str, ...]


class TextPassage(_Wire, frozen=True):
    """The text of one part, as a reader sees it."""

    where: str
    visible: str
    hidden: Annotated[str, msgspec.Meta(description="Text that is there and does not show to the reader")]
    attached: Annotated[bool, msgspec.Meta(description="It shows only once a file is opened")]
    more: Annotated[int, msgspec.Meta(description="Characters that were cut off")]


class TextLink(_Wire, frozen=True):
    """One link: what a reader sees of it, and where it leads."""

    shown: str
    target: str
    host: str
    hidden: bool


class MessageText(_Wire, frozen=True):
    """A held message as plain text in which nothing acts: control and formatting characters are written out."""

    ggrid: Uuid
    headers: tuple[TextHeader, ...]
    passages: tuple[TextPassage, ...]
    links: tuple[TextLink, ...]
    parts: tuple[TextPart, ...]
    left_out: Annotated[
        tuple[str, ...], msgspec.Meta(description="What is not shown or could not be read, as sentences")
    ]


TimelineEvent = Literal[
    "received", "throttled", "analysed", "answered", "held", "delivered", "deferred", "refused", "dropped", "unknown",
    "released", "releaseFailed", "deleted", "restored", "reported", "reportTakenBack", "lookedBack",
    "removed", "putBack", "removeFailed", "attempt",
]  # fmt: skip


class TimelineStep(_Wire, frozen=True, omit_defaults=True):
    """One step on the way of a message."""

    time: DateTime
    event: Annotated[
        TimelineEvent,
        msgspec.Meta(
            description="`delivered`, `deferred` and `refused` are replies of a next hop where `code` or `nextHop` is"
            " set; `answered`: the decision was returned to the mail server that asked; `removed`, `putBack` and"
            " `removeFailed`: a copy in a mailbox; `unknown`: nothing is on record; `attempt`: another analysis of the"
            " same message, whose id is `ggrid`"
        ),
    ]
    text: Annotated[str, msgspec.Meta(description="The step as a sentence")]
    node: Annotated[str, msgspec.Meta(description="The node that received or released it")] = ""
    by: Annotated[str, msgspec.Meta(description="Who did it")] = ""
    next_hop: Annotated[str, msgspec.Meta(description="The address of the next hop")] = ""
    code: Annotated[int | None, msgspec.Meta(description="The code of its reply")] = None
    reply: Annotated[str, msgspec.Meta(description="The text of its reply, at most 300 characters")] = ""
    queue_id: Annotated[
        str, msgspec.Meta(description="The queue id at the border MTA (`received`) or at the next hop (`delivered`)")
    ] = ""
    ggrid: str = ""


class Timeline(_Wire, frozen=True):
    """The way of one message over all nodes, oldest step first. `isCut` says that there may be more attempts or actions
    than these."""

    ggrid: Uuid
    message_id: str
    tenant_uid: Uuid | None
    envelope_from: str
    envelope_recipients: tuple[str, ...]
    subject: str
    steps: tuple[TimelineStep, ...]
    is_cut: bool = False


class MessageDeletion(_Wire, frozen=True):
    """A held message that was deleted; its result stays on record."""

    ggrid: Uuid
    deleted: Annotated[DateTime, msgspec.Meta(description="When it was deleted")]


ShouldHaveBeen = Literal["delivered", "held"]


class ReportMessageRequest(_Request, frozen=True, kw_only=True):
    """What should have been done with a message."""

    should_have_been: Annotated[ShouldHaveBeen, msgspec.Meta(description="What the decision should have been")]
    tenant_uid: Annotated[
        Uuid | None,
        msgspec.Meta(
            description="The tenant whose message it is: the report counts for that tenant's mail; without it, for all"
        ),
    ] = None


class MessageReport(_Wire, frozen=True):
    """A report that a decision was wrong."""

    ggrid: Uuid
    should_have_been: ShouldHaveBeen
    reported: Annotated[DateTime, msgspec.Meta(description="When it was reported")]
    learns: Annotated[
        bool,
        msgspec.Meta(
            description="Whether models learn from the report. They do not where neither the record nor the report has "
            "the features of the message, where something certain such as malware was found in it, and beyond 500 "
            "reports of one token in a day"
        ),
    ] = False


class ActionResult(_Wire, frozen=True, omit_defaults=True):
    """What became of one message."""

    ggrid: Uuid
    outcome: Literal["released", "deleted", "failed"]
    error: Annotated[str, msgspec.Meta(description="The error code that a call for this message alone answers")] = ""
    message: Annotated[str, msgspec.Meta(description="Why it failed")] = ""
    release: MessageRelease | None = None


class ActionResults(_Wire, frozen=True):
    """What became of each message, in the order of the request."""

    results: tuple[ActionResult, ...]
