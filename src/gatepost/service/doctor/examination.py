"""The checks of `gatepost doctor`, here or in a child process for the system page, and of `gatepost upgrade check`.

Each check returns rows; none of them raises or changes stored data.

The system page needs the child process: the doctor tries the locks of the data folder, and a record lock that the
running service holds would be lost if the service itself opened and closed its file (fcntl(2), "Advisory record
locking").

A tenant with too short a history gets no findings from it, which is easily taken for a fault; the row says how many
scopes have enough.

`gatepost doctor` opens the storage, and opening it upgrades it. The checks of an upgrade say what the first start of
this version will do, without changing anything: they run before that, with the new program on the data of the old one,
while the old one may still be running.
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
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

import gatepost
from gatepost import SCHEMA, describe_build
from gatepost.mail.sender_history import ALL_MAIL
from gatepost.plugins import PluginError, find_code_fault, find_plugin
from gatepost.process.hiding import HIDDEN, hide
from gatepost.process.sandbox import SealReport
from gatepost.questions import Dns, DnsAnswer, ReputationValue
from gatepost.service.changes import describe_running
from gatepost.service.data_folder import DataFolder, StartError
from gatepost.service.doctor.mail_path import check_certificates, check_domain_reports, check_mail_path
from gatepost.service.doctor.own_users import check_own_users
from gatepost.service.doctor.rows import (
    DoctorRow,
    DoctorState,
    ExaminedFiles,
    ask_storage,
    ask_storage_if_there,
    is_storage_there,
    read_files,
)
from gatepost.service.plan import UNIX, Plan, close_sockets, is_left_behind, list_doors, open_door, render_address
from gatepost.settings.faults import ConfigError
from gatepost.settings.feeds import FeedSettings
from gatepost.settings.files import ABBY_FILE, GUARD_FILE, find_old_names, find_warnings, settings_in_force
from gatepost.settings.keys import DnsSettings, SenderHistorySettings, ZoneSettings
from gatepost.settings.scan_sources import TlsSettings
from gatepost.speedups import native
from gatepost.store import read_schema_state
from gatepost.store.errors import StorageError
from gatepost.store.sealed_secrets import KEY_FILE, OLD_KEY_FILE
from gatepost.store.upgrading import OLDEST, PASS_THROUGH, REUNITE, SchemaState

if TYPE_CHECKING:
    from gatepost.guard.answers.reputation import Zone
    from gatepost.store.feeds import FeedRecord
    from gatepost.store.publishing import NodeRecord, Rollout
    from gatepost.store.store import Store


LIBRARIES = ("apsw", "cryptography", "msgspec", "pydantic", "selectolax", "starlette", "uvicorn", "uvloop")
ROOM_WANTED, ROOM_NEEDED = 1 << 30, 100 << 20
SUFFIX_LIST_DAYS = 365
DNS_NAME = "example.com"
# Stands for the test entry of zones that have none; it is answered without asking.
NO_TEST_ENTRY = ""
# A worker's seal, tried in a process that is thrown away; its socket is descriptor 0 as in a worker.
SEAL_TEST = """\
import msgspec, os, socket
from gatepost.process.sandbox import seal
connection = socket.socket(fileno=0)
connection.sendall(msgspec.json.encode(seal(256 << 20)))
os._exit(0)
"""


def check_python() -> DoctorRow:
    return DoctorRow("python", "ok", f"{platform.python_version()} on {platform.system()} {platform.machine()}")


def check_speedups() -> DoctorRow:
    """Return whether the native forms of the hottest functions are in use."""
    if native:
        return DoctorRow("speedups", "ok", "native")
    fix = "install a C compiler and Python's headers (Debian: gcc python3-dev), then run tools/build_speedups.py"
    return DoctorRow("speedups", "warn", "pure Python: the same results, but each message takes longer", fix)


def check_libraries() -> DoctorRow:
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
    files = [data.secret, data.token, data.first_password, data.key]
    files += [data.path / KEY_FILE, data.path / OLD_KEY_FILE]
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


def _try_seal() -> SealReport:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        subprocess.run(
            [sys.executable, "-c", SEAL_TEST], stdin=theirs.fileno(), timeout=20, check=True, capture_output=True
        )
        ours.settimeout(1)
        return msgspec.json.decode(ours.recv(1 << 16), type=SealReport)


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
    from gatepost.guard.answers.clamd import ClamdClient

    if asyncio.run(ClamdClient(address).ping()):
        return DoctorRow("clamd", "ok", f"{address} answers")
    found = f"{address} does not answer: mail is judged without it"
    return DoctorRow("clamd", "fail", found, "start clamd, or correct clamd.address")


def check_ports(read: ExaminedFiles, data: DataFolder) -> Iterator[DoctorRow]:
    """Check that every port is free or in use by this service."""
    for door in list_doors(Plan(data, read.guard, read.abby)):
        if door.hosts[0].startswith(UNIX):
            yield check_unix_socket(door.name, Path(door.hosts[0].removeprefix(UNIX)), data)
        elif "metrics" not in door.name:
            shown = ", ".join(render_address(host, door.port) for host in door.hosts)
            yield check_port(door.name, shown, partial(open_door, door), data)


def check_unix_socket(source: str, path: Path, data: DataFolder) -> DoctorRow:
    """Check that a Unix socket of a source is in use by this service, or can be made."""
    what = f"socket of {source}"
    advice = f"correct scanSources.{source}.listen, or give the folder to the user of Gatepost"
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


_DAY_SECONDS = 86_400
# A deployment may have thousands of tenants; the doctor does not wait for all of them.
MAX_TENANTS = 100
# A feed is late if it was not read for so many times its interval.
LATE = 3
# A deployment may have had many nodes; those that were heard of last have a row.
MAX_NODES = 50


def check_storage(read: ExaminedFiles, data: DataFolder) -> DoctorRow:
    """Check that the database opens and has a schema that fits."""
    if not is_storage_there(read.storage, data):
        return DoctorRow("storage", "warn", f"{read.storage} is not there yet", "gatepost serve makes it")
    try:
        tenants = ask_storage(read, data, lambda store: store.tenants.all())
    except StorageError as fault:
        return DoctorRow("storage", "fail", str(fault), "correct storage.url, or restore the file")
    return DoctorRow("storage", "ok", f"{hide(read.storage)} opens; {len(tenants)} tenants")


def check_sender_history(read: ExaminedFiles, data: DataFolder, now: datetime) -> Iterator[DoctorRow]:
    """Check how much sender history there is; no row if storage cannot be read."""
    if read.guard is None:
        return
    settings = read.guard.sender_history
    if not settings.enabled:
        yield DoctorRow("sender history", "ok", "off: senders and sites are not remembered")
        return
    today = int(now.timestamp()) // _DAY_SECONDS
    counted = ask_storage_if_there(read, data, partial(_count_sightings, settings, today))
    if counted:
        keys, ready, scopes = counted
        found = f"{keys:,} senders and sites remembered; enough to call one new in {ready} of {scopes} scopes"
        yield DoctorRow("sender history", "ok", found)


async def _count_sightings(settings: SenderHistorySettings, today: int, store: "Store") -> tuple[int, int, int]:
    """Return the number of senders and sites, of scopes with enough history, and of scopes."""
    scopes = [None, *(tenant.uid for tenant in await store.tenants.all())][:MAX_TENANTS]
    keys = ready = 0
    for scope in scopes:
        keys += await store.sightings.count(scope)
        all_mail = (await store.sightings.find(scope, (ALL_MAIL,))).get(ALL_MAIL)
        if all_mail and all_mail.delivered >= settings.min_messages:
            ready += today - all_mail.first >= settings.min_days
    return keys, ready, len(scopes)


def check_sealed_secrets(read: ExaminedFiles, data: DataFolder) -> Iterator[DoctorRow]:
    """Check that secrets in the database are encrypted, with a key that is here; no row where all is well, or if
    storage cannot be read."""
    counted = ask_storage_if_there(read, data, lambda store: store.secrets.count())
    if counted and counted.lost:
        found = f"{counted.lost} secrets in the database are encrypted with a key that is not in {data.path / KEY_FILE}"
        advice = "copy the file from another machine or a backup, see docs/backup.md"
        yield DoctorRow("stored secrets", "warn", found, advice)
    elif counted and counted.clear:
        found = f"{counted.clear} secrets in the database are in clear"
        advice = f"copy {KEY_FILE} to all machines that use the database, then: gatepost secrets rotate"
        yield DoctorRow("stored secrets", "warn", found, advice)


def check_known_recipients(read: ExaminedFiles, data: DataFolder) -> Iterator[DoctorRow]:
    """Say which scopes have an empty list of known recipients although a rule asks it; no row where none has."""
    rules = read.guard.recipient_verification.rules if read.guard else ()
    asked = {tenant for rule in rules for tenant in rule.tenants or [""]}
    if not asked:
        return

    async def find_empty(store: "Store") -> list[str]:
        return [
            tenant for tenant in sorted(asked) if await store.list_lookup.knows_recipient(tenant or None, ()) is None
        ]

    empty = ask_storage_if_there(read, data, find_empty)
    if empty:
        whose = ", ".join(f"tenant {each}" if each else "the deployment" for each in empty[:MAX_TENANTS])
        advice = "fill it (gatepost lists add, or a feed); until then recipients are answered with 451"
        yield DoctorRow("known recipients", "warn", f"the list known-recipients of {whose} is empty", advice)
    elif empty is not None:
        yield DoctorRow("known recipients", "ok", "the lists that are asked have entries")


def check_feeds(read: ExaminedFiles, data: DataFolder, now: datetime) -> Iterator[DoctorRow]:
    """Check that every feed was read lately; no rows if storage cannot be read."""
    from gatepost.store.feeds import FeedState

    feeds = read.abby.feeds if read.abby else []
    found = ask_storage_if_there(read, data, lambda store: store.feeds.states()) if feeds else None
    if found is None:
        return
    states = {state.name: state for state in found}
    for feed in feeds:
        yield _describe_feed(feed, states.get(feed.name, FeedState(feed.name)).record, now)


def _describe_feed(feed: FeedSettings, record: "FeedRecord", now: datetime) -> DoctorRow:
    what, advice = f"feed {feed.name}", f"try it with: gatepost feeds run {feed.name} --dry-run"
    if record.failures:
        return DoctorRow(what, "warn", f"{record.result} {record.failures} times in a row: {record.message}", advice)
    if not record.succeeded:
        if not feed.is_scheduled:
            return DoctorRow(what, "ok", "never run so far; it is run by hand")
        return DoctorRow(what, "warn", "never run so far", advice)
    minutes = int(now.timestamp() - record.succeeded / 1000) // 60
    found = f"{record.counts.entries:,} entries for {feed.list_name}, read {minutes:,} minutes ago"
    if feed.is_scheduled and minutes > LATE * feed.every:
        return DoctorRow(what, "warn", f"{found}; it should be read every {feed.every:,} minutes", "is abby running?")
    return DoctorRow(what, "ok", found)


def check_nodes(read: ExaminedFiles, data: DataFolder, now: datetime) -> Iterator[DoctorRow]:
    """Check every node of the deployment by what it said last, and whether the last version could be taken over; no
    rows if storage cannot be read."""

    async def load_nodes(store: "Store") -> "tuple[Rollout, tuple[NodeRecord, ...]]":
        return await store.publishing.rollout(), await store.publishing.nodes()

    loaded = ask_storage_if_there(read, data, load_nodes) if read.storage else None
    if loaded is None:
        return
    rollout, nodes = loaded
    own = {each for name in ("guard", "abby") if (each := _read_own_node(data, name)) and not data.is_locked(name)}
    latest = sorted(nodes, key=lambda node: node.seen, reverse=True)[:MAX_NODES]
    for node in sorted(latest, key=lambda node: node.name):
        yield _describe_node(node, rollout, int(now.timestamp() * 1000), is_stopped=node.id in own)
    if rollout.failed:
        found = f"version {rollout.failed} failed on {rollout.failed_node}: {rollout.failed_reason}"
        advice = "correct the files and publish again; the nodes run the version before"
        yield DoctorRow("published version", "warn", found, advice)


def _describe_node(node: "NodeRecord", rollout: "Rollout", moment: int, *, is_stopped: bool) -> DoctorRow:
    """Return the row of a node; one of this machine that does not run at the moment is no fault."""
    detail, state = node.detail, node.state(moment)
    version = f"version {detail.version}" if detail.version else "its own files"
    if detail.version != rollout.wanted:
        version += f", wanted is version {rollout.wanted}" if rollout.wanted else ", wanted are its own files"
    notes = [f"last error: {detail.error}"] if detail.error else []
    heard = f"heard of {max(0, moment - node.seen) // 1_000:,} s ago"
    what, found = f"node {node.name}", "; ".join([f"runs {version}", heard, *map(str, detail.health.reasons), *notes])
    if state == "silent" and is_stopped:
        return DoctorRow(what, "ok", f"does not run at the moment; {found}")
    if state == "silent":
        advice = f"start it; if it is gone for good: gatepost nodes --forget {node.id}"
        return DoctorRow(what, "warn", f"silent; {found}", advice)
    if state == "RED":
        return DoctorRow(what, "fail", f"RED; {found}", "see its log, and gatepost doctor on that machine")
    if detail.health.reasons or notes or detail.version != rollout.wanted:
        return DoctorRow(what, "warn", f"{state}; {found}", "see gatepost nodes, and the log of the node")
    return DoctorRow(what, "ok", found)


def _read_own_node(data: DataFolder, service: str) -> str:
    """Return the id of this machine's node of a service, "" if it never ran."""
    file = data.path / f"{service}.node"
    return file.read_text("ascii", "replace").strip() if file.exists() else ""


