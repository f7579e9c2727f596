"""Signing in through an OpenID provider: the way of a browser there and back, the provider, its tokens, their claims.

The provider: every request goes to the host of the issuer, or to one that the operator named; redirects are not
followed, and proxies of the environment are not used. An answer has so many bytes and so much time. Endpoints and keys
are kept for an hour. Keys are asked for again when a token names one that is not known, at most once a minute, and a
provider that does not answer is left alone for some seconds: strangers can begin to sign in, and must not make us ask
without end.

The way of a browser: nothing of it waits on the server. The browser keeps one secret in a cookie for ten minutes;
state, nonce and PKCE verifier are digests of it, each with a label of its own. The provider sees only those digests, so
whoever reads its addresses can neither forge the cookie nor exchange the code. An answer whose state is not that of the
cookie was begun in another browser.

Tokens: an id token is believed if its signature is by a key of the provider with an algorithm of our list, and if its
issuer, audience, times and nonce are right (OpenID Connect Core 1.0 section 3.1.3.7). A logout token has the same
checks, and those of OpenID Connect Back-Channel Logout 1.0 section 2.6. The check of the signature is joserfc's.

Claims of an id token open a role, for all tenants or for one; the first rule that is met counts. A claim is a text, a
number, or a list of them. A name with dots is first the name of a claim as it stands, as providers use URLs for names,
and else a path into nested objects. A user who meets no rule has no access.
"""

import asyncio
import base64
import hashlib
import hmac
import secrets
import ssl
import time
from importlib import import_module
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode, urlsplit

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from gatepost import __version__
from gatepost.settings.keys import AccessRuleSettings, OpenidConnectSettings
from gatepost.web.request import put_cookie

if TYPE_CHECKING:
    from gatepost.web.openid_keys import SigningKey

MAX_ANSWER = 256 << 10
MAX_URL = 2_000
REQUEST_SECONDS = 10.0
KEPT_SECONDS = 3600.0
# How often keys are asked for because a token names one that is not known.
UNKNOWN_KEY_SECONDS = 60.0
# For so long after a failure the provider is not asked again.
PAUSE_SECONDS = 5.0
# The algorithms that an id token may be signed with. Never a shared secret, never none.
ALGORITHMS = ("RS256", "ES256", "EdDSA")


class ProviderError(Exception):
    """The provider cannot be used now. The text is the end of a sentence and has no secret in it."""


class Endpoints(msgspec.Struct, frozen=True):
    """What discovery told. `names_issuer`: answers to the browser carry `iss` (RFC 9207)."""

    authorization: str
    token: str
    keys: str
    end_session: str = ""
    token_auth: tuple[str, ...] = ("client_secret_basic",)
    names_issuer: bool = False


