"""Tasks of people who look after mail, done in a real browser: how many clicks, characters and pages each takes.

Each task begins at the overview of the sample in `bench/sample.py`, signed in, and ends when the page shows that it is
done, which is checked. Seconds are those of a practised user by the keystroke-level model (Card, Moran, Newell 1980:
1.3 s for pointing and clicking, 0.28 s for a character, 1.35 s for thinking at each page) and the time that the service
took for the pages, which is stated apart, since it depends on the machine.
"""

import io
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
from playwright.sync_api import Locator, Page, expect, sync_playwright

from bench.gateway import Sink
from bench.sample import Sample, fill
from bench.screenshots import signed_in
from bench.visiting import SIZES, Service, chromium_path

CLICK, CHARACTER, THOUGHT = 1.3, 0.28, 1.35
HISTORY = 300
IMPORTED = b"".join(b"host%d.evil.example\n" % number for number in range(4_940))


class Effort(msgspec.Struct):
    """What a task took."""

    clicks: int = 0
    characters: int = 0
    pages: int = 0
    waited: float = 0.0

    @property
    def seconds(self) -> float:
        """How long a practised user takes, without the time of the service."""
        return self.clicks * CLICK + self.characters * CHARACTER + self.pages * THOUGHT


class Walk:
    """Somebody who does a task: every click, character and page is counted."""

    def __init__(self, page: Page, sample: Sample) -> None:
        self.page, self.sample, self.effort = page, sample, Effort(pages=1)
        self.main = page.locator("main")
        page.set_viewport_size(dict(zip(("width", "height"), SIZES["desktop"], strict=True)))  # type: ignore[arg-type]
        page.goto("/")

    def click(self, target: Locator, *, opens: bool = False) -> None:
        """Click on something that opens another page, or acts on this one."""
        self.effort.clicks += 1
        if not opens:
            target.click()
            return
        started = time.perf_counter()
        with self.page.expect_navigation():
            target.click()
        self.effort.waited += time.perf_counter() - started
        self.effort.pages += 1

    def menu(self, name: str) -> None:
        """Choose a page of the menu."""
        self.click(self.page.get_by_role("navigation").get_by_role("link", name=name).first, opens=True)

    def link(self, name: str) -> None:
        self.click(self.main.get_by_role("link", name=name).first, opens=True)

    def button(self, name: str, *, opens: bool = True) -> None:
        self.click(self.main.get_by_role("button", name=name).first, opens=opens)

    def unfold(self, name: str) -> None:
        self.click(self.main.locator("summary:visible", has_text=name).first)

    def tick(self, target: Locator) -> None:
        self.effort.clicks += 1
        target.check()

    def choose(self, label: str, value: str) -> None:
        """Choose from a list: it opens with a click and is chosen from with another."""
        self.effort.clicks += 2
        self.main.get_by_label(label).first.select_option(value)

    def type(self, label: str, text: str, *, enter: bool = False) -> None:
        """Click into a field and write; Enter sends it."""
        self.write(self.main.get_by_label(label).first, text, enter=enter)

    def write(self, field: Locator, text: str, *, enter: bool = False) -> None:
        """Click into this field and write; Enter sends it."""
        self.effort.clicks += 1
        self.effort.characters += len(text) + enter
        field.fill(text)
        if enter:
            started = time.perf_counter()
            with self.page.expect_navigation():
                field.press("Enter")
            self.effort.waited += time.perf_counter() - started
            self.effort.pages += 1

    def search(self, text: str, where: str = "Messages") -> None:
        """Go to a list and search it."""
        self.menu(where)
        self.type("Search", text, enter=True)

    def sees(self, text: str) -> None:
        """The page says so; else the task failed."""
        expect(self.main).to_contain_text(text, timeout=30_000)

    def first_row(self) -> None:
        """Open the first message of the list."""
        self.click(self.main.locator("tbody tr td.subject a[dir]").first, opens=True)

    def select_first(self, number: int = 1) -> None:
        for index in range(number):
            self.tick(self.main.locator("tbody td.pick input").nth(index))

    def select_all(self) -> None:
        self.tick(self.main.get_by_label("Select all"))


Task = Callable[[Walk], None]


def _find_by_word(walk: Walk) -> None:
    walk.search("payslip")
    walk.sees("Your payslip for November")


def _find_by_domain(walk: Walk) -> None:
    walk.search("domain:quick-parcel.example")
    walk.sees("A parcel waits for you")


def _find_by_host(walk: Walk) -> None:
    walk.search("host:mailbox-upgrade.example")
    walk.sees("Your mailbox is almost full")


def _find_by_label(walk: Walk) -> None:
    walk.search("host:quick-parcel")
    walk.sees("A parcel waits for you")


def _find_by_file(walk: Walk) -> None:
    walk.search("file:results.scr")
    walk.sees("Results")


