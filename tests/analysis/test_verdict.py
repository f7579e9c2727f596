"""The judge: what counted adds up, caps hold, and the most severe verdict that is reached is given."""

import tomllib

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gatepost.analysis.report import Outcome
from gatepost.analysis.verdict import ATTACKS, NEVER_EXCUSED, Judgement, judge
from gatepost.findings import kinds
from gatepost.findings.kinds import Finding
from gatepost.lists.rulings import Match, Ruling, Subject
from gatepost.policy.layers import override
from gatepost.policy.rules import VERDICTS, convert_policy, shipped_policy
from gatepost.questions import Hit

POLICY = convert_policy(
    tomllib.loads("""
[verdicts]
malware = {decision = "drop"}
phishing = {decision = "quarantine", threshold = 5, own = 3}
fraud = {decision = "quarantine"}
spoofing = {decision = "quarantine"}
unscannable = {decision = "quarantine"}
policy = {decision = "bounce"}
suspicious = {decision = "quarantine", threshold = 5, own = 3}
spam = {decision = "quarantine", threshold = 4, own = 2}
bulk = {decision = "deliver"}
clean = {decision = "deliver"}
[groups]
pair = {cap = 3, description = "two of a kind"}
[kinds]
"a:virus" = {weight = 10, verdict = "malware", conclusive = true}
"a:lure" = {weight = 2, verdict = "phishing", group = "pair"}
"a:trick" = {weight = 2.5, verdict = "phishing", group = "pair"}
"a:odd" = {weight = 2, verdict = "suspicious"}
"a:spam" = {weight = 4, verdict = "spam"}
"a:bit" = {weight = 1.5, verdict = "spam"}
"a:list" = {weight = 0, verdict = "bulk", conclusive = true}
"a:good" = {weight = -2, verdict = "clean"}
"recipient:report-mailbox" = {weight = 0, verdict = "clean"}
""")
)


def judged(*kinds: str, outcomes: tuple[Outcome, ...] = ()) -> Judgement:
    return judge([Finding(kind, "here") for kind in kinds], outcomes, POLICY)


@pytest.mark.parametrize(
    ("kinds", "verdict", "score"),
    [
        ((), "clean", 0),
        (("a:odd",), "clean", 200),
        (("a:spam",), "spam", 400),
        (("a:spam", "a:good"), "clean", 200),
        (("a:lure", "a:trick"), "clean", 300),  # the cap: 4.5 became 3
        (("a:lure", "a:trick", "a:odd"), "phishing", 500),
        (("a:lure", "a:spam"), "spam", 600),  # enough in all, and most of it speaks for spam
        (("a:lure", "a:odd", "a:bit"), "suspicious", 550),  # enough in all, and nothing names it
        (("a:lure", "a:odd", "a:bit", "a:list"), "suspicious", 550),
        (("a:virus",), "malware", 1000),
        (("a:list",), "bulk", 0),
        (("a:list", "a:spam"), "spam", 400),
        (("a:spam", "a:spam"), "spam", 400),  # a kind counts once
    ],
)
def test_verdicts(kinds: tuple[str, ...], verdict: str, score: int) -> None:
    judgement = judged(*kinds)
    assert (judgement.verdict, judgement.score) == (verdict, score)


def test_the_decision_is_the_policy_s() -> None:
    assert judged("a:virus").decision == "drop"


def test_a_stage_that_did_not_run_is_never_clean() -> None:
    broken = (Outcome("check:links", "failed", "it crashed"),)
    assert judged("a:spam", outcomes=broken).verdict == "unscannable"
    assert judged("a:virus", outcomes=broken).verdict == "malware"
    assert "check:links" in judged(outcomes=broken).reason


@pytest.mark.parametrize(
    ("kinds", "decision"),
    [(("a:lure", "a:trick", "a:odd"), "deliver"), (("a:virus",), "drop"), (("a:odd",), "deliver")],
)
def test_mail_to_those_who_take_reports_is_delivered_unless_it_is_malware(
    kinds: tuple[str, ...], decision: str
) -> None:
    """The verdict, its reason and the score stay as they are."""
    other, mine = judged(*kinds), judged(*kinds, "recipient:report-mailbox")
    assert (mine.decision, mine.verdict, mine.score) == (decision, other.verdict, other.score)
    assert "recipient:report-mailbox" in mine.tags
    said = "Every recipient is a mailbox that takes reports, so it is delivered. "
    assert mine.reason == (said if decision != other.decision else "") + other.reason


def test_tags_are_sorted_and_each_once() -> None:
    assert judged("a:spam", "a:odd", "a:spam").tags == ("a:odd", "a:spam")


