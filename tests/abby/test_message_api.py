"""Searching, reading, releasing and deleting messages over the API: who may, what is refused, what is answered."""

import asyncio
import string
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from tests.files.compound_files import make_compound
from tests.idle_guard import IdleGuard
from tests.store_reading import list_reports

from gatepost.abby import authenticator
from gatepost.abby.app import create_app, create_services
from gatepost.abby.cores import Cores, Down, LocalCore
from gatepost.analysis.report import Report
from gatepost.api.call_limits import LIMITS, CallingParty, RunningCall
from gatepost.api.http import ClientLeft, ConnectedClient
from gatepost.client.calls import build_multipart
from gatepost.files.documents.saved_messages import open_saved_message
from gatepost.guard.answers.answerer import Answerer
from gatepost.guard.answers.dns import Resolver
from gatepost.guard.service import Guard
from gatepost.ids import new_id
from gatepost.mail.message import Envelope
from gatepost.policy.rules import shipped_policy
from gatepost.scanning.held_mail import Deleted, DeleteOrder, HeldMailOrder, NotHeld, NotSent, ReleaseOrder, ViewOrder
from gatepost.scanning.request import Full, ScanRequest
from gatepost.scanning.spool import MessageBody, Spool
from gatepost.settings.keys import GuardSettings, StaticApiTokenSettings
from gatepost.settings.scan_sources import RestApiSettings, ScanSourcesSettings
from gatepost.store import open_store
from gatepost.store.audit import AuditFilter
from gatepost.store.message_records import Delivery, MessageRecord
from gatepost.store.store import Store
from gatepost.store.tenants import Tenant
from gatepost.times import now
from gatepost.view.values import HeaderLine, LinkLine, NotShown, Passage, PictureLine, View
from gatepost.workers.fair_queue import FairQueue
from gatepost.workers.pool import PoolSettings, WorkerPool
from gatepost.workers.protocol import Extracted

PERMISSIONS: tuple[Any, ...] = tuple(f"messages.{each}" for each in ("search", "read", "release", "delete", "report"))
ALL, OF_TENANT, TENANT = "aa" * 32, "bb" * 32, new_id()
VIEW = View(
    headers=(HeaderLine("Subject", "Hi"),),
    passages=(Passage("1", "html", "visible", "hidden"),),
    links=(LinkLine("bank.example", "https://evil.example/", "evil.example", "1", "html"),),
    pictures=(PictureLine(0, "2", "a.png", "png", 10, 1, 1),),
    left_out=("One part was not read.",),
)


