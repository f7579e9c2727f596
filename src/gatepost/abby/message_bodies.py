"""Request bodies of the operations on messages."""

import re
from collections.abc import Callable, Iterator, Sequence
from ipaddress import ip_address
from typing import Any, get_args

from gatepost.abby.json_bodies import (
    BodyReader,
    Collector,
    flag_faults,
    kind_of,
    length_faults,
    tenant_faults,
    text_faults,
    time_faults,
    wrong_kind,
)
from gatepost.api.messages import (
    FILE_HASH,
    HELD_CURSOR,
    MAX_ACTIONS,
    MAX_ADDRESS,
    MAX_BODY,
    MAX_HOST,
    MAX_NAME,
    MAX_PAGE,
    MAX_QUERY,
    MAX_QUEUE_ID,
    MAX_SUBJECT,
    MAX_TAG,
    MESSAGE_CURSOR,
    HeldMessagesRequest,
    ReportMessageRequest,
    SearchHeldMessagesRequest,
    SearchMessagesRequest,
    ShouldHaveBeen,
)
from gatepost.ids import canonical
from gatepost.policy.rules import Decision, Verdict
from gatepost.times import milliseconds

_HASH = re.compile(FILE_HASH)
_CURSORS = {SearchMessagesRequest: re.compile(MESSAGE_CURSOR), SearchHeldMessagesRequest: re.compile(HELD_CURSOR)}


def _is_sound_search(body: SearchMessagesRequest | SearchHeldMessagesRequest) -> bool:
    """Check what the decoder cannot."""
    times = all(time is None or milliseconds(time) is not None for time in (body.since, body.until))
    address = body.remote_address is None or _is_address(body.remote_address)
    digest = body.file_hash is None or bool(_HASH.fullmatch(body.file_hash))
    cursor = body.cursor is None or bool(_CURSORS[type(body)].fullmatch(body.cursor))
    ggrid = not isinstance(body, SearchMessagesRequest) or body.ggrid is None or bool(canonical(body.ggrid))
    return times and address and digest and cursor and ggrid


def _has_ids(body: HeldMessagesRequest) -> bool:
    return all(map(canonical, body.ggrids))


def _is_address(text: str) -> bool:
    try:
        return "%" not in text and bool(ip_address(text))
    except ValueError:
        return False


def _optional_text(most: int, least: int = 0) -> Collector:
    """The faults of an optional text."""

    def faults(name: str, value: Any, present: bool) -> Iterator[str]:
        if value is None:
            return
        yield from text_faults(name, value, present)
        yield from length_faults(name, value, most)
        if isinstance(value, str) and len(value) < least:
            yield f"{name} must not be empty"

    return faults


def _checked_text(check: Callable[[str], object], wanted: str) -> Collector:
    """The faults of an optional text that has a form."""

    def faults(name: str, value: Any, present: bool) -> Iterator[str]:
        if value is None:
            return
        yield from text_faults(name, value, present)
        if isinstance(value, str) and not check(value):
            yield f"{name} must be {wanted}"

    return faults


def _one_of(values: Sequence[str]) -> Collector:
    return _checked_text(lambda value: value in values, f"one of {', '.join(values)}")


def _required(faults_of: Collector) -> Collector:
    """The faults of a text that must be there."""

    def faults(name: str, value: Any, present: bool) -> Iterator[str]:
        if value is None:
            yield wrong_kind(name, value, "a string", present)
        else:
            yield from faults_of(name, value, present)

    return faults


def _limit_faults(name: str, value: Any, _present: bool) -> Iterator[str]:
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= MAX_PAGE):
        yield f"{name} must be a whole number from 1 to {MAX_PAGE}"


def _ids_faults(name: str, value: Any, present: bool) -> Iterator[str]:
    if not isinstance(value, list):
        yield wrong_kind(name, value, "an array of strings", present)
        return
    if not 1 <= len(value) <= MAX_ACTIONS:
        yield f"{name} has {len(value):,} items; a call takes 1 to {MAX_ACTIONS}"
    for index, each in enumerate(value):
        if not (isinstance(each, str) and canonical(each)):
            what = "a UUID" if isinstance(each, str) else f"a string, not {kind_of(each)}"
            yield f"{name}[{index}] must be {what}"


_FILTERS: dict[str, Collector] = {
    "since": time_faults,
    "until": time_faults,
    "sender": _optional_text(MAX_ADDRESS),
    "recipient": _optional_text(MAX_ADDRESS),
    "subject": _optional_text(MAX_SUBJECT),
    "verdict": _one_of(get_args(Verdict)),
    "remoteAddress": _checked_text(_is_address, "an IP address"),
    "linkHost": _optional_text(MAX_HOST, 1),
    "fileName": _optional_text(MAX_NAME, 1),
    "fileHash": _checked_text(_HASH.fullmatch, "a SHA-256 of 64 hex digits"),
    "messageId": _optional_text(MAX_NAME, 1),
    "headerFrom": _optional_text(MAX_NAME, 1),
    "query": _optional_text(MAX_QUERY),
    "anywhere": _optional_text(MAX_NAME, 1),
    "queueId": _optional_text(MAX_QUEUE_ID, 1),
    "limit": _limit_faults,
}
_CURSOR = "the next of another page"

SEARCH = BodyReader(
    SearchMessagesRequest,
    {
        **_FILTERS,
        "decision": _one_of(get_args(Decision)),
        "tag": _optional_text(MAX_TAG),
        "ggrid": tenant_faults,
        "nextHopId": _optional_text(MAX_QUEUE_ID, 1),
        "cursor": _checked_text(_CURSORS[SearchMessagesRequest].fullmatch, _CURSOR),
    },
    most=MAX_BODY,
    is_sound=_is_sound_search,
)
SEARCH_HELD = BodyReader(
    SearchHeldMessagesRequest,
    {
        **_FILTERS,
        "released": flag_faults,
        "cursor": _checked_text(_CURSORS[SearchHeldMessagesRequest].fullmatch, _CURSOR),
    },
    most=MAX_BODY,
    is_sound=_is_sound_search,
)
REPORT = BodyReader(
    ReportMessageRequest, {"shouldHaveBeen": _required(_one_of(get_args(ShouldHaveBeen)))}, most=MAX_BODY
)
ACT = BodyReader(HeldMessagesRequest, {"ggrids": _ids_faults}, most=MAX_BODY, is_sound=_has_ids)
