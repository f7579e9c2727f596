"""One's own account: the password, the second factor, the sessions."""

import re
import time
from typing import Any

import pytest

from gatepost.web import credentials
from gatepost.web.credentials import generate_password, password_fault

NEW = "another four quiet words"


@pytest.fixture
def visitor(site: Any) -> Any:
    return site.enter(site.new_user())


def test_another_password_ends_the_other_sessions(site: Any, visitor: Any) -> None:
    elsewhere = site.enter(visitor.who)
    fields = {"password": site.password, "new": NEW, "again": NEW}
    assert visitor.post("/account/password", fields).headers["location"] == "/account?done=password"
    assert visitor.get("/account").status_code == 200
    assert elsewhere.get("/account").status_code == 303
    assert site.enter(visitor.who, NEW).get("/account").status_code == 200


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"password": "wrong"}, "current password is wrong"),
        ({"again": "typed otherwise"}, "new passwords differ"),
        ({"new": "short", "again": "short"}, "at least 12"),
        ({"new": "ababababababab", "again": "ababababababab"}, "too few different"),
    ],
)
def test_a_password_that_is_not_taken(site: Any, visitor: Any, change: dict[str, str], said: str) -> None:
    answer = visitor.post("/account/password", {"password": site.password, "new": NEW, "again": NEW, **change})
    assert answer.status_code == 400
    assert said in answer.text
    assert site.enter(visitor.who).get("/account").status_code == 200


def test_guessing_the_password_here_closes_the_account_too(site: Any, visitor: Any) -> None:
    for _ in range(6):
        visitor.post("/account/password", {"password": "wrong", "new": NEW, "again": NEW})
    assert site.run(site.store.credentials(visitor.who)).locked_until > time.time() * 1000
    answer = visitor.post("/account/password", {"password": site.password, "new": NEW, "again": NEW})
    assert answer.status_code == 400


def test_a_second_factor_is_set_up_and_taken_away(site: Any, visitor: Any) -> None:
    offered = visitor.post("/account/totp").text
    found = re.search(r'name="secret" value="([A-Z2-7]+)"', offered)
    assert found
    assert "<svg" in offered
    code = credentials.totp_code(found[1], int(time.time()) // credentials.TOTP_SECONDS)
    confirm = {"secret": found[1], "code": code, "password": site.password}
    assert visitor.post("/account/totp/confirm", {**confirm, "password": "wrong"}).status_code == 400
    assert visitor.post("/account/totp/confirm", {**confirm, "code": "000000"}).status_code == 400
    assert not site.run(site.store.credentials(visitor.who)).user.totp
    assert visitor.post("/account/totp/confirm", confirm).headers["location"] == "/account?done=totp-on"
    kept = site.run(site.store.credentials(visitor.who))
    assert kept.user.totp
    assert kept.totp_step > 0, "the code that proved it is used up"
    assert visitor.post("/account/totp/remove", {"password": "wrong"}).status_code == 400
    assert visitor.post("/account/totp/remove", {"password": site.password}).status_code == 303
    assert not site.run(site.store.credentials(visitor.who)).user.totp


def test_a_secret_of_somebody_s_own_is_not_taken(site: Any, visitor: Any) -> None:
    for secret in ("", "A", "A" * 31, "1" * 32, "<" * 32):
        fields = {"secret": secret, "code": "000000", "password": site.password}
        assert visitor.post("/account/totp/confirm", fields).headers["location"] == "/account"


def test_sessions_are_shown_and_ended(site: Any, visitor: Any) -> None:
    elsewhere, third = site.enter(visitor.who), site.enter(visitor.who)
    page = visitor.get("/account").text
    ends = re.findall(r'action="(/account/sessions/[^/"]+/end)"', page)
    assert len(ends) == 2
    assert visitor.post(ends[0]).status_code == 303
    assert sorted(each.get("/account").status_code for each in (elsewhere, third)) == [200, 303]
    visitor.post("/account/sessions/end")
    assert {each.get("/account").status_code for each in (elsewhere, third)} == {303}
    assert visitor.get("/account").status_code == 200


def test_nobody_ends_the_session_of_somebody_else(site: Any, visitor: Any) -> None:
    other = site.enter(site.new_user())
    user = site.run(site.store.credentials(other.who)).user
    session = site.run(site.store.sessions(user.uid, int(time.time() * 1000)))[0]
    visitor.post(f"/account/sessions/{session.id}/end")
    assert other.get("/account").status_code == 200


def test_what_is_invented_is_taken() -> None:
    assert not password_fault(generate_password(), "admin")
    assert password_fault("administrator", "administrator")
    assert password_fault("x" * 300, "ann")
