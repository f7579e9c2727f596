"""What the doctor looks at: one function for each row, none of which raises or changes anything that is kept.

What `gatepost doctor` says, for the system page.

It runs in a process of its own: the doctor tries the locks of the data folder, and a record lock that the running
service holds would be lost if the service itself opened and closed its file (fcntl(2), "Advisory record locking").
"""

import asyncio
import importlib.metadata
import platform
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import msgspec

import gatepost
from gatepost.questions import Dns
from gatepost.service import http_servers
from gatepost.service.data_folder import DataFolder, StartError
from gatepost.service.doctor import mail_path, sender_history
from gatepost.service.doctor.rows import DoctorRow, DoctorState, ExaminedFiles, read_files
from gatepost.settings.faults import ConfigError
from gatepost.settings.files import find_old_names
from gatepost.settings.keys import Dns as DnsSettings
from gatepost.settings.values import hide_credentials

LIBRARIES = ("apsw", "aiodns", "cryptography", "msgspec", "pydantic", "selectolax", "starlette", "uvicorn", "uvloop")
ROOM_WANTED, ROOM_NEEDED = 1 << 30, 100 << 20
SUFFIX_LIST_DAYS = 365
DNS_NAME = "example.com"
# A worker's seal, tried in a process that is thrown away; its socket is descriptor 0 as in a worker.
SEAL_TRIAL = """\
import msgspec, os, socket
from gatepost.workers.sandbox import seal
connection = socket.socket(fileno=0)
connection.sendall(msgspec.json.encode(seal(256 << 20)))
os._exit(0)
"""


class Seal(msgspec.Struct, frozen=True):
    """What a worker reports about its seal."""

    layers: tuple[str, ...]
    leaks: tuple[str, ...]


def examine(config: Path, data: DataFolder) -> tuple[DoctorRow, ...]:
    """Look at everything."""
    settings = _configuration(config)
    read = settings if isinstance(settings, ExaminedFiles) else None
    guard = read.guard if read else None
    rows = [python(), libraries(), suffix_list(datetime.now(UTC)), clock(time.time())]
    rows.append(settings if isinstance(settings, DoctorRow) else describe_files(settings, config))
    rows += [data_folder(data), workers(unsealed=bool(guard and guard.unsealed))]
    rows.append(name_servers(guard.dns if guard else DnsSettings()))
    rows.append(archives())
    if guard and guard.clamd:
        rows.append(antivirus(guard.clamd.address))
    if read:
        now = datetime.now(UTC)
        rows += [
            storage(read, data),
            *mail_path.examine_mail_path(read, data, now),
            *mail_path.examine_certificates(read, data, now),
        ]
        rows += [*sender_history.examine_sender_history(read, data, now), *ports(read, data)]
    return tuple(rows)


def describe_files(files: ExaminedFiles, config: Path) -> DoctorRow:
    """Return the row of a configuration that has no fault; it warns of old names."""
    which = "both files" if files.guard and files.abby else "guard.yml" if files.guard else "abby.yml"
    if warnings := find_old_names(config):
        return DoctorRow("configuration", "warn", f"{which} of {config}; {warnings[0]}", "use the new name")
    return DoctorRow("configuration", "ok", f"{which} of {config}")


def _configuration(config: Path) -> ExaminedFiles | DoctorRow:
    try:
        return read_files(config)
    except ConfigError as fault:
        found = f"{len(fault.faults)} faults; the first: {fault.faults[0]}"
        return DoctorRow("configuration", "fail", found, "gatepost config check; or gatepost serve to have one written")


def python() -> DoctorRow:
    """The interpreter."""
    return DoctorRow("python", "ok", f"{platform.python_version()} on {platform.system()} {platform.machine()}")


def libraries() -> DoctorRow:
    """The libraries that matter most, with their versions."""
    try:
        versions = [f"{name} {importlib.metadata.version(name)}" for name in LIBRARIES]
    except importlib.metadata.PackageNotFoundError as fault:
        return DoctorRow("libraries", "fail", f"{fault.name} is not installed", "install Gatepost anew")
    return DoctorRow("libraries", "ok", ", ".join(versions))


def suffix_list(today: datetime) -> DoctorRow:
    """The public suffix list says where one owner's names end and another's begin; it changes every week."""
    stamp = importlib.metadata.version("publicsuffixlist").rpartition(".")[2]
    try:
        age = (today - datetime.strptime(stamp, "%Y%m%d").replace(tzinfo=UTC)).days
    except ValueError:
        return DoctorRow("public suffixes", "warn", f"of unknown age ({stamp})")
    if age > SUFFIX_LIST_DAYS:
        return DoctorRow("public suffixes", "warn", f"{age} days old", "update the package publicsuffixlist")
    return DoctorRow("public suffixes", "ok", f"of {stamp}")


def clock(seconds: float) -> DoctorRow:
    """Signatures and certificates have dates: a clock that is off makes good mail look bad."""
    newest = Path(gatepost.__file__).stat().st_mtime
    shown = datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
    if seconds < newest - 86_400:
        return DoctorRow(
            "clock", "fail", f"{shown}, before this program was installed", "set the clock; run a time service"
        )
    return DoctorRow("clock", "ok", shown)


def data_folder(data: DataFolder) -> DoctorRow:
    """Writable, and with room."""
    if not data.path.exists():
        return DoctorRow("data folder", "warn", f"{data.path} is not there yet", "gatepost serve makes it")
    try:
        data.make()
    except StartError as fault:
        return DoctorRow("data folder", "fail", str(fault), "give the folder to the user that runs Gatepost")
    free = shutil.disk_usage(data.path).free
    state: DoctorState = "ok" if free >= ROOM_WANTED else "warn" if free >= ROOM_NEEDED else "fail"
    return DoctorRow(
        "data folder", state, f"{data.path}, {free >> 20:,} MiB free", "" if state == "ok" else "make room"
    )


