"""An entry in its normal form, and what a kind of list must be able to do.

Any spelling of the same entry is the same entry: `key` is what spellings are compared and stored by, `shown` what
people read (for all kinds but people the two are the same).

A normal form can be several times as long as what was written: a link of a thousand letters that need escaping has nine
thousand bytes. Indexes of databases take less, so a key that is too long ends in a digest of itself.
"""

from collections.abc import Callable
from hashlib import sha256
from typing import Literal

import msgspec

Category = Literal["block", "allow", "policy", "trust", "protect"]

MAX_ENTRY = 1_000
# What an index of PostgreSQL takes in any case, with a digest behind it (a third of a page of 8 KiB).
MAX_KEY_BYTES = 2_600
_SURELY_SHORT = MAX_KEY_BYTES // 4


class Normal(msgspec.Struct, frozen=True):
    """A normal form."""

    key: str
    shown: str


class Refused(msgspec.Struct, frozen=True):
    """Why a text is no entry of this kind, in words for whoever sent it."""

    reason: str


class EntryKind(msgspec.Struct, frozen=True):
    """A kind of entry. `normalise` is total; `refuse` says why a normal form is too wide for a category of list, or "".

    Kinds with `keyed` are looked up by exact keys while scanning; the others reach the workers as compiled snapshots.
    """

    name: str
    description: str
    example: str
    normalise: Callable[[str], Normal | Refused]
    refuse: Callable[[str, Category], str]
    keyed: bool


def anything(_key: str, _category: Category) -> str:
    """For kinds of which no entry is too wide."""
    return ""


def same(key: str) -> Normal:
    """A normal form that is shown as it is compared."""
    return Normal(key, key)


def limited(key: str) -> str:
    """A key as it is compared and stored. One that was cut is longer than any that was not, so the two never meet."""
    if len(key) <= _SURELY_SHORT:
        return key
    # Half a character, which is no UTF-8, counts as the sign that storage puts in its place.
    raw = key.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").encode()
    if len(raw) <= MAX_KEY_BYTES:
        return key
    return raw[:MAX_KEY_BYTES].decode("utf-8", "ignore") + sha256(raw).hexdigest()


def all_limited(keys: tuple[str, ...]) -> tuple[str, ...]:
    """The same for many, of which hardly any is long."""
    return keys if max(map(len, keys), default=0) <= _SURELY_SHORT else tuple(map(limited, keys))
