"""No reader and no check does more than a linear amount of work for what a stranger writes, wherever it stands.

`cells.py` makes the matrix, of every reader and check with every unit that can be repeated. All cells of a run are
looked at by CPU time, and those that seem steep again, which only chooses: instructions decide about the rest.
`make test` runs a portion that is another one each day, `make test-long` all of them, and both say how many.
"""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import BuiltinFunctionType, FrameType
from zlib import crc32

import pytest
from bench.fuzz.targets import TARGETS
from tests.growth import counter
from tests.growth.cell import LINEAR, LONG, QUADRATIC
from tests.growth.cells import LEFT_OUT, analyse_all, list_cells
from tests.growth.counter import list_commands, make_environment

from gatepost import speedups

# Days until each cell has had its turn in `make test`.
PORTIONS = 48
Found = dict[str, object]
# The processes that measure have a limit of their own for each cell, in CPU seconds.
pytestmark = pytest.mark.timeout(3_000)


def run_cells(command: list[str], environment: dict[str, str], names: list[str]) -> Iterator[Found]:
    """Measure cells in a process of its own, and in another one those after a cell that ends it."""
    left = names
    while left:
        given = "".join(f"{json.dumps(name)}\n" for name in left)
        done = subprocess.run(command, env=environment, input=given, capture_output=True, text=True, check=False)
        found: list[Found] = [json.loads(line) for line in done.stdout.splitlines()]
        yield from found
        if len(found) < len(left):
            reason = f"the process ended with {done.returncode}: {done.stderr[-2_000:]}"
            yield {"cell": left[len(found)], "works": [], "by": reason, "is_bad": True}
        left = left[len(found) + 1 :]


def find_superlinear(names: list[str], folder: Path) -> list[str]:
    """Return a line for each of these cells whose work grows faster than its input, or that does not return."""
    lost: list[Found] = []
    steep = [Found(cell=name) for name in names]
    for command in list_commands(folder):
        asked = [str(each["cell"]) for each in steep]
        measured = list(run_cells(command, make_environment(), asked))
        assert len(measured) == len(asked)
        lost += [each for each in measured if each["is_bad"] and not each["works"]]
        steep = [each for each in measured if each["is_bad"] and each["works"]]
    return [f"{each['cell']}: {each['works']} ({each['by']})" for each in (*lost, *steep)]


def choose_portion(names: list[str], day: int) -> list[str]:
    """Return the cells whose turn it is on a day."""
    return [name for name in names if crc32(name.encode()) % PORTIONS == day % PORTIONS]


def measure_portion(day: int, folder: Path, record_property: Callable[[str, object], None]) -> None:
    """Measure the cells of a day; how many there are is said in the end."""
    names = list(list_cells())
    portion = choose_portion(names, day)
    record_property("growth", (len(portion), len(names)))
    assert find_superlinear(portion, folder) == []


@pytest.mark.process
def test_work_grows_with_the_input(tmp_path: Path, record_property: Callable[[str, object], None]) -> None:
    measure_portion(datetime.now(UTC).toordinal(), tmp_path, record_property)


@pytest.mark.long
@pytest.mark.parametrize("day", range(PORTIONS))
def test_work_grows_with_the_input_in_every_cell(
    day: int, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    measure_portion(day, tmp_path, record_property)


def test_each_cell_has_its_day() -> None:
    names = list(list_cells())
    portions = [choose_portion(names, day) for day in range(PORTIONS)]
    assert sorted(name for portion in portions for name in portion) == sorted(names)
    assert max(map(len, portions)) < 2 * len(names) / PORTIONS


@pytest.mark.process
def test_what_is_quadratic_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the number of calls is linear."""
    monkeypatch.setattr(counter, "build", lambda _folder: None)
    (found,) = find_superlinear([QUADRATIC.name, LINEAR.name], tmp_path)
    assert found.startswith(QUADRATIC.name)


@pytest.mark.process
def test_instructions_tell_it_as_well(tmp_path: Path) -> None:
    *_, command = list_commands(tmp_path)
    if command[0] != "valgrind":
        pytest.skip("not run: there is no valgrind, or no compiler")
    measured = run_cells(command, make_environment(), [LONG.name, LINEAR.name])
    assert [each["is_bad"] for each in measured] == [True, False]


def test_what_is_left_out_is_a_target() -> None:
    assert LEFT_OUT.keys() < {target.name for target in TARGETS}


@pytest.mark.skipif(speedups.native is None, reason="not run: there is no native code")
def test_every_native_entry_is_measured() -> None:
    """Each function of the native module is called by a cell: those of its twins, of the readers or of a message."""
    called: set[str] = set()

    def note(_frame: FrameType, event: str, function: object) -> None:
        if event == "c_call" and isinstance(function, BuiltinFunctionType):
            called.add(function.__name__)

    cells = [cell for cell in list_cells().values() if cell.name.startswith("native-") or cell.run is analyse_all]
    sys.setprofile(note)
    try:
        for cell in (*(cell for cell in cells if cell.run is not analyse_all), *cells[::400]):
            cell.run(cell.make(300))
    finally:
        sys.setprofile(None)
    functions = {name for name, each in vars(speedups.native).items() if isinstance(each, BuiltinFunctionType)}
    # Of what ships, and kept since the first start.
    assert functions - called <= {"pack_phrases", "pack_concepts"}
