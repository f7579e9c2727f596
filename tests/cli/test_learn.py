"""`gatepost learn` from the command line: files are reported, pools trained, models listed, shown and rolled back."""

import json
from pathlib import Path

import pytest
from tests.cli.conftest import Run

from gatepost.cli import learn
from gatepost.learning.run import learn_pool
from gatepost.learning.sealed_training import Proof, Side, Trained, TrainingFailed, TrainingOrder
from gatepost.textmodel.learnt import LearntModel

MODEL = LearntModel(b"\x01\x00", b"\x00\x3c", reports=2)


@pytest.mark.process
def test_files_are_reported_and_pools_listed(run: Run, tmp_path: Path) -> None:
    mailbox = tmp_path / "offers.mbox"
    head = "From a@x Sun Nov 15 10:00:00 2026\nFrom: a@x.example\n"
    one = head + "Subject: Offer {0}\n\nKettles by the ton, {0} of them.\n\n"
    mailbox.write_text("".join(one.format(number) for number in range(3)))
    code, said, fault = run("learn", "mail", "--unwanted", mailbox, "--json")
    assert code == 0, fault
    assert json.loads(said) == {"read": 3, "taken": 3, "unread": 0, "tenantUid": None}
    # The same files again replace what was said before.
    _, said, _ = run("learn", "mail", "--wanted", mailbox)
    assert "3 of 3 messages reported as wanted to the pool of the deployment." in said
    (pool,) = json.loads(run("learn", "list", "--json")[1])["pools"]
    assert (pool["unwanted"], pool["wanted"]) == (0, 3)
    code, said, _ = run("learn", "now")
    assert code == learn.REFUSED
    assert "does not take part: there are fewer than 20 reports" in said
    for wrong in (["mail", str(mailbox)], ["mail", "--wanted", "--unwanted", str(mailbox)]):
        assert run("learn", *wrong)[0] == 2


def test_models_are_taken_shown_and_rolled_back(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    proof = Proof(200, 100, 100, Side(20, 18, 20, 0, 0.3), Side(20, 0, 20, 0), 174, taken=True, reason="it is better")

    def train(_order: TrainingOrder) -> Trained | TrainingFailed:
        return Trained(MODEL.to_bytes(), proof)

    monkeypatch.setattr(learn_pool, "__kwdefaults__", {"only_due": False, "trainer": train})
    code, said, fault = run("learn", "now", "--json")
    assert code == 0, fault
    version = json.loads(said)["version"]
    assert run("learn", "now", "--scheduled")[1] == "", "it is not due"
    _, shown, _ = run("learn", "show", version)
    assert "names 18 of 20 unwanted, 0 of 20 wanted; loss 0.300" in shown
    described = json.loads(run("learn", "show", str(version), "--json")[1])
    assert (described["state"], described["figures"]["reports"], described["messages"]) == ("current", 200, [])
    assert "current" in run("learn", "list")[1]
    assert f"Model {version} is withdrawn" in run("learn", "rollback")[1]
    assert run("learn", "rollback")[0] == 1
    assert run("learn", "show", "99")[0] == 1
