"""Rules of one's own: which are in force and where each comes from, how often they hold, and a form for those that the
web interface keeps.

A rule is checked when it is typed, tried on stored mail, compared with what it replaces, and saved with the version of
the rules that its author has seen. Rules in policy files are shown and not changed here; a file wins over a rule of the
same name. Administrators change rules: those of the deployment for all tenants, those of a tenant for their own.
"""

import asyncio
from collections import Counter

import msgspec
from starlette.responses import Response

from gatepost.api.errors import NOT_FOUND, Failure
from gatepost.policy.conditions import MAX_CONDITION, VARIABLES, is_storable
from gatepost.policy.file import MAX_TITLE
from gatepost.policy.layers import WEB, Effective
from gatepost.policy.rules import RULE, OwnRule
from gatepost.rejudge.dry_run import RuleTrial, try_rule
from gatepost.rejudge.policies_in_force import with_rule
from gatepost.store.errors import NotFound
from gatepost.store.message_plans import MessageFilter
from gatepost.store.own_rules import MAX_CHARACTERS, MAX_OF_DEPLOYMENT, MAX_OF_TENANT, RuleSet, StoredRule
from gatepost.web.context import WebContext, find_scopes
from gatepost.web.page_responses import html_response, redirect
from gatepost.web.request import GLOBAL, NOT_VISIBLE, SignedInRequest
from gatepost.web.routing import PageRoute, WebRoute
from gatepost.web.rule_forms import (
    EXAMPLES,
    MAX_NAME,
    RULE_VERDICTS,
    FormMistake,
    RuleForm,
    fill_form,
    list_differences,
    read_rule_form,
)

TRIED_MESSAGES = 1_000
HIT_DAYS = 7
MAX_HITS = 1_000
SHOWN = 100
NO_RULE = Failure(NOT_FOUND, "there is no such rule here; rules in policy files are changed in the file")
REFUSALS = {
    "changed": "The rules were changed meanwhile. Compare your rule with them, and save it again.",
    "full": "There are as many rules here as there may be: {0}. Delete one first.",
    "long": f"All rules here may have {MAX_CHARACTERS:,} characters together. Delete one first, or say it shorter.",
    "unknown": "This rule was deleted meanwhile.",
}


class RuleLine(msgspec.Struct, frozen=True):
    """A rule as the page lists it. `place` says where it stands; `stored` is set where this page can change it, `idle`
    says why it does nothing."""

    name: str
    rule: OwnRule
    place: str
    stored: StoredRule | None = None
    idle: str = ""


async def show_rules(context: WebContext, request: SignedInRequest) -> Response | Failure:
    """List the rules of a scope."""
    scope = _choose_scope(request, request.query.text("scope"))
    if isinstance(scope, Failure):
        return scope
    kept = await context.store.own_rules.find(scope)
    hits, more = await _count_hits(context, scope) if request.may("messages.read") else (Counter[str](), False)
    return html_response(
        await context.renderer.render_in_turns(
            "rules.html",
            request,
            here="/rules",
            scope=scope or GLOBAL,
            scopes=await find_scopes(context, request),
            lines=_list_rules(context, request, scope, kept),
            kept=kept,
            most=_limit(scope),
            hits=hits,
            has_more_hits=more,
            days=HIT_DAYS,
        )
    )


async def edit_rule(context: WebContext, request: SignedInRequest) -> Response | Failure:
    """Show the form of a rule: a new one, an example, or one that there is."""
    query = request.query
    scope, name = _choose_scope(request, query.text("scope")), query.text("name", MAX_NAME)
    if isinstance(scope, Failure):
        return scope
    kept = await context.store.own_rules.find(scope)
    stored = kept.find(name)
    if name and stored is None:
        return NO_RULE
    example = next((each for each in EXAMPLES if each.name == query.text("example", MAX_NAME)), None)
    form = RuleForm()
    if stored:
        form = fill_form(stored.name, stored.rule, enabled=stored.enabled)
    elif example:
        form = RuleForm(example.name, example.title, example.when, example.verdict, example.weight)
    return html_response(await _render_form(context, request, scope, form, kept.version))


