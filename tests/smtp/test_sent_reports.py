"""Reports to others, from the message that is counted to the mail that carries them: their files say what was counted,
our own verifier proves them, and they go only where they are wanted."""

import asyncio
import gzip
from collections.abc import Callable, Iterator
from email import message_from_bytes
from email.policy import default
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import msgspec
import pytest
from tests.smtp.conftest import Hop

from gatepost.analysis.report import Report
from gatepost.auth import dkim
from gatepost.auth.dmarc_record import ReportUri, parse_report_uris
from gatepost.auth.results import Arc, Authentication, Dkim, Dmarc, Spf
from gatepost.auth.signature import SignedMessage
from gatepost.mail.message import Envelope
from gatepost.mail.reader import read
from gatepost.questions import Dns, DnsAnswer
from gatepost.service.signing import make_record, write_key
from gatepost.settings.delivery import SentReportSettings, SigningKeySettings
from gatepost.smtp import sent_reports
from gatepost.smtp.routing import Relay, Routing
from gatepost.smtp.sent_reports import (
    NAMESPACE,
    ReportGatherer,
    ReportSender,
    SeenMail,
    build_aggregate,
    describe_mail,
    find_destinations,
)
from gatepost.smtp.signing import SigningKeys
from gatepost.store import open_store
from gatepost.store.sent_reports import REPORT
from gatepost.store.store import Store
from gatepost.times import now

TODAY = now() // 86_400_000
SETTINGS = SentReportSettings(
    organization="Gate & Post", sender="reports@gate.example", contact="https://gate.example/"
)
DMARC = Dmarc("fail", "shop.x.example", "x.example", "reject")
FOUND = Authentication(
    "203.0.113.7",
    "border",
    Spf("pass", "bounce.esp.example"),
    (Dkim("fail", "x.example", "s1"), Dkim("pass", "esp.example", "k2")),
    DMARC,
    origin="outside",
)
ENVELOPE = Envelope("<evil>&@bounce.esp.example", ("b@y.example",), "203.0.113.7")


def judged(decision: str = "deliver", found: Authentication = FOUND) -> Report:
    return Report("clean", decision, (), 0, "", authentication=found)  # type: ignore[arg-type]


def text_of(element: ET.Element, path: str) -> str | None:
    return element.findtext("/".join(f"{{{NAMESPACE}}}{step}" for step in path.split("/")))


def change(**fields: Any) -> Authentication:
    return msgspec.structs.replace(FOUND, **fields)


def test_what_is_told_of_a_message() -> None:
    assert describe_mail(judged(), ENVELOPE) == (
        "x.example",
        SeenMail(
            *("203.0.113.7", "shop.x.example", "bounce.esp.example", "none", False, False, "local_policy"),
            (("esp.example", "k2", "pass"), ("x.example", "s1", "fail")),
            "bounce.esp.example",
            "pass",
        ),
    )


@pytest.mark.parametrize(
    ("decision", "found", "disposition", "override"),
    [
        ("deliver", FOUND, "none", "local_policy"),
        ("quarantine", FOUND, "quarantine", "local_policy"),
        ("bounce", FOUND, "reject", ""),
        ("drop", FOUND, "reject", ""),
        ("deliver", change(arc=Arc("pass")), "none", "trusted_forwarder"),
        ("quarantine", change(dmarc=Dmarc("fail", "x.example", "x.example", "none")), "none", ""),
        ("bounce", change(dmarc=Dmarc("fail", "x.example", "x.example", "quarantine")), "quarantine", ""),
        ("quarantine", change(dmarc=Dmarc("pass", "x.example", "x.example", "reject", True)), "pass", ""),
    ],
)
def test_what_was_done_by_the_policy_and_not_for_other_reasons(
    decision: str, found: Authentication, disposition: str, override: str
) -> None:
    described = describe_mail(judged(decision, found), ENVELOPE)
    assert described
    assert (described[1].disposition, described[1].override) == (disposition, override)


@pytest.mark.parametrize(
    ("report", "envelope"),
    [
        (judged("undecided"), ENVELOPE),
        (judged(found=change(dmarc=Dmarc("none", "x.example"))), ENVELOPE),
        *((judged(found=change(origin=origin)), ENVELOPE) for origin in ("unknown", "own network", "logged in")),
    ],
)
def test_what_is_not_counted(report: Report, envelope: Envelope) -> None:
    assert describe_mail(report, envelope) is None


