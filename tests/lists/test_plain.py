"""Entries that are their own normal form take a short way; it leads where the long one does."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatepost.lists import network, sender, url
from gatepost.lists.entry import Normal

HOST = st.text(alphabet="axn0123-._XÄ*", min_size=1, max_size=20)
PATHS = st.text(alphabet="/ab.~-_?%#\\ A:é", max_size=20)


def slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """No text is plain."""
    never = re.compile(r"(?!)")
    for module in (sender, url):
        monkeypatch.setattr(module, "_PLAIN", never)
    monkeypatch.setattr(network, "_is_plain", lambda _text: False)


@given(HOST, PATHS)
def test_links(host: str, path: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        quick = url.normalise(host + path)
        slow(patch)
        assert url.normalise(host + path) == quick


@given(st.text(alphabet="ab0.+_=-'\"<@ Ä", max_size=10), HOST)
def test_senders(local: str, host: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        quick = sender.normalise(f"{local}@{host}")
        slow(patch)
        assert sender.normalise(f"{local}@{host}") == quick


@given(st.from_regex(r"[0-9]{1,3}(\.0?[0-9]{1,3}){0,4}(/[0-9]{1,2})?[ :a\x00]?", fullmatch=True))
def test_networks(text: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        quick = network.normalise(text)
        slow(patch)
        assert network.normalise(text) == quick


@pytest.mark.parametrize("text", ["example.com", "a.b-c.example/Path/x.html", "a.example/b/"])
def test_the_usual_links_are_plain(text: str) -> None:
    assert url._PLAIN.match(text)
    assert url.normalise(text) == Normal(text, text)


@pytest.mark.parametrize(
    "text",
    ["1.2.3.4", "a.0x7f", "host.1", "xn--a.example", "a..example", "a.example/../b", "a.example/", "a.example//b"],
)
def test_what_has_to_be_parsed_is_not_plain(text: str) -> None:
    assert not url._PLAIN.match(text)
