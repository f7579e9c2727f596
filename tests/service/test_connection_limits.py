"""Connections: what counts, what is refused, and what stays free; with a real server and silent clients."""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator, Coroutine
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvloop
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from gatepost.api.connections import ArrivalPace, ConnectionLimits
from gatepost.api.http import UnreadBodies
from gatepost.api.server import server_config
from gatepost.service import listeners
from gatepost.service.certificates import sign_certificate
from gatepost.service.listeners import Server


def test_an_address_has_its_share_and_listed_hosts_a_reserve() -> None:
    limits = ConnectionLimits(10, 3, reserved=4, listed=["198.51.100.0/24", "2001:db8:1::/48"])
    assert [limits.admit("192.0.2.1") for _ in range(4)] == [True, True, True, False]
    assert [limits.admit("::ffff:192.0.2.1"), limits.admit("192.0.2.2")] == [False, True]
    assert [limits.admit(f"2001:db8::{number}") for number in range(1, 5)] == [True, True, False, False]
    assert (limits.open, limits.refused) == (6, 4), "the rest is for listed hosts"
    assert [limits.admit("198.51.100.9") for _ in range(3)] == [True, True, True]
    assert [limits.admit("2001:db8:1::9"), limits.admit("198.51.100.9"), limits.admit("x", listed=True)] == [
        True,
        False,
        False,
    ]
    limits.leave("192.0.2.1")
    assert not limits.admit("192.0.2.1"), "what listed hosts use is not given to others"
    for peer in ("198.51.100.9", "198.51.100.9", "198.51.100.9", "2001:db8:1::9"):
        limits.leave(peer)
    assert limits.admit("192.0.2.1")


def test_one_ipv6_network_is_one_address() -> None:
    limits = ConnectionLimits(10, 2)
    assert [limits.admit(f"2001:db8::{number}:1") for number in range(3)] == [True, True, False]
    assert limits.admit("2001:db8:0:1::1")
    assert [limits.admit("fe80::1%eth0"), limits.admit("not an address"), limits.admit("")] == [True, True, True]


def test_this_machine_may_be_trusted_and_nothing_is_kept() -> None:
    limits = ConnectionLimits(5, 1, trusts_loopback=True)
    assert [limits.admit("127.0.0.1") for _ in range(6)] == [True] * 5 + [False]
    for _ in range(5):
        limits.leave("127.0.0.1")
    assert limits.open == 0
    assert not limits._of_group


async def _answer(request: Request) -> Response:
    body = await request.body()
    return PlainTextResponse(f"{request.url.scheme} {len(body)}")


@contextlib.asynccontextmanager
async def serving(limits: ConnectionLimits, pair: tuple[Path, Path] | None) -> AsyncIterator[int]:
    refuse = Route("/refuse", lambda _request: PlainTextResponse("no", 401), methods=["POST"])
    app: Any = UnreadBodies(Starlette(routes=[Route("/", _answer, methods=["GET", "POST"]), refuse]))
    certificate, key = pair or (None, None)
    bound = socket.create_server(("127.0.0.1", 0))
    serving = Server(server_config(app, certificate=certificate, key=key), [bound], limits)
    task = asyncio.create_task(serving.run_here())
    await serving.ready.wait()
    try:
        yield bound.getsockname()[1]
    finally:
        serving.should_exit = True
        await task


def write_certificate(folder: Path) -> tuple[Path, Path]:
    pair = folder / "c.pem", folder / "k.pem"
    for path, content in zip(pair, sign_certificate(["127.0.0.1"], datetime.now(UTC)), strict=True):
        path.write_bytes(content)
    return pair


def run_as_the_services_do(main: Coroutine[Any, Any, None]) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main)


async def until(limits: ConnectionLimits, count: int) -> None:
    for _ in range(3_000):
        if limits.open == count:
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"{limits.open} connections are open, not {count}")


@pytest.mark.process
@pytest.mark.parametrize("encrypted", [False, True])
def test_silent_clients_hold_no_more_than_their_share(tmp_path: Path, encrypted: bool) -> None:
    pair = write_certificate(tmp_path)
    context = ssl.create_default_context(cafile=str(pair[0])) if encrypted else True
    limits = ConnectionLimits(100, 3)

    async def run() -> None:
        async with serving(limits, pair if encrypted else None) as port:
            silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(3)]
            await until(limits, 3)
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            with contextlib.suppress(ConnectionError):
                assert await reader.read() == b"", "closed without a word"
            writer.close()
            assert (limits.open, limits.refused) == (3, 1)
            for _, each in silent:
                each.close()
            await until(limits, 0)
            scheme = "https" if encrypted else "http"
            async with httpx.AsyncClient(verify=context, base_url=f"{scheme}://127.0.0.1:{port}") as client:
                assert (await client.get("/")).text == f"{scheme} 0"
                # A client of another thread, whose first bytes are there before the connection is accepted.
                other = await asyncio.to_thread(httpx.get, f"{scheme}://127.0.0.1:{port}/", verify=context)
                assert other.text == f"{scheme} 0"
                assert (await client.post("/", content=b"x" * 3_000_000)).text == f"{scheme} 3000000"
                await until(limits, 1)
            await until(limits, 0)

    run_as_the_services_do(run())


