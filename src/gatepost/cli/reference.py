"""The reference pages, generated from what they describe: `python -m gatepost.cli.reference docs/reference`.

A test compares the pages on disk with these, so that neither can fall behind the other.
"""

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

from gatepost.api.openapi import Interface, document
from gatepost.api.operations import LISTS_API, LISTS_BASE, SCANNING
from gatepost.checks import CHECKS
from gatepost.lists.catalogue import KINDS, LISTS, find_usual_list, list_categories
from gatepost.policy.rules import shipped_policy
from gatepost.settings.keys import Abby, Guard, Section

GENERATED = "<!-- Generated from the code by `make docs`; changes made here are lost. -->"


def pages() -> dict[str, str]:
    """Every page by its file name."""
    made = {
        "configuration.md": configuration(),
        "api.md": api(SCANNING, "/v1"),
        "lists.md": lists(),
        "findings.md": findings(),
        "cli.md": commands(),
    }
    return {name: "\n".join([GENERATED, "", *lines]).rstrip() + "\n" for name, lines in made.items()}


def configuration() -> Iterator[str]:
    """Both files, every key."""
    yield "# Configuration"
    yield ""
    yield "A folder with two files in YAML 1.2. Unknown keys, keys that are set twice, keys without a value and wrong"
    yield "types are errors that name file, line and key; nothing starts on a faulty file. `gatepost config check`"
    yield "reads both files and reports everything at once. Paths in a file are relative to the folder of that file."
    yield "A line `restApi {}` is read as `restApi: {}`."
    for model in (Guard, Abby):
        title, _, _ = (model.__doc__ or "").partition("\n")
        file, _, rest = title.partition(": ")
        yield from ("", f"## {file}", "", rest.capitalize(), "")
        yield from ("| Key | Default | Meaning |", "|---|---|---|")
        yield from _keys(model, "")


def _keys(model: type[Section], above: str) -> Iterator[str]:
    for field in model.model_fields.values():
        key = f"{above}{field.alias}"
        inner, many = _section(field.annotation)
        yield f"| `{key}` | {_default(field, inner)} | {_cell(field.description or '')}{_choices(field.annotation)} |"
        if inner:
            yield from _keys(inner, f"{key}[]." if many else f"{key}.")


def _section(annotation: Any) -> tuple[type[Section] | None, bool]:
    """The section behind an annotation, and whether it is a list of them."""
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return annotation, False
    for inner in get_args(annotation):
        found, _ = _section(inner)
        if found:
            return found, getattr(annotation, "__origin__", None) is list
    return None, False


def _default(field: Any, inner: type[Section] | None) -> str:
    if field.is_required():
        return "required"
    if field.default_factory is not None:
        return "as many as cores"
    if field.default is None:
        return "absent"
    if inner or field.default in ([], {}):
        return ""
    return f"`{str(field.default).lower() if isinstance(field.default, bool) else field.default}`"


def _choices(annotation: Any) -> str:
    words = [word for word in _literals(annotation) if isinstance(word, str)]
    return f" ({', '.join(f'`{word}`' for word in words)})" if len(words) > 1 else ""


def _literals(annotation: Any) -> Iterator[Any]:
    for inner in get_args(annotation):
        if isinstance(inner, str):
            yield inner
        elif _section(inner)[0] is None:
            yield from _literals(inner)


def api(interface: Interface, base: str) -> Iterator[str]:
    """One of the two interfaces, from its OpenAPI document."""
    described = document(interface)
    info = described["info"]
    yield from (f"# {info['title']} {info['version']}", "", info["description"], "")
    yield f"The same as OpenAPI 3.1: `GET {base}/openapi.json`; to read and search: `/docs`."
    for path, operations in described["paths"].items():
        for method, operation in operations.items():
            yield from _operation(method, path, operation)
    yield from ("", "## Types")
    for name, schema in described["components"]["schemas"].items():
        yield from _type(name, schema)


def lists() -> Iterator[str]:
    """The List API, and the lists that every scope has."""
    yield from api(LISTS_API, LISTS_BASE)
    yield from (
        "",
        "## Lists of every scope",
        "",
        "| List | Category | Entries | At most | What it does |",
        "|---|---|---|---|---|",
    )
    for each in LISTS:
        kind = KINDS[each.kind].description
        yield f"| `{each.name}` | {each.category} | {_cell(kind)} | {each.max_size:,} | {_cell(each.description)} |"
    yield from (
        "",
        "## Kinds of entries",
        "",
        "Operators can define more lists of these kinds with `gatepost lists create`. Such a list does what the usual",
        "one of its kind and category does; other categories are refused, since nothing would ever ask such a list.",
    )
    yield from ("", "| Kind | Entries | Example | Categories of one's own lists |", "|---|---|---|---|")
    for entries in KINDS.values():
        uses = (f"`{each}` (as `{find_usual_list(entries.name, each)}`)" for each in list_categories(entries.name))
        yield f"| `{entries.name}` | {_cell(entries.description)} | `{entries.example}` | {', '.join(uses)} |"


