"""Request bodies of the List API."""

from collections.abc import Iterator
from typing import Any, TypeAlias, TypeVar

from gatepost.abby.json_bodies import (
    BodyReader,
    array_faults,
    flag_faults,
    length_faults,
    object_faults,
    text_faults,
    time_faults,
)
from gatepost.api.lists import (
    MAX_BODY,
    MAX_COMMENT,
    AddEntriesRequest,
    DeleteEntriesRequest,
    GetListsRequest,
    ListEntriesRequest,
)
from gatepost.lists.entries import MAX_ENTRY
from gatepost.times import milliseconds

Body: TypeAlias = AddEntriesRequest | DeleteEntriesRequest | GetListsRequest | ListEntriesRequest
B = TypeVar("B", bound=Body)


def _has_times(body: AddEntriesRequest) -> bool:
    """Check what the decoder cannot."""
    return all(entry.expires is None or milliseconds(entry.expires) is not None for entry in body.entries)


def _entry_faults(name: str, value: Any, present: bool) -> Iterator[str]:
    yield from text_faults(name, value, present)
    yield from length_faults(name, value, MAX_ENTRY)


def _comment_faults(name: str, value: Any, present: bool) -> Iterator[str]:
    if value is not None:
        yield from text_faults(name, value, present)
        yield from length_faults(name, value, MAX_COMMENT)


def _new_entry_faults(name: str, value: Any, _present: bool) -> Iterator[str]:
    yield from object_faults(
        name, f"{name}.", value, {"entry": _entry_faults, "comment": _comment_faults, "expires": time_faults}
    )


ADD = BodyReader(
    AddEntriesRequest,
    {
        "listName": text_faults,
        "entries": array_faults(_new_entry_faults, "an array of objects"),
        "dryRun": flag_faults,
    },
    most=MAX_BODY,
    is_sound=_has_times,
)
DELETE = BodyReader(
    DeleteEntriesRequest,
    {"listName": text_faults, "entries": array_faults(text_faults, "an array of strings"), "dryRun": flag_faults},
    most=MAX_BODY,
)
GET = BodyReader(GetListsRequest, {}, most=MAX_BODY)
LIST = BodyReader(ListEntriesRequest, {"listName": text_faults}, most=MAX_BODY)
