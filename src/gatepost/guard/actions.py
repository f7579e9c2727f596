"""Which action follows a verdict over SMTP, decided before the message is put on record, so that the record says it.

guard decides this and no worker: a worker parses hostile bytes, and one that was taken over could send mail to a
stranger otherwise. For `strip` a worker only says where in the message the attachments lie.

A redirect or copy never follows another one. Mail to a mailbox that the actions of its policy name is not copied, and
is held instead of redirected; so mail that comes back through the gateway ends there.
"""

import base64
from collections.abc import Awaitable, Callable, Iterable

import msgspec

from gatepost.analysis.report import Line, Report
from gatepost.analysis.verdict import judge
from gatepost.findings.kinds import Finding
from gatepost.names import normal_address, normal_domain
from gatepost.policy.layers import Effective, Policies
from gatepost.policy.rules import DECISION_OF, RULE, WITH_MAILBOX, MessageAction, Policy, StrippedFile
from gatepost.process.logs import Logger
from gatepost.scanning.request import Cut, Edit, ScanRequest, order_edits
from gatepost.smtp.client import Tenancy

MAX_PARTS = 100
MAX_REASONS = 3

log = Logger("gatepost.guard")

# Has the places of these parts found in a sealed worker; none where the message cannot be read.
FindsParts = Callable[[tuple[str, ...]], Awaitable[tuple[Cut, ...]]]


class Planned(msgspec.Struct, frozen=True):
    """A report with the action that follows it, and what is to be changed of the message on its way."""

    report: Report
    edits: tuple[Edit, ...] = ()


class ActionPlanner:
    """Chooses actions by the policies in force. `tenancy` says whose domain a mailbox is in."""

    def __init__(self, policies: Callable[[], Policies], tenancy: Tenancy) -> None:
        self._policies, self._tenancy = policies, tenancy

    async def plan(self, request: ScanRequest, size: int, report: Report, find_parts: FindsParts) -> Planned:
        """Return the report on a message of so many bytes with its action, if there is one. Raises `StorageError`."""
        effective = self._policies().of(request.envelope.tenant, outbound=request.envelope.outbound)
        rule = effective.policy.verdicts[report.verdict]
        if not rule.action or request.unfit or report.decision != DECISION_OF[rule.action]:
            return Planned(report)
        if _is_stated_by_rule(report, effective.policy):
            return Planned(report)
        action = MessageAction(rule.action, "" if rule.action == "copy" else rule.mark)
        if rule.action in WITH_MAILBOX:
            return await self._plan_mailbox(request, report, effective, msgspec.structs.replace(action, to=rule.to))
        if rule.action == "strip":
            return await _plan_strip(request, size, report, effective.policy, action, find_parts)
        return Planned(_with(report, action))

    async def _plan_mailbox(
        self, request: ScanRequest, report: Report, effective: Effective, action: MessageAction
    ) -> Planned:
        """A tenant's own policy sends only to the tenant's own domains; the deployment's sends anywhere."""
        mailboxes = {normal_address(rule.to) for rule in effective.policy.verdicts.values() if rule.to}
        recipients = set(map(normal_address, request.envelope.recipients))
        if recipients <= mailboxes or (action.name == "copy" and normal_address(action.to) in recipients):
            return Planned(report)
        if effective.origins("verdicts", report.verdict, "to")[-1].level == "tenant":
            owner = await self._tenancy.tenant_of(normal_domain(action.to.rpartition("@")[2]))
            if owner is None or owner != request.envelope.tenant:
                return _fail(request, report, action, "the mailbox is not in a domain of the tenant")
        return Planned(_with(report, action))


def _with(report: Report, action: MessageAction) -> Report:
    return msgspec.structs.replace(report, action=action)


def _fail(request: ScanRequest, report: Report, action: MessageAction, reason: str) -> Planned:
    log.warning("action on a message not carried out", ggrid=request.ggrid, action=action.name, reason=reason)
    return Planned(_with(report, msgspec.structs.replace(action, failed=reason)))


def _is_stated_by_rule(report: Report, policy: Policy) -> bool:
    """Whether a rule of the operator states what is done with the message: that stands, and no action changes it."""
    names = (line.kind.removeprefix(RULE) for line in report.lines if line.kind.startswith(RULE))
    return any(name in policy.rules and policy.rules[name].decision == report.decision for name in names)


