"""Which action follows a verdict: by the policy, never twice, never to strangers for a tenant, and never in doubt."""

import asyncio
from email import message_from_bytes, policy
from typing import Any

import msgspec
import pytest

from gatepost.analysis.report import FileSeen, Line, Outcome, Report
from gatepost.findings.kinds import FILE_EICAR, TITLES, URL_SHORTENER
from gatepost.guard.actions import ActionPlanner, Planned
from gatepost.mail.message import Envelope
from gatepost.mail.part_places import find_parts
from gatepost.policy.layers import Effective, Layer, Policies, lay_over
from gatepost.policy.rules import shipped_policy
from gatepost.scanning.request import Cut, ScanRequest, apply_edits
from gatepost.smtp.client import Tenancy

TENANT, OTHER = "0198c5a2-7c11-7d3e-9f00-0000000000a1", "0198c5a2-7c11-7d3e-9f00-0000000000a2"
HASH = "ab" * 32
RAW = (
    b'From: a@x.example\r\nMIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary="b"\r\n\r\n'
    b"--b\r\nContent-Type: text/plain\r\n\r\nhello\r\n"
    b'--b\r\nContent-Type: application/octet-stream; name="a.exe"\r\n\r\nMZ\r\n--b--\r\n'
)
DOMAINS = {"tenant.example": TENANT, "other.example": OTHER}


async def of_domain(_domain: str) -> str | None:
    return None


async def find(parts: tuple[str, ...]) -> tuple[Cut, ...]:
    return tuple(Cut(*place) for place in find_parts(RAW, parts))


def line(kind: Any, where: str, *, conclusive: bool = True, note: str = "") -> Line:
    return Line(kind.id, TITLES[kind.id], where, {}, 500, 500, "malware", conclusive=conclusive, note=note)


BAD = (line(FILE_EICAR, "1.2/a.exe"),)
FILES = (FileSeen("1.1", "text", 5, "cd" * 32), FileSeen("1.2/a.exe", "exe", 2, HASH, ("a.exe",)))


def plan(
    text: str,
    report: Report | None = None,
    *,
    tenant_text: str = "",
    tenant: str | None = TENANT,
    recipients: tuple[str, ...] = ("b@tenant.example",),
    unfit: str = "",
    find_parts: Any = find,
) -> Planned:
    deployment = lay_over(Effective(shipped_policy()), Layer("deployment", "d", text))
    tenants = {TENANT: lay_over(deployment, Layer("tenant", "t", tenant_text))} if tenant_text else {}
    request = ScanRequest("g", 0, Envelope("a@x.example", recipients, tenant=tenant), "smtp", unfit, can_act=True)
    planner = ActionPlanner(lambda: Policies(deployment, tenants), Tenancy(DOMAINS, of_domain))
    found = report or Report("malware", "quarantine", (), 0, "why", BAD, files=FILES)
    return asyncio.run(planner.plan(request, len(RAW), found, find_parts))


def test_tags_follow_the_verdict_and_only_with_its_decision() -> None:
    text = '[verdicts]\nspam = { action = "tag", mark = "[S] " }'
    spam = Report("spam", "quarantine", (), 0, "why")
    action = plan(text, spam).report.action
    assert action is not None
    assert (action.name, action.mark) == ("tag", "[S] ")
    assert plan(text, msgspec.structs.replace(spam, decision="drop")).report.action is None
    assert plan(text, msgspec.structs.replace(spam, verdict="bulk")).report.action is None
    assert plan(text, spam, unfit="too large").report.action is None


def test_a_rule_that_states_the_decision_stands() -> None:
    text = (
        '[verdicts]\npolicy = { action = "tag" }\n'
        '[rules.hold-it]\nwhen = "true"\ntitle = "t"\nverdict = "policy"\ndecision = "quarantine"'
    )
    held = Line("rule:hold-it", "t", "policy", {}, 0, 0, "policy", conclusive=True)
    assert plan(text, Report("policy", "quarantine", (), 0, "why", (held,))).report.action is None
    assert plan(text, Report("policy", "quarantine", (), 0, "why")).report.action is not None


