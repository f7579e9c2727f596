"""Several next hops and routes: which one gets a recipient, what is tried when one is down, and what is announced."""

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from gatepost.smtp import routing
from gatepost.smtp.next_hop import NextHopError
from gatepost.smtp.routing import (
    MAX_FEATURES,
    HopAddress,
    Relay,
    Route,
    RouteRule,
    Routing,
    SeenFeatures,
    parse_next_hop,
)

MESSAGE = b"Subject: x\r\n\r\ny\r\n.\r\n"
ALPHA, BETA = "0198c5a2-7c11-7d3e-9f00-00000000aa01", "0198c5a2-7c11-7d3e-9f00-00000000aa02"
NOBODY = "smtp://127.0.0.1:1"


def relay_to(url: str, **options: Any) -> Relay:
    return Relay(url, "off", "gate.example", **options)


async def hop_url(hop: Any, kind: str = "smtp") -> str:
    return f"{kind}://127.0.0.1:{await hop.start()}"


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("smtp://mx.example", HopAddress("mx.example", 25)),
        ("smtp://[::1]:2525", HopAddress("::1", 2525)),
        ("lmtp://store.example", HopAddress("store.example", 24, lmtp=True)),
        ("lmtp:/run/dovecot/lmtp", HopAddress("", 0, "/run/dovecot/lmtp", lmtp=True)),
    ],
)
def test_addresses(url: str, address: HopAddress) -> None:
    assert parse_next_hop(url) == address
    assert address.name in (address.host, "localhost")


async def test_a_route_is_found_by_domain_then_by_tenant_then_the_default() -> None:
    by_domain, below, by_tenant, default = (Route(name, [relay_to(NOBODY)]) for name in "abcd")
    rules = [
        RouteRule(by_tenant, tenants=frozenset({ALPHA})),
        RouteRule(by_domain, frozenset({"one.example"})),
        RouteRule(below, frozenset({"*.deep.example"})),
    ]
    routing = Routing(rules, default)
    table = {
        ("one.example", ALPHA): by_domain,
        ("two.example", ALPHA): by_tenant,
        ("two.example", BETA): default,
        ("x.deep.example", None): below,
        ("x.y.deep.example", None): below,
        ("deep.example", None): default,
        ("", None): default,
    }
    assert {key: routing.find(*key) for key in table} == table
    assert Routing(rules, None).find("two.example", None) is None
    assert routing.only is None
    assert Routing((), default).only is default


async def test_the_next_one_is_used_while_the_first_is_down(hop: Any) -> None:
    second = hop()
    down, up = relay_to(NOBODY), relay_to(await hop_url(second))
    route = Route("r", [down, up])
    for _ in range(3):
        relay, link = await route.borrow()
        assert relay is up
        relay.give_back(link)
    assert down.failures == 1, "one that is down is not tried before those that are up"
    assert down.fault == "refused the connection"
    assert route.fault == ""
    await second.stop()
    up._idle.clear()
    with pytest.raises(NextHopError):
        await route.borrow()
    assert down.failures == 2, "with none left, all are tried"
    assert route.fault == "refused the connection", "without addresses: clients are told of it"
    for relay in route.relays:
        await relay.close()


async def test_connections_are_shared_by_weight() -> None:
    heavy, light, down = (relay_to(f"smtp://127.0.0.1:{port}") for port in (1, 2, 3))
    down.fault = "refused the connection"
    route = Route("r", [light, heavy, down], [1, 3, 1_000])
    route._random.seed(1)
    first = Counter(route._candidates()[0].url for _ in range(2_000))
    assert first[down.url] == 0
    assert 2.6 < first[heavy.url] / first[light.url] < 3.4
    assert all(len(set(route._candidates())) == 3 for _ in range(10))


