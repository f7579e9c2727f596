"""Two thousand attacks, made of every script, disguise, container and carrier: none of them is delivered. Two thousand
letters, made of every form, disguise, container and carrier: none of them is clean."""

import pytest
from tests.files.attacks import BLOCKED, SEED, make_attack, make_letter

from gatepost.analysis.analyse import analyse
from gatepost.analysis.report import Report
from gatepost.analysis.stages import Context
from gatepost.lists.unkeyed import CompiledLists, UnkeyedLists
from gatepost.mail.message import Envelope
from gatepost.questions import Answer, Dns, DnsAnswer, Hit, Lookup, LookupAnswer, Question

BATCH, BATCHES = 250, 8
# The first of them stands for the others, which `make test-long` tries.
EACH_BATCH = [0, *(pytest.param(number, marks=pytest.mark.long) for number in range(1, BATCHES))]
CONTEXT = Context(now=1_794_302_520.0, lists=CompiledLists(UnkeyedLists(keyed=("url",))))


def answer(question: Question) -> Answer:
    if isinstance(question, Dns):
        return DnsAnswer("no-name")
    asked = {key for _, keys in question.keys for key in keys} if isinstance(question, Lookup) else set()
    return LookupAnswer((Hit("blocked-urls", "tenant", BLOCKED),) if BLOCKED in asked else ())


def judge(raw: bytes) -> Report:
    asking = analyse(raw, Envelope("ann@a.example", ("bob@b.example",)), CONTEXT)
    try:
        questions = next(asking)
        while True:
            questions = asking.send(tuple(map(answer, questions)))
    except StopIteration as stop:
        report: Report = stop.value
        return report


@pytest.mark.parametrize("batch", EACH_BATCH)
def test_no_attack_is_delivered(batch: int) -> None:
    attacks = [make_attack(SEED, number) for number in range(batch * BATCH, (batch + 1) * BATCH)]
    passed = [attack.story for attack in attacks if judge(attack.raw).decision == "deliver"]
    assert not passed


@pytest.mark.parametrize("batch", EACH_BATCH)
def test_no_letter_is_clean(batch: int) -> None:
    """A letter gets its finding wherever it is, and a blocked link holds the message; a carrier that cannot be read is
    said."""
    passed = []
    for number in range(batch * BATCH, (batch + 1) * BATCH):
        attack, tag = make_letter(SEED, number)
        report = judge(attack.raw)
        if report.decision == "deliver":
            passed.append((number, attack.story, tag in report.tags))
    assert not passed
