"""What follows for a message when a worker dies under it."""

import pytest

from gatepost.analysis.report import Outcome, Report
from gatepost.analysis.stages import INDISPENSABLE, STAGES
from gatepost.mail.message import Envelope
from gatepost.questions import Dns, DnsAnswer
from gatepost.scanning.spool import BytesBody
from gatepost.workers.jobs import GRACE, LEAST_ACCOUNT, MAX_RESTARTS, WHAT_HAPPENED, Job, Reason
from gatepost.workers.protocol import JUDGE, LARGE, StageNames


def job(size: int = 10) -> Job[Report]:
    return Job(JUDGE, "x", Envelope(), BytesBody(bytes(size)), 0.0)


@pytest.mark.parametrize("reason", ["stall", "crash", "memory"])
def test_the_first_death_skips_its_stage_and_the_second_ends_it(reason: Reason) -> None:
    one = job()
    assert one.blame("files", reason, can_skip=True) is None
    assert one.alone
    assert one.skip == {"files": WHAT_HAPPENED[reason]}
    end = one.blame("check:eicar", "crash", can_skip=True)
    assert end is not None
    assert (end.verdict, end.decision) == ("unscannable", "undecided")
    assert end.outcomes == (
        Outcome("files", "failed", WHAT_HAPPENED[reason]),
        Outcome("check:eicar", "failed", WHAT_HAPPENED["crash"]),
    )


@pytest.mark.parametrize("stage", ["lists", "judge", "receive", "idle"])
def test_without_these_there_is_nothing_to_judge(stage: str) -> None:
    end = job().blame(stage, "stall", can_skip=StageNames(STAGES, INDISPENSABLE).can_skip(stage))
    assert end is not None
    assert end.decision == "undecided"


def test_another_attempt_has_what_the_first_has_left_of_the_account() -> None:
    one = job()
    assert one.draw(1.0) == 1.0
    assert one.most_cpu == 1.5
    one.cpu = 0.2
    assert one.draw(1.0) == 0.8
    one.cpu = 1.5
    assert one.draw(1.0) == LEAST_ACCOUNT, "which is more than most mail needs"
    assert one.most_cpu == 1.5 + LEAST_ACCOUNT + GRACE * (1 + LEAST_ACCOUNT)


def test_a_bystander_starts_again_uncounted_but_not_for_ever() -> None:
    one = job()
    one.learn((Dns("a.example", "A"),), (DnsAnswer("no-name"),))
    one.cpu = 0.9
    assert one.restart() is None
    assert (one.skip, one.alone, one.cpu) == ({}, False, 0.0), "another message took its time"
    assert [one.restart() for _ in range(MAX_RESTARTS - 1)] == [None] * (MAX_RESTARTS - 1)
    assert (one.skip, one.alone) == ({}, True)
    assert one.known == ((Dns("a.example", "A"), DnsAnswer("no-name")),)
    end = one.restart()
    assert end is not None
    assert end.decision == "undecided"


def test_large_messages_are_alone_from_the_start() -> None:
    assert not job(LARGE).alone
    assert job(LARGE + 1).alone


def test_answers_must_match_their_questions() -> None:
    with pytest.raises(ValueError, match="one answer"):
        job().learn((Dns("a.example", "A"),), ())


def test_a_deadline_names_the_stage_that_was_executing() -> None:
    assert job().expire("files").outcomes == (Outcome("files", "failed", WHAT_HAPPENED["deadline"]),)
    assert job().expire("idle").outcomes == ()
    assert job().expire(None).outcomes == ()
