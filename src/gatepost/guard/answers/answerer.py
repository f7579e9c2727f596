"""Answers for an analysis: its questions go out together, and those to DNS have a limit on their time in all.

A slow name server must not hold a slot for the whole time that the analysis may take: when a message has used up its
share, whatever is still open is answered "failed", which the analysis reports as `temperror` (RFC 8601 section 2.7).
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from gatepost.guard.answers.campaigns import Campaigns
from gatepost.guard.answers.clamd import ReadableBody
from gatepost.mail.message import Envelope
from gatepost.questions import (
    Answer,
    Answers,
    Antivirus,
    AskAntivirus,
    AskCampaign,
    AskSightings,
    Dns,
    DnsAnswer,
    Lookup,
    LookupAnswer,
    Question,
    Questions,
    Sightings,
)

FAILED = DnsAnswer("failed")
MAX_SECONDS = 10.0
# Messages whose use of time is remembered; far more than can be in processing.
MAX_REMEMBERED = 10_000


class QuestionedJob(Protocol):
    """What the answerer needs to know of a job."""

    @property
    def ggrid(self) -> str: ...

    @property
    def envelope(self) -> Envelope: ...


class AnswersLookups(Protocol):
    """What looks up list entries; `ListAnswers` does."""

    async def answer(self, tenant: str | None, question: Lookup) -> LookupAnswer: ...


class ScansForMalware(Protocol):
    """What recognises malware; `ClamdClient` does."""

    async def scan(self, body: ReadableBody) -> Antivirus: ...


class NoLists:
    """For analyses where there is no storage: nothing is listed."""

    async def answer(self, _tenant: str | None, _question: Lookup) -> LookupAnswer:
        return LookupAnswer()


class AnswersSightings(Protocol):
    """What remembers which senders a tenant knows; `SenderHistories` does."""

    async def answer(self, ggrid: str, tenant: str | None, question: AskSightings) -> Sightings: ...


class NoSenderHistory:
    """For analyses where nothing is remembered."""

    async def answer(self, _ggrid: str, _tenant: str | None, _question: AskSightings) -> Sightings:
        return Sightings()


class ResolvesDns(Protocol):
    """What looks up names; `known` has the answers that take no waiting."""

    def known(self, question: Dns) -> DnsAnswer | None: ...

    def start(self, question: Dns) -> asyncio.Future[DnsAnswer]: ...

    async def close(self) -> None: ...


class Answerer:
    """Answers the questions of analyses, each within its message's share of time."""

    def __init__(
        self,
        resolver: ResolvesDns,
        max_seconds: float = MAX_SECONDS,
        clock: Callable[[], float] = time.monotonic,
        *,
        lists: AnswersLookups | None = None,
        antivirus: ScansForMalware | None = None,
        sender_histories: AnswersSightings | None = None,
    ) -> None:
        self._resolver, self._max_seconds, self._clock = resolver, max_seconds, clock
        self._lists = lists or NoLists()
        self._antivirus = antivirus
        self._sender_histories = sender_histories or NoSenderHistory()
        self.campaigns = Campaigns()
        self._used: dict[str, float] = {}

    async def answer(self, job: QuestionedJob, questions: Questions) -> Answers:
        """Return one answer for each question, in their order."""
        found: dict[Question, Answer] = {}
        missing: list[Dns] = []
        for question in dict.fromkeys(questions):
            if isinstance(question, AskAntivirus):
                found[question] = await self._scan(job)
            elif isinstance(question, AskCampaign):
                found[question] = self.campaigns.answer(job.envelope, question)
            elif isinstance(question, Lookup):
                # The tenant is the message's, whatever a worker may ask.
                found[question] = await self._lists.answer(job.envelope.tenant, question)
            elif isinstance(question, AskSightings):
                found[question] = await self._sender_histories.answer(job.ggrid, job.envelope.tenant, question)
            elif known := self._resolver.known(question):
                found[question] = known
            else:
                missing.append(question)
        if missing:
            looked_up = await self._within_share(job.ggrid, missing)
            found.update((question, looked_up.get(question, FAILED)) for question in missing)
        return tuple(found[question] for question in questions)

    async def _scan(self, job: QuestionedJob) -> Antivirus:
        """What the antivirus says of the job's message; "off" where there is none, whatever a worker may ask."""
        body = getattr(job, "body", None)
        return await self._antivirus.scan(body) if self._antivirus and body else Antivirus()

    def forget(self, ggrid: str) -> None:
        """Forget how much time a message has used; its analysis has ended."""
        self._used.pop(ggrid, None)

    async def close(self) -> None:
        """Close the resolver."""
        await self._resolver.close()

    async def _within_share(self, ggrid: str, questions: Sequence[Dns]) -> dict[Dns, DnsAnswer]:
        left = self._max_seconds - self._used.get(ggrid, 0.0)
        if left <= 0:
            return {}
        started = self._clock()
        try:
            return await self._ask(questions, left)
        finally:
            self._remember(ggrid, self._clock() - started)

    async def _ask(self, questions: Sequence[Dns], left: float) -> dict[Dns, DnsAnswer]:
        """Look questions up side by side; those that are not answered in time are left out."""
        answers = {question: self._resolver.start(question) for question in questions}
        await asyncio.wait(answers.values(), timeout=left)
        return {question: answer.result() for question, answer in answers.items() if answer.done()}

    def _remember(self, ggrid: str, seconds: float) -> None:
        self._used[ggrid] = self._used.get(ggrid, 0.0) + seconds
        if len(self._used) > MAX_REMEMBERED:
            del self._used[next(iter(self._used))]
