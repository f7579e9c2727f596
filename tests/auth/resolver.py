"""DNS from a literal, with names that can fail and with counted questions."""

from collections.abc import Mapping, Sequence
from typing import TypeVar

from tests.asking import run_in_steps

from gatepost.questions import Asking, Dns, DnsAnswer

T = TypeVar("T")


class Resolver:
    """Answers from `{"TXT example.com": "v=spf1 -all"}`; the value "FAILED" is a name server that does not answer."""

    def __init__(self, zone: Mapping[str, Sequence[str]]) -> None:
        self.zone = {key: (value,) if isinstance(value, str) else tuple(value) for key, value in zone.items()}
        self.names = {key.partition(" ")[2] for key in self.zone}
        self.asked: list[str] = []
        self.trips = self.exchanges = 0

    def answer(self, question: Dns) -> DnsAnswer:
        key = f"{question.type} {question.name}"
        self.asked.append(key)
        records = self.zone.get(key)
        if records == ("FAILED",):
            return DnsAnswer("failed")
        if records:
            return DnsAnswer("found", records)
        below = any(name.endswith(f".{question.name}") for name in self.names)
        return DnsAnswer("no-data" if question.name in self.names or below else "no-name")

    def run(self, asking: Asking[T]) -> T:
        """Run an asking to its end; every question and every round trip is counted.

        `exchanges` are the round trips with a question that is new: a worker knows the answers to the others."""

        def answer(questions: tuple[Dns, ...]) -> tuple[DnsAnswer, ...]:
            self.trips += 1
            self.exchanges += any(f"{each.type} {each.name}" not in self.asked for each in questions)
            return tuple(map(self.answer, questions))

        return run_in_steps(asking, answer)
