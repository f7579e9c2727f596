"""Requests of any route, for tests that go over the whole registry."""

import re
from typing import Any

import httpx

from gatepost.ids import new_id
from gatepost.web.registry import PAGES
from gatepost.web.routing import PublicRoute, UploadRoute

CLOSED = [row for row in PAGES if not isinstance(row, PublicRoute)]


def name_of(row: Any) -> str:
    return f"{row.method} {row.path}"


def path_of(row: Any, **parts: str) -> str:
    """A path of a route; what is not stated is an id of nothing."""
    return re.sub(r"\{(\w+)\}", lambda part: {"name": "blocked-urls", **parts}.get(part[1]) or new_id(), row.path)


def ask(visitor: Any, row: Any, path: str, fields: dict[str, str], **headers: str) -> httpx.Response:
    """Ask for a path as its route wants it, with fields in the form or in the address."""
    if isinstance(row, UploadRoute):
        answer = visitor.upload(path, "f.txt", b"new.example\n", fields, headers)
    elif row.method == "POST":
        answer = visitor.post(path, fields, headers=headers)
    else:
        answer = visitor.get(path, params=fields, headers=headers)
    assert isinstance(answer, httpx.Response)
    return answer
