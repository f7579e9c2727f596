"""The configuration of the deployment: a draft, tried on stored mail, compared, published for all nodes, taken back.

Every page of settings saves into the one draft, and has a bar that says how much it changes. What is published is what
the page of the draft has shown: publishing names the revision of the draft and the version that it was compared with,
and is refused if either has changed since.
"""

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any
from urllib.parse import quote

import msgspec
from starlette.responses import Response

from gatepost.api.errors import NOT_FOUND, Failure
from gatepost.policy.layers import OUTBOUND, Policies
from gatepost.rejudge.policies_in_force import with_stored_rules
from gatepost.rejudge.try_change import Messages, Trial
from gatepost.settings.faults import ConfigError, Fault
from gatepost.store.publishing import ConfigDraft, DraftContent, Version, VersionContent
from gatepost.web.configuration import (
    DEPLOYMENT,
    MAX_POLICY,
    MAX_VALUE,
    Difference,
    Publisher,
    apply_draft,
    build_policies,
    compare,
    count_changes,
    list_groups,
    list_policies,
    list_settings,
    render_value,
)
from gatepost.web.context import WebContext
from gatepost.web.forms import Form, whole_number
from gatepost.web.page_responses import redirect, with_status
from gatepost.web.request import SignedInRequest
from gatepost.web.routing import PageResult, PageRoute, WebRoute, about
from gatepost.web.setting_controls import Describing, default_of, find_shape, is_about, is_locked, is_same, read_value

MAX_MESSAGES = 1_000
MAX_DIFFERENCES = 500
VERSIONS = 50
MAX_REASON = 200
NOT_HERE = Failure(NOT_FOUND, "this process has no configuration files, so it cannot publish")
NO_VERSION = Failure(NOT_FOUND, "there is no such version")
NO_REASON = "say in a few words why; the history shows it"
# The pages of settings, as their links name them.
SETTINGS: Mapping[str, tuple[str, str]] = {
    "settings": ("/configuration", "Settings"),
    "routes": ("/configuration/routes", "Routes"),
    "recipients": ("/configuration/recipients", "Recipients"),
    "limits": ("/configuration/limits", "Limits"),
}
POLICIES = "/configuration/policies"
TABS = (
    *SETTINGS.values(),
    (POLICIES, "Policy texts"),
    ("/configuration/draft", "Draft"),
    ("/configuration/versions", "Versions"),
)


class Running(msgspec.Struct, frozen=True):
    """The version that all nodes shall run, 0 for the files of each. Faults are what keeps those from being
    published."""

    number: int
    content: VersionContent
    faults: tuple[Fault, ...] = ()


class DraftState(msgspec.Struct, frozen=True):
    """The draft over what is running: what it makes of it, what is wrong, and how many things it changes."""

    running: Running
    draft: ConfigDraft | None
    content: VersionContent
    faults: tuple[Fault, ...] = ()
    changes: int = 0

    @property
    def typed(self) -> DraftContent:
        return self.draft.content if self.draft else DraftContent()

    @property
    def revision(self) -> int:
        return self.draft.revision if self.draft else 0

    @property
    def is_right(self) -> bool:
        return not (self.faults or self.running.faults)


async def _find_publisher(context: WebContext, _request: SignedInRequest) -> Publisher | Failure:
    return context.installation.publisher or NOT_HERE


for_publisher = about(_find_publisher)


async def find_running(context: WebContext, publisher: Publisher) -> Running:
    rollout = await context.store.publishing.rollout()
    version = await context.store.publishing.find(rollout.wanted) if rollout.wanted else None
    if version:
        return Running(rollout.wanted, version.content)
    try:
        return Running(0, await asyncio.to_thread(publisher.own_content))
    except ConfigError as fault:
        return Running(0, VersionContent({}, {}), fault.faults)


