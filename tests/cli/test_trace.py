"""`gatepost trace`: messages on record of several nodes, found by what is known of them, and what is printed."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli.conftest import Run
from tests.data_folders import with_store

from gatepost.analysis.report import Report
from gatepost.ids import new_id
from gatepost.mail.message import Envelope, Receipt
from gatepost.store.message_records import Delivery, MessageRecord
from gatepost.store.store import Store
from gatepost.times import DAY, HOUR, now

TENANT = new_id()
NAME, BOB = "<1@example.org>", "bob@example.com"
HOP = "smtp://10.0.0.7:25"
ASK = "Ask the mail server before us: its log has the Message-ID, and postqueue -p shows what waits there.\n"
Add = Callable[..., str]


@pytest.fixture
def add(data: Path) -> Add:
    """Put a message on record that came over SMTP so many milliseconds ago; with the id that a next hop gave it, where
    it was delivered."""

    def added(ago: int, node: str = "mx1", recipient: str = BOB, sent: str = "") -> str:
        completed = now() - ago
        report = Report("clean", "deliver", (), 0, "", subject="Minutes\x1b[31m", message_id=NAME)
        envelope = Envelope("ann@example.org", (recipient,), tenant=TENANT)
        receipt = Receipt(node, "192.0.2.10", f"4Border{node}", 0)
        record = MessageRecord(
            new_id(), completed - 5, completed, envelope, 9, "ab" * 32, report, source="smtp", receipt=receipt
        )
        reply = Delivery(record.ggrid, completed + 5, HOP, 250, f"2.0.0 Ok: queued as {sent}", sent, node)

        async def keep(store: Store) -> None:
            await store.messages.record(record)
            await store.messages.record_deliveries([reply] if sent else [])

        with_store(data, keep)
        return record.ggrid

    return added


def trace(run: Run, *words: object) -> list[str]:
    """The ggrids that are printed, in their order."""
    code, out, _ = run("trace", *words, "--json")
    found = [each["ggrid"] for each in json.loads(out)]
    assert code == (0 if found else 1)
    return found


def test_several_hits_are_tables_in_the_order_of_time(run: Run, add: Add) -> None:
    first = add(2 * HOUR)
    second = add(HOUR, "mx2", sent="4NeXt")
    other = add(HOUR, "mx3", recipient="carla@example.com")
    code, out, _ = run("trace", "1@example.org", "--recipient", BOB)
    assert code == 0
    lines = out.splitlines()
    assert [line[:36] for line in lines if line[:1].isalnum()] == [first, second]
    assert lines[0] == f"{first}  Minutes\\x1b[31m", "a subject does not act on the terminal"
    assert lines[1] == f"  from ann@example.org to {BOB}"
    assert lines[2].split() == ["time", "node", "event", "what", "happened"]
    assert lines[3].split()[1:6] == ["mx1", "received", "Received", "over", "SMTP"]
    delivered = next(line for line in lines if " delivered " in line)
    assert delivered.split()[1] == "mx2"
    assert delivered.endswith(f"Accepted by the next hop {HOP}: 250 2.0.0 Ok: queued as 4NeXt. Its id there is 4NeXt.")
    assert " attempt " not in out, "an attempt that has a table of its own is told of once"
    _, out, _ = run("trace", second)
    assert f"came before: the decision was deliver. ({first})" in out
    assert set(trace(run, NAME)) == {first, second, other}


def test_all_ids_lead_to_a_message(run: Run, add: Add) -> None:
    ggrid = add(HOUR, sent="4NeXt")
    for known in (ggrid, ggrid.upper(), NAME, NAME.strip("<>"), "4Bordermx1", "4NeXt", BOB):
        assert trace(run, known) == [ggrid], known
        assert trace(run, known, "--tenant", new_id()) == []
    assert trace(run, NAME, "--tenant", TENANT.upper()) == [ggrid]


def test_more_than_are_shown(run: Run, add: Add) -> None:
    ggrids = [add(hours * HOUR) for hours in (3, 2, 1)]
    _, out, _ = run("trace", NAME, "--limit", 2)
    assert [line[:36] for line in out.splitlines() if line[:1].isalnum()][:2] == ggrids[1:]
    assert "The newest 2 are shown; use --limit for more." in out
    assert "are shown" not in run("trace", NAME, "--limit", 3)[1]


def test_what_nobody_knows_is_said(run: Run, add: Add) -> None:
    old = add(8 * DAY)
    code, out, _ = run("trace", NAME)
    assert (code, out[:32], out.endswith(ASK)) == (1, "No node knows this message since", True)
    assert trace(run, NAME, "--since", "2020-01-01") == trace(run, old) == [old]
    assert run("trace", new_id())[:2] == (1, f"No node knows this message. {ASK}")
    code, _, err = run("trace")
    assert code == 2
    assert "MESSAGE-ID" in err
