"""Take delivered messages out of the mailboxes of their recipients, and put them back.

The mailboxes of a message are those of its envelope recipients whose domain or tenant the settings name a server for.
Each copy that was found and compared is moved to a folder of the same mailbox, or deleted where the settings say so.
What was done is recorded for each copy, so that it can be undone and is in the audit trail; a dry run only says what
would be found. A tenant has so many removals in an hour: whoever takes over an account must not empty all mailboxes.

IMAP is one way to a mailbox. Another service joins with a class that has the calls of `Mailbox` and a scheme of its own
in `open_mailbox`.

Over IMAP (RFC 9051), a message is searched for by its Message-ID, and what was found is read and compared, since
anybody can write a Message-ID. A copy is `exact` if it ends with the very bytes that were scanned: mail servers put
fields on top. It is `likely` if its Message-ID is the same and its size nearly so; fields may have been taken out on
the way.

Nothing but the message is touched: it is moved with MOVE (RFC 6851), or copied and expunged by its UID (UIDPLUS, RFC
4315). A server that has neither is refused, since a plain EXPUNGE deletes whatever else was marked as deleted.

The calls block, so they run in a thread. imaplib is used for lines and literals; a user name goes through AUTHENTICATE
PLAIN, where no character of an address can become a command. What a server answers to one command is bounded: imaplib
reads a literal of whatever size the server states, and as many lines as it sends.
"""

import asyncio
import contextlib
import hashlib
import imaplib
import re
import ssl
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Literal, Protocol, TypeAlias
from urllib.parse import urlsplit

import msgspec

from gatepost.ids import new_id
from gatepost.names import normal_domain
from gatepost.process.logs import Logger
from gatepost.process.periodic import complete
from gatepost.settings.delivery import MailboxServerSettings, RemediationSettings
from gatepost.store.audit import Actor
from gatepost.store.message_records import MessageRecord
from gatepost.store.removed_mail import RemovalState, RemovedCopy, RemovedMail, digest_mailbox
from gatepost.times import HOUR, now

MAX_BYTES = 64 << 20
# What a server may answer to one command: a message and what is around it.
MAX_ANSWER = MAX_BYTES + (1 << 20)
# What may come on top of a message on its way, and what may be taken out.
MORE_BYTES, LESS_BYTES = 64 << 10, 8 << 10
_LIST = re.compile(rb'\(([^)]{0,500})\) (?:"(?:[^"\\]|\\.){0,10}"|NIL) ("(?:[^"\\]|\\.){0,500}"|[^"\s]{1,500})\s*')
_FIELD = re.compile(rb"(?im)^message-id:[ \t]*((?:[^\r\n]|\r?\n[ \t])*)")
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_SAFE_ID = re.compile(r"[!-~]{1,900}")
_UID = re.compile(r"[0-9]{1,10}")

Likeness = Literal["exact", "likely"]


class MailboxError(Exception):
    """Why a mailbox cannot be used; the text is the end of a sentence that starts with the mailbox."""


class WantedMessage(msgspec.Struct, frozen=True):
    """What is known of a message: its Message-ID, its size, and the SHA-256 of its bytes in hex."""

    message_id: str
    size: int
    sha256: str


class FoundCopy(msgspec.Struct, frozen=True):
    """A copy in a mailbox: folder and UID, and how alike it is."""

    folder: str
    uid: str
    likeness: Likeness


class ImapAccount(msgspec.Struct, frozen=True):
    """How a mailbox is opened."""

    server: str
    user: str
    password: str
    ca: str | None = None
    seconds: float = 30.0


class _BoundedAnswers(imaplib.IMAP4):
    """A connection whose server may answer `MAX_ANSWER` bytes to a command."""

    _left = MAX_ANSWER

    def read(self, size: int) -> bytes:
        """Read a literal, unless it is too much."""
        self._count(size)
        return super().read(size)

    def readline(self) -> bytes:
        """Read a line, unless there were too many."""
        line = super().readline()
        self._count(len(line))
        return line

    def _count(self, size: int) -> None:
        if size > self._left:
            raise self.error(f"an answer of more than {MAX_ANSWER >> 20} MiB")
        self._left -= size

    def _command(self, name: str, *arguments: Any) -> Any:
        self._left = MAX_ANSWER
        return super()._command(name, *arguments)  # type: ignore[misc]


