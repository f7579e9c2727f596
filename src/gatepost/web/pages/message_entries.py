"""Blocking or allowing what a message has: one page with the entry, its effect and the messages behind the numbers.

The comment names the message, and the entry ends after some months unless its user says otherwise: most of what is
blocked in a hurry is forgotten. Who is about to list a free-mail provider or an own domain is told, and has to confirm
it. `/lists/{scope}/{name}/hits` lists the messages that any entry would match.
"""

import msgspec
from starlette.responses import Response

from gatepost.api.errors import INVALID_REQUEST, Failure
from gatepost.api.lists import MAX_COMMENT, NewListEntry
from gatepost.lists.catalogue import BY_NAME, ListDefinition
from gatepost.lists.entries import ListRefusal
from gatepost.rejudge.dry_run import MAX_HITS, FoundHits, new_entry
from gatepost.rejudge.replay import Change
from gatepost.store.lists import NewEntry
from gatepost.web.context import Scopes, WebContext, find_scopes
from gatepost.web.forms import Form, default_end, parse_expiry
from gatepost.web.held_places import tail_of
from gatepost.web.list_access import explain_refusal, find_list, find_warnings
from gatepost.web.page_responses import html_response, redirect
from gatepost.web.pages.messages import MessageOnRecord, find_message
from gatepost.web.request import GLOBAL, SignedInRequest
from gatepost.web.routing import PageRoute, WebRoute

LISTS = tuple(f"{verb}-{kind}" for verb in ("blocked", "allowed") for kind in ("senders", "ips", "urls", "files"))
SHOWN = 20
UNKNOWN_LIST = Failure(INVALID_REQUEST, "list: choose a list of blocked or allowed senders, hosts, links or files")


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
        keys = (self.entry.key,) if self.entry else ()
        return Change(self.definition, "tenant" if self.scope else "global", keys, adding=True)


async def show_entry_form(context: WebContext, request: SignedInRequest) -> Response | Failure:
    """Show the entry, with its effect; nothing is saved."""
    found = await find_message(context, request)
    if isinstance(found, Failure):
        return found
    form = _read_form(context, request, found, request.query)
    return form if isinstance(form, Failure) else html_response(await _render(context, request, found, form))


async def save_entry(context: WebContext, request: SignedInRequest) -> Response | Failure:
    """Save the entry and lead back to the message; what needs a second look is shown once more instead."""
    found = await find_message(context, request)
    if isinstance(found, Failure):
        return found
    form = _read_form(context, request, found, request.form)
    if isinstance(form, Failure):
        return form
    scopes = await find_scopes(context, request)
    is_sure = request.form.has("sure") or not await _find_warning(context, form, scopes)
    if form.entry is None or not is_sure:
        return html_response(await _render(context, request, found, form, is_asked=True), 400)
    outcome = await context.store.lists.add(form.scope, form.definition, [form.entry], request.actor)
    if not isinstance(outcome, int):
        refused = msgspec.structs.replace(form, fault=explain_refusal(outcome))
        return html_response(await _render(context, request, found, refused), 409)
    return redirect(
        f"/messages/{found.record.ggrid}{tail_of(request)}", notice="blocked" if form.is_block else "allowed"
    )


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
    return _normalise(context, form)


def _normalise(context: WebContext, form: EntryForm) -> EntryForm:
    """Return the form with its entry in normal form, or with what is wrong."""
    expires = parse_expiry(form.expires, context.now())
    if isinstance(expires, Failure):
        return msgspec.structs.replace(form, fault=f"Last day: {expires.message}.")
    made = new_entry(NewListEntry(form.text, form.comment), form.definition)
    if isinstance(made, ListRefusal):
        return msgspec.structs.replace(form, fault=f"The entry {made.reason}.")
    return msgspec.structs.replace(form, entry=msgspec.structs.replace(made, expires=expires))


async def _find_warning(context: WebContext, form: EntryForm, scopes: Scopes) -> str:
    keys = form.change.keys
    return (await find_warnings(context, scopes, form.scope, form.definition, keys)).get(keys[0], "") if keys else ""


async def _render(
    context: WebContext, request: SignedInRequest, found: MessageOnRecord, form: EntryForm, *, is_asked: bool = False
) -> str:
    scopes = await find_scopes(context, request)
    hits = await context.dry_runs.find_hits(form.scope, form.change) if form.entry else FoundHits(0, 0, 0)
    return await context.renderer.render_in_turns(
        "message-entry.html",
        request,
        here="/messages",
        record=found.record,
        report=found.record.report,
        place=tail_of(request),
        form=form,
        hits=hits,
        is_counted=form.change.countable,
        warning=await _find_warning(context, form, scopes),
        is_asked=is_asked,
        scopes=scopes,
        shown=SHOWN,
    )


async def show_hits(context: WebContext, request: SignedInRequest) -> Response | Failure:
    """List the messages among the last ones that an entry would match."""
    scoped_list = await find_list(context, request)
    if isinstance(scoped_list, Failure):
        return scoped_list
    made = new_entry(NewListEntry(request.query.text("entry", 1_000)), scoped_list.definition)
    if isinstance(made, ListRefusal):
        return Failure(INVALID_REQUEST, f"the entry {made.reason}")
    change = Change(scoped_list.definition, "tenant" if scoped_list.scope else "global", (made.key,), adding=True)
    page = await context.renderer.render_in_turns(
        "lists-hits.html",
        request,
        here="/lists",
        scoped_list=scoped_list,
        entry=made,
        hits=await context.dry_runs.find_hits(scoped_list.scope, change),
        most=MAX_HITS,
    )
    return html_response(page)


PAGES: tuple[WebRoute, ...] = (
    PageRoute("GET", "/messages/{ggrid}/entry", show_entry_form, "lists.change", "dry run"),
    PageRoute("POST", "/messages/{ggrid}/entry", save_entry, "lists.change", "dry run"),
    PageRoute("GET", "/lists/{scope}/{name}/hits", show_hits, "messages.read", "dry run"),
)
