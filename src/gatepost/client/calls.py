"""The calls of the Email Scanning API as exchanges: one function each, shared by both clients."""

from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO, TypeAlias
from urllib.parse import quote

import msgspec

from gatepost.api.scanning import (
    AnalysedMessage,
    BorderMtaData,
    MessageAnalysisRequest,
    MessageAnalysisResult,
    SystemStatus,
    encode,
)
from gatepost.client.exchange import Exchange, Retries, Send, call, multipart

Raw: TypeAlias = bytes | Path | BinaryIO


class Envelope(msgspec.Struct, frozen=True, kw_only=True):
    """What the border MTA knows of a message. An empty `sender` is a bounce's."""

    sender: str = ""
    recipients: Sequence[str]
    remote_address: str | None = None
    helo: str | None = None
    tenant: str | None = None


def scan(raw: Raw, envelope: Envelope, retries: Retries) -> Exchange[MessageAnalysisResult]:
    """`POST /v1/messageQueue/submitEmail`."""
    parameters = MessageAnalysisRequest(
        border_mta_data=BorderMtaData(
            envelope_from=envelope.sender,
            envelope_recipients=tuple(envelope.recipients),
            remote_address=envelope.remote_address,
            sender_helo=envelope.helo,
        ),
        tenant_uid=envelope.tenant,
    )
    content_type, body = multipart(
        [
            ("parameters", "application/json", encode(parameters)),
            ("email", "message/rfc822", _content(raw)),
        ]
    )
    request = Send("POST", "/v1/messageQueue/submitEmail", body, {"content-type": content_type})
    return call(request, MessageAnalysisResult, retries)


def status(retries: Retries) -> Exchange[SystemStatus]:
    """`POST /v1/admin/status`."""
    return call(Send("POST", "/v1/admin/status"), SystemStatus, retries)


def message(ggrid: str, retries: Retries) -> Exchange[AnalysedMessage]:
    """`GET /v1/messages/{ggrid}`."""
    return call(Send("GET", f"/v1/messages/{quote(ggrid, safe='')}"), AnalysedMessage, retries)


def _content(raw: Raw) -> bytes:
    if isinstance(raw, Path):
        return raw.read_bytes()
    return raw if isinstance(raw, bytes) else raw.read()
