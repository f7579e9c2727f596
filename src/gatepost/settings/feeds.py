"""`feeds` of abby.yml: lists that are filled and kept current from a URL, a file or standard input.

A feed owns the entries that it wrote and no others. What it may read and change is bounded here: bytes, entries, time,
and how much of it may vanish between two runs.
"""

import hashlib
import ipaddress
import json
import re
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Discriminator, Field, Tag, ValidationInfo, model_validator

from gatepost.settings.section import Section
from gatepost.settings.values import FilePath, Milliseconds, Secret, TenantUid, resolve_path

FeedFormat = Literal["plain", "csv", "jsonl", "misp", "stix", "taxii"]

MAX_FEEDS = 50
# Formats that are read in many parts, of which a run may take only those that are new.
PARTWISE: tuple[FeedFormat, ...] = ("misp", "taxii")
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,62}\Z")
_HEADER = re.compile(r"[A-Za-z0-9-]{1,100}\Z")
_LOCAL_NAMES = ("localhost", "localhost.")


def _check_name(text: str) -> str:
    if not _NAME.match(text):
        raise ValueError("must be lower-case letters, digits and hyphens")
    return text


def _check_header(text: str) -> str:
    if not _HEADER.match(text) or text.lower() in ("host", "content-length", "transfer-encoding", "connection"):
        raise ValueError("must be the name of a header field, such as Authorization")
    return text


def _check_url(text: str) -> str:
    try:
        parts = urlsplit(text)
        has_port = parts.port != 0
    except ValueError:
        raise ValueError("must be a URL such as https://feeds.example/list.txt") from None
    if parts.scheme not in ("https", "http") or not parts.hostname or not has_port or not _is_plain(text):
        raise ValueError("must be a URL such as https://feeds.example/list.txt")
    if "@" in parts.netloc:
        raise ValueError("must not hold a user or a password; write them under credentials")
    return text


def _is_plain(text: str) -> bool:
    """Whether a URL can be sent as it is: other names of hosts are written as A-labels (RFC 5890 section 2.3.2.1)."""
    return text.isascii() and text.isprintable() and " " not in text


def _check_path(text: str, info: ValidationInfo) -> str:
    # The file may come later than the service: whoever writes it may replace it at any time.
    return str(resolve_path(text, info))


def _check_delimiter(text: str) -> str:
    if len(text) != 1 or text in '"\r\n':
        raise ValueError('must be one character, such as "," or ";" or a tab')
    return text


Column = Annotated[
    Annotated[int, Field(ge=1, le=1000), Tag("[number]")]
    | Annotated[str, Field(min_length=1, max_length=200), Tag("[name]")],
    Discriminator(lambda value: "[name]" if isinstance(value, str) else "[number]"),
]
Percent = Annotated[int, Field(ge=1, le=100)]


class FeedCredentialsSettings(Section):
    """How Gatepost identifies itself to the source: user and password, or one header field."""

    user: Secret | None = Field(None, description="user of HTTP basic authentication")
    password: Secret | None = Field(None, description="password of that user, as a rule a `${file:…}`")
    header: Annotated[str, AfterValidator(_check_header)] = Field(
        "Authorization", description="name of the header field that carries `secret`"
    )
    secret: Secret | None = Field(
        None, description="value of the header field, such as `Bearer ${file:feed.token}`; never shown"
    )

    @model_validator(mode="after")
    def _check_form(self) -> Self:
        if (self.user is None) != (self.password is None) or (self.user is None) == (self.secret is None):
            raise ValueError("must have either user and password, or secret")
        return self


