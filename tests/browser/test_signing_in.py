"""Signing in and out in a browser, with and without scripts, on a desk and on a phone."""

import re
from typing import Any

import pytest
from axe_playwright_python.base import AXE_SCRIPT  # type: ignore[import-untyped]
from playwright.sync_api import Page, expect
from tests.browser.test_pages import ALL, faults
from tests.browser.visits import VISITS
from tests.web.strangers import code_of
from tests.web.test_openid import ProviderProcess


@pytest.mark.parametrize(("size", "script"), VISITS)
def test_in_and_out(browser: Any, size: str, script: bool) -> None:
    page = browser.page(size=size, script=script, fresh=True)
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    if size == "phone" and script:
        page.get_by_text("Menu", exact=True).click()
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_text("You are signed out.")).to_be_visible()
    page.goto("/messages")
    expect(page).to_have_url(re.compile(r"/sign-in\?next="))


@pytest.mark.variant
def test_a_wrong_password_is_told_and_one_comes_to_the_page_that_was_asked_for(browser: Any, service: Any) -> None:
    page = browser.open("/messages?verdict=spam", None)
    browser.sign_in(page, "admin", "not the one")
    expect(page.get_by_role("alert")).to_contain_text("wrong")
    page.get_by_label("Password").fill(service.password)
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"/messages\?verdict=spam$"))


@pytest.mark.variant
@pytest.mark.parametrize("script", [True, pytest.param(False, marks=pytest.mark.variant)])
def test_a_second_factor(browser: Any, service: Any, script: bool) -> None:
    name = f"second-factor-{script}"
    password = service.user(name, "analyst")
    page = browser.open("/account", name, password, script=script)
    page.get_by_role("button", name="Set up").click()
    secret = page.locator('input[name="secret"]').get_attribute("value")
    page.get_by_label("Code", exact=True).fill(code_of(secret))
    page.locator("#p2").fill(password)
    page.get_by_role("button", name="Turn on").click()
    expect(page.get_by_role("heading", name="Your recovery codes")).to_be_visible()
    code = page.locator("#codes").inner_text().split()[0]
    page.get_by_role("link", name="I have kept them").click()
    expect(page.get_by_text("10 recovery codes are left")).to_be_visible()
    other = browser.open("/sign-in", None, script=script)
    browser.sign_in(other, name, password)
    other.get_by_label("Code", exact=True).fill(code_of(secret, 1))
    other.get_by_role("button", name="Continue").click()
    expect(other.get_by_role("heading", name="Overview")).to_be_visible()
    lost = browser.open("/sign-in", None, script=script)
    browser.sign_in(lost, name, password)
    lost.get_by_text("Lost the device?").click()
    lost.get_by_label("Recovery code").fill(code)
    lost.get_by_role("button", name="Use it").click()
    expect(lost.get_by_text("You signed in with a recovery code, and 9 are left.")).to_be_visible()


def check_access(page: Page) -> None:
    """Pages that one gets to with a key only are not among those of `test_pages`."""
    page.evaluate(AXE_SCRIPT)
    assert faults(page, ALL) == []


