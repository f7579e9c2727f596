"""Security keys as a second factor: added and removed on the page Account, asked for at the next sign-in.

The pages are reached under a name, as browsers send it, since keys belong to names.
"""

import json
import re
import time
from typing import Any

import httpx
import pytest
from tests.store_reading import read_attempts
from tests.web.authenticators import Authenticator
from tests.web.conftest import find_in
from tests.web.strangers import code_of, new_address

from gatepost.store.audit import CLI
from gatepost.store.second_factors import NewSecurityKey
from gatepost.web import credentials

HOST = "mail.example.com:9081"
ORIGIN = f"https://{HOST}"
NAMED = {"Host": HOST}


@pytest.fixture
def visitor(site: Any) -> Any:
    entered = site.enter(site.new_user())
    entered._client.headers["Host"] = HOST
    return entered


def asked_to_make(page: httpx.Response) -> dict[str, Any]:
    wanted: dict[str, Any] = json.loads(find_in(r'data-key-make="([^"]+)"', page.text))
    return wanted


def begin(site: Any, visitor: Any, name: str = "blue key", **proof: str) -> httpx.Response:
    answer: httpx.Response = visitor.post("/account/keys", {"name": name, "password": site.password, **proof})
    return answer


def add(site: Any, visitor: Any, key: Authenticator, name: str = "blue key", **proof: str) -> httpx.Response:
    wanted = asked_to_make(begin(site, visitor, name, **proof))
    answer: httpx.Response = visitor.post("/account/keys/add", {"name": name, **key.make(wanted["challenge"])})
    return answer


@pytest.fixture
def key(site: Any, visitor: Any) -> Authenticator:
    """A key that the visitor has added as the first second factor."""
    made = Authenticator(ORIGIN, counter=1)
    assert "Your recovery codes" in add(site, visitor, made).text
    return made


class HalfSignedIn:
    """A browser of its own in which the password was right."""

    def __init__(self, site: Any, name: str, host: str = HOST) -> None:
        transport = httpx.HTTPTransport(local_address=new_address(), verify=site.no_tls)
        headers = {"Accept": "text/html", "Host": host}
        self.client = httpx.Client(base_url=site.url, headers=headers, transport=transport)
        site.close_later(self.client)
        self.page = self.client.post("/sign-in", data={"name": name, "password": site.password})
        self.client.headers["Cookie"] = self.page.headers["set-cookie"].partition(";")[0]
        self.client.cookies.clear()

    def challenge(self) -> str:
        answer = self.client.post("/sign-in/key/options")
        assert answer.status_code == 200, answer.text
        assert answer.headers["content-type"] == "application/json"
        return str(answer.json()["challenge"])

    def show(self, key: Authenticator, challenge: str = "") -> httpx.Response:
        return self.send(key.sign(challenge or self.challenge()))

    def send(self, fields: dict[str, str]) -> httpx.Response:
        return self.client.post("/sign-in/key", data=fields)


def test_a_key_is_added_and_opens(site: Any, visitor: Any) -> None:
    elsewhere = site.enter(visitor.who)
    key = Authenticator(ORIGIN, counter=1)
    codes = re.findall(r"\b(?:[a-z2-7]{4}-){3}[a-z2-7]{4}\b", add(site, visitor, key).text)
    assert len(codes) == 10
    assert visitor.get("/account").status_code == 200
    assert elsewhere.get("/account").status_code == 303, "a session without the key has ended"
    page = visitor.get("/account").text
    assert "blue key" in page
    assert ">10</span> recovery codes are left" in page
    half = HalfSignedIn(site, visitor.who)
    assert "Use a security key" in half.page.text
    assert "needs JavaScript" in half.page.text
    assert 'name="code" inputmode' not in half.page.text, "there is no app"
    assert half.client.get("/messages").headers["location"].startswith("/sign-in")
    opened = half.show(key)
    assert site.went(opened) == "/"
    assert opened.headers["set-cookie"].partition(";")[0] != half.client.headers["Cookie"], "a new cookie"
    signed_in = next(each for each in site.trail(actor=f"user:{visitor.who}") if each.action == "user.signIn")
    assert "security key" in signed_in.sample
    lost = HalfSignedIn(site, visitor.who)
    assert site.went(lost.client.post("/sign-in/code", data={"code": codes[0]})) == "/ recovery-code~9"


