"""Delivery by MX: which servers, in which order, what is refused for good; and MTA-STS policies that hold (RFC 8461),
with real TLS servers and a real policy server."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.smtp.conftest import Hop, Housed, Run

from gatepost.domain_reports import SeenSession
from gatepost.questions import Dns, DnsAnswer
from gatepost.service.certificates import sign_certificate
from gatepost.smtp import mx_routes, transport_policies
from gatepost.smtp.mx_routes import MxOptions, MxRoutes, classify_failure
from gatepost.smtp.next_hop import NextHopError, NextHopTimeouts
from gatepost.smtp.routing import HopTls, Routing
from gatepost.smtp.transport_policies import (
    PolicyFault,
    PolicyFetcher,
    TransportPolicies,
    parse_policy,
    parse_policy_id,
)
from gatepost.store import open_store

POLICY = b"version: STSv1\r\nmode: enforce\r\nmx: mx.x.example\r\nmx: *.backup.example\r\nmax_age: 86400\r\n"


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"", "of another version"),
        (b"version: STSv2\nmode: enforce\nmx: a.example\nmax_age: 5", "of another version"),
        (b"version: STSv1\nmode: enforce\nmx: a.example", "without max_age"),
        (b"version: STSv1\nmode: enforce\nmx: a.example\nmax_age: -5", "without max_age"),
        (b"version: STSv1\nmode: strict\nmx: a.example\nmax_age: 5", "without a mode"),
        (b"version: STSv1\nmode: enforce\nmax_age: 5", "without hosts"),
        (b"version: STSv1\nmode: enforce\nmx: a..example\nmx: *\nmx: x/y\nmax_age: 5", "without hosts"),
        (b"\xff" * 99_999, "of another version"),
    ],
)
def test_policies_that_are_none(content: bytes, fault: str) -> None:
    with pytest.raises(PolicyFault, match=fault):
        parse_policy(content)


def test_what_a_policy_says() -> None:
    policy = parse_policy(POLICY + b"mode: none\nextra: 1\nmax_age: 99\n")
    assert (policy.mode, policy.hosts, policy.max_age) == ("enforce", ("mx.x.example", "*.backup.example"), 86_400)
    assert policy.lines[:2] == ("version: STSv1", "mode: enforce")
    names = ("MX.x.example", "a.backup.example", "backup.example", "b.a.backup.example", "x.example")
    assert [policy.names(name) for name in names] == [True, True, False, False, False]
    assert parse_policy(b"version:STSv1\nmode:none\nmax_age:99999999").max_age == transport_policies.MAX_AGE


@pytest.mark.parametrize(
    ("records", "found"),
    [
        (("v=STSv1; id=20260101;",), "20260101"),
        (("v=STSv1;id=a1", "v=spf1 -all"), "a1"),
        (("v=STSv1; id=a1", "v=STSv1; id=a2"), ""),
        (("v=STSv1; id=" + "a" * 33,), ""),
        (("v=STSv1",), ""),
        (("x; v=STSv1; id=a1",), ""),
        ((), ""),
    ],
)
def test_the_record_of_a_policy(records: tuple[str, ...], found: str) -> None:
    assert parse_policy_id(records) == found


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        ("does not offer STARTTLS", "starttls-not-supported"),
        ("answered 454 to STARTTLS", "starttls-not-supported"),
        ("could not start TLS: certificate has expired", "certificate-expired"),
        ("could not start TLS: Hostname mismatch, certificate is not valid for 'mx'.", "certificate-host-mismatch"),
        ("could not start TLS: unable to get local issuer certificate", "certificate-not-trusted"),
        ("could not start TLS: EOF", "validation-failure"),
        ("refused the connection", ""),
    ],
)
def test_faults_of_tls_have_the_words_of_reports(fault: str, kind: str) -> None:
    assert classify_failure(fault) == kind


class World:
    """DNS, mail servers and a policy server of x.example, all on this machine."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.records: dict[str, str | tuple[str, ...]] = {
            "MX x.example": "10 mx.x.example",
            "A mx.x.example": "127.0.0.1",
            "A mta-sts.x.example": "127.0.0.1",
        }
        self.policy: bytes | Exception = POLICY
        self.fetches = 0
        self.noted: list[tuple[str, SeenSession]] = []
        self.hop: Hop

    async def ask(self, question: Dns) -> DnsAnswer:
        found = self.records.get(f"{question.type} {question.name}")
        if found == "failed":
            return DnsAnswer("failed")
        if found == "no-name":
            return DnsAnswer("no-name")
        return DnsAnswer("found", (found,) if isinstance(found, str) else found) if found else DnsAnswer("no-data")

    async def fetch(self, _domain: str) -> bytes:
        self.fetches += 1
        if isinstance(self.policy, Exception):
            raise self.policy
        return self.policy

    def routes(self, port: int, *, stored: Any = None, private: bool = True, tls: Any = "opportunistic") -> MxRoutes:
        hop_tls = HopTls(tls, ca=str(self.folder / "ca.pem"))
        options = MxOptions(hop_tls, "gate.example", NextHopTimeouts(), port, private)
        policies = TransportPolicies(self.ask, self.fetch, stored)
        return MxRoutes("outbound", options, self.ask, policies, lambda *seen: self.noted.append(seen))

    def certify(self, *names: str, moment: datetime | None = None) -> ssl.SSLContext:
        """A server's context with a certificate that the authority of the test has signed."""
        chain, key = sign_certificate(list(names), moment or datetime.now(UTC))
        (self.folder / "chain.pem").write_bytes(chain)
        (self.folder / "key.pem").write_bytes(key)
        (self.folder / "ca.pem").write_bytes(chain)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.folder / "chain.pem", self.folder / "key.pem")
        return context

    @contextlib.asynccontextmanager
    async def server(self, *names: str, tls: bool = True, moment: datetime | None = None) -> AsyncIterator[int]:
        context = self.certify(*(names or ("mx.x.example",)), moment=moment)
        self.hop = Hop(tls=context if tls else None)
        try:
            yield await self.hop.start()
        finally:
            await self.hop.stop()

    @property
    def failures(self) -> list[str]:
        return [seen.failure for _, seen in self.noted]


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


