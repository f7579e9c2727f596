"""Reading mail: any bytes become a frozen `Message`."""

from gatepost.mail import addresses
from gatepost.mail.budget import Budget, Limits
from gatepost.mail.headers import unfolded
from gatepost.mail.message import Field, Headers, Message
from gatepost.mail.mime import Parts
from gatepost.mail.text import read_texts
from gatepost.names import Address

# Fields that may stand only once (RFC 5322 section 3.6).
_SINGLE = frozenset(
    {"from", "sender", "reply-to", "to", "cc", "subject", "date", "message-id", "in-reply-to", "references"}
)

_ADDRESSED = frozenset({"from", "reply-to", "to", "cc"})


def read(raw: bytes) -> Message:
    """Read one message. Total: no input raises, none costs more than linear time."""
    return read_within(raw, Budget())


def read_within(raw: bytes, budget: Budget) -> Message:
    """Read one message within a budget that the caller can look at afterwards."""
    parts = Parts(raw, budget)
    headers, end = parts.root.entity.headers, parts.root.start
    _check_header(headers, budget)
    addressed = [field for field in headers.fields if field.name in _ADDRESSED]
    senders = _addresses(addressed, ("from",), budget)
    reply_to = _addresses(addressed, ("reply-to",), budget)
    recipients = _addresses(addressed, ("to", "cc"), budget)
    texts, links, oddities = read_texts(parts.flat)
    return Message(
        raw=raw,
        headers=headers,
        header_end=end,
        parts=parts.flat,
        texts=texts,
        links=links,
        subject=headers.first("subject") or "",
        senders=senders,
        reply_to=reply_to,
        recipients=recipients,
        defects=(*budget.defects, *oddities),
    )


def _check_header(headers: Headers, budget: Budget) -> None:
    seen: dict[str, str] = {}
    for field in headers.fields:
        if field.name in _SINGLE and seen.setdefault(field.name, field.value) != field.value:
            budget.note("mime:duplicate-header", "header", field.name)
    if not any(field.name for field in headers.fields):
        budget.note("mime:no-header", "header")


def _addresses(fields: list[Field], names: tuple[str, ...], budget: Budget) -> tuple[Address, ...]:
    found: list[Address] = []
    for field in fields:
        if field.name in names:
            some, more = addresses.parse(unfolded(field), budget.limits.addresses - len(found))
            found.extend(some)
            if more:
                budget.note("limit:addresses", field.name)
    budget.work.addresses += len(found)
    return tuple(found)


__all__ = ["Budget", "Limits", "read", "read_within"]
