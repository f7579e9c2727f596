"""Greylisting (RFC 6647): the first attempt of an unknown sender from an unknown network is put off for some minutes.

A mail server tries again; much of what sends spam does not. What is remembered is a triplet: the network of the sending
host (IPv4 /24, IPv6 /64), the sender and the recipient, as a digest. Once enough senders of a network have passed, all
of it may.

A triplet that is known here costs nothing, another one a look-up in storage. What is new is gathered and written once a
second in one transaction, so a kill costs a sender one more attempt at most. Greylisting fails open: where storage
cannot be read, and where it has too many entries, mail is taken.
"""

import re
import time
from collections.abc import Awaitable, Callable
from functools import lru_cache
from ipaddress import ip_address, ip_network

import structlog

from gatepost.names import normal_address
from gatepost.settings.flow_control import GreylistingSettings
from gatepost.smtp.flow_counters import FlowCounters, digest
from gatepost.store.errors import StorageError
from gatepost.store.flow_counts import FlowCounts

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

log = structlog.get_logger("gatepost.guard")


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
            if not self._storage_fault:
                log.warning("greylisting is open", reason=str(fault))
            self._storage_fault = "storage cannot be used"
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
        network, entry = found.get(whole), found.get(key)
        if network and network.passed >= settings.pass_after:
            self._remember(whole, network.expires)
            if network.expires - now < (settings.pass_days - 1) * DAY_MILLISECONDS:
                self._gather(whole, now, 0, now + settings.pass_days * DAY_MILLISECONDS)
            return None
        if entry and entry.passed:
            self._remember(key, entry.expires)
            if entry.expires - now < (settings.pass_days - 1) * DAY_MILLISECONDS:
                self._gather(key, now, 0, now + settings.pass_days * DAY_MILLISECONDS)
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
            if not self._storage_fault:
                log.warning("greylisting is open", reason=str(fault))
            self._storage_fault = "storage cannot be used"
            # What came meanwhile is newer; what was first seen earlier counts.
            self._waiting = self._waiting | waiting if len(self._waiting) < MAX_GATHERED else self._waiting
            for key, (when, times, until) in passed.items():
                self._gather(key, when, times, until)
            return
        self._storage_fault = ""

    async def measure(self) -> None:
        """See whether there is room for more, and forget what retries no longer come for."""
        self._is_full = await self._stored.greylist_size(MAX_ENTRIES) >= MAX_ENTRIES
        now = int(self._clock() * 1_000)
        self._first = {key: first for key, first in self._first.items() if now - first < 7 * DAY_MILLISECONDS}
