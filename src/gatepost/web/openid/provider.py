"""What the OpenID provider says over HTTPS: its endpoints, its keys, and the tokens for a code.

Every request goes to the host of the issuer, or to one that the operator named; redirects are not followed, and proxies
of the environment are not used. An answer has so many bytes and so much time. Endpoints and keys are kept for an hour.
Keys are asked for again when a token names one that is not known, at most once a minute, and a provider that does not
answer is left alone for some seconds: strangers can begin to sign in, and must not make us ask without end.
"""

import asyncio
import base64
import ssl
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import quote, urlsplit

import httpx
import msgspec
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, OKPKey, RSAKey

from gatepost import __version__
from gatepost.settings.sign_in import OpenidConnectSettings

MAX_ANSWER = 256 << 10
MAX_KEYS = 50
MAX_URL = 2_000
REQUEST_SECONDS = 10.0
KEPT_SECONDS = 3600.0
# How often keys are asked for because a token names one that is not known.
UNKNOWN_KEY_SECONDS = 60.0
# For so long after a failure the provider is not asked again.
PAUSE_SECONDS = 5.0
MIN_RSA_BITS = 2048
# Each algorithm that an id token may be signed with, and the keys that it takes. Never a shared secret, never none.
ALGORITHMS: dict[str, tuple[type[RSAKey | ECKey | OKPKey], str]] = {
    "RS256": (RSAKey, "RSA"),
    "ES256": (ECKey, "EC"),
    "EdDSA": (OKPKey, "OKP"),
}

PublicKey = RSAKey | ECKey | OKPKey


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


class SigningKey(msgspec.Struct, frozen=True):
    """A public key of the provider with the algorithm that it is for."""

    kid: str
    algorithm: str
    key: PublicKey


class Provider:
    """One provider. Of several callers that need the same answer at once, one asks."""

    def __init__(self, settings: OpenidConnectSettings, clock: Callable[[], float] = time.monotonic) -> None:
        self.settings = settings
        self._clock = clock
        self._lock = asyncio.Lock()
        self._tls: ssl.SSLContext | None = None
        self._endpoints: Endpoints | None = None
        self._endpoints_at = 0.0
        self._keys: tuple[SigningKey, ...] = ()
        self._keys_at = float("-inf")
        self._failed_at = float("-inf")
        self._fault = ""
        # Work that was done so far.
        self.requests = 0

    async def endpoints(self) -> Endpoints:
        """Return the endpoints of the provider (OpenID Connect Discovery 1.0 section 4); raises `ProviderError`."""
        async with self._lock:
            return await self._find_endpoints()

    async def keys(self, kid: str, algorithm: str) -> tuple[SigningKey, ...]:
        """Return the keys that a token may be signed with: those with this id, or all where it names none. Raises
        `ProviderError`."""
        async with self._lock:
            age = self._clock() - self._keys_at
            found = _choose(self._keys, kid, algorithm)
            if age > KEPT_SECONDS or (not found and age > UNKNOWN_KEY_SECONDS):
                endpoints = await self._find_endpoints()
                self._keys = _read_keys(await self._ask("GET", endpoints.keys))
                self._keys_at = self._clock()
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
        if self._endpoints and self._clock() - self._endpoints_at <= KEPT_SECONDS:
            return self._endpoints
        if self._clock() - self._failed_at < PAUSE_SECONDS:
            raise ProviderError(self._fault)
        try:
            found = await self._ask("GET", self.settings.issuer.rstrip("/") + "/.well-known/openid-configuration")
            self._endpoints, self._endpoints_at = self._read_endpoints(found), self._clock()
        except ProviderError as fault:
            self._failed_at, self._fault = self._clock(), str(fault)
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
        self.requests += 1
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


def _choose(keys: tuple[SigningKey, ...], kid: str, algorithm: str) -> tuple[SigningKey, ...]:
    return tuple(each for each in keys if each.algorithm == algorithm and (not kid or each.kid == kid))


def _read_keys(found: dict[str, Any]) -> tuple[SigningKey, ...]:
    """Return the keys of a set (RFC 7517 section 5) that sign; those that we cannot use are left out."""
    listed = found.get("keys")
    keys = [_read_key(each) for each in listed[:MAX_KEYS]] if isinstance(listed, list) else []
    return tuple(key for key in keys if key)


def _read_key(found: Any) -> SigningKey | None:
    if not isinstance(found, dict) or found.get("use", "sig") != "sig":
        return None
    for algorithm, (kind, key_type) in ALGORITHMS.items():
        if found.get("kty") != key_type or found.get("alg", algorithm) != algorithm:
            continue
        public = {name: found[name] for name in ("kty", "n", "e", "crv", "x", "y") if isinstance(found.get(name), str)}
        if key_type == "RSA" and not _has_enough_bits(public.get("n", "")):
            continue
        if public.get("crv") != {"EC": "P-256", "OKP": "Ed25519"}.get(key_type):
            continue
        try:
            key = kind.import_key(public)
            key.public_key  # noqa: B018  built when it is first asked for
        except (JoseError, ValueError, TypeError, KeyError):
            return None
        kid = found.get("kid")
        return SigningKey(kid if isinstance(kid, str) else "", algorithm, key)
    return None


def _has_enough_bits(modulus: str) -> bool:
    """Is a modulus in Base64url between 2048 bits and 8192, so that a check takes no more than a millisecond?"""
    try:
        number = int.from_bytes(base64.urlsafe_b64decode(modulus + "=" * (-len(modulus) % 4)), "big")
    except ValueError:
        return False
    return MIN_RSA_BITS <= number.bit_length() <= 4 * MIN_RSA_BITS
