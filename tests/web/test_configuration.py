"""The configuration in the web interface: draft, faults in place, trial, difference, publishing, the way back; tokens
of the scanning API as published changes; the checklist of the first days."""

import hashlib
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.web.conftest import REPORT, Site, new_publisher

from gatepost.abby.authenticator import Tokens
from gatepost.ids import new_id
from gatepost.mail.message import Envelope
from gatepost.settings import files
from gatepost.settings.keys import AbbySettings
from gatepost.store.audit import Actor
from gatepost.store.message_records import MessageRecord
from gatepost.web.configuration import EDITABLE, parse_value, render_value

TOKEN = "0123456789abcdef" * 4
GUARD = """scanSources: {restApi: {host: 127.0.0.1, port: 9785}}
history: {retention: 40}
delivery: {nextHop: "smtp://127.0.0.1:10026"}
policy: {file: own.toml}
"""
ABBY = f"""listen: {{host: 127.0.0.1, port: 9081}}
serviceProviders: {{core: {{hosts: ["https://127.0.0.1:9785"]}}}}
staticApiTokens: [{{name: mta, token: "{TOKEN}", permissions: [messages.read]}}]
"""
ANYBODY = Actor("cli", "somebody")
POLICY = '[verdicts.bulk]\ndecision = "deliver"\n'


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Any]:
    """A site on a node with files of its own, of which nothing is published yet; `folder` has them."""
    publisher = new_publisher(tmp_path, GUARD, ABBY)
    folder = tmp_path / "config"
    (folder / files.GUARD_FILE.parent / "own.toml").write_text(POLICY)
    made: Any = Site(tmp_path / "site", publisher=publisher)
    made.folder = folder
    yield made
    made.stop()


def revision(page: str) -> str:
    found = re.search(r'name="revision" value="(\d+)"', page)
    assert found
    return found[1]


def save(visitor: Any, **fields: str) -> str:
    """Save a draft with these values besides what the page shows; the page afterwards."""
    page = visitor.get("/configuration").text
    answer = visitor.post("/configuration", {"revision": revision(page), **fields})
    assert answer.status_code == 303, answer.text
    return str(visitor.get("/configuration").text)


def publish(visitor: Any, page: str, reason: str = "because", **more: str) -> Any:
    running = re.search(r'name="running" value="(\d+)"', page)
    fields = {"revision": revision(page), "running": running[1] if running else "0", "reason": reason, **more}
    return visitor.post("/configuration/publish", fields)


def test_from_draft_to_version_and_back(node: Any) -> None:
    visitor = node.visitor()
    first = visitor.get("/configuration").text
    assert "Nothing is published" in first
    assert 'value="40"' in first
    assert TOKEN not in first
    page = save(visitor, **{"guard.yml history.retention": "60", "policy ": POLICY.replace("deliver", "quarantine")})
    assert "history.retention" in page.partition("What the draft changes")[2].partition("Settings")[0]
    assert "+decision = &#34;quarantine&#34;" in page
    assert node.run(node.store.publishing.history()) == (), "a draft changes nothing"
    tried = visitor.post("/configuration/try")
    assert "decisions would change" in tried.text
    assert publish(visitor, page, reason="").status_code == 400
    assert node.went(publish(visitor, page, "longer")) == "/configuration published"
    version = node.run(node.store.publishing.find(1))
    assert version.info.actor == f"user:{visitor.who}"
    assert version.content.documents["guard.yml"]["history"] == {"retention": 60}
    assert version.content.files["policy/deployment.toml"].decode() == POLICY.replace("deliver", "quarantine")
    assert node.run(node.store.publishing.draft()) is None
    assert TOKEN not in str(version.content), "a version has no secret"
    second = save(visitor, **{"guard.yml history.retention": ""})
    publish(visitor, second)
    assert node.run(node.store.publishing.find(2)).content.documents["guard.yml"]["history"] == {}
    compared = visitor.get("/configuration/versions/1").text
    assert "Roll back to version 1" in compared
    assert (
        node.went(visitor.post("/configuration/versions/1/roll-back", {"running": "2"})) == "/configuration rolled-back"
    )
    assert node.run(node.store.publishing.rollout()).wanted == 3
    assert node.run(node.store.publishing.find(3)).content == version.content
    assert "(content of version 1)" in visitor.get("/configuration").text


