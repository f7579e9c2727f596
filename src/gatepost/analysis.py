"""The straight line that every message takes: parse, ask, check, judge.

A generator that yields questions (see `asking`) and returns a `Report`. It is deterministic: the same bytes, envelope,
context and answers give the same report, so a message can be replayed and an analysis whose worker died can start
again elsewhere. Each stage is announced through `context.mark` before it starts, so that whoever watches from outside
knows what a stalled worker was doing and can have the message analysed again without that stage.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from gatepost import acquaintance
from gatepost.acquaintance import STRANGE, Acquaintance, Facets
from gatepost.asking import Asking, together
from gatepost.auth import authenticate
from gatepost.auth.dnsname import address
from gatepost.auth.results import Authentication
from gatepost.checks import CHECKS, TITLES
from gatepost.checks.wording import wording
from gatepost.files import unfold
from gatepost.files.pictures import looked_at
from gatepost.files.tree import Antivirus, File
from gatepost.files.yararules import Rules, marked
from gatepost.findings import Check, Finding, Outcome, Protected, Reading
from gatepost.lists.rulings import Ruling, rule
from gatepost.lists.subjects import Subject, questions, subjects
from gatepost.lists.unkeyed import NOTHING, Compiled, hit
from gatepost.mail import read
from gatepost.mail.message import Envelope, Message
from gatepost.policy import Decision, Policy, Verdict, shipped
from gatepost.questions import Analysis, AskAntivirus, AskCampaign, Campaign, Lookup, LookupAnswer, Questions, Sighted
from gatepost.textmodel.blend import Models, built_in
from gatepost.textmodel.sketch import Sketch, sketch
from gatepost.textmodel.words import body_words
from gatepost.verdict import Line, ListNote, judge

T = TypeVar("T")


def _staged(checks: Iterable[Check]) -> tuple[tuple[str, Check], ...]:
    return tuple((f"check:{check.name}", check) for check in checks)


_STAGED = _staged(CHECKS)
STAGES: tuple[str, ...] = (
    "parse",
    "acquaintance",
    "campaign",
    "authenticate",
    "files",
    "pictures",
    "yara",
    "lists",
    *(stage for stage, _ in _STAGED),
    "judge",
)
# Without these there is nothing to judge: a message that breaks them is undecided.
INDISPENSABLE = frozenset({"parse", "lists", "judge"})


def _unwatched(_stage: str) -> None:
    """Nobody watches an analysis that runs in the caller's own process."""


class Context(msgspec.Struct, frozen=True):
    """What an analysis needs besides the message. `skip` names stages that broke a worker, each with what happened;
    `extra` are checks that run after the registered ones; `rules` are the operator's YARA rules, if there are any;
    `antivirus` says whether there is one to ask, `acquaintance` whether somebody remembers whom the tenant knows,
    `campaigns` whether somebody remembers what came in lately; `models` are the text models of the deployment."""

    now: float
    policy: Policy = msgspec.field(default_factory=shipped)
    skip: Mapping[str, str] = {}
    mark: Callable[[str], None] = _unwatched
    lists: Compiled = NOTHING
    checks: frozenset[str] | tuple[str, ...] = ()
    extra: tuple[Check, ...] = ()
    rules: Rules | None = None
    antivirus: bool = False
    acquaintance: bool = False
    models: Models = msgspec.field(default_factory=built_in)
    campaigns: bool = False


class FileSeen(msgspec.Struct, frozen=True, omit_defaults=True):
    """A file in the report: where it was, what it is, and its hash, without its content."""

    path: str
    type: str
    size: int
    sha256: str
    names: tuple[str, ...] = ()
    unread: str = ""


class Report(msgspec.Struct, frozen=True):
    """The whole account of one analysis: the result and the ledger that explains it."""

    verdict: Verdict
    decision: Decision
    tags: tuple[str, ...]
    score: int
    reason: str
    lines: tuple[Line, ...] = ()
    outcomes: tuple[Outcome, ...] = ()
    authentication: Authentication = Authentication()
    files: tuple[FileSeen, ...] = ()
    subject: str = ""
    senders: tuple[str, ...] = ()
    lists: tuple[ListNote, ...] = ()
    subjects: tuple[Subject, ...] = ()
    overrides: tuple[str, ...] = ()