async def test_each_recipient_takes_its_route_and_a_second_route_comes_separately(deployment: Any, hop: Any) -> None:
    one, two = hop(), hop()
    two.says = {"MAIL FROM:<bad@": "550 5.7.1 not you"}
    away = relay_to(NOBODY)
    rules = [
        RouteRule(Route("one", [relay_to(await hop_url(one))]), frozenset({"one.example"})),
        RouteRule(Route("two", [relay_to(await hop_url(two))]), tenants=frozenset({ALPHA})),
        RouteRule(Route("away", [away]), frozenset({"away.example"})),
    ]
    async with deployment(routing=Routing(rules, None), tenants={"two.example": ALPHA}) as gate:
        client = await gate.connect()
        await client.say("EHLO c")
        assert (await client.say("MAIL FROM:<a@x.example>")).startswith("250 2.1.0")
        # Nothing of a refused recipient's route binds the transaction.
        for _ in range(3):
            assert (await client.say("RCPT TO:<x@away.example>")).startswith("451 4.4.1")
        assert away.failures == 2, "one look in the background, one for the transaction"
        assert (await client.say("RCPT TO:<x@nowhere.example>")).startswith("451 4.3.5")
        assert (await client.say("RCPT TO:<b@two.example>")).startswith("250")
        assert (await client.say("RCPT TO:<b@one.example>")).startswith("452 4.5.3")
        assert (await client.say("RCPT TO:<c@two.example>")).startswith("250")
        await client.say("DATA")
        assert (await client.say(MESSAGE)).startswith("250")
        await client.up_to_data(recipient="b@one.example")
        assert (await client.say(MESSAGE)).startswith("250")
        # The sender is refused with the recipient, since MAIL was answered before the route was known.
        assert (await client.say("MAIL FROM:<bad@x.example>")).startswith("250")
        assert await client.say("RCPT TO:<b@two.example>") == "550 5.7.1 not you"
        assert (await client.say("DATA")).startswith("554 5.5.1")
        await client.say("QUIT")
        # One transaction was put off once, however often its recipients were; a next hop's refusal is none of ours.
        assert (gate.services.attempts, gate.services.deferred) == (3, {"nextHop": 1})
    asked = [line for line in two.lines if line.startswith(("MAIL", "RCPT"))]
    assert asked[:3] == ["MAIL FROM:<a@x.example>", "RCPT TO:<b@two.example>", "RCPT TO:<c@two.example>"]
    assert len(one.messages) == len(two.messages) == 1
    assert gate.guard.scanned[0].envelope.tenant == ALPHA
    for each in (one, two):
        await each.stop()


async def test_what_all_next_hops_have_is_announced(deployment: Any, hop: Any) -> None:
    one, two = hop(("8BITMIME", "DSN", "SIZE 1000000")), hop(("8BITMIME", "SMTPUTF8", "SIZE 2000000"))
    routes = [Route("one", [relay_to(await hop_url(one))]), Route("two", [relay_to(await hop_url(two))])]
    rules = [RouteRule(route, frozenset({f"{route.name}.example"})) for route in routes]
    async with deployment(routing=Routing(rules, Route("away", [relay_to(NOBODY)]))) as gate:
        said = await (await gate.connect()).say("EHLO c")
    assert "8BITMIME" in said
    assert "SMTPUTF8" not in said
    assert "DSN" not in said
    assert "SIZE 995904" in said
    for each in (one, two):
        await each.stop()


async def test_a_next_hop_that_was_never_seen_is_no_reason_to_refuse_for_good(deployment: Any) -> None:
    async with deployment(routing=Routing.through(relay_to(NOBODY))) as gate:
        client = await gate.connect()
        said = await client.say("EHLO c")
        assert all(name in said for name in ("8BITMIME", "SMTPUTF8", "DSN"))
        for parameters in ("SMTPUTF8", "RET=HDRS", "BODY=8BITMIME", ""):
            sender = "jürgen@x.example" if parameters == "SMTPUTF8" else "a@x.example"
            assert (await client.say(f"MAIL FROM:<{sender}> {parameters}".strip())).startswith("451 4.4.1")


async def test_what_was_last_seen_outlives_a_restart(deployment: Any, hop: Any, tmp_path: Path) -> None:
    file = tmp_path / "next-hops.json"
    next_hop = hop(("8BITMIME",))
    async with deployment(next_hop, seen=SeenFeatures(file)) as gate:
        await gate.until(lambda: SeenFeatures(file).of(gate.relay.url) is not None)
    again = relay_to(gate.relay.url, seen=SeenFeatures(file))
    async with deployment(routing=Routing.through(again)) as gate:
        said = await (await gate.connect()).say("EHLO c")
        assert "8BITMIME" in said
        assert "SMTPUTF8" not in said


