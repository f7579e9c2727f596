"""Everything that is stored about one address: found, and deleted step by step, on both engines.

A step reads or deletes a few hundred rows in a transaction of its own, so that scans which arrive meanwhile wait for
milliseconds. Nothing remembers how far an erasure came: a step finds what still has the address, so an erasure that was
killed is resumed by starting it again, and one that was finished finds nothing more.

A record that has the address anywhere is deleted. Mail that is still held for others keeps its record, since a release
needs it: there only the recipient goes. What the deployment needs stays without the address, which a pseudonym
replaces: who has changed settings, comments of list entries, the audit trail.

A packed record that is damaged cannot be looked through. The columns beside it say for whom it is: where they have the
address, the record is deleted as others are. Where they do not, it may be anybody's: it is counted, and it stays.

A `Person` finds the address in any text: alone, in a header's facts, in a link. It is compared as
`names.normal_address` does it, with the domain as A-labels or in Unicode, and it is found in two usual disguises too:
percent-encoded in a link (`ann%40example.org`), and in a bounce address (`bounce+ann=example.org@list.example`). It is
not found in a longer address: `ann@example.org` is neither in `joann@example.org` nor in `ann@example.org.example`.
"""

import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Generic, Literal, NamedTuple, TypeAlias, TypeVar
from urllib.parse import unquote_plus

import msgspec

from gatepost.mail.sender_history import Facet, facet_key
from gatepost.names import normal_address, unicode_domain
from gatepost.store.audit import (
    Actor,
    AuditRecord,
    ChangedValue,
    pack_changes,
    parse_audit,
    unpack_changes,
    write_audit,
)
from gatepost.store.engine import Many, Operations, Read, Work, Write, change, large_query, now, query, storable
from gatepost.store.message_records import MessageRecord, delete_by_keys, parse_record
from gatepost.store.quarantine import HeldMessage, delete_held_rows, find_held, keep_recipients
from gatepost.store.record_packing import DETAILS, UNREADABLE, decompress, unpack_header
from gatepost.store.removed_mail import digest_mailbox
from gatepost.store.sql import compose, sql

ERASED_DOMAIN = "erased.invalid"

T = TypeVar("T")
A = TypeVar("A")


class Person:
    """A person, by an address. `ValueError` where the text is no address."""

    def __init__(self, stated: str) -> None:
        self.address = normal_address(stated)
        local, _, domain = self.address.rpartition("@")
        if not local or not domain or any(char.isspace() for char in self.address) or len(self.address) > 500:
            raise ValueError(f"{stated!r} is not an address such as ann@example.org")
        domains = dict.fromkeys((domain, unicode_domain(domain)))
        plain = "|".join(f"{re.escape(local)}(?:@|%40){re.escape(each)}" for each in domains)
        bounced = "|".join(f"{re.escape(local)}={re.escape(each)}" for each in domains)
        self._pattern = re.compile(rf"(?:(?<![\w.+-])(?:{plain})|(?<![\w.])(?:{bounced}))(?![\w-]|\.\w)", re.IGNORECASE)
        # Every form of the address has it; what has letters beyond ASCII is not looked for in bytes.
        self._needle = local.encode() if local.isascii() else b""

    def is_in(self, text: str) -> bool:
        """Whether the address occurs in a text."""
        return bool(self._pattern.search(text))

    def may_be_in(self, content: bytes) -> bool:
        """Whether a packed value, or the bytes of a message, could have the address; False is certain."""
        return self._needle in content.lower()

    def occurs(self, value: object) -> bool:
        """Whether the address occurs in any text of a value."""
        return any(map(self.is_in, _list_texts(msgspec.to_builtins(value))))

    def is_address(self, text: str) -> bool:
        """Whether a text is this address and nothing else."""
        return normal_address(text) == self.address

    def replace(self, text: str, pseudonym: str) -> str:
        """A text with the pseudonym in place of the address."""
        return self._pattern.sub(pseudonym, text)


def new_pseudonym() -> str:
    """An address that means nothing. It is random, so nobody can compute it from the address that it replaces."""
    return f"erased-{secrets.token_hex(8)}@{ERASED_DOMAIN}"


