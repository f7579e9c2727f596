"""Feeds, which fill lists from elsewhere: those of abby.yml and those that are defined in the web interface.

A feed owns the entries that it wrote and no others. What it may read and change is bounded here: bytes, entries, time,
and how much of it may vanish between two runs.

What a person at a browser may name is narrower than what stands in abby.yml. A feed of the web interface comes over
https from the internet: a local file, plain http and hosts of the own network can only be named in the file, since a
feed would otherwise show what the server can read and the browser cannot. Credentials are a file in the folder
`feed-credentials` of the data folder, by its bare name: any other path would send a secret of the server to a host that
the author of the feed chooses.
"""

import hashlib
import ipaddress
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

import msgspec
from pydantic import AfterValidator, Discriminator, Field, Tag, ValidationError, ValidationInfo, model_validator

from gatepost.names import is_public_address
from gatepost.process.hiding import hide_path
from gatepost.settings.removed_keys import find_removed
from gatepost.settings.values import (
    FilePath,
    Milliseconds,
    S,
    Secret,
    Section,
    TenantUid,
    require,
    resolve_path,
    setting,
)

FeedFormat = Literal["plain", "csv", "jsonl"]

MAX_FEEDS = 50
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,62}\Z")
_HEADER = re.compile(r"[A-Za-z0-9-]{1,100}\Z")
_LOCAL_NAMES = ("localhost", "localhost.")


def _is_header(text: str) -> bool:
    framing = ("host", "content-length", "transfer-encoding", "connection")
    return bool(_HEADER.match(text)) and text.lower() not in framing


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


FeedName = Annotated[str, require(_NAME.match, "must be lower-case letters, digits and hyphens")]
HeaderName = Annotated[str, require(_is_header, "must be the name of a header field, such as Authorization")]
Delimiter = Annotated[
    str,
    require(lambda text: len(text) == 1 and text not in '"\r\n', 'must be one character, such as "," or ";" or a tab'),
]
Column = Annotated[
    Annotated[int, Field(ge=1, le=1000), Tag("[number]")]
    | Annotated[str, Field(min_length=1, max_length=200), Tag("[name]")],
    Discriminator(lambda value: "[name]" if isinstance(value, str) else "[number]"),
]
Percent = Annotated[int, Field(ge=1, le=100)]


class FeedCredentialsSettings(Section):
    """How Gatepost identifies itself to the source: user and password, or one header field."""

    user: Secret | None = setting(None, description="user of HTTP basic authentication")
    password: Secret | None = setting(None, description="password of that user, as a rule a `${file:…}`")
    header: HeaderName = setting("Authorization", description="name of the header field that carries `secret`")
    secret: Secret | None = setting(
        None, description="value of the header field, such as `Bearer ${file:feed.token}`; never shown"
    )

    @model_validator(mode="after")
    def _check_form(self) -> Self:
        if (self.user is None) != (self.password is None) or (self.user is None) == (self.secret is None):
            raise ValueError("must have either user and password, or secret")
        return self


