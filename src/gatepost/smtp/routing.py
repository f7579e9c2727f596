"""The way to the next hops: which route a recipient's mail takes, and the connections to each next hop of a route.

A route is found by the recipient's domain, then by the tenant; else it is the default one.

EHLO announces the extensions that the next hops of all routes have, since it is said before any recipient is known. A
next hop that was never reached counts as one that has them all: a client that is not offered what it needs would bounce
its mail for good, while a next hop that cannot be reached is answered 451.

A route has next hops for the same mail, in order or by weight. One that could not be reached is asked last until it
answers again; its relay tries it every few seconds. So mail goes on at once when one of several is down, and none is
given up for good. Another next hop is tried only where the one before gave no connection that is ready for MAIL: once a
transaction has begun, its replies are the client's.

A relay keeps the connections to one next hop between messages. Each is lent to one transaction at a time, comes back
reset, or is reset with the next sender, is checked with NOOP if it lay idle for a while, and is closed for good when it
is old. Why not aiosmtplib: it
waits for each reply before the next command, so a client's pipelined commands could not be passed through.

An address is `smtp://host:port`, `lmtp://host:port`, or `lmtp:/path` for the Unix socket of an LMTP server.

After a restart while a next hop is down, the extensions that it last had are announced, and not a guess: a file of the
data folder keeps what next hops could do when they were last reached. The file is this node's own, since every node has
its own way to the next hops. The service and commands may write it: each writes what it has seen anew over what the
file has at that moment, and one that is lost to another is seen again with the next connection.
"""

import asyncio
import contextlib
import os
import random
import socket
import ssl
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

import msgspec

from gatepost.names import normal_domain
from gatepost.process.logs import Logger
from gatepost.process.periodic import PeriodicWork
from gatepost.smtp import replies
from gatepost.smtp.commands import is_address
from gatepost.smtp.hop_answers import TRY_SECONDS, HopAnswers
from gatepost.smtp.next_hop import Credentials, NextHop, NextHopError, NextHopTimeouts, authenticate
from gatepost.smtp.replies import NEXT_HOP_LOST, SmtpReply

Tls = Literal["off", "opportunistic", "required", "verified"]

SMTP_PORT, LMTP_PORT = 25, 24

log = Logger("gatepost.guard")


class HopAddress(msgspec.Struct, frozen=True):
    """Where a next hop listens: host and port, or the path of a Unix socket."""

    host: str
    port: int
    path: str = ""
    lmtp: bool = False

    @property
    def name(self) -> str:
        """The name that its certificate must have."""
        return self.host or "localhost"


def parse_next_hop(url: str) -> HopAddress:
    """Return the address in a URL of the settings."""
    parts = urlsplit(url)
    lmtp = parts.scheme == "lmtp"
    if lmtp and not parts.netloc:
        return HopAddress("", 0, parts.path, lmtp=True)
    return HopAddress(parts.hostname or "", parts.port or (LMTP_PORT if lmtp else SMTP_PORT), lmtp=lmtp)


class HopTls(msgspec.Struct, frozen=True):
    """TLS towards a next hop. `ca` is a file with the authorities that `verified` accepts, instead of the system's;
    `certificate` and `key` are files with what this gateway shows to a server that asks for it."""

    mode: Tls
    ca: str | None = None
    certificate: str | None = None
    key: str | None = None

    def build_context(self) -> ssl.SSLContext | None:
        """Read the files; raises `OSError` if one cannot be used. None is no TLS."""
        if self.mode == "off":
            return None
        context = ssl.create_default_context(cafile=self.ca)
        if self.mode != "verified":
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if self.certificate:
            context.load_cert_chain(self.certificate, self.key, password=lambda: b"")
        return context


# What is kept of one next hop, and of how many: names that no setting has any more are dropped at the limit.
MAX_FEATURES, MAX_TEXT, MAX_HOPS = 64, 256, 1_000
MAX_BYTES = 8 << 20

Features = dict[str, str]

# One, so that none of two changes of the file is lost; mail waits for neither.
_noting = ThreadPoolExecutor(1, "next-hops")


