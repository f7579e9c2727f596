import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatepost.mail.entity import parse_parameters


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
