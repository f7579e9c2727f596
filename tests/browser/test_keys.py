"""API keys in a browser: made, copied, used as the page says, revoked."""

import json
import re
import shlex
import subprocess
from typing import Any

import pytest
from playwright.sync_api import Page, expect
from tests.browser.visits import VISITS


def makes(page: Page, name: str) -> None:
    page.goto("/keys")
    page.get_by_role("textbox", name="Name").fill(name)
    page.get_by_label("Read-only").check()
    page.get_by_role("button", name="Create key").click()
    expect(page.get_by_role("heading", name=f"Key {name} created")).to_be_visible()


@pytest.mark.parametrize(("size", "script"), VISITS)
def test_made_and_revoked(browser: Any, service: Any, size: str, script: bool) -> None:
    name = f"playbook {size} {script}"
    page = browser.page(size=size, script=script)
    browser.accept(page)
    makes(page, name)
    secret = page.locator("#secret").inner_text()
    expect(page.get_by_role("button", name=re.compile("Copy"))).to_have_count(2 if script else 0)
    lists = "/api/public/lists/v1/getLists"
    used = {"headers": {"Authorization": f"apikey {secret}"}, "json": {}}
    assert service.client.post(lists, **used).status_code == 200
    page.goto("/keys")
    expect(page.get_by_text(secret)).to_have_count(0)
    page.get_by_role("button", name=f"Revoke {name}").click()
    expect(page.get_by_text("Key revoked.")).to_be_visible()
    assert service.client.post(lists, **used).status_code == 401
    assert browser.asked == ([f"Revoke {name}? Clients that use it stop working immediately."] if script else [])


@pytest.mark.variant
def test_the_copy_buttons_copy_what_works(browser: Any, service: Any) -> None:
    page = browser.page()
    makes(page, "for the clipboard")
    page.get_by_role("button", name="Copy", exact=True).first.click()
    expect(page.get_by_role("button", name="Copied", exact=True)).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == page.locator("#secret").inner_text()
    page.get_by_role("button", name="Copy", exact=True).click()
    expect(page.get_by_role("button", name="Copied", exact=True)).to_have_count(2)
    command = shlex.split(page.evaluate("navigator.clipboard.readText()"))
    assert command[0] == "curl"
    assert "--noproxy" in command
    said = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True, cwd=service.data).stdout
    assert "blocked-urls" in json.dumps(json.loads(said))
