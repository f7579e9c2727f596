"""The YAML reader: total, bounded, and it knows every line."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatepost.settings.document import parse_document


def test_values_are_those_of_yaml_1_2() -> None:
    read = parse_document(b"a: no\nb: on\nc: 012\nd: 0x1F\ne: 0o17\nf: 1_000\ng: 2026-01-01\nh: TRUE\ni: -.inf\n")
    assert read.data == {
        "a": "no", "b": "on", "c": 12, "d": 31, "e": 15, "f": 1000, "g": "2026-01-01", "h": True, "i": float("-inf"),
    }  # fmt: skip
    assert not read.mistakes


def test_lines_of_keys_and_items() -> None:
    read = parse_document(b"\n# x\na:\n  b:\n    - 1\n    -\n      c: 2\n")
    assert [read.line_of(key) for key in (("a",), ("a", "b", 0), ("a", "b", 1, "c"), ("a", "zzz"))] == [3, 5, 7, 3]


@pytest.mark.parametrize(
    ("raw", "line", "word"),
    [
        (b"a: 1\na: 2\na: 3", 2, "already set in line 1"),
        (b"a: 1\nb: [", 2, "not YAML"),
        (b"a: 1\nb: \xff", 2, "UTF-8"),
        (b"a:\n", 1, "no value"),
        (b"a: !secret x", 1, "tag"),
        (b"a: !!int x", 1, "kind of value"),
        (b"? [a]\n: 1", 1, "plain word"),
        (b"a: 1\n---\nb: 2", 2, "not YAML"),
        (b"a: *nobody", 1, "not YAML"),
        (b"[" * 5000, 1, "nested too deeply"),
        # The scanner looks at every open level for every token: 4,096 braces took 3 s.
        (b"{" * (1 << 20), 1, "nested too deeply"),
        (b"- " * (1 << 19), 1, "nested too deeply"),
        (b"? " * (1 << 19), 1, "nested too deeply"),
        (b"a: " + b"[" * 60 + b"]" * 60, 1, "too deep"),
        (b"#" * (1 << 20) + b"#", 1, "larger than"),
    ],
)
def test_mistakes(raw: bytes, line: int, word: str) -> None:
    mistake = parse_document(raw).mistakes[0]
    assert mistake.line == line
    assert word in mistake.sentence


def test_nested_aliases_do_not_explode() -> None:
    rows = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    rows += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    assert "too many values" in parse_document("\n".join(rows).encode()).mistakes[0].sentence


def test_an_alias_may_not_hold_itself() -> None:
    assert parse_document(b"a: &a [*a]").mistakes


@given(
    st.one_of(
        st.binary(max_size=300), st.text("ab:{}[]-*&!?|>'\"#%@ \n\t\r,.0~<\ufeff\x00\x85", max_size=120).map(str.encode)
    )
)
def test_no_bytes_raise(raw: bytes) -> None:
    parse_document(raw)
