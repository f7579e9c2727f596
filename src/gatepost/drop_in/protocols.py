"""The protocols of SpamAssassin's spamd and of rspamd, and a report in their terms.

spamd (`spamd/PROTOCOL`, version 1.5) is spoken by spamc, Exim, amavis and libraries. A client sends `CHECK SPAMC/1.5`,
fields and a message, and gets `SPAMD/1.1 0 EX_OK` with `Spam: True ; 7.2 / 5.0`. What else comes depends on the
command: nothing (CHECK), the names of the findings (SYMBOLS), a report in words (REPORT, REPORT_IFSPAM), the message
with fields that tell the result (PROCESS), or its header alone (HEADERS). PING is answered with PONG, SKIP not at all.
TELL, which teaches, is refused: Gatepost learns from reports of its users.

`User` names the user whose mail it is; where that is an address, it is the recipient.

rspamd is spoken by rspamc, Haraka, Exim and libraries. Over HTTP, `POST /checkv2` brings the message as the body and
the envelope in fields: `IP`, `Helo`, `From`, `Rcpt` (one for each recipient), `User` (the client has authenticated
itself), `Queue-Id`. The answer is JSON with the score, the action and the symbols; `milter` names the header fields
that a mail server should add and remove. The methods of rspamc's first protocol, which Exim speaks
(`CHECK RSPAMC/1.3`, `variant=rspamd`), get the same in other words. `GET /ping` answers `pong`.

What rspamd's controller does besides (learning, statistics, fuzzy hashes) is refused. So is `File`, a path that the
filter would read instead of the message: nobody who asks chooses files here.

A report becomes a score, the score from which on mail is spam, and symbols. Their clients compare the score with a
number of their own, or look at the flag alone. So both always agree with the decision: mail that is to be delivered has
less than the required score, other mail has at least that. Where the decision comes from a list or a conclusive
finding, the symbol `GATEPOST_DECISION` has the difference; the points of all symbols add up to the score.
"""

import re
from collections.abc import Iterator
from http import HTTPStatus
from itertools import count
from typing import Any, Literal

import msgspec

from gatepost.analysis.report import Report
from gatepost.drop_in.requests import PIECE, Answered, Asked, Head, Refusal, read_length
from gatepost.scanning.spool import SpooledBody
from gatepost.smtp.client import parse_address
from gatepost.smtp.trace import AUTHENTICATION, BLANKS, MAX_HEADER, STRAY, build_result_fields, format_field, is_claim
from gatepost.view.values import escape_line

# Where the verdict `suspicious` begins in the policy as it is shipped, and SpamAssassin's own default.
REQUIRED = 5.0
DECISION = "GATEPOST_DECISION"
MAX_OPTIONS, MAX_OPTION = 8, 200
_OTHER = re.compile(r"[^A-Z0-9]+")


class Symbol(msgspec.Struct, frozen=True):
    """A finding: its points, what it is, and its evidence."""

    name: str
    score: float
    description: str
    options: tuple[str, ...] = ()


class Scores(msgspec.Struct, frozen=True):
    """A report in numbers."""

    is_spam: bool
    score: float
    symbols: tuple[Symbol, ...]


def symbol_name(kind: str) -> str:
    """Return the kind of a finding as a symbol is written: `url:foreign-target` is `URL_FOREIGN_TARGET`."""
    return _OTHER.sub("_", kind.upper()).strip("_")


def read_scores(report: Report) -> Scores:
    """Return a report in numbers; findings of one kind are one symbol."""
    found: dict[str, Symbol] = {}
    for line in report.lines:
        name, before = symbol_name(line.kind), found.get(symbol_name(line.kind))
        score = line.counted / 100 + (before.score if before else 0.0)
        facts = [f"{key}={value}"[:MAX_OPTION] for key, value in line.facts.items()]
        options = ((*before.options, *facts) if before else tuple(facts))[:MAX_OPTIONS]
        found[name] = Symbol(name, round(score, 2), line.title, options)
    is_spam = report.decision != "deliver"
    total = round(sum(each.score for each in found.values()), 2)
    shown = max(total, REQUIRED) if is_spam else min(total, REQUIRED - 0.1)
    if shown != total or report.lists:
        found[DECISION] = Symbol(DECISION, round(shown - total, 2), f"{report.verdict}: {report.reason}")
    return Scores(is_spam, round(shown, 2), tuple(found.values()))


COMMANDS = frozenset({"CHECK", "SYMBOLS", "REPORT", "REPORT_IFSPAM", "PROCESS", "HEADERS"})
# The numbers of sysexits.h, which spamc ends with.
CODES = {
    "malformed": (76, "EX_PROTOCOL"),
    "unavailable": (69, "EX_UNAVAILABLE"),
    "too large": (65, "EX_DATAERR"),
    "later": (75, "EX_TEMPFAIL"),
}
MAX_STARS = 50

