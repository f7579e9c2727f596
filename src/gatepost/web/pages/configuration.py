"""The configuration of the deployment: a draft, tried on stored mail, compared, published for all nodes, taken back.

Every page of settings saves into the one draft, and has a bar that says how much it changes. What is published is what
the page of the draft has shown: publishing names the revision of the draft and the version that it was compared with,
and is refused if either has changed since.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

import msgspec
from starlette.responses import Response

from gatepost.api.errors import NOT_FOUND, Failure
from gatepost.api.http import end_with_client
from gatepost.policy.condition_process import condition_work
from gatepost.policy.layers import OUTBOUND
from gatepost.policy.rules import PolicyError
from gatepost.rejudge.dry_run import PolicyTrial, try_policy
from gatepost.rejudge.policies_in_force import with_stored_rules
from gatepost.settings.faults import ConfigError, Fault
from gatepost.store.publishing import ConfigDraft, DraftContent, Version, VersionContent, digest_content
from gatepost.web.configuration import (
    DEPLOYMENT,
    EDITABLE,
    GROUPS,
    HELPS,
    ITEMS,
    LABELS,
    MAX_POLICY,
    MAX_VALUE,
    Difference,
    ItemList,
    PageName,
    Publisher,
    apply_draft,
    build_policies,
    compare,
    count_changes,
    find_field,
    has_place,
    list_groups,
    list_items,
    list_policies,
    look_up,
    render_value,
)
from gatepost.web.context import WebContext
from gatepost.web.forms import Form, whole_number
from gatepost.web.page_responses import redirect, with_status
from gatepost.web.request import SignedInRequest
from gatepost.web.routing import PageResult, PageRoute, WebRoute, about
from gatepost.web.setting_controls import (
    Describing,
    default_of,
    describe_value,
    find_shape,
    is_about,
    is_locked,
    list_section,
    read_section,
    read_value,
)

MAX_MESSAGES = 1_000
MAX_FLIPS_SHOWN = 200
MAX_DIFFERENCES = 500
VERSIONS = 50
MAX_REASON = 200
NOT_HERE = Failure(NOT_FOUND, "this process has no configuration files, so it cannot publish")
NO_VERSION = Failure(NOT_FOUND, "there is no such version")
NO_ITEM = Failure(NOT_FOUND, "there is no such entry in the draft; it may have been removed")
NO_REASON = "say in a few words why; the history shows it"
# The pages of the configuration, as their links name them.
TABS = (
    ("/configuration", "Settings"),
    ("/configuration/routes", "Routes"),
    ("/configuration/recipients", "Recipients"),
    ("/configuration/flow", "Flow control"),
    ("/configuration/policies", "Policy texts"),
    ("/configuration/draft", "Draft"),
    ("/configuration/versions", "Versions"),
)
_PATHS: Mapping[str, str] = {
    "settings": "/configuration",
    **{name: f"/configuration/{name}" for name in ("routes", "recipients", "flow", "policies")},
}


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
    """Return what is running now."""
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


def _replace_settings(state: DraftState, values: Mapping[str, Any]) -> DraftContent:
    """Return the draft with these values, by file and key, None for the default; what is as it runs is no change."""
    settings = dict(state.typed.settings)
    for name, value in values.items():
        file, _, key = name.partition(" ")
        default = default_of(find_field(file, key))
        before = look_up(state.running.content.documents[file], key)
        if (default if value is None else value) == (default if before is None else before):
            settings.pop(name, None)
        else:
            settings[name] = ("" if value is None else render_value(value))[:MAX_VALUE]
    return DraftContent(settings, state.typed.policies)


def _read_settings(state: DraftState, form: Form, page: str) -> dict[str, Any]:
    """Return the values that the form of a page has, by file and key. What the page did not show is not in it."""
    values: dict[str, Any] = {}
    shown = set(form.all("shown"))
    for file, key, _ in (row for group in GROUPS if group.page == page for row in group.keys):
        name = f"{file} {key}"
        if (name not in form.fields and name not in shown) or not has_place(state.running.content, file, key):
            continue
        document, (above, _, last) = state.content.documents[file], key.rpartition(".")
        section = look_up(document, above) if above else None
        if isinstance(section, dict) and is_locked(section, last):
            continue
        field = find_field(file, key)
        value = read_value(find_shape(field), form, name, look_up(document, key), default_of(field))
        values[name] = None if form.text("reset") == name else value
    return values


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
    path = _PATHS.get(form.text("page", 20), "/configuration")
    search = quote(form.text("q", 100))
    return redirect(f"{path}?q={search}" if search else path, notice=notice)


async def _save(context: WebContext, request: SignedInRequest, publisher: Publisher) -> str:
    state, form = await find_draft(context, publisher, checks=False), request.form
    wanted = _replace_settings(state, _read_settings(state, form, form.text("page", 20) or "settings"))
    wanted = DraftContent(wanted.settings, _read_policies(state, form))
    return await put_draft(context, request, state, wanted)


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
    trial = await end_with_client(request.http.receive, _try(context, content))
    return await show_draft(context, request, publisher, trial=trial)


async def _try(context: WebContext, content: VersionContent) -> PolicyTrial:
    with condition_work():
        try:
            files = await context.read_policy(build_policies, content)
        except PolicyError as fault:
            return PolicyTrial(mistakes=tuple(str(fault).splitlines()[:50]))
        other = await with_stored_rules(files, context.store.own_rules)
        return await try_policy(context.store, context.policies, other, None, MAX_MESSAGES)


async def discard_draft(context: WebContext, request: SignedInRequest) -> PageResult:
    """Delete the draft."""
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
    digest = digest_content(state.content)
    if not await context.store.publishing.publish_over(running.number, state.content, digest, reason, request.actor):
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
        request,
        "rollback.html",
        version=version.info,
        running=running,
        differences=differences[:MAX_DIFFERENCES],
    )


@for_version
async def roll_back(context: WebContext, request: SignedInRequest, found: tuple[Publisher, Version]) -> PageResult:
    """Publish the content of an earlier version again."""
    version = found[1]
    number, running = version.info.number, whole_number(request.form.text("running"))
    reason = request.form.text("reason", MAX_REASON) or f"back to version {number}"
    published = await context.store.publishing.publish_over(
        running, version.content, version.info.digest, reason, request.actor, number
    )
    return redirect("/configuration/versions", notice="rolled-back" if published else "draft-changed")


async def _describe(context: WebContext, state: DraftState) -> Describing:
    names = {tenant.uid: tenant.name for tenant in await context.store.tenants.all()}
    return Describing(state.faults, LABELS, HELPS, names)


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


def show_settings(page: PageName) -> Any:
    """Return the page function of a page of settings."""

    async def show(context: WebContext, request: SignedInRequest, publisher: Publisher) -> PageResult:
        return await _show_page(context, request, publisher, page)

    return for_publisher(show)


async def _show_page(
    context: WebContext,
    request: SignedInRequest,
    publisher: Publisher,
    page: PageName,
    tried: Sequence[object] | None = None,
) -> Response:
    state = await find_draft(context, publisher)
    said = await _describe(context, state)
    search = request.query.text("q", 100)
    groups = list_groups(page, state.running.content, state.typed, said, search)
    items = ITEMS.get(page)
    stray = [each for each in state.faults if not _has_control(each)]
    return await _render(
        context,
        request,
        "configuration.html",
        state,
        page=page,
        path=_PATHS[page],
        groups=groups,
        items=items,
        rows=_describe_items(items, state, said) if items else (),
        search=search,
        stray=[*map(str, (*state.running.faults, *stray))][:50],
        tried=tried,
        own_limits=len(look_up(state.content.documents.get("guard.yml", {}), "flowControl.tenants") or ()),
    )


def _has_control(fault: Fault) -> bool:
    """Does a page have a control beside which this fault stands?"""
    return any(is_about(fault, file, key) for file, keys in EDITABLE.items() for key in keys)


# What comes first in the form of a route or a rule: whom it is for, then what it does.
_FIRST = ("domains", "tenants", "nextHop")


class ItemRow(msgspec.Struct, frozen=True):
    """A route or a rule in the table of its page."""

    index: int
    who: tuple[str, ...]
    what: str
    how: str
    is_changed: bool
    faults: tuple[str, ...]


def _describe_items(items: ItemList, state: DraftState, said: Describing) -> list[ItemRow]:
    before = list_items(items, state.running.content)
    rows = []
    for index, item in enumerate(list_items(items, state.content)):
        fields = {str(field.alias): field for field in items.section.model_fields.values()}
        who = [str(each) for each in item.get("domains") or ()]
        who += [said.tenants.get(str(uid), str(uid)) for uid in item.get("tenants") or ()]
        if items.page == "routes":
            what = describe_value(find_shape(fields["nextHop"]), item.get("nextHop"))
            how = f"TLS {item.get('tls', 'opportunistic')}{', with credentials' if item.get('auth') else ''}"
        else:
            names = {"recipientList": "the list known-recipients", "ldap": "LDAP", "callOut": "a mail server"}
            what = ", ".join(name for key, name in names.items() if item.get(key) not in (None, False)) or "nothing"
            how = "451 where no source answers" if item.get("onFailure") != "accept" else "accept where none answers"
        at = f"{items.key}[{index}]"
        faults = tuple(each.sentence for each in state.faults if is_about(each, items.file, at))
        rows.append(ItemRow(index, tuple(who), what, how, item not in before, faults))
    return rows


def _find_items(page: str) -> Any:
    items = ITEMS[page]

    async def find(context: WebContext, request: SignedInRequest) -> tuple[ItemList, DraftState, int | None] | Failure:
        publisher = context.installation.publisher
        if publisher is None:
            return NOT_HERE
        state, part = await find_draft(context, publisher), request.path_part("item")
        if part == "new":
            return items, state, None
        index = whole_number(part, -1)
        return (items, state, index) if 0 <= index < len(list_items(items, state.content)) else NO_ITEM

    return about(find)


async def show_item(
    context: WebContext, request: SignedInRequest, found: tuple[ItemList, DraftState, int | None]
) -> PageResult:
    """Show the form of one route or rule."""
    items, state, index = found
    said = await _describe(context, state)
    known = list_items(items, state.content)
    item = known[index] if index is not None else {}
    at = f"{items.key}[{'new' if index is None else index}]"
    controls = list(list_section(items.file, items.key, items.section, item, item, said, at))
    order = {name: place for place, name in enumerate(_FIRST)}
    controls.sort(key=lambda control: order.get(control.key.rpartition(".")[2], len(order)))
    shown = [f"{at}.{control.key.rpartition('.')[2]}" for control in controls]
    wrong = [each for each in state.faults if is_about(each, items.file, at)]
    stray = [each.sentence for each in wrong if not any(is_about(each, items.file, key) for key in shown)]
    return await _render(
        context,
        request,
        "configuration-item.html",
        state,
        items=items,
        path=_PATHS[items.page],
        index=index,
        count=len(known),
        controls=controls,
        stray=stray,
        has_credentials=bool({"auth", "user"} & set(item)) or "user" in (item.get("ldap") or {}),
    )


async def change_item(
    context: WebContext, request: SignedInRequest, found: tuple[ItemList, DraftState, int | None]
) -> PageResult:
    """Save a route or a rule into the draft, move it, or take it out."""
    items, state, index = found
    known, form, path = list_items(items, state.content), request.form, _PATHS[items.page]
    do, name = form.text("do", 10) or "save", f"{items.file} {items.key}"
    place = index
    if do == "remove" and index is not None:
        known.pop(index)
    elif do in ("up", "down") and index is not None:
        place = max(0, min(len(known) - 1, index + (1 if do == "down" else -1)))
        known.insert(place, known.pop(index))
    else:
        stated = read_section(items.section, form, name, known[index] if index is not None else {})
        if index is None:
            place = len(known)
            known.append(stated)
        else:
            known[index] = stated
    notice = await put_draft(context, request, state, _replace_settings(state, {name: known or None}))
    stays = do == "save" and form.text("then", 10) == "stay"
    return redirect(f"{path}/{place}" if stays and place is not None else path, notice=notice)


@for_publisher
async def try_connections(context: WebContext, request: SignedInRequest, publisher: Publisher) -> PageResult:
    """Ask the next hops of the draft, or its sources of recipients, whether they answer. Nothing is sent."""
    page: PageName = "recipients" if request.form.text("page", 20) == "recipients" else "routes"
    await context.store.audit.note("system.examine", request.actor, None, sample=[f"connections of {page}"])
    state = await find_draft(context, publisher)
    rows: Sequence[object] = ()
    if state.is_right:
        rows = await asyncio.to_thread(publisher.try_connections, state.content, page)
    return await _show_page(context, request, publisher, page, rows if state.is_right else None)


async def show_draft(
    context: WebContext,
    request: SignedInRequest,
    publisher: Publisher,
    *,
    fault: str = "",
    trial: PolicyTrial | None = None,
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
        shown_flips=MAX_FLIPS_SHOWN,
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
        path="/configuration/policies",
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
        nodes=[node for node in nodes if node.health(moment) != "silent"],
    )


def read_text(text: str) -> str:
    """Return a text as files have it: browsers end lines with CR and LF."""
    return text.replace("\r\n", "\n")[:MAX_POLICY]


_routes, _rules = _find_items("routes"), _find_items("recipients")

PAGES: tuple[WebRoute, ...] = (
    PageRoute("GET", "/configuration", show_settings("settings"), "system.read"),
    PageRoute("POST", "/configuration", save_draft, "system.change", has_long_text=True),
    PageRoute("POST", "/configuration/try", try_draft, "system.change", "policy trial", has_long_text=True),
    PageRoute("POST", "/configuration/connections", try_connections, "system.change", "policy trial"),
    PageRoute("POST", "/configuration/discard", discard_draft, "system.change"),
    PageRoute("POST", "/configuration/publish", publish_draft, "system.change"),
    PageRoute("GET", "/configuration/routes", show_settings("routes"), "system.read"),
    PageRoute("GET", "/configuration/routes/{item}", _routes(show_item), "system.read"),
    PageRoute("POST", "/configuration/routes/{item}", _routes(change_item), "system.change", has_long_text=True),
    PageRoute("GET", "/configuration/recipients", show_settings("recipients"), "system.read"),
    PageRoute("GET", "/configuration/recipients/{item}", _rules(show_item), "system.read"),
    PageRoute("POST", "/configuration/recipients/{item}", _rules(change_item), "system.change", has_long_text=True),
    PageRoute("GET", "/configuration/flow", show_settings("flow"), "system.read"),
    PageRoute("GET", "/configuration/policies", for_publisher(show_policies), "system.read"),
    PageRoute("GET", "/configuration/draft", for_publisher(show_draft), "system.read"),
    PageRoute("GET", "/configuration/versions", for_publisher(show_versions), "system.read"),
    PageRoute("GET", "/configuration/versions/{published}", show_rollback, "system.read"),
    PageRoute("POST", "/configuration/versions/{published}/roll-back", roll_back, "system.change"),
)
