"""Run all checks of `gatepost doctor`, here or in a child process for the system page.

The system page needs the child process: the doctor tries the locks of the data folder, and a record lock that the
running service holds would be lost if the service itself opened and closed its file (fcntl(2), "Advisory record
locking").
"""

import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from gatepost.service.data_folder import DataFolder
from gatepost.service.doctor.machine import (
    check_antivirus,
    check_archives,
    check_clock,
    check_data_folder,
    check_dns,
    check_libraries,
    check_plugins,
    check_ports,
    check_python,
    check_secret_files,
    check_speedups,
    check_suffix_list,
    check_workers,
    check_zones,
)
from gatepost.service.doctor.mail_path import check_certificates, check_mail_path
from gatepost.service.doctor.rows import DoctorRow, ExaminedFiles, read_files
from gatepost.service.doctor.storage import (
    check_feeds,
    check_flow_control,
    check_nodes,
    check_sender_history,
    check_storage,
)
from gatepost.service.reloading import describe_running
from gatepost.settings.faults import ConfigError
from gatepost.settings.files import find_warnings
from gatepost.settings.keys import DnsSettings

SECONDS = 90.0


def examine(config: Path, data: DataFolder) -> tuple[DoctorRow, ...]:
    """Run every check that this configuration calls for and return a row for each."""
    settings = _load_files(config)
    read = settings if isinstance(settings, ExaminedFiles) else None
    guard = read.guard if read else None
    rows = [
        check_python(),
        check_speedups(),
        check_libraries(),
        check_suffix_list(datetime.now(UTC)),
        check_clock(time.time()),
    ]
    rows.append(settings if isinstance(settings, DoctorRow) else describe_files(settings, config))
    if running := describe_running(data):
        rows.append(DoctorRow("running files", "warn", "; ".join(running), "reload or restart the service"))
    rows += [check_data_folder(data), check_workers(unsealed=bool(guard and guard.unsealed))]
    rows.append(check_dns(guard.dns if guard else DnsSettings()))
    rows.append(check_archives())
    rows += check_plugins(guard.plugins if guard else ())
    if guard and guard.reputation.zones:
        rows += check_zones(guard.dns, guard.reputation.zones)
    if guard and guard.clamd:
        rows.append(check_antivirus(guard.clamd.address))
    if read:
        now = datetime.now(UTC)
        rows += [
            check_secret_files(read, config, data),
            check_storage(read, data),
            *check_mail_path(read, data, now),
            *check_certificates(read, data, now),
        ]
        rows += [*check_sender_history(read, data, now), *check_flow_control(read, data, now)]
        rows += [*check_feeds(read, data, now), *check_nodes(read, data, now), *check_ports(read, data)]
    return tuple(rows)


def describe_files(files: ExaminedFiles, config: Path) -> DoctorRow:
    """Return the row of a configuration that has no fault, with everything that it warns of."""
    which = "both files" if files.guard and files.abby else "guard.yml" if files.guard else "abby.yml"
    if warnings := find_warnings(config):
        found = "; ".join([f"{which} of {config}", *map(str, warnings)])
        return DoctorRow("configuration", "warn", found, "correct the files; gatepost config check shows the same")
    return DoctorRow("configuration", "ok", f"{which} of {config}")


def _load_files(config: Path) -> ExaminedFiles | DoctorRow:
    try:
        return read_files(config)
    except ConfigError as fault:
        count = len(fault.faults)
        found = f"{count} faults; the first: {fault.faults[0]}" if count > 1 else f"one fault: {fault.faults[0]}"
        return DoctorRow("configuration", "fail", found, "gatepost config check; or gatepost serve to have one written")


def examine_in_child(config: Path, data: Path) -> tuple[DoctorRow, ...]:
    """Run `gatepost doctor` in a process of its own; a row says so if that fails."""
    command = [sys.executable, "-m", "gatepost", "doctor", "--json", "--config", str(config), "--data", str(data)]
    try:
        ended = subprocess.run(command, check=False, capture_output=True, timeout=SECONDS)
        return msgspec.json.decode(ended.stdout, type=tuple[DoctorRow, ...])
    except (OSError, subprocess.SubprocessError, msgspec.MsgspecError) as fault:
        return (DoctorRow("examination", "fail", str(fault)[:300], "run gatepost doctor on the server"),)
