"""Rules of the operator: read from a policy file, applied after the checks, judged again without the message."""

import msgspec
import pytest
from tests.asking import run_asking

from gatepost.analysis.analyse import analyse
from gatepost.analysis.report import Report
from gatepost.analysis.stages import Context
from gatepost.checks import composites as conditional_findings
from gatepost.lists.rulings import NO_RULING
from gatepost.mail.message import Envelope
from gatepost.policy.layers import Effective, Layer, lay_over, read_policy_file
from gatepost.policy.rules import MAX_RULES, Policy, rule_of, shipped_policy, title_of
from gatepost.questions import DnsAnswer, Lookup, LookupAnswer
from gatepost.rejudge.judging import rejudge

RULES = """
[rules.shortened]
when = '"url:shortener" in tags && sender_organisation == "shop.com"'
title = "Our shop never shortens links"
verdict = "phishing"
weight = 7.0

[rules.by-field]
when = '"x-campaign" in headers'
title = "A field of the newsletter program"
verdict = "bulk"
weight = 1.0

[rules.never]
when = 'subject == "something else"'
title = "Does not hold"
verdict = "policy"
conclusive = true

[rules.broken]
when = 'headers["x-absent"][0] == "x"'
title = "Cannot be evaluated"
verdict = "spam"
weight = 1.0
"""
MAIL = (
    b"From: Ann <ann@news.shop.com>\r\nTo: bob@house.com\r\nSubject: Offer\r\nX-Campaign: 7\r\n"
    b"Date: Sun, 15 Nov 2026 10:00:00 +0000\r\nMessage-ID: <1@shop.com>\r\n\r\nhttps://bit.ly/abc\r\n"
)


def policy(text: str = RULES) -> Policy:
    return lay_over(Effective(shipped_policy()), Layer("deployment", "policy.toml", text)).policy


def report_on(raw: bytes, with_policy: Policy) -> Report:
    envelope = Envelope("ann@news.shop.com", ("bob@house.com",), "192.0.2.9", "mail.shop.com")
    analysis = analyse(raw, envelope, Context(1_794_736_800.0, policy=with_policy))
    return run_asking(analysis, lambda each: LookupAnswer() if isinstance(each, Lookup) else DnsAnswer("no-name"))


def test_rules_are_findings_and_decide() -> None:
    report = report_on(MAIL, policy())
    assert report.verdict == "phishing"
    assert {"rule:shortened", "rule:by-field", "limit:rule-failed"} <= set(report.tags)
    assert "rule:never" not in report.tags
    (line,) = [line for line in report.lines if line.kind == "rule:shortened"]
    assert line.title == "Our shop never shortens links"
    assert line.override == "rule of the deployment"
    assert line.facts["condition"].startswith('"url:shortener" in tags')
    (failed,) = [line for line in report.lines if line.kind == "limit:rule-failed"]
    assert failed.facts["rule"] == "broken"
    assert "x-absent" in failed.facts["reason"]
    assert sum(each.counted for each in report.lines) == report.score


def test_without_rules_nothing_changes() -> None:
    report = report_on(MAIL, shipped_policy())
    assert not any(tag.startswith("rule:") for tag in report.tags)


def test_a_tenant_changes_a_rule_of_the_deployment() -> None:
    below = lay_over(Effective(shipped_policy()), Layer("deployment", "d.toml", RULES))
    above = lay_over(below, Layer("tenant", "t.toml", "[rules.shortened]\nweight = 0.0\n"))
    assert above.policy.rules["shortened"].weight == 0.0
    assert above.policy.rules["shortened"].when == below.policy.rules["shortened"].when
    assert [origin.level for origin in above.origins("rules", "shortened", "weight")] == [
        "shipped",
        "deployment",
        "tenant",
    ]


def test_a_stored_result_is_judged_by_new_rules() -> None:
    stored = report_on(MAIL, shipped_policy())
    assert stored.decision == "deliver"
    judged = rejudge(stored, policy(), NO_RULING)
    assert judged.verdict == "phishing"
    assert "rule:by-field" not in judged.tags, "header fields are not stored"
    old = report_on(MAIL, policy())
    assert "rule:by-field" in rejudge(old, policy(), NO_RULING).tags, "what it said then is kept"
    assert not any(tag.startswith("rule:") for tag in rejudge(old, shipped_policy(), NO_RULING).tags)
    assert rejudge(old, policy(), NO_RULING).verdict == "phishing"


@pytest.mark.parametrize(
    ("text", "key", "words"),
    [
        ("[rules.a]\nwhen = 'true'\n", "rules.a.title", "is required, since this rule is new"),
        ("[rules.a]\nwhen = 'sendr'\ntitle='x'\nverdict='spam'\n", "rules.a.when", "undeclared reference"),
        ("[rules.a]\nwhen = 'true'\ntitle=''\nverdict='spam'\n", "rules.a.title", "between 1 and"),
        ("[rules.a]\nwhen = 'true'\ntitle='x'\nverdict='bad'\n", "rules.a.verdict", "must be one of"),
        ("[rules.a]\nwhen = 'true'\ntitle='x'\nverdict='spam'\nweight=-1\n", "rules.a.weight", "between 0 and"),
        ("[rules.a]\nwhen = 'true'\ntitle='x'\nverdict='spam'\ngroup='g'\n", "rules.a.group", "no such group"),
        ("[rules.A]\nwhen = 'true'\ntitle='x'\nverdict='spam'\n", "rules.A", "is not a known rule name"),
        ("[rules.a]\nwhen = 1\ntitle='x'\nverdict='spam'\n", "rules.a.when", "must be a text"),
        (
            "".join(f"[rules.r{n}]\nwhen='true'\ntitle='x'\nverdict='spam'\n" for n in range(MAX_RULES + 1)),
            "rules",
            "has more than 200 rules",
        ),
    ],
)
def test_faulty_rules_are_refused(text: str, key: str, words: str) -> None:
    mistakes = read_policy_file(text, shipped_policy()).mistakes
    assert any(".".join(each.key) == key and words in each.sentence for each in mistakes), mistakes


def test_all_rules_together_have_a_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conditional_findings, "MAX_SECONDS", -1.0)
    report = report_on(MAIL, policy())
    (failed,) = [line for line in report.lines if line.kind == "limit:rule-failed"]
    assert failed.facts["rule"] == "shortened"
    assert "rule:shortened" not in report.tags


def test_a_rule_travels_to_a_worker() -> None:
    own = policy()
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(own), type=Policy) == own


def test_titles_and_weights_of_rules_that_are_gone() -> None:
    assert rule_of("rule:gone", shipped_policy()).weight == 0.0
    assert title_of("rule:gone", shipped_policy()) == "The rule gone of the operator holds"
    assert title_of("list:ours", shipped_policy()) == "An entry of ours matches"
