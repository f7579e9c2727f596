"""Outbound mail: who sends it, what a captured account meets, and that strangers find no open relay."""

import asyncio
from typing import Any

import pytest
from tests.clock import Clock
from tests.smtp.sender_counts import sender_counts

from gatepost.smtp import outbound
from gatepost.smtp.client import OutboundTenants, SmtpClient, Tenancy
from gatepost.smtp.outbound import (
    HourlyLimits,
    LimitedSender,
    Outbound,
    SenderLimits,
    name_sender,
)
from gatepost.smtp.replies import SmtpReply

MESSAGE = b"From: a@x.example\r\n\r\ny\r\n"
HOUR = 3_600.0


class Nobody:
    async def of_domain(self, _domain: str) -> str | None:
        return None


def limits(clock: Clock, told: list[LimitedSender], counts: Any = None, **most: int) -> SenderLimits:
    return SenderLimits(HourlyLimits(**most), counts or sender_counts(clock), tell=told.append)


def test_counts_slide_with_the_hour() -> None:
    clock, told = Clock(100 * HOUR), list[LimitedSender]()
    counted = limits(clock, told, messages=10)
    for _ in range(10):
        assert counted.check("a@x.example") is None
        counted.count("a@x.example", messages=1, recipients=1)
    assert counted.check("a@x.example")
    assert counted.check("b@x.example") is None
    clock.now += HOUR * 1.05  # of the ten, nine and a half lie within the last sixty minutes
    assert counted.check("a@x.example") is None
    counted.count("a@x.example", messages=1)
    assert counted.check("a@x.example")
    clock.now += HOUR * 2
    assert counted.check("a@x.example") is None
    assert [each.limit for each in told] == ["messages", "messages"]


@pytest.mark.parametrize(
    ("most", "counts", "asked", "limit"),
    [
        ({"recipients": 5}, {"recipients": 3}, 2, None),
        ({"recipients": 5}, {"recipients": 3}, 3, "recipients"),
        ({"refused": 4}, {"refused": 4}, 0, "refused recipients"),
        ({}, {"messages": 10**6, "recipients": 10**6, "refused": 10**6}, 100, None),
    ],
)
def test_each_limit(most: dict[str, int], counts: dict[str, int], asked: int, limit: str | None) -> None:
    counted = limits(Clock(100 * HOUR), [], **most)
    counted.count("a@x.example", **counts)
    found = counted.check("a@x.example", asked)
    assert (found.limit if found else None) == limit


def test_a_sender_is_told_of_once_an_hour_over_a_reload() -> None:
    clock, told = Clock(100 * HOUR), list[LimitedSender]()
    kept = sender_counts(clock)
    first, second = (limits(clock, told, kept, messages=1) for _ in range(2))
    first.count("a@x.example", messages=1)
    assert second.check("a@x.example")
    assert first.check("a@x.example")
    assert len(told) == 1
    assert (first.limited, second.limited) == (1, 1)


def test_a_sender_is_told_of_again_in_the_next_hour_and_few_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbound, "MAX_TOLD", 3)
    clock = Clock(100 * HOUR)
    counts = sender_counts(clock)
    assert [counts.is_first(f"a{number % 3}@x.example") for number in range(6)] == [True] * 3 + [False] * 3
    assert counts.is_first("a3@x.example")
    clock.now += HOUR
    assert counts.is_first("a3@x.example")
    assert not counts.is_first("a3@x.example")


def test_who_the_sender_is() -> None:
    assert name_sender(SmtpClient("192.0.2.1"), "A@X.example") == "a@x.example"
    assert name_sender(SmtpClient("192.0.2.1", xclient={"LOGIN": "ann"}), "a@x.example") == "user ann"
    assert name_sender(SmtpClient("192.0.2.1"), "") == "host 192.0.2.1"


async def test_which_mail_is_outbound() -> None:
    direction = Outbound(OutboundTenants(["192.0.2.0/24"]), 587, None, limits(Clock(100 * HOUR), []))
    tenancy = Tenancy({}, Nobody().of_domain)

    async def refuse(client: SmtpClient) -> SmtpReply | None:
        return (await direction.open_account(client, "a@x.example", "x.example", tenancy)).refuse()

    assert direction.covers(SmtpClient("192.0.2.9"), 25)
    assert direction.covers(SmtpClient("198.51.100.1"), 587)
    assert not direction.covers(SmtpClient("198.51.100.1"), 25)
    assert not direction.covers(SmtpClient("unix"), 25)
    # A stranger who reaches the port may not send: it would be an open relay.
    refusal = await refuse(SmtpClient("198.51.100.1"))
    assert refusal is not None
    assert refusal.code == 550
    assert await refuse(SmtpClient("192.0.2.9")) is None


async def send(gate: Any, recipients: int = 1, sender: str = "a@x.example") -> str:
    client = await gate.connect()
    await client.say("EHLO c")
    answer = await client.say(f"MAIL FROM:<{sender}>")
    for number in range(recipients if answer[0] == "2" else 0):
        answer = await client.say(f"RCPT TO:<r{number}@y.example>")
    if answer[0] != "2" and "RCPT" not in answer:
        client.writer.close()
        return str(answer)
    await client.say("DATA")
    return str(await client.say(MESSAGE + b".\r\n"))


async def test_a_captured_account_is_stopped(deployment: Any, hop: Any) -> None:
    next_hop, told = hop(), list[LimitedSender]()
    next_hop.says["RCPT TO:<r9@"] = "550 5.1.1 unknown"
    async with deployment(next_hop, tenants={"x.example": "t1"}) as gate:
        counted = limits(Clock(100 * HOUR), told, messages=3, recipients=40, refused=2)
        gate.services.outbound = Outbound(OutboundTenants(["127.0.0.0/8"]), None, gate.services.routing, counted)
        assert (await send(gate)).startswith("250")
        envelope = gate.guard.scanned[0].envelope
        # An outbound message is its sender's, and the world is told no verdict.
        assert (envelope.outbound, envelope.tenant) == (True, "t1")
        assert b"X-Gatepost-Verdict" not in next_hop.messages[0]
        assert b"X-Gatepost-Id" in next_hop.messages[0]
        for _ in range(2):
            assert (await send(gate)).startswith("250")
        assert (await send(gate)) == "451 4.7.1 Sending limit exceeded, try again later"
        assert (await send(gate, 30, sender="b@x.example")).startswith("250")
        assert (await send(gate, 30, sender="b@x.example")).startswith("451 4.7.1")
        for _ in range(2):
            await send(gate, 10, sender="c@x.example")
        await asyncio.sleep(0)
        assert (await send(gate, sender="c@x.example")).startswith("451 4.7.1")
        assert [each.limit for each in told] == ["messages", "recipients", "refused recipients"]


async def test_what_is_over_the_limit_can_be_held(deployment: Any, hop: Any) -> None:
    next_hop = hop()
    async with deployment(next_hop) as gate:
        counted = SenderLimits(HourlyLimits(messages=1), sender_counts(), holds=True)
        gate.services.outbound = Outbound(OutboundTenants(["127.0.0.0/8"]), None, gate.services.routing, counted)
        await send(gate)
        gate.guard.decision = "quarantine"
        assert (await send(gate)).startswith("250 2.6.0")
        assert gate.guard.scanned[1].unfit.startswith("its sender had 1 messages within an hour")
        assert len(gate.holding.kept) == 1
