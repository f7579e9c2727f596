"""The web interface as a browser meets it: a real server on a loopback port over a real store, and people who sign in
through the form. The cookie is for TLS only, so these browsers carry it by hand."""

import asyncio
import html
import re
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from argon2 import PasswordHasher

from gatepost.abby.app import create_app
from gatepost.abby.cores import Cores
from gatepost.abby.place import Down
from gatepost.api.http import server_config
from gatepost.guard.scan import Load, ScanRequest
from gatepost.guard.spool import Spool
from gatepost.ids import new_id
from gatepost.store import open_store
from gatepost.store.interface import CLI

PASSWORD = "four quiet words here"
_HASHED = PasswordHasher(time_cost=1, memory_cost=64, parallelism=1).hash(PASSWORD)
_CSRF = re.compile(r'name="csrf" value="([^"]+)"')


class IdleCore:
    """A core that nobody scans with."""

    name = "idle"
    enabled = True

    async def scan(self, _request: ScanRequest) -> Down:
        return Down("idle", begun=False)

    async def load(self, *, once_free: bool = False) -> Load:
        return Load(0, 1, 1)

    def peek(self) -> Load | None:
        return None

    async def close(self) -> None:
        return None


class Visitor:
    """Somebody with a browser. `who` is the user's name."""

    def __init__(self, site: "Site", who: str, password: str = PASSWORD) -> None:
        self.who = who
        self._client = httpx.Client(
            base_url=site.url, headers={"Accept": "text/html"}, timeout=30, trust_env=False, verify=site.no_tls
        )
        answer = self._client.post("/sign-in", data={"name": who, "password": password})
        assert answer.status_code == 303, answer.text
        self._client.headers["Cookie"] = answer.headers["set-cookie"].partition(";")[0]
        self._client.cookies.clear()
        found = _CSRF.search(self.get("/account").text)
        assert found
        self.csrf = html.unescape(found[1])

    def get(self, path: str, **options: Any) -> httpx.Response:
        return self._client.get(path, **options)

    def post(self, path: str, fields: dict[str, Any] | None = None, **options: Any) -> httpx.Response:
        """A form of one of our pages; fields with a list are sent as often."""
        return self._client.post(path, data={"csrf": self.csrf, **(fields or {})}, **options)

    def upload(
        self,
        path: str,
        name: str,
        content: bytes,
        fields: dict[str, str] | None = None,
        headers: dict[str, str] | None = None,
    ) -> httpx.Response:
        """A form with a file in it."""
        stated = {"csrf": self.csrf, **(fields or {})}
        return self._client.post(path, data=stated, files={"file": (name, content)}, headers=headers)

    def close(self) -> None:
        self._client.close()


class Site:
    """A running abby over a real store, and that store."""

    password = PASSWORD

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        # httpx reads all certificates of the system for each client, unless told that none are needed.
        self.no_tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._ready = threading.Event()
        self._thread = threading.Thread(target=asyncio.run, args=(self._serve(),), daemon=True)
        self._visitors: dict[tuple[str, str | None], Visitor] = {}
        self._entered: list[Visitor] = []
        self._thread.start()
        assert self._ready.wait(30)

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.store = open_store("sqlite:web.db", self._folder)
        cores = Cores([IdleCore()], poll_seconds=60)
        app = create_app(cores=cores, store=self.store, tokens=[], spool=Spool(self._folder / "spool"))
        self._server = uvicorn.Server(server_config(app))
        self._loop.call_soon(self._ready.set)
        await self._server.serve([self._socket])
        await self.store.close()

    def stop(self) -> None:
        for visitor in (*self._visitors.values(), *self._entered):
            visitor.close()
        self._server.should_exit = True
        self._thread.join(20)
        self._socket.close()

    def run(self, coroutine: Any) -> Any:
        """Have the store do something."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(30)

    def new_tenant(self, name: str = "") -> str:
        uid: str = self.run(self.store.create_tenant(name or f"tenant {new_id()}")).uid
        return uid

    def new_user(self, role: Any = "analyst", tenant: str | None = None) -> str:
        """Somebody who can sign in with the password of all of them; the name."""
        name = f"{role} {new_id()}"
        self.run(self.store.create_user(name, role, tenant, _HASHED, CLI))
        return name

    def enter(self, name: str, password: str = PASSWORD) -> Visitor:
        """Somebody who signs in once more."""
        visitor = Visitor(self, name, password)
        self._entered.append(visitor)
        return visitor

    def visitor(self, role: Any = "administrator", tenant: str | None = None) -> Visitor:
        """Somebody of that role who is signed in; the same one each time."""
        if (role, tenant) not in self._visitors:
            self._visitors[role, tenant] = Visitor(self, self.new_user(role, tenant))
        return self._visitors[role, tenant]


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A site that tests share; each makes tenants of its own."""
    made = Site(tmp_path_factory.mktemp("site"))
    yield made
    made.stop()


@pytest.fixture
def tenant(site: Site) -> str:
    """A tenant of the test's own."""
    return site.new_tenant()
