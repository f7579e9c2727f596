"""The configuration in the web interface: draft, faults in place, trial, difference, publishing, the way back; tokens
of the scanning API as published changes; the checklist of the first days."""

import hashlib
import json
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.web.conftest import Site, find_in, new_publisher

from gatepost.abby.authenticator import Tokens
from gatepost.settings import files
from gatepost.settings.keys import AbbySettings, GuardSettings
from gatepost.settings.values import Section, find_section, is_local, list_labelled
from gatepost.store.audit import Actor
from gatepost.store.publishing import DraftContent, VersionContent
from gatepost.web.configuration import apply_draft, list_settings, parse_value, render_value

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
MODELS: dict[str, type[Section]] = {"guard.yml": GuardSettings, "abby.yml": AbbySettings}
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
    return find_in(r'name="revision" value="(\d+)"', page)


def save(visitor: Any, path: str = "/configuration", **fields: Any) -> str:
    """Save a draft with these values besides what the page shows; the page of the draft afterwards."""
    page = visitor.get(path).text
    name = path.removeprefix("/configuration").strip("/") or "settings"
    answer = visitor.post("/configuration", {"revision": revision(page), "page": name, **fields})
    assert answer.status_code == 303, answer.text
    return str(visitor.get("/configuration/draft").text)


def publish(visitor: Any, page: str, reason: str = "because", **more: str) -> Any:
    running = re.search(r'name="running" value="(\d+)"', page)
    fields = {"revision": revision(page), "running": running[1] if running else "0", "reason": reason, **more}
    return visitor.post("/configuration/publish", fields)


def control_of(page: str, name: str) -> str:
    identity = re.sub(r"[^A-Za-z0-9]+", "-", name)
    return page.partition(f'id="{identity}-help"')[2].partition("-name")[0]


def test_from_draft_to_version_and_back(node: Any) -> None:
    visitor = node.visitor()
    first = visitor.get("/configuration").text
    assert "Nothing is published" in first
    assert 'value="40"' in first
    assert TOKEN not in first
    page = save(visitor, **{"guard.yml history.retention": "60", "policy ": POLICY.replace("deliver", "quarantine")})
    assert "history.retention" in page.partition("What the draft changes")[2].partition("Publish")[0]
    assert "+decision = &#34;quarantine&#34;" in page
    assert "2 changes" in page
    assert node.run(node.store.publishing.history()) == (), "a draft changes nothing"
    tried = visitor.post("/configuration/try")
    assert "decisions would change" in tried.text
    assert publish(visitor, page, reason="").status_code == 400
    assert node.went(publish(visitor, page, "longer")) == "/configuration/versions published"
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
    assert "Roll back to 1…" in visitor.get("/configuration/versions").text
    went = node.went(visitor.post("/configuration/versions/1/roll-back", {"running": "2"}))
    assert went == "/configuration/versions rolled-back"
    assert node.run(node.store.publishing.rollout()).wanted == 3
    assert node.run(node.store.publishing.find(3)).content == version.content
    versions = visitor.get("/configuration/versions").text
    assert "(content of version 1)" in versions
    assert re.search(r"<strong>3</strong> <span class=\"badge good\">✓ current", versions)


def draft_of(node: Any) -> dict[str, str]:
    draft = node.run(node.store.publishing.draft())
    return dict(draft.content.settings) if draft else {}