def _list_texts(value: Any) -> Iterator[str]:
    """Every text of plain values, keys of objects too."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for each in value.items():
            yield from _list_texts(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _list_texts(each)


class Texts(NamedTuple):
    """Columns of a table, not a large one, that can have the address, by what an export calls them. Rows that have it
    are deleted; where `stays` they keep a pseudonym in its place."""

    kind: str
    table: str
    columns: Mapping[str, str]
    stays: bool = False

    def describe(self, row: Sequence[str]) -> dict[str, str]:
        """Return values of the columns as an export has them."""
        of_settings = {"table": self.table, "column": self.columns["value"]} if self.kind == "settings" else {}
        return {**of_settings, **dict(zip(self.columns, row, strict=True))}


def _list_settings(text: str, *, stays: bool) -> Iterator[Texts]:
    """`table: column column` on each line."""
    for line in text.strip().splitlines():
        table, _, columns = line.partition(":")
        for column in columns.split():
            yield Texts("settings", table.strip(), {"value": column}, stays)


# `tests/store/test_privacy_whole.py` fails for a column that neither these nor a step below know.
TEXTS = (
    Texts("searches", "saved_searches", {"name": "name", "query": "query"}),
    Texts("notes", "message_notes", {"note": "said"}),
    Texts("work", "bulk_actions", {"id": "id", "results": "results"}, stays=True),
    *_list_settings(
        """
        look_backs: hits
        recipient_requests: said note
        removed_mail: reason
        sent_reports: destinations reason
        training_reports: reporter mailbox
        """,
        stays=False,
    ),
    *_list_settings(
        """
        alert_definitions: modified_by
        config_draft: modified_by
        config_versions: actor reason
        digest_settings: modified_by
        digests: fault
        feed_definitions: modified_by
        held: deleted_by
        look_back_queue: actor keys
        look_backs: actor
        message_notes: by_name
        recipient_releases: released_by
        recipient_requests: decided_by
        removed_mail: by_name
        """,
        stays=True,
    ),
)

STEP = 300
ROWS = 5_000
FACETS = (Facet.PROVEN_ADDRESS, Facet.CLAIMED_ADDRESS, Facet.REDIRECTION)

_MESSAGES = sql("""SELECT id, ggrid, created, completed, size, sha256, detail, header, sender, recipients, subject
FROM messages WHERE id > $1 ORDER BY id LIMIT $2""")
_HELD = sql("""SELECT ggrid, detail, sender, subject, coalesce(released_to, ''), coalesce(released_by, '') FROM held
WHERE ggrid > $1 ORDER BY ggrid LIMIT $2""")
_LOCK_HELD = sql("SELECT detail FROM held WHERE ggrid = $1 @lock(UPDATE)")
_HELD_RECIPIENTS = sql("SELECT address FROM held_recipients WHERE ggrid = $1 ORDER BY address")
_SIGHTINGS = sql("SELECT scope, key, first, last, days, delivered, held FROM sightings WHERE @one_of(key, $1)")
_DELETE_SIGHTINGS = sql("DELETE FROM sightings WHERE scope = $1 AND @one_of(key, $2)")
_ENTRIES = sql("""SELECT list_id, key, coalesce(shown, key), comment, modified_by FROM entries
WHERE (list_id, key) > ($1, $2) ORDER BY list_id, key LIMIT $3""")
_LISTS = sql("SELECT id, scope, name FROM lists")
_SET_COMMENT = sql("UPDATE entries SET comment = $3, modified_by = $4 WHERE list_id = $1 AND key = $2")
_SESSIONS = sql("SELECT created, seen, address, agent FROM sessions WHERE user_uid = $1 ORDER BY created")
_AUDIT = sql("""SELECT id, time, actor_kind, actor_name, actor_id, action, scope, list, count, sample,
changes IS NOT NULL, changes FROM audit WHERE id > $1 ORDER BY id LIMIT $2""")
_AUDIT_CHANGES = sql("SELECT changes FROM audit WHERE id = $1")
_SET_AUDIT = sql("UPDATE audit SET actor_name = $2, sample = $3, changes = $4 WHERE id = $1")

# Where recipients of held mail are on record, with what is shown of each row.
_OF_RECIPIENT: dict[str, str] = {
    "digests": "CAST(coalesce(sent, 0) AS TEXT)",
    "recipient_releases": "ggrid",
    "recipient_requests": "said",
    "recipient_entries": "sender",
}
_RECIPIENT_ROWS = {
    table: sql(f"SELECT {shown} FROM {table} WHERE address = $1 ORDER BY 1 LIMIT $2")  # noqa: S608
    for table, shown in _OF_RECIPIENT.items()
}
_ERASE_RECIPIENT = (
    sql("DELETE FROM digest_uses WHERE digest IN (SELECT id FROM digests WHERE address = $1)"),
    *(sql(f"DELETE FROM {table} WHERE address = $1") for table in _OF_RECIPIENT),  # noqa: S608
    sql("DELETE FROM recipient_entries WHERE sender = $1"),
)
_ALERTS = sql("SELECT name, settings FROM alert_definitions")
_LOCK_ALERT = sql("SELECT settings FROM alert_definitions WHERE name = $1 @lock(UPDATE)")
_SET_ALERT = sql("UPDATE alert_definitions SET settings = $2 WHERE name = $1")
_RULES = sql("SELECT scope, rules FROM rule_sets")
_LOCK_RULES = sql("SELECT rules FROM rule_sets WHERE scope = $1 @lock(UPDATE)")
_SET_RULES = sql("UPDATE rule_sets SET version = version + 1, rules = $2 WHERE scope = $1")
_REMOVED = sql("SELECT count(*) FROM removed_mail WHERE mailbox = $1")
_DELETE_REMOVED = sql("DELETE FROM removed_mail WHERE mailbox = $1")

HeldFate: TypeAlias = Literal["deleted", "changed", "kept"]


class FoundEntry(msgspec.Struct, frozen=True):
    """A list entry that has the address: in the entry itself (`is_entry`), or in its comment or author only."""

    list_id: int
    scope: str | None
    list: str
    key: str
    entry: str
    comment: str
    modified_by: str
    is_entry: bool


class SeenSender(msgspec.Struct, frozen=True):
    """What sender history knows of the address in one scope; `scope` and `key` are digests."""

    scope: int
    key: int
    first: int
    last: int
    days: int
    delivered: int
    held: int


class SessionTrace(msgspec.Struct, frozen=True):
    """From where a user was signed in."""

    created: int
    seen: int
    address: str
    agent: str


class FoundRows(NamedTuple, Generic[T, A]):
    """What was found among some rows, where to go on (None at the end), and how many records could not be read and
    have the address in no column: they are left as they are."""

    found: tuple[T, ...]
    after: A | None
    unreadable: int = 0


class Privacy(Operations):
    """What is stored about a person. Each call looks at some rows, and returns what it found and where to go on, None
    at the end."""

    @large_query
    def messages_about(self, person: Person, after: int = 0) -> Work[FoundRows[tuple[int, MessageRecord], int]]:
        """Results that have the address anywhere, with their row ids."""
        rows = yield Read(_MESSAGES, (after, STEP))
        found, unreadable = [], 0
        for row in rows:
            packed, header, *columns = row[6:]
            texts = "\n".join((_read_header(header), *columns))
            is_found = _is_in_record(person, packed)
            if is_found or person.is_in(texts):
                found.append((row[0], parse_record(*row[1:7])))
            else:
                unreadable += is_found is None
        return FoundRows(tuple(found), rows[-1][0] if len(rows) == STEP else None, unreadable)

    @change
    def delete_messages(self, keys: Sequence[tuple[int, int]]) -> Work[int]:
        """Delete these results, of each time of completion and row id, with replies and index; returns how many."""
        return (yield from delete_by_keys(keys))

    @large_query
    def held_about(self, person: Person, after: str = "") -> Work[FoundRows[HeldMessage, str]]:
        """Held and released mail that has the address anywhere."""
        rows = yield Read(_HELD, (after, STEP))
        found, unreadable = [], 0
        for ggrid, packed, *columns in rows:
            is_found = _is_in_record(person, packed)
            if is_found is None:
                columns += [address for (address,) in (yield Read(_HELD_RECIPIENTS, (ggrid,)))]
            if is_found or person.is_in("\n".join(columns)):
                mail = yield from find_held(ggrid, None)
                found += [mail] if mail else []
            else:
                unreadable += is_found is None
        return FoundRows(tuple(found), rows[-1][0] if len(rows) == STEP else None, unreadable)

    @change
    def erase_held(self, person: Person, ggrid: str, by: Actor, *, delete: bool = False) -> Work[HeldFate]:
        """Delete held or released mail. What is still held for others only loses this recipient, and is kept as it is
        where the address is none, unless `delete`; so is what is being released now."""
        yield Read(_LOCK_HELD, (ggrid,))
        mail = yield from find_held(ggrid, None)
        if mail is None or (mail.state == "releasing" and mail.lease >= now()):
            return "kept"
        envelope = mail.record.envelope
        # The columns of a record that cannot be read say who its recipients are.
        recipients = envelope.recipients or tuple(row[0] for row in (yield Read(_HELD_RECIPIENTS, (ggrid,))))
        others = tuple(each for each in recipients if not person.is_address(each))
        if delete or mail.state == "released" or not others:
            yield from delete_held_rows([ggrid])
            yield from write_audit(now(), by, "quarantine.delete", envelope.tenant, count=1, sample=[ggrid])
            return "deleted"
        if len(others) == len(recipients):
            return "kept"
        yield from keep_recipients(mail, others)
        return "changed"

    @large_query
    def history_about(self, person: Person) -> Work[tuple[SeenSender, ...]]:
        """What sender history knows of the address, in all scopes."""
        keys = tuple(facet_key(facet, person.address) for facet in FACETS)
        rows = yield Read(_SIGHTINGS, (Many(keys),))
        return tuple(SeenSender(*row) for row in rows)

    @change
    def erase_history(self, found: Sequence[SeenSender]) -> Work[int]:
        """Forget the address in these scopes; the history of its domain stays."""
        deleted = 0
        for scope in sorted({each.scope for each in found}):
            keys = tuple(sorted(each.key for each in found if each.scope == scope))
            deleted += yield Write(_DELETE_SIGHTINGS, (scope, Many(keys)))
        return deleted

    @large_query
    def entries_about(
        self, person: Person, after: tuple[int, str] = (0, "")
    ) -> Work[FoundRows[FoundEntry, tuple[int, str]]]:
        """List entries that have the address, in any scope."""
        rows = yield Read(_ENTRIES, (*after, ROWS))
        named = [row for row in rows if person.is_in("\n".join(row[1:]))]
        lists = {uid: (scope or None, name) for uid, scope, name in (yield Read(_LISTS))} if named else {}
        found = tuple(
            FoundEntry(uid, *lists[uid], key, entry, comment, author, person.is_in(f"{key}\n{entry}"))
            for uid, key, entry, comment, author in named
            if uid in lists
        )
        return FoundRows(found, (rows[-1][0], rows[-1][1]) if len(rows) == ROWS else None)

    @change
    def erase_comments(self, person: Person, entries: Sequence[FoundEntry], pseudonym: str) -> Work[int]:
        """Put the pseudonym into comments and authors of entries; returns how many entries changed."""
        changed = 0
        for each in entries:
            comment, author = (person.replace(text, pseudonym) for text in (each.comment, each.modified_by))
            if (comment, author) != (each.comment, each.modified_by):
                changed += yield Write(_SET_COMMENT, (each.list_id, each.key, comment, author))
        return changed

    @query
    def session_traces(self, user_uid: str) -> Work[tuple[SessionTrace, ...]]:
        """From where a user was signed in."""
        rows = yield Read(_SESSIONS, (storable(user_uid),))
        return tuple(SessionTrace(*row) for row in rows)

    @large_query
    def audit_about(self, person: Person, after: int = 0) -> Work[FoundRows[AuditRecord, int]]:
        """Records of the audit trail that have the address."""
        rows = yield Read(_AUDIT, (after, ROWS))
        found = tuple(
            parse_audit(row[:11])
            for row in rows
            if person.is_in(f"{row[3]}\n{row[9]}") or person.occurs(unpack_changes(row[11]))
        )
        return FoundRows(found, rows[-1][0] if len(rows) == ROWS else None)

    @change
    def erase_audit(self, person: Person, records: Sequence[AuditRecord], pseudonym: str) -> Work[int]:
        """Put the pseudonym into records of the audit trail; the records stay."""
        for record in records:
            name = person.replace(record.actor.name, pseudonym)
            texts = [person.replace(text, pseudonym) for text in record.sample]
            if pseudonym not in "\n".join((name, *texts)):
                # It stands among the values alone, which are packed; storage takes no change that is not marked.
                texts.append(pseudonym)
            sample = msgspec.json.encode(texts).decode()
            packed = (yield Read(_AUDIT_CHANGES, (record.id,)))[0][0] if record.has_changes else None
            changes = pack_changes(_replace_values(person, each, pseudonym) for each in unpack_changes(packed))
            yield Write(_SET_AUDIT, (record.id, name, sample, changes))
        return len(records)

    @large_query
    def texts_about(self, person: Person, texts: Texts) -> Work[tuple[tuple[str, ...], ...]]:
        """The different values of some columns that have the address; queries of searches have it percent-encoded."""
        columns = ", ".join(f"coalesce({each}, '')" for each in texts.columns.values())
        rows = yield Read(compose(f"SELECT DISTINCT {columns} FROM {texts.table}"))  # noqa: S608
        found = ((*row,) for row in rows)
        return tuple(
            row for row in found if person.is_in("\n".join((*row, "" if texts.stays else unquote_plus(row[-1]))))
        )

    @change
    def erase_texts(self, person: Person, texts: Texts, found: Sequence[tuple[str, ...]], pseudonym: str) -> Work[int]:
        """Delete the rows that have these values, or put the pseudonym into them where they stay; returns how many."""
        columns = tuple(texts.columns.values())
        these = " AND ".join(f"coalesce({each}, '') = ${number}" for number, each in enumerate(columns, 1))
        new = ", ".join(f"{each} = ${number}" for number, each in enumerate(columns, 1 + len(columns)))
        update = compose(f"UPDATE {texts.table} SET {new} WHERE {these}")  # noqa: S608
        delete = compose(f"DELETE FROM {texts.table} WHERE {these}")  # noqa: S608
        changed = 0
        for row in found:
            if texts.stays:
                changed += yield Write(update, (*row, *(person.replace(each, pseudonym) for each in row)))
            else:
                changed += yield Write(delete, row)
        return changed

    @query
    def recipient_data_about(self, person: Person) -> Work[tuple[tuple[str, str], ...]]:
        """Digests, releases, requests and entries of a recipient: the table and some of each row."""
        found: list[tuple[str, str]] = []
        for table, statement in _RECIPIENT_ROWS.items():
            rows = yield Read(statement, (person.address, ROWS))
            found += [(table, str(row[0])) for row in rows]
        removed = int((yield Read(_REMOVED, (digest_mailbox(person.address),)))[0][0])
        return (*found, *([("removed_mail", str(removed))] if removed else []))

    @change
    def erase_recipient_data(self, person: Person) -> Work[int]:
        """Delete digests, releases, requests and entries of a recipient, entries of others about the address, and what
        was taken out of its mailbox."""
        deleted = int((yield Write(_DELETE_REMOVED, (digest_mailbox(person.address),))))
        for statement in _ERASE_RECIPIENT:
            deleted += int((yield Write(statement, (person.address,))))
        return deleted

    @large_query
    def settings_about(self, person: Person) -> Work[tuple[tuple[str, str, str], ...]]:
        """Alerts with the address as a recipient or in their search, and rules that it has changed: the table, the
        column, and the name of the alert or the scope of the rules."""
        found: list[tuple[str, str, str]] = []
        for name, settings in (yield Read(_ALERTS)):
            alert = msgspec.json.decode(settings)
            if any(map(person.is_in, (*alert.get("recipients", ()), alert.get("search", "")))):
                found.append(("alert_definitions", "settings", name))
        for scope, rules in (yield Read(_RULES)):
            if any(person.is_in(each.get(_CHANGED_BY, "")) for each in msgspec.json.decode(rules)):
                found.append(("rule_sets", "rules", scope))
        return tuple(found)

    @change
    def erase_settings(self, person: Person, found: Sequence[tuple[str, str, str]], pseudonym: str) -> Work[int]:
        """Take the address out of the recipients of alerts, and put the pseudonym into their searches and for who has
        changed rules."""
        changed = 0
        for table, _, value in found:
            is_alert = table == "alert_definitions"
            for (stored,) in (yield Read(_LOCK_ALERT if is_alert else _LOCK_RULES, (value,))):
                content = msgspec.json.decode(stored)
                if is_alert:
                    content["recipients"] = [each for each in content.get("recipients", ()) if not person.is_in(each)]
                    content["search"] = person.replace(content.get("search", ""), pseudonym)
                for each in () if is_alert else content:
                    each[_CHANGED_BY] = person.replace(each.get(_CHANGED_BY, ""), pseudonym)
                new = msgspec.json.encode(content).decode()
                changed += yield Write(_SET_ALERT if is_alert else _SET_RULES, (value, new))
        return changed

    @change
    def note(self, action: str, by: Actor, pseudonym: str = "", count: int = 0) -> Work[None]:
        """Write to the audit trail that data of a person were exported or erased, without the address."""
        yield from write_audit(now(), by, f"privacy.{action}", count=count, sample=[pseudonym] if pseudonym else [])


# Who has changed a rule of the web interface last, in the JSON of the rules.
_CHANGED_BY = "modifiedBy"


def _is_in_record(person: Person, packed: bytes) -> bool | None:
    """Whether a packed record has the address; None where it cannot be read."""
    try:
        plain = decompress(packed)
        detail = DETAILS.decode(plain)
    except UNREADABLE:
        return None
    return person.may_be_in(plain) and person.occurs(detail)


def _read_header(packed: bytes | None) -> str:
    """A header section, in which bytes that are no UTF-8 become signs; "" where there is none, or none to be read."""
    return ((unpack_header(packed) if packed is not None else None) or b"").decode("utf-8", "replace")


def _replace_values(person: Person, value: ChangedValue, pseudonym: str) -> ChangedValue:
    texts = (None if each is None else person.replace(each, pseudonym) for each in (value.before, value.after))
    return ChangedValue(person.replace(value.what, pseudonym), *texts)
