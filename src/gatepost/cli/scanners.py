"""Read messages from files, folders, standard input and mailboxes; scan them here, sealed, or by a running Gatepost.

A mailbox (RFC 4155) is messages after each other, each after a line `From sender date`. Such a line counts only at the
start or after an empty line, and only with a time and a year in it: mail has paragraphs that start with "From ". Lines
that were quoted as `>From ` lose one `>` again ("mboxrd"), so that signatures remain valid.

Several messages give a line for each one that is held, a progress bar and a summary.
"""

import asyncio
import contextlib
import hashlib
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

import msgspec

from gatepost.abby.messages import describe_message
from gatepost.analysis.report import undecided
from gatepost.api.scanning import AnalysedMessage, MessageAnalysisResult, encode_scanning
from gatepost.cli import ledger
from gatepost.cli.deployment import Deployment
from gatepost.cli.printing import Output, ProgressBar, print_line, print_text, render_count
from gatepost.cli.sealed_analysis import (
    FAILED,
    AnswerQuestions,
    SealedAnalyser,
    answer_nothing,
    answer_offline,
    open_analyser,
)
from gatepost.client import Client
from gatepost.client.calls import ApiError
from gatepost.ids import new_id
from gatepost.mail.message import Envelope
from gatepost.questions import Answer, Answers, Dns, Question, Questions
from gatepost.settings import files
from gatepost.settings.keys import GuardSettings
from gatepost.store.message_records import MessageRecord
from gatepost.times import now
from gatepost.workers.jobs import Job

FROM_LINE = re.compile(rb"From [^\r\n]{0,300}? \d{1,2}:\d\d(?::\d\d)?[^\r\n]{0,60}? \d{4}[^\r\n]{0,40}\r?\n?")
QUOTED = re.compile(rb">+From ")
# The limit of the API; a longer line or message is cut there and marked as cut.
MAX_MESSAGE = 52_428_800
STANDARD_INPUT = Path("-")


class Mail(msgspec.Struct, frozen=True):
    """One message and its source. `consumed` bytes of the source were read; `cut` says that the message was longer."""

    name: str
    raw: bytes
    consumed: int
    cut: bool = False


def total_size(paths: Iterable[Path]) -> int:
    """Return the size of all files in bytes, for a progress bar; standard input counts as 0."""
    return sum(file.stat().st_size for file in files_in(paths) if file != STANDARD_INPUT)


def files_in(paths: Iterable[Path]) -> Iterator[Path]:
    """Yield every file; a folder stands for all files below it, in order."""
    for path in paths:
        if path != STANDARD_INPUT and path.is_dir():
            yield from sorted(entry for entry in path.rglob("*") if entry.is_file())
        else:
            yield path


def is_mailbox(path: Path) -> bool:
    """Return whether a file is a mailbox with several messages."""
    with path.open("rb") as stream:
        return FROM_LINE.fullmatch(stream.readline(1000)) is not None


def messages_in(paths: Iterable[Path]) -> Iterator[Mail]:
    """Yield every message of every file; each is read when it is asked for."""
    for path in files_in(paths):
        if path == STANDARD_INPUT:
            yield from _read_messages(sys.stdin.buffer, "-")
        else:
            with path.open("rb") as stream:
                yield from _read_messages(stream, str(path))


def _read_messages(stream: BinaryIO, name: str) -> Iterator[Mail]:
    first = stream.readline(MAX_MESSAGE + 1)
    if FROM_LINE.fullmatch(first):
        yield from _split_mailbox(stream, name, len(first))
        return
    raw = first + stream.read(MAX_MESSAGE + 1 - len(first))
    yield Mail(name, raw[:MAX_MESSAGE], len(raw), cut=len(raw) > MAX_MESSAGE)


def _split_mailbox(stream: BinaryIO, name: str, consumed: int) -> Iterator[Mail]:
    number, blank = 1, b""
    raw = bytearray()  # not its lines: each would take 40 bytes more, and a message can have millions
    while line := stream.readline(MAX_MESSAGE):
        if blank and FROM_LINE.fullmatch(line):
            yield _build_mail(f"{name}#{number}", raw, blank, consumed)
            number, consumed, raw = number + 1, 0, bytearray()
        elif consumed <= MAX_MESSAGE:
            raw += line[1:] if QUOTED.match(line) else line
        consumed += len(line)
        blank = line if line in {b"\n", b"\r\n"} else b""
    yield _build_mail(f"{name}#{number}", raw, blank, consumed)


def _build_mail(name: str, raw: bytearray, blank: bytes, consumed: int) -> Mail:
    # The empty line before the next From_ line belongs to the mailbox, not to the message.
    message = bytes(raw.removesuffix(blank) or raw)
    return Mail(name, message[:MAX_MESSAGE], consumed, cut=consumed > MAX_MESSAGE)


Analysed: TypeAlias = AnalysedMessage | MessageAnalysisResult


class NotScanned(msgspec.Struct, frozen=True):
    """A message that the service refused, and the reason."""

    reason: str


Scanner: TypeAlias = Callable[[Mail], Analysed | NotScanned]
Show: TypeAlias = Callable[[Mail, Analysed | NotScanned], None]
NOT_SCANNED = "not scanned"