def test_controls_have_units_boxes_and_words(node: Any) -> None:
    """What a page offers for a key follows from its schema; what comes back is what a file would have."""
    visitor, tenant = node.visitor(), node.new_tenant()
    page = visitor.get("/configuration").text
    size = control_of(page, "guard.yml quarantine.maxSize")
    assert 'value="20"' in size
    assert '<option value="GB" selected>GB</option>' in size
    assert '<option value="bytes"' not in size
    roles = control_of(page, "abby.yml signIn.secondFactor")
    assert roles.count('type="checkbox"') == 3
    assert tenant in control_of(page, "abby.yml signIn.secondFactorTenants")
    answer = visitor.post(
        "/configuration",
        {
            "revision": "0",
            "guard.yml quarantine.maxSize": "1.5",
            "guard.yml quarantine.maxSize unit": "GB",
            "guard.yml stageLimit": "7",
            "guard.yml stageLimit unit": "seconds",
            "abby.yml signIn.secondFactor": ["administrator", "analyst"],
            "shown": [
                "abby.yml signIn.secondFactorTenants",
                "abby.yml signIn.secondFactor",
                "guard.yml history.headers",
            ],
        },
    )
    assert node.went(answer) == "/configuration draft-saved"
    assert draft_of(node) == {
        "guard.yml quarantine.maxSize": "1610612736",
        "guard.yml stageLimit": "7000",
        "abby.yml signIn.secondFactor": '["administrator", "analyst"]',
        "guard.yml history.headers": "false",
    }
    page = visitor.get("/configuration").text
    assert "4 changes" in page
    size = control_of(page, "guard.yml quarantine.maxSize")
    assert 'value="1536"' in size
    assert "default: 20 GB" in size
    assert "● changed" in size
    assert 'name="reset" value="guard.yml quarantine.maxSize"' in size
    kept = {"guard.yml quarantine.maxSize": "1536", "guard.yml quarantine.maxSize unit": "MB"}
    visitor.post("/configuration", {"revision": "1", "reset": "guard.yml quarantine.maxSize", **kept})
    assert "guard.yml quarantine.maxSize" not in draft_of(node)
    assert "≠ default" in control_of(visitor.get("/configuration").text, "guard.yml history.retention")


def test_what_is_sent_twice_or_changes_nothing(node: Any) -> None:
    visitor = node.visitor()
    same = {"revision": "0", "guard.yml history.retention": "40"}
    assert node.went(visitor.post("/configuration", same)) == "/configuration draft-same"
    other = {"revision": "0", "guard.yml history.retention": "41"}
    assert node.went(visitor.post("/configuration", other)) == "/configuration draft-saved"
    assert node.went(visitor.post("/configuration", other)) == "/configuration draft-saved", "a second click"
    assert node.run(node.store.publishing.draft()).revision == 1
    back = {"revision": "1", "guard.yml history.retention": "40"}
    assert node.went(visitor.post("/configuration", back)) == "/configuration draft-empty"
    assert node.run(node.store.publishing.draft()) is None


def test_settings_are_searched(node: Any) -> None:
    visitor = node.visitor()
    page = visitor.get("/configuration?q=second+factor").text
    assert "Roles that need a second factor" in page
    assert "Keep results for" not in page
    assert "No setting has these words" in visitor.get("/configuration?q=nothing+at+all").text
    answer = visitor.post("/configuration", {"revision": "0", "q": "a b", "guard.yml history.retention": "9"})
    assert answer.headers["location"] == "/configuration?q=a%20b", "the search stays, and what it hid stays as it was"
    assert draft_of(node) == {"guard.yml history.retention": "9"}


