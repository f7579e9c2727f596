"""Every event is one line of JSON, whatever strangers put into its fields."""

import json
import unicodedata
from typing import Any, get_args

import msgspec
import pytest

from gatepost.analysis.report import FileSeen, Report
from gatepost.events.schema import (
    EVENTS,
    MAX_LINE,
    MAX_TEXT,
    SCHEMA,
    AuditRecorded,
    EventActor,
    EventFields,
    HealthChanged,
    MessageScanned,
    UserSignInFailed,
    bound,
    describe_schema,
    encode_event,
    kind_of,
    severity_of,
)
from gatepost.events.sources import describe_change, describe_scan
from gatepost.ids import id_time, new_id
from gatepost.lists.rulings import Subject
from gatepost.mail.message import Envelope
from gatepost.settings.events import EventKind
from gatepost.store.audit import Actor, AuditRecord
from gatepost.store.message_records import MessageRecord
from gatepost.times import milliseconds

HOSTILE = [
    "one\ntwo\r\nthree\x00",
    "\x1b[2J\x1b]0;title\x07",
    "<34>1 2030-01-01T00:00:00Z x y - - - forged",
    "12 <34>1 forged",
    "\u202egnp.exe\u2066",
    "a\u2028b\u2029c\x85d\x7f",
    "\ud800 alone",
    '"},"event":"node.state","x":{"',
    "x" * 10_000,
    "\u200f" * 10_000,
    "\U0001f600" * 10_000,
    "\U000e0041" * 10_000,
]
KEY_ID = "019a7d5e-0000-7000-8000-000000000001"


def scanned(text: str) -> MessageScanned:
    envelope = Envelope(text, (text,) * 1_000, "192.0.2.1", text, None)
    links = tuple(Subject("link", f"host{number}.example/path?q={text}", "") for number in range(1_000))
    files = (FileSeen(text, text, 5, "ab" * 32, (text,)),) * 1_000
    report = Report(
        "phishing", "quarantine", ("list:" + "x" * 63,) * 1_000, 1234, text, files=files, subject=text,
        senders=(text,) * 1_000, subjects=(*links, Subject("host", "192.0.2.7", "")),
    )  # fmt: skip
    record = MessageRecord(KEY_ID, 1, 2, envelope, 99, "cd" * 32, report, source="smtp")
    return describe_scan(record, 0.0123, subjects=True)


def changed(action: str, *sample: str, count: int = 1) -> EventFields:
    record = AuditRecord(1, 1, Actor("user", sample[0], sample[0]), action, None, sample[0], count, sample)
    event = describe_change(record)
    assert event is not None
    return event


def hostile_events(text: str) -> list[EventFields]:
    return [
        scanned(text),
        changed("entries.add", text, text),
        changed("quarantine.release", text, *[text] * 900, count=900),
        changed("message.reported", text, text),
        changed("apikey.create", f"{text} {KEY_ID}"),
        UserSignInFailed(user=bound(text), address=bound(text), reason="password"),
        HealthChanged(component="storage", before="ok", after="failed", reason=bound(text)),
    ]


