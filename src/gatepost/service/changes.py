"""How a running service takes over changed settings, which is always the same way: it starts again, and nobody notices.

1. The changed configuration is checked as a whole, on the ports of this machine too. A faulty one changes nothing.
2. What is in force is noted as what to go back to, and the changed configuration as tried (`Trial`).
3. The service accepts nothing more, and finishes what is under way within `DRAIN_SECONDS`. What is late is cut off.
4. The process replaces its program by exec(3) with its listening sockets, in whose queues clients wait meanwhile.
5. The process that starts is on trial until it serves and is healthy. If it cannot be, the process is replaced once
   more, and uses the configuration before again, of which a copy was kept; if it dies, the next start does so.

What was not taken over is told by the log, the state of the files in the data folder (for `gatepost config check`,
`doctor` and `nodes`), and a warning of the health. Published versions take the same way (`rollout`).
"""

import asyncio
import hashlib
import os
import shutil
import socket
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from pathlib import Path
from threading import Timer
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from gatepost.ids import new_id
from gatepost.plugins import find_code_fault, find_plugins
from gatepost.process.health import Health, HealthLedger
from gatepost.process.logs import Logger
from gatepost.service import systemd
from gatepost.service.data_folder import CURRENT, DataFolder, NodeVersion, StartError
from gatepost.service.publishing import copy_files, renew_folder
from gatepost.settings import files
from gatepost.settings.consistency import find_expired_certificates
from gatepost.settings.faults import ConfigError, Fault, render_key
from gatepost.settings.keys import AbbySettings, GuardSettings, PolicySettings
from gatepost.settings.values import list_changes
from gatepost.store.errors import StorageError

if TYPE_CHECKING:
    from gatepost.service.plan import Plan

MAX_RULE_FILES = 10_000
# What is under way may take so long; then it is cut off, and the rest of the service has so long to end.
DRAIN_SECONDS, END_SECONDS = 30.0, 15.0
# So long may a process on trial take until it serves, and then until it is healthy; and so long it must serve.
READY_SECONDS, HEALTHY_SECONDS, TRIAL_SECONDS = 180.0, 60.0, 1.0
LOOK_SECONDS = 0.1

T = TypeVar("T")
Services = tuple[GuardSettings | None, AbbySettings | None]

log = Logger("gatepost")


class Trial(msgspec.Struct, frozen=True):
    """A configuration that is tried, and the one to go back to. `has_begun` once a process has started with it;
    `was_faulty` if the node could not do its work before; `fault` is why it failed, `is_told` once that was noted by a
    process that serves."""

    version: NodeVersion
    before: NodeVersion
    was_faulty: bool = False
    has_begun: bool = False
    fault: str = ""
    is_told: bool = False


