"""Tenants with their mail in two databases: where rows are, what readers of all tenants see, and maps that are
refused."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import asyncpg
import pytest

from gatepost.ids import new_id
from gatepost.mail.message import Envelope
from gatepost.report import Report
from gatepost.store import open_store
from gatepost.store.audit import CLI, Actor, AuditFilter
from gatepost.store.engine import now
from gatepost.store.errors import StorageError
from gatepost.store.feedback import Noted
from gatepost.store.held_search import HeldFilter
from gatepost.store.message_records import Delivery, MessageRecord
from gatepost.store.privacy import Person
from gatepost.store.search_conditions import MessageFilter
from gatepost.store.sightings import SightingBatch
from gatepost.store.store import Store
from gatepost.store.tenant_databases import ID_RANGE, is_of_mail
from gatepost.store.tenant_map import TenantMap
from gatepost.store.tenants import Tenant

T = TypeVar("T")
OTHER = "other"
DAY = 86_400_000
ANN = Actor("user", "ann")


def query(url: str, statement: str) -> list[Any]:
    """A statement as somebody with the database runs it."""

    async def run() -> list[Any]:
        connection = await asyncpg.connect(url)
        try:
            return [tuple(row) for row in await connection.fetch(statement)]
        finally:
            await connection.close()

    return asyncio.run(run())


class House:
    """Two databases, and a tenant in each."""

    def __init__(self, first: str, other: str, folder: Path) -> None:
        self.first, self.other, self._folder = first, other, folder
        self.near, self.far = self.make("near"), self.make("far")
        self.map = TenantMap({OTHER: other}, {self.far: OTHER})

    def make(self, name: str) -> str:
        """Make a tenant and return its uid."""

        async def make(store: Store) -> str:
            tenant = await store.tenants.create(name)
            assert isinstance(tenant, Tenant)
            return tenant.uid

        return self.use(make, TenantMap())

    def use(self, scenario: Callable[[Store], Awaitable[T]], tenant_map: TenantMap | None = None) -> T:
        """Open the store with the map, and close it again."""

        async def run() -> T:
            store = open_store(self.first, self._folder, tenant_map=tenant_map or self.map)
            try:
                return await scenario(store)
            finally:
                await store.close()

        return asyncio.run(run())

    def mail(
        self, tenant: str | None, completed: int, to: str = "bob@far.example", subject: str = "Hi"
    ) -> MessageRecord:
        """A message that was held."""
        report = Report("spam", "quarantine", ("text:lure",), 730, "it adds up", subject=subject)
        envelope = Envelope("a@sender.example", (to,), "192.0.2.1", "mx", tenant)
        return MessageRecord(new_id(completed * 10**6), completed - 5, completed, envelope, 1_234, "ab" * 32, report)


@pytest.fixture
def house(postgres_url: str, other_postgres_url: str, tmp_path: Path) -> House:
    return House(postgres_url, other_postgres_url, tmp_path)


async def pages(find: Callable[..., Awaitable[Any]], wanted: Any, limit: int) -> list[Any]:
    """All pages of a search, as one list."""
    found: list[Any] = []
    cursor = None
    while True:
        page = await find(wanted, cursor, limit)
        found += page.rows
        cursor = page.next
        if cursor is None:
            return found


def test_rows_are_where_the_map_says(house: House) -> None:
    moment = now()
    near, far, alone = (house.mail(tenant, moment) for tenant in (house.near, house.far, None))

    async def scenario(store: Store) -> None:
        await asyncio.gather(*map(store.messages.record, (near, far, alone)))
        for record in (near, far, alone):
            assert await store.quarantine.hold(record)
        seen = [SightingBatch(tenant, 20_000, {1: 2, 7: 1}) for tenant in (house.near, house.far, None)]
        await store.sightings.record(seen)
        await store.messages.record_deliveries([Delivery(each.ggrid, moment, "mx", 250, "ok") for each in (near, far)])
        for tenant in (house.near, house.far, None):
            assert await store.sightings.count(tenant) == 2

    house.use(scenario)
    for table in ("messages", "held"):
        statement = f"SELECT ggrid FROM {table} ORDER BY ggrid"
        assert query(house.first, statement) == sorted([(near.ggrid,), (alone.ggrid,)])
        assert query(house.other, statement) == [(far.ggrid,)]
    for table, numbers in (("message_search", (2, 1)), ("message_recipients", (2, 1)), ("deliveries", (1, 1))):
        counts = [query(url, f"SELECT count(*) FROM {table}")[0][0] for url in (house.first, house.other)]
        assert tuple(counts) == numbers, table
    assert query(house.other, "SELECT id / 281474976710656 FROM messages") == [(1,)]
    assert query(house.first, "SELECT max(id) FROM messages")[0][0] < ID_RANGE
    assert query(house.other, "SELECT count(*) FROM tenants") == [(0,)]


def test_a_search_of_all_tenants_has_one_order_and_every_message_once(house: House) -> None:
    start = now() - DAY
    tenants = (house.near, house.far, None)
    # Some of the same moment, in both databases.
    records = [house.mail(tenants[step % 3], start + step // 4) for step in range(60)]

    async def scenario(store: Store) -> None:
        await asyncio.gather(*map(store.messages.record, records))
        await asyncio.gather(*map(store.quarantine.hold, records))
        for limit in (1, 7, 100):
            found = await pages(store.messages.search, MessageFilter(), limit)
            assert [row.completed for row in found] == sorted((each.completed for each in records), reverse=True)
            assert {row.ggrid for row in found} == {each.ggrid for each in records}
            assert len(found) == 60
            held = await pages(store.quarantine.search, HeldFilter(), limit)
            assert [(mail.kept, mail.record.ggrid) for mail in held] == sorted(
                ((mail.kept, mail.record.ggrid) for mail in held), reverse=True
            )
            assert len({mail.record.ggrid for mail in held}) == 60 == len(held)
            by_sender = await pages(store.quarantine.search, HeldFilter(sender="sender.example"), limit)
            assert len({mail.record.ggrid for mail in by_sender}) == 60 == len(by_sender)
            by_id = await pages(store.messages.search, MessageFilter(ggrid=records[0].ggrid[:8]), limit)
            assert {row.ggrid for row in by_id} == {each.ggrid for each in records}
            assert len(by_id) == 60
        own = await pages(store.messages.search, MessageFilter(tenant=house.far), 7)
        assert {row.ggrid for row in own} == {each.ggrid for each in records if each.envelope.tenant == house.far}
        assert (await store.messages.count(MessageFilter())).messages == 60
        assert (await store.quarantine.count(HeldFilter())).messages == 60
        assert (await store.quarantine.counts()).verdicts == {"spam": 60}
        assert await store.quarantine.totals() == (60, 60 * 1_234)
        recent = [record async for batch in store.messages.recent(None, 25) for record in batch]
        assert [each.completed for each in recent] == [row.completed for row in found[:25]]
        newest, second = held[0], held[1]
        assert await store.quarantine.newer(HeldFilter(), second) == newest.record.ggrid
        assert await store.quarantine.newer(HeldFilter(), newest) is None

    house.use(scenario)


def test_counts_of_all_tenants_are_added_up(house: House) -> None:
    moment = now()
    records = [house.mail(tenant, moment - step) for step, tenant in enumerate((house.near, house.far, None))]

    async def scenario(store: Store) -> None:
        await asyncio.gather(*map(store.messages.record, records))
        buckets = await store.traffic.buckets(None, moment - DAY, moment + DAY, DAY)
        assert sum(each.messages for each in buckets) == 3
        assert sum(each.decisions.get("quarantine", 0) for each in buckets) == 3
        assert (
            sum(each.messages for each in await store.traffic.buckets(house.far, moment - DAY, moment + DAY, DAY)) == 1
        )
        top = await store.traffic.top_values(None, moment - DAY, moment + 1)
        assert top.counted == 3
        assert top.senders == (("a@sender.example", 3),)
        assert len(top.tenants) == 2
        decided = await store.traffic.decided(None, moment - DAY, moment + DAY, DAY)
        assert sum(number for step in decided for number in step.results.values()) == 3
        assert (await store.traffic.held_findings(None, moment - DAY, moment + 1)).held == 3
        assert (await store.traffic.held_findings(house.far, moment - DAY, moment + 1)).held == 1
        assert [each.ggrid for each in await store.messages.summaries([each.ggrid for each in records])] == [
            each.ggrid for each in records
        ]
        await asyncio.gather(*map(store.quarantine.hold, records))
        flow = await store.quarantine.flow(None, moment - DAY, now() + 1)
        assert (flow.came_in, flow.still_held) == (3, 3)
        assert await store.quarantine.delete(records[1].ggrid, ANN)
        flow = await store.quarantine.flow(None, moment - DAY, now() + 1)
        assert (flow.came_in, flow.still_held, flow.deleted) == (3, 2, 1)

    house.use(scenario)


def test_a_message_is_found_by_its_id_and_what_is_done_with_it_is_in_one_audit_trail(house: House) -> None:
    far, gone = house.mail(house.far, now()), house.mail(house.far, now())

    async def scenario(store: Store) -> None:
        for record in (far, gone):
            await store.messages.record(record)
            await store.quarantine.hold(record)
        assert (await store.messages.find(far.ggrid)) is not None
        assert [line.ggrid for line in await store.messages.lines([far.ggrid])] == [far.ggrid]
        assert far.ggrid in await store.messages.heads([far.ggrid])
        assert await store.quarantine.needed_among([far.ggrid, new_id()]) == {far.ggrid}
        assert await store.quarantine.claim(far.ggrid, "here", now(), now() + 60_000)
        await store.quarantine.mark_released(far.ggrid, ["bob@far.example"], ANN, "here")
        found = await store.messages.find(far.ggrid)
        assert found
        assert found.release
        assert found.release.recipients == ("bob@far.example",)
        timeline = await store.messages.timeline(far.ggrid)
        assert timeline
        assert [each.action for each in timeline.actions] == ["quarantine.release"]
        assert await store.quarantine.delete(gone.ggrid, ANN, house.far, for_good=False)
        assert await store.quarantine.restore(gone.ggrid, ANN)
        assert isinstance(await store.feedback.report_wrong(far.ggrid, "should have been held", ANN), Noted)
        audit = await store.audit.page(AuditFilter(scope=house.far), limit=100)
        assert {"quarantine.release", "quarantine.delete", "quarantine.restore", "message.reported"} <= {
            each.action for each in audit.rows
        }

    house.use(scenario)
    assert query(house.other, "SELECT count(*) FROM audit") == [(0,)]


def test_an_address_is_erased_in_every_database(house: House) -> None:
    person = Person("bob@far.example")
    records = [house.mail(tenant, now()) for tenant in (house.near, house.far, None)]

    async def scenario(store: Store) -> None:
        for record in records:
            await store.messages.record(record)
            await store.quarantine.hold(record)
        found, after, _ = await store.privacy.messages_about(person)
        assert len(found) == 3
        assert after is None
        keys = [(record.completed, uid) for uid, record in found]
        assert await store.privacy.erase_messages(person, keys, "erased-1@x") == (3, 0)
        held, _, _ = await store.privacy.held_about(person)
        assert {mail.record.ggrid for mail in held} == {each.ggrid for each in records}
        for mail in held:
            assert await store.privacy.erase_held(person, mail.record.ggrid, "erased-1@x", CLI) == "deleted"
        assert (await store.privacy.messages_about(person))[0] == ()
        assert (await store.privacy.held_about(person))[0] == ()

    house.use(scenario)


def test_retention_and_the_end_of_a_tenant_reach_every_database(house: House) -> None:
    old, new = house.mail(house.far, now() - 40 * DAY), house.mail(house.far, now())
    near = house.mail(house.near, now())

    async def scenario(store: Store) -> None:
        await asyncio.gather(*map(store.messages.record, (old, new, near)))
        await store.quarantine.hold(new)
        assert await store.messages.purge(now() - 30 * DAY) == 1
        assert {row.ggrid for row in (await store.messages.search(MessageFilter())).rows} == {new.ggrid, near.ggrid}
        assert isinstance(await store.tenants.delete(house.far), Tenant)
        assert {row.ggrid for row in (await store.messages.search(MessageFilter())).rows} == {near.ggrid}

    house.use(scenario)
    for table in ("messages", "message_search", "message_recipients", "held"):
        assert query(house.other, f"SELECT count(*) FROM {table}") == [(0,)]

    async def leave(store: Store) -> None:
        # As where a kill ended the deletion: the next purge goes on with it, and with no other tenant's mail.
        await asyncio.gather(*map(store.messages.record, (house.mail(house.far, now()), near)))
        await store.messages.purge(0)

    house.use(leave)
    assert query(house.other, "SELECT count(*) FROM messages") == [(0,)]
    assert query(house.first, "SELECT count(*) FROM messages") == [(1,)]


def test_maps_that_cannot_be_right_are_refused(house: House, postgres_url: str) -> None:
    async def nothing(_store: Store) -> None:
        raise AssertionError

    def refused(databases: dict[str, str], tenants: dict[str, str]) -> str:
        with pytest.raises(StorageError) as caught:
            house.use(nothing, TenantMap(databases, tenants))
        return str(caught.value)

    unknown = new_id()
    assert "is no tenant" in refused({OTHER: house.other}, {unknown: OTHER})
    assert "one name" in refused({"another": house.other}, {})
    assert "first database itself" in refused({"again": postgres_url}, {})

    async def keep(store: Store) -> None:
        await store.messages.record(house.mail(house.near, now()))
        await store.messages.record(house.mail(house.far, now()))

    house.use(keep)
    said = refused({OTHER: house.other}, {house.near: OTHER, house.far: OTHER})
    assert f"mail of tenant {house.near} is in database first" in said
    assert "gatepost tenant move" in said
    said = refused({OTHER: house.other}, {})
    assert f"mail of tenant {house.far} is in database other" in said


def test_a_database_of_another_deployment_is_refused(house: House) -> None:
    query(house.other, f"INSERT INTO tenants (uid, name, created) VALUES ('{new_id()}', 'theirs', 1)")
    with pytest.raises(StorageError, match="has tenants of its own"):
        house.use(lambda _store: asyncio.sleep(0))


def test_a_database_that_does_not_answer_stops_its_tenants_alone(house: House) -> None:
    near, far = house.mail(house.near, now()), house.mail(house.far, now())
    query(house.first, "ALTER DATABASE gatepost_other ALLOW_CONNECTIONS false")
    try:

        async def without(store: Store) -> None:
            assert (await store.messages.record(near)) is near
            with pytest.raises(StorageError):
                await store.messages.record(far)
            assert (await store.messages.find(near.ggrid)) is not None
            # It may be there: nobody is told that it is not.
            with pytest.raises(StorageError):
                await store.messages.find(far.ggrid)
            with pytest.raises(StorageError):
                await store.messages.search(MessageFilter())
            assert [row.ggrid for row in (await store.messages.search(MessageFilter(tenant=house.near))).rows] == [
                near.ggrid
            ]
            (fault,) = await store.faults_of_tenants()
            assert fault.startswith("database other cannot be used: ")
            await asyncio.to_thread(query, house.first, "ALTER DATABASE gatepost_other ALLOW_CONNECTIONS true")
            for _ in range(50):
                if not await store.faults_of_tenants():
                    break
                await asyncio.sleep(0.1)
            assert (await store.messages.record(far)) is far

        house.use(without)
    finally:
        query(house.first, "ALTER DATABASE gatepost_other ALLOW_CONNECTIONS true")


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("SELECT 1 FROM held WHERE ggrid = $1 FOR UPDATE", True),
        ("INSERT INTO traffic (a) VALUES (1) ON CONFLICT (a) DO UPDATE SET messages = 1", True),
        ("DELETE FROM deliveries USING unnest($1) AS gone", True),
        ("SELECT count(*) FROM tenants", False),
        ("UPDATE campaign_marks SET says = 'held'", False),
        ("INSERT INTO audit (time) VALUES ($1)", False),
    ],
)
def test_statements_on_mail(statement: str, expected: bool) -> None:
    assert is_of_mail(statement) is expected
