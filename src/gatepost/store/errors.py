"""How a store operation fails.

A refusal that belongs to ordinary use is a value that the operation returns, so that callers have to look at it:
`NotFound`, `NameTaken`, `ListFull`, `TooManyLists`, `TenantFull`, `LastAdministrator` (and `KeyRefused` in `api_keys`).
`StorageError` is raised where storage itself cannot be used.
"""

from typing import Literal

import msgspec

from gatepost.process.logs import ExpectedError


class StorageError(ExpectedError):
    """Storage cannot be used; the text says what the operator can do about it."""


class NotFound(msgspec.Struct, frozen=True):
    """The tenant, list, key or user that the call names does not exist (any more)."""

    what: Literal["tenant", "list", "key", "user", "form"]


class NameTaken(msgspec.Struct, frozen=True):
    """Another tenant, list, user or domain owner has that name; `by` says which one, where that helps."""

    name: str
    by: str = ""


class ListFull(msgspec.Struct, frozen=True):
    """The call would have taken the list from `size` past `max_size` entries, or all lists of the scope that are handed
    out whole past so many bytes; nothing of it was applied."""

    size: int
    max_size: int
    unit: Literal["entries", "bytes"] = "entries"

    @property
    def explanation(self) -> str:
        """The sentence without its full stop that says what is full."""
        if self.unit == "bytes":
            return (
                f"the phrases, people, domains and relays of this scope have {self.size:,} of at most"
                f" {self.max_size:,} bytes together"
            )
        return f"the list has {self.size:,} of at most {self.max_size:,} entries"


class TooManyLists(msgspec.Struct, frozen=True):
    """The scope has as many custom lists as it may have."""

    limit: int


class TenantFull(msgspec.Struct, frozen=True):
    """The tenant has as many keys or users as it may have."""

    what: Literal["API keys", "users"]
    limit: int

    @property
    def explanation(self) -> str:
        """The sentence without its full stop that says what is full."""
        first = "revoke" if self.what == "API keys" else "delete"
        return f"the tenant has {self.limit:,} {self.what}, as many as it may have; {first} one first"


class LastAdministrator(msgspec.Struct, frozen=True):
    """The change would have left no administrator of all tenants; nothing of it was applied."""

    uid: str
