"""What the doctor looks at: one function for each row, none of which raises or changes anything that is kept."""

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
from typing import Literal

import msgspec

import gatepost
from gatepost.asking import Dns
from gatepost.config import ConfigError, Configuration, load
from gatepost.service import certificates, sockets
from gatepost.service.datafolder import DataFolder, StartError
from gatepost.settings import Dns as DnsSettings
from gatepost.settings import Tls

State = Literal["ok", "warn", "fail"]

LIBRARIES = ("apsw", "aiodns", "cryptography", "msgspec", "pydantic", "selectolax", "starlette", "uvicorn", "uvloop")
ROOM_WANTED, ROOM_NEEDED = 1 << 30, 100 << 20
SUFFIX_LIST_DAYS = 365
RENEW_DAYS = 30
DNS_NAME = "example.com"
# A worker's seal, tried in a process that is thrown away; its socket is descriptor 0 as in a worker.
SEAL_TRIAL = """\
import msgspec, os, socket
from gatepost.guard.seal import seal
connection = socket.socket(fileno=0)
connection.sendall(msgspec.json.encode(seal(256 << 20)))
os._exit(0)
"""


class Row(msgspec.Struct, frozen=True):
    """One thing that was looked at. `advice` is empty where nothing needs to be done."""

    what: str
    state: State
    found: str
    advice: str = ""


class Seal(msgspec.Struct, frozen=True):
    """What a worker reports about its seal."""

    layers: tuple[str, ...]
    leaks: tuple[str, ...]


def examine(config: Path, data: DataFolder) -> tuple[Row, ...]:
    """Look at everything."""
    settings = _configuration(config)
    read = settings if isinstance(settings, Configuration) else None
    rows = [python(), libraries(), suffix_list(datetime.now(UTC)), clock(time.time())]
    rows.append(Row("configuration", "ok", f"both files of {config}") if read else settings)  # type: ignore[arg-type]
    rows += [data_folder(data), workers(unsealed=bool(read and read.guard.unsealed))]
    rows.append(name_servers(read.guard.dns if read else DnsSettings()))
    rows.append(archives())
    if read and read.guard.clamd:
        rows.append(antivirus(read.guard.clamd.address))
    if read:
        rows += [storage(read, data), certificate(read, data, datetime.now(UTC)), *ports(read, data)]
    return tuple(rows)


def _configuration(config: Path) -> Configuration | Row:
    try:
        return load(config)
    except ConfigError as fault:
        found = f"{len(fault.faults)} faults; the first: {fault.faults[0]}"
        return Row("configuration", "fail", found, "gatepost config check; or gatepost serve to have one written")


def python() -> Row:
    """The interpreter."""
    return Row("python", "ok", f"{platform.python_version()} on {platform.system()} {platform.machine()}")


def libraries() -> Row:
    """The libraries that matter most, with their versions."""
    try:
        versions = [f"{name} {importlib.metadata.version(name)}" for name in LIBRARIES]
    except importlib.metadata.PackageNotFoundError as fault:
        return Row("libraries", "fail", f"{fault.name} is not installed", "install Gatepost anew")
    return Row("libraries", "ok", ", ".join(versions))


def suffix_list(today: datetime) -> Row:
    """The public suffix list says where one owner's names end and another's begin; it changes every week."""
    stamp = importlib.metadata.version("publicsuffixlist").rpartition(".")[2]
    try:
        age = (today - datetime.strptime(stamp, "%Y%m%d").replace(tzinfo=UTC)).days
    except ValueError:
        return Row("public suffixes", "warn", f"of unknown age ({stamp})")
    if age > SUFFIX_LIST_DAYS:
        return Row("public suffixes", "warn", f"{age} days old", "update the package publicsuffixlist")
    return Row("public suffixes", "ok", f"of {stamp}")


def clock(seconds: float) -> Row:
    """Signatures and certificates have dates: a clock that is off makes good mail look bad."""
    newest = Path(gatepost.__file__).stat().st_mtime
    shown = datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
    if seconds < newest - 86_400:
        return Row("clock", "fail", f"{shown}, before this program was installed", "set the clock; run a time service")
    return Row("clock", "ok", shown)


def data_folder(data: DataFolder) -> Row:
    """Writable, and with room."""
    if not data.path.exists():
        return Row("data folder", "warn", f"{data.path} is not there yet", "gatepost serve makes it")
    try:
        data.make()
    except StartError as fault:
        return Row("data folder", "fail", str(fault), "give the folder to the user that runs Gatepost")
    free = shutil.disk_usage(data.path).free
    state: State = "ok" if free >= ROOM_WANTED else "warn" if free >= ROOM_NEEDED else "fail"
    return Row("data folder", state, f"{data.path}, {free >> 20:,} MiB free", "" if state == "ok" else "make room")


