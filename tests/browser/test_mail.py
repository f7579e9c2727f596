"""Messages, the overview and the scan page in a browser."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect
from tests.variants import one_in


@pytest.fixture(scope="module")
def wanted(service: Any) -> dict[str, Any]:
    """A message with something to find in every field."""
    raw = (
        "From: Quinn Distinct <quinn@distinct.example>\r\nTo: xenia@wanted.example\r\n"
        "Subject: Zebra crossing reopened\r\nDate: Tue, 10 Nov 2026 09:12:00 +0000\r\nMessage-ID: <1@x.example>\r\n"
        "List-Unsubscribe: <mailto:x@distinct.example>\r\nPrecedence: bulk\r\n\r\nSee http://zebra.example/news\r\n"
    )
    result: dict[str, Any] = service.scan(raw.encode(), "quinn@distinct.example", recipients=("xenia@wanted.example",))
    return result


def searched(page: Page, fields: dict[str, str]) -> None:
    page.goto("/messages")
    page.get_by_text("Add filters").click()
    controls = page.locator("form", has=page.get_by_role("button", name="Add to the search"))
    for label, value in fields.items():
        field = controls.get_by_label(label, exact=True)
        if field.evaluate("element => element.tagName") == "SELECT":
            field.select_option(value)
        else:
            field.fill(value)
    page.get_by_role("button", name="Add to the search").click()


@pytest.mark.variant
def test_found_by_each_field(browser: Any, wanted: dict[str, Any]) -> None:
    page = browser.page()
    later = f"{datetime.now(UTC) + timedelta(days=2):%Y-%m-%d}"
    for fields in (
        {"Sender": "quinn@distinct.example", "Recipient": "xenia@wanted.example"},
        {"Sender": "Quinn", "Link host": "zebra.example", "Verdict": wanted["verdict"]},
        {"Subject": "reopened zebra", "Decision": "deliver", "Finding (tag)": "bulk:unsubscribe"},
        {"From (UTC)": "2026-01-01", "To (UTC)": later, "Subject": "zebra"},
    ):
        searched(page, fields)
        expect(page.get_by_role("link", name="Zebra crossing reopened")).to_have_count(1)
    for fields in (
        {"Sender": "distinct.test"},
        {"Finding (tag)": "file:eicar", "Subject": "zebra"},
        {"From (UTC)": later},
    ):
        searched(page, fields)
        expect(page.get_by_role("link", name="Zebra crossing reopened")).to_have_count(0)
    # What the controls say stands in the field, and in the address.
    searched(page, {"Sender": "distinct.example", "Subject": "zebra"})
    expect(page.get_by_role("combobox", name="Search")).to_have_value("from:distinct.example subject:zebra")
    assert page.url.endswith("/messages?q=from%3Adistinct.example+subject%3Azebra")
    page.goto(f"/messages?ggrid={wanted['ggrid']}")
    expect(page).to_have_url(re.compile(f"/messages/{wanted['ggrid']}$"))


def test_one_field_finds_it_and_every_value_leads_on(browser: Any, wanted: dict[str, Any]) -> None:
    page = browser.page()
    link = page.get_by_role("link", name="Zebra crossing reopened")
    for text in ("quinn@distinct.example", "Quinn Distinct", "xenia@wanted.example", "zebra.example", "<1@x.example>"):
        page.goto("/messages")
        page.keyboard.press("/")
        page.keyboard.type(text)
        page.keyboard.press("Enter")
        expect(link).to_have_count(1)
        expect(page.get_by_text("1 found")).to_be_visible()
    page.get_by_text("Save this view").click()
    page.get_by_label("Name", exact=True).fill("About <b>zebras</b>")
    page.get_by_role("button", name="Save", exact=True).click()
    page.goto("/messages")
    page.get_by_role("link", name="About <b>zebras</b>").click()
    expect(link).to_have_count(1)
    with page.expect_download() as started:
        page.get_by_role("link", name="CSV").click()
    assert wanted["ggrid"] in Path(started.value.path()).read_text()
    page.get_by_role("button", name="Delete the saved search").click()
    expect(page.get_by_text("Saved search deleted.")).to_be_visible()
    page.goto(f"/messages/{wanted['ggrid']}#tab-technical")
    page.get_by_role("region", name="Envelope").get_by_role("link", name="xenia@wanted.example").click()
    expect(link).to_have_count(1)


def test_a_message_tells_why_is_judged_again_and_leads_to_the_list(browser: Any, wanted: dict[str, Any]) -> None:
    page = browser.open(f"/messages/{wanted['ggrid']}")
    expect(page.get_by_role("heading", name="Zebra crossing reopened")).to_be_visible()
    page.get_by_role("link", name="Technical", exact=True).click()
    expect(page.get_by_role("region", name="Ledger")).to_contain_text("The message offers a way to unsubscribe")
    expect(page.get_by_role("region", name="Authentication")).to_contain_text("DMARC")
    page.get_by_role("link", name="Content", exact=True).click()
    expect(page.get_by_role("region", name="Links by host")).to_contain_text("zebra[.]example")
    page.get_by_text("More", exact=True).click()
    page.get_by_role("link", name="Re-evaluate").click()
    expect(page.get_by_text("No changes: all")).to_be_visible()
    page.go_back()
    page.get_by_role("link", name="Block, allow").click()
    page.get_by_role("link", name="Block zebra.example").click()
    expect(page.get_by_role("heading", name="Block zebra.example")).to_be_visible()
    expect(page.get_by_role("textbox", name="Comment")).to_have_value(re.compile(wanted["ggrid"]))
    page.get_by_role("region", name="Effect").get_by_role("link").first.click()
    expect(page.get_by_role("row").filter(has_text="Zebra crossing reopened")).to_contain_text("→ quarantine")
    page.go_back()
    page.get_by_role("button", name="Block").click()
    expect(page.get_by_text("this message would have been held.")).to_be_visible()
    expect(page.get_by_role("heading", name="Zebra crossing reopened")).to_be_visible()
    page.goto(f"/messages/{wanted['ggrid']}")
    page.get_by_role("button", name="Report: should have been held").click()
    expect(page.get_by_role("status").filter(has_text="1 reported.")).to_contain_text("Undo")
    expect(page.get_by_role("heading", name="Zebra crossing reopened")).to_be_visible()


@pytest.mark.variant
def test_an_entry_without_effect_says_why_and_what_would_work(browser: Any, service: Any, virus: Any) -> None:
    scanned = service.scan(virus("Allowed in vain"), "ann@example.org")
    page = browser.open(f"/messages/{scanned['ggrid']}")
    page.get_by_role("link", name="Allow ann@example.org").click()
    told = page.get_by_role("alert")
    expect(told).to_contain_text("counts only if it is proven to be the sender, and this one is not (SPF")
    page.get_by_role("button", name="Allow").click()
    expect(
        page.get_by_role("status").filter(has_text="would still be held: SPF, DKIM and DMARC do not")
    ).to_be_visible()
    page.go_back()
    told.get_by_role("link", name="Allow the file").first.click()
    expect(page.get_by_role("region", name="Effect")).to_contain_text("would have been delivered instead of held")


@pytest.mark.variant
def test_the_overview_counts_without_being_loaded_again(browser: Any, service: Any, mail: Any) -> None:
    service.scan(mail("So that there is one"))
    page = browser.open("/")
    page.evaluate("window.same = true")
    page.get_by_text("Show as table").click()
    link = page.locator(".legend a").first
    link.focus()
    card = page.get_by_role("region", name="In 24 hours").locator(".figure").first
    before = int(card.inner_text().replace(",", ""))
    service.scan(mail("One more"))
    expect(card).not_to_have_text(f"{before:,}")
    assert int(card.inner_text().replace(",", "")) > before
    assert page.evaluate("window.same")
    assert page.locator("details.more").first.evaluate("each => each.open"), "what was open stays open"
    expect(link).to_be_focused()
    page.get_by_label("Period", exact=True).select_option("month")
    expect(page).to_have_url(re.compile("span=month"))


@pytest.mark.variant
def test_a_live_view_without_an_answer_says_so(browser: Any) -> None:
    page = browser.open("/")
    notice = page.get_by_role("alert").filter(has_text="No answer since")
    expect(notice).to_be_hidden()
    page.route("**/overview/live*", lambda route: route.abort())
    expect(notice).to_be_visible()
    page.unroute("**/overview/live*")
    expect(notice).to_be_hidden()


@pytest.mark.variant
def test_the_menu_of_a_phone_stays_where_it_was(browser: Any) -> None:
    page = browser.open("/account", size="phone")
    button = page.locator("summary", has_text="Menu")
    before = button.bounding_box()
    button.click()
    expect(page.get_by_role("link", name="Quarantine")).to_be_visible()
    after = button.bounding_box()
    assert before
    assert after
    assert abs(before["x"] - after["x"]) < 2


@pytest.mark.parametrize("script", one_in(2, [True, False]))
def test_a_chosen_file_is_scanned(browser: Any, mail: Any, tmp_path: Path, script: bool) -> None:
    file = tmp_path / "chosen.eml"
    file.write_bytes(mail(f"Chosen by hand {script}"))
    page = browser.open("/scan", script=script)
    page.get_by_label("Message as an .eml file").set_input_files(file)
    page.get_by_text("Origin, if known").click()
    page.get_by_label("Envelope sender").fill("ann@example.org")
    page.get_by_label("IP address of the sending host").fill("192.0.2.9")
    page.get_by_role("button", name="Scan").click()
    expect(page.get_by_role("heading", name=f"Chosen by hand {script}")).to_be_visible()
    page.get_by_role("link", name="Technical", exact=True).click()
    expect(page.get_by_role("region", name="Envelope")).to_contain_text("192.0.2.9")


@pytest.mark.variant
def test_a_dropped_file_is_scanned(browser: Any, mail: Any) -> None:
    page = browser.open("/scan")
    dropped = page.evaluate_handle(
        """text => {
            const carried = new DataTransfer();
            carried.items.add(new File([text], "dropped.eml", {type: "message/rfc822"}));
            return carried;
        }""",
        mail("Dropped on the page").decode(),
    )
    page.dispatch_event(".drop", "dragover", {"dataTransfer": dropped})
    expect(page.locator(".drop.over")).to_have_count(1)
    page.dispatch_event(".drop", "drop", {"dataTransfer": dropped})
    page.get_by_role("button", name="Scan").click()
    expect(page.get_by_role("heading", name="Dropped on the page")).to_be_visible()


@pytest.mark.variant
@pytest.mark.parametrize("size", ["desktop", "phone"])
def test_the_scan_form_stands_apart_and_takes_its_complaint_back(browser: Any, mail: Any, size: str) -> None:
    page = browser.open("/scan", size=size)
    page.get_by_role("button", name="Scan").click()
    expect(page.locator("#file:user-invalid")).to_have_count(1)
    chosen = {"name": "late.eml", "mimeType": "message/rfc822", "buffer": mail("Chosen late")}
    page.get_by_label("Message as an .eml file").set_input_files(chosen)
    expect(page.locator("#file:user-invalid")).to_have_count(0)
    assert page.locator("#file").evaluate("each => each.validationMessage") == "", "a bubble would stay over the file"
    page.get_by_text("Origin, if known").click()
    boxes = page.locator("details .field").evaluate_all(
        """fields => fields.map(field => {
            const label = field.querySelector("label").getBoundingClientRect();
            const input = field.querySelector("input, select").getBoundingClientRect();
            return [label.left, label.top, label.bottom, input.top, input.bottom];
        })"""
    )
    assert len(boxes) >= 4
    for place, (left, top, bottom, below, _) in enumerate(boxes):
        assert below >= bottom, "a label stands over its own field"
        above = [box[4] for box in boxes[:place] if abs(box[0] - left) < 2]
        assert all(top - end >= 4 for end in above), "and apart from the field above"
