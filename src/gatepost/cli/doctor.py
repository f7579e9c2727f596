"""`gatepost doctor`: check configuration, storage, DNS, workers, certificates and the mail path."""

from typing import TYPE_CHECKING

import typer

from gatepost.cli.options import ConfigOption, DataOption, JsonOption, config_folder, data_folder

if TYPE_CHECKING:
    from gatepost.service.doctor.rows import DoctorRow


_STYLES = {"ok": "green", "warn": "yellow", "fail": "bold red"}


def doctor(config: ConfigOption = None, data: DataOption = None, json: JsonOption = False) -> None:
    """Check configuration, storage, DNS, workers, certificates and the mail path.

    Exits with 1 if a check fails.
    """
    from gatepost import logs
    from gatepost.cli.printing import print_json
    from gatepost.service.doctor.examination import examine
    from gatepost.settings.keys import LogSettings

    # The checks may log; standard output is for the table or for JSON only.
    logs.configure(LogSettings(level="error"))
    place = data_folder(data)
    found = examine(config_folder(config, place), place)
    if json:
        print_json(found)
    else:
        print_rows(found)
    if any(row.state == "fail" for row in found):
        raise typer.Exit(1)


def print_rows(found: "tuple[DoctorRow, ...]") -> None:
    """Print rows as a table."""
    from rich.text import Text

    from gatepost.cli.printing import console, safe, table

    made = table("check", "state", "found", "what to do")
    for row in found:
        made.add_row(row.what, Text(row.state, _STYLES[row.state]), safe(row.found), safe(row.advice))
    console().print(made)
