"""Reputation zones against a name server of our own: every class of answer, muting, limits, and what is never asked."""

import asyncio
import hashlib
from collections.abc import Sequence
from typing import Any

import pytest
from tests.clock import Clock
from tests.guard.answers import test_dns
from tests.guard.answers.test_dns import resolving
from tests.guard.conftest import job

from gatepost.guard.answers.answerer import Answerer
from gatepost.guard.answers.lists import ListAnswers
from gatepost.guard.answers.reputation import (
    FAILURE_SECONDS,
    FAULT_SECONDS,
    MAX_FAILURES,
    ReputationZones,
    Zone,
    ZoneFaultError,
)
from gatepost.questions import (
    AskReputation,
    Dns,
    DnsAnswer,
    Hit,
    Lookup,
    LookupAnswer,
    Reputation,
    ReputationSubject,
    ReputationValue,
)
from gatepost.settings.keys import ZoneSettings

HOST = "8.8.4.4"
ADDRESS = "drop.box@mail.com"


def zone(name: str = "block", suffix: str = "bl.test", asks: str = "ip", **more: Any) -> ZoneSettings:
    answers = more.pop("answers", [{"codes": ["127.0.0.2-127.0.0.9"], "means": "listed", "text": "sends spam"}])
    settings = {"name": name, "zone": suffix, "asks": asks, "answers": answers, **more}
    return ZoneSettings.model_validate(settings, by_alias=True, by_name=False)


def value(subject: ReputationSubject, text: str, digest: str = "") -> ReputationValue:
    return ReputationValue(subject, text, digest)


class Lists(ListAnswers):
    """Allows what it is told to; counts look-ups."""

    def __init__(self, *hits: Hit) -> None:
        self.hits, self.asked = hits, 0

    async def answer(self, _tenant: str | None, question: Lookup, _recipients: Sequence[str] = ()) -> LookupAnswer:
        self.asked += 1
        keys = {key for _, keys in question.keys for key in keys}
        return LookupAnswer(tuple(hit for hit in self.hits if hit.key in keys))


@pytest.mark.parametrize(
    ("settings", "asked", "expected"),
    [
        (zone(), value("host", HOST), "4.4.8.8.bl.test"),
        (zone(), value("host", "::ffff:8.8.4.4"), "4.4.8.8.bl.test"),
        (
            zone(),
            value("host", "2001:4860:4860::8888"),
            "8.8.8.8.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.6.8.4.0.6.8.4.1.0.0.2.bl.test",
        ),
        (zone(), value("host", "10.0.0.1"), None),
        (zone(), value("host", "fe80::1"), None),
        (zone(), value("host", "192.0.2.1"), None),
        (zone(), value("host", "no address"), None),
        (zone(), value("sender", "shop.com"), None),
        (zone(of=["host", "link"]), value("link", HOST), "4.4.8.8.bl.test"),
        (zone(suffix="{key}.bl.test", queryKey="k3y"), value("host", HOST), "4.4.8.8.k3y.bl.test"),
        (zone(asks="domain"), value("link", "a.b.shop.co.uk"), "shop.co.uk.bl.test"),
        (zone(asks="domain", level="host"), value("link", "a.b.shop.co.uk"), "a.b.shop.co.uk.bl.test"),
        (zone(asks="domain"), value("sender", "Bücher.de"), "xn--bcher-kva.de.bl.test"),
        (zone(asks="domain"), value("link", HOST), None),
        (zone(asks="domain"), value("link", "printer.local"), None),
        (zone(asks="domain"), value("link", "localhost"), None),
        (
            zone(asks="hash", of=["address"], hash="sha1", encoding="hex"),
            value("address", ADDRESS),
            hashlib.sha1(ADDRESS.encode(), usedforsecurity=False).hexdigest() + ".bl.test",
        ),
        (zone(asks="hash"), value("file", "00" * 32), "a" * 52 + ".bl.test"),
        (zone(asks="hash"), value("file", "zz" * 32), None),
        (zone(asks="hash"), value("file", "00"), None),
        (zone(asks="hash", hash="md5", encoding="hex"), value("file", "00" * 32), None),
        (
            zone(asks="hash", hash="md5", encoding="hex"),
            value("file", "00" * 32, "md5:" + "ab" * 16),
            "ab" * 16 + ".bl.test",
        ),
    ],
)
def test_the_name_that_a_value_is_asked_for_under(
    settings: ZoneSettings, asked: ReputationValue, expected: str | None
) -> None:
    assert Zone(settings).build_name(asked) == expected