def test_the_policy_of_outbound_mail_is_one_of_them(node: Any) -> None:
    """It is there where mail is outbound, and a trial judges such mail by it."""
    assert "Outbound mail" not in node.visitor().get("/configuration/policies").text
    guard = node.folder / files.GUARD_FILE
    smtp = "smtp: {host: 127.0.0.1, port: 10025, outbound: {hosts: [192.0.2.1]}}"
    guard.write_text(GUARD.replace("port: 9785}}", f"port: 9785}}, {smtp}}}"))
    visitor = node.visitor()
    strict = '[kinds."text:urgency"]\nweight = 50\n[groups.lures]\ncap = 50\n'
    page = save(visitor, **{"policy outbound": strict})
    assert '<label for="p2">Outbound mail</label>' in visitor.get("/configuration/policies").text
    assert "policy/outbound.toml" in page
    for outbound in (False, True):
        node.message(sender="bob@example.com", recipients=("ann@example.org",), outbound=outbound)
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
    settings = visitor.get("/configuration").text
    row = control_of(settings, "guard.yml history.retention")
    assert "Write a number, such as 30 days." in row
    assert 'value="soon"' in row
    assert "Write a number, such as 5 seconds." in control_of(settings, "guard.yml stageLimit")
    assert "ust not be a reference" in control_of(settings, "abby.yml publicUrl")
    assert "must leave a way to sign in" in page
    assert "The draft has faults" in page
    assert "Publish for all nodes" not in page
    alone = save(visitor, **{"guard.yml history.retention": "soon"})
    assert "Publish for all nodes" not in alone, "also where every fault stands beside its setting"
    small = save(visitor, **{"guard.yml quarantine.maxSize": "5", "guard.yml quarantine.maxSize unit": "MB"})
    assert "Publish for all nodes" not in small
    settings = visitor.get("/configuration").text
    assert "Must be at least 64 MB." in control_of(settings, "guard.yml quarantine.maxSize"), "in units of the page"
    assert publish(visitor, small).status_code == 400
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
    assert "There is no draft" in page, "a page takes only what it shows"
    documents: Any = {"guard.yml": {"scanSources": {"smtp": {}}}, "abby.yml": {}}
    settings = list_settings(VersionContent(documents, {})).values()
    keys = [f"{each.key}{inner}" for each in settings for inner in labelled_below(each.field)]
    assert len(keys) > 40
    reaching = [key for key in keys if re.search(r"(?i)file|path|folder|secret|token|openid|url|password$|key", key)]
    assert reaching == ["publicUrl", "publicUrl"], "nothing that names a file or a secret"
    assert not [each.key for each in settings if is_local(MODELS[each.file], each.key)], "nothing of one machine"
    for text in ('{"a": "${file:/etc/passwd}"}', '["${env:HOME}"]', "${file:/etc/passwd}"):
        _, faults = apply_draft(
            VersionContent({"guard.yml": {}}, {}), DraftContent({"guard.yml delivery.routes": text})
        )
        assert [each.sentence for each in faults] == ["must not be a reference to a file or the environment here"]


def labelled_below(field: Any) -> list[str]:
    """What a page changes below a key: what it changes of each section of a list, or else the key itself."""
    section = find_section(field.annotation)[0]
    return [f".{each.alias}" for each in list_labelled(section)] if section else [""]


def test_two_administrators_do_not_overwrite_each_other(node: Any) -> None:
    ann, bob = node.visitor(), node.enter(node.new_user("administrator"))
    page = save(ann, **{"guard.yml history.retention": "60"})
    late = {"revision": "0", "guard.yml history.retention": "9"}
    assert node.went(bob.post("/configuration", late)).endswith("draft-changed")
    newer = save(bob, **{"guard.yml history.retention": "61"})
    assert node.went(publish(ann, page)).endswith("draft-changed")
    assert node.went(publish(bob, newer)).endswith("published")
    page = save(ann, **{"guard.yml history.retention": "62"})
    content = node.run(node.store.publishing.find(1)).content
    node.run(node.store.publishing.publish(1, content, "from elsewhere", ANYBODY))
    assert node.went(publish(ann, page)).endswith("draft-changed"), "the version beneath has changed"
    assert node.run(node.store.publishing.rollout()).wanted == 2


def test_other_roles_and_tenants_do_not_see_it(node: Any) -> None:
    tenant = node.new_tenant()
    auditor = node.visitor("auditor")
    for page in ("", "/routes", "/recipients", "/limits", "/policies", "/draft", "/versions"):
        shown = auditor.get(f"/configuration{page}").text.replace('aria-hidden="true">Save', "")
        assert "Save draft</button>" not in shown
        answer = node.visitor("administrator", tenant).get(f"/configuration{page}")
        assert "It is for administrators of the whole deployment" in answer.text, "who may is said"


ROUTES, HOP, RULES = "guard.yml delivery.routes", "guard.yml delivery.nextHop", "guard.yml recipientVerification.rules"


