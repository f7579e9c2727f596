"""A mailbox over IMAP (RFC 9051): find a message in all folders, move it, or delete it.

A message is searched for by its Message-ID, and what was found is read and compared, since anybody can write a
Message-ID. A copy is `exact` if it ends with the very bytes that were scanned: mail servers put fields on top. It is
`likely` if its Message-ID is the same and its size nearly so; fields may have been taken out on the way.

Nothing but the message is touched: it is moved with MOVE (RFC 6851), or copied and expunged by its UID (UIDPLUS, RFC
4315). A server that has neither is refused, since a plain EXPUNGE deletes whatever else was marked as deleted.

The calls block, so they run in a thread. imaplib is used for lines and literals; a user name goes through AUTHENTICATE
PLAIN, where no character of an address can become a command. What a server answers to one command is bounded: imaplib
reads a literal of whatever size the server states, and as many lines as it sends.
"""

import contextlib
import hashlib
import imaplib
import re
import ssl
from typing import Any, Literal
from urllib.parse import urlsplit

import msgspec

MAX_FOLDERS, MAX_COPIES = 100, 10
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
        """Say goodbye."""
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
        """Delete a copy for good."""
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
def _faults():  # type: ignore[no-untyped-def]
    """Turn what a server does wrong into words."""
    try:
        yield
    except imaplib.IMAP4.error as fault:
        raise MailboxError(f"was refused: {str(fault)[:200]}") from None
    except TimeoutError:
        raise MailboxError("did not answer in time") from None
    except (OSError, ValueError, IndexError, TypeError) as fault:
        raise MailboxError(f"cannot be opened: {str(fault)[:200]}") from None
