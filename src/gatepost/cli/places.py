"""`--config` and `--data`, the same on every command, and what they mean where they are left out."""

import os
from pathlib import Path
from typing import Annotated

import typer

from gatepost.service.datafolder import DataFolder

ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="DIR",
        envvar="GATEPOST_CONFIG",
        help="Folder with guard/core/guard.yml and abby/abby/abby.yml; the data folder if not given.",
        show_default=False,
    ),
]
DataOption = Annotated[
    Path | None,
    typer.Option(
        "--data",
        metavar="DIR",
        envvar="GATEPOST_DATA",
        help="Folder for everything that is kept; ~/.local/share/gatepost if not given.",
        show_default=False,
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]


def data_folder(option: Path | None) -> DataFolder:
    """The data folder that is meant, absolute."""
    if option is None:
        home = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
        option = Path(home) / "gatepost"
    return DataFolder(option.expanduser().absolute())


def config_folder(option: Path | None, data: DataFolder) -> Path:
    """The folder of the configuration that is meant, absolute."""
    return option.expanduser().absolute() if option else data.path
