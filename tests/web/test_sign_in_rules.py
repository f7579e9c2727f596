"""Who may sign in, and what comes first: a second factor for some roles, and passwords that are switched off."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from tests.web.conftest import PASSWORD, Site, find_in
from tests.web.strangers import code_of, enter

from gatepost.ids import new_id
from gatepost.settings.keys import SignInSettings
from gatepost.store.audit import CLI
from gatepost.store.users import User
from gatepost.web.context import SignInRules

USER = User("1", "Ann", "analyst", None, 0)


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A site whose administrators need a second factor."""
    made = Site(tmp_path_factory.mktemp("strict"), SignInRules(SignInSettings(second_factor=["administrator"])))
    yield made
    made.stop()


def test_a_role_that_needs_a_second_factor_sets_it_up_first(strict: Site) -> None:
    name = strict.new_user("administrator")
    person = strict.enter(name)
    assert person.get("/users").headers["location"] == "/account/setup"
    page = person.get("/account/setup").text
    found = find_in(r'name="secret" value="([A-Z2-7]+)"', page)
    assert "Users of your role (administrator) need a second factor" in page
    assert (
        person.post("/users", {"name": "x", "role": "administrator", "scope": "global"}).headers["location"]
        == "/account/setup"
    )
    assert not strict.known("x"), "nothing is done before"
    fields = {"secret": found, "code": code_of(found), "password": PASSWORD}
    wrong = person.post("/account/totp/confirm", {**fields, "code": "000000"})
    assert wrong.status_code == 400
    assert found in wrong.text, "the same secret is offered again"
    shown = person.post("/account/totp/confirm", fields)
    assert 'href="/account/setup">I have kept them' in shown.text
    assert person.get("/account/setup").headers["location"] == "/"
    assert "cannot be turned off" in person.get("/account").text
    fields = {"password": PASSWORD, "old-code": code_of(found, 1)}
    assert person.post("/account/totp/remove", fields).status_code == 403
    assert strict.known(name).user.totp


def test_other_roles_need_none(strict: Site) -> None:
    assert strict.visitor("analyst").get("/quarantine").status_code == 200


def test_the_rules() -> None:
    strict = SignInRules(SignInSettings(second_factor=["administrator", "analyst"]))
    assert strict.next_step(USER) == "second-factor"
    assert strict.next_step(User("1", "Ann", "analyst", None, 0, must_change=True)) == "password"
    assert strict.next_step(User("1", "Ann", "analyst", None, 0, totp=True)) is None
    assert strict.next_step(User("1", "Ann", "analyst", None, 0, keys=1)) is None
    assert strict.next_step(User("1", "Ann", "auditor", None, 0)) is None
    external = User("1", "Ann", "analyst", None, 0, external="https://id.example 7")
    assert strict.next_step(external) is None
    closed = SignInRules(SignInSettings(passwords=False, emergency_account="Break Glass"))
    assert not closed.accepts(USER)
    assert closed.accepts(external)
    assert closed.accepts(User("2", "break glass", "administrator", None, 0))


def test_without_passwords_only_the_emergency_account_gets_in(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder, named = tmp_path_factory.mktemp("closed"), f"glass {new_id()}"
    open_site = Site(folder)
    other = open_site.new_user("administrator")
    hashed = open_site.known(other).password
    open_site.run(open_site.store.users.create(named, "administrator", None, hashed, CLI))
    before = open_site.enter(other)
    assert before.get("/users").status_code == 200
    open_site.stop()
    rules = SignInRules(SignInSettings(passwords=False, emergency_account=named))
    closed: Any = Site(folder, rules)
    try:
        refused = enter(closed, other, PASSWORD)
        assert refused.status_code == 401
        assert "Name or password is wrong" in refused.text
        assert closed.enter(named).get("/users").status_code == 200
        again = httpx.get(f"{closed.url}/users", headers={"Cookie": before.cookie}, trust_env=False)
        assert again.status_code == 303, "a session from before does not open either"
        assert again.headers["location"].startswith("/sign-in")
    finally:
        closed.stop()


def test_a_tenant_that_needs_second_factors() -> None:
    uid, other = new_id(), new_id()
    rules = SignInRules(SignInSettings(second_factor_tenants=[uid.upper()]))
    of_tenant = User("1", "Ann", "auditor", uid, 0)
    assert (rules.next_step(of_tenant), rules.describe_need(of_tenant)) == ("second-factor", "tenant")
    assert rules.next_step(User("1", "Ann", "auditor", other, 0)) is None
    assert rules.next_step(User("1", "Ann", "administrator", None, 0)) is None, "the rule of roles is theirs"
    assert rules.next_step(User("1", "Ann", "auditor", uid, 0, external="issuer 1")) is None


def test_users_of_a_strict_tenant_set_it_up_first(strict: Site) -> None:
    uid = strict.new_tenant()
    assert strict._rules
    strict._rules.settings.second_factor_tenants.append(uid)
    person = strict.enter(strict.new_user("auditor", uid))
    assert person.get("/messages").headers["location"] == "/account/setup"
    page = person.get("/account/setup").text
    assert "Users of your tenant need a second factor" in page
    assert "Keys belong to host names" in page, "these pages are reached by an address"
    auditor = strict.visitor("auditor")
    assert "all users of this tenant need one" in auditor.get(f"/tenants/{uid}").text
    assert "needed at the next sign-in" in auditor.get("/users").text
