"""Strict transport security: on every answer of a service with a certificate of the operator's, and on no other."""

import asyncio

import httpx
import pytest

from gatepost.abby.app import AbbyApp


@pytest.mark.parametrize("strict", [True, False])
def test_browsers_are_told_to_use_https(strict: bool) -> None:
    async def run() -> httpx.Response:
        app = AbbyApp(None, strict_transport=strict, direct_routes={}, routes=[])
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="https://gw.example") as client:
            return await client.get("/nothing")

    answer = asyncio.run(run())
    assert answer.status_code == 404
    assert answer.headers.get("strict-transport-security") == ("max-age=31536000" if strict else None)
