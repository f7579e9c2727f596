"""`gatepost learn` from the command line: files are reported, pools trained, models listed, shown and rolled back."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gatepost.cli import learn
from gatepost.cli.app import app
from gatepost.learning import run
from gatepost.learning.proof import Proof, Side
from gatepost.learning.sealed_training import Trained, TrainingFailed, TrainingOrder
from gatepost.service.commands import prepare
from gatepost.service.data_folder import DataFolder
from gatepost.textmodel.learnt import LearntModel

RUNNER = CliRunner()
MODEL = LearntModel(b"\x01\x00", b"\x00\x3c", reports=2)


@pytest.fixture
def data(tmp_path: Path) -> list[str]:
    prepare(DataFolder(tmp_path), None)
    return ["--data", str(tmp_path)]


@pytest.mark.process
def test_files_are_reported_and_pools_listed(data: list[str], tmp_path: Path) -> None:
    mailbox = tmp_path / "offers.mbox"
    head = "From a@x Sun Nov 15 10:00:00 2026\nFrom: a@x.example\n"
    one = head + "Subject: Offer {0}\n\nKettles by the ton, {0} of them.\n\n"
    mailbox.write_text("".join(one.format(number) for number in range(3)))
    done = RUNNER.invoke(app, ["learn", "mail", "--unwanted", str(mailbox), *data, "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.output) == {"read": 3, "taken": 3, "unread": 0, "tenantUid": None}
    # The same files again replace what was said before.
    done = RUNNER.invoke(app, ["learn", "mail", "--wanted", str(mailbox), *data])
    assert "3 of 3 messages reported as wanted to the pool of the deployment." in done.output
    (pool,) = json.loads(RUNNER.invoke(app, ["learn", "list", *data, "--json"]).output)["pools"]
    assert (pool["unwanted"], pool["wanted"]) == (0, 3)
    done = RUNNER.invoke(app, ["learn", "now", *data])
    assert done.exit_code == learn.REFUSED
    assert "does not take part: there are fewer than 20 reports" in done.output
    for wrong in (["mail", str(mailbox)], ["mail", "--wanted", "--unwanted", str(mailbox)]):
        assert RUNNER.invoke(app, ["learn", *wrong, *data]).exit_code == 2


def test_models_are_taken_shown_and_rolled_back(data: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    proof = Proof(200, 100, 100, Side(20, 18, 20, 0, 0.3), Side(20, 0, 20, 0), 174, taken=True, reason="it is better")

    def train(_order: TrainingOrder) -> Trained | TrainingFailed:
        return Trained(MODEL.to_bytes(), proof)

    monkeypatch.setattr(run.learn_pool, "__kwdefaults__", {"only_due": False, "trainer": train})
    done = RUNNER.invoke(app, ["learn", "now", *data, "--json"])
    assert done.exit_code == 0, done.output
    version = json.loads(done.output)["version"]
    assert RUNNER.invoke(app, ["learn", "now", "--scheduled", *data]).output == "", "it is not due"
    shown = RUNNER.invoke(app, ["learn", "show", str(version), *data])
    assert "names 18 of 20 unwanted, 0 of 20 wanted; loss 0.300" in shown.output
    described = json.loads(RUNNER.invoke(app, ["learn", "show", str(version), *data, "--json"]).output)
    assert (described["state"], described["figures"]["reports"], described["messages"]) == ("current", 200, [])
    assert "current" in RUNNER.invoke(app, ["learn", "list", *data]).output
    assert f"Model {version} is withdrawn" in RUNNER.invoke(app, ["learn", "rollback", *data]).output
    assert RUNNER.invoke(app, ["learn", "rollback", *data]).exit_code == 1
    assert RUNNER.invoke(app, ["learn", "show", "99", *data]).exit_code == 1
