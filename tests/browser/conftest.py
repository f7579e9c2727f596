"""A whole service in its own process with mail in it, a next hop that takes what it gets, and a real Chromium.

`Browser.page()` signs somebody in through the form. Every page that is opened is watched: a script error, a request to
another host, or anything that the content-security policy refuses fails the test.
"""

import json
import os
import shutil
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser as Chromium
from playwright.sync_api import Page, sync_playwright

from gatepost.config import ABBY_FILE, GUARD_FILE

COMMAND = [sys.executable, "-m", "gatepost"]
TOKEN = "browser-tests"
EICAR = r"X5O!P%@AP[4\PZX54(P^)7CC)7}$EICAR" + "-STANDARD-ANTIVIRUS-TEST-FILE!$H+H*"
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
SIZES = {"desktop": (1280, 900), "phone": (390, 844)}


def chromium_path() -> str | None:
    """Debian's Chromium, or one that is on the path, or the one that playwright has fetched."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found:
        return found
    with sync_playwright() as playwright:
        own = playwright.chromium.executable_path
    return own if Path(own).exists() else None


def free_ports(count: int) -> list[int]:
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [int(each.getsockname()[1]) for each in held]
    for each in held:
        each.close()
    return ports


class Service:
    """`gatepost serve` on loopback ports, and what a person at its keyboard can do."""

    def __init__(self, data: Path, next_hop: str) -> None:
        self.data = data
        guard, port = free_ports(2)
        self.url = f"https://127.0.0.1:{port}"
        settings = {
            GUARD_FILE: f"scanSources: {{restApi: {{port: {guard}, keep: held}}}}\n"
            f'delivery: {{nextHop: "{next_hop}"}}\nworkerProcesses: 1\ndns: {{nameservers: ["127.0.0.1:9"]}}\n',
            ABBY_FILE: f"listen: {{host: 127.0.0.1, port: {port}}}\n"
            f'serviceProviders: {{core: {{hosts: ["https://127.0.0.1:{guard}"]}}}}\n'
            f"staticApiTokens: [{{name: mta, token: {TOKEN}, permissions: [messages.read]}}]\n",
        }
        for name, text in settings.items():
            (data / name).parent.mkdir(parents=True)
            (data / name).write_text(text)
        with (data / "log").open("wb") as log:
            command = [*COMMAND, "serve", "--data", str(data)]
            self._process = subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, "COLUMNS": "200"})
        self.password = self._first_password()
        trusting = ssl.create_default_context(cafile=str(data / "tls/certificate.pem"))
        self.client = httpx.Client(base_url=self.url, verify=trusting, trust_env=False, timeout=60)

    def _first_password(self) -> str:
        """What the welcome says, once the service is up."""
        end = time.monotonic() + 90
        while time.monotonic() < end and self._process.poll() is None:
            said = (self.data / "log").read_text("utf-8", "replace")
            if '"listening"' in said:
                return said.partition("admin, password ")[2].split()[0]
            time.sleep(0.1)
        raise AssertionError((self.data / "log").read_text("utf-8", "replace"))

    def scan(self, raw: bytes, sender: str = "ann@example.org", tenant: str | None = None) -> dict[str, Any]:
        """Have a message analysed as a border MTA does; the result."""
        border = {"envelopeFrom": sender, "envelopeRecipients": ["bob@example.com"]}
        stated = {"borderMtaData": border, **({"tenantUid": tenant} if tenant else {})}
        files = {
            "parameters": (None, json.dumps(stated).encode(), "application/json"),
            "email": ("m.eml", raw, "message/rfc822"),
        }
        answer = self.client.post(
            "/v1/messageQueue/submitEmail", files=files, headers={"Authorization": f"Bearer {TOKEN}"}
        )
        assert answer.status_code == 200, answer.text
        result: dict[str, Any] = answer.json()
        return result

    def command(self, *words: str, typed: str = "") -> str:
        """A command beside the running service."""
        ended = subprocess.run(
            [*COMMAND, *words, "--data", str(self.data)], check=False, capture_output=True, text=True, input=typed
        )
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    def user(self, name: str, role: str, tenant: str = "", password: str = "six words for a small test") -> str:
        """Somebody who can sign in; the password."""
        of = ["--tenant", tenant] if tenant else []
        self.command("user", "create", name, "--role", role, *of, typed=f"{password}\n")
        return password

    def stop(self) -> None:
        self.client.close()
        self._process.terminate()
        self._process.wait(60)


class Browser:
    """Chromium, and people who use it."""

    def __init__(self, chromium: Chromium, service: Service) -> None:
        self._chromium, self._service = chromium, service
        self._contexts: list[Any] = []
        self.faults: list[str] = []

    def page(
        self,
        name: str | None = "admin",
        password: str | None = None,
        *,
        size: str = "desktop",
        script: bool = True,
        dark: bool = False,
    ) -> Page:
        """A page of its own, signed in unless there is no name."""
        width, height = SIZES[size]
        context = self._chromium.new_context(
            base_url=self._service.url,
            ignore_https_errors=True,
            viewport={"width": width, "height": height},
            java_script_enabled=script,
            color_scheme="dark" if dark else "light",
            permissions=["clipboard-read", "clipboard-write"] if script else [],
        )
        self._contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(20_000)
        self._watch(page)
        if name:
            page.goto("/sign-in")
            page.get_by_label("Name").fill(name)
            page.get_by_label("Password").fill(password or self._service.password)
            page.get_by_role("button", name="Sign in").click()
            page.wait_for_url(lambda url: "/sign-in" not in url)
        return page

    def _watch(self, page: Page) -> None:
        page.on("pageerror", lambda fault: self.faults.append(f"script error: {fault}"))
        page.on("console", lambda said: self._heard(said.text))
        page.on("request", lambda request: self._asked(request.url))

    def _heard(self, text: str) -> None:
        if "Content Security Policy" in text or "Refused" in text:
            self.faults.append(text)

    def _asked(self, url: str) -> None:
        if not url.startswith((self._service.url, "about:", "data:", "blob:")):
            self.faults.append(f"asked for {url}")

    def close(self) -> None:
        for context in self._contexts:
            context.close()


@pytest.fixture(scope="session")
def chromium_program() -> str:
    """Where Chromium is; without it these tests are reported as not run."""
    path = chromium_path()
    if path is None:
        pytest.skip("not run: there is no Chromium (Debian: apt-get install chromium)")
    return path


@pytest.fixture(scope="module")
def chromium(chromium_program: str) -> Iterator[Chromium]:
    """One Chromium for each file of tests: while it is there, no test can have an event loop of its own."""
    with sync_playwright() as playwright:
        # Chromium's own sandbox needs rights that a container or root often does not have; only our pages are opened.
        browser = playwright.chromium.launch(executable_path=chromium_program, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def service(
    tmp_path_factory: pytest.TempPathFactory, lasting_next_hop: Any, chromium_program: str
) -> Iterator[Service]:
    """A service that all of these tests share."""
    assert chromium_program
    running = Service(tmp_path_factory.mktemp("browser") / "data", lasting_next_hop.url)
    yield running
    running.stop()


@pytest.fixture
def browser(chromium: Chromium, service: Service) -> Iterator[Browser]:
    """Chromium before this service; whatever went wrong in its pages fails the test."""
    made = Browser(chromium, service)
    yield made
    made.close()
    assert made.faults == []


@pytest.fixture
def mail() -> Callable[..., bytes]:
    """A message to be written on."""

    def written(subject: str, text: str = "Hello Bob,\r\nsee you on Tuesday.\r\nAnn\r\n", more: str = "") -> bytes:
        head = f"From: Ann Example <ann@example.org>\r\nTo: bob@example.com\r\nSubject: {subject}\r\n"
        date = "Date: Tue, 10 Nov 2026 09:12:00 +0000\r\nMessage-ID: <m@example.org>\r\n"
        return f"{head}{date}{more}\r\n{text}".encode()

    return written


@pytest.fixture
def virus(mail: Callable[..., bytes]) -> Callable[[str], bytes]:
    """A message that is held for certain."""
    return lambda subject: mail(subject, EICAR + "\r\n", "Content-Type: application/octet-stream\r\n")
