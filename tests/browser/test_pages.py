"""Every page in light and dark, on a desk and on a phone: axe finds no fault, nothing has to be scrolled sideways, and
nothing is misplaced in a small window."""

from collections.abc import Iterator
from typing import Any, Literal

import pytest
from axe_playwright_python.base import AXE_SCRIPT  # type: ignore[import-untyped]
from bench.screenshots import OPEN, PAGES, WIDTHS
from bench.visiting import SIZES
from playwright.sync_api import Browser, Page, StorageState
from tests.browser.conftest import Browser as Visits

# What depends on colours is looked at in both schemes, all else once for each size; `make test` looks at two of the
# six ways, in which each scheme is once.
COLOURS = {"runOnly": ["color-contrast", "link-in-text-block"], "resultTypes": ["violations"]}
ALL = {"resultTypes": ["violations"]}
Ways = tuple[tuple[str, Literal["light", "dark"], dict[str, Any]], ...]
# The rows of a table and the items of a list are alike, and there may be hundreds of them. axe looks at everything that
# is there, even at what it shall leave out.
SHORTEN = "document.querySelectorAll('tbody tr:nth-child(n+6), li:nth-child(n+12)').forEach((row) => row.remove())"
# Pages that `make test` looks at: a table with a chart and filters, and a message. The others are variants of them.
FIRST = "messages message-held".split()
# Small telephones, larger ones, tablets, and a window of 1280 pixels at a zoom of 200 %.
SMALL = ((320, 568), (390, 844), (720, 900), (640, 450))
# What is wrong with a page in a narrow window: it scrolls sideways, a cell is not as wide as its card, a mail has more
# than its lines, or something lies over a control.
MISPLACED = """() => {
    const found = [];
    const width = document.documentElement.clientWidth;
    const name = (each) => each.outerHTML.replace(/\\s+/g, " ").slice(0, 160);
    if (document.documentElement.scrollWidth > width) {
        const wide = Array.from(document.querySelectorAll("body *")).filter((each) =>
            !each.closest(".scroll, pre") && each.getBoundingClientRect().right > width + 1);
        found.push(`${document.documentElement.scrollWidth} px wide: ${wide.length ? name(wide.at(-1)) : "?"}`);
    }
    for (const row of document.querySelectorAll("table.stacked tbody tr")) {
        const style = getComputedStyle(row);
        const room = row.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
        const cells = Array.from(row.cells).filter((cell) => cell.getClientRects().length);
        if (row.closest("table.mails")) {
            const chosen = cells.filter((cell) => cell.matches(".extra")).length;
            if (row.getBoundingClientRect().height > (row.querySelector("td.decision") ? 110 : 84) + 26 * chosen)
                found.push(`a mail of ${row.getBoundingClientRect().height} px`);
            const right = Math.max(...cells.map((cell) => cell.getBoundingClientRect().right));
            if (row.getBoundingClientRect().right - right > 24) found.push("a mail that leaves room at its end");
            continue;
        }
        if (style.display !== "block") { found.push(`a row that is no card: ${style.display}`); continue; }
        for (const cell of cells)
            if (Math.abs(cell.getBoundingClientRect().width - room) > 1.5)
                found.push(`a cell of ${cell.getBoundingClientRect().width} px in a card of ${room}: ${name(cell)}`);
    }
    for (const tab of document.querySelectorAll(".tabs a"))
        if (tab.getBoundingClientRect().height > 60) found.push(`a tab of several lines: ${name(tab)}`);
    const ids = Array.from(document.querySelectorAll("[id]")).map((each) => each.id);
    const again = ids.filter((id, index) => ids.indexOf(id) !== index);
    if (again.length) found.push(`ids that stand there twice: ${again}`);
    const controls = document.querySelectorAll("main button, main a, main input:not([type=hidden]), main select");
    for (const each of Array.from(controls).filter((one) => one.getClientRects().length).slice(0, 80)) {
        if (each.closest(".hidden") || each.matches(".hidden")) continue;
        each.scrollIntoView({ block: "nearest" });
        const [box] = each.getClientRects();
        if (box.width < 2 || box.left > width) continue;
        const top = document.elementFromPoint(box.left + Math.min(box.width / 2, 20), box.top + box.height / 2);
        if (!top || !(each.contains(top) || top.contains(each) || each.labels?.[0]?.contains(top)))
            found.push(`${name(each)} lies under ${top ? name(top) : "nothing"}`);
    }
    window.scrollTo(0, 0);
    return found.slice(0, 5);
}"""


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
        Visits.sign_in(shown, "admin", service.password)
        shown.wait_for_url(lambda url: "/sign-in" not in url)
    shown.on("dialog", lambda dialog: dialog.accept())
    yield shown
    context.close()


def faults(page: Page, options: dict[str, Any]) -> list[str]:
    """All faults, with the elements that have them. The page has the script of axe."""
    found = page.evaluate("(options) => axe.run(options).then((told) => told.violations)", options)
    return [
        f"{each['id']}: {node['html'][:200]} {node.get('failureSummary', '')}"
        for each in found
        for node in each["nodes"][:3]
    ]