class SeenFeatures:
    """Extensions by the URL of the next hop. Without a file, nothing is kept."""

    def __init__(self, file: Path | None) -> None:
        self._file = file

    def of(self, url: str) -> Features | None:
        """Return what a next hop could; None if that is not known."""
        return self._read().get(url)

    def keep(self, url: str, features: Features) -> None:
        """Note what a next hop can. A disk that takes nothing is logged and changes nothing."""
        if self._file is None:
            return
        known = self._read()
        known.pop(url, None)
        cut = {name[:MAX_TEXT]: value[:MAX_TEXT] for name, value in list(features.items())[:MAX_FEATURES]}
        kept = dict([*list(known.items())[-(MAX_HOPS - 1) :], (url, cut)])
        part = self._file.with_name(f"{self._file.name}.{os.getpid()}")
        try:
            part.write_bytes(msgspec.json.encode(kept))
            part.replace(self._file)
        except OSError as fault:
            log.warning("extensions of a next hop could not be kept", next_hop=url, reason=str(fault))
            with contextlib.suppress(OSError):
                part.unlink()

    def _read(self) -> dict[str, Features]:
        if self._file is None:
            return {}
        try:
            with self._file.open("rb") as file:
                return msgspec.json.decode(file.read(MAX_BYTES), type=dict[str, Features])
        except (OSError, msgspec.DecodeError):
            return {}


MAX_IDLE = 50
IDLE_SECONDS = 30.0
UNCHECKED_SECONDS = 2.0
MAX_TRANSACTIONS = 500
# How long a next hop may hear nothing of a transaction that is not to be completed.
UNFINISHED_SECONDS = 0.02
REFRESH_SECONDS = 60.0
# How soon a next hop that could not be reached is tried again, so that the state of the gateway is known.
RECOVERY_SECONDS = 5.0
# How long a client that says EHLO waits for the next hop to say what it can.
FEATURE_SECONDS = 3.0


