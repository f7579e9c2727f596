"""`make screenshots`: every page, in light and dark, on a desk, a tablet and a phone, as pictures to look at, and as
contact sheets (`sheet-01.png` and so on) with three pages each.

python -m bench.screenshots [FOLDER]     the folder is build/screenshots unless told; only sample data is in them
"""

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, BrowserContext, FilePayload, Page, sync_playwright

from bench.sample import Sample, fill
from bench.visiting import SIZES, Service, chromium_path

HISTORY = 900
# A desk, a window of half of it or a tablet, a phone.
WIDTHS = {"desktop": SIZES["desktop"], "tablet": (720, 900), "phone": SIZES["phone"]}
PAGES_ON_A_SHEET = 3
SHEET_SCALE, SHEET_ROW, SHEET_GAP = 0.4, 620, 8
SHEET_WIDTH = round(2 * SHEET_SCALE * sum(width for width, _ in WIDTHS.values())) + 6 * SHEET_GAP
TALLEST = 2_600
Opened = Callable[[Page, Sample], None]


def at(path: str) -> Opened:
    """A page that has an address; `{tenant}` and the like stand for what the sample has."""
    return lambda page, sample: _go(
        page, path.format(**{name: getattr(sample, name) for name in sample.__struct_fields__})
    )


def _go(page: Page, path: str) -> None:
    page.goto(path)


def _after(path: str, *steps: Callable[[Page], None]) -> Opened:
    """A page that is the answer to a form."""

    def opened(page: Page, sample: Sample) -> None:
        at(path)(page, sample)
        for step in steps:
            step(page)

    return opened


def _press(name: str) -> Callable[[Page], None]:
    def press(page: Page) -> None:
        button = page.locator("main").get_by_role("button", name=name)
        with page.expect_navigation():
            button.first.click()

    return press


def _type(label: str, text: str) -> Callable[[Page], None]:
    return lambda page: page.get_by_role("textbox", name=label, exact=True).fill(text)


PASTED = "spam@bulk.example\nQuick-Parcel.EXAMPLE\t# again\nnot an entry @\ndeals@cheap-ads.example"
FILE: FilePayload = {
    "name": "feed.csv",
    "mimeType": "text/csv",
    "buffer": b"entry,comment\nbad.example,feed\nworse example,\n",
}


def _choose(page: Page) -> None:
    page.get_by_label("File, up to").set_input_files(FILE)
    page.get_by_label("Skip invalid lines").check()
    page.get_by_role("button", name="Upload file").click()
    page.get_by_text("Nothing is saved yet").wait_for()


# Every page that there is, by a name for its picture.
PAGES: dict[str, Opened] = {
    "overview": at("/"),
    "overview-week": at("/?span=week&tenant={tenant}"),
    "messages": at("/messages"),
    "messages-found": at("/messages?q=verdict:phishing+OR+verdict:malware"),
    "messages-wrong": at("/messages?q=invoice+form:ann"),
    "messages-compact": at("/messages?columns=time&columns=ip&columns=hosts&columns=tags&density=compact"),
    "messages-none": at("/messages?subject=nothing+has+these+words"),
    "message-held": at("/messages/{held}"),
    "message-content": at("/messages/{held}#tab-content"),
    "message-technical": at("/messages/{held}#tab-technical"),
    "message-compare": at("/messages/{held}/compare?with={delivered}"),
    "messages-live": at("/messages/live"),
    "alert-threshold": at("/alerts/edit?q=verdict:phishing"),
    "message-delivered": at("/messages/{delivered}"),
    "message-picture": at("/messages/{picture}?picture=0"),
    "message-replay": at("/messages/{held}/replay"),
    "message-source": at("/messages/{held}/source"),
    "message-header": at("/messages/{delivered}/source"),
    "message-block": at("/messages/{held}/entry?list=blocked-senders&entry=gmail.com"),
    "message-release": _after("/messages/{held}", _press("Release")),
    "quarantine": at("/quarantine"),
    "quarantine-none": at("/quarantine?subject=nothing+has+these+words"),
    "requests": at("/requests"),
    "scan": at("/scan"),
    "lists": at("/lists?scope=global"),
    "lists-of-tenant": at("/lists?scope={tenant}"),
    "list": at("/lists/global/blocked-senders"),
    "list-empty": at("/lists/global/blocked-ips"),
    "list-hits": at("/lists/global/blocked-senders/hits?entry=gmail.com"),
    "list-preview": _after("/lists/global/blocked-senders", _type("Entries", PASTED), _press("Preview")),
    "list-entry": at("/lists/global/blocked-senders/entry?key=quick-parcel.example"),
    "list-delete": _after("/lists/global/blocked-senders/entry?key=quick-parcel.example", _press("Delete…")),
    "list-history": at("/lists/global/blocked-senders/history"),
    "list-import": at("/lists/global/blocked-urls/import"),
    "list-import-tried": _after("/lists/global/blocked-urls/import", _choose),
    "keys": at("/keys"),
    "key-made": _after("/keys", _type("Name", "shown once"), _press("Create key")),
    "policy": at("/policy"),
    "nodes": at("/nodes"),
    "policy-tried": _after(
        "/policy",
        lambda page: page.locator("#text").fill('[verdicts.bulk]\ndecision = "quarantine"\n'),
        _press("Re-evaluate the last"),
    ),
    "rules": at("/rules"),
    "rule-new": at("/rules/edit?scope=global&example=invoice-from-stranger"),
    "rule-wrong": _after(
        "/rules/edit?scope=global&example=link-to-raw-address",
        lambda page: page.locator("#when").fill('links.exists(host, hots == "x")'),
        _press("Check, and try"),
    ),
    "rule-tried": _after(
        "/rules/edit?scope=global&example=shortened-link-without-proof",
        lambda page: page.locator("#when").fill("!authenticated"),
        _press("Check, and try"),
    ),
    "feeds": at("/feeds"),
    "feed-new": at("/feeds/edit"),
    "policy-kind": at("/policy/text:mailbox-lure"),
    "digests": at("/digests"),
    "digests-of-tenant": at("/digests/{tenant}"),
    "digest-link": at("{link}"),
    "digest-link-wrong": at("/digest/wrong"),
    "alerts": at("/alerts"),
    "alert-new": at("/alerts/edit"),
    "tenants": at("/tenants"),
    "tenant": at("/tenants/{tenant}"),
    "users": at("/users"),
    "user-password": _after(
        "/users", lambda page: page.locator("summary", has_text="tomas").click(), _press("New password")
    ),
    "audit": at("/audit"),
    "audit-record": _after("/audit?action=entries.", lambda page: page.locator("tbody a").first.click()),
    "system": at("/system"),
    "system-examined": _after("/system", _press("Run health check")),
    "configuration": at("/configuration"),
    "configuration-draft": _after(
        "/configuration",
        lambda page: page.locator('[name="guard.yml history.retention"]').fill("60"),
        _press("Save draft"),
    ),
    "configuration-wrong": _after(
        "/configuration",
        lambda page: page.locator('[name="guard.yml history.retention"]').fill("x"),
        _press("Save draft"),
    ),
    "configuration-search": at("/configuration?q=second+factor"),
    "configuration-routes": at("/configuration/routes"),
    "configuration-route": _after(
        "/configuration/routes", lambda page: page.locator(".setting-item summary").last.click()
    ),
    "configuration-recipients": at("/configuration/recipients"),
    "configuration-limits": at("/configuration/limits"),
    "configuration-policies": at("/configuration/policies"),
    "configuration-review": at("/configuration/draft"),
    "configuration-versions": at("/configuration/versions"),
    "policy-edited": at("/policy?edit=1"),
    "tokens": at("/tokens"),
    "account": at("/account"),
    "account-second-factor": _after("/account", _press("Set up")),
    "not-found": at("/nothing/here"),
    "sign-in": at("/sign-in?again=1"),
}
OPEN = ("sign-in", "digest-link", "digest-link-wrong")


