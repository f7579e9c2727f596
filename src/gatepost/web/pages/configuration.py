"""The configuration of the deployment: a draft, tried on stored mail, compared, published for all nodes, taken back.

What is published is what the page has shown: publishing names the revision of the draft and the version that it was
compared with, and is refused if either has changed since.
"""

import asyncio
from collections.abc import Sequence

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
from gatepost.store.publishing import DraftContent, Version, VersionContent, digest_content
from gatepost.web.configuration import (
    DEPLOYMENT,
    MAX_POLICY,
    MAX_VALUE,
    Difference,
    Publisher,
    apply_draft,
    build_policies,
    compare,
    list_policies,
    list_settings,
)
from gatepost.web.context import WebContext
from gatepost.web.forms import whole_number
from gatepost.web.page_responses import redirect, with_status
from gatepost.web.request import SignedInRequest
from gatepost.web.routing import PageResult, PageRoute, WebRoute, about

MAX_MESSAGES = 1_000
MAX_FLIPS_SHOWN = 200
MAX_DIFFERENCES = 500
VERSIONS = 50
MAX_REASON = 200
NOT_HERE = Failure(NOT_FOUND, "this process has no configuration files, so it cannot publish")
NO_VERSION = Failure(NOT_FOUND, "there is no such version")
NO_REASON = "say in a few words why; the history shows it"


class Running(msgspec.Struct, frozen=True):
    """The version that all nodes shall run, 0 for the files of each. Faults are what keeps those from being
    published."""

    number: int
    content: VersionContent
    faults: tuple[Fault, ...] = ()


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


@for_publisher
async def save_draft(context: WebContext, request: SignedInRequest, publisher: Publisher) -> PageResult:
    """Save what was typed, right or wrong; only publishing needs it to be right."""
    running, form = await find_running(context, publisher), request.form
    known = {row.name: row.running for row in list_settings(running.content, DraftContent(), ())}
    settings = {
        name: form.text(name, MAX_VALUE)
        for name, value in known.items()
        if name in form.fields and form.text(name, MAX_VALUE) != value
    }
    policies = {
        uid: typed
        for uid, text in list_policies(running.content, DraftContent()).items()
        if f"policy {uid}" in form.fields and (typed := _read_text(form.raw_text(f"policy {uid}"))) != _read_text(text)
    }
    draft, revision = DraftContent(settings, policies), whole_number(form.text("revision"))
    saved = await context.store.publishing.put_draft(draft, running.number, revision, request.actor)
    return redirect("/configuration", notice="draft-saved" if saved else "draft-changed")


async def try_draft(context: WebContext, request: SignedInRequest) -> PageResult:
    """Judge the last messages again with the policies of the draft. Nothing is changed."""
    publisher, draft = context.installation.publisher, await context.store.publishing.draft()
    if publisher is None or draft is None:
        return redirect("/configuration")
    await context.store.audit.note("policy.trial", request.actor, None, sample=[f"draft, revision {draft.revision}"])
    running = await find_running(context, publisher)
    content, _ = apply_draft(running.content, draft.content)
    trial = await end_with_client(request.http.receive, _try(context, content))
    return await show_configuration(context, request, publisher, trial=trial)


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
    draft = await context.store.publishing.draft()
    running = await find_running(context, publisher)
    shown = (whole_number(request.form.text("revision")), whole_number(request.form.text("running")))
    if draft is None or (draft.revision, running.number) != shown:
        return redirect("/configuration", notice="draft-changed")
    reason = request.form.text("reason", MAX_REASON)
    if not reason:
        return await show_configuration(context, request, publisher, fault=NO_REASON)
    content, faults = apply_draft(running.content, draft.content)
    faults += running.faults or await asyncio.to_thread(publisher.find_faults, content)
    if faults:
        return await show_configuration(
            context, request, publisher, fault="the draft has faults, which are named below"
        )
    digest = digest_content(content)
    if not await context.store.publishing.publish_over(running.number, content, digest, reason, request.actor):
        return redirect("/configuration", notice="draft-changed")
    await context.store.publishing.discard_draft(draft.revision, request.actor)
    return redirect("/configuration", notice="published")


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
    return redirect("/configuration", notice="rolled-back" if published else "draft-changed")


async def show_configuration(
    context: WebContext,
    request: SignedInRequest,
    publisher: Publisher,
    *,
    fault: str = "",
    trial: PolicyTrial | None = None,
) -> Response:
    """Show the draft, what it changes, and the versions."""
    running, draft = await find_running(context, publisher), await context.store.publishing.draft()
    typed = draft.content if draft else DraftContent()
    content, faults = apply_draft(running.content, typed)
    differences: Sequence[Difference] = ()
    if draft and not running.faults:
        faults += await asyncio.to_thread(publisher.find_faults, content)
        differences = await asyncio.to_thread(compare, running.content, content)
    rows = list_settings(running.content, typed, faults)
    placed = {sentence for row in rows for sentence in row.faults}
    policies = list_policies(running.content, typed)
    names = {tenant.uid: tenant.name for tenant in await context.store.tenants.all()}
    names |= {DEPLOYMENT: "All tenants", OUTBOUND: "Outbound mail"}
    moment = context.now()
    nodes = await context.store.publishing.nodes()
    rollout = await context.store.publishing.rollout()
    page = await context.page(
        request,
        "configuration.html",
        running=running,
        rollout=rollout,
        draft=draft,
        rows=rows,
        policies=policies,
        policy_names={uid: names.get(uid, uid) for uid in policies},
        faults=[str(each) for each in (*running.faults, *faults) if each.sentence not in placed][:50],
        differences=differences[:MAX_DIFFERENCES],
        is_right=not (running.faults or faults),
        fault=fault,
        trial=trial,
        last=MAX_MESSAGES,
        shown_flips=MAX_FLIPS_SHOWN,
        versions=await context.store.publishing.history(VERSIONS),
        nodes=[node for node in nodes if node.health(moment) != "silent"],
        now=moment,
    )
    return with_status(page, 400 if fault or (trial and trial.mistakes) else 200)


def _read_text(text: str) -> str:
    """Return a text as files have it: browsers end lines with CR and LF."""
    return text.replace("\r\n", "\n")[:MAX_POLICY]


PAGES: tuple[WebRoute, ...] = (
    PageRoute("GET", "/configuration", for_publisher(show_configuration), "system.read"),
    PageRoute("POST", "/configuration", save_draft, "system.change", has_long_text=True),
    PageRoute("POST", "/configuration/try", try_draft, "system.change", "policy trial", has_long_text=True),
    PageRoute("POST", "/configuration/discard", discard_draft, "system.change"),
    PageRoute("POST", "/configuration/publish", publish_draft, "system.change"),
    PageRoute("GET", "/configuration/versions/{published}", show_rollback, "system.read"),
    PageRoute("POST", "/configuration/versions/{published}/roll-back", roll_back, "system.change"),
)