def test_codes_and_bits() -> None:
    by_code = Zone(zone(answers=[{"codes": ["127.0.0.2", "127.0.0.4-127.0.0.7"], "means": "listed", "strength": 0.5}]))
    assert [reading.means for reading in by_code.read(["127.0.0.5"])] == ["listed"]
    assert by_code.read(["127.0.0.5"])[0].strength == 0.5
    assert by_code.read(["127.0.0.3"]) == ()
    by_bit = Zone(zone(asks="domain", answers=[{"mask": 8, "means": "phishing"}, {"mask": 16, "means": "malware"}]))
    assert [reading.means for reading in by_bit.read(["127.0.0.24"])] == ["phishing", "malware"]
    assert by_bit.read(["127.0.0.2"]) == ()


@pytest.mark.parametrize(
    ("record", "words"),
    [
        ("127.255.255.252", "malformed"),
        ("127.255.255.254", "public resolver"),
        ("127.255.255.255", "too many"),
        ("127.255.255.1", "refuses"),
        ("203.0.113.9", "not an answer of a reputation zone"),
        ("junk", "no address"),
    ],
)
def test_answers_that_show_a_zone_cannot_be_believed(record: str, words: str) -> None:
    with pytest.raises(ZoneFaultError, match=words):
        Zone(zone()).read([record])


def test_refusals_that_only_one_zone_knows() -> None:
    allow = Zone(zone(refusals=["127.0.0.255"], answers=[{"mask": 2, "means": "allowed"}]))
    assert [reading.means for reading in allow.read(["127.0.5.3"])] == ["allowed"]
    with pytest.raises(ZoneFaultError, match="refuses"):
        allow.read(["127.0.0.255"])


def ask(
    zones: Sequence[ZoneSettings],
    values: Sequence[ReputationValue],
    names: test_dns.Zone,
    *,
    times: int = 1,
    clock: Clock | None = None,
    seconds: float = 5.0,
) -> tuple[list[Reputation], dict[str, int]]:
    """Ask real zones on a loopback name server; return the answers and how often each name was asked for."""

    async def run() -> tuple[list[Reputation], dict[str, int]]:
        async with resolving(seconds=seconds, zone=names) as (resolver, server):
            reputation = ReputationZones(zones, Lists(), clock or Clock())
            answerer = Answerer(resolver, reputation=reputation)
            found = []
            for _ in range(times):
                (answer,) = await answerer.answer(job(), (AskReputation(tuple(values)),))
                assert isinstance(answer, Reputation)
                found.append(answer)
            return found, {name: count for (name, _), count in server.asked.items()}

    return asyncio.run(run())


def test_a_listed_host_a_listed_link_and_a_silent_rest() -> None:
    names: test_dns.Zone = {
        "4.4.8.8.bl.test": {"A": ["127.0.0.3"]},
        "bad.com.uri.test": {"A": ["127.0.0.8"]},
    }
    zones = [zone(), zone("uri", "uri.test", "domain", answers=[{"mask": 8, "means": "phishing"}])]
    values = [value("host", HOST), value("link", "www.bad.com"), value("link", "good.com"), value("sender", "good.com")]
    (answer,), asked = ask(zones, values, names)
    assert [(each.subject, each.value, each.zone, each.answer, each.means) for each in answer.listings] == [
        ("host", HOST, "block", "127.0.0.3", "listed"),
        ("link", "www.bad.com", "uri", "127.0.0.8", "phishing"),
    ]
    assert answer.silent == ()
    assert asked == {
        "4.4.8.8.bl.test": 1,
        "1.0.0.127.bl.test": 1,
        "bad.com.uri.test": 1,
        "good.com.uri.test": 1,
        "invalid.uri.test": 1,
    }


def test_answers_are_cached() -> None:
    (first, second), asked = ask([zone()], [value("host", HOST)], {"4.4.8.8.bl.test": {"A": ["127.0.0.2"]}}, times=2)
    assert first == second
    assert asked["4.4.8.8.bl.test"] == 1


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        ({"4.4.8.8.bl.test": {"A": ["127.255.255.254"]}}, "public resolver"),
        ({"4.4.8.8.bl.test": {"A": ["203.0.113.1"]}}, "not an answer"),
        ({"4.4.8.8.bl.test": {"A": ["127.0.0.2"]}, "1.0.0.127.bl.test": {"A": ["127.0.0.2"]}}, "no zone may list"),
    ],
)
def test_a_zone_that_refuses_or_lists_everything_is_muted(names: test_dns.Zone, reason: str) -> None:
    clock = Clock()
    (first, second), asked = ask([zone()], [value("host", HOST)], names, times=2, clock=clock)
    for answer in (first, second):
        assert answer.listings == ()
        ((name, said),) = answer.silent
        assert name == "block"
        assert reason in said
        assert "bl.test" not in said
    assert max(asked.values()) == 1


