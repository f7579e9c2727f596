"""A token that is for one tenant, on every endpoint that tokens open: nothing of another tenant is seen or changed."""

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import msgspec
import pytest
from starlette.routing import Route
from tests.abby.test_message_api import PERMISSIONS, Api, api_in
from tests.store_reading import list_reports

from gatepost.abby.app import create_app
from gatepost.abby.cores import Cores
from gatepost.analysis.report import Report
from gatepost.api.call_limits import CallingParty
from gatepost.ids import new_id
from gatepost.scanning.request import ScanRequest, ScanResult
from gatepost.scanning.spool import MessageBody
from gatepost.settings.keys import StaticApiTokenSettings
from gatepost.store.tenants import Tenant

THEIRS = "bb" * 32
# What has no tenant: it is the state of the deployment, in one word.
OF_THE_DEPLOYMENT = {"/v1/admin/status"}


class NotingCores(Cores):
    """Cores that note the tenant of what they are to scan."""

    def __init__(self) -> None:
        super().__init__(())
        self.scanned: list[str | None] = []

    async def scan(self, request: ScanRequest, body: MessageBody, *_: Any) -> Any:
        self.scanned.append(request.envelope.tenant)
        return ScanResult(request.ggrid, request.created, request.created, Report("clean", "deliver", (), 0, ""))


class Bound:
    """The API with a token that is for one of two tenants."""

    def __init__(self, api: Api, own: str, other: str) -> None:
        self.api, self.own, self.other, self.cores = api, own, other, NotingCores()
        permissions: Any = [*PERMISSIONS, "messages.releaseDangerous"]
        token = StaticApiTokenSettings(name="theirs", token=THEIRS, permissions=permissions, tenant=own)
        api.services = msgspec.structs.replace(api.services, cores=self.cores)
        self.app = create_app(api.services, tokens=[token])
        api.http = httpx.AsyncClient(transport=httpx.ASGITransport(self.app), base_url="http://abby")

    async def call(self, path: str, body: Any = None, method: str = "POST") -> httpx.Response:
        return await self.api.call(method, path, body, THEIRS)

    async def submit(self, tenant: str | None) -> httpx.Response:
        stated = {"tenantUid": tenant} if tenant else {}
        border = {"envelopeFrom": "a@x.example", "envelopeRecipients": ["b@y.example"]}
        parameters = msgspec.json.encode({"borderMtaData": border, **stated})
        files = {
            "parameters": ("", parameters, "application/json"),
            "email": ("m.eml", b"From: a@x.example\r\n\r\nHi\r\n", "message/rfc822"),
        }
        headers = {"Authorization": f"Bearer {THEIRS}"}
        return await self.api.http.post("/v1/messageQueue/submitEmail", files=files, headers=headers)


async def make(api: Api) -> Bound:
    found = [await api.store.tenants.create(name) for name in ("own", "other")]
    own, other = (each.uid for each in found if isinstance(each, Tenant))
    return Bound(api, own, other)


async def test_every_endpoint_of_a_message_knows_no_message_of_others(tmp_path: Path) -> None:
    async with api_in(tmp_path) as api:
        bound = await make(api)
        strange = [await api.add(bound.other), await api.add(None)]
        own = await api.add(bound.own)
        tried = 0
        for route in bound.app.routes:
            if not isinstance(route, Route) or "{ggrid" not in route.path:
                continue
            (method,) = (route.methods or set()) - {"HEAD"}
            body = {"shouldHaveBeen": "delivered"} if route.path.endswith("report") else None
            for ggrid in strange:
                tried += 1
                answer = await bound.call(re.sub(r"\{[^}]*\}", ggrid, route.path), body, method)
                assert (answer.status_code, answer.json()["error"]) == (404, "message_not_found"), route.path
        assert tried == 12
        assert await list_reports(api.store) == []
        for ggrid in strange:
            assert await api.store.quarantine.find(ggrid)
        assert (await bound.call(f"/v1/messages/{own}", method="GET")).json()["tenantUid"] == bound.own
        assert (await bound.call(f"/v1/messages/{own}/text", method="GET")).status_code == 200
        assert (await bound.call(f"/v1/messages/{own}/report", {"shouldHaveBeen": "delivered"})).status_code == 200
        assert (await bound.call(f"/v1/messages/{own}/release")).status_code == 200


