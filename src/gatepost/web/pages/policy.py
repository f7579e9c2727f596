"""The policy in force, where each value comes from, what a change would have done to the last messages, and changes in
the table, which go into the draft of the configuration."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias, get_args

from starlette.responses import Response

from gatepost.api.errors import Failure
from gatepost.policy.layers import MOST_POINTS, OUTBOUND, Effective, Policies, read_policy_file, write_value
from gatepost.policy.rules import RULE, Chosen, PolicyError, collect_titles, describe_rule_action, rule_of, title_of
from gatepost.rejudge.policies_in_force import with_layer
from gatepost.rejudge.try_change import Messages, Trial
from gatepost.store.publishing import DraftContent
from gatepost.web.configuration import DEPLOYMENT, build_policies, list_policies
from gatepost.web.context import WebContext, find_scopes
from gatepost.web.forms import Form
from gatepost.web.page_responses import redirect, with_status
from gatepost.web.pages.configuration import NOT_HERE, DraftState, find_draft, put_draft, read_text, try_draft
from gatepost.web.request import GLOBAL, NOT_VISIBLE, SignedInRequest
from gatepost.web.routing import PageResult, PageRoute, WebRoute, about

MAX_MESSAGES = 1_000
MAX_TEXT = 100_000
TYPED_LAYER = "your changes"


async def _find_scope(_context: WebContext, request: SignedInRequest) -> str | Failure | None:
    """Return whose policy is meant: a tenant's uid, `OUTBOUND`, or None for the deployment."""
    named = request.query.text("scope") or request.form.text("scope")
    return OUTBOUND if named == OUTBOUND and request.user.tenant is None else request.parse_tenant("scope")


for_scope = about(_find_scope)


@for_scope
async def show_finding_kind(context: WebContext, request: SignedInRequest, scope: str | None) -> PageResult:
    """Show one kind of finding: its meaning, its effect, and where each value comes from."""
    effective, kind = context.policies.of(scope), request.path_part("kind")
    own = effective.policy.rules.get(kind.removeprefix(RULE)) if kind.startswith(RULE) else None
    if own is None and kind not in effective.policy.kinds:
        return NOT_VISIBLE
    return await context.page(
        request,
        "kind.html",
        scope=scope or GLOBAL,
        kind=kind,
        title=title_of(kind, effective.policy),
        condition=own.when if own else "",
        rule=rule_of(kind, effective.policy),
        policy=effective.policy,
        values=effective.explain(kind),
    )


@for_scope
async def try_policy_change(context: WebContext, request: SignedInRequest, scope: str | None) -> PageResult:
    """Re-evaluate the last messages with the typed layer on top of the policy in force. Nothing is changed."""
    text = request.form.raw_text("text")[:MAX_TEXT]
    await context.store.audit.note("policy.trial", request.actor, None if scope == OUTBOUND else scope, sample=[text])
    owner = request.user.tenant or scope
    last = Messages(owner, MAX_MESSAGES) if scope != OUTBOUND else Messages(last=MAX_MESSAGES, only="outbound")
    read = partial(context.read_policy, with_layer, context.policies, scope, TYPED_LAYER, text)
    trial = await context.try_policies(request, read, last)
    page = await show_policy(context, request, scope, text=text, trial=trial)
    return with_status(page, 400 if trial.mistakes else 200)


async def show_policy(
    context: WebContext,
    request: SignedInRequest,
    scope: str | None,
    *,
    text: str = "",
    trial: Trial | None = None,
    typed: Form | None = None,
    faults: Sequence[str] = (),
) -> Response:
    """Show the policy in force, or that of the draft to be changed, and what a change of it would have done. `typed` is
    a form that could not be taken, with its faults."""
    publisher = context.installation.publisher
    may_edit = publisher is not None and request.may("system.change")
    is_edited = may_edit and bool(typed or request.query.has("edit"))
    draft = await context.store.publishing.draft() if may_edit else None
    state = await find_draft(context, publisher, checks=is_edited) if publisher and (draft or is_edited) else None
    effective = context.policies.of(scope)
    if state and is_edited:
        effective = (await _read_draft(context, state)).of(scope)
    search, titles = request.query.text("part", 100), collect_titles(effective.policy)
    scopes = await find_scopes(context, request)
    kinds: Mapping[str, Any] = {
        kind: rule
        for kind, rule in sorted(effective.policy.kinds.items())
        if search.casefold() in f"{kind} {titles.get(kind, '')} {rule.verdict} {rule.group}".casefold()
    }
    areas: dict[str, dict[str, Any]] = {}
    for kind, rule in kinds.items():
        areas.setdefault(kind.partition(":")[0], {})[kind] = rule
    return await context.page(
        request,
        "policy.html",
        policy=effective.policy,
        areas=areas,
        titles=titles,
        describe_rule=describe_rule_action,
        decisions=get_args(Chosen),
        scope=scope or GLOBAL,
        scopes=scopes,
        choices=(*scopes.choices, (OUTBOUND, "Outbound mail")) if scopes.has_all_tenants else scopes.choices,
        is_outbound=scope == OUTBOUND,
        has_own=scope is None or scope in context.policies.tenants,
        text=text,
        trial=trial,
        search=search,
        last=MAX_MESSAGES,
        state=state,
        may_edit=may_edit,
        is_edited=is_edited,
        typed=typed or Form(),
        faults=faults,
    )


