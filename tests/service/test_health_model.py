"""One model of health: what the queue's status, `/readyz`, metrics and `gatepost nodes` say when storage, the disk or a
next hop is away; and how storage faults and stalled cores are answered."""

import asyncio
import errno
import json
import ssl
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias

import apsw
import httpx
import pytest
from bench.ports import free_ports
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from tests.clock import Clock
from tests.data_folders import write_files
from tests.idle_guard import IdleGuard
from tests.service.running_service import RunningCommand
from tests.service.test_changes import TOKENS, Node, run_on

from gatepost.abby import remote_core
from gatepost.abby.cores import Cores, Down, LocalCore
from gatepost.abby.remote_core import RemoteCore
from gatepost.api.http import Endpoint, HttpErrors
from gatepost.process.health import Code, HealthLedger, make_reason
from gatepost.process.logs import ExpectedError, Logger
from gatepost.scanning.held_mail import ReleaseOrder
from gatepost.scanning.request import Load
from gatepost.service import health
from gatepost.service.certificates import sign_certificate
from gatepost.service.health import WRITING_LOOKS, ConditionWatch, PatientCall
from gatepost.store import open_store
from gatepost.store.audit import CLI
from gatepost.store.change_groups import WritingState
from gatepost.store.errors import StorageError
from gatepost.times import date_time

Handler: TypeAlias = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Any]

FREE, FULL, THROTTLING = Load(0, 3, 4), Load(4, 3, 4), Load(3, 3, 4)
BROKEN = Load(0, 3, 4, reasons=(make_reason("storage", "storage cannot be used", 7),))
SLOWED = Load(0, 3, 4, reasons=(make_reason("nextHop", "the next hop is away", 7),))
WARNED = Load(0, 3, 4, reasons=(make_reason("dns", "DNS does not answer", 7),))


class Silent(LocalCore):
    """A core that tells nothing."""

    def load_now(self) -> Load | None:
        return None


def join(loads: list[Load | None], own: HealthLedger | None = None) -> Cores:
    cores = (LocalCore(IdleGuard(load)) if load else Silent(IdleGuard()) for load in loads)
    return Cores(cores, own)


@pytest.mark.parametrize(
    ("loads", "colour"),
    [
        ([FREE, FREE], "GREEN"),
        ([FREE, WARNED], "GREEN"),
        ([FREE, None], "YELLOW"),
        ([FREE, THROTTLING], "YELLOW"),
        ([FREE, FULL], "YELLOW"),
        ([FULL, THROTTLING], "YELLOW"),
        ([FREE, BROKEN], "YELLOW"),
        ([FREE, SLOWED], "YELLOW"),
        ([SLOWED, SLOWED], "YELLOW"),
        ([FULL], "RED"),
        ([FULL, FULL], "RED"),
        ([FULL, None], "RED"),
        ([FULL, BROKEN], "RED"),
        ([BROKEN, BROKEN], "RED"),
        ([None, BROKEN], "RED"),
        ([None, None], "RED"),
        ([], "RED"),
    ],
)
def test_the_state_of_the_queue(loads: list[Load | None], colour: str) -> None:
    found = join(loads).health
    assert found.state == colour
    assert bool(found.reasons) is (loads != [FREE, FREE]), "no state without its reason"


def test_reasons_are_those_of_the_cores_and_say_what_they_are_for_all() -> None:
    found = join([BROKEN, SLOWED, WARNED, None]).health
    said = [(each.code, each.state, each.sentence) for each in found.reasons]
    assert sorted(said) == [
        ("cores", "YELLOW", "1 of 4 cores does not answer"),
        ("dns", "GREEN", "DNS does not answer"),
        ("nextHop", "YELLOW", "the next hop is away"),
        ("storage", "YELLOW", "storage cannot be used"),
    ]
    assert found.reasons[-1].state == "GREEN", "the worst come first"
    assert found.fault == "", "another core takes messages"
    own = HealthLedger()
    own.note("storage", "storage cannot be used")
    assert join([FREE, FREE], own).health.fault == "storage cannot be used", "this process can answer nobody"
    full = join([FULL]).health
    assert (full.state, full.fault, full.trouble) == ("RED", "", "all 4 slots are in use")
    silent = join([None])
    first, second = silent.health, silent.health
    assert first == second, "since is when it began"
    assert first.fault == "no core answers"


