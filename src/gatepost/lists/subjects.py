"""What of a message is looked up in lists: its senders, its host, its links and its files.

Each has a key for every entry that would cover it, so that one exact look-up finds them all.

The same subjects are kept with the result, so that "what would this entry have hit" can be answered later without the
message.
"""

from collections.abc import Collection, Iterable, Sequence
from itertools import chain, islice
from pathlib import PurePosixPath
from typing import Literal

import msgspec

from gatepost.auth.results import Authentication
from gatepost.files.signatures import MIME_TYPES
from gatepost.files.tree import File
from gatepost.lists import network, sender, url
from gatepost.lists.entry import all_limited
from gatepost.mail.addresses import parse
from gatepost.mail.message import Envelope, Message
from gatepost.names import Address, normal_address

MAX_LINKS = 2_000
MAX_SENDERS = 20

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
            return all_limited(sender.keys(self.value))
        if self.kind == "network":
            return network.keys(self.value)
        return all_limited(url.keys(self.value)) if self.kind == "url" else (self.value,)


def subjects(
    message: Message, envelope: Envelope, authentication: Authentication, files: Sequence[File]
) -> tuple[Subject, ...]:
    """Everything of a message that lists are asked about, each once."""
    found: dict[tuple[Role, str], Subject] = {}

    def add(role: Role, value: str, where: str) -> None:
        if value and (role, value) not in found:
            found[role, value] = Subject(role, value, where)

    add("envelope", normal_address(envelope.sender), "envelope")
    for author in message.senders:
        add("from", _address(author), "From")
    for value in message.headers.all("sender"):
        for agent in parse(value, MAX_SENDERS)[0]:
            add("sender", _address(agent), "Sender")
    add("host", authentication.host, "sending host")
    for link in islice(chain(message.links, *(file.links for file in files)), MAX_LINKS):
        if link.url.startswith("http"):
            add("link", link.url, link.where)
    for file in files:
        add("file", file.sha256, file.path)
        for kind in sorted(_types(file)):
            add("type", kind, file.path)
    return tuple(found.values())


def questions(asked: Iterable[Subject], kinds: Collection[str]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """The keys of all subjects of these kinds, each once: one question to the lists."""
    if not kinds:
        return ()
    by_kind: dict[str, dict[str, None]] = {}
    for subject in asked:
        if subject.kind not in kinds:
            continue
        by_kind.setdefault(subject.kind, {}).update(dict.fromkeys(subject.keys))
    return tuple((kind, tuple(keys)) for kind, keys in by_kind.items())


def _address(address: Address) -> str:
    return normal_address(str(address))


def _types(file: File) -> set[str]:
    """By content, by what is declared, and by every extension of every name."""
    kinds = {file.type, file.declared.lower(), MIME_TYPES.get(file.type, "")}
    for name in file.names:
        kinds.update(suffix[1:].lower() for suffix in PurePosixPath(name).suffixes[-3:])
    return kinds - {"", "text", "data", "empty"}
