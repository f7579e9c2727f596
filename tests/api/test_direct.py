"""Requests without an ASGI exchange: who takes them, who gives them back, and that HTTP stays what it was."""

import asyncio
import gc
import json
import socket
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextvars import Context
from typing import Any, TypeVarTuple, cast

import pytest
import uvicorn
from tests.api.test_server import echo, read_answer

from gatepost.api.http import JsonResponse
from gatepost.api.server import MAX_DIRECT, DirectCall, DirectExchange, JsonHttp, RawHeaders, server_config

PATH = b"/direct"


class Application:
    """Takes bodies without ASGI, but for those that say `back`, and answers after a while to those that say `slow`."""

    def __init__(self) -> None:
        self.release = threading.Event()
        self.called, self.begun = threading.Event(), threading.Event()
        self.gone = threading.Event()
        self.ended = threading.Event()
        self.exchanges: list[weakref.ref[DirectExchange]] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            self.called.set()
        await echo(scope, receive, send)

    def find_direct(self, method: bytes, path: bytes, headers: RawHeaders, _client: str) -> DirectCall | None:
        if (method, path) != (b"POST", PATH) or (b"x-back", b"1") in headers:
            return None

        def take(body: bytes, exchange: DirectExchange) -> bool:
            if body.startswith(b"back"):
                return False
            self.exchanges.append(weakref.ref(exchange))
            exchange.start(self._answer(body, exchange))
            exchange.call_at_end(self.ended.set)
            return True

        return take

    async def _answer(self, body: bytes, exchange: DirectExchange) -> None:
        self.begun.set()
        if body == b"slow":
            await asyncio.to_thread(self.release.wait, 60)
        elif body == b"break":
            raise ValueError("broken")
        elif body == b"leave":
            assert (await exchange.receive())["type"] == "http.disconnect"
            self.gone.set()
        exchange.headers = ((b"x-direct", b"1"),)
        exchange.answer(JsonResponse(json.dumps(["direct", body.decode()]).encode()))


Ts = TypeVarTuple("Ts")


class NotingLoop(asyncio.SelectorEventLoop):
    """An event loop that notes which timers are started."""

    def __init__(self, timers: list[str]) -> None:
        super().__init__()
        self._timers = timers

    def call_later(
        self, delay: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        self._timers.append(getattr(callback, "__name__", ""))
        return super().call_later(delay, callback, *args, context=context)


class Served:
    def __init__(self) -> None:
        self.timers: list[str] = []
        self.application = Application()
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self.server = uvicorn.Server(server_config(self.application))
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        with asyncio.Runner(loop_factory=lambda: NotingLoop(self.timers)) as runner:
            runner.run(self.server.serve([self._listening]))

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), 30)

    def stop(self) -> None:
        self.server.should_exit = True
        self._thread.join()
        self._listening.close()


@pytest.fixture
def served() -> Iterator[Served]:
    made = Served()
    yield made
    made.application.release.set()
    made.stop()


def upload(body: str, *headers: str, path: bytes = PATH) -> bytes:
    head = "\r\n".join(("Host: x", f"Content-Length: {len(body)}", *headers, "", ""))
    return b"POST %b HTTP/1.1\r\n" % path + head.encode() + body.encode()


@pytest.mark.parametrize(
    ("request_bytes", "is_direct"),
    [
        (upload("hello"), True),
        (upload("x" * MAX_DIRECT), True),
        (upload("x" * (MAX_DIRECT + 1)), False),
        (upload("back to the application"), False),
        (upload("hello", "X-Back: 1"), False),
        (upload("hello", path=b"/other"), False),
        (upload("hello", path=b"/direct?x=1"), False),
        (upload("hello", "Connection: close"), False),
        (upload("hello", "Expect: 100-later"), False),
        (upload("hello").replace(b"POST", b"PUT"), False),
        (upload("hello").replace(b"HTTP/1.1", b"HTTP/1.0"), False),
        (b"POST /direct HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", False),
        (upload(""), False),
    ],
)
def test_ordinary_requests_alone(served: Served, request_bytes: bytes, is_direct: bool) -> None:
    with served.connect() as client:
        client.sendall(request_bytes)
        status, answer = read_answer(client.makefile("rb"))
    assert status == 200
    assert (answer[0] == "direct") == is_direct
    sent = request_bytes.partition(b"\r\n\r\n")[2]
    assert answer[1 if is_direct else 2] == ("hello" if sent.startswith(b"5\r\n") else sent.decode())


