"""Routes that deliver by MX: mail goes to the mail servers of its recipients' domains (RFC 5321 section 5.1).

Each domain has a route of its own, which is made with its first recipient, so that connections of one domain are never
used for another one's mail. Its servers are asked for whenever a connection is wanted; the resolver remembers them for
as long as DNS allows. Servers of the same preference are tried in random order. Whoever owns a domain decides where its
mail servers are, so that only public addresses are connected to, unless the settings say otherwise.

Where the domain has an MTA-STS policy (`transport_policies`), it decides: under `enforce` mail goes only to servers
that the policy names and that prove themselves, and waits with its sender else. Under `testing` and without a policy,
mail goes as `tls` of the route says, and what went wrong is only counted for reports.
"""

import asyncio
import random
from collections import OrderedDict
from collections.abc import Awaitable, Callable

import msgspec

from gatepost.domain_reports import SeenSession
from gatepost.logs import Logger
from gatepost.names import normal_domain
from gatepost.periodic import PeriodicWork
from gatepost.questions import Dns
from gatepost.smtp.hop_answers import HopCells
from gatepost.smtp.next_hop import NextHop, NextHopError, NextHopTimeouts
from gatepost.smtp.replies import reply
from gatepost.smtp.routing import HopTls, Relay, Route, Tls
from gatepost.smtp.transport_policies import AsksDns, TransportPolicies, TransportPolicy, find_addresses

MAX_SERVERS = 10
MAX_DOMAINS = 2_000
SWEEP_SECONDS = 30.0
FORGET_SECONDS = 600.0

# RFC 7505 section 4.2, and what a domain that is not there gets.
TAKES_NO_MAIL = reply(556, "5.1.10 The recipient's domain takes no mail")
NO_DOMAIN = reply(550, "5.1.2 The recipient's domain has no mail server")
LEADS_HERE = reply(554, "5.4.6 This server is the mail server of the recipient's domain")

log = Logger("gatepost.guard")

NotesSession = Callable[[str, SeenSession], None]


class MxOptions(msgspec.Struct, frozen=True):
    """What all domains of a route share."""

    tls: HopTls
    hostname: str
    timeouts: NextHopTimeouts
    port: int = 25
    private: bool = False


class MxRelay(Relay):
    """Connections to one mail server of one domain."""

    def __init__(self, host: str, tls: Tls, options: MxOptions, ask: AsksDns) -> None:
        hop_tls = msgspec.structs.replace(options.tls, mode=tls)
        super().__init__(f"smtp://{host}:{options.port}", tls, options.hostname, options.timeouts, hop_tls=hop_tls)
        self._host, self._options, self._ask = host, options, ask
        self.last_address = ""

    async def _open(self) -> NextHop:
        addresses = await find_addresses(self._host, self._ask, private=self._options.private)
        if not addresses:
            raise NextHopError("has no public address")
        failed: Exception = NextHopError("cannot be reached")
        for address in addresses:
            self.last_address = address
            try:
                return await self.open_at(address, self._options.port)
            except (OSError, TimeoutError, NextHopError) as fault:
                failed = fault
        raise failed


