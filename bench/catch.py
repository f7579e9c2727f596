"""What the shipped policy holds of good and bad mail, compared with rspamd and SpamAssassin; the cost of each stage.

Every message of `mail-dev` goes through the whole analysis in one process, without lists, antivirus or text model.
There is no DNS of the day on which old mail was sent, so every name is answered "no such name": nothing
authenticates, which is harder than real life. "Held" is any decision but `deliver`. CPU is that of the process, by
the stage that ran, on a sample of the same mail: of each message the cheapest of several rounds counts, since other
work on the machine makes every round dearer and none cheaper.

The peers see a sample: as many messages of every corpus, drawn with a fixed seed; in the same run ours is
shown for just those. The bounds are those of Wilson at 95 %. The name server of this setup gives rspamd points against
every message, so its default threshold says little here; `bench/peers.py` says what is taken out in the second column.
The table after it needs no threshold: each scanner's score at which it holds at most 1 % of the ham, and what it
catches there. Our rules were tuned while looking at this mail, those of the peers were not.
"""

import gc
import math
import os
import random
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import mean, quantiles

from bench import corpus, peers
from gatepost import names
from gatepost.analysis.analyse import analyse
from gatepost.analysis.report import Report
from gatepost.analysis.stages import Context
from gatepost.checks.registry import CHECKS
from gatepost.mail import links
from gatepost.mail.message import Envelope
from gatepost.questions import Answers, DnsAnswer, Lookup, LookupAnswer, Questions

ALL = 1_000_000
SAMPLE = int(os.environ.get("BENCH_SAMPLE", "100"))
SEED = 20_261_115
HARM = 0.01
TIMED, ROUNDS = 1_500, 5
NOW = 1_794_302_520.0
STAGES = ("parse", "authenticate", "files", "lists", "checks", "judge")
TOTALS = (("ham", ("ham",)), ("bounce", ("bounce",)), ("spam and phish", ("spam", "phish")))
Z = 1.959964

Group = tuple[str, str]

# What the interface calls "without the text model": rules alone, once there is one.
RULES = frozenset(check.name for check in CHECKS if check.name != "text_model")


@dataclass
class Clock:
    """CPU of one analysis by stage, in milliseconds."""

    spent: dict[str, float] = field(default_factory=lambda: dict.fromkeys(STAGES, 0.0))
    _stage: str = ""
    _since: float = 0.0

    def mark(self, stage: str) -> None:
        """Another stage begins."""
        stage = _stage(stage)
        if stage == self._stage:
            return
        moment = time.process_time()
        if self._stage:
            self.spent[self._stage] += (moment - self._since) * 1000
        self._stage, self._since = stage, moment

    @property
    def total(self) -> float:
        """All of it."""
        return sum(self.spent.values())


def _stage(name: str) -> str:
    if name.startswith("check:"):
        return "checks"
    return name if name in STAGES or name == "end" else "files"


def run() -> str:
    """Analyse everything, ask the peers about a part of it, and say what was held and what it cost."""
    try:
        messages = corpus.mail(ALL)
    except corpus.NotPresentError as absence:
        return f"not run: {absence}"
    names.preload_suffixes()
    links.preload_wrappers()
    verdicts: dict[Group, Counter[str]] = defaultdict(Counter)
    held: Counter[Group] = Counter()
    ours: dict[str, peers.Opinion] = {}
    for message in messages:
        report = _analysed(message)
        group = (message.label, message.corpus)
        ours[message.path] = peers.Opinion(report.decision != "deliver", report.score / 100)
        verdicts[group][report.verdict] += 1
        held[group] += ours[message.path].held
    beside = "\n".join(_beside(messages, ours))
    return "\n".join([*_held_table(verdicts, held), "", beside, "", *_stage_table(messages[:TIMED])])


def _analysed(message: corpus.Mail, clock: Clock | None = None) -> Report:
    given = message.envelope
    envelope = Envelope(
        str(given["envelopeFrom"]), ("r@example.org",), _text(given, "remoteAddress"), _text(given, "senderHelo")
    )
    clock = clock or Clock()
    asking = analyse(message.raw, envelope, Context(now=NOW, mark=clock.mark, checks=RULES))
    try:
        questions = next(asking)
        while True:
            questions = asking.send(_answers(questions))
    except StopIteration as stop:
        clock.mark("end")
        return stop.value  # type: ignore[no-any-return]


def _text(given: dict[str, object], key: str) -> str | None:
    return str(given[key]) if key in given else None


def _answers(questions: Questions) -> Answers:
    return tuple(LookupAnswer() if isinstance(each, Lookup) else DnsAnswer("no-name") for each in questions)


def _beside(messages: Sequence[corpus.Mail], ours: Mapping[str, peers.Opinion]) -> Iterator[str]:
    """The same sample judged by everybody."""
    chosen = sample(messages)
    answers: dict[str, peers.Opinions] = {"Gatepost": [ours[message.path] for message in chosen]}
    try:
        with peers.running() as asked:
            for ask in asked:
                answers.update(ask(chosen))
    except peers.PeersNotRunError as fault:
        yield f"rspamd and SpamAssassin not run: {fault}"
        return
    yield f"{len(chosen):,} messages, at most {SAMPLE} of each corpus (seed {SEED}); share held, with its bounds:"
    yield ""
    yield f"| Label | Corpus | Messages | {' | '.join(answers)} |"
    yield f"|---|---|---|{'---|' * len(answers)}"
    places: dict[Group, list[int]] = defaultdict(list)
    for place, message in enumerate(chosen):
        places[message.label, message.corpus].append(place)
    for label, name in sorted(places):
        yield _shares(label, name, places[label, name], answers)
    for title, labels in TOTALS:
        yield _shares(title, "all", [at for group in places if group[0] in labels for at in places[group]], answers)
    yield from ("", *_at_equal_harm(chosen, answers))


