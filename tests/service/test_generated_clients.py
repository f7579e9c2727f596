"""Clients that generators make of the OpenAPI documents work against the running service, as the page about them says.

The generators are no dependencies of Gatepost. Put them into a virtual environment of their own, with `httpx`, `attrs`,
`python-dateutil`, `urllib3` and `pydantic`, and name its `bin` in `GATEPOST_CLIENT_GENERATORS`.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from bench.ports import free_ports
from bench.processes import await_output

from gatepost.lists.catalogue import LISTS
from gatepost.service.commands import prepare
from gatepost.service.data_folder import DataFolder
from gatepost.settings.files import ABBY_FILE, GUARD_FILE

PAGE = (Path(__file__).parents[2] / "docs" / "generated-clients.md").read_text("utf-8")
FETCH, *SECTIONS = re.split(r"^## ", PAGE, flags=re.MULTILINE)
TOOLS = {"openapi-python-client": (), "openapi-generator-cli": ("java",)}


def blocks(text: str) -> list[tuple[str, str]]:
    return re.findall(r"^```(python|sh)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def search_path() -> str:
    folders = [os.environ.get("GATEPOST_CLIENT_GENERATORS", ""), str(Path(sys.executable).parent), os.environ["PATH"]]
    return os.pathsep.join(folder for folder in folders if folder)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, int]]:
    data = tmp_path_factory.mktemp("generated") / "data"
    data.mkdir()
    prepare(DataFolder(data), None)
    port, core = free_ports(2)
    for name in (GUARD_FILE, ABBY_FILE):
        text = (data / name).read_text()
        (data / name).write_text(text.replace("9081", str(port)).replace("9785", str(core)))
    output = data.parent / "output"
    with output.open("wb") as sink:
        command = [sys.executable, "-m", "gatepost", "serve", "--data", str(data)]
        process = subprocess.Popen(command, stdout=sink, stderr=sink)
    try:
        await_output(process, output, '"service listening"')
        yield data, port
    finally:
        process.terminate()
        process.wait(90)


def run(language: str, code: str, folder: Path, port: int, data: Path) -> str:
    path = search_path()
    command = [str(shutil.which("python", path=path)), "-c", code] if language == "python" else ["sh", "-euc", code]
    command[-1] = code.replace(":9081", f":{port}")
    environment = {**os.environ, "PATH": path, "GATEPOST_DATA": str(data)}
    ended = subprocess.run(command, check=False, cwd=folder, env=environment, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


@pytest.mark.parametrize(("tool", "section"), list(zip(TOOLS, SECTIONS, strict=True)), ids=list(TOOLS))
def test_a_generated_client(tool: str, section: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    missing = [name for name in (tool, *TOOLS[tool]) if not shutil.which(name, path=search_path())]
    if missing:
        pytest.skip(f"not run: {' and '.join(missing)} is not installed (GATEPOST_CLIENT_GENERATORS names a folder)")
    data, port = request.getfixturevalue("service")  # started for a generator that is there
    (tmp_path / "data").symlink_to(data)
    printed = [run(*block, tmp_path, port, data) for block in (*blocks(FETCH), *blocks(section))][-1]
    assert "deliver" in printed.lower()
    assert "GREEN" in printed
    assert "['evil.example/login']" in printed
    assert f"{len(LISTS)} lists" in printed
    assert "forbidden" in printed  # the token of the first start may not release
