"""`gatepost config check`: every fault of both files, or what they set."""

from typing import Any

import typer

from gatepost.cli.places import ConfigOption, DataOption, JsonOption, config_folder, data_folder

app = typer.Typer(help="The configuration files.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """The configuration files."""


@app.command("check")
def check(config: ConfigOption = None, data: DataOption = None, json: JsonOption = False) -> None:
    """Read both files; print every fault, or the values that differ from their defaults."""
    from gatepost.config import ConfigError, load
    from gatepost.config.inforce import differing

    folder = config_folder(config, data_folder(data))
    try:
        read = load(folder)
    except ConfigError as fault:
        _print_faults(fault, json)
        raise typer.Exit(1) from None
    _print_values({"guard.yml": differing(read.guard), "abby.yml": differing(read.abby)}, json)


def _print_faults(fault: Any, json: bool) -> None:
    from gatepost.cli.printing import console, print_json, rows, table

    if json:
        print_json({"ok": False, "faults": fault.faults})
        return
    made = table("file", "line", "key", "fault")
    console().print(rows(made, [(each.file, str(each.line), each.key, each.sentence) for each in fault.faults]))


def _print_values(values: dict[str, dict[str, Any]], json: bool) -> None:
    from gatepost.cli.printing import console, print_json, rows, table

    if json:
        print_json({"ok": True, "values": values})
        return
    out = console()
    out.print("Both files are fine. What differs from the defaults:")
    lines = [(file, key, str(value)) for file, settings in values.items() for key, value in settings.items()]
    out.print(rows(table("file", "key", "value"), lines))