SECONDS = 90.0


def examine(config: Path, data: DataFolder) -> tuple[DoctorRow, ...]:
    """Run every check that this configuration calls for and return a row for each."""
    settings = _load_files(config)
    read = settings if isinstance(settings, ExaminedFiles) else None
    guard = read.guard if read else None
    rows = [check_python(), check_speedups(), check_libraries(), check_suffix_list(datetime.now(UTC))]
    rows.append(check_clock(time.time()))
    rows.append(settings if isinstance(settings, DoctorRow) else describe_files(settings, config))
    if running := describe_running(data):
        rows.append(DoctorRow("running files", "warn", "; ".join(running), "correct the files and reload the service"))
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
        rows += [check_secret_files(read, config, data), check_storage(read, data), *check_sealed_secrets(read, data)]
        rows += [*check_mail_path(read, data, now), *check_certificates(read, data, now)]
        rows += [*check_sender_history(read, data, now), *check_own_users(read, data)]
        rows += [*check_known_recipients(read, data), *check_domain_reports(read, data, now)]
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


# An upgrade is one transaction: what it writes is beside the old data until it is complete, and at most as large.
ROOM = 2
_MEGABYTE = 1_000_000


def examine_upgrade(config: Path, data: DataFolder) -> tuple[DoctorRow, ...]:
    """Compare an installation with this version, and return a row for each thing that was compared."""
    try:
        files = read_files(config)
    except ConfigError as fault:
        advice = "correct the file: this version does not start with it"
        return (
            _describe_version(),
            *(DoctorRow("configuration", "fail", str(each), advice) for each in fault.faults),
        )
    rows = [_describe_version(), _check_old_names(config)]
    try:
        state = read_schema_state(files.storage, data.path)
    except StorageError as fault:
        return (*rows, DoctorRow("database", "fail", str(fault), "correct storage.url, or make the database available"))
    rows.append(_check_schema(state, files.storage))
    if state.present and not state.is_newer and not state.is_too_old:
        rows.append(_check_room(state, files.storage, data))
        rows.append(_advise_backup(state))
    rows.append(_check_running(data))
    return tuple(rows)


