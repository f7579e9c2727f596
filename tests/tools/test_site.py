"""The documentation site: built without a warning, complete, and nothing in it comes from elsewhere."""

import http.server
import re
import threading
from collections.abc import Iterator
from functools import partial
from html.parser import HTMLParser
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
from bench.visiting import chromium_path
from playwright.sync_api import Page, sync_playwright
from tools.site import OUTSIDE, REST, ROOT, SiteError, build, find_pages, read_navigation, rewrite_links

# Elements that make a browser fetch something when the page opens, and the attribute that says what.
FETCHING = {(tag, "src") for tag in "audio embed iframe img script source video".split()}
FETCHING |= {("img", "srcset"), ("link", "href"), ("object", "data")}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The site, and what the build said."""
    target = tmp_path_factory.mktemp("site") / "site"
    return target, build(target)


class Fetched(HTMLParser):
    """What a page fetches, and the ids in it."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.classes: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if (tag, name) in FETCHING and value:
                self.addresses.append(value)
            if name == "class" and value:
                self.classes.update(value.split())


def read_page(page: Path) -> Fetched:
    parser = Fetched()
    parser.feed(page.read_text("utf-8"))
    return parser


@pytest.mark.process
@pytest.mark.variant
def test_it_is_built_without_a_warning(built: tuple[Path, str]) -> None:
    site, said = built
    assert "No issues found" in said
    assert not re.search(r"warning|error", said, re.IGNORECASE)
    pages = {target.with_suffix(".html") for target in find_pages().values() if target.suffix == ".md"}
    named = {page.with_name("index.html") if page.stem == "README" else page for page in pages}
    assert not [page for page in named if not (site / page).is_file()]


@pytest.mark.variant
def test_no_page_and_no_style_fetches_from_elsewhere(built: tuple[Path, str]) -> None:
    site, _ = built
    for page in site.rglob("*.html"):
        fetched = read_page(page)
        assert fetched.addresses, page
        assert not [each for each in fetched.addresses if re.match(r"[a-z]+:|//", each) and "data:" not in each], page
        here = [each.split("#")[0].split("?")[0] for each in fetched.addresses if not each.startswith("data:")]
        assert not [each for each in here if page.name != "404.html" and not (page.parent / each).exists()], page
        # Zensical's script fetches these from elsewhere on pages that have them.
        assert not fetched.classes & {"mermaid", "glightbox", "pyodide"}
    for style in site.rglob("*.css"):
        assert not re.search(r"(url\(|@import )['\"]?(https?:)?//", style.read_text("utf-8")), style


def test_every_page_is_in_the_navigation() -> None:
    pages = find_pages()
    navigation = read_navigation((ROOT / "docs/README.md").read_text("utf-8"), pages)
    shown = [page for entries in navigation.values() for page in entries.values()]
    assert sorted({*shown, "index.md"}) == sorted({str(page) for page in pages.values() if page.suffix == ".md"})
    assert len(shown) == len(set(shown))


def test_a_page_that_the_index_does_not_name_is_put_last() -> None:
    pages = find_pages()
    navigation = read_navigation("# Documentation\n\n## Start\n\n[Lists](lists.md), [again](lists.md)\n", pages)
    assert navigation["Start"] == {"Lists": "lists.md"}
    assert list(navigation) == ["Start", REST]
    assert "policy.md" in navigation[REST].values()


@pytest.mark.parametrize(
    ("source", "link", "expected"),
    [
        ("docs/lists.md", "[a](../README.md#command-line)", "[a](start.md#command-line)"),
        ("docs/README.md", "![a](pictures/list.png)", "![a](pictures/list.png)"),
        ("docs/reference/api.md", "[a](../lists.md)", "[a](../lists.md)"),
        ("CHANGELOG.md", "[a](docs/reference/cli.md)", "[a](reference/cli.md)"),
        ("docs/internals/gateway.md", "[a](../../bench/RESULTS.md)", "[a](../benchmarks.md)"),
        ("docs/lists.md", "[a](../Makefile)", "a"),
        (
            "docs/lists.md",
            "[a](#custom-lists) [b](https://example.com/)",
            "[a](#custom-lists) [b](https://example.com/)",
        ),
        ("docs/lists.md", "```sh\n[a](nothing.md)\n```", "```sh\n[a](nothing.md)\n```"),
    ],
)
def test_links_lead_to_pages_of_the_site(source: str, link: str, expected: str) -> None:
    assert rewrite_links(link, PurePosixPath(source), find_pages()) == expected


def test_a_dead_link_ends_the_build() -> None:
    with pytest.raises(SiteError, match=r"docs/lists\.md links to nothing\.md, which does not exist"):
        rewrite_links("[a](nothing.md)", PurePosixPath("docs/lists.md"), find_pages())


@pytest.mark.variant
def test_pages_outside_of_docs_are_there() -> None:
    assert not [source for source in OUTSIDE if not (ROOT / source).is_file()]


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *arguments: Any) -> None: ...


@pytest.fixture(scope="module", params=["http", "file"])
def address(request: pytest.FixtureRequest, built: tuple[Path, str]) -> Iterator[str]:
    """The site on a web server, and as files."""
    site, _ = built
    if request.param == "file":
        yield site.as_uri()
        return
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=site))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    program = chromium_path()
    if program is None:
        pytest.skip("not run: there is no Chromium (Debian: apt-get install chromium-headless-shell)")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        context = browser.new_context()
        context.set_default_timeout(60_000)
        yield context.new_page()
        browser.close()


@pytest.mark.variant
def test_search_finds_a_page_without_asking_anyone_else(page: Page, address: str) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(f"{address}/index.html")
    dialog = page.locator("dialog[aria-label=Search]")
    dialog.wait_for(state="attached")
    page.keyboard.press("Control+k")
    dialog.wait_for()
    page.keyboard.insert_text("maxThrottleDelay")  # at once: each letter would be a search
    dialog.locator("a[href*='reference/configuration.html']").first.wait_for()
    assert asked
    assert not [url for url in asked if not url.startswith((address, "data:", "about:", "blob:"))]
