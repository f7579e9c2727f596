"""`gatepost storage copy`, `gatepost backup` and `gatepost restore`. All of them work while the service runs."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from gatepost.cli.options import ConfigOption, DataOption, JsonOption, config_folder, data_folder, with_store

if TYPE_CHECKING:
    from gatepost.store.copy import Progress

T = TypeVar("T")

app = typer.Typer(help="The database.", no_args_is_help=True)

ForceOption = Annotated[bool, typer.Option("--force", help="Replace the content of the target.")]


@app.callback()
def _storage() -> None:
    """The database."""


@app.command("copy")
def copy(
    source: Annotated[
        str, typer.Option("--from", metavar="URL", help="The database to read: sqlite:FILE or postgresql://…")
    ],
    target: Annotated[
        str, typer.Option("--to", metavar="URL", help="The database to fill: postgresql://… or sqlite:FILE")
    ],
    data: DataOption = None,
    force: ForceOption = False,
    json: JsonOption = False,
) -> None:
    """Copy all data from one database to another, as one consistent snapshot."""
    import asyncio

    from gatepost.cli.printing import print_result
    from gatepost.store.copy import copy as copy_store

    folder = data_folder(data).path
    rows = _show_progress(
        "Copying", lambda progress: asyncio.run(copy_store(source, target, folder, progress, force=force))
    )
    text = f"{rows:,} rows copied. Set storage.url in guard.yml and abby.yml, then restart."
    print_result(json, {"rows": rows}, text)


def backup(
    file: Annotated[Path, typer.Argument(help="The file to write.")],
    config: ConfigOption = None,
    data: DataOption = None,
    force: ForceOption = False,
    json: JsonOption = False,
) -> None:
    """Write all data of the database to one file; the service may keep running."""
    from gatepost.cli.printing import print_result
    from gatepost.store import copy as backups
    from gatepost.store.second_factors import KEY_FILE

    url, folder = _find_storage(config, data)
    goal = file.expanduser().absolute()
    _show_progress("Backing up", lambda progress: backups.backup(url, folder, goal, progress, force=force))
    text = f"{goal} is complete. It contains addresses and subjects of mail, and hashes of passwords: protect it."
    if (folder / KEY_FILE).exists():
        text += (
            f"\nSecond factors are encrypted in it. Keep a copy of {folder / KEY_FILE} in another place: without that"
            "\nfile they cannot be checked after a restore, and each user needs a new one."
        )
    print_result(json, {"file": str(goal), "bytes": goal.stat().st_size}, text)


def restore(
    file: Annotated[Path, typer.Argument(help="A file that gatepost backup wrote.")],
    config: ConfigOption = None,
    data: DataOption = None,
    force: ForceOption = False,
    json: JsonOption = False,
) -> None:
    """Replace all data of the database by a backup; the service may keep running."""
    from gatepost.cli.printing import print_result
    from gatepost.store import copy as backups

    url, folder = _find_storage(config, data)
    taken = file.expanduser().absolute()
    _show_progress("Restoring", lambda progress: backups.restore(url, folder, taken, progress, force=force))
    count = with_store(config, data, lambda store: store.second_factors.encrypt_totp_secrets())
    text = f"Restored from {taken}."
    if count:
        text += f"\n{count} second factors of an older version are encrypted now."
    print_result(json, {"file": str(taken), "secondFactorsEncrypted": count}, text)


def _find_storage(config: Path | None, data: Path | None) -> tuple[str, Path]:
    """Return the storage URL of the configuration, and the data folder."""
    from gatepost.settings.files import load_abby

    place = data_folder(data)
    return load_abby(config_folder(config, place)).storage.url, place.path


def _show_progress(title: str, work: Callable[["Progress"], T]) -> T:
    """Do some work with a progress bar on the terminal."""
    from rich.console import Console
    from rich.progress import Progress as Bar

    console = Console(stderr=True)
    with Bar(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(title, total=None)
        return work(lambda finished, total: bar.update(task, completed=finished, total=total))
