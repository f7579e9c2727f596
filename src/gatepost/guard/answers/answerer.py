"""Answers for an analysis: its questions to DNS go out together, and there is a limit to what one message may ask.

A slow name server must not hold a slot for the whole time that the analysis may take: when a message has used up its
share, whatever is still open is answered "failed", which the analysis reports as `temperror` (RFC 8601 section 2.7).
So is what a worker asks beyond its budget. What is not asked of DNS (lists, sender history, antivirus) is answered
first, one after the other. What is in memory is answered at once, in the call that asks: most steps of most messages
wait for nothing, and a task for each would cost as much as the answers. Names that are under way are waited for with
callbacks; only what storage or antivirus are asked takes a task.
"""

import asyncio
import re
import struct
import time
from collections.abc import Callable, Collection, Sequence
from ipaddress import IPv6Address
from typing import Any, cast

from gatepost.guard.answers.campaigns import Campaigns
from gatepost.guard.answers.clamd import ClamdClient
from gatepost.guard.answers.dns import FAILED, Resolver
from gatepost.guard.answers.lists import ListAnswers
from gatepost.guard.answers.reputation import Inquiry, ReputationZones
from gatepost.guard.answers.sender_history import SenderHistories
from gatepost.mail.message import Envelope
from gatepost.process.logs import Logger
from gatepost.questions import (
    Answer,
    Answers,
    Antivirus,
    AskAntivirus,
    AskCampaign,
    AskReputation,
    AskSightings,
    Campaign,
    Dns,
    DnsAnswer,
    Lookup,
    LookupAnswer,
    Question,
    Questions,
    Reputation,
    Sightings,
)
from gatepost.workers.jobs import Job

# SPF may take ten look-ups for each of two names, and ten addresses for each host of MX; real mail needs 7 to 25.
MAX_NAMES = 80
# A name of an SPF macro has about 50 characters that stand nowhere: the reversed address and a few letters.
MAX_FOREIGN = 300
# A lost worker costs its messages the answers that were on their way, and they ask again.
MAX_TIMES = 8
MAX_KEYS = 50_000
# Where guard searches, and for how many ends of a name: all of it is done on the event loop.
MAX_HEADER = 64 << 10
_MAX_ANSWERS = 32 << 10
_MAX_ENDS = 7

_COUNTED = (Lookup, AskAntivirus, AskCampaign, AskReputation)
_HEADER_ENDS = (b"\r\n\r\n", b"\n\n")
_KEY = re.compile(r"(.+)\._domainkey\.(.+)", re.DOTALL)
_REVERSED = re.compile(r"(\d+)\.(\d+)\.(\d+)\.(\d+)\.in-addr\.arpa")
_REVERSED_IPV6 = re.compile(r"((?:[0-9a-f]\.){32})ip6\.arpa")