class Provider:
    """One provider. Of several callers that need the same answer at once, one asks."""

    def __init__(self, settings: OpenidConnectSettings) -> None:
        self.settings = settings
        self._lock = asyncio.Lock()
        self._tls: ssl.SSLContext | None = None
        self._endpoints: Endpoints | None = None
        self._endpoints_at = 0.0
        self._keys: tuple[SigningKey, ...] = ()
        self._keys_at = float("-inf")
        self._failed_at = float("-inf")
        self._fault = ""

    async def endpoints(self) -> Endpoints:
        """Return the endpoints of the provider (OpenID Connect Discovery 1.0 section 4); raises `ProviderError`."""
        async with self._lock:
            return await self._find_endpoints()

    async def keys(self, kid: str, algorithm: str) -> "tuple[SigningKey, ...]":
        """Return the keys that a token may be signed with: those with this id, or all where it names none. Raises
        `ProviderError`."""
        from gatepost.web import openid_keys

        async with self._lock:
            age = time.monotonic() - self._keys_at
            found = _choose(self._keys, kid, algorithm)
            if age > KEPT_SECONDS or (not found and age > UNKNOWN_KEY_SECONDS):
                endpoints = await self._find_endpoints()
                self._keys = openid_keys.read_keys(await self._ask("GET", endpoints.keys))
                self._keys_at = time.monotonic()
                found = _choose(self._keys, kid, algorithm)
            return found

    async def exchange(self, code: str, verifier: str, redirect_uri: str) -> str:
        """Return the id token for a code (RFC 6749 section 4.1.3, RFC 7636 section 4.5); raises `ProviderError`."""
        endpoints = await self.endpoints()
        fields = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": redirect_uri,
            "code_verifier": verifier,
            "client_id": self.settings.client_id,
        }
        headers: dict[str, str] = {}
        secret = self.settings.client_secret
        if secret and "client_secret_basic" in endpoints.token_auth:
            pair = f"{quote(self.settings.client_id, safe='')}:{quote(secret, safe='')}"
            headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode('ascii')}"
        elif secret:
            fields["client_secret"] = secret
        answer = await self._ask("POST", endpoints.token, fields, headers)
        token = answer.get("id_token")
        if not isinstance(token, str) or not token:
            raise ProviderError("the provider did not return an id token")
        return token

    async def _find_endpoints(self) -> Endpoints:
        if self._endpoints and time.monotonic() - self._endpoints_at <= KEPT_SECONDS:
            return self._endpoints
        if time.monotonic() - self._failed_at < PAUSE_SECONDS:
            raise ProviderError(self._fault)
        try:
            found = await self._ask("GET", self.settings.issuer.rstrip("/") + "/.well-known/openid-configuration")
            self._endpoints, self._endpoints_at = self._read_endpoints(found), time.monotonic()
        except ProviderError as fault:
            self._failed_at, self._fault = time.monotonic(), str(fault)
            raise
        return self._endpoints

    def _read_endpoints(self, found: dict[str, Any]) -> Endpoints:
        if found.get("issuer") != self.settings.issuer:
            raise ProviderError("the provider names another issuer than signIn.openidConnect.issuer")
        methods = found.get("token_endpoint_auth_methods_supported")
        known = tuple(each for each in methods[:50] if isinstance(each, str)) if isinstance(methods, list) else ()
        end_session = found.get("end_session_endpoint")
        return Endpoints(
            authorization=self._check_url(found.get("authorization_endpoint"), "authorization_endpoint"),
            token=self._check_url(found.get("token_endpoint"), "token_endpoint"),
            keys=self._check_url(found.get("jwks_uri"), "jwks_uri"),
            end_session=self._check_url(end_session, "end_session_endpoint") if end_session else "",
            token_auth=known or ("client_secret_basic",),
            names_issuer=found.get("authorization_response_iss_parameter_supported") is True,
        )

    def _check_url(self, url: object, name: str) -> str:
        """Return the URL of an endpoint, if it is on a host of the provider."""
        issuer = urlsplit(self.settings.issuer)
        try:
            parts = urlsplit(url) if isinstance(url, str) and len(url) <= MAX_URL else None
            port = parts.port if parts else None
        except ValueError:
            parts = None
        if parts is None or not isinstance(url, str) or not (url.isascii() and url.isprintable()) or " " in url:
            raise ProviderError(f"the provider has no usable {name}")
        is_own = (parts.hostname, port) == (issuer.hostname, issuer.port) and parts.scheme == issuer.scheme
        named = {host.lower() for host in self.settings.hosts}
        if parts.username is not None or not (is_own or (parts.scheme == "https" and parts.hostname in named)):
            raise ProviderError(f"the {name} of the provider is on another host, which is not among its hosts")
        return url

    async def _ask(
        self, method: str, url: str, fields: dict[str, str] | None = None, headers: dict[str, str] | None = None
    ) -> dict[str, Any]:
        """Return the JSON object that a URL answers with."""
        import httpx

        sent = {
            "Accept": "application/json",
            "Accept-Encoding": "identity",
            "User-Agent": f"gatepost/{__version__}",
            **(headers or {}),
        }
        if self._tls is None:
            # Reading the certificates of the system takes some tens of milliseconds.
            self._tls = await asyncio.to_thread(ssl.create_default_context, cafile=self.settings.ca)
        try:
            async with (
                asyncio.timeout(REQUEST_SECONDS),
                httpx.AsyncClient(verify=self._tls, trust_env=False, timeout=REQUEST_SECONDS) as client,
                client.stream(method, url, data=fields, headers=sent) as response,
            ):
                body = bytearray()
                async for chunk in response.aiter_raw():
                    body += chunk
                    if len(body) > MAX_ANSWER:
                        raise ProviderError("an answer of the provider is too long")
                status = response.status_code
        except (httpx.HTTPError, httpx.InvalidURL, OSError, TimeoutError) as fault:
            raise ProviderError(f"the provider does not answer ({type(fault).__name__})") from None
        answer = parse_object(bytes(body))
        if status != 200:
            code = answer.get("error") if answer else None
            said = f", {code}" if isinstance(code, str) and code.isidentifier() and len(code) <= 60 else ""
            raise ProviderError(f"the provider answered {status}{said}")
        if answer is None:
            raise ProviderError("an answer of the provider is no JSON object")
        return answer