@pytest.mark.parametrize(
    ("text", "uris"),
    [
        ("mailto:a@x.example", (ReportUri("a@x.example"),)),
        (
            "mailto:a@x.example!10m, MAILTO:b@x.example!5",
            (ReportUri("a@x.example", 10 << 20), ReportUri("b@x.example", 5)),
        ),
        ("mailto:a@x.example!2K,mailto:A@X.example", (ReportUri("a@x.example", 2_048),)),
        ("https://x.example/r, mailto:, mailto:x, mailto:a@", ()),
        ("mailto:a%2Bb@x.example", (ReportUri("a+b@x.example"),)),
        ('mailto:a%0D%0ARCPT@x.example, mailto:<a>@x.example, mailto:"a b"@x.example', ()),
        (",".join(f"mailto:a{n}@x.example" for n in range(99)), tuple(ReportUri(f"a{n}@x.example") for n in range(5))),
        ("mailto:a@x.example?subject=x", ()),
    ],
)
def test_destinations_of_a_record(text: str, uris: tuple[ReportUri, ...]) -> None:
    assert parse_report_uris(text) == uris


def answer(records: dict[str, str]) -> Callable[[Dns], Any]:
    async def ask(question: Dns) -> DnsAnswer:
        found = records.get(question.name)
        if found == "failed":
            return DnsAnswer("failed")
        return DnsAnswer("found", (found,)) if found else DnsAnswer("no-name")

    return ask


OUTSIDE = "v=DMARC1; p=none; rua=mailto:a@other.example"


@pytest.mark.parametrize(
    ("records", "uris", "is_open"),
    [
        ({}, (), False),
        ({"_dmarc.x.example": "failed"}, (), True),
        ({"_dmarc.x.example": "v=DMARC1; p=none"}, (), False),
        (
            {"_dmarc.x.example": "v=DMARC1; rua=mailto:a@mail.x.example!1k"},
            (ReportUri("a@mail.x.example", 1_024),),
            False,
        ),
        ({"_dmarc.x.example": OUTSIDE}, (), False),
        ({"_dmarc.x.example": OUTSIDE, "x.example._report._dmarc.other.example": "v=spf1"}, (), False),
        ({"_dmarc.x.example": OUTSIDE, "x.example._report._dmarc.other.example": "failed"}, (), True),
        (
            {"_dmarc.x.example": OUTSIDE, "x.example._report._dmarc.other.example": "v=DMARC1"},
            (ReportUri("a@other.example"),),
            False,
        ),
        (
            {
                "_dmarc.x.example": OUTSIDE,
                "x.example._report._dmarc.other.example": "v=DMARC1; rua=mailto:b@other.example",
            },
            (ReportUri("b@other.example"),),
            False,
        ),
        (
            {
                "_dmarc.x.example": OUTSIDE,
                "x.example._report._dmarc.other.example": "v=DMARC1; rua=mailto:victim@third.example",
            },
            (),
            False,
        ),
    ],
)
def test_destinations_elsewhere_have_to_agree(
    records: dict[str, str], uris: tuple[ReportUri, ...], is_open: bool
) -> None:
    found = asyncio.run(find_destinations("x.example", answer(records)))
    assert (found.uris, found.is_open) == (uris, is_open)


def test_the_elements_stand_in_the_order_of_the_schema() -> None:
    described = describe_mail(judged(), ENVELOPE)
    assert described
    rows = [(msgspec.json.encode(described[1]).decode(), 3), ("", 2)]
    record = "v=DMARC1; p=reject; sp=oops; adkim=S; t=y; fo=1:d; rua=mailto:a@x.example"
    built = build_aggregate(SETTINGS, "x.example", record, rows, TODAY)
    assert built.name == f"gate.example!x.example!{TODAY * 86_400}!{TODAY * 86_400 + 86_399}!{built.report_id}.xml.gz"
    assert build_aggregate(SETTINGS, "x.example", record, rows, TODAY) == built, "a second try is the same file"
    root = ET.fromstring(gzip.decompress(built.content))
    assert root.tag == f"{{{NAMESPACE}}}feedback"

    def names(path: str) -> list[str]:
        found = root.find("/".join(f"{{{NAMESPACE}}}{each}" for each in path.split("/"))) if path else root
        assert found is not None
        return [each.tag.removeprefix(f"{{{NAMESPACE}}}") for each in found]

    assert names("") == ["version", "report_metadata", "policy_published", "record"]
    assert names("report_metadata") == [
        *("org_name", "email", "extra_contact_info", "report_id", "date_range", "error", "generator")
    ]
    assert names("policy_published") == [
        *("domain", "discovery_method", "p", "sp", "np", "fo", "adkim", "aspf", "testing")
    ]
    assert names("record") == ["row", "identifiers", "auth_results"]
    assert names("record/row") == ["source_ip", "count", "policy_evaluated"]
    assert names("record/row/policy_evaluated") == ["disposition", "dkim", "spf", "reason"]
    assert names("record/identifiers") == ["header_from", "envelope_from"]
    assert names("record/auth_results") == ["dkim", "dkim", "spf"]
    assert names("record/auth_results/dkim") == ["domain", "selector", "result"]
    assert names("record/auth_results/spf") == ["domain", "scope", "result"]
    published = {each.tag.partition("}")[2]: each.text for each in root[2]}
    assert published == {
        "domain": "x.example",
        "discovery_method": "treewalk",
        "p": "reject",
        "sp": "reject",
        "np": "reject",
        "fo": "1:d",
        "adkim": "s",
        "aspf": "r",
        "testing": "y",
    }


