"""Traffic in buckets, on both engines: the same as counting the messages, which nobody does."""

import asyncio

import msgspec
import pytest
from tests.store.accounts import new_tenant
from tests.store.conftest import NewRecord

from gatepost.store import traffic
from gatepost.store.message_records import MessageRecord
from gatepost.store.store import Store
from gatepost.store.traffic import BINS, BUCKET_MILLISECONDS, MAX_STEPS, TrafficBucket
from gatepost.times import now

FIVE = BUCKET_MILLISECONDS


def judged(record: MessageRecord, verdict: str, decision: str, took: int = 1, size: int = 10) -> MessageRecord:
    report = msgspec.structs.replace(record.report, verdict=verdict, decision=decision)
    return msgspec.structs.replace(record, report=report, created=record.completed - took, size=size)


def bins(*places: int) -> tuple[int, ...]:
    return tuple(places.count(n) for n in range(BINS))


@pytest.mark.parametrize(("milliseconds", "place"), [(0, 0), (1, 1), (2, 2), (3, 2), (4, 3), (1023, 10), (1 << 40, 17)])
def test_bins_double(milliseconds: int, place: int) -> None:
    assert traffic.bin_of(milliseconds) == place


def test_percentiles() -> None:
    bucket = TrafficBucket(0, messages=100, longest=900, latency=(0, 0, 50, 0, 49, *([0] * 5), 1, *([0] * 7)))
    assert (bucket.percentile(0.5), bucket.percentile(0.51), bucket.percentile(0.99)) == (4, 16, 16)
    assert bucket.percentile(1.0) == 900, "never more than there was"
    assert TrafficBucket(0).percentile(0.99) == 0


async def test_what_is_kept_is_counted(store: Store, new_record: NewRecord) -> None:
    tenant = await new_tenant(store)
    records = [
        judged(new_record(completed=FIVE), "clean", "deliver", 3, 100),
        judged(new_record(completed=2 * FIVE - 1, tenant=tenant.uid), "spam", "quarantine", 900, 50),
        judged(new_record(completed=2 * FIVE, tenant=tenant.uid), "clean", "deliver", 5, 7),
        judged(new_record(completed=2 * FIVE + 1, tenant=tenant.uid), "clean", "quarantine", -5, 1),
    ]
    await asyncio.gather(*map(store.messages.record, records))
    assert await store.traffic.buckets(None, FIVE, 3 * FIVE, FIVE) == (
        TrafficBucket(
            *(FIVE, 2, 150, 903, 900, bins(2, 10)),
            {"clean": 1, "spam": 1},
            {"deliver": 1, "quarantine": 1},
        ),
        TrafficBucket(2 * FIVE, 2, 8, 5, 5, bins(0, 3), {"clean": 2}, {"deliver": 1, "quarantine": 1}),
    )
    mine = await store.traffic.buckets(tenant.uid.upper(), 0, 4 * FIVE, 2 * FIVE)
    assert [(each.start, each.messages, each.bytes) for each in mine] == [(0, 1, 50), (2 * FIVE, 2, 8)]
    assert [each.messages for each in await store.traffic.buckets("stranger", 0, 4 * FIVE, 2 * FIVE)] == [0, 0]
    await store.tenants.delete(tenant.uid)
    assert sum(each.messages for each in await store.traffic.buckets(tenant.uid, 0, 4 * FIVE, FIVE)) == 0
    assert sum(each.messages for each in await store.traffic.buckets(None, 0, 4 * FIVE, FIVE)) == 4


async def test_steps_are_whole_and_not_too_many(store: Store) -> None:
    assert [each.start for each in await store.traffic.buckets(None, FIVE + 1, 3 * FIVE + 1, 1)] == [
        FIVE,
        2 * FIVE,
        3 * FIVE,
    ]
    assert [each.start for each in await store.traffic.buckets(None, 0, 3 * FIVE, FIVE + 1)] == [0, 2 * FIVE]
    assert await store.traffic.buckets(None, 5, 5, 0) == (TrafficBucket(0),)
    assert await store.traffic.buckets(None, 9 * FIVE, FIVE, FIVE) == ()
    many = await store.traffic.buckets(None, -5, 1 << 45, FIVE)
    assert len(many) == MAX_STEPS
    assert many[-1].start + FIVE >= 1 << 45


async def test_many_at_once_lose_no_count(store: Store, new_record: NewRecord) -> None:
    records = [judged(new_record(completed=n), "clean", "deliver", n % 9) for n in range(200)]
    await asyncio.gather(*map(store.messages.record, records))
    (bucket,) = await store.traffic.buckets(None, 0, FIVE, FIVE)
    assert (bucket.messages, bucket.bytes, sum(bucket.latency)) == (200, 2_000, 200)
    # All is long ago: parts are added up, and nothing else changes.
    await store.messages.purge(-FIVE)
    assert await store.traffic.buckets(None, 0, FIVE, FIVE) == (bucket,)
    await store.messages.record(judged(new_record(completed=5), "clean", "deliver", 70_000))
    await store.messages.purge(-FIVE)
    (after,) = await store.traffic.buckets(None, 0, FIVE, FIVE)
    assert (after.messages, after.longest) == (201, 70_000)


async def test_it_goes_with_the_messages(store: Store, new_record: NewRecord) -> None:
    start = now() // FIVE * FIVE - 10 * FIVE
    records = [new_record(completed=start + n * FIVE) for n in range(4)]
    await asyncio.gather(*map(store.messages.record, records))
    await store.messages.purge(start + 2 * FIVE + 1)
    left = [each.messages for each in await store.traffic.buckets(None, start, start + 4 * FIVE, FIVE)]
    assert left == [0, 0, 1, 1], "a bucket goes when all of it is past"


async def test_after_nine_days_it_is_kept_by_the_hour(store: Store, new_record: NewRecord) -> None:
    """The rows become few, and no sum changes; younger ones stay as they are."""
    tenant = await new_tenant(store)
    hour = traffic.HOUR_MILLISECONDS
    old = (now() - traffic.HOURLY_MILLISECONDS) // hour * hour - 2 * hour
    young = old + 2 * hour
    records = [
        judged(new_record(completed=start + n * FIVE, tenant=tenant.uid), verdict, "deliver", 10 * n, n)
        for start in (old, old + hour, young)
        for n in range(12)
        for verdict in ("clean", "bulk")
    ]
    await asyncio.gather(*map(store.messages.record, records))
    scopes = (None, tenant.uid)
    before = [await store.traffic.buckets(scope, old, young + hour, hour) for scope in scopes]
    await store.messages.purge(0)
    assert [await store.traffic.buckets(scope, old, young + hour, hour) for scope in scopes] == before
    for scope in scopes:
        shown = await store.traffic.buckets(scope, old, young + hour, FIVE)
        assert [each.messages for each in shown] == [24, *[0] * 11] * 2 + [2] * 12
        assert [each.longest for each in shown[:13]] == [110, *[0] * 11, 110]
    # What comes late is added to its hour, and merging again changes nothing.
    await store.messages.record(judged(new_record(completed=old + FIVE), "clean", "deliver", 5_000, 7))
    for _ in range(2):
        await store.messages.purge(0)
        first = (await store.traffic.buckets(None, old, old + hour, hour))[0]
        assert (first.messages, first.longest, first.bytes) == (25, 5_000, before[0][0].bytes + 7)
