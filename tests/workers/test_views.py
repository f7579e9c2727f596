"""Messages read in sealed workers to be shown: the same view as outside, and a message that breaks its worker harms
nobody."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest
from tests.workers.pools import SETTINGS, changed, from_zone, running
from tests.workers.test_pool import CRASH, MEMORY, PLAIN, TIME

from gatepost.policy.rules import shipped_policy
from gatepost.scanning.spool import BytesBody
from gatepost.view import values
from gatepost.view.message import build_view, draw_picture
from gatepost.view.values import NotShown, Picture, View
from gatepost.workers import protocol, warmup
from gatepost.workers.jobs import Job
from gatepost.workers.pool import WorkerPool
from gatepost.workers.protocol import JUDGE, MAX_REPORT, PICTURE, VIEW, FrameError, Purpose

T = TypeVar("T")


def job(purpose: Purpose[T], raw: bytes = PLAIN, index: int = 0) -> Job[T]:
    return Job(purpose, "1", warmup.ENVELOPE, BytesBody(raw), warmup.NOW, index=index)


def faulty(what: str, purpose: Purpose[T]) -> Job[T]:
    return job(purpose, f"X-Gatepost-Fault: {what}\r\n".encode() + PLAIN)


async def test_a_sealed_worker_shows_every_specimen_as_an_open_process_does() -> None:
    raws = warmup.specimens()
    async with running() as pool:
        views = [await pool.show(job(VIEW, raw)) for raw in raws]
        pictures = [
            await pool.show(job(PICTURE, raw, line.index))
            for raw, seen in zip(raws, views, strict=True)
            if isinstance(seen, View)
            for line in seen.pictures
        ]
    expected = [build_view(raw) for raw in raws]
    assert views == expected
    outside = [
        draw_picture(raw, line.index) for raw, seen in zip(raws, expected, strict=True) for line in seen.pictures
    ]
    assert pictures == outside
    assert sum(isinstance(each, Picture) for each in pictures) == 9


@pytest.mark.shared
async def test_hostile_mail_is_shown_from_inside(shared: Callable[[str], Path]) -> None:
    raws = [path.read_bytes() for path in sorted(shared("attack-dev").rglob("attack_xss/*.eml"))]
    async with running() as pool:
        assert [await pool.show(job(VIEW, raw)) for raw in raws] == [build_view(raw) for raw in raws]


@pytest.mark.parametrize("purpose", [VIEW, PICTURE], ids=["view", "picture"])
async def test_what_breaks_its_worker_is_not_shown(purpose: Purpose[Any]) -> None:
    ways = {
        "parse:grow": MEMORY,
        "parse:die": CRASH,
        "parse:crash": "it crashed (LookupError)",
        "parse:open": "it crashed (PermissionError)",
    }
    async with running() as pool:
        looks = asyncio.gather(*(pool.show(faulty(way, purpose)) for way in ways))
        scans = asyncio.gather(*(pool.run(job(JUDGE)) for _ in range(20)))
        looked, reports = await looks, await scans
        after: View | NotShown = await pool.show(job(VIEW))
        assert isinstance(after, View)
        kills = sum(pool.counters().kills.values())
    assert looked == [NotShown(reason) for reason in ways.values()]
    # One attempt each: there is no stage to leave out.
    assert kills == 2
    assert reports == [warmup.report_on(PLAIN)] * 20


async def test_what_does_not_end_is_not_shown() -> None:
    async with running(changed(processes=1, stage_limit=3.0)) as pool:
        looked = await pool.show(faulty("parse:spin", VIEW))
        after = await pool.show(job(VIEW))
        kills = pool.counters().kills["stall"]
    assert (looked, kills) == (NotShown(TIME), 1)
    assert isinstance(after, View)


async def test_few_look_at_a_time() -> None:
    async with running(changed(processes=4)) as pool:
        looks = [asyncio.ensure_future(pool.show(faulty("parse:sleep=80", VIEW))) for _ in range(12)]
        most = 0
        while not all(look.done() for look in looks):
            most = max(most, pool.counters().busy)
            await asyncio.sleep(0.005)
        assert all(isinstance(look.result(), View) for look in looks)
    assert most == 2


async def test_who_waits_too_long_is_told() -> None:
    pool = WorkerPool(changed(analysis_timeout=0.05), from_zone, shipped_policy())
    async with pool._views:
        answer = await pool.show(job(VIEW))
    assert answer == NotShown("every worker is busy")


async def test_a_pool_that_stops_shows_nothing() -> None:
    pool = WorkerPool(SETTINGS, from_zone, shipped_policy())
    await pool.stop()
    assert await pool.show(job(VIEW)) == NotShown("the service is stopping")


@pytest.mark.parametrize(
    ("read", "body"),
    [
        (protocol.read_view, msgspec.msgpack.encode(Picture(protocol.PNG, 1, 1))),
        (protocol.read_view, b""),
        (protocol.read_view, b"\x91" * 10_000),
        (protocol.read_view, msgspec.msgpack.encode({"type": "view", "left_out": ["x" * (values.MAX_NAME + 1)]})),
        (protocol.read_view, msgspec.msgpack.encode({"type": "view", "left_out": ["x"] * (values.MAX_NOTES + 1)})),
        (protocol.read_view, msgspec.msgpack.encode({"type": "view", "fields": [{"name": "", "value": "x" * 2_001}]})),
        (protocol.read_picture, msgspec.msgpack.encode(View())),
        (protocol.read_picture, msgspec.msgpack.encode(Picture(b"<html>", 1, 1))),
        (protocol.read_picture, msgspec.msgpack.encode(Picture(protocol.PNG + bytes(values.MAX_PNG), 1, 1))),
        (protocol.read_picture, msgspec.msgpack.encode(Picture(protocol.PNG, -1, 1))),
    ],
)
def test_a_worker_is_not_believed(read: Callable[[bytes], View | Picture | NotShown], body: bytes) -> None:
    with pytest.raises(FrameError):
        read(body)


def test_the_largest_picture_fits_its_frame() -> None:
    assert len(msgspec.msgpack.encode(Picture(bytes(values.MAX_PNG), 1, 1))) < MAX_REPORT
