"""Changes that come at nearly the same time are written together, and nobody waits who is alone."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import msgspec
import pytest
from tests.store.conftest import NewRecord

from gatepost.store.change_groups import MAX_TOGETHER, ChangeGroups
from gatepost.store.store import Store


class Written:
    """Groups as they were written; each is written when `gate` is open."""

    def __init__(self) -> None:
        self.groups: list[list[int]] = []
        self.gate = asyncio.Event()
        self.gate.set()

    async def write(self, numbers: Sequence[int]) -> Sequence[str | Exception]:
        self.groups.append(list(numbers))
        await self.gate.wait()
        if 666 in numbers:
            raise OSError("the disk is full")
        return [ValueError(number) if number < 0 else str(number) for number in numbers]


def run(scenario: Callable[[Written, ChangeGroups[int, str]], Awaitable[None]], most: int = 1) -> None:
    async def body() -> None:
        written = Written()
        groups: ChangeGroups[int, str] = ChangeGroups(written.write, most)
        await scenario(written, groups)

    asyncio.run(body())


def test_one_that_is_alone_never_waits_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gatepost.store.change_groups.LINGER_SECONDS", 3_600)

    async def scenario(written: Written, groups: ChangeGroups[int, str]) -> None:
        assert await groups.add(1) == "1"
        assert await groups.add(2, others=1) == "2"
        assert written.groups == [[1], [2]]

    run(scenario)


def test_it_waits_for_half_of_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gatepost.store.change_groups.LINGER_SECONDS", 3_600)

    async def scenario(written: Written, groups: ChangeGroups[int, str]) -> None:
        results = await asyncio.gather(*(groups.add(number, others=5) for number in range(3)))
        assert results == ["0", "1", "2"]
        assert written.groups == [[0, 1, 2]]

    run(scenario)


def test_it_waits_for_a_moment_only() -> None:
    async def scenario(written: Written, groups: ChangeGroups[int, str]) -> None:
        async with asyncio.timeout(60):
            assert await groups.add(1, others=1_000) == "1"
        assert written.groups == [[1]]

    run(scenario)


@pytest.mark.parametrize("most", [1, 2])
def test_what_comes_during_a_commit_shares_the_next(most: int) -> None:
    async def scenario(written: Written, groups: ChangeGroups[int, str]) -> None:
        written.gate.clear()
        asked = [asyncio.ensure_future(groups.add(number)) for number in range(MAX_TOGETHER + 10)]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert written.groups == [[number] for number in range(most)]
        written.gate.set()
        assert await asyncio.gather(*asked) == [str(number) for number in range(len(asked))]
        assert [len(group) for group in written.groups] == [*[1] * most, MAX_TOGETHER, 10 - most]

    run(scenario, most)


def test_a_fault_is_told_to_those_whom_it_concerns() -> None:
    async def scenario(written: Written, groups: ChangeGroups[int, str]) -> None:
        results = await asyncio.gather(*(groups.add(number, 5) for number in (1, -1, 2)), return_exceptions=True)
        assert (results[0], results[2]) == ("1", "2")
        assert isinstance(results[1], ValueError)
        results = await asyncio.gather(*(groups.add(number, 5) for number in (1, 666, 2)), return_exceptions=True)
        assert all(isinstance(result, OSError) for result in results)
        assert await groups.add(3) == "3", "it goes on"
        written.gate.clear()
        gone = asyncio.ensure_future(groups.add(4))
        await asyncio.sleep(0)
        gone.cancel()
        written.gate.set()
        assert await groups.add(5) == "5", "somebody who gave up is no trouble"
        assert groups.state[:2] == (5, 4), "1, 2, 3, 4 and 5 were written"
        written.gate.clear()
        late = asyncio.ensure_future(groups.add(6))
        await asyncio.sleep(0.05)
        assert groups.state.seconds >= 0.05
        written.gate.set()
        await late

    run(scenario)


def test_the_end_waits_for_what_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gatepost.store.change_groups.LINGER_SECONDS", 3_600)

    async def scenario(written: Written, groups: ChangeGroups[int, str]) -> None:
        await groups.finish()
        asked = [asyncio.ensure_future(groups.add(number, others=100)) for number in range(3)]
        await asyncio.sleep(0)
        await groups.finish()
        assert written.groups == [[0, 1, 2]]
        assert [await each for each in asked] == ["0", "1", "2"]

    run(scenario)


def test_every_event_loop_can_have_changes_written() -> None:
    async def write(numbers: Sequence[int]) -> Sequence[str | Exception]:
        return [ValueError(number) if number < 0 else str(number) for number in numbers]

    groups: ChangeGroups[int, str] = ChangeGroups(write, 1)
    assert asyncio.run(groups.add(1)) == "1"
    assert asyncio.run(groups.add(2)) == "2", "the loop before has ended"

    async def beside() -> None:
        await groups.add(3)
        assert await asyncio.to_thread(asyncio.run, groups.add(4)) == "4"
        with pytest.raises(ValueError, match="-5"):
            await asyncio.to_thread(asyncio.run, groups.add(-5))

    asyncio.run(beside())


async def test_records_share_commits(store: Store, new_record: NewRecord) -> None:
    before = store.counters()
    records = [new_record(subject=str(number)) for number in range(40)]
    twice = new_record(ggrid=records[3].ggrid.upper(), subject="another")
    asked = [*records[:20], twice, *records[20:]]
    kept = await asyncio.gather(*(store.messages.record(record, len(asked)) for record in asked))
    # PostgreSQL writes two groups at once, so that either of the two may be the first. A record that is read again
    # has its ggrid in small letters.
    first = msgspec.structs.replace(kept[3], ggrid=records[3].ggrid)
    assert first in (records[3], msgspec.structs.replace(twice, ggrid=records[3].ggrid))
    assert msgspec.structs.replace(kept[20], ggrid=records[3].ggrid) == first, "the first of a ggrid stays"
    assert [*kept[:3], *kept[4:20], *kept[21:]] == [*records[:3], *records[4:]]
    after = store.counters()
    assert after.changes - before.changes == 41
    assert after.commits - before.commits <= 3
    assert await store.messages.find(records[3].ggrid) == first