async def connect(routes: MxRoutes, domain: str = "x.example") -> tuple[str, bool]:
    """The server that a connection leads to, and whether it is encrypted."""
    try:
        relay, link = await routes.of_domain(domain).borrow()
        relay.give_back(link)
        return relay.url.rpartition(":")[0].removeprefix("smtp://"), link.encrypted
    finally:
        await routes.close()


def refusal(world: World, port: int = 1) -> NextHopError:
    async def scenario() -> NextHopError:
        with pytest.raises(NextHopError) as raised:
            await connect(world.routes(port))
        return raised.value

    return asyncio.run(scenario())


@pytest.mark.parametrize(
    ("records", "said", "code"),
    [
        ({"MX x.example": "failed"}, "DNS does not answer", 0),
        ({"MX x.example": "no-name"}, "no such domain", 550),
        ({"MX x.example": "0 "}, "takes no mail", 556),
        ({"MX x.example": ("10 gate.example", "20 mx.x.example")}, "this server itself", 554),
        ({"A mx.x.example": "no-name"}, "has no public address", 0),
    ],
)
def test_domains_that_cannot_be_reached(world: World, records: dict[str, Any], said: str, code: int) -> None:
    world.certify("mx.x.example")
    world.records |= records
    fault = refusal(world)
    assert said in str(fault)
    assert (fault.reply.code if fault.reply else 0) == code


def test_addresses_of_ones_own_network_are_not_connected_to(world: World) -> None:
    async def scenario() -> None:
        async with world.server() as port:
            with pytest.raises(NextHopError, match="has no public address"):
                await connect(world.routes(port, private=False))
            assert world.hop.connections == 0

    asyncio.run(scenario())


def test_servers_are_tried_by_preference_and_a_domain_without_any_is_its_own(world: World) -> None:
    world.records |= {
        "MX x.example": ("20 second.x.example", "10 dead.x.example", "30 mx.x.example"),
        "A dead.x.example": "127.0.0.9",
        "A second.x.example": "127.0.0.1",
        "A plain.example": "127.0.0.1",
    }

    async def scenario() -> None:
        async with world.server() as port:
            assert await connect(world.routes(port)) == ("second.x.example", True)
            assert await connect(world.routes(port), "plain.example") == ("plain.example", True)
            assert [seen for _, seen in world.noted] == [SeenSession("no-policy-found")] * 2

    asyncio.run(scenario())


