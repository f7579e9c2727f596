"""The HTML of a message in its frame: no script runs, nothing is asked for, nothing leads away.

Two things keep it so, and each is tried without the other: the page is written anew, and the frame is shut. What is
tried would be noticed: the same HTML in an open frame runs and asks."""

import base64
from html import escape
from typing import Any

import pytest
from bench.sample import EICAR, picture
from playwright.sync_api import Browser, Page, Route
from tests.variants import one_in
from tests.view.hostile_pages import ALL, AWAY, in_mail

from gatepost.view.message import build_page
from gatepost.view.values import HtmlView, write_page
from gatepost.web.page_responses import FRAMING, MAIL_SECURITY

HOME = "https://gatepost.test"


def show_frames(chromium: Browser, documents: list[str], *, policy: str, is_shut: bool) -> tuple[Page, set[str]]:
    """A page with a frame for each document; the page, and what was asked for beside these frames."""
    asked: set[str] = set()
    shut = "sandbox" if is_shut else ""
    frames = "".join(f'<iframe {shut} src="/{number}" title="{number}"></iframe>' for number in range(len(documents)))

    def answer(route: Route) -> None:
        url = route.request.url
        number = url.removeprefix(f"{HOME}/")
        if url == f"{HOME}/page":
            headers = {"Content-Security-Policy": FRAMING} if is_shut else {}
            route.fulfill(body=f"<!doctype html>{frames}", content_type="text/html", headers=headers)
        elif number.isdigit():
            headers = {"Content-Security-Policy": policy} if policy else {}
            route.fulfill(body=documents[int(number)], content_type="text/html; charset=utf-8", headers=headers)
        else:
            asked.add(url)
            route.fulfill(body="", content_type="text/html")

    page = chromium.new_context().new_page()
    page.on("dialog", lambda dialog: dialog.dismiss())
    page.context.route("**/*", answer)
    page.goto(f"{HOME}/page", wait_until="networkidle")
    return page, asked


def test_what_is_looked_for_would_be_found(chromium: Browser) -> None:
    page, asked = show_frames(chromium, list(ALL), policy="", is_shut=False)
    assert AWAY in asked, "the first script leads the page away"
    page.context.close()


@pytest.mark.variant
def test_a_page_that_was_written_anew_does_nothing_even_in_an_open_frame(chromium: Browser) -> None:
    written = []
    for html in ALL:
        view = build_page(in_mail(html))
        assert isinstance(view, HtmlView)
        written.append(write_page(view, html))
    page, asked = show_frames(chromium, written, policy="", is_shut=False)
    assert asked == set()
    assert page.url == f"{HOME}/page"
    for frame in page.frames:
        assert frame.evaluate("window.marked") is None
        assert frame.evaluate(
            "document.querySelectorAll('script, iframe, form, a[href], link, meta[http-equiv]').length"
        ) == (len(ALL) * (frame == page.main_frame))
    page.context.close()


@pytest.mark.variant
def test_a_shut_frame_does_nothing_even_with_the_html_as_it_came(chromium: Browser) -> None:
    page, asked = show_frames(chromium, list(ALL), policy=MAIL_SECURITY, is_shut=True)
    assert asked == set()
    assert page.url == f"{HOME}/page"
    # Links of the message, clicked: the page around the frame lets it go nowhere.
    links = [number for number, html in enumerate(ALL) if html.startswith("<a href=") and AWAY in html]
    assert links
    for number in links:
        page.frame_locator(f'[title="{number}"]').locator("a").first.click()
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    assert asked == set()
    assert page.url == f"{HOME}/page"
    page.context.close()


HTML = (
    f'<h1 style="color:#c00">Your parcel</h1><p>Pay <a href="{AWAY}">here</a><img src="{AWAY}" alt="logo"></p>'
    f'<img src="cid:p@x" alt="parcel"><script>top.marked = 1</script><form action="{AWAY}"><button>Pay</button></form>'
)
HEAD = (
    "From: Parcel <a@parcel.example>\r\nTo: bob@example.com\r\nSubject: Your parcel\r\nMIME-Version: 1.0\r\n"
    'Content-Type: multipart/related; boundary="b"\r\n\r\n--b\r\nContent-Type: text/html\r\n\r\n'
)
PICTURE = "--b\r\nContent-Type: image/png\r\nContent-ID: <p@x>\r\nContent-Transfer-Encoding: base64\r\n\r\n"
VIRUS = f"--b\r\nContent-Type: application/octet-stream\r\n\r\n{EICAR}\r\n--b--\r\n"


@pytest.fixture(scope="module")
def shown(service: Any) -> str:
    """A held message with HTML and a picture in it."""
    drawn = base64.encodebytes(picture()).decode()
    found = service.scan(f"{HEAD}{HTML}\r\n{PICTURE}{drawn}\r\n{VIRUS}".encode())
    assert found["decision"] == "quarantine"
    ggrid: str = found["ggrid"]
    return ggrid


@pytest.mark.parametrize("script", one_in(2, [True, False]), ids=["script", "no-script"])
def test_the_frame_of_a_message(browser: Any, shown: str, script: bool) -> None:
    page = browser.open(f"/messages/{shown}", script=script)
    assert page.locator("#tab-why").is_visible()
    assert not page.locator("#tab-content").is_visible()
    page.get_by_role("link", name="Content", exact=True).click()
    assert not page.locator("#tab-why").is_visible()
    frame = page.frame_locator("iframe.mail-page")
    frame.get_by_text("Your parcel").wait_for()
    assert frame.locator(".link").get_attribute("title") == f"Leads to {AWAY}"
    assert frame.get_by_text("logo").get_attribute("title") == "A picture from elsewhere.test, which is not loaded"
    assert frame.locator("img").get_attribute("alt") == "parcel"
    frame.locator(".link").click()
    frame.locator(".push").click()
    assert page.url.endswith(f"/messages/{shown}#tab-content")
    if script:
        assert page.evaluate("window.marked") is None
        assert frame.locator("img").evaluate("each => each.naturalWidth") > 100
    page.get_by_role("link", name="Technical", exact=True).click()
    assert page.locator("#ledger-h").is_visible()
    page.go_back()
    assert page.locator("iframe.mail-page").is_visible()


@pytest.mark.variant
def test_the_actions_stay_in_view(browser: Any, shown: str) -> None:
    for size, most in (("desktop", 70), ("phone", 70)):
        page = browser.open(f"/messages/{shown}#tab-technical", size=size)
        page.evaluate("window.scrollTo(0, 900)")
        bar = page.locator(".message-bar").bounding_box()
        height = page.viewport_size["height"]
        assert bar["height"] <= most, (size, bar)
        assert 0 <= bar["y"] <= height - bar["height"] + 1, (size, bar)
        assert page.locator(".message-bar button", has_text="Delete").is_visible()


@pytest.mark.variant
def test_the_frame_opened_alone_is_shut_as_well(browser: Any, shown: str) -> None:
    page = browser.page()
    answer = page.goto(f"/messages/{shown}/html")
    assert answer.headers["content-security-policy"] == MAIL_SECURITY
    assert escape("Your parcel") in page.content()
