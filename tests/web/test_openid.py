"""Signing in through an OpenID provider: a real one in its own process, and answers that must not be believed."""

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from tests.web.conftest import Site
from tests.web.openid_provider import CLIENT, SECRET
from tests.web.strangers import new_address

from gatepost.abby import authenticator
from gatepost.abby.authenticator import Guesses
from gatepost.ids import new_id
from gatepost.settings.keys import AccessRuleSettings, OpenidConnectSettings
from gatepost.store import open_store
from gatepost.store.audit import CLI
from gatepost.store.tenants import Tenant
from gatepost.web.openid import FLOW_COOKIE
from gatepost.web.request import COOKIE_NAME

ROOT = Path(__file__).parents[2]
TENANT = "7f9c0e0e-0000-4000-8000-000000000001"


class ProviderProcess:
    """The provider, and what a test tells it to do."""

    def __init__(self, host: str = "127.0.0.1", port: int = 0) -> None:
        command = [sys.executable, "-m", "tests.web.openid_provider", host, str(port)]
        self._process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout
        self.issuer = self._process.stdout.readline().strip()

    def tell(self, **told: Any) -> dict[str, Any]:
        """Set claims and faults; with `logout`, a logout token comes back."""
        # Not as `httpx` writes it, which has no halves of characters.
        found: dict[str, Any] = httpx.post(f"{self.issuer}/control", content=json.dumps(told), trust_env=False).json()
        return found

    def asked(self, path: str) -> int:
        """How often a path was asked for."""
        return int(httpx.get(f"{self.issuer}/control", trust_env=False).json().get(path, 0))

    def stop(self) -> None:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.close()
        self._process.wait(180)
        self._process.stdout.close()


@pytest.fixture(scope="module")
def provider() -> Iterator[ProviderProcess]:
    made = ProviderProcess()
    yield made
    made.stop()


def settings_for(provider: ProviderProcess, tenant: str, **more: Any) -> OpenidConnectSettings:
    access = [
        AccessRuleSettings(claim="groups", value="gatepost-admins", role="administrator"),
        AccessRuleSettings(claim="realm_access.roles", value="acme", role="analyst", tenant=tenant),
        AccessRuleSettings(claim="groups", value="nowhere", role="auditor", tenant=TENANT),
    ]
    return OpenidConnectSettings(
        issuer=provider.issuer, client_id=CLIENT, client_secret=SECRET, access=access, label="Example ID", **more
    )


