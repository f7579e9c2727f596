"""A few hundred executions of every fuzz target with one seed, and what the harness does with a reader that fails."""

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest
from bench.fuzz import checks
from bench.fuzz.checks import Checker, find_failure, minimise
from bench.fuzz.mutation import mutate
from bench.fuzz.target import Target
from bench.fuzz.targets import TARGETS
from tests.own_names import replace_in
from tests.variants import one_in

SEED, EXECUTIONS = 20_261_115, 200
# These decode pictures or analyse whole messages.
DEAR, DEAR_EXECUTIONS = (
    ("analysis", "view", "mime", "settings", "picture-", "page-scripts", "drawn-codes", "authenticate", "conditions"),
    20,
)


@pytest.mark.parametrize("target", one_in(2, TARGETS), ids=lambda target: target.name)
def test_no_input_breaks_a_reader(target: Target) -> None:
    inputs = target.seeds()
    assert inputs
    dice = random.Random(f"{target.name}:{SEED}")
    for data in inputs:
        assert find_failure(target.run, data) is None
    for _ in range(DEAR_EXECUTIONS if target.name.startswith(DEAR) else EXECUTIONS):
        data = mutate(dice.choice(inputs), inputs, dice, target.most)
        failure = find_failure(target.run, data, twice=False)
        assert failure is None, f"{failure.detail} {data!r}"


def test_targets_have_names_of_their_own() -> None:
    assert len({target.name for target in TARGETS}) == len(TARGETS)


def test_changes_are_repeatable_and_bounded() -> None:
    def change(seed: int) -> bytes:
        return mutate(b"abc" * 50, [b"xyz" * 50], random.Random(seed), 200)

    made = [change(seed) for seed in range(300)]
    assert made == [change(seed) for seed in range(300)]
    assert max(map(len, made)) <= 200
    assert len(set(made)) > 250


def fail_on_x(data: bytes) -> object:
    if b"x" in data:
        raise KeyError("x")
    return len(data)


def test_an_exception_is_kept_once_for_each_place() -> None:
    checker = Checker(fail_on_x)
    for data in (b"a", b"x", b"xx", b"ax"):
        checker.execute(data)
    (failure,) = checker.tally.failures.values()
    assert (failure.reason, failure.data, checker.tally.runs) == ("raised", b"x", 4)


def test_answers_that_differ_are_a_failure() -> None:
    answers = iter(range(100))
    failure = find_failure(lambda _: next(answers), b"a")
    assert failure is not None
    assert failure.reason == "unsteady"


def test_time_that_grows_with_the_square_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock is replaced: a test that measured would depend on the machine."""
    now = [0.0]

    def cost(data: bytes) -> None:
        now[0] += len(data) ** 2 * 1e-4

    replace_in(monkeypatch, checks, "time", thread_time=lambda: now[0])
    failure = checks.find_super_linear(cost, b"a" * 20)
    assert failure is not None
    assert failure.reason == "grows"
    assert checks.find_super_linear(lambda data: now.__setitem__(0, now[0] + len(data) * 1e-2), b"a" * 20) is None
    checker = Checker(cost)
    checker.execute(b"a" * 200)
    assert [failure.reason for failure in checker.tally.failures.values()] == ["slow"]


def test_an_input_is_made_shorter() -> None:
    assert (
        minimise(b"a" * 300 + b"x" + b"b" * 500 + b"y" + b"c" * 100, lambda data: b"x" in data and b"y" in data)
        == b"xy"
    )


@pytest.mark.variant
def test_the_command_runs_a_target_and_says_so_in_json(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "bench.fuzz", "--target", "dmarc", "--executions", "300", "--seed", "1", "--json"]
    done = subprocess.run([*command, "--plain"], capture_output=True, text=True, check=True)
    (line,) = done.stdout.splitlines()
    result = json.loads(line)
    assert (result["target"], result["executions"], result["failures"]) == ("dmarc", 300, [])
    sample = tmp_path / "input"
    sample.write_bytes(b"v=DMARC1; p=none")
    repeat = subprocess.run([*command[:5], "--input", str(sample)], capture_output=True, text=True, check=True)
    assert repeat.stdout == "no failure\n"


@pytest.mark.variant
def test_a_name_that_is_no_target_is_refused() -> None:
    command = [sys.executable, "-m", "bench.fuzz", "--target", "nothing"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "there is no target nothing" in done.stderr
