"""A whole service in its own process with mail in it, a next hop that takes what it gets, and a real Chromium.

`Browser.page()` has somebody signed in. Every page that is opened is watched: a script error, a dialog that nobody
waits for, a request to another host, or anything that the content-security policy refuses fails the test.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from bench.sample import EICAR, Sample, fill
from bench.visiting import SIZES, Service, chromium_path
from playwright.sync_api import Browser as Chromium
from playwright.sync_api import Dialog, Page, StorageState, expect, sync_playwright

# A loaded machine may take its time; nothing waits longer than it has to.
PATIENCE = 90_000
expect.set_options(timeout=PATIENCE)


class Browser:
    """Chromium, and people who use it."""

    def __init__(self, chromium: Chromium, service: Service, signed_in: dict[str, StorageState]) -> None:
        self._chromium, self._service, self._signed_in = chromium, service, signed_in
        self._contexts: list[Any] = []
        self.faults: list[str] = []
        self.asked: list[str] = []

    def page(
        self,
        name: str | None = "admin",
        password: str | None = None,
        *,
        size: str = "desktop",
        script: bool = True,
        dark: bool = False,
        fresh: bool = False,
    ) -> Page:
        """A page of its own, signed in unless there is no name; `fresh` signs in anew, for who signs out again."""
        width, height = SIZES[size]
        known = None if fresh or name is None else self._signed_in.get(name)
        context = self._chromium.new_context(
            base_url=self._service.url,
            ignore_https_errors=True,
            viewport={"width": width, "height": height},
            java_script_enabled=script,
            color_scheme="dark" if dark else "light",
            permissions=["clipboard-read", "clipboard-write"] if script else [],
            storage_state=known,
            reduced_motion="reduce",
        )
        self._contexts.append(context)
        context.set_default_timeout(PATIENCE)
        page = context.new_page()
        self._watch(page)
        if name and not known:
            page.goto("/sign-in")
            self.sign_in(page, name, password or self._service.password)
            page.wait_for_url(lambda url: "/sign-in" not in url)
            if not fresh:
                self._signed_in[name] = context.storage_state()
        return page

    def open(self, path: str, *who: str | None, **options: Any) -> Page:
        """A page of its own at this path, as `page` has it."""
        page = self.page(*who, **options)
        page.goto(path)
        return page

    @staticmethod
    def sign_in(page: Page, name: str, password: str) -> None:
        """Send the form for signing in that the page shows."""
        page.get_by_label("Name").fill(name)
        page.get_by_label("Password").fill(password)
        page.get_by_role("button", name="Sign in").click()

    def accept(self, page: Page) -> None:
        """Whatever the page asks, say yes; what it asked is in `asked`."""
        page.on("dialog", self._accepted)

    def _accepted(self, dialog: Dialog) -> None:
        self.asked.append(dialog.message)
        dialog.accept()

    def _watch(self, page: Page) -> None:
        page.on("pageerror", lambda fault: self.faults.append(f"script error: {fault}"))
        page.on("console", lambda said: self._heard(said.text))
        page.on("request", lambda request: self._requested(request.url))
        page.on("dialog", self._surprised)

    def _surprised(self, dialog: Dialog) -> None:
        if dialog.type != "confirm":
            self.faults.append(f"the page says {dialog.message}")
            dialog.dismiss()

    def _heard(self, text: str) -> None:
        if "Content Security Policy" in text or "Refused" in text:
            self.faults.append(text)

    def _requested(self, url: str) -> None:
        if not url.startswith((self._service.url, "about:", "blob:")):
            self.faults.append(f"asked for {url}")

    def close(self) -> None:
        for context in self._contexts:
            context.close()


@pytest.fixture(scope="session")
def chromium_program() -> str:
    """Where Chromium is; without it these tests are reported as not run."""
    path = chromium_path()
    if path is None:
        pytest.skip("not run: there is no Chromium (Debian: apt-get install chromium-headless-shell)")
    return path


_running = ExitStack()


@pytest.fixture(scope="session")
def chromium(chromium_program: str) -> Chromium:
    """One Chromium for all files of this folder, which are one after the other (`FIRST` in `tests/conftest.py`)."""
    playwright = _running.enter_context(sync_playwright())
    # Chromium's own sandbox needs rights that a container or root often does not have; only our pages are opened.
    browser = playwright.chromium.launch(executable_path=chromium_program, args=["--no-sandbox", "--disable-gpu"])
    _running.callback(browser.close)
    return browser


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(nextitem: pytest.Item | None) -> None:
    """End Chromium with the last test of this folder: while it is there, no test can have an event loop of its own."""
    if nextitem is None or nextitem.path.parent != Path(__file__).parent:
        _running.close()


@pytest.fixture(scope="session")
def service(
    tmp_path_factory: pytest.TempPathFactory, lasting_next_hop: Any, chromium_program: str
) -> Iterator[Service]:
    """A service that all of these tests share."""
    assert chromium_program
    running = Service(tmp_path_factory.mktemp("browser") / "data", lasting_next_hop.url)
    yield running
    running.stop()


@pytest.fixture(scope="session")
def sample(service: Service) -> Sample:
    """Mail, lists, tenants and people that nobody changes, to be looked at."""
    return fill(service, history=30)


@pytest.fixture(scope="session")
def signed_in() -> dict[str, StorageState]:
    """The cookies of whoever has signed in before."""
    return {}


@pytest.fixture
def browser(chromium: Chromium, service: Service, signed_in: dict[str, StorageState]) -> Iterator[Browser]:
    """Chromium before this service; whatever went wrong in its pages fails the test."""
    made = Browser(chromium, service, signed_in)
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
