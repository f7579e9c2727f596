"""What is fetched over HTTP, and what is refused: other hosts, private networks, too much, too slow, damaged."""

import asyncio
import gzip
import ipaddress
import socket
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.own_names import replace_in

from gatepost.feeds import run
from gatepost.feeds.run import Fetched, open_client
from gatepost.feeds.sealed_reading import FeedFault
from gatepost.names import is_public_address
from gatepost.settings.feeds import FeedSettings, is_private_host

Feed = Callable[..., FeedSettings]


def get(settings: FeedSettings, **options: Any) -> tuple[Fetched, int]:
    async def run() -> tuple[Fetched, int]:
        async with open_client(settings) as client:
            return await client.get(settings.url or "", **options), client.received

    return asyncio.run(run())


def refusal(settings: FeedSettings) -> FeedFault:
    with pytest.raises(FeedFault) as caught:
        get(settings)
    return caught.value


def test_a_body_with_its_headers_and_the_credentials(served: Any, feed: Feed) -> None:
    served.say("/list", "evil.example\n", ETag='"1"')
    fetched, received = get(feed(credentials={"header": "Auth-Key", "secret": "hush"}))
    assert fetched.body == b"evil.example\n"
    assert fetched.headers["etag"] == '"1"'
    assert received == len(b"evil.example\n")
    assert served.seen("auth-key") == ["hush"]
    get(feed(credentials={"user": "ann", "password": "pass"}))
    assert served.seen("authorization")[-1] == "Basic YW5uOnBhc3M="


def test_tls_is_verified_against_the_name(served_tls: Any) -> None:
    served, certificate = served_tls
    served.say("/list", "x")
    options = {"name": "t", "list_name": "blocked-urls"}
    url = served.url("/list", "https", "localhost")
    fetched, _ = get(FeedSettings.model_validate({**options, "url": url, "ca": str(certificate)}, by_name=True))
    assert fetched.body == b"x"
    assert served.seen("host") == [f"localhost:{served.port}"]
    unknown = refusal(FeedSettings.model_validate({**options, "url": url}, by_name=True))
    assert "cannot be reached" in str(unknown)
    assert "certificate" in str(unknown).lower()
    other_name = served.url("/list", "https")
    other = FeedSettings.model_validate({**options, "url": other_name, "ca": str(certificate)}, by_name=True)
    assert "cannot be reached" in str(refusal(other))
    assert len(served.requests) == 1


def test_conditions_and_304(served: Any, feed: Feed) -> None:
    served.say("/list", "x", ETag='"1"')
    fetched, received = get(feed(), conditions={"if-none-match": '"1"'})
    assert fetched.body is None
    assert received == 0


@pytest.mark.parametrize(
    ("status", "words"),
    [(404, "answered 404"), (500, "answered 500"), (401, "credentials"), (206, "answered 206"), (304, "answered 304")],
)
def test_other_answers_are_failures(served: Any, feed: Feed, status: int, words: str) -> None:
    served.say("/list", "x", status)
    fault = refusal(feed())
    assert words in str(fault)
    assert not fault.refused


def test_redirects_stay_on_the_host(served: Any, feed: Feed) -> None:
    served.say("/list", "", 302, Location="/moved")
    served.say("/moved", "", 308, Location=served.url("/there"))
    served.say("/there", "here")
    assert get(feed())[0].body == b"here"
    assert [path for path, _ in served.requests] == ["/list", "/moved", "/there"]


@pytest.mark.parametrize(
    "target",
    [
        "http://169.254.169.254/latest/meta-data/",
        "http://localhost:{port}/there",
        "//10.0.0.1/there",
        "http://127.0.0.1:1/there",
        "https://127.0.0.1:{port}/there",
        "http://ann@127.0.0.1:{port}/there",
        "file:///etc/passwd",
        "http://[broken/",
    ],
)
def test_redirects_to_other_places_are_not_followed(served: Any, feed: Feed, target: str) -> None:
    served.say("/list", "", 302, Location=target.format(port=served.port))
    served.say("/there", "secret")
    assert "redirects to" in str(refusal(feed()))
    assert len(served.requests) == 1


def test_a_redirect_to_what_is_no_url(served: Any, feed: Feed) -> None:
    served.say("/list", "", 302, Location="/\x01/")
    assert "Invalid URL" in str(refusal(feed()))


def test_endless_redirects_end(served: Any, feed: Feed) -> None:
    served.say("/list", "", 302, Location="/list")
    assert "more than 5 times" in str(refusal(feed()))
    assert len(served.requests) == run.MAX_REDIRECTS + 1


