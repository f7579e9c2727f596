"""Policy: what holds, where each value comes from, and what a change would have done to the last messages."""

from collections.abc import Mapping
from typing import Any

import msgspec
from starlette.responses import Response

from gatepost.api.errors import Failure
from gatepost.kinds import TITLES
from gatepost.policy.layers import Layer, Origin, Policies, lay_over
from gatepost.policy.rules import PolicyError
from gatepost.rejudge.dry_run import try_policy
from gatepost.rejudge.replay import Comparison
from gatepost.web.context import WebContext, scopes
from gatepost.web.request import GLOBAL, NOT_HERE, SignedInRequest
from gatepost.web.responses import html_response
from gatepost.web.site import Page, Row

LAST = 1_000
MAX_TEXT = 100_000
SHOWN_FLIPS = 200
TYPED = "what you typed"


class Trial(msgspec.Struct, frozen=True):
    """What a changed policy would have done; or what is wrong with it."""

    considered: int = 0
    flips: tuple[Comparison, ...] = ()
    mistakes: tuple[str, ...] = ()


async def show(desk: WebContext, visit: SignedInRequest) -> Response | Failure:
    """What holds."""
    scope = _scope(visit, visit.query.text("scope"))
    return scope if isinstance(scope, Failure) else html_response(await _page(desk, visit, scope))


async def explain(desk: WebContext, visit: SignedInRequest) -> Response | Failure:
    """One kind of finding: what it means, what it does, and who says so."""
    scope, kind = _scope(visit, visit.query.text("scope")), visit.part("kind")
    if isinstance(scope, Failure):
        return scope
    effective = desk.policies.of(scope)
    rule = effective.policy.kinds.get(kind)
    if rule is None:
        return NOT_HERE
    places = [("kinds", kind, field) for field in ("weight", "verdict", "group", "conclusive")]
    places += [("groups", rule.group, "cap")] if rule.group else []
    places += [("verdicts", rule.verdict, field) for field in ("decision", "threshold", "own")]
    values: list[tuple[str, tuple[Origin, ...]]] = [(".".join(place), effective.origins(*place)) for place in places]
    return html_response(
        desk.renderer.page(
            "kind.html",
            visit,
            here="/policy",
            kind=kind,
            title=TITLES.get(kind, ""),
            rule=rule,
            policy=effective.policy,
            values=values,
        )
    )


async def try_out(desk: WebContext, visit: SignedInRequest) -> Response | Failure:
    """Judge the last messages with what was typed over the policy that holds. Nothing is changed."""
    scope = _scope(visit, visit.form.text("scope"))
    if isinstance(scope, Failure):
        return scope
    text = visit.form.whole("text")[:MAX_TEXT]
    trial = await _tried(desk, visit, scope, text)
    return html_response(await _page(desk, visit, scope, text=text, trial=trial), 400 if trial.mistakes else 200)


async def _tried(desk: WebContext, visit: SignedInRequest, scope: str | None, text: str) -> Trial:
    try:
        other = _with(desk.policies, scope, text)
    except PolicyError as fault:
        return Trial(mistakes=tuple(str(fault).splitlines()[:50]))
    considered, flips = await try_policy(desk.store, desk.policies, other, visit.user.tenant or scope, LAST)
    return Trial(considered, tuple(flips))


def _with(policies: Policies, scope: str | None, text: str) -> Policies:
    """The policies with one more layer on top, for a tenant or for the deployment."""
    if scope is None:
        return Policies(lay_over(policies.deployment, Layer("deployment", TYPED, text)), policies.tenants)
    changed = lay_over(policies.of(scope), Layer("tenant", TYPED, text))
    return Policies(policies.deployment, {**policies.tenants, scope: changed})


def _scope(visit: SignedInRequest, named: str) -> str | Failure | None:
    return visit.user.tenant if visit.user.tenant and not named else visit.scope(named)


async def _page(
    desk: WebContext, visit: SignedInRequest, scope: str | None, *, text: str = "", trial: Trial | None = None
) -> str:
    effective = desk.policies.of(scope)
    part = visit.query.text("part", 100)
    kinds: Mapping[str, Any] = {
        kind: rule
        for kind, rule in sorted(effective.policy.kinds.items())
        if part.casefold() in f"{kind} {TITLES.get(kind, '')} {rule.verdict} {rule.group}".casefold()
    }
    return desk.renderer.page(
        "policy.html",
        visit,
        here="/policy",
        policy=effective.policy,
        kinds=kinds,
        titles=TITLES,
        scope=scope or GLOBAL,
        scopes=await scopes(desk, visit),
        text=text,
        trial=trial,
        part=part,
        last=LAST,
        shown_flips=SHOWN_FLIPS,
    )


ROWS: tuple[Row, ...] = (
    Page("GET", "/policy", show, "policy.read"),
    Page("POST", "/policy", try_out, "policy.read"),
    Page("GET", "/policy/{kind}", explain, "policy.read"),
)
