"""Generators that ask, such as an analysis or an authentication, run to their end (see `gatepost.questions`)."""

from collections.abc import Callable, Generator
from typing import TypeVar

Q = TypeVar("Q")
A = TypeVar("A")
T = TypeVar("T")


def run_asking(asking: Generator[tuple[Q, ...], tuple[A, ...], T], answer: Callable[[Q], A]) -> T:
    """Answer each question, and return the result."""
    return run_in_steps(asking, lambda questions: tuple(map(answer, questions)))


def run_in_steps(
    asking: Generator[tuple[Q, ...], tuple[A, ...], T], answer: Callable[[tuple[Q, ...]], tuple[A, ...]]
) -> T:
    """Answer the questions of each step together, and return the result."""
    try:
        questions = next(asking)
        while True:
            questions = asking.send(answer(questions))
    except StopIteration as stop:
        result: T = stop.value
        return result
