"""The base of every section of a configuration file, and what each key says of itself.

A key is defined as `live` or `at_start`, and a section inside another as `group`. A running service takes over a live
key when it reads its files again (`service.generation` builds all that such keys decide anew); any other key holds
after a restart, one that says nothing included. A `local` key holds for one machine alone and is not part of a
published version; a local group stands for all keys below it, as one with `restart` does. The reference page, the notes
of `gatepost config check`, reloads and published versions all follow from these marks.
"""

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel
from pydantic.fields import FieldInfo


class Section(BaseModel):
    """Strict: no coercion, no unknown keys, no changes after reading.

    `old_names` maps keys that a file may still use to the keys that replaced them.
    """

    old_names: ClassVar[Mapping[str, str]] = {}

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, alias_generator=to_camel, populate_by_name=True)


S = TypeVar("S", bound=Section)

_LIVE, _RESTART, _LOCAL = "live", "restart", "local"


def live(default: Any = ..., *, description: str, local: bool = False, **more: Any) -> Any:
    """A key that a running service takes over when it reads its files again."""
    return _define(default, description, {_LIVE: True, _LOCAL: local}, more)


def at_start(default: Any = ..., *, description: str, local: bool = False, **more: Any) -> Any:
    """A key that holds after a restart: of ports that are bound, processes that are forked and counts that are shared
    at the start; and the keys of which the interface says that they need a restart."""
    return _define(default, description, {_RESTART: True, _LOCAL: local}, more)


def group(default: Any = ..., *, description: str, local: bool = False, restart: bool = False) -> Any:
    """A section inside of a section. Its keys say of themselves when they hold, unless all of them need a restart."""
    return _define(default, description, {_RESTART: restart, _LOCAL: local}, {})


def _define(default: Any, description: str, marks: dict[str, Any], more: dict[str, Any]) -> Any:
    if "default_factory" in more:
        return Field(description=description, json_schema_extra=marks, **more)
    return Field(default, description=description, json_schema_extra=marks, **more)


def _has(field: FieldInfo, mark: str) -> bool:
    return isinstance(field.json_schema_extra, dict) and bool(field.json_schema_extra.get(mark))


def find_section(annotation: Any) -> tuple[type[Section] | None, bool]:
    """Return the section class inside an annotation, and whether the annotation is a list of them."""
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return annotation, False
    for inner in get_args(annotation):
        found, _ = find_section(inner)
        if found:
            return found, getattr(annotation, "__origin__", None) is list
    return None, False


def needs_restart(model: type[Section], key: str) -> bool:
    """Whether a change of a key, such as `listen.port`, holds only after a restart of the service."""
    fields = list(_follow(model, key))
    if any(_has(field, _RESTART) for field in fields):
        return True
    section, is_list = find_section(fields[-1].annotation) if fields else (model, False)
    return (section is None or is_list) and not _has(fields[-1], _LIVE)


def is_local(model: type[Section], key: str) -> bool:
    """Whether a key holds for one machine alone and is not part of a published version."""
    return any(_has(field, _LOCAL) for field in _follow(model, key))


def _follow(model: type[Section], key: str) -> Iterator[FieldInfo]:
    """Yield the fields that a key leads through, as far as it names some: what is below them are names of the user."""
    section: type[Section] | None = model
    for step in key.split("."):
        name = step.partition("[")[0]
        field = next((each for each in section.model_fields.values() if each.alias == name), None) if section else None
        if field is None:
            return
        yield field
        section = find_section(field.annotation)[0]


def keep_restart_keys(before: S, after: S) -> tuple[S, tuple[str, ...]]:
    """Return the new settings as far as a running service can take them over, and the keys that wait for a restart."""
    waiting: list[str] = []
    kept = _keep(type(after), "", before, after, waiting)
    return kept, tuple(waiting)


def _keep(model: type[Section], above: str, before: S, after: S, waiting: list[str]) -> S:
    changed: dict[str, Any] = {}
    for name, field in type(after).model_fields.items():
        key, old, new = f"{above}{field.alias}", getattr(before, name), getattr(after, name)
        if old == new:
            continue
        if needs_restart(model, key) or _switches_port(field, old, new):
            waiting.append(key)
            changed[name] = old
        elif isinstance(old, Section) and isinstance(new, Section) and type(old) is type(new):
            changed[name] = _keep(model, f"{key}.", old, new, waiting)
    return after.model_copy(update=changed) if changed else after


def _switches_port(field: FieldInfo, old: Any, new: Any) -> bool:
    """Whether a section comes or goes that has keys which need a restart: `scanSources.smtp` opens a port."""
    section, _ = find_section(field.annotation)
    return (old is None or new is None) and section is not None and _has_restart_keys(section)


def _has_restart_keys(section: type[Section]) -> bool:
    for field in section.model_fields.values():
        inner, is_list = find_section(field.annotation)
        is_key = inner is None or is_list
        if _has(field, _RESTART) or (is_key and not _has(field, _LIVE)) or (inner and _has_restart_keys(inner)):
            return True
    return False


def list_changes(before: Section, after: Section, above: str = "") -> Iterator[str]:
    """Yield every key whose value differs between two settings of one file."""
    for name, field in type(after).model_fields.items():
        key, old, new = f"{above}{field.alias}", getattr(before, name), getattr(after, name)
        if isinstance(old, Section) and isinstance(new, Section) and type(old) is type(new):
            yield from list_changes(old, new, f"{key}.")
        elif old != new:
            yield key
