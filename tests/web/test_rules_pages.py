"""Rules in the web interface: listed with their origin and hits, checked, tried, compared, saved; for whom, and how
many."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.web.conftest import DELIVERED, find_in

from gatepost.policy import condition_process
from gatepost.policy.conditions import find_fault
from gatepost.policy.rules import shipped_policy
from gatepost.store import own_rules
from gatepost.web.pages.rules import EXAMPLES

FIELDS = {
    "name": "acts-now",
    "title": "It says <b>act now</b>",
    "when": 'subject.startsWith("Act")',
    "verdict": "phishing",
    "weight": "7,5",
    "group": "",
    "enabled": "1",
    "do": "save",
}
ACT = msgspec.structs.replace(DELIVERED, subject="Act now")


def fields(tenant: str, version: int = 0, **changes: Any) -> dict[str, Any]:
    return {**FIELDS, "scope": tenant, "version": str(version), **changes}


def test_a_rule_is_tried_saved_and_shown(site: Any, tenant: str) -> None:
    visitor, ggrid = site.visitor(tenant=tenant), site.message(tenant, ACT)
    site.message(tenant, msgspec.structs.replace(ACT, subject="Other"))
    page = visitor.get("/rules").text
    assert "There are no rules" in page
    form = visitor.get(f"/rules/edit?scope={tenant}").text
    assert "Nothing is saved before" in form
    tried = visitor.post("/rules/edit", fields(tenant, do="try"))
    assert tried.status_code == 200
    assert "It holds for 1 of the last 2 messages, and 1 decision would change" in tried.text
    assert f'href="/messages/{ggrid}"' in tried.text
    assert site.run(site.store.own_rules.find(tenant)).rules == ()
    answer = visitor.post("/rules/edit", fields(tenant))
    assert site.went(answer) == f"/rules?scope={tenant} rule-saved"
    page = visitor.get("/rules").text
    assert "All nodes apply it" in page
    assert "It says &lt;b&gt;act now&lt;/b&gt;" in page
    assert "tenant, web interface" in page
    assert "7.5 points" in page
    assert "1 of at most 50" in page
    # The message page, the policy page and its own page know it from the next request on.
    assert "rule:acts-now" in visitor.get(f"/policy?scope={tenant}").text
    assert "subject.startsWith" in visitor.get(f"/policy/rule:acts-now?scope={tenant}").text
    replayed = visitor.get(f"/messages/{ggrid}/replay").text
    assert "rule:acts-now" in replayed
    # Nobody else's policy has changed.
    assert "acts-now" not in site.visitor(tenant=site.new_tenant()).get("/rules").text
    assert "acts-now" not in site.visitor().get("/rules").text


def test_hits_lead_to_the_messages(site: Any, tenant: str) -> None:
    visitor = site.visitor(tenant=tenant)
    visitor.post("/rules/edit", fields(tenant))
    hit = msgspec.structs.replace(ACT, tags=("rule:acts-now", "rule:other"))
    site.message(tenant, hit)
    site.message(tenant, hit)
    site.message(tenant, ACT)
    page = visitor.get(f"/rules?scope={tenant}").text
    link = find_in(r'href="(/messages\?tag=rule[^"]*)">2</a>', page)
    assert visitor.get(link).text.count("Act now") >= 2


def test_a_change_shows_the_difference_and_is_in_the_audit_trail(site: Any, tenant: str) -> None:
    visitor = site.visitor(tenant=tenant)
    visitor.post("/rules/edit", fields(tenant))
    form = visitor.get(f"/rules/edit?scope={tenant}&name=acts-now").text
    assert 'name="version" value="1"' in form
    changed = fields(tenant, 1, was="acts-now", weight="2", decision="drop", do="try")
    page = visitor.post("/rules/edit", changed).text
    assert "<del>7.5</del>" in page
    assert "<ins>2</ins>" in page
    assert "<ins>drop</ins>" in page
    assert "<del>phishing" not in page
    # Somebody else was faster: what was typed stays, and can be saved over what there is now.
    assert site.went(visitor.post("/rules/switch", fields(tenant, 1, do="off"))) == f"/rules?scope={tenant} rule-off"
    answer = visitor.post("/rules/edit", {**changed, "do": "save"})
    assert answer.status_code == 409
    assert "changed meanwhile" in answer.text
    assert 'name="version" value="2"' in answer.text
    assert "it is switched off" in visitor.get("/rules").text
    assert visitor.post("/rules/edit", {**changed, "do": "save", "version": "2"}).status_code == 303
    assert site.went(visitor.post("/rules/delete", fields(tenant, 1))) == f"/rules?scope={tenant} rules-changed"
    assert site.went(visitor.post("/rules/delete", fields(tenant, 3))) == f"/rules?scope={tenant} rule-deleted"
    trail = site.trail(scope=tenant, action="rule.")
    assert [record.action for record in trail] == ["rule.delete", "rule.change", "rule.change", "rule.create"]
    assert trail[1].actor.name == visitor.who
    assert "weight 7.5" in trail[1].sample[1]
    assert "weight 2" in trail[1].sample[2]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"when": 'known && "a" in tagz'}, "nothing is named tagz here; did you mean tags?"),
        ({"when": "sender =="}, "something is missing, or too much, at this place"),
        ({"when": "size"}, "must be true or false"),
        ({"when": 'subject.matches("(")'}, "invalid regular expression"),
        ({"when": "true || " * 300 + "true"}, "is longer than 2,000 characters"),
        ({"when": "(" * 1000}, "The condition"),
        ({"when": ""}, "is empty"),
        ({"weight": "-1"}, "must be between 0 and 1000"),
        ({"weight": "nan"}, "must be between 0 and 1000"),
        ({"weight": "many"}, "must be a number"),
        ({"verdict": "nonsense"}, "must be one of"),
        ({"verdict": "clean"}, "never makes the outcome milder"),
        ({"group": "nonsense"}, "no such group"),
        ({"decision": "nonsense"}, "The action must be one of"),
        ({"name": "Ünfit name"}, "is not a known rule name"),
        ({"title": ""}, "must have between 1 and 200"),
        ({"was": "other"}, "stays as it is"),
    ],
)
def test_what_is_wrong_is_said_and_nothing_is_saved(site: Any, tenant: str, change: dict[str, Any], said: str) -> None:
    visitor = site.visitor(tenant=tenant)
    answer = visitor.post("/rules/edit", fields(tenant, **change))
    assert answer.status_code == 400
    assert said in answer.text
    assert site.run(site.store.own_rules.find(tenant)).rules == ()


def test_the_place_of_a_mistake_is_shown(site: Any, tenant: str) -> None:
    page = site.visitor(tenant=tenant).post("/rules/edit", fields(tenant, when='known\r\n  && "a" in tagz')).text
    assert "at line 2, column 13: nothing is named tagz here" in page
    assert '<pre class="place">  &amp;&amp; &#34;a&#34; in tagz\n            ^</pre>' in page


def test_a_condition_that_reads_what_is_not_stored_cannot_be_tried(site: Any, tenant: str) -> None:
    page = site.visitor(tenant=tenant).post("/rules/edit", fields(tenant, when="size > 5", do="try")).text
    assert "cannot be tried on stored mail" in page


def test_names_of_the_deployment_are_taken(site: Any, tenant: str) -> None:
    admin, visitor = site.visitor(), site.visitor(tenant=tenant)
    version = site.run(site.store.own_rules.find(None)).version
    assert admin.post("/rules/edit", fields("global", version, name="of-all")).status_code == 303
    assert "rule:of-all" in visitor.get("/rules").text
    answer = visitor.post("/rules/edit", fields(tenant, name="of-all"))
    assert "is that of a rule of the deployment" in answer.text
    assert "is taken" in admin.post("/rules/edit", fields("global", version + 1, name="of-all")).text
    # A tenant can neither switch nor delete it.
    assert visitor.post("/rules/delete", fields("global", version + 1, name="of-all")).status_code == 404
    assert visitor.post("/rules/switch", fields(tenant, 0, name="of-all", do="off")).status_code == 404
    admin.post("/rules/delete", fields("global", version + 1, name="of-all"))
    assert "rule:of-all" not in visitor.get("/rules").text


def test_who_may_change_rules(site: Any, tenant: str) -> None:
    other = site.new_tenant()
    for role in ("analyst", "auditor"):
        reader = site.visitor(role, tenant)
        assert reader.get("/rules").status_code == 200
        assert "New rule" not in reader.get("/rules").text
    visitor = site.visitor(tenant=tenant)
    for scope in (other, "global", "nonsense"):
        for path in ("/rules/edit", "/rules/switch", "/rules/delete"):
            assert visitor.post(path, fields(scope)).status_code == 404
        assert visitor.get(f"/rules?scope={scope}").status_code == 404
        assert visitor.get(f"/rules/edit?scope={scope}").status_code == 404
    assert visitor.get(f"/rules/edit?scope={tenant}&name=absent").status_code == 404
    assert site.run(site.store.own_rules.find(tenant)).rules == ()


def test_rules_of_a_tenant_are_bounded(site: Any, tenant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_rules, "MAX_OF_TENANT", 1)
    visitor = site.visitor(tenant=tenant)
    assert visitor.post("/rules/edit", fields(tenant)).status_code == 303
    answer = visitor.post("/rules/edit", fields(tenant, 1, name="one-more"))
    assert answer.status_code == 409
    assert "as many rules here as there may be" in answer.text


def test_examples_work_as_they_stand(site: Any, tenant: str) -> None:
    for example in EXAMPLES.values():
        assert find_fault(example.when) == ""
        assert example.find_mistakes(shipped_policy()) == ()
    page = site.visitor(tenant=tenant).get(f"/rules/edit?scope={tenant}&example={example.name}").text
    assert f'value="{example.name}"' in page


@pytest.mark.variant
@pytest.mark.process
def test_a_rule_that_never_ends_is_named_by_the_trial(site: Any, tenant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the estimate says, and however the condition was saved: here it ends when it is checked, and not when it
    is tried."""
    monkeypatch.setenv("PYTHONPATH", str(Path.cwd()))
    site.message(tenant, ACT)
    visitor = site.visitor(tenant=tenant)
    when = 'subject != "endless"'
    condition_process._known.put("fault", when, (True, ""))
    condition_process._known.put("storable", when, (True, ""))
    monkeypatch.setattr(condition_process, "PROCESS", "tests.policy.endless_conditions")
    tried = visitor.post("/rules/edit", fields(tenant, do="try", when=when))
    assert tried.status_code == 400
    assert "took too long for a stored message, and was stopped" in tried.text


@pytest.mark.parametrize(
    ("changes", "notice", "said"),
    [
        ({}, "rule-saved-changes~held", "would have been held"),
        ({"weight": "0"}, "rule-saved-same~delivered", "which would still have been delivered"),
        ({"when": "false"}, "rule-saved-idle~delivered", "does not count for the message that it was made from"),
        ({"when": "false", "enabled": ""}, "rule-saved", "All nodes apply it"),
    ],
)
def test_the_notice_says_what_becomes_of_the_message_that_a_rule_was_made_from(
    site: Any, changes: dict[str, Any], notice: str, said: str
) -> None:
    tenant = site.new_tenant()
    visitor, ggrid = site.visitor(tenant=tenant), site.message(tenant, ACT)
    form = {name: value for name, value in fields(tenant, message=ggrid, **changes).items() if value}
    assert site.went(visitor.post("/rules/edit", form)) == f"/rules?scope={tenant} {notice}"
    assert said in visitor.get("/rules").text
