"""Delivered mail is taken out of the mailboxes of a real Dovecot, and put back; nothing else is touched."""

import contextlib
import hashlib
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from bench.ports import free_ports
from tests.cancelling import cancel_everywhere

from gatepost.analysis.report import Report
from gatepost.ids import new_id
from gatepost.mail.message import Envelope
from gatepost.mailboxes import removal
from gatepost.mailboxes.removal import (
    CopyOutcome,
    FoundCopy,
    ImapAccount,
    ImapMailbox,
    MailboxError,
    MailRemover,
    WantedMessage,
    explain,
    open_mailbox,
)
from gatepost.service.certificates import sign_certificate
from gatepost.settings.delivery import MailboxServerSettings, RemediationSettings
from gatepost.store.audit import CLI, AuditFilter
from gatepost.store.message_records import MessageRecord
from gatepost.store.store import Store
from gatepost.times import now

HAS_IMAP = shutil.which("dovecot") and Path("/usr/lib/dovecot/imap").exists()
MISSING = "Dovecot with IMAP is not installed" if not HAS_IMAP else "it needs root" if os.geteuid() else None
with_dovecot = pytest.mark.skipif(MISSING is not None, reason=f"not run: {MISSING}")

PASSWORD = 'one "master" \\ of all'
FOLDER = "Removed by Gatepost"
RAW = b"From: foe@x.example\r\nSubject: Pay\r\nMessage-ID: <bait-1@x.example>\r\n\r\nOpen this.\r\n"
TOP = b"Return-Path: <foe@x.example>\nReceived: from gate by mail; now\n"
CONFIG = """
base_dir = {folder}/run
state_dir = {folder}/state
log_path = {folder}/log
protocols = imap
first_valid_uid = 1
disable_plaintext_auth = no
auth_mechanisms = plain
auth_master_user_separator = *
mail_location = maildir:~/Maildir
ssl = yes
ssl_cert = <{folder}/chain.pem
ssl_key = <{folder}/key.pem
passdb {{
  driver = passwd-file
  args = {folder}/masters
  master = yes
}}
passdb {{
  driver = passwd-file
  args = {folder}/users
}}
userdb {{
  driver = passwd-file
  args = {folder}/users
}}
service imap-login {{
  inet_listener imap {{
    address = 127.0.0.1
    port = {plain}
  }}
  inet_listener imaps {{
    address = 127.0.0.1
    port = {secure}
    ssl = yes
  }}
}}
"""


class Dovecot(msgspec.Struct, frozen=True):
    folder: Path
    plain: int
    secure: int

    def settings(self, *, scheme: str = "imap", **more: Any) -> RemediationSettings:
        port = self.secure if scheme == "imaps" else self.plain
        ca = str(self.folder / "chain.pem") if scheme == "imaps" else None
        server = MailboxServerSettings(
            domains=["y.example"],
            server=f"{scheme}://127.0.0.1:{port}",
            user="{address}*gatepost",
            password=PASSWORD,
            ca=ca,
        )
        return RemediationSettings(servers=[server], **more)

    def deliver(self, user: str, content: bytes, folder: str = "") -> None:
        """Put a message into a mailbox, as a mail server does."""
        home = self.folder / "mail" / user / "Maildir"
        place = home / f".{folder}" if folder else home
        for name in ("new", "cur", "tmp"):
            (place / name).mkdir(parents=True, exist_ok=True)
        file = place / "new" / new_id()
        file.write_bytes(content.replace(b"\r\n", b"\n"))
        for each in (self.folder / "mail" / user).rglob("*"):
            shutil.chown(each, "nobody", "nogroup")
        shutil.chown(self.folder / "mail" / user, "nobody", "nogroup")

    def files(self, user: str, folder: str = "") -> list[bytes]:
        home = self.folder / "mail" / user / "Maildir"
        place = home / f".{folder}" if folder else home
        return sorted(each.read_bytes() for name in ("new", "cur") for each in (place / name).glob("*"))


