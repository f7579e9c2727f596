"""HTML as a person sees it: text, links and what acts, with the honest forms beside the tricks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatepost.mail.html.active import HtmlNotes, has_markup
from gatepost.mail.html.document import HtmlPage
from gatepost.mail.links import Links


def read(html: str) -> tuple[HtmlPage, Links, dict[str, str]]:
    links, notes = Links(), HtmlNotes()
    page = HtmlPage(html, "1", links, notes)
    return page, links, {defect.kind: defect.detail for defect in notes.defects("1")}


@pytest.mark.parametrize(
    ("html", "visible"),
    [
        ("<p>one<p>two", "one\ntwo"),
        ("a<br>b<br/>c", "a\nb\nc"),
        ("<b>pay</b><i>pal</i>", "paypal"),
        ("v<!-- x -->ia<!---->gra", "viagra"),
        ("v<span></span>ia<font size=1></font>gra", "viagra"),
        ("&#118;i&#x61;&#0103;r&amp;", "viagr&"),
        ("a\n  b\t c", "a b c"),
        ("<table><tr><td>a</td><td>b</td></tr><tr><td>c</td></tr></table>", "a b\nc"),
        ("<ul><li>a<li>b</ul>", "a\nb"),
        ("<title>t</title><style>s</style><script>x</script>seen", "seen"),
        ("<noscript>seen</noscript>", "seen"),
        ("<textarea>a</textarea><button>b</button><input type=submit value=c>", "a\nb c"),
        ("<div style='direction:rtl;unicode-bidi:bidi-override'>lapyap</div>", "paypal"),
        ("<plaintext>a<b>", "a<b>"),
        ("<frameset><frame src=x></frameset>", ""),
        ("no markup at all", "no markup at all"),
        ("", ""),
    ],
)
def test_visible(html: str, visible: str) -> None:
    assert read(html)[0].join_visible() == visible


@pytest.mark.parametrize(
    ("html", "reason"),
    [
        ("<div style='display:none'>secret</div>", "display"),
        ("<div hidden>secret</div>", "attribute"),
        ("<body bgcolor=white><font color=#ffffff>secret</font>", "colour"),
        ("<body bgcolor=000000 text=000001>secret", "colour"),
        ("<table bgcolor=#00f><td><font color=blue>secret</font></table>", "colour"),
        ("<style>.x{font-size:0}</style><p class=x>secret</p>", "font-size"),
        ("<p class=x>secret</p><style>.x{display:none}</style>", "display"),  # the sheet may come last
        ("<div style='opacity:0'><p><b>secret</b></p></div>", "opacity"),
    ],
)
def test_hidden(html: str, reason: str) -> None:
    page, _, _ = read(f"{html}")
    assert "secret" not in page.join_visible()
    assert page.join_hidden() == "secret"
    assert list(page.unseen) == [reason]


@pytest.mark.parametrize(
    "html",
    [
        "<table><td background=x.png><font color=white>seen</font>",
        "<table><td bgcolor=#003366><font color=white>seen</font>",
        "<div style='background:#036'><a style='color:#fff'>seen</a></div>",
        "<div style='font-size:0'><span style='font-size:14px'>seen</span></div>",
        "<div style='display:none'>x</div>seen",
        "<p style='color:#999'>seen</p>",
        "<style>@media (max-width:1px){.x{display:none}}</style><p class=x>seen</p>",
    ],
)
def test_seen(html: str) -> None:
    assert "seen" in read(html)[0].join_visible()


@pytest.mark.parametrize(
    ("html", "expected"),
    [
        ("<a href='http://x.test/'>click <b>here</b></a>", [("http://x.test/", "click here", "html")]),
        ("<a href='http://x.test/'><img src='http://y.test/i' alt='Bank'></a>",
         [("http://y.test/i", "", "image"), ("http://x.test/", "Bank", "html")]),
        ("<a href='http://x.test/'>a<span style='display:none'>b</span></a>", [("http://x.test/", "a", "html")]),
        ("<a href='#top'>x</a><a>y</a><a href=''>z</a>", []),
        ("<a href='//x.test'>x</a>", [("http://x.test/", "x", "html")]),
        ("<map><area href='http://x.test/' alt=spot></map>", [("http://x.test/", "spot", "html")]),
        ("<base href='http://x.test/d/'><a href=p>q</a>", [("http://x.test/d/p", "q", "html")]),
        ("<form action='http://x.test/'></form>", [("http://x.test/", "", "form")]),
        ("<button formaction='http://x.test/'>", [("http://x.test/", "", "form")]),
        ("<meta http-equiv=Refresh content='0; URL=\"http://x.test/\"'>", [("http://x.test/", "", "refresh")]),
        ("<meta name=x content='http://x.test/'>", []),
        ("<script src='http://x.test/s.js'></script>", [("http://x.test/s.js", "", "script")]),
        ("<img srcset='http://x.test/1 1x, http://x.test/2 2x'>",
         [("http://x.test/1", "", "image"), ("http://x.test/2", "", "image")]),
        ("<table><td background='http://x.test/b'>", [("http://x.test/b", "", "image")]),
        ("<p style='background:url(http://x.test/c)'>", [("http://x.test/c", "", "css")]),
        ("<style>@import 'http://x.test/d'; p{background:url( \"http://x.test/e\" )}</style>",
         [("http://x.test/d", "", "css"), ("http://x.test/e", "", "css")]),
        ("<link rel=stylesheet href='http://x.test/f'>", [("http://x.test/f", "", "css")]),
        ("<iframe src='http://x.test/g'></iframe>", [("http://x.test/g", "", "html")]),
        ("<svg><a xlink:href='http://x.test/'><text>go</text></a></svg>", [("http://x.test/", "go", "html")]),
        ("<v:roundrect href='http://x.test/'>go</v:roundrect>", [("http://x.test/", "go", "html")]),
        ("<a href='ht&#10;tp://x.t&#9;est/'>x</a>", [("http://x.test/", "x", "html")]),
    ],
)  # fmt: skip
def test_links(html: str, expected: list[tuple[str, str, str]]) -> None:
    assert [(link.url, link.shown, link.source) for link in read(html)[1]] == expected


def test_hidden_links_say_so() -> None:
    links = read("<div style='display:none'><a href='http://x.test/'>x</a></div><a href='http://y.test/'>y</a>")[1]
    assert [(link.host, link.hidden) for link in links] == [("x.test", True), ("y.test", False)]


@pytest.mark.parametrize(
    ("html", "kinds"),
    [
        ("<script>alert(1)</script>", {"html:script"}),
        ("<script type='application/ld+json'>{}</script>", set()),
        ("<img src=x onerror=alert(1)>", {"html:event-handler"}),
        ("<svg/onload=alert(1)>", {"html:svg-script"}),
        ("<svg><script>alert(1)</script></svg>", {"html:svg-script"}),
        ("<svg><a><animate attributeName=href values='javascript:alert(1)'>", {"html:svg-script"}),
        ("<svg><path d='M0 0'/></svg>", set()),
        ("<a href='java&#10;script:alert(1)'>x</a>", {"html:script-link"}),
        ("<a href=' &#1;javascript:alert(1)'>x</a>", {"html:script-link"}),
        ("<a href='vbscript:x'>x</a>", {"html:script-link"}),
        ("<p style='width:expression(alert(1))'>", {"html:css-script"}),
        (r"<p style='width:e\78pression(alert(1))'>", {"html:css-script"}),
        ("<p style='x:ex/**/pression(alert(1))'>", {"html:css-script"}),
        ("<style>p{behavior:url(x.htc)}</style>", {"html:css-script"}),
        ("<style>v\\:*{behavior:url(#default#VML)}</style>", set()),  # every page that Word writes
        ("<form><input type=password></form>", {"html:form", "html:password-field"}),
        ("<input type=text>", set()),
        ("<base href='http://x.test/'>", {"html:base"}),
        ("<base target=_blank>", set()),
        ("<meta http-equiv=refresh content='0;http://x.test/'>", {"html:meta-refresh"}),
        ("<iframe src='http://x.test/'></iframe>", {"html:frame"}),
        ("<link rel=import href='http://x.test/'>", {"html:frame"}),
        ("<object data=x></object>", {"html:object"}),
        ("<a href='data:text/html,x'>x</a>", {"html:data-link"}),
        ("<a href='blob:https://x.test/1'>x</a>", {"html:blob-link"}),
        ("<a href='file://server/share'>x</a>", {"html:file-link"}),
        ("<a href='search-ms:query=x'>x</a>", {"html:protocol-link"}),
        ("<img src='data:image/png;base64,AAAA'>", set()),
        ("<img src='cid:x'><a href='mailto:a@b.test'>x</a><a href='tel:1'>y</a>", set()),
        ("<img alt='``onerror=alert(1)' src=x>", {"html:latent-script"}),
        ("&lt;script&gt;alert(1)&lt;/script&gt;", {"html:latent-script"}),
        ("&#60;&#115;cript>alert(1)", {"html:latent-script"}),
        ("<p>Our javascript course: onboarding made easy</p>", set()),
    ],
)
def test_what_acts(html: str, kinds: set[str]) -> None:
    # Which of them are attacks on webmail or start programs of the system has tests of its own.
    assert read(html)[2].keys() - {"html:webmail-attack", "html:system-link"} == kinds


def test_notes_count_and_cut() -> None:
    assert read("<p onclick=x>" * 1_000)[2] == {"html:event-handler": "1000 times: onclick"}
    assert len(read(f"<form action='{'x' * 5_000}'>")[2]["html:form"]) < 200


@pytest.mark.parametrize(
    ("html", "nested"),
    [
        ("<!--[if mso]><a href=x>y</a><![endif]-->", ["<a href=x>y</a>"]),
        ("<!--[if mso]></td></tr><![endif]-->", []),  # only layout
        ("<!-- <a href=x>y</a> -->", []),  # nobody sees a plain comment
        ("<iframe srcdoc='<b>x</b>'></iframe>", ["<b>x</b>"]),
        ("<template><a href=x>y</a></template>", ['<a href="x">y</a>']),
        ("<a href='data:text/html;base64,PGI+eDwvYj4='>x</a>", ["<b>x</b>"]),
        ("<embed src='data:image/svg+xml,%3Csvg%3E'>", ["<svg>"]),
    ],
)
def test_documents_inside(html: str, nested: list[str]) -> None:
    assert read(html)[0].nested == nested


def test_the_walk_touches_each_node_once() -> None:
    assert read("<div>" * 300 + "x")[0].nodes == 304  # html, head, body, the text
    assert read("<p>x</p>" * 1_000)[0].nodes == 2_003


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<img src=a onerror=alert(1)>", True),
        ('lol" onfocus="alert(1)" autofocus="', True),
        ("&lt;script&gt;alert(1)", True),
        ("<svg onload=alert()>.png", True),
        ("Ann <ann@example.com>", False),
        ("Re: javascript question", False),
        ("Sale: 50% off, only = 5 €", False),
        ("report.pdf", False),
    ],
)
def test_markup_in_headers(text: str, expected: bool) -> None:
    assert has_markup(text) is expected


@given(
    st.text()
    | st.lists(
        st.sampled_from(["<a href=", "'", '"', ">", "<svg>", "<p style=", "color:#fff", "on", "=", "<b", "/>"])
    ).map("".join)
)
def test_pages_are_total(html: str) -> None:
    page, links, _ = read(html)
    assert page.nodes >= 1
    assert page.is_whole
    assert all(link.where == "1" for link in links)