class QuestionBudget:
    """What one message has asked so far, counted by guard, which does not believe a worker. `seconds` is the time that
    the message has waited for DNS.

    A worker reads hostile bytes and could be taken over. It has no network, but the names that it asks DNS for leave
    this machine, and a name can carry what the worker has seen. guard does not parse mail, so it cannot know which
    names a sound analysis would ask for. It can search: nearly every name of SPF, DKIM and DMARC stands in the header
    of the message, in its envelope, or in an answer that the analysis was given before. Such a name says hardly
    anything by being asked for. Of every other name the characters are counted that are found nowhere (SPF macros,
    RFC 7208 section 7, make such names), and so is the number of names in all. What is over is answered "failed",
    without asking. Only names that have to be looked up are counted: what the cache knows leaves nothing behind.
    """

    __slots__ = ("_answers", "_asked", "_foreign", "_given", "_names", "seconds", "text")

    def __init__(self) -> None:
        self.seconds = 0.0
        self._names = 0
        self._foreign = 0
        # What of the message names are searched in; None before `read_header`.
        self.text: str | None = None
        self._answers: list[DnsAnswer] = []
        self._given: str | None = None
        self._asked: dict[type[Question], int] = {}

    def note(self, answer: DnsAnswer) -> None:
        """Take an answer into account: a later question may ask for what it names."""
        if len(self._answers) < 2 * MAX_NAMES:
            self._answers.append(answer)
            self._given = None

    def can_ask(self, question: Question) -> bool:
        """Count a question to storage, antivirus or zones, or about campaigns; return whether it may still be asked."""
        if isinstance(question, Lookup) and sum(len(keys) for _, keys in question.keys) > MAX_KEYS:
            return False
        if not isinstance(question, _COUNTED):
            return True
        times = self._asked[type(question)] = self._asked.get(type(question), 0) + 1
        return times <= MAX_TIMES

    def read_header(self, envelope: Envelope, start: bytes) -> None:
        """Take the message into account: its envelope, and its first bytes up to the end of the header."""
        ends = [end for mark in _HEADER_ENDS if (end := start.find(mark, 0, MAX_HEADER)) >= 0]
        header = start[: min(ends, default=MAX_HEADER)].decode("latin-1")
        self.text = f"{envelope.sender}\n{envelope.helo}\n{envelope.remote_address}\n{header}".lower()

    def can_look_up(self, question: Dns) -> bool:
        """Count a name that would be sent to a name server; return whether it may be."""
        if self._names >= MAX_NAMES:
            return False
        name = question.name.lower().removesuffix(".")
        # As a rule it stands in the message.
        foreign = 0 if self.text and name in self.text else self._count_foreign(name)
        if self._foreign + foreign > MAX_FOREIGN:
            return False
        self._names += 1
        self._foreign += foreign
        return True

    def _count_foreign(self, name: str) -> int:
        """Return how many characters of a name do not follow from the message and from the answers to it."""
        text, bare = self.text or "", name.removeprefix("_dmarc.")
        if bare in text:
            return 0
        texts = (text, self._text_of_answers())
        if bare in texts[1]:
            return 0
        if found := _KEY.fullmatch(name):  # the selector and the domain of a signature (RFC 6376 section 3.6.2.1)
            if _occurs(f"s={found[1]}", texts) and _occurs(found[2], texts):
                return 0
        elif (address := _read_reversed(name)) and _occurs(address, texts):
            return 0
        labels = name.split(".")
        for count in range(1, min(len(labels) - 1, _MAX_ENDS + 1)):
            if _occurs(".".join(labels[count:]), texts):
                return sum(map(len, labels[:count])) + count
        return len(name)

    def _text_of_answers(self) -> str:
        if self._given is None:
            self._given = "\n".join("\n".join(answer.records) for answer in self._answers)[:_MAX_ANSWERS].lower()
        return self._given


def _occurs(name: str, texts: tuple[str, str]) -> bool:
    return name in texts[0] or name in texts[1]


def _read_reversed(name: str) -> str:
    """Return the address whose reverse name this is (RFC 1035 section 3.5, RFC 3596 section 2.5), or nothing."""
    if found := _REVERSED.fullmatch(name):
        return ".".join(reversed(found.groups()))
    if found := _REVERSED_IPV6.fullmatch(name):
        digits = found[1].replace(".", "")[::-1]
        return str(IPv6Address(struct.pack(">QQ", int(digits[:16], 16), int(digits[16:], 16))))
    return ""


MAX_SECONDS = 10.0
# Messages whose budgets are remembered; far more than can be in processing.
MAX_REMEMBERED = 10_000

log = Logger("gatepost.guard")


class _Step:
    """The questions that an analysis asks together, and what is known of the answers."""

    __slots__ = ("budget", "found", "inquiries", "job", "names", "questions")

    def __init__(self, job: Job[Any], questions: Questions, budget: QuestionBudget) -> None:
        self.job, self.questions, self.budget = job, questions, budget
        self.found: dict[Question, Answer] = {}
        self.names: list[Dns] = []
        self.inquiries: dict[AskReputation, tuple[Inquiry, ...]] = {}


