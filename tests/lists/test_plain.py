"""Entries that are their own normal form take a short way; it leads where the long one does."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatepost.lists import hosts, values
from gatepost.lists.entry import Normal
from gatepost.lists.hosts import _PLAIN_URL, normalise_sender, normalise_url
from gatepost.lists.values import normalise_network

HOST = st.text(alphabet="axn0123-._XÄ*", min_size=1, max_size=20)
PATHS = st.text(alphabet="/ab.~-_?%#\\ A:é", max_size=20)


def slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """No text is plain."""
    never = re.compile(r"(?!)")
    for name in ("_PLAIN_SENDER", "_PLAIN_URL"):
        monkeypatch.setattr(hosts, name, never)
    monkeypatch.setattr(values, "_is_plain", lambda _text: False)


@given(HOST, PATHS)
def test_links(host: str, path: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        quick = normalise_url(host + path)
        slow(patch)
        assert normalise_url(host + path) == quick


@given(st.text(alphabet="ab0.+_=-'\"<@ Ä", max_size=10), HOST)
def test_senders(local: str, host: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        quick = normalise_sender(f"{local}@{host}")
        slow(patch)
        assert normalise_sender(f"{local}@{host}") == quick


@given(st.from_regex(r"[0-9]{1,3}(\.0?[0-9]{1,3}){0,4}(/[0-9]{1,2})?[ :a\x00]?", fullmatch=True))
def test_networks(text: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        quick = normalise_network(text)
        slow(patch)
        assert normalise_network(text) == quick


@pytest.mark.parametrize("text", ["example.com", "a.b-c.example/Path/x.html", "a.example/b/"])
def test_the_usual_links_are_plain(text: str) -> None:
    assert _PLAIN_URL.match(text)
    assert normalise_url(text) == Normal(text, text)


@pytest.mark.parametrize(
    "text",
    ["1.2.3.4", "a.0x7f", "host.1", "xn--a.example", "a..example", "a.example/../b", "a.example/", "a.example//b"],
)
def test_what_has_to_be_parsed_is_not_plain(text: str) -> None:
    assert not _PLAIN_URL.match(text)
