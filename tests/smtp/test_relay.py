"""The next hop: what is passed through, what is kept open, and that its failures are never ours to swallow."""

import asyncio
import contextlib
import ssl
from typing import Any

import pytest

from gatepost.smtp.next_hop import NextHopError
from gatepost.smtp.routing import Relay, Route, parse_next_hop

MESSAGE = b"Subject: x\r\n\r\n.dot\r\ny\r\n"
STUFFED = MESSAGE.replace(b"\r\n.", b"\r\n..") + b".\r\n"


def server_context(folder: Any) -> ssl.SSLContext:
    from datetime import UTC, datetime

    from gatepost.service.certificates import sign_certificate

    chain, key = sign_certificate(["127.0.0.1"], datetime.now(UTC))
    (folder / "hop.pem").write_bytes(chain + key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "hop.pem")
    return context


async def test_commands_and_parameters_are_passed_on(deployment: Any, hop: Any) -> None:
    next_hop = hop((*hop().features, "XFORWARD NAME ADDR HELO"))
    async with deployment(next_hop, listed=("127.0.0.1",)) as gate:
        client = await gate.connect()
        await client.say("EHLO c")
        await client.say("XFORWARD NAME=n ADDR=192.0.2.1 PORT=25 HELO=a+2Bb")
        assert (await client.say("MAIL FROM:<@r:a@x.example> SIZE=100 BODY=8BITMIME RET=HDRS ENVID=e")).startswith(
            "250"
        )
        assert (await client.say("RCPT TO:<b@y.example> NOTIFY=FAILURE ORCPT=rfc822;b@y.example")).startswith("250")
        await client.say("DATA")
        assert await client.say(STUFFED) == "250 2.0.0 Ok: queued"
        relevant = [line for line in next_hop.lines if line.split()[0] not in ("EHLO", "RSET", "NOOP", "QUIT")]
        assert relevant == [
            "XFORWARD NAME=n ADDR=192.0.2.1 HELO=a+2Bb",
            "MAIL FROM:<a@x.example> SIZE=100 BODY=8BITMIME RET=HDRS ENVID=e",
            "RCPT TO:<b@y.example> NOTIFY=FAILURE ORCPT=rfc822;b@y.example",
            "DATA",
        ]
        assert next_hop.messages[0].endswith(STUFFED[:-3])


@pytest.mark.parametrize("pipelining", [True, False])
async def test_pipelined_recipients_are_answered_in_their_order(pipelining: bool, deployment: Any, hop: Any) -> None:
    next_hop = hop(("PIPELINING",) if pipelining else ())
    next_hop.says = {f"RCPT TO:<r{n}@": f"{250 if n % 3 else 550} number {n}" for n in range(9, -1, -1)}
    async with deployment(next_hop) as gate:
        client = await gate.connect()
        client.send(b"EHLO c\r\nMAIL FROM:<a@x.example>\r\n" + b"".join(b"RCPT TO:<r%d@y>\r\n" % n for n in range(10)))
        await client.reply()
        await client.reply()
        for n in range(10):
            status = "250 2.0.0" if n % 3 else "550 5.0.0"
            assert await client.reply() == f"{status} number {n}"
        await client.say("DATA")
        await client.say(STUFFED)
        assert gate.guard.scanned[0].envelope.recipients == tuple(f"r{n}@y" for n in range(10) if n % 3)


