"""The protocols of rspamd, as rspamc, Haraka, Exim and libraries speak them.

Over HTTP, `POST /checkv2` brings the message as the body and the envelope in fields: `IP`, `Helo`, `From`, `Rcpt` (one
for each recipient), `User` (the client has authenticated itself), `Queue-Id`. The answer is JSON with the score, the
action and the symbols; `milter` names the header fields that a mail server should add and remove. The older path
`/check`, and the methods of rspamc's first protocol, which Exim speaks (`CHECK RSPAMC/1.3`, `variant=rspamd`), get the
same in other words. `GET /ping` answers `pong`.

What rspamd's controller does besides (learning, statistics, fuzzy hashes) is refused. So is `File`, a path that the
filter would read instead of the message: nobody who asks chooses files here.
"""

import re
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any, Literal

import msgspec

from gatepost.drop_in.requests import Answered, Asked, Head, Refusal, read_length
from gatepost.drop_in.symbols import REQUIRED, Scores, read_scores
from gatepost.smtp.client import parse_address
from gatepost.smtp.trace import build_result_fields

Action = Literal["no action", "add header", "reject", "soft reject", "discard"]

V2, V1, LEGACY = "/checkv2", "/check", "RSPAMC"
PATHS = {"/checkv2": V2, "/check": V1, "/symbols": V1}
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
            form = PATHS.get(path, "")
        else:
            return Refusal("malformed", "neither a request of HTTP/1.1 nor one of RSPAMC/1.3")
        if not form:
            return Refusal("unavailable", f"{found[2] if found.re is _HTTP else found[1]} is not offered by Gatepost")
        return _read_request(head, form)

    def refuse(self, refusal: Refusal, asked: Asked | None = None) -> bytes:
        """Return the answer to a request without a verdict."""
        if asked and asked.form == LEGACY:
            return f"RSPAMD/1.3 1 {refusal.text}\r\n\r\n".encode()
        body = msgspec.json.encode({"error": refusal.text})
        return _http(STATUSES[refusal.why], body, "application/json")

    def answer(self, answered: Answered) -> Iterator[bytes]:
        """Yield the answer in pieces."""
        scores = read_scores(answered.result.report)
        action = self._choose_action(answered)
        form = answered.asked.form
        if form == LEGACY:
            yield _write_lines(answered, scores, action)
            return
        said = _describe(answered, scores, action)
        if form == V1:
            # The first form of JSON has the result under the name of its metric, and its symbols beside its numbers.
            said = {"default": {**said, **said.pop("symbols")}, "message-id": said["message-id"]}
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
    length = read_length(head.first("content-length"))
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
    return "\r\n".join(["RSPAMD/1.3 0 EX_OK", *lines]).encode() + b"\r\n"


def _http(status: HTTPStatus, body: bytes, kind: str) -> bytes:
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\nServer: Gatepost\r\nContent-Type: {kind}\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body
