"""Checks of the machine: interpreter, libraries, clock, disk, secrets, sandbox, DNS, antivirus and ports.

Each function returns one row; none of them raises or changes stored data.
"""

import asyncio
import importlib.metadata
import os
import platform
import shutil
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

import gatepost
from gatepost.plugins import PluginError, find_code_fault, find_plugin
from gatepost.questions import Dns, DnsAnswer, ReputationValue
from gatepost.service.data_folder import DataFolder, StartError
from gatepost.service.doctor.rows import DoctorRow, DoctorState, ExaminedFiles
from gatepost.service.plan import UNIX, bind, close_sockets, is_left_behind, render_address
from gatepost.settings.files import ABBY_FILE, GUARD_FILE
from gatepost.settings.in_force import settings_in_force
from gatepost.settings.keys import DnsSettings
from gatepost.settings.reputation import ZoneSettings
from gatepost.settings.scan_sources import TlsSettings
from gatepost.settings.values import HIDDEN, split_address
from gatepost.speedups import native
from gatepost.store.second_factors import KEY_FILE

if TYPE_CHECKING:
    from gatepost.guard.answers.reputation import Zone

LIBRARIES = ("apsw", "cryptography", "msgspec", "pydantic", "selectolax", "starlette", "uvicorn", "uvloop")
ROOM_WANTED, ROOM_NEEDED = 1 << 30, 100 << 20
SUFFIX_LIST_DAYS = 365
DNS_NAME = "example.com"
# Stands for the test entry of zones that have none; it is answered without asking.
NO_TEST_ENTRY = ""
# A worker's seal, tried in a process that is thrown away; its socket is descriptor 0 as in a worker.
SEAL_TEST = """\
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


def check_python() -> DoctorRow:
    """Return the version of the interpreter and the platform."""
    return DoctorRow("python", "ok", f"{platform.python_version()} on {platform.system()} {platform.machine()}")


def check_speedups() -> DoctorRow:
    """Return whether the native forms of the hottest functions are in use."""
    if native:
        return DoctorRow("speedups", "ok", "native")
    fix = "install a C compiler and Python's headers (Debian: gcc python3-dev), then run tools/build_speedups.py"
    return DoctorRow("speedups", "warn", "pure Python: the same results, but each message takes longer", fix)


def check_libraries() -> DoctorRow:
    """Return the versions of the most important libraries."""
    try:
        versions = [f"{name} {importlib.metadata.version(name)}" for name in LIBRARIES]
    except importlib.metadata.PackageNotFoundError as fault:
        return DoctorRow("libraries", "fail", f"{fault.name} is not installed", "install Gatepost anew")
    return DoctorRow("libraries", "ok", ", ".join(versions))


def check_plugins(stated: Sequence[str]) -> Iterator[DoctorRow]:
    """Yield a row for each plug-in of the configuration; a child process tries whether its checks can be loaded."""
    for name in stated:
        try:
            plugin = find_plugin(name)
        except PluginError as fault:
            yield DoctorRow(f"plug-in {name}", "fail", str(fault), "gatepost config check")
            continue
        what = f"plug-in {plugin.name}"
        if fault_of_code := find_code_fault([name]):
            yield DoctorRow(what, "fail", fault_of_code, "install another version, or take it out of plugins")
        else:
            yield DoctorRow(what, "ok", f"{plugin.version}; it finds {', '.join(plugin.kinds)}")


def check_suffix_list(today: datetime) -> DoctorRow:
    """Check the age of the public suffix list, which tells organisations apart by domain and changes every week."""
    stamp = importlib.metadata.version("publicsuffixlist").rpartition(".")[2]
    try:
        age = (today - datetime.strptime(stamp, "%Y%m%d").replace(tzinfo=UTC)).days
    except ValueError:
        return DoctorRow("public suffixes", "warn", f"of unknown age ({stamp})")
    if age > SUFFIX_LIST_DAYS:
        return DoctorRow("public suffixes", "warn", f"{age} days old", "update the package publicsuffixlist")
    return DoctorRow("public suffixes", "ok", f"of {stamp}")


def check_clock(seconds: float) -> DoctorRow:
    """Check the clock: signatures and certificates have dates, so a wrong clock makes good mail look bad."""
    newest = Path(gatepost.__file__).stat().st_mtime
    shown = datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
    if seconds < newest - 86_400:
        return DoctorRow(
            "clock", "fail", f"{shown}, before this program was installed", "set the clock; run a time service"
        )
    return DoctorRow("clock", "ok", shown)


def check_data_folder(data: DataFolder) -> DoctorRow:
    """Check that the data folder can be written and has space."""
    if not data.path.exists():
        return DoctorRow("data folder", "warn", f"{data.path} is not there yet", "gatepost serve makes it")
    try:
        data.make()
    except StartError as fault:
        return DoctorRow("data folder", "fail", str(fault), "give the folder to the user that runs Gatepost")
    free = shutil.disk_usage(data.path).free
    state: DoctorState = "ok" if free >= ROOM_WANTED else "warn" if free >= ROOM_NEEDED else "fail"
    return DoctorRow(
        "data folder", state, f"{data.path}, {free >> 20:,} MiB free", "" if state == "ok" else "free some disk space"
    )


def check_secret_files(read: ExaminedFiles, config: Path, data: DataFolder) -> DoctorRow:
    """Check that other users of this machine cannot read or change files with secrets."""
    files = [data.secret, data.token, data.key, data.path / KEY_FILE]
    for name, settings in ((GUARD_FILE, read.guard), (ABBY_FILE, read.abby)):
        if settings and any(HIDDEN in value for _, _, value in settings_in_force(str(name), settings)):
            files.append(config / name)
    if read.abby and isinstance(read.abby.tls, TlsSettings):
        files.append(Path(read.abby.tls.key))
    open_files = [str(file) for file in files if _is_open_to_others(file)]
    if not open_files:
        return DoctorRow("secrets", "ok", "other users cannot read the files with secrets")
    found = f"every user of this machine can read or change {', '.join(open_files)}"
    return DoctorRow("secrets", "warn", found, f"chmod o-rwx {' '.join(open_files)}, then replace the secrets in them")


def _is_open_to_others(file: Path) -> bool:
    try:
        return bool(file.stat().st_mode & (stat.S_IROTH | stat.S_IWOTH))
    except OSError:
        return False


def check_workers(*, unsealed: bool) -> DoctorRow:
    """Check that this system can seal a worker process."""
    try:
        seal = _try_seal()
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


def _try_seal() -> Seal:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        subprocess.run(
            [sys.executable, "-c", SEAL_TEST], stdin=theirs.fileno(), timeout=20, check=True, capture_output=True
        )
        ours.settimeout(1)
        return msgspec.json.decode(ours.recv(1 << 16), type=Seal)


def check_dns(settings: DnsSettings) -> DoctorRow:
    """Check that the name servers answer in time."""
    from gatepost.guard.answers.dns import Resolver

    async def ask() -> tuple[str, float]:
        resolver = Resolver(settings.nameservers, settings.timeout / 1000)
        started = time.monotonic()
        answer = await resolver.ask(Dns(DNS_NAME, "A"))
        await resolver.close()
        return answer.status, (time.monotonic() - started) * 1000

    status, milliseconds = asyncio.run(ask())
    who = ", ".join(settings.nameservers) or "the system's name servers"
    if status == "failed":
        advice = "name others with dns.nameservers; without DNS no sender can be authenticated"
        return DoctorRow("dns", "fail", f"{who} did not answer within {settings.timeout} ms", advice)
    return DoctorRow("dns", "ok", f"{who} answered in {milliseconds:.0f} ms")


def check_zones(dns: DnsSettings, zones: Sequence[ZoneSettings]) -> list[DoctorRow]:
    """Check each reputation zone by the entries that every zone has, and that none has (RFC 5782 section 5)."""
    from gatepost.guard.answers.dns import Resolver
    from gatepost.guard.answers.reputation import Zone

    async def ask() -> list[DoctorRow]:
        resolver = Resolver(dns.nameservers, dns.timeout / 1000)
        rows = []
        for zone in map(Zone, zones):
            names = zone.test_names or (NO_TEST_ENTRY, zone.build_name(ReputationValue("file", "0" * 64)) or "")
            answers = await asyncio.gather(*(resolver.ask(Dns(name, "A")) for name in names))
            rows.append(_judge_zone(zone, *answers))
        await resolver.close()
        return rows

    return asyncio.run(ask())


def _judge_zone(zone: "Zone", listed: DnsAnswer, unlisted: DnsAnswer) -> DoctorRow:
    """Judge a zone by its answers for the entry that it must have and the one that it must not have."""
    from gatepost.guard.answers.reputation import ZoneFaultError

    title = f"zone {zone.name}"
    if "failed" in (listed.status, unlisted.status):
        return DoctorRow(title, "fail", "it does not answer", "correct reputation.zones, or ask its operator")
    try:
        zone.read((*listed.records, *unlisted.records))
    except ZoneFaultError as fault:
        return DoctorRow(title, "fail", f"{fault}", "use name servers of your own, or a key of a subscription")
    if unlisted.status == "found":
        return DoctorRow(title, "fail", "it lists what no zone may list", "remove it: it would list everything")
    if zone.settings.asks == "hash":
        return DoctorRow(title, "ok", "it answers; zones of hashes have no test entry")
    if listed.status != "found":
        advice = "check the name of the zone; some zones have other test entries than RFC 5782 asks for"
        return DoctorRow(title, "warn", "it answers, but does not list its test entry", advice)
    return DoctorRow(title, "ok", f"it lists its test entry ({', '.join(listed.records)}) and not its counterpart")


def check_archives() -> DoctorRow:
    """Check that libarchive is installed, which alone can unpack RAR archives."""
    from gatepost.files.archives import libarchive

    if libarchive.is_installed():
        return DoctorRow("archives", "ok", "libarchive unpacks rar")
    found = "without libarchive, packed files in rar archives are not read: such mail is unscannable"
    return DoctorRow("archives", "warn", found, "install libarchive (Debian: libarchive13)")


def check_antivirus(address: str) -> DoctorRow:
    """Check that clamd answers."""
    from gatepost.guard.answers.clamd import ClamdClient

    if asyncio.run(ClamdClient(address).ping()):
        return DoctorRow("clamd", "ok", f"{address} answers")
    return DoctorRow(
        "clamd",
        "fail",
        f"{address} does not answer: mail is judged without it",
        "start clamd, or correct clamd.address",
    )


def check_ports(read: ExaminedFiles, data: DataFolder) -> Iterator[DoctorRow]:
    """Check that every port is free or in use by this service."""
    wanted = [("abby", read.abby.listen.hosts, read.abby.listen.port, "listen.port")] if read.abby else []
    if read.guard and (source := read.guard.scan_sources.rest_api):
        wanted.append(("guard", source.hosts, source.port, "scanSources.restApi.port"))
    if read.guard and (smtp := read.guard.scan_sources.smtp):
        wanted.append(("smtp", smtp.hosts, smtp.port, "scanSources.smtp.port"))
        if smtp.outbound and smtp.outbound.port:
            wanted.append(("outbound smtp", smtp.hosts, smtp.outbound.port, "scanSources.smtp.outbound.port"))
    if read.guard and (milter := read.guard.scan_sources.milter):
        for address in milter.addresses:
            if address.startswith(UNIX):
                yield check_unix_socket(Path(address.removeprefix(UNIX)), data)
            else:
                host, milter_port = split_address(address, 0)
                wanted.append(("milter", (host,), milter_port, "scanSources.milter.listen"))
    for service, hosts, port, key in wanted:
        shown = ", ".join(render_address(host, port) for host in hosts)
        yield check_port(service, shown, lambda: bind(hosts, port, key), data)  # noqa: B023


def check_unix_socket(path: Path, data: DataFolder) -> DoctorRow:
    """Check that the Unix socket of the milter source is in use by this service, or can be made."""
    what, advice = "socket of milter", "correct scanSources.milter.listen, or give the folder to the user of Gatepost"
    is_used = os.path.lexists(path) and not is_left_behind(str(path))
    if data.is_locked("guard"):
        if is_used:
            return DoctorRow(what, "ok", f"{path}, in use by the Gatepost that runs")
        return DoctorRow(what, "fail", f"{path} is gone, though Gatepost runs", "restart guard")
    if is_used:
        return DoctorRow(what, "fail", f"{path} belongs to another program", advice)
    if not os.access(path.parent, os.W_OK | os.X_OK):
        return DoctorRow(what, "fail", f"no file can be made in {path.parent}", advice)
    return DoctorRow(what, "ok", f"{path} is free")


def check_port(service: str, shown: str, take: Callable[[], tuple[socket.socket, ...]], data: DataFolder) -> DoctorRow:
    """Check one port by binding it with `take`."""
    if data.is_locked("abby" if service == "abby" else "guard"):
        return DoctorRow(f"port of {service}", "ok", f"{shown}, in use by the Gatepost that runs")
    try:
        close_sockets(take())
    except StartError as fault:
        return DoctorRow(f"port of {service}", "fail", str(fault), "choose another one, or stop the other program")
    return DoctorRow(f"port of {service}", "ok", f"{shown} is free")