_REQUEST = re.compile(r"([A-Z_]{1,20}) SPAMC/(\d)\.(\d)")
# Fields of a message that tell a result, ours or that of a filter before; some readers take a lone CR for a line end.
_TELLING = re.compile(
    rb"(?<=[\r\n])((?:x-spam-|x-gatepost-)[!-9;-~]*+|authentication-results)[ \t]*+:[^\n]*+(?>\n[ \t][^\n]*+)*+\n",
    re.IGNORECASE,
)
_HEADER_END = re.compile(rb"(?:\A|\n)\r?\n")


class Spamd:
    """spamd's side of the protocol."""

    name = "spamd"

    def read(self, head: Head) -> Asked | Refusal | bytes:
        """Return what a client asks for; the whole answer where it sends no message."""
        found = _REQUEST.fullmatch(head.line.rstrip())
        if found is None:
            return Refusal("malformed", "no command such as CHECK SPAMC/1.5")
        command = found[1]
        if command == "PING":
            return b"SPAMD/1.5 0 PONG\r\n"
        if command == "SKIP":
            return b""
        if command not in COMMANDS:
            return Refusal("unavailable", f"{command} is not offered; report mail to Gatepost itself")
        length = read_length(head.all("content-length"))
        if isinstance(length, Refusal):
            return length
        user, compression = head.first("user"), head.first("compress")
        if compression and compression != "zlib":
            return Refusal("unavailable", f"messages compressed by {compression} are not read")
        # Before version 1.3, an answer other than a message has no length; Exim, which speaks 1.2, would not read it.
        is_older = (int(found[2]), int(found[3])) < (1, 3) and command not in ("PROCESS", "HEADERS")
        return Asked(
            form=command,
            is_older=is_older,
            source="spamd",
            length=length,
            is_compressed=bool(compression),
            recipients=(user,) if "@" in user else (),
        )

    def refuse(self, refusal: Refusal, _asked: Asked | None = None) -> bytes:
        """Return the answer to a request without a verdict. It is one line: with the empty line behind it, spamc would
        take it for a result."""
        code, name = CODES[refusal.why]
        return f"SPAMD/1.5 {code} {name}: {escape_line(refusal.text)}\r\n".encode()

    def answer(self, answered: Answered) -> Iterator[bytes]:
        report = answered.result.report
        if report.decision == "undecided":
            yield self.refuse(Refusal("later", report.reason))
            return
        scores, form = read_scores(report), answered.asked.form
        body = answered.received.body
        content, rest = b"", body.size
        if form == "SYMBOLS":
            content = ",".join(each.name for each in scores.symbols).encode() + b"\r\n"
        elif form == "REPORT" or (form == "REPORT_IFSPAM" and scores.is_spam):
            content = _write_report(answered, scores)
        elif form in ("PROCESS", "HEADERS"):
            content, rest = _mark_header(answered, scores)
        size = len(content) + (body.size - rest if form == "PROCESS" else 0)
        length = "" if answered.asked.is_older else f"Content-length: {size}\r\n"
        spam = f"Spam: {scores.is_spam} ; {scores.score:.1f} / {REQUIRED:.1f}"
        yield f"SPAMD/1.1 0 EX_OK\r\n{length}{spam}\r\n\r\n".encode() + content
        if form == "PROCESS":
            yield from _bytes_from(body, rest)


def _write_report(answered: Answered, scores: Scores) -> bytes:
    report = answered.result.report
    lines = [
        f"Gatepost {answered.version} on {answered.hostname}: {report.verdict}, decision {report.decision}.",
        report.reason,
        f"Reference: {answered.result.ggrid}",
        "",
        f"Content analysis details:   ({scores.score:.1f} points, {REQUIRED:.1f} required)",
        "",
        " pts rule name              description",
        "---- ---------------------- --------------------------------------------------",
    ]
    lines += [f"{each.score:4.1f} {each.name:<22} {each.description}" for each in scores.symbols]
    return "\r\n".join(lines).encode() + b"\r\n"


def _mark_header(answered: Answered, scores: Scores) -> tuple[bytes, int]:
    """Return the header with fields that tell the result, and where the body begins. The line ends of the message are
    used: spamc hands on what a mail server keeps on disk, which often has LF alone."""
    start = answered.received.body.head(MAX_HEADER)
    is_lf = not start[: start.find(b"\n") + 1].endswith(b"\r\n")
    fields = _spam_fields(answered, scores) + b"".join(
        build_result_fields(answered.result.ggrid, answered.result.report, answered.hostname)
    )
    end = _HEADER_END.search(start)
    header = start[: end.end()] if end else start
    kept = _without_claims(header, answered.hostname)
    added = (fields.replace(b"\r\n", b"\n") if is_lf else fields) + STRAY * kept.startswith(BLANKS)
    return answered.received.mailbox_line + added + kept, len(header)


