"""The audit trail over HTTP: what is on it, values before and after, links, files, and whose it is."""

import ast
import csv
import io
import time
from pathlib import Path
from typing import Any, get_args

import httpx
import msgspec

import gatepost
from gatepost.lists.catalogue import BY_NAME
from gatepost.store.audit import CLI, NotedAction
from gatepost.store.lists import NewEntry
from gatepost.web.pages.audit import LIST_ACTIONS, SENTENCES, join_steps, shorten_ids


def wait_for(site: Any, tenant: str, action: str) -> Any:
    """What is written after an answer comes a moment later."""
    for _ in range(600):
        if found := site.trail(scope=tenant, action=action):
            return found[0]
        time.sleep(0.05)
    raise AssertionError(f"{action} is not on record")


def test_sign_ins_failures_and_lockouts(site: Any, tenant: str) -> None:
    name = site.new_user("analyst", tenant)
    site.enter(name)
    signed_in = site.trail(scope=tenant, action="user.signIn")[0]
    assert (signed_in.actor.label, signed_in.sample) == (f"user:{name}", ("127.0.0.1",))
    assert site.trail(scope=tenant, action="session.") == [], "signing in ends no session"
    fields = {"name": name, "password": "wrong"}
    answers = [httpx.post(f"{site.url}/sign-in", data=fields, trust_env=False) for _ in range(6)]
    assert {answer.status_code for answer in answers} <= {401, 429}
    failed = wait_for(site, tenant, "user.signInFailed")
    assert (failed.actor.name, failed.sample) == (name, ("127.0.0.1", "wrong password"))
    assert wait_for(site, tenant, "user.lockedOut").sample[1].startswith("until ")


def test_readings_exports_and_trials_are_on_record(site: Any, tenant: str) -> None:
    visitor = site.visitor("analyst", tenant)
    ggrid = site.message(tenant, held=True)
    visitor.get(f"/messages/{ggrid}")
    visitor.get(f"/messages/{ggrid}/picture/0")
    visitor.get("/messages/export?format=csv&subject=act")
    visitor.get(f"/lists/{tenant}/blocked-senders/export?format=csv")
    visitor.post("/policy", {"text": "[weights]", "scope": tenant})
    visitor.upload("/scan", "m.eml", b"Subject: x\r\n\r\ny\r\n")
    done = [record.action for record in reversed(site.trail(scope=tenant)) if record.action != "user.signIn"]
    wanted = ["quarantine.view", "quarantine.view", "messages.export", "list.export", "policy.trial", "message.trial"]
    assert done[-6:] == wanted
    delivered = site.message(tenant)
    visitor.get(f"/messages/{delivered}")
    assert site.trail(scope=tenant)[0].action == "message.trial", "a message that is not held is not read"


def test_every_entry_with_its_value_before_and_after(site: Any, tenant: str) -> None:
    senders = BY_NAME["blocked-senders"]
    added = [NewEntry(f"a{number}@b.example", f"a{number}@b.example", "one") for number in range(71)]
    site.run(site.store.lists.add(tenant, senders, added, CLI))
    time.sleep(0.002)
    changed = [NewEntry("a1@b.example", "a1@b.example", "two"), NewEntry("new@b.example", "new@b.example")]
    site.run(site.store.lists.add(tenant, senders, [*changed, added[2]], CLI))
    site.run(site.store.lists.remove(tenant, "blocked-senders", ["a1@b.example"], CLI))
    deleted, changes, first = (
        site.run(site.store.audit.changes(row.id))[1] for row in site.trail(scope=tenant, action="entries.")
    )
    assert len(first) == 71
    assert [(each.what, each.before, each.after) for each in changes] == [
        ("a1@b.example", "one", "two"),
        ("new@b.example", None, "no comment"),
    ]
    assert [(each.what, each.before, each.after) for each in deleted] == [("a1@b.example", "two", None)]
    visitor = site.visitor("auditor", tenant)
    page = visitor.get(f"/audit/{site.trail(scope=tenant, action='entries.')[1].id}").text
    assert '<td data-name="Before" class="break">one</td>' in page
    other = site.visitor("auditor", site.new_tenant())
    assert other.get(f"/audit/{site.trail(scope=tenant)[0].id}").status_code == 404
    assert visitor.get("/audit/x").status_code == 404