class NodeFiles:
    """The files of one node; `service` is `guard` or `abby`, of which one data folder may have both."""

    def __init__(self, data: DataFolder, service: str) -> None:
        self._data, self.service = data, service
        self.place = data.published(service)
        self._current = self.place / CURRENT
        self._trial = self.place / "trial.json"
        self._id = data.path / f"{service}.node"

    def node_id(self) -> str:
        """Return the id of this node, which stays over restarts."""
        self._data.write_once(self._id, new_id())
        return self._id.read_text("ascii").strip()

    def current(self) -> NodeVersion:
        """Return the version that this node runs, or shall start with."""
        return self._data.read_version(self.service)

    def set_current(self, version: NodeVersion) -> None:
        """Note that this node runs a version, and tidy up what is left of others."""
        self._data.replace(self._current, msgspec.json.encode(version))
        self._trial.unlink(missing_ok=True)
        for path in self.place.iterdir():
            if path.is_dir() and path.name != Path(version.folder).name:
                shutil.rmtree(path, ignore_errors=True)

    def trial(self) -> Trial | None:
        """Return what is tried, or has failed, if there is anything."""
        return _read(self._trial, Trial)

    def set_trial(self, trial: Trial) -> None:
        self._data.replace(self._trial, msgspec.json.encode(trial))

    def end_trial(self) -> None:
        self._trial.unlink(missing_ok=True)

    def choose(self) -> NodeVersion:
        """Return the version to start with; called once at the start of the process."""
        trial = self.trial()
        if trial is None:
            return self.current()
        if trial.has_begun and not trial.fault:
            trial = msgspec.structs.replace(trial, fault="the process ended before it was healthy")
        elif not trial.fault or trial.is_told:
            # The node's own files may have been corrected since they have failed.
            trial = msgspec.structs.replace(trial, has_begun=True, fault="", is_told=False)
        self.set_trial(trial)
        return trial.before if trial.fault else trial.version

    def prepare_start(self, local: Path) -> tuple[NodeVersion, Path]:
        """Return the version to start with, and the folder of its files: with the local keys as they are now, or as it
        was kept where another one has failed. Raises `StartError`."""
        version, trial = self.choose(), self.trial()
        if trial and trial.fault and Path(version.folder).is_dir():
            return version, Path(version.folder)
        if not version.number:
            return NodeVersion(), local
        folder = renew_folder(Path(version.folder), version.number, local)
        version = NodeVersion(version.number, str(folder))
        self._note(version, trial)
        return version, folder

    def keep(self, local: Path) -> None:
        """Keep a copy of the node's own files, which were just read, to go back to."""
        try:
            self._note(NodeVersion(0, str(copy_files(local, self.place))), self.trial())
        except (StartError, ConfigError) as fault:
            log.warning("the configuration files could not be kept", reason=str(fault))

    def _note(self, version: NodeVersion, trial: Trial | None) -> None:
        """Note the folder of the version that this process has started with."""
        if trial:
            self.set_trial(msgspec.structs.replace(trial, version=version))
        else:
            self.set_current(version)

    def refuse_trial(self, reason: str) -> bool:
        """Note that what is tried cannot be run; returns whether anything was tried."""
        trial = self.trial()
        if trial is None or trial.fault:
            return False
        self.set_trial(msgspec.structs.replace(trial, fault=reason))
        return True

    def end_broken_trial(self, fault: Exception) -> bool:
        """Note why the service has ended with what is tried; returns whether anything was tried."""
        is_known = isinstance(fault, ConfigError | StartError | StorageError)
        if not self.refuse_trial(str(fault) if is_known else f"the service broke: {fault!r}"):
            return False
        if not is_known:
            log.error("the service broke with a changed configuration", exc_info=fault)
        return True

    def pause_trial(self) -> None:
        """Note that the process was asked to stop: the next start tries again."""
        trial = self.trial()
        if trial and trial.has_begun and not trial.fault:
            self.set_trial(msgspec.structs.replace(trial, has_begun=False))


def _read(path: Path, kind: type[T]) -> T | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except (OSError, msgspec.DecodeError):
        return None


def load_services(folder: Path, services: tuple[str, ...]) -> Services:
    """Return the settings of these services, and check everything that they name; raises `ConfigError`."""
    if len(services) > 1:
        both = files.load(folder, certificates=True)
        return both.guard, both.abby
    if services == ("guard",):
        return files.load_guard(folder, certificates=True), None
    return None, files.load_abby(folder, certificates=True)


class LoadedFiles(msgspec.Struct, frozen=True):
    """What a running service has read: kept in the data folder for the commands. Times are Unix seconds."""

    config: str
    read: float
    digests: dict[str, str]
    fault: str = ""
    failed: float = 0.0


def digest_files(folder: Path, guard: GuardSettings | None, abby: AbbySettings | None) -> dict[str, str]:
    """Return a digest of every file that settings are read from: both files, policies, rules, and what plug-ins
    declare."""
    paths: list[Path] = []
    if guard:
        paths += [folder / files.GUARD_FILE, *_policy_files(guard.policy)]
        if guard.yara:
            paths += sorted(Path(guard.yara.folder).glob("*.yar*"))[:MAX_RULE_FILES]
        paths += [plugin.file for plugin in find_plugins(guard.plugins)]
    if abby:
        paths += [folder / files.ABBY_FILE, *_policy_files(abby.policy)]
    return {str(path): _digest(path) for path in paths}


def _policy_files(settings: PolicySettings) -> Iterator[Path]:
    return map(Path, settings.files.values())


