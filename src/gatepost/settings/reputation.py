"""`reputation.zones` of guard.yml: which DNS zones are asked about a message, and what their answers mean.

A zone answers with addresses in 127.0.0.0/8 (RFC 5782 section 2.3). Either each address stands for one thing, or each
bit of the last octet does; `answers` says which, and what each one means for the message.
"""

import ipaddress
import re
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from gatepost.questions import ReputationSubject
from gatepost.settings.section import Section, live
from gatepost.settings.values import Secret

MAX_ZONES = 30
KEY = "{key}"

Asks = Literal["ip", "domain", "hash"]
Subject = ReputationSubject
Means = Literal["listed", "dynamic", "phishing", "malware", "new", "allowed"]

# What a zone can be asked about, by what it is asked for; the first of each row are the default.
_SUBJECTS: dict[Asks, tuple[Subject, ...]] = {
    "ip": ("host", "link"),
    "domain": ("link", "sender"),
    "hash": ("file", "address"),
}
_DEFAULT_SUBJECTS: dict[Asks, tuple[Subject, ...]] = {"ip": ("host",), "domain": ("link", "sender"), "hash": ("file",)}
_MEANINGS: dict[Subject, frozenset[Means]] = {
    "host": frozenset({"listed", "dynamic", "allowed"}),
    "link": frozenset({"listed", "phishing", "malware", "new"}),
    "sender": frozenset({"listed", "phishing", "malware", "new"}),
    "address": frozenset({"listed"}),
    "file": frozenset({"listed", "malware"}),
}
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}\Z")
_ZONE = re.compile(r"(?:(?:[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?|\{key\})\.)+[a-z0-9-]{2,63}\Z")
_LABELS = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?\Z")
_LISTINGS = ipaddress.IPv4Network("127.0.0.0/8")
# Answers that are errors by convention: a wrong query, a query over a public resolver, too many queries.
REFUSALS = ipaddress.IPv4Network("127.255.255.0/24")

CodeRange = tuple[int, int]


def parse_codes(text: str) -> CodeRange:
    """Return the first and the last address of `127.0.0.2` or `127.0.0.4-127.0.0.7` as numbers; raises `ValueError`."""
    first, dash, last = text.partition("-")
    try:
        low, high = (ipaddress.IPv4Address(part.strip()) for part in (first, last if dash else first))
    except ValueError:
        raise ValueError("must be an address like 127.0.0.2, or a range like 127.0.0.4-127.0.0.7") from None
    if low not in _LISTINGS or high not in _LISTINGS or low > high:
        raise ValueError("must lie in 127.0.0.0/8, the lower address first")
    if high >= REFUSALS[0] and low <= REFUSALS[-1]:
        raise ValueError("must not include 127.255.255.0/24: with these, zones refuse to answer")
    return int(low), int(high)


def _check_codes(text: str) -> str:
    parse_codes(text)
    return text


def _check_name(text: str) -> str:
    if not _NAME.match(text):
        raise ValueError("must be lower-case letters, digits, dots, hyphens and underscores")
    return text


def _check_zone(text: str) -> str:
    normal = text.lower().rstrip(".")
    if len(normal) > 200 or not _ZONE.match(normal):
        raise ValueError("must be the name of a DNS zone, with {key} in the place of a private key")
    return normal


def _check_key(text: str) -> str:
    if not _LABELS.match(text):
        raise ValueError("must be one label of a domain name: letters, digits and hyphens")
    return text


class ZoneAnswerSettings(Section):
    """What one answer of a zone, or one bit of its answers, means."""

    codes: list[Annotated[str, AfterValidator(_check_codes)]] = live(
        [], description="answers, such as `127.0.0.2` or `127.0.0.4-127.0.0.7`"
    )
    mask: Annotated[int, Field(ge=1, le=254)] | None = live(
        None, description="instead of `codes`: the bits of the last octet, of which one must be set"
    )
    means: Means = live(
        description="`listed`, or more precisely `dynamic` (a line that should not send mail itself), `phishing`,"
        " `malware`, `new` (registered lately), or `allowed`"
    )
    strength: Annotated[float, Field(gt=0, le=1)] = live(1.0, description="part of the weight in policy that counts")
    text: Annotated[str, Field(max_length=200)] = live("", description="what the ledger says of this answer")

    @model_validator(mode="after")
    def _check_form(self) -> Self:
        if bool(self.codes) == (self.mask is not None):
            raise ValueError("must have either codes or mask")
        return self


class ZoneSettings(Section):
    """One zone."""

    name: Annotated[str, AfterValidator(_check_name)] = live(description="name of the zone in ledger, log and metrics")
    zone: Annotated[str, AfterValidator(_check_zone)] = live(
        description="the zone; `{key}` in it is replaced by `queryKey`, which is never shown"
    )
    query_key: Annotated[Secret, AfterValidator(_check_key)] | None = live(
        None, description="private key of a subscription, as a rule a `${file:…}`"
    )
    asks: Asks = live(description="what the zone lists: `ip`, `domain` or `hash`")
    of: list[Subject] = live(
        [],
        description="what is asked about: `host` (the sending host) and `link` for `ip`, `link` and `sender` for"
        " `domain`, `file` and `address` for `hash`; by default `host`, both, and `file`",
    )
    level: Literal["organisation", "host"] = live(
        "organisation", description="whether a zone of domains is asked for the registered domain or the whole name"
    )
    hash: Literal["md5", "sha1", "sha256"] = live("sha256", description="digest that a zone of hashes lists")
    encoding: Literal["hex", "base32"] = live("base32", description="how the digest is written")
    refusals: list[Annotated[str, AfterValidator(_check_codes)]] = live(
        [], description="answers with which the zone refuses queries, besides 127.255.255.0/24 which always does"
    )
    limit: Annotated[int, Field(ge=1, le=50)] = live(10, description="maximum number of questions for a message")
    answers: Annotated[list[ZoneAnswerSettings], Field(min_length=1)] = live(description="what each answer means")

    @property
    def subjects(self) -> tuple[Subject, ...]:
        """What the zone is asked about."""
        return tuple(self.of) or _DEFAULT_SUBJECTS[self.asks]

    @model_validator(mode="after")
    def _check_agreement(self) -> Self:
        if (KEY in self.zone) != (self.query_key is not None):
            raise ValueError("must have a queryKey if, and only if, {key} stands in zone")
        if wrong := [subject for subject in self.of if subject not in _SUBJECTS[self.asks]]:
            raise ValueError(f"cannot ask about {wrong[0]} in a zone of {self.asks}")
        if self.asks == "hash" and self.hash == "sha256" and self.encoding == "hex":
            raise ValueError("cannot ask for sha256 in hex: a label of DNS has at most 63 characters; use base32")
        possible = frozenset[Means]().union(*(_MEANINGS[subject] for subject in self.subjects))
        for answer in self.answers:
            if answer.means not in possible:
                raise ValueError(f"has an answer that means {answer.means}, which {self.asks} cannot be")
        return self


class ReputationSettings(Section):
    """DNS zones that say what others know of hosts, domains, addresses and files."""

    zones: Annotated[list[ZoneSettings], Field(max_length=MAX_ZONES)] = live(
        [], description="the zones; none by default"
    )

    @model_validator(mode="after")
    def _check_names(self) -> Self:
        names = [zone.name for zone in self.zones]
        if twice := [name for name in names if names.count(name) > 1]:
            raise ValueError(f"has two zones named {twice[0]}")
        return self
