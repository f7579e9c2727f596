"""Alerts of the web interface: built from storage, sent through the next hop, and followed while the process runs."""

import asyncio
import socket
import threading
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.own_names import replace_in
from tests.web.conftest import REPORT

from gatepost.events import webhook
from gatepost.events.output import DeliveryError
from gatepost.events.schema import HealthChanged, NodeState, ThresholdReached
from gatepost.events.sources import describe_change, describe_scan
from gatepost.events.stream import EventStream
from gatepost.events.webhook import WebhookCaller
from gatepost.ids import new_id
from gatepost.mail.message import Envelope
from gatepost.service.event_stream import ThresholdWatch, WebAlerts, _note_wanted, build_mailer, try_alert
from gatepost.settings.events import (
    ALERT_KINDS,
    MAX_TENANT_ALERTS,
    EventMailSettings,
    EventsSettings,
    WebAlert,
    WebhookSettings,
    build_alert,
    read_quiet_hours,
)
from gatepost.settings.feeds import WebSettingsError
from gatepost.settings.keys import GuardSettings
from gatepost.store import open_store
from gatepost.store.alerts import AlertDefinition, key_of
from gatepost.store.audit import CLI, AuditFilter
from gatepost.store.message_records import MessageRecord
from gatepost.store.tenants import Tenant

OPS = WebAlert(kinds=("health.changed",), recipients=("ops@example.com",))


def settings_for(hop: str) -> GuardSettings:
    return GuardSettings.model_validate({"delivery": {"nextHop": hop, "tls": "off"}, "events": {"node": "mx1.example"}})


@pytest.fixture(params=["sqlite", "postgresql"])
def storage_url(tmp_path: Path, request: pytest.FixtureRequest) -> str:
    return f"sqlite:{tmp_path / 'g.db'}" if request.param == "sqlite" else str(request.getfixturevalue("postgres_url"))


@pytest.mark.parametrize(
    ("alert", "field"),
    [
        (WebAlert(recipients=("ops@example.com",)), "kinds"),
        (WebAlert(kinds=("message.scanned",), recipients=("ops@example.com",)), "kinds"),
        (WebAlert(kinds=("node.state",)), "recipients"),
        (WebAlert(kinds=("node.state",), recipients=("no address",)), "recipients"),
        (WebAlert(kinds=("node.state",), recipients=tuple(f"a{n}@example.com" for n in range(21))), "recipients"),
        (WebAlert(kinds=("node.state",), url="http://hooks.example.com/x"), "url"),
        (WebAlert(kinds=("node.state",), url="https://127.0.0.1/x"), "url"),
        (WebAlert(kinds=("node.state",), url="https://[::1]/x"), "url"),
        (WebAlert(kinds=("node.state",), url="https://user:pw@hooks.example.com/x"), "url"),
        (WebAlert(kinds=("node.state",), url="https://" + "x" * 3_000), "url"),
        (WebAlert(kinds=("node.state",), recipients=("ops@example.com",), max_per_hour=0), "max_per_hour"),
        (WebAlert(kinds=("node.state",), recipients=("ops@example.com",), min_severity="x"), "min_severity"),
        (WebAlert(count=5, recipients=("ops@example.com",)), "minutes"),
        (WebAlert(count=5, minutes=1_441, recipients=("ops@example.com",)), "minutes"),
        (WebAlert(count=10_001, minutes=5, recipients=("ops@example.com",)), "count"),
        (WebAlert(kinds=("node.state",), recipients=("ops@example.com",), quiet="22-6"), "quiet"),
    ],
)
def test_what_is_no_alert(alert: WebAlert, field: str) -> None:
    with pytest.raises(WebSettingsError) as fault:
        build_alert(alert)
    assert field in [named for named, _ in fault.value.mistakes]


def test_an_alert_is_outputs_as_a_file_has_them() -> None:
    both = WebAlert(ALERT_KINDS[:1], "error", 7, ("ops@example.com",), "https://h.example/x", "s")
    server = EventMailSettings(recipients=["a@b.example"], server="smtp://mail.example:25", tls="verified")
    built = build_alert(both, server)
    assert built.mail
    assert built.mail.server == "smtp://mail.example:25"
    assert built.mail.tls == "verified"
    (hook,) = built.webhooks
    assert (hook.url, hook.secret) == ("https://h.example/x", "s")
    for each in (built.mail, hook):
        assert (each.kinds, each.min_severity, each.max_per_hour) == (["message.held"], "error", 7)
    many = build_alert(WebAlert(count=2, minutes=5, recipients=("ops@example.com",)))
    assert many.mail
    assert many.mail.kinds == ["threshold.reached"]
    assert not many.webhooks


