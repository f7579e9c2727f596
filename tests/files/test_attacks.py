"""Two thousand attacks, made of every script, disguise, container and carrier: none of them is delivered."""

import pytest
from tests.files.attacks import SEED, make_attack

from gatepost.analysis import analyse
from gatepost.mail.message import Envelope
from gatepost.questions import Dns, DnsAnswer, LookupAnswer
from gatepost.report import Report
from gatepost.stages import Context

BATCH, BATCHES = 250, 8


def judge(raw: bytes) -> Report:
    asking = analyse(raw, Envelope("ann@a.example", ("bob@b.example",)), Context(now=1_794_302_520.0))
    try:
        questions = next(asking)
        while True:
            questions = asking.send(
                tuple(DnsAnswer("no-name") if isinstance(each, Dns) else LookupAnswer() for each in questions)
            )
    except StopIteration as stop:
        report: Report = stop.value
        return report


@pytest.mark.parametrize("batch", range(BATCHES))
def test_no_attack_is_delivered(batch: int) -> None:
    attacks = [make_attack(SEED, number) for number in range(batch * BATCH, (batch + 1) * BATCH)]
    passed = [attack.story for attack in attacks if judge(attack.raw).decision == "deliver"]
    assert not passed
