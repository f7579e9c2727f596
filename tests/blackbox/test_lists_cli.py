"""`gatepost lists` as a client of a running List API."""

import io
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gatepost.analysis.report import Report
from gatepost.cli import main
from gatepost.cli.deployment import Deployment
from gatepost.cli.try_change import run_waiting_look_backs
from gatepost.ids import new_id
from gatepost.lists.rulings import Subject
from gatepost.mail.message import Envelope
from gatepost.store.message_records import MessageRecord
from gatepost.times import now

# The service runs in this very process, and writes to the same place.
SERVICE_LOG = re.compile(r"^\d{4}-\d\d-\d\d [\d:]{8} \[.*\n", re.MULTILINE)
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(
    lists: Any, tenant: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Run:
    """`run("show", "blocked-urls")` with this service, its key, and the test's tenant."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GATEPOST_API_KEY", lists.key)
    monkeypatch.setenv("GATEPOST_DATA", str(tmp_path / "none"))
    options = ["--url", lists.url, "--cacert", lists.ca, "--tenant", tenant]

    def called(*arguments: object, stdin: bytes = b"") -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["gatepost", "lists", *map(str, arguments), *options])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        code = 0
        try:
            main()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 0
        printed = capsys.readouterr()
        return code, SERVICE_LOG.sub("", printed.out), printed.err

    return called


def names(lists: Any, name: str, tenant: str) -> list[str]:
    return [line["entry"] for line in lists.entries(name, tenant)]


def test_add_show_delete(run: Run, lists: Any, tenant: str, tmp_path: Path) -> None:
    stated = ("--comment", "\x1b[31mred", "--expires", "2040-01-01")
    added = run("add", "blocked-senders", "Mal@Bad.example", "eve.example", *stated)
    assert added == (0, "2 of 2 entries added or updated.\n", "")
    out = run("show", "blocked-senders")[1]
    assert "mal@bad.example" in out
    assert "2040-01-02T00:00:00.000Z" in out
    assert "\x1b" not in out
    lines = [json.loads(line) for line in run("show", "blocked-senders", "--json")[1].splitlines()]
    assert [line["comment"] for line in lines] == ["\x1b[31mred"] * 2
    assert "more than 1;" in run("show", "blocked-senders", "--limit", "1")[1]
    (line,) = run("show", "blocked-senders", "--contains", "BAD.ex", "--json")[1].splitlines()
    assert json.loads(line)["entry"] == "mal@bad.example"
    assert run("show", "blocked-senders", "--contains", "31MRED", "--json")[1].count("\n") == 2, "comments as well"
    assert run("show", "blocked-senders", "--contains", "nothing", "--json") == (0, "", "")
    assert (
        run("delete", "blocked-senders", "-", stdin=b"eve.example\nnobody.example\n")[1] == "1 of 2 entries deleted.\n"
    )
    assert names(lists, "blocked-senders", tenant) == ["mal@bad.example"]
    assert "blocked-phrases" in run("list")[1]
    assert json.loads(run("list", "--json")[1])[0]["listName"] == "blocked-senders"


def test_a_dry_run_changes_nothing(run: Run, lists: Any, tenant: str) -> None:
    _, out, _ = run("add", "blocked-phrases", "wire it", "--dry-run")
    assert "not known" in out
    assert "Nothing was changed. 1 of 1 entries would change" in out
    trial = json.loads(run("add", "blocked-urls", "a.example", "--dry-run", "--json")[1])["dryRun"]
    assert trial["entries"] == [{"entry": "a.example", "wouldHit": 0, "wouldFlip": 0}]
    assert names(lists, "blocked-urls", tenant) == []


def test_a_long_file_goes_in_comes_out_and_goes_away(run: Run, lists: Any, tenant: str, tmp_path: Path) -> None:
    every = [f"h{number:04}.example" for number in range(1_230)]
    (tmp_path / "in.txt").write_text("# feed\n" + "\n".join(every))
    assert run("import", "blocked-urls", "in.txt")[1] == "1,230 of 1,230 entries added or updated.\n"
    assert run("export", "blocked-urls", "out.csv") == (0, "", "")
    assert (tmp_path / "out.csv").read_text().splitlines()[:2] == ["entry,comment,expires", "h0000.example,,"]
    assert run("export", "blocked-urls", "--format", "plain")[1].splitlines() == every
    result = json.loads(run("import", "blocked-urls", "out.csv", "--delete", "--json")[1])
    assert (result["entries"], result["modifiedEntries"]) == (1_230, 1_230)
    assert run("import", "blocked-urls", "-", "--format", "ndjson", stdin=b'{"entry": "z.example"}')[0] == 0
    assert names(lists, "blocked-urls", tenant) == ["z.example"]
    assert {path.name for path in tmp_path.iterdir()} == {"in.txt", "out.csv"}


def test_patterns_over_file_names_go_in_and_come_out(run: Run, lists: Any, tenant: str, tmp_path: Path) -> None:
    """A name can have ` # ` in it, which stands before a comment in files for other lists."""
    (tmp_path / "in.txt").write_text("Invoice # 7*.iso\n*.pdf.exe\tINC-7\n")
    assert run("import", "blocked-file-names", "in.txt")[1] == "2 of 2 entries added or updated.\n"
    exported = run("export", "blocked-file-names", "--format", "plain")[1]
    assert exported.splitlines() == ["*.pdf.exe", "invoice # 7*.iso"]
    assert "too wide" in run("add", "blocked-file-names", "*.*")[2]
    assert run("import", "blocked-file-names", "-", "--delete", stdin=exported.encode())[0] == 0
    assert names(lists, "blocked-file-names", tenant) == []


def test_lines_that_a_list_refuses(run: Run, lists: Any, tenant: str, tmp_path: Path) -> None:
    lines = [f"h{number}.example" for number in range(600)]
    lines[550], lines[570] = "co.uk", "a b c"
    (tmp_path / "in.txt").write_text("\n".join(lines))
    code, _, err = run("import", "blocked-urls", "in.txt")
    assert code == 1
    assert "line 551, 'co.uk': is too wide" in err
    assert "line 571, 'a b c': " in err
    assert "continue with --from-line 501" in err
    assert len(names(lists, "blocked-urls", tenant)) == 500
    code, out, err = run("import", "blocked-urls", "in.txt", "--skip-invalid", "--from-line", "501")
    assert (code, out) == (0, "98 of 98 entries added or updated.\n")
    assert "Skipped: line 551" in err
    assert len(names(lists, "blocked-urls", tenant)) == 598


def test_an_import_goes_on_from_its_state(run: Run, lists: Any, tenant: str, tmp_path: Path) -> None:
    lines = [f"h{number:04}.example" for number in range(700)]
    (tmp_path / "in.txt").write_text("\n".join([*lines[:600], "*", *lines[600:]]))
    assert run("import", "blocked-urls", "in.txt", "--state", "state")[0] == 1
    assert json.loads((tmp_path / "state").read_text())["lines"] == 500
    lists.call("deleteEntries", {"listName": "blocked-urls", "entries": lines[:10], "tenantUid": tenant})
    assert run("import", "blocked-urls", "in.txt", "--state", "state", "--from-line", "9")[0] == 1
    code, out, _ = run("import", "blocked-urls", "in.txt", "--state", "state", "--skip-invalid")
    assert (code, out) == (0, "200 of 200 entries added or updated.\n")
    assert names(lists, "blocked-urls", tenant) == lines[10:], "what was acknowledged is not sent again"
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["add", "no-such-list", "a.example"], "(404 list_not_found)"),
        (["add", "blocked-urls", "*"], "line 1, '*': would match everything"),
        (["import", "blocked-urls", "none.txt"], "none.txt: no such file or directory."),
        (["export", "no-such-list", "out"], "list_not_found"),
    ],
)
def test_faults_are_sentences(run: Run, tmp_path: Path, arguments: list[str], words: str) -> None:
    code, out, err = run(*arguments)
    assert (code, out) == (1, "")
    assert words in err
    assert "Traceback" not in err
    assert list(tmp_path.iterdir()) == []


def test_a_wrong_key_is_a_sentence(run: Run, lists: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gatepost.abby.authenticator.FREE_GUESSES", 1_000_000)
    (tmp_path / "key").write_text(f"{lists.key}x\n")
    code, _, err = run("list", "--key-file", "key")
    assert code == 1
    assert "(401 unauthorized)" in err
    assert lists.key not in err


def test_entries_of_the_api_wait_for_a_look_back(run: Run, lists: Any, tenant: str, tmp_path: Path) -> None:
    """They wait with the call that adds them; lists that block nothing do not."""
    (tmp_path / "abby/abby").mkdir(parents=True)
    core = {"core": {"hosts": ["https://127.0.0.1:9785"]}}
    stated = {"serviceProviders": core, "storage": {"url": lists.storage}, "lists": {"lookBack": 3}}
    (tmp_path / "abby/abby/abby.yml").write_text(json.dumps(stated))
    report = Report("clean", "deliver", (), 0, "", subject="Hi", subjects=(Subject("link", "https://q.example/", "1"),))
    envelope = Envelope("x@x.example", ("bob@rcpt.example",), tenant=tenant)
    record = MessageRecord(new_id(), now(), now(), envelope, 1, "00" * 32, report)
    lists.run(lists.store.messages.record(record))
    for name, entry in (("blocked-urls", "q.example"), ("blocked-urls", "r.example"), ("allowed-urls", "s.example")):
        assert run("add", name, entry)[0] == 0
    found = [
        each
        for each in run_waiting_look_backs(Deployment(config=tmp_path, data=lists.folder))
        if each["tenantUid"] == tenant
    ]
    assert found == [{"list": "blocked-urls", "tenantUid": tenant, "entries": 2, "considered": 1, "found": 1}]
    (kept,) = lists.run(lists.store.look_backs.of_list(tenant, "blocked-urls"))
    assert kept.hits == ((record.ggrid, "q.example"),)
    assert run_waiting_look_backs(Deployment(config=tmp_path, data=lists.folder)) == []