def test_a_muted_zone_is_asked_again_later() -> None:
    clock = Clock()
    watched = ReputationZones([zone()], Lists(), clock)

    def conclude(answer: DnsAnswer) -> Reputation:
        inquiries = asyncio.run(watched.inquire(None, AskReputation((value("host", HOST),))))
        return watched.conclude(inquiries, {each.question: answer for each in inquiries[:1]})

    assert conclude(DnsAnswer("found", ("127.255.255.255",))).silent
    assert asyncio.run(watched.inquire(None, AskReputation((value("host", HOST),)))) == ()
    assert watched.counters()[0].muted
    clock.now += FAULT_SECONDS + 1
    assert not watched.counters()[0].muted
    assert conclude(DnsAnswer("found", ("127.0.0.2",))).listings[0].means == "listed"


def test_a_zone_that_does_not_answer_is_muted_after_a_few_messages() -> None:
    clock = Clock()
    watched = ReputationZones([zone(), zone("other", "other.test")], Lists(), clock)
    question = AskReputation((value("host", HOST),))
    failed, fine = DnsAnswer("failed"), DnsAnswer("no-name")
    for attempt in range(MAX_FAILURES):
        inquiries = asyncio.run(watched.inquire(None, question))
        # The zone that answered need not be tested again for a while.
        assert len(inquiries) == (3 if attempt else 4)
        answers = {each.question: failed if each.zone.zone.name == "block" else fine for each in inquiries}
        answer = watched.conclude(inquiries, answers)
    assert answer.silent == (("block", "it does not answer"),)
    assert {each.zone.zone.name for each in asyncio.run(watched.inquire(None, question))} == {"other"}
    clock.now += FAILURE_SECONDS + 1
    assert len(asyncio.run(watched.inquire(None, question))) == 4


def test_one_answer_among_failures_keeps_a_zone() -> None:
    watched = ReputationZones([zone()], Lists(), Clock())
    question = AskReputation((value("host", HOST),))
    for turn in range(3 * MAX_FAILURES):
        inquiries = asyncio.run(watched.inquire(None, question))
        answer = DnsAnswer("no-name" if turn % MAX_FAILURES == 0 else "failed")
        assert watched.conclude(inquiries, {each.question: answer for each in inquiries}).silent == ()


def test_limits_of_a_zone_and_of_a_message() -> None:
    watched = ReputationZones([zone("uri", "uri.test", "domain", limit=3)], Lists(), Clock())
    question = AskReputation(tuple(value("link", f"site{number}.com") for number in range(50)))
    names = [each.question.name for each in asyncio.run(watched.inquire(None, question))]
    assert names == ["site0.com.uri.test", "site1.com.uri.test", "site2.com.uri.test", "invalid.uri.test"]


def test_what_is_allowed_is_asked_of_nobody() -> None:
    lists = Lists(Hit("allowed-ips", "global", HOST), Hit("blocked-urls", "global", "bad.com"))
    watched = ReputationZones([zone(), zone("uri", "uri.test", "domain")], lists, Clock())
    values = (value("host", HOST), value("link", "bad.com"))
    question = AskReputation(values, (("network", (HOST,)), ("url", ("bad.com",))))
    names = [each.question.name for each in asyncio.run(watched.inquire(None, question))]
    assert names == ["bad.com.uri.test", "invalid.uri.test"]
    assert lists.asked == 1
    asyncio.run(watched.inquire(None, AskReputation(values)))
    assert lists.asked == 1


def test_without_zones_nothing_is_asked_or_said() -> None:
    watched = ReputationZones([], Lists(), Clock())
    assert watched.list_subjects() == ()
    assert asyncio.run(watched.inquire(None, AskReputation((value("host", HOST),)))) == ()
    assert watched.conclude((), {}) == Reputation()


def test_what_workers_have_to_collect() -> None:
    zones = [zone(), zone("uri", "uri.test", "domain"), zone("files", "f.test", "hash", of=["file", "address"])]
    assert ReputationZones(zones, Lists()).list_subjects() == ("address", "file:sha256", "host", "link", "sender")


async def test_a_question_shared_with_authentication_is_asked_once() -> None:
    async with resolving(zone={}) as (resolver, server):
        answerer = Answerer(resolver, reputation=ReputationZones([zone()], Lists()))
        name = Dns("4.4.8.8.bl.test", "A")
        answers = await answerer.answer(job(), (name, AskReputation((value("host", HOST),)), name))
        assert answers == (DnsAnswer("no-name"), Reputation(), DnsAnswer("no-name"))
        assert server.asked["4.4.8.8.bl.test", "A"] == 1