def _without_claims(header: bytes, hostname: str) -> bytes:
    numbers = count(1)

    def keep(found: re.Match[bytes]) -> bytes:
        name, raw = found[1].lower(), found[0].replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")
        results = next(numbers) if name == AUTHENTICATION else 0
        if not name.startswith(b"x-spam-") and not is_claim(name, raw, results, hostname):
            return found[0]
        return b"\n" if found.string[found.start() - 1] == 0x0D else b""

    return _TELLING.sub(keep, b"\n" + header)[1:]


def _bytes_from(body: SpooledBody, start: int) -> Iterator[bytes]:
    position = 0
    for piece in body.chunks(PIECE):
        if position + len(piece) > start:
            yield piece[max(0, start - position) :]
        position += len(piece)


def _spam_fields(answered: Answered, scores: Scores) -> bytes:
    """Return the fields that SpamAssassin would write, which rules of mail programs look at."""
    names = [each.name for each in scores.symbols] or ["none"]
    tests = [f"{'tests=' * (index == 0)}{name}{',' * (index < len(names) - 1)}" for index, name in enumerate(names)]
    result = ["Yes," if scores.is_spam else "No,", f"score={scores.score:.1f}", f"required={REQUIRED:.1f}"]
    version = f"Gatepost-{answered.version}"
    fields = [format_field("X-Spam-Checker-Version", [f"Gatepost {answered.version}", "on", answered.hostname])]
    if scores.is_spam:
        fields.append(format_field("X-Spam-Flag", ["YES"]))
    if scores.score >= 1:
        fields.append(format_field("X-Spam-Level", ["*" * min(int(scores.score), MAX_STARS)]))
    fields.append(format_field("X-Spam-Status", [*result, *tests, "autolearn=no", f"version={version}"]))
    return b"".join(fields)


Action = Literal["no action", "add header", "reject", "soft reject", "discard"]

V2, LEGACY = "/checkv2", "RSPAMC"
METHODS = frozenset({"CHECK", "SYMBOLS", "REPORT", "PROCESS", "REPORT_IFSPAM"})
# Statuses of HTTP, and the numbers that rspamd's first protocol has for faults.
STATUSES = {
    "malformed": HTTPStatus.BAD_REQUEST,
    "unavailable": HTTPStatus.NOT_FOUND,
    "too large": HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    "later": HTTPStatus.SERVICE_UNAVAILABLE,
}
MAX_HELO = 255

_HTTP = re.compile(r"([A-Z]{1,16}) (\S{1,1000}) HTTP/1\.[01]")
_LEGACY = re.compile(r"([A-Z_]{1,20}) RSPAMC/1\.\d")
# Names of the fields that Gatepost adds, which a mail server removes where they come from outside.
OWN_FIELDS = ("X-Gatepost-Id", "X-Gatepost-Verdict", "X-Gatepost-Decision", "X-Gatepost-Tags")


class Rspamd:
    """rspamd's side of the protocols; mail that would be held gets the action `held_as`."""

    name = "rspamd"

    def __init__(self, held_as: Literal["add header", "reject"] = "add header") -> None:
        self._held_as = held_as

    def read(self, head: Head) -> Asked | Refusal | bytes:
        """Return what a client asks for; the whole answer where it sends no message."""
        line = head.line.rstrip()
        if found := _LEGACY.fullmatch(line):
            if found[1] == "PING":
                return b"RSPAMD/1.3 0 PONG\r\n\r\n"
            form = LEGACY if found[1] in METHODS else ""
        elif found := _HTTP.fullmatch(line):
            path = found[2].partition("?")[0]
            if path == "/ping":
                return _http(HTTPStatus.OK, b"pong\r\n", "text/plain")
            form = V2 if path == V2 else ""
        else:
            return Refusal("malformed", "neither a request of HTTP/1.1 nor one of RSPAMC/1.3")
        if not form:
            return Refusal("unavailable", f"{found[2] if found.re is _HTTP else found[1]} is not offered by Gatepost")
        return _read_request(head, form)

    def refuse(self, refusal: Refusal, asked: Asked | None = None) -> bytes:
        """Return the answer to a request without a verdict."""
        if asked and asked.form == LEGACY:
            return f"RSPAMD/1.3 1 {escape_line(refusal.text)}\r\n\r\n".encode()
        body = msgspec.json.encode({"error": refusal.text})
        return _http(STATUSES[refusal.why], body, "application/json")

    def answer(self, answered: Answered) -> Iterator[bytes]:
        scores = read_scores(answered.result.report)
        action = self._choose_action(answered)
        form = answered.asked.form
        if form == LEGACY:
            yield _write_lines(answered, scores, action)
            return
        said = _describe(answered, scores, action)
        yield _http(HTTPStatus.OK, msgspec.json.encode(said), "application/json")

    def _choose_action(self, answered: Answered) -> Action:
        decisions: dict[str, Action] = {
            "deliver": "no action",
            "quarantine": self._held_as,
            "bounce": "reject",
            "drop": "discard",
            "undecided": "soft reject",
        }
        return decisions[answered.result.report.decision]


