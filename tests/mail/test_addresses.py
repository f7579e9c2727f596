import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatepost.mail.headers import parse_addresses


def seen(text: str) -> list[tuple[str, str]]:
    return [(address.name, str(address)) for address in parse_addresses(text, 100)[0]]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("ann@example.org", [("", "ann@example.org")]),
        ("Ann <ann@example.org>", [("Ann", "ann@example.org")]),
        ('"Ann, of Example" <ann@example.org>', [("Ann, of Example", "ann@example.org")]),
        ('"Ann \\"A\\" E" <ann@example.org>', [('Ann "A" E', "ann@example.org")]),
        ("ann@example.org (Ann Example)", [("Ann Example", "ann@example.org")]),
        ("Ann (of (deep) Example) <ann@example.org>", [("Ann (of (deep) Example)", "ann@example.org")]),
        ("a@x.org, b@y.org,, c@z.org,", [("", "a@x.org"), ("", "b@y.org"), ("", "c@z.org")]),
        ("friends: a@x.org, Bob <b@y.org>;, c@z.org", [("", "a@x.org"), ("Bob", "b@y.org"), ("", "c@z.org")]),
        ("undisclosed-recipients:;", []),
        ("<@relay.org,@hop.org:ann@example.org>", [("", "ann@example.org")]),  # RFC 5322 section 4.4
        ("ann . e @ example . org", [("", "ann.e@example.org")]),
        ("=?utf-8?q?J=C3=BCrgen=2C_Mr?= <j@x.org>", [("Jürgen, Mr", "j@x.org")]),  # an encoded comma is no comma
        ("Jürgen <jürgen@müller.example>", [("Jürgen", "jürgen@müller.example")]),  # RFC 6532
        ("billing@bank.example <x@evil.example>", [("billing@bank.example", "x@evil.example")]),
        ('"billing@bank.example" <x@evil.example>', [("billing@bank.example", "x@evil.example")]),
        ("a@bank.example, <x@evil.example>", [("", "a@bank.example"), ("", "x@evil.example")]),
        ("<a@x.org> <b@y.org>", [("b@y.org", "a@x.org")]),
        ("Ann <ann@example.org", [("Ann", "ann@example.org")]),
        ('"john doe"@example.org', [("", '"john doe"@example.org')]),
        ('"john.doe"@EXAMPLE.org.', [("", "john.doe@example.org")]),
        ("Ann", [("Ann", "")]),
        ("<>", []),
        ("a@b@c.org", [("", "a@b@c.org")]),
        ("(comment only)", [("comment only", "")]),
        ("user@[192.0.2.1]", [("", "user@[192.0.2.1]")]),
    ],
)
def test_parse(text: str, expected: list[tuple[str, str]]) -> None:
    assert seen(text) == expected


def test_more_than_are_read_is_said() -> None:
    found, more = parse_addresses("u@x.org, " * 50, 10)
    assert len(found) == 10
    assert more
    assert parse_addresses("u@x.org, " * 9 + "u@x.org", 11) == (found, False)


@given(st.text(alphabet='a@.<>()",;:\\ =?\n', max_size=60))
def test_any_text_parses(text: str) -> None:
    parse_addresses(text, 20)


@given(st.text(alphabet='ab@.<>()",;:\\ =?\n\u00a0', max_size=40))
def test_the_short_way_reads_what_the_long_way_does(text: str) -> None:
    # An empty member in front is dropped, and no list with a comma goes the short way.
    assert parse_addresses(text, 100) == parse_addresses(f",{text}", 100)