def test_a_core_keeps_its_words_from_look_to_look() -> None:
    clock = Clock(100.0)
    ledger, hop = HealthLedger(clock), [""]
    ledger.ask = lambda: {"nextHop": hop[0]}
    assert FREE.with_reasons(ledger) is FREE
    hop[0] = "the next hop is away"
    first = FULL.with_reasons(ledger)
    clock.now += 7
    assert FULL.with_reasons(ledger).health == first.health
    assert {each.code: each.since for each in first.health.reasons} == dict.fromkeys(
        ("full", "nextHop"), date_time(100_000)
    )
    clock.now += 7
    hop[0] = ""
    assert THROTTLING.with_reasons(ledger).health.reasons == (
        make_reason("throttling", "new messages are delayed: 3 of 4 slots are in use", 114_000),
    )
    assert FREE.with_reasons(ledger) is FREE


def test_the_ledger_follows_storage_and_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    logged: list[tuple[str, str]] = []
    log = Logger("gatepost")
    monkeypatch.setattr(log, "error", lambda event, **fields: logged.append((event, fields["reason"])), raising=False)
    monkeypatch.setattr(log, "info", lambda event, **fields: logged.append((event, fields["component"])))
    monkeypatch.setattr("gatepost.process.health.log", log)

    async def run() -> None:
        store, ledger = open_store("sqlite:g.db", tmp_path), HealthLedger()

        def said(code: Code) -> str:
            noted = ledger.noted(code)
            return noted.sentence if noted else ""

        watch = ConditionWatch(ledger, store, tmp_path)
        await watch.look()
        assert ledger.health.state == "GREEN"
        monkeypatch.setattr(health, "LEAST_FREE", 1 << 60)
        for _ in range(3):
            await watch.look()
        assert said("disk").startswith("the disk of the data folder is full")
        assert await watch.explains(StorageError("disk is full")), "what fails by it has no line of its own"
        assert not await watch.explains(ExpectedError("something else"))
        monkeypatch.setattr(health, "LEAST_FREE", 1)
        nowhere = ConditionWatch(ledger, store, tmp_path / "gone")
        await nowhere.look()
        assert said("disk") == "the data folder takes no files: no such file or directory"
        await store.close()
        await watch.look()
        assert (said("disk"), said("storage")) == ("", "storage cannot be used")

    asyncio.run(run())
    full = "the disk of the data folder is full"
    assert [(event, said.partition(":")[0]) for event, said in logged] == [
        ("no message can be taken to its end", full),
        ("messages can be taken to their end again", "disk"),
        ("no message can be taken to its end", "storage cannot be used"),
    ], "each fault once, also where its words change"


@pytest.mark.parametrize("fault", [StorageError("the database has gone"), OSError(errno.ENOSPC, "no space left")])
def test_storage_faults_are_503_with_a_time_to_come_again(fault: Exception) -> None:
    async def handler(_request: Request) -> Response:
        raise fault

    app = HttpErrors(Starlette(routes=[Route("/v1/x", Endpoint(handler))]).router)

    async def ask() -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://x") as client:
            return await client.get("/v1/x")

    answer = asyncio.run(ask())
    assert (answer.status_code, answer.json()["error"]) == (503, "storage_unavailable")
    assert answer.headers["retry-after"] == "5"
    assert str(fault) not in answer.text


@asynccontextmanager
async def core_server(folder: Path, name: str, handler: Handler) -> AsyncIterator[tuple[str, Path]]:
    """A TLS server in the place of a core: its address, and the certificate that it shows."""
    pem, key = sign_certificate(["127.0.0.1"], datetime.now(UTC))
    (folder / f"{name}.pem").write_bytes(pem)
    (folder / f"{name}.key").write_bytes(key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / f"{name}.pem", folder / f"{name}.key")
    server = await asyncio.start_server(handler, "127.0.0.1", 0, ssl=context)
    try:
        yield f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}", folder / f"{name}.pem"
    finally:
        server.close()
        await server.wait_closed()
        # Transports are closed in the next rounds of the event loop.
        await asyncio.sleep(0.05)


def test_held_mail_of_a_core_that_has_stalled_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_core, "STALL_SECONDS", 1.0)

    async def never_answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(1024):
            pass
        writer.close()

    async def run() -> object:
        async with core_server(tmp_path, "core", never_answer) as (address, certificate):
            core = RemoteCore(address, "secret", certificate)
            try:
                return await core.carry_out(ReleaseOrder(ggrid="0" * 32, tenant=None, by=CLI))
            finally:
                await core.close()

    outcome = asyncio.run(run())
    assert isinstance(outcome, Down)
    assert "stalled" in outcome.reason


