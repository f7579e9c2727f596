"""What a feed of the web interface may name, and what only the file may."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from gatepost.settings.feeds import CREDENTIALS, WebFeed, WebSettingsError, build_feed

FEED = WebFeed(list_name="blocked-urls", url="https://feeds.example/list.txt")


def changed(**changes: Any) -> WebFeed:
    return msgspec.structs.replace(FEED, **changes)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / CREDENTIALS
    folder.mkdir()
    (folder / "feed.key").write_text("s3cret\n")
    (folder / "empty").write_text("")
    (folder / "binary").write_bytes(b"\xff\xfe")
    (folder / "long").write_text("x" * 5_000)
    (tmp_path / "core.secret").write_text("of the server")
    return tmp_path


def test_a_feed_has_the_bounds_of_the_file(data: Path) -> None:
    settings = build_feed("own", changed(format="csv", column="address", header=True, every=30), data)
    assert (settings.url, settings.column, settings.every) == (FEED.url, "address", 30)
    assert (settings.allow_http, settings.private_network, settings.file) == (False, False, None)
    assert build_feed("own", changed(column="3"), data).column == 3


@pytest.mark.parametrize(
    ("changes", "header", "secret"),
    [
        ({}, "Authorization", "s3cret"),
        ({"credentials_prefix": "Bearer "}, "Authorization", "Bearer s3cret"),
        ({"credentials_header": "Auth-Key"}, "Auth-Key", "s3cret"),
    ],
)
def test_credentials_are_read_from_their_folder(data: Path, changes: Any, header: str, secret: str) -> None:
    credentials = build_feed("own", changed(credentials_file="feed.key", **changes), data).credentials
    assert credentials is not None
    assert (credentials.header, credentials.secret) == (header, secret)


def test_a_user_has_a_password(data: Path) -> None:
    credentials = build_feed("own", changed(credentials_file="feed.key", credentials_user="ann"), data).credentials
    assert credentials is not None
    assert (credentials.user, credentials.password, credentials.secret) == ("ann", "s3cret", None)


@pytest.mark.parametrize(
    ("changes", "field", "said"),
    [
        ({"url": "http://feeds.example/x"}, "url", "must begin with https"),
        ({"url": "file:///etc/passwd"}, "url", "must begin with https"),
        ({"url": ""}, "url", "must begin with https"),
        ({"url": "https://"}, "url", "must be a URL"),
        ({"url": "https://[::1"}, "url", "must be a URL"),
        ({"url": "https://user:secret@feeds.example/"}, "url", "must not hold a user"),
        ({"url": "https://127.0.0.1/x"}, "url", "private network"),
        ({"url": "https://localhost:9785/x"}, "url", "private network"),
        ({"url": "https://10.1.2.3/x"}, "url", "private network"),
        ({"url": "https://[::ffff:10.0.0.1]/x"}, "url", "private network"),
        ({"url": "https://169.254.169.254/latest/meta-data"}, "url", "private network"),
        ({"url": "https://a.example/" + "x" * 2_000}, "url", "is longer"),
        ({"every": 1}, "every", "is not valid"),
        ({"max_loss": 0}, "max_loss", "is not valid"),
        ({"list_name": "No List"}, "list_name", "must be lower-case"),
        ({"tenant": "x"}, "tenant", ""),
        ({"delimiter": ";;"}, "delimiter", "must be one character"),
        ({"credentials_file": "../core.secret"}, "credentials_file", "must be the bare name"),
        ({"credentials_file": "/etc/shadow"}, "credentials_file", "must be the bare name"),
        ({"credentials_file": "absent"}, "credentials_file", "no such file"),
        ({"credentials_file": "empty"}, "credentials_file", "empty or too long"),
        ({"credentials_file": "long"}, "credentials_file", "empty or too long"),
        ({"credentials_file": "binary"}, "credentials_file", "not text"),
        ({"credentials_user": "ann"}, "credentials_file", "is needed"),
        ({"credentials_file": "feed.key", "credentials_header": "Host"}, "credentials_header", "must be the name"),
    ],
)
def test_everything_else_is_refused(data: Path, changes: Any, field: str, said: str) -> None:
    with pytest.raises(WebSettingsError) as refused:
        build_feed("own", changed(**changes), data)
    assert any(place == field and said in sentence for place, sentence in refused.value.mistakes), refused.value
    assert "s3cret" not in str(refused.value)


def test_a_bad_name_is_refused(data: Path) -> None:
    with pytest.raises(WebSettingsError, match="name must be lower-case"):
        build_feed("A feed", FEED, data)
