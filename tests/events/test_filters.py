"""What outputs get: to the right people, by mail and by a call, and no more than wanted."""

import json
from datetime import UTC, datetime
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from pathlib import Path
from typing import Any

import pytest
from tests.events.receivers import Memory, Receiver, eventually

from gatepost.events.output import DeliveryError, Output, OutputCounters, build_event_mail
from gatepost.events.schema import (
    EncodedEvent,
    EventFields,
    HealthChanged,
    NodeState,
    ThresholdReached,
    UserSignInFailed,
    encode_event,
)
from gatepost.events.stream import FilteredOutput, build_outputs
from gatepost.service.event_stream import build_mailer
from gatepost.settings.events import EventMailSettings, EventsSettings, OutputFilter, read_quiet_hours
from gatepost.settings.keys import GuardSettings

DOWN = HealthChanged(component="storage", before="ok", after="failed", reason="storage cannot be read")
MAIL = {"recipients": ["ops@example.com", "desk@example.com"]}


def encoded(event: EventFields) -> EncodedEvent:
    return encode_event(event, "mx1.example")


def guard_settings(mail: dict[str, Any], next_hop: str) -> GuardSettings:
    return GuardSettings.model_validate(
        {"events": {"node": "mx1.example", "mail": mail}, "delivery": {"nextHop": next_hop, "tls": "off"}}
    )


def by_mail(send_mail: Any, tmp_path: Path, **more: object) -> Output:
    settings = EventsSettings.model_validate({"node": "n", "mail": {**MAIL, **more}})
    (output,) = build_outputs(settings, tmp_path, sends=True, make_mailer=lambda _: send_mail)
    return output


def by_call(receiver: Receiver, tmp_path: Path, **more: object) -> Output:
    hook = {"url": receiver.url, "secret": "s", "batch": 1, **more}
    settings = EventsSettings.model_validate({"node": "n", "webhooks": [hook]})
    (output,) = build_outputs(settings, tmp_path, sends=True)
    return output


def test_mail_goes_through_the_next_hop(next_hop: Any, tmp_path: Path) -> None:
    settings = guard_settings({**MAIL, "tls": "off"}, next_hop.url)
    (output,) = build_outputs(
        settings.events, tmp_path, sends=True, make_mailer=lambda mail: build_mailer(settings, mail)
    )
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


def test_a_call_has_a_text_for_people_and_the_events(receiver: Receiver, tmp_path: Path) -> None:
    output = by_call(receiver, tmp_path, batch=10)
    output.write([encoded(DOWN)])
    eventually(lambda: len(receiver.taken) == 1)
    output.write([encoded(DOWN)] * 3)
    eventually(lambda: len(receiver.taken) == 2)
    output.close(10)
    one, several = map(json.loads, receiver.taken)
    assert one["text"] == "health.changed storage failed (mx1.example)"
    assert one["events"][0]["after"] == "failed"
    assert several["text"] == "health.changed storage failed and 2 more (mx1.example)"
    assert len(several["events"]) == 3


@pytest.mark.parametrize(
    ("chosen", "passing"),
    [
        ({}, ["node.state", "health.changed", "user.signInFailed", "user.signInFailed"]),
        ({"kinds": ["node.state", "list.changed"]}, ["node.state"]),
        ({"minSeverity": "error"}, ["health.changed"]),
        ({"kinds": ["user.signInFailed"], "minSeverity": "notice"}, ["user.signInFailed"]),
    ],
)
def test_only_what_was_chosen(chosen: dict[str, Any], passing: list[str]) -> None:
    kept = Memory()
    output = FilteredOutput(kept, OutputFilter.model_validate(chosen), "n")
    wrong = UserSignInFailed(user="ann", address="192.0.2.1", reason="password")
    locked = UserSignInFailed(user="ann", address="192.0.2.1", reason="locked")
    output.write([encoded(event) for event in (NodeState(state="started", version="1"), DOWN, wrong, locked)])
    output.close(1)
    assert kept.kinds == passing
    assert (output.name, output.address, output.test(encoded(DOWN))) == ("memory", "memory", "health.changed")


def test_every_output_of_a_file_has_the_filter(receiver: Receiver, tmp_path: Path) -> None:
    chosen = {"kinds": ["node.state"], "minSeverity": "error"}
    settings = EventsSettings.model_validate(
        {
            "file": chosen,
            "syslog": {"address": "udp://127.0.0.1:9", **chosen},
            "webhooks": [{"url": receiver.url, "secret": "s", **chosen}],
            "mail": {**MAIL, **chosen},
        }
    )
    outputs = build_outputs(settings, tmp_path, sends=False, make_mailer=lambda _: lambda _message: None)
    assert [output.name for output in outputs] == ["file", "syslog", "webhook-1", "mail"]
    for output in outputs:
        output.write([encoded(DOWN), encoded(NodeState(state="started", version="1"))])
        assert output.counters() == OutputCounters()
        output.close(1)
        assert output.counters() == OutputCounters()


