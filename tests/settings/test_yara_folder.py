"""The folder of YARA rules: what is wrong inside it is a fault of the configuration."""

from pathlib import Path

import pytest

from gatepost.settings.faults import ConfigError
from gatepost.settings.files import GUARD_FILE, load_guard


def place(tmp_path: Path, rule: str) -> Path:
    (tmp_path / GUARD_FILE).parent.mkdir(parents=True)
    (tmp_path / GUARD_FILE).write_text("mainWorkerCount: 2\nyara:\n  folder: rules\n")
    (tmp_path / GUARD_FILE.parent / "rules").mkdir()
    (tmp_path / GUARD_FILE.parent / "rules" / "own.yar").write_text(rule)
    return tmp_path


def test_rules_in_order_are_fine(tmp_path: Path) -> None:
    settings = load_guard(place(tmp_path, "rule x { condition: true }"))
    assert settings.yara
    assert settings.yara.folder.endswith("/rules")


def test_a_faulty_rule_is_a_fault_of_its_key(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load_guard(place(tmp_path, "\nrule x {"))
    (fault,) = caught.value.faults
    assert (fault.key, fault.line) == ("yara.folder", 3)
    assert fault.sentence.startswith("has a faulty rule in own.yar, line 2: syntax error")