def _narrow_by_facet(walk: Walk) -> None:
    walk.menu("Messages")
    walk.click(walk.main.locator(".facets a.cut:visible").first, opens=True)
    walk.sees("found")


def _save_shared_view(walk: Walk) -> None:
    walk.search("verdict:phishing after:7d")
    walk.unfold("Save this view")
    walk.write(walk.main.locator("#search-name"), "phishing")
    walk.tick(walk.main.get_by_label("share with"))
    walk.button("Save")
    walk.sees("Search saved")


def _release_one(walk: Walk) -> None:
    walk.menu("Quarantine")
    walk.click(walk.main.get_by_role("link", name="Invoice 2026-1187").first, opens=True)
    walk.button("Release")
    walk.button("Release")
    walk.sees("Released: the next hop has accepted")


def _delete_and_undo(walk: Walk) -> None:
    walk.menu("Quarantine")
    walk.select_first()
    walk.button("Delete")
    walk.sees("1 deleted")
    walk.click(walk.page.get_by_role("button", name="Undo").first, opens=True)
    walk.sees("1 restored")


def _delete_all_found(walk: Walk) -> None:
    walk.search("verdict:malware OR verdict:phishing")
    walk.tick(walk.main.get_by_label("All matching"))
    walk.button("Delete held")
    walk.click(walk.main.get_by_role("button", name="Delete").first, opens=True)
    walk.sees("deleted")


def _undo_delete_all(walk: Walk) -> None:
    walk.search("state:deleted", "Quarantine")
    walk.select_all()
    walk.button("Restore")
    walk.sees("restored")


def _report_wrong(walk: Walk) -> None:
    walk.menu("Quarantine")
    walk.select_first()
    walk.button("Report as wrong")
    walk.sees("1 reported")


def _allow_unproven(walk: Walk) -> None:
    walk.menu("Quarantine")
    walk.click(walk.main.get_by_role("link", name="Your mailbox is almost full").first, opens=True)
    walk.click(walk.main.locator("#tab-why td a", has_text="Allow").first, opens=True)
    walk.sees("would still be")


def _block_sender(walk: Walk) -> None:
    walk.search("subject:lunch")
    walk.first_row()
    walk.click(walk.main.locator("#tab-why td a", has_text="Block").first, opens=True)
    walk.button("Block")
    walk.sees("Saved")


def _block_hosts_of_found(walk: Walk) -> None:
    walk.search("host:quick-parcel")
    walk.select_all()
    walk.unfold("Block …")
    walk.button("Link hosts…")
    walk.button("Save")
    walk.sees("Entries saved")


def _note(walk: Walk) -> None:
    walk.search("subject:parcel")
    walk.select_all()
    walk.unfold("Note …")
    walk.type("Note", "ticket 4711")
    walk.button("Write note")
    walk.sees("Note written")


def _export(walk: Walk) -> None:
    walk.search("verdict:phishing")
    walk.effort.clicks += 1
    with walk.page.expect_download() as waiting:
        walk.main.get_by_role("link", name="CSV").click()
    head = Path(waiting.value.path()).read_text().partition("\n")[0]
    assert {"from", "ip", "linkhosts", "tenant"} <= {each.strip().lower() for each in head.split(",")}, head


def _campaign(walk: Walk) -> None:
    walk.search("subject:parcel")
    walk.first_row()
    walk.link("Campaign")
    walk.sees("At a glance")


def _delete_campaign(walk: Walk) -> None:
    _campaign(walk)
    walk.select_all()
    walk.button("Delete held")
    walk.sees("deleted")


def _compare(walk: Walk) -> None:
    walk.search("subject:parcel")
    walk.select_first(2)
    walk.unfold("Note …")
    walk.button("Compare two")
    walk.sees("things are the same")


def _see_html(walk: Walk) -> None:
    walk.menu("Quarantine")
    walk.click(walk.main.get_by_role("link", name="Your mailbox is almost full").first, opens=True)
    walk.click(walk.main.get_by_role("link", name="Content", exact=True))
    expect(walk.main.locator("iframe")).to_be_visible()


def _undo_import(walk: Walk) -> None:
    walk.menu("Lists")
    walk.click(walk.main.locator("a[href='/lists/global/blocked-urls']").first, opens=True)
    walk.link("Import")
    walk.effort.clicks += 2
    walk.main.get_by_label("File, up to").set_input_files(
        {"name": "feed.txt", "mimeType": "text/plain", "buffer": io.BytesIO(IMPORTED).getvalue()}
    )
    walk.tick(walk.main.get_by_label("Save the entries"))
    walk.click(walk.main.get_by_role("button", name="Upload file"))
    walk.sees("4,940 entries saved")
    walk.button("Undo this import")
    walk.sees("Taken back. Entries restored or removed: 4940")


def _second_factor(walk: Walk) -> None:
    walk.menu("Configuration")
    walk.tick(walk.main.get_by_label("analysts").first)
    walk.button("Save draft")
    _publish(walk)


