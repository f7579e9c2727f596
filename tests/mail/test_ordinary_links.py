"""Ordinary links are found and made natively, as Python finds and makes them; odd ones are left to Python."""

import sys

import pytest
from bench.corpus import NotPresentError, mail
from bench.fuzz.native_twins import describe_links
from hypothesis import given
from hypothesis import strategies as st

from gatepost.mail import links, text
from gatepost.mail.links import MAX_LINKS, Event, Links, find_any_targets, find_targets
from gatepost.mail.message import Link
from gatepost.mail.reader import read
from gatepost.speedups import native

pytestmark = pytest.mark.skipif(native is None, reason="not run: the native speedups were not built here")

ORDINARY = (
    "http://example.com",
    "https://www.example.com/",
    "http://EXAMPLE.com/A",
    "https://a-b.c_d.example?x=1",
    "https://example.com#y",
    "http://example.com/a//b/%41%zz?c=[1]&d={e|f}#g?h'",
    "http://localhost/x",
    "http://1.2.3.example/'()*!$,;=:@",
    f"http://{'a' * 63}.example/{'b' * 900}",
)
ODD = (
    "",
    "http://",
    "http:///example.com",
    "http:/example.com",
    "HTTP://example.com/",
    "ftp://example.com/",
    "mailto:ann@example.com",
    "//example.com/a",
    "www.example.com/a",
    " http://example.com/",
    "http://example.com/ ",
    "http://exa\tmple.com/",
    "http://example.com/a b",
    "http://ann@example.com/",
    "http://ann:x@example.com/",
    "http://example.com:80/",
    "http://example.com:/",
    "http://example.com./",
    "http://.example.com/",
    "http://example..com/",
    "http://1.2.3.4/",
    "http://0x7f.1/",
    "http://2130706433/",
    "http://[::1]/",
    "http://xn--mller-kva.example/",
    "http://a.XN--mller-kva.example/",
    "http://m\u00fcller.example/",
    "http://ex%61mple.com/",
    "http://example.com\\a",
    "http://example.com/\\a",
    "http://example.com/../a",
    "http://example.com/a/./b",
    "http://example.com/%2e%2e/a",
    "http://example.com/.well-known",
    "http://example.com/a'?b='",
    "http://example.com/\u4e2d",
    "http://example.com/\x7f",
    "http://example.com/?u=http://other.example/",
    "http://example.com/?u=aHR0cHM6Ly9vdGhlci5leGFtcGxl",
    "http://example.com/#%68ttp://other.example/",
    "https://www.google.com/url?q=x",
    "https://urldefense.com/v3/x",
    "https://EUR01.safelinks.protection.outlook.com/?url=x",
    f"http://example.com/{'a' * 1_000}",
    f"http://{'a' * 64}.example/",
    f"http://{'a.' * 127}example/",
)


def find_odd(targets: list[str]) -> list[str]:
    """Return the targets that native code leaves to Python."""
    odd: list[str] = []
    Links().add_items(targets, "1", odd.append)
    return odd


def test_ordinary() -> None:
    assert find_odd(list(ORDINARY)) == []
    assert describe_links(list(ORDINARY)) == describe_links(list(ORDINARY), is_twin=True)


def test_odd() -> None:
    assert find_odd(list(ODD)) == list(ODD)
    assert describe_links([*ODD, *ORDINARY]) == describe_links([*ODD, *ORDINARY], is_twin=True)


def test_the_same_for_every_character_at_every_place() -> None:
    hosts = ("{}http://a.b/", "ht{}tp://a.b/", "http://a{}b.example/", "http://{}.com", "http://a.{}/", "http://a.b{}")
    rests = ("{}", "c{}d/e", "?{}", "?c{}d", "#{}", "c?d#e{}f")
    places = (*hosts, *(f"http://a.b/{rest}" for rest in rests), "http://a.b?{}", "http://a.b#{}")
    targets = [place.format(chr(code)) for place in places for code in range(0x180)]
    assert describe_links(targets) == describe_links(targets, is_twin=True)


def test_one_link_is_kept_once() -> None:
    target = "http://example.com/"
    assert describe_links([target] * 9) == describe_links([target] * 9, is_twin=True)
    found = Links()
    found.add(target, "1", "text", shown=target)
    found.add_written([target, "http://other.example"], "1")
    assert [link.target for link in found] == [target, "http://other.example"]
    assert len(found) == 2


def test_events() -> None:
    """Events that are no links, and links with much text, are left to Python, in their place."""
    page: list[Event] = [
        ("html", "https://a.example", "shown", True),
        ("comment", "https://b.example", "", False),
        ("image", "https://a.example", "", False),
        ("srcset", "https://c.example", "", False),
        ("css", "https://d.example/x.css", "", False),
        ("html", "https://e.example", "e" * 1_001, False),
        ("html", "https://e.example", "\u4e2d" * 1_000, False),
    ]
    odd: list[Event] = []
    found = Links()
    found.add_items(page, "1.2", odd.append)
    assert odd == [page[1], page[3], page[5]]
    assert list(found) == [
        Link("https://a.example", "https://a.example/", "a.example", "shown", "1.2", "html", (), True),
        Link("https://a.example", "https://a.example/", "a.example", "", "1.2", "image"),
        Link("https://d.example/x.css", "https://d.example/x.css", "d.example", "", "1.2", "css"),
        Link("https://e.example", "https://e.example/", "e.example", "\u4e2d" * 1_000, "1.2", "html"),
    ]


