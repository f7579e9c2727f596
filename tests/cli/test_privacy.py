"""`gatepost privacy` as a person uses it: what is found, what goes, what stays, and a kill in the middle."""

import json
import stat
from pathlib import Path
from typing import Any

import pytest
from tests.command_line import run_command
from tests.data_folders import with_store

from gatepost.analysis.report import Report
from gatepost.cli import privacy_steps
from gatepost.cli.privacy_steps import Choices, PersonalData
from gatepost.ids import new_id
from gatepost.lists.catalogue import BY_NAME
from gatepost.mail.message import Envelope
from gatepost.store import privacy
from gatepost.store.audit import CLI, AuditFilter
from gatepost.store.lists import NewEntry
from gatepost.store.message_records import MessageRecord
from gatepost.store.privacy import Person
from gatepost.store.store import Store
from gatepost.textmodel.model import save_feedback

ANN = "ann@example.org"


@pytest.fixture
def data(data: Path) -> Path:
    """A deployment that knows Ann: two results, a held message, a list entry, a user, mail to learn from."""

    async def fill(store: Store) -> None:
        for sender, recipients in (("bob@x.example", (ANN,)), (ANN, ("carol@x.example",))):
            report = Report("spam", "quarantine", (), 700, "it adds up", senders=(sender,))
            record = MessageRecord(new_id(), 1, 2, Envelope(sender, recipients), 5, "ab" * 32, report)
            await store.messages.record(record)
            await store.quarantine.hold(record)
        await store.lists.add(None, BY_NAME["blocked-senders"], [NewEntry(ANN, ANN, f"asked by {ANN}")], CLI)
        await store.users.create(ANN, "analyst", None, "hash", CLI)
        await store.users.save_search("somebody", "/messages", "hers", "q=ann%40example.org")
        await store.message_notes.add([(new_id(), None)], f"{ANN} asked for it", CLI)
        work = await store.bulk_actions.create("somebody", "release", [new_id()])
        await store.bulk_actions.add_results(work.id, [f"550 {ANN}: no such user"])

    with_store(data, fill)
    save_feedback(data, b"To: Ann@example.org\r\n\r\nx\r\n", wanted=True)
    save_feedback(data, b"To: joann@example.org\r\n\r\nx\r\n", wanted=True)
    return data


def run(data: Path, *words: object, code: int = 0) -> str:
    ended, out, err = run_command("privacy", *words, "--data", data)
    assert ended == code, err
    return out if code == 0 else err


def test_export_and_erase(data: Path, tmp_path: Path) -> None:
    whole = json.loads(run(data, "export", "Ann@Example.org", "--json"))
    found = dict.fromkeys(("lists", "comments", "users", "training", "searches", "notes", "work"), 1)
    found |= {"messages": 2, "held": 2, "audit": 3, "history": 0, "recipients": 0, "settings": 0}
    assert whole["found"] == found
    assert {item["kind"] for item in whole["items"]} == {kind for kind, count in found.items() if count}
    output = tmp_path / "ann.ndjson"
    assert "Results on record" in run(data, "export", ANN, "--output", output)
    assert stat.S_IMODE(output.stat().st_mode) == 0o600
    assert len(output.read_text().splitlines()) == len(whole["items"])
    assert "cannot be written" in run(data, "export", ANN, "--output", output, code=1)

    assert "--yes" in run(data, "erase", ANN, code=1)
    assert "not an address" in run(data, "erase", "ann", "--yes", code=2)
    trial = json.loads(run(data, "erase", ANN, "--dry-run", "--json"))
    assert {kind: tally["found"] for kind, tally in trial["kinds"].items()} == found
    assert json.loads(run(data, "export", ANN, "--json"))["found"] == found

    done = json.loads(run(data, "erase", ANN, "--yes", "--json"))["kinds"]
    assert done["messages"] == {"found": 2, "deleted": 2, "changed": 0, "kept": 0, "unreadable": 0}
    assert done["held"] == {"found": 2, "deleted": 1, "changed": 0, "kept": 1, "unreadable": 0}
    assert done["lists"]["kept"] == done["users"]["kept"] == done["comments"]["changed"] == 1
    assert done["training"]["deleted"] == done["searches"]["deleted"] == done["work"]["changed"] == 1
    assert done["notes"]["deleted"] == 1
    assert len(list((data / "feedback").rglob("*.eml"))) == 1

    text = run(data, "erase", ANN, "--yes", "--lists", "--users", "--held")
    assert "The pseudonym is erased-" in text
    again = json.loads(run(data, "erase", ANN, "--yes", "--json"))["kinds"]
    assert all(
        tally == {"found": 0, "deleted": 0, "changed": 0, "kept": 0, "unreadable": 0} for tally in again.values()
    )
    assert ANN.encode() not in _read_rows(data)


def _read_rows(data: Path) -> bytes:
    """Every row of every table, as text; packed values are looked at by the erasure itself."""

    async def dump(store: Store) -> bytes:
        trail = await store.audit.page(AuditFilter(), limit=1_000)
        return repr((trail.rows, await store.users.all())).encode()

    return with_store(data, dump)


class Killed(Exception):  # noqa: N818  an outcome, not a fault
    """The process ends here."""


@pytest.mark.parametrize("survives", range(6))
def test_an_erasure_that_is_killed_is_resumed(data: Path, monkeypatch: pytest.MonkeyPatch, survives: int) -> None:
    """Each change is a transaction of its own; after any of them the erasure can be cut off."""
    monkeypatch.setattr(privacy, "STEP", 1)
    choices = Choices("erased-1@erased.invalid", lists=True, users=True, held=True)
    left = survives

    async def erase(store: Store) -> dict[str, privacy_steps.Tally]:
        whole = PersonalData(store, data, Person(ANN), choices, lambda _kind, _item: None)
        await whole.go_through()
        return whole.tallies

    async def erase_and_die(store: Store) -> None:
        change = store._engine.change

        async def dying(work: Any) -> Any:
            nonlocal left
            if left == 0:
                raise Killed
            left -= 1
            return await change(work)

        monkeypatch.setattr(store._engine, "change", dying)
        with pytest.raises(Killed):
            await erase(store)

    with_store(data, erase_and_die)
    with_store(data, erase)
    again = with_store(data, erase)
    assert all(tally.found == 0 for tally in again.values()), again