class _BoundedAnswersOverTls(_BoundedAnswers, imaplib.IMAP4_SSL):
    """The same over TLS from the first byte."""


class ImapMailbox:
    """One open mailbox. Its calls raise `MailboxError`."""

    def __init__(self, account: ImapAccount) -> None:
        parts = urlsplit(account.server)
        host, is_tls = parts.hostname or "", parts.scheme == "imaps"
        context = ssl.create_default_context(cafile=account.ca)
        with _faults():
            if is_tls:
                self._imap: imaplib.IMAP4 = _BoundedAnswersOverTls(
                    host, parts.port or 993, ssl_context=context, timeout=account.seconds
                )
            else:
                self._imap = _BoundedAnswers(host, parts.port or 143, timeout=account.seconds)
        try:
            with _faults():
                self._log_in(account, host, context, is_tls=is_tls)
        except BaseException:
            self.close()
            raise

    def _log_in(self, account: ImapAccount, host: str, context: ssl.SSLContext, *, is_tls: bool) -> None:
        if not is_tls and host not in _LOOPBACK:
            self._imap.starttls(context)
        token = f"\0{account.user}\0{account.password}".encode()
        self._imap.authenticate("PLAIN", lambda _challenge: token)
        _, answer = self._imap.capability()
        self._features = _text_of(answer[-1]).upper().split()
        if "MOVE" not in self._features and "UIDPLUS" not in self._features:
            raise MailboxError("is on a server with neither MOVE nor UIDPLUS")

    def close(self) -> None:
        with contextlib.suppress(OSError, imaplib.IMAP4.error, ValueError):
            self._imap.logout()
        with contextlib.suppress(OSError):
            self._imap.shutdown()

    def find(self, wanted: WantedMessage, *, only_in: str = "", but: str = "") -> list[FoundCopy]:
        """Return the copies of a message, in all folders `but` one, or in one alone; nothing is marked as read."""
        if not _SAFE_ID.fullmatch(wanted.message_id):
            raise MailboxError("cannot be searched: the message has no usable Message-ID")
        with _faults():
            folders = [_quote(only_in)] if only_in else [each for each in self._list_folders() if each != _quote(but)]
            found: list[FoundCopy] = []
            for folder in folders:
                found += self._find_in(folder, wanted)
            return found[:MAX_COPIES]

    def move(self, copy: FoundCopy, folder: str) -> None:
        """Move a copy to a folder, which is made if it is not there; a name that the server gave is taken as it is."""
        target = folder if folder.startswith('"') or folder == "INBOX" else _quote(folder)
        with _faults():
            if target != "INBOX":
                self._imap.create(target)
            self._select(copy.folder, readonly=False)
            if "MOVE" in self._features:
                self._check(self._imap.uid("MOVE", copy.uid, target), "MOVE")
                return
            self._check(self._imap.uid("COPY", copy.uid, target), "COPY")
            self._expunge(copy)

    def delete(self, copy: FoundCopy) -> None:
        with _faults():
            if "UIDPLUS" not in self._features:
                raise MailboxError("is on a server without UIDPLUS, where nothing can be deleted alone")
            self._select(copy.folder, readonly=False)
            self._expunge(copy)

    def _expunge(self, copy: FoundCopy) -> None:
        self._check(self._imap.uid("STORE", copy.uid, "+FLAGS.SILENT", r"(\Deleted)"), "STORE")
        self._check(self._imap.uid("EXPUNGE", copy.uid), "EXPUNGE")

    def _list_folders(self) -> list[str]:
        """Return the folders that have messages, INBOX first, as the server writes their names."""
        _, lines = self._imap.list()
        names: list[str] = []
        for line in lines:
            match = _LIST.fullmatch(line) if isinstance(line, bytes) else None
            if match and rb"\noselect" not in match[1].lower() and rb"\nonexistent" not in match[1].lower():
                name = match[2].decode("ascii", "replace")
                names.append(name if name.startswith('"') else _quote(name))
        others = [name for name in names if name.upper() != '"INBOX"']
        return ["INBOX", *others][:MAX_FOLDERS]

    def _find_in(self, folder: str, wanted: WantedMessage) -> list[FoundCopy]:
        if not self._select(folder, readonly=True):
            return []
        answer, data = self._imap.uid("SEARCH", "HEADER", "Message-ID", _quote(wanted.message_id))
        if answer != "OK" or not data or not data[0]:
            return []
        # Numbers alone: of a range, one message would be compared and all would be moved.
        uids = [uid for uid in _text_of(data[0]).split() if _UID.fullmatch(uid)][:MAX_COPIES]
        return [FoundCopy(folder, uid, likeness) for uid in uids if (likeness := self._compare(uid, wanted))]

    def _compare(self, uid: str, wanted: WantedMessage) -> Likeness | None:
        """Read a message, and return how alike it is; None for another one."""
        _, sizes = self._imap.uid("FETCH", uid, "(RFC822.SIZE)")
        stated = re.search(rb"RFC822\.SIZE (\d{1,12})", sizes[0]) if sizes and isinstance(sizes[0], bytes) else None
        size = int(stated[1]) if stated else MAX_BYTES + 1
        if not wanted.size - LESS_BYTES <= size <= min(MAX_BYTES, wanted.size + MORE_BYTES):
            return None
        _, parts = self._imap.uid("FETCH", uid, "(BODY.PEEK[])")
        raw = next((part[1] for part in parts if isinstance(part, tuple)), b"")
        if hashlib.sha256(raw[-wanted.size :] if wanted.size else b"").hexdigest() == wanted.sha256:
            return "exact"
        head = raw[: max(0, raw.find(b"\r\n\r\n"))]
        ids = [b"".join(match.split()).decode("ascii", "replace") for match in _FIELD.findall(head)]
        return "likely" if ids == [wanted.message_id] else None

    def _select(self, folder: str, *, readonly: bool) -> bool:
        answer, _ = self._imap.select(folder, readonly=readonly)
        return answer == "OK"

    @staticmethod
    def _check(answer: tuple[str, list[Any]], what: str) -> None:
        if answer[0] != "OK":
            raise MailboxError(f"did not do {what}: {_text_of(answer[1][0])[:200]}")


