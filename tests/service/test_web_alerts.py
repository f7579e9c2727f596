"""Alerts of the web interface: built from storage, sent through the next hop, and followed while the process runs."""

import asyncio
import threading
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.own_names import replace_in

from gatepost.events import webhook
from gatepost.events.output import DeliveryError
from gatepost.events.schema import HealthChanged, NodeState
from gatepost.events.sources import describe_scan
from gatepost.events.stream import EventStream
from gatepost.events.webhook import WebhookCaller
from gatepost.service.event_stream import WebAlerts, _note_wanted, build_alert_mailer, try_alert
from gatepost.settings.events import (
    ALERT_KINDS,
    AlertMailSettings,
    AlertSettings,
    WebAlert,
    WebhookTarget,
    build_alert,
    leave_out,
)
from gatepost.settings.feeds import WebSettingsError
from gatepost.settings.keys import GuardSettings
from gatepost.store import open_store
from gatepost.store.alerts import AlertDefinition
from gatepost.store.audit import CLI, AuditFilter

OPS = WebAlert(kinds=("health.changed",), recipients=("ops@example.com",))


def settings_for(hop: str) -> GuardSettings:
    return GuardSettings.model_validate({"delivery": {"nextHop": hop, "tls": "off"}, "events": {"node": "mx1.example"}})


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
    ],
)
def test_what_is_no_alert(alert: WebAlert, field: str) -> None:
    with pytest.raises(WebSettingsError) as fault:
        build_alert(alert)
    assert field in [named for named, _ in fault.value.mistakes]


def test_the_file_wins() -> None:
    both = WebAlert(ALERT_KINDS[:1], recipients=("Ops@example.com", "b@example.com"), url="https://h.example/x")
    file = AlertSettings(
        mail=AlertMailSettings(recipients=["ops@example.com"]),
        webhook=WebhookTarget(url="https://h.example/x", secret="s"),
    )
    left = leave_out(both, file)
    assert (left.recipients, left.url) == (("b@example.com",), "")
    assert leave_out(both, None) == both
    assert "a file has all" in try_alert(
        file, "n", lambda _: None, WebAlert(("node.state",), url="https://h.example/x")
    )


def test_a_test_goes_out_and_says_what_came_of_it(next_hop: Any) -> None:
    settings = settings_for(next_hop.url)
    send = partial(try_alert, None, "mx1.example", partial(build_alert_mailer, settings))
    assert send(OPS) == ""
    assert next_hop.mail[0][1] == ("ops@example.com",)
    assert b"node.state test" in next_hop.mail[0][2]
    next_hop.answers = {"RCPT": "550 no"}
    assert "answered 550" in send(OPS)
    nowhere = GuardSettings.model_validate({})
    assert "no next hop" in try_alert(None, "n", partial(build_alert_mailer, nowhere), OPS)


def test_hosts_of_a_private_network_are_not_called_whatever_their_name_is(monkeypatch: pytest.MonkeyPatch) -> None:
    target = WebhookTarget(url="https://hooks.example.com:8443/x", secret="s")
    caller = WebhookCaller(target, public_only=True)
    inside = [(0, 0, 0, "", ("10.0.0.1", 8443)), (0, 0, 0, "", ("::ffff:127.0.0.1", 8443, 0, 0))]
    replace_in(monkeypatch, webhook, "socket", getaddrinfo=lambda *_a, **_k: inside)
    with pytest.raises(DeliveryError, match="private network"):
        caller.call(b"{}")
    public = [*inside, (0, 0, 0, "", ("93.184.216.34", 8443))]
    replace_in(monkeypatch, webhook, "socket", getaddrinfo=lambda *_a, **_k: public)
    headers: dict[str, str] = {}
    url, extensions = caller._pin(headers)
    assert str(url) == "https://93.184.216.34:8443/x"
    assert (headers["Host"], extensions) == ("hooks.example.com:8443", {"sni_hostname": "hooks.example.com"})
    caller.close()


def test_events_are_made_while_somebody_wants_them(next_hop: Any) -> None:
    settings = settings_for(next_hop.url)
    alerts = WebAlerts(None, "mx1.example", partial(build_alert_mailer, settings))
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


@pytest.mark.parametrize("engine", ["sqlite", "postgresql"])
def test_definitions_are_followed(tmp_path: Path, engine: str, request: pytest.FixtureRequest) -> None:
    url = f"sqlite:{tmp_path / 'g.db'}" if engine == "sqlite" else request.getfixturevalue("postgres_url")

    async def run() -> None:
        store = open_store(url, tmp_path)
        called = WebAlert(("node.state",), url="https://hooks.example.com/very-secret")
        made = await store.alerts.put("ops", called, 0, CLI)
        assert isinstance(made, AlertDefinition)
        assert len(made.alert.secret) == 64
        assert await store.alerts.put("ops", called, 0, CLI) == "changed"
        kept = await store.alerts.put("ops", called, made.modified, CLI)
        assert isinstance(kept, AlertDefinition)
        assert kept.alert.secret == made.alert.secret, "the address is the same, so the secret stays"
        alerts = WebAlerts(None, "n", lambda _: None)
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