class Relay:
    """All connections to one next hop. It belongs to one event loop. `seen` keeps what the next hop can over
    restarts."""

    def __init__(
        self,
        next_hop: str,
        tls: Tls,
        hostname: str,
        timeouts: NextHopTimeouts | None = None,
        *,
        hop_tls: HopTls | None = None,
        credentials: Credentials | None = None,
        seen: SeenFeatures | None = None,
    ) -> None:
        self.url, self._address = next_hop, parse_next_hop(next_hop)
        self.tls, self._hostname, self._credentials = tls, hostname, credentials
        self._timeouts = timeouts or NextHopTimeouts()
        self._hop_tls = hop_tls or HopTls(tls)
        self._context = self._hop_tls.build_context()
        self._idle: deque[NextHop] = deque()
        self._seen = seen or SeenFeatures(None)
        self._features = self._seen.of(next_hop)
        # Set once the next hop was reached, or could not be.
        self._tried = asyncio.Event()
        self._refreshing = PeriodicWork(
            self._refresh,
            lambda: RECOVERY_SECONDS if self.fault else REFRESH_SECONDS,
            "the next hop could not be asked for its extensions",
            log,
        )
        self._resetting: set[asyncio.Task[None]] = set()
        self._reset_timer: asyncio.TimerHandle | None = None
        self._is_closed = False
        self.opened = self.reused = self.failures = 0
        self.fault = ""

    @property
    def lmtp(self) -> bool:
        return self._address.lmtp

    def renew_tls(self) -> None:
        """Read certificates, key and CA file again; raises `OSError` if they cannot be used, and keeps those before."""
        self._context = self._hop_tls.build_context()

    def start(self) -> None:
        """Ask for the next hop's extensions now and every `REFRESH_SECONDS`."""
        self._is_closed = False
        self._refreshing.start()

    async def close(self) -> None:
        """Close every connection that is not lent; those that are, when they come back."""
        self._is_closed = True
        await self._refreshing.stop()
        if self._reset_timer is not None:
            self._reset_timer.cancel()
        await asyncio.gather(*self._resetting, return_exceptions=True)
        closing = list(self._idle)
        self._idle.clear()
        for link in closing:
            link.close()
        for link in closing:
            await link.wait_closed()

    async def features(self) -> dict[str, str] | None:
        """Return the next hop's extensions, as it last said; None if it was never reached."""
        if self._features is None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(FEATURE_SECONDS):
                    await self._tried.wait()
        return self._features

    async def borrow(self) -> NextHop:
        """Return a connection that is ready for MAIL. Raises `NextHopError`."""
        while self._idle:
            link = self._idle.pop()
            if await self._is_sound(link):
                self.reused += 1
                link.reset_with_next()
                return link
        return await self._connect()

    def give_back(self, link: NextHop) -> None:
        """Take back a connection; it is closed if it is old, or a transaction or reply is still open."""
        if self._is_old(link) or not link.usable:
            link.close()
        else:
            self._idle.append(link)

    def _is_old(self, link: NextHop) -> bool:
        return self._is_closed or link.transactions >= MAX_TRANSACTIONS or len(self._idle) >= MAX_IDLE

    def abandon(self, link: NextHop) -> None:
        """End a transaction that is not to be completed, without waiting for it. Where the next message comes at once,
        the next hop is told in one write with its sender."""
        if not link.usable or self._is_old(link) or "PIPELINING" not in link.features:
            self._reset_soon(link)
            return
        link.unfinished = True
        self._idle.append(link)
        if self._reset_timer is None:
            self._reset_timer = asyncio.get_running_loop().call_later(UNFINISHED_SECONDS, self._reset_unfinished)

    def _reset_unfinished(self) -> None:
        """End the transactions of connections that nobody has borrowed meanwhile."""
        self._reset_timer = None
        unfinished = [link for link in self._idle if link.unfinished]
        for link in unfinished:
            self._idle.remove(link)
            link.unfinished = False
            self._reset_soon(link)

    def _reset_soon(self, link: NextHop) -> None:
        task = asyncio.create_task(self.reset(link))
        self._resetting.add(task)
        task.add_done_callback(self._resetting.discard)

    async def reset(self, link: NextHop) -> None:
        """End a transaction that is not to be completed, and take the connection back."""
        ended = False
        try:
            ended = (await link.ask(b"RSET")).positive
        except NextHopError:
            pass
        finally:
            if ended:
                self.give_back(link)
            else:
                link.close()

    async def send(self, link: NextHop, sender: str, recipients: Sequence[str], raw: bytes) -> SmtpReply:
        """Send a whole message over a borrowed connection, to all recipients or to none, and take the connection back;
        return the last reply. Raises `NextHopError`."""
        try:
            # Who is told of something may be whom a client of the scan API has named: nobody writes commands for us.
            if not (is_address("MAIL", sender) and all(is_address("RCPT", each) for each in recipients)):
                return replies.BAD_RECIPIENT
            wide = not (sender.isascii() and all(map(str.isascii, recipients)))
            if wide and "SMTPUTF8" not in link.features:
                return replies.NEEDS_UTF8
            words = [f"MAIL FROM:<{sender}>"]
            words += ["SMTPUTF8"] if wide else []
            words += ["BODY=8BITMIME"] if "8BITMIME" in link.features and not raw.isascii() else []
            asked = [" ".join(words), *(f"RCPT TO:<{each}>" for each in recipients)]
            for answer in await asyncio.gather(*(link.ask(line.encode()) for line in asked)):
                if not answer.positive:
                    return answer
            link.transactions += 1
            return await link.send_message([raw])
        finally:
            if link.usable:
                await self.reset(link)
            else:
                link.close()

    async def try_out(self) -> SmtpReply | None:
        """Return what the next hop says on a new connection to a message that begins, and goes no further; None where
        it does not answer."""
        try:
            link = await self._connect()
        except NextHopError:
            return None
        try:
            for line in (b"NOOP", b"MAIL FROM:<>", b"RSET"):
                answer = await link.ask(line)
                if not answer.positive:
                    break
            return answer
        except NextHopError:
            return None
        finally:
            link.close()

    async def _is_sound(self, link: NextHop) -> bool:
        """Whether a connection that lay idle can be used; one that cannot is closed."""
        idle, sound = asyncio.get_running_loop().time() - link.last_used, False
        try:
            if link.usable and idle <= IDLE_SECONDS:
                sound = idle < UNCHECKED_SECONDS or (await link.ask(b"NOOP", self._timeouts.connect)).positive
        except NextHopError:
            pass
        finally:
            if not sound:
                link.close()
        return sound

    async def _connect(self) -> NextHop:
        try:
            return await self._negotiate()
        except (NextHopError, OSError, TimeoutError) as fault:
            self.failures += 1
            reason = _describe(fault)
            if not self.fault:
                log.warning("next hop not available", next_hop=self.url, reason=reason)
            self.fault = reason
            self._tried.set()
            raise NextHopError(reason) from None

    async def _negotiate(self) -> NextHop:
        link = await self._open_secured()
        with _closed_unless_ready(link):
            if self._credentials is not None:
                await authenticate(link, self._credentials)
        if link.features != self._features:
            self._features = link.features
            _noting.submit(self._seen.keep, self.url, link.features)
        if self.fault:
            log.info("next hop available again", next_hop=self.url)
        self.fault = ""
        self._tried.set()
        self.opened += 1
        return link

    async def _open_secured(self) -> NextHop:
        """Connect, and go over to TLS as the settings say. Raises as `_open` does."""
        link = await self._open()
        try:
            with _closed_unless_ready(link):
                if self._context is not None and "STARTTLS" in link.features:
                    await link.start_tls(self._context, self._address.name, self._hostname)
                elif self.tls in ("required", "verified"):
                    raise NextHopError("does not offer STARTTLS")
                return link
        except NextHopError:
            if self.tls != "opportunistic":
                raise
        # Better in clear than not at all (RFC 7435); the next connection tries TLS again.
        log.warning("next hop's TLS does not work; going on in clear", next_hop=self.url)
        return await self._open()

    async def _open(self) -> NextHop:
        """Connect, and learn what the server can. Raises `NextHopError`, `OSError` and `TimeoutError`."""
        loop, address = asyncio.get_running_loop(), self._address

        def build() -> NextHop:
            return NextHop(self._timeouts, lmtp=address.lmtp)

        async with asyncio.timeout(self._timeouts.connect):
            if address.path:
                _, link = await loop.create_unix_connection(build, address.path)
            else:
                _, link = await loop.create_connection(build, address.host, address.port)
        with _closed_unless_ready(link):
            await link.greet(self._hostname)
            return link

    async def _refresh(self) -> None:
        now = asyncio.get_running_loop().time()
        while self._idle and now - self._idle[0].last_used > IDLE_SECONDS:
            self._idle.popleft().close()
        with contextlib.suppress(NextHopError):
            self.give_back(await self._connect())


