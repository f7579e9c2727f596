"""The straight line that every message takes: parse, ask, check, judge.

A generator that yields questions (see `asking`) and returns a `Report`. It is deterministic: the same bytes, envelope,
context and answers give the same report, so a message can be replayed and an analysis whose worker died can start
again elsewhere. Each stage is announced through `context.mark` before it starts, so that whoever watches from outside
knows what a stalled worker was doing and can have the message analysed again without that stage.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from gatepost import sender_history
from gatepost.auth.authenticate import authenticate
from gatepost.auth.dns_names import address
from gatepost.auth.results import Authentication
from gatepost.checks import CHECKS, TITLES
from gatepost.checks.wording import wording
from gatepost.files.pictures import find_qr_codes
from gatepost.files.values import File
from gatepost.files.walk import unfold
from gatepost.files.yara import Rules, mark_matches
from gatepost.findings import Check, Finding, Protected, Reading
from gatepost.lists.lookup import subjects_of
from gatepost.lists.rulings import Ruling, rule_on
from gatepost.lists.subjects import Subject, questions
from gatepost.lists.unkeyed import NO_LISTS, Compiled, hit_of
from gatepost.mail.message import Envelope, Message
from gatepost.mail.reader import read
from gatepost.near_duplicates import Signature, signature_of
from gatepost.policy.rules import Policy, shipped_policy
from gatepost.questions import (
    Analysis,
    Antivirus,
    AskAntivirus,
    AskCampaign,
    Asking,
    Campaign,
    Lookup,
    LookupAnswer,
    Questions,
    Sighted,
    together,
)
from gatepost.report import FileSeen, Outcome, Report, undecided
from gatepost.sender_history import NO_HISTORY, Facets, SenderHistory
from gatepost.textmodel.deployed import Models, shipped_models
from gatepost.textmodel.features import body_words
from gatepost.verdict import judge

T = TypeVar("T")


def _staged(checks: Iterable[Check]) -> tuple[tuple[str, Check], ...]:
    return tuple((f"check:{check.name}", check) for check in checks)


_STAGED = _staged(CHECKS)
STAGES: tuple[str, ...] = (
    "parse",
    "sender_history",
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
    `antivirus` says whether there is one to ask, `sender_history` whether somebody remembers whom the tenant knows,
    `campaigns` whether somebody remembers what came in lately; `models` are the text models of the deployment."""

    now: float
    policy: Policy = msgspec.field(default_factory=shipped_policy)
    skip: Mapping[str, str] = {}
    mark: Callable[[str], None] = _unwatched
    lists: Compiled = NO_LISTS
    checks: frozenset[str] | tuple[str, ...] = ()
    extra: tuple[Check, ...] = ()
    rules: Rules | None = None
    antivirus: bool = False
    sender_history: bool = False
    models: Models = msgspec.field(default_factory=shipped_models)
    campaigns: bool = False


def analyse(raw: bytes, envelope: Envelope, context: Context) -> Analysis[Report]:
    """Analyse one message."""
    outcomes: list[Outcome] = []
    context.mark("parse")
    message = read(raw)
    facets = _facets(message, envelope, context, outcomes)
    words, mine = _sketched(message, context, outcomes)
    authentication, met, campaign = yield from _introduced(message, envelope, facets, mine, context, outcomes)
    files: tuple[File, ...] = _run("files", lambda: unfold(message), (), context, outcomes)
    files = _run("pictures", lambda: find_qr_codes(files), files, context, outcomes)
    if rules := context.rules:
        files = _run("yara", lambda: mark_matches(files, rules), files, context, outcomes)
    context.mark("lists")
    asked = subjects_of(message, envelope, authentication, files)
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


def _facets(message: Message, envelope: Envelope, context: Context, outcomes: list[Outcome]) -> Facets | None:
    """What of the message is remembered; None where nobody remembers."""
    if not context.sender_history:
        return None
    return _run("sender_history", lambda: sender_history.facets_of(message, envelope), None, context, outcomes)


def _sketched(message: Message, context: Context, outcomes: list[Outcome]) -> tuple[list[str] | None, Signature]:
    """The words that the writer chose, and the signature by which near-copies are told; nothing where nobody asks."""
    nothing: tuple[list[str] | None, Signature] = (None, ())
    if not context.campaigns:
        return nothing
    return _run(
        "campaign", lambda: (words := body_words(message.texts), signature_of(words)), nothing, context, outcomes
    )


def _introduced(
    message: Message,
    envelope: Envelope,
    facets: Facets | None,
    mine: Signature,
    context: Context,
    outcomes: list[Outcome],
) -> Analysis[tuple[Authentication, SenderHistory, Campaign]]:
    """Who sent it, whether the tenant knows them, and who else got it: asked in the same steps, since every further
    step is a way to guard and back."""
    askings: tuple[Any, ...] = (_authenticated(message, envelope, context, outcomes), _met(facets), _spread(mine))
    authentication, met, campaign = yield from together(*askings)
    return authentication, met, campaign


def _met(facets: Facets | None) -> Analysis[SenderHistory]:
    """What the tenant knows of these facets."""
    if facets is None:
        return NO_HISTORY
    (said,) = yield (sender_history.history_question(facets),)
    return sender_history.read_history(facets, said) if isinstance(said, Sighted) else NO_HISTORY


def _spread(mine: Signature) -> Analysis[Campaign]:
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
    asked: tuple[Subject, ...], files: Sequence[File], met: SenderHistory, context: Context
) -> Analysis[tuple[LookupAnswer, Antivirus, SenderHistory]]:
    """What guard knows of the message: the list entries that it hits, what an antivirus says where there is one, and
    whether links in files lead to sites that the tenant knows.

    Kinds of which no list has an entry are not asked for; in most deployments that is most of them.
    """
    keys = questions(asked, context.lists.source.keyed)
    inside = _inside(files, met) if context.sender_history else Facets()
    wanted: Questions = (
        *((Lookup(keys),) if keys else ()),
        *((AskAntivirus(),) if context.antivirus else ()),
        *((sender_history.history_question(inside),) if inside.hosts else ()),
    )
    said = (yield wanted) if wanted else ()
    answer = next((each for each in said if isinstance(each, LookupAnswer)), LookupAnswer())
    antivirus = next((each for each in said if isinstance(each, Antivirus)), Antivirus())
    known = next((each for each in said if isinstance(each, Sighted)), Sighted())
    return answer, antivirus, sender_history.add_hosts(met, sender_history.read_history(inside, known))


def _inside(files: Sequence[File], met: SenderHistory) -> Facets:
    """Where links in files lead to, as far as links in the text do not."""
    hosts = sender_history.list_organisations(link for file in files for link in file.links)
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
    hits = dict.fromkeys([*answer.hits, *(hit_of(entry) for entry, _ in found)])
    spoken = tuple(Subject("text", entry.key, where) for entry, where in found)
    authenticated = reading.authentication.aligned
    return rule_on(hits, (*asked, *spoken), authenticated=authenticated, custom=lists.source.custom)


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