def test_a_second_key_needs_the_first_one_or_a_code(site: Any, visitor: Any, key: Authenticator) -> None:
    assert begin(site, visitor, "red key").status_code == 400
    challenge = visitor.post("/account/keys/options").json()["challenge"]
    assert begin(site, visitor, "red key", **Authenticator(ORIGIN).sign(challenge)).status_code == 400
    challenge = visitor.post("/account/keys/options").json()["challenge"]
    wrong = visitor.post("/account/keys", {"name": "red", "password": "wrong", **key.sign(challenge)})
    assert wrong.status_code == 400
    red = Authenticator(ORIGIN)
    challenge = visitor.post("/account/keys/options").json()["challenge"]
    assert site.went(add(site, visitor, red, "red key", **key.sign(challenge))) == "/account key-added"
    assert site.known(visitor.who).user.keys == 2
    assert site.went(HalfSignedIn(site, visitor.who).show(red)) == "/"


def test_removing_keys(site: Any, visitor: Any, key: Authenticator) -> None:
    uid = site.known(visitor.who).user.uid
    (stored,) = site.run(site.store.second_factors.security_keys(uid))
    path = f"/account/keys/{stored.id}/remove"
    assert visitor.post(path, {"password": site.password}).status_code == 400
    challenge = visitor.post("/account/keys/options").json()["challenge"]
    assert visitor.post(path, {"password": site.password, **key.sign(challenge)}).status_code == 303
    assert not site.known(visitor.who).user.has_second_factor
    assert site.run(site.store.second_factors.count_recovery_codes(uid)) == 0
    assert site.enter(visitor.who).get("/account").status_code == 200, "the password is enough again"


def test_an_app_beside_a_key(site: Any, visitor: Any, key: Authenticator) -> None:
    secret = credentials.new_totp_secret()
    challenge = visitor.post("/account/keys/options").json()["challenge"]
    fields = {"secret": secret, "code": code_of(secret), "password": site.password}
    assert visitor.post("/account/totp/confirm", fields).status_code == 400, "the key is the second factor"
    assert visitor.post("/account/totp/confirm", {**fields, **key.sign(challenge)}).status_code == 200
    half = HalfSignedIn(site, visitor.who)
    assert "Use a security key" in half.page.text
    assert 'name="code" inputmode' in half.page.text
    assert site.went(half.client.post("/sign-in/code", data={"code": code_of(secret, 1)})) == "/"
    assert site.went(HalfSignedIn(site, visitor.who).show(key)) == "/"


def test_a_challenge_is_of_one_session_and_works_once(site: Any, visitor: Any, key: Authenticator) -> None:
    half = HalfSignedIn(site, visitor.who)
    challenge = half.challenge()
    answer = key.sign(challenge)
    assert HalfSignedIn(site, visitor.who).send(answer).status_code == 401, "another session"
    assert half.send({"next": "/"}).status_code == 401, "nothing is signed, and the challenge is used up"
    assert half.send(answer).status_code == 401
    challenge = half.challenge()
    assert half.challenge() != challenge
    assert half.show(key, challenge).status_code == 401, "a newer one was asked for"
    assert site.went(half.show(key)) == "/"
    assert half.client.post("/sign-in/key/options").status_code == 401, "the half session is over"


def test_answers_that_are_not_accepted(site: Any, visitor: Any, key: Authenticator) -> None:
    other = site.enter(site.new_user())
    other._client.headers["Host"] = HOST
    theirs = Authenticator(ORIGIN)
    add(site, other, theirs)
    refused = HalfSignedIn(site, visitor.who).show(theirs)
    assert refused.status_code == 401, "it is somebody else's"
    assert "was not accepted" in refused.text
    assert site.went(HalfSignedIn(site, visitor.who).show(key)) == "/"


def test_a_counter_that_goes_back_is_refused_and_told(site: Any, visitor: Any, key: Authenticator) -> None:
    assert site.went(HalfSignedIn(site, visitor.who).show(key)) == "/"
    key.counter -= 1
    assert HalfSignedIn(site, visitor.who).show(key).status_code == 401
    refused = [each for each in site.trail(actor=f"user:{visitor.who}") if each.action == "user.keyRefused"]
    assert refused[0].sample[1:] == ("blue key", "signature counter 2 after 2")


