"""Subjects: the values of a message that list entries can cover.

Each has a key for every entry that would cover it, so that one exact look-up finds them all. The subjects are stored
with the result, so that "what would this entry have hit" can be answered later without the message.
"""

from collections.abc import Collection, Iterable
from typing import Literal

import msgspec

from gatepost.lists.addresses import list_sender_keys
from gatepost.lists.entries import limit_keys, list_network_keys
from gatepost.lists.links import list_url_keys
from gatepost.questions import ReputationValue

Role = Literal["envelope", "from", "sender", "host", "link", "file", "type", "text"]
_KIND: dict[Role, str] = {
    "envelope": "sender",
    "from": "sender",
    "sender": "sender",
    "host": "network",
    "link": "url",
    "file": "sha256",
    "type": "file-type",
    "text": "phrase",
}


class Subject(msgspec.Struct, frozen=True, array_like=True):
    """One thing that is looked up: what it is to the message, its value, and where it was found."""

    role: Role
    value: str
    where: str

    @property
    def kind(self) -> str:
        """The kind of list entry that can cover it."""
        return _KIND[self.role]

    @property
    def keys(self) -> tuple[str, ...]:
        """Every key that an entry covering it would have."""
        if self.kind == "sender":
            return limit_keys(list_sender_keys(self.value))
        if self.kind == "network":
            return list_network_keys(self.value)
        return limit_keys(list_url_keys(self.value)) if self.kind == "url" else (self.value,)


def collect_keys(asked: Iterable[Subject], kinds: Collection[str]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return the keys of all subjects of these kinds, each once: one question to the lists."""
    if not kinds:
        return ()
    by_kind: dict[str, dict[str, None]] = {}
    for subject in asked:
        if subject.kind not in kinds:
            continue
        by_kind.setdefault(subject.kind, {}).update(dict.fromkeys(subject.keys))
    return tuple((kind, tuple(keys)) for kind, keys in by_kind.items())


def make_subject(value: ReputationValue) -> Subject:
    """Return what reputation zones are asked about as a subject of lists: an entry that allows it keeps it private."""
    match value.subject:
        case "host" | "file":
            return Subject(value.subject, value.value, "")
        case "link":
            return Subject("link", f"https://{value.value}/", "")
        case "sender":
            # Any mailbox will do: only entries for the domain are meant.
            return Subject("from", f"-@{value.value}", "")
        case "address":
            return Subject("from", value.value, "")
