"""Read the two configuration files and the policy files that they name: all settings, or all faults at once.

For people, they are shown again: those that differ from their defaults (`gatepost config check`), or all of them (the
system page of the web interface), without secrets.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from pydantic_core import PydanticUndefined

from gatepost.plugins import PluginError, find_plugins
from gatepost.policy.condition_process import condition_work
from gatepost.policy.layers import (
    MAX_CHARACTERS,
    OUTBOUND,
    Effective,
    Layer,
    Level,
    Policies,
    lay_over,
    read_policy_file,
)
from gatepost.policy.rules import AddedKinds, PolicyError, PolicyMistake, extend_policy, shipped_policy
from gatepost.process.hiding import hide
from gatepost.settings import consistency
from gatepost.settings.consistency import find_abby_warnings, find_certificate_faults, find_guard_warnings
from gatepost.settings.document import Document, Key, SettingsMistake, parse_document, rename_keys, resolve_references
from gatepost.settings.faults import ConfigError, Fault, render_key, validate
from gatepost.settings.keys import AbbySettings, GuardSettings, PolicySettings
from gatepost.settings.values import Section

GUARD_FILE = Path("guard/core/guard.yml")
ABBY_FILE = Path("abby/abby/abby.yml")

S = TypeVar("S", bound=Section)
F = TypeVar("F", GuardSettings, AbbySettings)

# CPU time for the rules in all policy files of a deployment, which may have thousands of tenants.
_POLICY_SECONDS = 600.0


class Configuration(msgspec.Struct, frozen=True):
    """The settings of both files of one folder."""

    guard: GuardSettings
    abby: AbbySettings


class _File(msgspec.Struct, frozen=True):
    """A file that was parsed; `name` is used in faults."""

    name: str
    document: Document

    def faults(self, mistakes: Iterable[SettingsMistake]) -> list[Fault]:
        return [Fault(self.name, mistake.line, render_key(mistake.key), mistake.sentence) for mistake in mistakes]

    def disagreements(self, found: Iterable[consistency.Disagreement]) -> list[Fault]:
        return self.faults(SettingsMistake(self.document.line_of(key), key, sentence) for key, sentence in found)


def load(folder: Path, *, certificates: bool = False) -> Configuration:
    """Read both files, for a guard and an abby that run together; raises `ConfigError`.

    `certificates` has the certificates and keys loaded as well: a service needs them, other commands may not even have
    the right to read them.
    """
    _, guard, faults = _read_alone(folder / GUARD_FILE, GuardSettings, certificates)
    abby_file, abby, more = _read_alone(folder / ABBY_FILE, AbbySettings, certificates)
    faults += more
    if guard and abby:
        faults += abby_file.disagreements(consistency.find_shared_faults(guard, abby))
    if faults or guard is None or abby is None:
        raise ConfigError(faults)
    return Configuration(guard, abby)


def load_guard(folder: Path, *, certificates: bool = False) -> GuardSettings:
    """Read `guard.yml` alone; raises `ConfigError`. `certificates` as in `load`."""
    return _load_alone(folder / GUARD_FILE, GuardSettings, certificates)


def load_abby(folder: Path, *, certificates: bool = False) -> AbbySettings:
    """Read `abby.yml` alone; raises `ConfigError`. `certificates` as in `load`."""
    return _load_alone(folder / ABBY_FILE, AbbySettings, certificates)


def _load_alone(path: Path, model: type[F], certificates: bool) -> F:
    _, settings, faults = _read_alone(path, model, certificates)
    if faults or settings is None:
        raise ConfigError(faults)
    return settings


def _read_alone(path: Path, model: type[F], certificates: bool) -> tuple[_File, F | None, list[Fault]]:
    """Read one file, and find all that is wrong in it and in what it names."""
    file, settings, faults = _read_file(path, model)
    if settings is not None:
        faults += file.disagreements(consistency.find_faults(settings))
        faults += find_policy_faults(settings.policy, settings.plugins)
        faults += file.disagreements(find_certificate_faults(settings)) if certificates else []
    return file, settings, faults


def _read_file(path: Path, model: type[S]) -> tuple[_File, S | None, list[Fault]]:
    try:
        raw = path.read_bytes()
    except OSError as fault:
        reason = (fault.strerror or "unknown error").lower()
        file = _File(str(path), Document(None, {}))
        return file, None, [Fault(str(path), 0, "", f"cannot be read: {reason}")]
    document = resolve_references(parse_document(raw), path.parent.absolute())
    file = _File(str(path), rename_keys(document, model.old_names))
    settings, mistakes = validate(model, file.document, str(path.parent.absolute()))
    return file, settings, file.faults(mistakes)


def read_settings(path: Path, model: type[S]) -> S | None:
    """Return what one file says, whether or not it fits to others; None if it is faulty."""
    return _read_file(path, model)[1]


def find_warnings(folder: Path) -> list[Fault]:
    """Return everything that the files of a folder allow and an operator should know, old names included."""
    found, guard = find_old_names(folder), None
    if (folder / GUARD_FILE).exists():
        guard_file, guard, _ = _read_file(folder / GUARD_FILE, GuardSettings)
        found += guard_file.disagreements(find_guard_warnings(guard)) if guard else []
    if (folder / ABBY_FILE).exists():
        abby_file, abby, _ = _read_file(folder / ABBY_FILE, AbbySettings)
        found += abby_file.disagreements(find_abby_warnings(abby, guard)) if abby else []
    return sorted(set(found))


def find_old_names(folder: Path) -> list[Fault]:
    """Return a warning for every old name in the files of a folder and in the policy files that they name."""
    found: list[Fault] = []
    models: tuple[tuple[Path, type[GuardSettings | AbbySettings]], ...] = (
        (GUARD_FILE, GuardSettings),
        (ABBY_FILE, AbbySettings),
    )
    for name, model in models:
        if (folder / name).exists():
            file, settings, _ = _read_file(folder / name, model)
            found += file.faults(file.document.warnings)
            found += find_old_policy_names(settings.policy) if settings else []
    return sorted(set(found))


def find_old_policy_names(settings: PolicySettings) -> list[Fault]:
    """Return a warning for every old name in the policy files; files that cannot be read give none."""
    found: list[Fault] = []
    with condition_work(_POLICY_SECONDS):
        for file in settings.files.values():
            try:
                layer = read_policy_layer("deployment", Path(file))
            except (PolicyError, OSError):
                continue
            warnings = read_policy_file(layer.text, shipped_policy()).warnings
            found += [Fault(file, each.line, ".".join(each.key), each.sentence) for each in warnings]
    return found


def load_policies(settings: PolicySettings, plugins: Sequence[str] = ()) -> Policies:
    """Read the policies of the deployment and its tenants, over the shipped one with what plug-ins add to it; raises
    `ConfigError`."""
    try:
        added = _list_added(plugins)
    except PluginError as fault:
        raise ConfigError([Fault("the configuration", 0, "plugins", str(fault))]) from None
    policies, found = _read_policies(settings, added)
    if found:
        raise ConfigError(found)
    return policies


def find_policy_faults(settings: PolicySettings, plugins: Sequence[str] = ()) -> list[Fault]:
    """Return all faults of the policy files, with line and key; none where a plug-in is faulty, whose kinds they may
    name."""
    try:
        return _read_policies(settings, _list_added(plugins))[1]
    except PluginError:
        return []


def _list_added(plugins: Sequence[str]) -> tuple[AddedKinds, ...]:
    return tuple(plugin.added for plugin in find_plugins(plugins))


def read_policy_layer(level: Level, path: Path) -> Layer:
    """Read one file as a layer; raises `PolicyError` or `OSError`."""
    raw = path.read_bytes()[: 4 * MAX_CHARACTERS + 1]
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as fault:
        line = raw.count(b"\n", 0, fault.start) + 1
        raise PolicyError(str(path), [PolicyMistake(line, (), "is not UTF-8 here")]) from None
    return Layer("tenant" if level == "tenant" else "deployment", str(path), text)


def _read_policies(settings: PolicySettings, added: Sequence[AddedKinds]) -> tuple[Policies, list[Fault]]:
    found: list[Fault] = []
    base = Effective(extend_policy(shipped_policy(), added))
    # One process compiles the rules of all files.
    with condition_work(_POLICY_SECONDS):
        deployment = _lay_file_over(base, "deployment", settings.file, found) if settings.file else base
        # A tenant's file is read over what could be read of the deployment's, so that all faults are reported at once.
        tenants = {uid: _lay_file_over(deployment, "tenant", file, found) for uid, file in settings.tenants.items()}
        if settings.outbound:
            tenants[OUTBOUND] = _lay_file_over(deployment, "deployment", settings.outbound, found)
    return Policies(deployment, tenants), found


def _lay_file_over(base: Effective, level: Level, file: str, found: list[Fault]) -> Effective:
    try:
        return lay_over(base, read_policy_layer(level, Path(file)))
    except PolicyError as wrong:
        found += [Fault(wrong.file, each.line, ".".join(each.key), each.sentence) for each in wrong.mistakes]
    except OSError as wrong:
        found.append(Fault(file, 0, "", f"cannot be read: {(wrong.strerror or 'unknown error').lower()}"))
    return base


def differing_settings(settings: Section) -> dict[str, Any]:
    """Return every key whose value is not the default, as written in the file, with its value."""
    return {render_key(key): hide(value, key) for key, value in _walk(settings, (), only_differing=True)}


def settings_in_force(file: str, settings: Section) -> tuple[tuple[str, str, str], ...]:
    """Return (file, key, value) for every setting of one file, defaults included, as text."""
    lines = _walk(settings, (), only_differing=False)
    return tuple((file, render_key(key), _render(hide(value, key))) for key, value in lines)


def _walk(settings: Section, above: Key, *, only_differing: bool) -> Iterator[tuple[Key, Any]]:
    """Yield every key below a section that has a value of its own; sections inside it are walked as well."""
    for name, field in type(settings).model_fields.items():
        value, key = getattr(settings, name), (*above, str(field.alias))
        default = field.get_default(call_default_factory=True, validated_data={})
        if isinstance(value, Section):
            inner = list(_walk(value, key, only_differing=only_differing))
            # A section that is off unless it is named says something even when it is empty.
            yield from inner or ([(key, {})] if default is None else [])
        elif only_differing and default is not PydanticUndefined and value == default:
            continue
        elif isinstance(value, list) and value and isinstance(value[0], Section):
            for index, item in enumerate(value):
                yield from _walk(item, (*key, index), only_differing=only_differing)
        elif isinstance(value, dict) and value and not only_differing:
            yield from (((*key, str(each)), inner) for each, inner in value.items())
        else:
            yield key, value


def _render(value: Any) -> str:
    if value is None:
        return "not set"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return "none" if value == {} else str(value)


def list_values(value: Any, above: Key = ()) -> Iterator[tuple[Key, Any]]:
    """Yield what stands under a key and is neither a section nor a list, but for empty ones, each with its own key."""
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from list_values(inner, (*above, key))
    elif isinstance(value, list) and value:
        for index, inner in enumerate(value):
            yield from list_values(inner, (*above, index))
    else:
        yield above, value
