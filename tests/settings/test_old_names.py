"""Old names in the files of an operator are still read; a warning names the new ones."""

import json
from pathlib import Path

import pytest
from tests.command_line import run_command
from tests.settings.refusals import find_faults

from gatepost.policy.layers import read_policy_file
from gatepost.policy.rules import shipped_policy
from gatepost.process import logs
from gatepost.service import commands
from gatepost.service.commands import prepare
from gatepost.service.data_folder import DataFolder
from gatepost.service.doctor import examination
from gatepost.service.doctor.rows import read_files
from gatepost.settings.document import parse_document, rename_keys
from gatepost.settings.files import GUARD_FILE, find_old_names, load_guard, load_policies

OLD_KEY = "\nacquaintance:\n  retention: 90\n"
RENAMED = "is now called senderHistory; the old name is still read"
OLD_GROUP = '[groups.acquaintance]\ncap = 1.5\n\n[kinds]\n"url:shortener" = { group = "acquaintance" }\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A configuration with old names in `guard.yml` and in the policy file that it names."""
    prepare(DataFolder(tmp_path), None)
    (tmp_path / GUARD_FILE).with_name("own.toml").write_text(OLD_GROUP)
    with (tmp_path / GUARD_FILE).open("a") as file:
        file.write("policy: {file: own.toml}" + OLD_KEY)
    return tmp_path


def line_of(file: Path, text: str) -> int:
    return file.read_text().splitlines().index(text) + 1


def test_old_names_hold(folder: Path) -> None:
    guard = load_guard(folder)
    assert guard.sender_history.retention == 90
    policy = load_policies(guard.policy).deployment.policy
    assert policy.groups["senderHistory"].cap == 1.5
    assert policy.kinds["url:shortener"].group == "senderHistory"
    assert "acquaintance" not in policy.groups


def test_every_old_name_is_told_with_its_line_and_the_new_one(folder: Path) -> None:
    guard, policy = folder / GUARD_FILE, (folder / GUARD_FILE).with_name("own.toml")
    assert [str(warning) for warning in find_old_names(folder)] == [
        f"{guard}:{line_of(guard, 'acquaintance:')}: acquaintance {RENAMED}",
        f"{policy}:1: groups.acquaintance {RENAMED}",
        f"{policy}:5: kinds.url:shortener.group names acquaintance, which {RENAMED}",
    ]


def test_new_names_give_no_warning(tmp_path: Path) -> None:
    prepare(DataFolder(tmp_path), None)
    with (tmp_path / GUARD_FILE).open("a") as file:
        file.write("\nsenderHistory: {retention: 90}\n")
    assert load_guard(tmp_path).sender_history.retention == 90
    assert find_old_names(tmp_path) == []


def test_a_fault_below_an_old_key_has_its_line(folder: Path) -> None:
    file = folder / GUARD_FILE
    file.write_text(file.read_text().replace("retention: 90", "retention: never"))
    (fault,) = find_faults(load_guard, folder)
    assert (fault.line, fault.key) == (line_of(file, "  retention: never"), "senderHistory.retention")


def test_both_keys_at_once_are_a_fault(folder: Path) -> None:
    file = folder / GUARD_FILE
    with file.open("a") as more:
        more.write("senderHistory: {enabled: false}\n")
    (fault,) = find_faults(load_guard, folder)
    assert fault.line == line_of(file, "acquaintance:")
    new = line_of(file, "senderHistory: {enabled: false}")
    assert fault.sentence == f"is the old name of senderHistory, which line {new} sets: keep only senderHistory"


def test_both_groups_at_once_are_a_fault() -> None:
    stated = read_policy_file("[groups]\nsenderHistory.cap = 1\nacquaintance.cap = 2\n", shipped_policy())
    assert [str(mistake) for mistake in stated.mistakes] == [
        "line 3: groups.acquaintance is the old name of senderHistory, which is set too: keep senderHistory"
    ]
    assert not stated.warnings


def test_a_faulty_document_stays_as_it_is() -> None:
    for raw in (b"[1]", b"{", b"text"):
        document = parse_document(raw)
        assert rename_keys(document, {"acquaintance": "senderHistory"}) == document


@pytest.mark.parametrize("text", ["groups = 1\n", "kinds = 1\n", "[kinds]\nx = 1\n", "[groups]\nacquaintance = 1\n"])
def test_a_faulty_policy_stays_a_fault(text: str) -> None:
    assert read_policy_file(text, shipped_policy()).mistakes


@pytest.mark.parametrize("arguments", [("config", "check"), ("policy", "check", "own.toml")])
def test_the_check_commands_warn(arguments: tuple[str, ...], folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir((folder / GUARD_FILE).parent)
    code, printed, _ = run_command(*arguments, "--data", folder)
    assert (code, "Warning: " in printed) == (0, True)
    assert "is now called senderHistory" in printed.replace("\n", " ")
    code, printed, _ = run_command(*arguments, "--data", folder, "--json")
    assert (code, "is now called senderHistory" in json.loads(printed)["warnings"][0]["sentence"]) == (0, True)


def test_a_start_and_the_doctor_warn(folder: Path) -> None:
    with logs.capture() as logged:
        commands.log_warnings(folder)
    assert {entry["level"] for entry in logged} == {"warning"}
    assert sum("is now called" in entry["warning"] for entry in logged) == 3
    row = examination.describe_files(read_files(folder), folder)
    assert row.state == "warn"
    assert "is now called senderHistory" in row.found
