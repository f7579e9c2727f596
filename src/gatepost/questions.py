"""Everything that an analysis may ask of guard: DNS, which list entries its message hits, what an antivirus says."""

from collections.abc import Generator
from typing import TypeAlias, TypeVar

import msgspec

from gatepost.asking import Dns, DnsAnswer
from gatepost.files.tree import Antivirus
from gatepost.lists.hit import Hit

T = TypeVar("T")


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

    sketch: tuple[int, ...]


class Campaign(msgspec.Struct, frozen=True, tag_field="asks", tag="campaign"):
    """Near-copies of the last hours, and how many other recipients they had."""

    copies: int = 0
    recipients: int = 0


class AskAntivirus(msgspec.Struct, frozen=True, tag_field="asks", tag="antivirus"):
    """What does the antivirus say of the message? Whoever answers has its bytes."""


Question: TypeAlias = Dns | Lookup | AskAntivirus | AskCampaign
Answer: TypeAlias = DnsAnswer | LookupAnswer | Antivirus | Campaign
Questions: TypeAlias = tuple[Question, ...]
Answers: TypeAlias = tuple[Answer, ...]
Analysis: TypeAlias = Generator[Questions, Answers, T]