def test_links_files_and_their_own_record(site: Any, tenant: str) -> None:
    ggrid = site.message(tenant, held=True)
    analyst, auditor = site.visitor("analyst", tenant), site.visitor("auditor", tenant)
    analyst.post(f"/messages/{ggrid}/delete")
    site.run(site.store.audit.note("message.trial", CLI, tenant, sample=["=cmd|calc"]))
    page = auditor.get("/audit?action=quarantine.").text
    assert f'href="/messages/{ggrid}"' in page
    file = auditor.get("/audit/export?format=csv")
    rows = list(csv.DictReader(io.StringIO(file.text)))
    assert {row["tenantUid"] for row in rows} == {tenant}
    assert next(row["sample"] for row in rows if row["action"] == "message.trial") == "'=cmd|calc"
    assert ggrid in next(row["sample"] for row in rows if row["action"] == "quarantine.delete")
    as_json = auditor.get("/audit/export?format=json&action=quarantine.delete").json()
    assert [row["sample"] for row in as_json] == [[ggrid]]
    assert site.trail(scope=tenant)[0].action == "audit.export"
    assert auditor.get("/audit/export?format=xml").status_code == 400


def written_actions() -> set[str]:
    """Every code of an action that the sources hand to the audit trail."""
    found = set()
    for path in Path(gatepost.__file__).parent.rglob("*.py"):
        text = path.read_text("utf-8")
        for call in ast.walk(ast.parse(text)) if "write_audit(" in text else ():
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "write_audit":
                codes = [each.value for each in call.args if isinstance(each, ast.Constant)]
                found |= {code for code in codes if isinstance(code, str) and "." in code}
    return found


def test_every_action_has_words() -> None:
    assert len(written_actions()) > 30
    made = {f"recipientEntries.{says}" for says in ("allow", "block")} | written_actions()
    assert (set(get_args(NotedAction)) | LIST_ACTIONS.keys() | made) - SENTENCES.keys() == set()


def test_calls_of_one_step_are_one_line(site: Any, tenant: str) -> None:
    senders = BY_NAME["blocked-senders"]
    for start in (0, 500):
        added = [NewEntry(f"s{number}@b.example", f"s{number}@b.example") for number in range(start, start + 500)]
        site.run(site.store.lists.add(tenant, senders, added, CLI))
    site.run(site.store.lists.remove(tenant, "blocked-senders", ["s1@b.example"], CLI))
    lines = join_steps(site.trail(scope=tenant, action="entries."))
    assert [(line.said, line.count, len(line.parts)) for line in lines] == [
        ("deleted entries of", 1, 1),
        ("added or changed entries of", 1_000, 2),
    ]
    page = site.visitor("auditor", tenant).get("/audit?action=entries.").text
    assert "added or changed entries of</a> <strong>blocked-senders</strong>" in page
    assert "<summary>2 parts</summary>" in page
    later = [msgspec.structs.replace(lines[1].record, time=lines[1].record.time + 60_000), lines[1].record]
    assert len(join_steps(later)) == 2, "a minute later is another step"


def test_a_release_that_fails_is_on_record(site: Any, tenant: str) -> None:
    user = site.visitor("analyst", tenant)
    site.run(site.store.audit.note_failed_release("AB" * 16, tenant, CLI, "the next hop said 550"))
    assert site.trail(scope=tenant, action="quarantine.releaseFailed")[0].sample == ("ab" * 16, "the next hop said 550")
    assert user.get("/audit").status_code == 403


def test_messages_are_named_by_their_subjects_and_ids_are_cut(site: Any, tenant: str) -> None:
    ggrid = site.message(tenant, held=True)
    visitor = site.visitor(tenant=tenant)
    visitor.post(f"/messages/{ggrid}/delete")
    page = visitor.get("/audit").text
    assert f'<a href="/messages/{ggrid}">Act now</a>' in page
    assert shorten_ids(f"tomas {ggrid}, auditor") == f"tomas …{ggrid[-8:]}, auditor"
