"""Feeds: all of them with their last run, and a form for those that the web interface keeps.

Feeds concern the deployment: its administrators define them, and people of tenants see on the pages of lists which feed
fills what. Feeds of abby.yml are shown, run and tried here, and changed in the file; the file wins where both name one.
"""

import json
from typing import Any

import msgspec
from starlette.responses import Response

from gatepost.api.errors import INVALID_REQUEST, NOT_FOUND, Failure
from gatepost.api.http import end_with_client
from gatepost.settings.feeds import CREDENTIALS, MAX_FEEDS, MAX_URL, FeedFormat, WebFeed, WebSettingsError, build_feed
from gatepost.store.feeds import FeedDefinition
from gatepost.web.context import WebContext, find_scopes
from gatepost.web.forms import Form, whole_number
from gatepost.web.list_access import FeedInScope, find_all_feeds
from gatepost.web.page_responses import redirect, with_status
from gatepost.web.request import GLOBAL, SignedInRequest
from gatepost.web.routing import PageResult, PageRoute, WebRoute, about

MAX_NAME = 63
FORMATS: tuple[FeedFormat, ...] = ("plain", "csv", "jsonl")
NUMBERS = ("every", "max_loss", "keep_vanished", "look_back")
NO_FEED = Failure(NOT_FOUND, "there is no such feed here; feeds of abby.yml are changed in the file")
NOT_RUN = Failure(INVALID_REQUEST, "this feed is paused or read by hand; nothing was done")
LABELS = {
    "name": "The name",
    "list_name": "The list",
    "tenant": "The scope",
    "url": "The address",
    "format": "The format",
    "column": "The column",
    "delimiter": "The delimiter",
    "field": "The field",
    "every": "The interval",
    "max_loss": "The largest loss",
    "keep_vanished": "The days for which dropped entries count",
    "look_back": "The days to look back",
    "credentials_file": "The file with the credentials",
    "credentials_user": "The user",
    "credentials_header": "The header field",
}
REFUSALS = {
    "changed": "The feed was changed meanwhile, or the name is taken. Look at it, and try again.",
    "full": f"There are as many feeds here as there may be: {MAX_FEEDS}. Delete one first.",
}


class FeedForm(msgspec.Struct, frozen=True):
    """What was typed. `seen` is when the definition that the author has seen was changed; 0 for a new one."""

    name: str = ""
    feed: WebFeed = WebFeed()
    numbers: dict[str, str] = {}
    paused: bool = False
    seen: int = 0

    def number(self, name: str) -> str:
        """Return a number as it was typed."""
        return self.numbers.get(name) or str(getattr(self.feed, name))


async def _find_feed(context: WebContext, request: SignedInRequest) -> FeedInScope | Failure:
    name = request.form.text("name", MAX_NAME) or request.query.text("name", MAX_NAME)
    return next((feed for feed in await find_all_feeds(context) if feed.line.name == name), NO_FEED)


async def _find_definition(context: WebContext, request: SignedInRequest) -> FeedDefinition | Failure:
    found = await _find_feed(context, request)
    return found if isinstance(found, Failure) else found.line.definition or NO_FEED


for_feed, for_definition = about(_find_feed), about(_find_definition)


async def edit_feed(context: WebContext, request: SignedInRequest) -> PageResult:
    """Show the form of a feed: a new one, or one that there is."""
    form = FeedForm()
    if request.query.text("name"):
        found = await _find_definition(context, request)
        if isinstance(found, Failure):
            return found
        form = FeedForm(found.name, found.feed, paused=found.paused, seen=found.modified)
    return await _render_form(context, request, form)


async def save_feed(context: WebContext, request: SignedInRequest) -> PageResult:
    """Check and save a feed."""
    form = _read_form(request.form)
    mistakes = await _find_mistakes(context, request, form)
    if mistakes:
        return with_status(await _render_form(context, request, form, mistakes), 400)
    saved = await context.store.feeds.put_definition(form.name, form.feed, form.seen, request.actor, paused=form.paused)
    if isinstance(saved, str):
        return with_status(await _render_form(context, request, form, fault=REFUSALS[saved]), 409)
    return redirect("/feeds", notice="feed-saved")


@for_definition
async def pause_feed(context: WebContext, request: SignedInRequest, found: FeedDefinition) -> PageResult:
    """Pause a feed of the web interface, or resume it."""
    paused, seen = request.form.text("do") == "pause", whole_number(request.form.text("seen", 18), -1)
    done = await context.store.feeds.put_definition(found.name, found.feed, seen, request.actor, paused=paused)
    if isinstance(done, str):
        return redirect("/feeds", notice="feeds-changed")
    return redirect("/feeds", notice="feed-paused" if paused else "feed-resumed")


@for_definition
async def delete_feed(context: WebContext, request: SignedInRequest, found: FeedDefinition) -> PageResult:
    """Delete a feed of the web interface; its entries stay."""
    await context.store.feeds.delete_definition(found.name, request.actor)
    return redirect("/feeds", notice="feed-deleted")


