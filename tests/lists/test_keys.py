"""Look-ups by exact key: what an address, a host or a URL is looked up as covers just what an entry promises."""

import pytest

from gatepost.lists.addresses import list_sender_keys
from gatepost.lists.entries import list_network_keys
from gatepost.lists.links import list_url_keys


@pytest.mark.parametrize(
    ("address", "entry", "hit"),
    [
        ("Ann@Mail.Example.com", "ann@mail.example.com", True),
        ("ann@example.com", "example.com", True),
        ("ann@mail.example.com", "example.com", False),
        ("ann@mail.example.com", "*.example.com", True),
        ("ann@example.com", "*.example.com", False),
        ("ann+x@example.com", "ann@example.com", False),
        ("", "example.com", False),
        ("not an address", "example.com", False),
    ],
)
def test_senders(address: str, entry: str, hit: bool) -> None:
    assert (entry in list_sender_keys(address)) is hit


@pytest.mark.parametrize(
    ("address", "entry", "hit"),
    [
        ("192.0.2.9", "192.0.2.9", True),
        ("192.0.2.9", "192.0.2.0/24", True),
        ("::ffff:192.0.2.9", "192.0.2.0/24", True),
        ("192.0.3.9", "192.0.2.0/24", False),
        ("2001:db8::1", "2001:db8::/32", True),
        ("nonsense", "192.0.2.0/24", False),
    ],
)
def test_networks(address: str, entry: str, hit: bool) -> None:
    assert (entry in list_network_keys(address)) is hit


@pytest.mark.parametrize(
    ("link", "entry", "hit"),
    [
        ("https://evil.example/a/b?c=d", "evil.example", True),
        ("https://www.evil.example/", "evil.example", False),
        ("https://www.evil.example/", "*.evil.example", True),
        ("https://evil.example:8443/a", "evil.example", True),
        ("https://evil.example:8443/a", "evil.example:8443", True),
        ("https://evil.example:8443/a", "evil.example:8443/a", True),
        ("https://evil.example/a", "evil.example:8443", False),
        ("https://site.example/safe-evil", "site.example/safe", False),
        ("https://site.example/safe/x", "site.example/safe", True),
        ("https://site.example/safe/x", "site.example/safe/", True),
        ("https://site.example/safe?x", "site.example/safe", True),
        ("https://site.example/safe", "site.example/safe", True),
        ("https://site.example/Safe", "site.example/safe", False),
        ("https://site.example/a?b=c", "site.example/a?b=c", True),
        ("https://site.example/a?b=cd", "site.example/a?b=c", False),
        ("https://site.example/x/../safe/y", "site.example/safe", True),
        ("mailto:x@evil.example", "evil.example", False),
        ("https://site.example/%6cogin", "site.example/login", True),
        ("https://site.example//login", "site.example/login", True),
        ("https://site.example/%2e/login?x", "site.example/login", True),
        ("https://site.example/a/%2E%2E//login/y", "site.example/login", True),
        ("https://site.example/caf%c3%a9/x", "site.example/caf%C3%A9", True),
        ("https://site.example/%256cogin", "site.example/login", False),
        ("https://site.example/x%2Flogin", "site.example/x", False),
    ],
)
def test_urls(link: str, entry: str, hit: bool) -> None:
    assert (entry in list_url_keys(link)) is hit


def test_a_long_url_has_few_keys() -> None:
    assert len(list_url_keys("https://" + "a." * 100 + "example/" + "b/" * 5_000)) < 100
