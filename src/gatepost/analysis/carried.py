"""Messages that a message carries and that are not its sender's words: those in bounces, and what own people forward.

They are read for malware, files, lists and sites like everything else. What their texts want of a reader makes no lure
of the mail that carries them, where it is proven whose they are:

- An own user sends the mail: its origin says so, or SPF or DKIM proves a From in an own domain.
- A bounce has no envelope sender and returns one message that the house wrote: DKIM proves its From, its whole body and
  every field that a reader sees, and From is a recipient of the bounce, or in an own domain.

Whoever makes up a bounce can write any From into what it returns, so without a signature all of it is judged.
"""

from collections.abc import Iterable

from msgspec.structs import replace

from gatepost.auth.dkim import verify
from gatepost.auth.results import Authentication
from gatepost.auth.signature import SignedMessage
from gatepost.checks.known_names import is_under
from gatepost.checks.reading import Reading
from gatepost.mail.message import Envelope, Message
from gatepost.mail.part_places import find_attached_messages
from gatepost.mail.reader import read
from gatepost.names import normal_address, normal_domain, org_domain
from gatepost.questions import Asking, Campaign


def find_carried(
    message: Message, envelope: Envelope, found: Authentication, own_domains: frozenset[str], now: float
) -> Asking[tuple[str, ...]]:
    """Return the paths of attached messages whose texts are proven to be others'; `found` says who sent the mail."""
    paths = tuple(part.path for part in message.attached)
    is_proven = found.aligned and _is_by(message, (), own_domains)
    if not paths or is_proven or found.origin in ("own network", "logged in"):
        return paths
    if envelope.sender.strip("<> "):
        return ()
    inside = tuple(f"{path}." for path in paths)
    returned = find_attached_messages(message.raw)
    if sum(not path.startswith(inside) for path in paths) != 1 or not returned:
        return ()
    inner = read(returned[0])
    if not _is_by(inner, envelope.recipients, own_domains):
        return ()
    author = org_domain(normal_domain(inner.senders[0].domain))
    for each in (yield from verify(SignedMessage(inner.raw, inner.header_end, inner.headers.fields), now)):
        is_whole = not (each.unsigned_bytes or each.uncovered or each.testing)
        if each.result == "pass" and is_whole and org_domain(normal_domain(each.domain)) == author:
            return paths
    return ()


def _is_by(message: Message, people: Iterable[str], domains: frozenset[str]) -> bool:
    """Return whether From is one of these people, or somebody in one of these domains."""
    if len(message.senders) != 1:
        return False
    author = message.senders[0]
    return is_under(normal_domain(author.domain), domains) or normal_address(str(author)) in map(normal_address, people)


def leave_out(reading: Reading, paths: tuple[str, ...]) -> Reading:
    """Return a reading without the texts and links of the parts with these paths, and without tricks in those texts."""
    inside = tuple(f"{path}{mark}" for path in paths for mark in ".~/")
    message, files = reading.message, reading.files
    texts = tuple(text for text in message.texts if not text.where.startswith(inside))
    links = tuple(link for link in message.links if not link.where.startswith(inside))
    tricks = {each for each in message.defects if each.kind.startswith("text:") and each.where.startswith(inside)}
    defects = tuple(each for each in message.defects if each not in tricks)
    return replace(
        reading,
        message=replace(message, texts=texts, links=links, defects=defects),
        files=tuple(replace(file, links=()) if file.path.startswith(inside) else file for file in files),
        campaign=Campaign(),
        words=None,
    )
