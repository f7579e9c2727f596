"""The clients of a soak: each a thread with a pace of its own that sends again what failed."""

import json
import random
import smtplib
import threading
import time
from collections.abc import Callable

import httpx

from bench import load
from bench.sample import EICAR
from bench.soak.account import Account, Outcome, judge
from bench.soak.hangups import hang_up
from bench.soak.lists import ListClient
from bench.soak.mail import Mixture
from bench.soak.node import PASSWORD, TOKEN, SoakNode

SCANNERS, SENDERS = 3, 2
# Seconds between two requests of one client: about ten messages a second in all.
SCAN_PACE, SMTP_PACE, LIST_PACE, SEARCH_PACE, WEB_PACE, HANG_UP_PACE = 0.43, 0.7, 1.0, 1.0, 2.0, 2.0
GRACE_SECONDS = 240.0
PAGES = (
    "/",
    "/messages",
    "/messages?verdict=spam",
    "/quarantine",
    "/lists",
    "/policy",
    "/audit",
    "/system",
    "/account",
)
SEARCHES: tuple[dict[str, object], ...] = (
    {"limit": 20},
    {"recipient": "r@example.org", "limit": 50},
    {"verdict": "spam"},
    {"linkHost": "evil.example"},
    {"fileName": "files.zip"},
    {"subject": "files"},
)