WANTED = Finding(kinds.TEXT_MODEL_WANTED.id, "text")
SPEAKING_AGAINST = sorted(kind for kind, rule in shipped_policy().kinds.items() if rule.weight >= 0)
KINDS = st.sampled_from([*POLICY.kinds, "a:unknown"])
FINDINGS = st.lists(
    st.builds(Finding, KINDS, st.text(max_size=5), st.just({}), st.floats(0, 1, allow_nan=False)), max_size=30
)


@given(FINDINGS)
def test_the_ledger_adds_up(findings: list[Finding]) -> None:
    judgement = judge(findings, (), POLICY)
    assert sum(line.counted for line in judgement.lines) == judgement.score
    left_out = len(findings) - len(judgement.lines)
    assert 0 <= left_out <= sum(finding.kind == "a:good" for finding in findings), (
        "only what excuses nothing is left out"
    )
    pair = [line for line in judgement.lines if line.group == "pair"]
    assert sum(line.counted for line in pair) <= 300
    assert all(0 <= line.counted <= line.weight for line in pair)
    assert all(line.note for line in judgement.lines if line.counted != line.weight)


@given(FINDINGS)
def test_the_order_of_findings_does_not_matter(findings: list[Finding]) -> None:
    there, back = judge(findings, (), POLICY), judge(findings[::-1], (), POLICY)
    assert (there.verdict, there.score, there.tags) == (back.verdict, back.score, back.tags)


@pytest.mark.parametrize(
    ("kinds", "score", "counted"),
    [
        (("a:good",), 0, []),  # there is nothing to make up for
        (("a:list", "a:good"), 0, []),
        (("a:bit", "a:good"), 0, [-150]),
        (("a:odd", "a:good"), 0, [-200]),
        (("a:spam", "a:good"), 200, [-200]),
        (("a:spam", "a:good", "a:good"), 200, [-200, 0]),
        (("a:virus", "a:good"), 1000, []),  # an attack that was proven
    ],
)
def test_what_speaks_for_a_message_is_bounded(kinds: tuple[str, ...], score: int, counted: list[int]) -> None:
    judgement = judged(*kinds)
    assert judgement.score == score
    assert [line.counted for line in judgement.lines if line.kind == "a:good"] == counted


@pytest.mark.parametrize("kind", sorted(NEVER_EXCUSED))
def test_wanted_words_excuse_no_demand(kind: str) -> None:
    """However little of it there is, and whatever else was found."""
    for strength in (0.1, 1.0):
        found = [Finding(kind, "text", strength=strength), Finding("url:shortener", "1")]
        plain, excused = (judge(each, (), shipped_policy()) for each in (found, [*found, WANTED]))
        assert excused == plain


@given(st.lists(st.builds(Finding, st.sampled_from(sorted(shipped_policy().kinds)), st.just("x")), max_size=12))
def test_wanted_words_take_off_no_more_than_their_weight(findings: list[Finding]) -> None:
    findings = [finding for finding in findings if finding.kind != WANTED.kind]
    plain, excused = (judge(each, (), shipped_policy()) for each in (findings, [*findings, WANTED]))
    assert max(0, plain.score - 150) <= excused.score <= plain.score
    if any(line.conclusive and line.verdict in ATTACKS for line in plain.lines):
        assert (excused.verdict, excused.score) == (plain.verdict, plain.score)


@given(st.lists(st.builds(Finding, st.sampled_from(SPEAKING_AGAINST), st.just("x")), max_size=20))
@example([Finding(kind, "x") for kind in ("auth:dmarc-fail", "text:mailbox-lure", "text:extortion")])
@example([Finding(kind, "x") for kind in ("sender:provider-absent", "text:hidden", "text:gtube")])
def test_more_findings_never_make_mail_better(findings: list[Finding]) -> None:
    """But for wanted words no weight of the shipped policy is negative, so each further finding can only raise the
    severity.

    `suspicious` by the score alone is what remains where no other verdict is reached: `spam` may take its place.
    """
    reached = [judge(findings[:n], (), shipped_policy()).verdict for n in range(len(findings) + 1)]
    ranks = [VERDICTS.index("suspicious" if verdict == "spam" else verdict) for verdict in reached]
    assert ranks == sorted(ranks, reverse=True)


def test_a_line_says_what_an_operator_changed_of_it() -> None:
    text = """
[verdicts.phishing]
decision = "bounce"
[groups.links]
cap = 1.0
[kinds."url:shortener"]
weight = 0.5
[kinds."text:urgency"]
weight = 0.8
"""
    findings = [Finding(kind, "here") for kind in ("url:shortener", "url:userinfo", "text:urgency")]
    mine = judge(findings, (), override(shipped_policy(), text))
    lines = {line.kind: line for line in mine.lines}
    capped = "group links: cap 1 instead of 5 (deployment)"
    assert lines["url:shortener"].override == f"weight 0.5 instead of 1.2 (deployment); {capped}"
    assert lines["url:userinfo"].override == capped
    assert lines["text:urgency"].override == ""
    assert mine.overrides == (
        "phishing: decision bounce instead of quarantine (deployment)",
        "by the shipped policy: phishing, quarantine, a score of 5",
    )
    assert sum(line.counted for line in mine.lines) == mine.score == 180


