"""Outbound mail: which clients send it, where it goes, and how much one sender may send in an hour.

A captured account shows by numbers before it shows by content: many messages, many recipients, and many addresses that
do not exist. A sender is the user whom a listed host names with XCLIENT LOGIN, else the address of MAIL FROM, else (a
bounce) the host. Mail in the name of a tenant that the client is not bound to counts for the host, so that nobody uses
up the limit of somebody else. Counts are estimates over a sliding hour: what this hour has, and of the hour before the
part that the last sixty minutes still cover. They hold over all nodes: each has a table of bounded size, in
which the count that was not asked for longest is forgotten first, and learns within seconds what all nodes have
counted. So a limit is passed by at most what other nodes take in these seconds, and while storage is away each node
goes by its own counts.
"""

import hashlib
import time
from collections.abc import Callable, Sequence
from typing import Literal

import msgspec

from gatepost.names import normal_address
from gatepost.process.logs import Logger
from gatepost.process.periodic import PeriodicWork
from gatepost.smtp import replies
from gatepost.smtp.client import OutboundTenants, SenderClaim, SmtpClient, Tenancy
from gatepost.smtp.replies import SmtpReply
from gatepost.smtp.routing import Routing
from gatepost.smtp.sender_rewriting import SenderRewriting
from gatepost.store.errors import StorageError
from gatepost.store.flow_counts import MAX_KEYS, FlowCount, FlowCounts

HOUR = 3_600
EXCHANGE_SECONDS, PURGE_SECONDS = 1.0, 60.0
# Counts of all nodes in memory, some 200 bytes each; above that, those that were not asked for the longest are
# forgotten, a tenth of all. What is left has three counts of two hours for 16,384 senders.
MAX_CELLS = 110_000
# How long the sum of all nodes is believed while nothing is counted here.
BELIEVED_SECONDS = 5.0
# A sender who sent once in an hour, which most of what strangers make up does, is not written.
WRITTEN_FROM = 2
# Senders of whom somebody was told in this hour; of more, somebody is told again.
MAX_TOLD = 16_384

log = Logger("gatepost.guard")


class HourlyLimits(msgspec.Struct, frozen=True):
    """What one sender may send in an hour; 0 is no limit."""

    messages: int = 0
    recipients: int = 0
    refused: int = 0


class LimitedSender(msgspec.Struct, frozen=True):
    """A sender over a limit: which one, which limit, and how much it was."""

    sender: str
    limit: Literal["messages", "recipients", "refused recipients"]
    count: int
    most: int

    @property
    def reason(self) -> str:
        return f"its sender had {self.count:,} {self.limit} within an hour, and {self.most:,} are allowed"


def _ignore(_sender: LimitedSender) -> None:
    """The default of what is told of a sender over its limit."""


class _Cell:
    """A count of one hour: what all nodes had, what was counted here since, and when the former was read."""

    __slots__ = ("delta", "read", "total")

    def __init__(self) -> None:
        self.total = self.delta = 0
        self.read = 0.0