class _OpenNames:
    """The names of a step that are being asked for, until the last answer has come, the time is over, or nobody waits
    any more: then the message and its body are free, whatever name servers answer later."""

    __slots__ = ("_answerer", "_missing", "_resolved", "_started", "_step", "answers", "timer")

    def __init__(
        self,
        answerer: "Answerer",
        step: _Step,
        resolved: dict[Dns, DnsAnswer],
        asked: Collection[Dns],
        answers: asyncio.Future[Answers],
    ) -> None:
        self._answerer, self._resolved, self._missing, self.answers = answerer, resolved, len(asked), answers
        self._step: _Step | None = step
        self._started = answerer.clock()
        self.timer: asyncio.TimerHandle | None = None

    def take(self, question: Dns, answer: DnsAnswer) -> None:
        """Keep one answer; conclude with the last one."""
        self._resolved[question] = answer
        self._missing -= 1
        if not self._missing:
            self.conclude()

    def conclude(self) -> None:
        if self._step is None or self.answers.done():
            return
        try:
            self.answers.set_result(self._answerer.conclude(self._step, self._resolved))
        except Exception as fault:  # noqa: BLE001  who waits is told, whatever it was
            self.answers.set_exception(fault)

    def end(self, _answers: asyncio.Future[Answers]) -> None:
        """Count the time that was waited, and let go of the message."""
        if self.timer is not None:
            self.timer.cancel()
        if self._step is not None:
            self._step.budget.seconds += self._answerer.clock() - self._started
        self._step, self.timer, self._resolved = None, None, {}


