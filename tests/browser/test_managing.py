"""Tenants, users, policy, audit trail, system and one's own account in a browser."""

import asyncio
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec
import pytest
from bench.visiting import TOKEN
from playwright.sync_api import expect
from tests.events.receivers import eventually

from gatepost.learning.sealed_training import Proof, Side
from gatepost.service.data_folder import DataFolder
from gatepost.settings.files import ABBY_FILE
from gatepost.store import open_store
from gatepost.store.audit import CLI
from gatepost.store.learning import TaughtMessage


def test_a_tenant_from_its_first_day_to_its_last(browser: Any) -> None:
    page = browser.open("/tenants")
    page.get_by_role("textbox", name="Name").fill("Short-lived Ltd")
    page.get_by_role("button", name="Create tenant").click()
    expect(page.get_by_text("Tenant created. Add its domains next.")).to_be_visible()
    page.get_by_label("One per line").fill("short-lived.example\nnot a domain!")
    page.get_by_role("button", name="Save domains").click()
    expect(page.get_by_role("alert")).to_contain_text("Nothing was changed")
    page.get_by_label("One per line").fill("short-lived.example")
    page.get_by_role("button", name="Save domains").click()
    expect(page.get_by_text("Change saved.")).to_be_visible()
    page.get_by_label("Type the name to confirm").fill("Short-lived")
    page.get_by_role("button", name="Delete Short-lived Ltd").click()
    expect(page.get_by_role("alert")).to_contain_text("type its name exactly")
    page.get_by_label("Type the name to confirm").fill("Short-lived Ltd")
    page.get_by_role("button", name="Delete Short-lived Ltd").click()
    expect(page.get_by_text("Tenant deleted, with all its data.")).to_be_visible()


@pytest.mark.variant
def test_a_user_is_made_shut_out_and_deleted(browser: Any) -> None:
    page = browser.page()
    browser.accept(page)
    page.goto("/users")
    page.get_by_role("textbox", name="Name").fill("new colleague")
    page.get_by_label("auditor:").check()
    page.get_by_role("button", name="Create user").click()
    password = page.locator("#secret").inner_text()
    theirs = browser.page("new colleague", password)
    expect(theirs.get_by_role("heading", name="Before you start")).to_be_visible()
    theirs.goto("/quarantine")
    theirs.get_by_label("Password that you were given").fill(password)
    theirs.get_by_label("New password", exact=True).fill("words of their own choice")
    theirs.get_by_label("Repeat new password").fill("words of their own choice")
    theirs.get_by_role("button", name="Change password").click()
    expect(theirs.get_by_text("Password changed.")).to_be_visible()
    expect(theirs.get_by_role("link", name="System")).to_be_visible()
    page.get_by_text("Change new colleague").click()
    page.get_by_role("row").filter(has_text="new colleague").get_by_role("button", name="Disable").click()
    expect(page.locator(".badge", has_text="disabled")).to_be_visible()
    theirs.goto("/messages")
    expect(theirs).to_have_url(re.compile("/sign-in"))
    page.get_by_text("Change new colleague").click()
    page.get_by_role("row").filter(has_text="new colleague").get_by_role("button", name="Delete").click()
    expect(page.get_by_text("User deleted.")).to_be_visible()
    assert browser.asked == ["Delete new colleague?"]


@pytest.mark.variant
def test_policy_is_tried_and_explained(browser: Any, service: Any, mail: Any) -> None:
    bulk = mail("A letter to many", more="List-Unsubscribe: <mailto:x@example.org>\r\nPrecedence: bulk\r\n")
    verdict = service.scan(bulk)["verdict"]
    page = browser.open("/policy")
    page.get_by_label("Changes, in the format of a policy file").fill(f'[verdicts.{verdict}]\ndecision = "drop"\n')
    page.get_by_role("button", name="Re-evaluate the last").click()
    expect(page.get_by_text("decisions would change")).to_be_visible()
    expect(page.get_by_role("link", name="A letter to many").first).to_be_visible()
    page.get_by_label("Changes, in the format of a policy file").fill("weights = many")
    page.get_by_role("button", name="Re-evaluate the last").click()
    expect(page.get_by_role("alert")).to_be_visible()
    page.goto("/policy")
    page.get_by_role("textbox", name="Search").fill("eicar")
    page.get_by_role("button", name="Search").click()
    page.get_by_role("link", name="file:eicar").click()
    expect(page.get_by_role("heading", name="Origin of the values")).to_be_visible()


