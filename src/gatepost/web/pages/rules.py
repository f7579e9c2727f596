"""Rules of one's own: which are in force and where each comes from, how often they hold, and a form for those kept
here.

A rule is checked when it is typed, tried on stored mail, compared with what it replaces, and saved with the version of
the rules that its author has seen. Rules in policy files are shown and not changed here; a file wins over a rule of the
same name. Administrators change rules: those of the deployment for all tenants, those of a tenant for their own.
"""

import re
from collections import Counter
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

import msgspec
from starlette.responses import Response

from gatepost.api.errors import NOT_FOUND, Failure
from gatepost.api.http import end_with_client
from gatepost.ids import canonical
from gatepost.policy.condition_process import condition_work, find_storable
from gatepost.policy.conditions import MAX_CONDITION, VARIABLES, find_place
from gatepost.policy.layers import MAX_TITLE, WEB, Effective, check_rule
from gatepost.policy.rules import RULE, VERDICTS, OwnRule, Policy
from gatepost.rejudge.policies_in_force import with_rule
from gatepost.rejudge.try_change import Change, Messages, Trial, try_change, try_on
from gatepost.store.errors import NotFound
from gatepost.store.message_records import MessageRecord
from gatepost.store.own_rules import MAX_CHARACTERS, MAX_OF_DEPLOYMENT, MAX_OF_TENANT, RuleSet, StoredRule
from gatepost.store.search_conditions import MessageFilter
from gatepost.web.context import WebContext, find_scopes
from gatepost.web.forms import Form, whole_number
from gatepost.web.message_lines import DONE, links_by_host
from gatepost.web.page_responses import redirect, with_status
from gatepost.web.request import GLOBAL, NOT_VISIBLE, SignedInRequest
from gatepost.web.routing import PageResult, PageRoute, WebRoute, about

MAX_NAME = 63
# Names that need no quoting in a condition.
_PLAIN_NAME = re.compile(r"[a-z0-9.-]{1,253}", re.ASCII)
# Verdicts that a rule can point to; a rule that points to `clean` could do nothing.
RULE_VERDICTS = tuple(verdict for verdict in VERDICTS if verdict != "clean")


class RuleForm(msgspec.Struct, frozen=True):
    """The fields of the form, as they were typed. `was` is the name of the rule that is changed, "" for a new one;
    `message` is the message that it is made from, "" where there is none."""

    name: str = ""
    title: str = ""
    when: str = ""
    verdict: str = "suspicious"
    weight: str = "2"
    group: str = ""
    conclusive: bool = False
    decision: str = ""
    enabled: bool = True
    was: str = ""
    message: str = ""

    @property
    def rule(self) -> OwnRule:
        """The rule, of a form without mistakes."""
        verdict: Any = self.verdict
        decision: Any = self.decision
        weight = float(_parse_weight(self.weight))
        return OwnRule(self.when, self.title, verdict, weight, self.group, self.conclusive, decision)

    def find_mistakes(self, base: Policy) -> tuple["FormMistake", ...]:
        """Return what is wrong with the form, for a rule that is to be added to a policy."""
        weight: Any = _parse_weight(self.weight)
        fields: dict[str, Any] = {"when": self.when, "title": self.title, "verdict": self.verdict, "weight": weight}
        fields |= {name: text for name in ("group", "decision") if (text := getattr(self, name))}
        found = []
        for each in check_rule(self.name, fields, base):
            field = each.key[2] if len(each.key) > 2 else "name"
            found.append(FormMistake(field, _say_place(each.sentence), _show_place(self.when, each.sentence)))
        if self.verdict == "clean":
            found.append(FormMistake("verdict", "must be another one: a rule never makes the outcome milder"))
        return tuple(found)