async def _plan_strip(
    request: ScanRequest, size: int, report: Report, policy: Policy, action: MessageAction, find_parts: FindsParts
) -> Planned:
    """Take the attachments out that findings name, if nothing that speaks against the message is left then; what was
    not read is never passed on."""
    if report.outcomes:
        return _fail(request, report, action, "the analysis did not run to its end")
    paths = {file.path for file in report.files}
    wanted = tuple(dict.fromkeys(line.where for line in report.lines if _counts(line) and line.where in paths))
    if not 0 < len(wanted) <= MAX_PARTS:
        return _fail(request, report, action, f"findings name {'too many files' if wanted else 'no file'}")
    cuts = await find_parts(wanted)
    cut_paths = [cut.path for cut in cuts if cut.path]
    if not cut_paths:
        return _fail(request, report, action, "its attachments cannot be taken out without doubt")
    if any(file.unread and not _is_within(file.path, cut_paths) for file in report.files):
        return _fail(request, report, action, "a file that stays could not be read")
    left = [line for line in report.lines if _counts(line) and not _is_within(line.where, cut_paths)]
    judged = judge((Finding(line.kind, line.where, line.facts, line.strength, line.about) for line in left), (), policy)
    if judged.decision != "deliver":
        return _fail(request, report, action, f"without its attachments it is still {judged.verdict}")
    files = {cut.path: _describe_cut(cut, report) for cut in cuts if cut.path}
    edits = order_edits(
        (Edit(cut.start, cut.end, _write_notice(files[cut.path], request.ggrid) if cut.path else b"") for cut in cuts),
        size,
    )
    if edits is None:
        return _fail(request, report, action, "its attachments cannot be taken out without doubt")
    return Planned(_with(report, msgspec.structs.replace(action, files=tuple(files.values()))), edits)


def _counts(line: Line) -> bool:
    """Whether a finding speaks against the message; one that an allow entry has cleared does not."""
    return (line.weight > 0 or line.conclusive) and not line.note.startswith("cleared by")


def _is_within(where: str, paths: Iterable[str]) -> bool:
    """Whether a place is one of these parts, or inside of one."""
    return any(where == path or where.startswith((f"{path}.", f"{path}/", f"{path}~")) for path in paths)


def _describe_cut(cut: Cut, report: Report) -> StrippedFile:
    inside = [file for file in report.files if _is_within(file.path, (cut.path,))]
    file = min(inside, key=lambda file: len(file.path), default=None)
    titles = dict.fromkeys(
        f"{line.title} ({line.kind})" for line in report.lines if _counts(line) and _is_within(line.where, (cut.path,))
    )
    return StrippedFile(
        cut.path,
        (file.names[0] if file and file.names else "attachment")[:255],
        file.size if file else cut.end - cut.start,
        file.sha256 if file else "",
        "; ".join(list(titles)[:MAX_REASONS]),
    )


def _write_notice(file: StrippedFile, ggrid: str) -> bytes:
    """Return the entity (RFC 2045) that stands in the place of an attachment; the line end behind a part belongs to the
    boundary (RFC 2046 section 5.1.1)."""
    text = "\r\n".join(
        (
            "An attachment of this message was removed by the mail gateway.",
            "",
            f"Name:    {_printable(file.name)}",
            f"Size:    {file.size:,} bytes",
            f"SHA-256: {file.sha256 or 'not known'}",
            f"Reason:  {_printable(file.reason)}",
            "",
            f"The original message is held under the reference {ggrid}. Your administrator can release it.",
            "Digital signatures of the sender do not match this message any more.",
            "",
        )
    )
    is_whole = file.path == "1"
    fields = (
        *((b"MIME-Version: 1.0",) if is_whole else ()),
        b"Content-Type: text/plain; charset=utf-8",
        b"Content-Disposition: inline",
        b"Content-Transfer-Encoding: base64",
    )
    lines = (*fields, b"", *base64.encodebytes(text.encode("utf-8", "replace")).split(), *((b"",) if is_whole else ()))
    return b"\r\n".join(lines)


def _printable(text: str) -> str:
    return "".join(char if char.isprintable() else "?" for char in text)
