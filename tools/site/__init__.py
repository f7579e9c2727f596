"""Build the documentation site from `docs/`: `python -m tools.site build/site`.

The pages are written for people who read them in the repository, where a link may lead out of `docs/`. This program
copies them to a folder beside the target, adds the pages of the repository that they link to (`OUTSIDE`), turns every
link into one between pages of the site, and has Zensical build it in strict mode: a dead link or anchor ends the build.

The navigation is the index page, `docs/README.md`: its headings are the sections, its links the pages, each where it
is named first. A page that the index does not name is put into a last section, so that no page is lost.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from posixpath import normpath, relpath

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
INDEX = PurePosixPath("docs/README.md")
# Pages outside of docs/, by their name on the site. The README is a short form of the page about the first start.
OUTSIDE = {
    "README.md": "start.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "bench/RESULTS.md": "benchmarks.md",
}
REST = "More pages"
# What Zensical's offline search fetches from elsewhere, and our own file in its place (`file-worker.js`).
FOREIGN_SHIM = "https://unpkg.com/iframe-worker/shim"
LOCAL_SHIM = "assets/javascripts/file-worker.js"
# Our own files on the site.
ASSETS = {"file-worker.js": LOCAL_SHIM, "site.css": "assets/stylesheets/site.css"}

_FENCE = re.compile(r"^(```.*?^```$)", re.MULTILINE | re.DOTALL)
# "```master.cf before": the second word is for tests, and no highlighter takes it.
_LABELLED = re.compile(r"^```\S+ .+$", re.MULTILINE)
_LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")


class SiteError(Exception):
    """A page that cannot be built, as a sentence."""


def find_pages() -> dict[PurePosixPath, PurePosixPath]:
    """Return every file of the site: its path in the repository, and its path on the site."""
    found = {}
    for file in sorted((ROOT / "docs").rglob("*")):
        if file.is_file():
            source = PurePosixPath(file.relative_to(ROOT).as_posix())
            found[source] = PurePosixPath("index.md") if source == INDEX else source.relative_to("docs")
    return found | {PurePosixPath(source): PurePosixPath(target) for source, target in OUTSIDE.items()}


def rewrite_links(text: str, source: PurePosixPath, pages: dict[PurePosixPath, PurePosixPath]) -> str:
    """Return a page with its links as the site has them; raises `SiteError` for a link to nothing.

    Blocks of code stay as they are. A link to a file of the repository that is no page becomes its text.
    """

    def replace(found: re.Match[str]) -> str:
        picture, title, target = found.groups()
        path, hash_sign, anchor = target.partition("#")
        if not path or "://" in path or path.startswith("mailto:"):
            return found[0]
        meant = PurePosixPath(normpath((source.parent / path).as_posix()))
        if meant in pages:
            return f"{picture}[{title}]({relpath(pages[meant], pages[source].parent)}{hash_sign}{anchor})"
        if not (ROOT / meant).exists():
            raise SiteError(f"{source} links to {target}, which does not exist")
        return title

    blocks = _FENCE.split(_LABELLED.sub("```text", text))
    return "".join(block if at % 2 else _LINK.sub(replace, block) for at, block in enumerate(blocks))


def read_navigation(index: str, pages: dict[PurePosixPath, PurePosixPath]) -> dict[str, dict[str, str]]:
    """Return the sections of the navigation: for each its titles, and the page of each title."""
    sections: dict[str, dict[str, str]] = {}
    named: set[str] = {"index.md"}
    for heading, target, title in _index_entries(index, pages):
        if target not in named:
            named.add(target)
            sections.setdefault(heading, {})[title] = target
    rest = {str(page): source for source, page in pages.items() if page.suffix == ".md" and str(page) not in named}
    if rest:
        sections[REST] = {_first_heading(source): page for page, source in sorted(rest.items())}
    return sections


def _index_entries(index: str, pages: dict[PurePosixPath, PurePosixPath]) -> Iterator[tuple[str, str, str]]:
    heading = ""
    for line in index.splitlines():
        if line.startswith("## "):
            heading = line[3:].strip()
        for _, title, target in _LINK.findall(line) if heading else ():
            meant = PurePosixPath(normpath((INDEX.parent / target.partition("#")[0]).as_posix()))
            if meant in pages and "#" not in target:
                yield heading, str(pages[meant]), title


def _first_heading(source: PurePosixPath) -> str:
    found = re.search(r"^# (.+)$", (ROOT / source).read_text("utf-8"), re.MULTILINE)
    return found[1] if found else source.stem


def stage(folder: Path) -> None:
    """Write the pages and the settings of the site into an empty folder."""
    pages = find_pages()
    for source, target in pages.items():
        if str(source) in OUTSIDE and PurePosixPath("docs") / target in pages:
            continue
        goal = folder / "pages" / target
        goal.parent.mkdir(parents=True, exist_ok=True)
        if target.suffix == ".md":
            goal.write_text(rewrite_links((ROOT / source).read_text("utf-8"), source, pages), "utf-8")
        else:
            shutil.copyfile(ROOT / source, goal)
    for name, place in ASSETS.items():
        goal = folder / "pages" / place
        goal.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(HERE / name, goal)
    navigation = read_navigation((ROOT / INDEX).read_text("utf-8"), pages)
    settings = (HERE / "settings.toml").read_text("utf-8")
    (folder / "zensical.toml").write_text(settings.replace("[project]\n", f"[project]\n{_as_toml(navigation)}", 1))


def _as_toml(navigation: dict[str, dict[str, str]]) -> str:
    """The key `nav`: a JSON text is a TOML text as well."""
    lines = ["nav = [", '  { "Gatepost" = "index.md" },']
    for heading, entries in navigation.items():
        inside = ", ".join(f"{{ {json.dumps(title)} = {json.dumps(page)} }}" for title, page in entries.items())
        lines.append(f"  {{ {json.dumps(heading)} = [{inside}] }},")
    return "\n".join([*lines, "]", ""])


def use_local_files(site: Path) -> None:
    """Put our own file in the place of the one that the built pages would fetch from elsewhere."""
    for page in site.rglob("*.html"):
        text = page.read_text("utf-8")
        local = relpath(site / LOCAL_SHIM, page.parent)
        page.write_text(text.replace(FOREIGN_SHIM, local), "utf-8")


def build(target: Path) -> str:
    """Build the site into `target`, which is replaced; return what Zensical said. Raises `SiteError`."""
    work = target.parent / f"{target.name}.work"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    stage(work)
    program = Path(sys.executable).parent / "zensical"
    ended = subprocess.run(
        [program, "build", "--strict"],
        cwd=work,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "NO_COLOR": "1"},
    )
    said = ended.stdout + ended.stderr
    if ended.returncode:
        raise SiteError(said)
    use_local_files(work / "site")
    shutil.rmtree(target, ignore_errors=True)
    (work / "site").rename(target)
    shutil.rmtree(work)
    return said
