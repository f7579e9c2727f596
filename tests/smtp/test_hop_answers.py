"""What next hops answer is counted by stage, and a next hop that takes no mail is told by its share."""

from random import Random

import pytest
from tests.clock import Clock
from tests.smtp.conftest import Hop, Housed

from gatepost.smtp.hop_answers import (
    MIN_TEMPORARY,
    SPAN_SECONDS,
    TRY_SECONDS,
    WELL_AFTER,
    HopAnswers,
    Stage,
    is_unknown_recipient,
)
from gatepost.smtp.replies import SmtpReply, reply

OK, LATER, NEVER = reply(250, "2.1.0 Ok"), reply(451, "4.3.0 Disk of mail is full"), reply(554, "5.7.1 Relay denied")


def counted(stage: Stage, *said: tuple[int, SmtpReply | None]) -> HopAnswers:
    answers = HopAnswers(Clock())
    for times, each in said:
        for _ in range(times):
            answers.count(stage, each)
    return answers


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        (counted("MAIL", (4, LATER)), ""),
        (counted("MAIL", (5, LATER)), "answers 451 4.3.0 to MAIL"),
        (counted("MAIL", (80, OK), (20, LATER)), "answers 451 4.3.0 to MAIL"),
        (counted("MAIL", (81, OK), (19, LATER)), ""),
        (counted("DATA", (5, None)), "hangs up or does not answer at DATA"),
        (counted("RCPT", (9, NEVER)), ""),
        (counted("RCPT", (10, OK), (10, NEVER)), "answers 554 5.7.1 to RCPT"),
        (counted("RCPT", (11, OK), (10, NEVER)), ""),
        (counted("RCPT", (1_000, reply(550, "5.1.1 No such user"))), ""),
        (counted("RCPT", (1_000, reply(550, "No such user"))), ""),
        (counted("MAIL", (5, SmtpReply(421))), "answers 421 to MAIL"),
    ],
)
def test_a_share_of_the_last_minutes_is_judged(answers: HopAnswers, said: str) -> None:
    assert answers.trouble == said


def test_what_was_long_ago_is_forgotten() -> None:
    clock = Clock()
    answers = HopAnswers(clock)
    for _ in range(4):
        answers.count("MAIL", LATER)
    clock.now += SPAN_SECONDS
    answers.count("MAIL", LATER)
    assert answers.trouble == "", "the fifth of five minutes, and of no longer"
    assert answers.total["MAIL", "4xx"] == 5, "counters of metrics never fall"


class Ill(HopAnswers):
    """A next hop that puts mail off, at a clock of the test."""

    def __init__(self) -> None:
        self.clock = Clock(1_000.0)
        super().__init__(self.clock)
        self.count_all(LATER, MIN_TEMPORARY)
        assert self.trouble

    def count_all(self, said: SmtpReply | None, times: int, seconds: float = 1.0) -> None:
        for _ in range(times):
            self.clock.now += seconds
            self.count("DATA", said)

    def recover(self, said: SmtpReply = OK) -> int:
        """How many messages in a row it takes until it is well."""
        times = 0
        while self.trouble:
            self.count_all(said, 1)
            times += 1
        return times


def test_a_few_messages_in_a_row_end_it_whatever_the_share_is() -> None:
    ill = Ill()
    ill.count_all(LATER, 1_000)
    ill.count_all(OK, WELL_AFTER - 1)
    ill.count_all(LATER, 1)
    ill.count_all(OK, WELL_AFTER - 1)
    assert ill.trouble, "they were not in a row"
    ill.count_all(NEVER, 1)
    ill.count_all(OK, 1)
    assert ill.trouble == "", "a refusal is an answer to that message"
    ill.count_all(LATER, MIN_TEMPORARY - 1)
    assert ill.trouble == "", "what was before is over"


def test_refusals_end_by_messages_that_are_taken() -> None:
    answers = counted("MAIL", (10, NEVER))
    answers.count("DATA", OK)
    answers.count("MAIL", NEVER)
    for _ in range(WELL_AFTER):
        assert answers.trouble == "answers 554 5.7.1 to MAIL"
        answers.count("DATA", OK)
    assert answers.trouble == ""


def test_each_relapse_needs_twice_as_many_messages() -> None:
    ill = Ill()
    needed = []
    for _ in range(7):
        needed.append(ill.recover())
        ill.count_all(LATER, MIN_TEMPORARY)
    assert needed == [3, 6, 12, 24, 48, 48, 48]
    ill.recover()
    ill.count_all(OK, 1, SPAN_SECONDS)
    ill.count_all(LATER, MIN_TEMPORARY)
    assert ill.recover() == WELL_AFTER, "that was another outage"


def test_a_next_hop_that_is_well_half_of_the_time_is_not_told_of_again_and_again() -> None:
    ill, begins = Ill(), 0
    random = Random(7)
    for _ in range(3_600):
        before = ill.trouble
        ill.count_all(OK if random.random() < 0.5 else LATER, 1)
        begins += bool(ill.trouble) and not before
    assert ill.trouble
    assert begins <= 5, "in an hour with a message a second"


