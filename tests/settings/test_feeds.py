"""Settings of feeds: what is refused, with its key, and what is never shown."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from gatepost.settings.feeds import FeedSettings, WebFeed, WebSettingsError, build_feed
from gatepost.settings.files import settings_in_force
from gatepost.settings.removed_keys import REMOVED

GOOD = {"name": "f", "listName": "blocked-urls", "url": "https://feeds.example/list?k=1"}


def make(**stated: Any) -> FeedSettings:
    return FeedSettings.model_validate({**GOOD, **stated})


def test_defaults() -> None:
    feed = make()
    assert feed.is_scheduled
    assert (feed.format, feed.every, feed.max_loss, feed.keep_vanished, feed.look_back) == ("plain", 60, 50, 0, 7)
    assert not make(url=None).is_scheduled


@pytest.mark.parametrize(
    ("stated", "sentence"),
    [
        ({"name": "Not so"}, "lower-case"),
        ({"url": "http://feeds.example/"}, "without TLS"),
        ({"url": "ftp://feeds.example/"}, "must be a URL"),
        ({"url": "https:///x"}, "must be a URL"),
        ({"url": "https://u:p@feeds.example/"}, "under credentials"),
        ({"url": "https://feeds.example:0/"}, "must be a URL"),
        ({"url": "https://feeds.example:x/"}, "must be a URL"),
        ({"url": "https://feeds.example/\n"}, "must be a URL"),
        ({"url": "https://bücher.example/"}, "must be a URL"),
        ({"file": "/x"}, "either url or file"),
        ({"delimiter": ",,"}, "one character"),
        ({"column": 0}, "greater than or equal to 1"),
        ({"every": 1}, "greater than or equal to 5"),
        ({"maxLoss": 101}, "less than or equal to 100"),
        ({"credentials": {"user": "a"}}, "either user and password, or secret"),
        ({"credentials": {"user": "a", "password": "b", "secret": "c"}}, "either user and password, or secret"),
        ({"credentials": {"header": "Host", "secret": "c"}}, "name of a header field"),
        ({"credentials": {"header": "X\r\nY", "secret": "c"}}, "name of a header field"),
        ({"surprise": 1}, "Extra inputs"),
    ],
)
def test_faults(stated: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValidationError) as caught:
        make(**stated)
    assert sentence in str(caught.value)


def test_http_has_to_be_wanted() -> None:
    assert make(url="http://feeds.example/", allowHttp=True).source == "http://feeds.example/"


def test_secrets_are_not_shown() -> None:
    feed = make(
        credentials={"header": "Auth-Key", "secret": "hush-hush"}, url="https://feeds.example/v1/hush-hush/list"
    )
    assert "hush" not in feed.source
    shown = {key: value for _, key, value in settings_in_force("abby.yml", feed)}
    assert shown["credentials.secret"] == "(hidden)"
    user = make(credentials={"user": "ann", "password": "hush"})
    assert ("abby.yml", "credentials.password", "(hidden)") in settings_in_force("abby.yml", user)


def test_what_decides_about_entries_changes_the_fingerprint() -> None:
    assert make().fingerprint == make(every=5, maxLoss=10).fingerprint
    others = [make(column=2), make(listName="x"), make(url="https://b.example/"), make(format="csv")]
    assert len({make().fingerprint, *(each.fingerprint for each in others)}) == 5


def test_a_feed_of_the_web_interface_in_a_format_that_was_removed_says_what_to_use(tmp_path: Path) -> None:
    with pytest.raises(WebSettingsError) as caught:
        build_feed("old", WebFeed("blocked-urls", url="https://feeds.example/", format="misp"), tmp_path)
    assert caught.value.mistakes == (("format", REMOVED["feeds.format: misp"]),)