def test_a_test_goes_out_and_says_what_came_of_it(next_hop: Any) -> None:
    settings = settings_for(next_hop.url)
    assert try_alert(settings, OPS) == ""
    assert next_hop.mail[0][1] == ("ops@example.com",)
    assert b"node.state test" in next_hop.mail[0][2]
    next_hop.answers = {"RCPT": "550 no"}
    assert "answered 550" in try_alert(settings, OPS)
    assert try_alert(GuardSettings.model_validate({}), OPS).startswith("by mail: there is no next hop")


def test_all_receivers_are_tried_and_the_first_failure_is_told(next_hop: Any) -> None:
    both = msgspec.structs.replace(OPS, url="https://does-not-exist.invalid/x")
    assert try_alert(settings_for(next_hop.url), both).startswith("by webhook: ")
    assert len(next_hop.mail) == 1


def test_hosts_of_a_private_network_are_not_called_whatever_their_name_is(monkeypatch: pytest.MonkeyPatch) -> None:
    target = WebhookSettings(url="https://hooks.example.com:8443/x", secret="s")
    caller = WebhookCaller(target, public_only=True)
    inside = [(0, 0, 0, "", ("10.0.0.1", 8443)), (0, 0, 0, "", ("::ffff:127.0.0.1", 8443, 0, 0))]
    replace_in(monkeypatch, webhook, "socket", getaddrinfo=lambda *_a, **_k: inside)
    with pytest.raises(DeliveryError, match="private network"):
        caller.call([b"{}"])
    public = [*inside, (0, 0, 0, "", ("93.184.216.34", 8443))]
    replace_in(monkeypatch, webhook, "socket", getaddrinfo=lambda *_a, **_k: public)
    headers: dict[str, str] = {}
    url, extensions = caller._pin(headers)
    assert str(url) == "https://93.184.216.34:8443/x"
    assert (headers["Host"], extensions) == ("hooks.example.com:8443", {"sni_hostname": "hooks.example.com"})
    caller.close()


