"""The Email Scanning API as a table of operations: what `GET /v1/openapi.json` and `/docs` are made from."""

from typing import Any

from gatepost.api import errors
from gatepost.api.openapi import Interface, Operation, ref
from gatepost.api.scanning import (
    AnalysedMessage,
    MessageAnalysisRequest,
    MessageAnalysisResult,
    MessageRelease,
    SystemStatus,
)

VERSION = "1.1.0"

_UPLOAD: dict[str, Any] = {
    "required": True,
    "content": {
        "multipart/form-data": {
            "schema": {
                "type": "object",
                "required": ["parameters", "email"],
                "properties": {
                    "parameters": {
                        **ref(MessageAnalysisRequest),
                        "description": "The part's own content type must be explicitly set to `application/json`.",
                    },
                    "email": {
                        "type": "string",
                        "format": "binary",
                        "contentMediaType": "message/rfc822",
                        "minLength": 1,
                        "description": "The raw email as transported over the wire (an .eml file).",
                    },
                },
            },
            "encoding": {
                "parameters": {"contentType": "application/json"},
                "email": {"contentType": "message/rfc822, application/octet-stream"},
            },
        }
    },
}
_EMPTY: dict[str, Any] = {
    "required": False,
    "content": {"application/json": {"schema": {"type": "object"}}},
}
_GGRID: dict[str, Any] = {
    "name": "ggrid",
    "in": "path",
    "required": True,
    "description": "The id that the scan answered, in any case",
    "schema": {"type": "string", "format": "uuid"},
}
_ANYWHERE = (errors.MALFORMED_REQUEST, errors.UNAUTHORIZED, errors.INTERNAL_ERROR)

SCANNING = Interface(
    title="Gatepost Email Scanning API",
    version=VERSION,
    description=(
        "Takes a raw email over HTTP and returns the analysis result synchronously, instead of receiving the mail "
        "over SMTP. Every answer that is not a success, on every path and method, is a JSON `Error`. `v1` only ever "
        "gains optional fields, tags and error codes."
    ),
    security={
        "type": "http",
        "scheme": "bearer",
        "description": "A token of `staticApiTokens`. It may submit and ask for the status without any permission.",
    },
    types=(MessageAnalysisRequest,),
    operations=(
        Operation(
            method="post",
            path="/v1/messageQueue/submitEmail",
            id="submitEmail",
            summary="Submit a message and wait for its analysis",
            description=(
                "Submits a message to the analysis queue and waits for the analysis to complete. The request body may "
                "hold 52,428,800 bytes (50 MiB), announced by Content-Length or chunked. The parts come in either "
                "order; other parts are ignored, and so are unknown fields of `parameters`. Where every core is full "
                "the scan waits for a slot, first come first served."
            ),
            answer=MessageAnalysisResult,
            body=_UPLOAD,
            errors=(
                *_ANYWHERE,
                errors.MISSING_PART,
                errors.DUPLICATE_PART,
                errors.WRONG_PART_TYPE,
                errors.INVALID_PARAMETERS,
                errors.EMPTY_EMAIL,
                errors.TENANT_NOT_FOUND,
                errors.PAYLOAD_TOO_LARGE,
                errors.UNSUPPORTED_MEDIA_TYPE,
                errors.SCANNING_DISABLED,
                errors.CORE_UNAVAILABLE,
                errors.OVERLOADED,
                errors.ANALYSIS_TIMEOUT,
            ),
        ),
        Operation(
            method="post",
            path="/v1/admin/status",
            id="status",
            summary="Ask for the system status",
            description="Takes no body, an empty body or `{}`; unknown fields are ignored.",
            answer=SystemStatus,
            body=_EMPTY,
            errors=(*_ANYWHERE, errors.INVALID_PARAMETERS, errors.PAYLOAD_TOO_LARGE),
        ),
        Operation(
            method="get",
            path="/v1/messages/{ggrid}",
            id="message",
            summary="Read one analysis with its ledger",
            description="Needs the permission `messages.read`. The `counted` points of all findings add up to `score`.",
            answer=AnalysedMessage,
            parameters=(_GGRID,),
            errors=(*_ANYWHERE, errors.FORBIDDEN, errors.MESSAGE_NOT_FOUND),
        ),
        Operation(
            method="post",
            path="/v1/messages/{ggrid}/release",
            id="release",
            summary="Send a held message on, once",
            description=(
                "Needs the permission `messages.release`. Sends a message that is in the quarantine, or was kept with "
                "`restApi: {keep: held}`, to the next hop for its own recipients. It is not analysed again. Asking "
                "again answers the same and sends nothing. The decision on record stays what it was; the release is "
                "added to the record. A body is not read."
            ),
            answer=MessageRelease,
            parameters=(_GGRID,),
            errors=(
                *_ANYWHERE,
                errors.FORBIDDEN,
                errors.MESSAGE_NOT_FOUND,
                errors.CORE_UNAVAILABLE,
                errors.DELIVERY_FAILED,
            ),
        ),
        Operation(
            method="get",
            path="/v1/openapi.json",
            id="openapi",
            summary="This document",
            description="Needs no credential.",
            answer=None,
            errors=(errors.MALFORMED_REQUEST, errors.INTERNAL_ERROR),
            secured=False,
        ),
    ),
)