class Load:
    """All clients of one run."""

    def __init__(self, node: SoakNode) -> None:
        self._node = node
        self.account = Account()
        self._over = threading.Event()
        self._under_way = 0
        self._threads: list[threading.Thread] = []

    @property
    def answered(self) -> int:
        return self.account.answered

    def start(self) -> None:
        works: list[Callable[[], None]] = [lambda number=number: self._scan(number) for number in range(SCANNERS)]  # type: ignore[misc]
        works += [lambda number=number: self._send(number) for number in range(SENDERS)]  # type: ignore[misc]
        for name, tenant in self._node.tenants.items():
            client = ListClient(self._node, self.account, name, tenant)
            works.append(lambda client=client: self._paced(LIST_PACE, client.step))  # type: ignore[misc]
        works += [self._search, self._browse, self._hang_up]
        self._threads = [threading.Thread(target=work, daemon=True) for work in works]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Begin nothing new; what is under way is sent again until it is answered."""
        self._over.set()
        end = time.monotonic() + GRACE_SECONDS
        for thread in self._threads:
            thread.join(max(0.0, end - time.monotonic()))

    def judge(self) -> Outcome:
        return judge(self._node, self.account, self._under_way)

    def _paced(self, pace: float, step: Callable[[], None]) -> None:
        due = time.monotonic()
        while not self._over.is_set():
            step()
            due = max(due + pace, time.monotonic() - 10 * pace)
            self._over.wait(max(0.0, due - time.monotonic()))

    def _scan(self, number: int) -> None:
        mixture, connection = Mixture(number, f"scan{number}"), load.Connection(self._node.url)
        tenants = [None, *self._node.tenants.values()]

        def step() -> None:
            raw, envelope = mixture.next()
            request = load.upload(raw, envelope, TOKEN, tenant=random.choice(tenants))
            self._under_way += 1
            while not self._exchange(connection, request):
                time.sleep(0.5)
            self._under_way -= 1

        self._paced(SCAN_PACE, step)

    def _exchange(self, connection: load.Connection, request: bytes) -> bool:
        """One try; true if it was answered for good."""
        account, began = self.account, time.monotonic()
        try:
            head, _, body = connection.exchange(request).partition(b"\n")
        except TimeoutError:
            account.note("scan", "timeout")
            return False
        except OSError:
            account.note("scan", "broken connection")
            return False
        status = head.split(b" ")[1].decode()
        if status == "200":
            result = json.loads(body)
            account.note_result(result["ggrid"], result["decision"], time.monotonic() - began)
            account.note("scan", "200")
            return True
        account.note("scan", f"{status} {json.loads(body).get('error')}")
        return status.startswith("4") and status != "429"

    def _send(self, number: int) -> None:
        count = 0
        client: smtplib.SMTP | None = None

        def step() -> None:
            nonlocal count, client
            count += 1
            name = f"s{number}-{count}@soak.example"
            self.account.sent.add(name)
            while True:
                try:
                    client = client or smtplib.SMTP("127.0.0.1", self._node.smtp, timeout=600)
                    client.ehlo_or_helo_if_needed()
                    again = self._transaction(client, name, held=count % 10 == 0)
                except TimeoutError:
                    self.account.note("smtp", "timeout")
                    client, again = None, True
                except (OSError, smtplib.SMTPException):
                    self.account.note("smtp", "broken connection")
                    client, again = None, True
                if not again:
                    return
                time.sleep(0.5)

        self._paced(SMTP_PACE, step)

    def _transaction(self, client: smtplib.SMTP, name: str, *, held: bool) -> bool:
        """One transaction; true if it has to come again."""
        for command in ("MAIL FROM:<a@example.org>", "RCPT TO:<b@example.com>", "DATA"):
            code, _ = client.docmd(command)
            if code >= 400:
                return self._refused(client, name, code)
        body = EICAR if held else "Hello Bob, the minutes of Tuesday are on the drive. " * 20
        head = f"From: Ann <ann@example.org>\r\nTo: bob@example.com\r\nSubject: Minutes\r\nMessage-ID: <{name}>\r\n"
        client.send(f"{head}\r\n{body}\r\n.\r\n".encode())
        try:
            code, _ = client.getreply()
        except (OSError, smtplib.SMTPException):
            self.account.cut[name] += 1
            raise
        if code < 400:
            self.account.note("smtp", str(code))
            self.account.accepted.add(name)
            return False
        return self._refused(client, name, code)

    def _refused(self, client: smtplib.SMTP, name: str, code: int) -> bool:
        self.account.note("smtp", str(code))
        if code >= 500:
            self.account.refused.add(name)
        client.rset()
        return code < 500

    def _search(self) -> None:
        headers = {"Authorization": f"Bearer {TOKEN}"}
        client = httpx.Client(base_url=self._node.url, verify=False, trust_env=False, timeout=600, headers=headers)

        def step() -> None:
            stated = random.choice(SEARCHES)
            self._call("search", lambda: client.post("/v1/messages/search", json=stated))
            if self.account.recent:
                ggrid = random.choice(tuple(self.account.recent))
                status = self._call("record", lambda: client.get(f"/v1/messages/{ggrid}"))
                if status == 404:
                    self.account.unknown_records.append(ggrid)

        self._paced(SEARCH_PACE, step)

    def _browse(self) -> None:
        client = httpx.Client(base_url=self._node.url, verify=False, trust_env=False, timeout=600)
        client.headers["Accept"] = "text/html"

        def step() -> None:
            status = self._call("page", lambda: client.get(random.choice(PAGES)))
            if status in (303, 401, 403):
                form = {"name": "soak", "password": PASSWORD}
                self._call("sign-in", lambda: client.post("/sign-in", data=form))

        self._paced(WEB_PACE, step)

    def _hang_up(self) -> None:
        def step() -> None:
            try:
                self.account.note("hang-up", hang_up(self._node, random.randrange(5)))
            except OSError:
                self.account.note("hang-up", "broken connection")

        self._paced(HANG_UP_PACE, step)

    def _call(self, client: str, call: Callable[[], httpx.Response]) -> int:
        """One call that need not succeed, but has to be answered."""
        try:
            status = call().status_code
        except httpx.TimeoutException:
            self.account.note(client, "timeout")
            return 0
        except httpx.TransportError:
            self.account.note(client, "broken connection")
            return 0
        self.account.note(client, str(status))
        return status
