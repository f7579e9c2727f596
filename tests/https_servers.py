"""HTTPS for tests: a certificate and its key in a folder, and a server in the event loop of a test."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import uvicorn

from gatepost.api.server import server_config
from gatepost.service.certificates import sign_certificate

Pair = tuple[Path, Path]


def write_certificate(folder: Path, *hosts: str) -> Pair:
    """Write a new certificate for these hosts, or for the loopback address, and its key."""
    pair = folder / "cert.pem", folder / "key.pem"
    for file, content in zip(pair, sign_certificate(hosts or ["127.0.0.1"], datetime.now(UTC)), strict=True):
        file.write_bytes(content)
    return pair


@asynccontextmanager
async def serving(app: Any, pair: Pair) -> AsyncIterator[str]:
    """Serve an application with this certificate and key; yields its address."""
    server = uvicorn.Server(server_config(app, certificate=pair[0], key=pair[1]))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        task = asyncio.create_task(server.serve([listening]))
        while not server.started:  # noqa: ASYNC110  uvicorn has no event for it
            await asyncio.sleep(0.01)
        try:
            yield f"https://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            await task
