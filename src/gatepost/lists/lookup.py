"""What of a message lists are asked about: its senders, its host, its links and its files, by key; its texts, and the
names of its files."""

from collections.abc import Sequence
from itertools import chain, islice

import msgspec

from gatepost.auth.results import Authentication
from gatepost.files.file_types import MIME_TYPES, list_extensions
from gatepost.files.values import File
from gatepost.lists.entries import FindingLimit, Role, UnkeyedEntry
from gatepost.lists.rulings import Match, Subject
from gatepost.lists.unkeyed import CompiledLists, make_hit
from gatepost.mail.headers import parse_addresses
from gatepost.mail.message import Envelope, Message
from gatepost.names import Address, normal_address

# Types by content that say nothing; as extensions (`x.data`) they are types like others.
_NO_TYPES = frozenset({"text", "data", "empty"})
MAX_LINKS = 2_000
MAX_SENDERS = 20


def find_subjects(
    message: Message, envelope: Envelope, authentication: Authentication, files: Sequence[File]
) -> tuple[Subject, ...]:
    """Return everything of a message that lists are asked about, each once."""
    found: dict[tuple[Role, str], Subject] = {}

    def add(role: Role, value: str, where: str) -> None:
        if value and (role, value) not in found:
            found[role, value] = Subject(role, value, where)

    add("envelope", normal_address(envelope.sender), "envelope")
    for author in message.senders:
        add("from", _normalise(author), "From")
    for value in message.headers.all("sender"):
        for agent in parse_addresses(value, MAX_SENDERS)[0]:
            add("sender", _normalise(agent), "Sender")
    add("host", authentication.host, "sending host")
    for link in islice(chain(message.links, *(file.links for file in files)), MAX_LINKS):
        if link.url.startswith("http"):
            add("link", link.url, link.where)
    for file in files:
        add("file", file.sha256, file.path)
        for kind in sorted(_collect_types(file)):
            add("type", kind, file.path)
    return tuple(found.values())


class TextMatches(msgspec.Struct, frozen=True):
    """The entries that texts of a message have in them. `limit` says why not all texts were compared, or ""."""

    found: tuple[Match, ...] = ()
    limit: str = ""


def find_in_texts(lists: CompiledLists, message: Message, files: Sequence[File]) -> TextMatches:
    """Match the lists that are handed out whole against the texts of a message and the names of its files."""
    matches: dict[UnkeyedEntry, list[Match]] = {}
    limit = ""
    for definition, finder in lists.finders:
        for role in definition.subjects:
            texts = _list_texts(role, message, files)
            try:
                for place, entry in finder.find([text for _, text in texts]):
                    where, text = texts[place]
                    subject = Subject(role, entry.key if role == "text" else text, where)
                    matches.setdefault(entry, []).append(Match(make_hit(entry), subject))
            except FindingLimit as reached:
                limit = f"{definition.name}: {reached}"
    return TextMatches(tuple(match for several in matches.values() for match in several), limit)


def _list_texts(role: Role, message: Message, files: Sequence[File]) -> list[tuple[str, str]]:
    """Return the texts of one role, each after the place where it stands."""
    match role:
        case "text":
            return [("Subject", message.subject), *((text.where, text.visible) for text in message.texts)]
        case "name":
            return [(file.path, name) for file in files for name in file.names]
        case _:
            raise ValueError(f"no text of a message has the role {role}")


def _normalise(address: Address) -> str:
    return normal_address(str(address))


def _collect_types(file: File) -> set[str]:
    """Return a file's types by content, declaration, and every extension: `x.tar.gz` is `tar.gz`, `tar` and `gz`."""
    kinds = {file.declared.lower(), MIME_TYPES.get(file.type, "")}
    if file.type not in _NO_TYPES:
        kinds.add(file.type)
    for name in file.names:
        extensions = list_extensions(name)[:3]
        kinds.update(extensions)
        kinds.update(".".join(reversed(extensions[: count + 1])) for count in range(1, len(extensions)))
    return kinds - {""}