async def test_every_endpoint_with_a_tenant_takes_that_one_only(tmp_path: Path) -> None:
    async with api_in(tmp_path) as api:
        bound = await make(api)
        strange, own = await api.add(bound.other), await api.add(bound.own)
        bodies: dict[str, dict[str, Any]] = {
            "/v1/messages/search": {},
            "/v1/heldMessages/search": {},
            "/v1/heldMessages/release": {"ggrids": [strange]},
            "/v1/heldMessages/delete": {"ggrids": [strange]},
            "/v1/messages/{ggrid}/report": {"shouldHaveBeen": "held"},
        }
        routes = {
            route.path for route in bound.app.routes if isinstance(route, Route) and "POST" in (route.methods or ())
        }
        of_messages = {f"/v1/messages/{{ggrid}}/{name}" for name in ("release", "delete")}
        of_tokens = {path for path in routes if path.startswith("/v1/")} - of_messages - OF_THE_DEPLOYMENT
        assert of_tokens == {*bodies, "/v1/messageQueue/submitEmail"}
        for path, body in bodies.items():
            for tenant in (bound.other, new_id()):
                answer = await bound.call(path.replace("{ggrid}", own), {**body, "tenantUid": tenant})
                assert (answer.status_code, answer.json()["error"]) == (403, "forbidden"), path
        for path in ("messages", "heldMessages"):
            for stated in (
                {},
                {"tenantUid": bound.own},
                {"tenantUid": bound.own.upper()},
                {"query": f"tenant:{bound.own}"},
            ):
                found = (await bound.call(f"/v1/{path}/search", stated)).json()["messages"]
                assert [each["ggrid"] for each in found] == [own], stated
            unknown = await bound.call(f"/v1/{path}/search", {"query": "tenant:other"})
            assert unknown.status_code == 400, "another tenant has no name here"
        for act in ("release", "delete"):
            (result,) = (await bound.call(f"/v1/heldMessages/{act}", {"ggrids": [strange]})).json()["results"]
            assert result["error"] == "message_not_found"
        assert await api.store.quarantine.find(strange)


@pytest.mark.parametrize("named", [True, False])
async def test_mail_is_scanned_for_that_tenant_only(named: bool, tmp_path: Path) -> None:
    async with api_in(tmp_path) as api:
        bound = await make(api)
        assert (await bound.submit(bound.own if named else None)).status_code == 200
        for tenant in (bound.other, new_id()):
            answer = await bound.submit(tenant)
            assert (answer.status_code, answer.json()["error"]) == (403, "forbidden")
        assert bound.cores.scanned == [bound.own]
        assert (await bound.call("/v1/admin/status", {})).status_code == 200


async def test_the_limits_of_the_tenant_hold(tmp_path: Path) -> None:
    async with api_in(tmp_path) as api:
        bound = await make(api)
        calls = [api.services.limits.begin("search", CallingParty(f"user:{number}", bound.own)) for number in range(8)]
        assert (await bound.call("/v1/messages/search", {})).status_code == 429
        assert len(calls) == 8


async def test_the_short_way_of_an_upload_takes_that_tenant_only(tmp_path: Path) -> None:
    async with api_in(tmp_path) as api:
        bound = await make(api)
        begin = bound.app._direct_routes[  # type: ignore[attr-defined]
            b"POST", b"/v1/messageQueue/submitEmail"
        ]
        head = [(b"authorization", f"Bearer {THEIRS}".encode()), (b"content-type", b"multipart/form-data; boundary=x")]
        part = '--x\r\nContent-Disposition: form-data; name="{}"\r\nContent-Type: {}\r\n\r\n{}\r\n'
        started: list[Any] = []
        exchange: Any = SimpleNamespace(start=started.append)
        for tenant, taken in ((bound.own, True), (None, True), (bound.other, False), (new_id(), False)):
            stated = {"tenantUid": tenant} if tenant else {}
            border = {"envelopeFrom": "", "envelopeRecipients": ["b@y.example"]}
            parameters = msgspec.json.encode({"borderMtaData": border, **stated}).decode()
            body = part.format("parameters", "application/json", parameters)
            body += part.format("email", "message/rfc822", "From: a@x.example\r\n\r\nHi") + "--x--\r\n"
            take = begin(head, "192.0.2.1")
            assert take
            assert take(body.encode(), exchange) is taken
        assert [each.cr_frame.f_locals["envelope"].tenant for each in started] == [bound.own, bound.own]
        for each in started:
            each.close()
