"""The examples of the documentation, run as a reader runs them: page by page against one service of a first start.

All `sh` and `python` blocks of a page run in their order in one folder, in one shell. Programs in other languages run
where their language is installed.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.data_folders import prepare_with_free_ports
from tests.doc_blocks import PAGES, ROOT, CodeBlock, blocks_of, read_blocks
from tests.service.running_service import RunningService

# Pages whose examples have a test of their own, those that are about the checkout, and those on which one changes files
# and restarts the service in between.
ELSEWHERE = {
    *("docs/generated-clients.md", "docs/policy.md", "docs/events.md", "README.md", "CONTRIBUTING.md"),
    *("docs/feeds.md", "docs/messages-api.md"),
}
RUN = [
    page
    for page in PAGES
    if page.relative_to(ROOT).as_posix() not in ELSEWHERE
    and any(block.language in {"sh", "python"} for block in read_blocks(page))
]
# Pages that stand for the others, which `make test-long` runs.
FIRST_PAGES = ("verdicts", "integrating")
# Language: the program that runs it, the name of the file, and what else is set in the environment.
LANGUAGES = {
    "js": (["node"], "scan.mjs", {"NODE_EXTRA_CA_CERTS": "data/tls/certificate.pem"}),
    "java": (["java"], "Scan.java", {}),
    "go": (["go", "run"], "scan.go", {"GO111MODULE": "off", "GOFLAGS": "-mod=mod"}),
    "php": (["php"], "scan.php", {}),
}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    data = tmp_path_factory.mktemp("examples") / "data"
    running = RunningService(data, prepare_with_free_ports(data))
    yield running
    running.stop()


@pytest.fixture
def folder(service: RunningService, tmp_path: Path) -> Path:
    """A folder like the checkout of `make serve`: the data folder, and the commands in `.venv/bin`."""
    (tmp_path / "data").symlink_to(service.data)
    (tmp_path / ".venv").symlink_to(Path(sys.executable).parent.parent)
    return tmp_path


def run(command: list[str], service: RunningService, folder: Path, **extra: str) -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "GATEPOST_DATA": str(folder / "data"), **extra}
    command = [word.replace(":9081", f":{service.port}") for word in command]
    return subprocess.run(
        command, check=False, cwd=folder, env=environment, capture_output=True, text=True, timeout=170
    )


def as_script(blocks: list[CodeBlock]) -> str:
    """The blocks of a page as one shell script; Python is handed to the interpreter on its way."""
    parts = []
    for block in blocks:
        if block.language == "sh":
            parts.append(block.code)
        elif block.language == "python":
            parts.append(f"python - <<'END_OF_PYTHON'\n{block.code}END_OF_PYTHON\n")
    return "\n".join(parts)


@pytest.mark.skipif(not shutil.which("curl"), reason="not run: curl is not installed")
@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=[] if page.stem in FIRST_PAGES else pytest.mark.long) for page in RUN],
    ids=lambda page: page.stem,
)
def test_a_page_runs_as_printed(page: Path, service: RunningService, folder: Path) -> None:
    ended = run(["sh", "-euc", as_script(read_blocks(page))], service, folder)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert '"error"' not in ended.stdout
    assert "Traceback" not in ended.stderr


def run_program(
    block: CodeBlock, service: RunningService, folder: Path, token: str = "data/token"
) -> subprocess.CompletedProcess[str]:
    """Run a program of the documentation where its language is installed."""
    program, name, extra = LANGUAGES[block.language]
    if not shutil.which(program[0]):
        pytest.skip(f"not run: {program[0]} is not installed")
    (folder / name).write_text(block.code.replace(":9081", f":{service.port}").replace("data/token", token))
    return run([*program, name], service, folder, GOCACHE=str(service.data.parent / "go"), **extra)


@pytest.mark.parametrize(
    "block",
    [
        pytest.param(block, id=block.language, marks=pytest.mark.variant if block.language == "java" else [])
        for block in blocks_of(*LANGUAGES)
    ],
)
def test_a_program_scans(block: CodeBlock, service: RunningService, folder: Path) -> None:
    ended = run_program(block, service, folder)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "deliver" in ended.stdout
    assert "clean" in ended.stdout


@pytest.mark.variant
@pytest.mark.parametrize("block", blocks_of(*LANGUAGES), ids=lambda block: block.language)
def test_a_program_ends_with_an_error_where_the_token_is_wrong(
    block: CodeBlock, service: RunningService, folder: Path
) -> None:
    (folder / "wrong").write_text("wrong")
    ended = run_program(block, service, folder, "wrong")
    assert ended.returncode != 0
    assert "unauthorized" in ended.stdout + ended.stderr


ENVELOPE = {"envelopeFrom": "a@example.org", "envelopeRecipients": ["b@example.com"]}
TOO_MANY = {**ENVELOPE, "envelopeRecipients": ["b@example.com"] * 1001}
MAIL = ("m.eml", b"From: a@example.org\r\n\r\nHello\r\n", "message/rfc822")


def parameters(envelope: Any, **more: object) -> tuple[None, str, str]:
    return (None, json.dumps({"borderMtaData": envelope, **more}), "application/json")


SCANS: dict[str, Any] = {
    "part `parameters`": [("parameters", parameters(ENVELOPE, extra="x" * (1 << 20))), ("email", MAIL)],
    "parts in the body": [("parameters", parameters(ENVELOPE)), ("email", MAIL), *[("more", MAIL)] * 99],
    "`envelopeRecipients`": [("parameters", parameters(TOO_MANY)), ("email", MAIL)],
}
CHANGES = {
    "request body of the List API": [{"entry": "a.example", "comment": "x" * (8 << 20)}],
    "entries in one List API call": [{"entry": f"{number}.example"} for number in range(501)],
    "length of an entry; of a comment": [{"entry": "a" * 1001}],
}


def assert_documented(row: str, answer: httpx.Response) -> None:
    """The page's row has the status and the code that came."""
    page = (ROOT / "docs" / "api-limits.md").read_text("utf-8")
    found = re.search(rf"^\| {re.escape(row)} \| [^|]+ \| ([^|]+) \|$", page, re.MULTILINE)
    assert found, row
    assert found[1].startswith(str(answer.status_code))
    assert f"`{answer.json()['error']}`" in found[1]


