"""`gatepost doctor`, `upgrade`, `storage`, `secrets`, `backup` and `restore`: examine an installation, keep its data.

All of them but `storage copy` work while the service runs.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

from gatepost.cli.commands import Argument, Group, Option
from gatepost.cli.deployment import DataOption, Deployment, YesOption, announce
from gatepost.cli.printing import Output, ProgressBar

if TYPE_CHECKING:
    from gatepost.service.data_folder import DataFolder
    from gatepost.service.doctor.rows import DoctorRow
    from gatepost.store.copy import BackupProof
    from gatepost.store.store import Store
    from gatepost.store.upgrading import Progress

T = TypeVar("T")

storage = Group("Copy all data to another database.")
upgrade = Group("Check and run the upgrade of an installation to this version.")
secrets = Group("Count the secrets in the database, and replace the key that encrypts them.")

ForceOption = Annotated[bool, Option("--force", help="Replace the content of the target.")]
_STYLES = {"ok": "green", "warn": "yellow", "fail": "bold red"}


def doctor(*, place: Deployment, output: Output) -> None:
    """Check configuration, storage, DNS, workers, certificates and the mail path.

    Exits with 1 if a check fails.
    """
    from gatepost.process import logs
    from gatepost.service.doctor.examination import examine

    place.check_target()
    # The checks may log; standard output is for the table or for JSON only.
    logs.configure("error")
    _show_rows(examine(place.folder_in_force, place.data_folder), output)


@upgrade.command("check")
def check_upgrade(*, place: Deployment, output: Output) -> None:
    """Compare an installation with this version before its first start: configuration, database, space.

    Changes nothing, and works while the old version runs. Exits with 1 if this version could not start.
    """
    from gatepost.service.doctor.examination import examine_upgrade

    _show_rows(examine_upgrade(place.folder_in_force, place.data_folder), output)


@upgrade.command("run")
def run_upgrade(*, yes: YesOption = False, place: Deployment, output: Output) -> None:
    """Bring the database to this version now, instead of at the first start of the service.

    The database is as before until all of it is done: a run that is killed can be repeated.
    """
    from gatepost.service.data_folder import StartError
    from gatepost.store import name_storage, read_schema_state, upgrade_storage

    url, data = place.find_storage(), place.data_folder
    before = read_schema_state(url, data.path)
    running = [service for service in ("guard", "abby") if data.is_locked(service)]
    if running and before.needs_upgrade and not before.is_additive:
        raise StartError(f"{' and '.join(running)} run on {data.path}: stop all services that use this database first.")
    if before.needs_upgrade:
        deed = f"Upgrades {name_storage(url, data.path)} from schema {before.present} to this version"
        announce(f"{deed}." if before.is_additive else f"{deed}; an older one cannot use it afterwards.", yes=yes)
    upgrade_storage(url, data.path)
    after = read_schema_state(url, data.path).present
    text = f"The database has schema {after}" + (f"; it had {before.present}." if before.needs_upgrade else " already.")
    output.show({"before": before.present, "schema": after}, text)


def _show_rows(found: "tuple[DoctorRow, ...]", output: Output) -> None:
    """Print what was examined, and exit with 1 if something of it fails."""
    lines = [(row.what, row.state, row.found, row.advice) for row in found]
    output.show_table(found, ("check", "state", "found", "what to do"), lines, styles=_STYLES)
    if any(row.state == "fail" for row in found):
        raise SystemExit(1)


@storage.command("copy")
def copy_storage(
    *,
    source: Annotated[str, Option("--from", metavar="URL", help="The database to read: sqlite:FILE or postgresql://…")],
    target: Annotated[str, Option("--to", metavar="URL", help="The database to fill: postgresql://… or sqlite:FILE")],
    data: DataOption = None,
    force: ForceOption = False,
    yes: YesOption = False,
    output: Output,
) -> None:
    """Copy all data from one database to another, as one consistent snapshot.

    Stop the service first: what it writes after the snapshot would be missing in the target.
    """
    import asyncio

    from gatepost.store import name_storage
    from gatepost.store.copy import copy

    place = Deployment(data=data).data_folder
    folder = place.path
    with _keep_services_away(place, source, target):
        deed = f"Copies {name_storage(source, folder)} to {name_storage(target, folder)}"
        announce(f"{deed}, and replaces all that is there." if force else f"{deed}.", yes=yes or not force)
        rows = show_progress("Copying", lambda bar: asyncio.run(copy(source, target, folder, bar, force=force)))
    text = f"{rows:,} rows copied. Set storage.url in guard.yml and abby.yml, then restart."
    output.show({"rows": rows}, text)


def backup(
    file: Annotated[Path, Argument(help="The file to write.")],
    *,
    verify: Annotated[
        bool,
        Option("--verify", help="Prove the file by restoring it elsewhere. A file that exists is proven as it is."),
    ] = False,
    place: Deployment,
    force: ForceOption = False,
    output: Output,
) -> None:
    """Write all data of the database to one file; the service may keep running.

    With --verify, the file is then restored into a database of its own beside it, which is examined and deleted again:
    the database of the service is not touched.
    """
    from gatepost.store import copy, name_storage
    from gatepost.store.sealed_secrets import KEY_FILE

    url, folder = place.find_storage(), place.data_folder.path
    goal = file.expanduser().absolute()
    if not (verify and goal.exists() and not force):
        announce(f"Backs up {name_storage(url, folder)} to {goal}.", yes=True)
        show_progress("Backing up", lambda progress: copy.backup(url, folder, goal, progress, force=force))
    if verify:
        _show_proof(show_progress("Proving", lambda progress: copy.prove(goal, folder, progress)), goal, output)
        return
    text = f"{goal} is complete. It contains addresses and subjects of mail, and hashes of passwords: protect it."
    if (folder / KEY_FILE).exists():
        text += (
            f"\nSecond factors, keys of digests and secrets of alerts are encrypted in it. Keep a copy of"
            f"\n{folder / KEY_FILE} in another place: who has both can read them, and without that file nobody can."
        )
    output.show({"file": str(goal), "bytes": goal.stat().st_size}, text)


def restore(
    file: Annotated[Path, Argument(help="A file that gatepost backup wrote.")],
    *,
    to: Annotated[
        str | None,
        Option("--to", metavar="URL", help="Another database than that of storage.url: sqlite:FILE or postgresql://…"),
    ] = None,
    place: Deployment,
    force: ForceOption = False,
    yes: YesOption = False,
    output: Output,
) -> None:
    """Replace all data of the database by a backup; the service may keep running."""
    from gatepost.store import copy, name_storage

    taken = file.expanduser().absolute()
    copy.check_backup(taken)
    folder = place.data_folder.path
    url = to or place.find_storage()
    target = name_storage(url, folder)
    deed = f"Restores {taken} into {target}"
    announce(f"{deed}, and replaces all that is there." if force else f"{deed}.", yes=yes or not force)
    show_progress("Restoring", lambda progress: copy.restore(url, folder, taken, progress, force=force))

    async def seal(store: "Store") -> tuple[int, int]:
        return await store.secrets.seal_clear(every=False), await store.secrets.seal_clear()

    factors, others = place.with_store(seal, url=url)
    text = f"Restored {target} from {taken}."
    if factors + others:
        text += f"\n{factors + others} secrets of an older version are encrypted now."
    sealed = {"secondFactorsEncrypted": factors, "secretsEncrypted": factors + others}
    output.show({"file": str(taken), "target": target, **sealed}, text)


@secrets.command("list")
def list_secrets(*, place: Deployment, output: Output) -> None:
    """Count the secrets in the database: second factors, keys of digests, addresses and secrets of alerts."""
    found = place.with_store(lambda store: store.secrets.count())
    rows = (
        ("in clear", found.clear),
        ("encrypted with the key in use", found.current),
        ("encrypted with an earlier key of the file", found.earlier),
        ("encrypted with a key that is not here", found.lost),
    )
    output.show_table(found, ("secrets", "number"), [(what, str(number)) for what, number in rows])


@secrets.command("rotate")
def rotate_secrets(
    *,
    given: Annotated[
        bool, Option("--given-key", help="Use the first key of secrets.key, which you have put there.")
    ] = False,
    forget: Annotated[
        bool, Option("--forget", help="Keep no earlier key: backups from before lose their secrets.")
    ] = False,
    lost: Annotated[
        bool, Option("--lost", help="The key is lost: delete what cannot be read any more, except second factors.")
    ] = False,
    yes: YesOption = False,
    place: Deployment,
    output: Output,
) -> None:
    """Make a new key in secrets.key, and encrypt all secrets in the database with it.

    Copy the file to every machine that uses the database. Works while the service runs.
    """
    from gatepost.store.sealed_secrets import KEY_FILE

    if lost:
        place.announce("Deletes the secrets that no key here can read, except second factors, from", yes=yes)
    if forget:
        place.announce(f"Deletes the earlier keys in {place.data_folder.path / KEY_FILE}, after encrypting", yes=yes)
    count = place.with_store(lambda store: store.secrets.rotate(place.actor, given=given, forget=forget, lost=lost))
    file = place.data_folder.path / KEY_FILE
    text = f"{count} secrets are encrypted with the first key in {file}. Every machine that uses the database needs it."
    output.show({"secrets": count, "file": str(file)}, text)


def _show_proof(proof: "BackupProof", file: Path, output: Output) -> None:
    """Print what a trial restore of a backup has shown."""
    from gatepost.store.sealed_secrets import KEY_FILE

    text = f"{file} was restored and has {proof.rows:,} rows in {proof.tables} tables, all equal to those in the file."
    if proof.lost_secrets:
        text += f"\n{proof.lost_secrets} secrets in it cannot be read with the keys in {KEY_FILE} of the data folder."
    output.show(
        {"file": str(file), "rows": proof.rows, "tables": proof.tables, "lostSecrets": proof.lost_secrets}, text
    )


@contextmanager
def _keep_services_away(place: "DataFolder", *urls: str) -> Iterator[None]:
    """Refuse to go on beside a running service, and keep services from starting meanwhile."""
    from gatepost.service.data_folder import DataFolder, StartError
    from gatepost.store import sqlite_file_of

    files = [file.resolve().parent for url in urls if (file := sqlite_file_of(url, place.path))]
    for folder in dict.fromkeys((place.path, *files)):
        running = [service for service in ("guard", "abby") if DataFolder(folder).is_locked(service)]
        if running:
            raise StartError(
                f"{' and '.join(running)} run on {folder}: what they write after the copy would be lost. Stop every"
                " service that uses this database, copy, set storage.url, then start them again."
            )
    with place.lock("guard", "abby") if place.path.is_dir() else nullcontext():
        yield


def show_progress(title: str, work: Callable[["Progress"], T]) -> T:
    """Do some work with a progress bar on the terminal."""
    with ProgressBar(title) as bar:
        return work(bar.update)