def test_a_server_without_tls_gets_mail_where_no_policy_forbids_it(world: World) -> None:
    async def scenario() -> None:
        async with world.server(tls=False) as port:
            assert await connect(world.routes(port)) == ("mx.x.example", False)
            assert world.failures == ["starttls-not-supported"]
            with pytest.raises(NextHopError, match="STARTTLS"):
                await connect(world.routes(port, tls="required"))

    asyncio.run(scenario())


ENFORCED = {"TXT _mta-sts.x.example": "v=STSv1; id=1"}


@pytest.mark.parametrize(
    ("changes", "options", "failure"),
    [
        ({}, {"tls": False}, "starttls-not-supported"),
        ({}, {"names": ("other.example",)}, "certificate-host-mismatch"),
        ({}, {"moment": datetime.now(UTC) - timedelta(days=4_000)}, "certificate-expired"),
        ({"MX x.example": "10 evil.example", "A evil.example": "127.0.0.1"}, {}, "validation-failure"),
    ],
)
def test_an_enforced_policy_keeps_mail_from_servers_that_do_not_prove_themselves(
    world: World, changes: dict[str, str], options: dict[str, Any], failure: str
) -> None:
    world.records |= ENFORCED | changes
    names = options.pop("names", ())

    async def scenario() -> None:
        async with world.server(*names, **options) as port:
            with pytest.raises(NextHopError):
                await connect(routes := world.routes(port))
            assert (routes.refused, world.failures) == (1, [failure])
            assert world.noted[0][1].hosts == ("mx.x.example", "*.backup.example")
            world.noted.clear()
            world.policy = POLICY.replace(b"enforce", b"testing")
            server, _ = await connect(routes := world.routes(port))
            assert server in ("mx.x.example", "evil.example")
            assert (routes.refused, world.failures) == (0, [failure]), "testing only tells"

    asyncio.run(scenario())


def test_a_policy_that_holds(world: World) -> None:
    world.records |= ENFORCED

    async def scenario() -> None:
        async with world.server() as port:
            routes = world.routes(port)
            assert await connect(routes) == ("mx.x.example", True)
            assert [(seen.policy, seen.failure, seen.server) for _, seen in world.noted] == [("sts", "", "")]

    asyncio.run(scenario())


