"""Markup in every field of a mail, of an envelope and of a list is text wherever it is shown: nothing of it runs,
nothing is loaded, no element comes of it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from bench.sample import EICAR
from playwright.sync_api import Page

from gatepost.lists.catalogue import BY_NAME
from gatepost.store.audit import CLI
from gatepost.store.lists import NewEntry

# Marks the window if it runs, asks another host if it is loaded, and closes what it may stand in.
RUNS = "window.marked=1"
MARKUP = (
    f"<script>{RUNS}</script>",
    f"<img src=https://elsewhere.test/x onerror={RUNS}>",
    f'"><svg onload={RUNS}>',
    "'><iframe srcdoc='<script>top.marked=1</script>'></iframe>",
    f"</title></textarea></pre><a id=planted href=javascript:{RUNS}>x</a>",
    "{{ 7*7 }}{% raw %}<style>@import 'https://elsewhere.test/'</style>",
    f'" onfocus={RUNS} autofocus x="',
)
# Whatever is in a page that is not ours: scripts, pictures, frames, handlers, ways out.
STRANGE = """() => {
    const ours = (url) => new URL(url, location.href).origin === location.origin;
    const barred = ["iframe", "object", "embed", "style", "base", "video", "audio", "foreignObject"];
    const found = [];
    for (const element of document.querySelectorAll("*")) {
        const name = element.localName;
        // The frame of a mail's HTML is ours, and shut (`test_mail_frame`).
        const source = element.getAttribute("src") || "";
        const frame = element.matches("iframe.mail-page[sandbox='']") && /^\\/messages\\/[^/]+\\/html$/.test(source);
        if (barred.includes(name) && !frame) found.push(name);
        if (name === "script" && !element.getAttribute("src")?.startsWith("/static/")) found.push("script");
        if (name === "img" && !/^\\/(static|messages)\\//.test(element.getAttribute("src"))) found.push("img");
        if (name === "a" && element.hasAttribute("href") && !ours(element.href)) found.push(element.outerHTML);
        if (name === "form" && !ours(element.action)) found.push("form");
        const handlers = Array.from(element.attributes).filter((each) => /^on|^style$/.test(each.name));
        if (handlers.length) found.push(element.outerHTML);
    }
    if (document.getElementById("planted")) found.push("planted");
    if (window.marked) found.push("it ran");
    return found;
}"""


def hostile(markup: str) -> bytes:
    """A message with that in every place that has one."""
    plain = markup.replace("\r", "").replace("\n", "")
    quoted = plain.replace("\\", "\\\\").replace('"', '\\"')
    name = plain.replace(" ", "").replace(":", "")
    return (
        f'From: "{quoted}" <"{quoted}"@example.org>\r\nTo: "{quoted}" <bob@example.com>\r\nCc: {plain}\r\n'
        f"Subject: {plain}\r\nDate: {plain}\r\nMessage-ID: <{plain}@example.org>\r\nReply-To: {plain}\r\n"
        f"X-{name}: {plain}\r\nList-Unsubscribe: <https://elsewhere.test/{plain}>\r\nX-Mailer: {plain}\r\n"
        f"MIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n"
        f"--b\r\nContent-Type: text/plain; charset=utf-8\r\n\r\n{plain} https://elsewhere.test/{plain}\r\n"
        f"--b\r\nContent-Type: text/html; charset=utf-8\r\n\r\n{plain}<p>seen</p>"
        f'<a href="javascript:{RUNS}">{plain}</a><a href="https://elsewhere.test/?{plain}">go</a>'
        f'<img src="https://elsewhere.test/pixel"><form action="https://elsewhere.test/"><input name=x></form>\r\n'
        f'--b\r\nContent-Type: application/octet-stream; name="{quoted}"\r\n'
        f'Content-Disposition: attachment; filename="{quoted}"\r\n\r\n{EICAR}\r\n--b--\r\n'
    ).encode()


def innocent(page: Page, path: str) -> None:
    """Nothing strange is on the page, and it is one."""
    answer = page.goto(path, wait_until="load")
    assert answer
    assert answer.status == 200, path
    assert page.evaluate(STRANGE) == [], path


def test_what_is_looked_for_would_be_found(browser: Any) -> None:
    page = browser.open("/account")
    assert page.evaluate(STRANGE) == []
    page.evaluate("document.body.append(document.createElement('iframe'), document.createElement('script'))")
    assert page.evaluate(STRANGE) == ["iframe", "script"]
    page.evaluate("document.body.insertAdjacentHTML('beforeend', '<a href=javascript:1 onclick=1>x</a>')")
    assert len(page.evaluate(STRANGE)) == 4
    browser.faults.clear()


@pytest.mark.parametrize(
    "number", [pytest.param(number, marks=pytest.mark.variant if number else []) for number in range(len(MARKUP))]
)
def test_markup_in_every_field(browser: Any, service: Any, number: int) -> None:
    markup = MARKUP[number]
    comment = NewEntry(f"m{number}@hostile.example", f"m{number}@hostile.example", markup)
    service.ask(lambda store: store.lists.add(None, BY_NAME["blocked-senders"], [comment], CLI))
    found = service.scan(
        hostile(markup),
        f"m{number}@hostile.example",
        recipients=("bob@example.com", f'"{number}<b>"@example.com'),
        senderHelo=markup[:200],
        remoteAddress="192.0.2.1",
    )
    assert found["decision"] == "quarantine"
    page = browser.page()
    for path in (
        "/",
        "/messages",
        f"/messages/{found['ggrid']}",
        f"/messages/{found['ggrid']}/replay",
        "/quarantine",
        "/lists/global/blocked-senders?q=hostile.example&how=contains",
        f"/lists/global/blocked-senders/entry?key=m{number}@hostile.example",
        "/audit",
    ):
        innocent(page, path)
    page.goto(f"/messages/{found['ggrid']}")
    assert markup.partition(" ")[0][:8] in page.locator("h1").inner_text()
    for tab in ("why", "content", "technical"):
        page.goto(f"/messages/{found['ggrid']}#tab-{tab}")
        page.evaluate("document.querySelectorAll('main details').forEach((each) => { each.open = true; })")
        assert page.locator(f"#tab-{tab}").is_visible()
    assert page.evaluate(STRANGE) == []


@pytest.mark.variant
def test_markup_in_addresses(browser: Any) -> None:
    markup = MARKUP[0] + MARKUP[1]
    page = browser.page()
    for path in (
        f"/messages?subject={markup}&sender={markup}&tag={markup}",
        f"/quarantine?subject={markup}&sender={markup}",
        f"/audit?actor={markup}&action={markup}&list={markup}",
        f"/lists/global/blocked-urls?q={markup}",
        f"/lists/global/blocked-urls?add={markup}",
        f"/policy?part={markup}",
        f"/?span={markup}&done={markup}",
    ):
        innocent(page, path)


@pytest.mark.shared
@pytest.mark.parametrize("step", [12, pytest.param(1, marks=pytest.mark.long)], ids=["some", "all"])
def test_the_messages_of_the_attack_suite_run_nothing(
    browser: Any, service: Any, shared: Callable[[str], Path], step: int
) -> None:
    messages = sorted((shared("attack-dev") / "wooyun_xss").rglob("*.eml"))[::step]
    assert len(messages) == 96 // step
    sender = f"attacker{step}@suite.example"
    entry = NewEntry(sender, sender, "All of it is held")
    service.ask(lambda store: store.lists.add(None, BY_NAME["blocked-senders"], [entry], CLI))
    found = [service.scan(each.read_bytes(), sender)["ggrid"] for each in messages]
    page = browser.page()
    shown = 0
    for ggrid in found:
        innocent(page, f"/messages/{ggrid}")
        shown += page.get_by_text("Plain text, produced in a sealed process.").count()
    assert shown == len(found)
    innocent(page, f"/messages?sender={sender}")
    innocent(page, f"/quarantine?sender={sender}")
