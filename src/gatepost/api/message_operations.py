"""The operations on messages of the Email Scanning API, as its OpenAPI document describes them."""

from typing import Any

from gatepost.api import errors, examples
from gatepost.api.messages import (
    ActionResults,
    FoundHeldMessages,
    FoundMessages,
    HeldMessagesRequest,
    MessageDeletion,
    MessageReport,
    MessageText,
    ReportMessageRequest,
    SearchHeldMessagesRequest,
    SearchMessagesRequest,
    Timeline,
)
from gatepost.api.openapi import CALL_ERRORS, Operation, json_body, message_upload
from gatepost.api.scanning import AnalysedMessage, MessageRelease

MESSAGE_REQUESTS: tuple[type, ...] = (
    SearchMessagesRequest,
    SearchHeldMessagesRequest,
    HeldMessagesRequest,
    ReportMessageRequest,
)

_GGRID: dict[str, Any] = {
    "name": "ggrid",
    "in": "path",
    "required": True,
    "description": "The id that the scan answered, in any case",
    "schema": {"type": "string", "format": "uuid"},
    "example": examples.RESULT.ggrid,
}
_ONE_MESSAGE = (*CALL_ERRORS, errors.FORBIDDEN, errors.MESSAGE_NOT_FOUND)
_HELD_MESSAGE = (*_ONE_MESSAGE, errors.CORE_UNAVAILABLE)
_WITH_BODY = (
    *CALL_ERRORS,
    errors.FORBIDDEN,
    errors.INVALID_REQUEST,
    errors.TENANT_NOT_FOUND,
    errors.PAYLOAD_TOO_LARGE,
    errors.UNSUPPORTED_MEDIA_TYPE,
    errors.RATE_LIMITED,
    errors.OVERLOADED,
)
_PAGING = (
    "Pages come newest first. A page ends at `limit` messages, or where the work of one call ends; `next` leads on, "
    "and is null after the last page. Mail that arrives meanwhile is newer than every page, so no message is lost or "
    "repeated. An unknown field is refused: a filter that is misspelt would find everything."
)
_MANY = (
    "At most 100 messages a call, four of them at a time. The answer has a result for each; one that fails does not "
    "stop the others. A call can be repeated."
)

_REPORT_BODY: dict[str, Any] = {
    "required": True,
    "content": {
        **json_body(examples.REPORTING, "A message that should have been held")["content"],
        **message_upload(
            ReportMessageRequest, examples.REPORTING, "A report with the message", "The raw message that is reported."
        ),
    },
}

