"""One route: the next hops of the same mail, in order or by weight, and which of them are down.

A next hop that could not be reached is asked last until it answers again; its relay tries it every few seconds. So mail
goes on at once when one of several is down, and none is given up for good. Another next hop is tried only where the one
before gave no connection that is ready for MAIL: once a transaction has begun, its replies are the client's.
"""

import random
from collections.abc import Sequence

from gatepost.smtp.next_hop import NextHop, NextHopError
from gatepost.smtp.relay import Relay, send_message
from gatepost.smtp.replies import SmtpReply


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

    async def send(self, sender: str, recipients: Sequence[str], raw: bytes) -> SmtpReply:
        """Send a whole message, to all recipients or to none; return the last reply. A next hop that speaks LMTP takes
        one recipient. Raises `NextHopError` where no next hop gave a reply."""
        relay, link = await self.borrow()
        return await send_message(relay, link, sender, recipients, raw)

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
