"""`gatepost import`: take over what another filter is configured with. The commands only write files; lists, rules and
settings are put in force by the commands that do so for all others, which have dry runs and trials of their own."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from gatepost.cli.commands import Argument, Group, Option
from gatepost.cli.printing import Output, print_json, print_table, print_text
from gatepost.service.data_folder import StartError

if TYPE_CHECKING:
    from gatepost.migration.plan import ImportPlan

group = Group("Take over the configuration of another filter, as files to look at first.")

FilesArgument = Annotated[list[Path], Argument(metavar="FILE", help="The files to read, in their order.")]
OutOption = Annotated[
    Path, Option("--out", metavar="FOLDER", help="The folder to write; one that has files is refused.")
]
DEFAULT_OUT = Path("imported")
# Rows of the report that are printed; the file has all.
MAX_SHOWN = 40


@group.command("spamassassin")
def import_spamassassin(files: FilesArgument, *, out: OutOption = DEFAULT_OUT, output: Output) -> None:
    """Read local.cf and user_prefs of SpamAssassin: lists, networks, and rules over header fields.

    Nothing is changed: the folder gets a CSV for each list, a policy file with the rules, and a report of every line.
    """
    from gatepost.migration.spamassassin import read_spamassassin
    from gatepost.policy.condition_process import condition_work, find_fault

    with condition_work():
        _write(lambda: read_spamassassin(files, find_fault), out, output)


@group.command("rspamd")
def import_rspamd(
    file: Annotated[Path, Argument(metavar="FILE", help="What `rspamadm configdump --json` prints.")],
    *,
    out: OutOption = DEFAULT_OUT,
    output: Output,
) -> None:
    """Read rspamd's configuration in JSON: maps, trusted domains, own networks, DNS lists and DKIM keys.

    Nothing is changed: the folder gets a CSV for each list, a policy file with the rules, lines for guard.yml, and a
    report of every section.
    """
    from gatepost.migration.rspamd import read_rspamd
    from gatepost.policy.condition_process import condition_work, find_fault

    with condition_work():
        _write(lambda: read_rspamd(file, find_fault), out, output)


@group.command("senders")
def import_senders(
    files: FilesArgument,
    *,
    allow: Annotated[bool, Option("--allow", help="Entries that have no action of their own are allowed.")] = False,
    out: OutOption = DEFAULT_OUT,
    output: Output,
) -> None:
    """Read lists of senders: access tables of Postfix, objects of Proxmox Mail Gateway, Microsoft's CSV.

    Nothing is changed: the folder gets a CSV for each list, and a report of every line.
    """
    from gatepost.migration.sender_files import read_senders

    _write(lambda: read_senders(files, allows=allow), out, output)


def _write(read: "Callable[[], ImportPlan]", out: Path, output: Output) -> None:
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise StartError(f"{out} has files already; name another folder with --out.")
    try:
        plan = read()
        written = plan.write(out)
    except OSError as fault:
        raise StartError(f"{fault.filename or out}: {fault.strerror or fault}.") from None
    counts = plan.count()
    if output.json:
        print_json({"files": [str(each) for each in written], "outcomes": counts, "notes": plan.notes})
        return
    shown = [each for each in plan.notes if each.outcome != "taken"][:MAX_SHOWN]
    if shown:
        print_table(
            ("where", "statement", "outcome", "reason"),
            [(str(each.place), each.statement[:60], each.outcome, each.reason) for each in shown],
        )
        print()
    said = ", ".join(f"{counts[outcome]:,} {outcome}" for outcome in ("taken", "changed", "not taken"))
    print_text(f"Statements: {said}. {out / 'report.csv'} has all of them.")
    print_text(*_list_next_steps(plan, out))


def _list_next_steps(plan: "ImportPlan", out: Path) -> list[str]:
    """The commands that put in force what was written."""
    steps = []
    for name in plan.lists:
        file = out / f"{name}.csv"
        steps += [f"gatepost lists import {name} {file} --dry-run", f"gatepost lists import {name} {file}"]
    if plan.rules:
        steps += [f"gatepost policy check {out / 'policy.toml'}", f"gatepost try --policy {out / 'policy.toml'}"]
    if plan.settings:
        steps.append(f"look at {out / 'guard.yml'}, and add its lines to yours")
    if not plan.notes:
        return ["There is nothing to take."]
    if not steps:
        return ["None of it is an entry, a rule or a setting to put in force."]
    return ["Nothing is in force yet. Next:", *(f"  {each}" for each in steps)]
