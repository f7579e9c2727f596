"""Generate the reference pages from the code that they describe: `python -m tools.reference docs/reference`.

Plug-ins that are named behind the folder are part of the page on findings.

`tests/test_docs.py` compares the pages on disk with what this module renders, so that neither can fall behind.
"""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from tests.files.coverage import FORMATS
from tests.files.letter_formats import LETTER_FORMATS

from gatepost.api.openapi import LISTS_API, LISTS_BASE, SCANNING, Interface, document
from gatepost.checks.composites import load_composites
from gatepost.checks.registry import CHECKS
from gatepost.cli.commands import COMMANDS, Command, Group, list_parameters
from gatepost.cli.help import VERSION, render_names, split_paragraphs
from gatepost.events.schema import CUT, EVENTS, MAX_TEXT, SCHEMA
from gatepost.findings.kinds import BY_ID
from gatepost.lists.catalogue import KINDS, LISTS, find_usual_list, list_categories
from gatepost.plugins import find_plugins
from gatepost.policy.rules import extend_policy, shipped_policy
from tools.configuration_reference import render_cell, render_configuration

GENERATED = "<!-- Generated from the code by `make docs`; changes made here are lost. -->"


def render_pages(plugins: Sequence[str] = ()) -> dict[str, str]:
    """Return the text of every page by its file name."""
    made = {
        "configuration.md": render_configuration(),
        "api.md": render_api(SCANNING, "/v1"),
        "lists.md": render_lists(),
        "findings.md": render_findings(plugins),
        "file-formats.md": render_file_formats(),
        "events.md": render_events(),
        "cli.md": render_commands(),
    }
    return {name: "\n".join([GENERATED, "", *lines]).rstrip() + "\n" for name, lines in made.items()}


def render_file_formats() -> Iterator[str]:
    """Yield the lines of the page on what can hold a file: the rows of the coverage matrix that the tests prove."""
    yield "# File formats"
    yield ""
    yield "Gatepost looks for files in everything that holds files. A format is *opened*: the file inside is found,"
    yield "and the ledger names it by its path. Or it is *said*: the message is `unscannable`, and the ledger names"
    yield "the format. A container that is damaged, cut short, encrypted or beyond a limit is said as well, whatever"
    yield "its format. A format that is not in these tables is not supported: a file that bears the name or MIME"
    yield "type of an archive, and is none that is recognised, is `unscannable` by `file:unreadable`."
    yield ""
    yield "Each row is proven by a test with one message that carries the format alone, and one that has it in a zip."
    for group in dict.fromkeys(each.group for each in FORMATS):
        yield from ("", f"## {group.capitalize()}", "", "| Format | Mailed as | Outcome |", "|---|---|---|")
        for each in FORMATS:
            if each.group == group:
                outcome = "opened" if each.outcome == "opened" else f"said, as `{each.type}`"
                yield f"| {each.title} | `.{each.extension}` | {outcome} |"
    yield from ("", "## Texts", "")
    yield "What a person reads in a file is read by the checks of text, by the text model and by the search for links,"
    yield "as if it stood in the mail. Of each document the first 20,000 characters are checked, of all files of a"
    yield "message 1,000,000 characters are searched for links. Each row is proven by letters that are found in it,"
    yield "alone and in a zip, and by an ordinary document that is delivered. Not read: comments of RAR and 7z, text"
    yield "that is drawn in pictures, and documents inside a Word document of the old form."
    yield from ("", "| Format | Mailed as |", "|---|---|")
    for letter in LETTER_FORMATS:
        yield f"| {letter.title} | {f'`.{letter.extension}`' if letter.extension else 'any name without a dot'} |"


def render_api(interface: Interface, base: str) -> Iterator[str]:
    """Yield the lines of the page on one of the two HTTP interfaces, taken from its OpenAPI document."""
    described = document(interface)
    info = described["info"]
    yield from (f"# {info['title']} {info['version']}", "", info["description"], "")
    yield f"The same as OpenAPI 3.1: `GET {base}/openapi.json`; to read and search: `/docs`."
    for path, operations in described["paths"].items():
        for method, operation in operations.items():
            yield from _render_operation(method, path, operation)
    yield from ("", "## Types")
    for name, schema in described["components"]["schemas"].items():
        yield from _render_type(name, schema)


