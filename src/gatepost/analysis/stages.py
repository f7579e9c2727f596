"""The stages of an analysis: every step from the bytes of a message to its findings.

Each stage is announced through `Context.mark` before it starts, so that guard, which watches from outside, knows what a
stalled worker was doing and can have the message analysed again without that stage. A stage that crashes is recorded
as an `Outcome` and the analysis goes on with what it has; only reading, lists and judging cannot be left out.

Reputation zones are asked about the host of a message, the sites of its links, its senders and its files. guard says
which of these any zone lists (`wanted`), so that nothing else is collected, and a deployment without zones pays
nothing. Own domains are never asked about. guard builds the names that DNS is asked for.
"""

import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from itertools import islice
from typing import Any, TypeVar

import msgspec

from gatepost.analysis.carried import find_carried, leave_out
from gatepost.analysis.report import Outcome
from gatepost.auth.dmarc import authenticate
from gatepost.auth.origin import parse_networks
from gatepost.auth.results import Authentication
from gatepost.auth.sending_host import SendingHost, find_posting_host, find_sending_host, parse_address
from gatepost.checks.composites import apply_rules, find_composites, ignore_stage, leave_out_rules, may_combine
from gatepost.checks.reading import Check, Protected, Reading
from gatepost.checks.registry import CHECKS, IDENTITY_CHECKS
from gatepost.checks.triggers import EVERYTHING, Row, compile_triggers, find_signs
from gatepost.files.documents.document_text import collect_texts
from gatepost.files.qr_codes import find_qr_codes
from gatepost.files.values import File, UnpackBudget
from gatepost.files.walk import find_files
from gatepost.files.yara import YaraRules, mark_matches
from gatepost.findings import kinds
from gatepost.findings.kinds import Finding
from gatepost.lists.lookup import TextMatches, find_in_texts
from gatepost.lists.rulings import Ruling, Subject, collect_keys, make_subject, rule_on
from gatepost.lists.unkeyed import NO_LISTS, CompiledLists
from gatepost.mail.budget import ReadBudget
from gatepost.mail.message import Envelope, Link, Message
from gatepost.mail.reader import read_within
from gatepost.mail.sender_history import (
    NO_HISTORY,
    Facets,
    SenderHistory,
    add_hosts,
    collect_facets,
    list_organisations,
    make_history_question,
    read_history,
)
from gatepost.names import normal_address, normal_domain, org_domain
from gatepost.near_duplicates import Signature, sign_words
from gatepost.policy.rules import MAX_RULES, RULE_STAGE, Policy, shipped_policy
from gatepost.process.cpu_account import ALL, MOST_CHECKS, READING, SPENT, UNLIMITED, CpuAccount, CpuSpentError
from gatepost.questions import (
    MAX_REPUTATION_VALUES,
    Analysis,
    Antivirus,
    AskAntivirus,
    AskCampaign,
    Asking,
    AskReputation,
    Campaign,
    Lookup,
    LookupAnswer,
    Questions,
    Reputation,
    ReputationSubject,
    ReputationValue,
    Sightings,
    together,
)
from gatepost.textmodel.learnt import NO_MODELS, LearntModels
from gatepost.textmodel.model import DeployedModels, load_shipped_models
from gatepost.textmodel.words import MessageWords, read_words

MAX_HOSTS = 25
MAX_LINKS = 500
MAX_SENDERS = 5
MAX_ADDRESSES = 10
MAX_FILES = 20
MAX_TEXT = 300
# What is read of a message that cannot be read whole: its header, as a rule, and the beginning of its text.
SHORT = 32 << 10
_MAILTO = "mailto:"


def collect_values(
    message: Message,
    envelope: Envelope,
    wanted: Collection[str],
    sending: SendingHost,
    own_domains: frozenset[str],
) -> tuple[ReputationValue, ...]:
    """Return the values of a message's envelope, header and text, each once, the host first."""
    found: list[ReputationValue] = []
    if "host" in wanted:
        # What a list sends on came from the host of its author.
        hosts = (sending.address, find_posting_host(message.headers.fields))
        found += [ReputationValue("host", str(address)) for address in dict.fromkeys(hosts) if address]
    if "sender" in wanted:
        domains = [*(sender.domain for sender in message.senders), envelope.sender.strip("<>").rpartition("@")[2]]
        found += _collect_domains("sender", domains, own_domains, MAX_SENDERS)
    if "address" in wanted:
        found += _collect_addresses(message, envelope, own_domains)
    if "link" in wanted:
        found += _collect_domains("link", _collect_hosts(message.links), own_domains, MAX_HOSTS)
    return tuple(found[:MAX_REPUTATION_VALUES])