def _text_of(answer: object) -> str:
    """A line of an answer; nothing where the server sent a literal in its place, which imaplib has as a pair."""
    return answer.decode("utf-8", "replace") if isinstance(answer, bytes) else ""


def _quote(name: str) -> str:
    return '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'


@contextlib.contextmanager
def _faults() -> Iterator[None]:
    """Turn what a server does wrong into words."""
    try:
        yield
    except imaplib.IMAP4.error as fault:
        raise MailboxError(f"was refused: {str(fault)[:200]}") from None
    except TimeoutError:
        raise MailboxError("did not answer in time") from None
    except (OSError, ValueError, IndexError, TypeError) as fault:
        raise MailboxError(f"cannot be opened: {str(fault)[:200]}") from None


AT_ONCE = 4

log = Logger("gatepost.mailboxes")

CopyState: TypeAlias = Literal["found"] | RemovalState


class Mailbox(Protocol):
    """A mailbox of a recipient. Calls block, and raise `MailboxError`."""

    def find(self, wanted: WantedMessage, *, only_in: str = "", but: str = "") -> list[FoundCopy]: ...

    def move(self, copy: FoundCopy, folder: str) -> None: ...

    def delete(self, copy: FoundCopy) -> None: ...

    def close(self) -> None: ...


OpensMailbox: TypeAlias = Callable[[MailboxServerSettings, str, float], Mailbox]


def open_mailbox(server: MailboxServerSettings, address: str, seconds: float) -> Mailbox:
    """Open the mailbox of a recipient. Raises `MailboxError`."""
    if any(ord(each) < 32 or ord(each) == 127 for each in address):
        raise MailboxError("has an address with control characters")
    user = server.user.replace("{address}", address).replace("{local}", address.rpartition("@")[0])
    return ImapMailbox(ImapAccount(server.server, user, server.password, server.ca, seconds))