def test_the_policy_of_outbound_mail_is_one_of_them(node: Any) -> None:
    """It is there where mail is outbound, and a trial judges such mail by it."""
    assert "Outbound mail" not in node.visitor().get("/configuration").text
    guard = node.folder / files.GUARD_FILE
    smtp = "smtp: {host: 127.0.0.1, port: 10025, outbound: {hosts: [192.0.2.1]}}"
    guard.write_text(GUARD.replace("port: 9785}}", f"port: 9785}}, {smtp}}}"))
    visitor = node.visitor()
    strict = '[kinds."text:urgency"]\nweight = 50\n[groups.lures]\ncap = 50\n'
    page = save(visitor, **{"policy outbound": strict})
    assert '<label for="p2">Outbound mail</label>' in page
    assert "policy/outbound.toml" in page
    now = int(time.time() * 1000)
    for outbound in (False, True):
        sent = Envelope("bob@example.com", ("ann@example.org",), outbound=outbound)
        node.run(node.store.messages.record(MessageRecord(new_id(), now, now, sent, 1, "00" * 32, REPORT)))
    assert "1 of the last 2 decisions would change." in visitor.post("/configuration/try").text
    answer = publish(visitor, page)
    assert answer.status_code == 303, re.findall('<li class="break">.*?<.li>', answer.text)
    version = node.run(node.store.publishing.find(1))
    assert version.content.files["policy/outbound.toml"] == strict.encode()
    assert version.content.documents["guard.yml"]["policy"]["outbound"] == "policy/outbound.toml"


def test_faults_stand_beside_their_settings(node: Any) -> None:
    visitor = node.visitor()
    wrong = {
        "guard.yml history.retention": "soon",
        "guard.yml stageLimit": "[1",
        "abby.yml publicUrl": "${file:/etc/passwd}",
        "abby.yml signIn.passwords": "false",
        "policy ": "[verdicts.bulk]\ndecision = 7\n",
    }
    page = save(visitor, **wrong)
    row = page.partition("<code>history.retention</code></label>")[2].partition("</tr>")[0]
    assert "must be" in row
    assert 'value="soon"' in row
    assert "must not be a reference" in page.partition("<code>publicUrl</code></label>")[2].partition("</tr>")[0]
    assert "must leave a way to sign in" in page
    assert "The draft has faults" in page
    assert "Publish for all nodes" not in page
    alone = save(visitor, **{"guard.yml history.retention": "soon"})
    assert "Publish for all nodes" not in alone, "also where every fault stands beside its setting"
    assert publish(visitor, alone).status_code == 400
    page = save(visitor, **wrong)
    assert publish(visitor, page).status_code == 400
    assert node.run(node.store.publishing.history()) == ()
    assert visitor.post("/configuration/try").status_code == 400
    gone = visitor.post("/configuration/discard", {"revision": revision(page)})
    assert node.went(gone) == "/configuration draft-discarded"
    assert 'value="40"' in visitor.get("/configuration").text


def test_only_some_settings_can_be_changed_here(node: Any) -> None:
    visitor = node.visitor()
    page = save(visitor, **{"guard.yml delivery.nextHop": "smtp://evil.example:25", "abby.yml staticApiTokens": "[]"})
    assert "Nothing differs" in page
    keys = [key for each in EDITABLE.values() for key in each]
    reaching = [key for key in keys if re.search(r"(?i)file|path|folder|host|secret|token|hop|openid|url", key)]
    assert reaching == ["publicUrl"], "nothing that names a file, a host or a secret"


def test_two_administrators_do_not_overwrite_each_other(node: Any) -> None:
    ann, bob = node.visitor(), node.enter(node.new_user("administrator"))
    page = save(ann, **{"guard.yml history.retention": "60"})
    assert node.went(bob.post("/configuration", {"revision": "0", "guard.yml history.retention": "9"})).endswith(
        "draft-changed"
    )
    newer = save(bob, **{"guard.yml history.retention": "61"})
    assert node.went(publish(ann, page)).endswith("draft-changed")
    assert node.went(publish(bob, newer)).endswith("published")
    page = save(ann, **{"guard.yml history.retention": "62"})
    node.run(
        node.store.publishing.publish(node.run(node.store.publishing.find(1)).content, "x", "from elsewhere", ANYBODY)
    )
    assert node.went(publish(ann, page)).endswith("draft-changed"), "the version beneath has changed"
    assert node.run(node.store.publishing.rollout()).wanted == 2


