"""Which configuration a process starts with, whatever became of the one that is tried, and what is kept to go back."""

import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from bench.ports import free_ports
from tests.data_folders import write_files

from gatepost.service.certificates import sign_certificate
from gatepost.service.changes import NodeFiles, Trial, load_services
from gatepost.service.data_folder import DataFolder, NodeVersion, StartError
from gatepost.service.plan import Plan, bind_ports, check_new_ports, close_sockets, port_of
from gatepost.service.publishing import KEY_FILES, PATH_KEYS
from gatepost.settings.files import ABBY_FILE, GUARD_FILE, load
from gatepost.settings.keys import AbbySettings, GuardSettings
from gatepost.settings.values import FilePath, Section, find_section

GUARD = """
mainWorkerCount: 4
scanSources: {{restApi: {{port: {0}, secret: "${{file:secret}}"}}}}
tls: {{certificate: own.pem, key: own.key}}
delivery: {{nextHop: "smtp://127.0.0.1:9", certificate: own.pem, key: own.key, ca: own.pem}}
policy: {{file: policy.toml}}
yara: {{folder: rules}}
"""
ABBY = """
listen: {{port: {1}}}
serviceProviders: {{core: {{hosts: ["https://127.0.0.1:{0}"], secret: "${{file:../../guard/core/secret}}"}}}}
"""


@pytest.fixture
def local(tmp_path: Path) -> Path:
    """A node's own files, with everything that they name."""
    folder, ports = tmp_path / "local", free_ports(2)
    write_files(folder, GUARD.format(*ports), ABBY.format(*ports))
    place = (folder / GUARD_FILE).parent
    pem, key = sign_certificate(["localhost"], datetime.now(UTC))
    (place / "own.pem").write_bytes(pem)
    (place / "own.key").write_bytes(key)
    (place / "secret").write_text("5f" * 32)
    (place / "policy.toml").write_text('[verdicts]\nclean = {decision = "drop"}\n')
    (place / "rules").mkdir()
    (place / "rules/never.yar").write_text("rule never { condition: false }")
    return folder


@pytest.fixture
def node(tmp_path: Path, local: Path) -> NodeFiles:
    """A node that runs its own files."""
    found = NodeFiles(DataFolder(tmp_path / "data"), "guard")
    assert found.prepare_start(local) == (NodeVersion(), local)
    found.keep(local)
    return found


def test_a_copy_says_what_the_files_said_and_does_not_change_with_them(node: NodeFiles, local: Path) -> None:
    before = load(local)
    (local / GUARD_FILE).write_text("scanSources: {}\n")
    (local / GUARD_FILE).with_name("policy.toml").write_text("what")
    (local / GUARD_FILE).with_name("rules").joinpath("never.yar").unlink()
    copy = Path(node.current().folder)
    kept = load(copy, certificates=True)
    assert (kept.guard.main_worker_count, kept.guard.tls) == (4, before.guard.tls)
    assert (kept.guard.delivery, kept.guard.scan_sources) == (before.guard.delivery, before.guard.scan_sources)
    assert kept.abby == before.abby
    assert "drop" in Path(str(kept.guard.policy.file)).read_text()
    assert kept.guard.yara
    assert (Path(kept.guard.yara.folder) / "never.yar").exists()
    assert copy.stat().st_mode & 0o077 == 0