def test_without_mail_it_is_tried_and_then_one_message_that_is_put_off_is_enough() -> None:
    ill = Ill()
    seen = [(bool(ill.trouble), ill.is_to_be_tried)]
    for _ in range(WELL_AFTER):
        ill.clock.now += TRY_SECONDS
        seen.append((bool(ill.trouble), ill.is_to_be_tried))
        ill.note_try([OK, OK])
    assert seen == [(True, False), *[(True, True)] * WELL_AFTER], "while mail comes, that shows how it is"
    assert ill.trouble == ""
    ill.count_all(LATER, 1)
    assert ill.trouble == "answers 451 4.3.0 to DATA"
    for said in (LATER, None, OK, OK):
        ill.clock.now += TRY_SECONDS
        ill.note_try([OK, said])
    assert ill.trouble, "not in a row"
    assert ill.recover() == 4, "two of six were tries"
    ill.count_all(LATER, MIN_TEMPORARY - 1)
    assert ill.trouble == "", "it has taken mail"


async def test_an_idle_next_hop_that_was_ill_is_tried_until_it_is_well(deployment: Housed) -> None:
    clock, hop = Clock(1_000.0), Hop()
    async with deployment(hop) as gate:
        assert gate.services.routing is not None
        (route,) = gate.services.routing.routes
        route.answers = HopAnswers(clock)
        await route.try_out()
        assert "MAIL FROM:<>" not in hop.lines, "it is well, and left alone"
        for _ in range(MIN_TEMPORARY):
            route.answers.count("MAIL", LATER)
        await route.try_out()
        assert "MAIL FROM:<>" not in hop.lines, "not so soon"
        hop.says = {"MAIL": "451 4.3.0 still"}
        for _ in range(2 * WELL_AFTER):
            clock.now += TRY_SECONDS
            await route.try_out()
        assert route.answers.trouble, "one that takes nothing stays ill"
        assert route.answers.total["MAIL", "4xx"] == MIN_TEMPORARY, "a try is no mail"
        hop.says = {}
        hop.lines.clear()
        for _ in range(WELL_AFTER):
            assert route.answers.trouble
            clock.now += TRY_SECONDS
            await route.try_out()
        assert route.answers.trouble == ""
        await gate.until(lambda: hop.lines.count("QUIT") >= WELL_AFTER)
        assert hop.lines.count("MAIL FROM:<>") == WELL_AFTER
        assert not [line for line in hop.lines if line.startswith(("RCPT", "DATA"))]


@pytest.mark.parametrize(
    ("says", "stage", "answer", "code"),
    [
        ({"MAIL": "451 4.3.0 <b@y.example> waits"}, "MAIL", "4xx", "451 4.3.0 to MAIL"),
        ({"RCPT": "452 4.3.1 full"}, "RCPT", "4xx", "452 4.3.1 to RCPT"),
        ({"DATA": "451 4.3.0 later"}, "DATA", "4xx", "451 4.3.0 to DATA"),
        ({"dot": "452 4.3.1 full"}, "DATA", "4xx", "452 4.3.1 to DATA"),
        ({"dot": None}, "DATA", "none", "does not answer at DATA"),
        ({"MAIL": None}, "MAIL", "none", "does not answer at MAIL"),
    ],
)
async def test_a_next_hop_that_takes_no_mail_is_told_at_once(
    says: dict[str, str | None], stage: Stage, answer: str, code: str, deployment: Housed
) -> None:
    hop = Hop()
    hop.says = says
    async with deployment(hop) as gate:
        routing = gate.services.routing
        assert routing is not None
        for _ in range(5):
            client = await gate.connect()
            # Pipelined, so that RCPT is at the next hop before the answer to MAIL is here.
            assert (await client.say("EHLO c")).startswith("250")
            client.send(b"MAIL FROM:<a@x.example>\r\nRCPT TO:<b@y.example>\r\n")
            replies = [await client.reply(), await client.reply()]
            if all(each.startswith("250") for each in replies):
                assert (await client.say("DATA")).startswith("354")
                replies.append(await client.say(b"Subject: x\r\n\r\ny\r\n.\r\n"))
            assert any(each.startswith("45") for each in replies)
        (route,) = routing.routes
        assert code in routing.trouble
        assert routing.trouble.startswith("the next hop of route default ")
        assert "y.example" not in routing.trouble, "recipients are nobody's business on a page of all"
        bad = {key for key in route.answers.total if key[1] != "2xx"}
        assert bad == {(stage, answer)}, "one cause is counted at one stage"


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (SmtpReply(550, (b"5.1.1 User unknown",)), True),
        (SmtpReply(550, (b"5.1.10 RESOLVER.ADR.RecipientNotFound",)), True),
        (SmtpReply(550, (b"Unrouteable address",)), True),
        (SmtpReply(550, (b"5.7.1 Relaying denied",)), False),
        (SmtpReply(552, (b"Mailbox full",)), False),
        (SmtpReply(450, (b"4.1.1 later",)), False),
        (SmtpReply(250, (b"2.1.5 fine",)), False),
        (SmtpReply(550, ()), False),
    ],
)
def test_which_replies_say_that_there_is_no_such_recipient(reply: SmtpReply, expected: bool) -> None:
    assert is_unknown_recipient(reply) is expected