@pytest.mark.variant
def test_security_keys(browser: Any, service: Any) -> None:
    """Keys belong to names, so the pages are opened as localhost. A virtual authenticator of Chromium is the key."""
    password = service.user("key-holder", "analyst")
    named = service.url.replace("127.0.0.1", "localhost")
    page = browser.page(None)
    session = page.context.new_cdp_session(page)
    session.send("WebAuthn.enable")
    usb = {"protocol": "ctap2", "transport": "usb", "hasResidentKey": False, "hasUserVerification": False}
    made = session.send("WebAuthn.addVirtualAuthenticator", {"options": {**usb, "isUserVerified": False}})

    def sign_in() -> None:
        page.goto(f"{named}/sign-in")
        browser.sign_in(page, "key-holder", password)

    sign_in()
    page.goto(f"{named}/account")
    page.get_by_text("Add a security key or passkey").click()
    page.get_by_label("Name of the key").fill("blue key")
    page.locator("#p4").fill(password)
    page.get_by_role("button", name="Add a key").click()
    expect(page.get_by_role("heading", name="Touch the new key")).to_be_visible()
    page.get_by_role("button", name="Use the key").click()
    expect(page.get_by_role("heading", name="Your recovery codes")).to_be_visible()
    page.get_by_role("link", name="I have kept them").click()
    expect(page.get_by_role("cell", name="blue key", exact=True)).to_be_visible()
    check_access(page)
    page.get_by_role("button", name="Sign out").click()
    sign_in()
    expect(page.get_by_role("button", name="Use a security key")).to_be_focused()
    check_access(page)
    page.get_by_role("button", name="Use a security key").click()
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    # The same key confirms a change; Chromium refuses to register it twice.
    page.goto(f"{named}/account")
    page.get_by_text("Add a security key or passkey").click()
    page.get_by_label("Name of the key").fill("the same again")
    page.locator("#p4").fill(password)
    page.get_by_role("button", name="Confirm with a key").click()
    expect(page.get_by_role("button", name="Use the key")).to_be_visible()
    check_access(page)
    page.get_by_role("button", name="Use the key").click()
    expect(page.get_by_role("alert")).to_contain_text("registered already")
    # Another authenticator does not have the key.
    page.get_by_role("button", name="Sign out").click()
    session.send("WebAuthn.removeVirtualAuthenticator", {"authenticatorId": made["authenticatorId"]})
    session.send("WebAuthn.addVirtualAuthenticator", {"options": {**usb, "isUserVerified": False}})
    sign_in()
    page.get_by_role("button", name="Use a security key").click()
    expect(page.get_by_role("alert")).to_contain_text("No key has answered")
    plain = browser.open(f"{named}/sign-in", None, script=False)
    browser.sign_in(plain, "key-holder", password)
    expect(plain.get_by_text("needs JavaScript")).to_be_visible()
    # The same pages by their other name are what this test is about.
    browser.faults[:] = [fault for fault in browser.faults if not fault.startswith(f"asked for {named}")]


def test_no_page_can_be_framed(browser: Any, service: Any) -> None:
    page = browser.page()
    for path in ("/sign-in", "/quarantine"):
        page.goto("about:blank")
        page.set_content(f'<iframe src="{service.url}{path}"></iframe>')
        frame = page.frame_locator("iframe")
        expect(frame.get_by_role("button", name="Sign in")).to_have_count(0)
        assert page.frames[1].url.startswith("chrome-error:")
    browser.faults.clear()


@pytest.mark.variant
def test_another_site_cannot_sign_a_form_with_the_session(browser: Any, service: Any) -> None:
    before = service.ask(lambda store: store.api_keys.all())
    page = browser.open("about:blank")
    planted = '<input name="name" value="planted"><input name="scope" value="global"><button>Win</button>'
    page.set_content(f'<form method="post" action="{service.url}/keys">{planted}</form>')
    page.get_by_role("button", name="Win").click()
    # The cookie stays away from what another site sends, and nothing of the form is kept for after a sign-in.
    expect(page.get_by_role("heading", name="Forbidden")).to_be_visible()
    browser.faults.clear()
    assert service.ask(lambda store: store.api_keys.all()) == before


@pytest.mark.variant
def test_signing_in_through_a_provider_on_another_site(browser: Any, service: Any) -> None:
    """Cookies that browsers hold back from other sites, and a policy that lets no form lead there, are in the way of a
    sign-in that comes back from elsewhere; only a browser shows that it works."""
    provider = ProviderProcess("localhost", service.provider_port)
    try:
        provider.tell(claims={"sub": "7", "preferred_username": "ann of elsewhere", "groups": ["gatepost-admins"]})
        page = browser.open("/messages?verdict=spam", None)
        page.get_by_role("link", name="Sign in with Example ID").click()
        expect(page).to_have_url(re.compile(r"/messages\?verdict=spam$"))
        expect(page.locator("span", has_text="ann of elsewhere").first).to_be_visible()
        page.goto("/account")
        expect(page.get_by_text("managed there")).to_be_visible()
        page.get_by_role("button", name="Sign out").click()
        expect(page.get_by_role("link", name="Sign out at Example ID too")).to_be_visible()
        provider.tell(claims={"sub": "8", "preferred_username": "bob", "groups": []})
        page.get_by_role("link", name="Sign in with Example ID").click()
        expect(page.get_by_role("alert")).to_contain_text("nothing there gives you access")
    finally:
        provider.stop()
    # Requests to the provider are what this test is about.
    browser.faults[:] = [fault for fault in browser.faults if service.issuer not in fault]
