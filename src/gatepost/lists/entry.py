"""An entry in its normal form, and what a kind of list must be able to do.

Any spelling of the same entry is the same entry: `key` is what spellings are compared and stored by, `shown` what
people read (for all kinds but people the two are the same).
"""

from collections.abc import Callable
from typing import Literal

import msgspec

Category = Literal["block", "allow", "policy", "trust", "protect"]

MAX_ENTRY = 1_000


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
