"""The policy in force, where each value comes from, and what a change would have done to the last messages."""

from collections.abc import Mapping
from typing import Any, Literal

from starlette.responses import Response

from gatepost.api.errors import Failure
from gatepost.api.http import end_with_client
from gatepost.policy.condition_process import condition_work
from gatepost.policy.layers import OUTBOUND, Layer, Policies, lay_over
from gatepost.policy.rules import RULE, PolicyError, collect_titles, describe_rule_action, rule_of, title_of
from gatepost.rejudge.dry_run import PolicyTrial, try_policy
from gatepost.web.context import WebContext, find_scopes
from gatepost.web.page_responses import with_status
from gatepost.web.request import GLOBAL, NOT_VISIBLE, SignedInRequest
from gatepost.web.routing import PageResult, PageRoute, WebRoute, about

MAX_MESSAGES = 1_000
MAX_TEXT = 100_000
MAX_FLIPS_SHOWN = 200
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
    dry_run = await end_with_client(request.http.receive, _dry_run_change(context, request, scope, text))
    page = await show_policy(context, request, scope, text=text, dry_run=dry_run)
    return with_status(page, 400 if dry_run.mistakes else 200)


async def _dry_run_change(context: WebContext, request: SignedInRequest, scope: str | None, text: str) -> PolicyTrial:
    owner, only_outbound = None if scope == OUTBOUND else request.user.tenant or scope, scope == OUTBOUND
    with condition_work():
        try:
            other = await context.read_policy(_with_layer, context.policies, scope, text)
        except PolicyError as fault:
            return PolicyTrial(mistakes=tuple(str(fault).splitlines()[:50]))
        return await try_policy(
            context.store, context.policies, other, owner, MAX_MESSAGES, only_outbound=only_outbound
        )


def _with_layer(policies: Policies, scope: str | None, text: str) -> Policies:
    """Return the policies with one more layer on top, for a tenant, for outbound mail or for the deployment."""
    if scope is None:
        return Policies(lay_over(policies.deployment, Layer("deployment", TYPED_LAYER, text)), policies.tenants)
    level: Literal["deployment", "tenant"] = "deployment" if scope == OUTBOUND else "tenant"
    changed = lay_over(policies.of(scope), Layer(level, TYPED_LAYER, text))
    return Policies(policies.deployment, {**policies.tenants, scope: changed})


async def show_policy(
    context: WebContext,
    request: SignedInRequest,
    scope: str | None,
    *,
    text: str = "",
    dry_run: PolicyTrial | None = None,
) -> Response:
    """Show the policy in force, and what a change of it would have done."""
    effective = context.policies.of(scope)
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
        scope=scope or GLOBAL,
        scopes=scopes,
        choices=(*scopes.choices, (OUTBOUND, "Outbound mail")) if scopes.has_all_tenants else scopes.choices,
        is_outbound=scope == OUTBOUND,
        has_own=scope is None or scope in context.policies.tenants,
        text=text,
        dry_run=dry_run,
        search=search,
        last=MAX_MESSAGES,
        shown_flips=MAX_FLIPS_SHOWN,
    )


PAGES: tuple[WebRoute, ...] = (
    PageRoute("GET", "/policy", for_scope(show_policy), "policy.read"),
    PageRoute("POST", "/policy", try_policy_change, "policy.read", "policy trial", has_long_text=True),
    PageRoute("GET", "/policy/{kind}", show_finding_kind, "policy.read"),
)
