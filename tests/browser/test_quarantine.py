"""The quarantine in a browser: filtered, worked through with the keyboard, released, deleted, reported."""

import re
from typing import Any
from urllib.parse import urlencode

import msgspec
import pytest
from bench.sample import open_digest
from playwright.sync_api import Page, expect
from tests.browser.visits import VISITS

from gatepost.ids import new_id
from gatepost.store.held_search import HeldFilter
from gatepost.store.store import Store


def reached(next_hop: Any, subject: str) -> bool:
    return any(f"Subject: {subject}\r\n".encode() in raw for _, _, raw in next_hop.mail)


def opened(page: Page, subject: str) -> None:
    """The queue, with only those messages in it."""
    page.goto("/quarantine?" + urlencode({"q": f'subject:"{subject}"' if " " in subject else f"subject:{subject}"}))


@pytest.mark.parametrize(("size", "script"), VISITS)
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
    expect(page.get_by_role("heading", name="Release this message?")).to_be_visible()
    expect(page.get_by_text("This message is malware.")).to_be_visible()
    assert not reached(lasting_next_hop, subject)
    page.get_by_role("button", name="Release", exact=True).click()
    expect(page.get_by_text("Released: the next hop has accepted the message.")).to_be_visible()
    page.reload()
    expect(page.get_by_text("Released: the next hop has accepted the message.")).to_have_count(0)
    assert reached(lasting_next_hop, subject)
    expect(page.get_by_text("its content is no longer stored")).to_be_visible()


@pytest.mark.variant
def test_released_to_somebody_else(browser: Any, service: Any, virus: Any, lasting_next_hop: Any) -> None:
    found = service.scan(virus("For the abuse desk"))
    page = browser.open(f"/messages/{found['ggrid']}")
    page.get_by_text("More", exact=True).click()
    page.get_by_text("Release to another address").click()
    page.get_by_label("Recipients, instead").fill("no address")
    page.get_by_role("button", name="Release to these").click()
    expect(page.get_by_role("alert")).to_contain_text("enter recipients as addresses")
    page.get_by_text("More", exact=True).click()
    page.get_by_text("Release to another address").click()
    page.get_by_label("Recipients, instead").fill("abuse@example.net")
    page.get_by_role("button", name="Release to these").click()
    expect(page.get_by_text("abuse@example.net")).to_be_visible()
    page.get_by_role("button", name="Release", exact=True).click()
    expect(page.get_by_text("Released: the next hop has accepted the message.")).to_be_visible()
    assert any(to == ("abuse@example.net",) for _, to, _ in lasting_next_hop.mail)


@pytest.mark.variant
def test_the_keyboard_alone(browser: Any, service: Any, virus: Any, lasting_next_hop: Any) -> None:
    for number in range(3):
        service.scan(virus(f"Keyboard {number}"))
    page = browser.page()
    browser.accept(page)
    opened(page, "Keyboard")
    rows = page.locator("table.mails tbody tr")
    expect(rows).to_have_count(3)
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("k")
    expect(rows.nth(0)).to_have_class("chosen")
    page.keyboard.press("o")
    expect(page.get_by_role("heading", name="Keyboard 2")).to_be_visible()
    page.go_back()
    expect(rows.nth(0)).to_have_class("chosen")
    page.keyboard.press("x")
    expect(rows.nth(0).get_by_role("checkbox")).to_be_checked()
    page.keyboard.press("w")
    expect(page.get_by_text("1 reported.")).to_be_visible()
    expect(rows.nth(0)).to_have_class("chosen")
    page.keyboard.press("r")
    expect(page.get_by_role("heading", name="Release 1 message?")).to_be_visible()
    page.keyboard.press("Enter")
    expect(page.get_by_text("1 released: the next hop has accepted them.")).to_be_visible()
    assert reached(lasting_next_hop, "Keyboard 2")
    expect(rows).to_have_count(2)
    expect(rows.nth(0)).to_have_class("chosen")
    page.keyboard.press("d")
    expect(page.get_by_text("1 deleted.")).to_be_visible()
    expect(rows).to_have_count(1)
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_text("1 restored.")).to_be_visible()
    assert not reached(lasting_next_hop, "Keyboard 1")


@pytest.mark.variant
def test_senders_are_blocked_with_a_key_and_the_list_comes_back(browser: Any, service: Any, virus: Any) -> None:
    for number in range(2):
        raw = virus(f"Blocked {number}").replace(b"ann@example.org", b"bulk%d@senders.example" % number)
        service.scan(raw, f"bulk{number}@senders.example")
    page = browser.page()
    opened(page, "Blocked")
    expect(page.get_by_text("2 found")).to_be_visible()
    page.keyboard.press("j")
    page.keyboard.press("x")
    page.keyboard.press("b")
    expect(page.get_by_role("heading", name="Add to Blocked senders")).to_be_visible()
    expect(page.get_by_role("textbox", name="Entries")).to_have_value(
        re.compile("bulk1@senders.example\tfrom message ")
    )
    page.get_by_role("button", name="Save 1 entry").click()
    expect(page.get_by_text("Entries saved: 1.")).to_be_visible()
    expect(page.locator("table.mails tbody tr")).to_have_count(2)