MESSAGE_OPERATIONS: tuple[Operation, ...] = (
    Operation(
        method="post",
        path="/v1/messages/search",
        id="searchMessages",
        tag="Messages",
        example=examples.FOUND,
        summary="Search results",
        description=f"Needs the permission `messages.search`. {_PAGING}",
        answer=FoundMessages,
        body=json_body(examples.SEARCH, "Messages with a link to one host"),
        errors=_WITH_BODY,
    ),
    Operation(
        method="get",
        path="/v1/messages/{ggrid}",
        id="getMessage",
        tag="Messages",
        example=examples.MESSAGE,
        summary="Read one analysis with its ledger",
        description="Needs the permission `messages.read`. The `counted` points of all findings add up to `score`.",
        answer=AnalysedMessage,
        parameters=(_GGRID,),
        errors=_ONE_MESSAGE,
    ),
    Operation(
        method="get",
        path="/v1/messages/{ggrid}/timeline",
        id="getMessageTimeline",
        tag="Messages",
        example=examples.TIMELINE,
        summary="Read the way of one message",
        description=(
            "Needs the permission `messages.read`. How the message came, what was decided, what next hops answered, "
            "what people did with it since, and other attempts to send it. The replies of next hops are written within "
            "a second; a node that is killed loses those of its last second, and the timeline then says that nothing "
            "is on record."
        ),
        answer=Timeline,
        parameters=(_GGRID,),
        errors=(*_ONE_MESSAGE, errors.RATE_LIMITED, errors.OVERLOADED),
    ),
    Operation(
        method="get",
        path="/v1/messages/{ggrid}/text",
        id="getMessageText",
        tag="Messages",
        example=examples.TEXT,
        summary="Read the text of a held message",
        description=(
            "Needs the permission `messages.read`. A sealed worker turns the message into plain text in which nothing "
            "acts; pictures are left out. The audit trail records who read it."
        ),
        answer=MessageText,
        parameters=(_GGRID,),
        errors=(*_HELD_MESSAGE, errors.MESSAGE_NOT_SHOWN, errors.RATE_LIMITED, errors.OVERLOADED),
    ),
    Operation(
        method="post",
        path="/v1/messages/{ggrid}/release",
        id="releaseMessage",
        tag="Messages",
        example=examples.RELEASE,
        summary="Send a held message on, once",
        description=(
            "Needs the permission `messages.release`, and for malware and phishing `messages.releaseDangerous`. "
            "Sends a message that is in the quarantine, or was kept with "
            "`restApi: {keep: held}`, to the next hop for its own recipients. It is not analysed again. Asking "
            "again answers the same and sends nothing. The decision on record stays what it was; the release is "
            "added to the record. A body is not read."
        ),
        answer=MessageRelease,
        parameters=(_GGRID,),
        errors=(*_HELD_MESSAGE, errors.DELIVERY_FAILED),
    ),
    Operation(
        method="post",
        path="/v1/messages/{ggrid}/delete",
        id="deleteMessage",
        tag="Messages",
        example=examples.DELETION,
        summary="Delete a held message for good",
        description=(
            "Needs the permission `messages.delete`. The result stays on record. A message that is not held, was "
            "released or is deleted already is 404. A body is not read."
        ),
        answer=MessageDeletion,
        parameters=(_GGRID,),
        errors=(*_HELD_MESSAGE, errors.DELIVERY_FAILED),
    ),
    Operation(
        method="post",
        path="/v1/messages/{ggrid}/report",
        id="reportMessage",
        tag="Messages",
        example=examples.REPORT,
        summary="Report that a decision was wrong",
        description=(
            "Needs the permission `messages.report`. The report is written to the audit trail. Within seconds, all "
            "nodes take near-copies of a message that should have been held for unwanted, and no longer take those of "
            "a message that should have been delivered for a campaign. The latest report on a message counts. The "
            "decision on record stays what it was. A report also teaches: with `tenantUid` the models of that tenant, "
            "without it those of the deployment. A report that confirms a decision teaches as well. Delivered mail "
            "leaves no bytes behind, so a report may carry the message, as in `submitEmail`: a sealed worker reads it, "
            "and only its features are kept."
        ),
        answer=MessageReport,
        parameters=(_GGRID,),
        body=_REPORT_BODY,
        errors=(
            *_WITH_BODY,
            errors.MESSAGE_NOT_FOUND,
            errors.MISSING_PART,
            errors.DUPLICATE_PART,
            errors.WRONG_PART_TYPE,
            errors.INVALID_PARAMETERS,
            errors.EMPTY_EMAIL,
            errors.MESSAGE_NOT_SHOWN,
            errors.SCANNING_DISABLED,
            errors.CORE_UNAVAILABLE,
            errors.ANALYSIS_TIMEOUT,
        ),
    ),
    Operation(
        method="post",
        path="/v1/heldMessages/search",
        id="searchHeldMessages",
        tag="Messages",
        example=examples.FOUND_HELD,
        summary="Search held mail",
        description=f"Needs the permission `messages.search`. {_PAGING}",
        answer=FoundHeldMessages,
        body=json_body(examples.SEARCH_HELD, "Held mail for one recipient"),
        errors=_WITH_BODY,
    ),
    Operation(
        method="post",
        path="/v1/heldMessages/release",
        id="releaseMessages",
        tag="Messages",
        example=examples.RELEASED,
        summary="Send many held messages on, each once",
        description=(
            "Needs the permission `messages.release`, and for malware and phishing `messages.releaseDangerous`. "
            f"{_MANY}"
        ),
        answer=ActionResults,
        body=json_body(examples.ACTION, "Two messages"),
        errors=_WITH_BODY,
    ),
    Operation(
        method="post",
        path="/v1/heldMessages/delete",
        id="deleteMessages",
        tag="Messages",
        example=examples.DELETED,
        summary="Delete many held messages for good",
        description=f"Needs the permission `messages.delete`. {_MANY}",
        answer=ActionResults,
        body=json_body(examples.ACTION, "Two messages"),
        errors=_WITH_BODY,
    ),
)
