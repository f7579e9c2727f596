from decimal import Decimal

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from gatepost.abby.messages import describe_message
from gatepost.analysis.report import FileSeen, Line, Outcome, Report
from gatepost.api.scanning import AnalysedMessage, encode_scanning
from gatepost.auth.results import Arc, Authentication, Dkim, Dmarc, Spf
from gatepost.mail.message import Envelope
from gatepost.store.message_records import MessageRecord


def record(report: Report) -> MessageRecord:
    envelope = Envelope("a@b.example", ("c@d.example",), "192.0.2.1", "mx", None)
    return MessageRecord("0198c5a2-7c11-7d3e-9f00-00000000aa01", 1, 2, envelope, 3, "0" * 64, report)


def line(counted: int) -> Line:
    return Line(kind="a:b", title="t", where="w", facts={}, weight=counted, counted=counted, verdict="spam")


@given(st.lists(st.integers(-100_000, 100_000)))
def test_what_counted_adds_up_to_the_score_on_the_wire(points: list[int]) -> None:
    report = Report("spam", "quarantine", ("a:b",), sum(points), "", lines=tuple(map(line, points)))
    wire = encode_scanning(describe_message(record(report)))
    found = msgspec.json.decode(wire, type=AnalysedMessage)
    assert sum((entry.counted for entry in found.ledger.findings), Decimal(0)) == found.ledger.score
    assert found.ledger.score * 100 == sum(points)


def test_everything_of_a_report_is_there() -> None:
    authentication = Authentication(
        host="192.0.2.1",
        host_source="border",
        spf=Spf("pass", "b.example"),
        dkim=(Dkim("fail", "b.example", "s", "rsa-sha256", "body hash"), Dkim("pass")),
        dmarc=Dmarc("pass", "b.example", "b.example", "reject", spf_aligned=True),
        arc=Arc("pass", 2, ("x.example", "y.example")),
    )
    report = Report(
        "clean",
        "deliver",
        (),
        0,
        "nothing",
        outcomes=(Outcome("check:x", "skipped", "it stalled"),),
        authentication=authentication,
        files=(FileSeen("1.2/a.zip", "application/zip", 5, "1" * 64, ("a.zip",), "encrypted"),),
        subject="s",
        senders=("a@b.example",),
    )
    found = msgspec.json.decode(encode_scanning(describe_message(record(report))))
    assert found["tenantUid"] is None
    assert found["borderMtaData"]["envelopeRecipients"] == ["c@d.example"]
    assert found["ledger"]["outcomes"] == [{"stage": "check:x", "state": "skipped", "reason": "it stalled"}]
    assert [signature["result"] for signature in found["authentication"]["dkim"]] == ["fail", "pass"]
    assert found["authentication"]["dmarc"]["spfAligned"] is True
    assert found["authentication"]["arc"]["sealers"] == ["x.example", "y.example"]
    assert found["files"][0]["unread"] == "encrypted"