def test_a_route_from_its_form_to_a_version(node: Any) -> None:
    visitor = node.visitor()
    assert "Add: route" in visitor.get("/configuration/routes").text
    fields: dict[str, Any] = {
        f"{ROUTES}[0].domains": "example.com\r\n*.example.org",
        f"{ROUTES}[0].nextHop": "smtp://mx.example.com:25\r\nlmtp://[2001:db8::1]:24",
        f"{ROUTES}[0].tls": "required",
        f"{ROUTES}[0].timeout": "2",
        f"{ROUTES}[0].timeout unit": "minutes",
        "shown": [ROUTES, f"{ROUTES}[0]"],
    }
    save(visitor, "/configuration/routes", **fields)
    (route,) = json.loads(draft_of(node)[ROUTES])
    save(visitor, "/configuration/routes", shown=ROUTES)
    assert json.loads(draft_of(node)[ROUTES]) == [route], "a route that the page has not shown stays"
    second = [ROUTES, f"{ROUTES}[1]"]
    save(visitor, "/configuration/routes", shown=second, **{f"{ROUTES}[1].nextHop": "a b"})
    page = visitor.get("/configuration/routes").text
    assert "smtp://mx.example.com:25, lmtp://[2001:db8::1]:24" in page
    wrong = control_of(page, f"{ROUTES}[1].nextHop")
    assert ">a b</textarea>" in wrong, "what was typed is shown again"
    assert "Must be" in wrong, "and what is wrong with it"
    assert "needs domains or tenants" not in page
    save(visitor, "/configuration/routes", shown=second, **{f"{ROUTES}[1].nextHop": "smtp://b.example:25"})
    page = visitor.get("/configuration/routes").text
    assert "Needs domains or tenants: no mail would take it." in page, "beside the route whose keys are right"
    assert visitor.post("/configuration/connections", {}).text.count("Nothing was sent") == 0
    save(visitor, "/configuration/routes", shown=ROUTES, up=f"{ROUTES}[1]")
    assert json.loads(draft_of(node)[ROUTES])[1]["domains"] == ["example.com", "*.example.org"]
    save(visitor, "/configuration/routes", shown=ROUTES, remove=f"{ROUTES}[0]")
    shares = {HOP: "smtp://a.example:25 3\r\nsmtp://b.example"}
    page = save(visitor, "/configuration/routes", shown=HOP, **shares)
    assert "smtp://a.example:25 3\nsmtp://b.example 1" in control_of(visitor.get("/configuration/routes").text, HOP)
    assert "2 changes" in page
    assert node.went(publish(visitor, page)).endswith("published")
    delivery = node.run(node.store.publishing.find(1)).content.documents["guard.yml"]["delivery"]
    assert delivery["routes"] == [
        {
            "domains": ["example.com", "*.example.org"],
            "nextHop": ["smtp://mx.example.com:25", "lmtp://[2001:db8::1]:24"],
            "tls": "required",
            "timeout": 120_000,
        }
    ]
    assert delivery["nextHop"] == {"smtp://a.example:25": 3, "smtp://b.example": 1}
    page = save(visitor, "/configuration/routes", shown=ROUTES, remove=f"{ROUTES}[0]")
    assert draft_of(node)[ROUTES] == "", "without a route, the key is not set"


def test_a_trial_of_routes_connects(node: Any) -> None:
    """The next hop of the file is closed; one that greets is told apart."""
    visitor = node.visitor()
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    save(visitor, "/configuration/routes", **{HOP: f"smtp://127.0.0.1:{port}"})
    tried = visitor.post("/configuration/connections", {}).text
    assert "✗ failed" in tried
    assert f"smtp://127.0.0.1:{port} cannot be reached" in tried.replace("  ", " ") or str(port) in tried
    assert "Nothing was sent" in tried
    save(visitor, "/configuration/routes", **{HOP: ""})
    assert "There is nothing to connect to" in visitor.post("/configuration/connections", {}).text


