"""The audit trail: who did what and when, in all, of one list, and one record with all its values. It is only read."""

import re
from collections.abc import Sequence
from functools import partial

import msgspec

from gatepost.api.errors import Failure
from gatepost.ids import canonical
from gatepost.store.audit import AuditFilter, AuditRecord
from gatepost.times import date_time
from gatepost.web.context import WebContext, find_scopes
from gatepost.web.forms import parse_period, whole_number
from gatepost.web.list_access import ListInScope, for_list, set_action
from gatepost.web.pages.searches import EXPORT_PAGE, Export, export_search
from gatepost.web.request import GLOBAL, NOT_VISIBLE, SignedInRequest
from gatepost.web.routing import PageResult, PageRoute, WebRoute, about

ROWS_ON_A_PAGE = 100
# Calls of one step follow each other closely, and all but the last are as large as a call can be, but for lines of a
# file that are none or repeated.
STEP_MILLISECONDS, STEP_ENTRIES = 10_000, 100
MAX_UNDO_SHOWN = 10
# Groups of actions, as the filter offers them.
ACTION_GROUPS = {
    "entries.": "entries of lists",
    "list.": "lists",
    "quarantine.": "held mail: releases, deletions, readings, exports",
    "message.": "messages: reports, trials, notes, removals from mailboxes",
    "messages.": "searches that were exported",
    "user.": "users and sign-ins",
    "session.": "sessions",
    "apikey.": "API keys",
    "tenant.": "tenants",
    "feed.": "feeds",
    "model.": "learnt models",
    "policy.": "trials of the policy",
    "config.": "published configuration",
    "node.": "nodes",
    "system.": "health checks",
    "privacy.": "exports and erasures of a person",
    "audit.": "exports of this trail",
}
LIST_ACTIONS = {
    "entries.add": "added or changed",
    "entries.delete": "deleted",
    "entries.expire": "expired",
    "entries.vanish": "vanished from the feed, expire later",
    "feed.run": "read the feed",
    "feed.refused": "refused the feed",
    "feed.failed": "could not read the feed",
    "entries.normalise": "stored in today's normal form",
    "list.create": "created the list",
    "list.delete": "deleted the list",
}