@pytest.fixture(scope="module")
def http(service: RunningService) -> Iterator[httpx.Client]:
    with service.client() as made:
        yield made


@pytest.mark.parametrize("row", SCANS)
def test_a_scan_over_a_limit_is_answered_as_the_page_says(
    row: str, service: RunningService, http: httpx.Client
) -> None:
    token = {"Authorization": f"Bearer {(service.data / 'token').read_text().strip()}"}
    assert_documented(row, http.post("/v1/messageQueue/submitEmail", files=SCANS[row], headers=token))


def test_list_calls_over_a_limit_are_answered_as_the_page_says(service: RunningService, http: httpx.Client) -> None:
    key = {"Authorization": f"apikey {service.run('apikey', 'create', 'limits').strip()}"}
    for row, entries in CHANGES.items():
        body = {"listName": "blocked-senders", "entries": entries}
        assert_documented(row, http.post("/api/public/lists/v1/addEntries", json=body, headers=key))
    comment = {"listName": "blocked-senders", "entries": [{"entry": "a.example", "comment": "x" * 1001}]}
    answer = http.post("/api/public/lists/v1/addEntries", json=comment, headers=key)
    assert_documented("length of an entry; of a comment", answer)


def test_a_head_over_its_limit_is_answered_as_the_page_says(http: httpx.Client) -> None:
    assert_documented("header section of a request", http.post("/v1/admin/status", headers={"X": "x" * 66_000}))