def parse_object(body: bytes) -> dict[str, Any] | None:
    """Return the JSON object that a stranger wrote, or None if it is none.

    Python's own parser takes half of a surrogate pair (`"\\ud800"`) for text. Such text cannot be encoded, so that it
    would raise wherever it is compared, hashed or stored; msgspec refuses it, as RFC 8259 section 8.2 permits.
    """
    try:
        found = msgspec.json.decode(body)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _choose(keys: "tuple[SigningKey, ...]", kid: str, algorithm: str) -> "tuple[SigningKey, ...]":
    return tuple(each for each in keys if each.algorithm == algorithm and (not kid or each.kid == kid))


FLOW_COOKIE = "__Host-gatepost-openid"
FLOW_SECONDS = 600
MAX_TARGET = 1_000
MAX_COOKIE = 2_000
# Codes that are exchanged at the same moment; each waits for the provider, and takes as many seconds as it does.
MAX_EXCHANGES = 10


class Flow(msgspec.Struct, frozen=True):
    """A sign-in that a browser has begun: its secret, and the path to go to afterwards."""

    secret: str
    target: str

    @property
    def state(self) -> str:
        return self._derive("state")

    @property
    def nonce(self) -> str:
        return self._derive("nonce")

    @property
    def verifier(self) -> str:
        return self._derive("verifier")

    @property
    def challenge(self) -> str:
        """The challenge of the method S256 (RFC 7636 section 4.2)."""
        return _encode(hashlib.sha256(self.verifier.encode("ascii")).digest())

    def _derive(self, label: str) -> str:
        key = self.secret.encode("utf-8", "replace")
        return _encode(hmac.digest(key, f"gatepost openid {label}".encode("ascii"), hashlib.sha256))


class OpenidClient:
    """Gatepost at its provider: the addresses that browsers are sent to, and the provider."""

    def __init__(self, settings: OpenidConnectSettings, public_url: str) -> None:
        # Loaded before anybody signs in: it would take tens of milliseconds of the event loop.
        for library in ("httpx", "gatepost.web.openid_keys"):
            import_module(library)
        self.settings = settings
        self.provider = Provider(settings)
        self.redirect_uri = public_url.rstrip("/") + "/sign-in/openid/callback"
        self._signed_out_uri = public_url.rstrip("/") + "/sign-in"
        self.exchanges = asyncio.Semaphore(MAX_EXCHANGES)

    def authorization_url(self, endpoints: Endpoints, flow: Flow) -> str:
        """Return where a browser signs in (OpenID Connect Core 1.0 section 3.1.2.1)."""
        asked = {
            "response_type": "code",
            "client_id": self.settings.client_id,
            "redirect_uri": self.redirect_uri,
            "scope": " ".join(self.settings.scopes),
            "state": flow.state,
            "nonce": flow.nonce,
            "code_challenge": flow.challenge,
            "code_challenge_method": "S256",
        }
        if self.settings.max_age is not None:
            asked["max_age"] = str(self.settings.max_age * 60)
        return _add_query(endpoints.authorization, asked)

    def end_session_url(self, endpoints: Endpoints) -> str:
        """Return where a browser signs out at the provider (OpenID Connect RP-Initiated Logout 1.0); "" if it cannot.
        The id token, which would spare a question there, is not kept."""
        if not endpoints.end_session:
            return ""
        asked = {"client_id": self.settings.client_id, "post_logout_redirect_uri": self._signed_out_uri}
        return _add_query(endpoints.end_session, asked)


def begin_flow(target: str) -> Flow:
    return Flow(secrets.token_urlsafe(32), target[:MAX_TARGET])


def read_flow(request: Request) -> Flow | None:
    content = request.cookies.get(FLOW_COOKIE, "")
    secret, _, target = content.partition(".")
    if len(content) > MAX_COOKIE or len(secret) < 40:
        return None
    try:
        path = base64.urlsafe_b64decode(target + "=" * (-len(target) % 4)).decode("utf-8")
    except ValueError:
        path = ""
    return Flow(secret, path)


