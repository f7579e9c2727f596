"""The `parameters` part: decoded fast, and on failure looked at again by a collector that names every fault.

Known fields are strict (`"5"` is not 5), unknown ones are ignored, null on an optional field means absent.
"""

from collections.abc import Iterator
from ipaddress import ip_address
from typing import Any

import msgspec

from gatepost.abby.faults import kind_of, listed, wrong
from gatepost.api.errors import INVALID_PARAMETERS, MALFORMED_REQUEST, Failure
from gatepost.api.scanning import MAX_RECIPIENTS, MessageAnalysisRequest
from gatepost.ids import canonical
from gatepost.mail.message import Envelope

_DECODER = msgspec.json.Decoder(MessageAnalysisRequest)


def read_parameters(data: bytes) -> Envelope | Failure:
    """The envelope that `parameters` states, or everything that is wrong with it."""
    try:
        request = _DECODER.decode(data)
    except (ValueError, RecursionError):
        return _faults(data)
    return _envelope(request) if _sound(request) else _faults(data)


def _sound(request: MessageAnalysisRequest) -> bool:
    border = request.border_mta_data
    return (
        _is_text("\t".join(border.envelope_recipients))
        and _is_text(border.envelope_from)
        and _is_text(border.sender_helo or "")
        and (border.remote_address is None or _is_address(border.remote_address))
        and (request.tenant_uid is None or canonical(request.tenant_uid) is not None)
    )


def _envelope(request: MessageAnalysisRequest) -> Envelope:
    border = request.border_mta_data
    return Envelope(
        sender=_bare(border.envelope_from),
        recipients=tuple(_bare(recipient) for recipient in border.envelope_recipients),
        remote_address=border.remote_address and str(ip_address(border.remote_address)),
        helo=border.sender_helo,
        tenant=request.tenant_uid and canonical(request.tenant_uid),
    )


def _bare(address: str) -> str:
    """Without the angle brackets of SMTP (RFC 5321 section 4.1.1.2), which some border MTAs pass on."""
    return address[1:-1] if address[:1] == "<" and address[-1:] == ">" else address


def _is_text(value: str) -> bool:
    return "\r" not in value and "\n" not in value and "\0" not in value


def _is_address(value: str) -> bool:
    try:
        ip_address(value)
    except ValueError:
        return False
    return "%" not in value


def _faults(data: bytes) -> Failure:
    """Every fault by the name of its field."""
    try:
        found = msgspec.json.decode(data)
    except RecursionError:
        return Failure(MALFORMED_REQUEST, "the part parameters is nested too deeply")
    except ValueError:
        return Failure(MALFORMED_REQUEST, "the part parameters is not valid JSON in UTF-8")
    return listed(INVALID_PARAMETERS, _request_faults(found))


def _request_faults(found: Any) -> Iterator[str]:
    if not isinstance(found, dict):
        yield f"parameters must be an object, not {kind_of(found)}"
        return
    border = found.get("borderMtaData")
    if isinstance(border, dict):
        yield from _border_faults(border)
    else:
        yield wrong("borderMtaData", border, "an object", "borderMtaData" in found)
    yield from _optional(found, "tenantUid", "tenantUid", lambda value: canonical(value) is not None, "a UUID")


def _border_faults(border: dict[str, Any]) -> Iterator[str]:
    place = "borderMtaData."
    if isinstance(border.get("envelopeFrom"), str):
        yield from _text_faults(place + "envelopeFrom", border["envelopeFrom"])
    else:
        yield wrong(place + "envelopeFrom", border.get("envelopeFrom"), "a string", "envelopeFrom" in border)
    yield from _recipient_faults(place + "envelopeRecipients", border)
    yield from _optional(border, "remoteAddress", place + "remoteAddress", _is_address, "an IPv4 or IPv6 address")
    yield from _optional(border, "senderHelo", place + "senderHelo", _is_text, "text without CR, LF and NUL")


def _recipient_faults(name: str, border: dict[str, Any]) -> Iterator[str]:
    recipients = border.get("envelopeRecipients")
    if not isinstance(recipients, list):
        yield wrong(name, recipients, "an array of strings", "envelopeRecipients" in border)
        return
    if not 1 <= len(recipients) <= MAX_RECIPIENTS:
        yield f"{name} must have 1 to {MAX_RECIPIENTS:,} items, not {len(recipients):,}"
    for index, recipient in enumerate(recipients):
        if not isinstance(recipient, str):
            yield f"{name}[{index}] must be a string, not {kind_of(recipient)}"
        else:
            yield from _text_faults(f"{name}[{index}]", recipient)


def _optional(found: dict[str, Any], key: str, name: str, sound: Any, wanted: str) -> Iterator[str]:
    value = found.get(key)
    if value is None:
        return
    if not isinstance(value, str):
        yield f"{name} must be a string, not {kind_of(value)}"
    elif not sound(value):
        yield f"{name} must be {wanted}"


def _text_faults(name: str, value: str) -> Iterator[str]:
    if not _is_text(value):
        yield f"{name} must be text without CR, LF and NUL"
