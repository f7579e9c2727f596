"""ARC validation against the published suite: 171 messages with their keys (RFC 8617)."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from gatepost.auth.dkim import validate
from gatepost.auth.results import Arc
from gatepost.auth.signature import SignedMessage
from gatepost.mail.message import Field
from gatepost.questions import Dns, DnsAnswer

CASES = 171
NOW = 1_500_000_000.0
# The suite leaves the outcome open where the newest seal itself says "fail": RFC 8617 section 5.2 says fail.
EXPECTED = {"Pass": "pass", "Fail": "fail", "None": "none", None: "none", "": "fail"}


def split(raw: bytes) -> tuple[int, tuple[Field, ...]]:
    """The header fields of a well-behaved message, and where its body starts."""
    fields: list[bytes] = []
    end = 0
    for line in raw.splitlines(keepends=True):
        if not line.strip(b"\r\n"):
            end += len(line)
            break
        end += len(line)
        if line[:1] in b" \t" and fields:
            fields[-1] += line
        else:
            fields.append(line)
    named = (Field(line.partition(b":")[0].strip().decode("latin-1").lower(), "", line) for line in fields)
    return end, tuple(named)


def answered(message: bytes, zone: dict[str, str]) -> Arc:
    end, fields = split(message)
    asking = validate(SignedMessage(message, end, fields), NOW)
    try:
        questions = next(asking)
        while True:
            questions = asking.send(_answers(questions, zone))
    except StopIteration as stop:
        result: Arc = stop.value
        return result


def _answers(questions: tuple[Dns, ...], zone: dict[str, str]) -> tuple[DnsAnswer, ...]:
    return tuple(
        DnsAnswer("found", (zone[question.name],)) if question.name in zone else DnsAnswer("no-name")
        for question in questions
    )


def cases(folder: Path) -> Iterator[tuple[str, dict[str, Any], dict[str, str]]]:
    text = (folder / "arc" / "arc-draft-validation-tests.yml").read_text("utf-8")
    for scenario in yaml.safe_load_all(text):
        for name, case in scenario["tests"].items():
            yield name, case, scenario["txt-records"]


@pytest.mark.shared
def test_every_case_of_the_suite(shared: Callable[[str], Path]) -> None:
    suite = list(cases(shared("conformance")))
    assert len(suite) == CASES
    wrong = {
        name: f"{got.result} ({got.reason}), expected {case['cv']}"
        for name, case, zone in suite
        if (got := answered(case["message"].encode(), zone)).result != EXPECTED[case["cv"]]
    }
    assert not wrong


@pytest.mark.shared
def test_line_ends_do_not_matter(shared: Callable[[str], Path]) -> None:
    for name, case, zone in cases(shared("conformance")):
        over_the_wire = case["message"].encode().replace(b"\n", b"\r\n")
        assert answered(over_the_wire, zone).result == EXPECTED[case["cv"]], name
