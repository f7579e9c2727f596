"""Every page of the registry in Chromium, with hostile text in every field of a deployment.

The pages are those of the registry, so that a new one is walked without being named here; one whose path has a part
that nothing stands for fails. This file is the last of its folder: what it leaves behind is in nobody's way.
"""

import re
from typing import Any

import pytest
from bench.sample import open_digest
from bench.visiting import SIZES
from playwright.sync_api import Page
from tests.browser.test_hostile_mail import MARKUP, RUNS, STRANGE, hostile
from tests.web.hostile_deployment import fill_with_hostile_text

from gatepost.web.registry import PAGES
from gatepost.web.routing import PageRoute, PublicRoute, UploadRoute

ZALGO = "Z" + "\u0300\u0316\u0489\u035f" * 8
TEXT = f"<script>{RUNS}</script>\u202eannexe\u2066{ZALGO}{MARKUP[1]}{'W' * 900}"
# Files instead of pages, what needs somebody who has a step to do first, and ways to a provider, which have their own.
LEFT_OUT = {
    *("/audit/export", "/messages/export", "/quarantine/export", "/lists/{scope}/{name}/export"),
    *("/messages/{ggrid}/picture/{index}", "/messages/{ggrid}/html", "/account/setup"),
    *("/sign-in/openid", "/sign-in/openid/callback", "/sign-in/openid/sign-out"),
}
GETS = sorted(
    {row.path for row in PAGES if isinstance(row, PageRoute | PublicRoute) and row.method == "GET"} - LEFT_OUT
)
QUERIES = {
    "/lists/{scope}/{name}/entry": "?key=hostile.example",
    "/lists/{scope}/{name}/hits": "?entry=hostile.example",
    "/messages/{ggrid}/entry": "?list=blocked-senders&entry=hostile.example",
    "/messages/{ggrid}": "?in=subject%3Dsubject",
    "/messages/{ggrid}/compare": "?with={scanned}",
    "/rules/edit": "?name=hostile&scope=global",
}
# Whatever reaches beyond the window to the right, buttons and links above all.
BEYOND = """() => {
    const width = document.documentElement.clientWidth;
    const found = [];
    if (document.documentElement.scrollWidth > width + 1) {
        const wide = Array.from(document.querySelectorAll("main *")).filter((each) =>
            !each.closest(".scroll") && each.getBoundingClientRect().right > width + 1);
        found.push(`page of ${document.documentElement.scrollWidth}: ${wide.at(-1)?.outerHTML.slice(0, 300)}`);
    }
    for (const element of document.querySelectorAll("main button, main a.button, main h1, main h2")) {
        const box = element.getBoundingClientRect();
        const scrolls = element.closest(".scroll");
        if (box.width && !scrolls && box.right > width + 1) found.push(element.outerHTML.slice(0, 200));
    }
    const heading = document.querySelector("h1")?.getBoundingClientRect();
    if (heading && heading.height > 260) found.push(`heading of ${heading.height} pixels`);
    return found;
}"""


@pytest.fixture(scope="module")
def places(service: Any) -> dict[str, str]:
    """A hostile deployment, and a message that was really analysed; what stands for the parts of paths."""
    agent = {"User-Agent": f"<b>{MARKUP[1]}</b>"}
    form = {"name": "admin", "password": service.password}
    assert service.client.post("/sign-in", data=form, headers=agent).status_code == 303
    (admin,) = [each for each in service.ask(lambda store: store.users.all()) if each.name == "admin"]
    found: dict[str, str] = service.ask(lambda store: fill_with_hostile_text(store, TEXT, admin.uid))
    scanned = service.scan(hostile(TEXT), "m@hostile.example")
    assert scanned["decision"] == "quarantine"
    link = service.ask(lambda store: open_digest(store, scanned["ggrid"]))
    return {**found, "scanned": scanned["ggrid"], "link": link.removeprefix("/digest/")}


def find_faults(page: Page, path: str) -> list[str]:
    """Open a page, unfold it, and say what of it is strange or beyond the window, on a desk and on a phone."""
    if "#" in path:
        # Another place of the page that is shown would not be asked for.
        page.goto("about:blank")
    answer = page.goto(path, wait_until="load")
    assert answer
    found = [] if answer.status == 200 else [f"status {answer.status}"]
    page.evaluate("document.querySelectorAll('main details').forEach((each) => { each.open = true; })")
    found += page.evaluate(STRANGE)
    if path.endswith(("/live", "/live/rows")) and path != "/messages/live":
        return found  # a part of a page, without its stylesheet
    for width, height in SIZES.values():
        page.set_viewport_size({"width": width, "height": height})
        found += [f"{width}: {each}" for each in page.evaluate(BEYOND)]
    return found


SEARCHES = ("/messages?q=subject", "/quarantine?group=1&q=subject", "/audit?action=alert.")
SCANNED = (
    *("/messages/{scanned}#tab-why", "/messages/{scanned}#tab-content", "/messages/{scanned}#tab-technical"),
    *("/messages/{scanned}/source", "/messages/{scanned}/replay"),
)
WALKED = (*GETS, *SCANNED, *SEARCHES)
# Pages of one test: a loaded machine needs seconds for each, and a test has a time of its own.
SOME = 8


@pytest.mark.parametrize(
    "start", [pytest.param(start, marks=pytest.mark.variant if start else []) for start in range(0, len(WALKED), SOME)]
)
def test_every_page_with_hostile_text_in_every_field(browser: Any, places: dict[str, str], start: int) -> None:
    page = browser.page()
    faults: dict[str, list[str]] = {}
    for path in WALKED[start : start + SOME]:
        real = re.sub(r"\{(\w+)\}", lambda part: places[part[1]], path + QUERIES.get(path, ""))
        if found := find_faults(page, real):
            faults[path] = found
    assert not faults, "\n".join(f"{path}: {found}" for path, found in faults.items())


def test_all_pages_are_walked() -> None:
    assert len(WALKED) > 45
    every = {row.path for row in PAGES if not isinstance(row, UploadRoute) and row.method == "GET"}
    assert every - LEFT_OUT == set(GETS)
    assert every >= LEFT_OUT, "what is left out is a page"
