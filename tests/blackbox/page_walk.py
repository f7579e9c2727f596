"""A person who opens every page of the web interface, uses every form, and sends the largest forms that are taken;
beside it a program that makes every call of the List API. For tests of what that costs a service."""

import html
import json
import re
from collections.abc import Callable
from typing import Any

import httpx
import msgspec

from gatepost.web.registry import PAGES
from gatepost.web.routing import PublicRoute, UploadRoute

PASSWORD = "six words for a small test"
LISTS_BASE = "/api/public/lists/v1"
ENTRIES = 3_000
_CSRF = re.compile(r'name="csrf" value="([^"]+)"')

# They end the walk itself, or what it walks over; a password that is changed costs a hash and ends sessions.
# What would end the walk, or have the service take another configuration over.
LEFT_OUT = ("/sign-out", "/account/sessions/end", "/account/password", "/tenants/{uid}/delete", "/tokens")
FIELDS = {
    "entries": "new.example\nother.example\n",
    "key": "h7.example",
    "sure": "1",
    "comment": "a comment",
    "says": "deliver",
    "name": "blocked-urls",
    "domains": "new.example",
    "role": "auditor",
    "kind": "url",
    "category": "block",
    "what": "save",
    "zone": "Europe/Berlin",
    "action": "report",
}
MESSAGE = b"From: Ann <ann@shop.example>\r\nTo: bob@example.org\r\nSubject: hello\r\n\r\n" + b"".join(
    b"See http://h%d.example/path on Tuesday.\r\n" % number for number in range(300)
)
# An unknown kind each, which is answered with the names that are nearest to it.
MISTAKES = "".join(f"[kinds.'text:urgence{number}']\nweight = 1.0\n" for number in range(2_500))[:99_000]


class Parts(msgspec.Struct):
    """What paths of pages name."""

    tenant: str
    ggrid: str = ""
    id: str = ""
    uid: str = ""


class Walker:
    """An administrator of the deployment. `answers` are the statuses by path."""

    def __init__(self, url: str, tenant: str, key: str) -> None:
        self.answers: list[tuple[str, int]] = []
        self._parts, self._key = Parts(tenant), key
        self._client = httpx.Client(base_url=url, verify=False, timeout=150, trust_env=False)
        self._client.headers["Accept"] = "text/html"

    def close(self) -> None:
        self._client.close()

    def walk(self, name: str) -> None:
        """Do everything once as the user of that name."""
        self._note("POST /sign-in", self._client.post("/sign-in", data={"name": name, "password": PASSWORD}))
        self._make_parts()
        for row in PAGES:
            if isinstance(row, PublicRoute) or row.path in LEFT_OUT:
                continue
            path = self._path(row.path)
            if isinstance(row, UploadRoute):
                self._upload(path, MESSAGE if path == "/scan" else b"imported.example\n" * 2_000)
            elif row.method == "GET":
                self._note(f"GET {row.path}", self._client.get(path, params={"key": "h7.example"}))
            else:
                self._post(path, **FIELDS)
        self._large_forms()
        for path in ("/v1/openapi.json", f"{LISTS_BASE}/openapi.json", "/docs", "/metrics", "/nowhere"):
            self._note(f"GET {path}", self._client.get(path))

    def _make_parts(self) -> None:
        found = _CSRF.search(self._client.get("/account").text)
        assert found
        self._csrf = html.unescape(found[1])
        scanned = self._upload("/scan", MESSAGE, scope=self._parts.tenant)
        self._parts.ggrid = scanned.headers["location"].rpartition("/")[2]
        self._call("getLists", {"tenantUid": self._parts.tenant})
        for start in range(0, ENTRIES, 500):
            entries = [{"entry": f"h{number}.example", "comment": "x" * 400} for number in range(start, start + 500)]
            self._call("addEntries", self._list(entries=entries))
        phrases = [{"entry": f"words {number} of a long phrase", "comment": "y" * 400} for number in range(500)]
        self._call("addEntries", self._list("blocked-phrases", entries=phrases))
        self._call("listEntries", self._list())
        self._call("deleteEntries", self._list(entries=["h8.example"]))
        created = self._post("/users", name="walked", role="auditor", scope=self._parts.tenant, password=PASSWORD)
        users = self._client.get("/users").text
        self._parts.uid = self._first(users, r"/users/([0-9a-f-]{36})") if created.status_code < 400 else ""
        self._parts.id = self._first(self._client.get("/keys").text, r"/keys/([^/\"]+)/revoke")

    def _large_forms(self) -> None:
        entries = "\n".join(f"large{number}.example" for number in range(20_000))
        scope = self._parts.tenant
        for text in (MISTAKES, '[verdicts.clean]\ndecision = "quarantine"\n'):
            self._post("/policy", text=text, scope=scope)
        self._post(f"/lists/{scope}/blocked-urls/preview", entries=entries)
        self._post(f"/lists/{scope}/blocked-phrases/preview", entries=entries)
        self._post(f"/lists/{scope}/blocked-urls/add", entries="x" * 900_000)
        self._post("/searches", name="s", query="q" * 60_000)
        self._post("/sign-in", name="n" * 9_000, password="p" * 6_000)
        search = {"linkHost": "h7.example", "subject": "hello " * 20, "limit": 1000}
        for path in ("/messages", "/messages/export", "/quarantine", "/audit", f"/lists/{scope}/blocked-urls"):
            for query in ({}, {"q": "hello " * 200, "text": "x" * 900}, {"sender": "ann@shop.example"}):
                self._note(f"GET {path}", self._client.get(path, params=query))
        self._note("POST search", self._client.post("/v1/messages/search", json=search))
        self._note("GET long", self._client.get("/messages", params={"next": "A" * 8_000}))

    def _list(self, name: str = "blocked-urls", **more: Any) -> dict[str, Any]:
        return {"listName": name, "tenantUid": self._parts.tenant, **more}

    def _call(self, operation: str, body: Any) -> None:
        headers = {"Authorization": f"apikey {self._key}", "Content-Type": "application/json"}
        content = json.dumps(body).encode()
        self._note(operation, self._client.post(f"{LISTS_BASE}/{operation}", content=content, headers=headers))

    def _post(self, path: str, **fields: str) -> httpx.Response:
        return self._note(f"POST {path}", self._client.post(path, data={"csrf": self._csrf, **fields}))

    def _upload(self, path: str, content: bytes, **fields: str) -> httpx.Response:
        stated = {"csrf": self._csrf, **fields}
        return self._note(f"POST {path}", self._client.post(path, data=stated, files={"file": ("f", content)}))

    def _note(self, what: str, answer: httpx.Response) -> httpx.Response:
        self.answers.append((what, answer.status_code))
        return answer

    def _path(self, path: str) -> str:
        parts = self._parts
        uid = parts.tenant if path.startswith("/tenants") else parts.uid
        values = {"scope": parts.tenant, "name": "blocked-urls", "ggrid": parts.ggrid, "index": "0", "uid": uid}
        values |= {
            "id": parts.id,
            "version": "1",
            "kind": "text:urgency",
            "number": "1",
            "published": "1",
            "item": "new",
            "domain": "example.com",
        }
        replace: Callable[[re.Match[str]], str] = lambda match: values[match[1]] or "none"  # noqa: E731
        return re.sub(r"\{(\w+)\}", replace, path)

    @staticmethod
    def _first(page: str, pattern: str) -> str:
        found = re.search(pattern, page)
        return found[1] if found else ""
