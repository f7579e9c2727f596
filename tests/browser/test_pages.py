"""Every page in light and dark, on a desk and on a phone: axe finds no serious fault, and nothing has to be scrolled
sideways."""

from collections.abc import Iterator
from typing import Any, Literal

import pytest
from axe_playwright_python.base import AXE_SCRIPT  # type: ignore[import-untyped]
from bench.screenshots import OPEN, PAGES
from bench.visiting import SIZES
from playwright.sync_api import Browser, Page, StorageState

# What depends on colours is looked at in both schemes, all else once for each size; `make test` looks at two of the
# four ways, in which each size and each scheme is once.
COLOURS = {"runOnly": ["color-contrast", "link-in-text-block"], "resultTypes": ["violations"]}
ALL = {"resultTypes": ["violations"]}
Ways = tuple[tuple[str, Literal["light", "dark"], dict[str, Any]], ...]
# The rows of a table and the items of a list are alike, and there may be hundreds of them. axe looks at everything that
# is there, even at what it shall leave out.
SHORTEN = "document.querySelectorAll('tbody tr:nth-child(n+6), li:nth-child(n+12)').forEach((row) => row.remove())"
GRAVE = ("serious", "critical")
# Pages that `make test` looks at: among them they have whatever pages are made of, such as charts, tables, filters,
# forms of every sort and a message. The others are variants of them.
FIRST = "overview messages message-held quarantine list policy rule-new users configuration account sign-in".split()


@pytest.fixture(scope="module")
def page(chromium: Browser, service: Any, sample: Any, signed_in: dict[str, StorageState]) -> Iterator[Page]:
    """One page that goes through all of them."""
    context = chromium.new_context(
        base_url=service.url, ignore_https_errors=True, reduced_motion="reduce", storage_state=signed_in.get("admin")
    )
    context.set_default_timeout(90_000)
    shown = context.new_page()
    if "admin" not in signed_in:
        shown.goto("/sign-in")
        shown.get_by_label("Name").fill("admin")
        shown.get_by_label("Password").fill(service.password)
        shown.get_by_role("button", name="Sign in").click()
        shown.wait_for_url(lambda url: "/sign-in" not in url)
    shown.on("dialog", lambda dialog: dialog.accept())
    yield shown
    context.close()


def faults(page: Page, options: dict[str, Any]) -> list[str]:
    """Serious faults, with the elements that have them. The page has the script of axe."""
    found = page.evaluate("(options) => axe.run(options).then((told) => told.violations)", options)
    return [
        f"{each['id']}: {node['html'][:200]} {node.get('failureSummary', '')}"
        for each in found
        if each["impact"] in GRAVE
        for node in each["nodes"][:3]
    ]


def check_page(page: Page, chromium: Browser, service: Any, sample: Any, name: str, ways: Ways) -> list[str]:
    """Show a page in each of these sizes and colours; return what is wrong in which of them."""
    shown = page
    if name in OPEN:
        shown = chromium.new_context(base_url=service.url, ignore_https_errors=True, reduced_motion="reduce").new_page()
    shown.set_viewport_size({"width": 1280, "height": 900})
    shown.emulate_media(color_scheme="light")
    PAGES[name](shown, sample)
    found = []
    for size in ("phone", "desktop"):
        width, height = SIZES[size]
        shown.set_viewport_size({"width": width, "height": height})
        whole, window = shown.evaluate("[document.documentElement.scrollWidth, innerWidth]")
        if whole > window:
            found.append(f"{size}: {whole} px wide in a window of {window}")
    shown.evaluate(SHORTEN)
    shown.evaluate(AXE_SCRIPT)
    for size, scheme, options in ways:
        width, height = SIZES[size]
        shown.set_viewport_size({"width": width, "height": height})
        shown.emulate_media(color_scheme=scheme)
        found += [f"{size} {scheme}: {fault}" for fault in faults(shown, options)]
    if shown is not page:
        shown.context.close()
    return found


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[] if name in FIRST else pytest.mark.variant) for name in PAGES],
)
def test_everybody_can_use_it(page: Page, chromium: Browser, service: Any, sample: Any, name: str) -> None:
    ways: Ways = (("desktop", "light", ALL), ("phone", "dark", COLOURS))
    assert check_page(page, chromium, service, sample, name, ways) == []


@pytest.mark.long
@pytest.mark.parametrize("name", PAGES)
def test_everybody_can_use_it_in_every_way(page: Page, chromium: Browser, service: Any, sample: Any, name: str) -> None:
    ways: Ways = (("phone", "light", ALL), ("desktop", "dark", COLOURS))
    assert check_page(page, chromium, service, sample, name, ways) == []


@pytest.mark.usefixtures("sample")
def test_a_phone_shows_what_is_there_and_boxes_of_one_size(page: Page) -> None:
    width, height = SIZES["phone"]
    page.set_viewport_size({"width": width, "height": height})
    page.goto("/quarantine")
    cells = page.locator("td[data-name]:visible")
    assert cells.count() > 10
    assert all(text.strip() for text in cells.all_inner_texts()), "no name of a value without the value"
    assert page.locator("kbd:visible").count() == 0, "nobody has these keys at hand"
    page.goto("/alerts/edit")
    sizes = "boxes => [...new Set(boxes.map(box => Math.round(box.getBoundingClientRect().width)))]"
    assert len(page.locator("input[type=checkbox]").evaluate_all(sizes)) == 1
    page.set_viewport_size({"width": 1280, "height": 900})
    page.goto("/messages")
    cut = page.locator("td[data-name=From]").evaluate_all(
        "cells => cells.filter(cell => cell.getBoundingClientRect().width < 140).length"
    )
    assert cut == 0, "names of senders have room"
