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
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from tests.service.test_changes import TOKENS, Node, run_on

from gatepost.abby import remote_core
from gatepost.abby.cores import Down, queue_colour
from gatepost.abby.remote_core import RemoteCore
from gatepost.api.http import Endpoint, HttpErrors
from gatepost.guard.metrics import queue_status
from gatepost.scanning.held_mail import ReleaseOrder
from gatepost.scanning.request import Condition, Load
from gatepost.service import health
from gatepost.service.certificates import sign_certificate
from gatepost.service.health import WRITING_LOOKS, ConditionWatch, state_of
from gatepost.store import open_store
from gatepost.store.audit import CLI
from gatepost.store.change_groups import WritingState
from gatepost.store.errors import StorageError

Handler: TypeAlias = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Any]

FREE, FULL, THROTTLING = Load(0, 3, 4), Load(4, 3, 4), Load(3, 3, 4)
BROKEN, SLOWED = Load(0, 3, 4, fault="storage cannot be used"), Load(0, 3, 4, slowed="the next hop is away")


@pytest.mark.parametrize(
    ("loads", "colour"),
    [
        ([FREE, FREE], "GREEN"),
        ([FREE, None], "YELLOW"),
        ([FREE, THROTTLING], "YELLOW"),
        ([FREE, FULL], "YELLOW"),
        ([FREE, BROKEN], "YELLOW"),
        ([FREE, SLOWED], "YELLOW"),
        ([SLOWED, SLOWED], "YELLOW"),
        ([FULL, BROKEN], "RED"),
        ([BROKEN, BROKEN], "RED"),
        ([None, BROKEN], "RED"),
        ([None, None], "RED"),
    ],
)
def test_the_colour_of_the_queue(loads: list[Load | None], colour: str) -> None:
    assert queue_colour(loads) == colour


def test_metrics_and_nodes_say_the_same() -> None:
    assert [queue_status(load) for load in (FREE, THROTTLING, SLOWED, FULL, BROKEN)] == [0, 1, 1, 2, 2]
    assert [state_of(load) for load in (FREE, SLOWED, BROKEN)] == ["ok", "degraded", "failed"]


def test_the_condition_follows_storage_disk_and_next_hop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    logged: list[str] = []
    monkeypatch.setattr(health.log, "error", lambda _event, **fields: logged.append(fields["reason"]))

    async def run() -> None:
        store = open_store("sqlite:g.db", tmp_path)
        condition, hop = Condition(), ["refused"]
        watch = ConditionWatch(condition, store, tmp_path, lambda: hop[0])
        assert condition.describe(FREE).slowed == "refused", "next hops are asked when the load is read"
        await watch.look()
        assert (condition.fault, condition.next_hop()) == ("", "refused")
        hop[0] = ""
        assert condition.describe(FREE) == FREE
        monkeypatch.setattr(health, "LEAST_FREE", 1 << 60)
        await watch.look()
        assert condition.fault.startswith("the disk of the data folder is full")
        condition.fault = "the disk of the data folder is full: 0 MiB are left"
        await watch.look()
        monkeypatch.setattr(health, "LEAST_FREE", 1)
        nowhere = ConditionWatch(condition, store, tmp_path / "gone", str)
        await nowhere.look()
        assert condition.fault == "the data folder takes no files: no such file or directory"
        await store.close()
        await watch.look()
        assert (condition.fault, condition.next_hop()) == ("storage cannot be used", "")

    asyncio.run(run())
    assert [reason.partition(":")[0] for reason in logged] == [
        "the disk of the data folder is full", "the data folder takes no files", "storage cannot be used",
    ], "each reason once, also where the figure in it changes"  # fmt: skip


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
        while json.loads(run_on(node, "nodes", "--json"))["nodes"][0]["health"] != "ok":
            assert time.monotonic() < deadline
    finally:
        other.close()
        node.stop()


def test_results_that_wait_or_fail_are_told_although_storage_can_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        store, condition = open_store("sqlite:g.db", tmp_path), Condition()
        states = [WritingState(7)]
        monkeypatch.setattr(type(store.messages), "writing", property(lambda _: states[-1]))
        watch = ConditionWatch(condition, store, tmp_path, str)
        said = []
        for state in (WritingState(8), WritingState(8, 0, 4.9), WritingState(8, 0, 5.1), WritingState(9, 2),
                      WritingState(9, 40)):  # fmt: skip
            states.append(state)
            await watch.look()
            said.append(condition.fault)
        hangs = "storage does not answer within 5 seconds"
        assert said == ["", "", hangs, "", ""], "some are stored"
        for failed in range(41, 41 + 2 * WRITING_LOOKS):
            states.append(WritingState(9, failed))
            await watch.look()
        assert condition.fault == "storage cannot be used"
        await store.close()

    asyncio.run(run())