def analyse(raw: bytes, envelope: Envelope, context: Context) -> Analysis[Report]:
    """Analyse one message."""
    outcomes: list[Outcome] = []
    context.mark("parse")
    message = read(raw)
    facets = _facets(message, envelope, context, outcomes)
    words, mine = _sketched(message, context, outcomes)
    authentication, met, campaign = yield from _introduced(message, envelope, facets, mine, context, outcomes)
    files: tuple[File, ...] = _run("files", lambda: unfold(message), (), context, outcomes)
    files = _run("pictures", lambda: looked_at(files), files, context, outcomes)
    if rules := context.rules:
        files = _run("yara", lambda: marked(files, rules), files, context, outcomes)
    context.mark("lists")
    asked = subjects(message, envelope, authentication, files)
    answer, antivirus, met = yield from _told(asked, files, met, context)
    if answer.failed:
        return undecided("the lists could not be read", (*outcomes, Outcome("lists", "failed", "storage is down")))
    protected = _protected(authentication, context.lists)
    heard = (antivirus, met, context.models, campaign, words)
    reading = Reading(message, envelope, authentication, files, protected, context.now, *heard)
    findings = _checked(reading, context, outcomes)
    context.mark("judge")
    ruling = _ruled(answer, asked, reading, context.lists)
    judgement = judge(findings, outcomes, context.policy, TITLES, ruling)
    return Report(
        verdict=judgement.verdict,
        decision=judgement.decision,
        tags=judgement.tags,
        score=judgement.score,
        reason=judgement.reason,
        lines=judgement.lines,
        outcomes=tuple(outcomes),
        authentication=authentication,
        files=tuple(FileSeen(f.path, f.type, len(f.content), f.sha256, f.names, ", ".join(f.unread)) for f in files),
        subject=message.subject,
        senders=tuple(str(sender) for sender in message.senders),
        lists=judgement.lists,
        subjects=asked,
        overrides=judgement.overrides,
    )


def undecided(reason: str, outcomes: Iterable[Outcome] = ()) -> Report:
    """What is answered when an analysis as a whole could not conclude: never a disguised delivery."""
    return Report("unscannable", "undecided", (), 0, reason, outcomes=tuple(outcomes))


def _facets(message: Message, envelope: Envelope, context: Context, outcomes: list[Outcome]) -> Facets | None:
    """What of the message is remembered; None where nobody remembers."""
    if not context.acquaintance:
        return None
    return _run("acquaintance", lambda: acquaintance.facets(message, envelope), None, context, outcomes)


def _sketched(message: Message, context: Context, outcomes: list[Outcome]) -> tuple[list[str] | None, Sketch]:
    """The words that the writer chose, and the signature by which near-copies are told; nothing where nobody asks."""
    nothing: tuple[list[str] | None, Sketch] = (None, ())
    if not context.campaigns:
        return nothing
    return _run("campaign", lambda: (words := body_words(message.texts), sketch(words)), nothing, context, outcomes)


def _introduced(
    message: Message, envelope: Envelope, facets: Facets | None, mine: Sketch, context: Context, outcomes: list[Outcome]
) -> Analysis[tuple[Authentication, Acquaintance, Campaign]]:
    """Who sent it, whether the tenant knows them, and who else got it: asked in the same steps, since every further
    step is a way to guard and back."""
    askings: tuple[Any, ...] = (_authenticated(message, envelope, context, outcomes), _met(facets), _spread(mine))
    authentication, met, campaign = yield from together(*askings)
    return authentication, met, campaign


def _met(facets: Facets | None) -> Analysis[Acquaintance]:
    """What the tenant knows of these facets."""
    if facets is None:
        return STRANGE
    (said,) = yield (acquaintance.question(facets),)
    return acquaintance.made(facets, said) if isinstance(said, Sighted) else STRANGE


def _spread(mine: Sketch) -> Analysis[Campaign]:
    """Who else got near-copies of the message lately."""
    if not mine:
        return Campaign()
    (said,) = yield (AskCampaign(mine),)
    return said if isinstance(said, Campaign) else Campaign()


def _authenticated(
    message: Message, envelope: Envelope, context: Context, outcomes: list[Outcome]
) -> Asking[Authentication]:
    stage = "authenticate"
    if not _entered(stage, context, outcomes):
        return Authentication()
    try:
        result = yield from authenticate(message, envelope, context.now, (context.lists.relays,))
    except MemoryError:
        raise
    except Exception as fault:  # noqa: BLE001  a check that crashes is an outcome, not an end
        outcomes.append(Outcome(stage, "failed", f"it crashed ({type(fault).__name__})"))
        return Authentication()
    return result


