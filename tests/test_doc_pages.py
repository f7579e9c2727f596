"""Pages that people write: links lead somewhere, files that are shown are valid, commands that are shown exist."""

import ast
import json
import os
import re
import shlex
import shutil
import subprocess
import tempfile
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import yaml
from bench import large_deployments
from tests.doc_blocks import PAGES, ROOT, CodeBlock, blocks_of, read_blocks
from tests.plugins.conftest import built, example  # noqa: F401  fixtures

from gatepost.abby import authenticator, cores, scan
from gatepost.abby import lists as list_calls
from gatepost.api import http, lists, scanning, server
from gatepost.api.errors import ERRORS
from gatepost.cli.commands import COMMANDS, Command, Group, list_parameters
from gatepost.service.listeners import HANDSHAKE_SECONDS
from gatepost.settings.files import ABBY_FILE, GUARD_FILE, load_abby, load_guard
from gatepost.smtp import replies
from gatepost.workers import fair_queue

LANGUAGES = {
    *("", "console", "go", "http", "ini", "java", "js", "json", "php", "powershell", "python", "sh", "text", "toml"),
    *("sieve", "sql", "xml", "yaml"),
}
POSTFIX = {"master.cf", "main.cf"}
CAPACITY = ROOT / "docs/internals/capacity.md"
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_FENCE = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)


@cache
def read_text(page: Path) -> str:
    """A page without its code."""
    return _FENCE.sub("", page.read_text("utf-8"))


