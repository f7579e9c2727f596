"""Policy files in the configuration: read over each other, and all their faults beside those of the two files."""

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.data_folders import write_files
from tests.settings.refusals import find_faults

from gatepost.policy.rules import shipped_policy
from gatepost.service.publishing import _collect_files
from gatepost.settings.faults import ConfigError
from gatepost.settings.files import GUARD_FILE, differing_settings, load, load_abby, load_guard, load_policies

TENANT = "0198c5a2-7c11-7d3e-9f00-00000000aa01"
ABBY = 'serviceProviders: {core: {hosts: ["https://127.0.0.1:9785"]}}\n'
GUARD = f"""\
scanSources: {{restApi: {{}}}}
policy:
  file: house.toml
  tenants:
    {TENANT.upper()}: acme.toml
"""
Write = Callable[..., Path]


@pytest.fixture
def folder(tmp_path: Path) -> Write:
    def write(house: str = "", acme: str = "", guard: str = GUARD, abby: str = ABBY) -> Path:
        write_files(tmp_path, guard, abby)
        (tmp_path / GUARD_FILE).with_name("house.toml").write_text(house)
        (tmp_path / GUARD_FILE).with_name("acme.toml").write_text(acme)
        return tmp_path

    return write


def faults(folder: Path) -> list[tuple[str, int, str]]:
    return [(Path(fault.file).name, fault.line, fault.key) for fault in find_faults(load, folder)]


def test_tenants_stand_on_the_deployment(folder: Write) -> None:
    made = folder('[verdicts]\nspam = {decision = "drop"}\n', '[verdicts]\nbulk = {decision = "quarantine"}\n')
    policies = load_policies(load(made).guard.policy)
    mine = policies.of(TENANT).policy.verdicts
    assert (mine["spam"].decision, mine["bulk"].decision) == ("drop", "quarantine")
    assert policies.of(None).policy.verdicts["bulk"].decision == "deliver"


def test_without_files_it_is_the_shipped_one(folder: Write) -> None:
    guard = load(folder(guard="scanSources: {restApi: {}}\n")).guard
    assert load_policies(guard.policy).of(TENANT).policy == shipped_policy()
    assert not [key for key in differing_settings(guard) if key.startswith("policy")]


def test_what_the_files_are_stands_among_what_differs(folder: Write) -> None:
    shown = differing_settings(load(folder()).guard)
    assert shown["policy.file"].endswith("house.toml")
    assert list(shown["policy.tenants"]) == [TENANT]


def test_faults_of_all_files_are_told_at_once(folder: Write) -> None:
    made = folder("[kinds]\nx = 1\n", "\n[groups", GUARD + "mainWorkerCount: 0\n", ABBY + "x: 1\n")
    assert faults(made) == [("abby.yml", 2, "x"), ("guard.yml", 6, "mainWorkerCount")]
    made = folder('[kinds]\nx = 1\n[verdicts.spam]\ndecision = "keep"\n', "\n[groups")
    assert faults(made) == [
        ("acme.toml", 2, ""),
        ("house.toml", 2, "kinds.x"),
        ("house.toml", 4, "verdicts.spam.decision"),
    ]
    with pytest.raises(ConfigError, match=r"house\.toml:2: kinds\.x is not a known finding"):
        load_guard(made)


def test_a_file_that_is_not_there_or_no_text(folder: Write) -> None:
    made = folder()
    (made / GUARD_FILE).with_name("acme.toml").write_bytes(b"[kinds]\n\xff")
    assert faults(made) == [("acme.toml", 2, "")]
    (made / GUARD_FILE).with_name("acme.toml").unlink()
    assert faults(made) == [("guard.yml", 5, f"policy.tenants.{TENANT.upper()}")]


def test_abby_alone_has_its_own_and_beside_guard_the_same(folder: Write) -> None:
    other = ABBY + "policy: {file: ../../guard/core/house.toml}\n"
    made = folder(abby=other)
    assert load_policies(load_abby(made).policy).of(None).policy == shipped_policy()
    assert faults(made) == [("abby.yml", 2, "policy")]
    same = GUARD.replace("house.toml", "../../guard/core/house.toml").replace("acme", "../../guard/core/acme")
    assert load(folder(abby=ABBY + same.partition("\n")[2])).abby.policy.tenants.keys() == {TENANT}


def test_outbound_mail_has_a_policy_of_its_own(folder: Write) -> None:
    """It is laid over the deployment's, holds for all tenants, and is part of a published version."""
    guard = GUARD.replace("  tenants:", "  outbound: out.toml\n  tenants:")
    place = folder("[verdicts.spam]\nthreshold = 8.0", "[verdicts.spam]\nthreshold = 7.0", guard)
    file = (place / GUARD_FILE).with_name("out.toml")
    file.write_text('[verdicts.spam]\ndecision = "bounce"')
    policies = load_policies(load_guard(place).policy)
    for tenant in (None, TENANT):
        rule = policies.of(tenant, outbound=True).policy.verdicts["spam"]
        assert (rule.decision, rule.threshold) == ("bounce", 8.0)
    assert policies.of(TENANT).policy.verdicts["spam"].decision == "quarantine"
    document = {"policy": {"file": "house.toml", "outbound": "out.toml"}}
    found = _collect_files(file.parent, document)
    assert found["policy/outbound.toml"] == file.read_bytes()
    assert document["policy"]["outbound"] == "policy/outbound.toml"
    file.write_text("[verdicts.spamm]")
    assert any("out.toml" in each[0] for each in faults(place))
