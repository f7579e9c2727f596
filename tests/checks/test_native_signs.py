"""Signs of texts and URLs that triggers ask for: the native form sets each that its Python twin sets."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gatepost import speedups
from gatepost.checks import phrases, triggers
from gatepost.checks.links import urls
from gatepost.checks.reading import Reading
from gatepost.mail.message import Link, Message, Text

native = speedups.native
pytestmark = pytest.mark.skipif(native is None, reason="not run: the native speedups were not built here")

WORDS = (
    "v1agra|v1agra.|p@ssw0rd|m3u|x1y2z|v i a g r a|V-I-A-G-R-A |п|Раypal|hello |+$1,989|+$ 5|$500|€ 1.000|1 200 usd|"
    "12,50EUR|9 99 eth|whether|$ 1,300,000|10.5 million dollars|usd 2.4m|850.000 eur|1,000,000|100 000 pounds|"
    "٣٣٣,٣٣٣ $|8o5-5s5-0100|8|o|5|s|-| |.|(|8 0 5 5 5 5 0 1 0 0|eight zero five, five five five, zero |one |4 1|2 |"
    "8o5|5s5||010|𝟠|\n|é|\x00|lantern gravel marmot oblique tundra "
)
PIECES = st.sampled_from((*WORDS.split("|"), "|", "abcdefg hij " * 13, "àbc déf " * 20))


@settings(max_examples=400)
@given(st.lists(PIECES, max_size=14), PIECES, st.lists(st.lists(PIECES, max_size=5), max_size=2))
def test_no_sign_of_texts_is_missing(folded: list[str], subject: str, hidden: list[list[str]]) -> None:
    """The native form may set a sign without need, and must set each that its twin sets."""
    hides = ["".join(pieces) for pieces in hidden] or [""]
    texts = (Text("1", "plain", "".join(folded), hides[0]), *(Text("2", "plain", "", text) for text in hides[1:]))
    message = Message(subject=subject, texts=texts)
    found = phrases.search_message(message)
    assert found.signs is not None
    assert not triggers.find_text_signs(found.text, message) & ~found.signs


@pytest.mark.parametrize(
    ("text", "signs"),
    [
        ("Shall we go at noon on the 14th? It costs 20 francs, or whether 5 of us", 0),
        ("cheap v1agra", 1),
        ("V-I-A-G-R-A", 1),
        ("Hello +$1,989", 2),
        ("wins 2.4 million euros", 4),
        ("ring 8o5-5s5-0100", 8),
        ("my Wallet", 16),
        ("ring 805-555-0100, or 805-555-0101", 0),
    ],
)
def test_signs_of_texts(text: str, signs: int) -> None:
    message = Message(texts=(Text("1", "plain", text),))
    found = phrases.search_message(message)
    assert found.signs == triggers.find_text_signs(found.text, message) == signs
    attached = Message(texts=(Text("1", "plain", text, attached=True),))
    assert phrases.search_message(attached).signs == triggers.find_text_signs(found.text, attached) == signs & ~2


URLS = st.sampled_from(
    "http://a.example|https://b.example:8080|/|x|.exe|.ZIP|.pdf.html|.html|.htm|.PDF.HTM|?q=a.exe|#|.com|.co|.com/|.cool|"
    "login|SignIn|secur|e|update|@|:|..|www.paypal.com|é.exe|%2E|\n".split("|")
)


@settings(max_examples=400)
@given(st.lists(st.lists(URLS, max_size=7), max_size=3), st.sampled_from(("", "x" * 290, "y" * 2_000)))
def test_no_sign_of_urls_is_missing(given_urls: list[list[str]], long: str) -> None:
    made = tuple(
        Link("", "".join(("http://", *pieces[:2], long, *pieces[2:])), "", "", "1", "text") for pieces in given_urls
    )
    signs = triggers.find_url_signs(made)
    # Most pages are no downloads: where the native form says so, the check finds nothing.
    if signs & 4 & ~native.url_signs(made):
        assert not list(urls.download.run(Reading(Message(links=made))))
        signs &= ~4
    assert not signs & ~native.url_signs(made)


def _make_link(url: str) -> Link:
    return Link("", url, "a.example", "", "1", "text")
