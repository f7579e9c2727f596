"""Delivered mail is taken out of mailboxes from the list of messages and from a look back, and put back by Undo."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.web.conftest import REPORT, Site, find_in

from gatepost.lists.catalogue import BY_NAME
from gatepost.mailboxes.removal import FoundCopy, MailboxError, WantedMessage
from gatepost.settings.delivery import MailboxServerSettings, RemediationSettings
from gatepost.store.audit import CLI
from gatepost.store.lists import NewEntry
from gatepost.store.look_backs import LookBack

DELIVERED = msgspec.structs.replace(REPORT, decision="deliver", verdict="clean", message_id="<1@x.example>")


class StrawMailbox:
    """A mailbox in memory."""

    def __init__(self) -> None:
        self.folder, self.is_broken = "INBOX", False

    def find(self, wanted: WantedMessage, *, only_in: str = "", but: str = "") -> list[FoundCopy]:
        if self.is_broken:
            raise MailboxError("did not answer in time")
        return [FoundCopy(self.folder, "1", "exact")] if self.folder in (only_in or "INBOX") else []

    def move(self, copy: FoundCopy, folder: str) -> None:
        self.folder = folder

    def delete(self, copy: FoundCopy) -> None:
        raise AssertionError

    def close(self) -> None:
        pass


@pytest.fixture(scope="module")
def mailbox() -> StrawMailbox:
    return StrawMailbox()


@pytest.fixture(scope="module")
def cleaning(tmp_path_factory: pytest.TempPathFactory, mailbox: StrawMailbox) -> Iterator[Site]:
    """A site with mailboxes."""
    server = MailboxServerSettings(domains=["example.com"], server="imaps://a", user="{address}", password="x" * 8)
    folder: Path = tmp_path_factory.mktemp("cleaning")
    site = Site(folder, remediation=(RemediationSettings(servers=[server]), lambda *_: mailbox))
    yield site
    site.stop()


def post_shown(visitor: Any, path: str, pattern: str) -> Any:
    """Press the button of the page whose form has this address."""
    page = visitor.get(path).text
    found = find_in(pattern, page)
    return visitor.post(found)


def test_delivered_mail_is_taken_out_and_put_back(cleaning: Site, mailbox: StrawMailbox) -> None:
    tenant = cleaning.new_tenant()
    ggrid = cleaning.message(tenant, DELIVERED)
    visitor: Any = cleaning.visitor("administrator", tenant)
    assert 'value="remove"' in visitor.get("/messages").text
    went = cleaning.went(visitor.post("/messages", {"action": "remove", "ggrid": [ggrid]}))
    assert went.startswith("/quarantine/work/"), "a page asks first"
    assert mailbox.folder == "INBOX"
    asked = visitor.get(went.split()[0]).text
    assert "Take out of mailboxes: 1 message?" in asked
    assert "Undo puts back" in asked
    went = cleaning.went(post_shown(visitor, went.split()[0], r'action="(/quarantine/work/[0-9a-f-]{36}/start[^"]*)"'))
    assert "mail-removed~1" in went
    assert mailbox.folder == "Removed by Gatepost"
    went = cleaning.went(post_shown(visitor, "/messages", r'action="(/quarantine/work/[0-9a-f-]{36}/undo[^"]*)"'))
    assert "mail-put-back~1" in went
    assert mailbox.folder == "INBOX"
    rows = cleaning.trail(scope=tenant, action="message.")
    assert [row.action for row in rows] == ["message.putBack", "message.removed"]
    assert "put back into mailboxes" in visitor.get("/audit").text


def test_what_fails_is_told(cleaning: Site, mailbox: StrawMailbox) -> None:
    tenant = cleaning.new_tenant()
    ggrid = cleaning.message(tenant, DELIVERED)
    visitor: Any = cleaning.visitor("administrator", tenant)
    mailbox.is_broken = True
    try:
        went = cleaning.went(visitor.post("/messages", {"action": "remove", "ggrid": [ggrid]}))
        path = went.split()[0]
        went = cleaning.went(post_shown(visitor, path, r'action="(/quarantine/work/[0-9a-f-]{36}/start[^"]*)"'))
        assert "the mailbox did not answer in time" in visitor.get(went.split()[0]).text
    finally:
        mailbox.is_broken = False


def test_who_may(cleaning: Site, site: Any, mailbox: StrawMailbox) -> None:
    tenant, other = cleaning.new_tenant(), cleaning.new_tenant()
    ggrid = cleaning.message(tenant, DELIVERED)
    analyst: Any = cleaning.visitor("analyst", tenant)
    assert 'value="remove"' not in analyst.get("/messages").text
    assert cleaning.went(analyst.post("/messages", {"action": "remove", "ggrid": [ggrid]})) == "/messages"
    stranger: Any = cleaning.visitor("administrator", other)
    went = cleaning.went(stranger.post("/messages", {"action": "remove", "ggrid": [ggrid]}))
    assert went == "/messages none-selected"
    assert mailbox.folder == "INBOX"
    plain: Any = site.visitor("administrator")
    assert 'value="remove"' not in plain.get("/messages").text, "off by default"


def test_what_looking_back_found_is_taken_out_from_its_page(cleaning: Site) -> None:
    tenant = cleaning.new_tenant()
    ggrid = cleaning.message(tenant, DELIVERED)
    found = LookBack(1, "cli", 1, 7, 10, 1, ((ggrid, "evil.example"),))
    cleaning.run(
        cleaning.store.lists.add(tenant, BY_NAME["blocked-urls"], [NewEntry("evil.example", "evil.example")], CLI)
    )
    number = cleaning.run(cleaning.store.look_backs.record(tenant, "blocked-urls", found))
    visitor: Any = cleaning.visitor("administrator", tenant)
    page = visitor.get(f"/lists/{tenant}/blocked-urls/look-back?id={number}").text
    assert "They can be taken out of mailboxes" in page
    assert f'name="ggrid" value="{ggrid}"' in page
    assert 'value="remove"' in page