def list_paths(section: type[Section], above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every key that names a file."""
    for field in section.model_fields.values():
        key = (*above, str(field.alias))
        if "_check_file" in repr(field):
            yield key
        inner, _ = find_section(field.annotation)
        if inner:
            yield from list_paths(inner, key)


def test_every_file_that_is_named_is_found_from_another_folder() -> None:
    assert "_check_file" in repr(FilePath)
    known = {*list_paths(GuardSettings), *list_paths(AbbySettings)}
    assert ("tls", "certificate") in known
    rest = {key for key in known if key[-1] not in PATH_KEYS and key not in KEY_FILES}
    assert {".".join(key) for key in rest} <= {"policy.file", "policy.outbound"}


def test_what_was_not_healthy_gives_way_and_is_tried_again_by_a_later_start(node: NodeFiles, local: Path) -> None:
    before = node.current()
    node.set_trial(Trial(NodeVersion(), before))
    assert node.prepare_start(local) == (NodeVersion(), local)
    node.keep(local)
    assert node.current() == before, "until it has proven itself"
    # The process was killed, and so is the next one.
    for _ in range(2):
        assert node.prepare_start(local) == (before, Path(before.folder))
    trial = node.trial()
    assert trial
    assert trial.fault == "the process ended before it was healthy"
    assert trial.version.folder not in ("", before.folder)
    node.set_trial(Trial(trial.version, before, has_begun=True, fault=trial.fault, is_told=True))
    assert node.prepare_start(local) == (NodeVersion(), local)
    node.set_current(trial.version)
    assert node.trial() is None
    assert node.current() == trial.version
    assert not Path(before.folder).exists()


def test_a_stop_on_trial_is_no_failure(node: NodeFiles, local: Path) -> None:
    node.set_trial(Trial(NodeVersion(), node.current()))
    for _ in range(3):
        assert node.prepare_start(local) == (NodeVersion(), local)
        node.pause_trial()


def test_a_fault_on_trial_is_noted_once_and_without_a_trial_not_at_all(node: NodeFiles) -> None:
    assert not node.end_broken_trial(StartError("It broke."))
    node.set_trial(Trial(NodeVersion(), node.current(), has_begun=True))
    assert node.end_broken_trial(StartError("It broke."))
    assert not node.end_broken_trial(StartError("Again."))
    trial = node.trial()
    assert trial
    assert trial.fault == "It broke."


def test_new_ports_are_tried_and_those_in_the_way_are_closed(local: Path, tmp_path: Path) -> None:
    guard, _ = load_services(local, ("guard",))
    assert guard
    plan = Plan(DataFolder(tmp_path), guard)
    bound = bind_ports(plan)["guard"]
    check_new_ports(plan, plan)
    other = free_ports(1)[0]
    text = (local / GUARD_FILE).read_text()
    (local / GUARD_FILE).write_text(text + f'metrics: {{listen: "127.0.0.1:{other}"}}\n')
    changed = Plan(DataFolder(tmp_path), load_services(local, ("guard",))[0])
    check_new_ports(plan, changed)
    found = bind_ports(changed, bound)
    assert found["guard"] == bound
    with pytest.raises(StartError, match="another program uses it"):
        check_new_ports(plan, changed)
    close_sockets(found["guard metrics"])
    # Another address of the same port.
    port = port_of(bound)
    (local / GUARD_FILE).write_text(text.replace(f"port: {port}", f"port: {port}, host: 0.0.0.0"))
    everywhere = bind_ports(Plan(DataFolder(tmp_path), load_services(local, ("guard",))[0]), bound)
    assert bound[0].fileno() == -1
    close_sockets(everywhere["guard"])


CHILDREN = """
import subprocess, sys, threading
from gatepost.service.systemd import end_children
sleep = [sys.executable, "-c", "import time; time.sleep(600)"]
children = [subprocess.Popen(sleep)]
def start(): children.append(subprocess.Popen(sleep))
thread = threading.Thread(target=start); thread.start(); thread.join()
end_children()
import os
try:
    os.waitpid(-1, os.WNOHANG)
except ChildProcessError:
    print("none", len(children))
"""


@pytest.mark.process
def test_no_child_outlasts_a_restart() -> None:
    told = subprocess.run([sys.executable, "-c", CHILDREN], capture_output=True, text=True, check=True, timeout=120)
    assert told.stdout == "none 2\n"


def test_abby_alone_has_its_own_copy(tmp_path: Path, local: Path) -> None:
    node = NodeFiles(DataFolder(tmp_path / "data"), "abby")
    node.keep(local)
    assert (Path(node.current().folder) / ABBY_FILE).exists()
