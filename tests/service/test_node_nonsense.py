"""A front that writes nonsense into the memory of its node: others may wait, but none fails, and all recover."""

import os
import random
import struct

import pytest

from gatepost.abby.authenticator import Guesses
from gatepost.api.connections import AcceptBalance
from gatepost.service.node import NodeCells
from gatepost.smtp.outbound import HourlyLimits, SenderLimits
from gatepost.workers.slot_counts import SharedCounts

NUMBERS = (0, 1, -1, 2**31, 2**53, 2**60, -(2**60), 2**62, 2**63 - 1, -(2**63), 1 << 40)
SENDER, ADDRESS, TENANT = "a@x.example", "192.0.2.1", "7c9e6679"


def spoil(cells: NodeCells, seed: int) -> None:
    """Write nonsense into every cell that is in use, and on the boards of figures."""
    chance, memory = random.Random(seed), cells.memory
    choices = (NUMBERS, [chance.getrandbits(63) for _ in range(99)], [2**63 - 1], [-(2**63)])[seed % 4]
    raw = struct.pack(f"<{4_096}q", *(chance.choice(choices) for _ in range(4_096)))
    block = memoryview(raw).cast("q")
    for start in range(0, memory._used, len(block)):
        stop = min(start + len(block), memory._used)
        memory._cells[start:stop] = block[: stop - start]
    for board in cells.boards._boards:
        os.ftruncate(board, 0)
        os.pwrite(board, chance.randbytes(chance.choice((0, 1, 100, 10_000))), 0)


def keep_names(cells: NodeCells) -> None:
    """Leave the keys of some names in place, so that their numbers are read and not only looked for."""
    memory = cells.memory
    for records, name in (
        (cells.senders, SENDER),
        (cells.secret_guesses._wrong_guesses, ADDRESS),
        (cells.guesses.pages._wrong_guesses, ADDRESS),  # type: ignore[attr-defined]
    ):
        digest = memory.digest(name)
        start = digest % records._places * 8
        records._keys[start] = digest
    for tally, name in ((cells.calls, "token:x"), (cells.queue.slots, TENANT), (cells.queue.waiting, TENANT)):
        digest = memory.digest(name)
        tally._keys[digest % tally._places * 8] = digest


def use_everything(cells: NodeCells) -> None:
    """Do what a front does with each kind of cell."""
    for name in (SENDER, "another@x.example"):
        limits = SenderLimits(HourlyLimits(messages=5, recipients=5, refused=5), cells.senders)
        for _ in range(3):
            limits.check(name, 2)
            limits.count(name, messages=1, recipients=2, refused=1)
    for memory in (cells.secret_guesses, cells.guesses.pages):
        guesses = Guesses(lambda: 1_000.0, memory)
        for _ in range(3):
            waited = guesses.take_turn(ADDRESS)
            assert waited is None or waited >= 0
            guesses.give_back(ADDRESS)
            assert guesses.delay(ADDRESS, None) >= 0
    for tally in (cells.calls, *cells.connections.values()):
        with tally:
            assert isinstance(tally.count("token:x"), int)
            tally.add("token:x")
            tally.remove("token:x")
        tally.find_or_share("token:y")
    counts = SharedCounts(cells.queue)
    for _ in range(3):
        counts.tenants.note(TENANT)
        assert counts.tenants.are_several in (True, False)
        counts.turns.join(TENANT)
        place = (counts.turns.start_of(TENANT), 1)
        counts.is_next(place if abs(place[0]) < 2**62 else None)
        counts.turns.take(TENANT)
        if counts.take(TENANT, 10) is not None:
            counts.give_back(TENANT)
        counts.turns.leave(TENANT)
        assert isinstance(counts.in_processing + counts.waiting + counts.waiting_bytes, int)
    balance = AcceptBalance(cells.open["api"])
    assert balance.is_ahead in (True, False)
    balance.count(1)
    balance.count(-1)
    cells.boards.read_others()
    cells.boards.write(())
    cells.boards.retire(1)
    assert isinstance(cells.boards.restarts, int)


@pytest.mark.parametrize("seed", range(12))
def test_nonsense_makes_nobody_fail(seed: int) -> None:
    cells = NodeCells(2, ("api", "smtp"), 50)
    spoil(cells, seed)
    keep_names(cells)
    use_everything(cells)


def test_limits_hold_again_once_the_front_has_ended() -> None:
    """What a member wrote into its own cells is gone with it."""
    cells = NodeCells(2, ("api",), 50)
    for columns in cells.memory._columns:
        columns[1][:] = memoryview(struct.pack("<q", 2**63 - 1) * len(columns[1])).cast("q")
    assert SharedCounts(cells.queue).take(TENANT, 4) is None
    assert cells.forget(1)
    assert SharedCounts(cells.queue).take(TENANT, 4) == 0
