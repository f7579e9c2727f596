"""YARA rules of the operator: compiled from a folder, tried on every file, faults said in sentences."""

from pathlib import Path

import pytest

from gatepost.analysis.report import Outcome
from gatepost.analysis.stages import Context, Stages
from gatepost.files.values import File, Trait
from gatepost.files.yara import YaraRulesError, compile_rules, find_rule_faults, mark_matches
from gatepost.process.cpu_account import SPENT, CpuAccount

RULE = 'rule Payload { strings: $a = "payload" nocase condition: $a }'


def folder(place: Path, **sources: str) -> Path:
    for name, source in sources.items():
        (place / f"{name}.yar").write_text(source, "utf-8")
    return place


def file(content: bytes, sha: str = "0" * 64) -> File:
    return File("1", content, "data", sha)


def test_every_rule_that_matches_is_named(tmp_path: Path) -> None:
    rules = compile_rules(folder(tmp_path, a=RULE, b=RULE + " rule Small { condition: filesize < 100 }"))
    assert rules.match(b"the PAYLOAD") == ("a.yar: Payload", "b.yar: Payload", "b.yar: Small")
    assert rules.match(b"x" * 200) == ()


def test_other_endings_are_no_rules(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("rule {", "utf-8")
    (tmp_path / "upper.YARA").write_text(RULE, "utf-8")
    assert compile_rules(tmp_path).match(b"payload") == ("upper.YARA: Payload",)


@pytest.mark.parametrize(
    ("source", "fault"),
    [
        ("rule x { condition: foo }", "has a faulty rule in a.yar, line 1: unknown identifier `foo`"),
        ("\n\nrule x {", "has a faulty rule in a.yar, line 3: syntax error"),
        ('include "/etc/passwd"', "has a faulty rule in a.yar, line 1: "),
    ],
)
def test_a_fault_names_file_and_line(tmp_path: Path, source: str, fault: str) -> None:
    (found,) = find_rule_faults(folder(tmp_path, a=source))
    assert found.startswith(fault)


def test_all_faults_are_told(tmp_path: Path) -> None:
    place = folder(tmp_path, a="rule x {", b=RULE, c="rule y { condition: foo }")
    (tmp_path / "d.yar").write_bytes(b"\xff")
    assert [fault.split(",")[0] for fault in find_rule_faults(place)] == [
        "has a faulty rule in a.yar",
        "has a faulty rule in c.yar",
        "has a file that is not UTF-8",
    ]
    with pytest.raises(YaraRulesError, match=r"a\.yar.*c\.yar.*d\.yar"):
        compile_rules(place)


def test_no_rules_at_all_is_a_fault(tmp_path: Path) -> None:
    assert find_rule_faults(tmp_path) == ("holds no file that ends in .yar or .yara",)
    assert find_rule_faults(tmp_path / "nowhere") == ("cannot be read: No such file or directory",)
    assert find_rule_faults(folder(tmp_path, a=RULE)) == ()


def test_files_are_marked_and_keep_what_they_had(tmp_path: Path) -> None:
    rules = compile_rules(folder(tmp_path, a=RULE))
    before = File("1", b"payload", "data", "1" * 64, traits=(Trait("macro"),))
    hit, miss, again = mark_matches((before, file(b"clean"), file(b"payload", "1" * 64)), rules)
    assert hit.traits == (Trait("macro"), Trait("yara", "a.yar: Payload"))
    assert miss.traits == ()
    assert again.traits == (Trait("yara", "a.yar: Payload"),)


def test_files_beyond_the_account_are_not_scanned_and_the_ledger_says_so(tmp_path: Path) -> None:
    rules = compile_rules(folder(tmp_path, a=RULE))
    cpu = CpuAccount(10.0)
    cpu._end -= 9.0  # which leaves something to what comes after the files
    stages = Stages(Context(now=0.0, rules=rules, cpu=cpu))
    assert stages.match_yara_rules((file(b"payload"),)) == (file(b"payload"),)
    assert stages.outcomes == [Outcome("yara", "failed", SPENT)]