async def _read_draft(context: WebContext, state: DraftState) -> Policies:
    """Return the policies of the draft; those in force where it cannot be read, which the draft's own page says."""
    try:
        return await context.read_policy(build_policies, state.content)
    except PolicyError:
        return context.policies


Change: TypeAlias = tuple[str, str, str, Any]


@for_scope
async def save_policy(context: WebContext, request: SignedInRequest, scope: str | None) -> PageResult:
    """Put changes into the draft: those of the table, or the text that was tried."""
    publisher, form = context.installation.publisher, request.form
    if publisher is None:
        return NOT_HERE
    state = await find_draft(context, publisher, checks=False)
    stated = list_policies(state.running.content, state.typed)
    uid = scope or DEPLOYMENT
    effective = (await _read_draft(context, state)).of(scope)
    if form.has("text"):
        changes, faults = await context.read_policy(_read_layer, form.raw_text("text")[:MAX_TEXT], effective)
    else:
        changes, faults = _read_table(form, effective)
    text = stated.get(uid, "")
    if not faults:
        text, faults = await context.read_policy(_write_changes, text, changes)
    if faults:
        page = await show_policy(context, request, scope, typed=form, faults=faults[:20])
        return with_status(page, 400)
    policies = {**state.typed.policies, uid: text}
    if read_text(list_policies(state.running.content, DraftContent()).get(uid, "")) == text:
        del policies[uid]
    notice = await put_draft(context, request, state, DraftContent(state.typed.settings, policies))
    if notice != "draft-changed" and form.has("then"):
        return redirect("/configuration/draft")
    return redirect(f"/policy?scope={scope or GLOBAL}&edit=1", notice=notice)


async def save_and_try(context: WebContext, request: SignedInRequest) -> PageResult:
    """Put the changes of the table into the draft, and try it."""
    saved = await save_policy(context, request)
    is_saved = isinstance(saved, Response) and saved.status_code == 303
    return await try_draft(context, request) if is_saved else saved


def _read_layer(text: str, effective: Effective) -> tuple[list[Change], list[str]]:
    """Return the values that a tried text states."""
    said = read_policy_file(text, effective.policy)
    changes: list[Change] = [(each.section, each.name, each.field, each.value) for each in said.statements]
    return changes, [str(each) for each in said.mistakes]


def _read_table(form: Form, effective: Effective) -> tuple[list[Change], list[str]]:
    """Return the values of the table that differ from those it has shown. One that holds without the file as well is
    taken out of it."""
    changes: list[Change] = []
    faults: list[str] = []
    places = [("kinds", kind, "weight") for kind in effective.policy.kinds]
    places += [("verdicts", name, field) for name in effective.policy.verdicts for field in ("threshold", "own")]
    for section, name, field in places:
        typed = form.text(f"{field} {name}", 40)
        shown = effective.origins(section, name, field)[-1].value
        if not typed or (shown is not None and typed == f"{shown:g}"):
            continue
        number = _parse_points(typed)
        if number is None:
            faults.append(f"the {field} of {name} must be a number between 0 and {MOST_POINTS:g}, not {typed}")
        elif number != shown:
            changes.append((section, name, field, _unless_beneath(effective, (section, name, field), number)))
    for name, rule in effective.policy.verdicts.items():
        typed = form.text(f"decision {name}", 20)
        if typed in get_args(Chosen) and typed != rule.decision:
            place = ("verdicts", name, "decision")
            changes.append((*place, _unless_beneath(effective, place, typed)))
    return changes, faults


def _parse_points(typed: str) -> float | None:
    try:
        number = float(typed.replace(",", "."))
    except ValueError:
        return None
    return number if 0 <= number <= MOST_POINTS else None


def _unless_beneath(effective: Effective, place: tuple[str, str, str], value: Any) -> Any:
    origins = effective.origins(*place)
    return None if len(origins) > 1 and origins[-2].value == value else value


def _write_changes(text: str, changes: Sequence[Change]) -> tuple[str, list[str]]:
    """Return the text of a policy with these values in it."""
    faults = []
    for section, name, field, value in changes:
        written = write_value(text, section, name, field, value)
        if written is None:
            faults.append(f"the {field} of {name} stands in the text in a way that only the text itself can change")
        else:
            text = written
    return text, faults


PAGES: tuple[WebRoute, ...] = (
    PageRoute("GET", "/policy", for_scope(show_policy), "policy.read"),
    PageRoute("POST", "/policy", try_policy_change, "policy.read", "policy trial", has_long_text=True),
    PageRoute("POST", "/policy/draft", save_policy, "system.change", has_long_text=True),
    PageRoute("POST", "/policy/draft/try", save_and_try, "system.change", "policy trial", has_long_text=True),
    PageRoute("GET", "/policy/{kind}", show_finding_kind, "policy.read"),
)
