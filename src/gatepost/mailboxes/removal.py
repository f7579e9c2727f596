"""Take delivered messages out of the mailboxes of their recipients, and put them back.

The mailboxes of a message are those of its envelope recipients whose domain or tenant the settings name a server for.
Each copy that was found and compared is moved to a folder of the same mailbox, or deleted where the settings say so.
What was done is recorded for each mailbox, so that it can be undone and is in the audit trail; a dry run only says what
would be found. A tenant has so many removals in an hour: whoever takes over an account must not empty all mailboxes.

IMAP is one way to a mailbox. Another service joins with a class that has the calls of `Mailbox` and a scheme of its own
in `open_mailbox`.
"""

import asyncio
from collections.abc import Callable
from typing import Literal, Protocol, TypeAlias

import msgspec

from gatepost.mailboxes.imap import FoundCopy, ImapAccount, ImapMailbox, MailboxError, WantedMessage
from gatepost.names import normal_domain
from gatepost.process.logs import Logger
from gatepost.settings.delivery import MailboxServerSettings, RemediationSettings
from gatepost.store.audit import Actor
from gatepost.store.message_records import MessageRecord
from gatepost.store.removed_mail import RemovalState, RemovedCopy, RemovedMail, digest_mailbox
from gatepost.times import now

HOUR = 3_600_000
AT_ONCE = 4

log = Logger("gatepost.mailboxes")

CopyState: TypeAlias = Literal["found"] | RemovalState


class Mailbox(Protocol):
    """A mailbox of a recipient. Calls block, and raise `MailboxError`."""

    def find(self, wanted: WantedMessage, *, only_in: str = "", but: str = "") -> list[FoundCopy]:
        """Return the copies of a message."""
        ...

    def move(self, copy: FoundCopy, folder: str) -> None:
        """Move a copy to another folder."""
        ...

    def delete(self, copy: FoundCopy) -> None:
        """Delete a copy for good."""
        ...

    def close(self) -> None:
        """End."""
        ...


OpensMailbox: TypeAlias = Callable[[MailboxServerSettings, str, float], Mailbox]


def open_mailbox(server: MailboxServerSettings, address: str, seconds: float) -> Mailbox:
    """Open the mailbox of a recipient. Raises `MailboxError`."""
    if any(ord(each) < 32 or ord(each) == 127 for each in address):
        raise MailboxError("has an address with control characters")
    user = server.user.replace("{address}", address).replace("{local}", address.rpartition("@")[0])
    return ImapMailbox(ImapAccount(server.server, user, server.password, server.ca, seconds))


class CopyOutcome(msgspec.Struct, frozen=True):
    """What became of the copies in one mailbox; `found` in a dry run. `likeness` is how alike what was found is."""

    address: str
    state: CopyState
    folder: str = ""
    likeness: str = ""
    reason: str = ""


