"""The language of searches: what its texts mean, and what is said of those that mean nothing."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatepost.store.search_language import (
    FIELDS,
    MAX_DEPTH,
    MAX_LENGTH,
    MAX_TERMS,
    Either,
    Expression,
    Leaf,
    Negated,
    SearchFault,
    SearchPlace,
    add_term,
    find_state,
    parse_search,
    write_term,
)

NOW = 1_763_380_800_000  # 2025-11-17T12:00Z
SALES = "0199f0d2-7c00-7000-8000-000000000001"
PLACE = SearchPlace(NOW, UTC, {"sales": SALES, SALES: SALES})
ID = "0199f0d2-7c3a-7000-8000-00000000abcd"


def show(expression: Expression) -> object:
    """An expression as plain values."""
    if isinstance(expression, Leaf):
        sign = "" if expression.operator == ":" else expression.operator
        return f"{expression.field}{sign}={expression.value}"
    if isinstance(expression, Negated):
        return ["not", show(expression.part)]
    return ["or" if isinstance(expression, Either) else "and", *map(show, expression.parts)]


def read(text: str, place: SearchPlace = PLACE) -> object:
    found = parse_search(text, place)
    assert not isinstance(found, SearchFault), found
    return show(found)


MEANINGS = [
    ("", ["and"]),
    ("  ", ["and"]),
    ("invoice", "=invoice"),
    ("from:ann@example.org", "from=ann@example.org"),
    ("FROM:ann@example.org", "from=ann@example.org"),
    ("a b", ["and", "=a", "=b"]),
    ("a AND b", ["and", "=a", "=b"]),
    ("a and b", ["and", "=a", "=and", "=b"]),
    ("a OR b c", ["or", "=a", ["and", "=b", "=c"]]),
    ("(a OR b) c", ["and", ["or", "=a", "=b"], "=c"]),
    ("NOT a b", ["and", ["not", "=a"], "=b"]),
    ("-a -(b c)", ["and", ["not", "=a"], ["not", ["and", "=b", "=c"]]]),
    ("NOT NOT a", ["not", ["not", "=a"]]),
    ('"AND"', "=AND"),
    ('"a b"', "=a b"),
    ("“a b”", "=a b"),
    (r'"a \"b\" \\c"', r'=a "b" \c'),
    ('subject:"your invoice"', "subject=your invoice"),
    ('file:"a (1).pdf"', "file=a (1).pdf"),
    ('sender:""', "sender="),
    ("score>5", "score>=500"),
    ("score>=7.5", "score>==750"),
    ("score<=-1", "score<==-100"),
    ("verdict:Phishing", "verdict=phishing"),
    ("auth:dmarc-fail", "tag=auth:dmarc-fail"),
    ("tag:rule:", "tag=rule:"),
    ("rule:", "tag=rule:"),
    ("url:homograph.example", "url=homograph.example"),
    ("https://evil.example/x:y", "=https://evil.example/x:y"),
    ("hxxps://evil[.]example", "=hxxps://evil[.]example"),
    ("2001:db8::1", "=2001:db8::1"),
    ("abcd:ef01::1", "=abcd:ef01::1"),
    ("<a:b@c>", "=<a:b@c>"),
    ("a>b", "=a>b"),
    ("-", "=-"),
    ("ip:[2001:DB8::1]", "ip=2001:DB8::1"),
    ("after:2025-11-01", "after=1761955200000"),
    ("before:2025-11-01T14:30", "before=1762007400000"),
    ("before:2025-11-01T14:30+01:00", "before=1762003800000"),
    ("after:24h", f"after={NOW - 86_400_000}"),
    ("after:today", "after=1763337600000"),
    ("after:yesterday", "after=1763251200000"),
    ("tenant:Sales", f"tenant={SALES}"),
    (f"id:{ID.upper()}", f"id={ID}"),
    ("id:0199F0D2", "id=0199f0d2"),
    (f"campaign:{ID}", f"campaign={ID}"),
    (f"sha256:{'AB' * 32}", f"sha256={'ab' * 32}"),
]


@pytest.mark.parametrize(("text", "meaning"), MEANINGS)
def test_what_a_text_means(text: str, meaning: object) -> None:
    assert read(text) == meaning


def test_days_are_those_of_the_zone() -> None:
    place = SearchPlace(NOW, timezone(timedelta(hours=2)))
    assert read("after:2025-11-01", place) == f"after={int(datetime(2025, 10, 31, 22, tzinfo=UTC).timestamp()) * 1000}"


FAULTS = [
    ("form:ann", "form:", "Did you mean from:?"),
    ("xyz:ann", "xyz:", "in quotes"),
    ("Re: invoice", "Re:", "in quotes"),
    ("a OR", "OR", 'write "OR"'),
    ("OR a", "OR", "Before OR"),
    ("a AND OR b", "AND", "Behind AND"),
    ("NOT", "NOT", "Behind NOT"),
    ("(a b", "(", "not closed"),
    ("a)", ")", "closes none"),
    ("()", ")", "a term is missing"),
    ('subject:"your', '"your', "not closed"),
    ('""', '""', "empty"),
    ("from:", "from:", "from:ann@example.org"),
    ("verdict:bad", "verdict:bad", "phishing"),
    ("decision:x", "decision:x", "quarantine"),
    ("score:5", "score:5", "score>5"),
    ("score>five", "score>five", "a number"),
    ("from>5", "from>5", "colon"),
    ("sha256:12", "sha256:12", "64"),
    ("file:*.iso", "file:*.iso", "whole name"),
    ("url:login", "url:login", "begins with a host"),
    ("ip:evil.example", "ip:evil.example", "host:"),
    ("id:12", "id:12", "first 8 digits"),
    ("campaign:12345678", "campaign:12345678", "whole id"),
    ("after:tomorrow", "after:tomorrow", "how long ago"),
    ("before:2025-99-99", "before:2025-99-99", "a day"),
    ("tenant:Nobody", "tenant:Nobody", "no tenant"),
    ("a OR tenant:Sales", "tenant:Sales", "whole search"),
    (f"NOT id:{ID}", f"id:{ID}", "whole search"),
    ("state:held", "state:held", "held mail only"),
    ("after:1d before:7d", "before:7d", "ends before it begins"),
]


@pytest.mark.parametrize(("text", "wrong", "said"), FAULTS)
def test_a_fault_has_a_place_and_says_what_to_write(text: str, wrong: str, said: str) -> None:
    fault = parse_search(text, PLACE)
    assert isinstance(fault, SearchFault), fault
    assert text[fault.start : fault.end].lower() == wrong.lower()
    assert said in fault.message
    assert fault.message.endswith((".", "…"))


def test_held_mail_has_states_and_no_next_hop() -> None:
    place = SearchPlace(NOW, is_held=True)
    found = parse_search("state:deleted evil", place)
    assert not isinstance(found, SearchFault)
    assert find_state(found) == "deleted"
    assert isinstance(parse_search("next-hop:4XyZ", place), SearchFault)


def test_texts_have_limits() -> None:
    assert isinstance(parse_search("a" * (MAX_LENGTH + 1), PLACE), SearchFault)
    assert isinstance(parse_search("a " * (MAX_TERMS + 1), PLACE), SearchFault)
    assert read("(" * (MAX_DEPTH - 1) + "a" + ")" * (MAX_DEPTH - 1)) == "=a"
    assert isinstance(parse_search("(" * 900 + "a" + ")" * 900, PLACE), SearchFault)
    assert isinstance(parse_search("NOT " * 400 + "a", PLACE), SearchFault)


@given(st.text(alphabet="abOR ANDNOT()\"'\\“”:-<>=.@*/\n\x00é\ud800", max_size=60) | st.text(max_size=80))
def test_any_text_has_a_meaning_or_a_fault_within_it(text: str) -> None:
    found = parse_search(text, PLACE)
    if isinstance(found, SearchFault):
        assert 0 <= found.start <= found.end <= len(text)
        assert found.message


@given(st.text(min_size=1, max_size=40).filter(lambda text: text.strip() == text))
def test_what_is_written_is_read_as_it_was(value: str) -> None:
    assert parse_search(write_term("subject", value), PLACE) == Leaf(
        "subject", value, ":", 0, len(write_term("subject", value))
    )
    word = parse_search(write_term("", value), PLACE)
    assert isinstance(word, Leaf)
    assert (word.field, word.value) == ("", value)


def test_a_term_narrows_all_alternatives() -> None:
    assert read(add_term("a OR b", "verdict:spam")) == ["and", ["or", "=a", "=b"], "verdict=spam"]
    assert read(add_term("a", "b")) == ["and", "=a", "=b"]
    assert add_term(" ", "b") == "b"
    assert read(add_term("a", "NOT b")) == ["and", "=a", ["not", "=b"]]


def test_every_field_has_help_with_an_example_that_works() -> None:
    samples = {"sha256": "ab" * 32, "campaign": ID, "state": "deleted"}
    for name, field in FIELDS.items():
        place = SearchPlace(NOW, tenants={"sales": SALES}, is_held=name == "state")
        text = f"{name}{'' if name == 'score' else ':'}{samples.get(name, field.example)}"
        assert not isinstance(parse_search(text, place), SearchFault), text
        assert field.help