def _operation(method: str, path: str, operation: Mapping[str, Any]) -> Iterator[str]:
    yield from ("", f"## {method.upper()} {path}", "", f"{operation['summary']}. {operation['description']}", "")
    if "requestBody" in operation:
        yield f"Request: {', '.join(f'`{kind}`' for kind in operation['requestBody']['content'])}."
        yield ""
    yield from ("| Status | Body | Meaning |", "|---|---|---|")
    for status, response in operation["responses"].items():
        schema = next(iter(response["content"].values()))["schema"]
        meaning = response["description"].replace("\n- ", "<br>").removeprefix("- ")
        yield f"| {status} | {_schema(schema)} | {_cell(meaning)} |"


def _type(name: str, schema: Mapping[str, Any]) -> Iterator[str]:
    yield from ("", f"### {name}", "", " ".join(schema.get("description", "").split()), "")
    yield from ("| Field | Type | Required | Meaning |", "|---|---|---|---|")
    required = schema.get("required", [])
    for field, inner in schema.get("properties", {}).items():
        needed = "yes" if field in required else ""
        yield f"| `{field}` | {_schema(inner)} | {needed} | {_cell(inner.get('description', ''))} |"


def _schema(schema: Mapping[str, Any]) -> str:
    if "$ref" in schema:
        name = str(schema["$ref"]).rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    if "anyOf" in schema and "type" not in schema:
        return " or ".join(_schema(each) for each in schema["anyOf"])
    if schema.get("type") == "array":
        return f"array of {_schema(schema.get('items', {}))}"
    kind = str(schema.get("type", "any"))
    return f"{kind}, {schema['format']}" if "format" in schema else kind


def findings() -> Iterator[str]:
    """Every kind of finding, with what the shipped policy makes of it."""
    policy = shipped_policy()
    yield from ("# Findings", "")
    yield "What an analysis can find. The tag is what the API answers; the rest is the shipped policy's."
    yield "A conclusive finding needs no threshold; a group counts at most its cap, and a kind once."
    for check in CHECKS:
        yield from ("", f"## {check.name.replace('_', ' ').capitalize()}", "")
        yield from ("| Tag | Meaning | Weight | Group | Speaks for |", "|---|---|---|---|---|")
        for kind in check.kinds:
            rule = policy.kinds.get(kind.id)
            weight = f"{rule.weight:g}{', conclusive' if rule.conclusive else ''}" if rule else "0"
            group, verdict = (rule.group, rule.verdict) if rule else ("", "")
            yield f"| `{kind.id}` | {_cell(kind.title)} | {weight} | {group} | {verdict} |"
    yield from ("", "## Lists", "", "An entry that a message hits gives the tag of its list, custom ones included.", "")
    yield from ("| Tag | Entries | Meaning |", "|---|---|---|")
    for entries in LISTS:
        yield f"| `list:{entries.name}` | {KINDS[entries.kind].description} | {_cell(entries.description)} |"
    yield from ("", "## Verdicts", "", "| Verdict | Decision | Threshold | Own points |", "|---|---|---|---|")
    for name, verdict_rule in policy.verdicts.items():
        threshold = "conclusive findings only" if verdict_rule.threshold is None else f"{verdict_rule.threshold:g}"
        yield f"| {name} | {verdict_rule.decision} | {threshold} | {verdict_rule.own:g} |"
    yield from ("", "## Groups", "", "| Group | Cap | Meaning |", "|---|---|---|")
    yield from (f"| {name} | {group.cap:g} | {_cell(group.description)} |" for name, group in policy.groups.items())


def commands() -> Iterator[str]:
    """Every command with its arguments and options."""
    import typer.main

    from gatepost.cli.app import app

    yield from ("# Command line", "")
    yield "A command that fails for a reason that you can mend says so in one sentence and exits with 1; a wrong"
    yield "argument exits with 2. `--config` and `--data` mean the same on every command; `--json` is for programs."
    yield from _command("gatepost", typer.main.get_command(app))


def _command(name: str, command: Any) -> Iterator[str]:
    yield from ("", f"## {name}", "", "\n\n".join(_paragraphs(command.help or "")))
    shown = [parameter for parameter in command.params if parameter.name != "help"]
    if shown:
        yield from ("", "| Argument or option | Meaning |", "|---|---|")
        yield from (_parameter(parameter) for parameter in shown)
    for inner, subcommand in getattr(command, "commands", {}).items():
        yield from _command(f"{name} {inner}", subcommand)


def _paragraphs(text: str) -> list[str]:
    return [" ".join(paragraph.split()) for paragraph in text.split("\n\n")]


def _parameter(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        name = f"{parameter.name.upper()}{'…' if parameter.nargs == -1 else ''}"
    else:
        metavar = f" {parameter.metavar}" if parameter.metavar else ""
        name = f"{', '.join(parameter.opts)}{metavar}"
    return f"| `{name}` | {_cell(parameter.help or '')} |"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def main(folder: Path) -> None:
    """Write all pages."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in pages().items():
        (folder / name).write_text(text, "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
