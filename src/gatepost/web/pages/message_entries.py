"""Entries of lists made from a message: the form with the entry's effect, and the messages that any entry would match.

Each sender, host and file leads to a page that blocks or allows it, with the entry, its effect and the messages behind
the numbers. The effect on the message itself is measured: an entry that does nothing looks like one that works, until
the next mail is held again. So the page says why it would do nothing, and offers what would have changed the decision.

The comment names the message, and the entry ends after some months unless its user says otherwise: most of what is
blocked in a hurry is forgotten. Who is about to list a free-mail provider or an own domain is told, and has to confirm
it. `/lists/{scope}/{name}/hits` lists the messages that any entry would match.
"""

from typing import Literal, TypeAlias

import msgspec
from starlette.responses import Response

from gatepost.analysis.report import Report
from gatepost.api.errors import INVALID_REQUEST, Failure
from gatepost.api.lists import MAX_COMMENT, NewListEntry
from gatepost.lists.catalogue import BY_NAME, ListDefinition
from gatepost.lists.entries import ListRefusal
from gatepost.rejudge.list_plan import new_entry
from gatepost.rejudge.try_change import (
    MAX_SHOWN,
    Change,
    ListEdit,
    Messages,
    Trial,
    TriedMessage,
    edit_list,
    try_change,
    try_on,
)
from gatepost.store.lists import NewEntry
from gatepost.store.message_records import MessageRecord
from gatepost.web.context import Scopes, WebContext, find_scopes
from gatepost.web.forms import Form, default_end, parse_expiry
from gatepost.web.list_access import ListInScope, explain_refusal, find_warnings, for_list
from gatepost.web.message_lines import DONE, entry_candidates, entry_form_path, strongest_lines
from gatepost.web.message_search import tail_of
from gatepost.web.page_responses import redirect, with_status
from gatepost.web.pages.messages import MessageOnRecord, for_message
from gatepost.web.request import GLOBAL, SignedInRequest
from gatepost.web.routing import PageResult, PageRoute, WebRoute

LISTS = tuple(f"{verb}-{kind}" for verb in ("blocked", "allowed") for kind in ("senders", "ips", "urls", "files"))
SHOWN = 20
# Entries that are offered: each is a judgement of the message.
MAX_OFFERS = 40
UNKNOWN_LIST = Failure(INVALID_REQUEST, "list: choose a list of blocked or allowed senders, hosts, links or files")


EffectKind: TypeAlias = Literal["changes", "already", "unproven", "idle"]


class Explained(msgspec.Struct, frozen=True):
    """What an entry would do to the message that it was made from: the kind of effect, the sentences, and what becomes
    of the message with the entry."""

    kind: EffectKind
    text: str
    done: str


class EntryForm(msgspec.Struct, frozen=True):
    """What the page is about: list, scope, the entry as it was typed and in normal form, and what is wrong with it."""

    definition: ListDefinition
    scope: str | None
    text: str
    comment: str
    expires: str
    entry: NewEntry | None = None
    fault: str = ""

    @property
    def is_block(self) -> bool:
        return self.definition.category == "block"

    @property
    def change(self) -> Change:
        """The change, for a dry run."""
        return edit_list(self.scope, self.definition, [self.entry.key] if self.entry else [])


@for_message
async def show_entry_form(context: WebContext, request: SignedInRequest, found: MessageOnRecord) -> PageResult:
    """Show the entry, with its effect; nothing is saved."""
    form = _read_form(context, request, found, request.query)
    return form if isinstance(form, Failure) else await _render(context, request, found, form)


