"""Everything that an analysis may ask of guard: DNS, which list entries its message hits, whether its sender is known,
what an antivirus says."""

from collections.abc import Generator
from typing import Annotated, TypeAlias, TypeVar

import msgspec

from gatepost.asking import Dns, DnsAnswer
from gatepost.files.tree import Antivirus
from gatepost.lists.hit import Hit

T = TypeVar("T")

# Far more than one message has facets; what a worker asks beyond it is refused with the frame.
MAX_FACETS = 64
# Hashes in the signature of a text (see `textmodel.sketch`).
MAX_SKETCH = 8


class Lookup(msgspec.Struct, frozen=True, tag_field="asks", tag="lists"):
    """Which entries of the tenant's and the global lists have one of these keys? One question for all lists.

    Keys come by kind of entry (`lists.catalogue.KINDS`). Whoever answers knows which tenant the message has: an
    analysis cannot ask for another's.
    """

    keys: tuple[tuple[str, tuple[str, ...]], ...]


class LookupAnswer(msgspec.Struct, frozen=True, tag_field="asks", tag="lists"):
    """The entries that were hit; `failed` where the lists could not be read."""

    hits: tuple[Hit, ...] = ()
    failed: bool = False


class AskCampaign(msgspec.Struct, frozen=True, tag_field="asks", tag="campaign"):
    """Who else got near-copies of the message lately? `sketch` is the signature of its text."""

    sketch: Annotated[tuple[int, ...], msgspec.Meta(max_length=MAX_SKETCH)]


class Campaign(msgspec.Struct, frozen=True, tag_field="asks", tag="campaign"):
    """Near-copies of the last hours, and how many other recipients they had."""

    copies: int = 0
    recipients: int = 0


class AskAntivirus(msgspec.Struct, frozen=True, tag_field="asks", tag="antivirus"):
    """What does the antivirus say of the message? Whoever answers has its bytes."""


_Key: TypeAlias = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
_Keys: TypeAlias = Annotated[tuple[_Key, ...], msgspec.Meta(max_length=MAX_FACETS)]


class AskSightings(msgspec.Struct, frozen=True, tag_field="asks", tag="sightings"):
    """How well are these facets of the message known (see `acquaintance`)? Whoever answers knows which tenant the
    message has, and remembers the facets once it is delivered: `keys` in any case, and of the sender's those of
    `proven` or those of `claimed`, by what authentication found."""

    keys: _Keys = ()
    proven: _Keys = ()
    claimed: _Keys = ()


class Known(msgspec.Struct, frozen=True, array_like=True):
    """On how many days before today a facet was seen in delivered mail, and how many days ago first; 0 for never."""

    days: int = 0
    age: int = 0


class Sighted(msgspec.Struct, frozen=True, tag_field="asks", tag="sightings"):
    """One `Known` for each key asked for. Not `ready` where the tenant remembers too little to tell old from new."""

    ready: bool = False
    keys: tuple[Known, ...] = ()
    proven: tuple[Known, ...] = ()
    claimed: tuple[Known, ...] = ()


Question: TypeAlias = Dns | Lookup | AskSightings | AskAntivirus | AskCampaign
Answer: TypeAlias = DnsAnswer | LookupAnswer | Sighted | Antivirus | Campaign
Questions: TypeAlias = tuple[Question, ...]
Answers: TypeAlias = tuple[Answer, ...]
Analysis: TypeAlias = Generator[Questions, Answers, T]
