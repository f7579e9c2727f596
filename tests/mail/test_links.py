"""Links in plain text, and what the collection of links keeps."""

from collections.abc import Callable
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.variants import one_in

from gatepost.mail.links import MAX_LINKS, MAX_SHOWN, Links, find_cut_targets, find_targets
from gatepost.mail.message import Part
from gatepost.mail.text import TextReader


@pytest.mark.parametrize(
    ("text", "targets"),
    [
        ("see http://example.com/a.", ["http://example.com/a"]),
        ("(http://example.com/a)", ["http://example.com/a"]),
        ("http://example.com/a_(b), and", ["http://example.com/a_(b)"]),
        ("<http://example.com/a>", ["http://example.com/a"]),
        ("[http://example.com/a]", ["http://example.com/a"]),
        ('"http://example.com/a"', ["http://example.com/a"]),
        ("*http://example.com/a*!?", ["http://example.com/a"]),
        ("http://example.com/))))", ["http://example.com/"]),
        ("HTTPS://EXAMPLE.com", ["https://EXAMPLE.com"]),
        ("ftp://example.com/x", ["ftp://example.com/x"]),
        ("http:\\\\evil.test\\x", ["http:\\\\evil.test\\x"]),
        ("hxxp://evil[.]test/x", ["http://evil.test/x"]),
        ("hxxps[:]//evil(.)test", ["https://evil.test"]),
        ("h**p://evil[dot]test", ["http://evil.test"]),
        ("evil[.]com/x", ["http://evil.com/x"]),
        ("www.example.com", ["http://www.example.com"]),
        ("example.com, example.org.", ["http://example.com", "http://example.org"]),
        ("bit.ly/abc t.co/x", ["http://bit.ly/abc", "http://t.co/x"]),
        ("foo.com.evil.xyz", ["http://foo.com.evil.xyz"]),
        ("раypal.com/login", ["http://раypal.com/login"]),
        ("请访问http://evil.com查看", ["http://evil.com"]),
        ("去evil.xyz/a，好", ["http://evil.xyz/a"]),
        ("http://2130706433/", ["http://2130706433/"]),
        ("http://localhost:8080/x", ["http://localhost:8080/x"]),
        ("mailto:ann@example.com", ["mailto:ann@example.com"]),
        ("a\thttp://x.test\r\nhttp://y.test", ["http://x.test", "http://y.test"]),
        ("<http://example.com/long\n path>", ["http://example.com/longpath", "http://example.com/long"]),
        ("ann@example.com wrote", []),
        ("README.md setup.py node.js 3.14 e.g. i.e.", []),
        ("Hello.World this is.fine", []),
        ("12:30 a:b C:\\x", []),
        ("www. http:// .com", []),
        ("", []),
    ],
)
def test_targets(text: str, targets: list[str]) -> None:
    assert list(find_targets(text)) == targets


def collected(*targets: str) -> list[tuple[str, tuple[str, ...]]]:
    links = Links()
    for target in targets:
        links.add(target, "1", "text", shown=target)
    return [(link.host, link.wrapped) for link in links]


def test_a_known_redirector_is_peeled_off() -> None:
    assert collected("https://www.google.com/url?q=https://evil.test/") == [("evil.test", ("www.google.com",))]


def test_another_site_is_told_with_what_it_carries() -> None:
    """`https://evil.test/?url=https://bank.example` must not pass for a link to the bank."""
    assert collected("https://evil.test/?url=https%3A%2F%2Fbank.example") == [
        ("evil.test", ()),
        ("bank.example", ("evil.test",)),
    ]


def test_wrapper_in_a_redirect_in_a_wrapper() -> None:
    inner = "https%3A%2F%2Fsite.test%2F%3Fu%3Dhttps%253A%252F%252Fevil.test"
    assert collected(f"https://www.google.com/url?q={inner}") == [
        ("site.test", ("www.google.com",)),
        ("evil.test", ("www.google.com", "site.test")),
    ]


def test_the_same_link_is_kept_once_and_followed_once() -> None:
    links = Links()
    for shown in ("a", "a", "b"):
        links.add("http://example.com/", "1", "html", shown=shown)
    assert [link.shown for link in links] == ["a", "b"]
    assert links.followed == 1


def test_links_without_url_are_kept_as_written() -> None:
    links = Links()
    links.add("http://a b/", "1", "html", shown="x" * 5_000)
    (link,) = links
    assert (link.target, link.url, link.host, len(link.shown)) == ("http://a b/", "", "", MAX_SHOWN)


def test_links_are_bounded() -> None:
    links = Links()
    for number in range(MAX_LINKS + 50):
        links.add(f"http://example.com/{number}", "1", "text")
    assert len(links) == links.followed == MAX_LINKS
    assert not links.is_whole