@pytest.mark.parametrize("text", HOSTILE)
def test_nothing_breaks_a_line(text: str) -> None:
    for event in hostile_events(text):
        line = encode_event(event, "node.example").line
        shown = line.decode()
        assert len(line) <= MAX_LINE
        assert len(shown.splitlines()) == 1
        assert not [char for char in shown if unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp")]
        decoded = json.loads(shown)
        assert decoded["event"] == kind_of(event)
        assert decoded["node"] == "node.example"


def test_text_arrives_as_it_was() -> None:
    event = json.loads(encode_event(scanned("a\u202eb\x7f\x85\n"), "n").line)
    assert event["subject"] == "a\u202eb\x7f\x85\n"
    assert event["envelopeFrom"] == "a\u202eb\x7f\x85\n"


def test_what_was_cut_is_counted_and_marked() -> None:
    event: dict[str, Any] = json.loads(encode_event(scanned("x" * 300), "n").line)
    assert event["subject"] == "x" * (MAX_TEXT - 1) + "…"
    assert (len(event["recipients"]), event["recipientCount"]) == (20, 1_000)
    assert (len(event["linkHosts"]), event["linkHostCount"]) == (20, 1_000)
    assert (len(event["files"]), event["fileCount"]) == (20, 1_000)
    assert event["linkHosts"][0] == "host0.example"
    assert event["host"] == "192.0.2.7"
    assert event["score"] == 12.34
    assert event["milliseconds"] == 12.3


def test_the_subject_can_be_left_out() -> None:
    record = MessageRecord(KEY_ID, 1, 2, Envelope(), 9, "", Report("spam", "deliver", (), 0, "", subject="secret"))
    assert b"secret" not in encode_event(describe_scan(record, 0, subjects=False), "n").line


def test_what_every_event_has() -> None:
    event = encode_event(HealthChanged(component="storage", before="ok", after="failed"), "n")
    decoded = json.loads(event.line)
    assert list(decoded)[:5] == ["schema", "event", "id", "at", "node"]
    assert (decoded["schema"], decoded["id"], decoded["at"]) == (SCHEMA, event.id, event.at)
    assert milliseconds(event.at) == id_time(event.id)
    assert new_id() > event.id


def test_the_set_of_kinds_is_closed() -> None:
    assert [each.__struct_config__.tag for each in EVENTS] == list(get_args(EventKind))


def test_lines_decode_to_the_values_they_were_made_of() -> None:
    event = changed("entries.add", "blocked-senders")
    again = msgspec.json.decode(encode_event(event, "n").line, type=type(event))
    assert again == event


def test_a_change_without_a_kind_of_its_own_is_an_audit_event() -> None:
    event = describe_change(AuditRecord(1, 1, Actor("cli"), "tenant.create", None, "", 1, ("x",)))
    assert event == AuditRecorded(action="tenant.create", by=EventActor(kind="cli"), count=1, sample=("x",))
    assert describe_change(AuditRecord(1, 1, Actor("user"), "user.signIn", None, "", 1, ("x",))) is None


def test_rules_and_looks_back_are_read_from_the_audit_trail() -> None:
    rule = json.loads(encode_event(changed("rule.change", "no-offers", "before: x", "now: y", "version 4"), "n").line)
    assert (rule["event"], rule["rule"], rule["version"]) == ("policy.published", "no-offers", "4")
    found = json.loads(encode_event(changed("lookBack.found", "", f"{KEY_ID}\na@x.example\nb@x.example"), "n").line)
    assert found["messages"] == [{"ggrid": KEY_ID, "recipients": ["a@x.example", "b@x.example"]}]
    assert "model" not in found
    taught = json.loads(encode_event(changed("lookBack.found", "7", KEY_ID), "n").line)
    assert (taught["model"], taught["messages"]) == ("7", [{"ggrid": KEY_ID}])


def test_keys_and_releases_are_read_from_the_audit_trail() -> None:
    key = json.loads(encode_event(changed("apikey.revoke", f"a name with spaces {KEY_ID}"), "n").line)
    assert (key["event"], key["keyId"], key["name"]) == ("key.revoked", KEY_ID, "a name with spaces")
    release = json.loads(encode_event(changed("quarantine.release", KEY_ID, new_id(), "a@b.example"), "n").line)
    assert (release["ggrid"], release["recipients"]) == (KEY_ID, ["a@b.example"])


def test_severities() -> None:
    failed = UserSignInFailed(address="192.0.2.1", reason="password")
    assert severity_of(failed) == "info"
    assert severity_of(msgspec.structs.replace(failed, locked_until="2030-01-01T00:00:00.000Z")) == "warning"
    assert severity_of(HealthChanged(component="storage", before="ok", after="failed")) == "error"
    assert severity_of(HealthChanged(component="storage", before="failed", after="ok")) == "notice"


def test_the_schema_names_every_kind_and_no_secret() -> None:
    schema = describe_schema()
    assert len(schema["oneOf"]) == len(EVENTS)
    names = {name.lower() for each in schema["$defs"].values() for name in each["properties"]}
    assert not names & {"secret", "token", "password", "body", "text", "content"}
    assert EventActor.__name__ in schema["$defs"]
