"""`gatepost policy`: what each finding weighs and what a verdict leads to."""

from typing import Annotated

import typer

from gatepost.cli import replays
from gatepost.cli.places import JsonOption

app = typer.Typer(help="What findings weigh and what verdicts lead to.", no_args_is_help=True)
app.command("try")(replays.try_policy)


@app.command("show")
def show(json: JsonOption = False) -> None:
    """Print the policy in force: verdicts with their thresholds, and every kind of finding."""
    from gatepost.cli.printing import console, print_json, rows, table
    from gatepost.policy import shipped

    policy = shipped()
    if json:
        print_json(policy)
        return
    out = console()
    verdicts = [
        (name, rule.decision, "conclusive only" if rule.threshold is None else f"{rule.threshold:g}", f"{rule.own:g}")
        for name, rule in policy.verdicts.items()
    ]
    out.print(rows(table("verdict", "decision", "threshold", "own points"), verdicts), "")
    kinds = [
        (kind, f"{rule.weight:g}", rule.verdict, rule.group, "yes" if rule.conclusive else "")
        for kind, rule in policy.kinds.items()
    ]
    out.print(rows(table("finding", "weight", "speaks for", "group", "conclusive"), kinds))


@app.command("explain")
def explain(
    kind: Annotated[str, typer.Argument(help="A tag, such as auth:dmarc-fail.")], json: JsonOption = False
) -> None:
    """Say what a kind of finding means and what it does to a message."""
    from gatepost.checks import TITLES
    from gatepost.cli.printing import print_json
    from gatepost.policy import shipped

    policy = shipped()
    if kind not in TITLES:
        raise typer.BadParameter(f"there is no finding {kind!r}{_near(kind, list(TITLES))}", param_hint="KIND")
    rule = policy.kinds.get(kind)
    if json:
        print_json({"kind": kind, "title": TITLES[kind], "rule": rule})
        return
    print(f"{kind}: {TITLES[kind]}.")
    if rule is None:
        print("The policy gives it no weight: it is only a tag.")
        return
    print(f"It weighs {rule.weight:g} points and speaks for {rule.verdict} ({policy.verdicts[rule.verdict].decision}).")
    if rule.conclusive:
        print("It is conclusive: it needs no threshold.")
    if rule.group:
        group = policy.groups[rule.group]
        print(f"With its group, {rule.group} ({group.description}), it counts at most {group.cap:g}.")


def _near(kind: str, known: list[str]) -> str:
    import difflib

    near = difflib.get_close_matches(kind, known, 1)
    return f"; did you mean {near[0]}?" if near else ""
