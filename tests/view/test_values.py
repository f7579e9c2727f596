import pytest

from gatepost.view.values import TextBudget, escape_block, escape_line


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("plain", "plain"),
        ("Grüße 👍 \u4f60\u597d", "Grüße 👍 \u4f60\u597d"),
        ("non\u00a0breaking", "non\u00a0breaking"),
        ("invoice\u202efdp.exe", "invoice\\u202efdp.exe"),
        ("pay\u200bpal", "pay\\u200bpal"),
        ("\x1b[2J", "\\x1b[2J"),
        ("a\r\nb\tc", "a\\x0d\\x0ab\\x09c"),
        ("half \ud83d", "half \\ud83d"),
        ("\U000e0041", "\\U000e0041"),
    ],
)
def test_a_line(text: str, written: str) -> None:
    assert escape_line(text) == written


def test_a_block_keeps_its_lines() -> None:
    assert escape_block("a\r\nb\rc\nd\te\x0c") == "a\nb\nc\nd\te\\x0c"


def test_an_allowance_ends() -> None:
    budget = TextBudget(10)
    assert budget.line("abcdef", 4) == "abc…"
    assert budget.line("abcdef", 6) == "abcdef"
    assert not budget.has_room
    assert budget.line("more", 4) == ""


@pytest.mark.parametrize(
    ("text", "kept", "missing"), [("abc", "abc", 0), ("abcdefgh", "abcde", 3), ("\x07\x07", "\\x07\\", 3), ("", "", 0)]
)
def test_a_block_is_cut_after_it_is_written_out(text: str, kept: str, missing: int) -> None:
    assert TextBudget(5).block(text) == (kept, missing)
