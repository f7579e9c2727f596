"""Behind a queue no permanent reply of our own follows a message: it would become a bounce to a forged sender."""

from typing import Any

import pytest

from gatepost.scanning.spool import SpooledBody
from gatepost.smtp import transaction
from gatepost.smtp.commands import SmtpLimits
from gatepost.store.errors import StorageError

SMALL = SmtpLimits(greeting_pause=0.0, message=4_000, hops=10)
HEAD = b"Subject: x\r\n\r\n"
UNFIT = {
    "NUL": (HEAD + b"a\0b\r\n", "NUL"),
    "bare CR": (HEAD + b"a\rb\r\n", "bare"),
    "bare LF": (HEAD + b"a\nb\r\n" * 3, "bare"),
    "empty": (b"", "empty"),
    "hops": (b"Received: by x\r\n" * 11 + HEAD, "hops"),
    "too large": (HEAD + b"0123456789\r\n" * 400, "size"),
}


@pytest.mark.parametrize("verb", ["DATA", "BDAT"])
@pytest.mark.parametrize("name", UNFIT)
async def test_what_is_refused_is_held_instead(name: str, verb: str, deployment: Any, hop: Any) -> None:
    raw, why = UNFIT[name]

    async def send(client: Any) -> str:
        if verb == "BDAT":
            half = len(raw) // 2
            assert (await client.say(b"BDAT %d\r\n" % half + raw[:half])).startswith(("250", "5"))
            return str(await client.say(b"BDAT %d LAST\r\n" % (len(raw) - half) + raw[half:]))
        assert (await client.say("DATA")).startswith("354")
        return str(await client.say(raw + b".\r\n"))

    for after_queue in (True, False):
        async with deployment(hop(), limits=SMALL, after_queue=after_queue) as gate:
            gate.guard.decision = "quarantine"  # what the core makes of a request that is unfit
            client = await gate.connect()
            for line in ("EHLO c", "MAIL FROM:<forged@victim.example>", "RCPT TO:<b@y.example>"):
                assert (await client.say(line)).startswith("250")
            said = await send(client)
            if after_queue:
                assert said.startswith("250 2.6.0 Accepted")
                ((request, kept),) = gate.holding.kept
                assert kept == raw
                assert why in request.unfit
            else:
                assert said.startswith("5")
                assert gate.holding.kept == []
            assert gate.services.space.used == 0


async def test_temporary_replies_stay_temporary_behind_a_queue(
    deployment: Any, hop: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that is full is answered 452 for every size of message, and what was spooled is counted exactly."""

    original, left = SpooledBody.settle, 0

    async def settle(body: SpooledBody) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise StorageError("full")
        await original(body)

    async with deployment(hop(), after_queue=True) as gate:
        client = await gate.connect()
        for writes, size in ((0, 10), (1, 3 << 20), (3, 3 << 20)):
            left = writes
            monkeypatch.setattr(SpooledBody, "settle", settle)
            await client.up_to_data()
            assert (await client.say(HEAD + b"x" * size + b"\r\n.\r\n")).startswith("452 4.3.1")
            monkeypatch.undo()
            assert gate.services.space.used == 0
        await client.up_to_data()
        assert (await client.say(HEAD + b".\r\n")).startswith("250")


@pytest.mark.parametrize("verb", ["DATA", "BDAT"])
async def test_a_slow_noop_of_the_next_hop_ends_no_message(
    verb: str, deployment: Any, hop: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NOOP keeps the connection alive while the client takes its time; its answer may come late."""
    monkeypatch.setattr(transaction, "KEEP_ALIVE_SECONDS", 0.05)
    next_hop = hop()
    next_hop.says = {"NOOP": "stall"}
    async with deployment(next_hop) as gate:
        client = await gate.connect()
        for line in ("EHLO c", "MAIL FROM:<a@x.example>", "RCPT TO:<b@y.example>"):
            assert (await client.say(line)).startswith("250")
        if verb == "BDAT":
            assert (await client.say(b"BDAT 14\r\n" + HEAD)).startswith("250")
        else:
            assert (await client.say("DATA")).startswith("354")
        await gate.until(lambda: "NOOP" in next_hop.lines)
        gate.guard.may_end.clear()
        if verb == "BDAT":
            client.send(b"BDAT 3\r\na\r\nBDAT 3 LAST\r\nb\r\n")
            assert (await client.reply()).startswith("250 2.0.0 3 octets")
        else:
            client.send(HEAD + b"a\r\n.\r\n")
        await gate.until(lambda: gate.guard.scanned)
        for writer in next_hop._open:
            writer.write(b"250 at last\r\n")
        gate.guard.may_end.set()
        assert (await client.reply()).startswith("250 2.0.0 Ok: queued")
        assert next_hop.lines.count("NOOP") == 1
