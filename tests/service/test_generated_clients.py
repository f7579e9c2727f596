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
from tests.data_folders import prepare_with_free_ports
from tests.service.running_service import RunningService

from gatepost.lists.catalogue import LISTS

PAGE = (Path(__file__).parents[2] / "docs" / "generated-clients.md").read_text("utf-8")
FETCH, *SECTIONS = re.split(r"^## ", PAGE, flags=re.MULTILINE)
TOOLS = {"openapi-python-client": (), "openapi-generator-cli": ("java",)}


def blocks(text: str) -> list[tuple[str, str]]:
    return re.findall(r"^```(python|sh)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def search_path() -> str:
    folders = [os.environ.get("GATEPOST_CLIENT_GENERATORS", ""), str(Path(sys.executable).parent), os.environ["PATH"]]
    return os.pathsep.join(folder for folder in folders if folder)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    data = tmp_path_factory.mktemp("generated") / "data"
    running = RunningService(data, prepare_with_free_ports(data))
    yield running
    running.stop()


def run(language: str, code: str, folder: Path, service: RunningService) -> str:
    path = search_path()
    command = [str(shutil.which("python", path=path)), "-c", code] if language == "python" else ["sh", "-euc", code]
    command[-1] = code.replace(":9081", f":{service.port}")
    environment = {**os.environ, "PATH": path, "GATEPOST_DATA": str(service.data)}
    ended = subprocess.run(command, check=False, cwd=folder, env=environment, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


@pytest.mark.parametrize(("tool", "section"), list(zip(TOOLS, SECTIONS, strict=True)), ids=list(TOOLS))
def test_a_generated_client(tool: str, section: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    missing = [name for name in (tool, *TOOLS[tool]) if not shutil.which(name, path=search_path())]
    if missing:
        pytest.skip(f"not run: {' and '.join(missing)} is not installed (GATEPOST_CLIENT_GENERATORS names a folder)")
    service = request.getfixturevalue("service")  # started for a generator that is there
    (tmp_path / "data").symlink_to(service.data)
    printed = [run(*block, tmp_path, service) for block in (*blocks(FETCH), *blocks(section))][-1]
    assert "deliver" in printed.lower()
    assert "GREEN" in printed
    assert "['evil.example/login']" in printed
    assert f"{len(LISTS)} lists" in printed
    assert "forbidden" in printed  # the token of the first start may not release