def collect_file_values(
    files: Sequence[File], wanted: Collection[str], own_domains: frozenset[str], known: Collection[ReputationValue]
) -> tuple[ReputationValue, ...]:
    """Return the values of a message's files: their digests, and sites of links in them that are not yet `known`."""
    found: list[ReputationValue] = []
    attached = [file for file in files if file.names][:MAX_FILES]
    for algorithm in sorted(each.partition(":")[2] for each in wanted if each.startswith("file:")):
        for file in attached:
            digest = ""
            if algorithm != "sha256":
                digest = f"{algorithm}:{hashlib.new(algorithm, file.content, usedforsecurity=False).hexdigest()}"
            found.append(ReputationValue("file", file.sha256, digest))
    if "link" in wanted:
        hosts = _collect_hosts(link for file in files for link in file.links)
        found += [each for each in _collect_domains("link", hosts, own_domains, MAX_HOSTS) if each not in known]
    return tuple(dict.fromkeys(found))[:MAX_REPUTATION_VALUES]


def make_question(values: tuple[ReputationValue, ...], keyed: Collection[str]) -> AskReputation:
    """Return the question about these values; `keyed` are the kinds of list entries that there are."""
    return AskReputation(values, collect_keys(map(make_subject, values), keyed))


def join(first: Reputation, second: Reputation) -> Reputation:
    """Return what two answers say together."""
    return Reputation((*first.listings, *second.listings), tuple(dict.fromkeys((*first.silent, *second.silent))))


def _collect_hosts(links: Iterable[Link]) -> Iterator[str]:
    """The hosts that links which a reader can follow lead to."""
    for link in islice(links, MAX_LINKS):
        if link.host and link.can_be_followed and link.url.startswith("http"):
            yield link.host


def _collect_domains(
    subject: ReputationSubject, names: Iterable[str], own_domains: frozenset[str], most: int
) -> Iterator[ReputationValue]:
    seen: dict[str, None] = {}
    for name in names:
        domain = normal_domain(name)
        if domain and len(domain) <= MAX_TEXT and not _is_own(domain, own_domains):
            seen[domain] = None
            if len(seen) >= most:
                break
    return (ReputationValue(subject, domain) for domain in seen)


def _collect_addresses(message: Message, envelope: Envelope, own_domains: frozenset[str]) -> Iterator[ReputationValue]:
    """Who writes, and where answers go: as stated in the header, and in links that start a mail."""
    in_links = (link.url[len(_MAILTO) :].partition("?")[0] for link in message.links if link.url.startswith(_MAILTO))
    people = (str(person) for person in (*message.senders, *message.reply_to))
    found: dict[str, None] = {}
    for text in islice((envelope.sender.strip("<>"), *people, *islice(in_links, MAX_LINKS)), MAX_LINKS):
        address = normal_address(text)
        local, _, domain = address.rpartition("@")
        if local and domain and len(address) <= MAX_TEXT and not _is_own(domain, own_domains):
            found[address] = None
            if len(found) >= MAX_ADDRESSES:
                break
    return (ReputationValue("address", address) for address in found)


def _is_own(domain: str, own_domains: frozenset[str]) -> bool:
    return bool(own_domains) and (domain in own_domains or org_domain(domain) in own_domains)


T = TypeVar("T")


def name_stages(checks: Iterable[Check]) -> tuple[tuple[str, Check], ...]:
    """Each check with the name of its stage."""
    return tuple((f"{CHECK}{check.name}", check) for check in checks)


CHECK = "check:"
CHECK_STAGES = name_stages(CHECKS)
# The stage that tells which checks have something to look at.
TRIGGERS = "triggers"


IDENTITY_STAGES = frozenset(stage for stage, check in CHECK_STAGES if check in IDENTITY_CHECKS)