# Actions on many messages, which have a record for each.
MANY_RECORDS = frozenset(
    {
        "quarantine.delete",
        "quarantine.restore",
        "quarantine.release",
        "message.reported",
        "message.reportTakenBack",
        "message.removed",
        "message.putBack",
    }
)
# What was done, as the middle of a sentence: who, this, and what it was done to.
SENTENCES = {
    "entries.add": "added or changed entries of",
    "entries.delete": "deleted entries of",
    "entries.expire": "let entries expire in",
    "entries.vanish": "found that entries vanished from the feed of",
    "entries.normalise": "brought entries to today's normal form in",
    "list.create": "created the list",
    "list.delete": "deleted the list",
    "list.export": "exported the list",
    "quarantine.view": "read the held message",
    "quarantine.export": "exported held mail",
    "quarantine.release": "released",
    "quarantine.releaseFailed": "could not release",
    "quarantine.releaseRequested": "asked for the release of",
    "quarantine.delete": "deleted from the quarantine",
    "quarantine.restore": "restored to the quarantine",
    "message.removed": "took out of mailboxes",
    "message.putBack": "put back into mailboxes",
    "message.reported": "reported the decision on",
    "message.reportTakenBack": "took back a report of the decision on",
    "message.trial": "scanned as a trial",
    "message.note": "wrote a note on",
    "message.noteTakenBack": "took back a note on messages",
    "messages.export": "exported a search of messages",
    "user.signIn": "signed in",
    "user.signInFailed": "failed to sign in",
    "user.lockedOut": "was locked out after failed attempts",
    "user.create": "created the user",
    "user.change": "changed the user",
    "user.delete": "deleted the user",
    "user.disable": "disabled the user",
    "user.enable": "enabled the user",
    "user.password": "set the password of",
    "user.totp": "changed the authenticator app of",
    "user.key": "changed the security keys of",
    "user.keyRefused": "used a security key that was refused",
    "user.recoveryCode": "used a recovery code",
    "user.recoveryCodes": "made recovery codes",
    "session.end": "ended sessions",
    "apikey.create": "created the API key",
    "apikey.revoke": "revoked the API key",
    "tenant.create": "created the tenant",
    "tenant.delete": "deleted the tenant",
    "tenant.domains": "changed the domains of the tenant",
    "tenant.retention": "changed the retention of the tenant",
    "feed.create": "created the feed",
    "feed.change": "changed the feed",
    "feed.delete": "deleted the feed",
    "feed.requested": "asked for a run of the feed",
    "feed.run": "read the feed of",
    "feed.refused": "refused the feed of",
    "feed.failed": "could not read the feed of",
    "rule.create": "created the rule",
    "rule.change": "changed the rule",
    "rule.delete": "deleted the rule",
    "alert.create": "created the alert",
    "alert.reached": "saw the threshold reached of the alert",
    "alert.change": "changed the alert",
    "alert.delete": "deleted the alert",
    "config.draft": "saved a draft of the configuration",
    "config.discard": "discarded the draft of the configuration",
    "config.publish": "published the configuration",
    "config.rollback": "rolled the configuration back",
    "config.takeOver": "took the configuration over",
    "config.fail": "could not take the configuration over",
    "node.forget": "removed the node",
    "node.restartAll": "asked all nodes to restart",
    "model.taken": "took a learnt model into use",
    "model.refused": "refused a learnt model",
    "model.rolledBack": "withdrew a learnt model",
    "digest.settings": "changed the preferences of digests",
    "digest.rotateKey": "changed the key of links in digests",
    "recipientEntries.allow": "allowed a sender for their own mail:",
    "recipientEntries.block": "blocked a sender for their own mail:",
    "recipientEntries.delete": "removed senders for their own mail:",
    "lookBack.found": "found delivered mail that entries would have held, of",
    "secrets.rotate": "encrypted the stored secrets with a new key",
    "policy.trial": "tried a change of the policy",
    "system.examine": "ran the health check",
    "system.testEvent": "sent a test event",
    "checklist.dismiss": "dismissed an item of the first steps",
    "audit.export": "exported the audit trail",
}


class AuditLine(msgspec.Struct, frozen=True):
    """One step of somebody, as a line: its newest record, all records that it has, and what they count together."""

    record: AuditRecord
    parts: tuple[AuditRecord, ...]
    count: int

    @property
    def said(self) -> str:
        """What was done, in words; the code of an action without words."""
        return SENTENCES.get(self.record.action, self.record.action)


def join_steps(records: Sequence[AuditRecord]) -> list[AuditLine]:
    """Join records that follow each other closely, of one actor, action and list: one step took several calls."""
    lines: list[AuditLine] = []
    for record in records:
        last = lines[-1] if lines else None
        if last and _is_same_step(last.parts[-1], record):
            lines[-1] = AuditLine(last.record, (*last.parts, record), last.count + record.count)
        else:
            lines.append(AuditLine(record, (record,), record.count))
    return lines


def _is_same_step(newer: AuditRecord, older: AuditRecord) -> bool:
    same = (newer.actor, newer.action, newer.scope, newer.list) == (older.actor, older.action, older.scope, older.list)
    is_close = newer.time - older.time <= STEP_MILLISECONDS
    if newer.action in MANY_RECORDS:
        return same and is_close
    return same and is_close and older.count >= STEP_ENTRIES and newer.action.startswith("entries.")


async def _parse_filter(context: WebContext, request: SignedInRequest) -> AuditFilter | Failure:
    query, scope = request.query, request.parse_tenant("scope")
    if isinstance(scope, Failure):
        return scope
    when = parse_period(query, context.now())
    if isinstance(when, Failure):
        return when
    return AuditFilter(
        scope="" if query.text("scope") == GLOBAL else scope,
        since=when.since,
        until=when.until,
        actor=query.text("actor", 200) or None,
        action=query.text("action", 100) or None,
        list=query.text("list", 200) or None,
    )


for_filter = about(_parse_filter)