@pytest.mark.parametrize(
    "bait",
    [
        "a." * 200000,
        "www." * 200000,
        "http://" * 100000,
        ")" * 400000,
        "a@b." * 100000,
        "<http://a " * 50000,
        "[.]" * 100000,
        "-." * 200000,
        "http://x" + ")" * 400000,
        "http://x" + ".)" * 200000,
    ],
)
def test_bait_yields_little(bait: str) -> None:
    """Each is read in one pass: the suite's time limit is far above what they take, and far below a quadratic pass."""
    assert sum(1 for _ in find_targets(bait)) <= 100_000


@given(st.text())
def test_targets_are_total(text: str) -> None:
    links = Links()
    for target in find_targets(text):
        links.add(target, "1", "text")
    assert all(link.where == "1" for link in links)


@given(
    st.lists(
        st.sampled_from("http https hxxp ftp mailto www ww2 com ly ru . : / \\ [:] @ - 1 é 公 ? # =".split()),
        max_size=12,
    )
)
def test_no_link_is_passed_over(pieces: list[str]) -> None:
    # The mark in front has every word looked at; `<` keeps it out of what follows.
    word = "".join(pieces)
    assert list(find_targets(word)) == list(find_targets(f":/<{word}"))


INNER = "https://evil.example/a?b=1"
HANDED_ON = [
    "view-source:{}",
    "jar:{}!/x.html",
    "ms-word:ofe|u|{}",
    "ms-excel:ofv|u|{}|n|x",
    "ms-powerpoint:nft|u|{}",
    "ms-appinstaller:?source={}",
    "feed:{}",
    "mhtml:{}!x-usc:y",
    "intent:{}#Intent;end",
    "javascript:location.href='{}'",
    "x-unknown-program:open?url={}",
    "MS-Word:ofe|u|{}",
]


@pytest.mark.parametrize("form", HANDED_ON)
@pytest.mark.parametrize(
    "encode", [str, lambda text: quote(text, safe=""), lambda text: quote(quote(text, safe=""), safe="")]
)
def test_an_address_that_a_link_hands_on_is_a_link(form: str, encode: Callable[[str], str]) -> None:
    found = Links()
    found.add(form.format(encode(INNER)), "1", "html")
    assert "evil.example" in {link.host for link in found}


@pytest.mark.parametrize(
    "share", ["\\\\evil.example\\share", "\\\\evil.example@80\\share", "//evil.example/share", "%5C%5Cevil.example%5Cs"]
)
@pytest.mark.parametrize(
    "form", ["search-ms:query=x&crumb=location:{}&displayname=Invoices", "search:query=a&crumb=location:{}"]
)
def test_a_share_that_a_link_searches_is_a_link(form: str, share: str) -> None:
    found = Links()
    found.add(form.format(share), "1", "html")
    assert "evil.example" in {link.host for link in found}


@pytest.mark.parametrize(
    "target", ["mailto:a@b.example?body=https://c.example/", "tel:+1", "data:text/plain,https://c.example/", "cid:1"]
)
def test_other_links_hand_nothing_on(target: str) -> None:
    found = Links()
    found.add(target, "1", "html")
    assert {link.host for link in found} <= {"", "b.example"}


CUTS = [
    "<b></b>",
    "<span></span>",
    "</b><b>",
    "<wbr>",
    "<!-- x -->",
    "<font size=2></font>",
    "&shy;",
    "<a name=x></a>",
    "<i>",
    "&#8203;",
]


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("place", range(8, 24, 3))
def test_a_link_is_read_as_it_is_shown(cut: str, place: int) -> None:
    target = "https://evil-mailbox.example/login"
    html = f"<p>Sign in at <b>{target[:place]}{cut}{target[place:]}</b> today.</p>"
    reader = TextReader()
    reader.read(Part("1", content_type="text/html", content=html.encode()))
    assert target in {link.url for link in reader.links}


def test_what_markup_does_not_cut_is_read_once() -> None:
    html = (
        "<p>See https://a.example/x. <a href='https://b.example/'>https://a.example/xyz</a> or https://a.example/x</p>"
    )
    reader = TextReader()
    reader.read(Part("1", content_type="text/html", content=html.encode()))
    assert {link.host for link in reader.links} == {"a.example", "b.example"}


@pytest.mark.parametrize(
    "visible", one_in(2, ["http://a.example/b" * 200_000, "x" * 1_000_000 + "http://a.example/b" + "x" * 1_000_000])
)
def test_cut_links_are_bounded(visible: str) -> None:
    assert (
        len(list(find_cut_targets(visible, ["http://a.example/b", *(f"http://a.example/b{n}" for n in range(500))])))
        < 100
    )
