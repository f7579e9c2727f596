"""What the first start of this version will do to an installation, found without changing anything.

`gatepost doctor` opens the storage, and opening it upgrades it. These checks run before that, with the new program on
the data of the old one, while the old one may still be running.
"""

import shutil
from pathlib import Path

from gatepost import __version__
from gatepost.service.data_folder import DataFolder
from gatepost.service.doctor.rows import DoctorRow, read_files
from gatepost.settings.faults import ConfigError
from gatepost.settings.files import find_old_names
from gatepost.settings.values import hide_credentials
from gatepost.store import read_schema_state
from gatepost.store.errors import StorageError
from gatepost.store.upgrading import SchemaState

# An upgrade is one transaction: what it writes is beside the old data until it is complete, and at most as large.
ROOM = 2
_MEGABYTE = 1_000_000


def examine_upgrade(config: Path, data: DataFolder) -> tuple[DoctorRow, ...]:
    """Compare an installation with this version, and return a row for each thing that was compared."""
    try:
        files = read_files(config)
    except ConfigError as fault:
        return (_describe_version(), *(_describe_fault(each) for each in fault.faults))
    rows = [_describe_version(), _check_old_names(config)]
    try:
        state = read_schema_state(files.storage, data.path)
    except StorageError as fault:
        return (*rows, DoctorRow("database", "fail", str(fault), "correct storage.url, or make the database available"))
    rows.append(_check_schema(state, files.storage))
    if state.present and not state.is_newer:
        rows.append(_check_room(state, files.storage, data))
        rows.append(_advise_backup(state))
    rows.append(_check_running(data))
    return tuple(rows)


def _describe_version() -> DoctorRow:
    return DoctorRow("version", "ok", f"this is gatepost {__version__}")


def _describe_fault(fault: object) -> DoctorRow:
    advice = "correct the file: this version does not start with it"
    return DoctorRow("configuration", "fail", str(fault), advice)


def _check_old_names(config: Path) -> DoctorRow:
    """Keys that this version still reads under an old name."""
    if old := find_old_names(config):
        advice = "rename them; a later version may no longer read the old names"
        return DoctorRow("configuration", "warn", "; ".join(map(str, old)), advice)
    return DoctorRow("configuration", "ok", f"every key of {config} is known")


def _check_schema(state: SchemaState, url: str) -> DoctorRow:
    place = hide_credentials(url)
    if state.is_newer:
        found = f"{place} has schema {state.present}; this version knows {state.newest}"
        return DoctorRow("database", "fail", found, "use the newer Gatepost, or restore the backup made before it")
    if not state.present:
        return DoctorRow("database", "ok", f"{place} has no data yet; the first start makes schema {state.newest}")
    found = f"{place} has schema {state.present} of {state.newest}"
    if not state.needs_upgrade:
        newer = "; a newer version has added to it" if state.present > state.newest else ""
        return DoctorRow("database", "ok", f"{found}{newer}; nothing to upgrade")
    if state.present == state.newest:
        found += "; list entries are brought to new normal forms"
    if state.is_additive:
        advice = "the first start upgrades it; services of the version that runs now go on, and can be started again"
        return DoctorRow("database", "ok", f"{found}; the upgrade only adds", advice)
    advice = "the first start upgrades it; older versions cannot open it afterwards"
    return DoctorRow("database", "warn", found, advice)


def _check_room(state: SchemaState, url: str, data: DataFolder) -> DoctorRow:
    size = f"{state.size / _MEGABYTE:,.1f} MB"
    if not state.needs_upgrade:
        return DoctorRow("space", "ok", f"the database has {size}; nothing is upgraded")
    if not url.startswith("sqlite:"):
        found = f"the database has {size}; the disk of its server is not visible from here"
        return DoctorRow("space", "warn", found, f"make sure that the server has {ROOM} times that size free")
    free = shutil.disk_usage((data.path / url.removeprefix("sqlite:")).parent).free
    found = f"the database has {size}, and {free / _MEGABYTE:,.0f} MB are free on its disk"
    if free < ROOM * state.size:
        advice = f"free {ROOM} times the size of the database: the upgrade is written beside the old data"
        return DoctorRow("space", "fail", found, advice)
    return DoctorRow("space", "ok", found)


def _advise_backup(state: SchemaState) -> DoctorRow:
    advice = (
        "gatepost backup FILE with the version that runs now; keep a copy of totp.key and of the quarantine as well"
    )
    if state.needs_upgrade and state.is_additive:
        return DoctorRow("backup", "ok", "the version that runs now can open the database after the upgrade", advice)
    if state.needs_upgrade:
        return DoctorRow("backup", "warn", "the way back to the version that runs now is a backup", advice)
    return DoctorRow("backup", "ok", "the schema stays: the version that runs now can open the database again", advice)


def _check_running(data: DataFolder) -> DoctorRow:
    running = [service for service in ("guard", "abby") if data.is_locked(service)]
    if running:
        advice = "stop it before this version starts; with several machines, one after the other"
        return DoctorRow("services", "ok", f"{' and '.join(running)} run on {data.path}", advice)
    return DoctorRow("services", "ok", f"no service runs on {data.path}")
