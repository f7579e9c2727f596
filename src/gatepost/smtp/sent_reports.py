"""DMARC aggregate reports to others (RFC 9990): what came in the name of their domains. They are sent only where the
settings say so.

A message costs a counter in memory. Counts are added to storage every so often, and when a day (UTC) is over, one
process of all nodes sends a report for each domain whose DNS record asks for one. Reports go where the record says: an
address in another organisation has to agree by a record of its own (RFC 9990 section 4), or mail could be made to rain
on anybody. Their size is held against what the destination takes, and each is signed in our name, since nobody should
believe one that is not.

Mail that carries reports to us is never counted, so that reports are not reported on. Hosts of one's own network are
not the world's business and are left out.
"""

import asyncio
import gzip
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime
from hashlib import sha256
from typing import Literal, TypeAlias
from xml.etree.ElementTree import Element, SubElement, indent, tostring

import msgspec

from gatepost import __version__
from gatepost.analysis.report import Report
from gatepost.auth.dmarc_record import ReportUri, is_dmarc, parse_report_uris, parse_tags
from gatepost.mail.message import Envelope
from gatepost.names import normal_domain, org_domain
from gatepost.process.logs import Logger
from gatepost.process.periodic import PeriodicWork
from gatepost.questions import Dns, DnsAnswer
from gatepost.settings.delivery import SentReportSettings
from gatepost.smtp.next_hop import NextHopError
from gatepost.smtp.routing import Routing
from gatepost.smtp.signing import KeyFileError, SigningKeys, sign_own_mail
from gatepost.store.jobs import Jobs
from gatepost.store.sent_reports import MAX_ROWS, REPORT, ReportCount, SentReport, SentReports, SentState, WaitingReport
from gatepost.times import now

DAY_SECONDS = 86_400
FLUSH_SECONDS = 30.0
# What a process remembers between two writes, and of how many domains in a day.
MAX_GATHERED, MAX_DOMAINS = 20_000, 20_000
MAX_SIGNATURES, MAX_DETAIL = 4, 1_500
# A day is over when every process has written its counts.
MARGIN_SECONDS = 600
BATCH = 100
MAX_ATTEMPTS = 12
RETRY_MILLISECONDS = 2 * 3_600_000
SEND_SECONDS = 120.0
NAMESPACE = "urn:ietf:params:xml:ns:dmarc-2.0"

Disposition: TypeAlias = Literal["pass", "none", "quarantine", "reject"]
_SEVERITY = {"none": 0, "quarantine": 1, "reject": 2}
_DONE: dict[str, Disposition] = {"deliver": "none", "quarantine": "quarantine", "bounce": "reject", "drop": "reject"}
_LOCAL_POLICY, _FORWARDED = "local_policy", "trusted_forwarder"

log = Logger("gatepost.reports")

AsksDns = Callable[[Dns], Awaitable[DnsAnswer]]


class SeenMail(msgspec.Struct, frozen=True, array_like=True):
    """Messages of a day that are alike to DMARC (RFC 9990 section 2.1.1): the sending host, the domains in From and
    MAIL FROM, what was done by the policy and why not what it asks for, whether each method passed and was aligned, and
    the raw results: signatures as domain, selector and result, SPF as domain and result."""

    source: str
    header_from: str
    envelope_from: str
    disposition: Disposition
    dkim: bool
    spf: bool
    override: str = ""
    signatures: tuple[tuple[str, str, str], ...] = ()
    spf_domain: str = ""
    spf_result: str = "none"


def describe_mail(report: Report, envelope: Envelope) -> tuple[str, SeenMail] | None:
    """Return the policy domain of a message and what is reported of it; None where nothing is: no policy, no known
    host, mail of our own, or no decision yet."""
    found = report.authentication
    dmarc = found.dmarc
    if found.origin != "outside" or not dmarc.policy_domain or report.decision not in _DONE:
        return None
    passed = dmarc.dkim_aligned or dmarc.spf_aligned
    disposition, override = _judge(report, passed=passed)
    spf = found.spf if found.spf.scope == "mfrom" else None
    # Signatures that passed first, those of the author before others (RFC 9990 section 2.1.4).
    ordered = sorted(found.dkim, key=lambda each: (each.result != "pass", normal_domain(each.domain) != dmarc.domain))
    return dmarc.policy_domain, SeenMail(
        found.host,
        dmarc.domain,
        normal_domain(envelope.sender.rpartition("@")[2])[:253],
        disposition,
        dmarc.dkim_aligned,
        dmarc.spf_aligned,
        override,
        tuple((each.domain[:253], each.selector[:100], each.result) for each in ordered[:MAX_SIGNATURES]),
        spf.domain[:253] if spf else "",
        spf.result if spf else "none",
    )