async def find_draft(context: WebContext, publisher: Publisher, *, checks: bool = True) -> DraftState:
    """Return the draft over what is running; without `checks`, only whether its values can be read is known."""
    running, draft = await find_running(context, publisher), await context.store.publishing.draft()
    typed = draft.content if draft else DraftContent()
    content, faults = apply_draft(running.content, typed)
    if draft and checks and not running.faults:
        faults += await asyncio.to_thread(publisher.find_faults, content)
    return DraftState(running, draft, content, tuple(faults), count_changes(running.content, typed))


async def put_draft(context: WebContext, request: SignedInRequest, state: DraftState, wanted: DraftContent) -> str:
    """Store a draft that was made from the one that a form was shown with; return the name of the notice. A draft that
    changes nothing is none. What was sent twice is saved once."""
    revision = whole_number(request.form.text("revision"))
    if state.draft and wanted == state.typed:
        return "draft-saved"
    if state.revision != revision:
        return "draft-changed"
    store = context.store.publishing
    if not (wanted.settings or wanted.policies):
        if not state.draft:
            return "draft-same"
        return "draft-empty" if await store.discard_draft(revision, request.actor) else "draft-changed"
    saved = await store.put_draft(wanted, state.running.number, revision, request.actor)
    return "draft-saved" if saved else "draft-changed"


def _read_settings(state: DraftState, form: Form, page: str) -> dict[str, str]:
    """Return the settings of a draft with those that the form of a page has. What the page did not show stays, and what
    is as it runs is no change."""
    settings, shown, running = dict(state.typed.settings), form.all("shown"), state.running.content
    for name, each in list_settings(running).items():
        beside = each.find_section(state.content)
        is_shown = each.form.page == page and (name in form.fields or name in shown)
        if not is_shown or is_locked(beside, str(each.field.alias)):
            continue
        shape, default, before = find_shape(each.field), default_of(each.field), each.find_value(running)
        value = read_value(shape, form, name, each.find_value(state.content), default)
        if form.text("reset") == name:
            value = None
        if is_same(shape, default if value is None else value, default if before is None else before):
            settings.pop(name, None)
        else:
            settings[name] = ("" if value is None else render_value(value))[:MAX_VALUE]
    return settings


def _read_policies(state: DraftState, form: Form) -> dict[str, str]:
    """Return the policies of a draft with those that a form has."""
    policies = dict(state.typed.policies)
    for uid, text in list_policies(state.running.content, DraftContent()).items():
        if f"policy {uid}" in form.fields:
            typed = read_text(form.raw_text(f"policy {uid}"))
            if typed == read_text(text):
                policies.pop(uid, None)
            else:
                policies[uid] = typed
    return policies


@for_publisher
async def save_draft(context: WebContext, request: SignedInRequest, publisher: Publisher) -> PageResult:
    """Save what was typed on a page, right or wrong; only publishing needs it to be right."""
    notice, form = await _save(context, request, publisher), request.form
    if notice != "draft-changed" and form.has("then"):
        return redirect("/configuration/draft")
    page, search = form.text("page", 20), quote(form.text("q", 100))
    path = POLICIES if page == "policies" else SETTINGS.get(page, SETTINGS["settings"])[0]
    return redirect(f"{path}?q={search}" if search else path, notice=notice)


async def _save(context: WebContext, request: SignedInRequest, publisher: Publisher) -> str:
    state, form = await find_draft(context, publisher, checks=False), request.form
    settings = _read_settings(state, form, form.text("page", 20) or "settings")
    return await put_draft(context, request, state, DraftContent(settings, _read_policies(state, form)))


@for_publisher
async def try_draft(context: WebContext, request: SignedInRequest, publisher: Publisher) -> PageResult:
    """Judge the last messages again with the policies of the draft; what was typed on the page is saved before. Nothing
    else is changed."""
    if request.form.has("page") and await _save(context, request, publisher) == "draft-changed":
        return redirect("/configuration/draft", notice="draft-changed")
    draft = await context.store.publishing.draft()
    if draft is None:
        return redirect("/configuration")
    await context.store.audit.note("policy.trial", request.actor, None, sample=[f"draft, revision {draft.revision}"])
    running = await find_running(context, publisher)
    content, _ = apply_draft(running.content, draft.content)

    async def read() -> Policies:
        return await with_stored_rules(await context.read_policy(build_policies, content), context.store.own_rules)

    trial = await context.try_policies(request, read, Messages(last=MAX_MESSAGES))
    return await show_draft(context, request, publisher, trial=trial)