@contextlib.contextmanager
def _closed_unless_ready(link: NextHop) -> Iterator[None]:
    """Own a connection until it is ready for whoever asked for it: what fails or is cancelled before closes it."""
    try:
        yield
    except BaseException:
        link.close()
        raise


def _describe(fault: Exception) -> str:
    """Return what happened, as the end of a sentence that starts with the next hop."""
    if isinstance(fault, NextHopError):
        return str(fault)
    if isinstance(fault, TimeoutError):
        return "did not answer"
    if isinstance(fault, ConnectionRefusedError):
        return "refused the connection"
    if isinstance(fault, socket.gaierror):
        return "has a name that cannot be resolved"
    reason = os.strerror(fault.errno) if isinstance(fault, OSError) and fault.errno else str(fault)
    return f"cannot be reached: {reason.lower()}"


# Extensions that concern a message; whether a client may use them depends on the next hop.
ANY_FEATURES = ("8BITMIME", "SMTPUTF8", "DSN")
DEFAULT = "default"


class Route:
    """Next hops that take the same mail. With weights, each gets that share of the connections; without, the first one
    that can be reached gets all."""

    def __init__(self, name: str, relays: Sequence[Relay], weights: Sequence[int] = ()) -> None:
        self.name, self.relays, self._weights = name, tuple(relays), tuple(weights)
        self._random = random.Random()  # noqa: S311  it balances load
        self.answers = HopAnswers()
        self._trying = PeriodicWork(self.try_out, TRY_SECONDS / 2, "the next hop could not be tried", log)

    @property
    def fault(self) -> str:
        """Why no next hop can be reached; "" if one can, or none was tried yet."""
        faults = [relay.fault for relay in self.relays if relay.fault]
        return " and ".join(dict.fromkeys(faults)) if len(faults) == len(self.relays) else ""

    def start(self) -> None:
        """Keep looking at every next hop."""
        for relay in self.relays:
            relay.start()
        self._trying.start()

    async def close(self) -> None:
        """Close every connection that is not lent."""
        await self._trying.stop()
        for relay in self.relays:
            await relay.close()

    async def try_out(self) -> None:
        """Try a next hop that took no mail and gets none, so that it is known when it is well again."""
        if self.answers.is_to_be_tried:
            relays = [relay for relay in self.relays if not relay.fault] or self.relays
            self.answers.note_try([await relay.try_out() for relay in relays])

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
        return relay.url, await relay.send(link, sender, recipients, raw)

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


def has_domain(domains: frozenset[str], domain: str) -> bool:
    """Whether a domain in normal form is one of these, or below one that is written as `*.example.com`."""
    if domain in domains:
        return True
    labels = domain.split(".")
    return any(f"*.{'.'.join(labels[start:])}" in domains for start in range(1, len(labels)))


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
    def trouble(self) -> str:
        """Why mail waits: no route has a next hop that can be reached, or one does not take mail; "" if it does not."""
        if self.routes and all(route.fault for route in self.routes):
            faults = "; ".join(f"that of route {route.name} {route.fault}" for route in self.routes)
            return f"the next hop cannot be reached: {faults}"
        found = ((route.name, route.answers.trouble) for route in self.routes)
        return "; ".join(f"the next hop of route {name} {said}" for name, said in found if said)

    def relays(self) -> Iterator[tuple[Route, Relay]]:
        for route in self.routes:
            yield from ((route, relay) for relay in route.relays)

    def find(self, domain: str, tenant: str | None) -> Route | None:
        """Return the route of a recipient, whose domain is in normal form."""
        route = next((rule.route for rule in self._rules if has_domain(rule.domains, domain)), None)
        if route is None and tenant:
            route = next((rule.route for rule in self._rules if tenant in rule.tenants), None)
        return route or self._default

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