@pytest.mark.parametrize(
    ("said", "step", "reply"),
    [
        ({"MAIL": "550 5.7.1 not you"}, "MAIL", "550 5.7.1 not you"),
        ({"MAIL": "451-4.3.0 later\r\n451 4.3.0 or never"}, "MAIL", "451-4.3.0 later|451 4.3.0 or never"),
        ({"MAIL": "421 4.3.2 bye"}, "MAIL", "451 4.4.2"),
        ({"MAIL": None}, "MAIL", "451 4.4.2"),
        ({"MAIL": "stall"}, "MAIL", "451 4.4.2"),
        ({"MAIL": "354 what"}, "MAIL", "451 4.3.0"),
        ({"MAIL": "nonsense"}, "MAIL", "451 4.4.2"),
        ({"MAIL": "250 ok\r\n250 and more"}, "MAIL", "250 2.0.0 ok"),
        ({"MAIL": "550 5.7.1 \x1b[31mred"}, "MAIL", "550 5.7.1 ?[31mred"),
        ({"RCPT": "550 5.1.1 unknown"}, "RCPT", "550 5.1.1 unknown"),
        ({"RCPT": None}, "RCPT", "451 4.4.2"),
        ({"RCPT": "stall"}, "RCPT", "451 4.4.2"),
        ({"DATA": "554 5.5.1 no"}, "dot", "554 5.5.1 no"),
        ({"DATA": "250 odd"}, "dot", "451 4.3.0"),
        ({"DATA": None}, "dot", "451 4.4.2"),
        ({"DATA": "stall"}, "dot", "451 4.4.2"),
        ({"dot": "451 4.3.0 disk"}, "dot", "451 4.3.0 disk"),
        ({"dot": "554 5.7.1 spam"}, "dot", "554 5.7.1 spam"),
        ({"dot": "421 bye"}, "dot", "451 4.4.2"),
        ({"dot": None}, "dot", "451 4.4.2"),
        ({"dot": "stall"}, "dot", "451 4.4.2"),
        ({"EHLO": None}, "MAIL", "451 4.4.1"),
        ({"greeting": "554 no"}, "MAIL", "451 4.4.1"),
        ({"EHLO": "502 no"}, "dot", "250"),
    ],
    ids=repr,
)
async def test_failures_of_the_next_hop(
    said: dict[str, str | None], step: str, reply: str, deployment: Any, hop: Any
) -> None:
    next_hop = hop()
    async with deployment(next_hop, patience=0.5 if "stall" in said.values() else 60.0) as gate:
        next_hop.says = said
        gate.relay._idle.clear()
        client = await gate.connect()
        steps = {
            "EHLO": "EHLO c",
            "MAIL": "MAIL FROM:<a@x>",
            "RCPT": "RCPT TO:<b@y>",
            "DATA": "DATA",
            "dot": STUFFED,
        }
        for name, sent in steps.items():
            answer = await client.say(sent)
            if name == step:
                break
            assert answer[0] in "23", (name, answer)
        assert answer.startswith(reply), answer
        # The session goes on, and the next transaction is as good as new.
        next_hop.says = {}
        gate.relay._timeouts = type(gate.relay._timeouts).from_setting(60.0)
        await client.say("RSET")
        await client.up_to_data()
        before = len(next_hop.messages)
        assert (await client.say(STUFFED)).startswith("250")
        assert len(next_hop.messages) == before + 1


async def test_a_next_hop_that_is_down_is_451_and_comes_back(deployment: Any, hop: Any) -> None:
    next_hop = hop()
    async with deployment(next_hop) as gate:
        client = await gate.connect()
        await client.up_to_data()
        await next_hop.stop()
        assert (await client.say(STUFFED)).startswith("451 4.4.2")
        client.send(b"MAIL FROM:<a@x.example>\r\nRCPT TO:<b@y.example>\r\nDATA\r\n")
        assert (await client.reply()).startswith("451 4.4.1")
        assert (await client.reply()).startswith("451")
        assert (await client.reply()).startswith(("503", "451"))
        gate.relay._address = parse_next_hop(f"smtp://127.0.0.1:{await next_hop.start()}")
        await client.up_to_data()
        assert (await client.say(STUFFED)).startswith("250")