def _list_checks(extra: tuple[Check, ...], *, own: bool) -> Iterator[tuple[str, Check]]:
    """Yield the registered checks and others; of mail of own people, none that asks who the sender is."""
    shipped = (each for each in CHECK_STAGES if not own or each[0] not in IDENTITY_STAGES)
    yield from (*shipped, *name_stages(extra))


@lru_cache(64)
def compile_checks(extra: tuple[Check, ...] = (), *, own: bool = False) -> tuple[Row, ...]:
    """One table of the triggers of all registered checks, and of others."""
    return compile_triggers(list(_list_checks(extra, own=own)))


RULES = "rules"
# In the ledger, the checks for which there was no time.
CHECKS_MISSED = "checks"
STAGES: tuple[str, ...] = (
    *"parse sender-history campaign reputation authenticate files pictures yara lists".split(),
    TRIGGERS,
    *(stage for stage, _ in CHECK_STAGES),
    "composites",
    RULES,
    *(f"{RULE_STAGE}{number}" for number in range(MAX_RULES)),
    "judge",
)
# Without these there is nothing to judge: a message that breaks them is undecided.
INDISPENSABLE = frozenset({"lists", "judge"})


class Context(msgspec.Struct, frozen=True):
    """What an analysis needs besides the message and its envelope.

    `skip` names stages that broke a worker, each with what happened. `checks`, unless it is empty, names the only
    checks that run; `extra` are those of plug-ins, which run after the registered ones. `rules` are the operator's YARA
    rules. `antivirus`, `sender_history` and `campaigns` say which of these guard can be asked about, and `reputation`
    what the operator's reputation zones list. `models` are the text models of the deployment, `learnt` those that
    reports of the tenant and of the deployment have taught. `own_networks` are those of the tenant and of the
    deployment; `for_mailboxes` says that every recipient takes reports. `cpu` is what the analysis may take.
    """

    now: float
    policy: Policy = msgspec.field(default_factory=shipped_policy)
    skip: Mapping[str, str] = {}
    mark: Callable[[str], None] = ignore_stage
    lists: CompiledLists = NO_LISTS
    checks: frozenset[str] | tuple[str, ...] = ()
    extra: tuple[Check, ...] = ()
    rules: YaraRules | None = None
    antivirus: bool = False
    sender_history: bool = False
    models: DeployedModels = msgspec.field(default_factory=load_shipped_models)
    campaigns: bool = False
    reputation: tuple[str, ...] = ()
    learnt: LearntModels = NO_MODELS
    own_networks: tuple[str, ...] = ()
    for_mailboxes: bool = False
    cpu: CpuAccount = msgspec.field(default_factory=CpuAccount)


def make_own(context: Context) -> Context:
    """The context of a message of own people: sender and host are known, so that nobody is asked about them."""
    wanted = tuple(each for each in context.reputation if each not in ("host", "sender"))
    return msgspec.structs.replace(context, sender_history=False, reputation=wanted)


