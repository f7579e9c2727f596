"""One's own account: the password, the second factor, the sessions."""

import re
from typing import Any

import httpx
import pytest
from tests.web.conftest import find_in
from tests.web.strangers import code_of, cookies_of, enter, post

from gatepost.ids import new_id
from gatepost.web.credentials import generate_password, password_fault
from gatepost.web.pages.account import describe_browser

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
        ({"password": NEW}, "is the current one"),
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
    assert site.attempts(visitor.who) == {"account": 0, "session": 5}
    answer = visitor.post("/account/password", {"password": site.password, "new": NEW, "again": NEW})
    assert answer.status_code == 400
    assert "Too many wrong attempts" in answer.text


def offered_secret(visitor: Any) -> str:
    page = visitor.post("/account/totp").text
    found = find_in(r'name="secret" value="([A-Z2-7]+)"', page)
    assert "<svg" in page
    return found


@pytest.fixture
def second_factor(site: Any, visitor: Any) -> str:
    """The secret of a second factor that was set up in the browser; the code of this moment is used up."""
    secret = offered_secret(visitor)
    fields = {"secret": secret, "code": code_of(secret), "password": site.password}
    assert len(shown_codes(visitor.post("/account/totp/confirm", fields))) == 10
    return secret


def shown_codes(answer: Any) -> list[str]:
    """The recovery codes that a page shows."""
    assert answer.status_code == 200
    return re.findall(r"\b[a-z2-7]{4}-[a-z2-7]{4}-[a-z2-7]{4}-[a-z2-7]{4}\b", answer.text)


def test_a_second_factor_is_set_up(site: Any, visitor: Any) -> None:
    elsewhere = site.enter(visitor.who)
    secret = offered_secret(visitor)
    confirm = {"secret": secret, "code": code_of(secret), "password": site.password}
    assert visitor.post("/account/totp/confirm", {**confirm, "password": "wrong"}).status_code == 400
    assert visitor.post("/account/totp/confirm", {**confirm, "code": "000000"}).status_code == 400
    assert not site.known(visitor.who).user.totp
    assert elsewhere.get("/account").status_code == 200
    assert len(set(shown_codes(visitor.post("/account/totp/confirm", confirm)))) == 10
    kept = site.known(visitor.who)
    assert kept.user.totp
    assert kept.totp_step > 0, "the code that proved it is used up"
    assert secret not in kept.totp_secret, "it is not stored in clear"
    assert visitor.get("/account").status_code == 200
    assert elsewhere.get("/account").status_code == 303, "a session without the second factor has ended"


def test_a_second_factor_is_removed_with_a_code_of_it(site: Any, visitor: Any, second_factor: str) -> None:
    for fields in ({}, {"old-code": "000000"}, {"old-code": code_of(second_factor)}):
        assert visitor.post("/account/totp/remove", {"password": site.password, **fields}).status_code == 400
    assert site.known(visitor.who).user.totp
    right = {"password": site.password, "old-code": code_of(second_factor, 1)}
    assert visitor.post("/account/totp/remove", {**right, "password": "wrong"}).status_code == 400
    assert visitor.post("/account/totp/remove", right).status_code == 303
    assert not site.known(visitor.who).user.totp


def test_a_new_second_factor_needs_a_code_of_the_old_one(site: Any, visitor: Any, second_factor: str) -> None:
    new = offered_secret(visitor)
    assert 'name="old-code"' in visitor.post("/account/totp").text
    before = site.known(visitor.who).totp_secret
    fields = {"secret": new, "code": code_of(new), "password": site.password}
    # A code of the step before was used, or is older than the one that was.
    for old in ({}, {"old-code": code_of(new)}, {"old-code": code_of(second_factor, -1)}):
        answer = visitor.post("/account/totp/confirm", {**fields, **old})
        assert answer.status_code == 400
        assert "current second factor is wrong" in answer.text
    assert site.known(visitor.who).totp_secret == before
    right = {**fields, "old-code": code_of(second_factor, 1)}
    assert len(shown_codes(visitor.post("/account/totp/confirm", right))) == 10
    assert site.run(site.store.second_factors.totp_secret(site.known(visitor.who))) == new


def enter_with_code(site: Any, name: str, code: str) -> httpx.Response:
    """Sign in with the password and a code, in a browser of its own."""
    first = enter(site, name, site.password)
    assert "Lost the device?" in first.text
    return post(site, "/sign-in/code", {"code": code}, cookies_of(first))