async def change_rule(context: WebContext, request: SignedInRequest) -> Response | Failure:
    """Check a rule and try it on stored mail, or save it."""
    scope = _choose_scope(request, request.form.text("scope"))
    if isinstance(scope, Failure):
        return scope
    form, seen = read_rule_form(request.form), _read_version(request)
    # In a thread, one at a time: the text may be hostile, and the event loop has other work.
    async with context.reading_policy:
        mistakes = await asyncio.to_thread(_find_mistakes, context, scope, form)
    if mistakes:
        page = await _render_form(context, request, scope, form, seen, mistakes=mistakes)
        return html_response(page, 400)
    if request.form.text("do") != "save":
        trial = await _try(context, request, scope, form)
        return html_response(await _render_form(context, request, scope, form, seen, trial=trial))
    saved = await context.store.own_rules.put(scope, form.name, form.rule, seen, request.actor, enabled=form.enabled)
    if isinstance(saved, NotFound):
        return NOT_VISIBLE
    if isinstance(saved, str):
        kept = await context.store.own_rules.find(scope)
        fault = REFUSALS[saved].format(_limit(scope))
        return html_response(await _render_form(context, request, scope, form, kept.version, fault=fault), 409)
    await context.in_force.refresh()
    return redirect(f"/rules?scope={scope or GLOBAL}", notice="rule-saved")


async def switch_rule(context: WebContext, request: SignedInRequest) -> Response | Failure:
    """Switch a rule on or off."""
    scope = _choose_scope(request, request.form.text("scope"))
    if isinstance(scope, Failure):
        return scope
    stored = (await context.store.own_rules.find(scope)).find(request.form.text("name", MAX_NAME))
    if stored is None:
        return NO_RULE
    enabled = request.form.text("do") == "on"
    done = await context.store.own_rules.put(
        scope, stored.name, stored.rule, _read_version(request), request.actor, enabled=enabled
    )
    return await _go_back(context, scope, done, "rule-on" if enabled else "rule-off")


async def delete_rule(context: WebContext, request: SignedInRequest) -> Response | Failure:
    """Delete a rule."""
    scope = _choose_scope(request, request.form.text("scope"))
    if isinstance(scope, Failure):
        return scope
    name = request.form.text("name", MAX_NAME)
    done = await context.store.own_rules.delete(scope, name, _read_version(request), request.actor)
    return await _go_back(context, scope, done, "rule-deleted")


async def _go_back(
    context: WebContext, scope: str | None, done: RuleSet | str | NotFound, notice: str
) -> Response | Failure:
    if isinstance(done, NotFound):
        return NOT_VISIBLE
    if isinstance(done, str):
        notice = "rules-changed"
    await context.in_force.refresh()
    return redirect(f"/rules?scope={scope or GLOBAL}", notice=notice)


def _choose_scope(request: SignedInRequest, named: str) -> str | Failure | None:
    return request.user.tenant if request.user.tenant and not named else request.parse_scope(named)


def _limit(scope: str | None) -> int:
    return MAX_OF_TENANT if scope else MAX_OF_DEPLOYMENT


def _read_version(request: SignedInRequest) -> int:
    text = request.form.text("version", 18)
    return int(text) if text.isascii() and text.isdigit() else -1


def _list_rules(
    context: WebContext, request: SignedInRequest, scope: str | None, kept: RuleSet
) -> tuple[RuleLine, ...]:
    """Rules in force first, in the order in which they are evaluated; then those that are kept and do nothing."""
    effective: Effective = context.policies.of(scope)
    left_out = context.in_force.left_out.get(scope or "", {})
    lines = []
    for name, rule in effective.policy.rules.items():
        origin = effective.origins("rules", name, "when")[-1]
        is_here = origin.file == WEB and origin.level == ("tenant" if scope else "deployment")
        place = origin.level if origin.level == "shipped" or not origin.file else f"{origin.level}, {origin.file}"
        if request.user.tenant and origin.file != WEB:
            place = origin.level  # the name of a file is the operator's
        lines.append(RuleLine(name, rule, place, kept.find(name) if is_here else None))
    shown = {line.name for line in lines if line.stored}
    for stored in kept.rules:
        if stored.name not in shown:
            idle = left_out.get(stored.name, "it is not in force yet") if stored.enabled else "it is switched off"
            lines.append(
                RuleLine(stored.name, stored.rule, f"{'tenant' if scope else 'deployment'}, {WEB}", stored, idle)
            )
    return tuple(lines)