@for_message
async def save_entry(context: WebContext, request: SignedInRequest, found: MessageOnRecord) -> PageResult:
    """Save the entry and lead back to the message; what needs a second look is shown once more instead."""
    form = _read_form(context, request, found, request.form)
    if isinstance(form, Failure):
        return form
    scopes = await find_scopes(context, request)
    is_sure = request.form.has("sure") or not await _find_warning(context, form, scopes)
    if form.entry is None or not is_sure:
        return with_status(await _render(context, request, found, form, is_asked=True), 400)
    effect = await _measure(context, found, form)
    outcome = await context.store.lists.add(form.scope, form.definition, [form.entry], request.actor)
    if not isinstance(outcome, int):
        refused = msgspec.structs.replace(form, fault=explain_refusal(outcome))
        return with_status(await _render(context, request, found, refused), 409)
    path = f"/messages/{found.record.ggrid}{tail_of(request)}"
    return redirect(path, effect.done, notice=f"entry-{effect.kind}")


def _read_form(
    context: WebContext, request: SignedInRequest, found: MessageOnRecord, fields: Form
) -> EntryForm | Failure:
    name = fields.text("list", 60)
    if name not in LISTS:
        return UNKNOWN_LIST
    own = request.user.tenant or found.record.envelope.tenant or GLOBAL
    scope = request.parse_scope(fields.text("scope", 60) or own)
    if isinstance(scope, Failure):
        return scope
    record = found.record
    comment = f"from message {record.ggrid}, {record.report.verdict}, {request.user.name}"
    form = EntryForm(
        definition=BY_NAME[name],
        scope=scope,
        text=fields.text("entry", 1_000),
        comment=fields.text("comment", MAX_COMMENT) if "comment" in fields.fields else comment[:MAX_COMMENT],
        expires=fields.text("expires", 20) if "expires" in fields.fields else default_end(context.now()),
    )
    expires = parse_expiry(form.expires, context.now())
    if isinstance(expires, Failure):
        return msgspec.structs.replace(form, fault=f"Last day: {expires.message}.")
    made = new_entry(NewListEntry(form.text, form.comment), form.definition)
    if isinstance(made, ListRefusal):
        return msgspec.structs.replace(form, fault=f"The entry {made.reason}.")
    return msgspec.structs.replace(form, entry=msgspec.structs.replace(made, expires=expires))


async def _find_warning(context: WebContext, form: EntryForm, scopes: Scopes) -> str:
    if form.entry is None:
        return ""
    key = form.entry.key
    return (await find_warnings(context, scopes, form.scope, form.definition, (key,))).get(key, "")


async def _render(
    context: WebContext, request: SignedInRequest, found: MessageOnRecord, form: EntryForm, *, is_asked: bool = False
) -> Response:
    scopes = await find_scopes(context, request)
    hits = await context.dry_runs.run(form.scope, form.change, shown=SHOWN) if form.entry else Trial()
    effect = await _measure(context, found, form) if form.entry else None
    is_idle = effect is not None and effect.kind in ("idle", "unproven")
    return await context.page(
        request,
        "message-entry.html",
        record=found.record,
        report=found.record.report,
        place=tail_of(request),
        form=form,
        hits=hits,
        effect=effect,
        offers=await find_offers(context, found.record, form, tail_of(request)) if is_idle else (),
        deciding=strongest_lines(found.record.report) if is_idle else (),
        is_counted=form.definition.is_countable,
        warning=await _find_warning(context, form, scopes),
        is_asked=is_asked,
        scopes=scopes,
        shown=SHOWN,
    )


def _choose_words(
    effect: TriedMessage, definition: ListDefinition, report: Report, done: str
) -> tuple[EffectKind, str]:
    is_block = definition.category == "block"
    if effect.flips:
        before = DONE.get(effect.before.decision, "held")
        return "changes", f"With this entry, this message would have been {done} instead of {before}."
    if not effect.entries:
        return "idle", f"It would not have changed this message: {_explain_mismatch(definition, report)}."
    if effect.refusal and definition.needs_proof and not report.authentication.aligned:
        why = "an allowed sender counts only if it is proven to be the sender, and this one is not"
        return "unproven", (
            f"It would not have changed this message: {why} ({_describe_proof(report)}). "
            f"The message would still be {done}."
        )
    if effect.refusal:
        return "idle", f"It would not have changed this message, which would still be {done}: {effect.refusal}."
    if is_block == (effect.now.decision != "deliver"):
        return "already", f"This message would be {done} without the entry as well; the entry counts for mail to come."
    milder = "" if is_block else f" Entries that allow do not lift the verdict {effect.now.verdict} here."
    still = f"It would not have changed this message, which would still be {done}"
    return "idle", f"{still}: {effect.now.reason.rstrip('.')}.{milder}"


