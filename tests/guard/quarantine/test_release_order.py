"""`POST /release` of a core: only abby gets in, and only an order is an order."""

import asyncio
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from tests.idle_guard import IdleGuard

from gatepost.abby.cores import Down
from gatepost.abby.remote_core import RemoteCore
from gatepost.guard.http_source import MAX_ORDER, build_rest_app
from gatepost.scanning.held_mail import HeldMailOrder, Released, ReleaseOrder, ReleaseOutcome
from gatepost.scanning.spool import Spool
from gatepost.store.audit import Actor

GGRID = "0198c5a2-7c11-7d3e-9f00-00000000bb01"
ORDER = msgspec.json.encode({"ggrid": GGRID, "by": {"kind": "token", "name": "desk"}})


class Quarantine:
    def __init__(self) -> None:
        self.orders: list[tuple[str, Actor]] = []

    async def carry_out(self, order: HeldMailOrder[Any]) -> Any:
        assert isinstance(order, ReleaseOrder)
        self.orders.append((order.ggrid, order.by))
        return Released(order.ggrid, 1, order.by.label, ("b@y.example",))


def post(folder: Path, quarantine: Quarantine | None, content: bytes, secret: str = "secret") -> httpx.Response:
    async def asked() -> httpx.Response:
        app = build_rest_app(IdleGuard(), "secret", Spool(folder), bytes, quarantine)
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://core") as client:
            return await client.post("/release", content=content, headers={"Authorization": f"Bearer {secret}"})

    return asyncio.run(asked())


def test_an_order_is_carried_out(tmp_path: Path) -> None:
    quarantine = Quarantine()
    answer = post(tmp_path, quarantine, ORDER)
    assert answer.status_code == 200
    assert msgspec.json.decode(answer.content, type=ReleaseOutcome) == Released(
        GGRID, 1, "token:desk", ("b@y.example",)
    )
    assert quarantine.orders == [(GGRID, Actor("token", "desk"))]


@pytest.mark.parametrize(
    ("content", "secret", "expected"),
    [
        (ORDER, "wrong", (401, "unauthorized")),
        (ORDER, "", (401, "unauthorized")),
        (b"", "secret", (400, "malformed_request")),
        (b"{}", "secret", (400, "malformed_request")),
        (b'{"ggrid": 1, "by": {"kind": "token"}}', "secret", (400, "malformed_request")),
        (b'{"ggrid": "x", "by": {"kind": "root"}}', "secret", (400, "malformed_request")),
        (b"[" * 10_000, "secret", (400, "malformed_request")),
        (b" " * (MAX_ORDER + 1), "secret", (413, "payload_too_large")),
    ],
)
def test_what_is_no_order(tmp_path: Path, content: bytes, secret: str, expected: tuple[int, str]) -> None:
    quarantine = Quarantine()
    answer = post(tmp_path, quarantine, content, secret)
    assert (answer.status_code, answer.json()["error"]) == expected
    assert quarantine.orders == []


def test_a_core_without_a_quarantine_holds_nothing(tmp_path: Path) -> None:
    assert post(tmp_path, None, ORDER).json() == {"type": "notHeld"}


async def test_a_core_that_does_not_answer_is_down() -> None:
    core = RemoteCore("https://127.0.0.1:1", "secret", None)
    assert isinstance(await core.carry_out(ReleaseOrder(GGRID, by=Actor("token", "desk"))), Down)
    await core.close()
