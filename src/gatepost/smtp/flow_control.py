"""Flow control: how much mail is taken from a host or a sender and for a recipient, and what has to come again.

A recipient (RCPT) is the point of decision: only there is it known whose mail it is, and nothing has been taken yet.
Mail above a limit is put off with 450, and a mail server keeps it and tries again; nothing is refused for good. A host
that names one unknown recipient after the other is answered with 421, at MAIL already.

The sending host is that of the envelope: the client, or what a listed host says of its client. Where it is not known,
limits on hosts do not apply. Hosts in `exemptHosts`, and hosts and senders on the lists `allowed-ips` and
`allowed-senders`, have no limits; lists are asked only before something would be put off.

This is independent of throttling, which slows all mail down while a core is busy.

Counters: each process counts in memory, and learns once a second what all nodes have counted. No message waits for
storage. A counter belongs to a window of time that begins and ends at the same moment on every node. What was counted
since the last time is added to the row in storage, and the sum of all nodes comes back; so a limit is passed by at most
what other processes take in about a second. A key that was counted only once in its window is not written: most of what
strangers make up is seen once, and a limit is passed by one message of each process more. While storage is away, each
process goes by its own counts.

Greylisting (RFC 6647): the first attempt of an unknown sender from an unknown network is put off for some minutes. A
mail server tries again; much of what sends spam does not. What is remembered is a triplet: the network of the sending
host (IPv4 /24, IPv6 /64), the sender and the recipient, as a digest. Once enough senders of a network have passed, all
of it may. A triplet that is known here costs nothing, another one a look-up in storage. What is new is gathered and
written once a second in one transaction, so a kill costs a sender one more attempt at most. Greylisting fails open:
where storage cannot be read, and where it has too many entries, mail is taken.
"""

import asyncio
import re
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from functools import lru_cache
from hashlib import blake2b
from ipaddress import ip_address, ip_network

import msgspec

from gatepost.events.schema import FlowLimited, bound
from gatepost.events.stream import NO_EVENTS, Emits
from gatepost.lists.addresses import SENDER, list_sender_keys
from gatepost.lists.entries import NETWORK, list_network_keys
from gatepost.names import normal_address, normal_domain
from gatepost.process.logs import Logger
from gatepost.process.periodic import PeriodicWork
from gatepost.settings.scan_sources import FlowControlSettings, FlowRulesSettings, GreylistingSettings
from gatepost.smtp.client import SmtpClient, is_among, parse_networks
from gatepost.smtp.replies import ENHANCED_STATUS, SmtpReply, reply
from gatepost.store.errors import StorageError
from gatepost.store.flow_counts import MAX_KEYS, FlowCount, FlowCounts
from gatepost.store.list_lookup import ListLookup
from gatepost.times import date_time

# Counters in memory, some 200 bytes each; above that, those that were not asked for the longest are forgotten.
MAX_CELLS = 50_000
# How long the sum of all nodes is believed while nothing is counted here.
BELIEVED_MILLISECONDS = 5_000
WRITTEN_FROM = 2

log = Logger("gatepost.guard")


def digest(*parts: str) -> int:
    """Return the key of a name, as storage has it."""
    whole = "\0".join(parts).encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(whole, digest_size=8, person=b"flow").digest(), "little", signed=True)


class _Cell:
    """One counter: what all nodes had counted, what was counted here since, and when the former was read."""

    __slots__ = ("delta", "expires", "label", "read", "total", "unsaved")

    def __init__(self, expires: int) -> None:
        self.total = self.delta = self.read = 0
        self.expires, self.label = expires, ""
        # Whether the label still has to be written.
        self.unsaved = False


