"""Conditions in a process of their own: answers, deadlines, and work that nobody waits for."""

import ast
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from tests.source_trees import ROOT, walk_source

from gatepost.policy import condition_process
from gatepost.policy.condition_process import (
    ConditionWork,
    condition_work,
    end_all_work,
    evaluate_all,
    find_fault,
    find_storable,
)
from gatepost.policy.conditions import ConditionError, make_variables
from gatepost.policy.layers import Layer, lay_over, unchanged_policies
from gatepost.policy.rules import PolicyError
from gatepost.process.sandbox import NICENESS, SealedProcess

pytestmark = pytest.mark.process
ENDLESS = 'subject == "endless"'
EXPENSIVE = 'spf.matches("[\\\\p{L}\\\\]]{300}") || dkim.matches("[\\\\p{L}\\\\]]{300}")'


@pytest.fixture
def endless(monkeypatch: pytest.MonkeyPatch) -> None:
    """Conditions that say so never end, whatever the estimate says of them."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, (str(Path.cwd()), os.environ.get("PYTHONPATH")))))
    monkeypatch.setattr(condition_process, "PROCESS", "tests.policy.endless_conditions")
    monkeypatch.setattr(condition_process, "_known", condition_process._Known())


def test_what_the_process_says_is_what_the_library_says() -> None:
    with condition_work():
        assert find_fault('subject == "x"') == ""
        assert find_fault("subject") == "must be true or false, not a value of another type"
        assert find_fault("") == "is empty"
        assert "has an invalid regular expression" in find_fault('subject.matches("(")')
        assert find_storable(['subject == "x"', 'helo == "x"']) == [True, False]
        holds, fails, fault = evaluate_all(
            ['subject == "é\\n"', "authenticated", "1 / size == 1"], make_variables(subject="é\n")
        )
    assert (holds, fails) == (True, False)
    assert isinstance(fault, ConditionError)
    assert evaluate_all([], {}) == []


def test_the_form_that_froze_the_service_is_refused() -> None:
    assert find_fault(EXPENSIVE).startswith("would take too long")


def test_the_process_is_sealed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SealedProcess, "mail_comes", staticmethod(lambda: True))
    process = SealedProcess(condition_process.PROCESS)
    # Before it has imported anything, which takes as long as what it is asked for.
    own = os.getpriority(os.PRIO_PROCESS, 0)
    assert os.getpriority(os.PRIO_PROCESS, process._process.pid) == min(own + NICENESS, 19)
    # In a session of its own the priority would count for nothing (sched(7), autogroup); Ctrl-C must not reach it.
    assert os.getsid(process._process.pid) == os.getsid(0)
    assert os.getpgid(process._process.pid) == process._process.pid
    try:
        process.ask(b"\x93\xa5holds\x90\x80", 10.0, 1000)
        assert process.layers is not None
        assert {"no-new-privileges", "limits", "seccomp"} <= set(process.layers)
    finally:
        process.close()


@pytest.mark.variant
@pytest.mark.usefixtures("endless")
def test_a_condition_that_never_ends_is_stopped_and_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[SealedProcess] = []

    def start(module: str) -> SealedProcess:
        started.append(SealedProcess(module))
        return started[-1]

    monkeypatch.setattr(condition_process, "SealedProcess", start)
    with condition_work() as work:
        for _ in range(3):
            found = evaluate_all([ENDLESS, 'subject == "x"'], make_variables(subject="x"))
            assert isinstance(found[0], ConditionError)
            assert str(found[0]) == condition_process.TOO_SLOW
            assert found[1] is True
        # Stopped twice: with the others, and alone; from then on it is known, and one process does the rest.
        assert len(started) == 3
        assert work.slow == {ENDLESS}
    assert "stopped" in find_fault(ENDLESS)


@pytest.mark.usefixtures("endless")
def test_a_process_that_crashes_costs_the_condition_that_did_it() -> None:
    with condition_work():
        found = evaluate_all(['subject == "crash"', 'subject == "x"'], make_variables(subject="x"))
    assert isinstance(found[0], ConditionError)
    assert found[1] is True


@pytest.mark.variant
@pytest.mark.usefixtures("endless")
def test_a_policy_of_nothing_but_endless_conditions_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    rules = "".join(
        f'[rules.r{number}]\nwhen = \'subject == "endless {number}"\'\ntitle = "x"\nverdict = "spam"\n'
        for number in range(200)
    )
    started: list[SealedProcess] = []

    def start(name: str) -> SealedProcess:
        started.append(SealedProcess(name))
        return started[-1]

    monkeypatch.setattr(condition_process, "SealedProcess", start)
    with condition_work(3 * condition_process.CONDITION_SECONDS) as work, pytest.raises(PolicyError, match="stopped"):
        lay_over(unchanged_policies().deployment, Layer("tenant", "x", rules))
    assert len(started) == 3, "of the two hundred, so many are tried as there is time for"
    assert work.is_over


@pytest.mark.usefixtures("endless")
@pytest.mark.parametrize("end", [ConditionWork.end, lambda _work: end_all_work()])
def test_work_that_nobody_waits_for_ends_at_once(end: object) -> None:
    assert callable(end)
    with condition_work() as work:
        evaluate_all(["authenticated"], make_variables())
        process = work._process
        assert process is not None
        timer = threading.Timer(0.1, end, [work])
        timer.start()
        (found,) = evaluate_all([ENDLESS], make_variables())
        timer.join()
        assert str(found) == condition_process.ENDED
        assert work.is_over
        (found,) = evaluate_all(["authenticated"], make_variables())
        assert str(found) == condition_process.ENDED
    assert process._process.poll() is not None


def test_a_process_that_was_left_alone_ends_with_its_parent() -> None:
    code = (
        "import os\n"
        "from gatepost.policy.condition_process import ConditionWork\n"
        "work = ConditionWork()\n"
        "work.ask('fault', ['authenticated'], {})\n"
        "print(work._process._process.pid, flush=True)\n"
        "os._exit(0)\n"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    end = time.monotonic() + 60
    while Path(f"/proc/{int(said)}").exists():
        assert time.monotonic() < end, "it still runs"
        time.sleep(0.05)


def test_only_sealed_processes_evaluate_conditions() -> None:
    """Whoever calls the library itself is a worker, or this process."""
    may = {"composites.py", "condition_process.py", "conditions.py", "warmup.py"}
    names = {"evaluate", "find_fault", "is_storable", "reads_only_tags"}
    for path in ROOT.rglob("*.py"):
        for node in walk_source(path):
            if isinstance(node, ast.ImportFrom) and node.module == "gatepost.policy.conditions":
                assert path.name in may or not names & {each.name for each in node.names}, path
            if isinstance(node, ast.ImportFrom) and node.module == "gatepost.policy":
                assert path.name in may or "conditions" not in {each.name for each in node.names}, path
