"""rfc7208-tests: the published suite for SPF, its zones answered from a dictionary."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from gatepost.auth.sending_host import parse_address
from gatepost.auth.spf import MAX_QUESTIONS, check_host, explain, parse_sender
from gatepost.questions import Asking, Dns, DnsAnswer

pytestmark = pytest.mark.shared

CASES = 203
Zone = dict[str, list[Any]]


class Answerer:
    """The suite's DNS: SPF records stand for TXT where a name has no TXT of its own; TIMEOUT fails the rest."""

    def __init__(self, zone: Zone) -> None:
        self.zone = {str(name).lower(): records for name, records in zone.items()}
        self.asked = 0

    def __call__(self, question: Dns) -> DnsAnswer:
        self.asked += 1
        return self.lookup(question.name, question.type, 0)

    def lookup(self, name: str, kind: str, depth: int) -> DnsAnswer:
        if depth > 8:
            return DnsAnswer("failed")
        if name not in self.zone:
            return DnsAnswer("no-name")
        records = [record for record in self.zone[name] if isinstance(record, dict)]
        for record in records:
            if "CNAME" in record:
                return self.lookup(record["CNAME"].lower().removesuffix("."), kind, depth + 1)
        if kind == "TXT" and not any("TXT" in record for record in records):
            kind = "SPF"
        found = tuple(text(kind, record[kind]) for record in records if kind in record and record[kind] != "NONE")
        if found:
            return DnsAnswer("found", found)
        return DnsAnswer("failed" if "TIMEOUT" in self.zone[name] else "no-data")


def text(kind: str, value: Any) -> str:
    if kind == "MX":
        return f"{value[0]} {value[1]}".removesuffix(".")
    if isinstance(value, list):
        return "".join(value)
    return str(value).removesuffix(".") if kind == "PTR" else str(value)


def answered(asking: Asking[Any], answer: Callable[[Dns], DnsAnswer]) -> Any:
    answers: tuple[DnsAnswer, ...] | None = None
    while True:
        try:
            questions = next(asking) if answers is None else asking.send(answers)
        except StopIteration as stop:
            return stop.value
        answers = tuple(answer(question) for question in questions)


def cases(suite: Path) -> Iterator[tuple[str, dict[str, Any], Zone]]:
    for scenario in yaml.safe_load_all(suite.read_text("utf-8")):
        for name, case in scenario["tests"].items():
            yield f"{scenario['description']}: {name}", case, scenario.get("zonedata") or {}


def test_every_case(shared: Callable[[str], Path], subtests: pytest.Subtests) -> None:
    count = 0
    for name, case, zone in cases(shared("conformance") / "spf" / "rfc7208-tests.yml"):
        count += 1
        with subtests.test(name):
            dns = Answerer(zone)
            host = parse_address(case["host"])
            assert host is not None
            sender = parse_sender(host, case["mailfrom"], case["helo"])
            outcome = answered(check_host(sender), dns)
            wanted = case["result"] if isinstance(case["result"], list) else [case["result"]]
            assert outcome.result in wanted, outcome.reason
            assert dns.asked <= MAX_QUESTIONS
            if "explanation" in case:
                shown = answered(explain(sender, outcome), dns)
                assert (shown or "DEFAULT") == case["explanation"]
    assert count == CASES
