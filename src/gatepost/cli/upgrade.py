"""`gatepost upgrade check`: what the first start of this version will do to an installation."""

import typer

from gatepost.cli.options import ConfigOption, DataOption, JsonOption, config_folder, data_folder

app = typer.Typer(help="Upgrades of Gatepost.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """Upgrades of Gatepost."""


@app.command("check")
def check(config: ConfigOption = None, data: DataOption = None, json: JsonOption = False) -> None:
    """Compare an installation with this version before its first start: configuration, database, space.

    Changes nothing, and works while the old version runs. Exits with 1 if this version could not start.
    """
    from gatepost.cli.doctor import print_rows
    from gatepost.cli.printing import print_json
    from gatepost.service.upgrade import examine_upgrade

    place = data_folder(data)
    found = examine_upgrade(config_folder(config, place), place)
    if json:
        print_json(found)
    else:
        print_rows(found)
    if any(row.state == "fail" for row in found):
        raise typer.Exit(1)
