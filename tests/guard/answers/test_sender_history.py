"""guard's memory: asked once a day, learned from what is delivered, apart for each tenant, and bounded."""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec
import pytest
from tests.guard.conftest import job

from gatepost.analysis.report import Report, undecided
from gatepost.auth.results import Authentication, Dmarc
from gatepost.guard.answers import sender_history
from gatepost.guard.answers.answerer import Answerer
from gatepost.guard.answers.dns import Resolver, TakesAnswer
from gatepost.guard.answers.sender_history import DAY_SECONDS, SenderHistories
from gatepost.guard.metrics import SenderHistoryMetrics
from gatepost.guard.service import Guard
from gatepost.ids import new_id
from gatepost.mail.message import Envelope
from gatepost.mail.sender_history import ALL_MAIL, Facet, facet_key
from gatepost.policy.rules import shipped_policy
from gatepost.questions import MAX_FACETS, AskSightings, Dns, DnsAnswer, FacetAge, Sightings
from gatepost.scanning.request import ScanRequest, ScanResult
from gatepost.scanning.spool import BytesBody
from gatepost.settings.keys import GuardSettings as Core
from gatepost.settings.keys import SenderHistorySettings as Settings
from gatepost.store import open_store
from gatepost.store.errors import StorageError
from gatepost.store.sightings import Sighting, SightingBatch, StoredSightings
from gatepost.workers import protocol
from gatepost.workers.fair_queue import FairQueue
from gatepost.workers.pool import PoolSettings, WorkerPool
from gatepost.workers.protocol import FrameError

PROVEN, CLAIMED = (
    facet_key(Facet.PROVEN_ADDRESS, "eve@partner.example"),
    facet_key(Facet.CLAIMED_ADDRESS, "eve@partner.example"),
)
HOST = facet_key(Facet.HOST, "shop.example")
ASKED = AskSightings((HOST,), (PROVEN,), (CLAIMED,))
NEVER = FacetAge()
ALIGNED = Authentication(dmarc=Dmarc("pass", spf_aligned=True))
DELIVERED = Report("clean", "deliver", (), 0, "", authentication=ALIGNED)
UNPROVEN = Report("clean", "deliver", (), 0, "")
HELD = msgspec.structs.replace(DELIVERED, verdict="spam", decision="quarantine")
EAGER = Settings(min_days=1, min_messages=1)


class Deployment(StoredSightings):
    """A memory on a real store, with a clock of its own; `reads` counts what storage was asked."""

    def __init__(self, folder: Path) -> None:
        self.store = open_store("sqlite:g.db", folder)
        super().__init__(self.store._engine)
        self.day = 20_000
        self.reads: list[tuple[str | None, tuple[int, ...]]] = []
        self.memory = self.made()

    def made(self, settings: Settings = EAGER) -> SenderHistories:
        return SenderHistories(self, settings, lambda: self.day * DAY_SECONDS + 5.0)

    async def find(self, tenant: str | None, keys: Sequence[int]) -> dict[int, Sighting]:
        self.reads.append((tenant, tuple(keys)))
        return await self.store.sightings.find(tenant, keys)

    async def record(self, batches: Sequence[SightingBatch]) -> None:
        await self.store.sightings.record(batches)

    async def purge(self, before: int, most: int) -> int:
        return await self.store.sightings.purge(before, most)

    async def count(self, tenant: str | None) -> int:
        return await self.store.sightings.count(tenant)

    async def scan(
        self, report: Report = DELIVERED, tenant: str | None = None, asked: AskSightings = ASKED
    ) -> Sightings:
        """One message, from its question to its decision."""
        answer = await self.memory.answer("g", tenant, asked)
        self.memory.learn("g", report)
        return answer

    async def next_day(self) -> None:
        await self.memory.flush()
        self.day += 1


@pytest.fixture
def deployment(tmp_path: Path, loop_runner: asyncio.Runner) -> Iterator[Deployment]:
    deployment = Deployment(tmp_path)
    yield deployment
    loop_runner.run(deployment.store.close())


async def test_what_was_delivered_on_days_before_is_known(deployment: Deployment) -> None:
    for _ in range(3):
        assert not (await deployment.scan()).ready
    await deployment.next_day()
    assert await deployment.scan() == Sightings(True, (FacetAge(1, 1),), (FacetAge(1, 1),), (NEVER,))
    await deployment.next_day()
    await deployment.next_day()
    assert await deployment.scan() == Sightings(True, (FacetAge(2, 3),), (FacetAge(2, 3),), (NEVER,))


async def test_an_hour_of_sending_makes_nobody_known(deployment: Deployment) -> None:
    await deployment.scan(asked=AskSightings((1,)))
    await deployment.next_day()
    for _ in range(60):
        assert await deployment.scan() == Sightings(True, (NEVER,), (NEVER,), (NEVER,))
        await deployment.memory.flush()
    deployment.memory = deployment.made()
    assert await deployment.scan() == Sightings(True, (NEVER,), (NEVER,), (NEVER,)), "nor a restart"