def test_policies_are_fetched_once_again_with_a_new_id_and_outlive_dns_and_restarts(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    moment = [1_000_000_000_000]
    monkeypatch.setattr(transport_policies, "now", lambda: moment[0])
    world.records |= ENFORCED

    async def scenario() -> None:
        store = open_store(f"sqlite:{tmp_path / 'g.db'}", tmp_path)
        policies = TransportPolicies(world.ask, world.fetch, store.sent_reports)
        both = await asyncio.gather(policies.find("x.example"), policies.find("x.example"))
        assert [policy.mode for policy in both if policy] == ["enforce", "enforce"]
        assert world.fetches == 1
        world.records["TXT _mta-sts.x.example"] = "no-name"
        again = TransportPolicies(world.ask, world.fetch, store.sent_reports)
        assert (await again.find("x.example")) == both[0], "whoever forges DNS cannot take it away"
        world.records["TXT _mta-sts.x.example"] = "v=STSv1; id=2"
        world.policy = PolicyFault("is away")
        assert await again.find("x.example") == both[0]
        assert await again.find("x.example") == both[0]
        assert (world.fetches, again.failed_lately("x.example")) == (2, True)
        world.policy = POLICY.replace(b"enforce", b"none")
        moment[0] += 400_000
        assert await again.find("x.example") is None
        assert (world.fetches, dict(again.fetched)) == (3, {"failed": 1, "none": 1})
        world.policy = POLICY
        world.records["TXT _mta-sts.x.example"] = "v=STSv1; id=3"
        assert await again.find("x.example")
        world.records["TXT _mta-sts.x.example"] = "failed"
        moment[0] += 86_400_000
        assert await again.find("x.example") is None, "its time is over"
        await store.close()

    asyncio.run(scenario())


def test_a_policy_that_cannot_be_fetched_is_told(world: World) -> None:
    world.records |= ENFORCED
    world.policy = PolicyFault("is away")

    async def scenario() -> None:
        async with world.server() as port:
            assert await connect(world.routes(port)) == ("mx.x.example", True)
            assert world.failures == ["sts-policy-fetch-error", ""]

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        (b"HTTP/1.1 200 OK\r\ncontent-type: text/plain; charset=utf-8\r\n\r\n" + POLICY, ""),
        (b"HTTP/1.1 404 Not Found\r\n\r\n", "answers 404"),
        (b"HTTP/1.1 301 Moved\r\nlocation: https://elsewhere.example/\r\n\r\n", "answers 301"),
        (b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\n\r\n" + POLICY, "no text/plain"),
        (b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\r\n" + b"x" * 99_999, "more than 64 KiB"),
        (b"nonsense\r\n\r\n", "cannot be fetched"),
    ],
)
def test_fetching_a_policy(world: World, answer: bytes, fault: str) -> None:
    context = world.certify("mta-sts.x.example")
    heard: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            heard.append(await reader.readuntil(b"\r\n\r\n"))
            writer.write(answer)
            await writer.drain()
        writer.close()

    async def scenario() -> None:
        server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
        port = server.sockets[0].getsockname()[1]
        fetch = PolicyFetcher(world.ask, port=port, ca=str(world.folder / "ca.pem"), private=True)
        if fault:
            with pytest.raises(PolicyFault, match=fault):
                await fetch("x.example")
        else:
            assert await fetch("x.example") == POLICY
        assert heard[0].startswith(b"GET /.well-known/mta-sts.txt HTTP/1.1\r\n")
        assert b"host: mta-sts.x.example\r\n" in heard[0].lower()
        with pytest.raises(PolicyFault, match="no public address"):
            await PolicyFetcher(world.ask, port=port)("x.example")
        world.records["A mta-sts.y.example"] = "127.0.0.1"
        with pytest.raises(PolicyFault, match="cannot be fetched"):
            await fetch("y.example")
        server.close()

    asyncio.run(scenario())


def test_mail_through_the_gateway_to_two_domains(world: World, deployment: Housed, run: Run) -> None:
    world.records |= {"MX y.example": "10 mx.x.example", "MX none.example": "0 "}

    async def scenario() -> None:
        async with world.server() as port, deployment(routing=Routing((), world.routes(port))) as gate:
            client = await gate.connect()
            await client.say("EHLO c")
            assert (await client.say("MAIL FROM:<a@gate.example>")).startswith("250")
            assert await client.say("RCPT TO:<b@none.example>") == "556 5.1.10 The recipient's domain takes no mail"
            assert (await client.say("RCPT TO:<b@x.example>")).startswith("250")
            assert (await client.say("RCPT TO:<c@x.example>")).startswith("250")
            assert (await client.say("RCPT TO:<b@y.example>")) == "452 4.5.3 Send to this recipient separately"
            assert (await client.say("DATA")).startswith("354")
            assert (await client.say(b"Subject: x\r\n\r\nHello\r\n.\r\n")).startswith("250")
            assert (await client.say("MAIL FROM:<a@gate.example>")).startswith("250")
            assert (await client.say("RCPT TO:<b@y.example>")).startswith("250")
            assert (await client.say("DATA")).startswith("354")
            assert (await client.say(b"Subject: x\r\n\r\nHello\r\n.\r\n")).startswith("250")
            assert (len(world.hop.messages), world.hop.encrypted) == (2, 2)
            assert [domain for domain, _ in world.noted] == ["x.example", "y.example"]
            assert gate.services.routing
            assert (gate.services.routing.trouble, gate.services.routing.fault) == ("", "")

    run(scenario())


def test_domains_are_forgotten(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mx_routes, "MAX_DOMAINS", 2)

    async def scenario() -> None:
        world.certify("mx.x.example")
        routes = world.routes(1)
        kept: Callable[[], list[str]] = lambda: list(routes._domains)  # noqa: E731
        first = routes.of_domain("a.example")
        routes.of_domain("b.example")
        assert routes.of_domain("a.example") is first
        routes.of_domain("c.example")
        assert kept() == ["a.example", "c.example"]
        monkeypatch.setattr(mx_routes, "FORGET_SECONDS", -1.0)
        await routes._sweep()
        assert kept() == []
        await routes.close()

    asyncio.run(scenario())
