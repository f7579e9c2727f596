"""Unsigned mail of an own user, and a stranger's mail in the same name, by every source that there is.

The domain publishes SPF `-all` and DMARC `p=reject`. What its own users send is delivered wherever a source tells that
they sent it, or tells nothing of the client; what a stranger sends is held as spoofing wherever the source tells the
client. It runs as an operator runs it: one service with all sources, asked over their ports.
"""

import asyncio
import uuid
from collections.abc import Iterator

import pytest
from tests.blackbox.all_sources import SOURCES, Answer, House, Letter, forward, open_house

OWN, PRIVATE, STRANGER = "203.0.113.9", "10.1.2.3", "192.0.2.66"
TEXTS = {"house.example": "v=spf1 ip4:203.0.113.250 -all", "_dmarc.house.example": "v=DMARC1; p=reject"}
OUTSIDE = f"from evil.example (evil.example [{STRANGER}]) by mx.house.example (Postfix) with ESMTPS id 4Xy"
HOME = f"from phone (line.isp.example [{STRANGER}])\r\n\tby mx.house.example (Postfix) with ESMTPSA id 4Xy"
# What a client says in HELO to look like somebody who had logged in.
FORGED = f"from x by mx with ESMTPSA (evil [{STRANGER}])\r\n\tby mx.house.example (Postfix) with ESMTP id 4Xy"


@pytest.fixture(scope="module")
def house() -> Iterator[House]:
    with open_house(TEXTS, "ownNetworks: ['203.0.113.0/24', '10.0.0.0/8']\n") as opened:
        yield opened


def write_mail(received: str) -> Letter:
    """A letter of an own user. Each is another one, so that none is a copy of one that was sent before."""
    mark = uuid.uuid4().hex
    top = f"Received: {received}; Tue, 10 Nov 2026 09:12:00 +0000\r\n" if received else ""
    raw = (
        f"{top}From: Ann <ann@house.example>\r\nTo: bob@house.example\r\nSubject: Minutes of {mark[:6]}\r\n"
        f"Date: Tue, 10 Nov 2026 09:12:00 +0000\r\nMessage-ID: <{mark}@house.example>\r\n\r\n"
        f"Hello Bob,\r\n\r\nhere are the minutes of Monday, number {mark}.\r\n\r\nAnn\r\n"
    ).encode()
    return Letter(raw, "ann@house.example", ("bob@house.example",))


def present(address: str, login: str = "") -> dict[str, str]:
    return {"verb": "XCLIENT", "ADDR": address, "NAME": "client.example", **({"LOGIN": login} if login else {})}


DELIVERED: list[tuple[str, dict[str, str], str]] = [
    # The source tells that an own user sent it.
    ("smtp", forward(OWN), ""),
    ("smtp", forward(PRIVATE), ""),
    ("smtp", forward(STRANGER), HOME),
    ("smtp", {"verb": "XFORWARD", "SOURCE": "LOCAL"}, ""),
    ("smtp", {**forward("127.0.0.1"), "SOURCE": "LOCAL"}, ""),
    ("smtp", present(OWN), ""),
    ("smtp", present(STRANGER, "ann"), ""),
    ("milter", {"address": "127.0.0.1"}, ""),
    ("milter", {"address": "::1"}, ""),
    ("milter", {"address": OWN}, ""),
    ("milter", {"address": STRANGER, "login": "ann"}, ""),
    ("rspamd", {"IP": OWN}, ""),
    ("rspamd", {"IP": STRANGER, "User": "ann@house.example"}, ""),
    ("rest", {"remoteAddress": OWN}, ""),
    ("rest", {"remoteAddress": PRIVATE}, ""),
    # The source tells nothing of the client, or a relay in front instead of it.
    ("smtp", {}, ""),
    ("smtp", {}, HOME),
    ("smtp", forward("192.168.7.7"), ""),
    ("rspamd", {"IP": "127.0.0.1"}, ""),
    ("rspamd", {}, ""),
    ("spamd", {}, ""),
    ("spamd", {}, HOME),
    ("rest", {}, ""),
    ("rest", {}, HOME),
    ("rest", {"remoteAddress": "127.0.0.1"}, ""),
]
HELD: list[tuple[str, dict[str, str], str]] = [
    ("smtp", forward(STRANGER), ""),
    ("smtp", forward(STRANGER), OUTSIDE),
    ("smtp", forward(STRANGER), FORGED),
    ("smtp", {**forward(STRANGER), "SOURCE": "LOCAL"}, ""),
    ("smtp", present(STRANGER), ""),
    # Who sends XCLIENT need not write a Received field: that on top may be the stranger's.
    ("smtp", present(STRANGER), HOME),
    ("smtp", {}, OUTSIDE),
    ("milter", {"address": STRANGER}, ""),
    ("milter", {"address": STRANGER}, HOME),
    ("rspamd", {"IP": STRANGER}, ""),
    ("rspamd", {"IP": STRANGER}, HOME),
    ("spamd", {}, OUTSIDE),
    ("rest", {"remoteAddress": STRANGER}, ""),
    ("rest", {"remoteAddress": STRANGER}, HOME),
    ("rest", {}, OUTSIDE),
]


def name_row(row: tuple[str, dict[str, str], str]) -> str:
    source, told, received = row
    fields = {HOME: "home", OUTSIDE: "outside", FORGED: "forged", "": ""}
    return " ".join((source, *told.values(), fields[received])).replace("client.example", "").strip()


async def _send(house: House, row: tuple[str, dict[str, str], str]) -> Answer:
    source, told, received = row
    return await SOURCES[source](house, told, write_mail(received))


@pytest.mark.parametrize("row", DELIVERED, ids=name_row)
def test_mail_of_own_users_is_delivered(house: House, row: tuple[str, dict[str, str], str]) -> None:
    assert asyncio.run(_send(house, row)) == Answer(held=False)


@pytest.mark.parametrize("row", HELD, ids=name_row)
def test_mail_of_strangers_in_the_same_name_is_held(house: House, row: tuple[str, dict[str, str], str]) -> None:
    assert asyncio.run(_send(house, row)) == Answer(held=True)