class FlowCounters:
    """The counters of one process. It belongs to one event loop. `windows_kept` is how many windows that are over can
    still be asked for."""

    def __init__(self, stored: FlowCounts, clock: Callable[[], float] = time.time, *, windows_kept: int = 0) -> None:
        self._stored, self._clock, self._windows_kept = stored, clock, windows_kept
        self._cells: dict[tuple[int, int], _Cell] = {}
        self._touched: dict[tuple[int, int], None] = {}
        self.fault = ""

    @property
    def size(self) -> int:
        """How many counters are in memory."""
        return len(self._cells)

    def count(self, key: int, minutes: int, *, windows_ago: int = 0) -> int:
        """Return what was counted in this window, or in one before it, as far as it is known here."""
        name, cell = self._find(key, minutes, windows_ago)
        if self._now() - cell.read >= BELIEVED_MILLISECONDS:
            self._touched[name] = None
        return cell.total + cell.delta

    def add(self, key: int, minutes: int, number: int = 1) -> None:
        """Count one more, or several."""
        name, cell = self._find(key, minutes)
        cell.delta += number
        self._touched[name] = None

    def mark(self, key: int, minutes: int, label: str) -> bool:
        """Note that a limit was reached; False where that was noted before in this window."""
        name, cell = self._find(key, minutes)
        if cell.label:
            return False
        cell.label, cell.unsaved = label, True
        self._touched[name] = None
        return True

    def window_end(self, minutes: int) -> int:
        """Return when the current window ends, in Unix milliseconds."""
        length = minutes * 60_000
        return self._now() // length * length + length

    async def flush(self) -> None:
        """Write what was counted, and learn what other nodes have counted."""
        now = self._now()
        self._forget(now)
        asked = [name for name in list(self._touched)[:MAX_KEYS] if name in self._cells]
        for name in list(self._touched)[:MAX_KEYS]:
            del self._touched[name]
        if not asked:
            return
        written = {
            name: FlowCount(*name, cell.delta, cell.expires, cell.label if cell.unsaved else "")
            for name in asked
            if (cell := self._cells[name]).unsaved or (cell.delta and cell.total + cell.delta >= WRITTEN_FROM)
        }
        keys = [name[0] for name in asked if name not in written]
        try:
            counts = list(written.values())
            totals = await (self._stored.add_counts(counts, keys) if counts else self._stored.counts(keys))
        except StorageError as fault:
            if not self.fault:
                log.warning("flow control goes by what this process has counted", reason=str(fault))
            self.fault = "storage cannot be used"
            self._touched = dict.fromkeys([*asked, *self._touched])
            return
        self.fault = ""
        for name in asked:
            self._take(name, written.get(name), totals.get(name, 0), now)

    def _take(self, name: tuple[int, int], written: FlowCount | None, total: int, now: int) -> None:
        cell = self._cells.get(name)
        if cell is not None:
            cell.total, cell.read = total, now
            if written is not None:
                cell.delta -= written.count
                cell.unsaved = cell.unsaved and not written.label

    def _find(self, key: int, minutes: int, windows_ago: int = 0) -> tuple[tuple[int, int], _Cell]:
        length = minutes * 60_000
        end = self.window_end(minutes) - windows_ago * length
        name = (key, end - length)
        cell = self._cells.pop(name, None)
        if cell is None:
            if len(self._cells) >= MAX_CELLS:
                self._make_room()
            cell = _Cell(end + self._windows_kept * length)
        self._cells[name] = cell
        return name, cell

    def _make_room(self) -> None:
        """Forget a tenth of the counters, those first that were not asked for the longest."""
        for name in list(self._cells)[: MAX_CELLS // 10]:
            del self._cells[name]
            self._touched.pop(name, None)

    def _forget(self, now: int) -> None:
        """Forget counters of windows that are over."""
        for name in [name for name, cell in self._cells.items() if cell.expires <= now]:
            del self._cells[name]
            self._touched.pop(name, None)

    def _now(self) -> int:
        return int(self._clock() * 1_000)


MAX_REMEMBERED = 50_000
MAX_GATHERED = 20_000
# Rows in storage, some 60 bytes each; with more than that nothing is put off.
MAX_ENTRIES = 2_000_000
# New triplets of one network in an hour that are remembered; others are put off without a row.
MAX_NEW = 500
HOUR_MINUTES = 60
DAY_MILLISECONDS = 86_400_000
# What changes in the senders of mailing lists from message to message.
_VARIABLE = re.compile(r"\+.*|=.*|[0-9]+")


@lru_cache(4096)
def find_network(host: str, ipv4_length: int = 24) -> str:
    """Return the network of a host that counts as one: IPv4 /24 unless said otherwise, IPv6 /64."""
    address = ip_address(host)
    mapped = getattr(address, "ipv4_mapped", None)
    place = mapped or address
    return str(ip_network((int(place), ipv4_length if place.version == 4 else 64), strict=False))


def describe_sender(sender: str) -> str:
    """Return what of a sender stays the same from message to message."""
    local, _, domain = normal_address(sender[:320]).rpartition("@")
    return f"{_VARIABLE.sub('#', local)}@{domain}"


class Greylist:
    """Which senders wait and which have passed, as far as this process knows. It belongs to one event loop."""

    def __init__(self, stored: FlowCounts, counters: FlowCounters, clock: Callable[[], float] = time.time) -> None:
        self._stored, self._counters, self._clock = stored, counters, clock
        # Keys that may pass, and until when; keys that were seen first, and when.
        self._known: dict[int, int] = {}
        self._first: dict[int, int] = {}
        self._waiting: dict[int, tuple[int, int]] = {}
        self._passed: dict[int, tuple[int, int, int]] = {}
        self._is_full = False
        self._storage_fault = ""
        self.looked_up = 0

    @property
    def fault(self) -> str:
        """Why nothing is put off; "" if something is."""
        return f"greylisting has {MAX_ENTRIES:,} entries" if self._is_full else self._storage_fault

    async def find_wait(
        self,
        settings: GreylistingSettings,
        triplet: tuple[str, str, str, str],
        is_listed: Callable[[], Awaitable[bool]],
    ) -> int:
        """Return for how many seconds an attempt has to wait; 0 if it may pass. `triplet` is the scope, the host, the
        sender and the recipient; `is_listed` says whether a list allows it, and is asked only if it would wait."""
        scope, host, sender, recipient = triplet
        network = find_network(host)
        whole = digest("network", scope, network)
        key = digest("triplet", scope, network, describe_sender(sender), normal_address(recipient[:320]))
        now = int(self._clock() * 1_000)
        if self._is_full or self._known.get(whole, 0) > now or self._known.get(key, 0) > now:
            return 0
        try:
            first = await self._look_up(settings, whole, key, now)
        except StorageError as fault:
            self._note_fault(fault)
            return 0
        if first is None:
            return 0
        if first:
            wait = first + settings.delay_minutes * 60_000 - now
            if wait > 0:
                return -(-wait // 1_000)
            self._pass(settings, whole, key, now)
            return 0
        if await is_listed():
            return 0
        self._begin(settings, network, key, now)
        return settings.delay_minutes * 60

    async def _look_up(self, settings: GreylistingSettings, whole: int, key: int, now: int) -> int | None:
        """Return when a triplet was first seen, 0 if it is new, None if it has passed."""
        first = self._first.get(key, 0)
        if first and now - first < settings.retry_hours * 3_600_000:
            return first
        self._first.pop(key, None)
        self.looked_up += 1
        found = await self._stored.greylist_entries((whole, key), now)
        self._storage_fault = ""
        for name, least in ((whole, settings.pass_after), (key, 1)):
            entry = found.get(name)
            if entry and entry.passed >= least:
                self._remember(name, entry.expires)
                if entry.expires - now < (settings.pass_days - 1) * DAY_MILLISECONDS:
                    self._gather(name, now, 0, now + settings.pass_days * DAY_MILLISECONDS)
                return None
        if entry:
            self._note_first(key, entry.first)
        return entry.first if entry else 0

    def _note_first(self, key: int, first: int) -> None:
        if len(self._first) >= MAX_REMEMBERED:
            del self._first[next(iter(self._first))]
        self._first[key] = first

    def _begin(self, settings: GreylistingSettings, network: str, key: int, now: int) -> None:
        """Remember a triplet that was seen for the first time."""
        new = digest("new", network)
        if self._counters.count(new, HOUR_MINUTES) >= MAX_NEW or len(self._waiting) >= MAX_GATHERED:
            return
        self._counters.add(new, HOUR_MINUTES)
        self._note_first(key, now)
        self._waiting[key] = (now, now + settings.retry_hours * 3_600_000)

    def _pass(self, settings: GreylistingSettings, whole: int, key: int, now: int) -> None:
        """Remember a triplet that has waited long enough, which counts for its network."""
        self._first.pop(key, None)
        until = now + settings.pass_days * DAY_MILLISECONDS
        self._remember(key, until)
        self._gather(key, now, 1, until)
        self._gather(whole, now, 1, until)

    def _gather(self, key: int, now: int, times: int, until: int) -> None:
        if key in self._passed or len(self._passed) < MAX_GATHERED:
            before = self._passed.get(key, (now, 0, until))
            self._passed[key] = (before[0], before[1] + times, max(before[2], until))

    def _remember(self, key: int, until: int) -> None:
        if len(self._known) >= MAX_REMEMBERED:
            del self._known[next(iter(self._known))]
        self._known[key] = until

    async def flush(self) -> None:
        """Write what is new."""
        waiting, passed = self._waiting, self._passed
        if not waiting and not passed:
            return
        self._waiting, self._passed = {}, {}
        try:
            await self._stored.record_greylist(waiting, passed)
        except StorageError as fault:
            self._note_fault(fault)
            # What came meanwhile is newer; what was first seen earlier counts.
            self._waiting = self._waiting | waiting if len(self._waiting) < MAX_GATHERED else self._waiting
            for key, (when, times, until) in passed.items():
                self._gather(key, when, times, until)
            return
        self._storage_fault = ""

    def _note_fault(self, fault: StorageError) -> None:
        if not self._storage_fault:
            log.warning("greylisting is open", reason=str(fault))
        self._storage_fault = "storage cannot be used"

    async def measure(self) -> None:
        """See whether there is room for more, and forget what retries no longer come for."""
        self._is_full = await self._stored.greylist_size(MAX_ENTRIES) >= MAX_ENTRIES
        now = int(self._clock() * 1_000)
        self._first = {key: first for key, first in self._first.items() if now - first < 7 * DAY_MILLISECONDS}


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


class DeliveryAttempt(msgspec.Struct, frozen=True):
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
        self._settings, self._counts, self._lists, self._defers = settings, counts, lists, defers
        self._exempt = parse_networks(settings.exempt_hosts)
        self._events, self._clock = events, clock
        self.counters = FlowCounters(counts, clock)
        self.greylist = Greylist(counts, self.counters, clock)
        # What was put off, by the name of the limit.
        self.refused: Counter[str] = Counter()
        self._told: tuple[int, int] = (0, 0)
        self._periodic = [
            PeriodicWork(self._flush, FLUSH_SECONDS, "what flow control counts could not be written", log)
        ]
        if purges:
            failed = "what flow control no longer needs could not be deleted"
            self._periodic.append(PeriodicWork(self._purge, PURGE_SECONDS, failed, log))
        if any(each.greylisting for each in (settings, *settings.tenants.values())):
            failed = "entries of greylisting could not be counted"
            self._periodic.append(PeriodicWork(self.greylist.measure, MEASURE_SECONDS, failed, log))

    @property
    def fault(self) -> str:
        """Why limits do not hold as they should; "" if they do."""
        return self.counters.fault or self.greylist.fault

    def start(self) -> None:
        """Write and learn once a second."""
        for work in self._periodic:
            work.start()

    async def stop(self) -> None:
        """Write what is left, and end."""
        for work in self._periodic:
            await work.stop()
        await self._flush()

    def check_client(self, client: SmtpClient) -> SmtpReply | None:
        """Return the reply to a host that has named too many unknown recipients."""
        limit = self._unknown_limit(client)
        if limit is None or self.counters.count(limit.key, limit.minutes) < limit.maximum:
            return None
        self._tell(limit, None)
        return limit.reply

    def count_answer(self, client: SmtpClient, answer: asyncio.Future[SmtpReply]) -> None:
        """Look at what the next hop has answered to a recipient, if it has."""
        if not answer.cancelled() and not answer.exception() and is_unknown_recipient(answer.result()):
            self.count_unknown(client)

    def count_unknown(self, client: SmtpClient) -> None:
        """Count a recipient that the next hop does not know."""
        if limit := self._unknown_limit(client):
            self.counters.add(limit.key, limit.minutes)

    async def check_recipient(self, attempt: DeliveryAttempt) -> SmtpReply | None:
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

    async def _find_wait(self, rules: FlowRulesSettings, attempt: DeliveryAttempt) -> int:
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
        return is_among(client.remote_address() or "", self._exempt)

    async def _is_allowed(self, attempt: DeliveryAttempt) -> bool:
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
        log.warning("flow limit reached", limit=limit.name, host=host, maximum=limit.maximum)
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

    async def _purge(self) -> None:
        await self._counts.purge(int(self._clock() * 1_000))


def _list_limits(rules: FlowRulesSettings, attempt: DeliveryAttempt, host: str | None) -> Iterator[_Limit]:
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
