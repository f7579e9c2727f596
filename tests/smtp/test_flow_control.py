"""Flow control: which recipients are put off, with what reply, and that mail flows on while storage is away."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pytest
from pydantic import ValidationError

from gatepost.questions import Hit
from gatepost.settings.scan_sources import FlowControlSettings
from gatepost.smtp import flow_control
from gatepost.smtp.client import SmtpClient
from gatepost.smtp.flow_control import (
    MAX_TOLD,
    DeliveryAttempt,
    FlowControl,
    describe_sender,
    find_host,
    find_network,
    is_unknown_recipient,
)
from gatepost.smtp.replies import SmtpReply
from gatepost.store.errors import StorageError
from gatepost.store.flow_counts import FlowCount, FlowCounts, GreylistEntry
from gatepost.store.list_lookup import ListLookup

MESSAGE = b"Subject: x\r\n\r\ny\r\n"


class Storage:
    """Whether storage is away, and what it has of flow control."""

    def __init__(self) -> None:
        self.away = False
        self.entries = 0
        self.counts: list[FlowCount] = []

    def check(self) -> None:
        if self.away:
            raise StorageError("away")


class Counts(FlowCounts):
    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    async def add_counts(self, counts: Sequence[FlowCount], keys: Sequence[int]) -> dict[tuple[int, int], int]:
        self._storage.check()
        self._storage.counts += counts
        totals: dict[tuple[int, int], int] = {}
        for each in self._storage.counts:
            totals[each.key, each.start] = totals.get((each.key, each.start), 0) + each.count
        return totals

    async def counts(self, keys: Sequence[int]) -> dict[tuple[int, int], int]:
        return await self.add_counts([], keys)

    async def greylist_entries(self, keys: Sequence[int], now: int) -> dict[int, GreylistEntry]:
        self._storage.check()
        return {}

    async def record_greylist(
        self, waiting: Mapping[int, tuple[int, int]], passed: Mapping[int, tuple[int, int, int]]
    ) -> None:
        self._storage.check()

    async def greylist_size(self, most: int) -> int:
        self._storage.check()
        return min(most, self._storage.entries)

    async def purge(self, now: int) -> int:
        return 0


class Lookup(ListLookup):
    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    async def find(
        self, tenant: str | None, keys: Sequence[tuple[str, Sequence[str]]], recipient: str = ""
    ) -> tuple[Hit, ...]:
        self._storage.check()
        return ()


class Events(list[Any]):
    def emit(self, make: Any, *args: Any, **kwargs: Any) -> None:
        self.append(make(*args, **kwargs))


def control(settings: object, storage: Storage | None = None, **options: Any) -> FlowControl:
    read, storage = FlowControlSettings.model_validate(settings), storage or Storage()
    return FlowControl(read, Counts(storage), Lookup(storage), clock=lambda: 1_800_000_000.0, **options)


async def codes(flow: FlowControl, *attempts: DeliveryAttempt) -> list[int]:
    said = [await flow.check_recipient(each) for each in attempts]
    return [250 if each is None else each.code for each in said]


def attempt(
    host: str = "192.0.2.1", sender: str = "a@x.example", to: str = "b@y.example", **more: Any
) -> DeliveryAttempt:
    return DeliveryAttempt(SmtpClient(host), sender, to, **more)


@pytest.mark.parametrize(
    ("settings", "attempts", "expected"),
    [
        ({}, [attempt()] * 3, [250, 250, 250]),
        ({"host": {"messages": 2}}, [attempt()] * 3, [250, 250, 450]),
        ({"host": {"messages": 1}}, [attempt(), attempt("192.0.2.2"), attempt()], [250, 250, 450]),
        ({"host": {"messages": 1}}, [attempt("2001:db8::1"), attempt("2001:db8::2:1")], [250, 450]),
        ({"host": {"messages": 1}}, [attempt(), attempt(to="c@y.example", is_first=False)], [250, 250]),
        ({"host": {"recipients": 1}}, [attempt(), attempt(to="c@y.example", is_first=False)], [250, 450]),
        ({"sender": {"messages": 1}}, [attempt(), attempt(sender="A@X.example")], [250, 450]),
        ({"sender": {"messages": 1}}, [attempt(sender=""), attempt(sender="")], [250, 250]),
        ({"senderDomain": {"messages": 1}}, [attempt(), attempt(sender="b@x.example")], [250, 450]),
        ({"recipient": {"messages": 1}}, [attempt(), attempt(sender="b@z.example")], [250, 450]),
        ({"recipient": {"messages": 1}}, [attempt(), attempt(to="c@y.example")], [250, 250]),
    ],
)
def test_rate_limits(settings: object, attempts: list[DeliveryAttempt], expected: list[int]) -> None:
    assert asyncio.run(codes(control({"rateLimits": settings}), *attempts)) == expected


def test_hosts_that_are_exempt_or_not_known() -> None:
    settings = {"rateLimits": {"host": {"messages": 1}}, "greylisting": {}, "exemptHosts": ["192.0.2.0/24"]}
    unknown = DeliveryAttempt(SmtpClient("198.51.100.1", listed=True), "a@x.example", "b@y.example")
    assert asyncio.run(codes(control(settings), *[attempt()] * 3, *[unknown] * 3)) == [250] * 6
    told = DeliveryAttempt(
        msgspec.structs.replace(unknown.client, xforward={"ADDR": "203.0.113.9"}), "a@x.example", "b@y.example"
    )
    assert asyncio.run(codes(control(settings), told)) == [450]
    assert asyncio.run(codes(control(settings, defers=False), told, told)) == [250, 450]
    assert (find_host(told.client), find_host(unknown.client)) == ("203.0.113.9", None)
    assert find_host(SmtpClient("2001:db8:0:1::5")) == "2001:db8:0:1::/64"
    assert find_host(SmtpClient("")) is None


def test_unknown_recipients_of_a_host() -> None:
    flow = control({"unknownRecipients": {"maximum": 2}})
    stranger, other = SmtpClient("192.0.2.1"), SmtpClient("192.0.2.2")
    border = SmtpClient("198.51.100.1", listed=True, xforward={"ADDR": "192.0.2.1"})
    for _ in range(2):
        assert flow.check_client(stranger) is None
        flow.count_unknown(stranger)
    said = flow.check_client(stranger)
    assert said is not None
    assert said.encode() == b"421 4.7.0 Too many unknown recipients, try again later\r\n"
    assert flow.check_client(other) is None
    through = flow.check_client(border)
    assert through is not None
    assert through.code == 450  # a border MTA keeps its connection


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (SmtpReply(550, (b"5.1.1 User unknown",)), True),
        (SmtpReply(550, (b"5.1.10 RESOLVER.ADR.RecipientNotFound",)), True),
        (SmtpReply(550, (b"Unrouteable address",)), True),
        (SmtpReply(550, (b"5.7.1 Relaying denied",)), False),
        (SmtpReply(552, (b"Mailbox full",)), False),
        (SmtpReply(450, (b"4.1.1 later",)), False),
        (SmtpReply(250, (b"2.1.5 fine",)), False),
        (SmtpReply(550, ()), False),
    ],
)
def test_which_replies_say_that_there_is_no_such_recipient(reply: SmtpReply, expected: bool) -> None:
    assert is_unknown_recipient(reply) is expected


def test_without_storage_mail_flows_on_and_that_is_said() -> None:
    async def test() -> None:
        storage = Storage()
        flow = control({"rateLimits": {"host": {"messages": 2}}, "greylisting": {}}, storage)
        storage.away = True
        # Limits go by what is counted here, and what would be put off is taken, since lists cannot be asked.
        assert await codes(flow, *[attempt()] * 4) == [250] * 4
        assert "storage" in flow.fault
        await flow.counters.flush()
        await flow.greylist.flush()
        assert "storage" in flow.fault
        storage.away = False
        assert await codes(flow, attempt(), attempt("192.0.2.9")) == [450, 450]
        await flow.counters.flush()
        await flow.greylist.flush()
        assert flow.fault == ""
        assert flow.refused == {"host": 1, "greylisting": 1}

    asyncio.run(test())


def test_a_full_greylist_takes_mail() -> None:
    async def test() -> None:
        storage = Storage()
        flow = control({"greylisting": {}}, storage)
        storage.entries = flow_control.MAX_ENTRIES
        await flow.greylist.measure()
        assert await codes(flow, attempt()) == [250]
        assert "2,000,000 entries" in flow.fault
        storage.entries = 0
        await flow.greylist.measure()
        assert await codes(flow, attempt()) == [450]
        assert flow.fault == ""

    asyncio.run(test())


def test_strangers_cannot_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flow_control, "MAX_CELLS", 100)
    monkeypatch.setattr(flow_control, "MAX_NEW", 10)
    monkeypatch.setattr(flow_control, "MAX_REMEMBERED", 20)

    async def test() -> None:
        flow = control({"rateLimits": {"sender": {"messages": 5}}, "greylisting": {}})
        many = [attempt(sender=f"{chr(97 + number % 26) * (1 + number // 26)}@x.example") for number in range(500)]
        assert set(await codes(flow, *many)) == {450}
        assert flow.counters.size <= 100
        assert len(flow.greylist._waiting) == 10

    asyncio.run(test())


def test_a_limit_is_told_once_and_not_too_often() -> None:
    async def test() -> None:
        events = Events()
        flow = control({"rateLimits": {"sender": {"messages": 1}}}, events=events)
        first = [attempt(sender=f"u{chr(97 + number // 26)}{chr(97 + number % 26)}@x.example") for number in range(90)]
        await codes(flow, *first, *first, *first)
        assert flow.refused == {"sender": 180}
        assert len(events) == MAX_TOLD
        told = events[0]
        assert (told.limit, told.subject, told.maximum) == ("sender", "uaa@x.example", 1)

    asyncio.run(test())


def test_what_counts_as_one_network_and_one_sender() -> None:
    assert find_network("192.0.2.77") == "192.0.2.0/24"
    assert find_network("::ffff:192.0.2.77") == "192.0.2.0/24"
    assert find_network("2001:db8:1:2:3::4") == "2001:db8:1:2::/64"
    assert describe_sender("Bounce-123-XY+tag@List.example") == "bounce-#-xy#@list.example"
    assert describe_sender("prvs=0123abc=ann@x.example") == "prvs#@x.example"
    assert describe_sender("") == "@"


@pytest.mark.parametrize(
    "wrong",
    [
        {"rateLimits": {"host": {"messages": 0}}},
        {"rateLimits": {"host": {"windowMinutes": 1_441}}},
        {"rateLimits": {"recipient": {}}},
        {"unknownRecipients": {}},
        {"greylisting": {"delayMinutes": 0}},
        {"tenants": {"not a uid": {}}},
        {"exemptHosts": ["nonsense"]},
        {"ratelimits": {}},
    ],
)
def test_settings_that_are_refused(wrong: object) -> None:
    with pytest.raises(ValidationError):
        FlowControlSettings.model_validate(wrong)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, False),
        ({"exemptHosts": ["192.0.2.1"]}, False),
        ({"greylisting": {}}, True),
        ({"rateLimits": {"host": {"messages": 5}}}, True),
        ({"unknownRecipients": {"maximum": 5}}, True),
        ({"tenants": {"0198c5a2-7c11-7d3e-9f00-00000000aa01": {"greylisting": {}}}}, True),
    ],
)
def test_it_is_off_by_default(settings: object, expected: bool) -> None:
    assert FlowControlSettings.model_validate(settings).is_on is expected


def test_over_smtp(deployment: Any, hop: Any, run: Any) -> None:
    """Two messages pass, the third recipient of the host is put off before the next hop hears of it; a host that
    guesses names is closed off, and comes no further than MAIL."""

    async def test() -> None:
        next_hop = hop()
        async with deployment(next_hop, listed=("127.0.0.1",)) as gate:
            gate.services.flow = control({"rateLimits": {"host": {"messages": 2}}, "unknownRecipients": {"maximum": 3}})
            client = await gate.connect()
            await client.say("EHLO c")
            for expected in ("250", "250", "450 4.7.1 Too much mail from your host"):
                assert await client.say("XFORWARD ADDR=192.0.2.1") == "250 2.0.0 Ok"
                assert (await client.say("MAIL FROM:<a@x.example>")).startswith("250")
                assert (await client.say("RCPT TO:<b@y.example>")).startswith(expected)
                if expected == "250":
                    await client.say("DATA")
                    assert (await client.say(MESSAGE + b".\r\n")).startswith("250")
                else:
                    assert (await client.say("DATA")).startswith("554 5.5.1")
                    await client.say("RSET")
            assert len(next_hop.messages) == 2
            assert sum(line.startswith("RCPT") for line in next_hop.lines) == 2

            next_hop.says["RCPT TO:<guess"] = "550 5.1.1 Who?"
            assert await client.say("XCLIENT ADDR=192.0.2.2") == "220 gate.example ESMTP"
            await client.say("EHLO c")
            assert (await client.say("MAIL FROM:<a@x.example>")).startswith("250")
            for number in range(3):
                assert await client.say(f"RCPT TO:<guess{number}@y.example>") == "550 5.1.1 Who?"
            assert (await client.say("RCPT TO:<guess@y.example>")).startswith("450 4.7.1 Too many unknown recipients")
            await client.say("RSET")
            assert (await client.say("MAIL FROM:<a@x.example>")).startswith("450 4.7.1 Too many unknown recipients")
            assert not gate.services.deferred, "what the operator limits is meant to wait"

    run(test())


def test_a_stranger_who_guesses_is_closed_off(deployment: Any, hop: Any, run: Any, monkeypatch: Any) -> None:
    # Loopback counts as a host of ours, whose sending host is not known.
    monkeypatch.setattr(SmtpClient, "remote_address", lambda client: client.address)

    async def test() -> None:
        next_hop = hop()
        next_hop.says["RCPT"] = "550 5.1.1 Who?"
        async with deployment(next_hop) as gate:
            gate.services.flow = control({"unknownRecipients": {"maximum": 1}})
            client = await gate.connect()
            await client.say("EHLO c")
            await client.say("MAIL FROM:<a@x.example>")
            assert (await client.say("RCPT TO:<b@y.example>")).startswith("550")
            assert await client.say("RCPT TO:<c@y.example>") == "421 4.7.0 Too many unknown recipients, try again later"
            assert await client.closed()
            again = await gate.connect()
            await again.say("EHLO c")
            assert (await again.say("MAIL FROM:<a@x.example>")).startswith("421 4.7.0")
            assert await again.closed()

    run(test())
