"""`gatepost policy` and `gatepost plugins`: what findings weigh and who set that, and packages with further checks."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from gatepost.cli.commands import Argument, BadParameter, Group, Option
from gatepost.cli.deployment import Deployment, PolicyTenantOption, parse_tenant_uid
from gatepost.cli.printing import Output, print_json, print_table
from gatepost.ids import new_id
from gatepost.service.data_folder import StartError

if TYPE_CHECKING:
    from gatepost.findings.strengths import Calculation
    from gatepost.policy.layers import Effective, Origin
    from gatepost.policy.rules import KindRule, Policy


group = Group("Show, check and try policies: weights of findings, and decisions for verdicts.")

OutboundOption = Annotated[bool, Option("--outbound", help="The policy of outbound mail.")]


@group.command("show")
def show(
    *, tenant: PolicyTenantOption = None, outbound: OutboundOption = False, place: Deployment, output: Output
) -> None:
    """Print the policy in force: verdicts with their thresholds, every group and every kind of finding.

    The last column says where a row differs from the shipped policy.
    """
    from gatepost.policy.rules import RULE, describe_rule_action

    effective = place.load_policies().of(parse_tenant_uid(tenant), outbound=outbound)
    policy, changes = effective.policy, effective.policy.changes
    if output.json:
        print_json(policy)
        return
    verdicts = [
        (name, rule.decision, "conclusive only" if rule.threshold is None else f"{rule.threshold:g}", f"{rule.own:g}",
         describe_rule_action(rule), changes.get(f"verdicts.{name}", ""))
        for name, rule in policy.verdicts.items()
    ]  # fmt: skip
    print_table(("verdict", "decision", "threshold", "own points", "action", "changed"), verdicts)
    print()
    groups = [
        (name, f"{group.cap:g}", group.description, changes.get(f"groups.{name}", ""))
        for name, group in policy.groups.items()
    ]
    print_table(("group", "cap", "what counts together", "changed"), groups)
    print()
    kinds = [
        (kind, f"{rule.weight:g}", rule.verdict, rule.group, "yes" if rule.conclusive else "",
         changes.get(f"kinds.{kind}", ""))
        for kind, rule in policy.kinds.items()
    ]  # fmt: skip
    print_table(("finding", "weight", "points to", "group", "conclusive", "changed"), kinds)
    own = [
        (f"{RULE}{name}", f"{rule.weight:g}", rule.verdict, rule.group, "yes" if rule.conclusive else "", rule.when)
        for name, rule in policy.rules.items()
    ]
    if own:
        print()
        print_table(("rule", "weight", "points to", "group", "conclusive", "condition"), own)


@group.command("rules")
def show_rules(*, tenant: PolicyTenantOption = None, place: Deployment, output: Output) -> None:
    """Print the rules of your own that are in force, in their order: those of policy files, and those of the web
    interface, which are in storage."""
    from gatepost.rejudge.policies_in_force import with_stored_rules

    files = place.load_policies()
    effective = place.with_store(lambda store: with_stored_rules(files, store.own_rules)).of(parse_tenant_uid(tenant))
    found = [
        (name, rule, effective.origins("rules", name, "when")[-1]) for name, rule in effective.policy.rules.items()
    ]
    if output.json:
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
        print_table(("rule", "points to", "weight", "from", "condition"), lines)
    else:
        print("There are no rules.")


@group.command("explain")
def explain(
    kind: Annotated[str, Argument(help="A tag, such as auth:dmarc-fail.")],
    *,
    tenant: PolicyTenantOption = None,
    place: Deployment,
    output: Output,
) -> None:
    """Say what a kind of finding means, how its points are calculated, what they lead to, and who set each value."""
    from gatepost.policy.rules import RULE, collect_titles, rule_of, title_of

    effective = place.load_policies().of(parse_tenant_uid(tenant))
    policy = effective.policy
    known = [*collect_titles(policy), *policy.kinds, *(f"{RULE}{name}" for name in policy.rules)]
    if kind not in known:
        raise BadParameter(f"there is no finding {kind!r}{_near(kind, known)}", "KIND")
    title, rule = title_of(kind, policy), rule_of(kind, policy)
    values, calculations = effective.explain(kind), _explain_strength(kind, policy)
    if output.json:
        described = [{"key": key, "origins": origins} for key, origins in values]
        print_json({"kind": kind, "title": title, "rule": rule, "strength": calculations, "values": described})
        return
    print(f"{kind}: {title}.")
    if own := policy.rules.get(kind.removeprefix(RULE)) if kind.startswith(RULE) else None:
        print(f"It is found where this condition holds: {own.when}")
    _print_sum(rule, calculations, policy)
    _print_values(values)


@group.command("check")
def check(
    file: Annotated[Path, Argument(metavar="FILE", help="A policy file.")],
    *,
    tenant: PolicyTenantOption = None,
    place: Deployment,
    output: Output,
) -> None:
    """Read a policy file and print every fault, or the values that it would change.

    The file is read as if the configuration named it: as the tenant's with --tenant, else as the deployment's.
    """
    from gatepost.settings import files
    from gatepost.settings.faults import ConfigError

    uid = parse_tenant_uid(tenant)
    try:
        named, plugins = place.load_policy_settings()
        changed: dict[str, Any] = {"tenants": {}} if uid else {"file": None, "tenants": {}}
        below = files.load_policies(named.model_copy(update=changed), plugins)
        policies = place.load_policies_with(file, uid)
    except ConfigError as fault:
        lines = [(each.file, str(each.line or ""), each.key, each.sentence) for each in fault.faults]
        output.show_table({"ok": False, "faults": fault.faults}, ("file", "line", "key", "fault"), lines)
        raise SystemExit(1) from None
    changes = _list_changes(policies.of(uid), str(file.absolute()))
    own = named.model_copy(update={"file": str(file.absolute()), "tenants": {}})
    warnings = files.find_old_policy_names(own)
    if output.json:
        print_json({"ok": True, "changes": changes, "warnings": warnings})
        return
    for warning in warnings:
        print(f"Warning: {warning}.")
    if changes:
        print_table(("value", "was", "becomes", "line"), [_render_change(each) for each in changes])
    same = below.of(uid).policy == policies.of(uid).policy
    print("The file is valid. It changes nothing." if same else "The file is valid.")


def _explain_strength(kind: str, policy: "Policy") -> "Sequence[Calculation]":
    """Return the calculation of a kind's strength, from the shipped file or from that of its plug-in."""
    from gatepost.findings import strengths
    from gatepost.plugins import find_plugin

    plugin = next((each.plugin for each in policy.added if kind in each.kinds), "")
    return strengths.explain(kind, find_plugin(plugin).strengths if plugin else None)


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


