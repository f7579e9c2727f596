"""What `gatepost config check` says of files that changed under a running service follows from the mark of each key."""

from pathlib import Path

import pytest
from tests.data_folders import write_files

from gatepost.service.data_folder import DataFolder
from gatepost.service.plan import Plan
from gatepost.service.reloading import describe_running, digest_files, save_loaded
from gatepost.settings.files import GUARD_FILE, load

GUARD = "mainWorkerCount: 4\nscanSources: {restApi: {}}\ndns: {timeout: 2000}\n"
ABBY = 'serviceProviders: {core: {hosts: ["https://127.0.0.1:9785"]}}\nlisten: {port: 9081}\n'
TAKEN = "changed since the running guard has read it, SIGHUP takes it over: "
WAITS = "holds after a restart: "


class Node:
    """A data folder as a running service leaves it, and its files."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.data = folder, DataFolder(folder / "data")
        self.write(GUARD, ABBY)
        self.save()

    def write(self, guard: str, abby: str = ABBY) -> None:
        write_files(self.folder, guard, abby)

    def save(self, restart: tuple[str, ...] = ()) -> None:
        both = load(self.folder)
        plan = Plan(self.data, both.guard, both.abby, config=self.folder, local=self.folder)
        save_loaded(plan, digest_files(self.folder, both.guard, both.abby), restart)

    def describe(self) -> list[str]:
        return describe_running(self.data)


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    """A guard runs on the folder: a process does not see its own locks, so the test says that it does."""
    monkeypatch.setattr(DataFolder, "is_locked", lambda _, service: service == "guard")
    return Node(tmp_path)


@pytest.mark.parametrize(
    ("guard", "abby", "said"),
    [
        (GUARD, ABBY, []),
        (GUARD + "# a comment\n", ABBY, []),
        (GUARD.replace("2000", "3000"), ABBY, [f"{TAKEN}guard.yml dns.timeout"]),
        (GUARD.replace("4", "5"), ABBY, [f"{WAITS}guard.yml mainWorkerCount"]),
        (
            GUARD.replace("2000", "3000"),
            ABBY.replace("9081", "9082"),
            [f"{TAKEN}guard.yml dns.timeout", f"{WAITS}abby.yml listen.port"],
        ),
        (GUARD.replace("{}}", "{}, smtp: {}}"), ABBY, [f"{WAITS}guard.yml scanSources.smtp"]),
    ],
)
def test_each_key_is_said_by_its_own_mark(node: Node, guard: str, abby: str, said: list[str]) -> None:
    node.write(guard, abby)
    assert node.describe() == said


def test_a_key_that_was_set_back_no_longer_waits(node: Node) -> None:
    node.save(restart=("guard.yml mainWorkerCount", "abby.yml listen.port"))
    assert node.describe() == [f"{WAITS}guard.yml mainWorkerCount, abby.yml listen.port"]
    node.write(GUARD + "# as before\n")
    assert node.describe() == [f"{WAITS}abby.yml listen.port"]


def test_a_faulty_file_is_named_as_a_file(node: Node) -> None:
    node.write(GUARD + "mainWorkerCont: 3\n")
    assert node.describe() == [f"{TAKEN}{node.folder / GUARD_FILE}"]


def test_no_value_stands_in_the_data_folder(node: Node) -> None:
    secret = "secret: 'correct horse battery'"
    node.write(GUARD.replace("restApi: {}", f"restApi: {{{secret}}}"), ABBY.replace("]}", f"], {secret}}}"))
    node.save()
    state = (node.data.path / "guard.loaded.json").read_text()
    assert "scanSources.restApi.secret" in state
    assert "correct horse" not in state
