"""Lists in a browser: entries are tried before they are saved, changed, deleted, imported and exported."""

import re
from pathlib import Path
from typing import Any

import pytest
from bench.sample import MAILS, written
from playwright.sync_api import Page, expect
from tests.browser.visits import VISITS

SENDERS = "/lists/global/blocked-senders"


def adds(page: Page, text: str) -> None:
    page.get_by_role("textbox", name="Entries", exact=True).fill(text)
    page.get_by_role("button", name="Preview").click()


@pytest.mark.parametrize(("size", "script"), VISITS)
def test_added_changed_and_deleted(browser: Any, mail: Any, service: Any, size: str, script: bool) -> None:
    name = f"{size}-{script}.lists.example".lower()
    service.scan(mail("Seen before"), f"ann@{name}")
    page = browser.open(SENDERS, size=size, script=script)
    adds(page, f"Ann@{name.upper()}\nno entry at all\n")
    expect(page.get_by_text("Nothing is saved yet.")).to_be_visible()
    row = page.get_by_role("row").filter(has_text=f"ann@{name}")
    expect(row).to_contain_text("new")
    expect(page.get_by_role("row").filter(has_text="no entry at all")).to_contain_text("is not a host name")
    expect(page.locator(".card").filter(has_text="Would have matched").first).to_contain_text("1")
    page.get_by_role("button", name="Save 1 entry, skip 1").first.click()
    expect(page.get_by_text("Entries saved: 1.")).to_be_visible()
    expect(page.get_by_role("heading", name="Delivered before it was known")).to_be_visible()
    expect(page.get_by_role("row").filter(has_text="Seen before").first).to_contain_text(f"ann@{name}")
    page.goto(SENDERS)
    page.get_by_role("searchbox", name="Search").fill(f"ann@{name}")
    page.get_by_role("button", name="Search").click()
    page.get_by_role("link", name=f"ann@{name}").click()
    page.get_by_role("textbox", name="Comment").fill("asked us to")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Change saved.")).to_be_visible()
    page.goto(f"{SENDERS}/entry?key=ann@{name}")
    expect(page.get_by_role("textbox", name="Comment")).to_have_value("asked us to")
    page.get_by_role("button", name="Delete…").click()
    expect(page.get_by_text("Nothing is deleted yet.")).to_be_visible()
    page.get_by_role("button", name="Delete entry").click()
    expect(page.get_by_text("Entries deleted: 1.")).to_be_visible()
    page.goto(f"{SENDERS}/history")
    expect(page.get_by_role("row").filter(has_text=f"ann@{name}").filter(has_text="deleted")).to_have_count(1)


@pytest.mark.variant
def test_an_import_is_tried_then_saved_with_progress(browser: Any, tmp_path: Path) -> None:
    file = tmp_path / "feed.txt"
    file.write_text("".join(f"host{number}.feed.example\n" for number in range(1_500)) + "not a host!\n")
    page = browser.open("/lists/global/blocked-urls/import")
    page.get_by_label("File, up to").set_input_files(file)
    page.get_by_label("Skip invalid lines").check()
    page.get_by_role("button", name="Upload file").click()
    expect(page.get_by_role("status").filter(has_text="has 1,500 valid entries and 1 invalid line")).to_be_visible()
    # The file is still chosen, and the form now saves it.
    expect(page.get_by_label("Save the entries")).to_be_checked()
    seen = page.evaluate_handle(
        """() => {
            const seen = [];
            const bar = document.querySelector("progress");
            new MutationObserver(() => seen.push(bar.getAttribute("value"))).observe(bar, {attributes: true});
            return seen;
        }"""
    )
    page.get_by_role("button", name="Upload file").click()
    expect(page.get_by_role("status").filter(has_text="1,500 entries saved; 1 line skipped.")).to_be_visible()
    assert "99" in seen.json_value() or "100" in seen.json_value()
    page.get_by_role("button", name="Undo this import").click()
    expect(page.get_by_text("Taken back. Entries restored or removed: 1500.")).to_be_visible()
    expect(page.get_by_text("host7.feed.example")).to_have_count(0)


