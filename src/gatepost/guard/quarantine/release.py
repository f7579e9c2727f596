"""Releasing a held message: it goes straight to the next hop, with its headers as they came, once.

    held ──claim, with a lease──▶ releasing ──the next hop said 2yz──▶ released
      ▲                              │
      └──────anything else───────────┘

The claim is one statement in the database, so of any number of processes one gets it. The lease outlasts the longest
delivery. A process that dies with a claim leaves `releasing`, and the lease runs out; then the message can be released
again. If the next hop had taken it just before the death, it gets it twice: between its reply and our record there is
always a moment (RFC 1047), and it is better to repeat a message than to lose it.
"""

import asyncio
import re
from collections.abc import Callable, Sequence

import structlog

from gatepost.guard.quarantine.raw_store import RawStore
from gatepost.ids import new_id
from gatepost.scanning.held_mail import Busy, NotHeld, NotSent, Released, ReleaseOutcome
from gatepost.smtp.commands import PathCommand, SmtpLimits, parse_command
from gatepost.smtp.next_hop import NextHopError
from gatepost.smtp.relay import Relay
from gatepost.smtp.replies import ENHANCED_STATUS, SmtpReply
from gatepost.store.audit import Actor
from gatepost.store.errors import StorageError
from gatepost.store.held_mail import HeldMailStore, HeldMessage
from gatepost.store.messages import Release

# RFC 5321 section 4.5.3.2.6 gives the next hop ten minutes to take a message.
SEND_SECONDS = 660.0
LEASE_SECONDS = 720.0
# How long the record of a delivery is tried again; well within the lease.
RECORD_ATTEMPTS = 5
RECORD_SECONDS = 0.2

_LINE_END = re.compile(rb"\r\n|\r|\n")

log = structlog.get_logger("gatepost.guard")


class Releaser:
    """Releases messages; without a relay it releases none."""

    def __init__(self, store: HeldMailStore, raw: RawStore, relay: Relay | None, clock: Callable[[], float]) -> None:
        self._store, self._raw, self._relay, self._clock = store, raw, relay, clock
        self._under_way: set[asyncio.Task[ReleaseOutcome]] = set()

    async def release(self, mail: HeldMessage, by: Actor, recipients: Sequence[str] = ()) -> ReleaseOutcome:
        """Send one message on, to these recipients or to its own."""
        if mail.release:
            return _as_released(mail, mail.release)
        ggrid = mail.record.ggrid
        raw = await self._raw.get(ggrid)
        if raw is None:
            return await self._result_without_bytes(ggrid)
        if self._relay is None:
            return NotSent("no next hop is configured (delivery.nextHop)")
        holder, now = new_id(), int(self._clock() * 1_000)
        if not await self._store.claim_release(ggrid, holder, now, now + int(LEASE_SECONDS * 1_000)):
            return await self._result_of_other(ggrid)
        # A client that hangs up must not leave a claim behind.
        task = asyncio.create_task(self._send_claimed(mail, holder, raw, by, recipients))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        return await asyncio.shield(task)

    async def finish(self) -> None:
        """Wait for the releases that are under way."""
        await asyncio.gather(*self._under_way, return_exceptions=True)

    async def _result_without_bytes(self, ggrid: str) -> ReleaseOutcome:
        """The bytes are not here: they never were, or the message was released since its record was read."""
        mail = await self._store.held(ggrid)
        return _as_released(mail, mail.release) if mail and mail.release else NotHeld()

    async def _result_of_other(self, ggrid: str) -> ReleaseOutcome:
        mail = await self._store.held(ggrid)
        if mail is None:
            return NotHeld()
        return _as_released(mail, mail.release) if mail.release else Busy()

    async def _send_claimed(
        self, mail: HeldMessage, holder: str, raw: bytes, by: Actor, recipients: Sequence[str]
    ) -> ReleaseOutcome:
        envelope, ggrid = mail.record.envelope, mail.record.ggrid
        wanted = tuple(recipients) or envelope.recipients
        try:
            refusal = await self._send(envelope.sender, wanted, raw)
        except BaseException:
            await self._store.give_back(ggrid, holder)
            raise
        if refusal:
            log.warning("not released", ggrid=ggrid, reason=refusal)
            await self._store.give_back(ggrid, holder)
            return NotSent(refusal)
        release = await self._record(ggrid, wanted, by)
        log.info("released", ggrid=ggrid, by=release.by, count=len(release.recipients))
        await self._discard(ggrid)
        return _as_released(mail, release)

    async def _send(self, sender: str, recipients: Sequence[str], raw: bytes) -> str | None:
        """Send the message; return None if the next hop has taken it, else the end of a sentence."""
        assert self._relay is not None
        if not _is_smtp_address("MAIL FROM", sender):
            return "its sender is not an address that SMTP can carry"
        if not recipients or not all(_is_smtp_address("RCPT TO", recipient) for recipient in recipients):
            return "a recipient is not an address that SMTP can carry"
        try:
            async with asyncio.timeout(SEND_SECONDS):
                reply = await self._relay.send(sender, recipients, normalise_line_ends(raw))
        except TimeoutError:
            return "the next hop did not answer in time"
        except NextHopError as fault:
            return f"the next hop {fault}"
        return None if reply.positive else f"the next hop answered {_describe_reply(reply)}"

    async def _record(self, ggrid: str, recipients: Sequence[str], by: Actor) -> Release:
        """Record the release, in several attempts: the next hop has the message, and that must not be forgotten."""
        for attempt in range(RECORD_ATTEMPTS - 1):
            try:
                return await self._store.mark_released(ggrid, recipients, by)
            except StorageError as fault:
                log.error("a release could not be put on record yet", ggrid=ggrid, reason=str(fault))
                await asyncio.sleep(RECORD_SECONDS * 2**attempt)
        return await self._store.mark_released(ggrid, recipients, by)

    async def _discard(self, ggrid: str) -> None:
        try:
            await self._raw.delete(ggrid)
        except StorageError as fault:
            # They are swept later, like what a kill leaves behind.
            log.warning("bytes of a released message could not be deleted", ggrid=ggrid, reason=str(fault))


def _describe_reply(reply: SmtpReply) -> str:
    """Return the code of a reply with its enhanced status code; its text is not for clients, who may be strangers."""
    status = ENHANCED_STATUS.match(reply.lines[0])
    return f"{reply.code} {status.group().decode().strip()}" if status else str(reply.code)


def normalise_line_ends(raw: bytes) -> bytes:
    """A message as SMTP may carry it (RFC 5321 section 2.3.8): every line ends with CRLF, and only lines do.

    Mail that came over SMTP is like that already. What came over HTTP may not be, and a lone LF before a dot would let
    a next hop that takes LF for a line end read a second message out of the first.
    """
    pairs = raw.count(b"\r\n")
    if raw.count(b"\r") == pairs == raw.count(b"\n"):
        return raw
    return _LINE_END.sub(b"\r\n", raw)


def _is_smtp_address(command: str, address: str) -> bool:
    """Whether this is one address, and nothing besides, once it stands in a command."""
    found = parse_command(f"{command}:<{address}>".encode("utf-8", "replace"), SmtpLimits())
    return isinstance(found, PathCommand) and found.address == address and not found.parameters


def _as_released(mail: HeldMessage, release: Release) -> Released:
    return Released(mail.record.ggrid, release.time, release.by, release.recipients)
