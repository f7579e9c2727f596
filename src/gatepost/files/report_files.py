"""Reading reports about domains out of a mail: XML of DMARC, JSON of TLS, and the fields of failure reports.

Reports come as zip, gzip or plain files, named and typed in every way (RFC 9990 section 2.6 asks for gzip; half of the
senders use zip). So the content decides, at most two layers deep, within the budget of a message. XML is read with
expat, without a document type: nobody needs one, and entities are how XML explodes. Elements, depth and text are
limited. Names are compared without their vocabulary and case, since generators disagree about both.

What generators do otherwise than the standard says: `disposition` is missing or has other words, `count` is empty,
times have fractions, `policy_evaluated` lacks a result, several reports come in one mail, `header_from` is an address.
None of this is a reason to lose a report. A report whose period or domain cannot be read is none.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import datetime
from hashlib import sha256
from ipaddress import ip_address
from typing import Any, TypeAlias
from xml.parsers import expat

import msgspec

from gatepost.domain_reports import MAX_COUNT, MAX_NAME, MAX_REPORTS, MAX_ROWS, DomainReport, DomainReports, SourceRow
from gatepost.files.archives import unpack
from gatepost.files.archives.passwords import PasswordCandidates
from gatepost.files.file_types import identify
from gatepost.files.values import File, UnpackBudget
from gatepost.mail.message import Message
from gatepost.mail.reader import read
from gatepost.names import is_ip, normal_domain

MAX_FILE = 20 << 20
MAX_UNPACKED = 40 << 20
MAX_FILES = 50
MAX_DEPTH, MAX_ELEMENTS, MAX_TEXT = 12, 1_000_000, 2_000
LAYERS = 2
_NAME = re.compile(r"[^ -~]")
_DOMAIN = re.compile(
    r"(?=.{1,253}\Z)(?:[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?\.)+[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\Z"
)
_FAILURES = ("dkim", "spf", "dmarc", "adsp", "bodyhash", "revoked", "signature")


_RowKey: TypeAlias = tuple[str, bool, bool, str, tuple[str, ...]]


class UnreadableReport(Exception):  # noqa: N818  an outcome
    """Why a file is no report, as the end of a sentence that starts with its name."""


def read_domain_reports(raw: bytes) -> DomainReports:
    """Return the reports that a mail carries."""
    message = read(raw)
    found: list[DomainReport] = []
    problems: list[str] = []
    seen: set[str] = set()
    for name, content in _list_files(message):
        digest = sha256(content).hexdigest()
        if digest in seen or len(found) >= MAX_REPORTS:
            continue
        seen.add(digest)
        try:
            found += _read_file(content)
        except UnreadableReport as fault:
            problems.append(f"{_cut(name) or 'a part'} {fault}"[:MAX_NAME])
    if failure := _read_failure(message):
        found.append(failure)
    return DomainReports(tuple(found[:MAX_REPORTS]), tuple(problems[:MAX_REPORTS]))


def _list_files(message: Message) -> Iterator[tuple[str, bytes]]:
    """Yield the files of a message and what is packed in them."""
    budget, passwords = (
        UnpackBudget(MAX_UNPACKED, MAX_FILES, native=False, runs_pages=False),
        PasswordCandidates(message),
    )
    waiting = [(part.names, part.content, 0) for part in reversed(message.files)]
    while waiting:
        names, content, depth = waiting.pop()
        yield (names[0] if names else ""), content
        kind = identify(content)
        if kind not in ("zip", "gzip") or depth >= LAYERS:
            continue
        file = File("", content, kind, "", names)
        for member in unpack.read_members(file, budget, passwords) or ():
            if not budget.take_file():
                return
            waiting.append((member.names or names, member.content, depth + 1))


def _read_file(content: bytes) -> list[DomainReport]:
    """Read one file that was unpacked; none where it is something else."""
    start = content[:4_000].lstrip(b"\xef\xbb\xbf\xff\xfe\0 \t\r\n")
    if len(content) > MAX_FILE:
        raise UnreadableReport(f"is larger than {MAX_FILE >> 20} MiB")
    plain = start.replace(b"\0", b"")
    if plain.startswith(b"<") and (b"feedback" in plain or b"<?xml" in plain[:10]):
        return [parse_aggregate(content)]
    if start.startswith(b"{") and b"policies" in content:
        return parse_tls_report(content)
    return []


def parse_aggregate(content: bytes) -> DomainReport:
    """Parse the XML of an aggregate report; raises `UnreadableReport`."""
    reader = _AggregateReader()
    parser = expat.ParserCreate()
    parser.StartElementHandler, parser.EndElementHandler = reader.start, reader.end
    parser.CharacterDataHandler = reader.take_text
    parser.StartDoctypeDeclHandler = reader.refuse_doctype
    parser.buffer_text = True
    try:
        parser.Parse(content.lstrip(b"\r\n\t "), True)
    except (expat.ExpatError, ValueError, LookupError) as fault:
        raise UnreadableReport("is no whole XML document") from fault
    return reader.build()


class _AggregateReader:
    """Takes the events of one parse. Values are kept by their path; those of a record until its end."""

    def __init__(self) -> None:
        self._path: list[str] = []
        self._text: list[str] = []
        self._room = 0
        self._elements = 0
        self._head: dict[str, str] = {}
        self._record: dict[str, str] = {}
        self._signed: list[dict[str, str]] = []
        self._rows: Counter[_RowKey] = Counter()
        self._left_out = 0

    def refuse_doctype(self, *_: object) -> None:
        raise UnreadableReport("has a document type, which no report needs")

    def start(self, name: str, _given: Mapping[str, str]) -> None:
        self._elements += 1
        self._path.append(name.rpartition(":")[2].lower())
        if len(self._path) > MAX_DEPTH or self._elements > MAX_ELEMENTS:
            raise UnreadableReport("has more elements than a report needs")
        if len(self._path) == 1 and self._path[0] != "feedback":
            raise UnreadableReport("is XML, but no report of DMARC")
        if self._path[-1] == "record":
            self._record, self._signed = {}, []
        elif self._path[-1] == "dkim" and self._path[-2:-1] == ["auth_results"]:
            self._signed.append({})
        self._text, self._room = [], MAX_TEXT

    def take_text(self, text: str) -> None:
        if self._room > 0:
            self._text.append(text[: self._room])
            self._room -= len(text)

    def end(self, _name: str) -> None:
        value = "".join(self._text).strip()
        self._text = []
        path = self._path
        if "record" in path:
            inner = "/".join(path[path.index("record") + 1 :])
            if inner.startswith("auth_results/dkim/") and self._signed:
                self._signed[-1].setdefault(path[-1], value)
            elif value:
                self._record.setdefault(inner, value)
            if path[-1] == "record":
                self._end_record()
        elif value:
            self._head.setdefault("/".join(path[1:]), value)
        path.pop()

    def _end_record(self) -> None:
        record = self._record
        count = _number(record.get("row/count", "1"))
        if count is None or not self._record:
            return
        source = _address(record.get("row/source_ip", ""))
        evaluated = {
            name: record.get(f"row/policy_evaluated/{name}", "").lower() for name in ("dkim", "spf", "disposition")
        }
        disposition = (
            evaluated["disposition"] if evaluated["disposition"] in ("quarantine", "reject", "pass") else "none"
        )
        signer = next((each for each in self._signed if each.get("result", "").lower() == "pass"), None)
        signer = signer or (self._signed[0] if self._signed else {})
        details = (
            _domain(record.get("identifiers/header_from", "")),
            _domain(signer.get("domain", "")),
            _domain(record.get("auth_results/spf/domain", "")),
            _cut(record.get("row/policy_evaluated/reason/type", ""))[:40],
        )
        key: _RowKey = (source, evaluated["dkim"] == "pass", evaluated["spf"] == "pass", disposition, details)
        if key not in self._rows and len(self._rows) >= MAX_ROWS - 8:
            # Of what is too much to tell apart, results still count; there are few different ones.
            self._left_out += 1
            key = ("", key[1], key[2], disposition if disposition != "pass" else "none", ())
        self._rows[key] += count

    def build(self) -> DomainReport:
        head = self._head
        domain = _domain(head.get("policy_published/domain", ""))
        begins, ends = (_moment(head.get(f"report_metadata/date_range/{name}", "")) for name in ("begin", "end"))
        if not domain:
            raise UnreadableReport("does not say which domain it is about")
        if begins is None or ends is None or ends < begins:
            raise UnreadableReport("does not say which time it is about")
        rows = tuple(SourceRow(key[0], min(count, MAX_COUNT), *key[1:]) for key, count in self._rows.most_common())
        stated = {name: _cut(head.get(f"policy_published/{name}", ""))[:20].lower() for name in _PUBLISHED}
        return DomainReport(
            "dmarc",
            domain,
            _cut(head.get("report_metadata/org_name", "") or head.get("report_metadata/email", "").rpartition("@")[2]),
            _cut(head.get("report_metadata/report_id", "")) or f"{begins}-{ends}",
            begins,
            ends,
            stated["p"] if stated["p"] in ("none", "quarantine", "reject") else "",
            "; ".join(f"{name}={value}" for name, value in stated.items() if value),
            min(MAX_COUNT, sum(row.count for row in rows if row.passed)),
            min(MAX_COUNT, sum(row.count for row in rows if not row.passed)),
            rows,
            self._left_out,
        )


_PUBLISHED = ("p", "sp", "np", "adkim", "aspf", "pct", "testing", "fo")


def parse_tls_report(content: bytes) -> list[DomainReport]:
    """Parse the JSON of a TLS report (RFC 8460 section 4.4), which may be about several policies; raises
    `UnreadableReport`."""
    try:
        whole = msgspec.json.decode(content)
    except (msgspec.DecodeError, ValueError, RecursionError) as fault:
        raise UnreadableReport("is no whole JSON document") from fault
    period = _part(whole, "date-range")
    begins, ends = (_moment(_text(period.get(f"{name}-datetime"))) for name in ("start", "end"))
    policies = whole.get("policies") if isinstance(whole, dict) else None
    if not isinstance(policies, list) or not policies:
        return []
    if begins is None or ends is None or ends < begins:
        raise UnreadableReport("does not say which time it is about")
    reporter, report_id = _cut(_text(whole.get("organization-name"))), _cut(_text(whole.get("report-id")))
    return [
        made
        for index, each in enumerate(policies[:MAX_REPORTS])
        if (made := _read_tls_policy(each, reporter, f"{report_id or begins}#{index}"[-MAX_NAME:], (begins, ends)))
    ]


def _read_tls_policy(stated: object, reporter: str, report_id: str, period: tuple[int, int]) -> DomainReport | None:
    policy, summary = _part(stated, "policy"), _part(stated, "summary")
    domain = _domain(_text(policy.get("policy-domain")))
    if not domain:
        return None
    rows: Counter[tuple[str, str, tuple[str, ...]]] = Counter()
    details = stated.get("failure-details") if isinstance(stated, dict) else None
    for each in details if isinstance(details, list) else ():
        if not isinstance(each, dict):
            continue
        host = _cut(_text(each.get("receiving-mx-hostname")) or _text(each.get("receiving-ip"))).lower()
        key: tuple[str, str, tuple[str, ...]] = (
            host,
            _cut(_text(each.get("result-type")))[:60] or "unknown",
            (_address(_text(each.get("sending-mta-ip"))),),
        )
        if key not in rows and len(rows) >= MAX_ROWS - 1:
            key = ("", "others", ())
        rows[key] += _number(_text(each.get("failed-session-count"))) or 0
    passed = _number(_text(summary.get("total-successful-session-count"))) or 0
    failed = _number(_text(summary.get("total-failure-session-count"))) or 0
    kind = _cut(_text(policy.get("policy-type")))[:20]
    made = tuple(
        SourceRow(host, min(count, MAX_COUNT), result=result, details=names)
        for (host, result, names), count in rows.most_common()
    )
    return DomainReport("tls", domain, reporter, report_id, *period, kind, kind, passed, failed, made)


def _read_failure(message: Message) -> DomainReport | None:
    """Return a failure report (RFC 6591 section 3): of the message that failed, only host, domain and reason."""
    for part in message.parts:
        if part.content_type != "message/feedback-report":
            continue
        fields: dict[str, str] = {}
        for line in part.content[:20_000].decode("utf-8", "replace").splitlines()[:200]:
            name, colon, value = line.partition(":")
            if colon and not line[:1].isspace():
                fields.setdefault(name.strip().lower(), value.strip()[:MAX_TEXT])
        if fields.get("feedback-type", "").lower() != "auth-failure":
            continue
        domain = _domain(fields.get("reported-domain", ""))
        moment = _mail_date(fields.get("arrival-date", "")) or _mail_date(fields.get("received-date", ""))
        if not domain or moment is None:
            continue
        reason = fields.get("auth-failure", "").lower()
        row = SourceRow(
            _address(fields.get("source-ip", "")),
            min(_number(fields.get("incidents", "1")) or 1, 1_000_000),
            result=reason if reason in _FAILURES else "unknown",
            details=(_cut(fields.get("delivery-result", ""))[:20], _domain(fields.get("dkim-domain", ""))),
        )
        reporter = _domain(fields.get("reporting-mta", "").rpartition(";")[2].strip())
        digest = sha256(part.content).hexdigest()[:32]
        return DomainReport("failure", domain, reporter, digest, moment, moment, failed=row.count, rows=(row,))
    return None


def _mail_date(text: str) -> int | None:
    from email.utils import parsedate_to_datetime

    try:
        seconds = parsedate_to_datetime(text[:100]).timestamp()
    except (ValueError, TypeError, OverflowError, IndexError):
        return None
    return int(seconds) if 0 <= seconds < 100_000_000_000 else None


def _part(value: object, name: str) -> dict[str, Any]:
    found = value.get(name) if isinstance(value, dict) else None
    return found if isinstance(found, dict) else {}


def _text(value: object) -> str:
    return (
        value[:MAX_TEXT] if isinstance(value, str) else str(value) if isinstance(value, int) and value < 1 << 60 else ""
    )


def _cut(text: str) -> str:
    """Return a name on one line, without characters that a terminal or a page would obey."""
    return _NAME.sub("?", text.strip()[:MAX_NAME])


def _domain(text: str) -> str:
    """Return a domain in normal form, that of an address too; "" for what is none."""
    domain = normal_domain(text[:400].rpartition("@")[2].strip(" <>\t"))
    return domain if _DOMAIN.match(domain) and not is_ip(domain) else ""


def _address(text: str) -> str:
    try:
        return str(ip_address(text.strip()[:64]))
    except ValueError:
        return ""


def _number(text: str) -> int | None:
    text = text.strip()
    return min(int(text), MAX_COUNT) if text.isascii() and text.isdigit() and len(text) <= 15 else None


def _moment(text: str) -> int | None:
    """Return a time in Unix seconds, written as such or as a date (RFC 3339)."""
    text = text.strip()[:40]
    whole = text.partition(".")[0]
    if whole.isascii() and whole.isdigit():
        return int(whole) if len(whole) <= 10 else None
    try:
        moment = datetime.fromisoformat(text)
        seconds = moment.timestamp() if moment.tzinfo else -1.0
    except (ValueError, OverflowError):
        return None
    return int(seconds) if seconds >= 0 else None
