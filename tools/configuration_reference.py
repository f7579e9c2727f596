"""Render the reference page of the configuration from the settings classes; `tools.reference` writes it."""

from collections.abc import Iterable, Iterator
from typing import Any, get_args

from annotated_types import Ge, Le
from pydantic.fields import FieldInfo

from gatepost.service.commands import ABBY_YML, GUARD_YML
from gatepost.settings.events import EventKind
from gatepost.settings.keys import AbbySettings, GuardSettings
from gatepost.settings.values import Section, Written, find_section, is_local


def render_cell(text: str) -> str:
    """Return a text as the cell of a Markdown table."""
    return " ".join(text.split()).replace("|", "\\|")


def render_configuration() -> Iterator[str]:
    """Yield the lines of the page on both configuration files: a table row for each key."""
    yield "# Configuration"
    yield ""
    yield "A folder with two files in YAML 1.2. Unknown keys, keys that are set twice, keys without a value and wrong"
    yield "types are errors that name file, line and key; nothing starts on a faulty file. `gatepost config check`"
    yield "reads both files, loads the certificates that they name, and reports everything at once; it also warns of"
    yield "weak tokens and of what would not work. Paths in a file are relative to the folder of that file. A line"
    yield "`restApi {}` is read as `restApi: {}`."
    yield ""
    yield "A change of any key needs a [reload](../operating.md#starting-stopping-changing): the service starts"
    yield "again and no client is refused. A `local` key is one machine's own: it is not part of a"
    yield "[published version](../publishing.md)."
    yield "Lists, tenants, domains, keys and users are not configuration: changes of them apply at once."
    yield from _render_references()
    for model in (GuardSettings, AbbySettings):
        title, _, _ = (model.__doc__ or "").partition("\n")
        file, _, rest = title.partition(": ")
        yield from ("", f"## {file}", "", rest.capitalize(), "", *_render_example(model), "")
        yield from ("| Key | Default | Unit | Range | Scope | Meaning |", "|---|---|---|---|---|---|")
        yield from _render_keys(model, "", model)


def _render_keys(model: type[Section], above: str, root: type[Section]) -> Iterator[str]:
    for field in model.model_fields.values():
        key = f"{above}{field.alias}"
        inner, many = find_section(field.annotation)
        meaning = render_cell(field.description or "") + _render_choices(field.annotation)
        unit, bounds = _render_unit(field), _render_range(field)
        scope = "local" if not inner and is_local(root, key) else ""
        yield f"| `{key}` | {_render_default(field, inner)} | {unit} | {bounds} | {scope} | {meaning} |"
        if inner:
            yield from _render_keys(inner, f"{key}[]." if many else f"{key}.", root)


def _render_default(field: Any, inner: type[Section] | None) -> str:
    if field.is_required():
        return "required"
    if field.default_factory is not None:
        return "as many as cores"
    if field.default is None:
        return "absent"
    if inner or field.default in ([], {}):
        return ""
    if isinstance(field.default, list):
        return ", ".join(f"`{each}`" for each in field.default)
    return f"`{str(field.default).lower() if isinstance(field.default, bool) else field.default}`"


def _render_choices(annotation: Any) -> str:
    words = [word for word in _find_literals(annotation) if isinstance(word, str)]
    if words == list(get_args(EventKind)):
        return " ([kinds](events.md))"
    return f" ({', '.join(f'`{word}`' for word in words)})" if len(words) > 1 else ""


def _render_range(field: Any) -> str:
    """Return the bounds of a number, `1 to 65,535`; empty for other values."""
    bounds = {type(bound): bound for bound in _find_marks([*field.metadata, field.annotation], Ge, Le)}
    if Ge not in bounds or Le not in bounds:
        return ""
    return f"{bounds[Ge].ge:,} to {bounds[Le].le:,}"


def _render_unit(field: Any) -> str:
    """Return the unit that the type of a number is marked with; empty for other values."""
    written = {each.kind for each in _find_marks([*field.metadata, field.annotation], Written)} - {"tenant"}
    return " or ".join("ms" if each == "milliseconds" else each for each in sorted(written))


def _render_references() -> Iterator[str]:
    yield from ("", "## Secrets outside of the files", "")
    yield "A text in either file can take a value, or a part of it, from elsewhere:"
    yield from ("", "| Written | Stands for |", "|---|---|")
    yield "| `${env:NAME}` | the environment variable NAME |"
    yield "| `${file:PATH}` | the content of that file, without its last line end; relative to the configuration file |"
    yield "| `$${` | a plain `${` |"
    yield ""
    yield 'For example `token: "${file:/run/secrets/token}"` or'
    yield '`url: "postgresql://gatepost:${env:DB_PASSWORD}@db.example/gatepost"`. A variable or file that is missing or'
    yield "empty is an error. Commands that read the files, such as `gatepost tenant list`, need the same variables and"
    yield "files as the service. Secrets, and passwords in URLs, are never printed."


def _render_example(model: type[Section]) -> Iterator[str]:
    """Yield an example file: what the first start writes, with every comment, as `gatepost serve` fills it in."""
    values = {"secret": "", "token": "${file:/run/secrets/border-mta}", "storage": "sqlite:gatepost.db"}
    ports = {"listen": 9081, "port": 9785, "rest": 9785, "smtp": 10025}
    text = (GUARD_YML if model is GuardSettings else ABBY_YML).format(**values, **ports)
    yield from ("An example; `gatepost serve` writes nearly the same at its first start:", "", "```yaml")
    yield from text.rstrip("\n").split("\n")
    yield "```"


def _find_marks(parts: Iterable[Any], *kinds: type) -> Iterator[Any]:
    for part in parts:
        if isinstance(part, kinds):
            yield part
        yield from _find_marks(getattr(part, "__metadata__", ()), *kinds)
        if isinstance(part, FieldInfo):
            yield from _find_marks(part.metadata, *kinds)
        elif find_section(part)[0] is None:
            yield from _find_marks(get_args(part), *kinds)


def _find_literals(annotation: Any) -> Iterator[Any]:
    for inner in get_args(annotation):
        if isinstance(inner, str):
            yield inner
        elif find_section(inner)[0] is None:
            yield from _find_literals(inner)