async def _count_hits(context: WebContext, scope: str | None) -> tuple[Counter[str], bool]:
    """How many messages of the last days each rule held for, and whether there are more than were counted."""
    since = context.now() - HIT_DAYS * 86_400_000
    page = await context.store.messages.search(MessageFilter(tenant=scope, since=since, tag=RULE), limit=MAX_HITS)
    found = Counter(tag for row in page.rows for tag in row.tags if tag.startswith(RULE))
    return found, page.next is not None


def _find_mistakes(context: WebContext, scope: str | None, form: RuleForm) -> tuple[FormMistake, ...]:
    files, now = context.in_force.files.of(scope).policy, context.policies.of(scope)
    found = form.find_mistakes(files)
    if form.was and form.was != form.name:
        return (*found, FormMistake("name", "of a rule stays as it is: messages on record have it"))
    if form.name in files.rules:
        return (*found, FormMistake("name", "is that of a rule in a policy file, which wins; choose another name"))
    known = form.name in now.policy.rules and now.origins("rules", form.name, "when")[-1]
    if scope and known and known.level == "deployment":
        return (*found, FormMistake("name", "is that of a rule of the deployment; choose another name"))
    if not form.was and known:
        return (*found, FormMistake("name", "is taken; change that rule, or choose another name"))
    return found


async def _try(context: WebContext, request: SignedInRequest, scope: str | None, form: RuleForm) -> RuleTrial | None:
    """Try a rule on the last messages; None where it reads what is not stored with them."""
    if not is_storable(form.when):
        return None
    policies = context.policies
    other = with_rule(policies, scope, form.name, form.rule)
    return await try_rule(context.store, policies, other, request.user.tenant or scope, TRIED_MESSAGES, form.name)


async def _render_form(
    context: WebContext,
    request: SignedInRequest,
    scope: str | None,
    form: RuleForm,
    version: int,
    *,
    mistakes: tuple[FormMistake, ...] = (),
    trial: RuleTrial | None = None,
    fault: str = "",
) -> str:
    before = (await context.store.own_rules.find(scope)).find(form.was)
    is_checked = request.http.method == "POST" and not mistakes
    return await context.renderer.render_in_turns(
        "rule.html",
        request,
        here="/rules",
        scope=scope or GLOBAL,
        scope_name=(await find_scopes(context, request)).name(scope),
        form=form,
        version=version,
        mistakes=mistakes,
        fault=fault,
        is_checked=is_checked,
        differences=list_differences(before.rule, form.rule) if before and is_checked else [],
        is_changed=before is not None,
        trial=trial,
        tried=TRIED_MESSAGES,
        shown=SHOWN,
        groups=context.policies.of(scope).policy.groups,
        verdicts=RULE_VERDICTS,
        variables=VARIABLES,
        examples=EXAMPLES,
        longest={"name": MAX_NAME, "title": MAX_TITLE, "when": MAX_CONDITION},
    )


PAGES: tuple[WebRoute, ...] = (
    PageRoute("GET", "/rules", show_rules, "policy.read", "search"),
    PageRoute("GET", "/rules/edit", edit_rule, "policy.change"),
    PageRoute("POST", "/rules/edit", change_rule, "policy.change", "policy trial"),
    PageRoute("POST", "/rules/switch", switch_rule, "policy.change"),
    PageRoute("POST", "/rules/delete", delete_rule, "policy.change"),
)