def test_an_override_that_touches_nothing_says_nothing() -> None:
    policy = override(shipped_policy(), '[kinds."file:macro"]\nweight = 9.0\n')
    findings = [Finding("url:shortener", "here")]
    assert judge(findings, (), policy) == judge(findings, (), shipped_policy())


DECIDING = override(
    POLICY,
    """
[rules.hold]
when = "known"
title = "Hold it"
verdict = "bulk"
decision = "quarantine"
[rules.drop]
when = "known"
title = "Drop it"
verdict = "bulk"
decision = "drop"
""",
)


@pytest.mark.parametrize(
    ("kinds", "verdict", "decision"),
    [
        ((), "clean", "deliver"),
        (("rule:hold",), "bulk", "quarantine"),
        (("rule:hold", "rule:drop"), "bulk", "drop"),
        # Rules never make the outcome milder: neither the verdict nor the decision of another finding.
        (("rule:hold", "a:virus"), "malware", "drop"),
        (("rule:hold", "a:spam"), "spam", "quarantine"),
        (("rule:drop", "a:spam"), "spam", "drop"),
        # A rule that is no longer in the policy states nothing.
        (("rule:gone",), "clean", "deliver"),
    ],
)
def test_a_rule_can_state_the_decision(kinds: tuple[str, ...], verdict: str, decision: str) -> None:
    result = judge([Finding(kind, "policy") for kind in kinds], (), DECIDING)
    assert (result.verdict, result.decision) == (verdict, decision)
    assert ("Drop it (rule:drop): drop." in result.reason) is ("rule:drop" in kinds)


def test_an_allow_entry_lifts_what_a_rule_decides() -> None:
    match = Match(Hit("allowed-senders", "global", "a@x.example", ""), Subject("from", "a@x.example", "From"))
    ruling = Ruling(allows=(match,))
    result = judge([Finding("rule:drop", "policy")], (), DECIDING, ruling)
    assert (result.verdict, result.decision) == ("clean", "deliver")


def test_the_reason_leads_with_what_a_mail_asks_for_and_in_whose_name() -> None:
    reply = kinds.SENDER_REPLY_TO_FREEMAIL.at("Reply-To")
    letter = kinds.TEXT_OPENING_LETTER.at("text", strength=0.4)
    reason = judge([reply, letter], [], shipped_policy()).reason
    assert reason.startswith(f"{kinds.TEXT_OPENING_LETTER.title} (text); the score is 6"), reason
    # A hint of a lure is no reason before the facts.
    hint = kinds.TEXT_OPENING_LETTER.at("text", strength=0.1)
    some = [reply, hint, kinds.TEXT_LARGE_SUM.at("text", strength=0.5)]
    assert judge(some, [], shipped_policy()).reason.startswith(kinds.SENDER_REPLY_TO_FREEMAIL.title)
    lure = kinds.TEXT_CREDENTIAL_LURE.at("1", strength=0.5)
    brand = kinds.SENDER_BRAND_IMPERSONATION.at("From", company="PayPal", shown="PayPal", domain="evil.test")
    reason = judge([lure, brand], [], shipped_policy()).reason
    assert reason.startswith(f"{kinds.TEXT_CREDENTIAL_LURE.title} (1), in the name of PayPal; "), reason
    alone = judge([brand, kinds.URL_TEXT_MISMATCH.at("1")], [], shipped_policy()).reason
    assert alone.startswith(f"{kinds.SENDER_BRAND_IMPERSONATION.title} (From), in the name of PayPal; "), alone


def test_the_reason_for_advertising_leads_with_what_is_offered() -> None:
    """A clock that is wrong is the stronger sign, and tells a reader nothing about the mail."""
    clock, wares = kinds.HEADER_CLOCKS_DIFFER.at("Message-ID"), kinds.TEXT_SPAM_VOCABULARY.at("text", strength=0.5)
    judged = judge([clock, wares], [], shipped_policy())
    assert (judged.verdict, judged.reason.partition(" (")[0]) == ("spam", kinds.TEXT_SPAM_VOCABULARY.title)


def test_a_picture_from_a_free_host_names_no_phishing() -> None:
    """Advertisers borrow pictures as well; who is imitated, or what is asked for, says that it is phishing."""
    picture, text = kinds.URL_PICTURE_HOST.at("1"), kinds.TEXT_MODEL_SPAM.at("text")
    assert judge([picture, text], [], shipped_policy()).verdict == "spam"
    brand = kinds.SENDER_BRAND_IMPERSONATION.at("From", company="PayPal", shown="PayPal", domain="evil.test")
    assert judge([picture, text, brand], [], shipped_policy()).verdict == "phishing"
