"""Kept connections to a core: what is reused, what is resumed, and what a core that misbehaves can do."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from gatepost.abby import remote_core
from gatepost.abby.remote_core import ConnectError, CoreConnections, ExchangeError, HttpAnswer
from gatepost.api.connections import client_context

CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n64\r\n%b\r\n5\r\nyyyyy\r\n0\r\n\r\n" % (b"x" * 100)
OK = b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 2\r\n\r\nok"

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@contextlib.asynccontextmanager
async def serving(serve: Serve, context: ssl.SSLContext | None = None) -> AsyncIterator[CoreConnections]:
    handling: set[asyncio.Task[None]] = set()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task
        handling.add(task)
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            await serve(reader, writer)
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()

    server = await asyncio.start_server(handle, "127.0.0.1", 0, ssl=context)
    port = server.sockets[0].getsockname()[1]
    scheme = "https" if context else "http"
    connections = CoreConnections(f"{scheme}://127.0.0.1:{port}", client_context(None), {"X-One": "1"})
    try:
        yield connections
    finally:
        await connections.close()
        async with asyncio.timeout(60):
            await asyncio.gather(*handling)
        server.close()


async def read_request(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    head = await reader.readuntil(b"\r\n\r\n")
    size = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0] or b"0")
    return head, await reader.readexactly(size)


async def answer_all(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while True:
        await read_request(reader)
        writer.write(OK)


async def post(connections: CoreConnections, body: bytes = b"body", most: int = 100) -> HttpAnswer:
    pieces: Iterator[bytes] = (body[at : at + 65_536] for at in range(0, len(body), 65_536))
    return await connections.post("/path", "a/b", len(body), pieces, most)


async def test_requests_go_over_one_connection_after_another() -> None:
    seen: list[tuple[bytes, bytes]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            seen.append(await read_request(reader))
            writer.write(OK)

    async with serving(serve) as connections:
        for size in (4, 300_000, 5):
            assert await post(connections, b"x" * size) == HttpAnswer(200, "text/plain", b"ok")
        assert await connections.get("/load", 100) == HttpAnswer(200, "text/plain", b"ok")
        assert connections.opened == 1
        await asyncio.gather(*(post(connections) for _ in range(5)))
        assert connections.opened == 5
    assert [len(body) for _, body in seen[:4]] == [4, 300_000, 5, 0]
    head = seen[0][0].split(b"\r\n")
    assert head[0] == b"POST /path HTTP/1.1"
    assert {b"X-One: 1", b"Content-Type: a/b", b"Content-Length: 4"} < set(head)


@pytest.mark.parametrize(
    ("said", "fault"),
    [
        (b"", ExchangeError),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nok", ExchangeError),
        (b"no http\r\n\r\n", ExchangeError),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n" + b"x" * 1000, ValueError),
        (CHUNKED, ValueError),
    ],
)
async def test_an_answer_that_is_none_ends_the_connection(said: bytes, fault: type[Exception]) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(said)

    async with serving(serve) as connections:
        for _ in range(2):
            with pytest.raises(fault):
                await post(connections)
        assert connections.opened == 2


@pytest.mark.parametrize(
    "said",
    [
        OK.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n"),
        OK.replace(b"1.1", b"1.0"),
        OK + b"HTTP/1.1 200 uninvited\r\n\r\n",
    ],
)
async def test_a_connection_that_a_core_gives_up_is_not_used_again(said: bytes) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await read_request(reader)
            writer.write(said)

    async with serving(serve) as connections:
        for _ in range(3):
            with contextlib.suppress(ExchangeError):  # the surplus may come with the answer, or behind it
                assert (await post(connections)).body == b"ok"
        assert connections.opened == 3


async def test_an_interim_answer_is_passed_over() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(b"HTTP/1.1 103 Early Hints\r\n\r\n" + OK)
        await reader.read()

    async with serving(serve) as connections:
        assert (await post(connections)).status == 200


async def test_an_answer_before_the_end_of_a_large_message_counts() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(OK.replace(b"200 OK", b"503 Full"))
        while await reader.read(65_536):
            pass

    async with serving(serve) as connections:
        assert (await post(connections, b"x" * (30 << 20))).status == 503
        assert (await post(connections, b"x" * (30 << 20))).status == 503
        assert connections.opened == 2


async def test_a_core_that_takes_no_bytes_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_core, "WRITE_SECONDS", 0.2)
    ended = asyncio.Event()

    async def serve(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        await ended.wait()

    async with serving(serve) as connections:
        with pytest.raises(ExchangeError):
            await post(connections, b"x" * (64 << 20))
        ended.set()


async def test_a_caller_that_leaves_ends_its_connection_alone() -> None:
    heard = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            _, body = await read_request(reader)
            heard.set()
            if body != b"wait":
                writer.write(OK)

    async with serving(serve) as connections:
        waiting = asyncio.create_task(post(connections, b"wait"))
        await heard.wait()
        assert (await post(connections)).status == 200
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert (await post(connections)).status == 200
        assert connections.opened == 2


async def test_connections_that_nobody_uses_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(answer_all) as connections:
        await post(connections)
        await post(connections)
        assert connections.opened == 1
        monkeypatch.setattr(remote_core, "KEEP_SECONDS", -1.0)
        await post(connections)
        assert connections.opened == 2


async def test_nobody_listens() -> None:
    connections = CoreConnections("http://127.0.0.1:1", client_context(None), {})
    with pytest.raises(ConnectError) as caught:
        await post(connections)
    assert isinstance(caught.value.__cause__, ConnectionRefusedError)


async def test_a_new_connection_resumes_the_session_of_one_before(certificate: tuple[Path, Path]) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    async with serving(answer_all, context) as connections:
        connections._context = client_context(certificate[0])
        for _ in range(3):
            assert (await post(connections)).status == 200
            await connections.close()
        assert (connections.opened, context.session_stats()["hits"]) == (3, 2)


async def test_a_certificate_of_a_stranger_is_refused_also_with_a_session(certificate: tuple[Path, Path]) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    async with serving(answer_all, context) as connections:
        with pytest.raises(ConnectError) as caught:
            await post(connections)
        assert isinstance(caught.value.__cause__, ssl.SSLCertVerificationError)
        assert connections.opened == 0
