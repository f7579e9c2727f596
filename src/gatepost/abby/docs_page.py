"""`/docs`: the APIs as a page for people, made from their OpenAPI documents. It has no script and loads nothing."""

import base64
import hashlib
import json
from collections.abc import Iterable, Iterator
from html import escape
from typing import Any

from starlette.responses import Response

STYLE = """
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }
body { max-width: 60rem; margin: 0 auto; padding: 1rem; }
code, pre { font: 0.9em ui-monospace, monospace; }
pre { overflow-x: auto; padding: 0.75rem; border: 1px solid #8886; border-radius: 0.4rem; }
table { border-collapse: collapse; width: 100%; margin: 0.5rem 0 1rem; }
th, td { text-align: left; vertical-align: top; padding: 0.3rem 0.6rem; border-bottom: 1px solid #8884; }
section { margin: 2rem 0; }
.method { font-weight: 700; text-transform: uppercase; }
nav a { margin-right: 1rem; }
"""


def render_docs(documents: Iterable[dict[str, Any]]) -> Response:
    """One page for all documents."""
    pieces = [piece for document in documents for piece in _render_document(document)]
    page = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Gatepost API</title><style>{STYLE}</style></head><body><main>{''.join(pieces)}</main></body></html>"
    )
    return Response(page, headers=_page_headers(), media_type="text/html")


def _page_headers() -> dict[str, str]:
    digest = base64.b64encode(hashlib.sha256(STYLE.encode("utf-8")).digest()).decode("ascii")
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    return {
        "Content-Security-Policy": f"{policy}; frame-ancestors 'none'",
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
    }


def _render_document(document: dict[str, Any]) -> Iterator[str]:
    info = document["info"]
    yield f"<h1>{escape(info['title'])} <small>{escape(info['version'])}</small></h1>"
    yield _render_text(info["description"])
    yield "<nav>"
    for path, method, operation in _list_operations(document):
        yield f'<a href="#{escape(operation["operationId"])}"><code>{method.upper()} {escape(path)}</code></a>'
    yield "</nav>"
    for path, method, operation in _list_operations(document):
        yield from _render_operation(path, method, operation)
    yield "<h2>Types</h2>"
    for name, schema in sorted(document["components"]["schemas"].items()):
        yield from _render_schema(name, schema)


def _list_operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield path, method, operation


def _render_operation(path: str, method: str, operation: dict[str, Any]) -> Iterator[str]:
    yield f'<section id="{escape(operation["operationId"])}"><h2><span class="method">{method}</span> '
    yield f"<code>{escape(path)}</code></h2><p><b>{escape(operation['summary'])}.</b></p>"
    yield _render_text(operation["description"])
    if "requestBody" in operation:
        yield "<h3>Request</h3>"
        for media_type, content in operation["requestBody"]["content"].items():
            yield f"<p><code>{escape(media_type)}</code></p>{_render_fields(content['schema'])}"
            yield from _render_examples(content)
    yield "<h3>Answers</h3><table><tr><th>Status<th>Type<th>Meaning</tr>"
    for status, response in operation["responses"].items():
        kinds = ", ".join(_render_type(content["schema"]) for content in response.get("content", {}).values())
        yield f"<tr><td>{escape(status)}<td>{kinds}<td>{_render_text(response['description'])}</tr>"
    yield "</table>"
    for response in operation["responses"].values():
        for content in response.get("content", {}).values():
            yield from _render_examples(content)
    yield "</section>"


def _render_examples(content: dict[str, Any]) -> Iterator[str]:
    """Yield the examples of a request or response, folded."""
    for name, example in content.get("examples", {}).items():
        shown = json.dumps(example["value"], indent=2, ensure_ascii=False)
        yield f"<details><summary>Example: {escape(name)}</summary><pre>{escape(shown)}</pre></details>"


def _render_schema(name: str, schema: dict[str, Any]) -> Iterator[str]:
    yield f'<section id="type-{escape(name)}"><h3>{escape(name)}</h3>{_render_text(schema.get("description", ""))}'
    yield f"{_render_fields(schema)}</section>"


def _render_fields(schema: dict[str, Any]) -> str:
    properties = schema.get("properties")
    if not properties:
        return f"<p>{_render_type(schema)}</p>"
    required = set(schema.get("required", ()))
    rows = [
        f"<tr><td><code>{escape(name)}</code><td>{_render_type(field)}<td>{'yes' if name in required else ''}"
        f"<td>{_render_text(field.get('description', ''))}</tr>"
        for name, field in properties.items()
    ]
    return f"<table><tr><th>Field<th>Type<th>Required<th>Meaning</tr>{''.join(rows)}</table>"


def _render_type(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        name = escape(schema["$ref"].rsplit("/", 1)[1])
        return f'<a href="#type-{name}">{name}</a>'
    if "enum" in schema:
        return " · ".join(f"<code>{escape(json.dumps(value))}</code>" for value in schema["enum"])
    if "type" not in schema and "anyOf" in schema:
        return " or ".join(_render_type(choice) for choice in schema["anyOf"])
    if schema.get("type") == "array":
        return f"array of {_render_type(schema.get('items', {}))}"
    kind = schema.get("format") or schema.get("type", "any")
    return escape(str(kind))


def _render_text(text: str) -> str:
    """Plain text with `code` and lines that start with `- `: all that our descriptions use."""
    lines = [_render_inline(line) for line in text.split("\n") if line]
    if lines and all(line.startswith("- ") for line in lines):
        return "<ul>" + "".join(f"<li>{line[2:]}</li>" for line in lines) + "</ul>"
    return f"<p>{' '.join(lines)}</p>" if lines else ""


def _render_inline(text: str) -> str:
    pieces = escape(text).split("`")
    return "".join(f"<code>{piece}</code>" if index % 2 else piece for index, piece in enumerate(pieces))
