"""A faulty policy file: everything that is wrong with it at once, with lines and keys; values written into a file."""

import difflib
import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatepost.policy import layers
from gatepost.policy.layers import MAX_CHARACTERS, read_policy_file, write_value
from gatepost.policy.rules import PolicyMistake, shipped_policy

FAULTY = """\
[verdicts]
spam = { decision = "undecided", threshold = 5 }
phising = { decision = "drop" }
suspicious.threshold = 0

[groups.mine]
cap = -1

[kinds."file:eicar"]
wieght = 1
group = "lure"

[kinds]
"text:urgencyy" = { weight = 1 }
'text:urgency' = { weight = "much", conclusive = 1 }
"url:shortener" = 3

[rules]
x = 1
"""


def found(text: str) -> list[tuple[int, str, str]]:
    return [
        (each.line, ".".join(each.key), each.sentence) for each in read_policy_file(text, shipped_policy()).mistakes
    ]


def test_every_fault_is_told_with_its_line_and_key() -> None:
    assert found(FAULTY) == [
        (2, "verdicts.spam.decision", "must be one of deliver, quarantine, bounce, drop, not 'undecided'"),
        (3, "verdicts.phising", "is not a known verdict; did you mean phishing?"),
        (4, "verdicts.suspicious.threshold", "must be more than 0"),
        (6, "groups.mine.description", "is required, since this group is new"),
        (7, "groups.mine.cap", "must be between 0 and 1000, not -1"),
        (10, "kinds.file:eicar.wieght", "is not a known key; did you mean weight?"),
        (11, "kinds.file:eicar.group", "names 'lure', but there is no such group; did you mean lures?"),
        (14, "kinds.text:urgencyy", "is not a known finding; did you mean text:urgency?"),
        (15, "kinds.text:urgency.conclusive", "must be true or false"),
        (15, "kinds.text:urgency.weight", "must be a number"),
        (16, "kinds.url:shortener", "must be a table"),
        (19, "rules.x", "must be a table"),
    ]


def test_a_file_with_a_fault_states_nothing() -> None:
    assert read_policy_file(FAULTY, shipped_policy()).statements == ()


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("[kinds]\n\nx = ", 3, "is not TOML here"),
        ("[kinds", 1, "is not TOML here"),
        ("kinds = 3", 1, "must be a table"),
        ("x = " + "[" * 5_000, 1, "nested too deeply"),
        (" " * (MAX_CHARACTERS + 1), 1, "is larger than 1 MiB"),
        ('[kinds."url:shortener"]\nweight = nan', 2, "must be between 0 and 1000, not nan"),
        ('[kinds."url:shortener"]\nweight = inf', 2, "must be between 0 and 1000, not inf"),
        (f'[kinds."url:shortener"]\nweight = {"9" * 400}', 2, "must be between 0 and 1000"),
        (f'[kinds."url:shortener"]\nweight = {"9" * 5_000}', 1, "has a number with too many digits"),
        ('[kinds."url:shortener"]\nweight = true', 2, "must be a number"),
        ('[changes]\n"kinds.x" = "lies"', 1, "is not a known section"),
    ],
)
def test_what_cannot_be_read(text: str, line: int, words: str) -> None:
    (mistake,) = read_policy_file(text, shipped_policy()).mistakes
    assert (mistake.line, words in mistake.sentence) == (line, True), mistake


def test_what_a_file_may_add() -> None:
    text = '[groups.mine]\ncap = 2\ndescription = "ours"\n[kinds."list:our-banks"]\nweight = 3\ngroup = "mine"\n'
    said = read_policy_file(text, shipped_policy())
    assert said.mistakes == ()
    assert [(each.section, each.name, each.field, each.value, each.line) for each in said.statements] == [
        ("groups", "mine", "cap", 2.0, 2),
        ("groups", "mine", "description", "ours", 3),
        ("kinds", "list:our-banks", "weight", 3.0, 5),
        ("kinds", "list:our-banks", "group", "mine", 6),
    ]


def test_a_fault_reads_as_a_sentence() -> None:
    assert str(PolicyMistake(3, ("kinds", "x"), "must be a table")) == "line 3: kinds.x must be a table"
    assert str(PolicyMistake(1, (), "is not TOML here")) == "line 1: the file is not TOML here"


