"""The web interface as a browser meets it: a real server on a loopback port over a real store, and people who sign in
through the form. The cookie is for TLS only, so these browsers carry it by hand."""

import asyncio
import html
import re
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
import uvicorn
from argon2 import PasswordHasher
from tests.store_reading import read_attempts

from gatepost.abby.app import create_app, create_services
from gatepost.abby.cores import Cores, Down
from gatepost.analysis.report import Line, Report
from gatepost.api.http import ConnectedClient
from gatepost.api.server import server_config
from gatepost.ids import new_id
from gatepost.lists.rulings import Subject
from gatepost.mail.message import Envelope
from gatepost.mailboxes.removal import MailRemover, OpensMailbox
from gatepost.scanning.held_mail import (
    Deleted,
    DeleteOrder,
    ExportOrder,
    HeldMailOrder,
    HtmlOrder,
    NotHeld,
    NotSent,
    PictureOrder,
    RecipientReleaseOrder,
    Released,
    ReleaseOrder,
)
from gatepost.scanning.request import Load, ScanRequest, ScanResult
from gatepost.scanning.spool import MessageBody, Spool
from gatepost.service.data_folder import DataFolder
from gatepost.service.publishing import NodePublisher
from gatepost.settings.delivery import RemediationSettings
from gatepost.settings.files import ABBY_FILE, GUARD_FILE
from gatepost.settings.keys import OpenidConnectSettings
from gatepost.store import open_store
from gatepost.store.audit import CLI, AuditFilter, AuditRecord
from gatepost.store.lists import ListEntry
from gatepost.store.message_records import MessageRecord
from gatepost.store.store import Store
from gatepost.view.values import Ended, HeaderLine, HtmlView, NotShown, Opened, Passage, Picture, PictureLine, View
from gatepost.web import credentials
from gatepost.web.configuration import Publisher
from gatepost.web.context import FeedLine, Installation, SignInRules
from gatepost.web.openid import OpenidClient
from gatepost.web.registry import build_site
from gatepost.workers.protocol import Extracted

PASSWORD = "four quiet words here"
_quick_hasher = partial(PasswordHasher, time_cost=1, memory_cost=64)
_HASHED = _quick_hasher(parallelism=1).hash(PASSWORD)


REPORT = Report(
    "spam",
    "quarantine",
    ("text:urgency",),
    730,
    "The score is 7.3, and spam begins at 6",
    lines=(Line("text:urgency", "The text presses for time", "1", {"words": "at once"}, 730, 730, "spam"),),
    subject="Act now",
    senders=("ann@example.org",),
    subjects=(Subject("from", "ann@example.org", "From"), Subject("link", "http://evil.example/x", "1")),
)


DELIVERED = Report("clean", "deliver", (), 0, "")


def delivered(link: str, subject: str = "") -> Report:
    """What is known of a message that was delivered with a link in it."""
    return msgspec.structs.replace(DELIVERED, subject=subject, subjects=(Subject("link", link, "html"),))


# The files of a node, of which its pages publish versions.
GUARD = "scanSources: {restApi: {host: 127.0.0.1, port: 9785}}\n"
ABBY = """listen: {host: 127.0.0.1, port: 9081}
serviceProviders: {core: {hosts: ["https://127.0.0.1:9785"]}}
"""


class PlainCore:
    """A core that puts whatever comes on record with the same result."""

    name = "plain"
    enabled = True

    def __init__(self, store: Store) -> None:
        self._store = store

    async def scan(self, request: ScanRequest, _body: MessageBody, _client: ConnectedClient) -> ScanResult:
        record = MessageRecord(
            *(request.ggrid, request.created, request.created + 5, request.envelope, 10, "cd" * 32, REPORT),
            source=request.source,
        )
        await self._store.messages.record(record)
        return ScanResult(record.ggrid, record.created, record.completed, REPORT)

    async def read_features(
        self, _request: ScanRequest, _body: MessageBody, _client: ConnectedClient
    ) -> Extracted | NotShown:
        return NotShown("no page reads a message in this way")

    async def ask_load(self) -> Load:
        return Load(0, 1, 1)

    def load_now(self) -> Load | None:
        return None

    @property
    def waiting(self) -> tuple[int, int]:
        return 0, 0

    def trust(self, _ca: Path) -> None: ...

    async def close(self) -> None:
        return None