def _explain_mismatch(definition: ListDefinition, report: Report) -> str:
    if definition.name == "allowed-senders" and report.senders:
        return f"allowed senders are compared with the sender that readers see, {report.senders[0]}"
    return "nothing in it matches the entry"


def _describe_proof(report: Report) -> str:
    """The results of SPF, DKIM and DMARC, as the page of the message has them."""
    proof = report.authentication
    signed = next((each.result for each in proof.dkim if each.result == "pass"), "")
    dkim = signed or next((each.result for each in proof.dkim), "none")
    aligned = ", of another domain" if "pass" in (proof.spf.result, dkim) else ""
    return f"SPF {proof.spf.result}, DKIM {dkim}{aligned}, DMARC {proof.dmarc.result}"


class Offer(msgspec.Struct, frozen=True):
    """Another entry that would have changed the decision on the message; `path` is its form."""

    what: str
    entry: str
    path: str


async def find_offers(context: WebContext, record: MessageRecord, form: EntryForm, place: str) -> tuple[Offer, ...]:
    """Return the entries that can be made from a message, of the same sort as one that was tried, and that would change
    the decision on it by themselves."""
    offers, edits = list[Offer](), list[ListEdit]()
    tried = form.definition.name, form.entry.key if form.entry else ""
    for what, entry, lists in dict.fromkeys(entry_candidates(record.report)):
        definition = BY_NAME[lists[0] if form.is_block else lists[1]]
        made = new_entry(NewListEntry(entry), definition)
        if isinstance(made, ListRefusal) or (definition.name, made.key) == tried:
            continue
        offers.append(Offer(what, entry, entry_form_path(record.ggrid, definition.name, entry, place)))
        edits += edit_list(form.scope, definition, [made.key]).lists
    change, named = Change(tuple(edits[:MAX_OFFERS])), Messages(records=(record,))
    flips = (await try_change(context.store, context.policies, change, named)).entry_flips
    places = ((edit.definition.name, edit.scope, edit.keys[0]) for edit in change.lists)
    return tuple(offer for offer, place in zip(offers, places, strict=False) if flips.get(place))


async def _measure(context: WebContext, found: MessageOnRecord, form: EntryForm) -> Explained:
    """Return what the entry would do to the message that it is made from."""
    if form.scope and form.scope != found.record.envelope.tenant:
        done = DONE.get(found.record.report.decision, "held")
        return Explained("idle", "It would not have changed this message, which is not of that tenant.", done)
    effect = await try_on(context.store, context.policies, form.change, found.record)
    done = DONE.get(effect.now.decision, "held")
    kind, text = _choose_words(effect, form.definition, found.record.report, done)
    return Explained(kind, text, done)


@for_list
async def show_hits(context: WebContext, request: SignedInRequest, scoped_list: ListInScope) -> PageResult:
    """List the messages among the last ones that an entry would match."""
    made = new_entry(NewListEntry(request.query.text("entry", 1_000)), scoped_list.definition)
    if isinstance(made, ListRefusal):
        return Failure(INVALID_REQUEST, f"the entry {made.reason}")
    change = edit_list(scoped_list.scope, scoped_list.definition, [made.key])
    return await context.page(
        request,
        "lists-hits.html",
        scoped_list=scoped_list,
        entry=made,
        hits=await context.dry_runs.run(scoped_list.scope, change, shown=MAX_SHOWN),
    )


PAGES: tuple[WebRoute, ...] = (
    PageRoute("GET", "/messages/{ggrid}/entry", show_entry_form, "lists.change", "dry run"),
    PageRoute("POST", "/messages/{ggrid}/entry", save_entry, "lists.change", "dry run"),
    PageRoute("GET", "/lists/{scope}/{name}/hits", show_hits, "messages.read", "dry run"),
)
