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
    assert site.went(visitor.post("/account/password", fields)) == "/account password"
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


def test_guessing_the_password_here_locks_the_session(site: Any, visitor: Any) -> None:
    for _ in range(6):
        visitor.post("/account/password", {"password": "wrong", "new": NEW, "again": NEW})
    uid = site.run(site.store.credentials(visitor.who)).user.uid
    failures = {state.source.partition(":")[0]: state.failures for state in site.run(site.store.attempt_states(uid))}
    assert failures == {"account": 0, "session": 5}
    answer = visitor.post("/account/password", {"password": site.password, "new": NEW, "again": NEW})
    assert answer.status_code == 400
    assert "Too many wrong attempts" in answer.text


def code_of(secret: str, later: int = 0) -> str:
    return credentials.totp_code(secret, int(time.time()) // credentials.TOTP_SECONDS + later)


def offered_secret(visitor: Any) -> str:
    page = visitor.post("/account/totp").text
    found = re.search(r'name="secret" value="([A-Z2-7]+)"', page)
    assert found
    assert "<svg" in page
    return found[1]


@pytest.fixture
def second_factor(site: Any, visitor: Any) -> str:
    """The secret of a second factor that was set up in the browser; the code of this moment is used up."""
    secret = offered_secret(visitor)
    fields = {"secret": secret, "code": code_of(secret), "password": site.password}
    assert site.went(visitor.post("/account/totp/confirm", fields)) == "/account totp-on"
    return secret


def test_a_second_factor_is_set_up(site: Any, visitor: Any) -> None:
    elsewhere = site.enter(visitor.who)
    secret = offered_secret(visitor)
    confirm = {"secret": secret, "code": code_of(secret), "password": site.password}
    assert visitor.post("/account/totp/confirm", {**confirm, "password": "wrong"}).status_code == 400
    assert visitor.post("/account/totp/confirm", {**confirm, "code": "000000"}).status_code == 400
    assert not site.run(site.store.credentials(visitor.who)).user.totp
    assert elsewhere.get("/account").status_code == 200
    assert site.went(visitor.post("/account/totp/confirm", confirm)) == "/account totp-on"
    kept = site.run(site.store.credentials(visitor.who))
    assert kept.user.totp
    assert kept.totp_step > 0, "the code that proved it is used up"
    assert secret not in kept.totp_secret, "it is not stored in clear"
    assert visitor.get("/account").status_code == 200
    assert elsewhere.get("/account").status_code == 303, "a session without the second factor has ended"


def test_a_second_factor_is_removed_with_a_code_of_it(site: Any, visitor: Any, second_factor: str) -> None:
    for fields in ({}, {"old-code": "000000"}, {"old-code": code_of(second_factor)}):
        assert visitor.post("/account/totp/remove", {"password": site.password, **fields}).status_code == 400
    assert site.run(site.store.credentials(visitor.who)).user.totp
    right = {"password": site.password, "old-code": code_of(second_factor, 1)}
    assert visitor.post("/account/totp/remove", {**right, "password": "wrong"}).status_code == 400
    assert visitor.post("/account/totp/remove", right).status_code == 303
    assert not site.run(site.store.credentials(visitor.who)).user.totp


def test_a_new_second_factor_needs_a_code_of_the_old_one(site: Any, visitor: Any, second_factor: str) -> None:
    new = offered_secret(visitor)
    assert 'name="old-code"' in visitor.post("/account/totp").text
    before = site.run(site.store.credentials(visitor.who)).totp_secret
    fields = {"secret": new, "code": code_of(new), "password": site.password}
    for old in ({}, {"old-code": code_of(new)}, {"old-code": code_of(second_factor)}):
        answer = visitor.post("/account/totp/confirm", {**fields, **old})
        assert answer.status_code == 400
        assert "current second factor is wrong" in answer.text
    assert site.run(site.store.credentials(visitor.who)).totp_secret == before
    right = {**fields, "old-code": code_of(second_factor, 1)}
    assert site.went(visitor.post("/account/totp/confirm", right)) == "/account totp-on"
    assert site.run(site.store.totp_secret(site.run(site.store.credentials(visitor.who)))) == new


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
