"""The List API's types: one definition that validates requests, writes answers and makes the documentation.

Requests are strict: a field that is not known is refused, for a misspelt `tenantUid` must not turn a tenant's entry
into a global one. Answers may gain fields, so clients must ignore fields that they do not know.
"""

from typing import Annotated

import msgspec

from gatepost.api.scanning import DateTime, Uuid
from gatepost.lists.entries import MAX_ENTRY

MAX_BODY = 8 << 20
MAX_ENTRIES = 500
MAX_COMMENT = 1_000

TenantUid = Annotated[
    Uuid | None, msgspec.Meta(description="The tenant whose list is meant, in any case; absent or null: the global one")
]
ListName = Annotated[str, msgspec.Meta(description="Name of the list", examples=["blocked-senders", "blocked-urls"])]
Entry = Annotated[str, msgspec.Meta(max_length=MAX_ENTRY, examples=["ann@example.com", "*.example.org"])]
Comment = Annotated[str, msgspec.Meta(max_length=MAX_COMMENT)]
_COUNT = {"maxItems": MAX_ENTRIES}
DryRunFlag = Annotated[
    bool | None,
    msgspec.Meta(description="Change nothing, and answer what would have happened; a read-only key may do that"),
]
Count = Annotated[int, msgspec.Meta(ge=0)]


class _Request(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True):
    """A body of the List API."""


class _Answer(msgspec.Struct, frozen=True, rename="camel"):
    """What the List API answers."""


class NewListEntry(_Request, frozen=True):
    """An entry to add, or to update where the list has it already."""

    entry: Annotated[Entry, msgspec.Meta(description="In any spelling; it is stored in its normal form")]
    comment: Annotated[Comment | None, msgspec.Meta(description="For people; empty if absent")] = None
    expires: Annotated[
        DateTime | None,
        msgspec.Meta(
            description="From then on it does not match any more; absent: for good. A time in the past is refused"
        ),
    ] = None


class AddEntriesRequest(_Request, frozen=True):
    """Add or update entries: all of them or, on any error, none."""

    list_name: ListName
    entries: Annotated[tuple[NewListEntry, ...], msgspec.Meta(extra_json_schema=_COUNT)]
    tenant_uid: TenantUid = None
    dry_run: DryRunFlag = None


class DeleteEntriesRequest(_Request, frozen=True):
    """Delete entries; those that the list does not have are ignored."""

    list_name: ListName
    entries: Annotated[
        tuple[str, ...],
        msgspec.Meta(
            description="In any spelling; one without a normal form is compared as it stands", extra_json_schema=_COUNT
        ),
    ]
    tenant_uid: TenantUid = None
    dry_run: DryRunFlag = None


class GetListsRequest(_Request, frozen=True):
    """Ask which lists a scope has."""

    tenant_uid: TenantUid = None


class ListEntriesRequest(_Request, frozen=True):
    """Ask for all entries of a list."""

    list_name: ListName
    tenant_uid: TenantUid = None


class TriedEntry(_Answer, frozen=True):
    """What one entry alone would have done to the messages that were considered."""

    entry: Annotated[str, msgspec.Meta(description="In its normal form")]
    would_hit: Annotated[
        Count | None,
        msgspec.Meta(description="Messages that it would have matched; null where the stored keys cannot tell"),
    ]
    would_flip: Annotated[
        Count | None, msgspec.Meta(description="Messages among these that would have got another decision")
    ]


class DryRun(_Answer, frozen=True):
    """What a change would have done, judged by the keys and findings that are stored of the last messages of its scope.

    Phrases, protected names and trusted relays need the message itself: they answer null.
    """

    considered: Annotated[Count, msgspec.Meta(description="Stored messages that were looked at, the newest first")]
    would_modify: Annotated[Count, msgspec.Meta(description="What `modifiedEntries` would have been")]
    would_hit: Annotated[Count | None, msgspec.Meta(description="Messages that any of the entries would have matched")]
    would_flip: Annotated[
        Count | None, msgspec.Meta(description="Messages that all of the entries together would have decided otherwise")
    ]
    entries: Annotated[
        tuple[TriedEntry, ...], msgspec.Meta(description="Each distinct entry once, as the call first names it")
    ]


class ListChange(_Answer, frozen=True, omit_defaults=True):
    """What a change did."""

    modified_entries: Annotated[
        Count, msgspec.Meta(description="Distinct entries that were added, updated or deleted; 0 for a dry run")
    ]
    dry_run: Annotated[DryRun | None, msgspec.Meta(description="Only where the request asked for a dry run")] = None


class ListInfo(_Answer, frozen=True):
    """What a list is."""

    display_name: str
    category: Annotated[
        str,
        msgspec.Meta(
            description="What a hit does in general", examples=["block", "allow", "policy", "trust", "protect"]
        ),
    ]
    description: str
    max_size: Annotated[Count, msgspec.Meta(description="The most entries that the list may hold in one scope")]


class ListFileInfo(_Answer, frozen=True):
    """One list of a scope."""

    list_name: str
    list_info: ListInfo


class ListsOfScope(_Answer, frozen=True):
    """All lists of one scope."""

    list_file_infos: tuple[ListFileInfo, ...]


class PublicListsEntry(_Answer, frozen=True, gc=False):
    """One entry of the list: one line of the stream."""

    entry: str
    comment: str
    created: DateTime
    modified: DateTime
    modified_by: Annotated[
        str, msgspec.Meta(description="Who set it last: the kind and the name of a key, a user or a program")
    ]
    expires: DateTime | None
    hits: Annotated[Count, msgspec.Meta(description="Messages that it matched so far")]
    last_hit: DateTime | None


_ENCODER = msgspec.json.Encoder()


def encode_lists(value: object) -> bytes:
    """A value of these types as JSON."""
    return _ENCODER.encode(value)


def encode_lines(entries: list[PublicListsEntry]) -> bytes:
    """Entries as lines of JSON, each ended by a line feed."""
    return _ENCODER.encode_lines(entries)
