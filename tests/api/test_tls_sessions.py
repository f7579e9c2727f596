"""Connections that come again resume a session: our own clients do, and so do the processes of a node."""

import asyncio
import os
import shutil
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvloop
from tests.https_servers import Pair, write_certificate

from gatepost.abby import remote_core
from gatepost.abby.remote_core import RemoteCore
from gatepost.api import connections
from gatepost.api.connections import ResumingContext, client_context
from gatepost.api.server import tls_context
from gatepost.client import Client
from gatepost.scanning.request import Load
from gatepost.service.certificates import build_smtp_tls

pytestmark = pytest.mark.process
LOAD = b'{"in_processing":0,"threshold":1,"maximum":1}'


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    """A certificate for this machine, and its key."""
    return write_certificate(tmp_path, "127.0.0.1", "localhost")


class ClosingServer:
    """A server that ends each connection after its answer, and says which of them were resumed."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self.context = context
        self.resumed: list[bool] = []
        self.port = 0

    @asynccontextmanager
    async def listening(self) -> AsyncIterator["ClosingServer"]:
        server = await asyncio.start_server(self._answer, "127.0.0.1", 0, ssl=self.context)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()
            await server.wait_closed()
            await asyncio.sleep(0.05)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        self.resumed.append(bool(writer.get_extra_info("ssl_object").session_reused))
        head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n"
        writer.write(head + b"Content-Length: %d\r\n\r\n" % len(LOAD) + LOAD)
        await writer.drain()
        writer.close()


def run(pair: Pair, use: Callable[[ClosingServer], Awaitable[None]], uses_uvloop: bool = False) -> None:
    async def main() -> None:
        async with ClosingServer(tls_context(*pair)).listening() as server:
            await use(server)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop if uses_uvloop else None) as runner:
        runner.run(main())


@pytest.mark.parametrize("uses_uvloop", [True, False])
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_3, ssl.TLSVersion.TLSv1_2])
def test_a_second_connection_resumes(pair: Pair, version: ssl.TLSVersion, uses_uvloop: bool) -> None:
    context = client_context(pair[0])
    context.maximum_version = version

    async def use(server: ClosingServer) -> None:
        async with httpx.AsyncClient(verify=context, trust_env=False) as client:
            for _ in range(3):
                await client.get(f"https://127.0.0.1:{server.port}/")

        def ask() -> None:
            with httpx.Client(verify=context, trust_env=False) as plain:
                plain.get(f"https://127.0.0.1:{server.port}/")

        await asyncio.to_thread(ask)
        assert server.resumed == [False, True, True, True]

    run(pair, use, uses_uvloop)


def test_a_core_and_the_client_resume(pair: Pair) -> None:
    async def use(server: ClosingServer) -> None:
        core = RemoteCore(f"https://127.0.0.1:{server.port}", "secret", pair[0])
        try:
            for _ in range(3):
                assert isinstance(await core.ask_load(), Load)
            assert server.resumed == [False, True, True]
            core.trust(pair[0])
            assert isinstance(await core.ask_load(), Load)
            assert server.resumed[-1] is False, "what was verified by another file is verified anew"
        finally:
            await core.close()
        server.resumed.clear()

        def ask() -> None:
            with Client(f"https://127.0.0.1:{server.port}", "5f" * 32, ca=pair[0]) as client:
                for _ in range(2):
                    client._http.get("/healthz")

        await asyncio.to_thread(ask)
        assert server.resumed == [False, True]

    run(pair, use)


def test_a_session_is_of_one_name_and_of_one_context(pair: Pair) -> None:
    async def use(server: ClosingServer) -> None:
        async def ask(context: ssl.SSLContext, host: str) -> None:
            async with httpx.AsyncClient(verify=context, trust_env=False) as client:
                await client.get(f"https://{host}:{server.port}/")

        first, second = client_context(pair[0]), client_context(pair[0])
        for context, host in ((first, "127.0.0.1"), (first, "localhost"), (second, "127.0.0.1"), (first, "127.0.0.1")):
            await ask(context, host)
        assert server.resumed == [False, False, False, True]

    run(pair, use)


def test_a_server_that_was_started_again_is_verified(pair: Pair, tmp_path: Path) -> None:
    """It does not know the session, and its certificate is looked at."""
    context = client_context(pair[0])

    async def ask(server: ClosingServer) -> None:
        async with httpx.AsyncClient(verify=context, trust_env=False) as client:
            await client.get(f"https://127.0.0.1:{server.port}/")

    run(pair, ask)
    (tmp_path / "other").mkdir()
    stranger = write_certificate(tmp_path / "other")

    async def refuse(server: ClosingServer) -> None:
        with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
            await ask(server)

    run(stranger, refuse)


def test_what_is_kept_is_bounded(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MAX_NAMES", 2)

    class Session:
        has_ticket = True

    context: Any = client_context(pair[0])
    for name in ("a", "b", "a", "c"):
        assert context.keep(name, Session())
    assert list(context._sessions) == ["a", "c"]
    assert not context.keep("d", None)
    assert not context.keep(None, Session())


def test_children_of_a_process_have_one_context_while_the_files_are_the_same(pair: Pair) -> None:
    context = tls_context(*pair)
    assert tls_context(*pair) is context
    os.utime(pair[0], (1, 1))
    assert tls_context(*pair) is not context


def test_it_verifies_as_the_default_does(pair: Pair) -> None:
    ours, default = client_context(pair[0]), ssl.create_default_context(cafile=str(pair[0]))
    assert isinstance(ours, ResumingContext)
    for name in ("verify_mode", "check_hostname", "verify_flags", "minimum_version", "options"):
        assert getattr(ours, name) == getattr(default, name), name
    assert remote_core._tls_context(default) is default


async def _talk(port: int, *options: str) -> bytes:
    """Say "R" to openssl, which then asks for renegotiation; return all that it prints."""
    command = ("openssl", "s_client", "-connect", f"127.0.0.1:{port}", *options)
    pipe = asyncio.subprocess.PIPE
    talking = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, stderr=asyncio.subprocess.STDOUT)
    assert talking.stdin
    assert talking.stdout
    said = b""
    if "-tls1_2" in options:
        said = await talking.stdout.readuntil(b"Verify return code")
        talking.stdin.write(b"R\n")
    else:
        talking.stdin.close()
    async with asyncio.timeout(180):
        said += await talking.stdout.read()
        await talking.wait()
    return said


@pytest.mark.skipif(shutil.which("openssl") is None, reason="not run: openssl is not installed")
@pytest.mark.parametrize("make", [tls_context, build_smtp_tls])
async def test_every_port_refuses_renegotiation_and_old_versions(
    make: Callable[[Path, Path], ssl.SSLContext], pair: Pair
) -> None:
    context = make(*pair)
    assert context.options & ssl.OP_NO_RENEGOTIATION, "also where the library would allow it"
    async with ClosingServer(context).listening() as server:
        said = await _talk(server.port, "-tls1_2")
        assert b"RENEGOTIATING" in said
        assert b"no renegotiation" in said.replace(b"_", b" ").lower()
        for version in ("-tls1", "-tls1_1"):
            said = await _talk(server.port, version, "-cipher", "ALL:@SECLEVEL=0")
            assert b"Cipher is (NONE)" in said