def _told(
    asked: tuple[Subject, ...], files: Sequence[File], met: Acquaintance, context: Context
) -> Analysis[tuple[LookupAnswer, Antivirus, Acquaintance]]:
    """What guard knows of the message: the list entries that it hits, what an antivirus says where there is one, and
    whether links in files lead to sites that the tenant knows.

    Kinds of which no list has an entry are not asked for; in most deployments that is most of them.
    """
    keys = questions(asked, context.lists.source.keyed)
    inside = _inside(files, met) if context.acquaintance else Facets()
    wanted: Questions = (
        *((Lookup(keys),) if keys else ()),
        *((AskAntivirus(),) if context.antivirus else ()),
        *((acquaintance.question(inside),) if inside.hosts else ()),
    )
    said = (yield wanted) if wanted else ()
    answer = next((each for each in said if isinstance(each, LookupAnswer)), LookupAnswer())
    antivirus = next((each for each in said if isinstance(each, Antivirus)), Antivirus())
    known = next((each for each in said if isinstance(each, Sighted)), Sighted())
    return answer, antivirus, acquaintance.joined(met, acquaintance.made(inside, known))


def _inside(files: Sequence[File], met: Acquaintance) -> Facets:
    """Where links in files lead to, as far as links in the text do not."""
    hosts = acquaintance.organisations(link for file in files for link in file.links)
    return Facets(hosts=tuple(host for host in hosts if host not in met.hosts))


def _protected(authentication: Authentication, lists: Compiled) -> Protected:
    """Who may not be imitated, and whether the sending host is one of our own relays."""
    trusted = bool(authentication.host) and address(authentication.host) in lists.relays
    return Protected(lists.own_domains, lists.partner_domains, lists.people, trusted)


def _ruled(answer: LookupAnswer, asked: tuple[Subject, ...], reading: Reading, lists: Compiled) -> Ruling:
    """What all lists together say: those that were asked, and the phrases found in what a person reads."""
    message = reading.message
    read_text = [("Subject", message.subject), *((text.where, text.visible) for text in message.texts)]
    found = [(entry, where) for where, text in read_text for entry in lists.phrases.within(text)]
    hits = dict.fromkeys([*answer.hits, *(hit(entry) for entry, _ in found)])
    spoken = tuple(Subject("text", entry.key, where) for entry, where in found)
    authenticated = reading.authentication.aligned
    return rule(hits, (*asked, *spoken), authenticated=authenticated, custom=lists.source.custom)


def _checked(reading: Reading, context: Context, outcomes: list[Outcome]) -> list[Finding]:
    """What every check finds that has something to look at. One that crashes is named in the ledger; the others go
    on."""
    findings: list[Finding] = []
    mark, skip, only, signs = context.mark, context.skip, context.checks, reading.signs
    for stage, check in _STAGED if not context.extra else (*_STAGED, *_staged(context.extra)):
        if only and check.name not in only:
            continue
        if stage in skip:
            outcomes.append(Outcome(stage, "skipped", skip[stage]))
            continue
        if (needs := check.needs) and needs.isdisjoint(signs):
            continue
        mark(stage)
        try:
            if not (themes := check.themes) or not themes.isdisjoint(wording(reading).themes):
                findings.extend(check.run(reading))
        except MemoryError:
            raise
        except Exception as fault:  # noqa: BLE001  a check that crashes is an outcome, not an end
            outcomes.append(Outcome(stage, "failed", f"it crashed ({type(fault).__name__})"))
    return findings


def _run(stage: str, run: Callable[[], T], otherwise: T, context: Context, outcomes: list[Outcome]) -> T:
    """Run one stage; a failure is an outcome in the ledger and the rest of the analysis goes on."""
    if not _entered(stage, context, outcomes):
        return otherwise
    try:
        result = run()
    except MemoryError:
        raise
    except Exception as fault:  # noqa: BLE001  a check that crashes is an outcome, not an end
        outcomes.append(Outcome(stage, "failed", f"it crashed ({type(fault).__name__})"))
        return otherwise
    return result


def _entered(stage: str, context: Context, outcomes: list[Outcome]) -> bool:
    context.mark(stage)
    if stage in context.skip:
        outcomes.append(Outcome(stage, "skipped", context.skip[stage]))
        return False
    return True