def test_a_recovery_code_works_once_instead_of_a_code(site: Any, visitor: Any) -> None:
    secret = offered_secret(visitor)
    confirm = {"secret": secret, "code": code_of(secret), "password": site.password}
    codes = shown_codes(visitor.post("/account/totp/confirm", confirm))
    uid = site.known(visitor.who).user.uid
    assert ">10</span> recovery codes are left" in visitor.get("/account").text
    entered = enter_with_code(site, visitor.who, f" {codes[3].upper().replace('-', ' ')} ")
    assert site.went(entered) == "/ recovery-code~9"
    assert enter_with_code(site, visitor.who, codes[3]).status_code == 401, "it was used"
    assert enter_with_code(site, visitor.who, "aaaa-bbbb-cccc-dddd").status_code == 401
    assert site.run(site.store.second_factors.count_recovery_codes(uid)) == 9
    trail = site.trail(actor=f"user:{visitor.who}")
    assert [each.sample[1] for each in trail if each.action == "user.recoveryCode"] == ["9 left"]
    assert "recovery code" in next(each.sample for each in trail if each.action == "user.signIn")
    assert not any(code in str(trail) for code in codes)


def test_new_recovery_codes_void_the_old_ones(site: Any, visitor: Any, second_factor: str) -> None:
    wrong = {"password": site.password, "old-code": "000000"}
    assert visitor.post("/account/recovery-codes", wrong).status_code == 400
    right = {"password": site.password, "old-code": code_of(second_factor, 1)}
    new = shown_codes(visitor.post("/account/recovery-codes", right))
    assert len(new) == 10
    newer = shown_codes(visitor.post("/account/recovery-codes", {"password": site.password, "old-code": new[0]}))
    assert set(new).isdisjoint(newer)
    assert visitor.post("/account/recovery-codes", {"password": site.password, "old-code": new[1]}).status_code == 400
    turned_off = visitor.post("/account/totp/remove", {"password": site.password, "old-code": newer[0]})
    assert turned_off.status_code == 303
    uid = site.known(visitor.who).user.uid
    assert site.run(site.store.second_factors.count_recovery_codes(uid)) == 0, "they go with the second factor"


def test_a_password_that_was_handed_over_has_to_be_changed_first(site: Any) -> None:
    made = site.visitor().post("/users", {"name": f"new {new_id()}", "role": "analyst", "scope": "global"}).text
    name, password = find_in(r"Password of ([^<]+)<", made), find_in(r'id="secret">([^<]+)<', made)
    listed = site.visitor().get("/users").text
    assert f'<strong>{name}</strong> <span class="badge warn">password to be changed' in listed
    first = site.enter(name, password)
    for path in ("/", "/quarantine", "/account", "/overview/live", "/messages/export"):
        assert first.get(path).headers["location"] == "/account/setup"
    page = first.get("/account/setup").text
    assert "Password that you were given" in page
    assert 'href="/quarantine"' not in page
    assert first.post("/scan").headers["location"] == "/account/setup"
    same = {"password": password, "new": password, "again": password}
    assert first.post("/account/password", same).status_code == 400
    right = {"password": password, "new": NEW, "again": NEW}
    assert first.post("/account/password", right).headers["location"] == "/account/setup"
    assert first.get("/account/setup").headers["location"] == "/"
    assert first.get("/quarantine").status_code == 200


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


def test_what_is_invented_is_taken() -> None:
    assert not password_fault(generate_password(), "admin")
    assert password_fault("administrator", "administrator")
    assert password_fault("x" * 300, "ann")


@pytest.mark.parametrize(
    ("agent", "said"),
    [
        ("Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0", "Firefox on Linux"),
        ("Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 HeadlessChrome/156.0 Safari/537.36", "Chrome on Linux"),
        ("Mozilla/5.0 (Windows NT 10.0) Chrome/150.0 Safari/537.36 Edg/150.0", "Edge on Windows"),
        ("Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) Version/18.0 Safari/604.1", "Safari on iPhone"),
        ("Firefox/1", "Firefox"),
        ("curl/8.0", ""),
        ("<b>Linux</b>", ""),
        ("", ""),
    ],
)
def test_a_session_names_its_browser_in_words(agent: str, said: str) -> None:
    assert describe_browser(agent) == said
