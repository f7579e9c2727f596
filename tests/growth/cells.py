"""The matrix: every reader of strangers' bytes with each piece of what it reads, and every check with each unit at each
place of a message.

A cell is a function and a maker of inputs of any length, in which one unit stands again and again. Readers are those of
the table of fuzz targets, so that a new reader is in the matrix as soon as it is fuzzed; their units are the pieces of
their own seeds. Cells that are left out say why.
"""

import re
from collections.abc import Iterator
from functools import partial
from unittest.mock import patch

from bench.fuzz.readers import NOW, drive
from bench.fuzz.targets import TARGETS
from tests.growth.cell import Cell, repeat
from tests.growth.places import PLACES, UNITS, Made, Place

from gatepost.analysis import stages
from gatepost.analysis.analyse import analyse
from gatepost.analysis.stages import Context, Stages
from gatepost.checks.reading import Reading
from gatepost.checks.triggers import compile_triggers
from gatepost.findings.kinds import Finding

# Targets whose work is not decided by the size of their input, and why.
LEFT_OUT = {
    "page-scripts": "a script may loop: its time is limited, not its work",
    "page-browser": "a script may loop: its time is limited, not its work",
    "page-gates": "a script may loop: its time is limited, not its work",
    "large-pages": "it reads with limits of a few characters",
    "security-key": "its inputs are signed",
    "security-key-answer": "its inputs are signed",
    "provider-tokens": "its inputs are signed",
}
# Pieces of one seed that are repeated, and seeds of one target.
MOST_PIECES, MOST_SEEDS = 8, 4
_PIECE = re.compile(rb"[A-Za-z]+|[0-9]+|[ \t]+|\r?\n|[\x80-\xff]+|[^A-Za-z0-9 \t\r\n\x80-\xff]", re.DOTALL)
_ROWS = compile_triggers(stages.CHECK_STAGES)


def list_cells() -> dict[str, Cell]:
    """Return the whole matrix by the names of its cells."""
    return {cell.name: cell for cell in (*_list_reader_cells(), *_list_place_cells())}


def _list_place_cells() -> Iterator[Cell]:
    for place, fill in PLACES.items():
        for unit in UNITS:
            yield Cell(f"{place}: {unit!r}", analyse_all, partial(_fill_place, fill, unit))


def _fill_place(fill: Place, unit: bytes, size: int) -> Made:
    return fill(repeat(unit, size))


def analyse_all(made: Made) -> None:
    """Analyse a message, and call every check, also those that are left out where nothing of theirs is there."""
    raw, envelope = made
    run_checks = Stages.run_checks

    def run_all(self: Stages, reading: Reading) -> list[Finding]:
        for _, _, _, run in _ROWS:
            for _ in run(reading):
                pass
        return run_checks(self, reading)

    with patch.object(Stages, "run_checks", run_all):
        drive(analyse(raw, envelope, Context(now=NOW)), raw)


def _list_reader_cells() -> Iterator[Cell]:
    for target in TARGETS:
        if target.name in LEFT_OUT:
            continue
        seen: set[bytes] = set()
        for seed in target.seeds()[:MOST_SEEDS]:
            for before, unit, after in list_pieces(seed):
                if unit not in seen:
                    seen.add(unit)
                    shown = repr(unit if len(unit) < 40 else unit[:40] + b"...")
                    yield Cell(f"{target.name}: {shown}", target.run, partial(_fill, before, unit, after))


def _fill(before: bytes, unit: bytes, after: bytes, size: int) -> bytes:
    return before + repeat(unit, size) + after


def list_pieces(seed: bytes) -> Iterator[tuple[bytes, bytes, bytes]]:
    """Yield the whole of a seed, and some of its pieces with what stands before and after them: each is repeated at its
    place. Of one kind of piece only one is taken, of many those that are spread over the seed."""
    if seed:
        yield b"", seed, b""
    pieces = {match.group(): match for match in _PIECE.finditer(seed[:4_000])}
    step = max(1, -(-len(pieces) // MOST_PIECES))
    for match in list(pieces.values())[::step]:
        yield seed[: match.start()], match.group(), seed[match.end() :]
