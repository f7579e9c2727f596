import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatepost.mail.budget import ReadBudget
from gatepost.mail.headers import read_section
from gatepost.mail.mime import Entity, describe_entity, parse_parameters


@pytest.mark.parametrize(
    ("text", "main", "name", "odd"),
    [
        ("text/plain", "text/plain", None, False),
        ("Text/PLAIN; Name=a.txt", "text/plain", "a.txt", False),
        ('text/plain; name="a b;c.txt"', "text/plain", "a b;c.txt", False),
        ("text/plain;name=a.txt;", "text/plain", "a.txt", False),
        ("text/plain; name*=utf-8''%e2%82%ac.txt", "text/plain", "€.txt", False),
        ("text/plain; name*0=a; name*1=.txt", "text/plain", "a.txt", False),
        ("text/plain; name*0*=utf-8'en'%e2%82; name*1*=%ac", "text/plain", "€", False),
        ("text/plain; name*1=b; name*0=a", "text/plain", "ab", False),
        ('text/plain; name="a\\"b"', "text/plain", 'a"b', True),
        ("text/plain; name=a b.txt", "text/plain", "a b.txt", True),
        ("()text/plain; name=a.txt", "text/plain", "a.txt", True),
        ('"text/plain"; name=a.txt', "text/plain", "a.txt", True),
        ("text/plain, name=a.txt", "text/plain", "a.txt", True),
        ("text/plain; name=a; name=b", "text/plain", "a", True),
        ("", "", None, True),
    ],
)
def test_parse(text: str, main: str, name: str | None, odd: bool) -> None:
    parsed = parse_parameters(text)
    assert (parsed.main, parsed.get("name"), parsed.odd) == (main, name, odd)


@pytest.mark.parametrize(
    "text",
    [
        "text/plain; name=file.png; name=file.zip",
        "text/plain; name=file.zip; name=file.png",
        "text/plain; name=file.png; name*=''file.zip",
        "text/plain; name*1=file.; name*0=zip",
        "text/plain; name*2=zip; name*1=file.",
        "text/plain; name*0=file.; name*2=zip",
        "text/plain; name=file.z(.gif)ip",
        "text/plain; na()me=file.zip",
        "text/plain; name()=file.zip",
        "text/plain; name='file.zip'",
        'text/plain; name="file.zip',
        'text/plain; name="file.zip"x',
        "text/plain; name\\=file.zip",
        "text/plain; foo=bar name=file.zip",
        'text/plain; foo="bar; name=file.zip',
        "text/plain; foo=bar\\; name=file.zip",
        "text/plain; name=file.zip(.gif)",
    ],
)
def test_every_name_that_some_program_shows_is_seen(text: str) -> None:
    assert "file.zip" in parse_parameters(text).spellings("name")


def test_parameters_past_the_limit_make_the_value_odd() -> None:
    assert parse_parameters("a/b; " + "".join(f"k{number}=v; " for number in range(600)) + "z=z").odd


@given(st.text(alphabet="abname*01=;\"'\\() %-/,\t", max_size=60))
def test_any_text_parses(text: str) -> None:
    parsed = parse_parameters(text)
    parsed.get("name")
    assert len(parsed.spellings("name", "boundary")) <= 24


def _describe(fields: bytes) -> tuple[Entity, list[str]]:
    budget = ReadBudget()
    headers = read_section(fields + b"\r\n\r\n", 0, frozenset(), "1", budget).headers
    return describe_entity(headers, "1", budget), [defect.kind for defect in budget.defects]


def test_what_is_remembered_of_fields_has_the_headers_of_each_message() -> None:
    fields = b"Content-Type: text/html; charset=koi8-r\r\nContent-Transfer-Encoding: base64"
    first, again = _describe(b"Subject: one\r\n" + fields), _describe(b"Subject: two\r\n" + fields)
    assert first[0].charset == again[0].charset == "koi8-r"
    assert [each[0].headers.first("subject") for each in (first, again)] == ["one", "two"]


def test_odd_fields_are_noted_for_every_message() -> None:
    fields = b"Content-Type: text/plain; name=a; name=b\r\nContent-Transfer-Encoding: x-uue"
    first, again = _describe(fields), _describe(fields)
    assert first == again
    assert "mime:nonstandard-encoding" in first[1]