def _print_sum(rule: "KindRule", calculations: "Sequence[Calculation]", policy: "Policy") -> None:
    """Print how points come about: weight, strength with all of its numbers, cap of the group, threshold."""

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
        print()
        print_table(("calculation", "number", "is", "what it is"), numbers)
        print()
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


def _print_values(values: "list[tuple[str, tuple[Origin, ...]]]") -> None:
    from gatepost.policy.layers import render_value

    lines = []
    for key, origins in values:
        *below, holds = origins
        place = f"{holds.level}, {holds.file}:{holds.line}" if holds.file else holds.level
        before = ", ".join(f"{render_value(origin.value)} ({origin.level})" for origin in reversed(below))
        lines.append((key, render_value(holds.value), place, before))
    print()
    print_table(("value", "is", "set by", "instead of"), lines)


# So many kinds of an area are named to somebody who has misspelt one of them.
_NAMED = 8
_ALIKE = 0.75


def _near(kind: str, known: list[str]) -> str:
    """Return the end of a sentence: a kind of the same area that is spelt alike, or else what the area has.

    The part before the colon is no similarity: all kinds of the area share it.
    """
    import difflib

    area, colon, name = kind.partition(":")
    siblings = sorted({each.partition(":")[2] for each in known if each.startswith(f"{area}:")}) if colon else []
    if near := difflib.get_close_matches(name, siblings, 1, _ALIKE):
        return f"; did you mean {area}:{near[0]}?"
    if siblings:
        more = f" and {len(siblings) - _NAMED} more" if len(siblings) > _NAMED else ""
        return f"; {area}: has {', '.join(siblings[:_NAMED])}{more}"
    near = difflib.get_close_matches(kind, known, 1, _ALIKE)
    near = near or [each for each in known if each.partition(":")[2] == kind][:1]
    return f"; did you mean {near[0]}?" if near else "; gatepost policy show names all"