@pytest.mark.variant
def test_keys_are_shown_and_can_be_switched_off(browser: Any, service: Any, virus: Any) -> None:
    service.scan(virus("Spoken"))
    page = browser.page()
    opened(page, "Spoken")
    page.keyboard.press("?")
    keys = page.get_by_role("dialog", name="Keys")
    expect(keys).to_be_visible()
    page.keyboard.press("j")
    keys.get_by_role("button", name="Close").click()
    expect(page.locator("tr.chosen")).to_have_count(0)
    page.goto("/account")
    page.get_by_label("Letters work as keys").uncheck()
    opened(page, "Spoken")
    page.keyboard.press("j")
    page.keyboard.press("?")
    expect(keys).to_be_hidden()
    expect(page.locator("tr.chosen")).to_have_count(0)


@pytest.mark.variant
def test_values_of_a_message_are_copied_as_they_can_be_passed_on(browser: Any, service: Any, virus: Any) -> None:
    raw = virus("Copied").replace(b"octet-stream\r\n\r\n", b"octet-stream\r\n\r\nhttps://evil.example/a?b=c\r\n")
    raw = raw.replace(b"application/octet-stream", b"text/plain")
    ggrid = service.scan(raw)["ggrid"]
    page = browser.open(f"/messages/{ggrid}#tab-technical")
    page.locator("dd", has=page.locator("#ggrid")).get_by_role("button", name="Copy").click()
    assert page.evaluate("navigator.clipboard.readText()") == ggrid
    expect(page.get_by_role("status").filter(has_text="Copied")).to_have_count(1)
    page.get_by_role("link", name="Content", exact=True).click()
    page.locator("summary", has_text="evil[.]example").click()
    page.get_by_role("button", name="Copy these links").click()
    assert page.evaluate("navigator.clipboard.readText()").startswith("hxxps://evil[.]example/a?b=c")


@pytest.mark.variant
def test_letters_in_a_field_are_letters(browser: Any, service: Any, virus: Any) -> None:
    service.scan(virus("Typing"))
    page = browser.page()
    opened(page, "Typing")
    page.get_by_label("Search", exact=True).clear()
    page.get_by_label("Search", exact=True).press_sequentially("jxrd")
    expect(page.get_by_label("Search", exact=True)).to_have_value("jxrd")
    expect(page.locator("tr.chosen")).to_have_count(0)
    assert browser.asked == []


@pytest.mark.parametrize("script", [True, pytest.param(False, marks=pytest.mark.variant)])
def test_all_that_match_are_deleted_once_that_is_confirmed(
    browser: Any, service: Any, virus: Any, script: bool
) -> None:
    subject = f"Bulk delete {script}"
    for number in range(3):
        service.scan(virus(f"{subject} {number}"))
    page = browser.page(script=script)
    opened(page, subject)
    page.get_by_label("All matching").check()
    page.get_by_role("button", name="Delete").click()
    expect(page.get_by_role("heading", name="Delete 3 messages?")).to_be_visible()
    page.get_by_role("link", name="Cancel").click()
    expect(page.locator("table.mails tbody tr")).to_have_count(3)
    page.get_by_label("All matching").check()
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("button", name="Delete 3 messages").click()
    expect(page.get_by_text("3 deleted.")).to_be_visible()
    expect(page.get_by_text("No matching held messages.")).to_be_visible()
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_text("3 restored.")).to_be_visible()
    assert browser.asked == []


@pytest.mark.variant
def test_enter_in_a_ticked_box_does_nothing_and_shift_selects_a_range(browser: Any, service: Any, virus: Any) -> None:
    for number in range(4):
        service.scan(virus(f"Ranges {number}"))
    page = browser.page()
    opened(page, "Ranges")
    boxes = page.locator("tbody input[type=checkbox]")
    boxes.nth(0).focus()
    page.keyboard.press("Space")
    page.keyboard.press("Enter")
    expect(page.get_by_text("1 selected")).to_be_visible()
    boxes.nth(0).click()
    boxes.nth(1).click()
    boxes.nth(3).click(modifiers=["Shift"])
    expect(page.get_by_text("3 selected")).to_be_visible()
    expect(boxes.nth(0)).not_to_be_checked()
    assert "/quarantine/work/" not in page.url


