"""Scan a message in this process, as a worker does, or through a running Gatepost."""

import asyncio
import contextlib
import hashlib
from collections.abc import Callable, Iterator
from http import HTTPStatus
from pathlib import Path
from typing import TypeAlias

import msgspec

from gatepost.abby.messages import describe_message
from gatepost.analysis import analyse
from gatepost.cli.scan_files import Analysed, Mail, NotScanned, Scanner
from gatepost.client import Client
from gatepost.client.exchange import ApiError
from gatepost.ids import new_id
from gatepost.mail.message import Envelope
from gatepost.policy.rules import Policy
from gatepost.questions import Analysis, Answers, DnsAnswer, Lookup, LookupAnswer, Questions
from gatepost.report import Report, undecided
from gatepost.service.data_folder import DataFolder, StartError
from gatepost.settings import files
from gatepost.settings.files import GUARD_FILE, load_guard
from gatepost.settings.keys import Guard
from gatepost.stages import Context
from gatepost.store.messages import MessageRecord
from gatepost.times import now

Answer: TypeAlias = Callable[[Questions], Answers]

FAILED = DnsAnswer("failed")


class _Job(msgspec.Struct, frozen=True):
    """The questions of one message share one time budget."""

    ggrid: str
    envelope: Envelope


@contextlib.contextmanager
def offline_scanner(envelope: Envelope, dns: bool, config: Path) -> Iterator[Scanner]:
    """Yield a scanner that works in this process by the policy and, with `dns`, the name servers of a configuration."""
    guard = load_guard(config) if (config / GUARD_FILE).exists() else Guard()
    policy = files.load_policies(guard.policy).of(envelope.tenant).policy
    if not dns:
        yield lambda mail: _analyse_offline(
            mail, envelope, policy, lambda _ggrid, questions: _answer_nothing(questions)
        )
        return
    from gatepost.guard.answers.answerer import Answerer
    from gatepost.guard.answers.dns import Resolver

    with asyncio.Runner() as runner:
        answerer = Answerer(Resolver(guard.dns.nameservers, guard.dns.timeout / 1000))
        yield lambda mail: _analyse_offline(
            mail,
            envelope,
            policy,
            lambda ggrid, questions: runner.run(answerer.answer(_Job(ggrid, envelope), questions)),
        )
        runner.run(answerer.close())


def _answer_nothing(questions: Questions) -> Answers:
    """Answer as if DNS had failed and no list had an entry."""
    return tuple(LookupAnswer() if isinstance(question, Lookup) else FAILED for question in questions)


def _analyse_offline(
    mail: Mail, envelope: Envelope, policy: Policy, answer: Callable[[str, Questions], Answers]
) -> Analysed:
    ggrid, created = new_id(), now()
    if mail.cut:
        report = undecided("The message is larger than 50 MiB")
    else:
        context = Context(now=created / 1000, policy=policy)
        report = _run_analysis(analyse(mail.raw, envelope, context), lambda questions: answer(ggrid, questions))
    digest = hashlib.sha256(mail.raw).hexdigest()
    return describe_message(MessageRecord(ggrid, created, now(), envelope, len(mail.raw), digest, report))


def _run_analysis(asking: Analysis[Report], answer: Answer) -> Report:
    try:
        questions = next(asking)
        while True:
            questions = asking.send(answer(questions))
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]
    except Exception as fault:  # noqa: BLE001  as in a worker: an analysis that breaks is undecided
        return undecided(f"The analysis crashed ({type(fault).__name__})")


# The API requires a recipient; a file has none.
PLACEHOLDER_RECIPIENT = "recipient@example.invalid"
# This message cannot be scanned; the next one may.
_REFUSED = frozenset({HTTPStatus.BAD_REQUEST, HTTPStatus.REQUEST_ENTITY_TOO_LARGE})


class Service(msgspec.Struct, frozen=True):
    """The Gatepost to call, with token and certificate; what is not given is taken from the data folder."""

    url: str
    token_file: Path | None
    cacert: Path | None
    verify: bool


@contextlib.contextmanager
def online_scanner(service: Service, envelope: Envelope, data: DataFolder) -> Iterator[Scanner]:
    """Yield a scanner that sends each message to a running Gatepost."""
    token_file = service.token_file or data.token
    try:
        token = token_file.read_text("ascii").strip()
    except (OSError, ValueError):
        raise StartError(
            f"There is no API token in {token_file}; name a file that has one with --token-file."
        ) from None
    own = data.certificate if data.certificate.exists() else None
    with _connect(service, token, service.cacert or own) as client:
        yield lambda mail: _analyse_online(client, mail, envelope)


def _connect(service: Service, token: str, ca: Path | None) -> Client:
    try:
        return Client(service.url, token, ca=ca, verify=service.verify)
    except OSError:
        raise StartError(f"{ca} has no certificate that could be read.") from None


def _analyse_online(client: Client, mail: Mail, envelope: Envelope) -> Analysed | NotScanned:
    try:
        result = client.scan(
            mail.raw,
            sender=envelope.sender,
            recipients=envelope.recipients or (PLACEHOLDER_RECIPIENT,),
            remote_address=envelope.remote_address,
            helo=envelope.helo,
            tenant=envelope.tenant,
        )
    except ApiError as fault:
        if fault.status not in _REFUSED:
            raise
        return NotScanned(str(fault))
    try:
        return client.message(result.ggrid)
    except ApiError as fault:
        # Not every token may read ledgers.
        if fault.status != HTTPStatus.FORBIDDEN:
            raise
        return result
