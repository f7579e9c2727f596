"""Measures cells of the matrix in a process of its own: `python -m tests.growth.measure FOLDER look`, or `again`, or
`exact`, reads names of cells, a line each, and writes a line of JSON for each: its name, the work for inputs of next to
nothing, n and more, by what it was measured, and whether it grew faster than its input. A cell that does not return
ends the process.
"""

import json
import signal
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from tests.growth.cell import KNOWN, Cell
from tests.growth.counter import Counter, find_counter

SMALLEST = 200


def measure(cell: Cell, counter: Counter) -> tuple[list[int], bool]:
    """Return the work for next to nothing and for each size, and whether the last two steps were steep: one alone is
    that from one way of reading to a dearer one. Work that is bounded, by a number of readings for example, may grow
    steeply until it meets its bound, so a counter that decides goes on to the largest size."""
    works: list[int] = []
    steep = 0
    for size in (SMALLEST, *counter.sizes):
        made = cell.make(size)
        works.append(counter.count(partial(cell.run, made)))
        steep = steep + 1 if len(works) > 2 and is_steep(works, counter) else 0
        if not counter.is_patient and (steep == 2 or (len(works) > 2 and not steep)):
            break
    return works, steep >= 2


def is_steep(works: list[int], counter: Counter) -> bool:
    """Return whether the last step was: what is there without any input does not count, nor does what is hardly any."""
    least = works[0]
    return works[-1] - least > counter.steep * max(works[-2] - least, least // 4, counter.least)


def measure_all(names: list[str], counter: Counter) -> Iterator[dict[str, object]]:
    cells = KNOWN if set(names) <= KNOWN.keys() else _load_cells()
    for name in names:
        signal.setitimer(signal.ITIMER_PROF, counter.longest)
        works, is_bad = measure(cells[name], counter)
        yield {"cell": name, "works": works, "by": counter.name, "is_bad": is_bad}


def _load_cells() -> dict[str, Cell]:
    """What loads every reader takes half a minute under valgrind, and the known cells need none."""
    from tests.growth.cells import list_cells

    return list_cells()


def main() -> None:
    names = [json.loads(line) for line in sys.stdin]
    for found in measure_all(names, find_counter(Path(sys.argv[1]), sys.argv[2])):
        sys.stdout.write(f"{json.dumps(found)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