def test_so_many_in_an_hour_then_a_summary(receiver: Receiver, tmp_path: Path) -> None:
    output = by_call(receiver, tmp_path, maxPerHour=2)
    now = [1_000.0]
    assert isinstance(output, FilteredOutput)
    output._clock = lambda: now[0]
    output.write([encoded(DOWN)] * 5)
    output.write([encoded(NodeState(state="started", version="1"))])
    eventually(lambda: len(receiver.taken) == 2)
    now[0] += 3_599
    output.write(())
    now[0] += 1
    output.write(())
    eventually(lambda: len(receiver.taken) == 3)
    output.write([encoded(DOWN)])
    eventually(lambda: len(receiver.taken) == 4)
    output.close(10)
    summary = json.loads(receiver.taken[2])
    assert summary["text"] == "events.omitted 4 maxPerHour (n)"
    (event,) = summary["events"]
    assert event["omitted"] == [{"kind": "health.changed", "count": 3}, {"kind": "node.state", "count": 1}]


def test_a_clock_that_is_set_back_does_not_make_an_hour_longer() -> None:
    kept, now = Memory(), [1_000_000.0]
    output = FilteredOutput(kept, OutputFilter(), "n", max_per_hour=1, clock=lambda: now[0])
    output.write([encoded(DOWN)] * 2)
    now[0] -= 86_400
    output.write([encoded(DOWN)])
    assert kept.kinds == ["health.changed", "events.omitted", "health.changed"]


def test_a_stop_sends_the_summary_of_the_hour() -> None:
    kept = Memory()
    output = FilteredOutput(kept, OutputFilter(kinds=["node.state"]), "n", max_per_hour=1, clock=lambda: 0.0)
    output.write([encoded(NodeState(state="started", version="1"))] * 2)
    output.write(())
    assert kept.kinds == ["node.state"]
    output.close(1)
    assert kept.kinds == ["node.state", "events.omitted"]
    assert b'"reason":"maxPerHour","count":1' in kept.events[1].line


def test_only_its_own_threshold_and_quiet_hours_afterwards() -> None:
    kept = Memory()
    moment = [datetime(2026, 11, 17, 23, 0, tzinfo=UTC).timestamp()]
    output = FilteredOutput(
        kept,
        OutputFilter(),
        "n",
        threshold=("mine", ""),
        quiet=read_quiet_hours("22:00-06:00"),
        clock=lambda: moment[0],
    )
    events = [
        encode_event(ThresholdReached(alert=name, count=3, threshold=2, minutes=5, tenant_uid=tenant), "n")
        for name, tenant in (("mine", None), ("other", None), ("mine", "0199a000-0000-7000-8000-000000000001"))
    ]
    output.write(events)
    assert not kept.events
    moment[0] += 8 * 3_600
    output.write(())
    output.write(events)
    output.close(10)
    assert kept.kinds == ["events.omitted", "threshold.reached"]
    assert b'"reason":"quietHours","count":1' in kept.events[0].line
    assert kept.events[1] == events[0]


def test_errors_pass_in_quiet_hours() -> None:
    kept = Memory()
    moment = datetime(2026, 11, 17, 23, 0, tzinfo=UTC).timestamp()
    output = FilteredOutput(kept, OutputFilter(), "n", quiet=read_quiet_hours("22:00-06:00"), clock=lambda: moment)
    output.write([encoded(DOWN), encoded(NodeState(state="started", version="1"))])
    assert kept.kinds == ["health.changed"]


def test_an_event_is_sent_again_until_it_is_taken(tmp_path: Path) -> None:
    sent: list[str] = []

    def refuse_first(message: EmailMessage) -> None:
        sent.append(message["Subject"])
        if len(sent) < 3:
            raise DeliveryError("smtp://mail answered 451")

    output = by_mail(refuse_first, tmp_path)
    output.write([encoded(DOWN)])
    eventually(lambda: output.counters().delivered == 1)
    output.close(10)
    assert (len(sent), output.counters().failures) == (3, 2)


def test_mail_that_cannot_be_sent_is_given_up(tmp_path: Path) -> None:
    tried: list[str] = []

    def refuse(message: EmailMessage) -> None:
        tried.append(message["Subject"])
        raise DeliveryError("no")

    output = by_mail(refuse, tmp_path)
    output.write([encoded(DOWN), encoded(NodeState(state="started", version="1"))])
    eventually(lambda: output.counters().dropped == 2)
    output.close(10)
    assert output.counters().failures == 10
    assert tried == ["[gatepost n] health.changed storage failed"] * 5 + ["[gatepost n] node.state started"] * 5


def test_text_of_strangers_stays_in_its_field() -> None:
    hostile = "x\r\nBcc: everybody@example.com\r\n\r\n\u202eforged"
    event = encoded(UserSignInFailed(user=hostile, address="a", reason="locked"))
    message = build_event_mail(event, EventMailSettings.model_validate(MAIL), "n")
    parsed = message_from_bytes(message.as_bytes(), policy=default)
    assert "Bcc" not in parsed
    assert parsed["Subject"].startswith("[gatepost n] user.signInFailed x")
    assert "\u202e" not in parsed.get_content()


def test_the_next_hop_is_named_where_it_fails(tmp_path: Path) -> None:
    settings = guard_settings(MAIL, "smtp://127.0.0.1:9")
    (output,) = build_outputs(
        settings.events, tmp_path, sends=False, make_mailer=lambda mail: build_mailer(settings, mail)
    )
    assert output.test(encoded(DOWN)) == "smtp://127.0.0.1:9 refused the connection"
    assert not list(tmp_path.iterdir())