def _describe_version() -> DoctorRow:
    return DoctorRow("version", "ok", f"this is gatepost {describe_build()}")


def _check_old_names(config: Path) -> DoctorRow:
    """Keys that this version still reads under an old name."""
    if old := find_old_names(config):
        advice = "rename them; a later version may no longer read the old names"
        return DoctorRow("configuration", "warn", "; ".join(map(str, old)), advice)
    return DoctorRow("configuration", "ok", f"every key of {config} is known")


def _check_schema(state: SchemaState, url: str) -> DoctorRow:
    place = hide(url)
    if state.is_newer:
        found = f"{place} has schema {state.present}; this version knows {SCHEMA}"
        return DoctorRow("database", "fail", found, "use the newer Gatepost, or restore the backup made before it")
    if state.is_too_old:
        found = f"{place} has schema {state.present}; this version upgrades {OLDEST} and later"
        advice = f"upgrade to version {PASS_THROUGH} first, then to this one"
        return DoctorRow("database", "fail", found, advice)
    if state.part:
        return DoctorRow("database", "fail", f"{place} {state.part}", REUNITE)
    if not state.present:
        return DoctorRow("database", "ok", f"{place} has no data yet; the first start makes schema {SCHEMA}")
    found = f"{place} has schema {state.present} of {SCHEMA}"
    if not state.needs_upgrade:
        newer = "; a newer version has added to it" if state.present > SCHEMA else ""
        return DoctorRow("database", "ok", f"{found}{newer}; nothing to upgrade")
    if state.present == SCHEMA:
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
        "gatepost backup FILE with the version that runs now; keep a copy of secrets.key and of the quarantine as well"
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
