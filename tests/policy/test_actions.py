"""Actions in a policy file: what may be stated, and what is said of what may not."""

import pytest

from gatepost.policy.layers import override, read_policy_file
from gatepost.policy.rules import (
    MessageAction,
    StrippedFile,
    describe_rule_action,
    find_mailbox_fault,
    find_mark_fault,
    shipped_policy,
)


@pytest.mark.parametrize(
    ("text", "described"),
    [
        ('spam = { action = "tag", mark = "[SPAM] " }', "tag, mark [SPAM]"),
        ('spam = { action = "redirect", to = "held@example.com" }', "redirect to held@example.com"),
        ('spam = { decision = "deliver", action = "copy", to = "x@example.com" }', "copy to x@example.com"),
        ('spam = { action = "strip" }', "strip"),
        ("spam = { threshold = 4 }", ""),
    ],
)
def test_an_action_beside_its_decision(text: str, described: str) -> None:
    assert describe_rule_action(override(shipped_policy(), f"[verdicts]\n{text}").verdicts["spam"]) == described


@pytest.mark.parametrize(
    ("fields", "key", "sentence"),
    [
        ('action = "burn"', "action", "must be one of tag, redirect, copy, strip, not 'burn'"),
        ('decision = "drop", action = "tag"', "action", "is 'tag', but the action tag needs the decision quarantine"),
        ('action = "copy", to = "a@b.example"', "action", "is 'copy', but the action copy needs the decision deliver"),
        ('action = "redirect"', "to", "is required for the action redirect"),
        ('to = "nobody"', "to", "must be the address of a mailbox, such as held@example.com, not 'nobody'"),
        ('mark = "a\\u0007"', "mark", "must be a text of printable characters"),
        ('mark = "=?utf-8?q?x?="', "mark", "must not hold =? or ?=, which begin and end an encoded word"),
    ],
)
def test_faults_of_actions(fields: str, key: str, sentence: str) -> None:
    read = read_policy_file(f"[verdicts]\nspam = {{ {fields} }}", shipped_policy())
    assert [(".".join(each.key), each.sentence) for each in read.mistakes] == [(f"verdicts.spam.{key}", sentence)]


def test_a_layer_above_can_be_stricter_but_not_milder_by_its_decision_alone() -> None:
    base = override(shipped_policy(), '[verdicts]\nspam = { action = "tag" }')
    dropped = override(base, '[verdicts]\nspam = { decision = "drop" }')
    assert describe_rule_action(dropped.verdicts["spam"]) == ""
    (mistake,) = read_policy_file('[verdicts]\nspam = { decision = "deliver" }', base).mistakes
    assert mistake.sentence == "is 'deliver', but the action tag needs the decision quarantine"
    plain = override(base, '[verdicts]\nspam = { decision = "deliver", action = "" }')
    assert plain.verdicts["spam"].decision == "deliver"


@pytest.mark.parametrize(
    "hostile", ["a@b", "a b@c.example", "<a@c.example>", "a@c.example\r\nDATA", "ä@c.example", "@", ""]
)
def test_what_is_no_mailbox(hostile: str) -> None:
    assert find_mailbox_fault(hostile)


def test_marks_have_a_length_and_mailboxes_may_be_plain() -> None:
    assert find_mark_fault("ж" * 20) == ""
    assert find_mark_fault("ж" * 21)
    assert find_mailbox_fault("o'hara+spam@mail.example.co") == ""


def test_each_action_is_described() -> None:
    file = StrippedFile("1.2", "a.exe", 3, "", "why")
    assert MessageAction("tag", "[SPAM] ").describe().endswith("marked [SPAM]")
    assert "to a@b.example instead" in MessageAction("redirect", to="a@b.example").describe()
    assert "a copy was sent to a@b.example" in MessageAction("copy", to="a@b.example").describe()
    assert "without 1 of its attachments (a.exe)" in MessageAction("strip", files=(file,)).describe()
    assert MessageAction("strip", failed="no").describe() == "The action strip was not carried out: no"