def test_the_file_of_what_was_seen_is_bounded_and_total(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routing, "MAX_HOPS", 5)
    file = tmp_path / "seen.json"
    seen = SeenFeatures(file)
    for raw in (b"", b"{", b'{"a": 1}', b"\xff"):
        file.write_bytes(raw)
        assert seen.of("a") is None
    for number in range(8):
        seen.keep(f"smtp://h{number}", {"SIZE": "1"})
    assert seen.of("smtp://h0") is None
    assert seen.of("smtp://h7") == {"SIZE": "1"}
    seen.keep("smtp://wide", {f"F{number}": "x" * 1_000 for number in range(MAX_FEATURES * 2)})
    kept = seen.of("smtp://wide")
    assert kept is not None
    assert len(kept) == MAX_FEATURES
    assert max(map(len, kept.values())) <= 256
    SeenFeatures(tmp_path / "no" / "folder").keep("smtp://x", {})
    assert SeenFeatures(None).of("smtp://x") is None


async def test_lmtp_gets_one_recipient_in_a_transaction(deployment: Any, hop: Any) -> None:
    store = hop()
    store.says = {"LHLO": "250-store\r\n250-8BITMIME\r\n250 PIPELINING", "RCPT TO:<no@": "550 5.1.1 unknown"}
    routing = Routing.through(relay_to(await hop_url(store, "lmtp")))
    async with deployment(routing=routing) as gate:
        client = await gate.connect()
        await client.say("EHLO c")
        assert (await client.say("MAIL FROM:<a@x.example>")).startswith("250")
        assert (await client.say("RCPT TO:<no@y.example>")).startswith("550 5.1.1")
        assert (await client.say("RCPT TO:<b@y.example>")).startswith("250")
        assert (await client.say("RCPT TO:<c@y.example>")).startswith("452 4.5.3")
        await client.say("DATA")
        assert (await client.say(MESSAGE)).startswith("250")
        assert [line for line in store.lines if line.startswith("RCPT")] == [
            "RCPT TO:<no@y.example>",
            "RCPT TO:<b@y.example>",
        ]
        assert not any(line.startswith(("EHLO", "HELO")) for line in store.lines)
        assert gate.guard.scanned[0].envelope.recipients == ("b@y.example",)
        # A release has no client to ask for the recipients one by one.
        sent = await routing.send("a@x.example", ("b@y.example", "c@y.example", "no@y.example"), MESSAGE[:-3], {})
        assert sent.recipients == ("b@y.example", "c@y.example")
        assert sent.reply.code == 550
    assert len(store.messages) == 3
    await store.stop()


async def test_a_message_is_sent_by_the_routes_of_its_recipients(hop: Any) -> None:
    one, two = hop(), hop()
    rules = [RouteRule(Route("one", [relay_to(await hop_url(one))]), frozenset({"one.example"}))]
    rules.append(RouteRule(Route("two", [relay_to(await hop_url(two))]), tenants=frozenset({ALPHA})))
    routing = Routing(rules, None)
    both = ("a@one.example", "b@two.example")
    sent = await routing.send("s@x.example", both, MESSAGE[:-3], {"two.example": ALPHA})
    assert sent.reply.positive
    assert sent.recipients == both
    assert len(one.messages) == len(two.messages) == 1
    two.says = {"RCPT": "450 4.2.0 later"}
    sent = await routing.send("s@x.example", both, MESSAGE[:-3], {"two.example": ALPHA})
    assert (sent.reply.code, sent.recipients) == (450, ("a@one.example",))
    with pytest.raises(NextHopError, match="not configured"):
        await routing.send("s@x.example", ("c@three.example",), MESSAGE[:-3], {})
    await routing.close()
    for each in (one, two):
        await each.stop()


async def test_unix_socket(hop: Any, tmp_path: Path) -> None:
    store = hop()
    store.says = {"LHLO": "250 store"}
    path = tmp_path / "lmtp"
    server = await asyncio.start_unix_server(store._serve, str(path))
    relay = relay_to(f"lmtp:{path}")
    assert (await Route("r", [relay]).send("a@x.example", ("b@y.example",), MESSAGE[:-3]))[1].positive
    await relay.close()
    store.hang_up()
    server.close()