@pytest.mark.parametrize(
    ("recipients", "redirected"),
    [(("b@tenant.example",), True), (("Held@Tenant.example",), False), (("held@tenant.example", "x@y.example"), True)],
)
def test_mail_to_an_action_mailbox_is_not_redirected_again(recipients: tuple[str, ...], redirected: bool) -> None:
    text = '[verdicts]\nspam = { action = "redirect", to = "held@tenant.example" }'
    spam = Report("spam", "quarantine", (), 0, "why")
    assert (plan(text, spam, recipients=recipients).report.action is not None) is redirected


def test_copies_are_not_made_for_those_who_get_the_message() -> None:
    text = '[verdicts]\nclean = { action = "copy", to = "copy@x.example" }'
    clean = Report("clean", "deliver", (), 0, "why")
    assert plan(text, clean).report.action is not None
    assert plan(text, clean, recipients=("b@tenant.example", "copy@x.example")).report.action is None


@pytest.mark.parametrize(
    ("stated", "mailbox", "failed"),
    [
        ("tenant", "held@tenant.example", False),
        ("tenant", "held@other.example", True),
        ("tenant", "held@stranger.example", True),
        ("deployment", "held@stranger.example", False),
    ],
)
def test_a_tenant_sends_to_its_own_domains_alone(stated: str, mailbox: str, failed: bool) -> None:
    text = f'[verdicts]\nspam = {{ action = "redirect", to = "{mailbox}" }}'
    layers = {"tenant_text": text} if stated == "tenant" else {}
    found = plan(text if stated == "deployment" else "", Report("spam", "quarantine", (), 0, "why"), **layers)  # type: ignore[arg-type]
    assert found.report.action is not None
    assert bool(found.report.action.failed) is failed


STRIP = '[verdicts]\nmalware = { action = "strip", mark = "[!] " }'


def test_strip_puts_a_notice_in_the_place_of_the_attachment() -> None:
    planned = plan(STRIP)
    action = planned.report.action
    assert action is not None
    assert [(file.name, file.size, file.sha256) for file in action.files] == [("a.exe", 2, HASH)]
    message = message_from_bytes(b"".join(apply_edits([RAW], planned.edits)), policy=policy.default)
    text, notice = message.iter_parts()
    assert text.get_content() == "hello"
    assert notice.get_content_type() == "text/plain"
    said = notice.get_content()
    for words in ("Name:    a.exe", "Size:    2 bytes", HASH, TITLES[FILE_EICAR.id], "reference g", "signatures"):
        assert words in said
    assert not message.defects


async def find_nothing(_parts: tuple[str, ...]) -> tuple[Cut, ...]:
    return ()


async def find_outside(_parts: tuple[str, ...]) -> tuple[Cut, ...]:
    return (Cut(0, 1 << 40, "1.2"),)


REPORT = Report("malware", "quarantine", (), 0, "why", BAD, files=FILES)


@pytest.mark.parametrize(
    ("report", "finder", "reason"),
    [
        (REPORT, find_nothing, "cannot be taken out without doubt"),
        (REPORT, find_outside, "cannot be taken out without doubt"),
        (msgspec.structs.replace(REPORT, lines=(line(FILE_EICAR, "message"),)), find, "name no file"),
        (msgspec.structs.replace(REPORT, lines=(*BAD, line(FILE_EICAR, "message"))), find, "still malware"),
        (msgspec.structs.replace(REPORT, outcomes=(Outcome("yara", "failed"),)), find, "did not run to its end"),
        (
            msgspec.structs.replace(REPORT, files=(*FILES, FileSeen("1.3/b.zip", "zip", 1, HASH, (), "encrypted"))),
            find,
            "a file that stays could not be read",
        ),
        (msgspec.structs.replace(REPORT, lines=(line(FILE_EICAR, "1.1"),)), find, "cannot be taken out"),
    ],
)
def test_in_doubt_the_message_is_held(report: Report, finder: Any, reason: str) -> None:
    planned = plan(STRIP, report, find_parts=finder)
    assert planned.edits == ()
    assert planned.report.action is not None
    assert reason in planned.report.action.failed


def test_what_an_allow_entry_cleared_does_not_count() -> None:
    cleared = line(URL_SHORTENER, "1.1", note="cleared by allowed-urls: x (global)", conclusive=False)
    planned = plan(STRIP, msgspec.structs.replace(REPORT, lines=(*BAD, cleared)))
    assert planned.edits