@pytest.fixture(scope="module")
def dovecot() -> Iterator[Dovecot]:
    with tempfile.TemporaryDirectory(prefix="gatepost-imap-") as name:
        folder, (plain, secure) = Path(name), free_ports(2)
        folder.chmod(0o755)
        (folder / "mail").mkdir()
        shutil.chown(folder / "mail", "nobody", "nogroup")
        chain, key = sign_certificate(["127.0.0.1"], datetime.now(UTC))
        (folder / "chain.pem").write_bytes(chain)
        (folder / "key.pem").write_bytes(key)
        users = [f"{user}@y.example:{{PLAIN}}own:65534:65534::{folder}/mail/{user}" for user in ("ann", "bob", "eve")]
        (folder / "users").write_text("\n".join(users) + "\n")
        (folder / "masters").write_text(f"gatepost:{{PLAIN}}{PASSWORD}\n")
        (folder / "dovecot.conf").write_text(CONFIG.format(folder=folder, plain=plain, secure=secure))
        with subprocess.Popen(["dovecot", "-F", "-c", str(folder / "dovecot.conf")], start_new_session=True) as process:
            try:
                _await_port(plain, process)
                yield Dovecot(folder, plain, secure)
            finally:
                process.terminate()
                process.wait(180)


def _await_port(port: int, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + 180
    while time.monotonic() < end:
        assert process.poll() is None, "Dovecot ended"
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=5):
            return
        time.sleep(0.05)
    raise TimeoutError("Dovecot does not listen")


@pytest.fixture
def empty(dovecot: Dovecot) -> Dovecot:
    for each in (dovecot.folder / "mail").iterdir():
        shutil.rmtree(each)
    return dovecot


def record_of(
    raw: bytes = RAW, recipients: tuple[str, ...] = ("ann@y.example",), tenant: str | None = None
) -> MessageRecord:
    report = Report("clean", "deliver", (), 0, "", message_id="<bait-1@x.example>")
    envelope = Envelope("foe@x.example", recipients, tenant=tenant)
    return MessageRecord(new_id(), now(), now(), envelope, len(raw), hashlib.sha256(raw).hexdigest(), report)


@with_dovecot
@pytest.mark.process
@pytest.mark.parametrize("scheme", ["imap", "imaps"])
async def test_a_message_is_found_moved_and_put_back(store: Store, empty: Dovecot, scheme: str) -> None:
    other = RAW.replace(b"bait-1", b"other")
    forged = RAW.replace(b"Open this.", b"An honest letter, much longer than the other one. " * 2_000)
    for content in (TOP + RAW, TOP + other, TOP + forged):
        empty.deliver("ann", content)
    empty.deliver("bob", TOP + RAW.replace(b"Subject: Pay\r\n", b""), "Later")
    record = record_of(recipients=("ann@y.example", "bob@y.example", "eve@y.example", "joe@z.example"))

    remover = MailRemover(empty.settings(scheme=scheme), store.removed_mail)
    tried = await remover.remove(record, CLI, dry_run=True)
    assert [(each.state, each.folder, each.likeness) for each in tried] == [
        ("found", "INBOX", "exact"),
        ("found", '"Later"', "likely"),
        ("absent", "", ""),
    ]
    assert await store.removed_mail.of(record.ggrid) == ()
    assert len(empty.files("ann")) == 3, "a dry run changes nothing"
    done = await remover.remove(record, CLI)
    assert [each.state for each in done] == ["moved", "moved", "absent"]
    assert explain(done, wanted="moved") == ""
    assert (len(empty.files("ann")), len(empty.files("ann", FOLDER))) == (2, 1)
    assert (empty.files("bob", "Later"), len(empty.files("bob", FOLDER))) == ([], 1)
    again = await remover.remove(record, CLI)
    assert [each.state for each in again] == ["absent", "absent", "absent"], "what was moved is not looked at"
    assert explain(again, wanted="moved") == "no copy was found in a mailbox"


@with_dovecot
@pytest.mark.process
async def test_undo_puts_each_copy_where_it_was_and_the_audit_says_both(store: Store, empty: Dovecot) -> None:
    empty.deliver("ann", TOP + RAW)
    empty.deliver("bob", TOP + RAW, "Later")
    record = record_of(recipients=("ann@y.example", "bob@y.example"))

    remover = MailRemover(empty.settings(), store.removed_mail)
    await remover.remove(record, CLI)
    assert (empty.files("ann"), empty.files("bob", "Later")) == ([], [])
    back = await remover.restore(record, CLI)
    assert [(each.state, each.folder) for each in back] == [("restored", "INBOX"), ("restored", '"Later"')]
    assert (len(empty.files("ann")), len(empty.files("bob", "Later"))) == (1, 1)
    assert [each.state for each in await store.removed_mail.of(record.ggrid)] == ["restored", "restored"]
    assert await remover.restore(record, CLI) == (), "once"
    page = await store.audit.page(AuditFilter())
    assert [(each.action, each.count) for each in page.rows] == [("message.putBack", 2), ("message.removed", 2)]
    await remover.remove(record, CLI)
    for user in ("ann", "bob"):
        shutil.rmtree(empty.folder / "mail" / user / "Maildir" / f".{FOLDER}")
    lost = await remover.restore(record, CLI)
    assert explain(lost, wanted="restored") == f"it is no longer in {FOLDER}"
    assert [each.state for each in await store.removed_mail.of(record.ggrid)] == ["restored", "moved"] * 2