class Answerer:
    """Answers the questions of analyses, each within its message's budget. `refused` counts those beyond it. Without
    lists, antivirus, history or zones, nothing is listed, found or known."""

    def __init__(
        self,
        resolver: Resolver,
        max_seconds: float = MAX_SECONDS,
        clock: Callable[[], float] = time.monotonic,
        *,
        lists: ListAnswers | None = None,
        antivirus: ClamdClient | None = None,
        sender_histories: SenderHistories | None = None,
        reputation: ReputationZones | None = None,
        campaigns: Campaigns | None = None,
    ) -> None:
        self._resolver, self._max_seconds, self.clock = resolver, max_seconds, clock
        self._lists, self._antivirus, self._sender_histories = lists, antivirus, sender_histories
        self._reputation = reputation
        # One that has seen no message yet has a length of 0.
        self._campaigns = Campaigns() if campaigns is None else campaigns
        self._budgets: dict[str, QuestionBudget] = {}
        self.refused = 0

    async def answer(self, job: Job[Any], questions: Questions) -> Answers:
        """Return one answer for each question, in their order."""
        answers = self.begin(job, questions)
        return answers if isinstance(answers, tuple) else await answers

    def begin(self, job: Job[Any], questions: Questions) -> Answers | asyncio.Future[Answers]:
        """Return one answer for each question, in their order: at once where none has to be waited for, which is the
        usual case, else in a future that may be cancelled."""
        step = _Step(job, questions, self._budget(job.ggrid))
        unknown: list[AskAntivirus | AskReputation | AskSightings | Lookup] = []
        names: list[Dns] = []
        for question in dict.fromkeys(questions):
            # Most questions are about names.
            if isinstance(question, Dns):
                names.append(question)
            elif not step.budget.can_ask(question):
                step.found[question] = self._refuse(job, question)
            elif (answer := self._recall(step, question)) is not None:
                step.found[question] = answer
            elif question not in step.inquiries:
                # All but names and campaigns may have to be waited for.
                unknown.append(cast("AskAntivirus | AskReputation | AskSightings | Lookup", question))
        if names:
            known = self._resolver.recall(names)
            step.found.update(known.items())
            step.names = [name for name in names if name not in known] if known else names
        if unknown:
            return asyncio.get_running_loop().create_task(self._answer_later(step, unknown))
        return self._resolve(step)

    def _recall(self, step: _Step, question: Question) -> Answer | None:
        """Return what is not asked of DNS, if it takes no waiting; what zones are asked is noted. Tenant and body are
        the message's, whatever a worker may ask."""
        job, envelope = step.job, step.job.envelope
        match question:
            case AskSightings():
                histories = self._sender_histories
                return histories.recall(job.ggrid, envelope.tenant, question) if histories else Sightings()
            case AskCampaign():
                return self._campaigns.answer(envelope, question, is_mail=not job.is_trial)
            case Lookup():
                return None if self._lists else LookupAnswer()
            case AskAntivirus():
                return None if self._antivirus else Antivirus()
            case AskReputation():
                if self._reputation is None:
                    return Reputation()
                if not question.keys:
                    step.inquiries[question] = self._reputation.inquire_about(question.values)
        return None

    async def _answer_later(
        self, step: _Step, unknown: Sequence[AskAntivirus | AskReputation | AskSightings | Lookup]
    ) -> Answers:
        """Ask storage and antivirus, one after the other, and then DNS."""
        job, envelope = step.job, step.job.envelope
        for question in unknown:
            match question:
                case AskSightings() if self._sender_histories:
                    step.found[question] = await self._sender_histories.read(envelope.tenant, question)
                case Lookup() if self._lists:
                    step.found[question] = await self._lists.answer(envelope.tenant, question, envelope.recipients)
                case AskAntivirus() if self._antivirus:
                    step.found[question] = await self._antivirus.scan(job.body)
                case AskReputation() if self._reputation:
                    step.inquiries[question] = await self._reputation.inquire(envelope.tenant, question)
        answers = self._resolve(step)
        return answers if isinstance(answers, tuple) else await answers

    def _resolve(self, step: _Step) -> Answers | asyncio.Future[Answers]:
        """Look up the names that a worker asks for, within its budget, side by side with those that zones are asked
        for; what is not answered in time is left out. guard has built the names of zones itself, and each zone has a
        limit of its own."""
        if not step.names and not step.inquiries:
            return self.conclude(step, {})
        resolved: dict[Dns, DnsAnswer] = {}
        zone_names: list[Dns] = []
        if step.inquiries:
            zone_names = [inquiry.question for asked in step.inquiries.values() for inquiry in asked]
            resolved = self._resolver.recall(zone_names)
            zone_names = [name for name in zone_names if name not in resolved]
        left = self._max_seconds - step.budget.seconds
        asked = self._choose_names(step, zone_names) if left > 0 else ()
        if not asked:
            return self.conclude(step, resolved)
        return self._await_names(step, resolved, asked, left)

    def _choose_names(self, step: _Step, zone_names: Sequence[Dns]) -> dict[Dns, None]:
        """Return the names that may be asked for."""
        job, budget, names = step.job, step.budget, step.names
        if names and budget.text is None:
            budget.read_header(job.envelope, job.body.head(MAX_HEADER))
        allowed = [question for question in names if budget.can_look_up(question)]
        if len(allowed) < len(names):
            self._refuse(job, names[0])
        return dict.fromkeys([*allowed, *zone_names])

    def _await_names(
        self, step: _Step, resolved: dict[Dns, DnsAnswer], asked: Collection[Dns], left: float
    ) -> asyncio.Future[Answers]:
        """Ask for names, and conclude when the last answer has come or the time is over."""
        loop = asyncio.get_running_loop()
        waiting = _OpenNames(self, step, resolved, asked, loop.create_future())
        waiting.timer = loop.call_later(left, waiting.conclude)
        waiting.answers.add_done_callback(waiting.end)
        # It is called for none of them before all were asked.
        for question in asked:
            self._resolver.start(question, waiting.take)
        return waiting.answers

    def conclude(self, step: _Step, resolved: dict[Dns, DnsAnswer]) -> Answers:
        """Return the answers to all questions of a step."""
        found = step.found
        for name in step.names:
            found[name] = resolved.get(name, FAILED)
        for answer in found.values():
            if type(answer) is DnsAnswer and answer.records:
                step.budget.note(answer)
        for question, asked in step.inquiries.items():
            found[question] = self._reputation.conclude(asked, resolved) if self._reputation else Reputation()
        return tuple([found[question] for question in step.questions])

    def forget(self, ggrid: str) -> None:
        """Forget what a message has asked; its analysis has ended."""
        self._budgets.pop(ggrid, None)

    async def close(self) -> None:
        await self._resolver.close()

    def _refuse(self, job: Job[Any], question: Question) -> Answer:
        """Return the answer to a question over the budget: that there is none, which is never good news."""
        self.refused += 1
        log.warning("questions of a message over the budget", ggrid=job.ggrid, kind=type(question).__name__)
        if isinstance(question, Lookup):
            return LookupAnswer(failed=True)
        if isinstance(question, AskAntivirus):
            return Antivirus("failed", "it was asked too often")
        if isinstance(question, AskReputation):
            return Reputation()
        return Campaign() if isinstance(question, AskCampaign) else FAILED

    def _budget(self, ggrid: str) -> QuestionBudget:
        budget = self._budgets.get(ggrid)
        if budget is None:
            budget = self._budgets[ggrid] = QuestionBudget()
            if len(self._budgets) > MAX_REMEMBERED:
                del self._budgets[next(iter(self._budgets))]
        return budget
