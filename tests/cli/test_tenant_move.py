"""`gatepost tenant move`: its two calls, what it says to do between them, and what it refuses."""

import json
from pathlib import Path

import pytest
from tests.command_line import run_command


@pytest.mark.process
def test_a_tenant_moves_in_two_calls(postgres_url: str, other_postgres_url: str, tmp_path: Path) -> None:
    file = tmp_path / "abby" / "abby" / "abby.yml"
    file.parent.mkdir(parents=True)

    def write(*tenants: str) -> None:
        named = "".join(f"    {tenant}: other\n" for tenant in tenants)
        file.write_text(
            "serviceProviders: {core: {hosts: ['https://127.0.0.1:9']}}\n"
            f"storage:\n  url: '{postgres_url}'\n  databases: {{other: '{other_postgres_url}'}}\n"
            + (f"  tenants:\n{named}" if named else "")
        )

    def run(*words: str) -> tuple[int, str]:
        code, out, err = run_command(*words, "--config", tmp_path, "--data", tmp_path)
        return code, out or err

    write()
    code, uid = run("tenant", "create", "mine")
    assert code == 0, uid
    uid = uid.strip()
    code, said = run("tenant", "move", uid, "nowhere")
    assert code != 0
    assert "There is no database nowhere; choose one of first, other," in said
    assert "already" in run("tenant", "move", uid, "first")[1]
    code, said = run("tenant", "move", uid, "other")
    assert code == 0
    assert f"storage.tenants: {{{uid}: other}}" in said
    write(uid)
    code, said = run("tenant", "move", uid, "other", "--json")
    assert json.loads(said)["done"] is True
    code, said = run("backup", str(tmp_path / "b.db"))
    assert code != 0
    assert "storage.databases" in said