def _judge(report: Report, *, passed: bool) -> tuple[Disposition, str]:
    """Return what was done by the policy of the domain, and why it was less than that asks for. What we did for other
    reasons is nobody else's business."""
    if passed:
        return "pass", ""
    done, wanted = _DONE[report.decision], report.authentication.dmarc.policy or "none"
    if _SEVERITY[done] >= _SEVERITY[wanted]:
        return wanted, ""
    return done, _FORWARDED if report.authentication.arc.result == "pass" else _LOCAL_POLICY


class ReportGatherer:
    """Counts in the memory of one process, and adds what it has to storage. It belongs to one event loop."""

    def __init__(
        self, stored: SentReports, settings: SentReportSettings, clock: Callable[[], float] = time.time
    ) -> None:
        self._stored, self._clock = stored, clock
        self._excluded = frozenset(settings.exclude)
        self._counts: Counter[tuple[int, str, SeenMail]] = Counter()
        self._day, self._domains = 0, set[str]()
        self.dropped = 0
        failed = "counts for reports could not be written"
        self._writing = PeriodicWork(self.flush, FLUSH_SECONDS, failed, log, waits_first=True)

    def start(self) -> None:
        """Write from now on."""
        self._writing.start()

    async def stop(self) -> None:
        await self._writing.finish()
        await self.flush()

    def note_mail(self, report: Report, envelope: Envelope) -> None:
        if not (found := describe_mail(report, envelope)) or found[0] in self._excluded:
            return
        domain, seen = found
        day = int(self._clock()) // DAY_SECONDS
        if day != self._day:
            self._day, self._domains = day, set()
        key = (day, domain, seen)
        too_many_domains = domain not in self._domains and len(self._domains) >= MAX_DOMAINS
        if key not in self._counts and (too_many_domains or len(self._counts) >= MAX_GATHERED):
            self.dropped += 1
            return
        self._domains.add(domain)
        self._counts[key] += 1

    async def flush(self) -> None:
        """Add what was counted to storage; what it does not take now is tried again."""
        counts, self._counts = self._counts, Counter()
        if not counts:
            return
        rows = [ReportCount(day, domain, _encode(seen), count) for (day, domain, seen), count in counts.items()]
        try:
            await self._stored.count(rows)
        except BaseException:
            self._counts.update(counts)
            raise


def _encode(seen: SeenMail) -> str:
    text = msgspec.json.encode(seen).decode()
    if len(text) > MAX_DETAIL:
        text = msgspec.json.encode(msgspec.structs.replace(seen, signatures=seen.signatures[:1])).decode()
    return text if len(text) <= MAX_DETAIL else ""


_seen_mail = msgspec.json.Decoder(SeenMail)

# What is in an element: a text, elements by their names, or several elements of one name. None leaves it out.
Content: TypeAlias = str | int | Mapping[str, "Content"] | Sequence[Mapping[str, "Content"]] | None


class BuiltReport(msgspec.Struct, frozen=True):
    """A report as it is attached: the name of the file, what is in it, and its id, which is the same whenever it is
    sent, so that one that comes twice is known."""

    name: str
    content: bytes
    report_id: str


def build_aggregate(
    settings: SentReportSettings, domain: str, record: str, rows: Sequence[tuple[str, int]], day: int
) -> BuiltReport:
    """Return the report on a domain; elements stand in the order of the schema (RFC 9990 appendix A)."""
    submitter, begins, ends = _submitter(settings), day * DAY_SECONDS, (day + 1) * DAY_SECONDS - 1
    report_id = sha256(f"dmarc {submitter} {domain} {day}".encode()).hexdigest()[:32]
    left_out = sum(count for detail, count in rows if not detail)
    root = Element("feedback", xmlns=NAMESPACE)
    _fill(
        root,
        {
            "version": "1.0",
            "report_metadata": {
                "org_name": settings.organization,
                "email": settings.sender,
                "extra_contact_info": settings.contact,
                "report_id": report_id,
                "date_range": {"begin": begins, "end": ends},
                "error": f"{left_out} messages beyond {MAX_ROWS} different results left out" if left_out else None,
                "generator": f"Gatepost {__version__}",
            },
            "policy_published": _describe_policy(domain, record),
            "record": [_describe_row(_seen_mail.decode(detail), count) for detail, count in rows if detail],
        },
    )
    indent(root, "")
    text = tostring(root, "utf-8", xml_declaration=True)
    name = f"{submitter}!{domain}!{begins}!{ends}!{report_id}.xml.gz"
    return BuiltReport(name, gzip.compress(text, mtime=0), report_id)


def _submitter(settings: SentReportSettings) -> str:
    return settings.sender.rpartition("@")[2].lower()


