"""Everything that an analysis may ask, and the protocol by which it asks.

An analysis is a generator: it yields a tuple of questions and is sent the tuple of answers (see `Asking` and
`Analysis`). guard answers them from its event loop, so the code that parses hostile mail needs neither network nor
storage.
"""

from collections.abc import Generator
from itertools import chain
from typing import Annotated, Literal, TypeAlias, TypeVar

import msgspec


class Antivirus(msgspec.Struct, frozen=True, tag_field="asks", tag="antivirus"):
    """The antivirus's answer: `detail` is the name of the malware that it found, or why it was not asked."""

    status: Literal["off", "clean", "found", "failed"] = "off"
    detail: str = ""


Scope = Literal["tenant", "global", "recipient"]


class Hit(msgspec.Struct, frozen=True):
    """An entry that was hit: its list, the scope of that list, its key, and its author's comment."""

    list: str
    scope: Scope
    key: str
    comment: str = ""


T = TypeVar("T")

RecordType = Literal["A", "AAAA", "MX", "PTR", "TXT"]


class Dns(msgspec.Struct, frozen=True, tag_field="asks", tag="dns"):
    """All records of one type at one name (an A-label name without a trailing dot)."""

    name: str
    type: RecordType


class DnsAnswer(msgspec.Struct, frozen=True, tag_field="asks", tag="dns"):
    """The answer of DNS. "No such name", "no such record" and "no answer" stay different to the end.

    Records are text: addresses as such; names without a trailing dot; MX as "10 mx.example"; TXT as its strings joined
    without a space (RFC 7208 section 3.3), each octet one character (latin-1).
    """

    status: Literal["found", "no-data", "no-name", "failed"]
    records: tuple[str, ...] = ()


Asking: TypeAlias = Generator[tuple[Dns, ...], tuple[DnsAnswer, ...], T]


def together(*askings: Asking[T]) -> Asking[tuple[T, ...]]:
    """Run several askings side by side: their questions of each step are asked in one batch.

    Three DKIM signatures, SPF and the DMARC record cost one round trip, not five.
    """
    results: dict[int, T] = {}
    waiting: list[tuple[int, Asking[T], tuple[Dns, ...]]] = []
    for index, asking in enumerate(askings):
        try:
            waiting.append((index, asking, next(asking)))
        except StopIteration as stop:
            results[index] = stop.value
    while waiting:
        asked, waiting = waiting, []
        answers = yield tuple(chain.from_iterable([questions for _, _, questions in asked]))
        start = 0
        for index, asking, questions in asked:
            end = start + len(questions)
            try:
                waiting.append((index, asking, asking.send(answers[start:end])))
            except StopIteration as stop:
                results[index] = stop.value
            start = end
    return tuple([results[index] for index in range(len(askings))])


# Far more than one message has facets; what a worker asks beyond it is refused with the frame.
MAX_FACETS = 64
# Hashes in the signature of a text (see `near_duplicates`).
MAX_SIGNATURE = 8


class Lookup(msgspec.Struct, frozen=True, tag_field="asks", tag="lists"):
    """Which entries of the tenant's and the global lists have one of these keys? One question serves all lists.

    Keys come by kind of entry (`lists.catalogue.KINDS`). guard knows which tenant the message has: an analysis cannot
    ask for another's.
    """

    keys: tuple[tuple[str, tuple[str, ...]], ...]


class LookupAnswer(msgspec.Struct, frozen=True, tag_field="asks", tag="lists"):
    """The entries that were hit; `failed` if lists could not be read, `cut` if there was too much to compare."""

    hits: tuple[Hit, ...] = ()
    failed: bool = False
    cut: bool = False


class AskCampaign(msgspec.Struct, frozen=True, tag_field="asks", tag="campaign"):
    """Who else got near-duplicates of the message lately? `sketch` is the near-duplicate signature of its text."""

    sketch: Annotated[tuple[int, ...], msgspec.Meta(max_length=MAX_SIGNATURE)]


