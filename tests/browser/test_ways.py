"""Ways of use that every page has in common: the keyboard alone, no scripts, the back button, a second click, two tabs,
motion that a user does not want, and times in the zone of the user."""

from typing import Any

import pytest
from playwright.sync_api import Page, expect
from tests.variants import one_in

# Whatever has the focus: its name, whether it can be seen whole, and what lies over it.
FOCUSED = """() => {
    const each = document.activeElement;
    if (!each || each === document.body) return null;
    const box = each.getBoundingClientRect();
    const top = document.elementFromPoint(box.left + Math.min(box.width / 2, 20), box.top + box.height / 2);
    const label = each.labels?.[0]?.innerText || each.ariaLabel || each.innerText || each.value || each.title;
    const style = getComputedStyle(each);
    return {
        tag: each.outerHTML.replace(/\\s+/g, " ").slice(0, 120),
        name: (label || each.querySelector("img")?.alt || each.querySelector("[aria-label]")?.ariaLabel || "").trim(),
        seen: box.bottom > 0 && box.top < innerHeight && box.width > 0,
        free: !top || each.contains(top) || top.contains(each) || Boolean(each.labels?.[0]?.contains(top)),
        outlined: style.outlineStyle !== "none" || style.boxShadow !== "none",
    };
}"""
WITH_MANY_CONTROLS = ("/quarantine", "/configuration/routes", "/configuration/limits", "/lists/global/blocked-senders")


def walk_by_tab(page: Page, most: int = 140) -> list[dict[str, Any]]:
    """Press Tab until the focus leaves the page; what had it, one after the other."""
    found: list[dict[str, Any]] = []
    for _ in range(most):
        page.keyboard.press("Tab")
        if (each := page.evaluate(FOCUSED)) is None:
            break
        found.append(each)
    return found


@pytest.mark.usefixtures("sample")
@pytest.mark.parametrize("path", one_in(4, WITH_MANY_CONTROLS))
def test_everything_can_be_reached_with_the_keyboard(browser: Any, path: str) -> None:
    page = browser.open(path)
    stops = walk_by_tab(page)
    assert stops[0]["name"] == "Skip to content"
    assert len(stops) > 20
    assert [each["tag"] for each in stops if not each["name"]] == [], "everything has a name"
    assert [each["tag"] for each in stops if not each["seen"]] == [], "whatever has the focus is in view"
    assert [each["tag"] for each in stops if not each["free"]] == [], "nothing lies over it"
    assert [each["tag"] for each in stops if not each["outlined"]] == [], "and it is marked"


READ = (
    *("/", "/messages", "/quarantine", "/lists?scope=global", "/policy", "/policy?edit=1", "/rules", "/configuration"),
    *("/configuration/routes", "/configuration/limits", "/audit", "/alerts/edit", "/account", "/system", "/users"),
)


@pytest.mark.variant
@pytest.mark.usefixtures("sample")
def test_pages_without_scripts_offer_nothing_that_needs_one(browser: Any) -> None:
    page = browser.page(script=False)
    for path in READ:
        page.goto(path)
        expect(page.locator("h1").first).to_be_visible()
        dead = page.locator("main button[type=button]:visible, main .js-only:visible")
        assert dead.count() == 0, (path, dead.first.inner_text() if dead.count() else "")


def discard(page: Page) -> None:
    page.goto("/configuration/draft")
    button = page.get_by_role("button", name="Discard the draft")
    if button.count():
        button.click()
        page.wait_for_url("**/configuration")


def test_two_tabs_a_second_click_and_the_way_back(browser: Any) -> None:
    first = browser.page()
    browser.accept(first)
    discard(first)
    second = first.context.new_page()
    for page in (first, second):
        page.goto("/configuration")
    label = "Keep results for"
    first.get_by_label(label).fill("61")
    first.get_by_role("button", name="Save draft").dblclick()
    bar = first.get_by_role("region", name="Draft")
    expect(bar).to_contain_text("1 change")
    expect(first.get_by_text("was changed meanwhile")).to_have_count(0)
    second.get_by_label(label).fill("62")
    second.get_by_role("button", name="Save draft").click()
    expect(second.get_by_text("was changed meanwhile; nothing was done")).to_be_visible()
    expect(second.get_by_label(label)).to_have_value("61")
    first.get_by_role("link", name="Limits").click()
    expect(first.get_by_role("region", name="Draft")).to_contain_text("1 change")
    first.go_back()
    expect(first.get_by_label(label)).to_have_value("61")
    first.get_by_label(label).press("Enter")
    expect(first.get_by_role("region", name="Draft")).to_contain_text("1 change")
    second.close()
    discard(first)


@pytest.mark.variant
def test_a_session_that_ended_keeps_what_was_typed(browser: Any, service: Any) -> None:
    page = browser.page(fresh=True)
    browser.accept(page)
    discard(page)
    page.goto("/configuration?q=results")
    page.get_by_label("Keep results for").fill("63")
    page.context.clear_cookies()
    page.get_by_role("button", name="Save draft").click()
    expect(page.get_by_text("Your session has ended; nothing was saved.")).to_be_visible()
    browser.sign_in(page, "admin", service.password)
    page.get_by_role("button", name="Send it again").click()
    expect(page.get_by_role("region", name="Draft")).to_contain_text("1 change")
    expect(page.get_by_label("Keep results for")).to_have_value("63")
    discard(page)


@pytest.mark.variant
@pytest.mark.usefixtures("sample")
def test_no_motion_and_the_time_of_the_user(
    chromium: Any, service: Any, signed_in: dict[str, Any], browser: Any
) -> None:
    browser.page().close()
    context = chromium.new_context(
        base_url=service.url,
        ignore_https_errors=True,
        reduced_motion="reduce",
        timezone_id="Asia/Tokyo",
        storage_state=signed_in["admin"],
    )
    page = context.new_page()
    page.goto("/messages")
    moving = "each => getComputedStyle(each).transitionDuration"
    assert set(page.locator("a, button").evaluate_all(f"all => all.slice(0, 40).map({moving})")) == {"0s"}
    shown = page.locator("main time").first
    assert shown.get_attribute("datetime")
    assert shown.get_attribute("title"), "the time of the browser is a hover away"
    written = (shown.text_content() or "").strip()
    page.goto("/account")
    before = page.locator("#zone").input_value()
    try:
        _choose_zone(page, "Asia/Tokyo")
        page.goto("/messages")
        assert (page.locator("main time").first.text_content() or "").strip() != written
    finally:
        page.goto("/account")
        _choose_zone(page, before)
        context.close()


def _choose_zone(page: Page, zone: str) -> None:
    page.locator("#zone").select_option(zone)
    page.locator("form[action='/account/zone'] button").click()
