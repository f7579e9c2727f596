"""A request of a signed-in user: the session cookie, the user's permissions, and the values of URL and form.

The cookie holds 256 random bits, of which storage knows only the digest. `__Host-` binds it to this host, to the root
path and to TLS (RFC 6265bis section 4.1.3.2). Scripts cannot read it, and browsers do not send it with requests that
other sites start, except for links that are followed.

A second cookie, one for each account, marks a browser in which the account was signed in to before. It opens nothing:
it only lets its user try a password although strangers have locked the account.

A role is a set of permissions. A user of a tenant has the same permissions there and sees nothing else; what concerns
the deployment as a whole is closed to them whatever their role.
"""

import hashlib
import secrets
from typing import Literal, TypeAlias, get_args

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from gatepost.api.call_limits import CallingParty
from gatepost.api.errors import NOT_FOUND, Failure
from gatepost.ids import canonical
from gatepost.store.audit import Actor
from gatepost.store.sessions import WebSession
from gatepost.store.users import User
from gatepost.web.forms import Form, parse_query

COOKIE_NAME = "__Host-gatepost"
MAX_COOKIE = 200


def new_session_secret() -> tuple[str, str]:
    """Return a new secret for the browser, and its digest for storage."""
    secret = secrets.token_urlsafe(32)
    return secret, hash_session_secret(secret)


def hash_session_secret(secret: str) -> str:
    """Return the digest of a secret, which is all that storage knows."""
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()


def put_cookie(response: Response, name: str, value: str, seconds: int) -> Response:
    """Have the browser keep a cookie for this host and for us alone."""
    response.set_cookie(name, value, max_age=seconds, path="/", secure=True, httponly=True, samesite="lax")
    return response


def drop_cookie(response: Response, name: str) -> Response:
    """Have the browser delete a cookie."""
    response.delete_cookie(name, path="/", secure=True, httponly=True, samesite="lax")
    return response


KNOWN_BROWSER_SECONDS = 400 * 86_400


def _browser_cookie_name(user_uid: str) -> str:
    """Return the name of the cookie that marks a known browser of one account; several can share a browser."""
    return f"{COOKIE_NAME}-browser-{hashlib.sha256(user_uid.encode()).hexdigest()[:16]}"


def read_browser_cookie(request: Request, user_uid: str) -> str | None:
    """Return the digest of the cookie that marks a known browser of this account."""
    return read_secret(request, _browser_cookie_name(user_uid))


def read_secret(request: Request, name: str) -> str | None:
    """Return the digest of a cookie that came with a request."""
    secret = request.cookies.get(name, "")
    return hash_session_secret(secret) if 0 < len(secret) <= MAX_COOKIE else None


def set_browser_cookie(response: Response, user_uid: str, secret: str) -> Response:
    """Mark the browser as one in which this account was signed in to."""
    return put_cookie(response, _browser_cookie_name(user_uid), secret, KNOWN_BROWSER_SECONDS)


PagePermission: TypeAlias = Literal[
    "overview.read",
    "messages.read",
    "messages.scan",
    "messages.report",
    "messages.remove",
    "quarantine.read",
    "quarantine.act",
    "quarantine.release-anywhere",
    "quarantine.release-dangerous",
    "lists.read",
    "lists.change",
    "keys.read",
    "keys.change",
    "users.read",
    "users.change",
    "tenants.read",
    "tenants.change",
    "policy.read",
    "policy.change",
    "feeds.read",
    "feeds.change",
    "learning.read",
    "learning.change",
    "digests.read",
    "digests.change",
    "alerts.read",
    "alerts.change",
    "audit.read",
    "system.read",
    "system.change",
]
ALL_PERMISSIONS: frozenset[PagePermission] = frozenset(get_args(PagePermission))
READ_PERMISSIONS: frozenset[PagePermission] = frozenset(each for each in ALL_PERMISSIONS if each.endswith(".read"))
DEPLOYMENT_PERMISSIONS: frozenset[PagePermission] = frozenset(
    {
        "tenants.read",
        "tenants.change",
        "system.read",
        "system.change",
        "feeds.read",
        "feeds.change",
        "quarantine.release-anywhere",
    }
)

ROLES: dict[str, frozenset[PagePermission]] = {
    "administrator": ALL_PERMISSIONS,
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
    "auditor": READ_PERMISSIONS,
}
ROLE_MEANINGS = {
    "administrator": "everything: users, API keys, tenants, lists, mail, release of malware and phishing",
    "analyst": "mail, quarantine and lists",
    "auditor": "view everything, change nothing",
}


def permissions_of(user: User) -> frozenset[PagePermission]:
    granted = ROLES[user.role]
    return granted - DEPLOYMENT_PERMISSIONS if user.tenant else granted


GLOBAL = "global"
NOT_VISIBLE = Failure(NOT_FOUND, "there is nothing at this address, or you do not have access to it")


class SignedInRequest(msgspec.Struct, frozen=True):
    """A request with its session. `form` has the fields of a POST."""

    http: Request
    session: WebSession
    form: Form = Form()

    @property
    def user(self) -> User:
        return self.session.user

    @property
    def party(self) -> CallingParty:
        """The user, as costly calls are counted."""
        return CallingParty(f"user:{self.user.uid}", self.user.tenant)

    @property
    def actor(self) -> Actor:
        """The user, as the audit trail names them."""
        return Actor("user", self.user.name, self.user.uid)

    @property
    def query(self) -> Form:
        """The fields of the URL's query."""
        return parse_query(self.http.url.query)

    def path_part(self, name: str) -> str:
        return str(self.http.path_params.get(name, ""))

    def may(self, permission: PagePermission) -> bool:
        """Does the user have this permission?"""
        return permission in permissions_of(self.user)

    def parse_scope(self, named: str) -> str | Failure | None:
        """Return the scope that a path or a field names: `global`, or a tenant's uid. A user of a tenant gets their own
        only; the failure is the same whether another tenant exists or not."""
        if named in ("", GLOBAL):
            return NOT_VISIBLE if self.user.tenant else None
        uid = canonical(named)
        if uid is None or (self.user.tenant and uid != self.user.tenant):
            return NOT_VISIBLE
        return uid

    def parse_tenant(self, field: str = "tenant") -> str | Failure | None:
        """Return whose mail is shown, or whose settings: the user's own tenant, or the one that a field of the URL or
        the form names; None for all tenants."""
        named = self.query.text(field) or self.form.text(field)
        return self.user.tenant if self.user.tenant and not named else self.parse_scope(named)
