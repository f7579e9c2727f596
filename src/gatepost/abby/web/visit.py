"""One request of somebody who is signed in: who it is, what they may do, where, and what the form says."""

import msgspec
from starlette.requests import Request

from gatepost.abby.web.forms import Form, query
from gatepost.abby.web.permissions import Permission, permissions
from gatepost.api.errors import NOT_FOUND, Failure
from gatepost.ids import canonical
from gatepost.store.audit import Actor
from gatepost.store.sessions import WebSession
from gatepost.store.users import User

GLOBAL = "global"
NOT_HERE = Failure(NOT_FOUND, "there is nothing at this path, or it is not yours to see")


class Visit(msgspec.Struct, frozen=True):
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
