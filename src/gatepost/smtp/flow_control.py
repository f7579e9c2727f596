"""Flow control: how much mail is taken from a host or a sender and for a recipient, and what has to come again.

A recipient (RCPT) is the point of decision: only there is it known whose mail it is, and nothing has been taken yet.
Mail above a limit is put off with 450, and a mail server keeps it and tries again; nothing is refused for good. A host
that names one unknown recipient after the other is answered with 421, at MAIL already.

The sending host is that of the envelope: the client, or what a listed host says of its client. Where it is not known,
limits on hosts do not apply. Hosts in `exemptHosts`, and hosts and senders on the lists `allowed-ips` and
`allowed-senders`, have no limits; lists are asked only before something would be put off.

This is independent of throttling, which slows all mail down while a core is busy.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterator
from ipaddress import ip_address

import msgspec
import structlog

from gatepost.events.schema import FlowLimited, bound
from gatepost.events.stream import NO_EVENTS, Emits
from gatepost.lists.addresses import SENDER, list_sender_keys
from gatepost.lists.entries import NETWORK, list_network_keys
from gatepost.names import normal_address, normal_domain
from gatepost.settings.flow_control import FlowControlSettings, FlowRulesSettings
from gatepost.smtp.client import SmtpClient, parse_networks
from gatepost.smtp.flow_counters import FlowCounters, digest
from gatepost.smtp.greylisting import Greylist, find_network
from gatepost.smtp.replies import ENHANCED_STATUS, SmtpReply, reply
from gatepost.store.errors import StorageError
from gatepost.store.flow_counts import FlowCounts
from gatepost.store.list_lookup import ListLookup
from gatepost.times import date_time

FLUSH_SECONDS = 1.0
PURGE_SECONDS = 60.0
# How often greylisting's entries are counted, which reads all of them.
MEASURE_SECONDS = 600.0
# Limits that are told of, in the log and as events, in a minute.
MAX_TOLD = 60
ALLOWED = frozenset({"allowed-ips", "allowed-senders"})

TOO_MUCH_FROM_HOST = reply(450, "4.7.1 Too much mail from your host, try again later")
TOO_MUCH_FROM_SENDER = reply(450, "4.7.1 Too much mail from this sender, try again later")
TOO_MUCH_FROM_DOMAIN = reply(450, "4.7.1 Too much mail from this sender's domain, try again later")
TOO_MUCH_FOR_RECIPIENT = reply(450, "4.2.1 This recipient gets too much mail now, try again later")
UNKNOWN_RECIPIENTS = reply(421, "4.7.0 Too many unknown recipients, try again later")
UNKNOWN_RECIPIENTS_OF_CLIENT = reply(450, "4.7.1 Too many unknown recipients from this host, try again later")

log = structlog.get_logger("gatepost.guard")


class Attempt(msgspec.Struct, frozen=True):
    """A recipient that a client names. `is_first` says that nothing of the message was counted yet."""

    client: SmtpClient
    sender: str
    recipient: str
    tenant: str | None = None
    is_first: bool = True


class _Limit(msgspec.Struct, frozen=True):
    """One limit on an attempt: what it is called, what is counted, up to what, and what is said above it."""

    name: str
    subject: str
    what: str
    maximum: int
    minutes: int
    key: int
    reply: SmtpReply


def find_host(client: SmtpClient) -> str | None:
    """Return the sending host as limits count it, an IPv6 /64 as one; None if it is not known."""
    address = client.remote_address()
    try:
        return find_network(address, 32).removesuffix("/32") if address else None
    except ValueError:
        return None


def is_unknown_recipient(said: SmtpReply) -> bool:
    """Whether a reply to RCPT says that there is no such mailbox: 5.1.x (RFC 3463 section 3.2), or no status code."""
    if said.code < 500 or not said.lines:
        return False
    status = ENHANCED_STATUS.match(said.lines[0])
    return said.lines[0].startswith(b"5.1.") if status else said.code in (550, 551, 553)


class FlowControl:
    """The limits of one process; counts are those of all nodes. It belongs to one event loop. `defers` says whether
    greylisting makes sense: a client that is a queue always comes again."""

    def __init__(
        self,
        settings: FlowControlSettings,
        counts: FlowCounts,
        lists: ListLookup,
        *,
        defers: bool = True,
        purges: bool = True,
        events: Emits = NO_EVENTS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._settings, self._counts, self._lists, self._defers, self._purges = settings, counts, lists, defers, purges
        self._exempt = parse_networks(settings.exempt_hosts)
        self._events, self._clock = events, clock
        self.counters = FlowCounters(counts, clock)
        self.greylist = Greylist(counts, self.counters, clock)
        # What was put off, by the name of the limit.
        self.refused: Counter[str] = Counter()
        self._told: tuple[int, int] = (0, 0)
        self._task: asyncio.Task[None] | None = None

    @property
    def fault(self) -> str:
        """Why limits do not hold as they should; "" if they do."""
        return self.counters.fault or self.greylist.fault

    def start(self) -> None:
        """Write and learn once a second."""
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Write what is left, and end."""
        if self._task:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._flush()

    def check_client(self, client: SmtpClient) -> SmtpReply | None:
        """Return the reply to a host that has named too many unknown recipients."""
        limit = self._unknown_limit(client)
        if limit is None or self.counters.count(limit.key, limit.minutes) < limit.maximum:
            return None
        self._tell(limit, None)
        return limit.reply

    def count_unknown(self, client: SmtpClient) -> None:
        """Count a recipient that the next hop does not know."""
        if limit := self._unknown_limit(client):
            self.counters.add(limit.key, limit.minutes)

    async def check_recipient(self, attempt: Attempt) -> SmtpReply | None:
        """Return the reply to a recipient that is put off; None counts it, and the message with the first one."""
        host = find_host(attempt.client)
        if self._is_exempt(attempt.client):
            return None
        rules = self._settings.tenants.get(attempt.tenant or "", self._settings)
        limits = list(_list_limits(rules, attempt, host))
        for limit in limits:
            if self.counters.count(limit.key, limit.minutes) >= limit.maximum:
                if await self._is_allowed(attempt):
                    return None
                self._tell(limit, attempt.tenant)
                return limit.reply
        if wait := await self._find_wait(rules, attempt):
            self.refused["greylisting"] += 1
            return reply(450, f"4.7.1 Greylisted, try again in {wait} seconds")
        for limit in limits:
            self.counters.add(limit.key, limit.minutes)
        return None

    async def _find_wait(self, rules: FlowRulesSettings, attempt: Attempt) -> int:
        host = attempt.client.remote_address()
        if rules.greylisting is None or not self._defers or host is None:
            return 0
        triplet = (attempt.tenant or "", host, attempt.sender, attempt.recipient)
        return await self.greylist.find_wait(rules.greylisting, triplet, lambda: self._is_allowed(attempt))

    def _unknown_limit(self, client: SmtpClient) -> _Limit | None:
        settings, host = self._settings.unknown_recipients, find_host(client)
        if settings is None or host is None or self._is_exempt(client):
            return None
        said = UNKNOWN_RECIPIENTS_OF_CLIENT if client.listed else UNKNOWN_RECIPIENTS
        key = digest("unknown recipients", host)
        return _Limit(
            "unknownRecipients", host, "unknown recipients", settings.maximum, settings.window_minutes, key, said
        )

    def _is_exempt(self, client: SmtpClient) -> bool:
        address = client.remote_address()
        if not self._exempt or address is None:
            return False
        place = ip_address(address)
        return any(place in network for network in self._exempt)

    async def _is_allowed(self, attempt: Attempt) -> bool:
        """Whether a list of the tenant or of the deployment allows the host or the sender. Without storage, yes: mail
        is not put off for what cannot be known."""
        address = attempt.client.remote_address()
        keys = [(SENDER.name, list_sender_keys(attempt.sender))]
        keys += [(NETWORK.name, list_network_keys(address))] if address else []
        try:
            found = await self._lists.find(attempt.tenant, keys)
        except StorageError:
            return True
        return any(hit.list in ALLOWED for hit in found)

    def _tell(self, limit: _Limit, tenant: str | None) -> None:
        """Count what is put off, and say it once in a window."""
        self.refused[limit.name] += 1
        of_tenant = f" for tenant {tenant}" if tenant else ""
        label = f"{limit.name} {limit.subject}{of_tenant}: {limit.maximum} {limit.what} in {limit.minutes} minutes"
        if not self.counters.mark(limit.key, limit.minutes, label) or not self._may_tell():
            return
        # Addresses of people are not logged; the event and `gatepost flow` have them.
        host = limit.subject if limit.name in ("host", "unknownRecipients") else ""
        log.warning("limit reached", limit=limit.name, host=host, maximum=limit.maximum)
        self._events.emit(
            FlowLimited,
            tenant_uid=tenant,
            limit=limit.name,
            subject=bound(limit.subject),
            maximum=limit.maximum,
            until=date_time(self.counters.window_end(limit.minutes)),
        )

    def _may_tell(self) -> bool:
        minute = int(self._clock()) // 60
        told = self._told[1] if self._told[0] == minute else 0
        self._told = (minute, told + 1)
        return told < MAX_TOLD

    async def _flush(self) -> None:
        await self.counters.flush()
        await self.greylist.flush()

    async def _run(self) -> None:
        purged = measured = -MEASURE_SECONDS
        while True:
            await self._flush()
            now = time.monotonic()
            if now - purged >= PURGE_SECONDS:
                is_due = self._has_greylisting and now - measured >= MEASURE_SECONDS
                purged, measured = now, now if is_due else measured
                await self._purge(measures=is_due)
            await asyncio.sleep(FLUSH_SECONDS)

    @property
    def _has_greylisting(self) -> bool:
        return any(each.greylisting for each in (self._settings, *self._settings.tenants.values()))

    async def _purge(self, *, measures: bool) -> None:
        try:
            if self._purges:
                await self._counts.purge(int(self._clock() * 1_000))
            if measures:
                await self.greylist.measure()
        except StorageError as fault:
            log.warning("what flow control no longer needs could not be deleted", reason=str(fault))