class MailRemover:
    """Removes messages and puts them back, for the servers of the settings."""

    def __init__(
        self, settings: RemediationSettings, stored: RemovedMail, open_one: OpensMailbox = open_mailbox
    ) -> None:
        self._settings, self._stored, self._open = settings, stored, open_one
        self._turns = asyncio.Semaphore(AT_ONCE)

    def find_server(self, address: str, tenant: str | None) -> MailboxServerSettings | None:
        """Return the server that has the mailbox of a recipient."""
        domain = normal_domain(address.rpartition("@")[2])
        by_domain = next((each for each in self._settings.servers if domain in each.domains), None)
        return by_domain or next((each for each in self._settings.servers if tenant and tenant in each.tenants), None)

    async def remove(self, record: MessageRecord, by: Actor, *, dry_run: bool = False) -> tuple[CopyOutcome, ...]:
        """Take a message out of all mailboxes of its recipients that are known. Raises `StorageError`."""
        tenant = record.envelope.tenant
        places = [(each, self.find_server(each, tenant)) for each in dict.fromkeys(record.envelope.recipients)]
        known = [(address, server) for address, server in places if server]
        if not known:
            return ()
        if not dry_run:
            room = self._settings.max_per_hour - await self._stored.count_since(tenant, now() - HOUR)
            if room < len(known):
                reason = f"the limit of {self._settings.max_per_hour:,} in an hour is reached (maxPerHour)"
                return tuple(CopyOutcome(address, "failed", reason=reason) for address, _ in known)
        wanted = WantedMessage("".join(record.report.message_id.split()), record.size, record.sha256)

        async def work(address: str, server: MailboxServerSettings) -> list[CopyOutcome]:
            return await self._run(self._remove_copies, address, server, wanted, dry_run)

        done = await asyncio.gather(*(work(address, server) for address, server in known))
        outcomes = tuple(outcome for some in done for outcome in some)
        if not dry_run:
            await self._record(record, outcomes, by)
        return outcomes

    async def restore(self, record: MessageRecord, by: Actor) -> tuple[CopyOutcome, ...]:
        """Put the copies back that were moved. Raises `StorageError`."""
        moved = {each.mailbox: each for each in await self._stored.of(record.ggrid) if each.state == "moved"}
        wanted = WantedMessage("".join(record.report.message_id.split()), record.size, record.sha256)
        tasks = []
        for address in dict.fromkeys(record.envelope.recipients):
            copy, server = moved.get(digest_mailbox(address)), self.find_server(address, record.envelope.tenant)
            if copy and server:
                tasks.append(self._run(self._restore_copy, address, server, wanted, copy.folder))
        outcomes = tuple(outcome for some in await asyncio.gather(*tasks) for outcome in some)
        await self._record(record, tuple(each for each in outcomes if each.state == "restored"), by)
        return outcomes

    async def _run(
        self,
        work: Callable[..., list[CopyOutcome]],
        address: str,
        server: MailboxServerSettings,
        *rest: object,
    ) -> list[CopyOutcome]:
        async with self._turns:
            try:
                return await asyncio.to_thread(work, address, server, *rest)
            except MailboxError as fault:
                log.warning("mailbox could not be used", server=server.server, reason=str(fault))
                return [CopyOutcome(address, "failed", reason=f"the mailbox {fault}")]

    def _remove_copies(
        self, address: str, server: MailboxServerSettings, wanted: WantedMessage, dry_run: bool
    ) -> list[CopyOutcome]:
        mailbox = self._open(server, address, self._settings.timeout / 1_000)
        try:
            copies = mailbox.find(wanted, but=server.folder)
            if self._settings.only_exact:
                copies = [each for each in copies if each.likeness == "exact"]
            if not copies:
                return [CopyOutcome(address, "absent", reason="no copy was found")]
            state: CopyState = "found" if dry_run else "moved" if self._settings.removes == "move" else "deleted"
            for copy in copies:
                if state == "moved":
                    mailbox.move(copy, server.folder)
                elif state == "deleted":
                    mailbox.delete(copy)
            first = copies[0]
            return [CopyOutcome(address, state, first.folder, first.likeness)]
        finally:
            mailbox.close()

    def _restore_copy(
        self, address: str, server: MailboxServerSettings, wanted: WantedMessage, folder: str
    ) -> list[CopyOutcome]:
        mailbox = self._open(server, address, self._settings.timeout / 1_000)
        try:
            copies = mailbox.find(wanted, only_in=server.folder)
            if not copies:
                return [CopyOutcome(address, "failed", reason=f"it is no longer in {server.folder}")]
            mailbox.move(copies[0], folder or "INBOX")
            return [CopyOutcome(address, "restored", folder, copies[0].likeness)]
        finally:
            mailbox.close()

    async def _record(self, record: MessageRecord, outcomes: tuple[CopyOutcome, ...], by: Actor) -> None:
        copies = [
            RemovedCopy(
                record.ggrid, digest_mailbox(each.address), record.envelope.tenant, each.state, each.folder, each.reason
            )
            for each in outcomes
            if each.state != "found"
        ]
        await self._stored.record(copies, by)
        for each in outcomes:
            log.info("copy of a message", ggrid=record.ggrid, state=each.state, likeness=each.likeness)


def explain(outcomes: tuple[CopyOutcome, ...], *, wanted: CopyState) -> str:
    """Return why a message is not gone, or not back, as the end of a sentence; "" where one copy is and none failed."""
    if not outcomes:
        return "no mailbox of its recipients is configured (remediation.servers)"
    failed = [each.reason for each in outcomes if each.state == "failed"]
    if failed:
        return failed[0]
    return "" if any(each.state in (wanted, "deleted") for each in outcomes) else "no copy was found in a mailbox"