def workers(*, unsealed: bool) -> Row:
    """Can this system shut a process in?"""
    try:
        seal = _tried_seal()
    except (OSError, subprocess.SubprocessError, msgspec.DecodeError):
        return Row("workers", "fail", "a sealed process could not be started", "see whether seccomp is allowed here")
    if not seal.leaks:
        return Row("workers", "ok", f"sealed by {', '.join(seal.layers)}")
    found = f"a worker could still {', '.join(seal.leaks)}"
    if unsealed:
        return Row("workers", "warn", f"{found}; unsealed: true lets it start", "run it where workers can be sealed")
    return Row("workers", "fail", found, "a Linux kernel with seccomp is needed; unsealed: true starts without")


def _tried_seal() -> Seal:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        subprocess.run(
            [sys.executable, "-c", SEAL_TRIAL], stdin=theirs.fileno(), timeout=20, check=True, capture_output=True
        )
        ours.settimeout(1)
        return msgspec.json.decode(ours.recv(1 << 16), type=Seal)


def name_servers(settings: DnsSettings) -> Row:
    """Does DNS answer in its time?"""
    from gatepost.guard.dns import Resolver

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
        return Row("dns", "fail", f"{who} did not answer within {settings.timeout} ms", advice)
    return Row("dns", "ok", f"{who} answered in {milliseconds:.0f} ms")


def archives() -> Row:
    """Is there a library for what only it can unpack?"""
    from gatepost.files import libarchive

    if libarchive.is_installed():
        return Row("archives", "ok", "libarchive unpacks rar")
    found = "without libarchive, packed files in rar archives are not read: such mail is unscannable"
    return Row("archives", "warn", found, "install libarchive (Debian: libarchive13)")


def antivirus(address: str) -> Row:
    """Does clamd answer?"""
    from gatepost.guard.clamd import Clamd

    if asyncio.run(Clamd(address).ping()):
        return Row("clamd", "ok", f"{address} answers")
    return Row(
        "clamd",
        "fail",
        f"{address} does not answer: mail is judged without it",
        "start clamd, or correct clamd.address",
    )


def storage(read: Configuration, data: DataFolder) -> Row:
    """Does the database open, with a schema that fits?"""
    from gatepost.store import StorageError, open_store

    url = read.abby.storage.url
    if url.startswith("sqlite:") and not (data.path / url.removeprefix("sqlite:")).exists():
        return Row("storage", "warn", f"{url} is not there yet", "gatepost serve makes it")

    async def opened() -> int:
        store = open_store(url, data.path)
        try:
            return len(await store.tenants())
        finally:
            await store.close()

    try:
        return Row("storage", "ok", f"{url.partition('@')[2] or url} opens; {asyncio.run(opened())} tenants")
    except StorageError as fault:
        return Row("storage", "fail", str(fault), "correct storage.url, or restore the file")


def certificate(read: Configuration, data: DataFolder, now: datetime) -> Row:
    """How long is the certificate good?"""
    tls = read.abby.tls
    if tls == "off":
        return Row("certificate", "ok", "TLS is off; a proxy is expected in front")
    file = Path(tls.certificate) if isinstance(tls, Tls) else data.certificate
    if not file.exists():
        return Row("certificate", "warn", "not there yet", "gatepost serve makes one")
    try:
        left = (certificates.expiry(file.read_bytes()) - now).days
    except (OSError, ValueError) as fault:
        return Row("certificate", "fail", f"{file} cannot be read ({type(fault).__name__})", "replace it")
    renew = "renew it" if isinstance(tls, Tls) else f"delete {file.parent} and start again"
    state: State = "ok" if left >= RENEW_DAYS else "warn" if left >= 0 else "fail"
    return Row("certificate", state, f"{file}, {left} days left", "" if state == "ok" else renew)


def ports(read: Configuration, data: DataFolder) -> Iterator[Row]:
    """Are the ports free, or ours?"""
    listen, source = read.abby.listen, read.guard.scan_sources.rest_api
    wanted = [("abby", listen.host, listen.port, "listen.port")]
    if source:
        wanted.append(("guard", source.host, source.port, "scanSources.restApi.port"))
    for service, host, port, key in wanted:
        yield _port(service, sockets.shown(host, port), lambda: sockets.bind(host, port, key), data)  # noqa: B023


def _port(service: str, shown: str, bind: Callable[[], tuple[socket.socket, ...]], data: DataFolder) -> Row:
    if data.is_locked(service):
        return Row(f"port of {service}", "ok", f"{shown}, in use by the Gatepost that runs")
    try:
        sockets.close(bind())
    except StartError as fault:
        return Row(f"port of {service}", "fail", str(fault), "choose another one, or stop the other program")
    return Row(f"port of {service}", "ok", f"{shown} is free")
