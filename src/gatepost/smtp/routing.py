"""Which route a recipient's mail takes: by the recipient's domain, then by the tenant, else the default one.

EHLO announces the extensions that the next hops of all routes have, since it is said before any recipient is known. A
next hop that was never reached counts as one that has them all: a client that is not offered what it needs would bounce
its mail for good, while a next hop that cannot be reached is answered 451.

A route has next hops for the same mail, in order or by weight. One that could not be reached is asked last until it
answers again; its relay tries it every few seconds. So mail goes on at once when one of several is down, and none is
given up for good. Another next hop is tried only where the one before gave no connection that is ready for MAIL: once a
transaction has begun, its replies are the client's.
"""

import asyncio
import random
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from gatepost.names import normal_domain
from gatepost.smtp.next_hop import NextHop, NextHopError
from gatepost.smtp.relay import Relay, send_message
from gatepost.smtp.replies import NEXT_HOP_LOST, SmtpReply

# Extensions that concern a message; whether a client may use them depends on the next hop.
ANY_FEATURES = ("8BITMIME", "SMTPUTF8", "DSN")
DEFAULT = "default"


class Route:
    """Next hops that take the same mail. With weights, each gets that share of the connections; without, the first one
    that can be reached gets all."""

    def __init__(self, name: str, relays: Sequence[Relay], weights: Sequence[int] = ()) -> None:
        self.name, self.relays, self._weights = name, tuple(relays), tuple(weights)
        self._random = random.Random()  # noqa: S311  it balances load

    @property
    def fault(self) -> str:
        """Why no next hop can be reached; "" if one can, or none was tried yet."""
        faults = [f"{relay.url} {relay.fault}" for relay in self.relays if relay.fault]
        return "; ".join(faults) if len(faults) == len(self.relays) else ""

    def start(self) -> None:
        """Keep looking at every next hop."""
        for relay in self.relays:
            relay.start()

    async def close(self) -> None:
        """Close every connection that is not lent."""
        for relay in self.relays:
            await relay.close()

    async def borrow(self) -> tuple[Relay, NextHop]:
        """Return a connection that is ready for MAIL, and the relay that it goes back to. Raises `NextHopError` if no
        next hop gives one."""
        failed: NextHopError | None = None
        for relay in self._candidates():
            try:
                return relay, await relay.borrow()
            except NextHopError as fault:
                failed = failed or fault
        raise failed or NextHopError("is not configured")

    async def send(self, sender: str, recipients: Sequence[str], raw: bytes) -> tuple[str, SmtpReply]:
        """Send a whole message, to all recipients or to none; return the next hop and its last reply. One that speaks
        LMTP takes one recipient. Raises `NextHopError` where no next hop gave a reply."""
        relay, link = await self.borrow()
        return relay.url, await send_message(relay, link, sender, recipients, raw)

    @property
    def speaks_lmtp(self) -> bool:
        """Whether a next hop takes one recipient at a time."""
        return any(relay.lmtp for relay in self.relays)

    def _candidates(self) -> list[Relay]:
        """Next hops as they are tried: those that are down last."""
        order = list(self.relays)
        if self._weights:
            # Weighted sampling without replacement (Efraimidis and Spirakis, 2006).
            keys = [self._random.random() ** (1 / weight) for weight in self._weights]
            order = [self.relays[index] for index in sorted(range(len(keys)), key=keys.__getitem__, reverse=True)]
        return sorted(order, key=lambda relay: bool(relay.fault))


class RouteRule(msgspec.Struct, frozen=True):
    """A route, and the recipient domains and tenants whose mail takes it. `*.example.com` is every domain below."""

    route: Route
    domains: frozenset[str] = frozenset()
    tenants: frozenset[str] = frozenset()

    def has_domain(self, domain: str) -> bool:
        """Whether the route is that of a domain in normal form."""
        if domain in self.domains:
            return True
        labels = domain.split(".")
        return any(f"*.{'.'.join(labels[start:])}" in self.domains for start in range(1, len(labels)))


