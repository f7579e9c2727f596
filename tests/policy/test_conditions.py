"""Conditions in CEL: what is one, what it can read, and that no condition costs more than its budget."""

import re
from pathlib import Path

import pytest

from gatepost.policy.conditions import (
    MAX_CONDITION,
    MAX_ITEMS,
    MAX_TEXT,
    VARIABLES,
    ConditionError,
    choose_result,
    describe_file,
    evaluate,
    find_fault,
    is_storable,
    make_variables,
)
from gatepost.policy.file import read_policy_file
from gatepost.policy.rules import shipped_policy

MESSAGE = make_variables(
    tags=["auth:dmarc-fail", "url:shortener"],
    sender="ann@news.shop.com",
    sender_domain="news.shop.com",
    sender_organisation="shop.com",
    subject="Invoice 17",
    headers={"x-mailer": ["Sender 2"], "received": ["one", "two"]},
    links=["bit.example", "shop.com"],
    files=[describe_file("Bill.PDF", "pdf", "ab")],
    size=4_000,
    dmarc="fail",
)


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        ('"url:shortener" in tags', True),
        ('tags.exists(tag, tag.startsWith("auth:"))', True),
        ('sender_organisation == "shop.com" && dmarc != "pass"', True),
        ('subject.matches("(?i)^invoice [0-9]+$")', True),
        ('"x-mailer" in headers && headers["x-mailer"].exists(value, value.contains("Sender"))', True),
        ('files.exists(file, file.extension == "pdf" && file.type != "pdf")', False),
        ("size > 5000", False),
        ('links.filter(host, host.endsWith(".com")).size() == 1', True),
        ("known || authenticated", False),
        ("true", True),
    ],
)
def test_conditions(condition: str, holds: bool) -> None:
    assert find_fault(condition) == ""
    assert evaluate(condition, MESSAGE) is holds


@pytest.mark.parametrize(
    ("condition", "words"),
    [
        ("", "is empty"),
        (" ", "is empty"),
        ("1 +", "is not a condition in CEL: 1:4: Syntax error"),
        ("sendr == 'a'", "undeclared reference to 'sendr'"),
        ("size == 'a'", "no matching overload"),
        ("size + 1", "must be true or false"),
        ("tags", "must be true or false"),
        ("x" * (MAX_CONDITION + 1), "is longer than"),
        ("(" * 500 + "true" + ")" * 500, "recursion limit"),
        ("[" * 500, "is not a condition"),
        ("\x00", "is not a condition"),
        ("\ud800", "is not a condition"),
    ],
)
def test_what_is_no_condition_is_refused_with_the_reason(condition: str, words: str) -> None:
    assert words in find_fault(condition)


@pytest.mark.parametrize(
    "condition",
    [
        'headers["no-such-field"][0] == "x"',
        "1 / (size - size) == 1",
        "tags[99] == 'x'",
        "links.all(a, links.all(b, links.all(c, a + b + c != '')))",
    ],
)
def test_a_condition_that_cannot_be_evaluated_is_an_error_and_nothing_else(condition: str) -> None:
    many = make_variables(links=[f"{number}.com" for number in range(MAX_ITEMS)], size=1)
    assert find_fault(condition) == ""
    with pytest.raises(ConditionError):
        evaluate(condition, many)


def test_values_are_cut() -> None:
    cut = make_variables(subject="x" * 9_000, tags=["a"] * 900, headers={"a": ["y" * 9_000] * 900})
    assert len(cut["subject"]) == MAX_TEXT
    assert len(cut["tags"]) == MAX_ITEMS
    assert [len(value) for value in cut["headers"]["a"]] == [MAX_TEXT] * MAX_ITEMS
    assert evaluate("subject.matches('(x+x+)+y')", cut) is False


def test_every_variable_has_a_value_of_its_type() -> None:
    for name, variable in VARIABLES.items():
        test = {"bool": name, "int": f"{name} == 0"}.get(variable.type, f"{name}.size() == 0")
        assert find_fault(test) == "", name
        assert isinstance(evaluate(test, make_variables()), bool)
    with pytest.raises(TypeError, match="no variable colour"):
        make_variables(colour="red")


def test_which_conditions_can_be_tried_on_history() -> None:
    assert is_storable('"url:shortener" in tags && sender_domain == "a.com"')
    assert not is_storable('"url:shortener" in tags || "x-mailer" in headers')


def test_the_best_of_several_results() -> None:
    assert choose_result([]) == "none"
    assert choose_result(["fail", "pass"]) == "pass"
    assert choose_result(["fail", "temperror"]) == "fail"


@pytest.mark.parametrize(("name", "extension"), [("a.tar.GZ", "gz"), ("bill.js. ", "js"), ("README", ""), ("", "")])
def test_extensions(name: str, extension: str) -> None:
    assert describe_file(name, "data", "")["extension"] == extension


def test_the_documentation_names_every_variable() -> None:
    page = (Path(__file__).parents[2] / "docs" / "policy.md").read_text("utf-8")
    for name, variable in VARIABLES.items():
        assert f"| `{name}` | `{variable.type}` | {variable.about} | {'yes' if variable.stored else ''} |" in page


def test_the_rules_of_the_documentation_can_be_used() -> None:
    page = (Path(__file__).parents[2] / "docs" / "policy.md").read_text("utf-8")
    blocks = [block for block in re.findall(r"(?ms)^```toml\n(.*?)^```", page) if "[rules." in block]
    assert blocks
    for block in blocks:
        assert read_policy_file(block, shipped_policy()).mistakes == ()