async def discard_draft(context: WebContext, request: SignedInRequest) -> PageResult:
    revision = whole_number(request.form.text("revision"))
    discarded = await context.store.publishing.discard_draft(revision, request.actor)
    return redirect("/configuration", notice="draft-discarded" if discarded else "draft-changed")


@for_publisher
async def publish_draft(context: WebContext, request: SignedInRequest, publisher: Publisher) -> PageResult:
    """Publish the draft as the next version, if it is right and still what was shown."""
    state = await find_draft(context, publisher)
    running, draft = state.running, state.draft
    shown = (whole_number(request.form.text("revision")), whole_number(request.form.text("running")))
    if draft is None or (draft.revision, running.number) != shown:
        return redirect("/configuration/draft", notice="draft-changed")
    reason = request.form.text("reason", MAX_REASON)
    if not reason:
        return await show_draft(context, request, publisher, fault=NO_REASON)
    if not state.is_right:
        return await show_draft(context, request, publisher, fault="the draft has faults, which are named below")
    if not await context.store.publishing.publish(running.number, state.content, reason, request.actor):
        return redirect("/configuration/draft", notice="draft-changed")
    await context.store.publishing.discard_draft(draft.revision, request.actor)
    return redirect("/configuration/versions", notice="published")


async def _find_version(context: WebContext, request: SignedInRequest) -> tuple[Publisher, Version] | Failure:
    publisher, number = context.installation.publisher, whole_number(request.path_part("published"))
    version = await context.store.publishing.find(number) if number else None
    return (publisher, version) if publisher and version else NO_VERSION


for_version = about(_find_version)


@for_version
async def show_rollback(context: WebContext, request: SignedInRequest, found: tuple[Publisher, Version]) -> PageResult:
    """Show what going back to a version would change."""
    publisher, version = found
    running = await find_running(context, publisher)
    differences = await asyncio.to_thread(compare, running.content, version.content)
    return await context.page(
        request, "rollback.html", version=version.info, running=running, differences=differences[:MAX_DIFFERENCES]
    )


@for_version
async def roll_back(context: WebContext, request: SignedInRequest, found: tuple[Publisher, Version]) -> PageResult:
    """Publish the content of an earlier version again."""
    version = found[1]
    number, running = version.info.number, whole_number(request.form.text("running"))
    reason = request.form.text("reason", MAX_REASON) or f"back to version {number}"
    published = await context.store.publishing.publish(running, version.content, reason, request.actor, number)
    return redirect("/configuration/versions", notice="rolled-back" if published else "draft-changed")


async def _render(
    context: WebContext, request: SignedInRequest, template: str, state: DraftState, **values: Any
) -> Response:
    """Return a page of the configuration: what all of them show, and the values of this one."""
    rollout = await context.store.publishing.rollout()
    return await context.page(
        request,
        template,
        tabs=TABS,
        state=state,
        draft=state.draft,
        running=state.running,
        rollout=rollout,
        readonly=not request.may("system.change"),
        now=context.now(),
        last=MAX_MESSAGES,
        **values,
    )


async def show_settings(
    context: WebContext,
    request: SignedInRequest,
    publisher: Publisher,
    page: str,
    tried: Sequence[object] | None = None,
) -> Response:
    """Show a page of settings, and with what was `tried` whether next hops answer."""
    state = await find_draft(context, publisher)
    names = {tenant.uid: tenant.name for tenant in await context.store.tenants.all()}
    search, running = request.query.text("q", 100), state.running.content
    settings = list_settings(running).values()
    # Faults that stand beside no control.
    stray = [each for each in state.faults if not any(is_about(each, one.file, one.key) for one in settings)]
    return await _render(
        context,
        request,
        "configuration.html",
        state,
        page=page,
        path=SETTINGS[page][0],
        title=SETTINGS[page][1],
        groups=list_groups(page, running, state.typed, Describing(state.faults, names), search),
        search=search,
        stray=[*map(str, (*state.running.faults, *stray))][:50],
        tried=tried,
    )