@pytest.mark.variant
def test_a_rule_is_written_without_scripts_and_judges_the_next_message(browser: Any, service: Any, mail: Any) -> None:
    letter = mail("Ponies for everybody", text="Dear Bob,\r\nwe breed them on the hill.\r\nAnn\r\n")
    service.scan(letter)
    page = browser.open("/rules", script=False)
    page.get_by_role("link", name="New rule").click()
    page.get_by_role("textbox", name="Name").fill("no-ponies")
    page.get_by_role("textbox", name="Title").fill("Nobody here wants ponies")
    page.get_by_role("textbox", name="Condition (CEL)").fill('subjet.contains("Ponies")')
    page.get_by_label("conclusive").check()
    page.get_by_role("button", name="Check, and try").click()
    expect(page.get_by_role("alert")).to_contain_text(
        "at line 1, column 1: nothing is named subjet here; did you mean subject?"
    )
    page.get_by_role("textbox", name="Condition (CEL)").fill('subject.contains("Ponies")')
    page.get_by_role("button", name="Check, and try").click()
    expect(page.get_by_role("status").filter(has_text="1 decision would change")).to_be_visible()
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Rule saved.")).to_be_visible()
    # The process that saved it applies it at once, others within seconds.
    assert "rule:no-ponies" in service.scan(letter)["tags"]
    page.goto("/rules")
    row = page.get_by_role("row").filter(has_text="no-ponies")
    expect(row.get_by_role("link", name="1", exact=True)).to_be_visible()
    row.get_by_role("button", name="Delete").click()
    expect(page.get_by_text("Rule deleted.")).to_be_visible()
    assert "rule:no-ponies" not in service.scan(letter)["tags"]


@pytest.mark.variant
def test_a_feed_is_defined_tried_and_deleted(browser: Any) -> None:
    page = browser.page()
    browser.accept(page)
    page.goto("/feeds")
    page.get_by_role("link", name="New feed").click()
    page.get_by_role("textbox", name="Name").fill("ponies")
    page.get_by_label("List", exact=True).fill("blocked-urls")
    page.get_by_label("Address").fill("https://feeds.invalid/list.txt")
    page.get_by_label("paused:").check()
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Feed saved.")).to_be_visible()
    row = page.get_by_role("row").filter(has_text="ponies")
    row.get_by_role("button", name="Dry run").click()
    # The name leads nowhere; what matters is that the child process has found and read the definition.
    expect(page.get_by_role("alert")).to_contain_text("Dry run of ponies: feeds.invalid")
    page.get_by_role("row").filter(has_text="ponies").get_by_role("button", name="Delete").click()
    expect(page.get_by_text("Feed deleted.")).to_be_visible()


@pytest.mark.variant
def test_the_audit_trail_has_what_was_done_here(browser: Any) -> None:
    page = browser.open("/tenants")
    page.get_by_role("textbox", name="Name").fill("Audited Ltd")
    page.get_by_role("button", name="Create tenant").click()
    page.goto("/audit")
    page.get_by_label("User or key").fill("user:admin")
    page.get_by_label("Action").fill("tenant.")
    page.get_by_role("button", name="Filter").click()
    row = page.get_by_role("row").filter(has_text="Audited Ltd").first
    expect(row).to_contain_text("created the tenant")
    page.get_by_label("Action").fill("user.")
    page.get_by_role("button", name="Filter").click()
    expect(page.get_by_role("row").filter(has_text="created the tenant")).to_have_count(0)


@pytest.mark.variant
def test_the_system_is_examined(browser: Any, service: Any) -> None:
    page = browser.open("/system")
    page.get_by_text("settings that are set").click()
    expect(page.get_by_role("row", name="staticApiTokens[0].token (hidden)")).to_be_visible()
    assert "a-token-for-tests" not in page.content()
    page.get_by_role("button", name="Run health check").click()
    rows = page.get_by_role("region", name="Health check").get_by_role("row")
    expect(rows.filter(has_text="next hop")).to_contain_text("ok")
    expect(rows.filter(has_text="storage").first).to_contain_text("ok")
    expect(rows.filter(has_text="port of abby")).to_contain_text("in use by the Gatepost that runs")
    # The doctor tries the locks of the data folder; the service must not lose them by that.
    assert DataFolder(service.data).is_locked("abby")