def render_events() -> Iterator[str]:
    """Yield the lines of the page on events: what every event has, and the fields of each kind."""
    yield from ("# Events", "")
    yield f"Schema {SCHEMA}. [Events](../events.md) says how to receive them. Every event is one JSON object with these"
    yield "fields first, then those of its kind. A field that has nothing to say is left out. Kinds and fields may be"
    yield "added; none changes its meaning without a new schema number. Texts are cut to"
    yield f"{MAX_TEXT} characters, with `{CUT}` at the end of a text that was cut."
    yield from ("", "| Field | Type | Meaning |", "|---|---|---|")
    yield f"| `schema` | integer | `{SCHEMA}` |"
    yield "| `event` | string | the kind |"
    yield "| `id` | string | UUIDv7 of the event; the same event delivered twice has the same |"
    yield "| `at` | string, date-time | when it happened: RFC 3339, UTC, milliseconds |"
    yield "| `node` | string | the machine: `events.node`, or its host name |"
    _, components = msgspec.json.schema_components(EVENTS, ref_template="#/{name}")
    for kind in EVENTS:
        schema = components.pop(kind.__name__)
        schema["properties"].pop("event")
        yield from _render_event(str(kind.__struct_config__.tag), schema)
    yield from ("", "## Types")
    for name, schema in components.items():
        yield from _render_type(name, schema)
    yield from ("", "## Severities", "", "Syslog and alerts use these.", "", "| Severity | Events |", "|---|---|")
    yield "| error | `health.changed` to `failed` |"
    locks = "`user.signInFailed` that sets or meets a lock"
    undecided = "`message.scanned` with the decision `undecided`"
    yield f"| warning | `health.changed` to `degraded`; {locks}; {undecided}; `threshold.reached` |"
    yield "| notice | all others that are not info |"
    yield "| info | `message.scanned`, `message.held`, `user.signedIn`, `user.signInFailed` |"


def _render_event(kind: str, schema: dict[str, Any]) -> Iterator[str]:
    described = " ".join(schema.get("description", "").split())
    yield from ("", f"## {kind}", "", described, "", "| Field | Type | Always | Meaning |", "|---|---|---|---|")
    for field, inner in schema["properties"].items():
        always = "yes" if field in schema.get("required", []) else ""
        meaning, most = inner.get("description", ""), inner.get("maxItems")
        meaning += f"; at most {most}" if most else ""
        yield f"| `{field}` | {_render_schema(inner)} | {always} | {render_cell(meaning)} |"


def render_lists() -> Iterator[str]:
    """Yield the lines of the page on the List API, on the lists that every scope has and on the kinds of entries."""
    yield from render_api(LISTS_API, LISTS_BASE)
    yield from (
        "",
        "## Lists of every scope",
        "",
        "| List | Category | Entries | At most | What it does |",
        "|---|---|---|---|---|",
    )
    for each in LISTS:
        kind = KINDS[each.kind].description
        cells = (
            f"`{each.name}`",
            each.category,
            render_cell(kind),
            f"{each.max_size:,}",
            render_cell(each.description),
        )
        yield f"| {' | '.join(cells)} |"
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
        yield f"| `{entries.name}` | {render_cell(entries.description)} | `{entries.example}` | {', '.join(uses)} |"


def _render_operation(method: str, path: str, operation: Mapping[str, Any]) -> Iterator[str]:
    yield from ("", f"## {method.upper()} {path}", "", f"{operation['summary']}. {operation['description']}", "")
    if "requestBody" in operation:
        yield f"Request: {', '.join(f'`{kind}`' for kind in operation['requestBody']['content'])}."
        yield ""
    yield from ("| Status | Body | Meaning |", "|---|---|---|")
    for status, response in operation["responses"].items():
        schema = next(iter(response["content"].values()))["schema"]
        meaning = response["description"].replace("\n- ", "<br>").removeprefix("- ")
        yield f"| {status} | {_render_schema(schema)} | {render_cell(meaning)} |"
    yield from _render_examples("Request", operation.get("requestBody", {}).get("content", {}))
    yield from _render_examples("Success", operation["responses"]["200"]["content"])


def _render_examples(title: str, contents: Mapping[str, Any]) -> Iterator[str]:
    for kind, content in contents.items():
        for example in content["examples"].values():
            yield from ("", f"{title} (`{kind}`):", "", "```json")
            yield from json.dumps(example["value"], indent=2, ensure_ascii=False).split("\n")
            yield "```"


def _render_type(name: str, schema: Mapping[str, Any]) -> Iterator[str]:
    yield from ("", f"### {name}", "", " ".join(schema.get("description", "").split()), "")
    yield from ("| Field | Type | Required | Meaning |", "|---|---|---|---|")
    required = schema.get("required", [])
    for field, inner in schema.get("properties", {}).items():
        needed = "yes" if field in required else ""
        yield f"| `{field}` | {_render_schema(inner)} | {needed} | {render_cell(inner.get('description', ''))} |"


