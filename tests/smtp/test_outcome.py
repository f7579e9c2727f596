"""What becomes of a message: each decision's reply, and where the message is then."""

import asyncio
from typing import Any

import msgspec
import pytest
from tests.smtp.conftest import QUICK

from gatepost.store.errors import StorageError

MESSAGE = b"Subject: x\r\n\r\ny\r\n"


@pytest.mark.parametrize(
    ("decision", "after_queue", "reply", "delivered", "held"),
    [
        ("deliver", False, "250 2.0.0 Ok: queued", 1, 0),
        ("quarantine", False, "250 2.6.0 Accepted, reference ", 0, 1),
        ("drop", False, "250 2.6.0 Accepted, reference ", 0, 0),
        ("bounce", False, "550 5.7.1 Message refused, reference ", 0, 0),
        ("bounce", True, "250 2.6.0 Accepted, reference ", 0, 1),
        ("undecided", False, "451 4.7.0", 0, 0),
    ],
)
async def test_decisions(
    decision: str, after_queue: bool, reply: str, delivered: int, held: int, deployment: Any, hop: Any
) -> None:
    next_hop = hop()
    async with deployment(next_hop, after_queue=after_queue) as gate:
        gate.guard.decision = decision
        answer = await gate.send(MESSAGE)
        assert answer.startswith(reply)
        if "reference" in reply:
            assert answer.endswith(gate.guard.scanned[0].ggrid)
        assert (len(next_hop.messages), len(gate.holding.kept)) == (delivered, held)
        assert gate.guard.raw == [MESSAGE]
        assert gate.services.space.used == 0


async def test_the_third_time_undecided_is_held(deployment: Any, hop: Any) -> None:
    async with deployment(hop()) as gate:
        gate.guard.decision = "undecided"
        assert [(await gate.send(MESSAGE))[:9] for _ in range(3)] == ["451 4.7.0", "451 4.7.0", "250 2.6.0"]
        assert len(gate.holding.kept) == 1
        # Other bytes and another envelope are counted by themselves.
        assert (await gate.send(b"Subject: other\r\n\r\n")).startswith("451")
        assert (await gate.send(MESSAGE, recipient="c@y.example")).startswith("451")
        assert len(set(gate.holding.digests)) == 3
        assert (gate.services.attempts, gate.services.deferred) == (5, {"undecided": 4})


async def test_what_cannot_be_kept_stays_with_the_sender(deployment: Any, hop: Any) -> None:
    async with deployment(hop()) as gate:
        gate.guard.decision, gate.holding.broken = "quarantine", True
        assert (await gate.send(MESSAGE)).startswith("451 4.3.0")
        gate.guard.decision, gate.guard.fault = "drop", StorageError("full disk")
        assert (await gate.send(MESSAGE)).startswith("451 4.3.0")
        assert not gate.holding.begun


async def test_a_full_core_says_so_and_keeps_the_connection(deployment: Any, hop: Any) -> None:
    next_hop = hop()
    async with deployment(next_hop) as gate:
        client = await gate.connect()
        await client.up_to_data()
        gate.guard.is_full = True
        assert (await client.say(MESSAGE + b".\r\n")).startswith("451 4.3.2")
        gate.guard.is_full = False
        await client.up_to_data()
        assert (await client.say(MESSAGE + b".\r\n")).startswith("250")
        assert len(next_hop.messages) == 1
        assert (gate.services.attempts, gate.services.deferred) == (2, {"slots": 1})


async def test_a_tenant_with_its_share_of_sessions_is_put_off_and_others_are_not(deployment: Any, hop: Any) -> None:
    next_hop, tenants = hop(), {"flood.example": "f", "quiet.example": "q"}
    async with deployment(
        next_hop, limits=msgspec.structs.replace(QUICK, sessions=4, place_wait=0.05), tenants=tenants
    ) as gate:
        flood = [await gate.connect() for _ in range(4)]
        for client in flood[:3]:
            await client.up_to_data(recipient="b@flood.example")
        late = flood[3]
        await late.say("EHLO c")
        late.send(b"MAIL FROM:<a@x.example>\r\n" + b"RCPT TO:<b@flood.example>\r\n" * 3)
        assert (await late.reply()).startswith("250")
        assert {await late.reply() for _ in range(3)} == {"451 4.3.2 Too many sessions, try again later"}
        quiet = await gate.connect()
        await quiet.up_to_data(recipient="b@quiet.example")
        assert (await quiet.say(MESSAGE + b".\r\n")).startswith("250")
        assert (await flood[0].say(MESSAGE + b".\r\n")).startswith("250")
        assert (await late.say("RCPT TO:<b@flood.example>")).startswith("250"), "another has ended"
        late.send(b"RSET\r\n")
        await late.reply()
        for client in flood[1:3]:
            client.writer.close()
        await gate.until(lambda: gate.services.sessions.used == 0)
        assert gate.services.deferred == {"sessions": 1}


async def test_the_spool_has_room_for_others_while_one_tenant_fills_it(deployment: Any, hop: Any) -> None:
    next_hop, tenants = hop(), {"flood.example": "f", "quiet.example": "q"}
    async with deployment(
        next_hop, limits=msgspec.structs.replace(QUICK, spooled=4_000, place_wait=0.05), tenants=tenants
    ) as gate:
        flood = [await gate.connect() for _ in range(4)]
        for client in flood[:3]:
            await client.up_to_data(recipient="b@flood.example")
            client.send(b"x: y\r\n" * 170)  # and no end of it
        await gate.until(lambda: gate.services.space.used > 2_900)
        await flood[3].say("EHLO c")
        await flood[3].say("MAIL FROM:<a@x.example>")
        assert (await flood[3].say("RCPT TO:<b@flood.example>")).startswith("452 4.3.1")
        quiet = await gate.connect()
        await quiet.up_to_data(recipient="b@quiet.example")
        assert (await quiet.say(b"x: y\r\n" * 100 + b".\r\n")).startswith("250")