def test_credentials_go_nowhere_else(node: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A next hop that gets credentials is shown and cannot be changed, whatever a form says."""
    monkeypatch.setenv("HOP_PASSWORD", "p")
    auth = 'auth: {user: gate, password: "${env:HOP_PASSWORD}"}'
    guard = node.folder / files.GUARD_FILE
    route = f'{{domains: [example.com], nextHop: "smtp://in.example:25", tls: required, {auth}}}'
    guard.write_text(GUARD.replace("10026", f'10026", tls: required, {auth}, routes: [{route}], timeout: 5000}}#'))
    visitor = node.visitor()
    page = visitor.get("/configuration/routes").text
    assert "changed in the file only" in control_of(page, HOP)
    assert "changed in the file only" in control_of(page, f"{ROUTES}[0].nextHop")
    assert "HOP_PASSWORD" not in page
    evil: dict[str, Any] = {
        HOP: "smtp://evil.example:25",
        "guard.yml delivery.tls": "off",
        "guard.yml delivery.timeout": "6000",
        f"{ROUTES}[0].domains": "other.example",
        f"{ROUTES}[0].tls": "off",
        f"{ROUTES}[0].nextHop": "smtp://evil.example",
        "shown": [HOP, ROUTES, f"{ROUTES}[0]"],
    }
    save(visitor, "/configuration/routes", **evil)
    assert set(draft_of(node)) == {"guard.yml delivery.timeout", ROUTES}
    assert draft_of(node)["guard.yml delivery.timeout"] == "6000"
    (stated,) = json.loads(draft_of(node)[ROUTES])
    assert stated["domains"] == ["other.example"]
    assert (stated["nextHop"], stated["tls"]) == ("smtp://in.example:25", "required")
    running = VersionContent({"guard.yml": {"delivery": {"routes": [{**stated, "domains": ["example.com"]}]}}}, {})
    moved = DraftContent({ROUTES: json.dumps([{**stated, "nextHop": "smtp://evil.example"}])})
    (fault,) = apply_draft(running, moved)[1]
    assert "would send credentials elsewhere" in fault.sentence


def test_rules_for_recipients(node: Any) -> None:
    visitor, shown = node.visitor(), [RULES, f"{RULES}[0]"]
    fields = {f"{RULES}[0].domains": "example.com", f"{RULES}[0].tagSeparator": ""}
    page = save(visitor, "/configuration/recipients", shown=shown, **fields)
    stated = {"domains": ["example.com"], "tagSeparator": ""}
    assert json.loads(draft_of(node)[RULES]) == [stated], "what is the default is not stated"
    assert "has faults" not in page
    wrong = {"shown": [RULES, f"{RULES}[1]"], f"{RULES}[1].domains": "ann@example.com"}
    save(visitor, "/configuration/recipients", **wrong)
    assert "rite its domain alone" in visitor.get("/configuration/recipients").text


def test_a_rule_for_all_recipients_has_nothing_but_defaults(node: Any) -> None:
    visitor, shown = node.visitor(), [RULES, f"{RULES}[0]"]
    fields = {"shown": shown, f"{RULES}[0].tagSeparator": "+"}
    assert "There is no draft" in save(visitor, "/configuration/recipients", **fields), "nothing was added"
    save(visitor, "/configuration/recipients", add=f"{RULES}[0]", **fields)
    assert json.loads(draft_of(node)[RULES]) == [{}]
    assert "defaults only" in visitor.get("/configuration/recipients").text
    save(visitor, "/configuration/recipients", **fields)
    assert json.loads(draft_of(node)[RULES]) == [{}], "it stays until it is removed"


def test_limits(node: Any) -> None:
    visitor = node.visitor()
    page = visitor.get("/configuration/limits").text
    assert "Connections of one address" not in page, "there is no SMTP source"
    fields = {"guard.yml maxThrottleDelay": "10", "guard.yml maxThrottleDelay unit": "seconds"}
    save(visitor, "/configuration/limits", **fields, **{"guard.yml mainWorkerCount": "many"})
    assert draft_of(node) == {"guard.yml maxThrottleDelay": "10000", "guard.yml mainWorkerCount": "many"}
    page = visitor.get("/configuration/limits").text
    assert "Write a number, such as 20." in control_of(page, "guard.yml mainWorkerCount")


def test_weights_are_edited_in_the_table_into_the_draft(node: Any) -> None:
    visitor = node.visitor()
    assert "Edit weights" in visitor.get("/policy").text
    page = visitor.get("/policy?edit=1").text
    assert 'name="weight auth:dmarc-fail" value="2"' in page
    table = {"revision": "0", "scope": "global", "weight auth:dmarc-fail": "4,5", "threshold spam": "6"}
    assert node.went(visitor.post("/policy/draft", table)) == "/policy?scope=global&edit=1 draft-saved"
    (text,) = node.run(node.store.publishing.draft()).content.policies.values()
    assert text.startswith(POLICY.rstrip()), "what stood there stays"
    assert '[kinds."auth:dmarc-fail"]\nweight = 4.5\n' in text
    assert "2 changes" in visitor.get("/policy").text, "the bar is on the page of the policy, too"
    assert 'name="weight auth:dmarc-fail" value="4.5"' in visitor.get("/policy?edit=1").text
    wrong = visitor.post("/policy/draft", {"revision": "1", "scope": "global", "weight auth:dmarc-fail": "much"})
    assert wrong.status_code == 400
    assert "must be a number between 0 and 1000, not much" in wrong.text
    assert 'value="much"' in wrong.text
    back = {"revision": "1", "scope": "global", "weight auth:dmarc-fail": "2", "decision bulk": "quarantine"}
    tried = visitor.post("/policy/draft/try", back)
    assert "decisions would change" in tried.text
    (text,) = node.run(node.store.publishing.draft()).content.policies.values()
    assert "dmarc-fail" not in text or "weight = 4.5" not in text
    assert 'decision = "quarantine"' in text
    trial = visitor.post("/policy", {"scope": "global", "text": '[kinds."auth:spf-fail"]\nweight = 3.0\n'})
    assert "Put into the draft" in trial.text
    put = {"revision": "2", "scope": "global", "text": '[kinds."auth:spf-fail"]\nweight = 3.0\n'}
    assert node.went(visitor.post("/policy/draft", put)).endswith("draft-saved")
    (text,) = node.run(node.store.publishing.draft()).content.policies.values()
    assert '[kinds."auth:spf-fail"]\nweight = 3.0\n' in text
    for other in (node.visitor("auditor"), node.visitor("administrator", node.new_tenant())):
        assert "Edit weights" not in other.get("/policy").text
        assert other.post("/policy/draft", put).status_code == 403


def test_a_token_is_made_and_revoked_as_a_version(node: Any) -> None:
    visitor = node.visitor()
    assert "<strong>mta</strong>" in visitor.get("/tokens").text
    made = visitor.post("/tokens", {"name": "<b>border", "messages.search": "1"})
    token = find_in(r'id="secret">([0-9a-f]{64})<', made.text)
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


def test_a_token_can_be_for_one_tenant(node: Any) -> None:
    visitor, tenant = node.visitor(), node.new_tenant("Lakeside")
    for unknown in ("0195fb1e-7c5a-7000-8000-000000000009", "nothing"):
        assert visitor.post("/tokens", {"name": "theirs", "scope": unknown}).status_code == 404
    visitor.post("/tokens", {"name": "theirs", "scope": tenant})
    (version,) = node.run(node.store.publishing.history())
    stated = node.run(node.store.publishing.find(version.number)).content.documents["abby.yml"]["staticApiTokens"]
    assert [(each["name"], each.get("tenant")) for each in stated] == [("mta", None), ("theirs", tenant)]
    assert re.search(r"theirs</strong>.*?Scope[^>]*>Lakeside<", visitor.get("/tokens").text, re.DOTALL)


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