def _render_schema(schema: Mapping[str, Any]) -> str:
    if "$ref" in schema:
        name = str(schema["$ref"]).rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    if "anyOf" in schema and "type" not in schema:
        return " or ".join(_render_schema(each) for each in schema["anyOf"])
    if schema.get("type") == "array":
        return f"array of {_render_schema(schema.get('items', {}))}"
    kind = str(schema.get("type", "any"))
    return f"{kind}, {schema['format']}" if "format" in schema else kind


def render_findings(plugins: Sequence[str] = ()) -> Iterator[str]:
    """Yield the lines of the page on findings: each kind with its weight, group and verdict in the shipped policy, and
    those of plug-ins that are named."""
    found = find_plugins(plugins)
    policy = extend_policy(shipped_policy(), [plugin.added for plugin in found])
    yield from ("# Findings", "")
    yield "What an analysis can find. The tag is what the API answers; the rest is the shipped policy's."
    yield "A conclusive finding needs no threshold; a group counts at most its cap, and a kind once."
    yield "[Plug-ins](../internals/extending.md) bring further kinds, which `gatepost plugins list` shows."
    found_by = [(check.name, check.kinds) for check in CHECKS]
    found_by.append(("composites", tuple(kind for kind, _ in load_composites())))
    by_checks = {kind for _, several in found_by for kind in several}
    found_by.append(("beside the checks", tuple(kind for kind in BY_ID.values() if kind not in by_checks)))
    found_by += [(f"plug-in {plugin}", tuple(plugin.kinds.values())) for plugin in found]
    for name, kinds in found_by:
        yield from ("", f"## {name.replace('_', ' ').capitalize()}", "")
        yield from ("| Tag | Meaning | Weight | Group | Speaks for |", "|---|---|---|---|---|")
        for kind in kinds:
            rule = policy.kinds.get(kind.id)
            weight = f"{rule.weight:g}{', conclusive' if rule.conclusive else ''}" if rule else "0"
            group, verdict = (rule.group, rule.verdict) if rule else ("", "")
            yield f"| `{kind.id}` | {render_cell(kind.title)} | {weight} | {group} | {verdict} |"
    yield from ("", "## Lists", "", "An entry that a message hits gives the tag of its list, custom ones included.", "")
    yield from ("| Tag | Entries | Meaning |", "|---|---|---|")
    for entries in LISTS:
        yield f"| `list:{entries.name}` | {KINDS[entries.kind].description} | {render_cell(entries.description)} |"
    yield from ("", "## Verdicts", "", "| Verdict | Decision | Threshold | Own points |", "|---|---|---|---|")
    for verdict, verdict_rule in policy.verdicts.items():
        threshold = "conclusive findings only" if verdict_rule.threshold is None else f"{verdict_rule.threshold:g}"
        yield f"| {verdict} | {verdict_rule.decision} | {threshold} | {verdict_rule.own:g} |"
    yield from ("", "## Groups", "", "| Group | Cap | Meaning |", "|---|---|---|")
    yield from (
        f"| {name} | {group.cap:g} | {render_cell(group.description)} |" for name, group in policy.groups.items()
    )


def render_commands() -> Iterator[str]:
    """Yield the lines of the page on the command line: every command with its arguments and options."""
    yield from ("# Command line", "")
    yield "A command that fails for a reason that you can mend says so in one sentence and exits with 1; a wrong"
    yield "argument exits with 2. `--config` and `--data` mean the same on every command; `--json` is for programs."
    yield from _render_command("gatepost", COMMANDS)


def _render_command(name: str, found: Command | Group) -> Iterator[str]:
    yield from ("", f"## {name}", "", "\n\n".join(split_paragraphs(found)))
    if isinstance(found, Group):
        rows = [VERSION] if name == "gatepost" else []
    else:
        rows = [(render_names(each), each.about.help) for each in list_parameters(found)]
    if rows:
        yield from ("", "| Argument or option | Meaning |", "|---|---|")
        yield from (f"| `{render_cell(names)}` | {render_cell(meaning)} |" for names, meaning in rows)
    if isinstance(found, Group):
        for inner, each in found.commands.items():
            yield from _render_command(f"{name} {inner}", each)


def main(folder: Path, plugins: Sequence[str] = ()) -> None:
    """Write all pages into a folder; findings with those of the plug-ins that are named."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in render_pages(plugins).items():
        (folder / name).write_text(text, "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