# Rules that work as they stand, to begin with, by what they show.
EXAMPLES: dict[str, RuleForm] = {
    "subject, sender history and file names together": RuleForm(
        "invoice-from-stranger",
        "An invoice in a web page or archive, from somebody who never wrote before",
        '!known && subject.matches("(?i)(invoice|rechnung|facture)")\n'
        '  && files.exists(file, file.extension in ["html", "htm", "zip"])',
        "fraud",
        "5",
    ),
    "the name beside the address of From": RuleForm(
        "own-name-from-outside",
        "Our own name in the display name, at a free mailbox",
        'sender_name.contains("Example Ltd") && sender_domain in ["gmail.com", "outlook.com"]',
        "spoofing",
        "6",
    ),
    "a finding of Gatepost and the authentication: findings that mean more together": RuleForm(
        "shortened-link-without-proof",
        "A shortened link, and nothing proves the sender",
        '"url:shortener" in tags && !authenticated',
        "phishing",
        "3",
    ),
    "the hosts of links, with a regular expression": RuleForm(
        "link-to-raw-address",
        "A link leads to a bare IP address",
        'links.exists(host, host.matches("^[0-9.]+$"))',
        "suspicious",
        "2",
    ),
    "a header field: ask first whether the message has it": RuleForm(
        "unknown-campaign-tool",
        "Sent by a campaign tool that nobody here uses",
        '"x-mailer" in headers && headers["x-mailer"].exists(value, value.contains("BulkSender"))',
        "bulk",
        "4",
    ),
}


class FormMistake(msgspec.Struct, frozen=True):
    """A mistake of one field; `picture` shows the place in a condition."""

    field: str
    sentence: str
    picture: str = ""


def read_rule_form(form: Form) -> RuleForm:
    """Return the fields of a form that was sent. Browsers end lines with CRLF."""
    return RuleForm(
        name=form.text("name", MAX_NAME + 1),
        title=form.text("title", MAX_TITLE + 1),
        when=form.raw_text("when").replace("\r\n", "\n").strip()[: MAX_CONDITION + 1],
        verdict=form.text("verdict", 40),
        weight=form.text("weight", 20),
        group=form.text("group", 100),
        conclusive=form.has("conclusive"),
        decision=form.text("decision", 20),
        enabled=form.has("enabled"),
        was=form.text("was", MAX_NAME),
        message=form.text("message", 60),
    )


def rule_from_message(record: MessageRecord) -> RuleForm:
    """Return a rule for mail like a message, to begin with: its sender's domain, and a host that it links to."""
    report = record.report
    domain = report.senders[0].rpartition("@")[2].casefold() if report.senders else ""
    hosts = (group.host for group in links_by_host(report))
    host = next((each for each in hosts if _PLAIN_NAME.fullmatch(each)), "")
    parts = [f'sender_domain == "{domain}"'] if _PLAIN_NAME.fullmatch(domain) else []
    parts += [f'links.exists(host, host == "{host}")'] if host else []
    return RuleForm(
        name=f"like-{record.ggrid[-8:].lower()}",
        title=" ".join(f"Like the message “{report.subject}”".split())[:MAX_TITLE],
        when=" && ".join(parts) or "!authenticated",
        message=record.ggrid,
    )


def fill_form(name: str, rule: OwnRule, *, enabled: bool) -> RuleForm:
    """Return the form of a rule that there is."""
    fields = {**msgspec.structs.asdict(rule), "weight": f"{rule.weight:g}"}
    return RuleForm(name, **fields, enabled=enabled, was=name)


def list_differences(before: OwnRule, after: OwnRule) -> list[tuple[str, str, str]]:
    """Return each field whose value differs, with the value before and after."""
    old, new = _describe(before), _describe(after)
    return [(name, old[name], new[name]) for name in new if old[name] != new[name]]


def _describe(rule: OwnRule) -> Mapping[str, str]:
    return {
        "Title": rule.title,
        "Condition": rule.when,
        "Points to": rule.verdict,
        "Weight": f"{rule.weight:g}",
        "Group": rule.group or "none",
        "Conclusive": "yes" if rule.conclusive else "no",
        "Action": rule.decision or "by the verdict",
    }


def _parse_weight(text: str) -> float | str:
    """Return a number, with a decimal point or comma; the text where it is none, which the check refuses."""
    try:
        return float(text.replace(",", "."))
    except ValueError:
        return text


def _say_place(sentence: str) -> str:
    """Return what is wrong with a condition, with the place in words."""
    place = find_place(sentence)
    if place is None:
        return sentence
    line, column = place
    return f"cannot be read at line {line}, column {column}: {_say_fault(sentence.partition(f' {line}:{column}: ')[2])}"


_UNKNOWN_NAME = re.compile(r"undeclared reference to '([^']{1,100})'")
_WRONG_TYPES = re.compile(r"no matching overload for '([^']{1,40})' applied to '\(([^')]{0,200})\)'")
_SIGNS = {"_&&_": "&&", "_||_": "||", "!_": "!", "@in": "in", "_[_]": "[ ]", "_?_:_": "? :"}


