"""`gatepost policy`: the weight of each finding, the decision for each verdict, and the file that set them."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gatepost.cli import replay
from gatepost.cli.options import (
    ConfigOption,
    DataOption,
    JsonOption,
    PolicyTenantOption,
    load_policies,
    load_policies_with,
    load_policy_settings,
    parse_tenant_uid,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gatepost.policy.layers import Effective
    from gatepost.policy.rules import KindRule, Policy
    from gatepost.strengths import Calculation


app = typer.Typer(help="The weights of findings and the decisions for verdicts.", no_args_is_help=True)
app.command("try")(replay.try_policy)


OutboundOption = Annotated[bool, typer.Option("--outbound", help="The policy of outbound mail.")]


@app.command("show")
def show(
    tenant: PolicyTenantOption = None,
    outbound: OutboundOption = False,
    config: ConfigOption = None,
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """Print the policy in force: verdicts with their thresholds, every group and every kind of finding.

    The last column says where a row differs from the shipped policy.
    """
    from gatepost.cli.printing import console, print_json, rows, table
    from gatepost.policy.rules import RULE, describe_rule_action

    effective = load_policies(config, data).of(parse_tenant_uid(tenant), outbound=outbound)
    policy, changes = effective.policy, effective.policy.changes
    if json:
        print_json(policy)
        return
    out = console()
    verdicts = [
        (name, rule.decision, "conclusive only" if rule.threshold is None else f"{rule.threshold:g}", f"{rule.own:g}",
         describe_rule_action(rule), changes.get(f"verdicts.{name}", ""))
        for name, rule in policy.verdicts.items()
    ]  # fmt: skip
    out.print(rows(table("verdict", "decision", "threshold", "own points", "action", "changed"), verdicts), "")
    groups = [
        (name, f"{group.cap:g}", group.description, changes.get(f"groups.{name}", ""))
        for name, group in policy.groups.items()
    ]
    out.print(rows(table("group", "cap", "what counts together", "changed"), groups), "")
    kinds = [
        (kind, f"{rule.weight:g}", rule.verdict, rule.group, "yes" if rule.conclusive else "",
         changes.get(f"kinds.{kind}", ""))
        for kind, rule in policy.kinds.items()
    ]  # fmt: skip
    out.print(rows(table("finding", "weight", "points to", "group", "conclusive", "changed"), kinds))
    own = [
        (f"{RULE}{name}", f"{rule.weight:g}", rule.verdict, rule.group, "yes" if rule.conclusive else "", rule.when)
        for name, rule in policy.rules.items()
    ]
    if own:
        out.print("", rows(table("rule", "weight", "points to", "group", "conclusive", "condition"), own))


@app.command("rules")
def show_rules(
    tenant: PolicyTenantOption = None, config: ConfigOption = None, data: DataOption = None, json: JsonOption = False
) -> None:
    """Print the rules of your own that are in force, in their order: those of policy files, and those of the web
    interface, which are in storage."""
    from gatepost.cli.options import with_store
    from gatepost.cli.printing import console, print_json, rows, table
    from gatepost.rejudge.policies_in_force import with_stored_rules

    files = load_policies(config, data)
    policies = with_store(config, data, lambda store: with_stored_rules(files, store.own_rules))
    effective = policies.of(parse_tenant_uid(tenant))
    found = [
        (name, rule, effective.origins("rules", name, "when")[-1]) for name, rule in effective.policy.rules.items()
    ]
    if json:
        print_json([{"name": name, "rule": rule, "level": at.level, "from": at.file} for name, rule, at in found])
        return
    lines = [
        (
            name,
            rule.verdict,
            rule.decision or ("conclusive" if rule.conclusive else f"{rule.weight:g}"),
            f"{at.level}, {at.file}",
            rule.when,
        )
        for name, rule, at in found
    ]
    if lines:
        console().print(rows(table("rule", "points to", "weight", "from", "condition"), lines))
    else:
        print("There are no rules.")


@app.command("explain")
def explain(
    kind: Annotated[str, typer.Argument(help="A tag, such as auth:dmarc-fail.")],
    tenant: PolicyTenantOption = None,
    config: ConfigOption = None,
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """Say what a kind of finding means, how its points are calculated, what they lead to, and who set each value."""
    from gatepost import strengths
    from gatepost.cli.printing import print_json
    from gatepost.kinds import TITLES
    from gatepost.policy.rules import RULE, rule_of, title_of

    effective = load_policies(config, data).of(parse_tenant_uid(tenant))
    policy = effective.policy
    known = [*TITLES, *policy.kinds, *(f"{RULE}{name}" for name in policy.rules)]
    if kind not in known:
        raise typer.BadParameter(f"there is no finding {kind!r}{_near(kind, known)}", param_hint="KIND")
    title, rule = TITLES.get(kind) or title_of(kind, policy), rule_of(kind, policy)
    values, calculations = _values(effective, kind), strengths.explain(kind)
    if json:
        print_json({"kind": kind, "title": title, "rule": rule, "strength": calculations, "values": values})
        return
    print(f"{kind}: {title}.")
    if own := policy.rules.get(kind.removeprefix(RULE)) if kind.startswith(RULE) else None:
        print(f"It is found where this condition holds: {own.when}")
    _print_sum(rule, calculations, policy)
    _print_values(values)


@app.command("check")
def check(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A policy file.")],
    tenant: PolicyTenantOption = None,
    config: ConfigOption = None,
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """Read a policy file and print every fault, or the values that it would change.

    The file is read as if the configuration named it: as the tenant's with --tenant, else as the deployment's.
    """
    from gatepost.cli.printing import console, print_json, rows, table
    from gatepost.settings import files
    from gatepost.settings.faults import ConfigError

    uid = parse_tenant_uid(tenant)
    try:
        named = load_policy_settings(config, data)
        below = files.load_policies(named.model_copy(update={"tenants": {}} if uid else {"file": None, "tenants": {}}))
        policies = load_policies_with(file, uid, config, data)
    except ConfigError as fault:
        if json:
            print_json({"ok": False, "faults": fault.faults})
        else:
            lines = [(each.file, str(each.line), each.key, each.sentence) for each in fault.faults]
            console().print(rows(table("file", "line", "key", "fault"), lines))
        raise typer.Exit(1) from None
    changes = _list_changes(policies.of(uid), str(file.absolute()))
    own = named.model_copy(update={"file": str(file.absolute()), "tenants": {}})
    warnings = files.find_old_policy_names(own)
    if json:
        print_json({"ok": True, "changes": changes, "warnings": warnings})
        return
    for warning in warnings:
        print(f"Warning: {warning}.")
    if changes:
        console().print(rows(table("value", "was", "becomes", "line"), [_render_change(each) for each in changes]))
    same = below.of(uid).policy == policies.of(uid).policy
    print("The file is valid. It changes nothing." if same else "The file is valid.")


def _list_changes(effective: "Effective", file: str) -> list[dict[str, Any]]:
    """Return every value that one file sets, with the value of the layer below."""
    found = []
    for place, origins in effective.stated.items():
        last = origins[-1]
        if last.file == file:
            found.append({"key": ".".join(place), "was": origins[-2].value, "becomes": last.value, "line": last.line})
    return found


def _render_change(change: dict[str, Any]) -> tuple[str, ...]:
    from gatepost.policy.layers import render_value

    return change["key"], render_value(change["was"]), render_value(change["becomes"]), str(change["line"])


def _values(effective: "Effective", kind: str) -> list[dict[str, Any]]:
    """Every value that decides what a kind does, with all that it was: the one that holds last."""
    from gatepost.policy.rules import RULE, rule_of

    rule = rule_of(kind, effective.policy)
    place = ("rules", kind.removeprefix(RULE)) if kind.startswith(RULE) else ("kinds", kind)
    fields = ("weight", "verdict", "group", "conclusive", *(("decision",) if kind.startswith(RULE) else ()))
    places: list[tuple[str, str, str]] = [(*place, field) for field in fields]
    if rule.group:
        places.append(("groups", rule.group, "cap"))
    action = [name for name in ("action", "mark", "to") if getattr(effective.policy.verdicts[rule.verdict], name)]
    places += [("verdicts", rule.verdict, field) for field in ("decision", "threshold", "own", *action)]
    return [{"key": ".".join(place), "origins": effective.origins(*place)} for place in places]


def _print_sum(rule: "KindRule", calculations: "Sequence[Calculation]", policy: "Policy") -> None:
    """Print how points come about: weight, strength with all of its numbers, cap of the group, threshold."""
    from gatepost.cli.printing import console, rows, table

    times = " × strength (0 to 1)" if calculations else ""
    print(f"It weighs {rule.weight:g} points{times} and points to {rule.verdict}.")
    if calculations:
        print(f"Strength: {calculations[0].formula}.")
        for shared in calculations[1:]:
            print(f"{shared.name}: {shared.formula}.")
        numbers = [
            (each.name, name, f"{number.value:g}", number.about)
            for each in calculations
            for name, number in each.coefficients.items()
        ]
        console().print("", rows(table("calculation", "number", "is", "what it is"), numbers), "")
    if rule.group:
        group = policy.groups[rule.group]
        print(f"With its group, {rule.group} ({group.description}), it counts at most {group.cap:g}.")
    verdict = policy.verdicts[rule.verdict]
    if rule.conclusive:
        print(f"It is conclusive: the verdict is {rule.verdict} ({verdict.decision}) without any threshold.")
    elif verdict.threshold is None:
        print(f"Only conclusive findings lead to {rule.verdict} ({verdict.decision}).")
    else:
        print(
            f"A score of {verdict.threshold:g} gives the verdict {rule.verdict} ({verdict.decision}), where at least"
            f" {verdict.own:g} of it are points of findings that point to it."
        )


def _print_values(values: list[dict[str, Any]]) -> None:
    from gatepost.cli.printing import console, rows, table
    from gatepost.policy.layers import render_value

    lines = []
    for value in values:
        *below, holds = value["origins"]
        place = f"{holds.level}, {holds.file}:{holds.line}" if holds.file else holds.level
        before = ", ".join(f"{render_value(origin.value)} ({origin.level})" for origin in reversed(below))
        lines.append((value["key"], render_value(holds.value), place, before))
    console().print("", rows(table("value", "is", "set by", "instead of"), lines))


def _near(kind: str, known: list[str]) -> str:
    import difflib

    near = difflib.get_close_matches(kind, known, 1)
    return f"; did you mean {near[0]}?" if near else ""