@pytest.mark.process
def test_a_handshake_that_does_not_end_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gatepost.service.listeners.HANDSHAKE_SECONDS", 0.2)
    pair = write_certificate(tmp_path)
    limits = ConnectionLimits(100, 100)

    async def run() -> None:
        async with serving(limits, pair) as port:
            silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(5)]
            silent[0][1].write(b"GET / HTTP/1.1\r\n\r\n")
            silent[1][1].write(b"\x16\x03\x01")
            for reader, writer in silent:
                with contextlib.suppress(ConnectionError):
                    await reader.read()
                writer.close()
            await until(limits, 0)
            assert limits.refused == 0

    run_as_the_services_do(run())


@pytest.mark.process
@pytest.mark.parametrize("encrypted", [False, True])
def test_a_full_port_ends_the_oldest_connection_without_a_request(
    tmp_path: Path, encrypted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listeners, "GRACE_SECONDS", 0.05)
    pair = write_certificate(tmp_path)
    context = ssl.create_default_context(cafile=str(pair[0])) if encrypted else None
    limits = ConnectionLimits(4, 100)

    async def ask(client: tuple[asyncio.StreamReader, asyncio.StreamWriter]) -> bytes:
        client[1].write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        async with asyncio.timeout(60):
            return await client[0].readuntil(b" 0")

    async def run() -> None:
        async with serving(limits, pair if encrypted else None) as port:
            # One that sends a body, one that was answered, one that says nothing (before TLS), one with half a head.
            sending = await asyncio.open_connection("127.0.0.1", port, ssl=context)
            sending[1].write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nab")
            answered = await asyncio.open_connection("127.0.0.1", port, ssl=context)
            await ask(answered)
            silent = await asyncio.open_connection("127.0.0.1", port)
            half = await asyncio.open_connection("127.0.0.1", port, ssl=context)
            half[1].write(b"GET / HTTP/1.1\r\n")
            await until(limits, 4)
            await asyncio.sleep(0.1)
            others = []
            for ended in (silent, half, answered):
                client = await asyncio.open_connection("127.0.0.1", port, ssl=context)
                others.append(client)
                assert b"200" in await ask(client)
                with contextlib.suppress(ConnectionError):
                    async with asyncio.timeout(60):
                        assert b"200" not in await ended[0].read(), "it was closed"
            assert (limits.open, limits.refused) == (4, 0)
            sending[1].write(b"cde")
            async with asyncio.timeout(60):
                assert await sending[0].readuntil(b" 5"), "what is under way is not lost"
            for _, writer in (sending, answered, silent, half, *others):
                writer.close()
            await until(limits, 0)

    run_as_the_services_do(run())


@pytest.mark.process
@pytest.mark.parametrize("announced", [b"Content-Length: 100000", b"Transfer-Encoding: chunked"])
def test_clients_that_were_refused_do_not_close_the_port(
    announced: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They need no token: the answer is there before the body, of which a byte comes now and then."""
    monkeypatch.setattr(listeners, "GRACE_SECONDS", 0.0)
    limits = ConnectionLimits(1, 100)

    async def run() -> None:
        async with serving(limits, None) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"POST /refuse HTTP/1.1\r\nHost: x\r\n" + announced + b"\r\n\r\n1\r\nx\r\n")
            async with asyncio.timeout(60):
                assert b" 401 " in await reader.readuntil(b"no")
                writer.write(b"1\r\nx\r\n")
                client = await asyncio.open_connection("127.0.0.1", port)
                client[1].write(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
                assert b" 200 " in await client[0].read()
                with contextlib.suppress(ConnectionError):
                    await reader.read()
            for each in (writer, client[1]):
                each.close()
            await until(limits, 0)

    run_as_the_services_do(run())


def test_a_rate_is_judged_by_windows() -> None:
    clock = [0.0]
    pace = ArrivalPace(lambda: clock[0], idle=99.0, first=10.0, rate=1.0, floor=100)
    assert pace.deadline == 10.0
    for moment, size, deadline in (
        (1.0, 50_000, 20.0),  # the next window begins when this one is over
        (12.0, 1, 22.0),  # what came before does not count in it
        (15.0, 998, 22.0),
        (21.0, 1, 32.0),
    ):
        clock[0] = moment
        pace.count(size)
        assert pace.deadline == deadline
