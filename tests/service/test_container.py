"""The container: its file says what docs/container.md promises, and it is built and run where an engine can do that.

`GATEPOST_CONTAINER_ENGINE` names another engine than `docker` or `podman`, with its own options;
`GATEPOST_CONTAINER_BUILD` and `GATEPOST_CONTAINER_RUN` are options of `build` and `run` that this machine needs.
"""

import json
import os
import re
import secrets
import shlex
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.doc_blocks import ROOT

from gatepost.settings.files import load

FOLDER = ROOT / "contrib" / "container"
TEXT = (FOLDER / "Containerfile").read_text("utf-8")
BASE = re.findall(r"^ARG BASE=(\S+)$", TEXT, re.MULTILINE)[0]
IMAGE = "localhost/gatepost-test"
SEALED = "sealed by descriptors, no-new-privileges, landlock, limits, seccomp"
HARDENED = ("--read-only", "--tmpfs", "/tmp", "--cap-drop", "ALL", "--security-opt", "no-new-privileges")


def test_the_file_builds_in_stages_and_runs_as_nobody_in_particular() -> None:
    stages = re.split(r"^FROM ", TEXT, flags=re.MULTILINE)[1:]
    assert len(stages) == 2
    final = stages[1]
    assert re.search(r"^USER 10001:10001$", final, re.MULTILINE)
    assert final.index("USER 10001") > final.rindex("RUN "), "nothing runs as this user while the image is built"
    assert "VOLUME /data" in final
    assert "HEALTHCHECK" in final
    assert "/readyz" in final
    assert "gcc" not in final
    assert "--require-hashes" in stages[0]


def test_the_build_gets_only_the_files_that_it_copies() -> None:
    ignored = (ROOT / ".dockerignore").read_text("utf-8").split()
    assert ignored[ignored.index("*") - 1] != "!"
    taken = [line[1:] for line in ignored if line.startswith("!")]
    for path in taken:
        assert (ROOT / path).exists(), path
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", TEXT, re.MULTILINE)
    for path in (word for line in copied for word in line.split()):
        assert any(Path(path).is_relative_to(each) for each in taken), path


def test_its_configuration_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GATEPOST_TOKEN", secrets.token_hex(32))
    both = load(FOLDER)
    assert both.guard.scan_sources.rest_api
    assert both.abby.static_api_tokens[0].permissions


class Engine:
    """A container engine that can run something here."""

    def __init__(self, command: list[str]) -> None:
        self._command = command
        self._build = shlex.split(os.environ.get("GATEPOST_CONTAINER_BUILD", ""))
        self._run = shlex.split(os.environ.get("GATEPOST_CONTAINER_RUN", ""))

    def call(self, *arguments: str, seconds: float = 120) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self._command, *arguments], capture_output=True, text=True, check=False, timeout=seconds, cwd=ROOT
        )

    def build(self) -> None:
        ended = self.call(
            "build", *self._build, "-f", "contrib/container/Containerfile", "-t", IMAGE, ".", seconds=1500
        )
        assert ended.returncode == 0, ended.stderr[-2000:]

    def run(self, *arguments: str) -> str:
        ended = self.call("run", *self._run, *arguments)
        assert ended.returncode == 0, ended.stderr
        return ended.stdout.strip()

    def why_not(self) -> str:
        """Why nothing can be built and run here; empty where it can."""
        if self.call("info").returncode:
            return "it does not answer"
        if self.call("image", "inspect", BASE).returncode and not self._can_pull():
            return f"{BASE} cannot be had"
        if self.call("run", "--rm", *self._run, BASE, "true").returncode:
            return "it cannot run a container"
        return ""

    def _can_pull(self) -> bool:
        try:
            return self.call("pull", "-q", BASE).returncode == 0
        except subprocess.TimeoutExpired:
            return False


@pytest.fixture(scope="module")
def engine() -> Engine:
    named = os.environ.get("GATEPOST_CONTAINER_ENGINE", "")
    found = [shlex.split(named)] if named else [[name] for name in ("docker", "podman") if shutil.which(name)]
    if not found:
        pytest.skip("not run: there is no container engine")
    reasons = []
    for command in found:
        if not (reason := Engine(command).why_not()):
            return Engine(command)
        reasons.append(f"{command[0]}: {reason}")
    pytest.skip(f"not run: {'; '.join(reasons)}")


@pytest.fixture(scope="module")
def container(engine: Engine) -> Iterator[str]:
    """The image as docs/container.md runs it."""
    engine.build()
    name = f"gatepost-test-{secrets.token_hex(4)}"
    token = ("-e", f"GATEPOST_TOKEN={secrets.token_hex(32)}")
    engine.run("-d", "--name", name, *HARDENED, *token, "-v", f"{name}:/data", IMAGE)
    try:
        yield name
    finally:
        engine.call("rm", "-f", name)
        engine.call("volume", "rm", name)


@pytest.mark.timeout(1800)
def test_workers_are_sealed_inside_with_the_default_profile(engine: Engine, container: str) -> None:
    check = re.findall(r'CMD \["python3", "-c", "(.+)"\]', TEXT)[0]
    end = time.monotonic() + 120
    while engine.call("exec", container, "python3", "-c", check).returncode:
        assert time.monotonic() < end, engine.call("logs", container).stderr[-2000:]
        time.sleep(0.5)
    rows = json.loads(engine.call("exec", container, "gatepost", "doctor", "--json").stdout)
    states = {row["what"]: (row["state"], row["found"]) for row in rows}
    assert states["workers"] == ("ok", SEALED)
    assert states["secrets"][0] == "ok"
    assert states["configuration"][0] == "ok"


@pytest.mark.timeout(600)
def test_it_scans_without_rights_and_stops_in_order(engine: Engine, container: str) -> None:
    status = engine.call("exec", container, "cat", "/proc/1/status").stdout
    assert re.search(r"^Uid:\s+10001\s", status, re.MULTILINE)
    assert re.search(r"^CapEff:\s+0+$", status, re.MULTILINE)
    assert re.search(r"^Seccomp:\s+2$", status, re.MULTILINE)
    assert engine.call("exec", container, "touch", "/x").returncode != 0
    scanned = engine.call("exec", container, "gatepost", "scan", "--json", "/data/example.eml").stdout
    assert '"clean"' in scanned
    assert engine.call("exec", container, "gatepost", "upgrade", "check").returncode == 0
    assert engine.call("stop", "-t", "120", container, seconds=150).returncode == 0
    assert engine.call("inspect", container, "--format", "{{.State.ExitCode}}").stdout.strip() == "0"