class FeedSettings(Section):
    """One feed."""

    name: Annotated[str, AfterValidator(_check_name)] = Field(
        description="name of the feed; its entries are marked as changed by `feed:NAME`"
    )
    list_name: Annotated[str, AfterValidator(_check_name)] = Field(description="the list to fill, built-in or custom")
    tenant: TenantUid | None = Field(None, description="uid of the tenant whose list it is; by default for all tenants")
    url: Annotated[str, AfterValidator(_check_url)] | None = Field(
        None, description="where the feed is fetched; redirects are followed on the same host only"
    )
    file: Annotated[str, AfterValidator(_check_path)] | None = Field(
        None, description="instead of `url`: a file, or for `misp` a folder; without both, `feeds run` reads its input"
    )
    format: FeedFormat = Field(
        "plain",
        description="`plain` (one entry per line), `csv`, `jsonl` (one JSON object per line), `misp` (the folder of a"
        " manifest), `stix` (a STIX 2.1 bundle) or `taxii` (the URL of a TAXII 2.1 collection)",
    )
    column: Column = Field(1, description="for `csv`: number of the column, or its name in the header")
    delimiter: Annotated[str, AfterValidator(_check_delimiter)] = Field(",", description="for `csv`: the delimiter")
    header: bool = Field(False, description="for `csv`: whether the first row names the columns")
    field: Annotated[str, Field(min_length=1, max_length=200)] = Field(
        "entry", description="for `jsonl`: the field with the entry; `a.b` is the field b of the object a"
    )
    every: Annotated[int, Field(ge=5, le=43_200)] = Field(
        60, description="minutes between two runs; a random twentieth is added or taken away"
    )
    full_every: Annotated[int, Field(ge=1, le=365)] = Field(
        7, description="for `misp` and `taxii`: days between two runs that read everything; others read what is new"
    )
    credentials: FeedCredentialsSettings | None = Field(None, description="how to authenticate to the source")
    ca: FilePath | None = Field(
        None, description="PEM file to verify the source's certificate with; by default the system's authorities"
    )
    allow_http: bool = Field(False, description="whether `url` may be plain http")
    private_network: bool = Field(
        False,
        description="whether the host of `url` may have a private address; `localhost` and a bare private address may",
    )
    timeout: Annotated[Milliseconds, Field(le=3_600_000)] = Field(
        300_000, description="milliseconds that reading the source may take in all"
    )
    max_size: Annotated[int, Field(ge=1024, le=1 << 30)] = Field(
        64 << 20, description="bytes that one run may read, after decompression"
    )
    max_entries: Annotated[int, Field(ge=1, le=2_000_000)] = Field(
        200_000, description="entries that the feed may have; a larger one is refused"
    )
    max_loss: Percent = Field(
        50, description="percentage of its entries that a feed may lose between two runs; more is refused"
    )
    max_invalid: Percent = Field(
        50, description="percentage of what a feed says that its list may refuse; more is not taken for a feed"
    )
    keep_vanished: Annotated[int, Field(ge=0, le=3650)] = Field(
        0, description="days for which an entry still counts after the feed has dropped it; 0 removes it at once"
    )
    look_back: Annotated[int, Field(ge=0, le=365)] = Field(
        7, description="days of delivered mail in which new entries are looked for; 0 for none"
    )

    @property
    def is_scheduled(self) -> bool:
        """Whether the service can run it by itself: it has a source to read."""
        return self.url is not None or self.file is not None

    @property
    def source(self) -> str:
        """Where it comes from, for people, without anything secret: a path may hold a key."""
        if self.url is None:
            return self.file or "standard input"
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc}"

    @property
    def fingerprint(self) -> str:
        """A digest of what decides which entries the feed has. Where it changes, nothing that is remembered holds."""
        names = ("list_name", "tenant", "url", "file", "format", "column", "delimiter", "header", "field")
        stated = json.dumps([getattr(self, name) for name in names])
        return hashlib.sha256(stated.encode()).hexdigest()[:32]

    @model_validator(mode="after")
    def _check_agreement(self) -> Self:
        if self.url and self.file:
            raise ValueError("must have either url or file")
        if self.url and self.url.startswith("http:") and not self.allow_http:
            raise ValueError("has a url without TLS; use https, or set allowHttp")
        if self.format == "taxii" and not self.url:
            raise ValueError("needs a url: TAXII is a protocol over HTTPS")
        if self.format == "misp" and not self.is_scheduled:
            raise ValueError("needs a url or the folder of a MISP feed as file")
        return self


def is_private_host(host: str) -> bool:
    """Whether a host of a URL says itself that it is not on the internet: an address of its own network, localhost."""
    if host.lower() in _LOCAL_NAMES:
        return True
    try:
        return not is_public_address(ipaddress.ip_address(host.strip("[]")))
    except ValueError:
        return False


def is_public_address(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    """Whether an address is on the internet; one that embeds an IPv4 address (RFC 4291, 3056, 6052) is what it
    embeds."""
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour or (address.teredo or (None, None))[1]
        if inner is None and address in _NAT64:
            inner = ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
        if inner is not None:
            return is_public_address(inner)
    return address.is_global and not address.is_multicast


_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