@pytest.mark.variant
def test_the_password_is_changed_and_other_sessions_end(browser: Any, service: Any) -> None:
    password = service.user("changes passwords", "analyst")
    page = browser.page("changes passwords", password, fresh=True)
    other = browser.page("changes passwords", password, fresh=True)
    page.goto("/account")
    page.get_by_label("Current password").fill(password)
    page.get_by_label("New password", exact=True).fill("another row of words")
    page.get_by_label("Repeat new password").fill("another row of words")
    page.get_by_role("button", name="Change password").click()
    expect(page.get_by_text("Password changed.")).to_be_visible()
    other.goto("/messages")
    expect(other).to_have_url(re.compile("/sign-in"))
    browser.page("changes passwords", "another row of words", fresh=True)
    page.goto("/account")
    page.get_by_role("button", name="End all other sessions").click()
    expect(page.get_by_text("All other sessions ended.")).to_be_visible()


@pytest.mark.variant
def test_nodes_show_the_version_that_they_run(browser: Any, service: Any) -> None:
    page = browser.open("/nodes")
    expect(page.get_by_text("every node uses its own files")).to_be_visible()
    expect(page.locator("#nodes ~ .scroll .badge").first).to_have_text("ok")
    # A version may hold no secret: the token goes into a file.
    path = service.data / ABBY_FILE
    text = path.read_text()
    (service.data / "mta.token").write_text(TOKEN)
    path.write_text(text.replace(TOKEN, f'"${{file:{service.data / "mta.token"}}}"'))
    try:
        command = [sys.executable, "-m", "gatepost", "config", "publish", "--reason", "first version", "--wait"]
        subprocess.run([*command, "--data", str(service.data)], check=True, capture_output=True, timeout=150)
    finally:
        path.write_text(text)
    page.reload()
    row = page.get_by_role("row").filter(has_text="guard+abby")
    expect(row.get_by_role("cell").nth(1)).to_have_text("1")
    expect(page.get_by_role("row").filter(has_text="first version")).to_contain_text("current")


@pytest.mark.variant
def test_a_learnt_model_is_looked_at_and_rolled_back(browser: Any, service: Any) -> None:
    figures = Proof(200, 100, 100, Side(20, 18, 20, 0, 0.3), Side(20, 0, 20, 0), 174, taken=True, reason="it is better")

    async def fill() -> int:
        store = open_store("sqlite:gatepost.db", service.data)
        try:
            await store.learning.add_reports(None, CLI, [TaughtMessage("m", b"\x01\x00")], unwanted=True)
            return await store.learning.keep_model(None, msgspec.json.encode(figures), b"x", CLI)
        finally:
            await store.close()

    # Playwright has an event loop of its own in this thread.
    with ThreadPoolExecutor(1) as elsewhere:
        version = elsewhere.submit(lambda: asyncio.run(fill())).result()
    page = browser.page()
    browser.accept(page)
    page.goto("/learning")
    expect(page.get_by_role("heading", name="Pools")).to_be_visible()
    expect(page.get_by_text("18 of 20, 0 before")).to_be_visible()
    page.get_by_role("link", name=f"Model {version}").click()
    expect(page.get_by_role("heading", name=f"Model {version}")).to_be_visible()
    page.goto("/learning")
    page.get_by_role("button", name=f"Roll back model {version}").click()
    expect(page.get_by_text("The model is withdrawn.")).to_be_visible()


@pytest.mark.variant
def test_a_draft_is_published_and_taken_back(browser: Any, service: Any) -> None:
    page = browser.open("/configuration")
    field = page.get_by_label("Deleted messages can be restored for")
    field.fill("none")
    page.get_by_role("button", name="Save draft").click()
    expect(page.get_by_text("Write a number, such as 7 days.")).to_be_visible()
    expect(page.get_by_role("region", name="Draft")).to_contain_text("has faults")
    field.fill("9")
    field.press("Enter")
    expect(page.get_by_role("region", name="Draft")).to_contain_text("1 change")
    page.get_by_label("Room for held messages", exact=True).fill("30")
    page.get_by_role("button", name="Try", exact=True).click()
    expect(page.get_by_text("2 changes, last by")).to_be_visible()
    page.get_by_role("link", name="Settings").click()
    page.get_by_role("button", name="Reset Room for held messages to 20 GB").click()
    page.get_by_role("button", name="Publish…").click()
    page.get_by_role("button", name="Try its policies").click()
    expect(page.get_by_text("decisions would change")).to_be_visible()
    page.get_by_label("Reason").fill("more time to restore")
    page.get_by_role("button", name="Publish for all nodes").click()
    expect(page.get_by_text("Published. The nodes take it over")).to_be_visible()
    number = service.ask(lambda store: store.publishing.rollout()).wanted
    eventually(
        lambda: all(each.detail.version == number for each in service.ask(lambda store: store.publishing.nodes()))
    )
    page.goto("/system")
    expect(page.locator("tr", has_text="quarantine.deletedRetention")).to_contain_text("9")
