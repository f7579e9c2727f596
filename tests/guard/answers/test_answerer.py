"""Answers in the order of the questions, each asked once, and never longer than a message's share of time."""

import asyncio
import weakref
from collections.abc import Iterable, Sequence

import pytest
from tests.guard.conftest import job

from gatepost.guard.answers.answerer import MAX_REMEMBERED, Answerer
from gatepost.guard.answers.dns import Resolver, TakesAnswer
from gatepost.guard.answers.lists import ListAnswers
from gatepost.questions import (
    Answers,
    Antivirus,
    AskAntivirus,
    AskCampaign,
    AskSightings,
    Campaign,
    Dns,
    DnsAnswer,
    Hit,
    Lookup,
    LookupAnswer,
    Questions,
    Sightings,
)

FAILED = DnsAnswer("failed")


class Names(Resolver):
    """Answers each name with itself; `slow` ones never, `cached` ones at once."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[Dns] = []
        self.closed = False

    def recall(self, questions: Iterable[Dns]) -> dict[Dns, DnsAnswer]:
        return {each: DnsAnswer("found", ("cached",)) for each in questions if each.name == "cached"}

    def start(self, question: Dns, take: TakesAnswer) -> None:
        self.asked.append(question)
        if question.name != "slow":
            asyncio.get_running_loop().call_soon(take, question, DnsAnswer("found", (question.name,)))

    async def close(self) -> None:
        self.closed = True


def questions(names: str) -> tuple[Dns, ...]:
    return tuple(Dns(name, "A") for name in names.split())


def records(answers: Answers) -> str:
    return " ".join("".join(a.records) or a.status if isinstance(a, DnsAnswer) else "listed" for a in answers)


async def test_order_and_duplicates() -> None:
    names = Names()
    answers = await Answerer(names).answer(job(), questions("b a b cached c a"))
    assert records(answers) == "b a b cached c a"
    assert sorted(question.name for question in names.asked) == ["a", "b", "c"]
    assert await Answerer(names).answer(job(), ()) == ()


async def test_the_share_of_time_is_for_all_steps_of_a_message() -> None:
    names = Names()
    answerer = Answerer(names, max_seconds=0.5)
    assert records(await answerer.answer(job(), questions("a slow b cached"))) == "a failed b cached"
    asked = len(names.asked)
    assert records(await answerer.answer(job(), questions("c cached"))) == "failed cached"
    assert len(names.asked) == asked, "nothing more is asked for it"
    assert records(await answerer.answer(job("other"), questions("c"))) == "c"
    answerer.forget("a")
    assert records(await answerer.answer(job(), questions("c"))) == "c"


async def test_time_adds_up_over_steps() -> None:
    now = [0.0]

    class Slower(Names):
        def start(self, question: Dns, take: TakesAnswer) -> None:
            now[0] += 4.0
            super().start(question, take)

    answerer = Answerer(Slower(), max_seconds=10.0, clock=lambda: now[0])
    got = [records(await answerer.answer(job(), questions(name))) for name in "abcd"]
    assert got == ["a", "b", "c", "failed"]


def test_what_is_known_takes_no_waiting_and_no_event_loop() -> None:
    answerer = Answerer(Names())
    asked: Questions = (*questions("cached"), AskCampaign(()), AskSightings((), (), ()), AskAntivirus(), Lookup(()))
    assert answerer.begin(job(), ()) == ()
    assert answerer.begin(job(), asked) == (
        *(DnsAnswer("found", ("cached",)), Campaign(), Sightings(), Antivirus(), LookupAnswer()),
    )


async def test_names_are_waited_for_without_a_task() -> None:
    answers = Answerer(Names()).begin(job(), questions("a cached b"))
    assert isinstance(answers, asyncio.Future)
    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert records(await answers) == "a cached b"


async def test_who_no_longer_waits_has_used_the_time_and_leaves_nothing_behind() -> None:
    now, started = [0.0], list[TakesAnswer]()

    class Noted(Names):
        def start(self, question: Dns, take: TakesAnswer) -> None:
            started.append(take)
            super().start(question, take)

    answerer = Answerer(Noted(), max_seconds=10.0, clock=lambda: now[0])
    asking = job()
    message = weakref.ref(asking)
    answers = answerer.begin(asking, questions("slow"))
    del asking
    assert isinstance(answers, asyncio.Future)
    now[0] = 9.0
    answers.cancel()
    await asyncio.sleep(0)
    assert answerer._budgets["a"].seconds == 9.0
    assert message() is None, "the resolver holds no message for an answer that nobody waits for"
    started[0](Dns("slow", "A"), FAILED)
    now[0] = 20.0
    assert records(await answerer.answer(job(), questions("a"))) == "a"
    assert answerer._budgets["a"].seconds == 9.0


async def test_a_fault_while_answers_are_put_together_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    answerer = Answerer(Names())
    monkeypatch.setattr(answerer, "conclude", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        await answerer.answer(job(), questions("a"))


async def test_memory_is_bounded_even_if_nobody_says_that_a_message_ended() -> None:
    answerer = Answerer(Names())
    for number in range(MAX_REMEMBERED + 10):
        await answerer.answer(job(str(number)), ())
    assert len(answerer._budgets) == MAX_REMEMBERED


def test_closing_closes_the_resolver() -> None:
    names = Names()
    asyncio.run(Answerer(names).close())
    assert names.closed


async def test_lists_are_asked_for_the_message_s_own_tenant() -> None:
    class Lists(ListAnswers):
        def __init__(self) -> None:
            """Without storage."""

        async def answer(self, tenant: str | None, question: Lookup, recipients: Sequence[str] = ()) -> LookupAnswer:
            return LookupAnswer((Hit("blocked-senders", "tenant", f"{tenant}:{question.keys[0][1][0]}"),))

    names = Names()
    question = Lookup((("sender", ("a@b.example",)),))
    answers = await Answerer(names, lists=Lists()).answer(job(), (*questions("x"), question))
    assert answers == (
        DnsAnswer("found", ("x",)),
        LookupAnswer((Hit("blocked-senders", "tenant", "t:a@b.example"),)),
    )
