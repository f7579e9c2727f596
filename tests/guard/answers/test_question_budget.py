"""What a worker may ask of the world: names that follow from its message, and few others."""

import asyncio
from collections.abc import Iterable

import pytest
from tests.guard.conftest import job

from gatepost.guard.answers.answerer import (
    MAX_FOREIGN,
    MAX_HEADER,
    MAX_KEYS,
    MAX_NAMES,
    MAX_TIMES,
    Answerer,
    QuestionBudget,
)
from gatepost.guard.answers.dns import Resolver, TakesAnswer
from gatepost.mail.message import Envelope
from gatepost.questions import (
    Antivirus,
    AskAntivirus,
    AskCampaign,
    Dns,
    DnsAnswer,
    Lookup,
    LookupAnswer,
    Questions,
)

ENVELOPE = Envelope("ann@Bounce.Example", ("bob@receiver.example",), "192.0.2.17", "mx1.sender.example")
RAW = b"""Received: from relay.example (2001:db8::25)\r
DKIM-Signature: v=1; d=signer.example; s=k1.2026; b=xyz\r
From: Ann <ann@mail.author.example>\r
\r
A name that stands in the body only: body.example\r
"""


def budget(raw: bytes = RAW) -> QuestionBudget:
    made = QuestionBudget()
    made.read_header(ENVELOPE, raw)
    return made


@pytest.mark.parametrize(
    "name",
    [
        "bounce.example",
        "BOUNCE.example.",
        "mx1.sender.example",
        "sender.example",
        "mail.author.example",
        "_dmarc.mail.author.example",
        "_dmarc.author.example",
        "k1.2026._domainkey.signer.example",
        "17.2.0.192.in-addr.arpa",
        "5.2.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa",
        "_spf.included.example",
    ],
)
def test_names_that_follow_from_the_message_are_free(name: str) -> None:
    asking = budget()
    asking.note(DnsAnswer("found", ("v=spf1 include:_spf.Included.example -all",)))
    assert asking._count_foreign(name.lower().removesuffix(".")) == 0
    assert asking.can_look_up(Dns(name, "TXT"))


@pytest.mark.parametrize(
    ("name", "foreign"),
    [
        ("17.2.0.192.in-addr._spf.author.example", len("17.2.0.192.in-addr._spf.")),
        ("secret.author.example", len("secret.")),
        ("secret._domainkey.signer.example", len("secret._domainkey.")),
        ("1.2.3.4.5.6.7.8.author.example", len("1.2.3.4.5.6.7.8.author.example")),
        ("body.example", len("body.example")),
        ("elsewhere.example", len("elsewhere.example")),
        ("q", 1),
        ("7.113.0.203.in-addr.arpa", len("7.113.0.203.in-addr.arpa")),
    ],
)
def test_what_stands_nowhere_is_counted(name: str, foreign: int) -> None:
    assert budget()._count_foreign(name) == foreign


def test_secrets_in_names_come_to_an_end() -> None:
    asking = budget()
    sent = [name for number in range(100) if asking.can_look_up(Dns(name := f"{number:060}.author.example", "TXT"))]
    assert len(sent) == MAX_FOREIGN // 61


def test_names_come_to_an_end_even_if_all_stand_in_the_message() -> None:
    names = [f"n{number}.author.example" for number in range(3 * MAX_NAMES)]
    asking = budget(" ".join(names).encode())
    assert sum(asking.can_look_up(Dns(name, "A")) for name in names) == MAX_NAMES


def test_only_the_start_of_a_header_is_searched() -> None:
    asking = budget(b"X: " + b"x" * MAX_HEADER + b" late.example")
    assert asking._count_foreign("late.example") == len("late.example")


@pytest.mark.parametrize("question", [AskAntivirus(), AskCampaign((1,)), Lookup((("sender", ("a",)),))])
def test_other_questions_may_be_repeated_a_few_times(question: AskAntivirus | AskCampaign | Lookup) -> None:
    asking = QuestionBudget()
    assert [asking.can_ask(question) for _ in range(MAX_TIMES + 2)] == [True] * MAX_TIMES + [False] * 2


class Names(Resolver):
    """Answers every name, and notes which were asked; `cached.example` is known."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    def recall(self, questions: Iterable[Dns]) -> dict[Dns, DnsAnswer]:
        return {each: DnsAnswer("no-name") for each in questions if each.name.endswith("cached.example")}

    def start(self, question: Dns, take: TakesAnswer) -> None:
        self.asked.append(question.name)
        answer = DnsAnswer("found", ("v=spf1 include:next.example",))
        asyncio.get_running_loop().call_soon(take, question, answer)


async def test_a_worker_that_was_taken_over_sends_out_little() -> None:
    """64 steps of 64 names with what it has read: the name server sees the budget's worth of them, for each message."""
    names, asking = Names(), job("a", ENVELOPE, RAW)
    answerer = Answerer(names)
    for step in range(64):
        asked: Questions = tuple(Dns(f"{step:030}{each:030}.author.example", "TXT") for each in range(64))
        answers = await answerer.answer(asking, asked)
        assert len(answers) == 64
    assert len(names.asked) == MAX_FOREIGN // 61
    assert answerer.refused == 64
    assert await answerer.answer(asking, (Dns("author.example", "A"),)) != (DnsAnswer("failed"),)
    assert await answerer.answer(asking, (Dns("x.cached.example", "A"),)) == (DnsAnswer("no-name"),)
    before = len(names.asked)
    await answerer.answer(job("another", ENVELOPE, RAW), (Dns("elsewhere.example", "A"), Dns("next.example", "A")))
    assert len(names.asked) == before + 2


async def test_what_is_over_the_budget_is_said() -> None:
    answerer, asking = Answerer(Names()), job("a", ENVELOPE, RAW)
    many = Lookup((("url", tuple(map(str, range(MAX_KEYS + 1)))),))
    assert await answerer.answer(asking, (many,)) == (LookupAnswer(failed=True),)
    for _ in range(MAX_TIMES):
        assert await answerer.answer(asking, (AskAntivirus(),)) == (Antivirus(),)
    assert await answerer.answer(asking, (AskAntivirus(),)) == (Antivirus("failed", "it was asked too often"),)