class CopyOutcome(msgspec.Struct, frozen=True):
    """What became of one copy in a mailbox; `found` in a dry run. `likeness` is how alike what was found is, and `copy`
    tells the copies of a mailbox apart; it is "" where none was found."""

    address: str
    state: CopyState
    folder: str = ""
    likeness: str = ""
    reason: str = ""
    copy: str = ""


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
        """Take a message out of all mailboxes of its recipients that are known, and record it, even where whoever waits
        is cancelled: threads go on. Raises `StorageError`."""
        return await complete(self._remove(record, by, dry_run))

    async def _remove(self, record: MessageRecord, by: Actor, dry_run: bool) -> tuple[CopyOutcome, ...]:
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
        return await complete(self._restore(record, by))

    async def _restore(self, record: MessageRecord, by: Actor) -> tuple[CopyOutcome, ...]:
        moved = [each for each in await self._stored.of(record.ggrid) if each.state == "moved"]
        wanted = WantedMessage("".join(record.report.message_id.split()), record.size, record.sha256)
        tasks = []
        for address in dict.fromkeys(record.envelope.recipients):
            copies = [each for each in moved if each.mailbox == digest_mailbox(address)]
            if copies and (server := self.find_server(address, record.envelope.tenant)):
                tasks.append(self._run(self._restore_copies, address, server, wanted, copies))
        outcomes = tuple(outcome for some in await asyncio.gather(*tasks) for outcome in some)
        await self._record(record, tuple(each for each in outcomes if each.state == "restored"), by)
        return outcomes

    async def _run(
        self, work: Callable[..., list[CopyOutcome]], address: str, server: MailboxServerSettings, *rest: object
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
        with contextlib.closing(self._open(server, address, self._settings.timeout / 1_000)) as mailbox:
            copies = mailbox.find(wanted, but=server.folder)
            if self._settings.only_exact:
                copies = [each for each in copies if each.likeness == "exact"]
            if not copies:
                return [CopyOutcome(address, "absent", reason="no copy was found")]
            state: CopyState = "found" if dry_run else "moved" if self._settings.removes == "move" else "deleted"
            move = partial(mailbox.move, folder=server.folder)
            act = move if state == "moved" else mailbox.delete if state == "deleted" else None
            found = [CopyOutcome(address, state, each.folder, each.likeness, copy=new_id()) for each in copies]
            return [_try(act, *each) for each in zip(copies, found, strict=True)] if act else found

    def _restore_copies(
        self, address: str, server: MailboxServerSettings, wanted: WantedMessage, moved: Sequence[RemovedCopy]
    ) -> list[CopyOutcome]:
        with contextlib.closing(self._open(server, address, self._settings.timeout / 1_000)) as mailbox:
            found, outcomes = iter(mailbox.find(wanted, only_in=server.folder)), []
            for each in moved:
                done = CopyOutcome(address, "restored", each.folder, copy=each.copy)
                if (copy := next(found, None)) is None:
                    lost = f"it is no longer in {server.folder}"
                    outcomes.append(msgspec.structs.replace(done, state="failed", reason=lost))
                    continue
                act = partial(mailbox.move, folder=each.folder or "INBOX")
                outcomes.append(_try(act, copy, msgspec.structs.replace(done, likeness=copy.likeness)))
            return outcomes

    async def _record(self, record: MessageRecord, outcomes: tuple[CopyOutcome, ...], by: Actor) -> None:
        copies = [
            RemovedCopy(
                *(record.ggrid, digest_mailbox(each.address), each.copy, record.envelope.tenant),
                *(each.state, each.folder, each.reason),
            )
            for each in outcomes
            if each.state != "found"
        ]
        await self._stored.record(copies, by)
        for each in outcomes:
            log.info("copy of a message", ggrid=record.ggrid, state=each.state, likeness=each.likeness)


def _try(act: Callable[[FoundCopy], None], copy: FoundCopy, done: CopyOutcome) -> CopyOutcome:
    """Return what became of one copy; where it failed, the others of its mailbox have outcomes of their own."""
    try:
        act(copy)
    except MailboxError as fault:
        return msgspec.structs.replace(done, state="failed", reason=f"the mailbox {fault}")
    return done


def explain(outcomes: tuple[CopyOutcome, ...], *, wanted: CopyState) -> str:
    """Return why a message is not gone, or not back, as the end of a sentence; "" where one copy is and none failed."""
    if not outcomes:
        return "no mailbox of its recipients is configured (remediation.servers)"
    failed = [each.reason for each in outcomes if each.state == "failed"]
    if failed:
        return failed[0]
    return "" if any(each.state in (wanted, "deleted") for each in outcomes) else "no copy was found in a mailbox"


MAX_FOLDERS, MAX_COPIES = 100, 10