def _publish(walk: Walk) -> None:
    walk.button("Publish…")
    walk.type("Reason", "safer")
    walk.button("Publish for all nodes")
    walk.sees("Version")


def _limit_quarantine(walk: Walk) -> None:
    walk.menu("Configuration")
    walk.type("Room for held messages", "40")
    walk.button("Save draft")
    walk.sees("change")


def _edit_weight(walk: Walk) -> None:
    walk.menu("Policy")
    walk.link("Edit weights")
    walk.type("Weight of auth:dmarc-fail", "3")
    walk.button("Save draft")
    walk.button("Try")
    walk.sees("decisions would change")


def _publish_and_roll_back(walk: Walk) -> None:
    walk.menu("Configuration")
    _publish(walk)
    walk.link("Versions")
    walk.button("Roll back to 1")
    walk.sees("content of version 1")


def _alert(walk: Walk) -> None:
    walk.search("verdict:phishing")
    walk.link("Alert when many match")
    walk.type("Name", "phishing wave")
    walk.type("Quiet hours", "22:00-06:00")
    walk.type("Mail to", "soc@example.com")
    walk.button("Save alert")
    walk.sees("20 in 10 minutes")


def _who_did_it(walk: Walk) -> None:
    walk.menu("Audit trail")
    walk.sees("released")


def _on_a_phone(walk: Walk) -> None:
    walk.page.set_viewport_size(dict(zip(("width", "height"), SIZES["phone"], strict=True)))  # type: ignore[arg-type]
    walk.page.goto("/")
    walk.click(walk.page.locator("details.menu > summary"))
    walk.menu("Quarantine")
    walk.click(walk.main.get_by_role("link", name="Are you at your desk?").first, opens=True)
    walk.sees("Held as fraud")


def _watch_live(walk: Walk) -> None:
    walk.link("Watch mail come in")
    walk.sees("Mail as it comes in")


TASKS: dict[str, Task] = {
    "find mail by a word": _find_by_word,
    "find mail by the domain of From": _find_by_domain,
    "find mail by a link host": _find_by_host,
    "find mail by one label of a host": _find_by_label,
    "find mail by a file name": _find_by_file,
    "narrow a list by a frequent value": _narrow_by_facet,
    "save a search for colleagues": _save_shared_view,
    "release a held message": _release_one,
    "delete a held message, and undo": _delete_and_undo,
    "report a held message as wrong": _report_wrong,
    "learn why allowing a sender would not help": _allow_unproven,
    "block the sender of a message": _block_sender,
    "block the link hosts of all mail found": _block_hosts_of_found,
    "write a note on all mail found": _note,
    "export what was found, with hosts and tenant": _export,
    "see the campaign of a message": _campaign,
    "compare two messages": _compare,
    "see the HTML of a held message": _see_html,
    "delete the held mail of a campaign": _delete_campaign,
    "delete all held mail that a search finds": _delete_all_found,
    "restore what was deleted": _undo_delete_all,
    "import 4,940 entries, and undo it": _undo_import,
    "alert at 20 phishing mails in 10 minutes": _alert,
    "require second factors of analysts, and publish": _second_factor,
    "enlarge the quarantine": _limit_quarantine,
    "change a weight, and try it on stored mail": _edit_weight,
    "publish, and roll back": _publish_and_roll_back,
    "see who released a message": _who_did_it,
    "read a held message on a phone": _on_a_phone,
    "watch mail come in": _watch_live,
}


def run() -> str:
    """The table as markdown."""
    program = chromium_path()
    if program is None:
        return "not run: there is no Chromium"
    sink = Sink()
    rows, all_of_them = [], Effort()
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        service = Service(Path(name) / "data", f"smtp://127.0.0.1:{sink.port}")
        try:
            sample = fill(service, history=HISTORY)
            browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
            page = signed_in(browser, service).pages[0]
            for title, task in TASKS.items():
                effort = _do(page, sample, title, task)
                rows.append(_write_row(title, effort))
                for field in Effort.__struct_fields__:
                    setattr(all_of_them, field, getattr(all_of_them, field) + getattr(effort, field))
            browser.close()
        finally:
            service.stop()
            sink.close()
    return "\n".join(
        (
            "| Task | clicks | characters | pages | seconds of the user | seconds of the service |",
            "|---|---:|---:|---:|---:|---:|",
            *rows,
            _write_row(f"all {len(TASKS)}", all_of_them),
        )
    )


def _do(page: Page, sample: Sample, title: str, task: Task) -> Effort:
    walk = Walk(page, sample)
    task(walk)
    print(f"   {title}: {walk.effort.clicks} clicks", flush=True)
    return walk.effort


def _write_row(title: str, effort: Effort) -> str:
    counts = f"{effort.clicks} | {effort.characters} | {effort.pages}"
    return f"| {title} | {counts} | {effort.seconds:.0f} | {effort.waited:.1f} |"
