"""What an administrator does without a server: tenants, keys, custom lists, the audit trail; and files of entries."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Run

from gatepost.api.lists import FileRecord, ListChange, ListFileFormat, NewListEntry, PublicListsEntry, format_of
from gatepost.cli import list_changes
from gatepost.cli.list_changes import read_records, render_entries
from gatepost.cli.printing import Output
from gatepost.service.data_folder import StartError

NOBODY = "0198c5a2-7c11-7d3e-9f00-00000000dead"


def test_a_key_is_printed_alone_and_once(run: Run) -> None:
    uid = run("tenant", "create", "Acme")[1].strip()
    code, secret, err = run(
        "apikey", "create", "playbook", "--tenant", uid.upper(), "--read-only", "--expires", "2099-12-31"
    )
    assert (code, err) == (0, "")
    assert secret.startswith("gp_")
    assert secret.count("\n") == 1
    (key,) = json.loads(run("apikey", "list", "--json")[1])
    assert (key["name"], key["tenantUid"], key["readOnly"]) == ("playbook", uid, True)
    assert (key["expires"], key["revoked"], key["lastUsed"]) == ("2100-01-01T00:00:00.000Z", None, None)
    assert secret.strip() not in json.dumps(key) + run("apikey", "list")[1] + run("audit", "--json")[1]
    assert json.loads(run("apikey", "list", "--tenant", NOBODY, "--json")[1]) == []
    assert run("apikey", "revoke", key["id"])[:2] == (0, "Revoked playbook.\n")
    assert json.loads(run("apikey", "list", "--json")[1])[0]["revoked"]
    made = json.loads(run("apikey", "create", "other", "--json")[1])
    assert (made["key"][:3], made["tenantUid"]) == ("gp_", None)


def test_a_tenant_has_domains_and_is_deleted_with_its_own(run: Run) -> None:
    uid = run("tenant", "create", "Acme")[1].strip()
    assert len(uid) == 36
    assert uid in run("tenant", "list")[1]
    assert run("tenant", "create", "Acme") == (1, "", "A tenant named Acme already exists.\n")
    other = run("tenant", "create", "Other")[1].strip()
    assert run("tenant", "domains", uid, "B.example", "a.example.", "Bücher.example") == (
        0,
        "a.example\nb.example\nxn--bcher-kva.example\n",
        "",
    )
    assert run("tenant", "domains", other, "a.example")[::2] == (1, "a.example belongs to another tenant.\n")
    assert json.loads(run("tenant", "domains", uid, "--json")[1])["domains"][0] == "a.example"
    assert run("tenant", "domains", uid, "--none") == (0, "\n", "")
    run("apikey", "create", "k", "--tenant", uid)
    code, printed, announced = run("tenant", "delete", uid)
    assert (code, printed) == (0, "Deleted Acme.\n")
    assert announced.startswith(f"Deletes tenant {uid} with its lists, keys, domains and results from ")
    assert [tenant["name"] for tenant in json.loads(run("tenant", "list", "--json")[1])] == ["Other"]
    assert json.loads(run("apikey", "list", "--json")[1]) == []
    actions = [record["action"] for record in json.loads(run("audit", "--tenant", uid, "--json")[1])]
    assert actions[0] == "tenant.delete"
    assert actions[-1] == "tenant.create"


def test_custom_lists(run: Run) -> None:
    uid = run("tenant", "create", "Acme")[1].strip()
    assert run("lists", "create", "ioc-feed", "--kind", "url", "--category", "block", "--tenant", uid)[0] == 0
    code, _, err = run("lists", "create", "ioc-feed", "--kind", "url", "--category", "block", "--tenant", uid)
    assert (code, "A list named ioc-feed already exists" in err) == (1, True)
    assert run("lists", "drop", "ioc-feed", "--tenant", uid)[:2] == (0, "Deleted ioc-feed with 0 entries.\n")
    assert run("lists", "drop", "blocked-senders")[0] == 1
    made = json.loads(run("lists", "create", "vips", "--kind", "person", "--category", "protect", "--json")[1])
    assert (made["listName"], made["tenantUid"], made["kind"]) == ("vips", None, "person")
    assert made["listInfo"] == {"displayName": "vips", "category": "protect", "description": "", "maxSize": 100_000}
    dropped = {"listName": "vips", "tenantUid": None, "deletedEntries": 0}
    assert json.loads(run("lists", "drop", "vips", "--json")[1]) == dropped


def test_the_audit_trail_in_time(run: Run) -> None:
    run("tenant", "create", "Acme")
    assert "tenant.create" in run("audit")[1]
    (record,) = json.loads(run("audit", "--since", "2020-01-01", "--until", "2099-01-01", "--json")[1])
    assert (record["action"], record["actor"]["kind"], record["sample"]) == ("tenant.create", "cli", ["Acme"])
    assert json.loads(run("audit", "--since", "2099-01-01", "--json")[1]) == []
    run("tenant", "create", "Other")
    assert len(json.loads(run("audit", "--limit", "1", "--json")[1])) == 1


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["apikey", "create", " "], 2, "must not be empty"),
        (["apikey", "create", "x", "--tenant", "acme"], 2, "must be the uid of a tenant"),
        (["apikey", "create", "x", "--tenant", NOBODY], 1, f"There is no tenant {NOBODY}."),
        (["apikey", "create", "x", "--expires", "soon"], 2, "must be a date"),
        (["apikey", "create", "x", "--expires", "2020-01-01"], 2, "is in the past"),
        (["apikey", "revoke", "x"], 1, "There is no key x."),
        (["tenant", "delete", NOBODY], 1, f"There is no tenant {NOBODY}."),
        (["tenant", "domains", NOBODY], 1, f"There is no tenant {NOBODY}."),
        (["tenant", "domains", NOBODY, "not a domain"], 2, "is not a host name"),
        (["lists", "create", "Bad Name", "--kind", "url", "--category", "block"], 2, "lower-case letters"),
        (["lists", "create", "blocked-urls", "--kind", "url", "--category", "block"], 2, "no name of a usual list"),
        (["lists", "create", "x", "--kind", "links", "--category", "block"], 2, "must be one of sender, network, url"),
        (["lists", "create", "x", "--kind", "url", "--category", "deny"], 2, "must be one of block, allow"),
        (["lists", "create", "x", "--kind", "domain", "--category", "block"], 2, "must be protect for entries of kind"),
        (["lists", "create", "x", "--kind", "url", "--category", "block", "--tenant", NOBODY], 1, "no tenant"),
        (["lists", "show", "blocked-urls"], 1, "An API key is needed"),
        (["lists", "show", "blocked-urls", "--key-file", "none"], 1, "There is no API key in none."),
        (["lists", "import", "blocked-urls", "-", "--format", "xml"], 2, "must be one of plain, csv, ndjson"),
        (["audit", "--since", "yesterday"], 2, "must be a date"),
    ],
)  # fmt: skip
def test_faults_of_the_user_are_sentences(run: Run, arguments: list[str], code: int, words: str) -> None:
    ended, _, err = run(*arguments)
    assert ended == code
    assert words in " ".join(err.replace("│", " ").split())
    assert "Traceback" not in err


def read(raw: bytes, kind: ListFileFormat) -> list[tuple[int, int, str, str | None, str | None]]:
    found = read_records(io.BytesIO(raw), kind, "file", "blocked-urls")
    return [(each.first, each.last, each.entry.entry, each.entry.comment, each.entry.expires) for each in found]


def test_formats() -> None:
    assert read(b"\xef\xbb\xbfa.example\r\n\n# note\n  b.example \n", "plain") == [
        (1, 1, "a.example", None, None),
        (4, 4, "b.example", None, None),
    ]
    assert read(b'a.example,"two\nlines",\nb.example\n,,\n', "csv") == [
        (1, 2, "a.example", "two\nlines", None),
        (3, 3, "b.example", None, None),
    ]
    assert read(b"Comment,Entry,Other\nwhy,a.example,x\n", "csv") == [(2, 2, "a.example", "why", None)]
    assert read(b'{"entry": "a", "hits": 3, "expires": "2030-01-01T00:00:00Z"}\n\n{"entry": "b"}', "ndjson") == [
        (1, 1, "a", None, "2030-01-01T00:00:00Z"),
        (3, 3, "b", None, None),
    ]
    assert [format_of(name) for name in ("a.CSV", "b.jsonl", "c.txt", "-")] == ["csv", "ndjson", "plain", "plain"]


@pytest.mark.parametrize(
    ("raw", "kind", "line"),
    [(b"a\n\xff\n", "plain", 2), (b'a,"b\n', "csv", 1), (b"{}\n", "ndjson", 1), (b'{"entry": "a"}\n[\n', "ndjson", 2)],
)
def test_a_faulty_file_names_its_line(raw: bytes, kind: ListFileFormat, line: int) -> None:
    with pytest.raises(StartError, match=rf"file, line {line}: "):
        read(raw, kind)


@pytest.mark.parametrize("kind", ["csv", "ndjson"])
def test_what_is_written_can_be_read(kind: ListFileFormat) -> None:
    time = "2030-01-01T00:00:00.000Z"
    entries = [PublicListsEntry('a "b", c', "two\nlines; =1", time, time, "key:x", time, 3, None)]
    raw = "".join(render_entries(entries, kind)).encode()
    assert [row[2:] for row in read(raw, kind)] == [('a "b", c', "two\nlines; =1", time)]


def test_a_state_belongs_to_one_import(tmp_path: Path) -> None:
    state, source = tmp_path / "state", list_changes.Source("blocked-urls", None, "feed.txt")
    assert list_changes.load_state(state, source) == 1
    list_changes.save_state(state, source, 1_500)
    assert list_changes.load_state(state, source) == 1_501
    assert [path.name for path in tmp_path.iterdir()] == ["state"]
    with pytest.raises(StartError, match="belongs to another import"):
        list_changes.load_state(state, list_changes.Source("blocked-ips", None, "feed.txt"))
    state.write_text("[]")
    with pytest.raises(StartError, match="is not the state file"):
        list_changes.load_state(state, source)


def test_calls_are_of_five_hundred(capsys: pytest.CaptureFixture[str]) -> None:
    sizes: list[int] = []
    seen: list[int] = []

    def send(call: list[FileRecord]) -> Any:
        sizes.append(len(call))
        if len(sizes) == 3:
            raise KeyboardInterrupt
        return ListChange(len(call))

    changing = list_changes.Changing(list_changes.Source("x", None, "f"), Output())
    lines = [FileRecord(n, n, NewListEntry(f"{n}.example")) for n in range(1, 1_202)]
    with pytest.raises(KeyboardInterrupt):
        list_changes.send_all(lines, send, changing, seen.append)
    assert (sizes, seen) == ([500, 500, 201], [500, 1_000])
    assert capsys.readouterr().err == "Lines up to 1,000 are done; continue with --from-line 1001.\n"
