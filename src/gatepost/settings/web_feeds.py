"""Feeds that are defined in the web interface, as the settings of a feed.

What a person at a browser may name is narrower than what stands in abby.yml. A feed of the web interface comes over
https from the internet: a local file, plain http and hosts of the own network can only be named in the file, since a
feed would otherwise show what the server can read and the browser cannot. Credentials are a file in the folder
`feed-credentials` of the data folder, by its bare name: any other path would send a secret of the server to a host that
the author of the feed chooses.
"""

import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
from pydantic import ValidationError

from gatepost.settings.feeds import FeedFormat, FeedSettings, is_private_host

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
    format: FeedFormat = "plain"
    column: str = "1"
    delimiter: str = ","
    header: bool = False
    field: str = "entry"
    every: int = 60
    full_every: int = 7
    max_loss: int = 50
    keep_vanished: int = 0
    look_back: int = 7
    credentials_file: str = ""
    credentials_user: str = ""
    credentials_header: str = "Authorization"
    credentials_prefix: str = ""


class WebFeedError(ValueError):
    """What is wrong with a feed: the field and the rest of a sentence, for each mistake."""

    def __init__(self, mistakes: tuple[tuple[str, str], ...]) -> None:
        self.mistakes = mistakes
        super().__init__("; ".join(f"{field} {sentence}" for field, sentence in mistakes))


def build_feed(name: str, feed: WebFeed, data: Path) -> FeedSettings:
    """Return the settings of a feed, with its credentials from the data folder; raises `WebFeedError`."""
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
    try:
        settings = FeedSettings.model_validate(stated)
    except ValidationError as fault:
        mistakes += [_describe(each) for each in fault.errors()]
        settings = None
    if mistakes or settings is None:
        raise WebFeedError(tuple(dict.fromkeys(mistakes)))
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
    message = str(error["msg"])
    if message.startswith(_VALUE_ERROR):
        return field, message.removeprefix(_VALUE_ERROR)
    return field, f"is not valid: {message[:1].lower()}{message[1:]}"