class Stages:
    """The stages of one analysis. `outcomes` are the stages that failed or were skipped so far, `sending` is where the
    message came from, once it is known, `carried` the attached messages whose texts are not the sender's."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.sending = SendingHost()
        self.outcomes: list[Outcome] = []
        self.carried: tuple[str, ...] = ()
        self._asked_about: tuple[ReputationValue, ...] = ()

    def read_message(self, raw: bytes) -> Message:
        """Parse the message, or its beginning alone where that takes too long. The reader raises for no input."""
        cpu = self.context.cpu
        if self._enter("parse"):
            try:
                return cpu.run(READING, read_within, raw, ReadBudget(cpu=cpu))
            except CpuSpentError as reached:
                self._fail("parse", reached)
        # Signatures are over the whole of it.
        return msgspec.structs.replace(read_within(raw[:SHORT], ReadBudget(cpu=cpu)), raw=raw)

    def find_origin(self, message: Message, envelope: Envelope) -> None:
        """Find the sending host, and judge mail of own people as such from here on."""
        fields, relays = message.headers.fields, (self.context.lists.relays,)
        own = parse_networks(self.context.own_networks)
        find = partial(find_sending_host, envelope, fields, relays, own)
        self.sending = self._run("authenticate", find, self.sending)
        if self.sending.is_own:
            self.context = make_own(self.context)

    def collect_facets(self, message: Message, envelope: Envelope) -> Facets | None:
        """The facets of the message that sender history remembers; None where guard keeps no sender history."""
        if not self.context.sender_history:
            return None
        return self._run("sender-history", lambda: collect_facets(message, envelope), None)

    def sign_text(self, message: Message) -> tuple[MessageWords | None, Signature]:
        """The words that the writer chose, and their near-duplicate signature; nothing where guard compares none."""
        nothing: tuple[MessageWords | None, Signature] = (None, ())
        if not self.context.campaigns:
            return nothing
        return self._run("campaign", lambda: (words := read_words(message), sign_words(words)), nothing)

    def ask_about_sender(
        self, message: Message, envelope: Envelope, facets: Facets | None, signature: Signature
    ) -> Analysis[tuple[Authentication, SenderHistory, Campaign, Reputation]]:
        """Authenticate the sender, and ask for its history, for near-duplicates of the message, and for reputation.

        All four ask in the same steps, since every further step is a round trip to guard.
        """
        askings: tuple[Any, ...] = (
            self._authenticate(message, envelope),
            _ask_history(facets),
            _ask_campaign(() if self.sending.is_own else signature),
            self._ask_reputation(self._collect_values(message, envelope)),
        )
        authentication, history, campaign, reputation = yield from together(*askings)
        return authentication, history, campaign, reputation

    def _collect_values(self, message: Message, envelope: Envelope) -> tuple[ReputationValue, ...]:
        """What zones are asked about; nothing where there is no zone."""
        if not (wanted := self.context.reputation):
            return ()
        sending, own = self.sending, self.context.lists.own_domains
        self._asked_about = self._run("reputation", lambda: collect_values(message, envelope, wanted, sending, own), ())
        return self._asked_about

    def _ask_reputation(self, values: tuple[ReputationValue, ...]) -> Analysis[Reputation]:
        """Ask what reputation zones say of these values."""
        if not values:
            return Reputation()
        (answer,) = yield (make_question(values, self.context.lists.source.keyed),)
        return answer if isinstance(answer, Reputation) else Reputation()

    def _authenticate(self, message: Message, envelope: Envelope) -> Asking[Authentication]:
        if not self._enter("authenticate"):
            return Authentication()
        now, own, cpu = self.context.now, self.context.lists.own_domains, self.context.cpu
        try:
            found = yield from _draw(cpu, authenticate(message, envelope, now, self.sending))
            self.carried = yield from _draw(cpu, find_carried(message, envelope, found, own, now))
            return found
        except MemoryError:
            raise
        except (Exception, CpuSpentError) as fault:  # noqa: BLE001  a stage that crashes is an outcome, not an end
            self._fail("authenticate", fault)
            return Authentication()

    def read_files(self, message: Message) -> tuple[File, ...]:
        """Every file of the message, with the links of QR codes and the marks of the operator's rules."""
        return self.match_yara_rules(self.find_qr_codes(self.open_files(message)))

    def open_files(self, message: Message) -> tuple[File, ...]:
        """Every file of the message, with what is inside archives and documents."""
        nothing: tuple[File, ...] = ()
        budget = UnpackBudget(now=self.context.now, cpu=self.context.cpu)
        found = self._run("files", lambda: find_files(message, budget), nothing)
        if budget.has_stalled:
            self.outcomes.append(Outcome("pages", "failed", "a script of a page had no end"))
        return found

    def find_qr_codes(self, files: tuple[File, ...]) -> tuple[File, ...]:
        """The files, with the links of QR codes in pictures. Image decoders are large: this is a stage of its own."""
        return self._run("pictures", lambda: find_qr_codes(files, UnpackBudget(cpu=self.context.cpu)), files)

    def add_document_texts(self, message: Message, files: tuple[File, ...]) -> Message:
        """The message, with the texts of documents among its files."""
        if not any(file.text for file in files):
            return message
        return msgspec.structs.replace(message, texts=(*message.texts, *collect_texts(files)))

    def match_yara_rules(self, files: tuple[File, ...]) -> tuple[File, ...]:
        """The files, marked where a YARA rule of the operator matches."""
        rules, cpu = self.context.rules, self.context.cpu
        return files if rules is None else self._run("yara", lambda: mark_matches(files, rules, cpu), files)

    def ask_about_content(
        self, subjects: tuple[Subject, ...], files: Sequence[File], history: SenderHistory, reputation: Reputation
    ) -> Analysis[tuple[LookupAnswer, Antivirus, SenderHistory, Reputation]]:
        """Ask for list entries that the message hits, for the antivirus, and for history and reputation of its files.

        Kinds of which no list has an entry are not asked for; in most deployments that is most of them.
        """
        keys = collect_keys(subjects, self.context.lists.source.keyed)
        links = [link for file in files for link in file.links] if self.context.sender_history else []
        in_files = Facets(hosts=tuple(host for host in list_organisations(links) if host not in history.hosts))
        values = self._collect_file_values(files)
        asked: Questions = (
            *((Lookup(keys),) if keys else ()),
            *((AskAntivirus(),) if self.context.antivirus else ()),
            *((make_history_question(in_files),) if in_files.hosts else ()),
            *((make_question(values, self.context.lists.source.keyed),) if values else ()),
        )
        answers = (yield asked) if asked else ()
        hits = next((each for each in answers if isinstance(each, LookupAnswer)), LookupAnswer())
        antivirus = next((each for each in answers if isinstance(each, Antivirus)), Antivirus())
        known = next((each for each in answers if isinstance(each, Sightings)), Sightings())
        said = next((each for each in answers if isinstance(each, Reputation)), Reputation())
        return hits, antivirus, add_hosts(history, read_history(in_files, known)), join(reputation, said)

    def _collect_file_values(self, files: Sequence[File]) -> tuple[ReputationValue, ...]:
        """What zones are asked about the files; most messages have none."""
        if not (wanted := self.context.reputation) or not any(file.names or file.links for file in files):
            return ()
        own, known = self.context.lists.own_domains, self._asked_about
        return self._run("reputation", lambda: collect_file_values(files, wanted, own, known), ())

    def find_protected(self, authentication: Authentication) -> Protected:
        """Who may not be imitated, and whether the sending host is an own relay."""
        lists = self.context.lists
        if self.sending.is_own:
            return Protected(partner_domains=lists.partner_domains, host_trusted=True)
        trusted = bool(authentication.host) and parse_address(authentication.host) in lists.relays
        return Protected(lists.own_domains, lists.partner_domains, lists.people, trusted, lists.names)

    def leave_out_carried(self, reading: Reading) -> Reading:
        """What checks see: what the sender says, without the texts of others that the message carries. Lists and the
        operator's rules see the whole message."""
        return leave_out(reading, self.carried) if self.carried else reading

    def run_checks(self, reading: Reading) -> list[Finding]:
        """The findings of every check that has something to look at."""
        # Where that cannot be told, every check is called: it costs time, and loses nothing.
        there = self._run(TRIGGERS, lambda: find_signs(reading), EVERYTHING)
        findings = [kinds.TEXT_CARRIED_MESSAGE.at(path) for path in self.carried]
        findings += [kinds.RECIPIENT_REPORT_MAILBOX.at("envelope")] if self.context.for_mailboxes else []
        mark, draw = self.context.mark, self.context.cpu.run
        missed: list[str] = []
        for needed, themes, stage, run in self._select_checks():
            if not (needed & there and themes & there):
                continue
            mark(stage)
            try:
                draw(MOST_CHECKS, _add_findings, findings, run, reading)
            except MemoryError:
                raise
            except CpuSpentError:
                missed.append(stage)
            except Exception as fault:  # noqa: BLE001  a check that crashes is an outcome, not an end
                self._fail(stage, fault)
        if missed:
            self._fail(CHECKS_MISSED, CpuSpentError(f"{SPENT}: {', '.join(missed)}"))
        return findings

    def make_row(self, reading: Reading) -> bytes:
        """The feature row that is kept with the record; none where guard compares no messages."""
        return self._run("campaign", lambda: reading.row, b"") if self.context.campaigns else b""

    def add_composites(self, findings: list[Finding]) -> list[Finding]:
        """The findings, with the shipped composites of them."""
        if not may_combine(findings):
            return findings
        return self._run("composites", lambda: [*findings, *find_composites(findings)], findings)

    def apply_own_rules(self, reading: Reading, findings: list[Finding]) -> list[Finding]:
        """The findings, with those of the operator's and the tenant's own rules."""
        rules, skip, mark = self.context.policy.rules, self.context.skip, self.context.mark
        if not rules:
            return findings
        if RULES in skip:
            # A message is not called unscannable because of what its recipient has written.
            return [*findings, *leave_out_rules(rules, skip[RULES])]
        run = partial(apply_rules, reading, findings, rules, skip, mark)
        return self._run(RULES, lambda: [*findings, *run()], findings, share=UNLIMITED)

    def _select_checks(self) -> Sequence[Row]:
        """The table of the checks, without those that are skipped or not wanted."""
        context = self.context
        if not (context.checks or context.skip):
            return compile_checks(context.extra, own=self.sending.is_own)
        only, skip = context.checks, context.skip
        wanted = [
            (stage, check)
            for stage, check in _list_checks(context.extra, own=self.sending.is_own)
            if not only or check.name in only
        ]
        self.outcomes += [Outcome(stage, "skipped", skip[stage]) for stage, _ in wanted if stage in skip]
        return compile_triggers([(stage, check) for stage, check in wanted if stage not in skip])

    def apply_lists(self, answer: LookupAnswer, subjects: tuple[Subject, ...], reading: Reading) -> Ruling:
        """What all lists together say: the entries that guard found, and those in texts and names of files."""
        lists = self.context.lists
        spent, cpu = TextMatches(limit=SPENT), self.context.cpu
        in_texts = cpu.attempt(ALL, spent, find_in_texts, lists, reading.message, reading.files)
        if answer.cut:
            self.outcomes.append(Outcome("lists", "failed", "lists and values of the message are too many to compare"))
        if in_texts.limit:
            self.outcomes.append(Outcome("lists", "failed", in_texts.limit))
        authenticated, custom = reading.authentication.aligned, lists.source.custom
        return rule_on(answer.hits, subjects, authenticated=authenticated, custom=custom, found=in_texts.found)

    def _run(self, stage: str, run: Callable[[], T], otherwise: T, share: float = ALL) -> T:
        """Run one stage; where it is skipped or crashes, record that and return `otherwise`."""
        if not self._enter(stage):
            return otherwise
        found = otherwise
        try:
            found = self.context.cpu.run(share, run)
        except MemoryError:
            raise
        except (Exception, CpuSpentError) as fault:  # noqa: BLE001  a stage that crashes is an outcome, not an end
            self._fail(stage, fault)
        if self.context.cpu.missed:
            self.context.cpu.missed = False
            self._fail(stage, CpuSpentError(SPENT))
        return found

    def _enter(self, stage: str) -> bool:
        self.context.mark(stage)
        if stage in self.context.skip:
            self.outcomes.append(Outcome(stage, "skipped", self.context.skip[stage]))
            return False
        return True

    def _fail(self, stage: str, fault: BaseException) -> None:
        self.outcomes.append(Outcome(stage, "failed", describe_fault(fault)))