def _digest(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return ""


def save_loaded(data: DataFolder, service: str, state: LoadedFiles) -> None:
    """Note in the data folder which state of the files is in force, or why another one is not."""
    try:
        data.replace(_state_file(data, service), msgspec.json.encode(state))
    except StartError as fault:
        log.warning("state of the configuration files could not be noted", reason=str(fault))


def load_state(data: DataFolder, service: str) -> LoadedFiles | None:
    """Return what a service of this data folder has read; None if none has, or it cannot be read."""
    return _read(_state_file(data, service), LoadedFiles)


def _state_file(data: DataFolder, service: str) -> Path:
    return data.path / f"{service}.loaded.json"


def find_changed_files(state: LoadedFiles) -> list[str]:
    """Return the files that have changed, or gone, since a service has read them."""
    return [path for path, digest in state.digests.items() if _digest(Path(path)) != digest]


def describe_running(data: DataFolder) -> list[str]:
    """Return what services that run on this data folder have not taken over of their files, a sentence each."""
    found = []
    for service in ("guard", "abby"):
        state = load_state(data, service) if data.is_locked(service) else None
        if state is None:
            continue
        if state.fault:
            found.append(f"the running {service} has refused the files as they were: {state.fault}")
        if changed := find_changed_files(state):
            said = f"changed since the running {service} has read it, a reload takes it over"
            found.append(f"{said}: {', '.join(changed)}")
    return found


class Changes:
    """Changes the configuration of this process, one change after the other. `kept` are further descriptors of the
    listening sockets, which stay open whatever the services close; `spare` are sockets of the configuration before, for
    a trial that fails. `restarts` says that the process is to be started again once the service has ended."""

    def __init__(self, plan: "Plan", stop: asyncio.Event, kept: list[int], spare: Sequence[socket.socket] = ()) -> None:
        self._plan, self._stop, self._kept, self._spare = plan, stop, kept, spare
        self._node = NodeFiles(plan.data, plan.service)
        self._lock, self._settled = asyncio.Lock(), asyncio.Event()
        self._tasks: set[asyncio.Task[object]] = set()
        self._ledger: HealthLedger | None = None
        self._health: Callable[[], Health] | None = None
        self._timer = Timer(READY_SECONDS, self._end_late_start)
        self.restarts = False
        # The version that this process has taken over, once its trial is over.
        self.taken: NodeVersion | None = None

    def watch_start(self) -> None:
        """Go back to the configuration before if this process is on trial and does not serve in time."""
        trial = self._node.trial()
        if trial and not trial.fault:
            self._begin_timer(self._timer)

    def _end_late_start(self) -> None:
        if self._node.refuse_trial(f"the service did not serve within {READY_SECONDS:.0f} seconds"):
            self.replace_process()

    def _begin_timer(self, timer: Timer) -> None:
        self._timer, timer.daemon = timer, True
        timer.start()

    @property
    def is_settled(self) -> bool:
        """Whether no configuration is on trial, and the process stays."""
        return self._settled.is_set() and not self.restarts

    def attach(self, ledger: HealthLedger, health: Callable[[], Health]) -> None:
        """Warn by this ledger, and judge trials by this health."""
        self._ledger, self._health = ledger, health
        self._timer.cancel()
        self._start(self._finish_trial())

    def begin(self) -> None:
        """Take over the files as they are, as soon as that can be."""
        self._start(self.change())

    def _start(self, work: Coroutine[Any, Any, object]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def change(self, version: NodeVersion | None = None) -> str:
        """Begin to take over a version, or the local files as they are; returns why that was refused, "" if it has
        begun."""
        async with self._lock:
            await self._settled.wait()
            if self._stop.is_set():
                return ""
            systemd.notify_reloading()
            try:
                trial, changed = await asyncio.to_thread(self._check, version)
                await asyncio.to_thread(self._node.set_trial, trial)
            except (ConfigError, StartError) as fault:
                self._tell(str(fault))
                log.error("configuration not taken over", reason=str(fault))
                systemd.notify_ready("serves with the settings before: a file is faulty")
                return str(fault)
            log.info("configuration change begins", changed=changed, version=trial.version.number)
            self._leave()
            return ""

    def _check(self, version: NodeVersion | None) -> tuple[Trial, tuple[str, ...]]:
        """Check a version as a whole; returns its trial, and the keys that differ. Raises `ConfigError`,
        `StartError`."""
        from gatepost.service.plan import check_new_ports

        plan, before = self._plan, self._node.current()
        assert plan.local is not None
        if version is None:
            version = NodeVersion(plan.version)
            if plan.version:
                folder = renew_folder(Path(before.folder), plan.version, plan.local)
                version = NodeVersion(plan.version, str(folder))
        folder = Path(version.folder) if version.number else plan.local
        guard, abby = load_services(folder, plan.services)
        changed: list[str] = []
        for name, old, new in (("guard.yml", plan.guard, guard), ("abby.yml", plan.abby, abby)):
            if old and new:
                changed += [f"{name} {key}" for key in list_changes(old, new)]
                ended = set(find_expired_certificates(new, 0)) - set(find_expired_certificates(old, 0))
                if ended:
                    raise ConfigError([Fault(name, 0, render_key(key), said) for key, said in sorted(ended)])
        if guard and (fault := find_code_fault(guard.plugins)):
            raise ConfigError([Fault("guard.yml", 0, "plugins", fault)])
        check_new_ports(plan, msgspec.structs.replace(plan, guard=guard, abby=abby))
        was_faulty = bool(self._health and self._health().fault)
        return Trial(version, before, was_faulty=was_faulty), tuple(changed)

    def _leave(self) -> None:
        """Have the service end and start again, whatever hangs."""
        self.restarts = True
        self._begin_timer(Timer(DRAIN_SECONDS + END_SECONDS, self._force))
        self._stop.set()

    def _force(self) -> None:
        log.error("the service did not end in time, and starts again at once")
        self.replace_process()

    def replace_process(self) -> None:
        """Run the program anew in this process, with the listening sockets. It does not return."""
        self._timer.cancel()
        systemd.replace_process([*self._kept, *(each.fileno() for each in self._spare if each.fileno() >= 0)])

    def give_up(self) -> None:
        """Stop for good: no restart needs the sockets now. While one is open its port listens, and connections wait for
        nobody."""
        self.restarts = False
        self._timer.cancel()
        self._node.pause_trial()
        self._close_spare()
        while self._kept:
            os.close(self._kept.pop())

    def _close_spare(self) -> None:
        for each in self._spare:
            each.close()

    async def _finish_trial(self) -> None:
        """Settle for what this process has started with, once it has proven itself; or go back."""
        trial = await asyncio.to_thread(self._node.trial)
        if trial is None:
            self._settle()
            return
        if trial.fault:
            self._tell(trial.fault)
            log.error("configuration not taken over", reason=trial.fault, version=trial.version.number)
            if trial.version.number == trial.before.number:
                await asyncio.to_thread(self._node.set_trial, msgspec.structs.replace(trial, is_told=True))
            self._settle()
            return
        await asyncio.sleep(TRIAL_SECONDS)
        assert self._health is not None
        deadline = time.monotonic() + HEALTHY_SECONDS
        while not trial.was_faulty and (fault := self._health().fault):
            if time.monotonic() > deadline:
                self._node.refuse_trial(f"the node was not healthy with it: {fault}")
                self._leave()
                return
            await asyncio.sleep(LOOK_SECONDS)
        await asyncio.to_thread(self._node.set_current, trial.version)
        if trial.version.number != trial.before.number:
            self.taken = trial.version
        log.info("configuration taken over", version=trial.version.number)
        self._settle()

    def _settle(self) -> None:
        self._close_spare()
        self._settled.set()

    def _tell(self, reason: str) -> None:
        """Have everybody told that a configuration was not taken over."""
        if self._ledger:
            self._ledger.note("configuration", f"a changed configuration is not in force: {reason}")
        before = load_state(self._plan.data, self._plan.service)
        if before:
            state = msgspec.structs.replace(before, fault=reason, failed=time.time())
            save_loaded(self._plan.data, self._plan.service, state)
