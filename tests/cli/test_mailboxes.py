"""`gatepost mailboxes`: nothing is done without a configuration, and every outcome has its row."""

import json
from pathlib import Path

from tests.cli.conftest import Run
from tests.data_folders import with_store

from gatepost.analysis.report import Report
from gatepost.ids import new_id
from gatepost.mail.message import Envelope
from gatepost.settings.files import ABBY_FILE
from gatepost.store.message_records import MessageRecord
from gatepost.times import now


def test_mailboxes_that_are_not_configured_or_away(run: Run, data: Path) -> None:
    report = Report("clean", "deliver", (), 0, "", message_id="<1@x.example>")
    envelope = Envelope("a@x.example", ("ann@y.example",))
    ggrid = new_id()
    record = MessageRecord(ggrid, now(), now(), envelope, 10, "ab" * 32, report)
    with_store(data, lambda store: store.messages.record(record))
    code, _, err = run("mailboxes", "remove", ggrid)
    assert code != 0
    assert err == "No mailboxes are configured: set remediation in abby.yml.\n"
    file = data / ABBY_FILE
    server = "{domains: [y.example], server: 'imaps://127.0.0.1:1', user: '{address}', password: 'long enough'}"
    file.write_text(f"{file.read_text()}\nremediation: {{servers: [{server}]}}\n")
    code, out, err = run("mailboxes", "remove", ggrid, new_id(), "--json")
    assert code == 0, err
    assert "Takes the copies of 2 messages out of mailboxes at imaps://127.0.0.1:1." in err
    one, other = json.loads(out)
    assert (one["state"], one["mailbox"]) == ("failed", "ann@y.example")
    assert one["reason"].startswith("the mailbox cannot be opened: ")
    assert (other["state"], other["reason"]) == ("failed", "it is not on record")
    code, out, _ = run("mailboxes", "list", "--json")
    (kept,) = json.loads(out)
    assert (kept["ggrid"], kept["state"]) == (ggrid, "failed")
    assert "ann" not in kept["mailbox"]
    code, out, _ = run("mailboxes", "restore", ggrid)
    assert "nothing was moved" in " ".join(out.split())