def check_page(page: Page, chromium: Browser, service: Any, sample: Any, name: str, ways: Ways) -> list[str]:
    """Show a page in small windows, and in each of these sizes and colours; return what is wrong in which of them."""
    shown = page
    if name in OPEN:
        shown = chromium.new_context(base_url=service.url, ignore_https_errors=True, reduced_motion="reduce").new_page()
    shown.set_viewport_size({"width": 1280, "height": 900})
    shown.emulate_media(color_scheme="light")
    PAGES[name](shown, sample)
    found = []
    whole, window = shown.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    if whole > window:
        found.append(f"desktop: {whole} px wide in a window of {window}")
    found += find_misplaced(shown)
    shown.evaluate(SHORTEN)
    shown.evaluate(AXE_SCRIPT)
    for size, scheme, options in ways:
        width, height = WIDTHS[size]
        shown.set_viewport_size({"width": width, "height": height})
        shown.emulate_media(color_scheme=scheme)
        found += [f"{size} {scheme}: {fault}" for fault in faults(shown, options)]
    if shown is not page:
        shown.context.close()
    return found


def find_misplaced(shown: Page) -> list[str]:
    """Return what is wrong with a page in small windows; the page is as it was afterwards, but for rows that are like
    others."""
    shown.evaluate("document.querySelectorAll('tbody tr:nth-child(n+12)').forEach((row) => row.remove())")
    found = []
    opened = (
        "document.querySelectorAll('main details:not([open])').forEach((each) => { each.open = each.opened = true; })"
    )
    for width, height in SMALL:
        shown.set_viewport_size({"width": width, "height": height})
        shown.evaluate(opened)
        found += [f"{width}: {each}" for each in shown.evaluate(MISPLACED)]
    shown.evaluate(
        "document.querySelectorAll('main details').forEach((each) => { if (each.opened) each.open = false; })"
    )
    return found


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in FIRST else pytest.mark.variant) for name in PAGES]
)
def test_everybody_can_use_it(page: Page, chromium: Browser, service: Any, sample: Any, name: str) -> None:
    ways: Ways = (("desktop", "light", ALL), ("phone", "dark", COLOURS))
    assert check_page(page, chromium, service, sample, name, ways) == []


@pytest.mark.long
@pytest.mark.parametrize("name", PAGES)
def test_everybody_can_use_it_in_every_way(page: Page, chromium: Browser, service: Any, sample: Any, name: str) -> None:
    ways: Ways = (
        *(("phone", "light", ALL), ("tablet", "light", ALL)),
        *(("tablet", "dark", COLOURS), ("desktop", "dark", COLOURS)),
    )
    assert check_page(page, chromium, service, sample, name, ways) == []


@pytest.mark.variant
@pytest.mark.usefixtures("sample")
@pytest.mark.parametrize(("width", "height"), [*SMALL, (1280, 600)])
def test_signing_out_is_within_the_window(page: Page, width: int, height: int) -> None:
    page.set_viewport_size({"width": width, "height": height})
    page.goto("/")
    if page.locator("details.menu > summary").is_visible():
        page.locator("details.menu > summary").click()
    place = page.get_by_role("button", name="Sign out").bounding_box()
    assert place
    assert place["y"] >= 0
    assert place["y"] + place["height"] <= height
    last = page.get_by_role("link", name="System", exact=True)
    last.scroll_into_view_if_needed()
    link = last.bounding_box()
    assert link
    assert link["y"] + link["height"] <= place["y"], "the menu scrolls by itself, above it"


@pytest.mark.usefixtures("sample")
def test_a_bar_of_actions_covers_little_and_only_with_a_selection(page: Page) -> None:
    width, height = SIZES["phone"]
    page.set_viewport_size({"width": width, "height": height})
    page.goto("/quarantine")
    bar = page.locator(".action-bar")
    assert bar.evaluate("each => getComputedStyle(each).position") == "static"
    page.locator("tbody input[type=checkbox]").first.check()
    place = bar.bounding_box()
    assert place
    assert place["height"] <= 150, "less than a fifth of the window"
    assert place["y"] + place["height"] <= height


@pytest.mark.variant
@pytest.mark.usefixtures("sample")
def test_a_phone_folds_the_policy_by_area(page: Page) -> None:
    width, height = SIZES["phone"]
    page.set_viewport_size({"width": width, "height": height})
    page.goto("/policy")
    assert page.evaluate("document.documentElement.scrollHeight") < 8_000
    page.locator("details.fold > summary", has_text="auth (").click()
    page.get_by_role("link", name="auth:dmarc-fail").wait_for()
    page.goto("/policy?part=dmarc-fail")
    assert page.get_by_role("link", name="auth:dmarc-fail").is_visible(), "what was searched for is not folded away"


@pytest.mark.variant
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
    edge = "getBoundingClientRect().right"
    outside = f"all => all.filter(each => each.{edge} > each.closest('td').{edge}).length"
    others = page.locator("td .address .others")
    assert others.count() > 0
    assert others.evaluate_all(outside) == 0, "how many more recipients there are is in view"