class Deployment:
    """A store, a next hop and a key of our own."""

    def __init__(self, store: Store, hop: Hop, port: int, folder: Path) -> None:
        self.store, self.hop = store, hop
        self.relay = Relay(f"smtp://127.0.0.1:{port}", "off", "gw.gate.example")
        self.key = write_key(folder / "key.pem", "ed25519")
        self.keys = SigningKeys(
            [SigningKeySettings(domain="gate.example", selector="s1", file=str(folder / "key.pem"))]
        )
        self.records: dict[str, str] = {"_dmarc.x.example": "v=DMARC1; p=reject; rua=mailto:rua@x.example"}

    def gatherer(self, settings: SentReportSettings = SETTINGS) -> ReportGatherer:
        return ReportGatherer(self.store.sent_reports, settings, lambda: (TODAY - 1) * 86_400.0)

    async def send(self, settings: SentReportSettings = SETTINGS) -> dict[str, int]:
        async def no_pause(_seconds: float) -> None:
            return None

        sender = ReportSender(
            self.store.sent_reports,
            self.store.jobs,
            Routing.through(self.relay),
            self.keys,
            settings,
            answer(self.records),
            pause=no_pause,
        )
        return dict[str, int]((await sender.run()).items())

    def proves(self, raw: bytes) -> list[str]:
        """The results of the signatures of a mail, by a verifier with our key in DNS."""
        message = read(raw)
        asking = dkim.verify(SignedMessage(message.raw, message.header_end, message.headers.fields), now() / 1_000)
        try:
            questions = next(asking)
            while True:
                questions = asking.send(tuple(DnsAnswer("found", (make_record(self.key),)) for _ in questions))
        except StopIteration as stop:
            return [f"{each.result} {each.domain}" for each in stop.value]


@pytest.fixture
def made(tmp_path: Path, loop_runner: asyncio.Runner) -> Iterator[Deployment]:
    store, hop = open_store(f"sqlite:{tmp_path / 'g.db'}", tmp_path), Hop()
    made = Deployment(store, hop, loop_runner.run(hop.start()), tmp_path)
    yield made
    for part in (made.relay.close(), hop.stop(), store.close()):
        loop_runner.run(part)


async def test_messages_of_a_day_become_one_report_that_says_what_was_counted(made: Deployment) -> None:
    gatherer = made.gatherer()
    for _ in range(3):
        gatherer.note_mail(judged("bounce"), ENVELOPE)
    passed = Dmarc("pass", "x.example", "x.example", "reject", dkim_aligned=True)
    gatherer.note_mail(judged(found=change(dmarc=passed, host="2001:db8::5")), ENVELOPE)
    gatherer.note_mail(judged(found=change(dmarc=Dmarc("fail", "silent.example", "silent.example"))), ENVELOPE)
    await gatherer.flush()
    assert await made.send() == {"sent": 1, "unwanted": 1}
    assert await made.send() == {}, "once"
    (raw,) = made.hop.messages
    assert "RCPT TO:<rua@x.example>" in made.hop.lines
    assert made.proves(raw) == ["pass gate.example"]
    mail = message_from_bytes(raw, policy=default)
    attached = next(part for part in mail.walk() if part.get_filename())
    assert attached.get_content_type() == "application/gzip"
    report = ET.fromstring(gzip.decompress(attached.get_content()))
    report_id = text_of(report, "report_metadata/report_id")
    subject = f"Report Domain: x.example Submitter: gate.example Report-ID: <{report_id}@gate.example>"
    assert mail["Subject"] == subject
    assert (mail["Auto-Submitted"], mail["From"]) == ("auto-generated", "reports@gate.example")
    assert text_of(report, "policy_published/domain") == "x.example"
    assert text_of(report, "policy_published/p") == "reject"
    assert text_of(report, "report_metadata/org_name") == "Gate & Post"
    assert text_of(report, "report_metadata/date_range/begin") == str((TODAY - 1) * 86_400)
    evaluated = "row/policy_evaluated"
    shown = ("row/source_ip", "row/count", f"{evaluated}/dkim", f"{evaluated}/spf", f"{evaluated}/disposition")
    assert [[text_of(row, path) for path in shown] for row in report.iter(f"{{{NAMESPACE}}}record")] == [
        ["203.0.113.7", "3", "fail", "fail", "reject"],
        ["2001:db8::5", "1", "pass", "fail", "pass"],
    ]
    listed = {each.domain: (each.state, each.messages) for each in await made.store.sent_reports.listed(0)}
    assert listed == {"x.example": ("sent", 4), "silent.example": ("unwanted", 1)}


