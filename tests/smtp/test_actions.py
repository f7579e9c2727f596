"""Actions over SMTP: who gets what, what is safe before the client is told so, and what a failure leaves behind."""

from typing import Any

import pytest

from gatepost.policy.rules import MessageAction
from gatepost.scanning.request import Edit
from gatepost.smtp.routing import DEFAULT, HopTls, Relay, Route, RouteRule, Routing

MESSAGE = b"Subject: x\r\nX-Gatepost-Id: forged\r\n\r\ny\r\n"
COPY = MessageAction("copy", to="copy@audit.example")
REDIRECT = MessageAction("redirect", mark="[!] ", to="held@audit.example")
STRIP = MessageAction("strip")


def commands(hop: Any, word: str) -> list[str]:
    return [line for line in hop.lines if line.upper().startswith(word)]


async def test_a_tagged_message_is_delivered_with_its_mark(deployment: Any, hop: Any) -> None:
    next_hop = hop()
    async with deployment(next_hop) as gate:
        gate.guard.decision, gate.guard.action = "quarantine", MessageAction("tag", "[SPAM] ")
        assert await gate.send(MESSAGE) == "250 2.0.0 Ok: queued"
        (raw,) = next_hop.messages
        assert b"\r\nX-Gatepost-Action: tag\r\n" in raw
        assert raw.endswith(b"Subject: [SPAM] x\r\n\r\ny\r\n")
        assert b"forged" not in raw
        assert gate.holding.kept == []
        assert gate.guard.scanned[0].can_act
        next_hop.says["dot"] = "451 4.0.0 later"
        assert (await gate.send(MESSAGE)).startswith("451")


async def test_an_action_that_failed_is_the_decision(deployment: Any, hop: Any) -> None:
    next_hop = hop()
    async with deployment(next_hop) as gate:
        gate.guard.decision, gate.guard.action = "quarantine", MessageAction("strip", failed="no")
        assert (await gate.send(MESSAGE)).startswith("250 2.6.0")
        assert (len(next_hop.messages), len(gate.holding.kept)) == (0, 1)


async def test_a_redirect_goes_to_the_mailbox_alone(deployment: Any, hop: Any) -> None:
    next_hop = hop()
    async with deployment(next_hop) as gate:
        gate.guard.decision, gate.guard.action = "quarantine", REDIRECT
        answer = await gate.send(MESSAGE)
        assert answer == f"250 2.6.0 Accepted, reference {gate.guard.scanned[0].ggrid}"
        (raw,) = next_hop.messages
        assert b"X-Gatepost-Envelope-From: <a@x.example>\r\n" in raw
        assert b"X-Gatepost-Envelope-To: <b@y.example>\r\n" in raw
        assert b"Subject: [!] x\r\n" in raw
        # The message itself came with the empty sender for the mailbox; what the client began was given up.
        await gate.until(lambda: commands(next_hop, "RSET"))
        assert commands(next_hop, "RCPT") == ["RCPT TO:<b@y.example>", "RCPT TO:<held@audit.example>"]
        assert commands(next_hop, "MAIL")[1].startswith("MAIL FROM:<>")
        assert len(commands(next_hop, "DATA")) == 1


@pytest.mark.parametrize(
    ("said", "reply", "held"), [("450 4.2.1 later", "451 4.3.0", 0), ("550 5.1.1 no", "250 2.6.0", 1)]
)
async def test_a_mailbox_that_takes_nothing(said: str, reply: str, held: int, deployment: Any, hop: Any) -> None:
    """For now: the sender comes again. For good: the message is held; its sender can do nothing about it."""
    next_hop = hop()
    next_hop.says["RCPT TO:<held@"] = said
    async with deployment(next_hop) as gate:
        gate.guard.decision, gate.guard.action = "quarantine", REDIRECT
        assert (await gate.send(MESSAGE)).startswith(reply)
        assert (len(next_hop.messages), len(gate.holding.kept)) == (0, held)


async def test_a_copy_is_one_more_recipient_of_the_same_transaction(deployment: Any, hop: Any) -> None:
    next_hop = hop()
    async with deployment(next_hop) as gate:
        gate.guard.action = COPY
        assert await gate.send(MESSAGE) == "250 2.0.0 Ok: queued"
        assert commands(next_hop, "RCPT") == ["RCPT TO:<b@y.example>", "RCPT TO:<copy@audit.example> NOTIFY=NEVER"]
        assert len(next_hop.messages) == 1
        next_hop.says["RCPT TO:<copy@"] = "550 5.1.1 unknown"
        # Nothing is delivered without its copy, and no sender is told of a mailbox that is none of its business.
        assert (await gate.send(MESSAGE)).startswith("451 4.3.0")
        assert len(next_hop.messages) == 1


async def test_a_copy_by_another_route_is_safe_first(deployment: Any, hop: Any) -> None:
    first, other = hop(), hop()
    ports = [await each.start() for each in (first, other)]
    relays = [Relay(f"smtp://127.0.0.1:{port}", "off", "gate.example", hop_tls=HopTls("off")) for port in ports]
    rule = RouteRule(Route("audit", [relays[1]]), frozenset({"audit.example"}))
    async with deployment(routing=Routing([rule], Route(DEFAULT, [relays[0]]))) as gate:
        gate.guard.action = COPY
        assert (await gate.send(MESSAGE)).startswith("250 2.0.0")
        assert (len(first.messages), len(other.messages)) == (1, 1)
        assert commands(other, "MAIL")[0].startswith("MAIL FROM:<>")
        other.says["dot"] = "451 4.3.0 full"
        assert (await gate.send(MESSAGE)).startswith("451")
        assert (len(first.messages), len(other.messages)) == (1, 1)
    for each in (first, other):
        await each.stop()


async def test_a_stripped_message_is_held_whole_before_the_rest_leaves(deployment: Any, hop: Any) -> None:
    next_hop = hop()
    async with deployment(next_hop) as gate:
        gate.guard.decision, gate.guard.action = "quarantine", STRIP
        gate.guard.edits = (Edit(len(MESSAGE) - 3, len(MESSAGE) - 2, b"z"),)
        assert await gate.send(MESSAGE) == "250 2.0.0 Ok: queued"
        assert next_hop.messages[0].endswith(b"Subject: x\r\n\r\nz\r\n")
        assert [raw for _, raw in gate.holding.kept] == [MESSAGE]
        # The next hop does not take it: the sender has it still, and it is held again when it comes again.
        next_hop.says["dot"] = "451 4.3.0 full"
        assert (await gate.send(MESSAGE)).startswith("451")
        assert gate.holding.taken_back == [gate.guard.scanned[1].ggrid]
        # What cannot be held is not delivered either.
        del next_hop.says["dot"]
        gate.holding.broken = True
        assert (await gate.send(MESSAGE)).startswith("451 4.3.0")
        assert len(next_hop.messages) == 1


async def test_edits_that_clash_leave_the_message_with_its_sender(deployment: Any, hop: Any) -> None:
    next_hop = hop()
    async with deployment(next_hop) as gate:
        gate.guard.decision, gate.guard.action = "quarantine", STRIP
        gate.guard.edits = (Edit(0, len(MESSAGE), b"over a field that goes"),)
        assert (await gate.send(MESSAGE)).startswith("451")
        assert next_hop.messages == []
