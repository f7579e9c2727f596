"""Tokens of the provider: who signed them, for whom, when, and for which sign-in.

An id token is believed if its signature is by a key of the provider with an algorithm of our list, and if its issuer,
audience, times and nonce are right (OpenID Connect Core 1.0 section 3.1.3.7). A logout token has the same checks, and
those of OpenID Connect Back-Channel Logout 1.0 section 2.6. The check of the signature is joserfc's.
"""

import base64
import hmac
from typing import Any

import msgspec
from joserfc import jws
from joserfc.errors import JoseError, UnsupportedAlgorithmError
from joserfc.jwa import JWSAlgModel

from gatepost.settings.sign_in import OpenidConnectSettings
from gatepost.web.openid.claims import parse_number
from gatepost.web.openid.provider import ALGORITHMS, Provider, parse_object

MAX_TOKEN = 64 << 10
MAX_HEADER = 4 << 10
# Clocks differ.
LEEWAY_SECONDS = 60
# An id token is issued when its code is exchanged, a logout token when somebody signs out.
FRESH_SECONDS = 600
MAX_AUDIENCES = 100
MAX_SUBJECT = 255
LOGOUT_EVENT = "http://schemas.openid.net/event/backchannel-logout"


class _Registry(jws.JWSRegistry):
    """The algorithms of our list, and no other. joserfc warns of EdDSA, since RFC 9864 gives it another name."""

    def get_alg(self, name: str) -> JWSAlgModel:
        if name not in ALGORITHMS:
            raise UnsupportedAlgorithmError
        return self.algorithms[name]


_REGISTRY = _Registry(algorithms=list(ALGORITHMS), strict_check_header=False)


class TokenError(Exception):
    """A token is not believed. The text says why, for the log."""


class LogoutToken(msgspec.Struct, frozen=True):
    """Whose sessions the provider ends: all of a subject, or those that began with a session there."""

    subject: str
    session: str


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
    return LogoutToken(subject, session)


async def _verify_signature(token: str, provider: Provider) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return header and claims of a token that a key of the provider has signed."""
    header = _read_header(token)
    algorithm, kid = header.get("alg"), header.get("kid", "")
    if not isinstance(algorithm, str) or algorithm not in ALGORITHMS:
        raise TokenError("its algorithm is not among RS256, ES256 and EdDSA")
    if not isinstance(kid, str):
        raise TokenError("its key id is no text")
    keys = await provider.keys(kid, algorithm)
    for each in keys:
        try:
            signed = jws.deserialize_compact(token, each.key, algorithms=[algorithm], registry=_REGISTRY)
        except (JoseError, ValueError, TypeError, RecursionError):
            continue
        if (claims := parse_object(signed.payload or b"")) is not None:
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
    if not isinstance(subject, str) or not 0 < len(subject) <= MAX_SUBJECT or not subject.isascii():
        raise TokenError("its subject is missing, or not one")
    if not subject.isprintable():
        raise TokenError("its subject has control characters")