class FeedSettings(Section):
    """One feed."""

    name: FeedName = setting(description="name of the feed; its entries are marked as changed by `feed:NAME`")
    list_name: FeedName = setting(description="the list to fill, built-in or custom")
    tenant: TenantUid | None = setting(
        None, description="uid of the tenant whose list it is; by default for all tenants"
    )
    url: Annotated[str, AfterValidator(_check_url)] | None = setting(
        None, description="where the feed is fetched; redirects are followed on the same host only"
    )
    file: Annotated[str, AfterValidator(_check_path)] | None = setting(
        None, description="instead of `url`: a file; without both, `feeds run` reads its input"
    )
    format: FeedFormat = setting(
        "plain", description="`plain` (one entry per line), `csv` or `jsonl` (one JSON object per line)"
    )
    column: Column = setting(1, description="for `csv`: number of the column, or its name in the header")
    delimiter: Delimiter = setting(",", description="for `csv`: the delimiter")
    header: bool = setting(False, description="for `csv`: whether the first row names the columns")
    field: Annotated[str, Field(min_length=1, max_length=200)] = setting(
        "entry", description="for `jsonl`: the field with the entry; `a.b` is the field b of the object a"
    )
    every: Annotated[int, Field(ge=5, le=43_200)] = setting(
        60, description="minutes between two runs; a random twentieth is added or taken away"
    )
    credentials: FeedCredentialsSettings | None = setting(None, description="how to authenticate to the source")
    ca: FilePath | None = setting(
        None, description="PEM file to verify the source's certificate with; by default the system's authorities"
    )
    allow_http: bool = setting(False, description="whether `url` may be plain http")
    private_network: bool = setting(
        False,
        description="whether the host of `url` may have a private address; `localhost` and a bare private address may",
    )
    timeout: Annotated[Milliseconds, Field(le=3_600_000)] = setting(
        300_000, description="milliseconds that reading the source may take in all"
    )
    max_size: Annotated[int, Field(ge=1024, le=1 << 30)] = setting(
        64 << 20, description="bytes that one run may read, after decompression"
    )
    max_entries: Annotated[int, Field(ge=1, le=2_000_000)] = setting(
        200_000, description="entries that the feed may have; a larger one is refused"
    )
    max_loss: Percent = setting(
        50, description="percentage of its entries that a feed may lose between two runs; more is refused"
    )
    max_invalid: Percent = setting(
        50, description="percentage of what a feed says that its list may refuse; more is not taken for a feed"
    )
    keep_vanished: Annotated[int, Field(ge=0, le=3650)] = setting(
        0, description="days for which an entry still counts after the feed has dropped it; 0 removes it at once"
    )
    look_back: Annotated[int, Field(ge=0, le=365)] = setting(
        7, description="days of delivered mail in which new entries are looked for; 0 for none"
    )

    @property
    def is_scheduled(self) -> bool:
        """Whether the service can run it by itself: it has a source to read."""
        return self.url is not None or self.file is not None

    @property
    def source(self) -> str:
        """Where it comes from, for people, without anything secret: a path may hold a key."""
        return hide_path(self.url) if self.url else self.file or "standard input"

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
        return self


def is_private_host(host: str) -> bool:
    """Whether a host of a URL says itself that it is not on the internet: an address of its own network, localhost."""
    if host.lower() in _LOCAL_NAMES:
        return True
    try:
        return not is_public_address(ipaddress.ip_address(host.strip("[]")))
    except ValueError:
        return False


CREDENTIALS = "feed-credentials"
MAX_CREDENTIAL = 4096
MAX_URL = 2_000
_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}\Z")
_VALUE_ERROR = "Value error, "


