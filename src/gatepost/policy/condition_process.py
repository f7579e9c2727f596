"""Conditions of users, compiled and evaluated in a sealed process that is killed when its time is up.

An estimate of what the library takes for a condition is no boundary: whoever writes rules will find the expression that
costs more than it says. While the library computes, it holds the interpreter, and nothing in this process can interrupt
it. So no process that serves others loads the library. Each piece of work (a policy that is read, a trial, a dry run)
has a process of its own, which has no files, no network and no secret, starts when the first condition comes, and ends
with the work. Mail is judged in workers, which are sealed processes already (`conditional_findings`).

`condition_work` is that piece of work. What runs inside of it, in other threads too as long as they have its context,
shares its process and its time. A condition that takes too long is not tried again within the work. Whoever no longer
waits ends the work (`ConditionWork.end`), and the service ends all (`end_all_work`) when it stops.
"""

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import msgspec

from gatepost.policy import conditions
from gatepost.policy.conditions import ConditionError
from gatepost.process.sandbox import SealedProcess, SealedProcessEnded, serve_sealed

PROCESS = "gatepost.policy.condition_process"
# CPU seconds that one condition may take, and all conditions of a piece of work.
CONDITION_SECONDS = 0.5
WORK_SECONDS = 20.0
MEMORY = 256 << 20
MAX_ORDER = 64 << 20
MAX_ANSWER = 1 << 20
TOO_SLOW = "it took too long and was stopped"
ENDED = "the work on it was ended"
# Faults of conditions that were compiled once: a policy that is read again costs no process.
_MAX_KNOWN = 2_000


class ConditionOrder(msgspec.Struct, frozen=True, array_like=True):
    """What the process is asked: what is wrong with conditions, whether stored results have what they read, or, with
    `variables`, whether they hold."""

    question: str
    conditions: tuple[str, ...]
    variables: dict[str, Any] = {}


class ConditionAnswer(msgspec.Struct, frozen=True, array_like=True):
    """For each condition whether it holds or can be stored; in `faults` why not, where that is known."""

    holds: tuple[bool, ...]
    faults: tuple[str, ...]


class _Known:
    """What is known of conditions, by text; bounded, and the oldest are forgotten first."""

    def __init__(self) -> None:
        self._values: dict[tuple[str, str], tuple[bool, str]] = {}

    def get(self, question: str, condition: str) -> tuple[bool, str] | None:
        return self._values.get((question, condition))

    def put(self, question: str, condition: str, value: tuple[bool, str]) -> None:
        if len(self._values) >= _MAX_KNOWN:
            self._values.pop(next(iter(self._values)), None)
        self._values[question, condition] = value


_known = _Known()
_current: ContextVar["ConditionWork | None"] = ContextVar("condition_work", default=None)
_running: "set[ConditionWork]" = set()


class ConditionWork:
    """One piece of work. `slow` are the conditions that were stopped."""

    def __init__(self, seconds: float = WORK_SECONDS) -> None:
        self.slow: set[str] = set()
        self._over = threading.Event()
        self._seconds = seconds
        self._process: SealedProcess | None = None
        self._turn, self._lock = threading.Lock(), threading.Lock()

    @property
    def is_over(self) -> bool:
        """Whether no time is left, or nobody waits any more."""
        return self._over.is_set()

    def ask(self, question: str, asked: Sequence[str], variables: Mapping[str, Any]) -> list[tuple[bool, str]]:
        """Return, for each condition, whether it is so and why not."""
        wanted = tuple(dict.fromkeys(each for each in asked if each not in self.slow))
        answers = self._ask_some(ConditionOrder(question, wanted, dict(variables)))
        failed = (False, ENDED if self.is_over else TOO_SLOW)
        return [answers.get(each, (False, TOO_SLOW) if each in self.slow else failed) for each in asked]

    def _ask_some(self, order: ConditionOrder) -> dict[str, tuple[bool, str]]:
        """Ask about all conditions at once, and one by one where that takes too long, to find out which it was."""
        if not order.conditions or self.is_over:
            return {}
        answer = self._ask_once(order)
        if answer is not None:
            return dict(zip(order.conditions, zip(answer.holds, answer.faults, strict=True), strict=True))
        if len(order.conditions) == 1:
            # Whoever ended the work meanwhile has stopped a condition that may be a good one.
            if not self._over.is_set():
                self.slow.update(order.conditions)
            return {}
        found: dict[str, tuple[bool, str]] = {}
        for each in order.conditions:
            found |= self._ask_some(msgspec.structs.replace(order, conditions=(each,)))
        return found

    def _ask_once(self, order: ConditionOrder) -> ConditionAnswer | None:
        with self._turn:
            process = self._start()
            if process is None:
                return None
            before = process.cpu_seconds
            try:
                data = process.ask(
                    msgspec.msgpack.encode(order, enc_hook=str), min(CONDITION_SECONDS, self._seconds), MAX_ANSWER
                )
                answer = msgspec.msgpack.decode(data, type=ConditionAnswer)
                if not len(answer.holds) == len(answer.faults) == len(order.conditions):
                    raise msgspec.ValidationError("an answer to something else")
            except (SealedProcessEnded, msgspec.DecodeError):
                self._spend(CONDITION_SECONDS)
                self._stop()
                return None
            self._spend(process.cpu_seconds - before)
            return answer

    def _spend(self, seconds: float) -> None:
        self._seconds -= seconds
        if self._seconds <= 0:
            self.end()

    def _start(self) -> SealedProcess | None:
        with self._lock:
            if self.is_over:
                return None
            if self._process is None:
                self._process = SealedProcess(PROCESS)
            return self._process

    def _stop(self) -> None:
        with self._lock:
            process, self._process = self._process, None
        if process is not None:
            process.close()

    def end(self) -> None:
        """Do no more, from whatever thread: what is asked now or later has no answer."""
        with self._lock:
            self._over.set()
            if self._process is not None:
                self._process.kill()

    def close(self) -> None:
        self.end()
        with self._turn:
            self._stop()


