"""The analysis in this process: the same straight line that a worker runs, with nobody watching."""

import asyncio
import contextlib
import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import msgspec

from gatepost.abby.messages import described
from gatepost.analysis import Context, Report, analyse, undecided
from gatepost.api.times import now
from gatepost.asking import DnsAnswer
from gatepost.cli.batch import Analysed, Scanner
from gatepost.cli.mailbox import Mail
from gatepost.config import GUARD_FILE, load_guard, overrides
from gatepost.ids import new_id
from gatepost.mail.message import Envelope
from gatepost.policy import Policy
from gatepost.questions import Analysis, Answers, Lookup, LookupAnswer, Questions
from gatepost.settings import Guard
from gatepost.store.messages import MessageRecord

Answer: TypeAlias = Callable[[Questions], Answers]

FAILED = DnsAnswer("failed")


class _Job(msgspec.Struct, frozen=True):
    """One message's questions share one budget of time."""

    ggrid: str
    envelope: Envelope


@contextlib.contextmanager
def scanner(envelope: Envelope, dns: bool, config: Path) -> Iterator[Scanner]:
    """Whoever scans a message here, by the policy of the configuration, if there is one. With `dns`, its name servers
    are asked."""
    guard = load_guard(config) if (config / GUARD_FILE).exists() else Guard()
    policy = overrides.loaded(guard.policy).of(envelope.tenant).policy
    if not dns:
        yield lambda mail: _analysed(mail, envelope, policy, lambda _ggrid, questions: _unasked(questions))
        return
    from gatepost.guard.answers import Answerer
    from gatepost.guard.dns import Resolver

    with asyncio.Runner() as runner:
        answerer = Answerer(Resolver(guard.dns.nameservers, guard.dns.timeout / 1000))
        yield lambda mail: _analysed(
            mail,
            envelope,
            policy,
            lambda ggrid, questions: runner.run(answerer.answer(_Job(ggrid, envelope), questions)),
        )
        runner.run(answerer.close())


def _unasked(questions: Questions) -> Answers:
    """Nobody is asked: DNS has failed, and nothing is listed."""
    return tuple(LookupAnswer() if isinstance(question, Lookup) else FAILED for question in questions)


def _analysed(mail: Mail, envelope: Envelope, policy: Policy, answer: Callable[[str, Questions], Answers]) -> Analysed:
    ggrid, created = new_id(), now()
    if mail.cut:
        report = undecided("The message is larger than 50 MiB")
    else:
        context = Context(now=created / 1000, policy=policy)
        report = _concluded(analyse(mail.raw, envelope, context), lambda questions: answer(ggrid, questions))
    digest = hashlib.sha256(mail.raw).hexdigest()
    return described(MessageRecord(ggrid, created, now(), envelope, len(mail.raw), digest, report))


def _concluded(asking: Analysis[Report], answer: Answer) -> Report:
    try:
        questions = next(asking)
        while True:
            questions = asking.send(answer(questions))
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]
    except Exception as fault:  # noqa: BLE001  as in a worker: an analysis that breaks is undecided
        return undecided(f"The analysis crashed ({type(fault).__name__})")