class CountsOfAllNodes:
    """What all nodes have counted of senders, as this process knows it. It belongs to one event loop."""

    def __init__(self, stored: FlowCounts, *, clock: Callable[[], float] = time.time) -> None:
        self._stored, self._clock = stored, clock
        # By the digest of what is counted, and the beginning of its hour in Unix milliseconds.
        self._cells: dict[tuple[int, int], _Cell] = {}
        self._touched: dict[tuple[int, int], None] = {}
        self._told: set[tuple[str, int]] = set()
        self._is_away = False
        self._periodic = [
            PeriodicWork(self.exchange, EXCHANGE_SECONDS, "counts of outbound senders could not be written", log),
            PeriodicWork(
                self._purge, PURGE_SECONDS, "counts of outbound senders that are over could not be deleted", log
            ),
        ]

    @property
    def size(self) -> int:
        return len(self._cells)

    def start(self) -> None:
        """Write and learn once a second."""
        for work in self._periodic:
            work.start()

    async def stop(self) -> None:
        for work in self._periodic:
            await work.stop()
        await self.exchange()

    def add(self, sender: str, what: str, number: int) -> None:
        name = _digest(what, sender), self._this_hour()
        self._find(name).delta += number
        self._touched[name] = None

    def read(self, sender: str, what: str) -> tuple[int, int]:
        """Return what was counted of a sender in this hour and in the one before."""
        key, hour = _digest(what, sender), self._this_hour()
        return self._read((key, hour)), self._read((key, hour - HOUR * 1_000))

    def within_an_hour(self, sender: str, what: str) -> int:
        """Return what a sender had within the last sixty minutes, the hour before taken as even."""
        this_hour, before = self.read(sender, what)
        return this_hour + int(before * (1 - (self._clock() % HOUR) / HOUR))

    def is_first(self, sender: str) -> bool:
        """Note that somebody is told of a sender; returns whether that is the first time in this hour."""
        hour = self._this_hour()
        if (sender, hour) in self._told:
            return False
        self._told = {each for each in self._told if each[1] == hour} if len(self._told) < MAX_TOLD else set()
        self._told.add((sender, hour))
        return True

    async def exchange(self) -> None:
        """Write what was counted here, and learn what others have counted."""
        self._forget()
        asked = list(self._touched)[:MAX_KEYS]
        for name in asked:
            del self._touched[name]
        if not asked:
            return
        now = self._clock()
        written = {
            name: FlowCount(*name, cell.delta, name[1] + 2 * HOUR * 1_000)
            for name in asked
            if (cell := self._cells[name]).delta and cell.total + cell.delta >= WRITTEN_FROM
        }
        keys = [name[0] for name in asked if name not in written]
        try:
            counts = list(written.values())
            totals = await (self._stored.add_counts(counts, keys) if counts else self._stored.counts(keys))
        except StorageError as fault:
            if not self._is_away:
                log.warning("outbound senders are counted by each process alone", reason=str(fault))
            self._is_away = True
            self._touched = dict.fromkeys([*asked, *self._touched])
            return
        self._is_away = False
        for name in asked:
            # One that was forgotten meanwhile begins anew when it is asked for.
            if (found := self._cells.get(name)) is not None:
                found.total, found.read = totals.get(name, 0), now
                found.delta -= written[name].count if name in written else 0

    def _read(self, name: tuple[int, int]) -> int:
        cell = self._find(name)
        if self._clock() - cell.read >= BELIEVED_SECONDS:
            self._touched[name] = None
        return cell.total + cell.delta

    def _find(self, name: tuple[int, int]) -> _Cell:
        """Return a count, behind all others in the order in which they are forgotten."""
        cell = self._cells.pop(name, None)
        if cell is None:
            if len(self._cells) >= MAX_CELLS:
                self._drop(list(self._cells)[: MAX_CELLS // 10])
            cell = _Cell()
        self._cells[name] = cell
        return cell

    def _forget(self) -> None:
        """Forget counts that are older than the hour before."""
        oldest = self._this_hour() - HOUR * 1_000
        self._drop([name for name in self._cells if name[1] < oldest])

    def _drop(self, names: Sequence[tuple[int, int]]) -> None:
        for name in names:
            del self._cells[name]
            self._touched.pop(name, None)

    def _this_hour(self) -> int:
        return int(self._clock()) // HOUR * HOUR * 1_000

    async def _purge(self) -> None:
        await self._stored.purge(int(self._clock() * 1_000))


def _digest(what: str, sender: str) -> int:
    """Return the key of what is counted of a sender, as storage has it."""
    whole = f"outbound\0{what}\0{sender}".encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(whole, digest_size=8, person=b"flow").digest(), "little", signed=True)


class SenderLimits:
    """Judges what each sender sends by what was counted of it. `tell` is called once an hour for a sender over a limit,
    `remark` each time."""

    def __init__(
        self,
        limits: HourlyLimits,
        counts: CountsOfAllNodes,
        *,
        holds: bool = False,
        tell: Callable[[LimitedSender], None] = _ignore,
        remark: Callable[[LimitedSender], None] = _ignore,
    ) -> None:
        self._limits, self._counts = limits, counts
        self.holds, self._tell, self._remark = holds, tell, remark
        self.limited = 0

    def check(self, sender: str, recipients: int = 0) -> LimitedSender | None:
        """Return why a sender may not send one more message, or to so many more recipients; None if it may."""
        found = self._find_excess(sender, recipients)
        if found is not None:
            self.limited += 1
            self._remark(found)
            if self._counts.is_first(sender):
                log.warning("sender over its limit", sender=sender, limit=found.limit, count=found.count)
                self._tell(found)
        return found

    def count(self, sender: str, *, messages: int = 0, recipients: int = 0, refused: int = 0) -> None:
        for what, number in (("messages", messages), ("recipients", recipients), ("refused", refused)):
            if number and getattr(self._limits, what):
                self._counts.add(sender, what, number)

    def _find_excess(self, sender: str, recipients: int) -> LimitedSender | None:
        limits, sent = self._limits, self._counts.within_an_hour
        if limits.messages and (messages := sent(sender, "messages")) >= limits.messages:
            return LimitedSender(sender, "messages", messages, limits.messages)
        if limits.recipients and (whole := sent(sender, "recipients") + recipients) > limits.recipients:
            return LimitedSender(sender, "recipients", whole, limits.recipients)
        if limits.refused and (refused := sent(sender, "refused")) >= limits.refused:
            return LimitedSender(sender, "refused recipients", refused, limits.refused)
        return None


class SendingAccount:
    """The sender of one outbound transaction. `claim` says whose mail it is; `excess` is why its message is held, ""
    if it is not."""

    def __init__(
        self, limits: SenderLimits, sender: str, claim: SenderClaim, *, refusal: SmtpReply | None = None
    ) -> None:
        self._limits, self._sender, self._refusal = limits, sender, refusal
        self.claim = claim
        self.excess = ""

    def refuse(self, recipients: int = 0) -> SmtpReply | None:
        """Return the reply if the sender may not send, or not to so many recipients in this transaction."""
        if self._refusal is not None:
            return self._refusal
        found = self._limits.check(self._sender, recipients)
        if found is None:
            return None
        if not self._limits.holds:
            return replies.OVER_LIMIT
        self.excess = found.reason
        return None

    def count_message(self, recipients: int) -> None:
        self._limits.count(self._sender, messages=1, recipients=recipients)

    def count_refused(self, recipients: int) -> None:
        """Count recipients that the next hop does not know."""
        if recipients:
            self._limits.count(self._sender, refused=recipients)


class Outbound:
    """The outbound direction of an SMTP source: all mail on `port`, and all mail of the tenants' hosts. With `refuses`,
    mail in the name of a tenant that its client is not bound to is refused; else it is sent without a signature."""

    def __init__(
        self,
        tenants: OutboundTenants,
        port: int | None,
        routing: Routing | None,
        limits: SenderLimits,
        *,
        refuses: bool = False,
        rewriting: SenderRewriting | None = None,
    ) -> None:
        self._tenants, self._port, self._refuses = tenants, port, refuses
        self.routing, self.limits, self.rewriting = routing, limits, rewriting

    def covers(self, client: SmtpClient, port: int) -> bool:
        """Whether mail of this client on this port is outbound."""
        return port == self._port or self._tenants.has_host(client.address)

    async def rewrite_sender(self, address: str, domain: str, tenancy: Tenancy) -> str:
        """Return the sender with which a message leaves: one of ours for that of a stranger, where this is set up.
        Raises `StorageError`."""
        rewriting = self.rewriting
        if rewriting is None or not domain or rewriting.keeps(domain) or await tenancy.tenant_of(domain):
            return address
        return rewriting.rewrite(address)

    async def open_account(self, client: SmtpClient, address: str, domain: str, tenancy: Tenancy) -> SendingAccount:
        """Return the account of a sender. A stranger who reaches the port would find an open relay, so it may not
        send. Raises `StorageError`."""
        if not (client.known or self._tenants.has_host(client.address)):
            stranger = SenderClaim(None, frozenset(), fits=False)
            return SendingAccount(self.limits, _name_host(client), stranger, refusal=replies.NOT_ALLOWED)
        claim = await self._tenants.judge(client, domain, tenancy)
        sender = name_sender(client, address) if claim.fits else _name_host(client)
        refusal = replies.NOT_OWN_SENDER if self._refuses and not claim.fits else None
        return SendingAccount(self.limits, sender, claim, refusal=refusal)


def name_sender(client: SmtpClient, address: str) -> str:
    """Return the sender whose mail is counted together."""
    login = client.xclient.get("LOGIN")
    if login:
        return f"user {login[:255]}"
    return normal_address(address)[:320] or _name_host(client)


def _name_host(client: SmtpClient) -> str:
    return f"host {client.remote_address() or client.address}"
