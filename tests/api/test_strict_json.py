"""Keys that stand twice are found, however they are written; the quick look never differs from the whole one."""

import json
import re
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatepost.api import strict_json
from gatepost.api.errors import Failure
from gatepost.api.strict_json import MAX_VALUES, decode_json, find_repeated_key, has_too_many_values


@pytest.mark.parametrize(
    ("text", "repeated"),
    [
        ('{"a": 1, "b": 2}', ""),
        ('{"a": 1, "a": 2}', "a"),
        ('{"a": {"a": 1}}', ""),
        ('{"a": [{"b": 1, "c": 2}, {"b": 1}]}', ""),
        ('{"x": {"b": 1, "b": 2}}', "b"),
        ('{"a": "a"}', ""),
        (r'{"a": 1, "\u0061": 2}', "a"),
        (r'{"\"a": 1, "b": "\\"}', ""),
        ('{"ä": 1, "ä": 2}', "ä"),
        ('{"": 1, "": 2}', '""'),
        ('\ufeff{"a": 1}', ""),
        ('{\n"a": 1,\n"a": 2}', "a"),
    ],
)
def test_a_key_that_stands_twice(text: str, repeated: str) -> None:
    assert find_repeated_key(text.encode()) == repeated
    assert find_repeated_key(bytearray(text.encode())) == repeated


@pytest.mark.parametrize("text", [b'{"a": "\xff"}', b'{"a": "\x01"}', b'{"a": "\xc3"}'])
def test_what_is_no_json_is_refused(text: bytes) -> None:
    with pytest.raises((UnicodeDecodeError, json.JSONDecodeError)):
        find_repeated_key(text)


def test_deep_nesting_is_not_passed_over() -> None:
    with pytest.raises(RecursionError):
        find_repeated_key(b"[" * 50_000 + b"]" * 50_000)


KEYS = st.sampled_from(["a", "b", '"', "\\", "\u00e4", ""])
VALUES = st.recursive(
    st.none() | st.integers() | KEYS,
    lambda inner: st.lists(inner, max_size=3) | st.lists(st.tuples(KEYS, inner), max_size=3).map(tuple),
    max_leaves=8,
)


def _write(value: object) -> str:
    """JSON with keys as they come: tuples of pairs are objects."""
    if isinstance(value, tuple):
        return "{" + ", ".join(f"{json.dumps(key)}: {_write(each)}" for key, each in value) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_write, value)) + "]"
    return json.dumps(value, ensure_ascii=isinstance(value, int))


@given(VALUES)
def test_the_quick_look_says_no_more_than_the_whole_one(value: object) -> None:
    text = _write(value)
    if strict_json._has_plain_strings_once(text):
        strict_json._KEYS.decode(text)


def _count_signs(value: object) -> int:
    """Brackets that open, and commas."""
    if isinstance(value, tuple | list):
        inner = [each[1] for each in value] if isinstance(value, tuple) else value
        return max(1, len(value)) + sum(map(_count_signs, inner))
    return 0


@given(VALUES)
def test_signs_inside_of_strings_are_no_values(value: object) -> None:
    text = _write([value, 'x,[{"', "\\"]).encode()
    signs = _count_signs([value, "", ""])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(strict_json, "_SMALL", 4)
        patch.setattr(strict_json, "MAX_VALUES", signs)
        assert not has_too_many_values(text)
        patch.setattr(strict_json, "MAX_VALUES", signs - 1)
        assert has_too_many_values(text)


@pytest.mark.parametrize("value", [b"[],", b"{},", b'"",', b"1,"])
def test_millions_of_values_are_not_decoded(value: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gatepost.api.strict_json.msgspec.json.decode", None)
    found = decode_json("the body", b"[" + value * (MAX_VALUES + 1) + b"1]")
    assert isinstance(found, Failure)
    assert "more than 100,000 values" in found.message


@pytest.mark.parametrize(
    "text",
    [
        b'["' + b"," * 300_000 + b'"]',
        b'["' + b"\\\\," * 200_000 + b'"]',
        b'["' + b'\\",' * 200_000 + b'"]',
        b'"' * 1_000_000 + b"," * 100_001,
    ],
    ids=["commas", "backslashes", "escaped quotes", "quotes"],
)
def test_few_steps_tell_what_is_inside_of_strings(text: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """One string is one step, however many signs it has; more strings than values can have are not counted to the end.
    Before, each sign was a step: 3 s of CPU for a call of 8 MiB."""
    steps, found = 0, strict_json._STRUCTURE

    class Counted:
        @staticmethod
        def finditer(data: bytes) -> Iterator[re.Match[bytes]]:
            nonlocal steps
            for match in found.finditer(data):
                steps += 1
                yield match

    monkeypatch.setattr(strict_json, "_STRUCTURE", Counted)
    has_too_many_values(text)
    assert steps <= (5 * MAX_VALUES + 2 if text.startswith(b'""') else 3)


def test_a_long_text_of_few_values_is_decoded() -> None:
    assert decode_json("the body", json.dumps({"a": "[,{" * 100_000}).encode()) == {"a": "[,{" * 100_000}