@pytest.mark.parametrize("host", ["xn--0", "xn--ls8h.example", "xn--80ak6aa92e.example"])
def test_a_name_that_is_no_idna_is_a_failure_like_another(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def resolve(name: str, *_: object, **_more: object) -> list[object]:
        asked.append(name)
        raise socket.gaierror(-2, "Name or service not known")

    replace_in(monkeypatch, webhook, "socket", getaddrinfo=resolve)
    alert = WebAlert(kinds=("message.held",), url=f"https://{host}/x", secret="s" * 32)
    assert "not known" in try_alert(GuardSettings.model_validate({}), alert)
    assert asked == [host], "the name goes to DNS as it was written"


@pytest.mark.parametrize("host", ["0x7f000001", "LOCALHOST", "127.0.0.1", "[::ffff:7f00:1]", "[64:ff9b::7f00:1]"])
def test_every_way_to_write_this_machine_is_private(host: str) -> None:
    """Whatever the system makes an address of: it is looked at before the call."""
    caller = WebhookCaller(WebhookSettings(url=f"https://{host}/x", secret="s"), public_only=True)
    with pytest.raises(DeliveryError, match="private network"):
        caller.call([b"{}"])
    caller.close()


def test_events_are_made_while_somebody_wants_them(next_hop: Any) -> None:
    settings = settings_for(next_hop.url)
    alerts = WebAlerts(settings.events, partial(build_mailer, settings))
    stream = EventStream("mx1.example", [alerts])
    alerts.changed = lambda: _note_wanted(stream, alerts, is_enabled=False)
    alerts.changed()
    made: list[int] = []

    def make() -> None:
        made.append(1)

    stream.emit(make)
    assert (stream.is_idle, made) == (True, [])
    alerts.use([AlertDefinition("ops", OPS), AlertDefinition("broken", WebAlert())])
    assert (stream.is_idle, describe_scan in stream.unwanted) == (False, True)
    stream.emit(lambda: HealthChanged(component="dns", before="ok", after="degraded", reason="DNS is away"))
    stream.emit(lambda: NodeState(state="started", version="1"))
    stream.close()
    assert [recipients for _, recipients, _ in next_hop.mail] == [("ops@example.com",)]
    assert b"DNS is away" in next_hop.mail[0][2]
    assert alerts.counters().delivered == 1
    assert not [thread for thread in threading.enumerate() if thread.name == "alerts"]


def test_definitions_are_followed(tmp_path: Path, storage_url: str) -> None:
    async def run() -> None:
        store = open_store(storage_url, tmp_path)
        called = WebAlert(("node.state",), url="https://hooks.example.com/very-secret")
        made = await store.alerts.put("ops", called, 0, CLI)
        assert isinstance(made, AlertDefinition)
        assert len(made.alert.secret) == 64
        assert await store.alerts.put("ops", called, 0, CLI) == "changed"
        kept = await store.alerts.put("ops", called, made.modified, CLI)
        assert isinstance(kept, AlertDefinition)
        assert kept.alert.secret == made.alert.secret, "the address is the same, so the secret stays"
        alerts = WebAlerts(EventsSettings(), lambda _: lambda _message: None)
        await alerts.look(store)
        wanted = [alerts.is_wanted]
        assert await store.alerts.delete("ops", CLI) is None
        assert await store.alerts.delete("ops", CLI) == "unknown"
        await alerts.look(store)
        assert [*wanted, alerts.is_wanted] == [True, False]
        trail = await store.audit.page(AuditFilter())
        changes = [await store.audit.changes(row.id) for row in trail.rows]
        assert "very-secret" not in repr(changes)
        assert made.alert.secret not in repr(changes)
        await store.close()

    asyncio.run(run())


PHISHING = msgspec.structs.replace(REPORT, verdict="phishing")


def test_a_threshold_is_told_once_in_its_time(tmp_path: Path, storage_url: str) -> None:
    async def run() -> list[Any]:
        store = open_store(storage_url, tmp_path)
        told: list[Any] = []
        store.observe_changes(lambda record: told.append(describe_change(record)))
        tenant = await store.tenants.create("Sales")
        assert isinstance(tenant, Tenant)
        many = WebAlert(search="verdict:phishing", count=3, minutes=10, recipients=("ops@example.com",))
        await store.alerts.put("many", many, 0, CLI)
        own = msgspec.structs.replace(many, tenant=tenant.uid, count=2)
        for number in range(MAX_TENANT_ALERTS):
            await store.alerts.put(key_of(f"own {number}", tenant.uid), own, 0, CLI)
        assert await store.alerts.put(key_of("one more", tenant.uid), own, 0, CLI) == "full"
        await store.alerts.put("wrong", msgspec.structs.replace(many, search="nothing:is called so"), 0, CLI)
        now = 1_800_000_000_000
        watch, other = (ThresholdWatch(store, lambda: now / 1000) for _ in range(2))

        async def receive(number: int, verdict: str, moment: int, of: str | None = None) -> None:
            report = msgspec.structs.replace(PHISHING, verdict=verdict)
            for _ in range(number):
                envelope = Envelope("a@b.example", ("c@d.example",), tenant=of)
                await store.messages.record(MessageRecord(new_id(), moment, moment, envelope, 1, "ab" * 32, report))

        await receive(5, "spam", now - 1)
        await receive(5, "phishing", now - 11 * 60_000)
        await receive(2, "phishing", now - 2)
        await watch.look()
        assert [each for each in told if isinstance(each, ThresholdReached)] == []
        await receive(1, "phishing", now - 3, tenant.uid)
        await asyncio.gather(watch.look(), other.look())
        await watch.look()
        first = [each for each in told if isinstance(each, ThresholdReached)]
        assert [(each.alert, each.count, each.threshold, each.minutes) for each in first] == [("many", 3, 3, 10)]
        shown = next(each.alert for each in await store.alerts.all() if each.name == "many")
        assert (shown.fired, shown.found) == (now, 3)
        now += 11 * 60_000
        await receive(3, "phishing", now - 1)
        await watch.look()
        found = [each for each in told if isinstance(each, ThresholdReached)][1:]
        assert [each.alert for each in found] == ["many"], "it is told again once its time is over"
        await receive(2, "phishing", now - 1, tenant.uid)
        await watch.look()
        of_tenant = [each for each in told if isinstance(each, ThresholdReached)][2:]
        assert {(each.alert, each.tenant_uid) for each in of_tenant} == {
            (f"own {number}", tenant.uid) for number in range(MAX_TENANT_ALERTS)
        }
        await store.tenants.delete(tenant.uid)
        assert {each.name for each in await store.alerts.all()} == {"many", "wrong"}
        await store.close()
        return told

    assert asyncio.run(run())


@pytest.mark.parametrize(
    ("text", "zone", "hour", "is_quiet"),
    [
        *(("22:00-06:00", "", hour, is_quiet) for hour, is_quiet in ((21, False), (22, True), (3, True), (6, False))),
        *(("08:00-09:00", "", hour, is_quiet) for hour, is_quiet in ((7, False), (8, True), (9, False))),
        ("22:00-06:00", "Asia/Tokyo", 14, True),
        ("22:00-06:00", "No/Such", 14, False),
    ],
)
def test_quiet_hours(text: str, zone: str, hour: int, is_quiet: bool) -> None:
    quiet = read_quiet_hours(text, zone)
    assert quiet
    assert quiet.holds_at(datetime(2026, 11, 17, hour, 30 if hour == 3 else 0, tzinfo=UTC).timestamp()) == is_quiet


@pytest.mark.parametrize("text", ["", "22:00", "24:00-06:00", "22:60-06:00", "22:00-22:00", "x" * 50])
def test_what_are_no_quiet_hours(text: str) -> None:
    assert read_quiet_hours(text) is None
