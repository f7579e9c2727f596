"""Guessing on guard's HTTPS port is slowed down and logged as on abby's."""

import asyncio
from pathlib import Path

import httpx
import pytest
from tests.idle_guard import IdleGuard
from tests.own_names import replace_in

from gatepost.abby.authenticator import FREE_GUESSES, Guesses
from gatepost.guard.http_source import build_rest_app
from gatepost.process import logs
from gatepost.scanning.spool import Spool
from gatepost.service import core as service_core
from gatepost.service.core import SecretGuesses

SECRET = "the right secret"


def test_guesses_wait_and_are_logged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []

    async def no_sleep(seconds: float) -> None:
        waits.append(seconds)

    async def run() -> None:
        replace_in(monkeypatch, service_core, "asyncio", sleep=no_sleep)
        app = build_rest_app(IdleGuard(), SECRET, Spool(tmp_path), bytes, None, SecretGuesses(Guesses(lambda: 1_000.0)))

        async def ask(secret: str, client: str) -> int:
            transport = httpx.ASGITransport(app, client=(client, 1))
            async with httpx.AsyncClient(transport=transport, base_url="http://core") as asking:
                return (await asking.get("/load", headers={"authorization": f"Bearer {secret}"})).status_code

        assert await ask(SECRET, "192.0.2.1") == 200
        for number in range(FREE_GUESSES):
            assert await ask(f"guess {number}", "192.0.2.7") == 401
        assert waits == []
        for number in range(6):
            assert await ask(f"more {number}", "192.0.2.7") == 401
        assert len(waits) == 6
        assert waits == sorted(waits), "each waits longer than the last"
        assert min(waits) > 0
        # A right one from there waits like a wrong one, or a guesser would hang up sooner.
        assert await ask(SECRET, "192.0.2.7") == 200
        assert len(waits) == 7
        assert await ask(SECRET, "192.0.2.1") == 200
        assert len(waits) == 7, "abby elsewhere does not wait"

    with logs.capture() as logged:
        asyncio.run(run())
    refused = [line for line in logged if line["event"] == "secret of a core refused"]
    assert len(refused) == FREE_GUESSES + 6
    assert {line["client"] for line in refused} == {"192.0.2.7"}
    assert "guess" not in str(refused)
