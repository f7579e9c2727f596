"""Answers: strict transport security where the operator has a certificate, and work whose client leaves."""

import asyncio

import httpx
import pytest
from starlette.requests import ClientDisconnect
from starlette.types import Message

from gatepost.abby.app import AbbyApp
from gatepost.api.http import end_with_client


@pytest.mark.parametrize("strict", [True, False])
async def test_browsers_are_told_to_use_https(strict: bool) -> None:
    app = AbbyApp(None, strict_transport=strict, direct_routes={}, routes=[])
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="https://gw.example") as client:
        answer = await client.get("/nothing")
    assert answer.status_code == 404
    assert answer.headers.get("strict-transport-security") == ("max-age=31536000" if strict else None)


async def test_work_ends_with_its_client() -> None:
    ended: list[str] = []

    async def work(seconds: float) -> str:
        try:
            await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise
        return "done"

    async def stay() -> Message:
        await asyncio.sleep(100)
        return {"type": "http.disconnect"}

    async def leave() -> Message:
        return {"type": "http.disconnect"}

    assert await end_with_client(stay, work(0.0)) == "done"
    with pytest.raises(ClientDisconnect):
        await end_with_client(leave, work(100.0))
    assert ended == ["cancelled"]
