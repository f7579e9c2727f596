"""Patterns over names of files: what they cover, and that comparing them is bounded whatever there is to compare."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatepost.lists import entries
from gatepost.lists.catalogue import BY_NAME
from gatepost.lists.entries import MAX_WORK, FileNameFinder, FindingLimit, NormalForm, UnkeyedEntry, is_covered
from gatepost.names import fold_lookalikes

DEFINITION = BY_NAME["blocked-file-names"]


def listed(*patterns: str) -> list[UnkeyedEntry]:
    forms = [DEFINITION.normalise(pattern) for pattern in patterns]
    return [
        UnkeyedEntry(DEFINITION.name, "tenant", form.key, form.shown) for form in forms if isinstance(form, NormalForm)
    ]


def find(patterns: list[str], *names: str) -> list[tuple[int, str]]:
    return [(place, entry.shown) for place, entry in FileNameFinder(listed(*patterns)).find(names)]


@pytest.mark.parametrize(
    ("pattern", "name"),
    [
        ("setup.msi", "Setup.MSI"),
        ("setup.msi", "folder/sub\\SETUP.msi"),
        ("invoice*.iso", "invoice.iso"),
        ("invoice*.iso", "Invoice 2026-07.iso"),
        ("*.pdf.exe", "a.PDF .exe".replace(" ", "")),
        ("*invoice*", "your-invoice"),
        ("a*bcd*e", "abcdbcde"),
        ("*.js", "x.js. ."),
        ("*.js", "x.js::$DATA"),
        ("setup.msi", "setup.msi:readme.txt"),
        ("invoice*.iso", "INV0ICE.iso"),
        ("inv0ice*.iso", "invoice.iso"),
        ("invoice*.iso", "inv\u043eic\u0435 7.is\u043e"),
        ("invoice*.iso", "i\u200bnvoice\u202e.iso"),
        ("facture*.iso", "f\u00e1cture.iso"),
        ("\u0441\u0447\u0435\u0442*.xls", "\u0421\u0427\u0415\u0422 7.xls"),
        ("*barn.exe", "barn.exe"),
        ("bar*n.exe", "barn.exe"),
        ("*.exe", "x" * 5_000 + ".exe"),
        ("*.exe", "\ufdfa" * 600 + ".exe"),
    ],
)
def test_what_a_pattern_covers(pattern: str, name: str) -> None:
    assert find([pattern], name) == [(0, listed(pattern)[0].shown)]


@pytest.mark.parametrize(
    ("pattern", "name"),
    [
        ("setup.msi", "setup.msi.txt"),
        ("setup.msi", "my-setup.msi"),
        ("invoice*.iso", "my invoice.iso"),
        ("invoice*.iso", "invoice.iso.txt"),
        ("*ab*abc", "abc"),
        ("abc*bcd", "abcd"),
        ("*.pdf.exe", "report.pdf"),
        ("folder*", "folder/other.txt"),
        ("*.exe", ""),
    ],
)
def test_what_a_pattern_does_not_cover(pattern: str, name: str) -> None:
    assert find([pattern], name) == []


def test_each_name_and_each_pattern_once() -> None:
    names = ("a.txt", "invoice 1.iso", "INVOICE 1.ISO", "invoice 2.iso")
    found = find(["invoice*.iso", "*1.iso", "Invoice*.iso"], *names)
    both = ("invoice*.iso", "*1.iso")
    assert found == [*((1, each) for each in both), *((2, each) for each in both), (3, "invoice*.iso")]


LETTERS = st.text("ab1.\u0430", max_size=12)


@given(LETTERS, st.lists(st.text("ab1.", max_size=4), min_size=1, max_size=5))
def test_covering_is_what_the_expression_says(name: str, pieces: list[str]) -> None:
    name, pattern = fold_lookalikes(name), fold_lookalikes("*".join(pieces))
    expression = ".*".join(map(re.escape, pattern.split("*")))
    assert is_covered(name, pattern) == bool(re.fullmatch(expression, name))


@given(st.lists(LETTERS, max_size=6), st.lists(st.text("ab1.*", max_size=12), max_size=12))
def test_the_index_finds_what_comparing_with_each_pattern_finds(names: list[str], patterns: list[str]) -> None:
    entries = listed(*(pattern + "*aba" for pattern in patterns), *patterns)
    found = {(place, entry.key) for place, entry in FileNameFinder(entries).find(names)}
    alone = {(place, entry.key) for entry in entries for place, _ in FileNameFinder([entry]).find(names)}
    assert found == alone


@given(st.text(max_size=60), st.integers(0, 60), st.integers(0, 60))
def test_a_part_of_a_name_with_wildcards_around_it_covers_the_name(name: str, start: int, length: int) -> None:
    """Folding looks at one character after the other, so a part is folded as the whole is."""
    folded = fold_lookalikes("".join(sorted(name)) if not name.isascii() else name)
    part = folded[start : start + length]
    assert is_covered(folded, f"*{part}*")


@pytest.mark.variant
def test_many_patterns_cost_a_name_little() -> None:
    """A hundred thousand patterns, also those of which all have an end in common: a name is compared with few."""
    patterns = [f"word{number}*report{number * 7}.exe" for number in range(60_000)]
    patterns += [f"{number}*-invoice.exe" for number in range(40_000)]
    finder = FileNameFinder(listed(*patterns))
    names = [f"word{number}-report{number * 7}.exe" for number in range(100)] + ["777 x-invoice.exe", "holiday.jpg"]
    assert len(list(finder.find(names))) >= 101
    assert finder.work < 400_000


@pytest.mark.parametrize(
    ("patterns", "names"),
    [
        ([f"*{'a' * 60}b{'a' * (number % 90)}*{'a' * (number // 90)}*" for number in range(5_000)],
         ["a" * 400 + str(number) for number in range(2_000)]),
        (["invoice*.iso"], ["\ufdfa" * 500 + str(number) for number in range(2_000)]),
    ],
    ids=["alike", "folding"],
)  # fmt: skip
def test_what_would_take_too_long_ends(patterns: list[str], names: list[str]) -> None:
    finder = FileNameFinder(listed(*patterns))
    with pytest.raises(FindingLimit, match="too many to compare"):
        list(finder.find(names))
    assert finder.work <= MAX_WORK + 1_000 * 16
    before = finder.work
    assert list(finder.find(["other.txt"])) == []
    assert finder.work > before, "the next message has a budget of its own"


def test_a_list_without_names_to_compare_is_not_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entries, "_make_index", lambda _: pytest.fail("compiled"))
    assert list(FileNameFinder(listed("invoice*.iso")).find([])) == []
