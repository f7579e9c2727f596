"""Keys, users, tenants and the audit trail, as administrators use them."""

import re
import shlex
import subprocess
from typing import Any

import pytest
from tests.web.conftest import find_in

from gatepost.ids import new_id
from gatepost.store.api_keys import ApiKey
from gatepost.store.audit import CLI


def secret_of(page: str) -> str:
    return find_in(r'<code id="secret">([^<]+)</code>', page)


def test_a_key_is_shown_once_and_works_as_printed(site: Any, tenant: str) -> None:
    visitor = site.visitor(tenant=tenant)
    made = visitor.post("/keys", {"name": "playbook", "scope": tenant})
    secret = secret_of(made.text)
    command = find_in(r'<code id="curl">(.*?)</code>', made.text, re.DOTALL)
    answer = subprocess.run(shlex.split(command), capture_output=True, text=True, timeout=60, check=True)
    assert '"blocked-urls"' in answer.stdout
    later = visitor.get("/keys").text
    assert secret not in later
    assert "playbook" in later


def test_a_key_is_made_as_the_form_says(site: Any, tenant: str) -> None:
    fields = {"name": "night shift", "scope": tenant, "read-only": "1", "expires": "2030-01-31"}
    secret = secret_of(site.visitor().post("/keys", fields).text)
    key = site.run(site.store.api_keys.authenticate(secret))
    assert isinstance(key, ApiKey)
    assert (key.name, key.tenant, key.read_only, key.expires) == ("night shift", tenant, True, 1_896_134_400_000)
    audit = site.trail(scope=tenant)[0]
    assert audit.actor.label == f"user:{site.visitor().who}"


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"name": ""}, "enter a name"),
        ({"expires": "2020-01-01"}, "is in the past"),
        ({"expires": "soon"}, "is not a date"),
    ],
)
def test_a_key_that_is_not_made(site: Any, tenant: str, fields: dict[str, str], said: str) -> None:
    answer = site.visitor().post("/keys", {"name": "x", "scope": tenant, **fields})
    assert answer.status_code == 400
    assert said in answer.text
    assert site.run(site.store.api_keys.all(tenant)) == ()


def test_a_revoked_key_opens_nothing(site: Any, tenant: str) -> None:
    secret, key = site.run(site.store.api_keys.create("k", tenant, False, None, CLI))
    visitor = site.visitor(tenant=tenant)
    assert site.went(visitor.post(f"/keys/{key.id}/revoke")) == "/keys key-revoked"
    assert site.run(site.store.api_keys.authenticate(secret)).reason == "revoked"
    assert "revoked" in visitor.get("/keys").text


def test_keys_of_others_are_neither_seen_nor_made_nor_revoked(site: Any, tenant: str) -> None:
    other = site.new_tenant()
    _, key = site.run(site.store.api_keys.create("theirs", other, False, None, CLI))
    _, wide = site.run(site.store.api_keys.create("everybody's", None, False, None, CLI))
    visitor = site.visitor(tenant=tenant)
    page = visitor.get("/keys").text
    assert "theirs" not in page
    assert wide.id not in page
    for uid in (key.id, wide.id):
        assert visitor.post(f"/keys/{uid}/revoke").status_code == 404
    for scope in (other, "global", "", new_id()):
        assert visitor.post("/keys", {"name": "x", "scope": scope}).status_code == 404
    assert not any(each.revoked for each in site.run(site.store.api_keys.all(other)))


def test_a_user_is_made_changed_and_deleted(site: Any, tenant: str) -> None:
    visitor, name = site.visitor(), f"bob {new_id()}"
    made = visitor.post("/users", {"name": name, "role": "auditor", "scope": tenant})
    password = secret_of(made.text)
    bob = site.enter(name, password)
    assert bob.get("/messages").headers["location"] == "/account/setup"
    own = {"password": password, "new": "words of his own choice", "again": "words of his own choice"}
    assert bob.post("/account/password", own).status_code == 303
    assert bob.get("/messages").status_code == 200
    uid = site.known(name).user.uid
    assert site.went(visitor.post(f"/users/{uid}", {"role": "analyst"})) == "/users changed"
    assert site.run(site.store.users.find(uid)).role == "analyst"
    renewed = secret_of(visitor.post(f"/users/{uid}/password").text)
    assert bob.get("/messages").status_code == 303
    assert site.enter(name, renewed).get("/messages").headers["location"] == "/account/setup"
    visitor.post(f"/users/{uid}", {"disabled": "yes"})
    assert site.run(site.store.users.find(uid)).disabled
    assert site.went(visitor.post(f"/users/{uid}/delete")) == "/users user-deleted"
    assert site.run(site.store.users.find(uid)) is None


@pytest.mark.parametrize("fields", [{"name": ""}, {"name": "a\u202eb"}, {"role": "king"}, {"role": ""}])
def test_a_user_that_is_not_made(site: Any, fields: dict[str, str]) -> None:
    before = len(site.run(site.store.users.all()))
    answer = site.visitor().post("/users", {"name": "eve", "role": "analyst", "scope": "global", **fields})
    assert answer.status_code == 400
    assert len(site.run(site.store.users.all())) == before