def _describe_policy(domain: str, record: str) -> Content:
    """Return what the domain publishes, with the defaults of what it does not (RFC 9989 section 4.7)."""
    tags = parse_tags(record)

    def read(name: str, default: str, allowed: Sequence[str]) -> str:
        value = tags.get(name, "").lower()
        return value if value in allowed else default

    policies = ("none", "quarantine", "reject")
    policy = read("p", "none", policies)
    below = read("sp", policy, policies)
    return {
        "domain": domain,
        "discovery_method": "treewalk",
        "p": policy,
        "sp": below,
        "np": read("np", below, policies),
        "fo": tags.get("fo", "0")[:20],
        "adkim": read("adkim", "r", ("r", "s")),
        "aspf": read("aspf", "r", ("r", "s")),
        "testing": read("t", "n", ("y", "n")),
    }


def _describe_row(seen: SeenMail, count: int) -> Mapping[str, Content]:
    spf = {"domain": seen.spf_domain, "scope": "mfrom", "result": seen.spf_result}
    return {
        "row": {
            "source_ip": seen.source,
            "count": count,
            "policy_evaluated": {
                "disposition": seen.disposition,
                "dkim": "pass" if seen.dkim else "fail",
                "spf": "pass" if seen.spf else "fail",
                "reason": {"type": seen.override} if seen.override else None,
            },
        },
        "identifiers": {"header_from": seen.header_from, "envelope_from": seen.envelope_from},
        "auth_results": {
            "dkim": [
                {"domain": domain, "selector": selector, "result": result}
                for domain, selector, result in seen.signatures
                if domain and selector
            ],
            "spf": spf if seen.spf_domain else None,
        },
    }


def _fill(parent: Element, content: Content) -> None:
    """Put content into an element. Strangers chose most texts, so all but printable ASCII is written as a mark."""
    if not isinstance(content, Mapping):
        parent.text = "".join(each if " " <= each <= "~" else "?" for each in str(content))
        return
    for name, inner in content.items():
        several = inner if isinstance(inner, list) else [] if inner is None else [inner]
        for each in several:
            _fill(SubElement(parent, name), each)


def build_mail(settings: SentReportSettings, domain: str, report: BuiltReport, to: str, moment: float) -> bytes:
    """Return the mail that carries a report (RFC 9990 section 2.5.4)."""
    submitter = _submitter(settings)
    message = EmailMessage(policy=SMTP.clone(max_line_length=200))
    message["From"] = settings.sender
    message["To"] = to
    message["Subject"] = f"Report Domain: {domain} Submitter: {submitter} Report-ID: <{report.report_id}@{submitter}>"
    message["Date"] = format_datetime(datetime.fromtimestamp(moment, UTC))
    message["Message-ID"] = f"<{report.report_id}.{sha256(to.encode()).hexdigest()[:8]}@{submitter}>"
    message["Auto-Submitted"] = "auto-generated"
    message.set_content(f"This is a DMARC aggregate report on {domain}, from {settings.organization}.\r\n")
    message.add_attachment(report.content, maintype="application", subtype="gzip", filename=report.name)
    return message.as_bytes()


class Destinations(msgspec.Struct, frozen=True):
    """Where a report goes. `record` is the policy record of the domain; `is_open`: DNS did not answer, so it is asked
    again later."""

    uris: tuple[ReportUri, ...] = ()
    record: str = ""
    is_open: bool = False


async def find_destinations(domain: str, ask: AsksDns) -> Destinations:
    """Return where a domain wants its reports."""
    answer = await ask(Dns(f"_dmarc.{domain}", "TXT"))
    if answer.status == "failed":
        return Destinations(is_open=True)
    records = [text for text in answer.records if is_dmarc(text)]
    if len(records) != 1:
        return Destinations()
    found: list[ReportUri] = []
    for uri in parse_report_uris(parse_tags(records[0]).get("rua", "")):
        if org_domain(uri.host) == org_domain(domain):
            found.append(uri)
            continue
        agreed = await _ask_external(domain, uri, ask)
        if agreed is None:
            return Destinations((), records[0], is_open=True)
        found += agreed
    return Destinations(tuple(dict.fromkeys(found)), records[0])


async def _ask_external(domain: str, uri: ReportUri, ask: AsksDns) -> tuple[ReportUri, ...] | None:
    """Return where a destination in another organisation takes reports on this domain: nowhere, there, or at an address
    of its own (RFC 9990 section 4); None where DNS does not answer."""
    name = f"{domain}._report._dmarc.{uri.host}"
    if len(name) > 253:
        return ()
    answer = await ask(Dns(name, "TXT"))
    if answer.status == "failed":
        return None
    records = [text for text in answer.records if is_dmarc(text)]
    if not records:
        return ()
    instead = [tags["rua"] for text in records if "rua" in (tags := parse_tags(text))]
    if not instead:
        return (uri,)
    others = parse_report_uris(instead[0])
    return others if all(each.host == uri.host for each in others) else ()