@contextmanager
def condition_work(seconds: float = WORK_SECONDS) -> Iterator[ConditionWork]:
    """The work that everything inside belongs to; work inside of other work is part of that."""
    outer = _current.get()
    if outer is not None:
        yield outer
        return
    work = ConditionWork(seconds)
    _running.add(work)
    token = _current.set(work)
    try:
        yield work
    finally:
        _current.reset(token)
        _running.discard(work)
        work.close()


def end_all_work() -> None:
    """End all work of this process, since it stops."""
    for work in tuple(_running):
        work.end()


def _ask(question: str, asked: Sequence[str]) -> list[tuple[bool, str]]:
    known = {each: found for each in asked if (found := _known.get(question, each))}
    missing = [each for each in dict.fromkeys(asked) if each not in known]
    if missing:
        with condition_work() as work:
            for each, found in zip(missing, work.ask(question, missing, {}), strict=True):
                known[each] = found
                if found[1] not in (TOO_SLOW, ENDED):
                    _known.put(question, each, found)
    return [known[each] for each in asked]


def find_fault(condition: str) -> str:
    """Return what is wrong with a condition, as the end of a sentence; "" if it can be used."""
    if fault := conditions.find_plain_fault(condition):
        return fault
    ((_, fault),) = _ask("fault", [condition])
    return "would take too long: it was tried, and stopped" if fault in (TOO_SLOW, ENDED) else fault


def find_storable(asked: Sequence[str]) -> list[bool]:
    """Return, for each condition, whether it reads only what is kept with results."""
    return [holds for holds, _ in _ask("storable", asked)]


def evaluate_all(asked: Sequence[str], variables: Mapping[str, Any]) -> list[bool | ConditionError]:
    """Return whether each condition holds, or why it could not be evaluated."""
    if not asked:
        return []
    with condition_work() as work:
        answers = work.ask("holds", asked, variables)
    return [ConditionError(fault) if fault else holds for holds, fault in answers]


def _answer(order: bytes) -> bytes:
    asked = msgspec.msgpack.decode(order, type=ConditionOrder)
    found = [_find_answer(asked.question, each, asked.variables) for each in asked.conditions]
    answer = ConditionAnswer(tuple(holds for holds, _ in found), tuple(fault for _, fault in found))
    return msgspec.msgpack.encode(answer)


def _find_answer(question: str, condition: str, variables: Mapping[str, Any]) -> tuple[bool, str]:
    if question == "fault":
        fault = conditions.find_fault(condition)
        return not fault, fault
    if question == "storable":
        return conditions.is_storable(condition), ""
    try:
        return conditions.evaluate(condition, variables, conditions.SHARED_COST), ""
    except ConditionError as fault:
        return False, str(fault) or "it failed"


def main() -> None:
    """`python -m gatepost.policy.condition_process PARENT`, with the socket as standard input."""
    for question in ("fault", "storable", "holds"):
        _find_answer(question, 'subject.matches("a+") && tags.exists(tag, tag in ["x"])', conditions.make_variables())
    serve_sealed(_answer, MEMORY, MAX_ORDER)


if __name__ == "__main__":
    main()
