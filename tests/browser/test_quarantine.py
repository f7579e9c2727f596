"""The quarantine in a browser: filtered, worked through with the keyboard, released, deleted, reported."""

from typing import Any

import pytest
from playwright.sync_api import Page, expect

WAYS = [("desktop", True), ("desktop", False), ("phone", True), ("phone", False)]


def reached(next_hop: Any, subject: str) -> bool:
    return any(f"Subject: {subject}\r\n".encode() in raw for _, _, raw in next_hop.mail)


def opened(page: Page, subject: str) -> None:
    """The queue, with only those messages in it."""
    page.goto(f"/quarantine?subject={subject.replace(' ', '+')}")


@pytest.mark.parametrize(("size", "script"), WAYS)
def test_a_release_reaches_the_next_hop(
    browser: Any, service: Any, virus: Any, lasting_next_hop: Any, size: str, script: bool
) -> None:
    subject = f"Wrongly held {size} {script}"
    service.scan(virus(subject))
    page = browser.page(size=size, script=script)
    browser.accept(page)
    opened(page, subject)
    page.get_by_role("link", name=subject).click()
    expect(page.get_by_role("heading", name=subject)).to_be_visible()
    page.get_by_role("button", name="Release", exact=True).click()
    expect(page.get_by_text("Released: the next hop has accepted the message.")).to_be_visible()
    assert reached(lasting_next_hop, subject)
    expect(page.get_by_text("its content is no longer stored")).to_be_visible()


def test_released_to_somebody_else(browser: Any, service: Any, virus: Any, lasting_next_hop: Any) -> None:
    found = service.scan(virus("For the abuse desk"))
    page = browser.page()
    page.goto(f"/messages/{found['ggrid']}")
    page.get_by_text("Release to another address").click()
    page.get_by_label("Recipients, instead").fill("no address")
    page.get_by_role("button", name="Release to these").click()
    expect(page.get_by_role("alert")).to_contain_text("enter recipients as addresses")
    page.get_by_text("Release to another address").click()
    page.get_by_label("Recipients, instead").fill("abuse@example.net")
    page.get_by_role("button", name="Release to these").click()
    expect(page.get_by_text("Released: the next hop has accepted the message.")).to_be_visible()
    assert any(to == ("abuse@example.net",) for _, to, _ in lasting_next_hop.mail)


def test_the_keyboard_alone(browser: Any, service: Any, virus: Any, lasting_next_hop: Any) -> None:
    for number in range(3):
        service.scan(virus(f"Keyboard {number}"))
    page = browser.page()
    browser.accept(page)
    opened(page, "Keyboard")
    rows = page.locator("tbody tr")
    expect(rows).to_have_count(3)
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("k")
    expect(rows.nth(0)).to_have_class("chosen")
    page.keyboard.press("o")
    expect(page.get_by_role("heading", name="Keyboard 2")).to_be_visible()
    page.go_back()
    page.keyboard.press("j")
    page.keyboard.press("x")
    expect(rows.nth(0).get_by_role("checkbox")).to_be_checked()
    page.keyboard.press("w")
    expect(page.get_by_text("Report recorded.")).to_be_visible()
    page.keyboard.press("j")
    page.keyboard.press("r")
    expect(page.get_by_text("Released: the next hop has accepted the message.")).to_be_visible()
    assert reached(lasting_next_hop, "Keyboard 2")
    expect(rows).to_have_count(2)
    page.keyboard.press("j")
    page.keyboard.press("d")
    expect(page.get_by_text("Deleted.")).to_be_visible()
    expect(rows).to_have_count(1)
    assert not reached(lasting_next_hop, "Keyboard 1")


def test_letters_in_a_field_are_letters(browser: Any, service: Any, virus: Any) -> None:
    service.scan(virus("Typing"))
    page = browser.page()
    opened(page, "Typing")
    page.get_by_label("Sender").press_sequentially("jxrd")
    expect(page.get_by_label("Sender")).to_have_value("jxrd")
    expect(page.locator("tr.chosen")).to_have_count(0)
    assert browser.asked == []


def test_many_are_deleted_at_once_and_a_no_stops_it(browser: Any, service: Any, virus: Any) -> None:
    for number in range(3):
        service.scan(virus(f"Bulk delete {number}"))
    page = browser.page()
    opened(page, "Bulk delete")
    page.get_by_label("Select all").check()
    page.once("dialog", lambda dialog: dialog.dismiss())
    page.get_by_role("button", name="Delete").click()
    expect(page.locator("tbody tr")).to_have_count(3)
    page.once("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Delete").click()
    expect(page.get_by_text("No matching held messages.")).to_be_visible()


def test_filters(browser: Any, service: Any, virus: Any) -> None:
    service.scan(virus("Filtered one"), "filtered@sender.example")
    page = browser.page()
    held = page.get_by_role("link", name="Filtered one")
    for label, fits, not_this in (
        ("Sender", "sender.example", "sender.test"),
        ("Recipient", "bob@example.com", "carol@example.com"),
        ("Subject", "filtered", "unfiltered"),
        ("From (UTC)", "2026-01-01", "2099-01-01"),
        ("To (UTC)", "2099-01-01", "2026-01-01"),
    ):
        for value, count in ((fits, 1), (not_this, 0)):
            opened(page, "Filtered one")
            page.get_by_label(label, exact=True).fill(value)
            page.get_by_role("button", name="Filter").click()
            expect(held).to_have_count(count)
    opened(page, "Filtered one")
    page.get_by_label("Verdict").select_option("spam")
    page.get_by_role("button", name="Filter").click()
    expect(held).to_have_count(0)


def test_an_auditor_looks_and_cannot_touch(browser: Any, service: Any, virus: Any) -> None:
    found = service.scan(virus("Only to look at"))
    password = service.user("looking only", "auditor")
    page = browser.page("looking only", password)
    opened(page, "Only to look at")
    expect(page.get_by_role("checkbox", name="Select")).to_have_count(0)
    page.goto(f"/messages/{found['ggrid']}")
    expect(page.get_by_role("button", name="Release")).to_have_count(0)
    expect(page.get_by_role("button", name="Save as .eml")).to_have_count(0)