@with_dovecot
@pytest.mark.process
async def test_deleting_touches_nothing_that_was_marked_before(store: Store, empty: Dovecot) -> None:
    empty.deliver("ann", TOP + RAW)
    empty.deliver("ann", TOP + RAW.replace(b"bait-1", b"kept"))

    remover = MailRemover(empty.settings(removes="delete", only_exact=True), store.removed_mail)
    other = ImapMailbox(ImapAccount(f"imap://127.0.0.1:{empty.plain}", "ann@y.example", "own"))
    (kept,) = other.find(WantedMessage("<kept@x.example>", len(RAW), "no such digest"))
    assert kept.likeness == "likely"
    other._select("INBOX", readonly=False)
    other._imap.uid("STORE", kept.uid, "+FLAGS.SILENT", r"(\Deleted)")
    other.close()
    assert [each.state for each in await remover.remove(record_of(), CLI)] == ["deleted"]
    assert len(empty.files("ann")) == 1
    changed = record_of(RAW + b"more")
    assert [each.state for each in await remover.remove(changed, CLI)] == ["absent"]
    assert await remover.restore(changed, CLI) == ()


@with_dovecot
@pytest.mark.process
async def test_mailboxes_that_cannot_be_opened_are_told(store: Store, empty: Dovecot) -> None:
    remover = MailRemover(empty.settings(), store.removed_mail)
    strange = record_of(recipients=("nobody@y.example", "ann\r\nx@y.example", "ann@y.example"))
    done = await remover.remove(strange, CLI)
    assert [each.state for each in done] == ["failed", "failed", "absent"]
    assert done[0].reason.startswith("the mailbox was refused: ")
    assert done[1].reason == "the mailbox has an address with control characters"
    without = msgspec.structs.replace(record_of(), report=Report("clean", "deliver", (), 0, ""))
    (found,) = await remover.remove(without, CLI)
    assert found.reason == "the mailbox cannot be searched: the message has no usable Message-ID"


class StrawMailbox:
    """A mailbox of another service, in memory."""

    def __init__(self, found: list[FoundCopy]) -> None:
        self.found, self.moved, self.closed = found, list[str](), 0

    def find(self, wanted: WantedMessage, *, only_in: str = "", but: str = "") -> list[FoundCopy]:
        return self.found

    def move(self, copy: FoundCopy, folder: str) -> None:
        self.moved.append(folder)

    def delete(self, copy: FoundCopy) -> None:
        raise MailboxError("has no way to delete")

    def close(self) -> None:
        self.closed += 1


class LastingMailbox(StrawMailbox):
    """The same with folders. `fails` are copies that it does not move."""

    fails: frozenset[str] = frozenset()

    def find(self, wanted: WantedMessage, *, only_in: str = "", but: str = "") -> list[FoundCopy]:
        return [each for each in self.found if each.folder == (only_in or each.folder) != but]

    def move(self, copy: FoundCopy, folder: str) -> None:
        if copy.uid in self.fails:
            raise MailboxError("did not do MOVE")
        self.found[self.found.index(copy)] = msgspec.structs.replace(copy, folder=folder)


def straw_settings(**more: Any) -> RemediationSettings:
    first = MailboxServerSettings(domains=["y.example"], server="imaps://a", user="{address}", password="x" * 8)
    uid = "0198c5a2-7c11-7d3e-9f00-00000000aa01"
    second = MailboxServerSettings(tenants=[uid], server="imaps://b", user="{local}", password="x" * 8)
    return RemediationSettings(servers=[second, first], **more)


