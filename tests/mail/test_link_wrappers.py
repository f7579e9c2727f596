"""Redirectors and click-time wrappers: what is inside, and who may not pose as one."""

import base64
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatepost.mail.links import CODECS, MAX_LAYERS, NO_URL, Wrapper, _load_index, find_carried_url, parse_url, unwrap

INNER = "https://evil.test/a?b=1"
QUOTED = "https%3A%2F%2Fevil.test%2Fa%3Fb%3D1"
ENCODED = base64.urlsafe_b64encode(INNER.encode()).decode().rstrip("=")


@pytest.mark.parametrize(
    "wrapped",
    [
        f"https://eur01.safelinks.protection.outlook.com/?url={QUOTED}&data=05%7C01&reserved=0",
        f"https://eur01.safelinks.protection.outlook.com/GetUrlReputation?x=1&amp;URL={QUOTED}",
        f"https://urldefense.proofpoint.com/v1/url?u={QUOTED}&k=abc",
        "https://urldefense.proofpoint.com/v2/url?u=https-3A__evil.test_a-3Fb-3D1&d=DwMF&c=x",
        "https://urldefense.com/v3/__https://evil.test/a?b=1__;!!abc$",
        "https://urldefense.com/v3/__https:/evil.test/a*b=1__;Pw!!abc$",
        f"https://www.google.com/url?sa=t&q={QUOTED}&usg=x",
        f"https://google.co.uk/url?url={QUOTED}",
        f"https://linkprotect.cudasvc.com/url?a={QUOTED}&c=E,1",
        f"https://secure-web.cisco.com/1a2B3c/{QUOTED}",
        f"https://ca-1234.wis.trendmicro.com/wis/clicktime/v1/query?url={QUOTED}&umid=1",
        f"https://eu-west-1.protection.sophos.com/?d=evil.test&u={ENCODED}&i=1",
        f"https://clicktime.symantec.com/3abc/6H2?u={QUOTED}",
        f"https://www.linkedin.com/redir/redirect?url={QUOTED}&urlhash=x",
        f"https://l.facebook.com/l.php?u={QUOTED}&h=AT0",
        f"https://www.youtube.com/redirect?event=x&q={QUOTED}",
        f"https://www.bing.com/ck/a?!&&p=1&u=a1{ENCODED}&ntb=1",
        f"https://adclick.g.doubleclick.net/pcs/click?xai=1&adurl={QUOTED}",
        f"https://www.googleadservices.com/pagead/aclk?sa=L&adurl={QUOTED}",
        "https://ad.doubleclick.net/ddm/clk/1;2;3?https://evil.test/a?b=1",
        "https://www.google.com/amp/s/evil.test/a?b=1",
        "https://evil-test.cdn.ampproject.org/c/s/evil.test/a?b=1",
        "https://evil-test.translate.goog/a?b=1",
        "https://protect.checkpoint.com/v2/___https://evil.test/a?b=1___.YXA",
        f"https://protect2.fireeye.com/v1/url?k=1&u={QUOTED}",
        f"https://r.search.yahoo.com/_ylt=A/RV=2/RE=1/RO=10/RU={QUOTED}/RK=2/RS=x",
        "https://web.archive.org/web/2020/https://evil.test/a?b=1",
    ],
)
def test_known_wrappers(wrapped: str) -> None:
    outer = parse_url(wrapped)
    inner, peeled = unwrap(outer)
    assert inner.href == INNER
    assert peeled == (outer.host,)


@pytest.mark.parametrize(
    "plain",
    [
        "https://www.google.com/search?q=https%3A%2F%2Fevil.test",  # a search, not a redirect
        f"https://www.google.evil.test/url?q={QUOTED}",  # not Google's host
        f"https://google.com.evil.test/url?q={QUOTED}",
        f"https://evil.test/l.php?u={QUOTED}",
        f"https://www.facebook.com/sharer.php?u={QUOTED}",  # shares, does not lead there
        "https://protect-eu.mimecast.com/s/AbCd?domain=evil.test",  # opaque
        "https://www.google.com/url?q=javascript:alert(1)",
        "https://www.google.com/url",
        "https://urldefense.com/v3/__;!!",
        "https://www.bing.com/ck/a?u=a1%%%",
        "mailto:ann@example.com",
    ],
)
def test_what_is_no_wrapper_stays(plain: str) -> None:
    url = parse_url(plain)
    assert unwrap(url) == (url, ())


def test_layers_are_peeled_to_a_limit() -> None:
    url = INNER
    for _ in range(3):
        url = f"https://l.facebook.com/l.php?u={quote(url, safe='')}"
    assert unwrap(parse_url(url)) == (parse_url(INNER), ("l.facebook.com",) * 3)
    endless = "https://web.archive.org/web/" * 1_000
    assert len(unwrap(parse_url(endless))[1]) <= MAX_LAYERS


@pytest.mark.parametrize(
    ("url", "inner"),
    [
        (f"https://site.test/go?target={QUOTED}", INNER),
        (f"https://site.test/go?x=1&anything={INNER}", INNER),
        (f"https://site.test/go#{ENCODED}", INNER),
        (f"https://site.test/?r={ENCODED}", INNER),
        (f"https://site.test/#{QUOTED}", INNER),
        (f"https://site.test/#/login?next={QUOTED}", INNER),
        ("https://site.test/?u=https%253A%252F%252Fevil.test%252Fa%253Fb%253D1", INNER),
        ("https://site.test/?from=https%3A%2F%2Fsite.test%2Flogin", ""),  # its own
        ("https://site.test/?q=http", ""),
        ("https://site.test/path", ""),
        ("https://site.test/?id=aHR0c", ""),
    ],
)
def test_carried(url: str, inner: str) -> None:
    assert find_carried_url(parse_url(url)).href == inner


def test_rules_are_sound() -> None:
    wrappers: set[Wrapper] = set()
    index = _load_index()
    for table in (index.hosts, index.parents, index.labels):
        for found in table.values():
            wrappers.update(found)
    assert len(wrappers) > 30
    for wrapper in wrappers:
        assert wrapper.codec in CODECS
        assert wrapper.path.startswith("/")
        assert all(key == key.lower() for key in wrapper.query)


@given(st.text(), st.sampled_from(sorted(CODECS)))
def test_codecs_are_total(text: str, codec: str) -> None:
    assert isinstance(CODECS[codec](text), str)


@given(st.sampled_from(sorted(_load_index().hosts)), st.text())
def test_unwrap_is_total(host: str, rest: str) -> None:
    url = parse_url(f"https://{host}/{rest}")
    inner, peeled = unwrap(url)
    assert inner is not NO_URL or url is NO_URL
    assert len(peeled) <= MAX_LAYERS
