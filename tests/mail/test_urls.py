"""URLs as browsers read them, hostile ones beside ordinary ones."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatepost.mail.links import MAX_DATA, MAX_URL, NO_URL, parse_url, read_scheme


@pytest.mark.parametrize(
    ("target", "href", "host"),
    [
        ("http://Example.COM/a", "http://example.com/a", "example.com"),
        ("https://example.com:443/a/../b?q#f", "https://example.com/b?q#f", "example.com"),
        ("http:\\\\evil.test\\x", "http://evil.test/x", "evil.test"),
        ("http:/evil.test", "http://evil.test/", "evil.test"),
        ("http:///evil.test/", "http://evil.test/", "evil.test"),
        ("ht\ntp://ev\til.test/", "http://evil.test/", "evil.test"),
        (" \x01http://evil.test/ ", "http://evil.test/", "evil.test"),
        ("http://bank.example@evil.test/", "http://bank.example@evil.test/", "evil.test"),
        ("http://bank.example%2f@evil.test/", "http://bank.example%2f@evil.test/", "evil.test"),
        ("http://bank.example\\@evil.test/", "http://bank.example/@evil.test/", "bank.example"),
        ("http://0x7f.1/", "http://127.0.0.1/", "127.0.0.1"),
        ("http://2130706433/", "http://127.0.0.1/", "127.0.0.1"),
        ("http://0177.0.0.1/", "http://127.0.0.1/", "127.0.0.1"),
        ("http://[::ffff:7f00:1]/", "http://[::ffff:7f00:1]/", "[::ffff:7f00:1]"),
        ("http://%65vil.test/", "http://evil.test/", "evil.test"),
        ("http://ⓔvil.test/", "http://evil.test/", "evil.test"),
        ("http://evil。test/", "http://evil.test/", "evil.test"),
        ("http://аррle.com/", "http://xn--le-6kc8da.com/", "xn--le-6kc8da.com"),
        ("http://evil.test./", "http://evil.test./", "evil.test"),
        ("//evil.test/x", "http://evil.test/x", "evil.test"),
        ("\\\\evil.test\\x", "http://evil.test/x", "evil.test"),
        ("www.example.com", "http://www.example.com/", "www.example.com"),
        ("example.com/path", "http://example.com/path", "example.com"),
        ("blob:https://evil.test/1-2", "blob:https://evil.test/1-2", "evil.test"),
        ("mailto:ann@example.com", "mailto:ann@example.com", ""),
        ("java\tscript:alert(1)", "javascript:alert(1)", ""),
        ("http://a b/", "", ""),
        ("http://example.com:99999/", "", ""),
        ("http://xn--/", "", ""),
        ("page.html", "", ""),
        ("#top", "", ""),
        ("", "", ""),
        ("http://\ud800.com/", "", ""),
    ],
)
def test_parse(target: str, href: str, host: str) -> None:
    url = parse_url(target)
    assert (url.href, url.host) == (href, host)


@pytest.mark.parametrize(
    ("target", "href"),
    [
        ("x.html", "https://base.example/a/x.html"),
        ("/x", "https://base.example/x"),
        ("\\x", "https://base.example/x"),
        ("?q", "https://base.example/a/b?q"),
        ("../../x", "https://base.example/x"),
        ("//other.example", "https://other.example/"),
        ("http://other.example", "http://other.example/"),
    ],
)
def test_base(target: str, href: str) -> None:
    assert parse_url(target, parse_url("https://base.example/a/b?c#d")).href == href


@pytest.mark.parametrize(
    ("target", "scheme"),
    [("HTTP://x", "http"), (" java\nscript:x", "javascript"), ("x/y:z", ""), ("1http:", ""), ("", "")],
)
def test_scheme_of(target: str, scheme: str) -> None:
    assert read_scheme(target) == scheme


def test_long_urls_keep_their_host_and_lose_their_tail() -> None:
    url = parse_url("http://" + "a" * 100_000 + "@evil.test/" + "b" * 100_000)
    assert url.host == "evil.test"
    assert len(url.href) == MAX_URL
    assert len(parse_url("data:image/png;base64," + "A" * 1_000_000).href) == MAX_DATA


@given(st.text())
def test_parse_is_total_and_idempotent(text: str) -> None:
    url = parse_url(text)
    if url is not NO_URL and url.is_web and len(url.href) < MAX_URL:
        assert parse_url(url.href) == url