def test_many_on_one_connection_and_in_pieces(served: Served) -> None:
    with served.connect() as client:
        stream = client.makefile("rb")
        for number in range(50):
            body = ("back" if number % 3 == 0 else "go") + "x" * (number * 700)
            request = upload(body)
            for start in range(0, len(request), 9_000):
                client.sendall(request[start : start + 9_000])
            status, answer = read_answer(stream)
            assert (status, body in answer) == (200, True)
            assert (answer[0] == "direct") == (number % 3 != 0)


def test_idle_connections_have_one_timer_for_all_requests(served: Served) -> None:
    with served.connect() as client:
        stream = client.makefile("rb")
        for body in ("go", "back") * 10:
            client.sendall(upload(body))
            assert read_answer(stream)[0] == 200
    assert served.timers.count("_close_if_idle") == 1
    assert "timeout_keep_alive_handler" not in served.timers


def test_a_connection_is_closed_when_it_is_idle_and_not_while_a_request_is_under_way(served: Served) -> None:
    with served.connect() as client:
        stream = client.makefile("rb")
        client.sendall(upload("go"))
        assert read_answer(stream)[0] == 200
        served.application.begun.clear()
        client.sendall(upload("slow"))
        assert served.application.begun.wait(60)
        (connection,) = cast("set[JsonHttp]", served.server.server_state.connections)
        connection.timeout_keep_alive = 0
        connection.loop.call_soon_threadsafe(connection._close_if_idle)
        served.application.release.set()
        assert read_answer(stream)[0] == 200
        assert stream.read() == b"", "the end of the connection"


def test_exchanges_and_connections_are_freed_with_their_ends(served: Served) -> None:
    """Without the collector of cycles, which comes seldom: what an exchange refers to would fill memory until then."""
    gc.disable()
    try:
        with served.connect() as client, client.makefile("rb") as stream:
            for _ in range(5):
                client.sendall(upload("hello"))
                assert read_answer(stream)[0] == 200
            (connection,) = map(weakref.ref, served.server.server_state.connections)
        # The connection still knows the last of them.
        assert [each() for each in served.application.exchanges[:-1]] == [None] * 4
        until = time.monotonic() + 30
        while time.monotonic() < until and (connection() or served.application.exchanges[-1]()):
            time.sleep(0.01)
        assert connection() is None, "a connection is freed with its end, and all that TLS keeps for it"
        assert served.application.exchanges[-1]() is None
    finally:
        gc.enable()


def test_a_slow_body_goes_to_the_application(served: Served) -> None:
    with served.connect() as client:
        request = upload("hello")
        client.sendall(request[:-2])
        assert served.application.called.wait(60)
        client.sendall(request[-2:])
        assert read_answer(client.makefile("rb"))[1][:3] == ["POST", "/direct", "hello"]
        client.sendall(upload("again"))
        assert read_answer(client.makefile("rb"))[1] == ["direct", "again"]


def test_pipelined_requests_are_answered_in_their_order(served: Served) -> None:
    with served.connect() as client:
        client.sendall(upload("slow") + upload("second") + upload("third", path=b"/other"))
        served.application.release.set()
        stream = client.makefile("rb")
        answers = [read_answer(stream)[1] for _ in range(3)]
    assert answers[0] == ["direct", "slow"]
    assert [answer[2] for answer in answers[1:]] == ["second", "third"]


def test_headers_of_an_answer(served: Served) -> None:
    with served.connect() as client:
        client.sendall(upload("hello"))
        head = client.recv(65_536).partition(b"\r\n\r\n")[0].split(b"\r\n")
    assert head[0] == b"HTTP/1.1 200 OK"
    names = [line.partition(b":")[0] for line in head[1:]]
    expected = [b"date", b"content-type", b"cache-control", b"x-content-type-options", b"content-length", b"x-direct"]
    assert names == expected


def test_a_client_that_leaves_is_noticed(served: Served) -> None:
    with served.connect() as client:
        client.sendall(upload("leave"))
        assert served.application.begun.wait(60)
        assert not served.application.gone.is_set()
    assert served.application.gone.wait(30)


def test_work_that_breaks_ends_the_connection_and_is_counted_out(served: Served) -> None:
    with served.connect() as client:
        client.sendall(upload("break"))
        assert client.recv(1) == b""
    assert served.application.ended.wait(30)


def test_a_stop_waits_for_the_answer() -> None:
    served = Served()
    with served.connect() as client:
        client.sendall(upload("slow"))
        assert served.application.begun.wait(60)
        stopping = threading.Thread(target=served.stop)
        stopping.start()
        threading.Event().wait(0.3)
        served.application.release.set()
        assert read_answer(client.makefile("rb"))[1] == ["direct", "slow"]
        assert client.recv(1) == b""
        stopping.join()