def test_other_roles_and_tenants_do_not_see_it(node: Any) -> None:
    tenant = node.new_tenant()
    assert node.visitor("analyst").get("/configuration").status_code == 403
    assert node.visitor("administrator", tenant).get("/configuration").status_code == 403
    auditor = node.visitor("auditor")
    assert "Save draft" not in auditor.get("/configuration").text
    for path in ("", "/publish", "/discard", "/try", "/versions/1/roll-back"):
        assert auditor.post(f"/configuration{path}", {"revision": "0"}).status_code == 403
    assert auditor.post("/tokens", {"name": "x"}).status_code == 403


def test_a_token_is_made_and_revoked_as_a_version(node: Any) -> None:
    visitor = node.visitor()
    assert "<strong>mta</strong>" in visitor.get("/tokens").text
    made = visitor.post("/tokens", {"name": "<b>border", "messages.search": "1"})
    found = re.search(r'id="secret">([0-9a-f]{64})<', made.text)
    assert found
    token = found[1]
    assert token not in visitor.get("/tokens").text
    version = node.run(node.store.publishing.find(1))
    assert version.info.reason == "API token <b>border made"
    assert token not in str(version.content)
    stated = AbbySettings.model_validate(version.content.documents["abby.yml"], context={"folder": node.folder})
    tokens = Tokens(stated.static_api_tokens)
    border, old = tokens.find(token.encode()), tokens.find(TOKEN.encode())
    assert border
    assert old
    assert (border.name, border.permissions) == ("<b>border", frozenset({"messages.search"}))
    assert old.name == "mta", "whoever has the token of the file goes on using it"
    assert tokens.find(hashlib.sha256(token.encode()).hexdigest().encode()) is None, "the hash is no token"
    for name in ("<b>border", "", "${file:/etc/passwd}", "a\u202eb"):
        assert visitor.post("/tokens", {"name": name}).status_code == 400
    assert visitor.post("/tokens/revoke", {"name": "nobody"}).status_code == 404
    assert node.went(visitor.post("/tokens/revoke", {"name": "<b>border"})) == "/tokens token-revoked"
    assert "border" not in visitor.get("/tokens").text
    assert len(node.run(node.store.publishing.history())) == 2


def test_the_last_use_of_a_token_is_shown(node: Any) -> None:
    visitor = node.visitor()
    assert re.search(r"mta</strong>.*?Last used[^>]*>never<", visitor.get("/tokens").text, re.DOTALL)
    node.run(node.store.api_keys._set_token_use("mta", 1_790_000_000_000, "2001:db8::7"))
    page = visitor.get("/tokens").text
    assert '<time datetime="2026-09-21' in page
    assert "from 2001:db8::7" in page
    node.run(node.store.api_keys._set_token_use("fresh", 1_700_000_000_000, "192.0.2.1"))
    visitor.post("/tokens", {"name": "fresh"})
    again = visitor.get("/tokens").text
    assert "192.0.2.1" not in again, "that was another token of the same name, before this one was made"


def test_files_that_cannot_be_published_are_said(node: Any) -> None:
    path = node.folder / files.ABBY_FILE
    path.write_text(path.read_text().replace(TOKEN, "short"))
    page = node.visitor().get("/configuration").text
    assert "cannot be published yet" in page
    assert "is a secret in clear" in page
    assert node.visitor().post("/tokens", {"name": "x"}).status_code == 400


def test_the_checklist_goes_when_it_is_done_or_dismissed(node: Any) -> None:
    visitor = node.visitor()
    page = visitor.get("/").text
    assert "First steps" in page
    assert 'href="/lists/global/own-domains"' in page
    assert "First steps" not in node.visitor("auditor").get("/").text
    node.message()
    tick = "done</span> Connect a mail server"
    assert tick in visitor.get("/").text
    assert visitor.post("/checklist/dismiss", {"name": "nothing"}).status_code == 404
    visitor.post("/checklist/dismiss", {"name": "retention"})
    assert "how long results" not in visitor.get("/").text
    visitor.post("/checklist/dismiss", {"name": "all"})
    assert "First steps" not in visitor.get("/").text


@pytest.mark.parametrize("value", [7, True, "text", "7", "true", "a: b", [], ["administrator"], "- x", "ü"])
def test_values_come_back_as_they_were(value: Any) -> None:
    assert parse_value(render_value(value)) == value