def _read_request(head: Head, form: str) -> Asked | Refusal:
    if head.first("file") or head.first("path"):
        return Refusal("unavailable", "File is not read: send the message itself")
    encodings = (head.first("compression"), head.first("content-encoding"), head.first("key"))
    if any(encodings):
        return Refusal("unavailable", "messages that are compressed or encrypted are not read: send them as they are")
    is_chunked = [each.lower() for each in head.all("transfer-encoding")] == ["chunked"]
    if head.first("transfer-encoding") and (not is_chunked or form == LEGACY or head.all("content-length")):
        # Both lengths at once, or codings inside of each other, are read in several ways (RFC 9112 section 6.3).
        return Refusal("malformed", "a Transfer-Encoding other than chunked, or one beside a Content-Length")
    length = read_length(head.all("content-length"))
    if isinstance(length, Refusal):
        return length
    if length is None and not is_chunked and form != LEGACY:
        return Refusal("malformed", "the message needs a Content-Length, or must come in chunks")
    is_known = bool(head.first("user"))
    sender = head.first("from")
    return Asked(
        form=form,
        source="rspamd",
        length=length,
        is_chunked=is_chunked,
        sender=sender if any(name == "from" for name, _ in head.fields) else None,
        recipients=tuple(head.all("rcpt")),
        address=None if is_known else parse_address(head.first("ip")),
        helo=None if is_known else head.first("helo")[:MAX_HELO] or None,
        queue_id=head.first("queue-id"),
        logged_in=is_known,
    )


def _describe(answered: Answered, scores: Scores, action: Action) -> dict[str, Any]:
    """Return the answer of `/checkv2`."""
    result, report = answered.result, answered.result.report
    symbols = {
        each.name: {
            "name": each.name,
            "score": each.score,
            "metric_score": each.score,
            "description": each.description,
            "options": each.options,
        }
        for each in scores.symbols
    }
    added = {}
    for field in build_result_fields(result.ggrid, report, answered.hostname):
        name, _, value = field.decode("ascii").partition(":")
        added[name] = {"value": " ".join(value.split()), "order": 0}
    said: dict[str, Any] = {
        "is_skipped": False,
        "is_spam": scores.is_spam,
        "score": scores.score,
        "required_score": REQUIRED,
        "action": action,
        "thresholds": {"add header" if action == "no action" else action: REQUIRED},
        "symbols": symbols,
        "messages": {},
        "message-id": report.message_id or "undef",
        "time_real": (result.completed - result.created) / 1_000,
        "milter": {"add_headers": added, "remove_headers": dict.fromkeys(OWN_FIELDS, 0)},
        "gatepost": {"id": result.ggrid, "verdict": report.verdict, "reason": report.reason, "tags": report.tags},
    }
    if action in ("reject", "soft reject"):
        said["messages"] = {"smtp_message": f"{report.verdict}, reference {result.ggrid}"}
    return said


def _write_lines(answered: Answered, scores: Scores, action: Action) -> bytes:
    """Return the answer to rspamc's first protocol; Exim keeps what follows the action as its report."""
    report = answered.result.report
    flag = "Skip" if report.decision == "undecided" else str(scores.is_spam)
    lines = [
        f"Metric: default; {flag}; {scores.score:.2f} / {REQUIRED:.2f} / 0.0",
        f"Action: {action}",
        *(f"Symbol: {each.name}({each.score:.2f})" for each in scores.symbols),
        f"Message-ID: {report.message_id or 'undef'}",
        f"Message: {report.verdict}: {report.reason}",
        f"Log-Tag: {answered.result.ggrid}",
    ]
    # Exim takes the answer apart from its first byte on: the metric and the action must be its next lines.
    return "\r\n".join(["RSPAMD/1.3 0 EX_OK", *map(escape_line, lines)]).encode() + b"\r\n"


def _http(status: HTTPStatus, body: bytes, kind: str) -> bytes:
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\nServer: Gatepost\r\nContent-Type: {kind}\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body
