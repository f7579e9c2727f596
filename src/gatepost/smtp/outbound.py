"""Outbound mail: which clients send it, where it goes, and how much one sender may send in an hour.

A captured account shows by numbers before it shows by content: many messages, many recipients, and many addresses that
do not exist. A sender is the user whom a listed host names with XCLIENT LOGIN, else the address of MAIL FROM, else (a
bounce) the host. Counts are estimates over a sliding hour: what this hour has, and of the hour before the part that the
last sixty minutes still cover. The names are digests in a table of bounded size that all processes of a node share; the
sender that was quiet longest is forgotten first.
"""

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Literal, Protocol

import msgspec

from gatepost.logs import Logger
from gatepost.names import normal_address
from gatepost.smtp import replies
from gatepost.smtp.client import Networks, SmtpClient, is_among
from gatepost.smtp.replies import SmtpReply
from gatepost.smtp.routing import Routing

HOUR = 3_600
# Numbers of a sender: the hour, its three counts, those of the hour before, and the hour in which it was told of.
WIDTH = 8

log = Logger("gatepost.guard")


class SenderRecords(Protocol):
    """Where counts are kept: `node_memory` has it for one process and for those of a node. State that several nodes
    share would be one more."""

    @property
    def memory(self) -> AbstractContextManager[None]: ...

    def get(self, name: str) -> list[int] | None: ...

    def put(self, name: str, values: Sequence[int]) -> None: ...


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


class SenderLimits:
    """Counts what each sender sends. `tell` is called once an hour for a sender over a limit, `remark` each time."""

    def __init__(
        self,
        limits: HourlyLimits,
        records: SenderRecords,
        *,
        holds: bool = False,
        tell: Callable[[LimitedSender], None] = _ignore,
        remark: Callable[[LimitedSender], None] = _ignore,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._limits, self._records, self._tell, self._clock = limits, records, tell, clock
        self.holds, self._remark = holds, remark
        self.limited = 0

    def check(self, sender: str, recipients: int = 0) -> LimitedSender | None:
        """Return why a sender may not send one more message, or to so many more recipients; None if it may."""
        with self._records.memory:
            record = self._read(sender)
        found = self._find_excess(sender, record, recipients)
        if found is not None:
            self.limited += 1
            self._remark(found)
            self._tell_once(found)
        return found

    def count(self, sender: str, *, messages: int = 0, recipients: int = 0, refused: int = 0) -> None:
        """Count what a sender has sent."""
        with self._records.memory:
            record = self._read(sender)
            for place, number in enumerate((messages, recipients, refused), 1):
                record[place] += number
            self._records.put(sender, record)

    def _read(self, sender: str) -> list[int]:
        hour = int(self._clock()) // HOUR
        known = self._records.get(sender)
        if known is None or not hour - 1 <= known[0] <= hour:
            return [hour, 0, 0, 0, 0, 0, 0, 0]
        if known[0] == hour:
            return known
        return [hour, 0, 0, 0, *known[1:4], known[7]]

    def _find_excess(self, sender: str, record: list[int], recipients: int) -> LimitedSender | None:
        left = 1 - (self._clock() % HOUR) / HOUR
        messages, sent, refused = (record[place] + int(record[place + 3] * left) for place in (1, 2, 3))
        limits = self._limits
        if limits.messages and messages >= limits.messages:
            return LimitedSender(sender, "messages", messages, limits.messages)
        if limits.recipients and sent + recipients > limits.recipients:
            return LimitedSender(sender, "recipients", sent + recipients, limits.recipients)
        if limits.refused and refused >= limits.refused:
            return LimitedSender(sender, "refused recipients", refused, limits.refused)
        return None

    def _tell_once(self, found: LimitedSender) -> None:
        with self._records.memory:
            record = self._read(found.sender)
            told, record[7] = record[7] == record[0], record[0]
            self._records.put(found.sender, record)
        if not told:
            log.warning("sender over its limit", sender=found.sender, limit=found.limit, count=found.count)
            self._tell(found)


class SendingAccount:
    """The sender of one outbound transaction. `excess` is why its message is held; "" if it is not."""

    def __init__(self, limits: SenderLimits, sender: str, *, stranger: bool = False) -> None:
        self._limits, self._sender, self._stranger = limits, sender, stranger
        self.excess = ""

    def refuse(self, recipients: int = 0) -> SmtpReply | None:
        """Return the reply if the sender may not send, or not to so many recipients in this transaction."""
        if self._stranger:
            return replies.NOT_ALLOWED
        found = self._limits.check(self._sender, recipients)
        if found is None:
            return None
        if not self._limits.holds:
            return replies.OVER_LIMIT
        self.excess = found.reason
        return None

    def count_message(self, recipients: int) -> None:
        """Count a whole message."""
        self._limits.count(self._sender, messages=1, recipients=recipients)

    def count_refused(self, recipients: int) -> None:
        """Count recipients that the next hop does not know."""
        if recipients:
            self._limits.count(self._sender, refused=recipients)


class Outbound:
    """The outbound direction of an SMTP source: all mail on `port`, and all mail of `hosts`."""

    def __init__(self, hosts: Networks, port: int | None, routing: Routing | None, limits: SenderLimits) -> None:
        self._hosts, self._port = hosts, port
        self.routing, self.limits = routing, limits

    def covers(self, client: SmtpClient, port: int) -> bool:
        """Whether mail of this client on this port is outbound."""
        return port == self._port or is_among(client.address, self._hosts)

    def open_account(self, client: SmtpClient, address: str) -> SendingAccount:
        """Return the account of a sender. A stranger who reaches the port would find an open relay, so it may not
        send."""
        stranger = not (client.known or is_among(client.address, self._hosts))
        return SendingAccount(self.limits, name_sender(client, address), stranger=stranger)


def name_sender(client: SmtpClient, address: str) -> str:
    """Return the sender whose mail is counted together."""
    login = client.xclient.get("LOGIN")
    if login:
        return f"user {login[:255]}"
    return normal_address(address)[:320] or f"host {client.remote_address() or client.address}"
