"""The session's cookie: 256 bits of chance, of which storage knows only the digest.

`__Host-` binds it to this very host, to the root path and to TLS (RFC 6265bis section 4.1.3.2). It is not for scripts,
and does not travel with requests that other sites start, but for links that are followed.

Who may do what in the web interface: three roles, deployment-wide or for one tenant.

A role is a set of permissions. Whoever belongs to a tenant has the same ones there and sees nothing else; what concerns
the deployment as a whole is closed to them whatever their role.

One request of somebody who is signed in: who it is, what they may do, where, and what the form says.
"""

import hashlib
import secrets
from typing import Literal, TypeAlias, get_args

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from gatepost.api.errors import NOT_FOUND, Failure
from gatepost.ids import canonical
from gatepost.store.audit import Actor
from gatepost.store.sessions import WebSession
from gatepost.store.users import User
from gatepost.web.forms import Form, query

COOKIE_NAME = "__Host-gatepost"
LONGEST_COOKIE = 200


def new_secret() -> tuple[str, str]:
    """A secret for the browser, and its digest for storage."""
    secret = secrets.token_urlsafe(32)
    return secret, digest_of_secret(secret)


def digest_of_secret(secret: str) -> str:
    """What storage knows of a secret."""
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()


def read_cookie(request: Request) -> str | None:
    """The digest of the cookie that came with a request."""
    secret = request.cookies.get(COOKIE_NAME, "")
    return digest_of_secret(secret) if 0 < len(secret) <= LONGEST_COOKIE else None


def set_cookie(response: Response, secret: str, seconds: int) -> Response:
    """Have the browser keep the secret."""
    response.set_cookie(COOKIE_NAME, secret, max_age=seconds, path="/", secure=True, httponly=True, samesite="lax")
    return response


def clear_cookie(response: Response) -> Response:
    """Have the browser forget it."""
    response.delete_cookie(COOKIE_NAME, path="/", secure=True, httponly=True, samesite="lax")
    return response


Permission: TypeAlias = Literal[
    "overview.read",
    "messages.read",
    "messages.scan",
    "messages.report",
    "quarantine.read",
    "quarantine.act",
    "lists.read",
    "lists.change",
    "keys.read",
    "keys.change",
    "users.read",
    "users.change",
    "tenants.read",
    "tenants.change",
    "policy.read",
    "audit.read",
    "system.read",
]
EVERYTHING: frozenset[Permission] = frozenset(get_args(Permission))
READING: frozenset[Permission] = frozenset(each for each in EVERYTHING if each.endswith(".read"))
DEPLOYMENT: frozenset[Permission] = frozenset({"tenants.read", "tenants.change", "system.read"})

ROLES: dict[str, frozenset[Permission]] = {
    "administrator": EVERYTHING,
    "analyst": frozenset(
        {
            "overview.read",
            "messages.read",
            "messages.scan",
            "messages.report",
            "quarantine.read",
            "quarantine.act",
            "lists.read",
            "lists.change",
            "policy.read",
        }
    ),
    "auditor": READING,
}
MEANING = {
    "administrator": "everything: users, keys, tenants, lists, mail",
    "analyst": "mail, the quarantine and the lists",
    "auditor": "sees everything, changes nothing",
}


def permissions(user: User) -> frozenset[Permission]:
    """What a user may do."""
    granted = ROLES[user.role]
    return granted - DEPLOYMENT if user.tenant else granted


GLOBAL = "global"
NOT_HERE = Failure(NOT_FOUND, "there is nothing at this path, or it is not yours to see")


class SignedInRequest(msgspec.Struct, frozen=True):
    """A request with its visitor. `form` has the fields of a POST."""

    request: Request
    session: WebSession
    form: Form = Form()

    @property
    def user(self) -> User:
        return self.session.user

    @property
    def actor(self) -> Actor:
        """Who stands in the audit trail."""
        return Actor("user", self.user.name, self.user.uid)

    @property
    def query(self) -> Form:
        """The fields of the address."""
        return query(self.request.url.query)

    def part(self, name: str) -> str:
        """A part of the path."""
        return str(self.request.path_params.get(name, ""))

    def may(self, permission: Permission) -> bool:
        """Is this open to the visitor?"""
        return permission in permissions(self.user)

    def scope(self, named: str) -> str | Failure | None:
        """The scope that a path or a field names: `global`, or a tenant's uid. Of one's own tenant only, where one has
        one; whether there is another says the same as that there is none."""
        if named in ("", GLOBAL):
            return NOT_HERE if self.user.tenant else None
        uid = canonical(named)
        if uid is None or (self.user.tenant and uid != self.user.tenant):
            return NOT_HERE
        return uid

    def tenant(self) -> str | Failure | None:
        """Whose mail is looked at: one's own tenant, or the one that `?tenant=` names; None for everybody's."""
        named = self.query.text("tenant") or self.form.text("tenant")
        if self.user.tenant and not named:
            return self.user.tenant
        return self.scope(named)
