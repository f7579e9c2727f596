"""Where a message comes from, for everything that a source can know of its client."""

from ipaddress import ip_address, ip_network

import pytest

from gatepost.auth.origin import is_login, is_private, parse_networks
from gatepost.auth.results import Origin
from gatepost.auth.sending_host import find_sending_host
from gatepost.mail.message import Envelope, Field

OWN = parse_networks(("10.0.0.0/8", "203.0.113.0/24", "2001:db8:1::/48"))
RELAYS = (ip_network("198.51.100.0/24"),)
OUTSIDE = "from evil.example (evil.example [192.0.2.66]) by mx.house.example with ESMTPS id 1; Mon"
INSIDE = "from pc (pc.house.example [10.1.2.3]) by mx.house.example with ESMTP id 1; Mon"
HOME = "from phone (line.isp.example [192.0.2.77]) (using TLSv1.3) (Authenticated sender: ann) by mx with ESMTPSA id 1"


def find(received: list[str], envelope: Envelope) -> Origin:
    fields = [Field("received", value, b"") for value in received]
    return find_sending_host(envelope, fields, RELAYS, OWN).origin


@pytest.mark.parametrize(
    ("address", "received", "origin"),
    [
        # What a source tells of the client's address.
        ("192.0.2.66", [], "outside"),
        ("2001:db8:2::1", [], "outside"),
        ("203.0.113.9", [], "own network"),
        ("::ffff:203.0.113.9", [], "own network"),
        ("10.1.2.3", [OUTSIDE], "own network"),
        ("2001:db8:1::9", [], "own network"),
        # A private address in no own network is that of a relay in front.
        ("127.0.0.1", [], "unknown"),
        ("192.168.1.1", [OUTSIDE], "unknown"),
        ("fd00::1", [], "unknown"),
        # A trusted relay tells the client in its Received field.
        ("198.51.100.1", [OUTSIDE], "outside"),
        ("198.51.100.1", [INSIDE], "own network"),
        ("198.51.100.1", [HOME], "logged in"),
        ("198.51.100.1", [], "unknown"),
        ("198.51.100.1", ["from r (r [198.51.100.2]) by q with ESMTP", HOME], "logged in"),
        ("198.51.100.1", [OUTSIDE, HOME], "outside"),
        # Nobody tells: a field that a stranger could have written proves nothing.
        (None, [], "unknown"),
        (None, [OUTSIDE], "outside"),
        (None, [INSIDE], "unknown"),
        (None, [HOME], "unknown"),
        (None, [OUTSIDE, INSIDE, HOME], "outside"),
        ("192.0.2.66", [INSIDE, HOME], "outside"),
    ],
)
def test_origin(address: str | None, received: list[str], origin: Origin) -> None:
    assert find(received, Envelope(remote_address=address)) == origin


@pytest.mark.parametrize("address", [None, "192.0.2.66", "203.0.113.9", "127.0.0.1"])
def test_what_a_source_knows_comes_first(address: str | None) -> None:
    assert find([OUTSIDE], Envelope(remote_address=address, logged_in=True)) == "logged in"
    assert find([OUTSIDE], Envelope(remote_address=address, local=True)) == "own network"
    assert find([OUTSIDE], Envelope(remote_address=address, outbound=True)) == "own network"
    assert find([OUTSIDE], Envelope(remote_address=address, outbound=True, logged_in=True)) == "logged in"


@pytest.mark.parametrize(
    ("received", "expected"),
    [
        (HOME, True),
        ("from a (a [192.0.2.1])\r\n\tby b (Postfix) with ESMTPA id 1", True),
        ("from [192.0.2.1] (helo=x) by b with esmtpsa (TLS1.3) tls TLS_AES (Exim 4.96) id 1", True),
        ("from a (a [192.0.2.1]) by b with UTF8SMTPSA id 1", True),
        ("from a ([192.0.2.1]) by b with LMTPSA id 1", True),
        ("from a (a [192.0.2.1]) by b with asmtp id 1", True),
        ("from a (a [192.0.2.1]) by b with ESMTPS id 1", False),
        ("from a (a [192.0.2.1]) by b with ESMTP id ESMTPSA", False),
        ("by b with ESMTPSA id 1", False),
        # What a client says in HELO may look like the rest of a field.
        ("from x by y with ESMTPSA (evil [192.0.2.66]) by b (Postfix) with ESMTP id 1", False),
        ("from x (y [10.0.0.1]) by z with ESMTPSA ( (evil [192.0.2.66]) by b with ESMTP id 1", False),
        (f"from x by y with ESMTPSA {'x' * 2_000} (evil [192.0.2.66]) by b with ESMTP id 1", False),
        ("from x) by y with ESMTPSA (evil [192.0.2.66]) by b with ESMTP id 1", False),
        ("", False),
    ],
)
def test_logins_in_fields(received: str, expected: bool) -> None:
    assert is_login(received) == expected


def test_private_addresses() -> None:
    private = "0.0.0.0 10.0.0.1 100.64.0.1 127.0.0.1 169.254.1.1 172.16.0.1 192.168.0.1 :: ::1 fd00::1 fe80::1"
    public = "1.1.1.1 100.63.255.255 172.32.0.1 192.0.2.1 198.51.100.1 203.0.113.1 2001:db8::1 ::2"
    assert [text for text in private.split() if not is_private(ip_address(text))] == []
    assert [text for text in public.split() if is_private(ip_address(text))] == []
