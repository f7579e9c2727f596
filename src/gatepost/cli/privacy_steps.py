"""Go through everything that is stored about one address, kind by kind, to export or to erase it.

The audit trail comes last: the steps before write records of their own, which name what they deleted.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import msgspec

from gatepost.abby.messages import describe_message
from gatepost.store.audit import CLI
from gatepost.store.errors import LastAdministrator
from gatepost.store.privacy import TEXTS, FoundRows, Person, Texts
from gatepost.store.store import Store
from gatepost.store.users import User
from gatepost.textmodel.model import FEEDBACK_FOLDER
from gatepost.times import date_time

T = TypeVar("T")
A = TypeVar("A")

KINDS = {
    "messages": "Results on record",
    "held": "Held and released mail",
    "history": "Sender history",
    "lists": "List entries",
    "comments": "Comments and authors of list entries",
    "users": "Users of the web interface",
    "training": "Mail kept for training",
    "searches": "Saved searches",
    "notes": "Notes on messages",
    "work": "Results of actions on many messages",
    "recipients": "Digests, releases, requests and entries of recipients",
    "settings": "Alerts, names of who changed something, and what servers said",
    "audit": "Records of the audit trail",
}
# How many results are deleted in one transaction, for which scans may have to wait.
DELETED_TOGETHER = 50
# Called for every item that is found, with its kind.
Show: TypeAlias = Callable[[str, Any], object]


class Choices(msgspec.Struct, frozen=True):
    """What to erase beyond the usual: list entries, the user, held mail in which the address is not a recipient.
    With `pseudonym` "" nothing is changed."""

    pseudonym: str = ""
    lists: bool = False
    users: bool = False
    held: bool = False


class Tally(msgspec.Struct):
    """How much of one kind was found, deleted, changed, and kept as it is; and how many records could not be read and
    have the address in no column, so that they are not among those."""

    found: int = 0
    deleted: int = 0
    changed: int = 0
    kept: int = 0
    unreadable: int = 0


class PersonalData:
    """Everything about one address; `tallies` counts it while it is gone through."""

    def __init__(self, store: Store, data: Path, person: Person, choices: Choices, show: Show) -> None:
        self._store, self._privacy, self._data = store, store.privacy, data
        self._person, self._choices, self._show = person, choices, show
        self.tallies = {kind: Tally() for kind in KINDS}

    @property
    def _erases(self) -> bool:
        return bool(self._choices.pseudonym)

    async def go_through(self) -> None:
        """Find everything, and erase it if that was chosen."""
        for step in (self._messages, self._held, self._history, self._lists, self._users, self._training):
            await step()
        for texts in TEXTS:
            await self._texts(texts)
        for step in (self._recipients, self._settings, self._audit):
            await step()

    async def _pages(
        self, kind: str, find: Callable[[Person, A], Awaitable[FoundRows[T, A]]], start: A
    ) -> AsyncIterator[tuple[T, ...]]:
        """Yield what is found, page by page, and count records that cannot be read."""
        after: A | None = start
        while after is not None:
            found, after, unreadable = await find(self._person, after)
            self.tallies[kind].unreadable += unreadable
            if found:
                yield found

    async def _messages(self) -> None:
        async for found in self._pages("messages", self._privacy.messages_about, 0):
            for _, record in found:
                self._add("messages", describe_message(record))
            keys = [(record.completed, uid) for uid, record in found] if self._erases else []
            for start in range(0, len(keys), DELETED_TOGETHER):
                deleted = await self._privacy.delete_messages(keys[start : start + DELETED_TOGETHER])
                self.tallies["messages"].deleted += deleted

    async def _held(self) -> None:
        tally = self.tallies["held"]
        async for found in self._pages("held", self._privacy.held_about, ""):
            for mail in found:
                shown = {"state": mail.state, "heldSince": date_time(mail.kept)}
                self._add("held", {**shown, "message": describe_message(mail.record)})
                if self._erases:
                    ggrid = mail.record.ggrid
                    fate = await self._privacy.erase_held(self._person, ggrid, CLI, delete=self._choices.held)
                    setattr(tally, fate, getattr(tally, fate) + 1)

    async def _history(self) -> None:
        found = await self._privacy.history_about(self._person)
        for each in found:
            self._add("history", each)
        if found and self._erases:
            self.tallies["history"].deleted = await self._privacy.erase_history(found)

    async def _lists(self) -> None:
        lists, comments = self.tallies["lists"], self.tallies["comments"]
        async for found in self._pages("lists", self._privacy.entries_about, (0, "")):
            entries = [each for each in found if each.is_entry]
            noted = [each for each in found if self._person.is_in(f"{each.comment}\n{each.modified_by}")]
            for each in entries:
                self._add("lists", each)
                if self._erases and self._choices.lists:
                    lists.deleted += await self._store.lists.remove(each.scope, each.list, [each.key], CLI)
                elif self._erases:
                    lists.kept += 1
            for each in noted:
                self._add("comments", each)
            if noted and self._erases:
                pseudonym = self._choices.pseudonym
                comments.changed += await self._privacy.erase_comments(self._person, noted, pseudonym)

    async def _users(self) -> None:
        tally = self.tallies["users"]
        for user in await self._store.users.all():
            # Some providers have addresses for subjects, and the name that is shown is another.
            subject = (user.external or "").partition(" ")[2]
            if not self._person.is_address(user.name) and not self._person.is_address(subject):
                continue
            self._add("users", {"user": user, "sessions": await self._privacy.session_traces(user.uid)})
            if self._erases and self._choices.users:
                deleted = await self._store.users.delete(user.uid, CLI)
                tally.deleted += isinstance(deleted, User)
                tally.kept += isinstance(deleted, LastAdministrator)
            elif self._erases:
                tally.kept += 1

    async def _training(self) -> None:
        for file in list_training_mail(self._data, self._person):
            self._add("training", {"file": str(file)})
            if self._erases:
                file.unlink(missing_ok=True)
                self.tallies["training"].deleted += 1

    async def _texts(self, texts: Texts) -> None:
        found = await self._privacy.texts_about(self._person, texts)
        for row in found:
            self._add(texts.kind, texts.describe(row))
        if found and self._erases:
            count = await self._privacy.erase_texts(self._person, texts, found, self._choices.pseudonym)
            tally = self.tallies[texts.kind]
            if texts.stays:
                tally.changed += count
            else:
                tally.deleted += count

    async def _recipients(self) -> None:
        for table, shown in await self._privacy.recipient_data_about(self._person):
            self._add("recipients", {"table": table, "value": shown})
        if self._erases:
            self.tallies["recipients"].deleted = await self._privacy.erase_recipient_data(self._person)

    async def _settings(self) -> None:
        found = await self._privacy.settings_about(self._person)
        for table, column, value in found:
            self._add("settings", {"table": table, "column": column, "value": value})
        if found and self._erases:
            changed = await self._privacy.erase_settings(self._person, found, self._choices.pseudonym)
            self.tallies["settings"].changed += changed

    async def _audit(self) -> None:
        async for records in self._pages("audit", self._privacy.audit_about, 0):
            for record in records:
                self._add("audit", record)
            if self._erases:
                changed = await self._privacy.erase_audit(self._person, records, self._choices.pseudonym)
                self.tallies["audit"].changed += changed

    def _add(self, kind: str, item: object) -> None:
        self.tallies[kind].found += 1
        self._show(kind, item)


def list_training_mail(data: Path, person: Person) -> Iterator[Path]:
    """The files of mail kept for training in which the address stands as it is; encoded texts are not decoded."""
    for side in ("ham", "spam"):
        for file in sorted((data / FEEDBACK_FOLDER / side).glob("*.eml")):
            raw = file.read_bytes()
            if person.may_be_in(raw) and person.is_in(raw.decode("utf-8", "replace")):
                yield file
