"""What of a message reputation zones are asked about: its host, the sites of its links, its senders and its files.

guard says which of these any zone lists (`wanted`), so that nothing else is collected, and a deployment without zones
pays nothing. Own domains are never asked about. guard builds the names that DNS is asked for.
"""

import hashlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import islice

from gatepost.auth.sending_host import AddressSet, find_posting_host, find_sending_host
from gatepost.files.values import File
from gatepost.lists.rulings import collect_keys, make_subject
from gatepost.mail.message import Envelope, Link, Message
from gatepost.names import normal_address, normal_domain, org_domain
from gatepost.questions import MAX_REPUTATION_VALUES, AskReputation, Reputation, ReputationSubject, ReputationValue

MAX_HOSTS = 25
MAX_LINKS = 500
MAX_SENDERS = 5
MAX_ADDRESSES = 10
MAX_FILES = 20
MAX_TEXT = 300
_MAILTO = "mailto:"


def collect_values(
    message: Message,
    envelope: Envelope,
    wanted: Collection[str],
    trusted: tuple[AddressSet, ...],
    own_domains: frozenset[str],
) -> tuple[ReputationValue, ...]:
    """Return the values of a message's envelope, header and text, each once, the host first."""
    found: list[ReputationValue] = []
    if "host" in wanted:
        fields = message.headers.fields
        # What a list sends on came from the host of its author.
        hosts = (find_sending_host(envelope, fields, trusted).address, find_posting_host(fields))
        found += [ReputationValue("host", str(address)) for address in dict.fromkeys(hosts) if address]
    if "sender" in wanted:
        domains = [*(sender.domain for sender in message.senders), envelope.sender.strip("<>").rpartition("@")[2]]
        found += _collect_domains("sender", domains, own_domains, MAX_SENDERS)
    if "address" in wanted:
        found += _collect_addresses(message, envelope, own_domains)
    if "link" in wanted:
        found += _collect_domains("link", _collect_hosts(message.links), own_domains, MAX_HOSTS)
    return tuple(found[:MAX_REPUTATION_VALUES])


def collect_file_values(
    files: Sequence[File], wanted: Collection[str], own_domains: frozenset[str], known: Collection[ReputationValue]
) -> tuple[ReputationValue, ...]:
    """Return the values of a message's files: their digests, and sites of links in them that are not yet `known`."""
    found: list[ReputationValue] = []
    attached = [file for file in files if file.names][:MAX_FILES]
    for algorithm in sorted(each.partition(":")[2] for each in wanted if each.startswith("file:")):
        for file in attached:
            digest = "" if algorithm == "sha256" else f"{algorithm}:{_digest(algorithm, file.content)}"
            found.append(ReputationValue("file", file.sha256, digest))
    if "link" in wanted:
        hosts = _collect_hosts(link for file in files for link in file.links)
        found += [each for each in _collect_domains("link", hosts, own_domains, MAX_HOSTS) if each not in known]
    return tuple(dict.fromkeys(found))[:MAX_REPUTATION_VALUES]


def make_question(values: tuple[ReputationValue, ...], keyed: Collection[str]) -> AskReputation:
    """Return the question about these values; `keyed` are the kinds of list entries that there are."""
    return AskReputation(values, collect_keys(map(make_subject, values), keyed))


def join(first: Reputation, second: Reputation) -> Reputation:
    """Return what two answers say together."""
    return Reputation((*first.listings, *second.listings), tuple(dict.fromkeys((*first.silent, *second.silent))))


def _collect_hosts(links: Iterable[Link]) -> Iterator[str]:
    """The hosts that links which a reader can follow lead to."""
    for link in islice(links, MAX_LINKS):
        if link.host and link.can_be_followed and link.url.startswith("http"):
            yield link.host


def _collect_domains(
    subject: ReputationSubject, names: Iterable[str], own_domains: frozenset[str], most: int
) -> Iterator[ReputationValue]:
    seen: dict[str, None] = {}
    for name in names:
        domain = normal_domain(name)
        if domain and len(domain) <= MAX_TEXT and not _is_own(domain, own_domains):
            seen[domain] = None
            if len(seen) >= most:
                break
    return (ReputationValue(subject, domain) for domain in seen)


def _collect_addresses(message: Message, envelope: Envelope, own_domains: frozenset[str]) -> Iterator[ReputationValue]:
    """Who writes, and where answers go: as stated in the header, and in links that start a mail."""
    in_links = (link.url[len(_MAILTO) :].partition("?")[0] for link in message.links if link.url.startswith(_MAILTO))
    people = (str(person) for person in (*message.senders, *message.reply_to))
    found: dict[str, None] = {}
    for text in islice((envelope.sender.strip("<>"), *people, *islice(in_links, MAX_LINKS)), MAX_LINKS):
        address = normal_address(text)
        local, _, domain = address.rpartition("@")
        if local and domain and len(address) <= MAX_TEXT and not _is_own(domain, own_domains):
            found[address] = None
            if len(found) >= MAX_ADDRESSES:
                break
    return (ReputationValue("address", address) for address in found)


def _is_own(domain: str, own_domains: frozenset[str]) -> bool:
    return bool(own_domains) and (domain in own_domains or org_domain(domain) in own_domains)


def _digest(algorithm: str, content: bytes) -> str:
    return hashlib.new(algorithm, content, usedforsecurity=False).hexdigest()
