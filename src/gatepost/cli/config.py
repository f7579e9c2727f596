"""`gatepost config`: the check of both files, and the commands of published versions."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from gatepost.cli import publishing
from gatepost.cli.options import ConfigOption, DataOption, JsonOption, config_folder, data_folder

if TYPE_CHECKING:
    from gatepost.settings.faults import Fault

app = typer.Typer(help="The configuration files.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """The configuration files."""


@app.command("check")
def check(config: ConfigOption = None, data: DataOption = None, json: JsonOption = False) -> None:
    """Read both files; print every fault, or the values that differ from their defaults."""
    from gatepost.service.reloading import describe_running
    from gatepost.settings.faults import ConfigError
    from gatepost.settings.files import find_warnings

    folder = config_folder(config, data_folder(data))
    try:
        values = _differing_values(folder)
    except ConfigError as fault:
        _print_faults(fault, describe_running(data_folder(data)), json)
        raise typer.Exit(1) from None
    _print_values(values, find_warnings(folder), describe_running(data_folder(data)), json)


app.command("publish")(publishing.publish)
app.command("history")(publishing.history)
app.command("diff")(publishing.diff)
app.command("show")(publishing.show)
app.command("rollback")(publishing.rollback)


def _differing_values(folder: Path) -> dict[str, dict[str, Any]]:
    """Return the values that differ from the defaults, by file; a machine with one service has only its file."""
    from gatepost.service.publishing import check_files
    from gatepost.settings.files import ABBY_FILE, GUARD_FILE, load, load_abby, load_guard
    from gatepost.settings.in_force import differing_settings

    check_files(folder)
    if (folder / GUARD_FILE).exists() == (folder / ABBY_FILE).exists():
        both = load(folder, certificates=True)
        return {GUARD_FILE.name: differing_settings(both.guard), ABBY_FILE.name: differing_settings(both.abby)}
    if (folder / GUARD_FILE).exists():
        return {GUARD_FILE.name: differing_settings(load_guard(folder, certificates=True))}
    return {ABBY_FILE.name: differing_settings(load_abby(folder, certificates=True))}


def _print_faults(fault: Any, running: list[str], json: bool) -> None:
    from gatepost.cli.printing import console, print_json, rows, safe, table

    if json:
        print_json({"ok": False, "faults": fault.faults, "running": running})
        return
    made = table("file", "line", "key", "fault")
    console().print(rows(made, [(each.file, str(each.line), each.key, each.sentence) for each in fault.faults]))
    for line in running:
        console().print(safe(f"Note: {line}."))


def _print_values(values: dict[str, dict[str, Any]], warnings: "list[Fault]", running: list[str], json: bool) -> None:
    from gatepost.cli.printing import console, print_json, rows, safe, table

    if json:
        print_json({"ok": True, "values": values, "warnings": warnings, "running": running})
        return
    out = console()
    for warning in warnings:
        out.print(safe(f"Warning: {warning}."))
    for line in running:
        out.print(safe(f"Note: {line}."))
    fine = "Both files are valid." if len(values) > 1 else f"{next(iter(values))} is valid; the other file is not here."
    out.print(f"{fine} Values that differ from the defaults:")
    lines = [(file, key, str(value)) for file, settings in values.items() for key, value in settings.items()]
    out.print(rows(table("file", "key", "value"), lines))
