"""Keys of delivery in `guard.yml`: next hops, routes, and how a next hop is reached.

A route inherits nothing from `delivery`: credentials that are meant for one server are not shown to another. Files
stand once, in `delivery`, since they belong to the machine and not to a route.
"""

from typing import Annotated, Literal

from pydantic import Discriminator, Field, Tag

from gatepost.settings.section import Section
from gatepost.settings.values import FilePath, Milliseconds, NextHop, RouteDomain, Secret, TenantUid

MAX_HOPS, MAX_ROUTES, MAX_NAMES = 16, 200, 1_000

Weight = Annotated[int, Field(ge=1, le=1_000)]


def _form_of(value: object) -> str:
    """Return which of the three forms a value of `nextHop` has, so that only the faults of that form are reported."""
    return "[weighted]" if isinstance(value, dict) else "[several]" if isinstance(value, list | tuple) else "[one]"


NextHops = Annotated[
    Annotated[NextHop, Tag("[one]")]
    | Annotated[list[NextHop], Field(min_length=1, max_length=MAX_HOPS), Tag("[several]")]
    | Annotated[dict[NextHop, Weight], Field(min_length=1, max_length=MAX_HOPS), Tag("[weighted]")],
    Discriminator(_form_of),
]

FORMS = (
    "`smtp://host:port`, `lmtp://host:port` or `lmtp:/path` of a Unix socket; a list of them is tried in order; a map"
    " of them to weights shares the mail by weight"
)


class AuthSettings(Section):
    """Credentials for a next hop. The mechanism is SCRAM-SHA-256, SCRAM-SHA-1 or, under TLS only, PLAIN or LOGIN."""

    user: Secret = Field(description="name of the user")
    password: Secret = Field(description="password; `${env:NAME}` and `${file:PATH}` are replaced")


class HopSettings(Section):
    """Next hops, and how they are reached."""

    tls: Literal["off", "opportunistic", "required", "verified"] = Field(
        "opportunistic", description="TLS to the next hop"
    )
    auth: AuthSettings | None = Field(None, description="credentials for the next hop; off if not set")
    timeout: Milliseconds = Field(
        60_000,
        description="milliseconds to wait for a reply of the next hop; five times as long for the reply to the message",
    )


class RouteSettings(HopSettings):
    """The next hops of some recipients."""

    domains: Annotated[list[RouteDomain], Field(max_length=MAX_NAMES)] = Field(
        [], description="recipient domains; `*.example.com` is every domain below that one"
    )
    tenants: Annotated[list[TenantUid], Field(max_length=MAX_NAMES)] = Field(
        [], description="uids of tenants; a route that names the recipient's domain goes before"
    )
    next_hop: NextHops = Field(description=FORMS)


class DeliverySettings(HopSettings):
    """The next hops of delivered mail."""

    next_hop: NextHops | None = Field(
        None, description=f"{FORMS}; without it, mail that has no route is answered with 451"
    )
    routes: Annotated[list[RouteSettings], Field(max_length=MAX_ROUTES)] = Field(
        [], description="next hops for some domains or tenants; the first route that fits counts"
    )
    ca: FilePath | None = Field(
        None,
        description="PEM file with the authorities that `verified` accepts, for all routes; by default the system's",
    )
    certificate: FilePath | None = Field(
        None, description="PEM file with the certificate, and its chain, that is shown to next hops that ask for one"
    )
    key: FilePath | None = Field(None, description="PEM file with the private key of `certificate`")

    @property
    def has_next_hop(self) -> bool:
        """Whether any mail can be delivered."""
        return self.next_hop is not None or bool(self.routes)


def list_hops(next_hop: NextHops) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Return the next hops of one of the three forms, and their weights; no weights where they are tried in order."""
    if isinstance(next_hop, dict):
        return tuple(next_hop), tuple(next_hop.values())
    return ((next_hop,) if isinstance(next_hop, str) else tuple(next_hop)), ()