class Sent(msgspec.Struct, frozen=True):
    """What became of a message that was sent: the last reply, and the recipients whose next hop has it. `answers` are
    the replies of all next hops that gave one, each with its address."""

    reply: SmtpReply
    recipients: tuple[str, ...]
    answers: tuple[tuple[str, SmtpReply], ...] = ()


class Routing:
    """All routes of a core. `rules` count in their order, those by domain before those by tenant; without a `default`,
    other recipients have no next hop."""

    def __init__(self, rules: Sequence[RouteRule], default: Route | None) -> None:
        self._rules, self._default = tuple(rules), default
        self.routes = tuple(dict.fromkeys([*(rule.route for rule in rules), *([default] if default else [])]))

    @classmethod
    def through(cls, relay: Relay) -> "Routing":
        """Return the routing that has one next hop for all mail."""
        return cls((), Route(DEFAULT, [relay]))

    @property
    def only(self) -> Route | None:
        """The route of all mail; None where it depends on the recipient."""
        return None if self._rules else self._default

    @property
    def fault(self) -> str:
        """Why no route has a next hop that can be reached; "" if one has."""
        faults = [route.fault for route in self.routes]
        return "; ".join(faults) if all(faults) else ""

    def relays(self) -> Iterator[tuple[Route, Relay]]:
        """Yield every next hop with its route."""
        for route in self.routes:
            yield from ((route, relay) for relay in route.relays)

    def find(self, domain: str, tenant: str | None) -> Route | None:
        """Return the route of a recipient, whose domain is in normal form."""
        for rule in self._rules:
            if rule.has_domain(domain):
                return rule.route
        for rule in self._rules:
            if tenant and tenant in rule.tenants:
                return rule.route
        return self._default

    def renew_tls(self) -> None:
        """Read certificates, keys and CA files again; raises `OSError` if one cannot be used."""
        for _, relay in self.relays():
            relay.renew_tls()

    def start(self) -> None:
        """Keep looking at every next hop."""
        for route in self.routes:
            route.start()

    async def close(self) -> None:
        """Close every connection that is not lent."""
        for route in self.routes:
            await route.close()

    async def features(self) -> dict[str, str]:
        """Return the extensions that all next hops had when they were last reached; SIZE is the smallest."""
        seen = await asyncio.gather(*(relay.features() for _, relay in self.relays()))
        known = [features for features in seen if features is not None]
        common = {name: "" for name in ANY_FEATURES if all(name in features for features in known)}
        sizes = [int(size) for features in known if (size := features.get("SIZE", "")).isdigit() and len(size) < 20]
        limits = [size for size in sizes if size]
        return common | ({"SIZE": str(min(limits))} if limits else {})

    async def send(self, sender: str, recipients: Sequence[str], raw: bytes, tenants: Mapping[str, str | None]) -> Sent:
        """Send a whole message, by the routes of its recipients; `tenants` are those of their domains. It ends with the
        first next hop that does not take it: then some recipients may have the message, and others not. Raises
        `NextHopError` where nobody has it and no next hop gave a reply."""
        sent: list[str] = []
        answers: list[tuple[str, SmtpReply]] = []
        reply = NEXT_HOP_LOST
        for route, part in self._split(recipients, tenants):
            try:
                answers.append(await route.send(sender, part, raw))
                reply = answers[-1][1]
            except NextHopError:
                if not sent:
                    raise
                reply = NEXT_HOP_LOST
            if not reply.positive:
                break
            sent += part
        return Sent(reply, tuple(sent), tuple(answers))

    def _split(
        self, recipients: Sequence[str], tenants: Mapping[str, str | None]
    ) -> Iterator[tuple[Route, Sequence[str]]]:
        """Yield the transactions that a message needs: one for each route, and at a next hop that speaks LMTP one for
        each recipient."""
        groups: dict[Route, list[str]] = {}
        for recipient in recipients:
            domain = normal_domain(recipient.rpartition("@")[2])
            route = self.find(domain, tenants.get(domain))
            if route is None:
                raise NextHopError("of a recipient is not configured")
            groups.setdefault(route, []).append(recipient)
        for route, group in groups.items():
            yield from ((route, [each]) for each in group) if route.speaks_lmtp else ((route, group),)