class Core:
    """A core that holds mail. `refuses` is what the next hop says."""

    def __init__(self) -> None:
        self.raw: dict[str, bytes] = {}
        self.sent: dict[str, tuple[str, ...]] = {}
        self.orders: list[ReleaseOrder] = []
        self.given: list[tuple[str, str, str]] = []
        self.refuses = ""
        self.down = False

    async def carry_out(self, order: HeldMailOrder[Any]) -> Any:
        if self.down and isinstance(order, ReleaseOrder | RecipientReleaseOrder | ExportOrder):
            return Down("core", begun=False, core="guard2:9785")
        if isinstance(order, RecipientReleaseOrder):
            return await self._release_to(order)
        if isinstance(order, ReleaseOrder):
            self.orders.append(order)
            return await self._release(order)
        if isinstance(order, DeleteOrder):
            there = await self.store.quarantine.delete(order.ggrid, order.by, order.tenant, for_good=order.for_good)
            return Deleted() if there else NotHeld()
        if order.ggrid not in self.raw:
            return NotHeld()
        if isinstance(order, PictureOrder):
            known = order.index == 0
            return Picture(b"\x89PNG\r\n\x1a\n", 1, 1) if known else NotShown("there is no such picture")
        if isinstance(order, ExportOrder):
            if order.is_reading:
                await self.store.audit.note_view(order.ggrid, order.tenant, order.by)
            elif not order.for_learning:
                await self.store.audit.note_export(order.ggrid, order.tenant, order.by)
            return self.raw[order.ggrid]
        text = self.raw[order.ggrid].decode()
        if isinstance(order, HtmlOrder):
            return HtmlView((Opened("p", "color:red;"), text, Ended()))
        picture = PictureLine(0, "1.2", "cat.png", "png", 70, 1, 1)
        return View(
            (HeaderLine("Subject", text),), passages=(Passage("1", "plain", text),), pictures=(picture,), pages=1
        )

    async def _release(self, order: ReleaseOrder) -> Released | NotSent | NotHeld:
        if self.refuses:
            return NotSent(self.refuses)
        if order.ggrid not in self.raw:
            return NotHeld()
        self.sent[order.ggrid] = order.recipients or ("bob@example.com",)
        release = await self.store.quarantine.mark_released(order.ggrid, self.sent[order.ggrid], order.by)
        return Released(order.ggrid, release.time, release.by, release.recipients)

    async def _release_to(self, order: RecipientReleaseOrder) -> Released | NotSent:
        if self.refuses:
            return NotSent(self.refuses)
        self.given.append((order.ggrid, order.recipient, order.by.kind))
        made, _ = await self.store.quarantine.mark_released_to(order.ggrid, order.recipient, order.by, new_id())
        return Released(order.ggrid, made.time, made.by, made.recipients)

    store: Store


def new_publisher(folder: Path, guard: str = GUARD, abby: str = ABBY) -> NodePublisher:
    """What a node with these files publishes."""
    for name, text in ((GUARD_FILE, guard), (ABBY_FILE, abby)):
        (folder / "config" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "config" / name).write_text(text)
    return NodePublisher(folder / "config", DataFolder(folder / "data"))


def notice_cookie(answer: httpx.Response) -> str:
    """The notice that an answer sets, as a cookie; "" without one."""
    return next((each.partition(";")[0] for each in answer.headers.get_list("set-cookie") if "-notice=" in each), "")


def find_in(pattern: str, page: str, flags: int = 0) -> str:
    """What the group of a pattern is in a page, as a browser reads it."""
    found = re.search(pattern, page, flags)
    assert found, page
    return html.unescape(found[1])