async def test_a_next_hop_that_is_away_is_tried_again_with_the_same_report(
    made: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sent_reports, "RETRY_MILLISECONDS", -1)
    monkeypatch.setattr(sent_reports, "MAX_ATTEMPTS", 3)
    gatherer = made.gatherer()
    gatherer.note_mail(judged(), ENVELOPE)
    await gatherer.flush()
    made.records["_dmarc.x.example"] = "failed"
    made.hop.says["RCPT"] = "450 4.2.0 later"
    # A report that waits is due again at once here, so a run goes on until it is given up.
    assert await made.send() == {"waiting": 2, "failed": 1}
    (listed,) = await made.store.sent_reports.listed(0)
    assert (listed.state, listed.reason) == ("failed", "DNS does not answer")
    gatherer.note_mail(judged(), ENVELOPE)
    await gatherer.flush()
    made.records["_dmarc.x.example"] = "v=DMARC1; rua=mailto:rua@x.example"
    made.hop.says["RCPT"] = "550 5.1.1 nobody"
    assert await made.send() == {"failed": 1}
    assert made.hop.messages == []


async def test_limits_hold(made: Deployment) -> None:
    settings = SETTINGS.model_copy(update={"max_per_day": 1, "exclude": ["quiet.example"]})
    gatherer = made.gatherer(settings)
    for domain in ("x.example", "z.example", "quiet.example"):
        made.records[f"_dmarc.{domain}"] = f"v=DMARC1; rua=mailto:a@{domain}!100,mailto:b@{domain}!1m"
        gatherer.note_mail(judged(found=change(dmarc=Dmarc("fail", domain, domain, "none"))), ENVELOPE)
    await gatherer.flush()
    assert await made.send(settings=settings) == {"sent": 1}
    assert await made.send(settings=settings) == {}
    assert [line for line in made.hop.lines if line.startswith("RCPT")] == ["RCPT TO:<b@x.example>"], (
        "a takes 100 bytes"
    )
    assert await made.store.sent_reports.rows(TODAY - 1, "quiet.example") == ()
    assert len(await made.store.sent_reports.rows(TODAY - 1, "z.example")) == 1


async def test_another_node_that_sends_is_left_alone(made: Deployment) -> None:
    gatherer = made.gatherer()
    gatherer.note_mail(judged(), ENVELOPE)
    await gatherer.flush()
    async with made.store.jobs.take(REPORT) as held:
        assert held
        assert await made.send() == {}
    assert await made.send() == {"sent": 1}


async def test_a_process_counts_within_bounds(made: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sent_reports, "MAX_GATHERED", 2)
    gatherer = made.gatherer()
    for number in range(4):
        gatherer.note_mail(judged(found=change(host=f"203.0.113.{number}")), ENVELOPE)
    gatherer.note_mail(judged(found=change(host="203.0.113.0")), ENVELOPE)
    assert gatherer.dropped == 2
    long = tuple(Dkim("pass", "d" * 253, "s" * 100) for _ in range(9))
    await gatherer.flush()
    gatherer.note_mail(judged(found=change(dkim=long, host="203.0.113.9")), ENVELOPE)
    await gatherer.flush()
    rows = await made.store.sent_reports.rows(TODAY - 1, "x.example")
    assert sorted(count for _, count in rows) == [1, 1, 2]
    assert max(len(detail) for detail, _ in rows) <= sent_reports.MAX_DETAIL
