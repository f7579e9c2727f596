"""Mail is held durably, goes on once, and leaves nothing behind; on both engines, with a real next hop."""

import asyncio
import hashlib
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.guard.conftest import both_engines
from tests.guard.quarantine.conftest import ENVELOPE, RAW, REPORT, Deployment, request, result
from tests.guard.test_service import Names, Pool
from tests.waiting_client import WaitingClient

from gatepost.analysis.report import Report
from gatepost.cli.held_mail import HeldMail
from gatepost.guard.answers.answerer import Answerer
from gatepost.guard.quarantine import quarantine
from gatepost.guard.quarantine.quarantine import LEASE_SECONDS
from gatepost.guard.service import Guard
from gatepost.ids import new_id
from gatepost.mail.message import Envelope, Receipt
from gatepost.process import logs
from gatepost.scanning.held_mail import (
    Busy,
    DeleteOrder,
    ExportOrder,
    NotHeld,
    NotSent,
    Released,
    ReleaseOrder,
    ReleaseOutcome,
)
from gatepost.scanning.request import Full, ScanResult
from gatepost.scanning.spool import BytesBody
from gatepost.service.signing import write_key
from gatepost.settings.delivery import SigningKeySettings
from gatepost.settings.keys import GuardSettings
from gatepost.smtp.client import Tenancy
from gatepost.smtp.content import normalise_line_ends
from gatepost.smtp.routing import Relay, Routing
from gatepost.smtp.signing import Signer, SigningKeys
from gatepost.store.audit import CLI, Actor, AuditFilter
from gatepost.store.errors import StorageError
from gatepost.store.held_search import HeldFilter
from gatepost.times import DAY
from gatepost.workers.fair_queue import FairQueue

TOKEN = Actor("token", "mta")


@both_engines
async def test_it_is_held_with_its_ledger(deployment: Deployment) -> None:
    ggrid = await deployment.hold()
    mail = await deployment.quarantine.one(ggrid)
    assert mail
    assert (mail.record.report, mail.record.envelope, mail.record.size) == (REPORT, ENVELOPE, len(RAW))
    assert mail.record.sha256 == hashlib.sha256(RAW).hexdigest()
    assert await deployment.quarantine.raw(ggrid) == RAW
    # The same scan, done again on another core, changes nothing.
    again = request(ggrid=ggrid)
    await deployment.quarantine.keep(again, result(again), BytesBody(RAW))
    assert [each.record.ggrid for each in (await deployment.store.quarantine.search(HeldFilter())).rows] == [ggrid]