def workers(*, unsealed: bool) -> DoctorRow:
    """Can this system shut a process in?"""
    try:
        seal = _tried_seal()
    except (OSError, subprocess.SubprocessError, msgspec.DecodeError):
        return DoctorRow(
            "workers", "fail", "a sealed process could not be started", "see whether seccomp is allowed here"
        )
    if not seal.leaks:
        return DoctorRow("workers", "ok", f"sealed by {', '.join(seal.layers)}")
    found = f"a worker could still {', '.join(seal.leaks)}"
    if unsealed:
        return DoctorRow(
            "workers", "warn", f"{found}; unsealed: true lets it start", "run it where workers can be sealed"
        )
    return DoctorRow("workers", "fail", found, "a Linux kernel with seccomp is needed; unsealed: true starts without")


def _tried_seal() -> Seal:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        subprocess.run(
            [sys.executable, "-c", SEAL_TRIAL], stdin=theirs.fileno(), timeout=20, check=True, capture_output=True
        )
        ours.settimeout(1)
        return msgspec.json.decode(ours.recv(1 << 16), type=Seal)


def name_servers(settings: DnsSettings) -> DoctorRow:
    """Does DNS answer in its time?"""
    from gatepost.guard.answers.dns import Resolver

    async def asked() -> tuple[str, float]:
        resolver = Resolver(settings.nameservers, settings.timeout / 1000)
        started = time.monotonic()
        answer = await resolver.ask(Dns(DNS_NAME, "A"))
        await resolver.close()
        return answer.status, (time.monotonic() - started) * 1000

    status, milliseconds = asyncio.run(asked())
    who = ", ".join(settings.nameservers) or "the system's name servers"
    if status == "failed":
        advice = "name others with dns.nameservers; without DNS no sender can be authenticated"
        return DoctorRow("dns", "fail", f"{who} did not answer within {settings.timeout} ms", advice)
    return DoctorRow("dns", "ok", f"{who} answered in {milliseconds:.0f} ms")


def archives() -> DoctorRow:
    """Is there a library for what only it can unpack?"""
    from gatepost.files.archives import libarchive

    if libarchive.is_installed():
        return DoctorRow("archives", "ok", "libarchive unpacks rar")
    found = "without libarchive, packed files in rar archives are not read: such mail is unscannable"
    return DoctorRow("archives", "warn", found, "install libarchive (Debian: libarchive13)")


def antivirus(address: str) -> DoctorRow:
    """Does clamd answer?"""
    from gatepost.guard.answers.clamd import Clamd

    if asyncio.run(Clamd(address).ping()):
        return DoctorRow("clamd", "ok", f"{address} answers")
    return DoctorRow(
        "clamd",
        "fail",
        f"{address} does not answer: mail is judged without it",
        "start clamd, or correct clamd.address",
    )


def storage(read: ExaminedFiles, data: DataFolder) -> DoctorRow:
    """Does the database open, with a schema that fits?"""
    from gatepost.store import open_store
    from gatepost.store.errors import StorageError

    url = read.storage
    if url.startswith("sqlite:") and not (data.path / url.removeprefix("sqlite:")).exists():
        return DoctorRow("storage", "warn", f"{url} is not there yet", "gatepost serve makes it")

    async def opened() -> int:
        store = open_store(url, data.path)
        try:
            return len(await store.tenants())
        finally:
            await store.close()

    try:
        return DoctorRow("storage", "ok", f"{hide_credentials(url)} opens; {asyncio.run(opened())} tenants")
    except StorageError as fault:
        return DoctorRow("storage", "fail", str(fault), "correct storage.url, or restore the file")


def ports(read: ExaminedFiles, data: DataFolder) -> Iterator[DoctorRow]:
    """Are the ports free, or ours?"""
    wanted = [("abby", read.abby.listen.host, read.abby.listen.port, "listen.port")] if read.abby else []
    if read.guard and (source := read.guard.scan_sources.rest_api):
        wanted.append(("guard", source.host, source.port, "scanSources.restApi.port"))
    if read.guard and (smtp := read.guard.scan_sources.smtp):
        wanted.append(("smtp", smtp.host, smtp.port, "scanSources.smtp.port"))
    for service, host, port, key in wanted:
        yield _port(service, http_servers.shown(host, port), lambda: http_servers.bind(host, port, key), data)  # noqa: B023


def _port(service: str, shown: str, bind: Callable[[], tuple[socket.socket, ...]], data: DataFolder) -> DoctorRow:
    if data.is_locked("abby" if service == "abby" else "guard"):
        return DoctorRow(f"port of {service}", "ok", f"{shown}, in use by the Gatepost that runs")
    try:
        http_servers.close(bind())
    except StartError as fault:
        return DoctorRow(f"port of {service}", "fail", str(fault), "choose another one, or stop the other program")
    return DoctorRow(f"port of {service}", "ok", f"{shown} is free")


SECONDS = 90.0


def examine_in_child(config: Path, data: Path) -> tuple[DoctorRow, ...]:
    """Look at everything. Where that fails, a row says so."""
    command = [sys.executable, "-m", "gatepost", "doctor", "--json", "--config", str(config), "--data", str(data)]
    try:
        ended = subprocess.run(command, check=False, capture_output=True, timeout=SECONDS)
        return msgspec.json.decode(ended.stdout, type=tuple[DoctorRow, ...])
    except (OSError, subprocess.SubprocessError, msgspec.MsgspecError) as fault:
        return (DoctorRow("examination", "fail", str(fault)[:300], "run gatepost doctor on the server"),)