def _list_limits(rules: FlowRulesSettings, attempt: Attempt, host: str | None) -> Iterator[_Limit]:
    """Yield every limit that the attempt counts for."""
    rates, scope = rules.rate_limits, attempt.tenant or ""
    sender = normal_address(attempt.sender[:320])
    domain = normal_domain(sender.rpartition("@")[2])
    whose = (
        ("host", rates.host, host or "", TOO_MUCH_FROM_HOST),
        ("sender", rates.sender, sender, TOO_MUCH_FROM_SENDER),
        ("senderDomain", rates.sender_domain, domain, TOO_MUCH_FROM_DOMAIN),
    )
    for name, rate, subject, said in whose:
        if rate is None or not subject:
            continue
        if rate.messages is not None and attempt.is_first:
            key = digest(name, "messages", scope, subject)
            yield _Limit(name, subject, "messages", rate.messages, rate.window_minutes, key, said)
        if rate.recipients is not None:
            key = digest(name, "recipients", scope, subject)
            yield _Limit(name, subject, "recipients", rate.recipients, rate.window_minutes, key, said)
    if rates.recipient is not None:
        subject = normal_address(attempt.recipient[:320])
        key = digest("recipient", "messages", scope, subject)
        limit = rates.recipient
        yield _Limit(
            "recipient", subject, "messages", limit.messages, limit.window_minutes, key, TOO_MUCH_FOR_RECIPIENT
        )