def _say_fault(fault: str) -> str:
    """Return a fault that the engine of conditions names in the words of these pages."""
    if unknown := _UNKNOWN_NAME.search(fault):
        near = get_close_matches(unknown[1], [*VARIABLES, "host", "file", "value"], 1)
        hint = f"; did you mean {near[0]}?" if near else ""
        return f"nothing is named {unknown[1]} here{hint}"
    if wrong := _WRONG_TYPES.search(fault):
        sign = _SIGNS.get(wrong[1], wrong[1].strip("_"))
        return f"{sign} does not work with {wrong[2].replace(', ', ' and ') or 'this'}"
    if "Syntax error" in fault or "syntax error" in fault:
        return "something is missing, or too much, at this place"
    return fault


def _show_place(condition: str, sentence: str) -> str:
    """Return the line of a condition that a mistake names, with a caret under the column."""
    place = find_place(sentence)
    lines = condition.split("\n")
    if place is None or not 1 <= place[0] <= len(lines):
        return ""
    line, column = lines[place[0] - 1], place[1]
    start = max(0, column - 60)
    return f"{line[start : start + 100]}\n{' ' * (min(column, len(line) + 1) - 1 - start)}^"


TRIED_MESSAGES = 1_000
HIT_DAYS = 7
MAX_HITS = 1_000
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


async def _find_scope(_context: WebContext, request: SignedInRequest) -> str | Failure | None:
    return request.parse_tenant("scope")


for_scope = about(_find_scope)


@for_scope
async def show_rules(context: WebContext, request: SignedInRequest, scope: str | None) -> PageResult:
    """List the rules of a scope."""
    kept = await context.store.own_rules.find(scope)
    hits, more = await _count_hits(context, scope) if request.may("messages.read") else (Counter[str](), False)
    return await context.page(
        request,
        "rules.html",
        scope=scope or GLOBAL,
        scopes=await find_scopes(context, request),
        lines=_list_rules(context, request, scope, kept),
        kept=kept,
        most=_limit(scope),
        hits=hits,
        has_more_hits=more,
        days=HIT_DAYS,
    )


@for_scope
async def edit_rule(context: WebContext, request: SignedInRequest, scope: str | None) -> PageResult:
    """Show the form of a rule: a new one, an example, or one that there is."""
    query = request.query
    name = query.text("name", MAX_NAME)
    kept = await context.store.own_rules.find(scope)
    stored = kept.find(name)
    if name and stored is None:
        return NO_RULE
    example = next((each for each in EXAMPLES.values() if each.name == query.text("example", MAX_NAME)), None)
    form = RuleForm()
    if stored:
        form = fill_form(stored.name, stored.rule, enabled=stored.enabled)
    elif example:
        form = example
    elif record := await _find_message(context, request, query.text("message", 60)):
        form = rule_from_message(record)
    return await _render_form(context, request, scope, form, kept.version)


@for_scope
async def change_rule(context: WebContext, request: SignedInRequest, scope: str | None) -> PageResult:
    """Check a rule and try it on stored mail, or save it."""
    form, seen = read_rule_form(request.form), _read_version(request)
    mistakes = await context.read_policy(_find_mistakes, context, scope, form)
    if mistakes:
        return with_status(await _render_form(context, request, scope, form, seen, mistakes=mistakes), 400)

    if request.form.text("do") != "save":
        trial = await end_with_client(request.http.receive, _try(context, request, scope, form))
        if trial and trial.mistakes:
            mistakes = tuple(FormMistake("when", each) for each in trial.mistakes)
            return with_status(await _render_form(context, request, scope, form, seen, mistakes=mistakes), 400)
        effect = await _try_on_message(context, request, scope, form) if trial else RuleEffect()
        return await _render_form(context, request, scope, form, seen, trial=trial, on_message=effect.text)
    effect = await _try_on_message(context, request, scope, form) if form.enabled else RuleEffect()
    saved = await context.store.own_rules.put(scope, form.name, form.rule, seen, request.actor, enabled=form.enabled)
    if isinstance(saved, NotFound):
        return NOT_VISIBLE
    if isinstance(saved, str):
        kept = await context.store.own_rules.find(scope)
        fault = REFUSALS[saved].format(_limit(scope))
        return with_status(await _render_form(context, request, scope, form, kept.version, fault=fault), 409)
    await context.in_force.refresh()
    said = (effect.becomes,) if effect.becomes else ()
    return redirect(f"/rules?scope={scope or GLOBAL}", *said, notice=effect.notice)