class Visitor:
    """Somebody with a browser. `who` is the user's name."""

    def __init__(self, site: "Site", who: str, password: str = PASSWORD) -> None:
        self.who = who
        self._notice = ""
        self._client = httpx.Client(
            base_url=site.url, headers={"Accept": "text/html"}, timeout=60, trust_env=False, verify=site.no_tls
        )
        answer = self._client.post("/sign-in", data={"name": who, "password": password})
        assert answer.status_code == 303, answer.text
        self._client.headers["Cookie"] = answer.headers["set-cookie"].partition(";")[0]
        self._client.cookies.clear()
        page = self.get("/account")
        # Somebody whose password was handed over gets no further than this page.
        shown = self.get(page.headers["location"]) if page.is_redirect else page
        self.csrf = find_in(r'name="csrf" value="([^"]+)"', shown.text)

    def get(self, path: str, **options: Any) -> httpx.Response:
        """A page; the notice of the change before comes along once, as a browser sends it."""
        notice, self._notice = self._notice, ""
        cookie = f"{self.cookie}; {notice}" if notice else self.cookie
        headers = {"Cookie": cookie, **options.pop("headers", {})}
        return self._client.get(path, headers=headers, **options)

    def post(self, path: str, fields: dict[str, Any] | None = None, **options: Any) -> httpx.Response:
        """A form of one of our pages; fields with a list are sent as often."""
        answer = self._client.post(path, data={"csrf": self.csrf, **(fields or {})}, **options)
        self._notice = notice_cookie(answer)
        return answer

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

    def bare(self, method: str, path: str, **options: Any) -> httpx.Response:
        """A request with the cookie and nothing else."""
        return self._client.request(method, path, **options)

    @property
    def cookie(self) -> str:
        """The cookie as it is sent."""
        return self._client.headers["Cookie"]

    def close(self) -> None:
        self._client.close()


