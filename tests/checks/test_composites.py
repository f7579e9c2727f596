"""Composites: what they are made of, when they are evaluated, and faults of their file."""

import msgspec
import pytest

from gatepost.checks import composites as conditional_findings
from gatepost.checks.composites import (
    CompositeError,
    find_composites,
    load_composites,
    may_combine,
    parse_composites,
)
from gatepost.findings.kinds import BY_ID, Finding
from gatepost.policy import conditions
from gatepost.policy.rules import shipped_policy

BRAND, FREE = "sender:brand-impersonation", "url:free-hosting"


def findings(*tags: str) -> list[Finding]:
    return [BY_ID[tag].at("text") for tag in tags]


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ((BRAND, FREE), ["composite:brand-on-free-page"]),
        ((BRAND,), []),
        ((FREE,), []),
        (("text:crypto-lure", "url:shortener"), ["composite:hidden-lure"]),
        (("text:crypto-lure", "url:shortener", "bulk:discussion-list"), ["composite:hidden-lure"]),  # anybody says so
        (("text:bare-link", FREE), []),  # photographs of a friend
        (("text:bare-link", FREE, "header:no-recipients"), ["composite:note-to-strangers"]),
        (("text:prize-lure", "header:money-subject"), ["composite:prize-sum"]),
        (("header:no-recipients", "sender:reply-to-mismatch"), ["composite:replies-from-nobody"]),
        (("url:recipient-address", "url:foreign-target"), ["composite:address-carried-away"]),
        (("url:recipient-address",), []),
        ((), []),
    ],
)
def test_what_they_are_made_of(tags: tuple[str, ...], expected: list[str]) -> None:
    found = list(find_composites(findings(*tags)))
    assert [each.kind for each in found] == expected
    for each in found:
        assert set(each.facts["because"].split(", ")) == {tag for tag in tags if not tag.startswith("bulk:")}


def test_most_messages_evaluate_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A condition costs more than most checks."""
    assert not may_combine(findings("header:shouting-subject", "text:urgency"))
    assert may_combine(findings("header:shouting-subject", BRAND))
    evaluated: list[str] = []

    def count(when: str, variables: object) -> bool:
        evaluated.append(when)
        return False

    conditional_findings._holds.cache_clear()
    monkeypatch.setattr(conditional_findings, "evaluate", count)
    assert list(find_composites(findings("text:urgency", BRAND))) == []
    assert len(evaluated) == 1
    conditional_findings._holds.cache_clear()


def test_an_answer_depends_only_on_the_tags_that_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor on others, nor on their order, so it is worked out once for each set of them."""
    conditional_findings._holds.cache_clear()
    expected = [each.kind for each in find_composites(findings(BRAND, FREE))]

    def refuse(*_: object) -> bool:
        raise AssertionError("evaluated again")

    monkeypatch.setattr(conditional_findings, "evaluate", refuse)
    for tags in ((FREE, BRAND), ("text:urgency", BRAND, FREE, "text:word-salad")):
        assert [each.kind for each in find_composites(findings(*tags))] == expected
    conditional_findings._holds.cache_clear()


def test_a_condition_that_fails_does_not_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> bool:
        raise conditions.ConditionError("too much")

    conditional_findings._holds.cache_clear()
    monkeypatch.setattr(conditional_findings, "evaluate", fail)
    assert list(find_composites(findings(FREE, BRAND))) == []
    conditional_findings._holds.cache_clear()


@pytest.mark.parametrize(("kind", "composite"), load_composites(), ids=lambda each: getattr(each, "id", ""))
def test_each_has_a_weight_and_names_tags_that_exist(kind: object, composite: conditional_findings.Composite) -> None:
    assert getattr(kind, "id", "") in shipped_policy().kinds
    named = {part for part in composite.when.split('"') if ":" in part}
    assert named <= BY_ID.keys()
    assert not named & composite.any_of


@pytest.mark.parametrize(
    "text",
    [
        '["composite:hidden-lure"]\nany_of = ["url:no-such-tag"]\nwhen = "authenticated"',
        '["composite:no-such-kind"]\nany_of = ["url:shortener"]\nwhen = "authenticated"',
        '["url:shortener"]\nany_of = ["url:shortener"]\nwhen = "authenticated"',
        '["composite:hidden-lure"]\nany_of = []\nwhen = "authenticated"',
        '["composite:hidden-lure"]\nany_of = ["url:shortener"]\nwhen = "no_such_name"',
        '["composite:hidden-lure"]\nany_of = ["url:shortener"]\nwhen = "size"',
        '["composite:hidden-lure"]\nany_of = ["url:shortener"]\nwhen = "tags.size() > 3"',
        '["composite:hidden-lure"]\nany_of = ["url:shortener"]\nwhen = \'tags.exists(tag, tag.startsWith("url:"))\'',
        '["composite:hidden-lure"]\nany_of = ["url:shortener"]\nwhen = \'tags == ["url:shortener"]\'',
    ],
)
def test_faults_of_the_file(text: str) -> None:
    with pytest.raises(CompositeError):
        parse_composites(text)


def test_unknown_keys_are_refused() -> None:
    with pytest.raises(msgspec.ValidationError):
        parse_composites('["composite:hidden-lure"]\nany_of = ["url:shortener"]\nwhen = "true"\nweight = 1')
