"""The language of searches in a browser: completed with the keyboard, told what is wrong, and read without script."""

from typing import Any

import pytest
from playwright.sync_api import expect


@pytest.mark.variant
def test_terms_are_completed_with_the_keyboard(browser: Any, sample: Any) -> None:
    assert sample
    page = browser.page()
    for path in ("/messages", "/quarantine"):
        page.goto(path)
        field = page.get_by_role("combobox", name="Search")
        field.press_sequentially("ver")
        options = page.locator("#q-options li")
        expect(options).to_have_count(1)
        field.press("ArrowDown")
        expect(field).to_have_attribute("aria-activedescendant", "q-option-0")
        field.press("Enter")
        expect(field).to_have_value("verdict:")
        expect(options.first).to_be_visible()
        field.press_sequentially("phi")
        expect(options).to_have_count(1)
        field.press("ArrowDown")
        field.press("Tab")
        expect(field).to_have_value("verdict:phishing ")
        expect(field).to_be_focused()
        field.press_sequentially("tag:dmarc")
        expect(options.filter(has_text="auth:dmarc-fail").first).to_be_visible()
        field.press("Escape")
        expect(page.locator("#q-options")).to_be_hidden()
        field.fill("verdict:phishing")
        field.press("Enter")
        page.wait_for_url(f"**{path}?q=verdict%3Aphishing")
        expect(page.locator("td.outcome").first).to_have_text("phishing")


@pytest.mark.variant
def test_what_is_wrong_is_underlined_before_and_after_the_search(browser: Any) -> None:
    page = browser.open("/messages")
    field = page.get_by_role("combobox", name="Search")
    field.press_sequentially("invoice form:ann")
    wrong = page.locator("#q-fault mark")
    expect(wrong).to_have_text("form:")
    expect(page.locator("#q-fault")).to_contain_text("Did you mean from:?")
    field.press("Enter")
    expect(wrong).to_have_text("form:")
    expect(page.get_by_role("alert")).to_contain_text("Did you mean from:?")
    expect(field).to_have_attribute("aria-invalid", "true")
    expect(field).to_have_value("invoice form:ann")
    field.fill("from:nobody.example")
    field.press("Enter")
    expect(page.get_by_text("No matching messages.")).to_be_visible()
    expect(page.locator("#q-fault")).to_be_hidden()


@pytest.mark.variant
def test_without_script_it_is_a_plain_field(browser: Any, sample: Any) -> None:
    assert sample
    page = browser.open("/quarantine", script=False)
    field = page.get_by_label("Search", exact=True)
    field.fill("(verdict:phishing OR verdict:malware) NOT from:nobody.example")
    field.press("Enter")
    expect(page.locator("td.outcome").first).to_be_visible()
    assert set(page.locator("td.outcome").all_inner_texts()) <= {"phishing", "malware"}
    page.get_by_label("Search", exact=True).fill("(verdict:phishing")
    page.get_by_role("button", name="Search", exact=True).click()
    expect(page.locator("#q-fault mark")).to_have_text("(")
    page.get_by_text("How to search").click()
    expect(page.get_by_role("row").filter(has_text="host:evil.example")).to_be_visible()


@pytest.mark.variant
def test_a_value_and_a_bar_narrow_the_search(browser: Any, sample: Any) -> None:
    assert sample
    page = browser.open("/messages")
    card = page.get_by_role("region", name="At a glance")
    value = card.locator(".facets > div", has=page.get_by_role("heading", name="Verdict")).get_by_role("link").first
    verdict = value.inner_text()
    value.click()
    page.wait_for_url(f"**/messages?q=verdict%3A{verdict}")
    expect(page.locator("table.mails td.outcome").first).to_have_text(verdict)
    page.go_back()
    page.get_by_role("region", name="At a glance").locator("svg [data-href]").last.click()
    page.wait_for_url("**q=after%3A*")
    expect(page.locator("table.mails tbody tr").first).to_be_visible()


def test_many_messages_are_noted_from_the_list_and_it_is_taken_back(browser: Any, service: Any, virus: Any) -> None:
    for number in (1, 2):
        service.scan(virus(f"Wave {number}"))
    page = browser.open("/messages?q=subject:wave")
    page.get_by_role("checkbox", name="Select Wave 1").check()
    page.get_by_role("checkbox", name="Select Wave 2").check()
    expect(page.get_by_text("2 selected")).to_be_visible()
    page.get_by_text("Note …").click()
    page.get_by_label("Note", exact=True).fill("one wave")
    page.get_by_role("button", name="Write note").click()
    expect(page.get_by_text("Note written on 2.")).to_be_visible()
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_text("Taken back for 2.")).to_be_visible()
    page.goto("/messages?q=subject:wave")
    page.get_by_role("link", name="Wave 2").click()
    page.get_by_role("link", name="Campaign", exact=True).click()
    expect(page.locator("table.mails").get_by_role("link", name="Wave 1")).to_have_count(1)
    page.get_by_role("checkbox", name="All matching").check()
    page.get_by_role("button", name="Delete held").click()
    expect(page.get_by_role("heading", name="Delete 2 messages?")).to_be_visible()
    page.get_by_role("button", name="Delete 2 messages").click()
    expect(page.get_by_text("2 deleted.")).to_be_visible()
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_text("2 restored.")).to_be_visible()
