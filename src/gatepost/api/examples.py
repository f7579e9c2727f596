"""Examples for the OpenAPI documents: a request and a response of every operation, and a message of every error code.

They are values of the wire types, so they cannot fall behind them, and `tests/api/test_openapi.py` validates each one
against its schema.
"""

from decimal import Decimal
from typing import Any

import msgspec
from msgspec.structs import asdict

from gatepost.api import lists, messages, scanning
from gatepost.findings.kinds import URL_TEXT_MISMATCH

_GGRID = "0198c5a2-7c11-7d3e-9f00-00000000aa01"
_TENANT = "0198c5a2-7c11-7d3e-9f00-00000000bb02"
_CREATED, _COMPLETED = "2026-11-15T09:12:00.000Z", "2026-11-15T09:12:00.087Z"
_TAG = URL_TEXT_MISMATCH.id

PARAMETERS = scanning.MessageAnalysisRequest(
    scanning.BorderMtaData("ann@company.example", ("bob@example.com",), "192.0.2.17", "mx.example.org"), _TENANT
)
EMAIL = (
    "From: ann@company.example\r\nTo: bob@example.com\r\nSubject: Minutes\r\n\r\n"
    "The minutes are on the shared drive.\r\n"
)
RESULT = scanning.MessageAnalysisResult(_GGRID, _CREATED, _COMPLETED, "quarantine", "phishing", (_TAG,))
STATUS = scanning.SystemStatus("GREEN")
_LINE = scanning.LedgerLine(
    tag=_TAG,
    title=URL_TEXT_MISMATCH.title,
    where="link 1",
    facts={"shown": "bank.example", "actual": "evil.example"},
    weight=Decimal("5.00"),
    counted=Decimal("5.00"),
    verdict="phishing",
    conclusive=False,
    group="",
    note="",
)
MESSAGE = scanning.AnalysedMessage(
    ggrid=_GGRID,
    created=_CREATED,
    completed=_COMPLETED,
    decision="quarantine",
    verdict="phishing",
    tags=(_TAG,),
    border_mta_data=scanning.RecordedEnvelope(
        "ann@company.example", ("bob@example.com",), "192.0.2.17", "mx.example.org"
    ),
    tenant_uid=_TENANT,
    size=2_048,
    sha256="e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    subject="Your account",
    senders=("ann@company.example",),
    ledger=scanning.Ledger(Decimal("5.00"), "phishing: 5.00 of 5.00 points", (_LINE,), ()),
    authentication=scanning.AuthenticationOutcome(
        host="192.0.2.17",
        host_source="border",
        spf=scanning.SpfOutcome("pass", "example.org", "mfrom", ""),
        dkim=(),
        dmarc=scanning.DmarcOutcome("pass", "example.org", "reject", True, False, ""),
        arc=scanning.ArcOutcome("none", 0, (), ""),
        iprev=scanning.IprevOutcome("pass", "mx.example.org", ""),
        origin="outside",
    ),
    files=(),
)
RELEASE = scanning.MessageRelease(_GGRID, "2026-11-15T10:00:00.000Z", "token:border-mta", ("bob@example.com",))

_OTHER = "0198c5a2-7c11-7d3e-9f00-00000000aa02"
SEARCH = messages.SearchMessagesRequest(link_host="evil.example", since="2026-11-14T00:00:00Z", limit=100)
FOUND = messages.FoundMessages(
    (
        messages.FoundMessage(
            ggrid=_GGRID,
            completed=_COMPLETED,
            decision="quarantine",
            verdict="phishing",
            tags=(_TAG,),
            score=Decimal("5.00"),
            tenant_uid=_TENANT,
            envelope_from="ann@company.example",
            envelope_recipients=("bob@example.com",),
            subject="Your account",
            size=2_048,
        ),
    ),
    "1794733920087.4711",
)
_SHARED: dict[str, Any] = {
    name: value for name, value in asdict(FOUND.messages[0]).items() if name not in ("completed", "decision")
}
SEARCH_HELD = messages.SearchHeldMessagesRequest(recipient="bob@example.com", tenant_uid=_TENANT)
FOUND_HELD = messages.FoundHeldMessages((messages.FoundHeldMessage(held_since=_COMPLETED, state="held", **_SHARED),))
TEXT = messages.MessageText(
    ggrid=_GGRID,
    headers=(messages.TextHeader("From", "ann@company.example"), messages.TextHeader("Subject", "Your account")),
    passages=(messages.TextPassage("1", "Sign in at bank.example", "", False, 0),),
    links=(messages.TextLink("bank.example", "https://evil.example/login", "evil.example", False),),
    parts=(messages.TextPart("1", "text/html", 1_024, ()),),
    left_out=(),
)
TIMELINE = messages.Timeline(
    ggrid=_GGRID,
    message_id="<1@example.org>",
    tenant_uid=None,
    envelope_from="ann@company.example",
    envelope_recipients=("bob@example.com",),
    subject="Your account",
    steps=(
        messages.TimelineStep(
            "2026-11-15T10:00:00.000Z",
            "received",
            "Received over SMTP by the node mx1 from 192.0.2.10 with the queue id 4XyZ.",
            node="mx1",
            queue_id="4XyZ",
        ),
        messages.TimelineStep(
            "2026-11-15T10:00:00.210Z",
            "delivered",
            "Accepted by the next hop smtp://127.0.0.1:10026: 250 2.0.0 Ok: queued as 4AbC. Its id there is 4AbC.",
            next_hop="smtp://127.0.0.1:10026",
            code=250,
            reply="2.0.0 Ok: queued as 4AbC",
            queue_id="4AbC",
        ),
    ),
)
REPORTING = messages.ReportMessageRequest(should_have_been="held")
REPORT = messages.MessageReport(_GGRID, "held", "2026-11-15T10:00:00.000Z", True)
DELETION = messages.MessageDeletion(_GGRID, "2026-11-15T10:00:00.000Z")
ACTION = messages.HeldMessagesRequest(ggrids=(_GGRID, _OTHER))
_NOT_HELD = messages.ActionResult(_OTHER, "failed", "message_not_found", "no message with this ggrid is held")
RELEASED = messages.ActionResults((messages.ActionResult(_GGRID, "released", release=RELEASE), _NOT_HELD))
DELETED = messages.ActionResults((messages.ActionResult(_GGRID, "deleted"), _NOT_HELD))

