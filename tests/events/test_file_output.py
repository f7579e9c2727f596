"""The file of events: private, rotated, opened again when it was moved away, and written by several processes."""

import json
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from tests.events.receivers import make_events

from gatepost.events.output import FileOutput

LARGE = 1 << 30


def read_ids(*paths: Path) -> list[str]:
    return [json.loads(line)["id"] for path in paths for line in path.read_bytes().splitlines()]


def test_lines_are_appended_and_private(tmp_path: Path) -> None:
    path = tmp_path / "new" / "events.jsonl"
    output, events = FileOutput(path, LARGE, 5), make_events(3)
    output.write(events[:2])
    output.write(events[2:])
    output.close(1)
    assert read_ids(path) == [event.id for event in events]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert output.counters().delivered == 3


def test_a_file_is_renamed_at_its_size_and_so_many_are_kept(tmp_path: Path) -> None:
    path, events = tmp_path / "e", make_events(100)
    size = len(events[0].line) + 1
    output = FileOutput(path, size * 10 + 30, 3)
    for event in events:
        output.write([event])
    files = [tmp_path / "e.3", tmp_path / "e.2", tmp_path / "e.1", path]
    assert read_ids(*files) == [event.id for event in events[60:]]
    assert all(file.stat().st_size <= size * 10 + 30 for file in files)
    assert not (tmp_path / "e.4").exists()


@pytest.mark.parametrize("how", ["moved", "deleted"])
def test_a_file_that_was_taken_away_is_started_anew(tmp_path: Path, how: str) -> None:
    path, events = tmp_path / "e", make_events(2)
    output = FileOutput(path, LARGE, 5)
    output.write(events[:1])
    path.rename(tmp_path / "elsewhere") if how == "moved" else path.unlink()
    output.write(events[1:])
    assert read_ids(path) == [events[1].id]


def test_events_wait_for_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    path, events = tmp_path / "e", make_events(3)
    path.mkdir()
    output = FileOutput(path, LARGE, 5)
    output.write(events[:1])
    output.write(events[1:2])
    assert (output.counters().delivered, output.counters().failures) == (0, 2)
    assert output.counters().waiting_bytes == sum(len(event.line) for event in events[:2])
    path.rmdir()
    output.write(events[2:])
    assert read_ids(path) == [event.id for event in events]
    assert output.counters().waiting_bytes == 0


def test_the_oldest_are_dropped_where_too_many_wait(tmp_path: Path) -> None:
    path, events = tmp_path / "e", make_events(20, "x" * 1_000_000)
    path.mkdir()
    output = FileOutput(path, LARGE, 5)
    output.write(events)
    path.rmdir()
    output.write([])
    assert read_ids(path) == [event.id for event in events[12:]]
    assert output.counters().dropped == 12


def test_a_test_says_what_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "e").mkdir()
    assert "is a directory" in FileOutput(tmp_path / "e", LARGE, 5).test(make_events(1)[0])
    assert not FileOutput(tmp_path / "f", LARGE, 5).test(make_events(1)[0])
    assert len(read_ids(tmp_path / "f")) == 1


WRITE_MANY = """
import sys
from pathlib import Path
from gatepost.events.output import FileOutput
from tests.events.receivers import make_events
output = FileOutput(Path(sys.argv[1]), 20_000, 100)
for event in make_events(300):
    output.write([event])
while output.counters().waiting_bytes:
    output.write([])
"""


@pytest.mark.variant
def test_processes_write_one_file_and_rotate_it(tmp_path: Path) -> None:
    command, root = [sys.executable, "-c", WRITE_MANY, str(tmp_path / "e")], Path(__file__).parents[2]
    processes = [subprocess.Popen(command, cwd=root) for _ in range(2)]
    assert [process.wait(120) for process in processes] == [0, 0]
    files = [path for path in tmp_path.iterdir() if path.suffix != ".lock"]
    assert len(files) > 3
    assert len(set(read_ids(*files))) == 600