class Site:
    """A running abby over a real store, and that store."""

    password = PASSWORD

    def __init__(
        self,
        folder: Path,
        rules: SignInRules | None = None,
        openid: OpenidConnectSettings | None = None,
        publisher: Publisher | None = None,
        remediation: tuple[RemediationSettings, OpensMailbox] | None = None,
    ) -> None:
        self._folder, self._rules, self._openid = folder, rules, openid
        self._remediation = remediation
        self._publisher = publisher or new_publisher(folder)
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        # httpx reads all certificates of the system for each client, unless told that none are needed.
        self.no_tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._ready = threading.Event()
        self._thread = threading.Thread(target=asyncio.run, args=(self._serve(),), daemon=True)
        self._visitors: dict[tuple[str, str | None], Visitor] = {}
        self._entered: list[Visitor | httpx.Client] = []
        self.learnt: list[tuple[bytes, bool]] = []
        self.tried: list[str] = []
        self.tested: list[Any] = []
        self.alert_fault = ""
        self.feed_outcome = (False, "the host was not found")
        self._thread.start()
        assert self._ready.wait(180)

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.store = open_store("sqlite:web.db", self._folder)
        cores = Cores([PlainCore(self.store)], poll_seconds=60)
        self.core = Core()
        self.core.store = self.store
        services = create_services(
            cores=cores, store=self.store, spool=Spool(self._folder / "spool"), held_mail_cores=[self.core]
        )
        self.guesses = services.guesses.pages
        feeds = (FeedLine("test-feed", None, "blocked-urls", "https://feeds.example", "plain", 60),)
        learn = lambda raw, wanted: self.learnt.append((raw, wanted))  # noqa: E731
        installation = Installation(
            learn=learn,
            feeds=feeds,
            data=self._folder,
            try_feed=self._try_feed,
            publisher=self._publisher,
            test_alert=self._test_alert,
        )
        openid = OpenidClient(self._openid, self.url) if self._openid else None
        settings, opens = self._remediation or (None, None)
        remover = MailRemover(settings, self.store.removed_mail, opens) if settings and opens else None
        pages = build_site(services, installation, rules=self._rules, openid=openid, remover=remover)
        app = create_app(services, tokens=[], routes=pages.routes, error_page=pages.error_page)
        self._server = uvicorn.Server(server_config(app))
        self._loop.call_soon(self._ready.set)
        await self._server.serve([self._socket])
        await self.store.close()

    async def _try_feed(self, name: str) -> tuple[bool, str]:
        self.tried.append(name)
        return self.feed_outcome

    def _test_alert(self, alert: Any) -> str:
        self.tested.append(alert)
        return self.alert_fault

    def stop(self) -> None:
        for visitor in (*self._visitors.values(), *self._entered):
            visitor.close()
        self._server.should_exit = True
        self._thread.join(60)
        self._socket.close()

    def run(self, coroutine: Any) -> Any:
        """Have the store do something."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(180)

    @staticmethod
    def went(answer: httpx.Response) -> str:
        """Where a change leads, and the notice that the page there will show."""
        return f"{answer.headers['location']} {notice_cookie(answer).partition('=')[2]}".strip()

    def trail(self, **wanted: Any) -> list[AuditRecord]:
        """The audit trail, or what of it is wanted, the newest first."""
        rows: tuple[AuditRecord, ...] = self.run(self.store.audit.page(AuditFilter(**wanted))).rows
        return list(rows)

    def entries(self, tenant: str | None, name: str = "blocked-urls") -> tuple[ListEntry, ...]:
        """The entries of a list, at most a thousand."""
        found: tuple[ListEntry, ...] = self.run(self.store.lists.page(tenant, name, limit=1_000)).rows
        return found

    def known(self, name: str) -> Any:
        """What is known of a user, and of how the user signs in."""
        return self.run(self.store.users.credentials(name))

    def attempts(self, name: str) -> dict[str, int]:
        """The failures to sign in that are counted for a user, by the sort of their source."""
        found = self.run(read_attempts(self.store, self.known(name).user.uid))
        return {source.partition(":")[0]: count for source, (count, _) in found.items()}

    def new_tenant(self, name: str = "") -> str:
        uid: str = self.run(self.store.tenants.create(name or f"tenant {new_id()}")).uid
        return uid

    def new_user(self, role: Any = "analyst", tenant: str | None = None) -> str:
        """Somebody who can sign in with the password of all of them; the name."""
        name = f"{role} {new_id()}"
        self.run(self.store.users.create(name, role, tenant, _HASHED, CLI))
        return name

    def message(
        self,
        tenant: str | None = None,
        report: Report = REPORT,
        *,
        held: bool = False,
        text: str = "held text",
        moment: int = 0,
        header: bytes | None = None,
        **envelope: Any,
    ) -> str:
        """A message on record, held if that is asked for; its ggrid. `envelope` is what differs in it."""
        usual = Envelope("ann@example.org", ("bob@example.com",), "192.0.2.7", "mail.example.org", tenant)
        border = msgspec.structs.replace(usual, **envelope)
        moment = moment or int(time.time() * 1000)
        record = MessageRecord(new_id(), moment - 20, moment, border, 512, "ab" * 32, report, header=header)
        self.run(self.store.messages.record(record))
        if held:
            self.run(self.store.quarantine.hold(record))
            self.core.raw[record.ggrid] = text.encode()
        return record.ggrid

    def enter(self, name: str, password: str = PASSWORD) -> Visitor:
        """Somebody who signs in once more."""
        visitor = Visitor(self, name, password)
        self._entered.append(visitor)
        return visitor

    def close_later(self, client: httpx.Client) -> None:
        """Close a client of a test's own with the site."""
        self._entered.append(client)

    def visitor(self, role: Any = "administrator", tenant: str | None = None) -> Visitor:
        """Somebody of that role who is signed in; the same one each time."""
        if (role, tenant) not in self._visitors:
            self._visitors[role, tenant] = Visitor(self, self.new_user(role, tenant))
        return self._visitors[role, tenant]


@pytest.fixture(scope="session", autouse=True)
def quick_hashes() -> Iterator[None]:
    """Hashes of passwords that cost next to nothing: people sign in hundreds of times here. What a hash costs in
    service is asserted by `test_new_hashes_cost_what_the_standard_says`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(credentials, "PasswordHasher", _quick_hasher)
        yield


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A site that tests share; each makes tenants of its own."""
    made = Site(tmp_path_factory.mktemp("site"))
    yield made
    made.stop()


@pytest.fixture
def somebody(site: Site) -> str:
    """The name of a user of the test's own."""
    return site.new_user()


@pytest.fixture
def tenant(site: Site) -> str:
    """A tenant of the test's own."""
    return site.new_tenant()