async def test_a_page_is_full_however_many_rows_must_be_read_for_it(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gatepost.store.paging.ROW_BUDGET", 2)
    held = [await deployment.hold() for _ in range(5)]
    wanted = HeldFilter(verdict=REPORT.verdict)
    mail = HeldMail(deployment.store, (), "")
    assert [each.record.ggrid for each in await mail.page(wanted, limit=4)] == held[:0:-1]
    assert [each.record.ggrid for each in await mail.page(wanted, held[1])] == held[:1]


@both_engines
async def test_released_as_it_came_to_whom_it_was_for(deployment: Deployment, next_hop: Any) -> None:
    ggrid = await deployment.hold()
    outcome = await deployment.quarantine.carry_out(ReleaseOrder(ggrid.upper(), by=TOKEN))
    assert isinstance(outcome, Released)
    assert (outcome.by, outcome.recipients) == ("token:mta", ENVELOPE.recipients)
    ((sender, recipients, sent),) = next_hop.mail
    assert (sender, recipients) == ("ann@x.example", ENVELOPE.recipients)
    # Our fields are on top, the one that claimed to be ours is gone, and the rest is as it came.
    assert sent.endswith(b"\r\nReceived: from elsewhere\r\nSubject: lunch\r\n\r\n.dot\r\n\xffend\r\n")
    assert sent.count(b"X-Gatepost-Verdict:") == 1
    # Again, and by somebody else: the same answer, and nothing is sent.
    assert (
        await deployment.quarantine.carry_out(ReleaseOrder(ggrid, by=CLI, recipients=("eve@z.example",), anywhere=True))
        == outcome
    )
    assert len(next_hop.mail) == 1
    assert await deployment.raw.get(ggrid) is None
    assert await deployment.quarantine.raw(ggrid) is None
    assert [each.action for each in (await deployment.store.audit.page(AuditFilter())).rows] == ["quarantine.release"]


async def test_released_to_others(deployment: Deployment, next_hop: Any) -> None:
    ggrid = await deployment.hold(envelope=Envelope("", ("bob@y.example",)))
    outcome = await deployment.quarantine.carry_out(
        ReleaseOrder(ggrid, by=CLI, recipients=("dörte@z.example",), anywhere=True)
    )
    assert isinstance(outcome, Released)
    assert [(sender, recipients) for sender, recipients, _ in next_hop.mail] == [("", ("dörte@z.example",))]


@pytest.mark.parametrize(
    ("answers", "reason"),
    [
        ({".": "451 later"}, "answered 451"),
        ({".": "550 5.7.1 no"}, "answered 550 5.7.1"),
        ({"RCPT TO:<cy": "550 who"}, "answered 550"),
        ({"MAIL": "421 x"}, "answered 421"),
    ],
)
async def test_what_the_next_hop_refuses_stays_held(
    deployment: Deployment, next_hop: Any, answers: dict[str, str], reason: str
) -> None:
    ggrid = await deployment.hold()
    next_hop.answers.update(answers)
    outcome = await deployment.quarantine.carry_out(ReleaseOrder(ggrid, by=CLI))
    assert isinstance(outcome, NotSent)
    assert outcome.reason == f"the next hop {reason}"
    assert next_hop.mail == []
    assert await deployment.state(ggrid) == "held"
    (failed,) = (await deployment.store.audit.page(AuditFilter())).rows
    assert (failed.action, failed.sample) == ("quarantine.releaseFailed", (ggrid, f"the next hop {reason}"))
    next_hop.answers.clear()
    assert isinstance(await deployment.quarantine.carry_out(ReleaseOrder(ggrid, by=CLI)), Released)
    assert len(next_hop.mail) == 1


@pytest.mark.parametrize("hop", [None, "smtp://127.0.0.1:1"])
async def test_no_next_hop(storage_url: str, tmp_path: Path, hop: str | None) -> None:
    async with Deployment(storage_url, tmp_path, hop) as deployment:
        ggrid = await deployment.hold()
        outcome = await deployment.quarantine.carry_out(ReleaseOrder(ggrid, by=CLI))
        assert isinstance(outcome, NotSent)
        assert await deployment.state(ggrid) == "held"


@pytest.mark.parametrize(
    ("sender", "recipient"),
    [
        ("a@x.example", "b@y.example> SIZE=1"),
        ("a@x.example", "b@y.example>\r\nDATA"),
        ("a@x.example", ""),
        ("a@x.example", "b y@z.example"),
        ("a@x.example>\r\nRSET", "b@y.example"),
        ("no address", "b@y.example"),
    ],
)
async def test_an_envelope_that_would_say_more_than_an_address(
    deployment: Deployment, next_hop: Any, sender: str, recipient: str
) -> None:
    ggrid = await deployment.hold(envelope=Envelope(sender, (recipient,)))
    assert isinstance(await deployment.quarantine.carry_out(ReleaseOrder(ggrid, by=CLI)), NotSent)
    assert next_hop.commands == []
    assert await deployment.state(ggrid) == "held"
    if sender == "a@x.example":
        assert isinstance(
            await deployment.quarantine.carry_out(
                ReleaseOrder(ggrid, by=CLI, recipients=("b@y.example",), anywhere=True)
            ),
            Released,
        )


@both_engines
async def test_many_releases_at_once_send_once(
    deployment: Deployment, next_hop: Any, storage_url: str, tmp_path: Path
) -> None:
    ggrid = await deployment.hold()
    # Another process has its own connections.
    async with Deployment(storage_url, tmp_path, next_hop.url) as beside:
        next_hop.open.clear()
        calls = [
            asyncio.create_task(each.quarantine.carry_out(ReleaseOrder(ggrid, by=CLI)))
            for each in [deployment, beside] * 10
        ]
        await asyncio.to_thread(next_hop.seen.wait, 20)
        next_hop.open.set()
        outcomes = await asyncio.gather(*calls)
    assert sum(isinstance(each, Released) for each in outcomes) >= 1
    assert {type(each) for each in outcomes} <= {Released, Busy}
    assert len(next_hop.mail) == 1
    assert isinstance(await deployment.quarantine.carry_out(ReleaseOrder(ggrid, by=CLI)), Released)
    assert len(next_hop.mail) == 1
    assert len((await deployment.store.audit.page(AuditFilter())).rows) == 1


async def test_a_caller_that_leaves_does_not_stop_a_release(deployment: Deployment, next_hop: Any) -> None:
    ggrid = await deployment.hold()
    next_hop.open.clear()
    call = asyncio.create_task(deployment.quarantine.carry_out(ReleaseOrder(ggrid, by=CLI)))
    await asyncio.to_thread(next_hop.seen.wait, 20)
    call.cancel()
    assert await deployment.state(ggrid) == "releasing"
    assert not await deployment.quarantine.delete(DeleteOrder(ggrid, by=CLI))
    next_hop.open.set()
    await deployment.quarantine.finish()
    assert await deployment.state(ggrid) == "released"
    assert len(next_hop.mail) == 1


KILLED = """
import asyncio, os, signal, sys
from pathlib import Path
from gatepost.guard.quarantine.quarantine import Quarantine
from gatepost.guard.quarantine.raw_store import RawFolder
from gatepost.scanning.held_mail import ReleaseOrder
from gatepost.scanning.request import ScanRequest, ScanResult
from gatepost.smtp.routing import Relay, Routing
from gatepost.scanning.spool import BytesBody
from gatepost.mail.message import Envelope
from gatepost.analysis.report import Report
from gatepost.store import open_store
from gatepost.store.audit import CLI

when, url, folder, hop, ggrid = sys.argv[1:]

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

class Raw(RawFolder):
    async def put(self, name, raw):
        await super().put(name, raw)
        if when == "raw":
            die()

class Sends(Routing):
    async def send(self, *arguments):
        if when == "claim":
            die()
        sent = await super().send(*arguments)
        assert sent.reply.code == 250, sent
        die()

async def main():
    store = open_store(url, Path(folder))
    routing = Sends.through(Relay(hop, "off", "gatepost.test"))
    quarantine = Quarantine(store, Raw(Path(folder) / "q"), routing)
    if when != "raw":
        await quarantine.carry_out(ReleaseOrder(ggrid, by=CLI))
    body = BytesBody(b"Subject: x\\r\\n\\r\\ny\\r\\n")
    request = ScanRequest(ggrid, 1, Envelope("a@x.example", ("b@y.example",)))
    await quarantine.keep(request, ScanResult(ggrid, 1, 2, Report("spam", "quarantine", (), 0, "why")), body)

asyncio.run(main())
"""


def killed(when: str, url: str, folder: Path, hop: str, ggrid: str) -> None:
    arguments = [sys.executable, "-c", KILLED, when, url, str(folder), hop, ggrid]
    assert subprocess.run(arguments, check=False, timeout=60).returncode == -signal.SIGKILL


@both_engines
async def test_killed_between_bytes_and_record(storage_url: str, tmp_path: Path, next_hop: Any) -> None:
    ggrid = new_id()
    async with Deployment(storage_url, tmp_path, next_hop.url):
        pass
    killed("raw", storage_url, tmp_path, next_hop.url, ggrid)
    async with Deployment(storage_url, tmp_path, next_hop.url) as deployment:
        held = await deployment.hold()
        # No 250 was given, so the sender has it still; what is here are bytes that nobody knows.
        assert await deployment.state(ggrid) == "none"
        assert await deployment.raw.get(ggrid) is not None
        assert await deployment.tidying.sweep() == 0, "young ones may have their record on its way"
        assert await deployment.tidying.sweep(0) == 1
        assert await deployment.raw.get(ggrid) is None
        assert await deployment.quarantine.raw(held) == RAW
        # It comes again, under any id.
        again = request(ggrid=ggrid)
        await deployment.quarantine.keep(again, result(again), BytesBody(RAW))
        assert await deployment.quarantine.raw(ggrid) == RAW


@both_engines
@pytest.mark.parametrize(("when", "sent"), [("claim", 0), ("sent", 1)])
async def test_killed_while_releasing(storage_url: str, tmp_path: Path, next_hop: Any, when: str, sent: int) -> None:
    async with Deployment(storage_url, tmp_path, next_hop.url) as deployment:
        ggrid = await deployment.hold()
    killed(when, storage_url, tmp_path, next_hop.url, ggrid)
    async with Deployment(storage_url, tmp_path, next_hop.url) as deployment:
        assert len(next_hop.mail) == sent
        assert await deployment.state(ggrid) == "releasing"
        mail = await deployment.store.quarantine.find(ggrid)
        assert mail
        deployment.now = mail.lease / 1_000
        assert await deployment.quarantine.carry_out(ReleaseOrder(ggrid, by=CLI)) == Busy()
        assert not await deployment.quarantine.delete(DeleteOrder(ggrid, by=CLI))
        assert len(next_hop.mail) == sent
        # It is not lost. Only where the next hop had answered already does it come twice (RFC 1047).
        deployment.now += 0.002
        assert isinstance(await deployment.quarantine.carry_out(ReleaseOrder(ggrid, by=CLI)), Released)
        assert len(next_hop.mail) == sent + 1
        assert await deployment.state(ggrid) == "released"
        assert len((await deployment.store.audit.page(AuditFilter())).rows) == 1


async def test_a_delivery_whose_record_fails_is_recorded_later(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quarantine, "RECORD_SECONDS", 0.001)
    ggrid = await deployment.hold()
    mark, failures = deployment.store.quarantine.mark_released, [StorageError("gone"), StorageError("gone")]

    async def flaky(*arguments: Any) -> Any:
        if failures:
            raise failures.pop()
        return await mark(*arguments)

    monkeypatch.setattr(deployment.store.quarantine, "mark_released", flaky)
    with logs.capture():
        assert isinstance(await deployment.quarantine.carry_out(ReleaseOrder(ggrid, by=CLI)), Released)
    assert await deployment.state(ggrid) == "released"


def test_a_lease_outlasts_the_longest_delivery() -> None:
    assert quarantine.SEND_SECONDS < LEASE_SECONDS


@both_engines
async def test_one_tenant_cannot_touch_anothers(deployment: Deployment, next_hop: Any) -> None:
    mine, theirs = new_id(), new_id()
    ggrid = await deployment.hold(envelope=msgspec.structs.replace(ENVELOPE, tenant=mine))
    quarantine = deployment.quarantine
    assert await quarantine.carry_out(ReleaseOrder(ggrid, theirs, by=CLI)) == NotHeld()
    assert not await quarantine.delete(DeleteOrder(ggrid, theirs, by=CLI))
    assert await quarantine.raw(ggrid, theirs) is None
    assert await quarantine.carry_out(ExportOrder(ggrid, theirs, by=CLI)) == NotHeld()
    assert await quarantine.one(ggrid, theirs) is None
    assert next_hop.mail == []
    assert await quarantine.carry_out(ExportOrder(ggrid, mine, by=CLI)) == RAW
    assert isinstance(await quarantine.carry_out(ReleaseOrder(ggrid, mine, by=CLI)), Released)
    actions = [each.action for each in (await deployment.store.audit.page(AuditFilter(scope=mine))).rows]
    assert actions == ["quarantine.release", "quarantine.export"]


@both_engines
async def test_what_its_sender_still_has_is_held_no_longer(deployment: Deployment) -> None:
    """It is not audited: nobody deleted it, and the message comes again."""
    ggrid = await deployment.hold()
    await deployment.quarantine.take_back(ggrid)
    assert await deployment.state(ggrid) == "none"
    assert await deployment.raw.get(ggrid) is None
    assert not (await deployment.store.audit.page(AuditFilter())).rows
    await deployment.quarantine.take_back(ggrid)  # twice does no harm


@pytest.mark.parametrize("may_sign", [True, False])
async def test_outbound_mail_is_released_by_its_own_route_and_signed(
    storage_url: str, next_hop: Any, lasting_next_hop: Any, tmp_path: Path, may_sign: bool
) -> None:
    """It is signed where its client was proven to send for the tenant when it came."""
    write_key(tmp_path / "k.pem", "ed25519")

    async def of_domain(_domain: str) -> str | None:
        return None

    keys = SigningKeys([SigningKeySettings(domain="x.example", selector="k", file=str(tmp_path / "k.pem"))])
    signer = Signer(keys, "gatepost.test", Tenancy({}, of_domain))
    relay = Relay(lasting_next_hop.url, "off", "gatepost.test")
    options: dict[str, Any] = {"outbound": Routing.through(relay), "signer": signer}
    async with Deployment(storage_url, tmp_path, next_hop.url, **options) as deployment:
        envelope = msgspec.structs.replace(ENVELOPE, tenant=None, outbound=True, may_sign=may_sign)
        report = msgspec.structs.replace(REPORT, senders=("ann@x.example",))
        ggrid = await deployment.hold(envelope=envelope, report=report)
        order = ReleaseOrder(ggrid, by=TOKEN, anywhere=True, dangerous=True)
        assert isinstance(await deployment.quarantine.carry_out(order), Released)
        assert next_hop.mail == []
        sent = lasting_next_hop.mail[-1][2]
        signature = b"DKIM-Signature: v=1; a=ed25519-sha256; c=relaxed/relaxed; d=x.example;"
        assert sent.startswith(signature) == may_sign
        assert b"X-Gatepost-Verdict" not in sent
    await relay.close()


async def test_a_release_that_ends_between_two_looks(
    deployment: Deployment, next_hop: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    ggrid = await deployment.hold()
    get = deployment.raw.get

    async def late(name: str) -> bytes | None:
        monkeypatch.setattr(deployment.raw, "get", get)
        assert isinstance(await deployment.quarantine.carry_out(ReleaseOrder(name, by=TOKEN)), Released)
        return await get(name)

    # Its record said "held", and now the bytes are gone: not because it is unknown.
    monkeypatch.setattr(deployment.raw, "get", late)
    outcome = await deployment.quarantine.carry_out(ReleaseOrder(ggrid, by=CLI))
    assert isinstance(outcome, Released)
    assert outcome.by == "token:mta"
    assert len(next_hop.mail) == 1


@both_engines
async def test_retention(deployment: Deployment) -> None:
    old = await deployment.hold()
    mail = await deployment.store.quarantine.find(old)
    assert mail
    await asyncio.sleep(0.005)
    young = await deployment.hold()
    deployment.now = (mail.kept + 30 * DAY + 0.5) / 1_000
    assert await deployment.tidying.purge() == 0
    deployment.now += 0.001
    assert await deployment.tidying.purge() == 1
    assert (await deployment.state(old), await deployment.state(young)) == ("none", "held")
    assert await deployment.tidying.sweep(0) == 1
    assert await deployment.raw.get(old) is None
    assert await deployment.quarantine.raw(young) == RAW


async def test_it_tidies_by_itself(deployment: Deployment) -> None:
    ggrid = await deployment.hold()
    deployment.now += 10_000 * 86_400
    deployment.tidying.start()
    async with asyncio.timeout(180):
        while await deployment.state(ggrid) != "none":  # noqa: ASYNC110  it tidies by itself and tells nobody
            await asyncio.sleep(0.005)
    await deployment.tidying.stop()
    assert await deployment.state(ggrid) == "none"


async def test_a_full_quarantine_takes_no_more(storage_url: str, tmp_path: Path) -> None:
    async with Deployment(storage_url, tmp_path, None, max_size=100) as deployment:
        first = await deployment.hold(b"x" * 60)
        with logs.capture() as logged, pytest.raises(StorageError, match="maxSize"):
            await deployment.hold(b"x" * 60)
        assert [each["event"] for each in logged] == ["the quarantine is full"]
        await deployment.hold(b"x" * 40)
        # Room that others make is seen at once where it matters.
        assert await deployment.quarantine.delete(DeleteOrder(first, by=CLI))
        await deployment.hold(b"x" * 60)


async def test_undecided_counts(deployment: Deployment) -> None:
    assert [await deployment.quarantine.undecided_before("d") for _ in range(3)] == [0, 1, 2]


@pytest.mark.parametrize(
    ("raw", "sent"),
    [
        (b"a\r\nb\r\n", b"a\r\nb\r\n"),
        (b"", b""),
        (b"a\nb", b"a\r\nb"),
        (b"a\n.\nMAIL FROM:<x>\r\n", b"a\r\n.\r\nMAIL FROM:<x>\r\n"),
        (b"a\r.\rb\r\n", b"a\r\n.\r\nb\r\n"),
        (b"a\r\r\nb", b"a\r\n\r\nb"),
        (b"\n\r", b"\r\n\r\n"),
    ],
)
def test_line_ends_on_the_wire(raw: bytes, sent: bytes) -> None:
    assert normalise_line_ends(raw) == sent


async def test_smuggling_through_a_kept_rest_scan(deployment: Deployment, next_hop: Any) -> None:
    ggrid = await deployment.hold(b"Subject: x\n\nbody\n.\nMAIL FROM:<eve@z.example>\n")
    assert isinstance(await deployment.quarantine.carry_out(ReleaseOrder(ggrid, by=CLI)), Released)
    ((_, _, sent),) = next_hop.mail
    assert sent.endswith(b"\r\nSubject: x\r\n\r\nbody\r\n.\r\nMAIL FROM:<eve@z.example>\r\n")


def keeping_guard(deployment: Deployment, report: Report) -> tuple[Guard, FairQueue]:
    """A core that judges every message so, and keeps what is to be held; with its queue, in which nothing waits."""
    queue = FairQueue(1, 1, 0.0, waiting_limit=0)
    guard = Guard(GuardSettings(), deployment.store, Pool(report), Answerer(Names()), queue, clock=lambda: 2.0)
    guard.keep_with(deployment.quarantine)
    return guard, queue


async def test_rest_scans_are_not_kept_unless_it_is_configured(deployment: Deployment) -> None:
    queue = FairQueue(1, 1, 0.0, waiting_limit=0)
    guard = Guard(GuardSettings(), deployment.store, Pool(REPORT), Answerer(Names()), queue, clock=lambda: 2.0)
    asked = request()
    outcome = await guard.scan_in_turn(asked, BytesBody(RAW), WaitingClient())
    assert isinstance(outcome, ScanResult)
    assert outcome.report.decision == "quarantine"
    assert await deployment.quarantine.raw(asked.ggrid) is None


@pytest.mark.parametrize(
    ("report", "kept"),
    [
        (REPORT, True),
        (Report("clean", "deliver", (), 0, "nothing"), False),
        (Report("spam", "bounce", (), 0, "no"), False),
        (Report("spam", "drop", (), 0, "no"), False),
        (Report("unscannable", "undecided", (), 0, "?"), False),
    ],
)
async def test_rest_scans_that_are_held_are_kept(deployment: Deployment, report: Report, kept: bool) -> None:
    guard, _ = keeping_guard(deployment, report)
    asked = request()
    expected = msgspec.structs.replace(result(asked, report), receipt=Receipt())
    assert await guard.scan_in_turn(asked, BytesBody(RAW), WaitingClient()) == expected
    assert await deployment.quarantine.raw(asked.ggrid) == (RAW if kept else None)


async def test_a_rest_scan_that_a_full_core_refuses_is_not_kept(deployment: Deployment) -> None:
    guard, queue = keeping_guard(deployment, REPORT)
    slot, asked = queue.enter(None), request()
    assert slot
    outcome = await guard.scan_in_turn(asked, BytesBody(RAW), WaitingClient())
    slot.leave()
    assert isinstance(outcome, Full)
    assert (outcome.load.full, outcome.overloaded) == (True, True)
    assert await deployment.quarantine.raw(asked.ggrid) is None


async def test_a_trial_is_not_held(deployment: Deployment) -> None:
    asked = msgspec.structs.replace(request(), source="page")
    guard, _ = keeping_guard(deployment, REPORT)
    outcome = await guard.scan_in_turn(asked, BytesBody(RAW), WaitingClient())
    assert isinstance(outcome, ScanResult)
    assert outcome.report == REPORT
    assert await deployment.quarantine.raw(asked.ggrid) is None


def test_an_outcome_survives_the_wire() -> None:
    outcomes: list[ReleaseOutcome] = [Released("g", 1, "cli", ("a",)), NotHeld(), NotSent("why"), Busy()]
    for outcome in outcomes:
        assert msgspec.json.decode(msgspec.json.encode(outcome), type=ReleaseOutcome) == outcome


async def test_bytes_that_were_written_ahead_are_written_once_or_go(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    put, written = deployment.raw.put, []

    async def count(ggrid: str, raw: Any) -> None:
        written.append(ggrid)
        await put(ggrid, raw)

    monkeypatch.setattr(deployment.raw, "put", count)
    asked, other = request(), request()
    for each in (asked, other):
        deployment.quarantine.begin(each.ggrid, BytesBody(RAW))
    await deployment.quarantine.keep(asked, result(asked), BytesBody(RAW))
    await deployment.quarantine.forget(asked.ggrid)
    await deployment.quarantine.forget(other.ggrid)
    assert written == [asked.ggrid, other.ggrid]
    assert await deployment.raw.get(asked.ggrid) == RAW
    assert await deployment.raw.get(other.ggrid) is None
    assert [await deployment.state(each.ggrid) for each in (asked, other)] == ["held", "none"]


async def test_a_held_scan_whose_record_fails_leaves_no_bytes(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    guard, _ = keeping_guard(deployment, REPORT)
    asked = request()

    async def fail(*_: object) -> None:
        async with asyncio.timeout(60):
            while await deployment.raw.get(asked.ggrid) is None:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        raise StorageError("full")

    monkeypatch.setattr(deployment.store.messages, "record", fail)
    with pytest.raises(StorageError):
        await guard.scan_in_turn(asked, BytesBody(RAW), WaitingClient())
    assert await deployment.raw.get(asked.ggrid) is None
    assert await deployment.state(asked.ggrid) == "none"