@for_feed
async def run_feed(context: WebContext, request: SignedInRequest, found: FeedInScope) -> PageResult:
    """Make a feed due, so that a node runs it within seconds."""
    line = found.line
    if line.every is None:
        return NOT_RUN
    await context.store.feeds.request_run(line.name, line.scope, line.list_name, request.actor)
    return redirect("/feeds", notice="feed-requested")


@for_feed
async def try_feed(context: WebContext, request: SignedInRequest, found: FeedInScope) -> PageResult:
    """Read a feed without changing anything, and say what would change."""
    if context.installation.try_feed is None or (found.line.every is None and found.line.definition is None):
        return NOT_RUN
    trial = context.installation.try_feed(found.line.name)
    is_read, said = await end_with_client(request.http.receive, trial)
    outcome: dict[str, Any] = {"result": "failed", "message": said}
    if is_read:
        try:
            outcome = json.loads(said)
        except ValueError:
            outcome = {"result": "failed", "message": "what came of it could not be read"}
    return await show_feeds(context, request, tried=(found.line.name, outcome))


async def show_feeds(
    context: WebContext, request: SignedInRequest, tried: tuple[str, dict[str, Any]] | None = None
) -> Response:
    """List all feeds; `tried` is one that was read now, and what came of it."""
    return await context.page(
        request,
        "feeds.html",
        feeds=await find_all_feeds(context),
        scopes=await find_scopes(context, request),
        tried=tried,
        can_try=context.installation.try_feed is not None,
    )


async def _render_form(
    context: WebContext,
    request: SignedInRequest,
    form: FeedForm,
    mistakes: tuple[tuple[str, str], ...] = (),
    fault: str = "",
) -> Response:
    lists = [state.definition for state in await context.store.lists.all(form.feed.tenant)]
    return await context.page(
        request,
        "feed.html",
        form=form,
        feed=form.feed,
        scopes=await find_scopes(context, request),
        lists=sorted(lists, key=lambda each: each.name),
        formats=FORMATS,
        mistakes=[(LABELS.get(field, field), sentence) for field, sentence in mistakes],
        fault=fault,
        folder=CREDENTIALS,
        longest={"name": MAX_NAME, "url": MAX_URL},
    )


async def _find_mistakes(context: WebContext, request: SignedInRequest, form: FeedForm) -> tuple[tuple[str, str], ...]:
    feed = form.feed
    numbers = tuple(
        (name, "must be a whole number") for name, text in form.numbers.items() if whole_number(text, -1) < 0
    )
    try:
        if context.installation.data is None:
            return (("name", "cannot be checked by this process"),)
        build_feed(form.name, feed, context.installation.data)
    except WebSettingsError as fault:
        return (*numbers, *fault.mistakes)
    if numbers:
        return numbers
    if any(line.name == form.name for line in context.installation.feeds):
        return (("name", "is that of a feed in abby.yml, which wins; choose another name"),)
    scope = request.parse_scope(feed.tenant or GLOBAL)
    if isinstance(scope, Failure) or (scope and await context.store.tenants.find(scope) is None):
        return (("tenant", "is unknown"),)
    if await context.store.lists.definition(scope, feed.list_name) is None:
        return (("list_name", "does not exist in this scope; create it on the page Lists"),)
    return ()


def _read_form(form: Form) -> FeedForm:
    """Return the fields of a form that was sent; what is no number or no format is kept for the page to show."""
    numbers = {name: form.text(name, 12) for name in NUMBERS}
    named = form.text("scope", 60)
    chosen: Any = form.text("format", 20)
    feed = WebFeed(
        list_name=form.text("list_name", MAX_NAME + 1),
        tenant=None if named in ("", GLOBAL) else named,
        url=form.text("url", MAX_URL + 1),
        format=chosen if chosen in FORMATS else "plain",
        column=form.text("column", 200) or "1",
        delimiter=(form.raw_text("delimiter") or ",")[:2],
        header=form.has("header"),
        field=form.text("field", 200) or "entry",
        credentials_file=form.text("credentials_file", 101),
        credentials_user=form.text("credentials_user", 200),
        credentials_header=form.text("credentials_header", 101) or "Authorization",
        credentials_prefix=form.text("credentials_prefix", 100),
        **{name: whole_number(text) for name, text in numbers.items()},
    )
    return FeedForm(
        form.text("name", MAX_NAME + 1), feed, numbers, form.has("paused"), whole_number(form.text("seen", 18))
    )


PAGES: tuple[WebRoute, ...] = (
    PageRoute("GET", "/feeds", show_feeds, "feeds.read"),
    PageRoute("GET", "/feeds/edit", edit_feed, "feeds.change"),
    PageRoute("POST", "/feeds/edit", save_feed, "feeds.change"),
    PageRoute("POST", "/feeds/pause", pause_feed, "feeds.change"),
    PageRoute("POST", "/feeds/delete", delete_feed, "feeds.change"),
    PageRoute("POST", "/feeds/run", run_feed, "feeds.change"),
    PageRoute("POST", "/feeds/try", try_feed, "feeds.change", "dry run"),
)