@for_scope
async def switch_rule(context: WebContext, request: SignedInRequest, scope: str | None) -> PageResult:
    """Switch a rule on or off."""
    stored = (await context.store.own_rules.find(scope)).find(request.form.text("name", MAX_NAME))
    if stored is None:
        return NO_RULE
    enabled = request.form.text("do") == "on"
    done = await context.store.own_rules.put(
        scope, stored.name, stored.rule, _read_version(request), request.actor, enabled=enabled
    )
    return await _go_back(context, scope, done, "rule-on" if enabled else "rule-off")


@for_scope
async def delete_rule(context: WebContext, request: SignedInRequest, scope: str | None) -> PageResult:
    """Delete a rule."""
    name = request.form.text("name", MAX_NAME)
    done = await context.store.own_rules.delete(scope, name, _read_version(request), request.actor)
    return await _go_back(context, scope, done, "rule-deleted")


async def _go_back(context: WebContext, scope: str | None, done: RuleSet | str | NotFound, notice: str) -> PageResult:
    if isinstance(done, NotFound):
        return NOT_VISIBLE
    if isinstance(done, str):
        notice = "rules-changed"
    await context.in_force.refresh()
    return redirect(f"/rules?scope={scope or GLOBAL}", notice=notice)


def _limit(scope: str | None) -> int:
    return MAX_OF_TENANT if scope else MAX_OF_DEPLOYMENT


def _read_version(request: SignedInRequest) -> int:
    return whole_number(request.form.text("version", 18), -1)


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


async def _try(context: WebContext, request: SignedInRequest, scope: str | None, form: RuleForm) -> Trial | None:
    """Try a rule on the last messages; None where it reads what is not stored with them."""
    with condition_work():
        if not all(await context.read_policy(find_storable, [form.when])):
            return None
        last = Messages(request.user.tenant or scope, TRIED_MESSAGES)
        return await try_change(context.store, context.policies, _change(context, scope, form), last)


def _change(context: WebContext, scope: str | None, form: RuleForm) -> Change:
    return Change(policies=with_rule(context.policies, scope, form.name, form.rule), rule=form.name)


async def _find_message(context: WebContext, request: SignedInRequest, ggrid: str) -> MessageRecord | None:
    """Return the message that a rule is made from, if the user may see it."""
    known = canonical(ggrid) if request.may("messages.read") else None
    return await context.store.messages.find(known, request.user.tenant) if known else None


class RuleEffect(msgspec.Struct, frozen=True):
    """What a rule would do to the message that it is made from: as sentences, as the notice of a rule that is saved,
    and what becomes of the message; nothing where there is no message, or its record cannot tell."""

    text: str = ""
    notice: str = "rule-saved"
    becomes: str = ""


async def _try_on_message(
    context: WebContext, request: SignedInRequest, scope: str | None, form: RuleForm
) -> RuleEffect:
    """Try a rule on the message that it is made from."""
    record = await _find_message(context, request, form.message)
    if record is None or not all(await context.read_policy(find_storable, [form.when])):
        return RuleEffect()
    done = DONE.get(record.report.decision, "held")
    if scope and scope != record.envelope.tenant:
        said = "The message that it was made from is not of this tenant, so the rule does not count for it."
        return RuleEffect(said, "rule-saved-idle", done)
    with condition_work():
        found = await try_on(context.store, context.policies, _change(context, scope, form), record)
    before, now = DONE.get(found.before.decision, "held"), DONE.get(found.now.decision, "held")
    if not found.has_now(f"{RULE}{form.name}"):
        said = "The condition does not hold for the message that it was made from, so that message stays as it is."
        return RuleEffect(said, "rule-saved-idle", now)
    if found.flips:
        said = f"The message that it was made from would be {now} instead of {before}."
        return RuleEffect(said, "rule-saved-changes", now)
    reason = found.now.reason.rstrip(".")
    said = f"The rule holds for the message that it was made from, which would still be {now}: {reason}."
    return RuleEffect(said, "rule-saved-same", now)


async def _render_form(
    context: WebContext,
    request: SignedInRequest,
    scope: str | None,
    form: RuleForm,
    version: int,
    *,
    mistakes: tuple[FormMistake, ...] = (),
    trial: Trial | None = None,
    on_message: str = "",
    fault: str = "",
) -> Response:
    before = (await context.store.own_rules.find(scope)).find(form.was)
    is_checked = request.http.method == "POST" and not mistakes
    return await context.page(
        request,
        "rule.html",
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
        on_message=on_message,
        tried=TRIED_MESSAGES,
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
