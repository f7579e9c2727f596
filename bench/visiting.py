"""A whole service in its own process, to be looked at with a browser: by the tests, and for screenshots."""

import json
import os
import shutil
import ssl
import subprocess
import sys
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import httpx
from argon2 import PasswordHasher
from playwright.sync_api import sync_playwright

from bench.name_server import NameServer
from bench.ports import free_ports
from bench.processes import await_output
from gatepost.cli.deployment import Deployment
from gatepost.settings.files import ABBY_FILE, GUARD_FILE
from gatepost.store.audit import CLI
from gatepost.store.store import Store
from gatepost.store.users import Role

TOKEN = "a-token-for-tests-in-a-browser-of-some-length"
# Those of the provider in `tests/web/openid_provider.py`.
CLIENT, CLIENT_SECRET = "gatepost-tests", "a secret: of/the client"
PASSWORD = "six words for a small test"
# The shell draws the same pages and has no window, no tabs and no toolbar, which take half of the CPU of a test.
SHELL = "chromium-headless-shell"
NAMES = (SHELL, "chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
SIZES = {"desktop": (1280, 900), "phone": (390, 844)}
T = TypeVar("T")


def chromium_path() -> str | None:
    """Debian's Chromium, without its windows where that is installed, or one that is on the path, or the one that
    playwright has fetched."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found:
        return found
    with sync_playwright() as playwright:
        own = playwright.chromium.executable_path
    return own if Path(own).exists() else None


class Service:
    """`gatepost serve` on loopback ports, and what a person at its keyboard can do."""

    def __init__(self, data: Path, next_hop: str, storage: str = "") -> None:
        self.data, self._storage = data, storage
        self._names = NameServer()
        guard, port, provider = free_ports(3)
        self.url = f"https://127.0.0.1:{port}"
        # Where an OpenID provider would be; on another site than these pages, as browsers see it.
        self.provider_port, self.issuer = provider, f"http://localhost:{provider}"
        self._configure(guard, port, next_hop)
        with (data / "log").open("wb") as log:
            command = [sys.executable, "-m", "gatepost", "serve", "--data", str(data)]
            self._process = subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, "COLUMNS": "200"})
        self.password = self._first_password()
        # As if the administrator had chosen it: what has to be done first has tests of its own.
        self._set_password("admin", self.password)
        trusting = ssl.create_default_context(cafile=str(data / "tls/certificate.pem"))
        self.client = httpx.Client(base_url=self.url, verify=trusting, trust_env=False, timeout=60)

    @property
    def pid(self) -> int:
        """The process that answers."""
        return self._process.pid

    def _configure(self, guard: int, port: int, next_hop: str) -> None:
        settings = {
            GUARD_FILE: f"scanSources: {{restApi: {{port: {guard}, keep: held}}}}\n"
            f'delivery: {{nextHop: "{next_hop}"}}\nworkerProcesses: 1\n'
            f'dns: {{nameservers: ["{self._names.address}"]}}\n',
            ABBY_FILE: f"listen: {{host: 127.0.0.1, port: {port}}}\n"
            f'serviceProviders: {{core: {{hosts: ["https://127.0.0.1:{guard}"]}}}}\n'
            f"staticApiTokens: [{{name: mta, token: {TOKEN}, permissions: [messages.read]}}]\n"
            f"publicUrl: {self.url}\nsignIn:\n  openidConnect:\n    label: Example ID\n    issuer: {self.issuer}\n"
            f"    clientId: {CLIENT}\n    clientSecret: ${{file:client-secret}}\n"
            "    access: [{claim: groups, value: gatepost-admins, role: administrator}]\n",
        }
        for name, text in settings.items():
            (self.data / name).parent.mkdir(parents=True)
            (self.data / name).write_text(text + (f'storage: {{url: "{self._storage}"}}\n' if self._storage else ""))
        (self.data / ABBY_FILE).with_name("client-secret").write_text(CLIENT_SECRET)

    def _first_password(self) -> str:
        """What the welcome says, once the service is up."""
        said = await_output(self._process, self.data / "log", '"service listening"')
        return said.partition("admin, password ")[2].split()[0]

    def log(self) -> str:
        """What the service has said so far."""
        return (self.data / "log").read_text("utf-8", "replace")

    def scan(
        self,
        raw: bytes,
        sender: str = "ann@example.org",
        tenant: str | None = None,
        recipients: tuple[str, ...] = ("bob@example.com",),
        **border: str,
    ) -> dict[str, Any]:
        """Have a message analysed as a border MTA does; the result."""
        envelope = {"envelopeFrom": sender, "envelopeRecipients": recipients, **border}
        stated = {"borderMtaData": envelope, **({"tenantUid": tenant} if tenant else {})}
        files = {
            "parameters": (None, json.dumps(stated).encode(), "application/json"),
            "email": ("m.eml", raw, "message/rfc822"),
        }
        headers = {"Authorization": f"Bearer {TOKEN}"}
        answer = self.client.post("/v1/messageQueue/submitEmail", files=files, headers=headers)
        assert answer.status_code == 200, answer.text
        result: dict[str, Any] = answer.json()
        return result

    def ask(self, work: Callable[[Store], Awaitable[T]]) -> T:
        """Have the store of the running service do something, in a thread: here a browser may have the event loop."""
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(Deployment(data=self.data).with_store, work).result()

    def user(self, name: str, role: Role, tenant: str | None = None, password: str = PASSWORD) -> str:
        """Somebody who can sign in; the password."""
        self.ask(lambda store: store.users.create(name, role, tenant, _hash(password), CLI))
        return password

    def _set_password(self, name: str, password: str) -> None:
        async def change(store: Store) -> None:
            found = await store.users.credentials(name)
            assert found
            await store.users.set_password(found.user.uid, _hash(password), CLI)

        self.ask(change)

    def stop(self) -> None:
        """End it."""
        self.client.close()
        self._process.terminate()
        self._process.wait(180)
        self._names.close()


def _hash(password: str) -> str:
    """Return a hash that costs next to nothing: people sign in often here."""
    return PasswordHasher(time_cost=1, memory_cost=64, parallelism=1).hash(password)
