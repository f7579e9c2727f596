"""Read the files of a running service again: what is taken over, what waits for a restart, and what is at fault.

A fault in any file changes nothing: the settings before stay in force, and the reason is logged and kept in the data
folder, where `gatepost config check` and `gatepost doctor` find it. The same file says which state of the files is in
force, so that both can name files that have changed since.
"""

import hashlib
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from gatepost.plugins import find_plugins
from gatepost.process.logs import Logger
from gatepost.service import systemd
from gatepost.service.data_folder import DataFolder, StartError
from gatepost.service.plan import Plan
from gatepost.service.publishing import NodeFiles
from gatepost.settings import files
from gatepost.settings.keys import AbbySettings, GuardSettings, PolicySettings
from gatepost.settings.values import digest_keys, keep_restart_keys, list_changes, needs_restart

MAX_RULE_FILES = 10_000

log = Logger("gatepost")


class ReloadOutcome(msgspec.Struct, frozen=True):
    """Whether files were taken over, and if not, why; `changed` are the keys that differ from before, `restart` those
    that hold after a restart only."""

    taken: bool
    reason: str = ""
    changed: tuple[str, ...] = ()
    restart: tuple[str, ...] = ()


class LoadedFiles(msgspec.Struct, frozen=True):
    """What a running service has read: kept in the data folder for the commands. Times are Unix seconds; `keys` are
    digests of the values in force, by file and key."""

    config: str
    read: float
    digests: dict[str, str]
    restart: tuple[str, ...] = ()
    fault: str = ""
    failed: float = 0.0
    keys: dict[str, dict[str, str]] = {}


class ReadFiles(msgspec.Struct, frozen=True):
    """A plan that was read anew, as far as the running service can take it over."""

    plan: Plan
    outcome: ReloadOutcome
    digests: dict[str, str]


def read_again(plan: Plan, folder: Path | None = None) -> ReadFiles:
    """Read the files of a running service, of another folder if one is given; raises `ConfigError`, `StartError`."""
    if folder is None:
        assert plan.local is not None
        folder = NodeFiles(plan.data, plan.service).renew(plan.local)
    guard, abby = _load(plan, folder)
    digests = digest_files(folder, guard, abby)
    changed: list[str] = []
    waiting: list[str] = []
    if guard and plan.guard:
        guard, found = keep_restart_keys(plan.guard, guard)
        waiting += [f"guard.yml {key}" for key in found]
        changed += [f"guard.yml {key}" for key in list_changes(plan.guard, guard)]
    if abby and plan.abby:
        abby, found = keep_restart_keys(plan.abby, abby)
        waiting += [f"abby.yml {key}" for key in found]
        changed += [f"abby.yml {key}" for key in list_changes(plan.abby, abby)]
    fresh = msgspec.structs.replace(plan, guard=guard, abby=abby, config=folder)
    return ReadFiles(fresh, ReloadOutcome(True, "", tuple(changed), tuple(waiting)), digests)


def _load(plan: Plan, folder: Path) -> tuple[GuardSettings | None, AbbySettings | None]:
    if plan.guard and plan.abby:
        both = files.load(folder, certificates=True)
        return both.guard, both.abby
    if plan.guard:
        return files.load_guard(folder, certificates=True), None
    return None, files.load_abby(folder, certificates=True)


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


def _policy_files(settings: PolicySettings) -> Iterable[Path]:
    return map(Path, settings.files.values())


def _digest(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return ""


def save_loaded(plan: Plan, digests: dict[str, str], restart: tuple[str, ...] = ()) -> None:
    """Note in the data folder which state of the files is in force."""
    both = ((files.GUARD_FILE.name, plan.guard), (files.ABBY_FILE.name, plan.abby))
    keys = {name: digest_keys(settings) for name, settings in both if settings}
    _save(plan, LoadedFiles(str(plan.config or ""), time.time(), digests, restart, keys=keys))


def save_fault(plan: Plan, reason: str) -> None:
    """Note in the data folder that the files were read again and not taken over."""
    before = load_state(plan.data, plan.service)
    if before:
        _save(plan, msgspec.structs.replace(before, fault=reason, failed=time.time()))


def load_state(data: DataFolder, service: str) -> LoadedFiles | None:
    """Return what a service of this data folder has read; None if none has, or it cannot be read."""
    try:
        return msgspec.json.decode(_state_file(data, service).read_bytes(), type=LoadedFiles)
    except (OSError, msgspec.DecodeError):
        return None


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
        found += _describe_changes(service, state)
    return found


def _describe_changes(service: str, state: LoadedFiles) -> Iterator[str]:
    """Yield what has changed since a service has read its files, by the mark of each key."""
    live: list[str] = []
    waiting, others = list(state.restart), list[str]()
    for path in find_changed_files(state):
        changed = _find_changed_keys(Path(path), state)
        if changed is None:
            others.append(path)
            continue
        name = Path(path).name
        waiting = [each for each in waiting if not each.startswith(f"{name} ")]
        for key, needs in changed.items():
            (waiting if needs else live).append(f"{name} {key}")
    if changed_now := live + others:
        sentence = f"changed since the running {service} has read it, SIGHUP takes it over"
        yield f"{sentence}: {', '.join(changed_now)}"
    if waiting:
        yield f"holds after a restart: {', '.join(waiting)}"


def _find_changed_keys(path: Path, state: LoadedFiles) -> dict[str, bool] | None:
    """Return the keys of a file that differ from those in force, and whether each needs a restart; None for files
    without such keys, and for faulty ones."""
    models: dict[str, type[GuardSettings | AbbySettings]] = {
        files.GUARD_FILE.name: GuardSettings,
        files.ABBY_FILE.name: AbbySettings,
    }
    before, model = state.keys.get(path.name), models.get(path.name)
    settings = files.read_settings(path, model) if before and model else None
    if before is None or model is None or settings is None:
        return None
    after = digest_keys(settings)
    differing = [key for key in {**before, **after} if before.get(key) != after.get(key)]
    # Where a section comes or goes, it is named and not each of its keys.
    sections = [key for key in differing if key not in before or key not in after]
    sections = [key for key in sections if any(other.startswith(f"{key}.") for other in differing)]
    found: dict[str, bool] = {}
    for key in differing:
        name = next((each for each in sections if key == each or key.startswith(f"{each}.")), key)
        found[name] = found.get(name, False) or needs_restart(model, key)
    return found


def _save(plan: Plan, state: LoadedFiles) -> None:
    try:
        plan.data.replace(_state_file(plan.data, plan.service), msgspec.json.encode(state))
    except StartError as fault:
        log.warning("state of the configuration files could not be noted", reason=str(fault))


def _state_file(data: DataFolder, service: str) -> Path:
    return data.path / f"{service}.loaded.json"


def report_outcome(plan: Plan, read: ReadFiles | None, outcome: ReloadOutcome) -> None:
    """Log and note what a reload has led to, and tell the service manager."""
    if outcome.taken and read:
        save_loaded(read.plan, read.digests, outcome.restart)
        log.info("configuration files read again", changed=outcome.changed, config=str(read.plan.config))
        if outcome.restart:
            log.warning("service restart needed", keys=outcome.restart)
    else:
        save_fault(plan, outcome.reason)
        log.error("configuration files not taken over", reason=outcome.reason)
    systemd.notify_ready("serves" if outcome.taken else "serves with the settings before: a file is faulty")