@pytest.mark.parametrize("room", [0, 1, 2, 5, 6, 9])
def test_the_limit_is_the_same(room: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links, "MAX_LINKS", room)
    odd = "https://www.google.com/url?q=https://a.example/?u=https://b.example"
    targets = ["http://a.example", odd, "http://c.example", "http://c.example", odd, "http://d.example"]
    assert describe_links(targets) == describe_links(targets, is_twin=True)
    assert describe_links(targets)[-1] is False


def test_an_error_of_python_is_raised() -> None:
    def refuse(_: str) -> None:
        raise LookupError

    with pytest.raises(LookupError):
        Links().add_items(["http://a.example", "odd"], "1", refuse)
    some: tuple[object, ...] = (["http://a.example"], "1", "text", {}, 9)
    with pytest.raises(LookupError):
        native.make_links(*some, Link, refuse, refuse)
    with pytest.raises(TypeError):
        native.make_links(*some, len, bool, refuse)
    with pytest.raises(TypeError):
        native.make_links(["odd"], "1", "text", {}, 9, Link, bool, lambda _item, _added: "none")
    with pytest.raises(TypeError):
        native.find_targets("\u4e2d.com", frozenset({"com"}), frozenset({"com"}), str.upper)


WRITTEN = (
    *"http:// https:// HTTP:// hTTps: hxxp:// h**ps:// ftp:\\ http:/// http:////// http[:]// http:]// www.".split(),
    *'WWW2. www22. www333. mailto: mailto:a@b.com .com .COM .ly/x .ly .zip a bc b. .b @ - _ 9 < > "'.split(),
    *"' ( ) [ ] { } )] . .. \u2026 : o: :/ :] / \\ ? # % & = , ; ! * | ~ ` \x7f a.org x.co.uk [.] (dot) <URL:".split(),
    *(
        " ",
        "\n",
        "\t",
        "\r",
        "\x0b",
        "\x1f",
        "\xa0",
        "{ . }",
        "[\xa0DOT\u3000]",
        "<http://a.com b>",
        "<http://a.com\xa0b>",
    ),
    *("<URL: https://a.com\nb c>", "\u00e9", "\u4e2d", "\uff0c", "\u201c", "\u212a", ".u\u212a/a", "\u017f", "\u0131"),
    *("\u0663", "www\u0663.", "www\u06639.a", "\ud800", "\U0001f600", "a" * 63, "b" * 64, "a." * 9 + "com"),
)


@given(st.lists(st.sampled_from(WRITTEN), max_size=16))
def test_the_same_targets(pieces: list[str]) -> None:
    written = "".join(pieces)
    assert list(find_targets(written)) == list(find_any_targets(written))


@given(st.text(st.sampled_from("htps:/w.com1@-_<> \n()[]d\xa0\u212a\u4e2d"), max_size=60))
def test_the_same_targets_of_letters(written: str) -> None:
    assert list(find_targets(written)) == list(find_any_targets(written))


def test_the_same_targets_of_pairs() -> None:
    for one in WRITTEN:
        for other in WRITTEN:
            both = one + other
            for written in (both, f"x {one}a.com{other}", f"http://a.com/{both}", f"{both}b.com/c"):
                assert list(find_targets(written)) == list(find_any_targets(written)), written


def test_one_letter_alone_has_a_small_form_in_ascii() -> None:
    """Native code knows it: a host may end with `.u\u212a`."""
    small = [chr(code) for code in range(0x80, sys.maxunicode + 1) if chr(code).lower().isascii()]
    assert small == ["\u212a"]


@pytest.mark.parametrize(
    "written",
    [
        "a.com " * 1_001,
        f"http://a.com/{'b' * 5_000} c.com",
        f"{'a' * 5_000}.com",
        f"http://a.com/{')]' * 40}",
        f"http://a.com/{')]' * 4}",
        "<http://a.com " * 300,
        "word " * 90_000 + "a.com",
        "\u4e2d.a " * 500 + "\u4e2da.com",
    ],
    ids=["many", "long path", "long label", "brackets", "few brackets", "angles", "large", "foreign"],
)
def test_the_same_for_much(written: str) -> None:
    assert list(find_targets(written)) == list(find_any_targets(written))


URL_PIECES = st.sampled_from(
    "http://¦https://¦a.example¦A.Example¦www.google.com/url?q=¦.¦..¦/¦//¦/.¦/..¦/%2e¦?¦#¦&u=http¦aHR0c¦%68¦%¦:¦:80¦@¦xn--¦"
    "xn-¦0x1¦9¦_¦-¦[¦]¦{¦|¦^¦`¦'¦\"¦<¦ ¦\t¦\n¦\\¦\x00¦\u00e9¦\u3002¦b¦B".split("¦")
)


@given(st.lists(st.lists(URL_PIECES, max_size=8).map(lambda pieces: "http://a.example" + "".join(pieces)), max_size=4))
def test_the_same_links(targets: list[str]) -> None:
    assert describe_links(targets) == describe_links(targets, is_twin=True)


@given(st.lists(st.lists(URL_PIECES, max_size=8).map("".join), max_size=4))
def test_the_same_links_of_anything(targets: list[str]) -> None:
    assert describe_links(targets) == describe_links(targets, is_twin=True)


def test_the_same_links_of_real_mail(monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        messages = mail(200)
    except NotPresentError as absence:
        pytest.skip(f"not run: {absence}")
    found = [read(message.raw).links for message in messages]
    monkeypatch.setattr(text, "find_targets", find_any_targets)
    monkeypatch.setattr(links, "native", None)
    assert [read(message.raw).links for message in messages] == found
    assert sum(map(len, found)) < MAX_LINKS * len(messages)
