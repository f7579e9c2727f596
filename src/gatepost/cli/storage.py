"""`gatepost storage copy`, `gatepost backup` and `gatepost restore`. All of them work while the service runs."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from gatepost.cli.options import ConfigOption, DataOption, config_folder, data_folder

if TYPE_CHECKING:
    from gatepost.store.copy import Progress

T = TypeVar("T")

app = typer.Typer(help="The database.", no_args_is_help=True)

ForceOption = Annotated[bool, typer.Option("--force", help="Replace what is in the target.")]


@app.callback()
def _storage() -> None:
    """The database."""


@app.command("copy")
def copy(
    source: Annotated[str, typer.Option("--from", metavar="URL", help="The storage to read: sqlite:FILE or …")],
    target: Annotated[str, typer.Option("--to", metavar="URL", help="The storage to fill: postgresql://… or …")],
    data: DataOption = None,
    force: ForceOption = False,
) -> None:
    """Copy everything that is kept from one storage to another, as of one moment."""
    import asyncio

    from gatepost.store.copy import copy as copy_store

    folder = data_folder(data).path
    rows = _shown("Copying", lambda progress: asyncio.run(copy_store(source, target, folder, progress, force=force)))
    print(f"{rows:,} rows copied. Set storage.url in guard.yml and abby.yml, then restart.")


def backup(
    file: Annotated[Path, typer.Argument(help="The file to write.")],
    config: ConfigOption = None,
    data: DataOption = None,
    force: ForceOption = False,
) -> None:
    """Write everything that is kept to one file, while the service runs."""
    from gatepost.store import copy as backups

    url, folder = _configured(config, data)
    goal = file.expanduser().absolute()
    _shown("Backing up", lambda progress: backups.backup(url, folder, goal, progress, force=force))
    print(f"{goal} is complete. It holds addresses and subjects of mail: keep it safe.")


def restore(
    file: Annotated[Path, typer.Argument(help="A file that gatepost backup wrote.")],
    config: ConfigOption = None,
    data: DataOption = None,
    force: ForceOption = False,
) -> None:
    """Put the content of a backup in the place of everything that is kept, while the service runs."""
    from gatepost.store import copy as backups

    url, folder = _configured(config, data)
    taken = file.expanduser().absolute()
    _shown("Restoring", lambda progress: backups.restore(url, folder, taken, progress, force=force))
    print(f"Restored from {taken}.")


def _configured(config: Path | None, data: Path | None) -> tuple[str, Path]:
    """The storage that the configuration names, and the data folder."""
    from gatepost.settings.files import load_abby

    place = data_folder(data)
    return load_abby(config_folder(config, place)).storage.url, place.path


def _shown(title: str, work: Callable[["Progress"], T]) -> T:
    """Do it, with a bar on the terminal."""
    from rich.console import Console
    from rich.progress import Progress as Bar

    console = Console(stderr=True)
    with Bar(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(title, total=None)
        return work(lambda finished, total: bar.update(task, completed=finished, total=total))