plugins = Group("List and test plug-ins, which are packages with further checks.")


class _InstalledPlugin(msgspec.Struct, frozen=True):
    """A plug-in that is installed; `about` is what is wrong with it where something is."""

    name: str
    version: str
    enabled: bool
    kinds: list[str]
    about: str


class _GoldenMessage(msgspec.Struct, frozen=True):
    """A golden message: the tags of its plug-in that it got, and whether these are what it should get."""

    message: str
    tags: list[str]
    passed: bool


@plugins.command("list")
def list_plugins(*, place: Deployment, output: Output) -> None:
    """Print every installed plug-in, whether the configuration enables it, and what it finds."""
    from gatepost.plugins import PluginError, find_plugin, list_installed

    enabled = {stated.partition("==")[0] for stated in place.load_policy_settings()[1]}
    found = []
    for name in list_installed():
        try:
            plugin = find_plugin(name)
        except PluginError as fault:
            found.append(_InstalledPlugin(name, "", name in enabled, [], str(fault)))
        else:
            found.append(_InstalledPlugin(name, plugin.version, name in enabled, list(plugin.kinds), plugin.about))
    if not found and not output.json:
        print("There are no plug-ins.")
        return
    lines = [
        (each.name, each.version, "yes" if each.enabled else "", ", ".join(each.kinds), each.about) for each in found
    ]
    output.show_table(found, ("plug-in", "version", "enabled", "finds", "about"), lines)


@plugins.command("test")
def try_golden_messages(
    name: Annotated[str, Argument(metavar="NAME", help="The name of an installed plug-in.")], *, output: Output
) -> None:
    """Load a plug-in as the service would, and analyse its golden messages in a sealed worker.

    A message in `golden/attacks` must get the tag of the plug-in that it is named by, and a message in `golden/twins`
    must get none of its tags. No configuration is read, and no name server is asked.
    """
    from gatepost.plugins import PluginError, find_plugin

    try:
        plugin = find_plugin(name)
    except PluginError as fault:
        raise StartError(f"{fault}.") from None
    wanted = {path: {f"{plugin.namespace}:{path.stem}"} for path in plugin.golden("attacks")}
    wanted |= {path: set[str]() for path in plugin.golden("twins")}
    got = _analyse(name, list(wanted))
    found = []
    for path, tags in wanted.items():
        own = sorted(tag for tag in got[path] if tag in plugin.kinds)
        passed = tags <= set(own) if tags else not own
        found.append(_GoldenMessage(f"{path.parent.name}/{path.name}", own, passed))
    lines = [(each.message, ", ".join(each.tags), "yes" if each.passed else "no") for each in found]
    output.show_table(found, ("message", "its tags", "as wanted"), lines)
    if not all(each.passed for each in found):
        raise SystemExit(1)


def _analyse(name: str, paths: list[Path]) -> dict[Path, tuple[str, ...]]:
    import asyncio
    import time

    from gatepost.cli.sealed_analysis import answer_offline, open_analyser
    from gatepost.mail.message import Envelope
    from gatepost.settings.files import load_policies
    from gatepost.settings.keys import GuardSettings, PolicySettings

    settings, policies = GuardSettings(plugins=[name]), load_policies(PolicySettings(), [name])
    with (
        asyncio.Runner() as runner,
        open_analyser(runner, settings, policies.deployment.policy, answer_offline) as analyser,
    ):
        return {path: analyser.analyse(path.read_bytes(), new_id(), Envelope(), time.time()).tags for path in paths}