@pytest.mark.variant
def test_an_import_without_script(browser: Any, tmp_path: Path) -> None:
    file = tmp_path / "feed.csv"
    file.write_text("entry,comment\nplain.feed.example,by hand\n")
    page = browser.open("/lists/global/blocked-urls/import", script=False, size="phone")
    page.get_by_label("File, up to").set_input_files(file)
    page.get_by_label("Save the entries").check()
    page.get_by_role("button", name="Upload file").click()
    expect(page.get_by_role("status").filter(has_text="1 entry saved.")).to_be_visible()


@pytest.mark.variant
def test_a_list_of_ones_own_with_its_export(browser: Any) -> None:
    page = browser.open("/lists?scope=global")
    page.get_by_text("Create a custom list").click()
    page.get_by_role("textbox", name="Name", exact=True).fill("browser-feed")
    page.get_by_role("textbox", name="Display name").fill("A feed of the browser")
    page.get_by_label("Entry type").select_option("url")
    page.get_by_label("Category").select_option("block")
    page.get_by_role("button", name="Create list").click()
    expect(page.get_by_text("List created. Add its first entry.")).to_be_visible()
    adds(page, "evil.feed.example\ta comment\n")
    page.get_by_role("button", name="Save 1 entry").first.click()
    with page.expect_download() as saved:
        page.get_by_role("link", name="CSV").click()
    assert saved.value.suggested_filename == "browser-feed.csv"
    assert "evil.feed.example,a comment" in Path(saved.value.path()).read_text()
    page.get_by_role("link", name="Delete list").click()
    page.get_by_role("button", name="Delete list and entries").click()
    expect(page.get_by_text("List and entries deleted.")).to_be_visible()
    expect(page).to_have_url(re.compile("scope=global"))


@pytest.mark.variant
def test_all_on_the_page_can_be_chosen(browser: Any) -> None:
    page = browser.open("/lists/global/blocked-phrases")
    adds(page, "first odd phrase\nsecond odd phrase\n")
    page.get_by_role("button", name="Save 2 entries").first.click()
    page.get_by_label("Select all on this page").check()
    expect(page.locator('input[name="key"]:checked')).to_have_count(2)
    page.get_by_role("button", name="Delete selected…").click()
    page.get_by_role("button", name="Delete entries").click()
    expect(page.get_by_role("heading", name="This list is empty")).to_be_visible()


@pytest.mark.variant
def test_a_link_to_the_form_leads_to_its_field_and_fields_are_in_line(browser: Any) -> None:
    page = browser.open(f"{SENDERS}?add=x%40hash.example#add")
    expect(page.get_by_role("textbox", name="Entries", exact=True)).to_be_focused()
    page.goto("/messages")
    page.get_by_text("Add filters").click()
    boxes = [page.locator(f"#{name}").bounding_box() for name in ("last", "since", "until", "tag")]
    assert len({box["height"] for box in boxes if box}) == 1, boxes


@pytest.mark.variant
def test_captions_and_select_all_on_a_phone(browser: Any, service: Any) -> None:
    ggrid = service.scan(written(next(mail for mail in MAILS if mail.subject == "Are you at your desk?")))["ggrid"]
    page = browser.open(f"/messages/{ggrid}#tab-technical", size="phone")
    widths = page.locator("caption").evaluate_all("all => all.map((each) => each.getBoundingClientRect().width)")
    assert widths
    assert min(widths) > 200
    page.goto("/quarantine")
    hidden = page.locator("[data-all]").evaluate_all(
        "all => all.filter((each) => each.getClientRects().length && each.getBoundingClientRect().width < 5).length"
    )
    assert hidden == 0, "nothing can have the focus that cannot be seen"