class WebFeed(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """A feed of the web interface; each field is the key of that name in abby.yml. `credentials_file` is the name of a
    file; with `credentials_user` it holds a password, else the value of a header field, after `credentials_prefix`."""

    list_name: str = ""
    tenant: str | None = None
    url: str = ""
    format: str = "plain"
    column: str = "1"
    delimiter: str = ","
    header: bool = False
    field: str = "entry"
    every: int = 60
    max_loss: int = 50
    keep_vanished: int = 0
    look_back: int = 7
    credentials_file: str = ""
    credentials_user: str = ""
    credentials_header: str = "Authorization"
    credentials_prefix: str = ""


class WebSettingsError(ValueError):
    """What is wrong with a feed or an alert of the web interface: the field and the rest of a sentence, for each
    mistake."""

    def __init__(self, mistakes: tuple[tuple[str, str], ...]) -> None:
        self.mistakes = mistakes
        super().__init__("; ".join(f"{field} {sentence}" for field, sentence in mistakes))


def build_feed(name: str, feed: WebFeed, data: Path) -> FeedSettings:
    """Return the settings of a feed, with its credentials from the data folder; raises `WebSettingsError`."""
    mistakes = check_web_url(feed.url, "; plain http and files can be named in abby.yml only", "abby.yml")
    stated: dict[str, Any] = {
        field: getattr(feed, field)
        for field in feed.__struct_fields__
        if not field.startswith("credentials") and field != "column"
    }
    stated |= {"name": name, "column": int(feed.column) if feed.column.isdigit() else feed.column}
    if feed.credentials_file:
        try:
            stated["credentials"] = _read_credentials(feed, data)
        except ValueError as fault:
            mistakes.append(("credentials_file", str(fault)))
    elif feed.credentials_user:
        mistakes.append(("credentials_file", "is needed with a user; it has the password"))
    return validate_web_settings(FeedSettings, stated, mistakes, _describe)


def validate_web_settings(
    section: type[S],
    stated: dict[str, Any],
    mistakes: list[tuple[str, str]],
    describe: Callable[[Any], tuple[str, str]],
) -> S:
    """Return the settings that were typed into a page; raises `WebSettingsError` with these mistakes and with those
    that the section finds, which `describe` turns into a field and a sentence."""
    try:
        settings = section.model_validate(stated)
    except ValidationError as fault:
        mistakes = [*mistakes, *map(describe, fault.errors())]
    if mistakes:
        raise WebSettingsError(tuple(dict.fromkeys(mistakes)))
    return settings


def check_web_url(url: str, more: str, file: str) -> list[tuple[str, str]]:
    """Return what is wrong with an address that was typed into a page, which must be of a public host and over HTTPS.
    `more` is added to what is said of other schemes; `file` is where a private host can be named."""
    if len(url) > MAX_URL:
        return [("url", f"is longer than {MAX_URL:,} characters")]
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        return []  # the settings say what is wrong
    if parts.scheme != "https":
        return [("url", f"must begin with https://{more}")]
    if is_private_host(host):
        return [("url", f"names a host of a private network, which can be named in {file} only")]
    return []


def _read_credentials(feed: WebFeed, data: Path) -> dict[str, str]:
    if not _FILE_NAME.match(feed.credentials_file):
        raise ValueError(f"must be the bare name of a file in the folder {CREDENTIALS} of the data folder")
    path = data / CREDENTIALS / feed.credentials_file
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_CREDENTIAL + 1)
        secret = raw.decode("utf-8").strip()
    except OSError as fault:
        said = (fault.strerror or "it cannot be read").lower()
        raise ValueError(f"names {CREDENTIALS}/{path.name} of the data folder: {said}") from None
    except UnicodeDecodeError:
        raise ValueError(f"names {CREDENTIALS}/{path.name} of the data folder, which is not text") from None
    if not secret or len(raw) > MAX_CREDENTIAL:
        raise ValueError(f"names {CREDENTIALS}/{path.name} of the data folder, which is empty or too long")
    if feed.credentials_user:
        return {"user": feed.credentials_user, "password": secret}
    prefix = f"{feed.credentials_prefix.strip()} " if feed.credentials_prefix.strip() else ""
    return {"header": feed.credentials_header, "secret": f"{prefix}{secret}"}


def _describe(error: Any) -> tuple[str, str]:
    """The field and sentence of an error; nothing of the value, which may hold a secret."""
    place = [str(each) for each in error["loc"]]
    field = re.sub(r"([A-Z])", lambda match: f"_{match.group(1).lower()}", place[0]) if place else "url"
    if field == "credentials":
        field = {"header": "credentials_header", "user": "credentials_user"}.get(place[-1], "credentials_file")
    if field == "format" and (removed := find_removed(("feeds", "format"), error["input"])):
        return field, removed
    message = str(error["msg"])
    if message.startswith(_VALUE_ERROR):
        return field, message.removeprefix(_VALUE_ERROR)
    return field, f"is not valid: {message[:1].lower()}{message[1:]}"