def test_a_certificate_that_is_not_trusted_is_named(tmp_path: Path) -> None:
    def hang_up(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async def run() -> object:
        async with (
            core_server(tmp_path, "shown", hang_up) as (address, _),
            core_server(tmp_path, "trusted", hang_up) as (_, trusted),
        ):
            core = RemoteCore(address, "secret", trusted)
            try:
                return await core.ask_load()
            finally:
                await core.close()

    outcome = asyncio.run(run())
    assert isinstance(outcome, Down)
    assert "its certificate is not trusted: self-signed certificate" in outcome.reason


async def test_whoever_waits_for_a_call_gets_its_result_although_another_begins_the_next() -> None:
    numbers = iter(range(10))

    async def number() -> int:
        await asyncio.sleep(0)
        return next(numbers)

    call = PatientCall(number)

    async def ask_twice() -> tuple[int, int]:
        return await call.within(None), await call.within(None)

    first, second = await asyncio.gather(ask_twice(), ask_twice())
    assert first == second == (0, 1)


@pytest.mark.variant
def test_a_service_whose_storage_keeps_nothing_is_red_until_it_does(tmp_path: Path) -> None:
    node = Node(tmp_path)
    other = apsw.Connection(str(node.data / "gatepost.db"))
    other.set_busy_timeout(60_000)
    try:
        with node.client() as client:
            headers = {"Authorization": f"Bearer {TOKENS[0]}"}

            def colour() -> str:
                return str(client.post("/v1/admin/status", headers=headers).json()["messageQueueStatus"])

            assert (colour(), client.get("/readyz").status_code) == ("GREEN", 200)
            other.execute("BEGIN EXCLUSIVE")
            node.until("no message can be taken to its end")
            assert colour() == "RED"
            answer = client.get("/readyz")
            assert answer.status_code == 503
            assert "storage" in answer.json()["message"]
            assert "gatepost_queue_status 2.0" in client.get("/metrics").text
            scan = node.scan(TOKENS[0], client)
            assert (scan.status_code, scan.json()["error"]) == (503, "storage_unavailable")
            assert scan.headers["retry-after"]
            other.execute("ROLLBACK")
            node.until("messages can be taken to their end again")
            # A core that was slow to tell its load is doubted until it is heard again.
            deadline = time.monotonic() + 180
            while colour() != "GREEN":
                assert time.monotonic() < deadline
                time.sleep(0.1)
            assert client.get("/readyz").status_code == 200
        # While storage was away, so was what the node writes there about itself.
        deadline = time.monotonic() + 180
        while json.loads(run_on(node, "nodes", "--json"))["nodes"][0]["health"] != "GREEN":
            assert time.monotonic() < deadline
    finally:
        other.close()
        node.stop()


def test_results_that_wait_or_fail_are_told_although_storage_can_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        store, ledger = open_store("sqlite:g.db", tmp_path), HealthLedger()
        states = [WritingState(7)]
        monkeypatch.setattr(type(store.messages), "writing", property(lambda _: states[-1]))
        watch = ConditionWatch(ledger, store, tmp_path)
        said = []
        for state in (WritingState(8), WritingState(8, 0, 4.9), WritingState(8, 0, 5.1), WritingState(9, 2),
                      WritingState(9, 40)):  # fmt: skip
            states.append(state)
            await watch.look()
            said.append(ledger.health.fault)
        hangs = "storage does not answer within 5 seconds"
        assert said == ["", "", hangs, "", ""], "some are stored"
        for failed in range(41, 41 + 2 * WRITING_LOOKS):
            states.append(WritingState(9, failed))
            await watch.look()
        assert ledger.health.fault == "storage cannot be used"
        await store.close()

    asyncio.run(run())


@pytest.mark.process
def test_a_start_without_its_storage_ends_and_says_so(tmp_path: Path) -> None:
    nobody, own = free_ports(2)
    data = tmp_path / "data"
    source = f"scanSources: {{restApi: {{port: {own}, secret: '{'6e' * 32}'}}}}"
    write_files(data, f"{source}\nstorage: {{url: 'postgresql://gatepost@127.0.0.1:{nobody}/gatepost'}}\n")
    starting = RunningCommand(tmp_path / "output", "guard", "--data", data)
    assert starting.popen.wait(180) == 1
    said = starting.text
    assert "The service does not start, since its storage cannot be used; a service manager starts it again: " in said
    assert "connection refused" in said
    assert "tried again" not in said
