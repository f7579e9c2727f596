"""Deliveries that are cancelled at every await leave no connection open, and are no failure of the next hop."""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.cancelling import cancel_everywhere, count_sockets, settle
from tests.smtp.conftest import FixedTls, Hop

from gatepost.service.certificates import sign_certificate
from gatepost.smtp import routing
from gatepost.smtp.client import SmtpClient
from gatepost.smtp.commands import PathCommand
from gatepost.smtp.hop_answers import STAGES
from gatepost.smtp.routing import Relay, Routing
from gatepost.smtp.transaction import Transaction, wait_for_reply

RAW = b"Subject: x\r\n\r\ntext\r\n"
DELIVERIES = 1_000


def make_contexts(folder: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """What the next hop shows, and what the relay accepts."""
    chain, key = sign_certificate(["127.0.0.1"], datetime.now(UTC))
    (folder / "hop.pem").write_bytes(chain + key)
    shows = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    shows.load_cert_chain(folder / "hop.pem")
    return shows, ssl.create_default_context(cafile=str(folder / "hop.pem"))


@asynccontextmanager
async def relaying(scheme: str, folder: Path) -> AsyncIterator[tuple[Hop, Relay]]:
    """A relay before a next hop, with TLS for `smtps`; afterwards no socket is open that was not before."""
    before = count_sockets()
    shows, accepts = make_contexts(folder) if scheme == "smtps" else (None, None)
    hop = Hop(tls=shows)
    relay = Relay(
        f"{scheme.removesuffix('s')}://127.0.0.1:{await hop.start()}",
        "verified" if accepts else "off",
        "gate.example",
        hop_tls=FixedTls("verified", context=accepts) if accepts else None,
    )
    yield hop, relay
    await relay.close()
    await hop.stop()
    await settle(lambda: count_sockets() <= before)


@pytest.mark.parametrize(("scheme", "deliveries"), [("smtp", DELIVERIES), ("lmtp", 100), ("smtps", 100)])
async def test_a_message_that_is_sent(
    scheme: str, deliveries: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(routing, "UNCHECKED_SECONDS", 0.0)
    async with relaying(scheme, tmp_path) as (hop, relay):
        ways = Routing.through(relay)
        cancelled = 0
        while cancelled < deliveries:
            cancelled += await cancel_everywhere(lambda: ways.send("a@x.example", ["b@y.example"], RAW, {}))
        assert relay.failures == 0
        assert relay.fault == ""
        before = len(hop.messages)
        assert (await ways.send("a@x.example", ["b@y.example"], RAW, {})).reply.positive
        assert hop.messages[before:] == [RAW]


async def test_a_transaction_that_its_client_leaves(tmp_path: Path) -> None:
    async with relaying("smtp", tmp_path) as (hop, relay):
        ways = Routing.through(relay)

        async def deliver() -> None:
            transaction = Transaction(PathCommand("MAIL", "a@x.example", {}), SmtpClient("192.0.2.1"), "c", ways)
            try:
                await wait_for_reply(await transaction.begin())
                await wait_for_reply(await transaction.add(PathCommand("RCPT", "b@y.example", {}), ways.only))
                assert (await transaction.deliver([RAW])).positive
            finally:
                transaction.end()

        assert await cancel_everywhere(deliver) > 6
        assert ways.only
        assert not any(ways.only.answers.total[stage, "none"] for stage in STAGES)
        assert (relay.failures, ways.only.answers.trouble) == (0, "")
        await deliver()
        assert hop.messages[-1] == RAW