class ReportSender:
    """Sends the reports that are due. `pause` is what waits between two mails."""

    def __init__(
        self,
        stored: SentReports,
        jobs: Jobs,
        routing: Routing,
        keys: SigningKeys,
        settings: SentReportSettings,
        ask: AsksDns,
        *,
        clock: Callable[[], float] = time.time,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._stored, self._jobs, self._routing = stored, jobs, routing
        self._keys, self._settings = keys, settings
        self._ask, self._clock, self._pause = ask, clock, pause

    async def run(self) -> Counter[SentState]:
        """Send what is due; return how many reports ended in which way. Nothing happens while another node sends."""
        outcomes: Counter[SentState] = Counter()
        moment = self._clock()
        today = int(moment - MARGIN_SECONDS) // DAY_SECONDS
        room = self._settings.max_per_day - await self._stored.sent_since(today * DAY_SECONDS * 1_000)
        if room <= 0 or not await self._stored.waiting(today, 1):
            return outcomes
        async with self._jobs.take(REPORT) as held:
            while held and outcomes["sent"] < room and (found := await self._stored.waiting(today, BATCH)):
                for each in found:
                    if held.is_lost:
                        return outcomes
                    if outcomes["sent"] >= room:
                        break
                    outcomes[await self._handle(each)] += 1
        return outcomes

    async def _handle(self, waiting: WaitingReport) -> SentState:
        domain, day = waiting.domain, waiting.day
        rows = await self._stored.rows(day, domain)
        report = SentReport(day, domain, "unwanted", waiting.attempts + 1, 0, sum(count for _, count in rows))
        wanted = await find_destinations(domain, self._ask)
        if wanted.is_open:
            return await self._put_off(report, "DNS does not answer")
        if not wanted.uris:
            return await self._finish(report, "unwanted", "its DNS record names no address that agrees")
        if not any(detail for detail, _ in rows):
            return await self._finish(report, "failed", "nothing is left that could be told apart")
        built = await asyncio.to_thread(build_aggregate, self._settings, domain, wanted.record, rows, day)
        return await self._send_to_all(report, built, wanted.uris)

    async def _send_to_all(self, report: SentReport, built: BuiltReport, uris: Sequence[ReportUri]) -> SentState:
        taken, faults, is_open = list[str](), list[str](), False
        for uri in uris:
            try:
                moment = self._clock()
                raw = build_mail(self._settings, report.domain, built, uri.address, moment)
                signer = self._keys, _submitter(self._settings)
                raw = await asyncio.to_thread(sign_own_mail, *signer, raw, int(moment)) + raw
            except KeyFileError as fault:
                return await self._put_off(report, f"the key for signing {fault}")
            if uri.limit and len(raw) > uri.limit:
                faults.append(f"{uri.address} takes {uri.limit} bytes")
                continue
            code, said = await self._send(uri.address, raw)
            if code < 300:
                taken.append(uri.address)
            else:
                faults.append(f"{uri.address}: {said}")
                is_open = is_open or code < 500
            await self._pause(60.0 / self._settings.per_minute)
        reason = "; ".join(faults)
        if taken:
            # One that took it would have it twice: the others had their chance (RFC 9990 section 2.5).
            named = msgspec.structs.replace(report, destinations=", ".join(taken))
            return await self._finish(named, "sent", reason)
        return await self._put_off(report, reason) if is_open else await self._finish(report, "failed", reason)

    async def _send(self, address: str, raw: bytes) -> tuple[int, str]:
        """Send one mail; return the reply's code, 400 where there was none, and what was said."""
        try:
            async with asyncio.timeout(SEND_SECONDS):
                sent = await self._routing.send(self._settings.sender, [address], raw, {})
        except TimeoutError:
            return 400, "the next hop did not answer in time"
        except NextHopError as fault:
            return 400, f"the next hop {fault}"
        return sent.reply.code, f"the next hop answered {sent.reply.code}"

    async def _put_off(self, report: SentReport, reason: str) -> SentState:
        if report.attempts >= MAX_ATTEMPTS:
            return await self._finish(report, "failed", reason)
        later = msgspec.structs.replace(report, next_try=now() + RETRY_MILLISECONDS)
        return await self._finish(later, "waiting", reason)

    async def _finish(self, report: SentReport, state: SentState, reason: str) -> SentState:
        await self._stored.finish(msgspec.structs.replace(report, state=state, reason=reason))
        if state in ("waiting", "failed"):
            log.warning("report not sent", domain=report.domain, state=state, reason=reason)
        elif state == "sent":
            log.info("report sent", domain=report.domain, messages=report.messages)
        return state