def test_attempts_with_keys_are_counted_as_codes_are(site: Any, visitor: Any, key: Authenticator) -> None:
    half = HalfSignedIn(site, visitor.who)
    for _ in range(5):
        half.send({"key-id": "x"})
    counted = site.run(read_attempts(site.store, site.known(visitor.who).user.uid))
    ((failures, until),) = (state for source, state in counted.items() if source.startswith("address:"))
    assert (failures, until > time.time() * 1000) == (5, True)
    assert half.show(key).status_code == 401, "right, and too late"
    failures = [
        each.sample[1] for each in site.trail(actor=f"user:{visitor.who}") if each.action == "user.signInFailed"
    ]
    assert failures == ["wrong key"] * 5


def test_keys_belong_to_a_host(site: Any, visitor: Any, key: Authenticator) -> None:
    there = HalfSignedIn(site, visitor.who, "other.example")
    assert "were made for mail.example.com and work there only" in there.page.text
    assert there.client.post("/sign-in/key/options").status_code == 401
    visitor._client.headers["Host"] = "127.0.0.1:9081"
    page = visitor.get("/account").text
    assert "not usable here" in page
    assert "open these pages by a name" in page
    assert "host names" in begin(site, visitor).text


@pytest.mark.parametrize(
    ("change", "said"),
    [({"name": " "}, "Enter a name"), ({"name": "a\nb"}, "Enter a name"), ({"password": "wrong"}, "password is wrong")],
)
def test_what_adding_a_key_needs(site: Any, visitor: Any, change: dict[str, str], said: str) -> None:
    answer = visitor.post("/account/keys", {"name": "k", "password": site.password, **change})
    assert answer.status_code == 400
    assert said in answer.text


def test_a_key_that_was_not_asked_for(site: Any, visitor: Any) -> None:
    key = Authenticator(ORIGIN)
    assert visitor.post("/account/keys/add", {"name": "k", **key.make("AAAA")}).status_code == 400
    wanted = asked_to_make(begin(site, visitor))
    stale = visitor.post("/account/keys/add", {"name": "k", **key.make("AAAA")})
    assert stale.status_code == 400
    assert visitor.post("/account/keys/add", {"name": "k", **key.make(wanted["challenge"])}).status_code == 400
    assert not site.known(visitor.who).user.has_second_factor


def test_a_key_that_is_known_and_keys_that_are_too_many(site: Any, visitor: Any, key: Authenticator) -> None:
    uid = site.known(visitor.who).user.uid
    options = visitor.post("/account/keys/options").json()
    wanted = asked_to_make(begin(site, visitor, **key.sign(options["challenge"])))
    assert [each["id"] for each in wanted["excludeCredentials"]] == [options["allowCredentials"][0]["id"]]
    again = visitor.post("/account/keys/add", {"name": "again", **key.make(wanted["challenge"])})
    assert again.status_code == 409
    assert "registered already" in again.text
    (session,) = site.run(site.store.sessions.of_user(uid, int(time.time() * 1000)))
    for number in range(9):
        made = NewSecurityKey(f"{uid}{number}", "mail.example.com", b"", 0, f"key {number}")
        site.run(site.store.second_factors.add_security_key(uid, made, CLI, keep=session.id))
    assert "which is the limit" in begin(site, visitor).text


def test_administrators_see_and_remove_keys(site: Any, visitor: Any, key: Authenticator) -> None:
    admin = site.visitor()
    page = admin.get("/users").text
    assert re.search(rf"{re.escape(visitor.who)}.*?1 key <span[^>]*>\(never used\)", page, re.DOTALL)
    HalfSignedIn(site, visitor.who).show(key)
    assert "last used" in admin.get("/users").text
    uid = site.known(visitor.who).user.uid
    assert admin.post(f"/users/{uid}/password", {"totp": "1"}).status_code == 200
    assert not site.known(visitor.who).user.has_second_factor
    assert site.run(site.store.second_factors.security_keys(uid)) == ()


def test_a_form_of_another_site_gets_no_challenge(site: Any, visitor: Any, key: Authenticator) -> None:
    half = HalfSignedIn(site, visitor.who)
    crossing = half.client.post("/sign-in/key/options", headers={"Sec-Fetch-Site": "cross-site"})
    assert crossing.status_code == 403
    assert visitor.bare("POST", "/account/keys/options", data={"a": "b"}).status_code == 403, "no token"
    assert httpx.post(f"{site.url}/sign-in/key/options", headers=NAMED, trust_env=False).status_code == 401
