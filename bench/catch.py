"""What is held of good and bad mail by the shipped policy, and what each stage of the analysis costs.

Every message of `mail-dev` goes through the whole analysis in one process, without lists, antivirus or text model.
There is no DNS of the day on which old mail was sent, so every name is answered "no such name": nothing
authenticates, which is harder than real life. "Held" is any decision but `deliver`. CPU is that of the process, by
the stage that ran.
"""

import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from statistics import mean, quantiles

from bench import corpus
from gatepost import names
from gatepost.analysis import Context, Report, analyse
from gatepost.asking import DnsAnswer
from gatepost.mail import text
from gatepost.mail.message import Envelope
from gatepost.questions import Answers, Lookup, LookupAnswer, Questions

ALL = 1_000_000
NOW = 1_794_302_520.0
GOOD = ("ham", "bounce")
STAGES = ("parse", "authenticate", "files", "lists", "checks", "judge")


@dataclass
class Clock:
    """CPU seconds by stage, for one message after the other."""

    spent: dict[str, list[float]] = field(default_factory=lambda: {stage: [] for stage in STAGES})
    _stage: str = ""
    _since: float = 0.0
    _now: dict[str, float] = field(default_factory=dict)

    def start(self) -> None:
        """A new message."""
        self._now = dict.fromkeys(STAGES, 0.0)
        self._stage = ""

    def mark(self, stage: str) -> None:
        """Another stage begins."""
        moment = time.process_time()
        if self._stage:
            self._now[self._stage] += moment - self._since
        self._stage, self._since = _stage(stage), moment

    def stop(self) -> None:
        """The message is done."""
        self.mark("judge")
        for stage, seconds in self._now.items():
            self.spent[stage].append(seconds * 1000)


def _stage(name: str) -> str:
    if name.startswith("check:"):
        return "checks"
    return name if name in STAGES else "files"


def run() -> str:
    """Analyse everything, and say what was held and what it cost."""
    try:
        messages = corpus.mail(ALL)
    except corpus.NotPresentError as absence:
        return f"not run: {absence}"
    names.warm()
    text.warm()
    clock = Clock()
    verdicts: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    held: Counter[tuple[str, str]] = Counter()
    for message in messages:
        report = _analysed(message, clock)
        group = (message.label, message.corpus)
        verdicts[group][report.verdict] += 1
        held[group] += report.decision != "deliver"
    return "\n".join([*_held_table(verdicts, held), "", *_stage_table(clock)])


def _analysed(message: corpus.Mail, clock: Clock) -> Report:
    given = message.envelope
    envelope = Envelope(
        str(given["envelopeFrom"]), ("r@example.org",), _text(given, "remoteAddress"), _text(given, "senderHelo")
    )
    clock.start()
    asking = analyse(message.raw, envelope, Context(now=NOW, mark=clock.mark))
    try:
        questions = next(asking)
        while True:
            questions = asking.send(_answers(questions))
    except StopIteration as stop:
        clock.stop()
        return stop.value  # type: ignore[no-any-return]


def _text(given: dict[str, object], key: str) -> str | None:
    return str(given[key]) if key in given else None


def _answers(questions: Questions) -> Answers:
    return tuple(LookupAnswer() if isinstance(each, Lookup) else DnsAnswer("no-name") for each in questions)


def _held_table(verdicts: dict[tuple[str, str], Counter[str]], held: Counter[tuple[str, str]]) -> Iterator[str]:
    yield "| Label | Corpus | Messages | Held | Share | Verdicts |"
    yield "|---|---|---|---|---|---|"
    for label, name in sorted(verdicts):
        counts = verdicts[label, name]
        shown = ", ".join(f"{verdict} {count}" for verdict, count in counts.most_common())
        yield _row(label, name, counts.total(), held[label, name], shown)
    for title, labels in (("ham", ("ham",)), ("bounce", ("bounce",)), ("spam and phish", ("spam", "phish"))):
        groups = [group for group in verdicts if group[0] in labels]
        total = sum(verdicts[group].total() for group in groups)
        yield _row(title, "all", total, sum(held[group] for group in groups), "")


def _row(label: str, name: str, total: int, held: int, verdicts: str) -> str:
    return f"| {label} | {name} | {total:,} | {held:,} | {held / max(total, 1):.2%} | {verdicts} |"


def _stage_table(clock: Clock) -> Iterator[str]:
    yield "| Stage | Mean, ms of CPU | p50 | p99 | Max |"
    yield "|---|---|---|---|---|"
    for stage, spent in clock.spent.items():
        yield _times(stage, spent)
    yield _times("all", [sum(each) for each in zip(*clock.spent.values(), strict=True)])


def _times(stage: str, spent: list[float]) -> str:
    cuts = quantiles(spent, n=100)
    return f"| {stage} | {mean(spent):.3f} | {cuts[49]:.3f} | {cuts[98]:.2f} | {max(spent):.1f} |"