async def test_connections_are_kept_and_checked(deployment: Any, hop: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    next_hop = hop()
    async with deployment(next_hop) as gate:
        await gate.until(lambda: gate.relay._idle)
        client = await gate.connect()
        for _ in range(5):
            await client.up_to_data()
            await client.say(STUFFED)
        assert next_hop.connections == 1
        gate.guard.decision = "drop"
        await client.up_to_data()
        await client.say(STUFFED)
        await client.say("NOOP")
        gate.guard.decision = "deliver"
        monkeypatch.setattr("gatepost.smtp.routing.UNCHECKED_SECONDS", 0.0)
        await client.up_to_data()
        assert next_hop.lines.count("RSET") == 1
        assert next_hop.lines.count("NOOP") == 1
        await client.say(STUFFED)
        next_hop.hang_up()  # while the connection lies idle
        await asyncio.sleep(0.05)
        await client.up_to_data()
        assert (await client.say(STUFFED)).startswith("250")
        assert next_hop.connections == 2


@pytest.mark.parametrize(
    "says", [{"NOOP": "502 5.5.1 no"}, {"NOOP": "stall"}, {"EHLO": "stall"}, {"STARTTLS": "stall"}], ids=repr
)
async def test_a_connection_that_is_not_lent_after_all_is_closed(
    says: dict[str, str], hop: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gatepost.smtp.routing.UNCHECKED_SECONDS", 0.0)
    next_hop = hop((*hop().features, *(["STARTTLS"] if "STARTTLS" in says else [])))
    relay = Relay(f"smtp://127.0.0.1:{await next_hop.start()}", "opportunistic", "gate.example")
    try:
        if "NOOP" in says:
            relay.give_back(await relay.borrow())
        next_hop.says = says
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.1):
                relay.give_back(await relay.borrow())
        await relay.close()
        async with asyncio.timeout(60):
            while next_hop._open:  # noqa: ASYNC110  the hop tells nobody
                await asyncio.sleep(0.01)
    finally:
        await next_hop.stop()


@pytest.mark.parametrize(
    ("mode", "offers", "encrypted", "reply"),
    [
        ("off", True, False, "250"),
        ("opportunistic", True, True, "250"),
        ("opportunistic", False, False, "250"),
        ("required", True, True, "250"),
        ("required", False, False, "451 4.4.1"),
        ("verified", True, False, "451 4.4.1"),
        ("verified+", True, True, "250"),
    ],
)
async def test_tls_to_the_next_hop(
    mode: str, offers: bool, encrypted: bool, reply: str, deployment: Any, hop: Any, tmp_path: Any
) -> None:
    context = server_context(tmp_path)
    trusting = ssl.create_default_context(cafile=str(tmp_path / "hop.pem")) if mode.endswith("+") else None
    next_hop = hop(tls=context if offers else None)
    options = {"delivery_tls": mode.rstrip("+"), "hop_context": trusting}
    async with deployment(next_hop, **options) as gate:
        client = await gate.connect()
        await client.say("EHLO c")
        assert (await client.say("MAIL FROM:<a@x.example>")).startswith(reply)
        assert bool(next_hop.encrypted) == encrypted


async def test_opportunistic_tls_falls_back_when_it_is_broken(deployment: Any, hop: Any) -> None:
    next_hop = hop((*hop().features, "STARTTLS"))
    next_hop.says = {"STARTTLS": "454 4.7.0 not now"}
    async with deployment(next_hop) as gate:
        client = await gate.connect()
        await client.up_to_data()
        assert (await client.say(STUFFED)).startswith("250")


async def test_a_message_that_is_given_up_is_never_ended_with_a_dot(deployment: Any, hop: Any) -> None:
    next_hop = hop()
    async with deployment(next_hop) as gate:
        link = await gate.relay.borrow()

        def pieces() -> Any:
            yield b"Subject: x\r\n\r\nhalf of it\r\n"
            raise OSError("the disk is gone")

        for line in (b"MAIL FROM:<a@x>", b"RCPT TO:<b@y>"):
            await link.ask(line)
        with pytest.raises(OSError, match="the disk is gone"):
            await link.send_message(pieces())
        assert not link.usable
        await asyncio.sleep(0.05)
        assert next_hop.messages == []


@pytest.mark.parametrize(
    ("said", "code", "sent"),
    [
        ({}, 250, 1),
        ({"RCPT TO:<two@": "550 5.1.1 no"}, 550, 0),
        ({"dot": "452 4.3.1 full"}, 452, 0),
    ],
    ids=repr,
)
async def test_a_release_goes_to_all_recipients_or_to_none(
    said: dict[str, str | None], code: int, sent: int, deployment: Any, hop: Any
) -> None:
    next_hop = hop()
    async with deployment(next_hop) as gate:
        next_hop.says = said
        _, answer = await Route("r", [gate.relay]).send("a@x.example", ("one@y.example", "two@y.example"), MESSAGE)
        assert (answer.code, len(next_hop.messages)) == (code, sent)
        assert not sent or next_hop.messages[0] == STUFFED[:-3]


async def test_a_release_that_gets_no_reply_says_what_happened(deployment: Any, hop: Any) -> None:
    next_hop = hop()
    async with deployment(next_hop) as gate:
        next_hop.says = {"MAIL": None}
        with pytest.raises(NextHopError, match=r"^closed the connection$"):
            await Route("r", [gate.relay]).send("a@x.example", ("one@y.example",), MESSAGE)
    relay = Relay("smtp://127.0.0.1:1", tls="off", hostname="x.example")
    with pytest.raises(NextHopError, match=r"^refused the connection$"):
        await Route("r", [relay]).send("a@x.example", ("one@y.example",), MESSAGE)