@cache
def anchors(page: Path) -> frozenset[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    found: set[str] = set()
    for heading in re.findall(r"^#+ (.+)$", read_text(page), re.MULTILINE):
        plain = re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")
        number = next(number for number in range(99) if (f"{plain}-{number}" if number else plain) not in found)
        found.add(f"{plain}-{number}" if number else plain)
    return frozenset(found)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    for target in _LINK.findall(read_text(page)):
        path, _, anchor = target.partition("#")
        if re.match(r"[a-z]+:", path):
            continue
        meant = (page.parent / path).resolve() if path else page
        assert meant.exists(), target
        assert not anchor or anchor in anchors(meant), target


def test_the_pages_lead_to_every_page() -> None:
    """Whoever starts at the README finds every page by links."""
    found, waiting = set(), [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        if page in found or page.suffix != ".md":
            continue
        found.add(page)
        targets = (target.partition("#")[0] for target in _LINK.findall(read_text(page)))
        waiting += [(page.parent / target).resolve() for target in targets if target and ":" not in target]
    missing = {str(page.relative_to(ROOT)) for page in set(PAGES) - found}
    # A page that is new: the site has it under "More pages" until the index names it.
    assert len(missing) <= 5, missing


# Pages that are looked things up in: lists of keys, codes, replies, metrics, terms.
REFERENCE = {
    *("api-limits", "faults", "glossary", "licences", "metrics", "rule-language", "smtp-replies", "standards"),
    "start-errors",
}
MAX_WORDS, MAX_WORDS_OF_A_PAGE = 45_000, 3_000


def list_user_pages() -> list[Path]:
    """The pages that users read from their beginning: neither reference nor for authors."""
    return [ROOT / "README.md", *(page for page in sorted((ROOT / "docs").glob("*.md")) if page.stem not in REFERENCE)]


def test_users_have_few_words_to_read() -> None:
    """What explains how something was decided, proved or measured belongs into docs/internals."""
    counts = {str(page.relative_to(ROOT)): len(read_text(page).split()) for page in list_user_pages()}
    assert sum(counts.values()) <= MAX_WORDS
    assert not [name for name, count in counts.items() if count > MAX_WORDS_OF_A_PAGE]


@pytest.mark.parametrize("page", list_user_pages(), ids=lambda page: page.stem)
def test_a_page_opens_with_what_it_is_for(page: Path) -> None:
    """A title, then a paragraph, before the first heading."""
    title, _, rest = page.read_text("utf-8").partition("\n\n")
    assert re.fullmatch(r"# \S.*", title)
    assert re.match(r"[A-Z`*]", rest), rest[:60]


@pytest.mark.process
@pytest.mark.skipif(not shutil.which("sieve-test"), reason="sieve-test (dovecot-sieve) is not installed")
@pytest.mark.parametrize(
    ("field", "folder"),
    [
        ("X-Gatepost-Action: tag", "Junk"),
        ("X-Gatepost-Verdict: bulk", "Newsletters"),
        ("X-Gatepost-Verdict: clean", ""),
    ],
)
def test_the_sieve_script_files_what_it_says(field: str, folder: str) -> None:
    (script,) = blocks_of("sieve")
    # Dovecot refuses to run as root, and nobody may not look into folders of pytest.
    user, group = ("nobody", "nogroup") if os.geteuid() == 0 else (None, None)
    with tempfile.TemporaryDirectory() as name:
        here = Path(name)
        here.chmod(0o755)
        (here / "gatepost.sieve").write_text(script.code)
        (here / "mail.eml").write_text(f"{field}\r\nFrom: a@example.org\r\nSubject: Hello\r\n\r\nHello\r\n")
        command = ["sieve-test", "-C", str(here / "gatepost.sieve"), str(here / "mail.eml")]
        environment = {"PATH": os.environ["PATH"], "HOME": name}
        said = subprocess.run(
            command, capture_output=True, text=True, check=False, env=environment, user=user, group=group
        )
    assert said.returncode == 0, said.stderr
    assert (f"in folder: {folder}\n" if folder else "Performed actions:\n\n  (none)") in said.stdout


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_block_says_what_it_is(page: Path) -> None:
    for block in read_blocks(page):
        assert block.language in LANGUAGES | POSTFIX, block.name


@pytest.mark.parametrize("block", blocks_of("json"), ids=lambda block: block.name)
def test_json_is_json(block: CodeBlock) -> None:
    json.loads(block.code)


@pytest.mark.parametrize("block", blocks_of("toml"), ids=lambda block: block.name)
def test_toml_is_toml(block: CodeBlock) -> None:
    assert tomllib.loads(block.code)


@pytest.mark.parametrize("block", blocks_of("python"), ids=lambda block: block.name)
def test_python_compiles(block: CodeBlock) -> None:
    compile(block.code, block.name, "exec")


ABBY_KEYS = ("signIn", "publicUrl", "remediation", "serviceProviders", "staticApiTokens", "listen", "lists", "tls")
CORE = 'serviceProviders: {core: {hosts: ["https://127.0.0.1:9785"]}}\n'


@pytest.mark.process
@pytest.mark.parametrize("block", blocks_of("yaml"), ids=lambda block: block.name)
def test_configuration_is_taken_by_the_reader(
    block: CodeBlock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """A whole file or a part of one. Files that it refers to are there, and so is the example of a plug-in;
    certificates are not loaded."""
    code = block.code
    if "plugins:" in code:
        request.getfixturevalue("example")
    for number, path in enumerate(re.findall(r"\$\{file:([^}]+)\}", code)):
        (tmp_path / f"secret{number}").write_text("5f" * 31)  # a label of DNS, too, which some secrets are
        code = code.replace(path, str(tmp_path / f"secret{number}"))
    for name in re.findall(r"\$\{env:(\w+)\}", code):
        monkeypatch.setenv(name, "5f" * 32)
    for number, path in enumerate(re.findall(r"/[\w/]+\.pem", code)):
        (tmp_path / f"{number}.pem").write_text("")
        code = code.replace(path, str(tmp_path / f"{number}.pem"))
    is_guard = re.search(r"^(scanSources|delivery|digests):", code, re.MULTILINE)
    is_abby = not is_guard and bool(re.search(rf"^({'|'.join(ABBY_KEYS)}):", code, re.MULTILINE))
    file = tmp_path / (ABBY_FILE if is_abby else GUARD_FILE)
    file.parent.mkdir(parents=True)
    for policy in re.findall(r"[\w-]+\.toml", code):
        (file.parent / policy).write_text("")
    if is_abby:
        file.write_text(code if "serviceProviders:" in code else code + CORE)
        load_abby(tmp_path)
    else:
        file.write_text(code)
        load_guard(tmp_path)


def find_command(words: list[str]) -> tuple[Command | Group, list[str]]:
    """The command that these words call, and the words behind it."""
    command: Command | Group = COMMANDS
    while words and isinstance(command, Group) and words[0] in command.commands:
        command, words = command.commands[words[0]], words[1:]
    return command, words


# What may stand before a call: another user, a container, a path.
_BEFORE = re.compile(r"(?:sudo -E -u gatepost |docker exec \S+ )?(?:/\S+/bin/)?gatepost (?!-)(.+)")


def gatepost_calls(block: CodeBlock) -> list[list[str]]:
    """Every call of `gatepost` in a block of shell commands, as words."""
    text = block.code.replace("\\\n", " ")
    lines = [line.split(" # ")[0].split(" > ")[0] for line in re.split(r"[\n;(|]|&&", text)]
    found = [_BEFORE.fullmatch(line.strip()) for line in lines]
    return [shlex.split(call[1].rstrip(")")) for call in found if call]


@pytest.mark.parametrize("block", blocks_of("sh", "console", ""), ids=lambda block: block.name)
def test_every_command_exists_with_its_options(block: CodeBlock) -> None:
    for words in gatepost_calls(block):
        command, rest = find_command(words)
        assert not isinstance(command, Group), f"gatepost {' '.join(words)}"
        known = {"--help", *(option for parameter in list_parameters(command) for option in parameter.names)}
        assert {word.split("=")[0] for word in rest if word.startswith("--")} <= known, words


def test_calls_are_found() -> None:
    assert sum(len(gatepost_calls(block)) for block in blocks_of("sh", "console", "")) > 60


@pytest.mark.parametrize("block", blocks_of("sh", "console"), ids=lambda block: block.name)
def test_every_target_and_file_of_the_checkout_exists(block: CodeBlock) -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    for target in re.findall(r"^make ([\w-]+)", block.code, re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
    for path in re.findall(r"(?<![\w/.])((?:contrib|requirements)/[\w./-]+)", block.code):
        assert (ROOT / path).exists(), path


def test_every_error_code_has_its_row_with_what_to_do() -> None:
    page = (ROOT / "docs/api-limits.md").read_text("utf-8")
    for error in ERRORS:
        row = re.search(rf"^\| {error.status} \| `{error.code}` \| [^|]+ \| [^|]+ \|$", page, re.MULTILINE)
        assert row, error.code


def test_every_reply_of_ours_has_its_row() -> None:
    page = (ROOT / "docs/smtp-replies.md").read_text("utf-8")
    fine = {220, 221, 214, 250, 252, 354}
    ours = [value for value in vars(replies).values() if isinstance(value, replies.SmtpReply)]
    assert len(ours) > 30
    for each in ours:
        status, _, text = each.lines[0].decode().partition(" ")
        if each.code not in fine:
            assert f"{each.code} {status}" in page, each
            assert text in page, each


@pytest.mark.parametrize(
    ("value", "row"),
    [
        (scanning.MAX_BODY, "| request body of `submitEmail` | 52,428,800 bytes"),
        (scanning.MAX_PARAMETERS >> 20, "| part `parameters` | 1 MiB"),
        (scan.MAX_PARTS, "| parts in the body | 100"),
        (scanning.MAX_RECIPIENTS, "| `envelopeRecipients` | 1 to 1,000"),
        (lists.MAX_BODY >> 20, "| request body of the List API | 8 MiB"),
        (lists.MAX_ENTRIES, "| entries in one List API call | 500"),
        (lists.MAX_COMMENT, "| length of an entry; of a comment | 1,000"),
        (server.MAX_HEAD >> 10, "| header section of a request | 64 KiB"),
        (int(server.HEAD_SECONDS), "| header section of a request | 30 s"),
        (fair_queue.WAITING_LIMIT >> 30, "| messages that wait for a slot | 1 GiB"),
        (int(cores.GRACE_SECONDS), "| no core answers | 10 s"),
        (int(HANDSHAKE_SECONDS), "| TLS handshake | 10 s"),
        (int(http.IDLE_SECONDS), "| pause while the body is sent | 30 s"),
        (server.KEEP_ALIVE_SECONDS, "| kept-alive connection without a request | 75 s"),
        (int(list_calls.STALL_SECONDS), "| client that does not read a list stream | 60 s"),
        (authenticator.FREE_GUESSES, "| wrong tokens from one address | 5 without delay"),
    ],
)
def test_limits_on_the_page_are_those_of_the_code(value: int, row: str) -> None:
    assert row in (ROOT / "docs/api-limits.md").read_text("utf-8")
    numbers = re.findall(r"[\d,]+", row.rpartition("|")[2])
    assert f"{value:,}" in numbers


def test_the_compose_file_runs_the_image_without_rights() -> None:
    content = yaml.safe_load((ROOT / "contrib/container/compose.yaml").read_text("utf-8"))
    assert set(content) == {"services", "volumes"}
    service = content["services"]["gatepost"]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert all(port.startswith("127.0.0.1:") for port in service["ports"])
    assert set(content["volumes"]) == {volume.split(":")[0] for volume in service["volumes"]}
    build = service["build"]
    folder = ROOT / "contrib/container" / build["context"]
    assert (folder / build["dockerfile"]).samefile(ROOT / "contrib/container/Containerfile")


def test_every_text_of_the_start_errors_is_one_of_ours() -> None:
    """Texts on the page, cut at what varies, stand in the source; a literal over two lines counts as one."""
    page = (ROOT / "docs/start-errors.md").read_text("utf-8")
    table = page.split("## The service does not start")[1].split("\n## ")[0]
    sources = " ".join(path.read_text("utf-8") for path in (ROOT / "src" / "gatepost").rglob("*.py"))
    joined = re.sub(r'"\s*f?"', "", sources)
    texts = [
        text for row in re.findall(r"^\| (`[^|]+`) \|", table, re.MULTILINE) for text in re.findall(r"`([^`]+)`", row)
    ]
    assert len(texts) > 20
    for text in texts:
        for piece in re.split(
            r"…|;|\d+|serviceProviders |Gatepost cannot listen on|the file |: no such file|: permission denied", text
        ):
            wanted = piece.strip(" ;:()?.")
            assert len(wanted) < 6 or wanted in joined, text


@pytest.mark.parametrize("page", ["internals/proof.md", "internals/gateway.md"])
def test_tests_that_pages_name_exist(page: str) -> None:
    """A page that says which test shows something names one that is in the file that it names, or in the last one that
    its row has named."""
    root = Path(__file__).parent
    sources = {path.relative_to(root.parent).as_posix(): path.read_text("utf-8") for path in root.rglob("*.py")}
    named = 0
    for row in (root.parent / "docs" / page).read_text("utf-8").splitlines():
        file = ""
        for text in re.findall(r"`([^`]+)`", row):
            path, _, test = text.rpartition("::") if "::" in text else ("", "", text)
            if text.startswith("tests/") and text.endswith(".py"):
                path, test = text, ""
            if path:
                file = path
                assert file in sources, row
            if test.startswith("test_"):
                named += 1
                searched = [sources[file]] if file else sources.values()
                assert any(re.search(rf"(?m)^(async )?def {test}\b", source) for source in searched), (file, test)
    assert named > 20


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_sources_that_a_page_names_exist(page: Path) -> None:
    """`store/messages.py` and `test_relay.py` are names, or ends of names, of files in the checkout."""
    for name in re.findall(r"`([\w./-]+\.(?:py|c))`", read_text(page)):
        assert any(source.endswith(f"/{name}") for source in _sources()), name


@cache
def _sources() -> frozenset[str]:
    folders = ("src", "tests", "tools", "bench", "contrib")
    files = (file for folder in folders for end in ("py", "c") for file in (ROOT / folder).rglob(f"*.{end}"))
    return frozenset(f"/{file.relative_to(ROOT).as_posix()}" for file in files)


_NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")


def read_figures() -> dict[str, set[str]]:
    """The numbers that each benchmark has written, by its name."""
    parts = re.split(r"(?m)^## ", (ROOT / "bench/RESULTS.md").read_text("utf-8"))[1:]
    return {
        part.split("\n", 1)[0].strip(): {number.replace(",", "") for number in _NUMBER.findall(part)} for part in parts
    }


def list_measured_rows(page: Path) -> list[tuple[str, str]]:
    """The rows of a page that name a benchmark, or whose table does, each with its name. The first cell says what was
    measured, and is no figure."""
    found, named = [], ""
    for line in page.read_text("utf-8").splitlines():
        if not line.startswith("|"):
            named = ""
            continue
        own = re.search(r"`python -m bench (\w+)`", line)
        if own and not named and line.count("|") > 2 and not found_figures(line):
            named = own[1]
        elif own or named:
            found.append((own[1] if own else named, line))
    return found


def found_figures(line: str) -> list[str]:
    """The figures in the cells of a row behind the first."""
    cells = re.sub(r"`[^`]*`", "", line).split("|")[2:]
    return [number.replace(",", "") for cell in cells for number in _NUMBER.findall(cell)]


@pytest.mark.parametrize("page", [*list_user_pages(), CAPACITY], ids=lambda page: page.stem)
def test_figures_are_those_that_the_benchmark_wrote(page: Path) -> None:
    figures = read_figures()
    for name, row in list_measured_rows(page):
        missing = [each for each in found_figures(row) if each not in figures[name]]
        assert not missing, f"bench/RESULTS.md, section {name}, does not have {missing}: {row}"


def test_measured_rows_are_found() -> None:
    assert sum(len(list_measured_rows(page)) for page in list_user_pages()) >= 10
    assert len(list_measured_rows(CAPACITY)) >= 3


def test_the_model_of_large_deployments_is_made_of_measured_parts() -> None:
    """Its table stands on the page as the program prints it, and its parts in the sections of the benchmarks."""
    page, figures = CAPACITY.read_text("utf-8"), read_figures()
    assert large_deployments.run() in page
    milliseconds = f"{large_deployments.CPU_SECONDS * 1_000:.2f}"
    scanned, recorded = (
        {milliseconds, str(large_deployments.NODE_MB)},
        {str(large_deployments.BYTES), str(large_deployments.PRIMARY)},
    )
    assert scanned <= figures["scanning"]
    assert recorded <= figures["recording"]
    assert f"({milliseconds} ms)" in page


def list_refusals() -> Iterator[tuple[str, str]]:
    """Replies of Gatepost's own over SMTP that put off or refuse, with the module that gives each: what stands in them
    before anything that is filled in."""
    for folder in ("smtp", "milter"):
        for file in sorted((ROOT / "src" / "gatepost" / folder).glob("*.py")):
            for node in ast.walk(ast.parse(file.read_text("utf-8"))):
                if not isinstance(node, ast.Call) or len(node.args) < 2:
                    continue
                code, text = (_read_constant(each) for each in node.args[:2])
                if isinstance(code, int) and 400 <= code < 600 and isinstance(text, str):
                    yield file.name, re.sub(r"^\d\.\d+\.\d+ ", "", text).strip()


def _read_constant(node: ast.expr) -> object:
    """The value of a constant, or of the first part of a text in which something is filled in."""
    first = node.values[0] if isinstance(node, ast.JoinedStr) and node.values else node
    return first.value if isinstance(first, ast.Constant) else None


def test_every_reply_that_puts_off_or_refuses_is_on_its_page() -> None:
    page, found = (ROOT / "docs/smtp-replies.md").read_text("utf-8"), {text: file for file, text in list_refusals()}
    assert len(found) >= 30
    assert {text: file for text, file in found.items() if text not in page} == {}