async def test_who_claims_is_not_who_proves(deployment: Deployment) -> None:
    await deployment.scan(UNPROVEN)
    await deployment.next_day()
    assert await deployment.scan() == Sightings(True, (FacetAge(1, 1),), (NEVER,), (FacetAge(1, 1),))


async def test_held_mail_makes_nobody_known_and_takes_it_from_those_who_are(deployment: Deployment) -> None:
    await deployment.scan(asked=AskSightings((1,)))
    await deployment.scan(HELD)
    await deployment.next_day()
    assert await deployment.scan() == Sightings(True, (NEVER,), (NEVER,), (NEVER,))
    await deployment.next_day()
    assert (await deployment.scan()).proven == (FacetAge(1, 1),)
    for _ in range(5):
        await deployment.scan(HELD)
    await deployment.next_day()
    answer = await deployment.scan()
    assert answer.proven == (NEVER,)
    assert answer.keys == (FacetAge(2, 2),), "a site is known by what was delivered"


async def test_nothing_is_learned_from_what_was_not_decided(deployment: Deployment) -> None:
    await deployment.scan(undecided("broken"))
    deployment.memory.learn("unheard of", DELIVERED)
    await deployment.memory.flush()
    assert await deployment.store.sightings.count(None) == 0


async def test_a_known_sender_costs_no_statement(deployment: Deployment) -> None:
    await deployment.scan()
    await deployment.next_day()
    deployment.reads.clear()
    for _ in range(100):
        await deployment.scan()
    assert [keys for _, keys in deployment.reads] == [(ALL_MAIL,), (HOST, PROVEN, CLAIMED)]
    await deployment.scan(asked=AskSightings((HOST, 7)))
    assert deployment.reads[-1] == (None, (7,)), "only what is not known yet today"
    counters = deployment.memory.counters()
    assert (counters.asked, counters.dropped) == (102, 0)


async def test_a_young_memory_is_not_asked_and_learns(deployment: Deployment) -> None:
    deployment.memory = deployment.made(Settings(min_days=7, min_messages=10))
    for _ in range(7):
        assert await deployment.scan() == Sightings()
        await deployment.scan()
        await deployment.next_day()
    assert {keys for _, keys in deployment.reads} == {(ALL_MAIL,)}
    assert (await deployment.scan()).ready, "seven days, and more than ten messages"


async def test_few_messages_are_no_memory(deployment: Deployment) -> None:
    deployment.memory = deployment.made(Settings(min_days=7, min_messages=10))
    await deployment.scan()
    deployment.day += 50
    await deployment.memory.flush()
    assert await deployment.scan() == Sightings()


async def test_tenants_do_not_share(deployment: Deployment) -> None:
    for tenant in ("a", "b"):
        await deployment.scan(tenant=tenant, asked=ASKED if tenant == "a" else AskSightings((1,)))
    await deployment.next_day()
    assert (await deployment.scan(tenant="a")).proven == (FacetAge(1, 1),)
    assert (await deployment.scan(tenant="b")).proven == (NEVER,)
    assert await deployment.scan(tenant=None) == Sightings()


async def test_the_tenant_is_the_message_s_whatever_a_worker_asks(deployment: Deployment) -> None:
    answerer = Answerer(Silent(), sender_histories=deployment.memory)
    for _ in range(2):
        await answerer.answer(job("g", Envelope(tenant="mine")), (ASKED,))
        deployment.memory.learn("g", DELIVERED)
        await deployment.next_day()
    assert {tenant for tenant, _ in deployment.reads} == {"mine"}
    assert (await answerer.answer(job("h", Envelope(tenant="other")), (ASKED,)))[0] == Sightings()
    assert await Answerer(Silent()).answer(job("g", Envelope()), (ASKED,)) == (Sightings(),), "nothing is remembered"


async def test_what_files_link_to_is_asked_for_once_more_and_no_third_time(deployment: Deployment) -> None:
    for asked in (ASKED, AskSightings((16,)), AskSightings((32,))):
        await deployment.memory.answer("g", None, asked)
    deployment.memory.learn("g", DELIVERED)
    await deployment.memory.flush()
    assert (await deployment.store.sightings.find(None, [HOST, 16, 32, ALL_MAIL])).keys() == {HOST, 16, ALL_MAIL}