@pytest.mark.variant
def test_two_hundred_held_messages_with_the_keyboard_and_no_lost_place(browser: Any, service: Any, virus: Any) -> None:
    """A Monday: some are looked at one by one, and every second one is deleted from its page, which leads to the next;
    then the rest of the search goes at once. The search is kept throughout."""
    ggrid = service.scan(virus("Monday 0"))["ggrid"]
    service.ask(lambda store: hold_copies(store, ggrid, 200))
    page = browser.page()
    opened(page, "Monday")
    expect(page.locator("table.mails tbody tr")).to_have_count(50)
    assert sum(each["y"] + each["height"] < 900 for each in boxes_of(page)) >= 8
    page.keyboard.press("j")
    page.keyboard.press("o")
    seen = []
    for step in range(20):
        expect(page.get_by_role("heading", level=1)).to_contain_text("Monday")
        page.wait_for_url("**/messages/*?in=q%3Dsubject%253AMonday")
        seen.append(page.url)
        with page.expect_navigation():
            page.keyboard.press("d" if step % 2 else "j")
    assert len(set(seen)) == 20
    page.keyboard.press("u")
    expect(page).to_have_url(re.compile(r"/quarantine\?q=subject%3AMonday$"))
    expect(page.locator("table.mails tbody tr").nth(0)).to_have_class("chosen")
    page.get_by_label("All matching").check()
    page.keyboard.press("d")
    expect(page.get_by_role("heading", name="Delete 190 messages?")).to_be_visible()
    page.keyboard.press("Enter")
    page.wait_for_url(lambda url: "/quarantine/work/" not in url or "back" in url)
    expect(page.get_by_text("190 deleted.").or_(page.get_by_text("190 of 190 deleted"))).to_be_visible(timeout=120_000)
    held = service.ask(lambda store: store.quarantine.search(HeldFilter(subject="Monday"), None, 500))
    assert held.rows == ()


async def hold_copies(store: Store, ggrid: str, count: int) -> None:
    """Hold a message as often as that, under subjects of their own."""
    mail = await store.quarantine.find(ggrid)
    assert mail
    for number in range(1, count):
        report = msgspec.structs.replace(mail.record.report, subject=f"Monday {number}")
        await store.quarantine.hold(msgspec.structs.replace(mail.record, ggrid=new_id(), report=report))


def boxes_of(page: Page) -> list[Any]:
    return [each for row in page.locator("table.mails tbody tr").all() if (each := row.bounding_box())]


@pytest.mark.variant
def test_filters(browser: Any, service: Any, virus: Any) -> None:
    service.scan(virus("Filtered one"), "filtered@sender.example")
    page = browser.page()
    held = page.get_by_role("link", name="Filtered one")
    fits = {
        "Sender": "sender.example",
        "Recipient": "bob@example.com",
        "Subject": "filtered",
        "From (UTC)": "2026-01-01",
        "To (UTC)": "2099-01-01",
    }
    others = ("sender.test", "carol@example.com", "unfiltered", "2099-01-01", "2026-01-01")
    for fields in (fits, *({label: value} for label, value in zip(fits, others, strict=True))):
        opened(page, "Filtered one")
        page.get_by_text("Add filters").click()
        controls = page.locator("form", has=page.get_by_role("button", name="Add to the search"))
        for label, value in fields.items():
            controls.get_by_label(label, exact=True).fill(value)
        page.get_by_role("button", name="Add to the search").click()
        expect(held).to_have_count(1 if fields is fits else 0)
    opened(page, "Filtered one")
    page.get_by_text("Add filters").click()
    page.get_by_role("combobox", name="Verdict", exact=True).select_option("spam")
    page.get_by_role("button", name="Add to the search").click()
    expect(held).to_have_count(0)


GTUBE = "XJS*C4JDBQADN1.NSBN3*2IDNEN*GTUBE-STANDARD-ANTI-UBE-TEST-EMAIL*C.34X"


@pytest.mark.variant
def test_a_recipient_by_the_links_of_a_digest(
    browser: Any, service: Any, mail: Any, virus: Any, lasting_next_hop: Any
) -> None:
    both = ("bob@example.com", "cy@example.com")
    spam = service.scan(mail("A digest's offer", f"{GTUBE}\r\n"), recipients=both)["ggrid"]
    phone = browser.page(None, size="phone", script=False)
    link = service.ask(lambda store: open_digest(store, spam))
    phone.goto(link)
    expect(phone.get_by_text("Spam: unwanted mail")).to_be_visible()
    assert not reached(lasting_next_hop, "A digest's offer")
    phone.get_by_role("button", name="Release to my mailbox").click()
    expect(phone.get_by_text("on its way to your mailbox")).to_be_visible()
    assert [to for _, to, raw in lasting_next_hop.mail if b"A digest's offer" in raw] == [("bob@example.com",)]
    phone.goto(link)
    expect(phone.get_by_role("heading", name="This link does not work")).to_be_visible()
    malware = service.scan(virus("A digest's parcel"), recipients=both)["ggrid"]
    phone.goto(service.ask(lambda store: open_digest(store, malware)))
    expect(phone.get_by_role("button", name="Release to my mailbox")).to_have_count(0)
    phone.get_by_label("Why do you need this message?").fill("I wait for it")
    phone.get_by_role("button", name="Request release").click()
    expect(phone.get_by_text("Your request was passed on")).to_be_visible()
    page = browser.open("/requests?q=bob@example.com&kind=release")
    row = page.locator("tbody tr", has_text="A digest's parcel")
    expect(row).to_contain_text("I wait for it")
    place = page.locator("tbody tr").all_inner_texts().index(row.inner_text())
    for key in ("j",) * (place + 1) + ("x", "g"):
        page.keyboard.press(key)
    expect(page.get_by_text("1 granted.")).to_be_visible()
    assert [to for _, to, raw in lasting_next_hop.mail if b"A digest's parcel" in raw] == [("bob@example.com",)]
