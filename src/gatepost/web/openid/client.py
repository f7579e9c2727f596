"""One way through the provider and back: what the browser is sent with, and what it must bring back.

Nothing of it waits on the server. The browser keeps one secret in a cookie for ten minutes; state, nonce and PKCE
verifier are digests of it, each with a label of its own. The provider sees only those digests, so whoever reads its
addresses can neither forge the cookie nor exchange the code. An answer whose state is not that of the cookie was begun
in another browser.
"""

import asyncio
import base64
import hashlib
import hmac
import secrets
from urllib.parse import urlencode, urlsplit

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from gatepost.settings.sign_in import OpenidConnectSettings
from gatepost.web.openid.provider import Endpoints, Provider

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

    def __init__(self, settings: OpenidConnectSettings, public_url: str, provider: Provider | None = None) -> None:
        self.settings = settings
        self.provider = provider or Provider(settings)
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
    """Return a new sign-in."""
    return Flow(secrets.token_urlsafe(32), target[:MAX_TARGET])


def read_flow(request: Request) -> Flow | None:
    """Return the sign-in that this browser has begun."""
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
    """Have the browser keep a sign-in."""
    content = f"{flow.secret}.{_encode(flow.target.encode('utf-8', 'replace'))}"
    response.set_cookie(
        FLOW_COOKIE, content, max_age=FLOW_SECONDS, path="/", secure=True, httponly=True, samesite="lax"
    )
    return response


def clear_flow(response: Response) -> Response:
    """Have the browser forget a sign-in, which ends it whether it succeeded or not."""
    response.delete_cookie(FLOW_COOKIE, path="/", secure=True, httponly=True, samesite="lax")
    return response


def _encode(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode("ascii")


def _add_query(url: str, fields: dict[str, str]) -> str:
    return f"{url}{'&' if urlsplit(url).query else '?'}{urlencode(fields)}"