def describe_fault(fault: BaseException) -> str:
    """Return what the ledger says of an exception."""
    return str(fault) if isinstance(fault, CpuSpentError) else f"it crashed ({type(fault).__name__})"


def _add_findings(findings: list[Finding], check: Callable[[Reading], Iterable[Finding]], reading: Reading) -> None:
    findings += check(reading)


def _draw(cpu: CpuAccount, asking: Asking[T]) -> Asking[T]:
    """The same asking, each of whose steps draws on the account."""
    answers: Any = None
    while True:
        try:
            questions = cpu.run(ALL, asking.send, answers)
        except StopIteration as stop:
            found: T = stop.value
            return found
        answers = yield questions


def _ask_history(facets: Facets | None) -> Analysis[SenderHistory]:
    """Ask what the tenant knew of these facets before today."""
    if facets is None:
        return NO_HISTORY
    (answer,) = yield (make_history_question(facets),)
    return read_history(facets, answer) if isinstance(answer, Sightings) else NO_HISTORY


def _ask_campaign(signature: Signature) -> Analysis[Campaign]:
    """Ask who else received near-duplicates of the message lately."""
    if not signature:
        return Campaign()
    (answer,) = yield (AskCampaign(signature),)
    return answer if isinstance(answer, Campaign) else Campaign()