ADD = lists.AddEntriesRequest(
    "blocked-urls", (lists.NewListEntry("evil.example/login", "INC-1234", "2030-06-30T00:00:00Z"),), _TENANT
)
DELETE = lists.DeleteEntriesRequest("blocked-urls", ("evil.example/login",), _TENANT)
GET = lists.GetListsRequest(_TENANT)
LIST = lists.ListEntriesRequest("blocked-urls", _TENANT)
CHANGE = lists.ListChange(1)
LISTS = lists.ListsOfScope(
    (
        lists.ListFileInfo(
            "blocked-urls",
            lists.ListInfo(
                "Blocked links",
                "block",
                "Mail with a link to one of these is held (verdict policy or worse)",
                10_000_000,
            ),
        ),
    )
)
ENTRY = lists.PublicListsEntry(
    "evil.example/login", "INC-1234", _CREATED, _CREATED, "key:playbook", "2030-06-30T00:00:00.000Z", 3, _COMPLETED
)

# What a person reads with each error code.
MESSAGES: dict[str, str] = {
    "malformed_request": "the body is not valid JSON in UTF-8",
    "missing_part": "there is no part email",
    "duplicate_part": "the part email is there twice",
    "wrong_part_type": "the part parameters must have application/json as its own content type",
    "invalid_parameters": "borderMtaData.envelopeRecipients is missing",
    "invalid_request": "listName is missing; tenantUID is not a known field",
    "empty_email": "the part email has no bytes",
    "too_many_entries": "entries has 501 items; a call takes at most 500",
    "invalid_entry": "entries[0].entry is too wide: com is a public suffix, not one owner's domain",
    "unauthorized": "the credential is missing or not valid",
    "forbidden": "the key is read-only; with dryRun it may try changes",
    "not_found": "there is nothing at this path",
    "list_not_found": "listName: there is no list blocked-url in this scope",
    "tenant_not_found": f"tenantUid: there is no tenant {_TENANT}",
    "message_not_found": "no analysis with this ggrid is on record",
    "method_not_allowed": "GET is not possible here; use POST",
    "list_full": "the list has 100,000 of at most 100,000 entries; nothing of the call was applied",
    "payload_too_large": "the request body is larger than 50 MiB (52,428,800 bytes)",
    "unsupported_media_type": "the content type must be application/json, in UTF-8",
    "internal_error": f"something broke on our side; the log has it as {_GGRID}",
    "storage_unavailable": f"storage cannot be used now, try again; the log has it as {_GGRID}",
    "scanning_disabled": "no core has restApi under scanSources",
    "core_unavailable": "no core answers",
    "message_not_shown": "the message cannot be shown: it could not be read in time",
    "rate_limited": "8 streams of this key are running; try again when one has ended",
    "overloaded": "32 lists are being read at this moment; try again soon",
    "delivery_failed": "the message is still held: the next hop refused the connection",
    "analysis_timeout": "there was no result within longRequestTimeout",
}


def to_json(value: Any) -> Any:
    """Return an example as plain JSON values, in the form in which it goes over the wire."""
    is_of_lists = type(value).__module__ == lists.__name__
    return msgspec.json.decode(lists.encode_lists(value) if is_of_lists else scanning.encode_scanning(value))
