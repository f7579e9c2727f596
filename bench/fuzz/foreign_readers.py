"""The readers of what other mail systems have: the configuration that is imported from them, and a mailbox on their
IMAP server. As the other readers, they are functions of bytes that return a value which can be compared."""

import io
import random
import socket
import ssl
import tempfile
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from unittest import mock

import yaml

from gatepost.mailboxes.removal import FoundCopy, ImapAccount, ImapMailbox, MailboxError, WantedMessage
from gatepost.migration.plan import ImportPlan
from gatepost.migration.rspamd import read_rspamd
from gatepost.migration.sender_files import read_senders
from gatepost.migration.spamassassin import read_spamassassin

# Between the answers to two commands, and what stands for the tag of a command in an answer.
ANSWERS, TAG = b"\0", b"TAG"
_WANTED = WantedMessage("<a@example.org>", 5, "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824")


@cache
def _folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="gatepost-fuzz-"))


def _write(data: bytes, name: str) -> Path:
    path = _folder() / name
    path.write_bytes(data)
    return path


def _describe(plan: ImportPlan) -> dict[str, str]:
    """The files that come of an import; those that a program reads can be read."""
    texts = {path.name: path.read_text("utf-8") for path in plan.write(_folder() / "out")}
    tomllib.loads(texts.get("policy.toml", ""))
    yaml.safe_load(texts.get("guard.yml", ""))
    return texts


def import_spamassassin(data: bytes) -> dict[str, str]:
    """Read a configuration of SpamAssassin."""
    return _describe(read_spamassassin([_write(data, "local.cf")], lambda _condition: ""))


def import_rspamd(data: bytes) -> dict[str, str]:
    """Read a configuration that rspamd has printed; what is none is refused, and nothing is written."""
    try:
        plan = read_rspamd(_write(data, "rspamd.json"), lambda _condition: "")
    except OSError as fault:
        return {"refused": str(fault.strerror)}
    return _describe(plan)


def import_senders(data: bytes) -> list[dict[str, str]]:
    """Read a list of senders, of any of the formats that are known."""
    path = _write(data, "senders")
    return [_describe(read_senders([path], allows=allows)) for allows in (True, False)]


class _Server:
    """The socket of a client whose server answers each line with the next piece of the input."""

    def __init__(self, data: bytes) -> None:
        self._pieces: Iterator[bytes] = iter(data.split(ANSWERS))
        self._tag = self._line = b""
        self._answers = bytearray(next(self._pieces, b""))

    def makefile(self, _mode: str) -> "_Server":
        return self

    def sendall(self, data: bytes) -> None:
        self._line += data
        if self._line.endswith(b"\r\n"):
            words = self._line.split(b" ", 1)
            self._tag = words[0] if len(words) > 1 else self._tag
            self._answers += next(self._pieces, b"").replace(TAG, self._tag)
            self._line = b""

    def readline(self, most: int = -1) -> bytes:
        line = io.BytesIO(self._answers).readline(most)
        del self._answers[: len(line)]
        return line

    def read(self, size: int) -> bytes:
        found = bytes(self._answers[:size])
        del self._answers[:size]
        return found

    def shutdown(self, _how: int) -> None: ...

    def close(self) -> None: ...


def read_mailbox(data: bytes) -> tuple[tuple[FoundCopy, ...], str]:
    """Look for a message in a mailbox, move the first copy and delete it; what was found, and what the mailbox did."""
    random.seed(0)  # for the tags of commands, which errors can name
    found: tuple[FoundCopy, ...] = ()
    mailbox: ImapMailbox | None = None
    with (
        mock.patch.object(socket, "create_connection", return_value=_Server(data)),
        mock.patch.object(ssl, "create_default_context"),
    ):
        try:
            mailbox = ImapMailbox(ImapAccount("imap://localhost", "ann", "secret"))
            found = tuple(mailbox.find(_WANTED))
            for copy in found[:1]:
                mailbox.move(copy, "Removed")
                mailbox.delete(copy)
        except MailboxError as fault:
            return found, str(fault)
        finally:
            if mailbox is not None:
                mailbox.close()
    return found, ""
