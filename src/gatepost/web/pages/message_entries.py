"""Blocking or allowing what a message has: one page with the entry, its effect and the messages behind the numbers.

The comment names the message, and the entry ends after some months unless its user says otherwise: most of what is
blocked in a hurry is forgotten. Who is about to list a free-mail provider or an own domain is told, and has to confirm
it. `/lists/{scope}/{name}/hits` lists the messages that any entry would match.
"""

from datetime import timedelta

import msgspec
from starlette.responses import Response

from gatepost.api.errors import INVALID_REQUEST, Failure
from gatepost.api.lists import MAX_COMMENT, NewListEntry
from gatepost.checks.known_names import is_freemail
from gatepost.lists.catalogue import BY_NAME, ListDefinition
from gatepost.lists.entries import ListRefusal
from gatepost.rejudge.dry_run import MAX_HITS, FoundHits, new_entry
from gatepost.rejudge.replay import Change
from gatepost.store.entries import NewEntry
from gatepost.web.context import Scopes, WebContext, find_scopes
from gatepost.web.forms import Form, parse_expiry
from gatepost.web.list_access import explain_refusal, find_list
from gatepost.web.page_responses import html_response, redirect
from gatepost.web.pages.messages import MessageOnRecord, find_message
from gatepost.web.request import GLOBAL, SignedInRequest
from gatepost.web.routing import PageRoute, WebRoute
from gatepost.web.time_zones import local_time

LISTS = tuple(f"{verb}-{kind}" for verb in ("blocked", "allowed") for kind in ("senders", "ips", "urls", "files"))
END_DAYS = 90
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
    if form.entry is None or (_warn(form, scopes, await _own_domains(context, form)) and not request.form.has("sure")):
        return html_response(await _render(context, request, found, form, is_asked=True), 400)
    outcome = await context.store.add_entries(form.scope, form.definition, [form.entry], request.actor)
    if not isinstance(outcome, int):
        refused = msgspec.structs.replace(form, fault=explain_refusal(outcome))
        return html_response(await _render(context, request, found, refused), 409)
    return redirect(f"/messages/{found.record.ggrid}", notice="blocked" if form.is_block else "allowed")


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
    end = (local_time(context.now()) + timedelta(days=END_DAYS)).strftime("%Y-%m-%d")
    form = EntryForm(
        definition=BY_NAME[name],
        scope=scope,
        text=fields.text("entry", 1_000),
        comment=fields.text("comment", MAX_COMMENT) if "comment" in fields.fields else comment[:MAX_COMMENT],
        expires=fields.text("expires", 20) if "expires" in fields.fields else end,
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


async def _own_domains(context: WebContext, form: EntryForm) -> frozenset[str]:
    """Return those of the entry's domain and the domains above it that are on a list of own domains."""
    names = _names_above(form)
    found = set[str]()
    for scope in {None, form.scope}:
        found |= {entry.key for entry in await context.store.entries(scope, "own-domains", names)}
    return frozenset(found)


def _names_above(form: EntryForm) -> tuple[str, ...]:
    """Return the domain that an entry is about with all the domains above it; nothing for addresses and hashes."""
    key = form.entry.key if form.entry else ""
    if form.definition.name.endswith("-files") or "@" in key or not any(sign.isalpha() for sign in key):
        return ()
    labels = key.removeprefix("*.").partition("/")[0].split(".")
    return tuple(".".join(labels[cut:]) for cut in range(len(labels) - 1))


def _warn(form: EntryForm, scopes: Scopes, own: frozenset[str]) -> str:
    """Return why an entry needs a second look, as a sentence; "" for others."""
    names = _names_above(form)
    of_tenants = {domain for tenant in scopes.tenants for domain in tenant.domains}
    if ours := own | (of_tenants & set(names)):
        return f"{min(ours)} is one of your own domains."
    if names and is_freemail(names[0]):
        what = "This holds the mail of everybody there." if form.is_block else "Anybody can get an address there."
        return f"{names[0]} is a free-mail provider. {what}"
    return ""


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
        form=form,
        hits=hits,
        is_counted=form.change.countable,
        warning=_warn(form, scopes, await _own_domains(context, form)),
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