def signed_in(browser: Browser, service: Service) -> BrowserContext:
    """A browser that the administrator has signed in with."""
    context = browser.new_context(base_url=service.url, ignore_https_errors=True, reduced_motion="reduce")
    page = context.new_page()
    page.goto("/sign-in")
    page.get_by_label("Name").fill("admin")
    page.get_by_label("Password").fill(service.password)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(lambda url: "/sign-in" not in url)
    page.on("dialog", lambda dialog: dialog.accept())
    return context


def _fit(page: Page, width: int, height: int) -> None:
    """A window as tall as the page, within reason."""
    page.set_viewport_size({"width": width, "height": height})
    whole = int(page.evaluate("document.documentElement.scrollHeight"))
    page.set_viewport_size({"width": width, "height": min(max(height, whole), TALLEST)})


def take(browser: Browser, service: Service, sample: Sample, folder: Path, only: str) -> None:
    """All pictures, and contact sheets of them."""
    rows: list[list[Path]] = []
    context = signed_in(browser, service)
    page = context.pages[0]
    # Without motion, or a picture shows colours on their way from light to dark.
    anybody = browser.new_context(base_url=service.url, ignore_https_errors=True, reduced_motion="reduce").new_page()
    for name, opened in PAGES.items():
        if only not in name:
            continue
        shown = anybody if name in OPEN else page
        shown.set_viewport_size({"width": 1280, "height": 900})
        opened(shown, sample)
        taken = []
        for size, (width, height) in WIDTHS.items():
            _fit(shown, width, height)
            for scheme in ("light", "dark"):
                shown.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
                taken.append(folder / f"{name}-{size}-{scheme}.png")
                shown.screenshot(path=taken[-1])
        rows.append(taken)
        print(name, flush=True)
    for number, start in enumerate(range(0, len(rows), PAGES_ON_A_SHEET), 1):
        _draw_sheet(rows[start : start + PAGES_ON_A_SHEET], folder / f"sheet-{number:02}.png")


def _draw_sheet(rows: list[list[Path]], file: Path) -> None:
    """Draw a contact sheet: a row for each page, each picture scaled to one height and cut below."""
    sheet = Image.new("RGB", (SHEET_WIDTH, SHEET_ROW * len(rows)), "#888")
    for index, pictures in enumerate(rows):
        left = 0
        for path in pictures:
            with Image.open(path) as picture:
                wide = SHEET_SCALE * picture.width
                small = picture.convert("RGB").resize((round(wide), round(SHEET_SCALE * picture.height)))
            sheet.paste(
                small.crop((0, 0, small.width, min(small.height, SHEET_ROW - SHEET_GAP))), (left, SHEET_ROW * index)
            )
            left += small.width + SHEET_GAP
    sheet.save(file)


def main() -> None:
    """Run a service, fill it, take the pictures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=Path("build/screenshots"))
    parser.add_argument("--only", default="", metavar="PART", help="only pages with this in their names")
    arguments = parser.parse_args()
    program = chromium_path()
    if program is None:
        parser.exit(1, "There is no Chromium (Debian: apt-get install chromium-headless-shell).\n")
    arguments.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        service = Service(Path(name) / "data", "smtp://127.0.0.1:9")
        try:
            sample = fill(service, history=HISTORY)
            browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
            take(browser, service, sample, arguments.folder, arguments.only)
            browser.close()
        finally:
            service.stop()
    print(f"The pictures are in {arguments.folder}.")


if __name__ == "__main__":
    main()
