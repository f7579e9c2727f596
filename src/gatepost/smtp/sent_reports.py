"""Reports to others: what came in the name of their domains (DMARC aggregate reports, RFC 9990), and how TLS towards
their mail servers went (RFC 8460). Both are sent only where the settings say so.

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
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime
from hashlib import sha256
from ipaddress import ip_address, ip_network
from xml.sax.saxutils import escape

import msgspec

from gatepost import __version__
from gatepost.analysis.report import Report
from gatepost.domain_reports import (
    Disposition,
    ReportUri,
    SeenMail,
    SeenSession,
    is_dmarc,
    parse_report_uris,
    parse_tags,
)
from gatepost.ids import new_id
from gatepost.mail.message import Envelope
from gatepost.names import normal_domain, org_domain
from gatepost.process.logs import Logger
from gatepost.process.periodic import PeriodicWork
from gatepost.questions import Dns, DnsAnswer
from gatepost.settings.domain_reports import SentReportSettings
from gatepost.smtp.next_hop import NextHopError
from gatepost.smtp.routing import Routing
from gatepost.smtp.signing import KeyFileError, SigningKeys, sign_own_mail
from gatepost.store.sent_reports import (
    MAX_ROWS,
    ReportCount,
    SentKind,
    SentReport,
    SentReports,
    SentState,
    WaitingReport,
)
from gatepost.times import now

DAY_SECONDS = 86_400
FLUSH_SECONDS = 30.0
# What a process remembers between two writes, and of how many domains in a day.
MAX_GATHERED, MAX_DOMAINS = 20_000, 20_000
MAX_SIGNATURES, MAX_DETAIL = 4, 1_500
# A day is over when every process has written its counts.
MARGIN_SECONDS = 600
LOCK_MILLISECONDS = 900_000
BATCH = 100
MAX_ATTEMPTS = 12
RETRY_MILLISECONDS = 2 * 3_600_000
SEND_SECONDS = 120.0
NAMESPACE = "urn:ietf:params:xml:ns:dmarc-2.0"

_INTERNAL = tuple(
    ip_network(each)
    for each in (
        *("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "127.0.0.0/8", "169.254.0.0/16", "0.0.0.0/8"),
        *("100.64.0.0/10", "::1/128", "fc00::/7", "fe80::/10", "::/128"),
    )
)
_SEVERITY = {"none": 0, "quarantine": 1, "reject": 2}
_DONE: dict[str, Disposition] = {"deliver": "none", "quarantine": "quarantine", "bounce": "reject", "drop": "reject"}
_LOCAL_POLICY, _FORWARDED = "local_policy", "trusted_forwarder"

log = Logger("gatepost.reports")

AsksDns = Callable[[Dns], Awaitable[DnsAnswer]]


def describe_mail(report: Report, envelope: Envelope) -> tuple[str, SeenMail] | None:
    """Return the policy domain of a message and what is reported of it; None where nothing is: no policy, no known
    host, mail of our own, or no decision yet."""
    found = report.authentication
    dmarc = found.dmarc
    if envelope.outbound or not dmarc.policy_domain or report.decision not in _DONE or not _is_outside(found.host):
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


def _is_outside(host: str) -> bool:
    try:
        address = ip_address(host)
    except ValueError:
        return False
    return not any(address in network for network in _INTERNAL)


class ReportGatherer:
    """Counts in the memory of one process, and adds what it has to storage. It belongs to one event loop."""

    def __init__(
        self, stored: SentReports, settings: SentReportSettings, clock: Callable[[], float] = time.time
    ) -> None:
        self._stored, self._clock = stored, clock
        self._kinds = {kind for kind, wanted in (("dmarc", settings.dmarc), ("tls", settings.tls)) if wanted}
        self._excluded = frozenset(settings.exclude)
        self._counts: Counter[tuple[SentKind, int, str, SeenMail | SeenSession]] = Counter()
        self._day, self._domains = 0, set[str]()
        self.dropped = 0
        failed = "counts for reports could not be written"
        self._writing = PeriodicWork(self.flush, FLUSH_SECONDS, failed, log, waits_first=True)

    def start(self) -> None:
        """Write from now on."""
        self._writing.start()

    async def stop(self) -> None:
        """Write what is left, and end."""
        await self._writing.finish()
        await self.flush()

    def note_mail(self, report: Report, envelope: Envelope) -> None:
        """Count a message."""
        if "dmarc" in self._kinds and (found := describe_mail(report, envelope)):
            self._note("dmarc", *found)

    def note_session(self, domain: str, session: SeenSession) -> None:
        """Count a connection to a mail server of a domain."""
        if "tls" in self._kinds:
            self._note("tls", domain, session)

    def _note(self, kind: SentKind, domain: str, seen: SeenMail | SeenSession) -> None:
        day = int(self._clock()) // DAY_SECONDS
        if day != self._day:
            self._day, self._domains = day, set()
        key = (kind, day, domain, seen)
        is_new = key not in self._counts
        is_full = len(self._counts) >= MAX_GATHERED or (
            domain not in self._domains and len(self._domains) >= MAX_DOMAINS
        )
        if domain in self._excluded or (is_new and is_full):
            self.dropped += domain not in self._excluded
            return
        self._domains.add(domain)
        self._counts[key] += 1

    async def flush(self) -> None:
        """Add what was counted to storage; what it does not take now is tried again."""
        counts, self._counts = self._counts, Counter()
        if not counts:
            return
        rows = [ReportCount(*key[:3], _encode(key[3]), count) for key, count in counts.items()]
        try:
            await self._stored.count(rows)
        except BaseException:
            self._counts.update(counts)
            raise


def _encode(seen: SeenMail | SeenSession) -> str:
    text = msgspec.json.encode(seen).decode()
    if len(text) > MAX_DETAIL and isinstance(seen, SeenMail):
        text = msgspec.json.encode(msgspec.structs.replace(seen, signatures=seen.signatures[:1])).decode()
    return text if len(text) <= MAX_DETAIL else ""


_mail = msgspec.json.Decoder(SeenMail)
_session = msgspec.json.Decoder(SeenSession)


class BuiltReport(msgspec.Struct, frozen=True):
    """A report as it is attached: the name of the file, what is in it, and its id."""

    name: str
    content: bytes
    report_id: str


class Period(msgspec.Struct, frozen=True):
    """The day that a report is about."""

    day: int

    @property
    def begins(self) -> int:
        """The first second."""
        return self.day * DAY_SECONDS

    @property
    def ends(self) -> int:
        """The last second."""
        return self.begins + DAY_SECONDS - 1


def make_report_id(kind: SentKind, submitter: str, domain: str, day: int) -> str:
    """Return the id of a report: the same whenever it is sent, so that one that comes twice is known."""
    return sha256(f"{kind} {submitter} {domain} {day}".encode()).hexdigest()[:32]


def build_aggregate(
    settings: SentReportSettings, domain: str, record: str, rows: Sequence[tuple[str, int]], day: int
) -> BuiltReport:
    """Return the DMARC report on a domain; elements stand in the order of the schema (RFC 9990 appendix A)."""
    submitter, period = settings.sender.rpartition("@")[2].lower(), Period(day)
    report_id = make_report_id("dmarc", submitter, domain, day)
    left_out = sum(count for detail, count in rows if not detail)
    metadata = [
        _element("org_name", settings.organization),
        _element("email", settings.sender),
        *([_element("extra_contact_info", settings.contact)] if settings.contact else []),
        _element("report_id", report_id),
        f"<date_range>{_element('begin', period.begins)}{_element('end', period.ends)}</date_range>",
        *([_element("error", f"{left_out} messages beyond {MAX_ROWS} different results left out")] if left_out else []),
        _element("generator", f"Gatepost {__version__}"),
    ]
    records = "\n".join(_build_record(_mail.decode(detail), count) for detail, count in rows if detail)
    text = (
        f'<?xml version="1.0" encoding="UTF-8"?>\n<feedback xmlns="{NAMESPACE}">\n<version>1.0</version>\n'
        f"<report_metadata>{''.join(metadata)}</report_metadata>\n{_build_policy(domain, record)}\n{records}\n"
        "</feedback>\n"
    )
    name = f"{submitter}!{domain}!{period.begins}!{period.ends}!{report_id}.xml.gz"
    return BuiltReport(name, gzip.compress(text.encode(), mtime=0), report_id)


def _build_policy(domain: str, record: str) -> str:
    """Return what the domain publishes, with the defaults of what it does not (RFC 9989 section 4.7)."""
    tags = parse_tags(record)

    def read(name: str, default: str, allowed: Sequence[str]) -> str:
        value = tags.get(name, "").lower()
        return value if value in allowed else default

    policies = ("none", "quarantine", "reject")
    policy = read("p", "none", policies)
    below = read("sp", policy, policies)
    published = {
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
    inner = "".join(_element(name, value) for name, value in published.items())
    return f"<policy_published>{inner}</policy_published>"


def _build_record(seen: SeenMail, count: int) -> str:
    reason = f"<reason>{_element('type', seen.override)}</reason>" if seen.override else ""
    evaluated = (
        f"{_element('disposition', seen.disposition)}{_element('dkim', 'pass' if seen.dkim else 'fail')}"
        f"{_element('spf', 'pass' if seen.spf else 'fail')}{reason}"
    )
    signatures = "".join(
        f"<dkim>{_element('domain', name)}{_element('selector', selector)}{_element('result', result)}</dkim>"
        for name, selector, result in seen.signatures
        if name and selector
    )
    spf = "".join(
        f"<spf>{_element('domain', name)}{_element('scope', 'mfrom')}{_element('result', seen.spf_result)}</spf>"
        for name in ([seen.spf_domain] if seen.spf_domain else ())
    )
    return (
        f"<record><row>{_element('source_ip', seen.source)}{_element('count', count)}"
        f"<policy_evaluated>{evaluated}</policy_evaluated></row>"
        f"<identifiers>{_element('header_from', seen.header_from)}"
        f"{_element('envelope_from', seen.envelope_from)}</identifiers>"
        f"<auth_results>{signatures}{spf}</auth_results></record>"
    )


def _element(name: str, value: object) -> str:
    """Return an element; strangers chose what is in most of them, so all but printable ASCII is written as a mark."""
    text = "".join(each if " " <= each <= "~" else "?" for each in str(value))
    return f"<{name}>{escape(text)}</{name}>"


class _PolicySessions(msgspec.Struct):
    """What was counted under one policy."""

    passed: int = 0
    failures: list[tuple[SeenSession, int]] = msgspec.field(default_factory=list)


def build_tls_report(
    settings: SentReportSettings, domain: str, rows: Sequence[tuple[str, int]], day: int
) -> BuiltReport:
    """Return the TLS report on a domain (RFC 8460 section 4.4), one entry for each policy that was in force."""
    submitter, period = settings.sender.rpartition("@")[2].lower(), Period(day)
    report_id = make_report_id("tls", submitter, domain, day)
    groups: dict[tuple[str, tuple[str, ...], tuple[str, ...]], _PolicySessions] = {}
    for detail, count in rows:
        if not detail:
            continue
        seen = _session.decode(detail)
        group = groups.setdefault((seen.policy, seen.lines, seen.hosts), _PolicySessions())
        if seen.failure:
            group.failures.append((seen, count))
        else:
            group.passed += count
    whole = {
        "organization-name": settings.organization,
        "date-range": {"start-datetime": _write_time(period.begins), "end-datetime": _write_time(period.ends)},
        "contact-info": settings.sender,
        "report-id": report_id,
        "policies": [_build_tls_policy(domain, *key, group) for key, group in sorted(groups.items())],
    }
    name = f"{submitter}!{domain}!{period.begins}!{period.ends}!{report_id}.json.gz"
    return BuiltReport(name, gzip.compress(msgspec.json.encode(whole), mtime=0), report_id)


def _build_tls_policy(
    domain: str, kind: str, lines: tuple[str, ...], hosts: tuple[str, ...], group: _PolicySessions
) -> dict[str, object]:
    policy: dict[str, object] = {"policy-type": kind, "policy-domain": domain}
    if lines:
        policy |= {"policy-string": list(lines), "mx-host": list(hosts)}
    found: dict[str, object] = {
        "policy": policy,
        "summary": {
            "total-successful-session-count": group.passed,
            "total-failure-session-count": sum(count for _, count in group.failures),
        },
    }
    if group.failures:
        found["failure-details"] = [
            {
                "result-type": seen.failure,
                **({"receiving-mx-hostname": seen.server} if seen.server else {}),
                **({"receiving-ip": seen.address} if seen.address else {}),
                "failed-session-count": count,
                **({"failure-reason-code": seen.detail} if seen.detail else {}),
            }
            for seen, count in group.failures
        ]
    return found


def _write_time(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def build_mail(
    kind: SentKind, settings: SentReportSettings, domain: str, report: BuiltReport, to: str, moment: float
) -> bytes:
    """Return the mail that carries a report (RFC 9990 section 2.5.4; RFC 8460 section 5.3)."""
    submitter = settings.sender.rpartition("@")[2].lower()
    message = EmailMessage(policy=SMTP.clone(max_line_length=200))
    message["From"] = settings.sender
    message["To"] = to
    message["Subject"] = f"Report Domain: {domain} Submitter: {submitter} Report-ID: <{report.report_id}@{submitter}>"
    message["Date"] = format_datetime(datetime.fromtimestamp(moment, UTC))
    message["Message-ID"] = f"<{report.report_id}.{sha256(to.encode()).hexdigest()[:8]}@{submitter}>"
    message["Auto-Submitted"] = "auto-generated"
    if kind == "tls":
        message["TLS-Report-Domain"] = domain
        message["TLS-Report-Submitter"] = submitter
        message["TLS-Required"] = "No"
    what = "DMARC aggregate report" if kind == "dmarc" else "SMTP TLS report"
    message.set_content(f"This is a {what} on {domain}, from {settings.organization}.\r\n")
    if kind == "dmarc":
        message.add_attachment(report.content, maintype="application", subtype="gzip", filename=report.name)
        return message.as_bytes()
    message.add_attachment(report.content, maintype="application", subtype="tlsrpt+gzip", filename=report.name)
    message.replace_header("Content-Type", message["Content-Type"].replace("multipart/mixed", "multipart/report", 1))
    message.set_param("report-type", "tlsrpt")
    return message.as_bytes()


class Destinations(msgspec.Struct, frozen=True):
    """Where a report goes. `record` is the policy record of the domain; `is_open`: DNS did not answer, so it is asked
    again later."""

    uris: tuple[ReportUri, ...] = ()
    record: str = ""
    is_open: bool = False


async def find_destinations(kind: SentKind, domain: str, ask: AsksDns) -> Destinations:
    """Return where a domain wants its reports. A TLS record may name any address: only one's own servers are the matter
    of that report, and its volume is one mail a day (RFC 8460 section 3)."""
    prefix = "_dmarc." if kind == "dmarc" else "_smtp._tls."
    answer = await ask(Dns(prefix + domain, "TXT"))
    if answer.status == "failed":
        return Destinations(is_open=True)
    fits = is_dmarc if kind == "dmarc" else _is_tls_record
    records = [text for text in answer.records if fits(text)]
    if len(records) != 1:
        return Destinations()
    uris = parse_report_uris(parse_tags(records[0]).get("rua", ""))
    if kind == "tls":
        return Destinations(uris, records[0])
    found: list[ReportUri] = []
    for uri in uris:
        if org_domain(uri.host) == org_domain(domain):
            found.append(uri)
            continue
        agreed = await _ask_external(domain, uri, ask)
        if agreed is None:
            return Destinations((), records[0], is_open=True)
        found += agreed
    return Destinations(tuple(dict.fromkeys(found)), records[0])


def _is_tls_record(text: str) -> bool:
    return text.partition(";")[0].replace(" ", "") == "v=TLSRPTv1"


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
        routing: Routing,
        keys: SigningKeys,
        settings: SentReportSettings,
        ask: AsksDns,
        *,
        clock: Callable[[], float] = time.time,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._stored, self._routing, self._keys, self._settings = stored, routing, keys, settings
        self._ask, self._clock, self._pause = ask, clock, pause
        self._holder = new_id()

    async def run(self, kind: SentKind) -> Counter[SentState]:
        """Send what is due; return how many reports ended in which way. Nothing happens while another node sends."""
        outcomes: Counter[SentState] = Counter()
        moment = self._clock()
        today = int(moment - MARGIN_SECONDS) // DAY_SECONDS
        room = self._settings.max_per_day - await self._stored.sent_since(kind, today * DAY_SECONDS * 1_000)
        if room <= 0 or not await self._stored.waiting(kind, today, 1):
            return outcomes
        if not await self._stored.take(kind, self._holder, now() + LOCK_MILLISECONDS):
            return outcomes
        try:
            while outcomes["sent"] < room and (found := await self._stored.waiting(kind, today, BATCH)):
                for each in found:
                    if outcomes["sent"] >= room:
                        break
                    outcomes[await self._handle(kind, each)] += 1
                if not await self._stored.take(kind, self._holder, now() + LOCK_MILLISECONDS):
                    break
        finally:
            await self._stored.leave(kind, self._holder)
        return outcomes

    async def _handle(self, kind: SentKind, waiting: WaitingReport) -> SentState:
        domain, day = waiting.domain, waiting.day
        rows = await self._stored.rows(kind, day, domain)
        report = SentReport(kind, day, domain, "unwanted", waiting.attempts + 1, 0, sum(count for _, count in rows))
        wanted = await find_destinations(kind, domain, self._ask)
        if wanted.is_open:
            return await self._put_off(report, "DNS does not answer")
        if not wanted.uris:
            return await self._finish(report, "unwanted", "its DNS record names no address that agrees")
        if not any(detail for detail, _ in rows):
            return await self._finish(report, "failed", "nothing is left that could be told apart")
        if kind == "dmarc":
            built = await asyncio.to_thread(build_aggregate, self._settings, domain, wanted.record, rows, day)
        else:
            built = await asyncio.to_thread(build_tls_report, self._settings, domain, rows, day)
        return await self._send_to_all(report, built, wanted.uris)

    async def _send_to_all(self, report: SentReport, built: BuiltReport, uris: Sequence[ReportUri]) -> SentState:
        taken, faults, is_open = list[str](), list[str](), False
        for uri in uris:
            try:
                raw = self._sign(
                    build_mail(report.kind, self._settings, report.domain, built, uri.address, self._clock())
                )
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

    def _sign(self, raw: bytes) -> bytes:
        return (
            sign_own_mail(self._keys, self._settings.sender.rpartition("@")[2].lower(), raw, int(self._clock())) + raw
        )

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
            log.warning("report not sent", kind=report.kind, domain=report.domain, state=state, reason=reason)
        elif state == "sent":
            log.info("report sent", kind=report.kind, domain=report.domain, messages=report.messages)
        return state
