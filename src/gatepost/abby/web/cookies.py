"""The session's cookie: 256 bits of chance, of which storage knows only the digest.

`__Host-` binds it to this very host, to the root path and to TLS (RFC 6265bis section 4.1.3.2). It is not for scripts,
and does not travel with requests that other sites start, but for links that are followed.
"""

import hashlib
import secrets

from starlette.requests import Request
from starlette.responses import Response

NAME = "__Host-gatepost"
LONGEST = 200


def new_secret() -> tuple[str, str]:
    """A secret for the browser, and its digest for storage."""
    secret = secrets.token_urlsafe(32)
    return secret, digest_of(secret)


def digest_of(secret: str) -> str:
    """What storage knows of a secret."""
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()


def presented(request: Request) -> str | None:
    """The digest of the cookie that came with a request."""
    secret = request.cookies.get(NAME, "")
    return digest_of(secret) if 0 < len(secret) <= LONGEST else None


def give(response: Response, secret: str, seconds: int) -> Response:
    """Have the browser keep the secret."""
    response.set_cookie(NAME, secret, max_age=seconds, path="/", secure=True, httponly=True, samesite="lax")
    return response


def take_back(response: Response) -> Response:
    """Have the browser forget it."""
    response.delete_cookie(NAME, path="/", secure=True, httponly=True, samesite="lax")
    return response