CampaignMarkedAs = Literal["", "unwanted", "wanted", "held"]


class Campaign(msgspec.Struct, frozen=True, tag_field="asks", tag="campaign"):
    """Near-duplicates of the last hours, and how many other recipients they had. `marked` is what people of the tenant
    or of the deployment said of one, or `held` where one was held as an attack."""

    copies: int = 0
    recipients: int = 0
    marked: CampaignMarkedAs = ""


class AskAntivirus(msgspec.Struct, frozen=True, tag_field="asks", tag="antivirus"):
    """What does the antivirus say of the message? guard has the message's bytes."""


_Key: TypeAlias = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
_Keys: TypeAlias = Annotated[tuple[_Key, ...], msgspec.Meta(max_length=MAX_FACETS)]


class AskSightings(msgspec.Struct, frozen=True, tag_field="asks", tag="sightings"):
    """How well are these facets of the message known (see `sender_history`)? guard knows which tenant the message has,
    and remembers the facets once it is delivered: `keys` in any case, and of the sender's those of `proven` or those of
    `claimed`, by the result of authentication."""

    keys: _Keys = ()
    proven: _Keys = ()
    claimed: _Keys = ()


class FacetAge(msgspec.Struct, frozen=True, array_like=True):
    """On how many days before today a facet was seen in delivered mail, and how many days ago first; 0 for never."""

    days: int = 0
    age: int = 0


class Sightings(msgspec.Struct, frozen=True, tag_field="asks", tag="sightings"):
    """One `FacetAge` for each key asked for; `ready` is False while the tenant remembers too little."""

    ready: bool = False
    keys: tuple[FacetAge, ...] = ()
    proven: tuple[FacetAge, ...] = ()
    claimed: tuple[FacetAge, ...] = ()


# Values of one message that reputation zones are asked about.
MAX_REPUTATION_VALUES = 60
ReputationSubject = Literal["host", "link", "sender", "address", "file"]
_Value: TypeAlias = Annotated[str, msgspec.Meta(max_length=320)]


class ReputationValue(msgspec.Struct, frozen=True, array_like=True):
    """One value of a message: an IP address, the host of a link, a sender's domain, an address, or the SHA-256 of a
    file. `digest` is another digest of the file, such as `md5:…`, for zones that list those."""

    subject: ReputationSubject
    value: _Value
    digest: _Value = ""


class AskReputation(msgspec.Struct, frozen=True, tag_field="asks", tag="reputation"):
    """What do the reputation zones say of these values? guard knows the zones and builds the names that DNS is asked
    for: an analysis learns neither a zone's name in DNS nor its key. `keys` are those of the values in lists that have
    entries, as in `Lookup`: what an operator allows is asked of nobody."""

    values: Annotated[tuple[ReputationValue, ...], msgspec.Meta(max_length=MAX_REPUTATION_VALUES)]
    keys: tuple[tuple[str, tuple[str, ...]], ...] = ()


class Listing(msgspec.Struct, frozen=True, array_like=True):
    """What one zone says of a value: its answer, what that means by the settings, and how much of the weight counts."""

    subject: ReputationSubject
    value: str
    zone: str
    answer: str
    means: str
    strength: float = 1.0
    text: str = ""


class Reputation(msgspec.Struct, frozen=True, tag_field="asks", tag="reputation"):
    """What all zones say. `silent` are zones that are not believed now, each with the reason."""

    listings: tuple[Listing, ...] = ()
    silent: tuple[tuple[str, str], ...] = ()


Question: TypeAlias = Dns | Lookup | AskSightings | AskAntivirus | AskCampaign | AskReputation
Answer: TypeAlias = DnsAnswer | LookupAnswer | Sightings | Antivirus | Campaign | Reputation
Questions: TypeAlias = tuple[Question, ...]
Answers: TypeAlias = tuple[Answer, ...]
Analysis: TypeAlias = Generator[Questions, Answers, T]
