"""Choosing a core and trying again, over cores that a test steers. `test_fair_queue` shows how messages wait at one."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.waiting_client import WaitingClient

from gatepost.abby.cores import MISSES_UNTIL_LOST, Cores, Down
from gatepost.analysis.report import undecided
from gatepost.api.errors import Failure
from gatepost.api.http import ClientLeft, ConnectedClient
from gatepost.mail.message import Envelope
from gatepost.scanning.request import Full, Load, ScanRequest, ScanResult
from gatepost.scanning.spool import BytesBody, MessageBody
from gatepost.view.values import NotShown
from gatepost.workers.protocol import Extracted


class Body(BytesBody):
    """Counts how often it had to make room."""

    def __init__(self, size: int) -> None:
        super().__init__(b"x" * size)
        self.parked = 0

    async def to_disk(self) -> None:
        self.parked += 1


class Core:
    """`others` are messages that come from elsewhere. `answers` is what happens to each scan, in order; by default it
    waits for a slot, first come first served, and is done once `open` is set."""

    def __init__(self, name: str = "core", maximum: int = 2, peeks: bool = False) -> None:
        self.name, self.enabled, self.maximum, self.peeks = name, True, maximum, peeks
        self.alive, self.others, self.mine, self.most, self.queued = True, 0, 0, 0, 0
        self.open = asyncio.Event()
        self.open.set()
        self.answers: list[Any] = []
        self.asked: list[str] = []
        self.loads = 0

    async def scan(
        self, request: ScanRequest, body: MessageBody, client: ConnectedClient
    ) -> ScanResult | Full | Down | ClientLeft:
        self.asked.append(request.ggrid)
        if not self.alive:
            return Down("dead", begun=False)
        if self.answers:
            answer = self.answers.pop(0)
            outcome: ScanResult | Full | Down = await answer(request) if callable(answer) else answer
            return outcome
        self.queued += 1
        try:
            while self.now.full:  # noqa: ASYNC110  the test changes it
                await asyncio.sleep(0.002)
        finally:
            self.queued -= 1
        self.mine += 1
        self.most = max(self.most, self.mine)
        try:
            await self.open.wait()
        finally:
            self.mine -= 1
        return ScanResult(request.ggrid, 0, 1, undecided(""))

    async def read_features(
        self, request: ScanRequest, body: MessageBody, client: ConnectedClient
    ) -> Extracted | NotShown | Full | Down | ClientLeft:
        return Extracted(b"", b"row") if self.alive else Down("dead", begun=False)

    async def ask_load(self) -> Load | Down:
        self.loads += 1
        return self.now if self.alive else Down("dead", begun=False)

    def load_now(self) -> Load | None:
        return self.now if self.peeks else None

    @property
    def waiting(self) -> tuple[int, int]:
        return (self.queued, 10 * self.queued) if self.peeks else (0, 0)

    def trust(self, ca: Path) -> None:
        self.trusted = ca

    @property
    def now(self) -> Load:
        return Load(self.mine + self.others, self.maximum, self.maximum, waiting=self.queued)

    async def close(self) -> None:
        self.alive = False


def request(ggrid: str = "1") -> ScanRequest:
    return ScanRequest(ggrid, 0, Envelope())


@contextlib.asynccontextmanager
async def running(*cores: Core, **options: Any) -> AsyncIterator[Cores]:
    made = Cores(cores, **{"poll_seconds": 0.02, "grace_seconds": 0.2, **options})
    await made.start()
    try:
        async with asyncio.timeout(60):
            yield made
        assert (made.waiting, made.waiting_bytes) == (0, 0)
    finally:
        await made.stop()


async def hanging() -> Load:
    await asyncio.sleep(60)
    raise AssertionError("not reached")


def submit(
    cores: Cores,
    ggrid: str = "1",
    client: WaitingClient | None = None,
    size: int = 10,
    seconds: float = 60.0,
    body: Body | None = None,
) -> Any:
    return asyncio.ensure_future(cores.scan(request(ggrid), body or Body(size), client or WaitingClient(), seconds))


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(180):
        while not condition():  # noqa: ASYNC110  what is waited for tells nobody
            await asyncio.sleep(0.002)


def code(outcome: Any) -> str:
    assert isinstance(outcome, Failure)
    return outcome.error.code


async def test_the_core_with_most_free_slots_is_taken() -> None:
    one, two, three = Core("one", 4), Core("two", 9), Core("three", 9)
    two.others = 8
    async with running(one, two, three) as cores:
        await submit(cores)
        assert (one.asked, two.asked, three.asked) == ([], [], ["1"])


async def test_scans_spread_and_wait_where_fewest_do() -> None:
    one, two = Core("one", 3), Core("two", 5)
    async with running(one, two) as cores:
        one.open.clear()
        two.open.clear()
        scans = [submit(cores, str(number)) for number in range(20)]
        await until(lambda: one.mine == 3 and two.mine == 5)
        await until(lambda: one.queued + two.queued == 12)
        assert abs(one.queued - two.queued) <= 1
        one.open.set()
        two.open.set()
        results = await asyncio.gather(*scans)
        assert [result.ggrid for result in results] == [str(number) for number in range(20)]
        assert (one.most, two.most) == (3, 5)
        assert len(one.asked) + len(two.asked) == 20, "each was sent once"


async def test_scans_that_wait_at_the_core_of_this_process_are_counted() -> None:
    core = Core(maximum=1, peeks=True)
    async with running(core) as cores:
        core.open.clear()
        scans = [submit(cores, str(number)) for number in range(4)]
        await until(lambda: core.queued == 3)
        assert (cores.waiting, cores.waiting_bytes) == (3, 30)
        core.open.set()
        assert all(isinstance(each, ScanResult) for each in await asyncio.gather(*scans))


async def test_a_core_that_takes_nothing_is_asked_again_when_it_has_told_its_load() -> None:
    core = Core(maximum=5)
    core.answers = [Full(Load(0, 5, 5))] * 2
    async with running(core) as cores:
        assert isinstance(await submit(cores), ScanResult)
        assert len(core.asked) == 3
        assert core.loads >= 3


async def test_a_core_that_ends_hands_what_waits_to_another() -> None:
    one, two = Core("one", 9), Core("two", 5)
    one.answers = [Full(Load(0, 9, 9))]
    async with running(one, two) as cores:
        assert isinstance(await submit(cores), ScanResult)
        assert (one.asked, two.asked) == (["1"], ["1"])


async def test_overloaded_only_where_every_core_is() -> None:
    one, two = Core("one", 9), Core("two", 5)
    one.answers = [Full(Load(9, 9, 9), overloaded=True)] * 2
    two.answers = [Full(Load(5, 5, 5), overloaded=True)]
    async with running(one, two) as cores:
        assert code(await submit(cores)) == "overloaded"
        await until(lambda: len(cores._states) == sum(state.takes_scans for state in cores._states))
        assert isinstance(await submit(cores), ScanResult)
        assert two.asked == ["1", "1"]


async def test_a_scan_that_will_wait_is_moved_to_disk_and_one_that_will_not_is_not() -> None:
    core = Core(maximum=1)
    async with running(core) as cores:
        core.open.clear()
        quick, slow = Body(10), Body(10)
        first = submit(cores, "1", body=quick)
        await until(lambda: core.mine == 1)
        second = submit(cores, "2", body=slow)
        await until(lambda: core.queued == 1)
        core.open.set()
        await asyncio.gather(first, second)
        assert (quick.parked, slow.parked) == (0, 1)


async def test_a_client_that_leaves_gives_up_its_scan() -> None:
    core = Core(maximum=1)
    async with running(core) as cores:
        core.open.clear()
        leaver = WaitingClient()
        scans = [submit(cores, "1"), submit(cores, "2", leaver), submit(cores, "3")]
        await until(lambda: core.queued == 2)
        leaver.leave.set()
        assert isinstance(await scans[1], ClientLeft)
        await until(lambda: core.queued == 1)
        core.open.set()
        await asyncio.gather(scans[0], scans[2])


async def test_a_client_that_leaves_while_no_core_answers() -> None:
    core = Core()
    async with running(core, grace_seconds=20) as cores:
        core.alive = False
        leaver = WaitingClient()
        scan = submit(cores, "1", leaver)
        await until(lambda: cores.waiting == 1)
        leaver.leave.set()
        assert isinstance(await scan, ClientLeft)
        core.alive = True


async def test_bytes_that_wait_for_a_core_have_a_limit() -> None:
    core = Core()
    async with running(core, waiting_limit=100, grace_seconds=20) as cores:
        core.alive = False
        waiting = submit(cores, "2", size=60)
        await until(lambda: cores.waiting == 1)
        assert cores.waiting_bytes == 60
        assert code(await submit(cores, "3", size=41)) == "overloaded"
        third = submit(cores, "4", size=40)
        await until(lambda: cores.waiting == 2)
        core.alive = True
        await asyncio.gather(waiting, third)


async def test_features_are_read_by_any_core() -> None:
    one, two = Core("one", 9), Core("two", 5)
    one.alive = False
    async with running(one, two) as cores:
        found = await cores.read_features(request(), Body(10), WaitingClient(), 60.0)
        assert isinstance(found, Extracted)
        assert found.row == b"row"


async def test_nothing_in_time() -> None:
    core = Core(maximum=1)
    async with running(core) as cores:
        core.open.clear()
        scans = [submit(cores, "1", seconds=0.1), submit(cores, "2", seconds=0.1)]
        assert [code(outcome) for outcome in await asyncio.gather(*scans)] == ["analysis_timeout"] * 2
        core.open.set()
        assert isinstance(await submit(cores), ScanResult)


async def test_a_core_that_dies_with_a_message_costs_nothing() -> None:
    one, two = Core("one", 9), Core("two", 5)

    async def die(_request: ScanRequest) -> Down:
        one.alive = False
        return Down("died")

    one.answers = [die]
    async with running(one, two) as cores:
        outcome = await submit(cores, "same")
        assert outcome.ggrid == "same"
        assert (one.asked, two.asked) == (["same"], ["same"])
        assert (await cores.status()).state == "YELLOW"
        await submit(cores, "next")
        assert one.asked == ["same"]
        one.alive = True
        await until(lambda: cores._states[0].takes_scans)
        await submit(cores, "last")
        assert one.asked == ["same", "last"]
        assert (await cores.status()).state == "GREEN"


async def test_a_message_that_kills_cores_is_given_up() -> None:
    core = Core()
    core.answers = [Down("died")] * 10
    async with running(core) as cores:
        assert code(await submit(cores)) == "core_unavailable"
        assert len(core.asked) == 3


async def test_a_core_that_fails_one_message_still_serves_others() -> None:
    core = Core()
    core.answers = [Down("it answered 500", answered=True)] * 3
    async with running(core, poll_seconds=60) as cores:
        assert code(await submit(cores)) == "core_unavailable"
        assert isinstance(await submit(cores, seconds=1), ScanResult)


async def test_a_restart_is_not_noticed() -> None:
    core = Core()
    async with running(core, grace_seconds=20) as cores:
        core.alive = False
        scan = submit(cores)
        await until(lambda: cores.waiting == 1)
        core.alive = True
        assert isinstance(await scan, ScanResult)


async def test_when_no_core_answers() -> None:
    core = Core()
    core.alive = False
    async with running(core) as cores:
        scans = [submit(cores, str(number)) for number in range(3)]
        assert [code(outcome) for outcome in await asyncio.gather(*scans)] == ["core_unavailable"] * 3
        assert (await cores.status()).state == "RED"
        assert not cores.answering
        heard = core.loads
        assert code(await submit(cores)) == "core_unavailable"  # at once, without a wait
        assert core.loads == heard
        core.alive = True
        await until(lambda: cores.answering == 1)
        assert isinstance(await submit(cores), ScanResult)


async def test_a_core_that_falls_silent_loses_what_it_holds() -> None:
    """A machine that loses its power closes no connection."""
    one, two = Core("one", 9), Core("two", 5)
    async with running(one, two) as cores:
        one.open.clear()
        scan = submit(cores)
        await until(lambda: one.mine == 1)
        one.alive = False
        assert isinstance(await scan, ScanResult)
        assert two.asked == ["1"]


async def test_a_core_that_does_not_tell_its_load_in_time_does_not_answer() -> None:
    core = Core()

    core.ask_load = hanging  # type: ignore[method-assign]
    async with running(core, load_seconds=0.05) as cores:
        assert code(await submit(cores)) == "core_unavailable"


async def test_scanning_disabled() -> None:
    one, two = Core("one", 9), Core("two", 5)
    one.enabled = two.enabled = False
    async with running(one, two) as cores:
        assert code(await submit(cores)) == "scanning_disabled"
        two.enabled = True
        assert isinstance(await submit(cores), ScanResult)
        assert one.asked == []


async def test_an_error_of_a_core_is_the_scans_alone() -> None:
    core = Core(maximum=1)

    async def fail(_request: ScanRequest) -> Down:
        raise RuntimeError("ours")

    core.answers = [fail]
    async with running(core) as cores:
        with pytest.raises(RuntimeError):
            await submit(cores)
        assert isinstance(await submit(cores), ScanResult)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.sampled_from(["done", "full", "down", "refused", "failed"]), max_size=12), st.integers(1, 3))
def test_whatever_cores_do_every_scan_ends_and_no_slot_is_lost(script: list[str], maximum: int) -> None:
    outcomes = {
        "full": Full(Load(maximum, maximum, maximum)),
        "down": Down("died"),
        "refused": Down("refused", begun=False),
        "failed": Down("failed", answered=True),
    }

    async def done(request: ScanRequest) -> ScanResult:
        return ScanResult(request.ggrid, 0, 1, undecided(""))

    async def scans() -> None:
        one, two = Core("one", maximum), Core("two", maximum)
        for index, word in enumerate(script):
            (one, two)[index % 2].answers.append(outcomes.get(word, done))

        async with running(one, two, grace_seconds=5) as cores:
            for outcome in await asyncio.gather(*(submit(cores, str(number)) for number in range(8))):
                assert isinstance(outcome, ScanResult | Failure)
            one.answers.clear()
            two.answers.clear()
            again = await asyncio.gather(*(submit(cores, str(number)) for number in range(8)))
            assert all(isinstance(outcome, ScanResult) for outcome in again)
            assert [place.begun for place in cores._states] == [0, 0]

    asyncio.run(scans())


async def test_what_a_silent_core_has_is_tried_beside_it_and_the_first_result_counts() -> None:
    one, two = Core("one", 9), Core("two", 5)
    async with running(one, two, silent_seconds=0.02, load_seconds=0.2) as cores:
        one.open.clear()
        scan = submit(cores, "same")
        await until(lambda: one.mine == 1)
        one.ask_load = hanging  # type: ignore[method-assign]
        assert (await scan).ggrid == "same"
        assert (one.asked, two.asked, cores.attempts_again) == (["same"], ["same"], 1)
        # Nobody waits for the other attempt any more, and the silent core gets nothing new.
        await until(lambda: one.mine == 0)
        await submit(cores, "next")
        assert (one.asked, two.asked) == (["same"], ["same", "next"])
        assert (await cores.status()).state == "YELLOW"
        del one.ask_load
        await until(lambda: cores._states[0].takes_scans)
        assert (await cores.status()).state == "GREEN"


async def test_a_silent_core_that_speaks_again_answers_what_it_has() -> None:
    one, two = Core("one", 9), Core("two", 1)
    async with running(one, two, silent_seconds=0.02, load_seconds=0.5) as cores:
        one.open.clear()
        two.open.clear()
        first = submit(cores, "first")
        await until(lambda: one.mine == 1)
        two.others = 1  # no slot to spare for a second attempt
        one.ask_load = hanging  # type: ignore[method-assign]
        await until(lambda: cores._states[0].silent)
        del one.ask_load
        await until(lambda: not cores._states[0].silent)
        two.others = 0
        await until(lambda: cores._states[1].free == 1)
        one.open.set()
        assert isinstance(await first, ScanResult)
        assert two.asked == []


async def test_a_lone_core_is_never_asked_twice_at_once_for_the_same() -> None:
    core = Core(maximum=9)
    async with running(core, silent_seconds=0.02, load_seconds=5) as cores:
        core.open.clear()
        scan = submit(cores)
        await until(lambda: core.mine == 1)
        core.ask_load = hanging  # type: ignore[method-assign]
        await until(lambda: cores._states[0].silent)
        assert (await cores.status()).state == "YELLOW"  # slow is not dead
        core.open.set()
        assert isinstance(await scan, ScanResult)
        assert core.asked == ["1"]


async def test_second_attempts_take_only_slots_that_nobody_waits_for() -> None:
    one, two = Core("one", 9), Core("two", 1)
    async with running(one, two, silent_seconds=0.02, load_seconds=5) as cores:
        one.open.clear()
        two.open.clear()
        stuck = submit(cores, "stuck")
        await until(lambda: one.mine == 1)
        two.others = 1
        await until(lambda: cores._states[1].free == 0)
        one.ask_load = hanging  # type: ignore[method-assign]
        await until(lambda: cores._states[0].silent)
        fresh = submit(cores, "fresh")
        await until(lambda: two.queued == 1)
        assert two.asked == ["fresh"], "there was no slot to spare"
        two.others = 0
        two.open.set()
        outcomes = await asyncio.gather(stuck, fresh)
        assert [outcome.ggrid for outcome in outcomes] == ["stuck", "fresh"]
        assert two.asked == ["fresh", "stuck"]
        one.open.set()


async def test_a_core_that_ends_finishes_what_it_has() -> None:
    """It takes no connections any more, and still answers on those that it has."""
    core = Core(maximum=9)

    async def closed() -> Down:
        return Down("nobody listens", begun=False, refused=True)

    async with running(core, grace_seconds=0.01) as cores:
        core.open.clear()
        scan = submit(cores)
        await until(lambda: core.mine == 1)
        core.ask_load = closed  # type: ignore[method-assign]
        await until(lambda: cores._states[0]._misses > MISSES_UNTIL_LOST)
        core.open.set()
        assert isinstance(await scan, ScanResult)
        assert core.asked == ["1"]


async def test_a_core_that_answers_and_takes_nothing_is_not_tried_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gatepost.abby.cores.MAX_REFUSALS", 4)
    core = Core(maximum=9)
    core.answers = [Down("not now", begun=False)] * 9
    async with running(core) as cores:
        outcome = await submit(cores)
        assert isinstance(outcome, Failure)
        assert outcome.error.status == 503
        assert len(core.asked) == 4