def scan_paths(paths: list[Path], scanner: Scanner, output: Output, note: str = "") -> Counter[str]:
    """Scan all messages and print them; return the number of messages per verdict."""
    if output.json:
        return _scan_all(messages_in(paths), scanner, _print_json)
    if _has_several(paths):
        with ProgressBar("scanning") as progress:
            mails = _show_progress(messages_in(paths), progress, total_size(paths))
            counts = _scan_all(mails, scanner, partial(_print_line, progress=progress))
        ledger.show_summary(counts)
    else:
        counts = _scan_all(messages_in(paths), scanner, _print_whole)
    if note:
        print_text(note, style="dim")
    return counts


def _has_several(paths: list[Path]) -> bool:
    only = paths[0]
    return len(paths) > 1 or (only != STANDARD_INPUT and (only.is_dir() or is_mailbox(only)))


def _scan_all(mails: Iterable[Mail], scanner: Scanner, show: Show) -> Counter[str]:
    counts: Counter[str] = Counter()
    for mail in mails:
        analysed = scanner(mail)
        show(mail, analysed)
        counts[NOT_SCANNED if isinstance(analysed, NotScanned) else analysed.verdict] += 1
    return counts


def _show_progress(mails: Iterable[Mail], progress: ProgressBar, total: int) -> Iterator[Mail]:
    done = 0
    for count, mail in enumerate(mails, 1):
        yield mail
        done += mail.consumed
        progress.update(done, total or None, render_count(count, "message", "messages"))


def _print_whole(mail: Mail, analysed: Analysed | NotScanned) -> None:
    if isinstance(analysed, NotScanned):
        _print_line(mail, analysed)
    else:
        ledger.show_ledger(mail.name, analysed)


def _print_line(mail: Mail, analysed: Analysed | NotScanned, progress: ProgressBar | None = None) -> None:
    if not isinstance(analysed, NotScanned) and analysed.decision == "deliver":
        return
    if progress:
        progress.hide()
    if isinstance(analysed, NotScanned):
        said = f"{NOT_SCANNED}: {analysed.reason}"
    elif isinstance(analysed, AnalysedMessage):
        said = f"{analysed.verdict}: {analysed.ledger.reason}"
    else:
        said = analysed.verdict
    print_line((f"{mail.name}: {said}", ""))


def _print_json(mail: Mail, analysed: Analysed | NotScanned) -> None:
    names = zip(analysed.__struct_encode_fields__, analysed.__struct_fields__, strict=True)
    print(encode_scanning({"file": mail.name, **{name: getattr(analysed, field) for name, field in names}}).decode())


@contextlib.contextmanager
def offline_scanner(envelope: Envelope, dns: bool, place: Deployment) -> Iterator[Scanner]:
    """Yield a scanner with a sealed worker of its own; it goes by the policy and, with `dns`, the name servers of a
    configuration."""
    guard = place.load_guard_if_any()
    policy = files.load_policies(guard.policy, guard.plugins).of(envelope.tenant).policy
    with asyncio.Runner() as runner, contextlib.ExitStack() as stack:
        answer = stack.enter_context(_open_resolver(runner, guard)) if dns else answer_offline
        analyser = stack.enter_context(open_analyser(runner, guard, policy, answer))
        yield lambda mail: _analyse_offline(analyser, mail, envelope)


@contextlib.contextmanager
def _open_resolver(runner: asyncio.Runner, guard: GuardSettings) -> Iterator[AnswerQuestions]:
    """Yield what answers questions for DNS records; messages of one scan are no campaign."""
    from gatepost.guard.answers.answerer import Answerer
    from gatepost.guard.answers.dns import Resolver

    async def open_answerer() -> Answerer:
        return Answerer(Resolver(guard.dns.nameservers, guard.dns.timeout / 1000))

    answerer = runner.run(open_answerer())

    async def answer(job: Job[Any], questions: Questions) -> Answers:
        names = tuple(question for question in questions if isinstance(question, Dns))
        found: dict[Question, Answer] = dict(zip(names, await answerer.answer(job, names), strict=True))
        return tuple(found.get(question) or answer_nothing(question, FAILED) for question in questions)

    try:
        yield answer
    finally:
        runner.run(answerer.close())


def _analyse_offline(analyser: SealedAnalyser, mail: Mail, envelope: Envelope) -> Analysed:
    ggrid, created = new_id(), now()
    if mail.cut:
        report = undecided("The message is larger than 50 MiB")
    else:
        report = analyser.analyse(mail.raw, ggrid, envelope, created / 1000)
    digest = hashlib.sha256(mail.raw).hexdigest()
    return describe_message(MessageRecord(ggrid, created, now(), envelope, len(mail.raw), digest, report))


# The API requires a recipient; a file has none.
PLACEHOLDER_RECIPIENT = "recipient@example.invalid"
# This message cannot be scanned; the next one may.
_REFUSED = frozenset({HTTPStatus.BAD_REQUEST, HTTPStatus.REQUEST_ENTITY_TOO_LARGE})


def scan_online(client: Client, envelope: Envelope, mail: Mail) -> Analysed | NotScanned:
    """Have a running Gatepost analyse a message."""
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
