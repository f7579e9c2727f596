"""The stream: an event never stops its cause, waits for nothing, and costs nothing where nobody wants it."""

import threading
from typing import Any

import msgspec
import pytest
from tests.events.receivers import Memory, eventually, make_events

from gatepost.analysis.report import Line, Report
from gatepost.events.output import WaitingEvents
from gatepost.events.schema import EventFields, NodeState
from gatepost.events.stream import NO_EVENTS, EventMetrics, EventStream
from gatepost.findings.kinds import LIMIT_RULE_FAILED
from gatepost.ids import new_id
from gatepost.mail.message import Envelope
from gatepost.policy.layers import Effective, Policies, unchanged_policies
from gatepost.policy.rules import RULE_STOPPED, OwnRule
from gatepost.rejudge.policies_in_force import PoliciesInForce
from gatepost.service.core import _observe_scans
from gatepost.store.message_records import MessageRecord

RECORD = MessageRecord(new_id(), 1, 2, Envelope(), 9, "", Report("clean", "deliver", (), 0, ""))


def test_events_come_in_batches_and_all_before_the_end() -> None:
    memory = Memory()
    stream = EventStream("n", [memory])
    for _ in range(1_000):
        stream.emit(NodeState, state="test", version="1")
    stream.close()
    assert len(memory.events) == 1_000
    assert len(memory.batches) < 500
    assert memory.batches[-1] == ()
    assert stream.emitted == {"node.state": 1_000}


def test_what_goes_wrong_with_an_event_stays_here() -> None:
    def broken(_value: int) -> EventFields:
        raise RuntimeError("no")

    memory = Memory()
    stream = EventStream("n", [memory])
    stream.emit(broken, 1)
    wrong: Any = object()
    stream.emit(NodeState, state="test", version=wrong)
    stream.emit(lambda: None)
    stream.emit(NodeState, state="test", version="1")
    stream.close()
    assert stream.failures == 2
    assert len(memory.events) == 1


def test_an_output_that_hangs_stops_nobody_and_fills_no_memory() -> None:
    memory = Memory()
    memory.may_go_on.clear()
    stream = EventStream("n", [memory])
    stream.emit(NodeState, state="test", version="first")
    eventually(lambda: not stream._queue.bytes)
    for number in range(12):
        stream.emit(NodeState, state="test", version=f"{number} {'x' * (1 << 20)}")
    assert stream.dropped == 5
    memory.may_go_on.set()
    stream.close()
    got = memory.events
    assert [b'"version":"%d ' % number in event.line for number, event in enumerate(got[1:], 5)] == [True] * 7


def test_without_outputs_nothing_is_made() -> None:
    made: list[int] = []
    NO_EVENTS.emit(lambda: made.append(1))
    assert not made


def test_metrics_tell_of_every_output() -> None:
    memory = Memory()
    stream = EventStream("n", [memory])
    stream.emit(NodeState, state="test", version="1")
    stream.close()
    found = {
        (sample.name, *sample.labels.values()): sample.value
        for family in EventMetrics(stream).collect()
        for sample in family.samples
    }
    assert found["gatepost_events_total", "node.state"] == 1
    assert found["gatepost_events_delivered_total", "memory"] == 1
    assert found["gatepost_events_dropped_total", "memory"] == 1
    assert found["gatepost_events_failures_total", "memory"] == 2
    assert found["gatepost_events_waiting_bytes", "memory"] == 3
    assert found["gatepost_events_dropped_total", "queue"] == 0


def test_waiting_events_keep_their_order_and_their_bound() -> None:
    events = make_events(10)
    size = len(events[0].line)
    waiting = WaitingEvents(size * 6)
    assert waiting.add(events[:8]) == 2
    taken = waiting.take(3)
    assert taken == events[2:5]
    assert waiting.add(events[8:]) == 0
    assert waiting.put_back(taken) == 2
    assert waiting.take(100) == events[4:]
    assert waiting.bytes == 0


def test_a_core_without_outputs_calls_its_metrics_and_makes_no_event(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    metrics: Any = type("Metrics", (), {"observe_scan": lambda *_: calls.append("metrics")})()
    monkeypatch.setattr("gatepost.service.core.describe_scan", lambda *_, **__: calls.append("event"))
    idle = EventStream("n", [])
    idle.is_idle = True
    before = threading.active_count()
    for events in (NO_EVENTS, idle):
        _observe_scans(metrics, events, PoliciesInForce(unchanged_policies()), subjects=True)(RECORD, 0.1)
    assert calls == ["metrics", "metrics"]
    assert threading.active_count() == before
    idle.close()


def test_a_rule_that_was_stopped_for_three_messages_is_told_once_and_left_out() -> None:
    memory, metrics = Memory(), type("Metrics", (), {"observe_scan": lambda *_: None})()
    stream = EventStream("n", [memory])
    base = unchanged_policies().deployment
    rules = {"slow": OwnRule("known", "Slow", "spam"), "faulty": OwnRule("known", "Faulty", "spam")}
    own = Effective(msgspec.structs.replace(base.policy, rules=rules))
    policies = PoliciesInForce(Policies(own))
    observe = _observe_scans(metrics, stream, policies, subjects=True)
    lines = tuple(
        Line(LIMIT_RULE_FAILED.id, LIMIT_RULE_FAILED.title, "policy", {"rule": name, "reason": reason}, 0, 0, "clean")
        for name, reason in (("slow", f"{RULE_STOPPED}: it took 0.2 s"), ("faulty", "divide by zero"))
    )
    report = Report("clean", "deliver", (LIMIT_RULE_FAILED.id,), 0, "", lines=lines)
    for _ in range(4):
        observe(msgspec.structs.replace(RECORD, report=report), 0.1)
    stream.close()
    assert stream.emitted == {"message.scanned": 4, "rule.stopped": 1}
    assert tuple(policies.now.deployment.policy.rules) == ("faulty",)