def _at_equal_harm(chosen: Sequence[corpus.Mail], answers: Mapping[str, peers.Opinions]) -> Iterator[str]:
    """What each catches by its score alone where it holds as much of the ham as the others."""
    yield f"| At most {HARM:.0%} of ham held | Score above | Ham held | Spam caught | Phish caught |"
    yield "|---|---|---|---|---|"
    for name, given in answers.items():
        scores: dict[str, list[float]] = defaultdict(list)
        for message, opinion in zip(chosen, given, strict=True):
            if opinion is not None:
                scores[message.label].append(opinion.score)
        limit = sorted(scores["ham"], reverse=True)[int(HARM * len(scores["ham"]))]
        cells = [_share([score > limit for score in scores[label]]) for label in ("ham", "spam", "phish")]
        yield f"| {name} | {limit:.1f} | {' | '.join(cells)} |"


def sample(messages: Sequence[corpus.Mail]) -> list[corpus.Mail]:
    """The same number of messages of every corpus, the same ones each time."""
    groups: dict[Group, list[corpus.Mail]] = defaultdict(list)
    for message in sorted(messages, key=lambda message: message.path):
        groups[message.label, message.corpus].append(message)
    chance = random.Random(SEED)
    return [each for group in sorted(groups) for each in chance.sample(groups[group], min(SAMPLE, len(groups[group])))]


def _shares(label: str, name: str, places: Sequence[int], answers: Mapping[str, peers.Opinions]) -> str:
    cells = []
    for given in answers.values():
        told = [opinion.held for place in places if (opinion := given[place]) is not None]
        missing = f", {len(places) - len(told)} unanswered" if len(told) < len(places) else ""
        cells.append(_share(told) + missing)
    return f"| {label} | {name} | {len(places):,} | {' | '.join(cells)} |"


def _share(held: Sequence[bool]) -> str:
    low, high = wilson(sum(held), len(held))
    return f"{sum(held) / max(len(held), 1):.1%} ({low:.1%} – {high:.1%})"


def wilson(hits: int, count: int) -> tuple[float, float]:
    """Between which shares the true one lies, with a certainty of 95 %."""
    if not count:
        return 0.0, 1.0
    share, weight = hits / count, Z * Z / count
    middle = share + weight / 2
    spread = Z * math.sqrt(share * (1 - share) / count + weight / (4 * count))
    return max(0.0, (middle - spread) / (1 + weight)), min(1.0, (middle + spread) / (1 + weight))


def _held_table(verdicts: dict[Group, Counter[str]], held: Counter[Group]) -> Iterator[str]:
    yield "| Label | Corpus | Messages | Held | Share | Bounds | Verdicts |"
    yield "|---|---|---|---|---|---|---|"
    for label, name in sorted(verdicts):
        counts = verdicts[label, name]
        shown = ", ".join(f"{verdict} {count}" for verdict, count in counts.most_common())
        yield _row(label, name, counts.total(), held[label, name], shown)
    for title, labels in TOTALS:
        groups = [group for group in verdicts if group[0] in labels]
        total = sum(verdicts[group].total() for group in groups)
        yield _row(title, "all", total, sum(held[group] for group in groups), "")


def _row(label: str, name: str, total: int, held: int, verdicts: str) -> str:
    low, high = wilson(held, total)
    share = f"{held / max(total, 1):.2%} | {low:.2%} – {high:.2%}"
    return f"| {label} | {name} | {total:,} | {held:,} | {share} | {verdicts} |"


def _stage_table(messages: Sequence[corpus.Mail]) -> Iterator[str]:
    # As in a worker, which has loaded everything before it was made.
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000)
    cheapest: list[Clock] = []
    for turn in range(ROUNDS):
        clocks = [Clock() for _ in messages]
        for message, clock in zip(messages, clocks, strict=True):
            _analysed(message, clock)
        pairs = zip(cheapest or clocks, clocks, strict=True)
        cheapest = [min(pair, key=lambda clock: clock.total) for pair in pairs]
        print(f"round {turn + 1}: {mean(clock.total for clock in clocks):.3f} ms a message", flush=True)
    yield f"{len(messages):,} messages, the cheapest of {ROUNDS} rounds for each:"
    yield ""
    yield "| Stage | Mean, ms of CPU | p50 | p99 | Max |"
    yield "|---|---|---|---|---|"
    for stage in STAGES:
        yield _times(stage, [clock.spent[stage] for clock in cheapest])
    yield _times("all", [clock.total for clock in cheapest])


def _times(stage: str, spent: list[float]) -> str:
    cuts = quantiles(spent, n=100)
    return f"| {stage} | {mean(spent):.3f} | {cuts[49]:.3f} | {cuts[98]:.2f} | {max(spent):.1f} |"
