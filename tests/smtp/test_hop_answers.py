"""What next hops answer is counted by stage, and a next hop that takes no mail is told by its share."""

import pytest
from tests.clock import Clock
from tests.smtp.conftest import Hop, Housed

from gatepost.smtp.hop_answers import SLICE_SECONDS, SLICES, HopAnswers, Stage, is_unknown_recipient
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
        (counted("MAIL", (5, LATER)), "answers 451 4.3.0 to MAIL, 5 of 5 times in the last 5 minutes"),
        (counted("MAIL", (80, OK), (20, LATER)), "answers 451 4.3.0 to MAIL, 20 of 100 times in the last 5 minutes"),
        (counted("MAIL", (81, OK), (19, LATER)), ""),
        (counted("DATA", (5, None)), "hangs up or does not answer at DATA, 5 of 5 times in the last 5 minutes"),
        (counted("RCPT", (9, NEVER)), ""),
        (counted("RCPT", (10, OK), (10, NEVER)), "answers 554 5.7.1 to RCPT, 10 of 20 times in the last 5 minutes"),
        (counted("RCPT", (11, OK), (10, NEVER)), ""),
        (counted("RCPT", (1_000, reply(550, "5.1.1 No such user"))), ""),
        (counted("RCPT", (1_000, reply(550, "No such user"))), ""),
        (counted("MAIL", (5, SmtpReply(421))), "answers 421 to MAIL, 5 of 5 times in the last 5 minutes"),
    ],
)
def test_a_share_of_the_last_minutes_is_judged(answers: HopAnswers, said: str) -> None:
    assert answers.trouble == said


def test_what_was_long_ago_is_forgotten() -> None:
    clock = Clock()
    answers = HopAnswers(clock)
    for _ in range(10):
        answers.count("MAIL", LATER)
    clock.now += SLICE_SECONDS * (SLICES - 1)
    assert answers.trouble
    clock.now += SLICE_SECONDS
    assert answers.trouble == ""
    assert answers.total["MAIL", "4xx"] == 10, "counters of metrics never fall"


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
        assert "5 of 5 times" in routing.trouble
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