@for_publisher
async def try_connections(context: WebContext, request: SignedInRequest, publisher: Publisher) -> PageResult:
    """Ask the next hops of the draft whether they answer. Nothing is sent."""
    await context.store.audit.note("system.examine", request.actor, None, sample=["connections of routes"])
    state = await find_draft(context, publisher)
    rows: Sequence[object] = ()
    if state.is_right:
        rows = await asyncio.to_thread(publisher.try_connections, state.content)
    return await show_settings(context, request, publisher, "routes", rows if state.is_right else None)


async def show_draft(
    context: WebContext, request: SignedInRequest, publisher: Publisher, *, fault: str = "", trial: Trial | None = None
) -> Response:
    """Show what the draft changes, what a trial of it found, and the form to publish it."""
    state = await find_draft(context, publisher)
    differences: Sequence[Difference] = ()
    if state.draft and not state.running.faults:
        differences = await asyncio.to_thread(compare, state.running.content, state.content)
    page = await _render(
        context,
        request,
        "configuration-draft.html",
        state,
        path="/configuration/draft",
        faults=[str(each) for each in (*state.running.faults, *state.faults)][:50],
        differences=differences[:MAX_DIFFERENCES],
        fault=fault,
        trial=trial,
    )
    return with_status(page, 400 if fault or (trial and trial.mistakes) else 200)


async def show_policies(context: WebContext, request: SignedInRequest, publisher: Publisher) -> Response:
    """Show the texts of all policies, to be changed as a whole."""
    state = await find_draft(context, publisher)
    policies = list_policies(state.running.content, state.typed)
    names = {tenant.uid: tenant.name for tenant in await context.store.tenants.all()}
    names |= {DEPLOYMENT: "All tenants", OUTBOUND: "Outbound mail"}
    return await _render(
        context,
        request,
        "configuration-policies.html",
        state,
        path=POLICIES,
        policies=policies,
        policy_names={uid: names.get(uid, uid) for uid in policies},
        stray=[*map(str, (*state.running.faults, *state.faults))][:50],
    )


async def show_versions(context: WebContext, request: SignedInRequest, publisher: Publisher) -> Response:
    """Show every version, with a button to go back to each earlier one."""
    state, moment = await find_draft(context, publisher, checks=False), context.now()
    nodes = await context.store.publishing.nodes()
    return await _render(
        context,
        request,
        "configuration-versions.html",
        state,
        path="/configuration/versions",
        versions=await context.store.publishing.history(VERSIONS),
        nodes=[node for node in nodes if node.state(moment) != "silent"],
    )


def read_text(text: str) -> str:
    """Return a text as files have it: browsers end lines with CR and LF."""
    return text.replace("\r\n", "\n")[:MAX_POLICY]


PAGES: tuple[WebRoute, ...] = (
    *(
        PageRoute("GET", path, for_publisher(partial(show_settings, page=page)), "system.read")
        for page, (path, _) in SETTINGS.items()
    ),
    PageRoute("POST", "/configuration", save_draft, "system.change", has_long_text=True),
    PageRoute("POST", "/configuration/try", try_draft, "system.change", "policy trial", has_long_text=True),
    PageRoute("POST", "/configuration/connections", try_connections, "system.change", "policy trial"),
    PageRoute("POST", "/configuration/discard", discard_draft, "system.change"),
    PageRoute("POST", "/configuration/publish", publish_draft, "system.change"),
    PageRoute("GET", POLICIES, for_publisher(show_policies), "system.read"),
    PageRoute("GET", "/configuration/draft", for_publisher(show_draft), "system.read"),
    PageRoute("GET", "/configuration/versions", for_publisher(show_versions), "system.read"),
    PageRoute("GET", "/configuration/versions/{published}", show_rollback, "system.read"),
    PageRoute("POST", "/configuration/versions/{published}/roll-back", roll_back, "system.change"),
)
