"""A full SMTP port ends the oldest session without a transaction, and keeps those that have one."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from tests.clock import Clock
from tests.own_names import replace_in

from gatepost.smtp import intake, session
from gatepost.smtp.commands import SmtpLimits


async def test_a_full_port_ends_the_oldest_session_without_a_transaction(
    deployment: Any, hop: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(1_000.0)
    loop = asyncio.get_running_loop()
    seen = SimpleNamespace(time=clock, connect_accepted_socket=loop.connect_accepted_socket)
    replace_in(monkeypatch, intake, "asyncio", get_running_loop=lambda: seen)
    async with deployment(hop(), max_connections=4) as gate:
        working = await gate.connect()
        await working.say("EHLO c")
        assert (await working.say("MAIL FROM:<a@x.example>")).startswith("250")
        between = await gate.connect()
        await between.up_to_data()
        assert (await between.say(b"Subject: x\r\n\r\ny\r\n.\r\n")).startswith("250")
        silent = [await gate.connect() for _ in range(2)]
        assert await silent[1].say("EHLO c")
        clock.now += intake.GRACE_SECONDS + gate.services.limits.greeting_pause
        first = await gate.connect()
        assert (await silent[0].reply(), await silent[0].closed()) == ("421 4.7.0 Too many connections", True)
        await first.up_to_data()
        await gate.connect()
        assert (await silent[1].reply()).startswith("421"), "to say EHLO is no transaction"
        # The others are either at work or too new, but for the one between two messages.
        await gate.connect()
        assert (await between.reply()).startswith("421")
        assert gate.intake.gave_way == 3
        late = await gate.connect(greeted=False)
        assert (await late.reply(), await late.closed()) == ("421 4.7.0 Too many connections", True)
        assert (gate.intake.gave_way, gate.intake.turned_away_full, gate.intake.open) == (3, 1, 4)
        assert (await first.say(b"Subject: x\r\n\r\ny\r\n.\r\n")).startswith("250"), "a message under way is not lost"
        assert (await working.say("RCPT TO:<b@y.example>")).startswith("250")


async def test_a_full_port_ends_a_session_whose_tenant_has_its_share(deployment: Any, hop: Any) -> None:
    limits, tenants = (
        SmtpLimits(greeting_pause=0.0, sessions=4, place_wait=0.05),
        {"flood.example": "f", "quiet.example": "q"},
    )
    async with deployment(hop(), limits=limits, tenants=tenants, max_connections=4) as gate:
        flood = [await gate.connect() for _ in range(4)]
        for client in flood[:3]:
            await client.up_to_data(recipient="b@flood.example")
        await flood[3].say("EHLO c")
        await flood[3].say("MAIL FROM:<a@x.example>")
        assert (await flood[3].say("RCPT TO:<b@flood.example>")).startswith("451 4.3.2")
        quiet = await gate.connect()
        assert (await flood[3].reply(), await flood[3].closed()) == ("421 4.7.0 Too many connections", True)
        await quiet.up_to_data(recipient="b@quiet.example")
        assert (await quiet.say(b"Subject: x\r\n\r\ny\r\n.\r\n")).startswith("250")
        assert (await flood[0].say(b"Subject: x\r\n\r\ny\r\n.\r\n")).startswith("250"), "it is not lost"


async def test_silent_connections_do_not_close_the_port(
    deployment: Any, hop: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intake, "GRACE_SECONDS", 0.0)
    async with deployment(hop(), max_connections=50) as gate:
        for _ in range(200):
            await gate.connect()
        client = await gate.connect()
        await client.up_to_data()
        assert (await client.say(b"Subject: x\r\n\r\ny\r\n.\r\n")).startswith("250")
        assert gate.intake.gave_way == 151
        await gate.until(lambda: gate.intake.open == 50)


STALLED: dict[str, tuple[str | bytes, ...]] = {
    "half a command": (b"EHL",),
    "half a command in a transaction": ("EHLO c", "MAIL FROM:<a@x.example>", b"RCP"),
    "a transaction": ("EHLO c", "MAIL FROM:<a@x.example>", "NOOP"),
    "one transaction after another": ("EHLO c", *("MAIL FROM:<a@x.example>", "RSET") * 3, "MAIL FROM:<a@x.example>"),
    "recipients": ("EHLO c", "MAIL FROM:<a@x.example>", *("RCPT TO:<b@y.example>",) * 5),
    "a message": ("EHLO c", "MAIL FROM:<a@x.example>", "RCPT TO:<b@y.example>", "DATA", b"Subject: x\r\n"),
    "a chunk": ("EHLO c", "MAIL FROM:<a@x.example>", "RCPT TO:<b@y.example>", b"BDAT 9999\r\nSubject: x\r\n"),
    "a handshake": ("EHLO c", "STARTTLS"),
}


@pytest.mark.parametrize("said", STALLED.values(), ids=list(STALLED))
async def test_clients_that_send_drops_do_not_close_the_port(
    said: tuple[str | bytes, ...], deployment: Any, hop: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intake, "GRACE_SECONDS", 0.0)
    monkeypatch.setattr(session, "STALL_SECONDS", 0.0)
    # At this rate, whatever little has come is less than must have come by then.
    limits = SmtpLimits(greeting_pause=0.0, data_rate=1_000_000_000)
    async with deployment(hop(), max_connections=1, limits=limits) as gate:
        slow = await gate.connect()
        for each in said:
            slow.send(each)
            if isinstance(each, str):
                assert await slow.reply()
        await gate.until(lambda: next(iter(gate.intake._by_age.values()))[0].rank_to_end(is_old=True) is not None)
        guest = await gate.connect()
        assert gate.intake.gave_way == 1
        await guest.up_to_data()
        assert (await guest.say(b"Subject: x\r\n\r\ny\r\n.\r\n")).startswith("250")
        await gate.until(lambda: gate.intake.services.space.used == 0)


async def test_a_client_that_sends_as_fast_as_it_must_is_kept(
    deployment: Any, hop: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intake, "GRACE_SECONDS", 0.0)
    monkeypatch.setattr(session, "STALL_SECONDS", 0.0)
    async with deployment(hop(), max_connections=1) as gate:
        client = await gate.connect()
        await client.up_to_data()
        client.send(b"Subject: x\r\n\r\n" + b"y\r\n" * 200_000)
        await gate.until(lambda: gate.intake.services.space.used > 500_000)
        late = await gate.connect(greeted=False)
        assert (await late.reply(), gate.intake.gave_way) == ("421 4.7.0 Too many connections", 0)
        assert (await client.say(b".\r\n")).startswith("250")
