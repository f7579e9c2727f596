"""The folder of YARA rules: what is wrong inside it is a fault of the configuration."""

from pathlib import Path

from tests.data_folders import write_files
from tests.settings.refusals import find_faults

from gatepost.settings.files import GUARD_FILE, load_guard


def place(tmp_path: Path, rule: str) -> Path:
    write_files(tmp_path, "mainWorkerCount: 2\nyara:\n  folder: rules\n")
    (tmp_path / GUARD_FILE.parent / "rules").mkdir()
    (tmp_path / GUARD_FILE.parent / "rules" / "own.yar").write_text(rule)
    return tmp_path


def test_rules_in_order_are_fine(tmp_path: Path) -> None:
    settings = load_guard(place(tmp_path, "rule x { condition: true }"))
    assert settings.yara
    assert settings.yara.folder.endswith("/rules")


def test_a_faulty_rule_is_a_fault_of_its_key(tmp_path: Path) -> None:
    (fault,) = find_faults(load_guard, place(tmp_path, "\nrule x {"))
    assert (fault.key, fault.line) == ("yara.folder", 3)
    assert fault.sentence.startswith("has a faulty rule in own.yar, line 2: syntax error")