def set_flow(response: Response, flow: Flow) -> Response:
    content = f"{flow.secret}.{_encode(flow.target.encode('utf-8', 'replace'))}"
    return put_cookie(response, FLOW_COOKIE, content, FLOW_SECONDS)


def _encode(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode("ascii")


def _add_query(url: str, fields: dict[str, str]) -> str:
    return f"{url}{'&' if urlsplit(url).query else '?'}{urlencode(fields)}"


MAX_TOKEN = 64 << 10
MAX_HEADER = 4 << 10
# Clocks differ.
LEEWAY_SECONDS = 60
# An id token is issued when its code is exchanged, a logout token when somebody signs out.
FRESH_SECONDS = 600
MAX_AUDIENCES = 100
MAX_SUBJECT = 255
MAX_TOKEN_ID = 500
LOGOUT_EVENT = "http://schemas.openid.net/event/backchannel-logout"


class TokenError(Exception):
    """A token is not believed. The text says why, for the log."""


class LogoutToken(msgspec.Struct, frozen=True):
    """Whose sessions the provider ends: all of a subject, or those that began with a session there. `id` is that of
    the token, which works once, and need not be remembered after `until` (Unix seconds)."""

    subject: str
    session: str
    id: str
    until: float


async def verify_id_token(token: str, provider: Provider, nonce: str, now: float) -> dict[str, Any]:
    """Return the claims of an id token; raises `TokenError`, or `ProviderError` where its keys cannot be fetched."""
    header, claims = await _verify_signature(token, provider)
    if str(header.get("typ", "JWT")).upper() != "JWT":
        raise TokenError("it is a token of another type")
    _check_parties(claims, provider.settings)
    _check_times(claims, now, needs_expiry=True)
    stated = claims.get("nonce")
    if not isinstance(stated, str) or not hmac.compare_digest(stated.encode(), nonce.encode()):
        raise TokenError("its nonce is that of another sign-in")
    _check_subject(claims.get("sub"))
    if (age := provider.settings.max_age) is not None:
        proven = parse_number(claims.get("auth_time"))
        if proven is None or now - proven > age * 60 + LEEWAY_SECONDS:
            raise TokenError("its auth_time is missing, or longer ago than maxAge")
    return claims


async def verify_logout_token(token: str, provider: Provider, now: float) -> LogoutToken:
    """Return whom a logout token is about; raises `TokenError` or `ProviderError`."""
    header, claims = await _verify_signature(token, provider)
    if str(header.get("typ", "logout+jwt")).lower() not in ("logout+jwt", "jwt"):
        raise TokenError("it is a token of another type")
    _check_parties(claims, provider.settings)
    _check_times(claims, now, needs_expiry=False)
    events = claims.get("events")
    if not isinstance(events, dict) or not isinstance(events.get(LOGOUT_EVENT), dict) or "nonce" in claims:
        raise TokenError("it is not a logout token")
    subject, session = claims.get("sub", ""), claims.get("sid", "")
    if not (isinstance(subject, str) and isinstance(session, str) and (subject or session)):
        raise TokenError("it names neither a subject nor a session")
    if subject:
        _check_subject(subject)
    # OpenID Connect Back-Channel Logout 1.0 section 2.4 requires it.
    token_id = claims.get("jti")
    if not isinstance(token_id, str) or not 0 < len(token_id) <= MAX_TOKEN_ID:
        raise TokenError("its id (jti) is missing, or not one")
    # Later than this its time of issue is refused, whatever it says of its own end.
    until = float(claims["iat"]) + FRESH_SECONDS + LEEWAY_SECONDS
    return LogoutToken(subject, session, token_id, until)


async def _verify_signature(token: str, provider: Provider) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return header and claims of a token that a key of the provider has signed."""
    from gatepost.web import openid_keys

    header = _read_header(token)
    algorithm, kid = header.get("alg"), header.get("kid", "")
    if not isinstance(algorithm, str) or algorithm not in ALGORITHMS:
        raise TokenError("its algorithm is not among RS256, ES256 and EdDSA")
    if not isinstance(kid, str):
        raise TokenError("its key id is no text")
    keys = await provider.keys(kid, algorithm)
    for each in keys:
        payload = openid_keys.read_signed(token, each)
        if payload is not None and (claims := parse_object(payload)) is not None:
            return header, claims
    raise TokenError("no key of the provider has signed it" if keys else "its key is not among those of the provider")


def _read_header(token: str) -> dict[str, Any]:
    """Return the header of a token, of which nothing is believed yet."""
    first, _, rest = token.partition(".")
    if len(token) > MAX_TOKEN or len(first) > MAX_HEADER or rest.count(".") != 1 or not token.isascii():
        raise TokenError("it is not a signed token in the compact form, or too long")
    try:
        header = parse_object(base64.urlsafe_b64decode(first + "=" * (-len(first) % 4)))
    except ValueError:
        header = None
    if header is None:
        raise TokenError("its header is no JSON object")
    return header


def _check_parties(claims: dict[str, Any], settings: OpenidConnectSettings) -> None:
    if claims.get("iss") != settings.issuer:
        raise TokenError("its issuer is another one")
    stated = claims.get("aud")
    audiences = stated[:MAX_AUDIENCES] if isinstance(stated, list) else [stated]
    if settings.client_id not in audiences:
        raise TokenError("it is for another audience")
    party = claims.get("azp")
    if (party is not None or len(audiences) > 1) and party != settings.client_id:
        raise TokenError("it was issued to another party")


def _check_times(claims: dict[str, Any], now: float, *, needs_expiry: bool) -> None:
    expires, issued, begins = (parse_number(claims.get(name)) for name in ("exp", "iat", "nbf"))
    if (expires is None and (needs_expiry or "exp" in claims)) or (
        expires is not None and expires <= now - LEEWAY_SECONDS
    ):
        raise TokenError("it has expired, or says not when")
    if issued is None or not now - FRESH_SECONDS <= issued <= now + LEEWAY_SECONDS:
        raise TokenError("it was not issued just now")
    if "nbf" in claims and (begins is None or begins > now + LEEWAY_SECONDS):
        raise TokenError("it is not valid yet")


def _check_subject(subject: Any) -> None:
    """A subject has at most 255 ASCII characters (OpenID Connect Core 1.0 section 2)."""
    is_text = isinstance(subject, str) and subject.isascii() and subject.isprintable()
    if not is_text or not 0 < len(subject) <= MAX_SUBJECT:
        raise TokenError("its subject is missing, or not one")


MAX_VALUES = 2_000
MAX_DEPTH = 8
MAX_NAME = 100


class Identity(msgspec.Struct, frozen=True):
    """A user of the provider: `external` is issuer and subject, which never change; `name` is for people."""

    external: str
    name: str
    session: str
    proven: float


def find_access(claims: dict[str, Any], rules: list[AccessRuleSettings]) -> AccessRuleSettings | None:
    """Return the first rule that the claims meet, None if they meet none."""
    return next((rule for rule in rules if rule.value in _values(claims, rule.claim)), None)


def describe_identity(claims: dict[str, Any], settings: OpenidConnectSettings) -> Identity:
    """Return who a verified id token is about. A name that cannot be shown is replaced by the subject."""
    subject, session = str(claims["sub"]), claims.get("sid")
    proven = parse_number(claims.get("auth_time"))
    return Identity(
        external=f"{settings.issuer} {subject}",
        name=_find_name(claims, settings.name_claim) or subject[:MAX_NAME],
        session=session if isinstance(session, str) else "",
        proven=float(claims["iat"]) if proven is None else proven,
    )


def alternative_names(identity: Identity) -> tuple[str, ...]:
    """Return the names to try for a new user: somebody else here may have the first one."""
    mark = hashlib.sha256(identity.external.encode("utf-8", "replace")).hexdigest()
    room = identity.name[: MAX_NAME - 20]
    return (identity.name, f"{room} (external)", f"{room} ({mark[:16]})")


def _find_name(claims: dict[str, Any], name: str) -> str:
    for each in (name, "preferred_username", "email", "name"):
        value = claims.get(each)
        if isinstance(value, str) and value.strip() and value.isprintable() and len(value) <= MAX_NAME:
            return value.strip()
    return ""


def _values(claims: dict[str, Any], name: str) -> set[str]:
    """Return the values of a claim as texts."""
    found = claims.get(name)
    if found is None:
        found = claims
        for step in name.split(".")[:MAX_DEPTH]:
            found = found.get(step) if isinstance(found, dict) else None
    listed = found[:MAX_VALUES] if isinstance(found, list) else [found]
    return {each for each in map(_text, listed) if each is not None}


def parse_number(value: Any) -> float | None:
    """Return a number of JSON, such as a time; None for anything else, and for one that is too large to be a float."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value)
    except OverflowError:
        return None


def _text(value: Any) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, str | int) else None