async def test_another_service_can_join_and_a_tenant_has_a_limit(store: Store) -> None:
    straw = StrawMailbox([FoundCopy("Inbox", "1", "exact")])
    opened: list[tuple[str, str]] = []

    def open_straw(server: MailboxServerSettings, address: str, _seconds: float) -> StrawMailbox:
        opened.append((server.server, address))
        return straw

    tenant = "0198c5a2-7c11-7d3e-9f00-00000000aa01"

    remover = MailRemover(straw_settings(max_per_hour=2), store.removed_mail, open_straw)
    both = record_of(recipients=("ann@y.example", "bob@t.example", "bob@t.example"), tenant=tenant)
    assert [each.state for each in await remover.remove(both, CLI)] == ["moved", "moved"]
    assert opened == [("imaps://a", "ann@y.example"), ("imaps://b", "bob@t.example")]
    (limited,) = await remover.remove(record_of(tenant=tenant), CLI)
    assert limited == CopyOutcome("ann@y.example", "failed", reason="the limit of 2 in an hour is reached (maxPerHour)")
    assert [each.state for each in await remover.remove(record_of(), CLI)] == ["moved"], "another scope"
    unknown = await remover.remove(record_of(recipients=("x@z.example",)), CLI)
    assert explain(unknown, wanted="moved").startswith("no mailbox of its recipients is configured")
    assert straw.closed == 3
    assert [each.scope for each in await store.removed_mail.listed(0, tenant)] == [tenant, tenant]
    assert len(await store.removed_mail.listed(0, None)) == 3
    assert await store.removed_mail.purge(now() + 1) == 3
    deleting = MailRemover(straw_settings(removes="delete"), store.removed_mail, open_straw)
    (failed,) = await deleting.remove(record_of(), CLI)
    assert (failed.state, failed.reason) == ("failed", "the mailbox has no way to delete")


async def test_each_copy_has_an_outcome_and_what_was_moved_is_put_back(store: Store) -> None:
    straw = LastingMailbox([FoundCopy("Inbox", "1", "exact"), FoundCopy("Later", "2", "likely")])
    straw.fails = frozenset({"2"})
    remover, record = MailRemover(straw_settings(), store.removed_mail, lambda *_: straw), record_of()

    async def states() -> list[tuple[str, str]]:
        return sorted((each.state, each.folder) for each in await store.removed_mail.of(record.ggrid))

    half = await remover.remove(record, CLI)
    assert [(each.state, each.folder) for each in half] == [("moved", "Inbox"), ("failed", "Later")]
    assert explain(half, wanted="moved") == "the mailbox did not do MOVE"
    assert await states() == [("failed", "Later"), ("moved", "Inbox")]
    straw.fails = frozenset()
    assert [each.folder for each in await remover.remove(record, CLI)] == ["Later"]
    assert [each.state for each in await remover.remove(record, CLI)] == ["absent"]
    assert await states() == [("absent", ""), ("failed", "Later"), ("moved", "Inbox"), ("moved", "Later")]
    straw.found.pop()
    back = await remover.restore(record, CLI)
    assert [(each.state, each.folder) for each in back] == [("restored", "Inbox"), ("failed", "Later")]
    assert explain(back, wanted="restored") == f"it is no longer in {FOLDER}"
    straw.found.append(FoundCopy(FOLDER, "2", "likely"))
    assert [(each.state, each.folder) for each in await remover.restore(record, CLI)] == [("restored", "Later")]
    assert sorted(each.folder for each in straw.found) == ["Inbox", "Later"]
    assert await remover.restore(record, CLI) == (), "once"


async def test_a_removal_that_is_cancelled_is_on_record(store: Store) -> None:
    straw = LastingMailbox([FoundCopy("Inbox", "1", "exact")])
    remover, records = MailRemover(straw_settings(), store.removed_mail, lambda *_: straw), [record_of()]

    async def look() -> None:
        """Whatever was moved is put back."""
        record, is_moved = records.pop(), straw.found[0].folder == FOLDER
        assert [each.state for each in await store.removed_mail.of(record.ggrid)] == ["moved"] * is_moved
        assert [each.state for each in await remover.restore(record, CLI)] == ["restored"] * is_moved
        records.append(record_of())

    assert await cancel_everywhere(lambda: remover.remove(records[0], CLI), after=look)
    assert not remover._turns.locked()


def test_a_server_that_is_away_is_told() -> None:
    server = MailboxServerSettings(
        domains=["y.example"], server="imaps://127.0.0.1:1", user="{local}", password="x" * 8
    )
    with pytest.raises(MailboxError, match="cannot be opened"):
        open_mailbox(server, "ann@y.example", 1.0)


@pytest.mark.parametrize("line", [b'(\\HasNoChildren) "." INBOX', b'(\\Noselect) "/" "a b"', b'() NIL "q\\"x"'])
def test_lines_of_a_list(line: bytes) -> None:
    assert removal._LIST.fullmatch(line)
