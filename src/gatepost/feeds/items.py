"""What a feed says, collected in the normal form of its list: every reader of a format hands its values over here.

Nothing that a feed says is trusted. A value that the list refuses is skipped and counted, and a feed with more entries
than it may have ends the run.
"""

from typing import Literal, TypeAlias

import msgspec

from gatepost.api.lists import MAX_COMMENT, NewListEntry
from gatepost.lists.catalogue import ListDefinition
from gatepost.lists.entries import ListRefusal
from gatepost.rejudge.dry_run import new_entry
from gatepost.store.lists import NewEntry
from gatepost.times import date_time, now

# A line or value that is longer is no entry of any list.
MAX_VALUE = 10_000
SAMPLES = 5

ValueKind: TypeAlias = Literal["url", "host", "address", "email", "sha256"]

# Which values of formats that name kinds of values (MISP, STIX) are entries of which kind of list. A host is no sender:
# a site that was broken into may still send honest mail.
_USES: dict[str, frozenset[ValueKind]] = {
    "url": frozenset({"url", "host"}),
    "network": frozenset({"address"}),
    "sender": frozenset({"email"}),
    "sha256": frozenset({"sha256"}),
    "domain": frozenset({"host"}),
}


class FeedFault(Exception):  # noqa: N818  an outcome of a run, not a fault of the program
    """Why a run ends without a result. `refused` says that the source answered, with something that is not accepted."""

    def __init__(self, reason: str, *, refused: bool = False) -> None:
        super().__init__(reason)
        self.refused = refused


class RejectedValue(msgspec.Struct, frozen=True):
    """A value that the list refused, and why."""

    value: str
    reason: str


class FeedItems:
    """Collects the entries of one run: `entries` by key, and how many values were none."""

    def __init__(self, definition: ListDefinition, source: str, max_entries: int) -> None:
        self._definition, self._max_entries = definition, max_entries
        self._uses = _USES.get(definition.kind, frozenset())
        self._moment = now()
        self.kind = definition.kind
        self._comment = f"{source}, {date_time(self._moment)[:10]}"
        self.entries: dict[str, NewEntry] = {}
        self.revoked: set[str] = set()
        self.read = self.invalid = self.expired = self.other = self.repeated = 0
        self.rejected: list[RejectedValue] = []

    def uses(self, kind: ValueKind) -> bool:
        """Whether values of this kind are entries of the list; others are counted."""
        if kind in self._uses:
            return True
        self.count_other()
        return False

    def add(self, value: str, comment: str = "", expires: int | None = None) -> None:
        """Take one value, whatever it is. `expires` None is never."""
        self.read += 1
        if expires is not None and expires <= self._moment:
            self.expired += 1
            return
        stated = f"{self._comment}: {comment.strip()}" if comment.strip() else self._comment
        made = new_entry(NewListEntry(value[:MAX_VALUE], stated[:MAX_COMMENT]), self._definition)
        if isinstance(made, ListRefusal):
            self._reject(value, made.reason)
            return
        if made.key in self.entries:
            self.repeated += 1
        elif len(self.entries) >= self._max_entries:
            raise FeedFault(f"the feed has more than {self._max_entries:,} entries (maxEntries)", refused=True)
        self.revoked.discard(made.key)
        self.entries[made.key] = msgspec.structs.replace(made, expires=expires)

    def revoke(self, value: str) -> None:
        """Take a value back: the source says that it does not hold any more."""
        key = self._definition.key(value[:MAX_VALUE])
        self.entries.pop(key, None)
        if len(self.revoked) < self._max_entries:
            self.revoked.add(key)

    def reject(self, value: str, reason: str) -> None:
        """Count something that cannot be read."""
        self.read += 1
        self._reject(value, reason)

    def count_other(self) -> None:
        """Count something that can be read and is nothing for this list."""
        self.other += 1

    def _reject(self, value: str, reason: str) -> None:
        self.invalid += 1
        if len(self.rejected) < SAMPLES:
            self.rejected.append(RejectedValue(value[:200], reason))