@for_filter
async def show_audit_trail(context: WebContext, request: SignedInRequest, wanted: AuditFilter) -> PageResult:
    """List what was done, newest first."""
    query = request.query
    page = await context.store.audit.page(wanted, query.text("before", 200) or None, ROWS_ON_A_PAGE)
    return await context.page(
        request,
        "audit.html",
        page=page,
        lines=join_steps(page.rows),
        query=query,
        scopes=await find_scopes(context, request),
        groups=ACTION_GROUPS,
        link_of=link_of,
        shorten_ids=shorten_ids,
        subjects=await _find_subjects(context, request, page.rows),
    )


async def _find_subjects(
    context: WebContext, request: SignedInRequest, records: Sequence[AuditRecord]
) -> dict[str, str]:
    """Return the subjects of the messages that records are about, by their ids: ids of one minute begin alike."""
    if not request.may("messages.read"):
        return {}
    named = (text for record in records for text in record.sample[:3] if link_of(text, record.action))
    lines = await context.store.messages.lines(tuple(named))
    return {line.ggrid: line.subject or "(no subject)" for line in lines if request.user.tenant in (None, line.tenant)}


def link_of(text: str, action: str) -> str:
    """Return the path of what a record is about, "" for what has no page: messages are named by their ids."""
    if not action.startswith(("quarantine.", "message.")):
        return ""
    ggrid = canonical(text)
    return f"/messages/{ggrid}" if ggrid else ""


_ID = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}([0-9a-f]{8})\b")


def shorten_ids(text: str) -> str:
    """Return a text with its ids cut to their ends, by which they differ; the page of the record has them whole."""
    return _ID.sub(r"…\1", text)


async def show_record(context: WebContext, request: SignedInRequest) -> PageResult:
    number = whole_number(request.path_part("number"), -1)
    found = await context.store.audit.changes(number) if number >= 0 else None
    if found is None or (request.user.tenant and found[0].scope != request.user.tenant):
        return NOT_VISIBLE
    return await context.page(
        request,
        "audit-record.html",
        record=found[0],
        said=SENTENCES.get(found[0].action, found[0].action),
        changes=found[1],
        scopes=await find_scopes(context, request),
        link_of=link_of,
    )


@for_filter
async def export_audit_trail(context: WebContext, request: SignedInRequest, wanted: AuditFilter) -> PageResult:
    """Send the records that match as CSV or JSON; that is on record itself."""
    search = partial(context.store.audit.page, wanted, limit=EXPORT_PAGE)
    return await export_search(context, request, TRAIL, request.user.tenant, search)


def _values(row: AuditRecord) -> tuple[object, ...]:
    actor = (row.actor.kind, row.actor.name, row.actor.id)
    return (row.id, date_time(row.time), *actor, row.action, row.scope or "", row.list, row.count, row.sample)


COLUMNS = ("id", "time", "actorKind", "actor", "actorId", "action", "tenantUid", "list", "count", "sample")
TRAIL = Export("audit", "audit.export", COLUMNS, _values)


@for_list
async def show_list_history(context: WebContext, request: SignedInRequest, scoped_list: ListInScope) -> PageResult:
    """List the changes of one list, newest first."""
    wanted = AuditFilter(scope=scoped_list.scope or "", list=scoped_list.definition.name)
    before = request.query.text("before", 200) or None
    page = await context.store.audit.page(wanted, before, ROWS_ON_A_PAGE)
    sets = await context.store.bulk_actions.not_begun(request.user.uid, set_action(scoped_list), MAX_UNDO_SHOWN)
    return await context.page(
        request,
        "lists-history.html",
        scoped_list=scoped_list,
        page=page,
        lines=join_steps(page.rows),
        actions=LIST_ACTIONS,
        sets=[(uid, action.rpartition(":")[2], created) for uid, action, created in sets]
        if request.may("lists.change")
        else (),
    )


PAGES: tuple[WebRoute, ...] = (
    PageRoute("GET", "/lists/{scope}/{name}/history", show_list_history, "lists.read", "search"),
    PageRoute("GET", "/audit", show_audit_trail, "audit.read", "search"),
    PageRoute("GET", "/audit/export", export_audit_trail, "audit.read", "search"),
    PageRoute("GET", "/audit/{number}", show_record, "audit.read"),
)
