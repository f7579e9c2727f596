"""Alerts: to the right people, by mail and by a call, and no more than wanted."""

import json
from email import message_from_bytes
from email.policy import default
from pathlib import Path
from typing import Any

import pytest
from tests.events.receivers import Receiver, eventually

from gatepost.events import output as output_module
from gatepost.events.alerts import AlertLimit, AlertOutput, build_alert_mail, describe_alert
from gatepost.events.output import DeliveryError
from gatepost.events.schema import EncodedEvent, EventFields, HealthChanged, NodeState, UserSignInFailed, encode_event
from gatepost.service.event_stream import build_alert_mailer
from gatepost.settings.events import AlertSettings
from gatepost.settings.keys import GuardSettings

DOWN = HealthChanged(component="storage", before="ok", after="failed", reason="storage cannot be read")
MAIL = {"mail": {"recipients": ["ops@example.com", "desk@example.com"]}}


@pytest.fixture(autouse=True)
def quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output_module, "FIRST_WAIT", 0.01)
    monkeypatch.setattr(output_module, "LONGEST_WAIT", 0.02)


def encoded(event: EventFields) -> EncodedEvent:
    return encode_event(event, "mx1.example")


def guard_settings(alerts: dict[str, Any], next_hop: str) -> GuardSettings:
    return GuardSettings.model_validate(
        {"events": {"node": "mx1.example", "alerts": alerts}, "delivery": {"nextHop": next_hop, "tls": "off"}}
    )


def test_mail_goes_through_the_next_hop(next_hop: Any) -> None:
    settings = guard_settings({"mail": {**MAIL["mail"], "tls": "off"}}, next_hop.url)
    alerts = settings.events.alerts
    assert alerts
    output = AlertOutput(alerts, "mx1.example", build_alert_mailer(settings))
    output.write([encoded(DOWN)])
    eventually(lambda: len(next_hop.mail) == 1)
    output.close(10)
    message = message_from_bytes(next_hop.mail[0][2], policy=default)
    assert message["Subject"] == "[gatepost mx1.example] health.changed storage failed"
    assert message["To"] == "ops@example.com, desk@example.com"
    assert message["From"] == "gatepost@mx1.example"
    assert message["Auto-Submitted"] == "auto-generated"
    assert "reason: storage cannot be read" in message.get_content()
    assert output.counters().delivered == 1


def test_a_call_has_a_text_for_people_and_the_event(receiver: Receiver) -> None:
    alerts = AlertSettings.model_validate({"webhook": {"url": receiver.url, "secret": "s"}})
    output = AlertOutput(alerts, "mx1.example")
    output.write([encoded(DOWN)])
    eventually(lambda: len(receiver.taken) == 1)
    output.close(10)
    body = json.loads(receiver.taken[0])
    assert body["text"] == "health.changed storage failed (mx1.example)"
    assert body["events"][0]["after"] == "failed"


def test_only_what_was_chosen(receiver: Receiver) -> None:
    alerts = AlertSettings.model_validate({"webhook": {"url": receiver.url, "secret": "s"}})
    output = AlertOutput(alerts, "n")
    wrong = UserSignInFailed(user="ann", address="192.0.2.1", reason="password")
    locked = UserSignInFailed(user="ann", address="192.0.2.1", reason="locked")
    output.write([encoded(wrong), encoded(locked)])
    eventually(lambda: len(receiver.taken) == 1)
    output.close(10)
    assert json.loads(receiver.taken[0])["text"] == "user.signInFailed ann locked 192.0.2.1 (n)"


def test_so_many_in_an_hour_then_a_summary(receiver: Receiver) -> None:
    now = [0.0]
    alerts = AlertSettings.model_validate({"maxPerHour": 2, "webhook": {"url": receiver.url, "secret": "s"}})
    output = AlertOutput(alerts, "n", clock=lambda: now[0])
    output.write([encoded(DOWN)] * 5)
    output.write([encoded(NodeState(state="started", version="1"))])
    eventually(lambda: len(receiver.taken) == 2)
    now[0] = 3_601.0
    eventually(lambda: len(receiver.taken) == 3)
    output.write([encoded(DOWN)])
    eventually(lambda: len(receiver.taken) == 4)
    output.close(10)
    assert json.loads(receiver.taken[2])["text"] == "4 more alerts (n)"


def test_a_stop_sends_the_summary_of_the_hour() -> None:
    limit = AlertLimit(1, lambda: 0.0)
    assert limit.passes("node.state")
    assert not limit.passes("node.state")
    assert limit.summary() is None
    summary = limit.summary(now=True)
    assert summary
    assert summary.title == "1 more alerts"
    assert "node.state 1" in summary.text
    assert limit.summary(now=True) is None


def test_a_way_that_fails_does_not_repeat_the_other(receiver: Receiver) -> None:
    sent: list[str] = []

    def refuse_first(message: Any) -> None:
        sent.append(message["Subject"])
        if len(sent) < 3:
            raise DeliveryError("smtp://mail answered 451")

    alerts = AlertSettings.model_validate({**MAIL, "webhook": {"url": receiver.url, "secret": "s"}})
    output = AlertOutput(alerts, "n", refuse_first)
    output.write([encoded(DOWN)])
    eventually(lambda: output.counters().delivered == 1)
    output.close(10)
    assert (len(sent), len(receiver.taken), output.counters().failures) == (3, 1, 2)


def test_an_alert_that_cannot_be_sent_is_given_up() -> None:
    def refuse(_message: Any) -> None:
        raise DeliveryError("no")

    output = AlertOutput(AlertSettings.model_validate(MAIL), "n", refuse)
    output.write([encoded(DOWN)])
    eventually(lambda: output.counters().dropped == 1)
    output.close(10)
    assert output.counters().failures == 5


def test_text_of_strangers_stays_in_its_field() -> None:
    hostile = "x\r\nBcc: everybody@example.com\r\n\r\n\u202eforged"
    alert = describe_alert([encoded(UserSignInFailed(user=hostile, address="a", reason="locked"))], "n")
    message = build_alert_mail(alert, AlertSettings.model_validate(MAIL), "n")
    parsed = message_from_bytes(message.as_bytes(), policy=default)
    assert "Bcc" not in parsed
    assert parsed["Subject"].startswith("[gatepost n] user.signInFailed x")
    assert "\u202e" not in parsed.get_content()


def test_the_next_hop_is_named_where_it_fails(tmp_path: Path) -> None:
    settings = guard_settings(MAIL, "smtp://127.0.0.1:9")
    alerts = settings.events.alerts
    assert alerts
    output = AlertOutput(alerts, "n", build_alert_mailer(settings))
    assert output.test(encoded(DOWN)) == "by mail: smtp://127.0.0.1:9 refused the connection"
    assert not list(tmp_path.iterdir())
