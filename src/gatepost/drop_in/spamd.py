"""The protocol of SpamAssassin's spamd, as spamc, Exim, amavis and libraries speak it (`spamd/PROTOCOL`, version 1.5).

A client sends `CHECK SPAMC/1.5`, fields and a message, and gets `SPAMD/1.1 0 EX_OK` with `Spam: True ; 7.2 / 5.0`.
What else comes depends on the command: nothing (CHECK), the names of the findings (SYMBOLS), a report in words (REPORT,
REPORT_IFSPAM), the message with fields that tell the result (PROCESS), or its header alone (HEADERS). PING is answered
with PONG, SKIP not at all. TELL, which teaches, is refused: Gatepost learns from reports of its users.

`User` names the user whose mail it is; where that is an address, it is the recipient.
"""

import re
from collections.abc import Iterator

from gatepost.drop_in.requests import PIECE, Answered, Asked, Head, Refusal, read_length
from gatepost.drop_in.symbols import REQUIRED, Scores, read_scores
from gatepost.scanning.spool import SpooledBody
from gatepost.smtp.trace import MAX_HEADER, build_result_fields, format_field

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
# Fields of a message that claim to tell a result, ours or that of a filter before.
_CLAIM = re.compile(
    rb"(?<=\n)(?:x-spam-|x-gatepost-)[!-9;-~]*+[ \t]*+:[^\r\n]*+(?>\r?\n[ \t][^\r\n]*+)*+\r?\n", re.IGNORECASE
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
        length = read_length(head.first("content-length"))
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
        return f"SPAMD/1.5 {code} {name}: {refusal.text}\r\n".encode()

    def answer(self, answered: Answered) -> Iterator[bytes]:
        """Yield the answer in pieces."""
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
    kept = _CLAIM.sub(b"", b"\n" + header)[1:]
    added = fields.replace(b"\r\n", b"\n") if is_lf else fields
    return answered.received.mailbox_line + added + kept, len(header)


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
