"""STARTTLS for clients: it works, it starts anew, and nothing sent in clear is taken for something said under TLS."""

import asyncio
import ssl
from typing import Any

import pytest

from gatepost.smtp.commands import SmtpLimits


async def encrypted(gate: Any, client: Any) -> None:
    context = ssl.create_default_context(cafile=str(gate.certificate))
    await client.writer.start_tls(context, server_hostname="127.0.0.1")


@pytest.mark.parametrize("tls", ["offered", "required"])
async def test_starttls(tls: str, deployment: Any, hop: Any) -> None:
    next_hop = hop()
    async with deployment(next_hop, tls=tls) as gate:
        client = await gate.connect()
        assert "STARTTLS" in await client.say("EHLO c")
        assert (await client.say("MAIL FROM:<a@x.example>")).startswith("250" if tls == "offered" else "530")
        assert (await client.say("STARTTLS")).startswith("220 2.0.0")
        await encrypted(gate, client)
        assert (await client.say("RCPT TO:<b@y.example>")).startswith("503"), "what was begun in clear is forgotten"
        assert (await client.say("MAIL FROM:<a@x.example>")).startswith("503")
        assert "STARTTLS" not in await client.say("EHLO c")
        assert (await client.say("STARTTLS")).startswith("503")
        await client.up_to_data()
        assert (await client.say(b"Subject: x\r\n\r\ny\r\n.\r\n")).startswith("250")
        assert b"with ESMTPS" in next_hop.messages[0]


async def test_commands_sent_in_clear_behind_starttls_are_not_executed(deployment: Any, hop: Any) -> None:
    next_hop = hop()
    async with deployment(next_hop) as gate:
        client = await gate.connect()
        await client.say("EHLO c")
        injected = b"EHLO evil\r\nMAIL FROM:<evil@x.example>\r\nRCPT TO:<b@y.example>\r\n"
        assert (await client.say(b"STARTTLS\r\n" + injected)).startswith("220")
        await encrypted(gate, client)
        assert (await client.say("NOOP")).startswith("250 2.0.0")
        assert (await client.say("RCPT TO:<b@y.example>")).startswith("503")
        assert not [line for line in next_hop.lines if "evil" in line]


async def test_a_handshake_that_does_not_come_ends_the_session(deployment: Any, hop: Any) -> None:
    async with deployment(hop(), limits=SmtpLimits(greeting_pause=0.0, handshake=0.05)) as gate:
        client = await gate.connect()
        await client.say("EHLO c")
        assert (await client.say("STARTTLS")).startswith("220")
        await gate.until(lambda: not gate.intake.open)


async def test_a_session_that_is_cancelled_in_its_handshake_is_cancelled(deployment: Any, hop: Any) -> None:
    async with deployment(hop()) as gate:
        client = await gate.connect()
        await client.say("EHLO c")
        assert (await client.say("STARTTLS")).startswith("220")
        ((task, _, _),) = gate.intake._sessions.values()
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        assert await client.closed()


async def test_nonsense_instead_of_a_handshake_ends_the_session(deployment: Any, hop: Any) -> None:
    async with deployment(hop()) as gate:
        client = await gate.connect()
        await client.say("EHLO c")
        await client.say("STARTTLS")
        client.send("MAIL FROM:<a@x.example>")
        try:
            async with asyncio.timeout(180):
                rest = await client.reader.read()
        except ConnectionError:
            rest = b""
        assert b"250" not in rest
        await gate.until(lambda: not gate.intake.open)


async def test_a_client_that_hangs_up_under_tls_causes_no_warning(
    deployment: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async with deployment() as gate:
        client = await gate.connect()
        await client.say("EHLO c")
        assert (await client.say("STARTTLS")).startswith("220")
        await encrypted(gate, client)
        assert (await client.say("EHLO c")).startswith("250")
        client.writer.close()
        await gate.until(lambda: gate.intake.open == 0)
    assert "eof_received" not in caplog.text