def test_a_name_that_leads_into_a_private_network(monkeypatch: pytest.MonkeyPatch, served: Any, feed: Feed) -> None:
    served.say("/list", "x")
    found: list[str] = ["127.0.0.1"]

    async def resolve(_host: str, port: int, **_: Any) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in found]

    replace_in(monkeypatch, run, "asyncio", get_running_loop=lambda: SimpleNamespace(getaddrinfo=resolve))
    named = feed(url=served.url("/list", host="feed.example"))
    assert "private network" in str(refusal(named))
    assert not served.requests
    # The operator says that it is right; the connection goes to the address that was checked, under the name.
    allowed = feed(url=served.url("/list", host="feed.example"), private_network=True)
    assert get(allowed)[0].body == b"x"
    assert served.seen("host") == [f"feed.example:{served.port}"]


@pytest.mark.parametrize(
    ("address", "public"),
    [
        ("8.8.8.8", True),
        ("2606:4700::1111", True),
        ("127.0.0.1", False),
        ("10.1.2.3", False),
        ("100.64.0.1", False),
        ("169.254.169.254", False),
        ("0.0.0.0", False),
        ("224.0.0.1", False),
        ("::1", False),
        ("fd00::1", False),
        ("fe80::1", False),
        ("::ffff:10.0.0.1", False),
        ("::ffff:8.8.8.8", True),
        ("64:ff9b::a00:1", False),
        ("64:ff9b::808:808", True),
        ("64:ff9b:1::808:808", False),
        ("2002:a00:1::1", False),
        ("2002:808:808::1", False),
        ("2001:0:808:808::1", False),
        ("2001:db8::1", False),
        ("3fff::1", False),
        ("fec0::1", False),
        ("::127.0.0.1", False),
        ("::8.8.8.8", False),
        ("::ffff:0:127.0.0.1", False),
        ("5f00::1", False),
        ("4000::1", False),
        ("ff02::1", False),
        ("100::1", False),
        ("192.0.0.9", False),
        ("192.88.99.1", False),
        ("198.19.0.1", False),
        ("255.255.255.255", False),
        ("2a00:1450::1", True),
    ],
)
def test_which_addresses_are_on_the_internet(address: str, public: bool) -> None:
    assert is_public_address(ipaddress.ip_address(address)) is public
    assert is_private_host(address) is not public


def test_names_of_this_machine_are_private() -> None:
    assert is_private_host("localhost")
    assert not is_private_host("localhost.example")


def test_too_many_bytes(served: Any, feed: Feed) -> None:
    served.say("/list", b"x" * 5_000)
    fault = refusal(feed(max_size=4_096))
    assert fault.refused
    assert "maxSize" in str(fault)


def test_gzip_counts_by_what_it_becomes(served: Any, feed: Feed) -> None:
    served.say("/list", gzip.compress(b"a.example\n" * 100), Content_Encoding="gzip")
    assert get(feed(max_size=4_096))[0].body == b"a.example\n" * 100
    bomb = gzip.compress(b"\0" * (64 << 20))
    served.say("/list", bomb, Content_Encoding="gzip")
    fault = refusal(feed(max_size=1 << 20))
    assert fault.refused
    # The same as a file, without a header field.
    served.say("/list", bomb)
    assert refusal(feed(max_size=1 << 20)).refused
    served.say("/list", gzip.compress(b"a.example") + gzip.compress(b"\nb.example"))
    assert get(feed())[0].body == b"a.example\nb.example"


@pytest.mark.parametrize(
    "body",
    [gzip.compress(b"x" * 1000)[:-10], b"\x1f\x8b" + b"junk" * 20, gzip.compress(b"x") * 200],
    ids=["cut", "junk", "members"],
)
def test_damaged_gzip(served: Any, feed: Feed, body: bytes) -> None:
    for headers in ({}, {"Content_Encoding": "gzip"}):
        served.say("/list", body, **headers)
        assert "damaged" in str(fault := refusal(feed())) or "too many parts" in str(fault)


def test_a_compression_that_was_not_asked_for(served: Any, feed: Feed) -> None:
    served.say("/list", b"x", Content_Encoding="br")
    assert "br" in str(refusal(feed()))


def test_a_source_that_cannot_be_reached(feed: Feed, tmp_path: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        assert "cannot be reached" in str(refusal(feed(url=f"http://127.0.0.1:{port}/")))
    assert "has no address" in str(refusal(feed(url="http://nowhere.invalid/")))
    (tmp_path / "no.pem").write_text("nothing")
    assert "no certificate" in str(refusal(feed(ca=str(tmp_path / "no.pem"))))