async def test_memory_is_bounded(deployment: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MAX_REMEMBERED", "MAX_ASKED", "MAX_GATHERED"):
        monkeypatch.setattr(sender_history, name, 20)
    await deployment.scan(asked=AskSightings((1,)))
    await deployment.next_day()
    for number in range(100):
        await deployment.memory.answer(str(number), None, AskSightings((16 * number + 6,)))
    assert len(deployment.memory._known) <= 20 >= len(deployment.memory._older)
    assert len(deployment.memory._asked) == 20
    for number in range(100):
        deployment.memory.learn(str(number), DELIVERED)
    assert deployment.memory.counters().dropped > 0
    await deployment.memory.flush()
    assert await deployment.store.sightings.count(None) <= 22


async def test_storage_that_fails_leaves_mail_alone(deployment: Deployment) -> None:
    async def broken(*_: object) -> None:
        raise StorageError("gone")

    deployment.find = broken  # type: ignore[assignment,method-assign]
    deployment.record = broken  # type: ignore[assignment,method-assign]
    assert await deployment.scan() == Sightings()
    await deployment.memory.flush()
    assert deployment.memory.counters().dropped == 3


async def test_old_and_superfluous_keys_go(deployment: Deployment) -> None:
    deployment.memory = deployment.made(Settings(retention=5, max_keys=3))
    await deployment.scan(asked=AskSightings((22,)))
    await deployment.next_day()
    deployment.day += 10
    await deployment.scan(asked=AskSightings((38, 54, 70)))
    await deployment.memory.flush()
    assert await deployment.memory.purge() == 1 + 1
    assert (await deployment.store.sightings.find(None, [22, 38, 54, 70, ALL_MAIL])).keys() >= {ALL_MAIL}
    assert await deployment.store.sightings.count(None) == 3


async def test_it_writes_by_itself_and_at_the_end(deployment: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sender_history, "FLUSH_SECONDS", 0.01)
    deployment.memory.start()
    await deployment.scan()
    async with asyncio.timeout(180):
        while not await deployment.store.sightings.count(None):  # noqa: ASYNC110  somebody else's work
            await asyncio.sleep(0.01)
    await deployment.scan(asked=AskSightings((22,)))
    await deployment.memory.stop()
    assert await deployment.store.sightings.find(None, [22])
    assert deployment.memory.counters().written == 3 + 2


async def test_several_guards_share_what_they_know(postgres_url: str, tmp_path: Path) -> None:
    day = 20_000
    stores = [open_store(postgres_url, tmp_path) for _ in range(2)]
    one, two = (SenderHistories(store.sightings, EAGER, lambda: day * DAY_SECONDS) for store in stores)
    await one.answer("g", "t", ASKED)
    one.learn("g", DELIVERED)
    await one.flush()
    day += 1
    assert (await two.answer("h", "t", ASKED)).proven == (FacetAge(1, 1),)
    for store in stores:
        await store.close()


@pytest.mark.parametrize(
    "keys", [tuple(range(MAX_FACETS + 1)), (1 << 63,), (-(1 << 63) - 1,), ("a",), (1.5,)], ids=lambda keys: str(keys[0])
)
def test_a_worker_that_asks_for_what_cannot_be_is_refused(keys: tuple[object, ...]) -> None:
    try:
        body = msgspec.msgpack.encode([1, [{"asks": "sightings", "keys": keys}]])
    except OverflowError:
        return
    with pytest.raises(FrameError):
        protocol.read_ask(body)


MAIL = (
    "From: Eve <{0}>\r\nTo: ann@house.example\r\nSubject: Hello\r\nDate: Fri, 04 Oct 2024 08:00:00 +0000\r\n"
    "Message-ID: <1.4711@mail.example>\r\n\r\nHello Ann, shall we meet for lunch on Monday?\r\n"
)


class Silent(Resolver):
    """No name exists."""

    def recall(self, questions: Iterable[Dns]) -> dict[Dns, DnsAnswer]:
        return dict.fromkeys(questions, DnsAnswer("no-name"))

    def start(self, _question: Dns, _take: TakesAnswer) -> None:
        raise AssertionError("every answer is known")


async def test_a_core_learns_and_its_workers_hear_of_it(deployment: Deployment) -> None:
    answerer = Answerer(Silent(), sender_histories=deployment.memory)
    pool = WorkerPool(PoolSettings(1, 60.0, 20.0, 1 << 29, unsealed=True), answerer.answer, shipped_policy())
    guard = Guard(
        Core(), deployment.store, pool, answerer, FairQueue(5, 5, 0.0), sender_histories=deployment.memory,
        clock=lambda: deployment.day * DAY_SECONDS + 5.0,
    )  # fmt: skip

    async def tags(sender: str) -> tuple[str, ...]:
        envelope = Envelope(sender, ("ann@house.example",), "192.0.2.9", "mx.partner.example", "t")
        result = await guard.scan(ScanRequest(new_id(), 1, envelope), BytesBody(MAIL.format(sender).encode()))
        assert isinstance(result, ScanResult)
        assert result.report.decision == "deliver", result.report.reason
        return result.report.tags

    await guard.start()
    try:
        assert "sender:first-contact" not in await tags("eve@partner.example"), "nothing is remembered yet"
        await deployment.next_day()
        assert "sender:first-contact" not in await tags("eve@partner.example")
        assert "sender:first-contact" in await tags("new@stranger.example")
    finally:
        await guard.stop()
    assert (await deployment.store.sightings.find("t", [ALL_MAIL]))[ALL_MAIL].delivered == 3


async def test_figures_for_prometheus(deployment: Deployment) -> None:
    await deployment.scan()
    await deployment.memory.flush()
    samples = [
        sample for family in SenderHistoryMetrics(deployment.memory.counters).collect() for sample in family.samples
    ]
    assert {sample.name: sample.value for sample in samples} == {
        "gatepost_acquaintance_questions_total": 1.0,
        "gatepost_acquaintance_lookups_total": 1.0,
        "gatepost_acquaintance_written_total": 3.0,
        "gatepost_acquaintance_dropped_total": 0.0,
    }