@pytest.fixture(scope="module")
def openid_site(provider: ProviderProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A site whose users come through the provider; `acme` is the tenant of one of its rules."""
    folder = tmp_path_factory.mktemp("openid")
    acme = asyncio.run(_make_tenant(folder))
    made: Any = Site(folder, openid=settings_for(provider, acme))
    made.acme = acme
    yield made
    made.stop()


async def _make_tenant(folder: Path) -> str:
    store = open_store("sqlite:web.db", folder)
    tenant = await store.tenants.create("Acme")
    await store.close()
    assert isinstance(tenant, Tenant)
    return tenant.uid


class Browser:
    """A browser that carries its cookies by hand, since the site is not on TLS here."""

    def __init__(self, site: Any) -> None:
        self._site = site
        self.cookies: dict[str, str] = {}
        transport = httpx.HTTPTransport(local_address=new_address(), verify=site.no_tls)
        self.client = httpx.Client(base_url=site.url, headers={"Accept": "text/html"}, transport=transport)
        site.close_later(self.client)

    def get(self, path: str) -> httpx.Response:
        return self._keep(self.client.get(path, headers={"Cookie": self._header()}))

    def post(self, path: str, fields: dict[str, str]) -> httpx.Response:
        return self._keep(self.client.post(path, data=fields, headers={"Cookie": self._header()}))

    def _header(self) -> str:
        return "; ".join(f"{name}={value}" for name, value in self.cookies.items())

    def _keep(self, answer: httpx.Response) -> httpx.Response:
        for line in answer.headers.get_list("set-cookie"):
            name, _, value = line.partition(";")[0].partition("=")
            if "Max-Age=0" in line or not value.strip('"'):
                self.cookies.pop(name, None)
            else:
                self.cookies[name] = value
        self.client.cookies.clear()
        return answer

    def begin(self, target: str = "") -> str:
        """Begin to sign in; the address of the answer that the provider sends back with the browser."""
        begun = self.get(f"/sign-in/openid?next={target}")
        assert begun.status_code == 303, begun.text
        answer = httpx.get(begun.headers["location"], trust_env=False)
        assert answer.status_code == 303, answer.text
        back = urlsplit(answer.headers["location"])
        assert f"{back.scheme}://{back.netloc}" == self._site.url
        return f"{back.path}?{back.query}"

    def sign_in(self, target: str = "") -> httpx.Response:
        return self.get(self.begin(target))

    @property
    def is_signed_in(self) -> bool:
        return COOKIE_NAME in self.cookies and self.get("/account").status_code == 200


def claims(**more: Any) -> dict[str, Any]:
    return {"sub": new_id(), "preferred_username": f"ann {new_id()}", "groups": ["x", "gatepost-admins"], **more}


def test_somebody_signs_in_and_is_a_user_without_a_password(openid_site: Any, provider: ProviderProcess) -> None:
    who = claims()
    provider.tell(claims=who)
    browser = Browser(openid_site)
    assert "Sign in with Example ID" in browser.get("/sign-in").text
    entered = browser.sign_in("/users")
    assert entered.headers["location"] == "/users"
    assert FLOW_COOKIE not in browser.cookies
    page = browser.get("/users").text
    assert who["preferred_username"] in page
    assert ">external</span>" in page
    assert "managed there" in browser.get("/account").text
    found = openid_site.known(who["preferred_username"])
    assert (found.user.role, found.user.tenant, found.password) == ("administrator", None, "")
    assert found.user.external == f"{provider.issuer} {who['sub']}"
    refused = browser.post("/sign-in", {"name": found.user.name, "password": ""})
    assert refused.status_code == 401, "there is no password, not even an empty one"
    trail = openid_site.trail(actor=f"user:{found.user.name}")
    assert "OpenID Connect" in next(each.sample for each in trail if each.action == "user.signIn")
    again = Browser(openid_site)
    again.sign_in()
    assert again.is_signed_in
    everybody = openid_site.run(openid_site.store.users.all())
    assert [each.uid for each in everybody if each.external == found.user.external] == [found.user.uid]


@pytest.mark.parametrize("algorithm", ["RS256", "ES256", "EdDSA"])
def test_each_algorithm_of_the_list(openid_site: Any, provider: ProviderProcess, algorithm: str) -> None:
    provider.tell(claims=claims(), algorithm=algorithm)
    browser = Browser(openid_site)
    assert browser.sign_in().status_code == 303
    assert browser.is_signed_in


def test_role_and_tenant_follow_the_claims(openid_site: Any, provider: ProviderProcess) -> None:
    who = claims(groups=[], realm_access={"roles": ["acme"]})
    provider.tell(claims=who)
    browser = Browser(openid_site)
    browser.sign_in()
    user = openid_site.known(who["preferred_username"]).user
    assert (user.role, user.tenant) == ("analyst", openid_site.acme)
    assert browser.get("/users").status_code == 403
    provider.tell(claims={**who, "groups": ["gatepost-admins"]})
    raised = Browser(openid_site)
    raised.sign_in()
    assert raised.get("/users").status_code == 200
    assert browser.get("/account").status_code == 303, "the session from before has ended"
    record = openid_site.trail(action="user.change")[0]
    assert record.actor.label == "system:OpenID Connect"


@pytest.mark.parametrize("groups", [[], ["gatepost-admin"], "gatepost-adminsx", {"gatepost-admins": 1}, None, 7])
def test_claims_that_open_nothing(openid_site: Any, provider: ProviderProcess, groups: Any) -> None:
    who = claims(groups=groups)
    provider.tell(claims=who)
    browser = Browser(openid_site)
    refused = browser.sign_in()
    assert refused.status_code == 403
    assert "nothing there gives you access" in refused.text
    assert not browser.is_signed_in
    assert openid_site.known(who["preferred_username"]) is None
    record = openid_site.trail(action="user.signInFailed")[0]
    assert f"{provider.issuer} {who['sub']}" in record.sample


def test_a_tenant_that_does_not_exist_opens_nothing(openid_site: Any, provider: ProviderProcess) -> None:
    provider.tell(claims=claims(groups=["nowhere"]))
    assert Browser(openid_site).sign_in().status_code == 403


def test_a_disabled_user_stays_out(openid_site: Any, provider: ProviderProcess) -> None:
    who = claims()
    provider.tell(claims=who)
    Browser(openid_site).sign_in()
    user = openid_site.known(who["preferred_username"]).user
    openid_site.run(openid_site.store.users.update(user.uid, by=CLI, disabled=True))
    refused = Browser(openid_site).sign_in()
    assert refused.status_code == 403
    assert "disabled" in refused.text


def test_the_name_of_somebody_here_is_not_taken_over(openid_site: Any, provider: ProviderProcess) -> None:
    local = openid_site.new_user("administrator")
    provider.tell(claims=claims(preferred_username=local.upper()))
    browser = Browser(openid_site)
    browser.sign_in()
    assert f"{local.upper()} (external)" in browser.get("/account").text
    assert not openid_site.known(local).user.external


NOW = int(time.time())
WRONG_CLAIMS: list[dict[str, Any]] = [
    *({"nonce": "of another browser"}, {"nonce": None}, {"nonce": "\ud800"}, {"sid": "\ud800"}),
    *({"aud": "another-client"}, {"aud": ["another-client"]}, {"aud": [CLIENT, "another-client"]}),
    *({"azp": "another-client"}, {"iss": "https://evil.example"}),
    *({"exp": NOW - 120}, {"exp": str(NOW + 3_000)}, {"exp": 10**400}, {"exp": None}),
    *({"iat": NOW + 86_400}, {"iat": NOW - 86_400}, {"iat": None}, {"nbf": NOW + 6_000}, {"nbf": True}),
    *({"sub": None}, {"sub": ""}, {"sub": ["a"]}),
]
WRONG_SIGNATURES = [
    *("access token", "alg none", "hmac with the public key", "key of a stranger", "unknown key", "changed claims"),
]


@pytest.mark.parametrize(
    "told",
    [*({"claims": claims} for claims in WRONG_CLAIMS), *({"wrong": wrong} for wrong in WRONG_SIGNATURES)],
    ids=lambda told: told.get("wrong") or " ".join(told["claims"]),
)
def test_an_id_token_that_is_not_believed(openid_site: Any, provider: ProviderProcess, told: dict[str, Any]) -> None:
    provider.tell(**{**told, "claims": claims(**told.get("claims", {}))})
    browser = Browser(openid_site)
    refused = browser.sign_in()
    assert refused.status_code == 403
    assert "could not be verified" in refused.text
    assert COOKIE_NAME not in browser.cookies
    assert FLOW_COOKIE not in browser.cookies


@pytest.mark.parametrize("wrong", ["answer of another issuer", "answer without issuer", "access denied"])
def test_an_answer_whose_code_is_not_exchanged(openid_site: Any, provider: ProviderProcess, wrong: str) -> None:
    provider.tell(claims=claims(), wrong=wrong)
    before = provider.asked("/token")
    browser = Browser(openid_site)
    refused = browser.sign_in()
    assert (refused.status_code, COOKIE_NAME in browser.cookies) == (403, False)
    assert provider.asked("/token") == before


@pytest.mark.parametrize("wrong", ["redirect", "huge answer", "no JSON", "no id token"])
def test_a_token_endpoint_that_misbehaves(openid_site: Any, provider: ProviderProcess, wrong: str) -> None:
    provider.tell(claims=claims(), wrong=wrong)
    refused = Browser(openid_site).sign_in()
    assert refused.status_code == 503
    assert "does not answer as it should" in refused.text
    assert provider.asked("/elsewhere") == 0, "redirects are not followed"


def test_the_answer_of_another_browser_is_refused(openid_site: Any, provider: ProviderProcess) -> None:
    provider.tell(claims=claims())
    attacker, victim = Browser(openid_site), Browser(openid_site)
    planted, own = attacker.begin(), victim.begin()
    before = provider.asked("/token")
    for path in (planted, own.replace("state=", "state=x"), "/sign-in/openid/callback?code=x"):
        assert victim.get(path).status_code == 400
    assert Browser(openid_site).get(planted).status_code == 400, "a browser that has not begun"
    assert provider.asked("/token") == before
    assert not victim.is_signed_in
    assert victim.get(own).status_code == 303, "what others send does not spoil a sign-in under way"


def test_an_answer_works_once(openid_site: Any, provider: ProviderProcess) -> None:
    provider.tell(claims=claims())
    browser = Browser(openid_site)
    answer = browser.begin()
    flow = browser.cookies[FLOW_COOKIE]
    assert browser.get(answer).status_code == 303
    assert browser.get(answer).status_code == 400
    thief = Browser(openid_site)
    thief.cookies[FLOW_COOKIE] = flow
    assert thief.get(answer).status_code == 503, "with the cookie as well, the provider refuses the code"
    assert not thief.is_signed_in


def test_a_code_of_another_sign_in_is_refused(openid_site: Any, provider: ProviderProcess) -> None:
    """Code injection: the code of the attacker with the state of the victim. PKCE binds it to its own browser."""
    provider.tell(claims=claims())
    attacker, victim = Browser(openid_site), Browser(openid_site)
    stolen = parse_qs(urlsplit(attacker.begin()).query)["code"][0]
    own = victim.begin()
    code = parse_qs(urlsplit(own).query)["code"][0]
    assert victim.get(own.replace(code, stolen)).status_code == 503
    assert not victim.is_signed_in


def test_only_pages_of_this_site_are_gone_to(openid_site: Any, provider: ProviderProcess) -> None:
    provider.tell(claims=claims())
    assert Browser(openid_site).sign_in("//evil.example").headers["location"] == "/"


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wrong tokens do not make the address of the test wait."""
    monkeypatch.setattr(authenticator, "FREE_GUESSES", 1_000)


def leave(site: Any, token: str) -> int:
    """Send a logout token as the provider does; the status of the answer."""
    url = f"{site.url}/sign-in/openid/logout"
    return httpx.post(url, data={"logout_token": token}, trust_env=False).status_code


@pytest.mark.usefixtures("patient")
def test_the_provider_ends_sessions(openid_site: Any, provider: ProviderProcess) -> None:
    who = claims(sid="session-7")
    provider.tell(claims=who)
    first = Browser(openid_site)
    first.sign_in()
    provider.tell(claims={**who, "sid": "session-8"})
    second = Browser(openid_site)
    second.sign_in()

    def end(**told: Any) -> int:
        return leave(openid_site, provider.tell(logout=told, claims=who)["logout_token"])

    faults: list[dict[str, Any]] = [{"aud": "another"}, {"iss": "https://evil.example"}, {"nonce": "x"}]
    for wrong in (*faults, {"events": {}}, {"iat": 1}, {"sid": None}):
        assert end(**{"sid": "session-7", **wrong}) == 400
    assert (first.is_signed_in, second.is_signed_in) == (True, True)
    assert end(sid="session-7", sub="somebody else") == 200
    assert first.is_signed_in, "the session is not that subject's"
    assert end(sid="session-7") == 200
    assert (first.is_signed_in, second.is_signed_in) == (False, True)
    assert end(sub=who["sub"]) == 200
    assert not second.is_signed_in
    assert leave(openid_site, "x.y.z") == 400


@pytest.mark.usefixtures("patient")
def test_a_logout_token_works_once(openid_site: Any, provider: ProviderProcess) -> None:
    """Whoever has seen a token cannot end sessions that were begun after it; one without an id is refused."""
    who = claims()
    token = provider.tell(logout={"sub": who["sub"]}, claims=who)["logout_token"]
    unnamed = provider.tell(logout={"sub": who["sub"], "jti": None}, claims=who)["logout_token"]

    assert leave(openid_site, unnamed) == 400
    assert leave(openid_site, token) == 200
    browser = Browser(openid_site)
    browser.sign_in()
    assert leave(openid_site, token) == 400
    assert browser.is_signed_in
    again = provider.tell(logout={"sub": who["sub"]}, claims=who)["logout_token"]
    assert leave(openid_site, again) == 200
    assert not browser.is_signed_in


def test_addresses_that_send_wrong_logout_tokens_wait(openid_site: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    turns: list[str] = []

    def take_turn(_self: Guesses, address: str) -> float | None:
        turns.append(address)
        return None

    monkeypatch.setattr(Guesses, "take_turn", take_turn)
    assert leave(openid_site, "x.y.z") == 429
    assert turns == ["logout:127.0.0.1"]


def test_signing_out_offers_to_sign_out_at_the_provider(openid_site: Any, provider: ProviderProcess) -> None:
    provider.tell(claims=claims())
    browser = Browser(openid_site)
    browser.sign_in()
    csrf = browser.get("/account").text.partition('name="csrf" value="')[2].partition('"')[0]
    left = browser.post("/sign-out", {"csrf": csrf})
    assert "Sign out at Example ID too" in browser.get(left.headers["location"]).text
    there = browser.get("/sign-in/openid/sign-out").headers["location"]
    assert there.startswith(f"{provider.issuer}/leave?")
    assert parse_qs(urlsplit(there).query)["post_logout_redirect_uri"] == [f"{openid_site.url}/sign-in"]


def test_what_is_known_of_the_provider_is_kept(openid_site: Any, provider: ProviderProcess) -> None:
    provider.tell(claims=claims())
    Browser(openid_site).sign_in()
    before = provider.asked("/.well-known/openid-configuration"), provider.asked("/keys")
    for wrong in ("", "unknown key", "unknown key", "unknown key"):
        provider.tell(claims=claims(), wrong=wrong)
        Browser(openid_site).sign_in()
    after = provider.asked("/.well-known/openid-configuration"), provider.asked("/keys")
    assert after[0] == before[0]
    assert after[1] - before[1] <= 1, "keys are asked for again at most once a minute"