class Holder:
    """A core that has the bytes of the messages that it is told of."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.answers: dict[str, Any] = {}

    async def carry_out(self, order: HeldMailOrder[Any]) -> Any:
        if isinstance(answer := self.answers.get(order.ggrid), Down | NotSent | NotShown):
            return answer
        if isinstance(order, DeleteOrder):
            return Deleted() if await self.store.quarantine.delete(order.ggrid, order.by, order.tenant) else NotHeld()
        if isinstance(order, ReleaseOrder):
            release = await self.store.quarantine.mark_released(order.ggrid, ("bob@y.example",), order.by)
            return msgspec.convert(
                {"type": "released", "ggrid": order.ggrid, **msgspec.structs.asdict(release)}, type(order).answer
            )
        return VIEW if isinstance(order, ViewOrder) else NotHeld()


class Api:
    def __init__(self, store: Store, folder: Path) -> None:
        self.store, self.folder, self.core = store, folder, Holder(store)
        self.serve()

    def serve(self, *cores: LocalCore) -> None:
        """Begin anew, with cores that scan."""
        self.services = create_services(
            cores=Cores(cores), held_mail_cores=(self.core,), store=self.store, spool=Spool(self.folder / "spool")
        )
        tokens = [StaticApiTokenSettings(name="soar", token=ALL, permissions=list(PERMISSIONS))]
        tokens.append(
            StaticApiTokenSettings(name="theirs", token=OF_TENANT, permissions=["messages.read"], tenant=TENANT)
        )
        for number, each in enumerate(PERMISSIONS):
            others: Any = [other for other in PERMISSIONS if other != each]
            tokens.append(StaticApiTokenSettings(name=f"no {each}", token=f"{number}" * 64, permissions=others))
        app = create_app(self.services, tokens=tokens)
        self.http = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://abby")

    async def call(self, method: str, path: str, body: Any = None, token: str = ALL, **headers: str) -> httpx.Response:
        content = body if isinstance(body, bytes | None) else msgspec.json.encode(body)
        stated = {"Authorization": f"Bearer {token}", "Content-Type": "application/json", **headers}
        return await self.http.request(method, path, content=content, headers=stated)

    async def search(self, where: str = "messages", **body: Any) -> Any:
        answer = await self.call("POST", f"/v1/{where}/search", body)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def add(self, tenant: str | None = None, completed: int = 1_000, held: bool = True) -> str:
        report = Report("spam", "quarantine", ("text:lure",), 730, "it adds up", subject="Win a prize")
        envelope = Envelope("ann@x.example", ("bob@y.example",), tenant=tenant)
        record = MessageRecord(new_id(), completed - 10, completed, envelope, 9, "ab" * 32, report)
        await self.store.messages.record(record)
        if held:
            await self.store.quarantine.hold(record)
        return record.ggrid


@asynccontextmanager
async def api_in(folder: Path) -> AsyncIterator[Api]:
    store = open_store("sqlite:g.db", folder)
    api = Api(store, folder)
    try:
        yield api
    finally:
        await api.services.cores.stop()
        await api.http.aclose()
        await store.close()


async def test_the_timeline_of_a_message(tmp_path: Path) -> None:
    async with api_in(tmp_path) as api:
        ggrid = await api.add()
        answer = await api.call("GET", f"/v1/messages/{ggrid.upper()}/timeline")
        found = answer.json()
        assert answer.status_code == 200
        assert (found["ggrid"], found["envelopeRecipients"]) == (ggrid, ["bob@y.example"])
        assert [step["event"] for step in found["steps"]] == ["received", "analysed", "held"]
        missing = await api.call("GET", f"/v1/messages/{new_id()}/timeline")
        assert (missing.status_code, missing.json()["error"]) == (404, "message_not_found")
        assert (await api.call("GET", "/v1/messages/x/timeline")).status_code == 404
        assert (await api.search(nextHopId="4NeXt"))["messages"] == []
        assert (await api.search("heldMessages", queueId="4NeXt"))["messages"] == []
        refused = await api.call("POST", "/v1/heldMessages/search", {"nextHopId": "4NeXt"})
        assert (refused.status_code, refused.json()["error"]) == (400, "invalid_request")
        refused = await api.call("POST", "/v1/messages/search", {"nextHopId": "x" * 101, "queueId": 5})
        assert "nextHopId" in refused.json()["message"]
        assert "queueId" in refused.json()["message"]


async def test_a_tenant_is_not_told_of_nodes_and_next_hops(tmp_path: Path) -> None:
    async with api_in(tmp_path) as api:
        own, foreign = await api.add(TENANT, held=False), await api.add(new_id())
        sent = Delivery(own, 1_010, "smtp://10.0.0.7:25", 250, "2.0.0 Ok", node="mx1")
        await api.store.messages.record_deliveries([sent])
        for token, named in ((ALL, True), (OF_TENANT, False)):
            told = (await api.call("GET", f"/v1/messages/{own}/timeline", token=token)).text
            assert '"delivered"' in told
            assert ["mx1" in told, "10.0.0.7" in told] == [named, named]
        assert (await api.call("GET", f"/v1/messages/{foreign}/timeline", token=OF_TENANT)).status_code == 404


async def test_each_operation_needs_its_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(authenticator, "FIRST_DELAY", 0.0)  # of answers to unknown keys
    async with api_in(tmp_path) as api:
        ggrid = await api.add()
        operations: list[tuple[str, str, str, Any]] = [
            ("messages.search", "POST", "/v1/messages/search", {}),
            ("messages.search", "POST", "/v1/heldMessages/search", {}),
            ("messages.read", "GET", f"/v1/messages/{ggrid}", None),
            ("messages.read", "GET", f"/v1/messages/{ggrid}/text", None),
            ("messages.read", "GET", f"/v1/messages/{ggrid}/timeline", None),
            ("messages.report", "POST", f"/v1/messages/{ggrid}/report", {"shouldHaveBeen": "held"}),
            ("messages.release", "POST", f"/v1/messages/{ggrid}/release", None),
            ("messages.delete", "POST", f"/v1/messages/{ggrid}/delete", None),
            ("messages.release", "POST", "/v1/heldMessages/release", {"ggrids": [ggrid]}),
            ("messages.delete", "POST", "/v1/heldMessages/delete", {"ggrids": [ggrid]}),
        ]
        for permission, method, path, body in operations:
            without = str(PERMISSIONS.index(permission)) * 64
            refused = await api.call(method, path, body, without)
            assert (refused.status_code, refused.json()["error"]) == (403, "forbidden"), path
            assert permission in refused.json()["message"]
            unknown = await api.call(method, path, body, "ff" * 32)
            assert unknown.status_code == 401, path
        assert (await api.store.quarantine.find(ggrid)) is not None
        for _, method, path, body in operations[:5]:
            assert (await api.call(method, path, body)).status_code == 200, path


async def test_checks_come_in_their_order(tmp_path: Path) -> None:
    async with api_in(tmp_path) as api:
        unknown, without = {"tenantUid": new_id()}, "0" * 64
        for token, status, body, headers in (
            ("ff" * 32, 401, b"{", {"Content-Type": "text/plain"}),
            (without, 415, b"{", {"Content-Type": "text/plain"}),
            (without, 413, b" " * 65_537, {}),
            (without, 400, b"{", {}),
            (without, 400, {"limit": 0}, {}),
            (without, 403, unknown, {}),
            (ALL, 404, unknown, {}),
        ):
            answer = await api.call("POST", "/v1/messages/search", body, token, **headers)
            assert answer.status_code == status, answer.text
        for path in ("/v1/messages/search", "/v1/heldMessages/search"):
            answer = await api.call("GET", path)
            assert (answer.status_code, answer.headers["allow"]) == (405, "POST, OPTIONS")


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ({"limit": 0}, "limit"),
        ({"limit": 501}, "limit"),
        ({"limit": "5"}, "limit"),
        ({"limit": True}, "limit"),
        ({"cursor": "1"}, "cursor"),
        ({"cursor": "1.2\n"}, "cursor"),
        ({"cursor": f"{10**18}.1"}, "cursor"),
        ({"cursor": "1.1 OR 1"}, "cursor"),
        ({"since": "yesterday"}, "since"),
        ({"until": "2026-13-01T00:00:00Z"}, "until"),
        ({"sender": 5}, "sender"),
        ({"sender": "x" * 321}, "sender"),
        ({"verdict": "bad"}, "verdict"),
        ({"remoteAddress": "evil.example"}, "remoteAddress"),
        ({"remoteAddress": "fe80::1%eth0"}, "remoteAddress"),
        ({"fileHash": "ab"}, "fileHash"),
        ({"fileHash": "g" * 64}, "fileHash"),
        ({"linkHost": ""}, "linkHost"),
        ({"tenantUid": ""}, "tenantUid"),
        ({"tenantUid": "*"}, "tenantUid"),
        ({"tenantUID": "0198c5a2-7c11-7d3e-9f00-00000000aa01"}, "tenantUID is not a known field"),
        ({"recipent": "a@b.example"}, "recipent is not a known field"),
        (b'{"sender":"a@b.example","sender":null}', "sender twice"),
        (b"[]", "object"),
        ([{}] * 5, "object"),
    ],
)
async def test_a_wrong_filter_is_refused_and_named(tmp_path: Path, body: Any, named: str) -> None:
    async with api_in(tmp_path) as api:
        for where in ("messages", "heldMessages"):
            answer = await api.call("POST", f"/v1/{where}/search", body)
            assert answer.status_code == 400, answer.text
            assert all(word in answer.json()["message"] for word in named.split(" ", 1)), answer.text


@pytest.mark.parametrize(
    "hostile",
    [
        {"sender": "' OR 1=1 --"},
        {"sender": "%"},
        {"recipient": "*"},
        {"subject": "\0"},
        {"subject": " ".join(["x"] * 100)},
        {"subject": "\ud7ff\ue000"},
        {"linkHost": "a." * 120},
        {"fileName": "../../etc/passwd"},
        {"messageId": "<>"},
        {"since": "9999-12-31T23:59:59Z"},
        {"until": "0001-01-01T00:00:00Z"},
    ],
)
async def test_a_strange_filter_finds_nothing_and_breaks_nothing(tmp_path: Path, hostile: dict[str, Any]) -> None:
    async with api_in(tmp_path) as api:
        await api.add()
        for where in ("messages", "heldMessages"):
            found = await api.search(where, **hostile)
            assert found["messages"] == [] or hostile == {"recipient": "*"}


async def test_a_tenant_is_a_wall(tmp_path: Path) -> None:
    async with api_in(tmp_path) as api:
        mine, theirs = [(await api.store.tenants.create(name)) for name in ("mine", "theirs")]
        own, other = await api.add(mine.uid), await api.add(theirs.uid)  # type: ignore[union-attr]
        uid = mine.uid  # type: ignore[union-attr]
        for where in ("messages", "heldMessages"):
            for filters in ({}, {"sender": "ann@x.example"}, {"recipient": "y.example"}, {"subject": "prize"}):
                found = await api.search(where, tenantUid=uid.upper(), **filters)
                assert [each["ggrid"] for each in found["messages"]] == [own], (where, filters)
        assert (await api.search(ggrid=other, tenantUid=uid))["messages"] == []
        for action in ("release", "delete"):
            body = {"ggrids": [other], "tenantUid": uid}
            (result,) = (await api.call("POST", f"/v1/heldMessages/{action}", body)).json()["results"]
            assert (result["outcome"], result["error"]) == ("failed", "message_not_found")
        kept = await api.store.quarantine.find(other)
        assert kept is not None
        assert kept.state == "held"


async def test_pages_lose_and_repeat_nothing_while_mail_arrives(tmp_path: Path) -> None:
    async with api_in(tmp_path) as api:
        before = {await api.add(completed=1_000 + number // 3) for number in range(40)}
        for where in ("messages", "heldMessages"):
            seen: list[str] = []
            cursor, pages = None, 0
            while True:
                page = await api.search(where, limit=7, **({"cursor": cursor} if cursor else {}))
                seen += [each["ggrid"] for each in page["messages"]]
                assert len(page["messages"]) <= 7
                cursor, pages = page["next"], pages + 1
                if cursor is None:
                    break
                await asyncio.gather(*(api.add(completed=5_000 + pages) for _ in range(3)))
            assert len(seen) == len(set(seen))
            assert set(seen) >= before
            before |= set(seen)
            before |= {each["ggrid"] for each in (await api.search(limit=500))["messages"]}


async def test_too_many_calls_of_a_token_are_refused(tmp_path: Path) -> None:
    async with api_in(tmp_path) as api:
        ggrid = await api.add()
        for kind, method, path, body in (
            ("search", "POST", "/v1/messages/search", {}),
            ("search", "POST", "/v1/heldMessages/search", {}),
            ("view", "GET", f"/v1/messages/{ggrid}/text", None),
            ("bulk action", "POST", "/v1/heldMessages/delete", {"ggrids": [ggrid]}),
        ):
            party = CallingParty("token:soar")
            running: list[Any] = [
                api.services.limits.begin(kind, party)  # type: ignore[arg-type]
                for _ in range(LIMITS[kind].per_caller)  # type: ignore[index]
            ]
            assert all(isinstance(each, RunningCall) for each in running)
            answer = await api.call(method, path, body)
            assert (answer.status_code, answer.json()["error"]) == (429, "rate_limited"), answer.text
            assert int(answer.headers["retry-after"]) > 0
            for each in running:
                each.end()
            assert (await api.call(method, path, body)).status_code == 200
            assert api.services.limits.running(kind) == 0  # type: ignore[arg-type]


async def test_text_is_plain_and_on_the_audit_trail(tmp_path: Path) -> None:
    async with api_in(tmp_path) as api:
        ggrid, broken, down, recorded = await api.add(), await api.add(), await api.add(), await api.add(held=False)
        api.core.answers = {broken: NotShown("it could not be read in time"), down: Down("dead")}
        text = (await api.call("GET", f"/v1/messages/{ggrid.upper()}/text")).json()
        assert text["ggrid"] == ggrid
        passage = {"where": "1", "visible": "visible", "hidden": "hidden", "attached": False, "more": 0}
        assert text["passages"][0] == passage
        assert text["links"][0]["target"] == "https://evil.example/"
        assert text["leftOut"] == ["One part was not read."]
        assert "pictures" not in text
        for name, status, code in (
            (broken, 409, "message_not_shown"),
            (down, 503, "core_unavailable"),
            (recorded, 404, "message_not_found"),
            (new_id(), 404, "message_not_found"),
            ("x", 404, "message_not_found"),
        ):
            answer = await api.call("GET", f"/v1/messages/{name}/text")
            assert (answer.status_code, answer.json()["error"]) == (status, code)
        trail = await api.store.audit.page(AuditFilter())
        assert [(each.action, each.actor.label, each.sample) for each in trail.rows] == [
            ("quarantine.view", "token:soar", (ggrid,))
        ]


async def test_many_at_once_have_a_result_each(tmp_path: Path) -> None:
    async with api_in(tmp_path) as api:
        first, second, down, unsent, gone = [await api.add() for _ in range(4)] + [new_id()]
        api.core.answers = {down: Down("dead"), unsent: NotSent("the next hop did not answer")}
        body = {"ggrids": [first.upper(), down, unsent, gone, first]}
        results = (await api.call("POST", "/v1/heldMessages/release", body)).json()["results"]
        assert [(each["ggrid"], each["outcome"], each.get("error")) for each in results] == [
            (first, "released", None),
            (down, "failed", "core_unavailable"),
            (unsent, "failed", "delivery_failed"),
            (gone, "failed", "message_not_found"),
        ]
        assert results[0]["release"]["releasedBy"] == "token:soar"
        again = (await api.call("POST", "/v1/heldMessages/release", {"ggrids": [first]})).json()["results"]
        assert again == results[:1]

        answer = (await api.call("POST", "/v1/heldMessages/delete", {"ggrids": [second, first, down]})).json()
        assert [each["outcome"] for each in answer["results"]] == ["deleted", "failed", "failed"]
        assert (await api.call("POST", f"/v1/messages/{second}/delete")).status_code == 404
        assert (await api.call("GET", f"/v1/messages/{second}")).status_code == 200
        third = await api.add()
        deleted = await api.call("POST", f"/v1/messages/{third}/delete")
        assert deleted.json()["ggrid"] == third
        actions = [each.action for each in (await api.store.audit.page(AuditFilter())).rows]
        assert actions == ["quarantine.delete", "quarantine.delete", "quarantine.release"]


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"ggrids": []},
        {"ggrids": "x"},
        {"ggrids": ["x"]},
        {"ggrids": [5]},
        {"ggrids": [new_id()] * 101},
        {"ggrids": [new_id()], "all": True},
        {"ggrids": [new_id()], "tenantUid": "*"},
    ],
)
async def test_wrong_bulk_calls_change_nothing(tmp_path: Path, body: Any) -> None:
    async with api_in(tmp_path) as api:
        for action in ("release", "delete"):
            answer = await api.call("POST", f"/v1/heldMessages/{action}", body)
            assert (answer.status_code, answer.json()["error"]) == (400, "invalid_request"), answer.text


async def test_what_a_search_answers(tmp_path: Path) -> None:
    async with api_in(tmp_path) as api:
        ggrid = await api.add()
        (found,) = (await api.search(verdict="spam", decision="quarantine", tag="text:lure"))["messages"]
        assert found == {
            "ggrid": ggrid,
            "completed": "1970-01-01T00:00:01.000Z",
            "decision": "quarantine",
            "verdict": "spam",
            "tags": ["text:lure"],
            "score": 7.3,
            "tenantUid": None,
            "envelopeFrom": "ann@x.example",
            "envelopeRecipients": ["bob@y.example"],
            "subject": "Win a prize",
            "size": 9,
        }
        assert (await api.search(tag="text"))["messages"] == []
        (held,) = (await api.search("heldMessages"))["messages"]
        assert (held["ggrid"], held["state"], held["release"]) == (ggrid, "held", None)
        assert (await api.search("heldMessages", released=True))["messages"] == []
        await api.call("POST", f"/v1/messages/{ggrid}/release")
        (held,) = (await api.search("heldMessages", released=True))["messages"]
        assert held["release"]["recipients"] == ["bob@y.example"]


async def test_a_report_is_on_the_trail_and_marks_the_text(tmp_path: Path) -> None:
    async with api_in(tmp_path) as api:
        created = await api.store.tenants.create("ours")
        assert isinstance(created, Tenant)
        tenant = created.uid
        report = Report("clean", "deliver", (), 0, "", signature=tuple(range(1, 9)))
        envelope = Envelope("ann@x.example", ("bob@y.example",), tenant=tenant)
        record = MessageRecord(new_id(), 10, 20, envelope, 9, "ab" * 32, report)
        await api.store.messages.record(record)
        path = f"/v1/messages/{record.ggrid.upper()}/report"
        answer = await api.call("POST", path, {"shouldHaveBeen": "held", "tenantUid": tenant})
        assert answer.status_code == 200
        assert answer.json() | {"reported": ""} == {
            "ggrid": record.ggrid,
            "shouldHaveBeen": "held",
            "reported": "",
            "learns": False,
        }
        (mark,) = await api.store.campaigns.marks(0)
        assert (mark.tenant, mark.says, mark.signature) == (tenant, "unwanted", report.signature)
        (said,) = await list_reports(api.store)
        assert (*said.sample, said.actor.label) == (record.ggrid, "should have been held", "token:soar")
        assert (await api.call("POST", path, {"shouldHaveBeen": "delivered"})).status_code == 200
        assert [each.says for each in await api.store.campaigns.marks(mark.id)] == ["wanted"]


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({}, "invalid_request"),
        ({"shouldHaveBeen": "burnt"}, "invalid_request"),
        ({"shouldHaveBeen": None}, "invalid_request"),
        ({"shouldHaveBeen": "held", "why": "x"}, "invalid_request"),
        ({"shouldHaveBeen": "held", "tenantUid": new_id()}, "tenant_not_found"),
        (b"{", "malformed_request"),
        ({"shouldHaveBeen": "held"}, "message_not_found"),
    ],
)
async def test_what_is_no_report_is_refused(tmp_path: Path, body: Any, code: str) -> None:
    async with api_in(tmp_path) as api:
        answer = await api.call("POST", f"/v1/messages/{new_id()}/report", body)
        assert answer.json()["error"] == code
        assert await list_reports(api.store) == []


def upload(parameters: bytes, *email: bytes, kind: str = "message/rfc822") -> tuple[bytes, dict[str, str]]:
    """A multipart body of parameters and a message, and its header."""
    parts = [("parameters", "application/json", parameters), *(("email", kind, each) for each in email)]
    stated, body = build_multipart(parts)
    return body, {"Content-Type": stated}


class Reader(IdleGuard):
    """A core that reads reported messages, as a sealed worker does, and scans none."""

    def __init__(self, answer: Extracted | NotShown) -> None:
        super().__init__()
        self.answer = answer
        self.read: list[bytes] = []

    async def read_features(
        self, _request: ScanRequest, body: MessageBody, _client: ConnectedClient
    ) -> Extracted | NotShown | Full | ClientLeft:
        self.read.append(body.read())
        return self.answer


async def test_a_report_may_carry_the_message(tmp_path: Path) -> None:
    said = b'{"shouldHaveBeen": "held"}'
    found = Extracted(b"", b"\x01\x00\x02\x00", tuple(range(1, 9)), "x.example")
    async with api_in(tmp_path) as api:
        core = Reader(found)
        api.serve(LocalCore(core))
        await api.services.cores.start()
        ggrid = await api.add(held=False)
        path = f"/v1/messages/{ggrid}/report"
        body, header = upload(said, b"Subject: x\r\n\r\ny")
        answer = await api.call("POST", path, body, **header)
        assert (answer.status_code, answer.json()["learns"]) == (200, True)
        assert core.read == [b"Subject: x\r\n\r\ny"]
        (row,) = await api.store.learning.pool_reports(None)
        assert (row.features, row.unwanted, row.reporter) == (found.row, True, "token:soar")
        (mark,) = await api.store.campaigns.marks(0)
        assert mark.signature == found.signature
        # Faults change nothing, and what is not on record is read by nobody.
        lone, header = upload(said)
        assert (await api.call("POST", path, lone, **header)).json()["error"] == "missing_part"
        body, header = upload(b"{}", b"x")
        assert (await api.call("POST", path, body, **header)).json()["error"] == "invalid_request"
        body, header = upload(said, b"x")
        gone = await api.call("POST", f"/v1/messages/{new_id()}/report", body, **header)
        assert gone.json()["error"] == "message_not_found"
        core.answer = NotShown("it could not be read")
        answer = await api.call("POST", path, body, **header)
        assert answer.json()["error"] == "message_not_shown"
        assert len(core.read) == 2
        assert len(await api.store.learning.pool_reports(None)) == 1


async def test_a_report_may_carry_a_message_as_outlook_saved_it(tmp_path: Path) -> None:
    """A sealed worker reads it as the mail that it was: the models learn the same, and its copies are recognised."""
    words = " ".join(f"{word} kettles" for word in string.ascii_lowercase)
    streams = {
        "__substg1.0_007D001F": "From: a@offers.example\r\nSubject: Kettles\r\n".encode("utf-16-le"),
        "__substg1.0_1000001F": words.encode("utf-16-le"),
    }
    saved = make_compound({"__properties_version1.0": bytes(32), **streams})
    written = open_saved_message(saved)
    plain = f"From: a@offers.example\r\nSubject: Kettles\r\n\r\n{words}\r\n".encode()
    async with api_in(tmp_path) as api:
        answerer = Answerer(Resolver(["127.0.0.1:9"], 0.2))
        pool = WorkerPool(PoolSettings(1, 60.0, 20.0, 1 << 30), answerer.answer, shipped_policy())
        sources = ScanSourcesSettings(rest_api=RestApiSettings())
        guard = Guard(GuardSettings(scan_sources=sources), api.store, pool, answerer, FairQueue(20, 20, 5.0))
        await guard.start()
        api.serve(LocalCore(guard))
        await api.services.cores.start()
        mails = (("application/vnd.ms-outlook", saved), ("message/rfc822", written), ("message/rfc822", plain))
        for kind, content in mails:
            path = f"/v1/messages/{await api.add(completed=now(), held=False)}/report"
            body, header = upload(b'{"shouldHaveBeen": "held"}', content, kind=kind)
            answer = await api.call("POST", path, body, **header)
            assert answer.json().get("learns"), answer.text
        as_saved, as_mail, _ = await api.store.learning.pool_reports(None)
        assert as_saved.features == as_mail.features
        (signature,) = {mark.signature for mark in await api.store.campaigns.marks(0)}
        assert signature
        await guard.stop()