class MxRoute(Route):
    """The mail servers of one domain."""

    def __init__(self, parent: "MxRoutes", domain: str) -> None:
        super().__init__(parent.name, ())
        self._parent, self._domain = parent, domain
        self.answers = parent.answers
        self._servers: dict[tuple[str, Tls], MxRelay] = {}
        self.last_used = 0.0

    async def borrow(self) -> tuple[Relay, NextHop]:
        parent = self._parent
        self.last_used = asyncio.get_running_loop().time()
        servers = await self._find_servers()
        policy = await parent.policies.find(self._domain)
        if policy is None and parent.policies.failed_lately(self._domain):
            parent.note(self._domain, SeenSession("sts", failure="sts-policy-fetch-error"))
        failed: NextHopError | None = None
        for host in servers:
            try:
                return await self._connect(host, policy)
            except NextHopError as fault:
                failed = failed or NextHopError(f"{host} {fault}")
        raise failed or NextHopError("has no mail server that its policy names")

    async def _connect(self, host: str, policy: TransportPolicy | None) -> tuple[Relay, NextHop]:
        own = self._parent.options.tls.mode
        if policy is None:
            return await self._try(host, own, SeenSession("no-policy-found"))
        seen = SeenSession("sts", policy.lines, policy.hosts, host)
        if not policy.names(host):
            fault = "is not among the servers of its domain's policy"
            self._parent.note(self._domain, _fail(seen, "validation-failure", fault))
        else:
            try:
                return await self._try(host, "verified", seen)
            except NextHopError as wrong:
                fault = str(wrong)
        if policy.mode == "enforce":
            self._parent.refused += 1
            raise NextHopError(fault)
        return await self._try(host, own, None)

    async def _try(self, host: str, tls: Tls, seen: SeenSession | None) -> tuple[Relay, NextHop]:
        """Return a connection to a server. What it is to be counted as is `seen`, None where it was counted before."""
        relay = self._servers.get((host, tls))
        if relay is None:
            relay = self._servers[host, tls] = MxRelay(host, tls, self._parent.options, self._parent.ask)
        before = relay.opened
        try:
            link = await relay.borrow()
        except NextHopError as fault:
            if seen and (kind := classify_failure(str(fault))):
                placed = msgspec.structs.replace(seen, server=host, address=relay.last_address)
                self._parent.note(self._domain, _fail(placed, kind, str(fault)))
            raise
        if seen and relay.opened > before:
            # Of what went well, only the number is reported.
            counted = msgspec.structs.replace(seen, server="")
            if not link.encrypted:
                placed = msgspec.structs.replace(seen, server=host, address=relay.last_address)
                counted = _fail(placed, "starttls-not-supported", "")
            self._parent.note(self._domain, counted)
        return relay, link

    async def _find_servers(self) -> list[str]:
        """Return the mail servers in the order in which they are tried. Raises `NextHopError`, with a reply where the
        domain can never be reached."""
        domain = self._domain
        answer = await self._parent.ask(Dns(domain, "MX"))
        if answer.status == "failed":
            raise NextHopError("of this domain is not known: DNS does not answer")
        if answer.status == "no-name":
            raise NextHopError("does not exist: no such domain", NO_DOMAIN)
        found: list[tuple[int, float, str]] = []
        for each in answer.records:
            preference, _, host = each.partition(" ")
            found.append((int(preference), random.random(), normal_domain(host)))  # noqa: S311  it balances load
        if [host for _, _, host in found] == [""]:
            raise NextHopError("takes no mail (RFC 7505)", TAKES_NO_MAIL)
        found.sort()
        own = min((each[0] for each in found if each[2] == self._parent.options.hostname), default=None)
        servers = [host for preference, _, host in found if host and (own is None or preference < own)]
        if found and not servers:
            raise NextHopError("is this server itself", LEADS_HERE)
        return servers[:MAX_SERVERS] or [domain]

    def close_idle(self) -> None:
        """Close connections that lay idle for too long."""
        for relay in self._servers.values():
            relay.close_idle()

    async def close(self) -> None:
        for relay in self._servers.values():
            await relay.close()


def _fail(seen: SeenSession, kind: str, reason: str) -> SeenSession:
    return msgspec.structs.replace(seen, failure=kind, detail=reason[:100])


# What a fault says, and the result type of RFC 8460 section 4.3.
_FAILURES = (
    ("does not offer STARTTLS", "starttls-not-supported"),
    ("to STARTTLS", "starttls-not-supported"),
    ("expired", "certificate-expired"),
    ("ostname mismatch", "certificate-host-mismatch"),
    ("not valid for", "certificate-host-mismatch"),
    ("self-signed", "certificate-not-trusted"),
    ("self signed", "certificate-not-trusted"),
    ("local issuer", "certificate-not-trusted"),
    ("could not start TLS", "validation-failure"),
)


def classify_failure(fault: str) -> str:
    """Return the result type of a fault; "" for one that has nothing to do with TLS."""
    return next((kind for text, kind in _FAILURES if text in fault), "")


class MxRoutes(Route):
    """All domains of a route that delivers by MX. What servers of others answer is counted, and is no fault of this
    gateway: greylisting is ordinary out there. `end` is called in the end, such as to close the resolver."""

    def __init__(
        self,
        name: str,
        options: MxOptions,
        ask: AsksDns,
        policies: TransportPolicies,
        note: NotesSession | None = None,
        shared: HopCells | None = None,
        end: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        super().__init__(name, (), shared=shared)
        self._end = end
        # How often a server was not used because of the policy of its domain.
        self.refused = 0
        self.options, self.ask, self.policies = options, ask, policies
        self.note: NotesSession = note or _ignore
        self._domains: OrderedDict[str, MxRoute] = OrderedDict()
        failed = "idle connections to mail servers could not be closed"
        self._sweeping = PeriodicWork(self._sweep, SWEEP_SECONDS, failed, log, waits_first=True)
        self._ending: set[asyncio.Task[None]] = set()

    @property
    def depends_on_domain(self) -> bool:
        return True

    @property
    def trouble(self) -> str:
        return ""

    def of_domain(self, domain: str) -> Route:
        route = self._domains.get(domain)
        if route is None:
            route = self._domains[domain] = MxRoute(self, domain)
            if len(self._domains) > MAX_DOMAINS:
                _, oldest = self._domains.popitem(last=False)
                task = asyncio.create_task(oldest.close())
                self._ending.add(task)
                task.add_done_callback(self._ending.discard)
        else:
            self._domains.move_to_end(domain)
        return route

    def start(self) -> None:
        self._sweeping.start()

    async def close(self) -> None:
        await self._sweeping.stop()
        await asyncio.gather(*(route.close() for route in self._domains.values()), *self._ending)
        if self._end:
            await self._end()

    async def _sweep(self) -> None:
        moment = asyncio.get_running_loop().time()
        for domain, route in list(self._domains.items()):
            route.close_idle()
            if moment - route.last_used > FORGET_SECONDS:
                del self._domains[domain]
                await route.close()


def _ignore(_domain: str, _seen: SeenSession) -> None:
    """Nobody reports."""
