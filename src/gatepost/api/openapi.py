"""OpenAPI 3.1 documents, generated from the types that validate requests and write answers.

An interface is a table of operations; what it says about itself cannot fall behind what it does.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

import msgspec

from gatepost.api.errors import (
    ERRORS,
    INTERNAL_ERROR,
    MALFORMED_REQUEST,
    METHOD_NOT_ALLOWED,
    NOT_FOUND,
    STORAGE_UNAVAILABLE,
    UNAUTHORIZED,
    Error,
    ErrorCode,
)
from gatepost.api.examples import EMAIL, MESSAGES, to_json

REF = "#/components/schemas/{name}"
Schema = dict[str, Any]

# What any path can answer, and what any path that needs a credential can answer.
PATH_ERRORS = (NOT_FOUND, METHOD_NOT_ALLOWED)
CALL_ERRORS = (MALFORMED_REQUEST, UNAUTHORIZED, *PATH_ERRORS, INTERNAL_ERROR, STORAGE_UNAVAILABLE)


class Operation(msgspec.Struct, frozen=True):
    """One method of one path. `body` is the `requestBody` object as it stands, `answer` the type of a success, and
    `example` a value of that type. `tag` groups operations; generated clients make a module or class of each group."""

    method: Literal["get", "post"]
    path: str
    id: str
    tag: str
    summary: str
    description: str
    answer: Any
    errors: tuple[ErrorCode, ...]
    body: Mapping[str, Any] | None = None
    parameters: tuple[Mapping[str, Any], ...] = ()
    media_type: str = "application/json"
    secured: bool = True
    example: Any = None


class Interface(msgspec.Struct, frozen=True):
    """One HTTP interface. `types` are described besides those that operations name, `tags` are the groups of
    operations with a sentence for each."""

    title: str
    version: str
    description: str
    security: Mapping[str, Any]
    operations: tuple[Operation, ...]
    tags: Mapping[str, str]
    types: tuple[type, ...] = ()


def document(interface: Interface) -> dict[str, Any]:
    """The whole OpenAPI document."""
    answers = [operation.answer for operation in interface.operations if operation.answer is not None]
    _, schemas = msgspec.json.schema_components((Error, *answers, *interface.types), ref_template=REF)
    schemas["Error"]["properties"]["error"] |= {
        "description": "Machine-readable error description",
        "x-extensible-enum": [error.code for error in ERRORS if error in _errors_of(interface)],
    }
    schemas["Error"]["properties"]["message"] = {"type": "string", "description": "Human-readable error description"}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": interface.title,
            "version": interface.version,
            "description": interface.description,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "tags": [{"name": name, "description": text} for name, text in interface.tags.items()],
        "paths": _paths(interface.operations),
        "components": {"schemas": _plain(schemas), "securitySchemes": {"credential": dict(interface.security)}},
    }


def _errors_of(interface: Interface) -> set[ErrorCode]:
    return {error for operation in interface.operations for error in operation.errors}


def _paths(operations: Iterable[Operation]) -> dict[str, Any]:
    paths: dict[str, Any] = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method] = _describe_operation(operation)
    return paths


def _describe_operation(operation: Operation) -> dict[str, Any]:
    described: dict[str, Any] = {
        "operationId": operation.id,
        "tags": [operation.tag],
        "summary": operation.summary,
        "description": operation.description,
        "responses": {"200": _success(operation), **dict(_failures(operation.errors))},
    }
    if operation.parameters:
        described["parameters"] = [dict(parameter) for parameter in operation.parameters]
    if operation.body:
        described["requestBody"] = dict(operation.body)
    described["security"] = [{"credential": []}] if operation.secured else []
    return described


def _success(operation: Operation) -> dict[str, Any]:
    schema = {"type": "object"} if operation.answer is None else ref(operation.answer)
    content: dict[str, Any] = {"schema": schema}
    if operation.example is not None:
        content["examples"] = {"success": {"summary": operation.summary, "value": to_json(operation.example)}}
    return {"description": "Success", "content": {operation.media_type: content}}


def ref(named: type) -> dict[str, str]:
    """A reference to a described type."""
    return {"$ref": REF.format(name=named.__name__)}


def message_upload(parameters: type, example: Any, summary: str, description: str) -> dict[str, Any]:
    """The content of a request that carries a raw message beside its parameters, as multipart/form-data."""
    return {
        "multipart/form-data": {
            "schema": {
                "type": "object",
                "required": ["parameters", "email"],
                "properties": {
                    "parameters": {
                        **ref(parameters),
                        "description": "The part's own content type must be explicitly set to `application/json`.",
                    },
                    "email": {
                        "type": "string",
                        "format": "binary",
                        "contentMediaType": "message/rfc822",
                        "minLength": 1,
                        "description": description,
                    },
                },
            },
            "examples": {"message": {"summary": summary, "value": {"parameters": to_json(example), "email": EMAIL}}},
            "encoding": {
                "parameters": {"contentType": "application/json"},
                "email": {"contentType": "message/rfc822, application/octet-stream"},
            },
        }
    }


def json_body(example: Any, summary: str) -> dict[str, Any]:
    """The `requestBody` object of a JSON body, by an example of its type."""
    shown = {"request": {"summary": summary, "value": to_json(example)}}
    return {"required": True, "content": {"application/json": {"schema": ref(type(example)), "examples": shown}}}


def _failures(errors: Iterable[ErrorCode]) -> Iterator[tuple[str, Any]]:
    by_status: dict[int, list[ErrorCode]] = {}
    for error in errors:
        by_status.setdefault(error.status, []).append(error)
    for status in sorted(by_status):
        lines = "\n".join(f"- `{error.code}`: {error.meaning}" for error in by_status[status])
        response: dict[str, Any] = {
            "description": lines,
            "content": {"application/json": {"schema": ref(Error), "examples": _examples(by_status[status])}},
        }
        headers = _headers(status)
        if headers:
            response["headers"] = headers
        yield str(status), response


def _examples(errors: Iterable[ErrorCode]) -> dict[str, Any]:
    """Return an example of each error code."""
    return {
        error.code: {"summary": error.meaning, "value": {"error": error.code, "message": MESSAGES[error.code]}}
        for error in errors
    }


def _headers(status: int) -> dict[str, Any]:
    named = {401: "WWW-Authenticate", 405: "Allow", 429: "Retry-After", 503: "Retry-After"}.get(status)
    return {named: {"schema": {"type": "string"}}} if named else {}


def _plain(schema: Any) -> Any:
    """Decimals go over the wire as numbers, and an optional field is absent rather than null by default."""
    if isinstance(schema, dict):
        if schema.get("format") == "decimal":
            return {**{k: v for k, v in schema.items() if k != "format"}, "type": "number", "multipleOf": 0.01}
        return {key: _plain(value) for key, value in schema.items() if not (key == "default" and value is None)}
    if isinstance(schema, list | tuple):
        return [_plain(item) for item in schema]
    return schema