async def test_without_a_next_hop_mail_is_held_but_not_delivered(deployment: Any) -> None:
    async with deployment() as gate:
        assert (await gate.send(MESSAGE)).startswith("451 4.3.5")
        gate.guard.decision = "quarantine"
        assert (await gate.send(MESSAGE)).startswith("250")


async def test_a_client_that_hangs_up_before_the_answer_gets_nothing_delivered(deployment: Any, hop: Any) -> None:
    next_hop = hop()
    async with deployment(next_hop) as gate:
        gate.guard.may_end.clear()
        client = await gate.connect()
        await client.up_to_data()
        client.send(MESSAGE + b".\r\n")
        await gate.until(lambda: gate.guard.scanned)
        client.writer.close()
        await gate.until(lambda: not gate.intake.open)
        gate.guard.may_end.set()
        await asyncio.sleep(0.05)
        assert next_hop.messages == []
        assert gate.services.space.used == 0


@pytest.mark.parametrize(
    ("said", "listed", "remote", "helo"),
    [
        ([], False, None, None),  # this machine itself is no sending host
        ([], True, None, None),
        (["XFORWARD ADDR=192.0.2.1 HELO=h.example NAME=n"], True, "192.0.2.1", "h.example"),
        (["XFORWARD ADDR=IPV6:2001:DB8::1", "XFORWARD HELO=h+40x"], True, "2001:db8::1", "h@x"),
        (["XFORWARD ADDR=[UNAVAILABLE] HELO=[UNAVAILABLE]"], True, None, None),
        (["XCLIENT ADDR=192.0.2.7 HELO=y.example", "EHLO z"], True, "192.0.2.7", "y.example"),
        (["XCLIENT ADDR=192.0.2.7", "EHLO z", "XFORWARD ADDR=192.0.2.8"], True, "192.0.2.8", None),
    ],
)
async def test_the_border_data(
    said: list[str], listed: bool, remote: str | None, helo: str | None, deployment: Any, hop: Any
) -> None:
    async with deployment(hop(), listed=("127.0.0.1",) if listed else ()) as gate:
        client = await gate.connect()
        await client.say("EHLO first.example")
        for line in said:
            assert (await client.say(line))[0] == "2"
        for line in ("MAIL FROM:<a@x.example>", "RCPT TO:<b@y.example>", "DATA"):
            await client.say(line)
        assert (await client.say(MESSAGE + b".\r\n")).startswith("250")
        envelope = gate.guard.scanned[0].envelope
        assert (envelope.remote_address, envelope.helo) == (remote, helo)
        assert (envelope.sender, envelope.recipients) == ("a@x.example", ("b@y.example",))
        # XFORWARD holds for one message.
        if said and said[-1].startswith("XFORWARD") and len(said) == 1:
            await client.up_to_data()
            await client.say(MESSAGE + b".\r\n")
            assert gate.guard.scanned[1].envelope.remote_address is None


ONE, TWO = "0198c5a2-7c11-7d3e-9f00-000000000001", "0198c5a2-7c11-7d3e-9f00-000000000002"


async def test_a_transaction_has_one_tenant(deployment: Any, hop: Any) -> None:
    next_hop = hop()
    async with deployment(next_hop, tenants={"one.example": ONE}) as gate:
        gate.domains.of = {"xn--zwei-5qa.example": TWO, "one.example": TWO, "also-one.example": ONE}
        client = await gate.connect()
        client.send(
            b"EHLO c\r\nMAIL FROM:<a@x.example>\r\nRCPT TO:<b@ONE.example.>\r\nRCPT TO:<b@also-one.example>\r\n"
            b"RCPT TO:<b@xn--zwei-5qa.example>\r\nRCPT TO:<b@nobody.example>\r\nRCPT TO:<postmaster>\r\nDATA\r\n"
        )
        expected = ["250", "250", "250", "250", "452 4.5.3", "452 4.5.3", "452 4.5.3", "354"]
        for start in expected:
            assert (await client.reply()).startswith(start)
        await client.say(MESSAGE + b".\r\n")
        envelope = gate.guard.scanned[0].envelope
        assert (envelope.tenant, envelope.recipients) == (ONE, ("b@ONE.example.", "b@also-one.example"))
        # A recipient that the next hop refuses does not say whose mail it is.
        next_hop.says["RCPT TO:<no@"] = "550 5.1.1 unknown"
        client.send(
            b"MAIL FROM:<a@x.example>\r\nRCPT TO:<no@one.example>\r\nRCPT TO:<b@xn--zwei-5qa.example>\r\nDATA\r\n"
        )
        for start in ("250", "550 5.1.1 unknown", "250", "354"):
            assert (await client.reply()).startswith(start)
        await client.say(MESSAGE + b".\r\n")
        assert gate.guard.scanned[1].envelope.tenant == TWO
        gate.domains.broken = True
        await client.say("MAIL FROM:<a@x.example>")
        assert (await client.say("RCPT TO:<b@new.example>")).startswith("451 4.3.0")
