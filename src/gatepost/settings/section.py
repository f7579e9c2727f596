"""The base of every section of a configuration file, and what a running service takes over of the files.

Some keys hold for one machine alone, and some a running service cannot take over. A key stands in the tables here by
its path in the file; a section stands for all keys below it. A key that is not named is taken over by a running service
when it reads its files again, and is the same on every machine of a deployment.
"""

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, TypeVar

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel


class Section(BaseModel):
    """Strict: no coercion, no unknown keys, no changes after reading.

    `old_names` maps keys that a file may still use to the keys that replaced them.
    """

    old_names: ClassVar[Mapping[str, str]] = {}

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, alias_generator=to_camel, populate_by_name=True)


S = TypeVar("S", bound=Section)

# Ports that are bound, processes that are forked and counts that are shared at the start; and the keys of which the
# interface says that they need a restart.
RESTART_KEYS: Mapping[str, tuple[str, ...]] = {
    "guard.yml": (
        *("mainWorkerCount", "maxGuardRequestsInProcessing", "guardRequestThrottleThreshold"),
        *("frontProcesses", "unsealed", "metrics.listen", "storage", "events"),
        *("scanSources.restApi.host", "scanSources.restApi.port"),
        *("scanSources.smtp.host", "scanSources.smtp.port", "scanSources.smtp.outbound.port"),
        *("scanSources.milter.listen", "scanSources.milter.socketMode"),
    ),
    "abby.yml": ("listen", "frontProcesses", "metrics.listen", "storage", "events"),
}
# Addresses, certificates, folders and the size of one machine. `storage` is where published versions are read from, so
# it cannot be part of one.
LOCAL_KEYS: Mapping[str, tuple[str, ...]] = {
    "guard.yml": (
        *("workerProcesses", "workerMemory", "frontProcesses", "unsealed", "storage", "metrics.listen"),
        *("scanSources.restApi.host", "scanSources.restApi.port"),
        *("scanSources.smtp.host", "scanSources.smtp.port", "scanSources.smtp.hostname"),
        *("scanSources.smtp.outbound.hosts", "scanSources.smtp.outbound.port"),
        *("scanSources.milter.listen", "scanSources.milter.socketMode", "scanSources.milter.hostname"),
        *("tls", "delivery.ca", "delivery.certificate", "delivery.key", "dkim.keys", "arc.key"),
        *("quarantine.url", "clamd.address", "dns.nameservers", "events.node", "events.file", "events.syslog.ca"),
    ),
    "abby.yml": (
        *("listen", "tls", "frontProcesses", "storage", "metrics.listen", "serviceProviders.core.ca"),
        *("events.node", "events.file", "events.syslog.ca", "signIn.openidConnect.ca"),
    ),
}


def needs_restart(file: str, key: str) -> bool:
    """Whether a change of a key, such as `listen.port`, holds only after a restart of the service."""
    return _covers(RESTART_KEYS[file], key)


def is_local(file: str, key: str) -> bool:
    """Whether a key holds for one machine alone and is not part of a published version."""
    return _covers(LOCAL_KEYS[file], key)


def _covers(keys: tuple[str, ...], key: str) -> bool:
    return any(key == each or key.startswith(f"{each}.") for each in keys)


def keep_restart_keys(file: str, before: S, after: S) -> tuple[S, tuple[str, ...]]:
    """Return the new settings as far as a running service can take them over, and the keys that wait for a restart."""
    waiting: list[str] = []
    kept = _keep(file, "", before, after, waiting)
    return kept, tuple(waiting)


def _keep(file: str, above: str, before: S, after: S, waiting: list[str]) -> S:
    changed: dict[str, Any] = {}
    for name, field in type(after).model_fields.items():
        key, old, new = f"{above}{field.alias}", getattr(before, name), getattr(after, name)
        if old == new:
            continue
        if needs_restart(file, key) or _switches_port(file, key, old, new):
            waiting.append(key)
            changed[name] = old
        elif isinstance(old, Section) and isinstance(new, Section) and type(old) is type(new):
            changed[name] = _keep(file, f"{key}.", old, new, waiting)
    return after.model_copy(update=changed) if changed else after


def _switches_port(file: str, key: str, old: Any, new: Any) -> bool:
    """Whether a section comes or goes that has keys which need a restart: `scanSources.smtp` opens a port."""
    return (old is None or new is None) and any(each.startswith(f"{key}.") for each in RESTART_KEYS[file])


def list_changes(before: Section, after: Section, above: str = "") -> Iterator[str]:
    """Yield every key whose value differs between two settings of one file."""
    for name, field in type(after).model_fields.items():
        key, old, new = f"{above}{field.alias}", getattr(before, name), getattr(after, name)
        if isinstance(old, Section) and isinstance(new, Section) and type(old) is type(new):
            yield from list_changes(old, new, f"{key}.")
        elif old != new:
            yield key