def test_a_name_is_taken_in_any_case(site: Any) -> None:
    name = site.new_user()
    answer = site.visitor().post("/users", {"name": name.upper(), "role": "analyst", "scope": "global"})
    assert answer.status_code == 409
    assert "already" in answer.text


def test_nobody_changes_or_deletes_themselves(site: Any) -> None:
    visitor = site.visitor()
    uid = site.known(visitor.who).user.uid
    for path, fields in ((f"/users/{uid}", {"role": "auditor"}), (f"/users/{uid}/delete", {})):
        assert visitor.post(path, fields).status_code == 409
    assert site.run(site.store.users.find(uid)).role == "administrator"


def test_an_administrator_of_a_tenant_manages_its_users_only(site: Any, tenant: str) -> None:
    other = site.new_tenant()
    theirs, wide = site.new_user("analyst", other), site.new_user("administrator")
    visitor = site.visitor("administrator", tenant)
    page = visitor.get("/users").text
    assert theirs not in page
    assert wide not in page
    for name in (theirs, wide):
        uid = site.known(name).user.uid
        for action in ("", "/password", "/delete"):
            assert visitor.post(f"/users/{uid}{action}", {"role": "auditor", "disabled": "yes"}).status_code == 404
        assert not site.run(site.store.users.find(uid)).disabled
    for scope in (other, "global", ""):
        fields = {"name": f"x {new_id()}", "role": "administrator", "scope": scope}
        assert visitor.post("/users", fields).status_code == 404


def test_a_tenant_from_its_name_to_its_end(site: Any) -> None:
    visitor, name = site.visitor(), f"Northwind {new_id()}"
    place = visitor.post("/tenants", {"name": name}).headers["location"].partition("?")[0]
    saved = visitor.post(f"{place}/domains", {"domains": f"A.{name[-12:]}.example\n  b.{name[-12:]}.example "})
    assert saved.status_code == 303
    uid = place.rpartition("/")[2]
    assert site.run(site.store.tenants.find(uid)).domains == (f"a.{name[-12:]}.example", f"b.{name[-12:]}.example")
    assert visitor.post("/tenants", {"name": name}).status_code == 409
    assert visitor.post(f"{place}/delete", {"name": "something else"}).status_code == 400
    assert site.went(visitor.post(f"{place}/delete", {"name": name})) == "/tenants tenant-deleted"
    assert site.run(site.store.tenants.find(uid)) is None
    assert visitor.get(place).status_code == 404


def test_what_goes_with_a_tenant_is_said_and_goes(site: Any) -> None:
    """Held mail is the part that nobody would expect: it goes too, and the page says so before."""
    name = f"Contoso {new_id()}"
    uid = site.new_tenant(name)
    held, kept = site.message(uid, held=True), site.message(site.new_tenant(), held=True)
    page = site.visitor().get(f"/tenants/{uid}").text
    said = "Its lists, keys, users, domains, results and held mail are deleted permanently. The audit trail is kept."
    assert said in page
    assert site.went(site.visitor().post(f"/tenants/{uid}/delete", {"name": name})) == "/tenants tenant-deleted"
    assert site.run(site.store.quarantine.find_or_deleted(held)) is None
    assert site.run(site.store.messages.find(held)) is None
    assert site.run(site.store.quarantine.find_or_deleted(kept)) is not None
    assert site.visitor().get(f"/messages/{held}").status_code == 404


def test_domains_that_are_not_taken(site: Any, tenant: str) -> None:
    visitor, other = site.visitor(), site.new_tenant()
    domain = f"{new_id()}.example"
    site.run(site.store.tenants.set_domains(other, [domain], CLI))
    assert visitor.post(f"/tenants/{tenant}/domains", {"domains": domain}).status_code == 409
    answer = visitor.post(f"/tenants/{tenant}/domains", {"domains": "good.example\nnot a\ncom"})
    assert answer.status_code == 400
    assert "line 2: not a" in answer.text
    assert "line 3: com" in answer.text
    assert site.run(site.store.tenants.find(tenant)).domains == ()


def test_the_audit_trail_is_found_by_who_what_and_where(site: Any, tenant: str) -> None:
    visitor = site.visitor(tenant=tenant)
    visitor.post("/keys", {"name": "for the trail", "scope": tenant})
    page = visitor.get("/audit").text
    assert f"user:{visitor.who}" in page
    assert "for the trail" in page
    assert "for the trail" in visitor.get("/audit", params={"actor": visitor.who}).text
    assert "for the trail" not in visitor.get("/audit", params={"actor": "somebody else"}).text
    assert "for the trail" not in visitor.get("/audit", params={"until": "2020-01-01"}).text
    assert visitor.get("/audit", params={"since": "nonsense"}).status_code == 400


def test_the_audit_trail_of_others_is_not_shown(site: Any, tenant: str) -> None:
    other = site.new_tenant()
    site.run(site.store.api_keys.create("not for you", other, False, None, CLI))
    visitor = site.visitor("auditor", tenant)
    assert "not for you" not in visitor.get("/audit").text
    assert "not for you" in site.visitor().get("/audit", params={"scope": other}).text