@given(st.text(alphabet="[]{}=.\"'# \nabk:ins0-1,\\", max_size=120))
def test_no_text_raises(text: str) -> None:
    said = read_policy_file(text, shipped_policy())
    assert not (said.mistakes and said.statements)
    assert all(1 <= each.line <= text.count("\n") + 1 for each in said.mistakes)


def test_a_file_of_mistakes_ends_early_with_few_suggestions(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = []
    find = difflib.get_close_matches

    def noted(word: str, *others: Any) -> list[str]:
        compared.append(word)
        return find(word, *others)

    monkeypatch.setattr(difflib, "get_close_matches", noted)
    for text in (
        "".join(f'[kinds."text:urgenc{number}"]\n' for number in range(4_500)),
        "[kinds]\n" + "".join(f'"list:a{number}".group = "lure{number}"\n' for number in range(3_000)),
        "".join(f"a{number} = 1\n" for number in range(9_000)),
    ):
        compared.clear()
        mistakes = found(text)
        assert len(mistakes) == layers.MAX_MISTAKES + 1
        assert mistakes[-1][2] == "has more mistakes; correct these first"
        assert len(compared) <= layers.MAX_SUGGESTIONS


def test_a_long_word_is_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(difflib, "get_close_matches", lambda *_: pytest.fail("compared"))
    assert found(f"[{'x' * 90_000}]")[0][2] == "is not a known section"


def test_a_key_of_very_many_parts_is_refused_before_it_is_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    """`tomllib` takes quadratic time for it."""
    monkeypatch.setattr(tomllib, "loads", lambda _: pytest.fail("parsed"))
    for text in ("a." * 50_000 + "a = 1", "x = {" + "a." * 50_000 + "a = 1}", "[" + "a." * 50_000 + "a]"):
        assert found(text) == [(1, "", "has a line with more than 100 dots")]
    monkeypatch.undo()
    assert len(layers._find_lines("a." * 50_000 + "a = 1")) <= layers.MAX_KEY_PARTS


WRITTEN = """# ours
[kinds]
"url:shortener" = { weight = 2.0, verdict = "spam" } # short

[kinds."auth:dmarc-fail"]
weight = 3  # strict
[verdicts.bulk]
decision = "deliver"
"""


@pytest.mark.parametrize(
    ("place", "value", "before", "after"),
    [
        (("kinds", "auth:dmarc-fail", "weight"), 4.5, "weight = 3  # strict", "weight = 4.5  # strict"),
        (("kinds", "auth:dmarc-fail", "weight"), None, "weight = 3  # strict\n", ""),
        (("kinds", "url:shortener", "weight"), 4.0, "weight = 2.0,", "weight = 4.0,"),
        (("kinds", "url:shortener", "weight"), None, "{ weight = 2.0, verdict", "{ verdict"),
        (("kinds", "url:shortener", "conclusive"), True, "{ weight", "{ conclusive = true,  weight"),
        (("verdicts", "bulk", "threshold"), 2.0, "[verdicts.bulk]\n", "[verdicts.bulk]\nthreshold = 2.0\n"),
        (("kinds", "none:there", "weight"), None, "# ours", "# ours"),
    ],
)
def test_a_value_is_written_into_the_text(place: tuple[str, str, str], value: object, before: str, after: str) -> None:
    assert write_value(WRITTEN, *place, value) == WRITTEN.replace(before, after)


def test_a_new_value_stands_at_the_end() -> None:
    assert write_value("", "kinds", "a:b", "weight", 1.5) == '[kinds."a:b"]\nweight = 1.5\n'
    end = '\n\n[kinds."a:b"]\nweight = 1.5\n'
    assert write_value(WRITTEN, "kinds", "a:b", "weight", 1.5) == WRITTEN.rstrip() + end


@pytest.mark.parametrize(
    "text",
    ["[[[", "kinds = 7", '[kinds]\n"a:b" = 7\n', "[" * 5_000, "a" + ".a" * 20_000 + " = 1", '[kinds]\n"a:b" = {\n'],
)
def test_a_text_that_cannot_be_changed_is_left_alone(text: str) -> None:
    assert write_value(text, "kinds", "a:b", "weight", 1.5) is None
