"""Everything that is stored about one address: found and erased step by step, on both engines.

A step reads or changes a few hundred rows in a transaction of its own, so that scans which arrive meanwhile wait for
milliseconds. Nothing remembers how far an erasure came: a step finds what still has the address, so an erasure that was
killed is resumed by starting it again, and one that was finished finds nothing more.

A result whose only recipient is the address is deleted. Of others the address goes: it is no recipient any more, and in
other texts a pseudonym takes its place. Mail that is still held is different, because its bytes have the address too,
and a release needs the envelope: it is deleted where the address is the only recipient, else only the recipient goes,
and mail that has the address elsewhere is kept until it is decided, unless the caller wants it deleted.

A packed record that is damaged cannot be looked through. The columns beside it say for whom it is: where they have the
address, the record is changed as others are, with what the columns say in place of what cannot be read. Where they do
not, it may be anybody's: it is counted, and it stays as it is.

A `Person` finds the address in any text: alone, in a header's facts, in a link. It is compared as
`names.normal_address` does it, with the domain as A-labels or in Unicode, and it is found in two usual disguises too:
percent-encoded in a link (`ann%40example.org`), and in a bounce address (`bounce+ann=example.org@list.example`). It is
not found in a longer address: `ann@example.org` is neither in `joann@example.org` nor in `ann@example.org.example`.
"""

import re
import secrets
from collections.abc import Sequence
from typing import Any, Generic, Literal, NamedTuple, TypeAlias, TypeVar
from urllib.parse import unquote_plus

import msgspec

from gatepost.mail.message import Envelope
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
from gatepost.store.engine import Many, Operations, Read, Row, Work, Write, change, large_query, now, query, storable
from gatepost.store.message_days import by_keys
from gatepost.store.message_records import MessageRecord, Release, delete_by_keys, parse_record, rewrite_message
from gatepost.store.quarantine import HeldMessage, delete_held_rows, find_held, rewrite_held
from gatepost.store.record_packing import DETAILS, UNREADABLE, Detail, decompress
from gatepost.store.removed_mail import digest_mailbox

ERASED_DOMAIN = "erased.invalid"

T = TypeVar("T")
A = TypeVar("A")


class Person:
    """A person, by an address. `ValueError` where the text is no address."""

    # A part of changes that another process may write, to which it goes as its address.
    is_part_of_changes = True

    def __reduce__(self) -> tuple[type["Person"], tuple[str]]:
        return Person, (self.address,)

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
        found = False

        def look(text: str) -> str:
            nonlocal found
            found = found or self.is_in(text)
            return text

        _map_texts(msgspec.to_builtins(value), look)
        return found

    def is_address(self, text: str) -> bool:
        """Whether a text is this address and nothing else."""
        return normal_address(text) == self.address

    def is_only_recipient(self, envelope: Envelope) -> bool:
        """Whether a message went to this address and to no other."""
        return bool(envelope.recipients) and all(map(self.is_address, envelope.recipients))

    def replace(self, text: str, pseudonym: str) -> str:
        """A text with the pseudonym in place of the address."""
        return self._pattern.sub(pseudonym, text)

    def erase_from(self, detail: Detail, pseudonym: str) -> Detail:
        """Envelope and report without the address: it is no recipient any more, and elsewhere it has the pseudonym."""
        replaced = self._replace_all(detail, Detail, pseudonym)
        return msgspec.structs.replace(replaced, envelope=self._erase_recipient(detail.envelope, replaced.envelope))

    def _replace_all(self, value: object, kind: type[T], pseudonym: str) -> T:
        texts = _map_texts(msgspec.to_builtins(value), lambda text: self.replace(text, pseudonym))
        return msgspec.convert(texts, kind)

    def _erase_recipient(self, before: Envelope, after: Envelope) -> Envelope:
        pairs = zip(before.recipients, after.recipients, strict=True)
        return msgspec.structs.replace(after, recipients=tuple(new for old, new in pairs if not self.is_address(old)))


def new_pseudonym() -> str:
    """An address that means nothing. It is random, so nobody can compute it from the address that it replaces."""
    return f"erased-{secrets.token_hex(8)}@{ERASED_DOMAIN}"


def _map_texts(value: Any, change: Any) -> Any:
    """Plain values with every text changed, keys of objects too."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {_map_texts(key, change): _map_texts(each, change) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_map_texts(each, change) for each in value]
    return value


STEP = 300
ROWS = 5_000
FACETS = (Facet.PROVEN_ADDRESS, Facet.CLAIMED_ADDRESS, Facet.REDIRECTION)

_COLUMNS = "id, ggrid, created, completed, size, sha256, detail, header"
# What the columns say of a record that cannot be read.
_PLAIN = "tenant, verdict, decision, sender, recipients, subject"
_MESSAGES = f"SELECT {_COLUMNS}, {_PLAIN} FROM messages WHERE id > $1 ORDER BY id LIMIT $2"  # noqa: S608
_LOCK_MESSAGES = f"""SELECT {_COLUMNS}, {_PLAIN} FROM messages
WHERE id = ANY($1) AND completed::bigint >= $2 AND completed::bigint <= $3 ORDER BY id FOR UPDATE"""  # noqa: S608
_HELD = """SELECT ggrid, detail, coalesce(released_to, ''), coalesce(released_by, '') FROM held
WHERE ggrid > $1 ORDER BY ggrid LIMIT $2"""
_LOCK_HELD = "SELECT detail FROM held WHERE ggrid = $1 FOR UPDATE"
_HELD_PLAIN = "SELECT tenant, verdict, sender, subject FROM held WHERE ggrid = $1"
_HELD_RECIPIENTS = "SELECT address FROM held_recipients WHERE ggrid = $1 ORDER BY address"
_SIGHTINGS = "SELECT scope, key, first, last, days, delivered, held FROM sightings WHERE key = ANY($1)"
_DELETE_SIGHTINGS = "DELETE FROM sightings WHERE scope = $1 AND key = ANY($2)"
_ENTRIES = """SELECT list_id, key, coalesce(shown, key), comment, modified_by FROM entries
WHERE (list_id, key) > ($1, $2) ORDER BY list_id, key LIMIT $3"""
_LISTS = "SELECT id, scope, name FROM lists"
_SET_COMMENT = "UPDATE entries SET comment = $3, modified_by = $4 WHERE list_id = $1 AND key = $2"
_SESSIONS = "SELECT created, seen, address, agent FROM sessions WHERE user_uid = $1 ORDER BY created"
_AUDIT = """SELECT id, time, actor_kind, actor_name, actor_id, action, scope, list, count, sample,
changes IS NOT NULL, changes FROM audit WHERE id > $1 ORDER BY id LIMIT $2"""
_AUDIT_CHANGES = "SELECT changes FROM audit WHERE id = $1"
_SET_AUDIT = "UPDATE audit SET actor_name = $2, sample = $3, changes = $4 WHERE id = $1"
_SEARCHES = "SELECT id, name, query FROM saved_searches WHERE id > $1 ORDER BY id LIMIT $2"
_DELETE_SEARCHES = "DELETE FROM saved_searches WHERE id = ANY($1)"
_NOTES = "SELECT id, said FROM message_notes WHERE id > $1 ORDER BY id LIMIT $2"
_DELETE_NOTES = "DELETE FROM message_notes WHERE id = ANY($1)"
_WORK = "SELECT id, results FROM bulk_actions WHERE id > $1 ORDER BY id LIMIT $2"
_LOCK_WORK = "SELECT id, results FROM bulk_actions WHERE id = ANY($1) FOR UPDATE"
_SET_WORK = "UPDATE bulk_actions SET results = $2 WHERE id = $1"

# Where recipients of held mail are on record, with what is shown of each row.
_OF_RECIPIENT: dict[str, str] = {
    "digests": "CAST(coalesce(sent, 0) AS TEXT)",
    "recipient_releases": "ggrid",
    "recipient_requests": "said",
    "recipient_entries": "sender",
}
_RECIPIENT_ROWS = "SELECT {1} FROM {0} WHERE address = $1 ORDER BY 1 LIMIT $2"
_ERASE_RECIPIENT = (
    "DELETE FROM digest_uses WHERE digest IN (SELECT id FROM digests WHERE address = $1)",
    *(f"DELETE FROM {table} WHERE address = $1" for table in _OF_RECIPIENT),  # noqa: S608
    "DELETE FROM recipient_entries WHERE sender = $1",
)
# Columns with names of users, what they wrote and what other servers said; few rows, or few different values.
# `tests/store/test_privacy_whole.py` fails for a column that neither this table nor a step below knows.
_AUTHORED: dict[str, tuple[str, ...]] = {
    "alert_definitions": ("modified_by",),
    "feed_definitions": ("modified_by",),
    "digest_settings": ("modified_by",),
    "digests": ("fault",),
    "config_versions": ("actor", "reason"),
    "config_draft": ("modified_by",),
    "held": ("deleted_by",),
    "look_backs": ("actor", "hits"),
    "look_back_queue": ("actor", "keys"),
    "message_notes": ("by_name",),
    "recipient_requests": ("said", "decided_by", "note"),
    "recipient_releases": ("released_by",),
    "removed_mail": ("reason", "by_name"),
    "sent_reports": ("destinations", "reason"),
    "training_reports": ("reporter", "mailbox"),
}
_VALUES = "SELECT DISTINCT {1} FROM {0} WHERE {1} LIKE '%@%'"
_SET_VALUE = "UPDATE {0} SET {1} = $2 WHERE {1} = $1"
_ALERTS = "SELECT name, settings FROM alert_definitions"
_LOCK_ALERT = "SELECT settings FROM alert_definitions WHERE name = $1 FOR UPDATE"
_SET_ALERT = "UPDATE alert_definitions SET settings = $2 WHERE name = $1"
_RULES = "SELECT scope, rules FROM rule_sets"
_LOCK_RULES = "SELECT rules FROM rule_sets WHERE scope = $1 FOR UPDATE"
_SET_RULES = "UPDATE rule_sets SET version = version + 1, rules = $2 WHERE scope = $1"
_REMOVED = "SELECT count(*) FROM removed_mail WHERE mailbox = $1"
_DELETE_REMOVED = "DELETE FROM removed_mail WHERE mailbox = $1"

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
            is_readable, record = _read_row(person, row)
            if record:
                found.append((row[0], record))
            unreadable += record is None and not is_readable
        return FoundRows(tuple(found), rows[-1][0] if len(rows) == STEP else None, unreadable)

    @change
    def erase_messages(self, person: Person, keys: Sequence[tuple[int, int]], pseudonym: str) -> Work[tuple[int, int]]:
        """Erase the address from these results, of each time of completion and row id; returns how many were deleted
        and how many changed."""
        rows = yield Read(_LOCK_MESSAGES, by_keys(keys))
        records = {row[0]: record for row in rows if (record := _read_row(person, row)[1])}
        alone = {uid: record for uid, record in records.items() if person.is_only_recipient(record.envelope)}
        yield from delete_by_keys([(record.completed, uid) for uid, record in alone.items()])
        for uid, record in records.items():
            if uid not in alone:
                yield from rewrite_message(uid, record, person.erase_from(record.detail, pseudonym))
        return len(alone), len(records) - len(alone)

    @large_query
    def held_about(self, person: Person, after: str = "") -> Work[FoundRows[HeldMessage, str]]:
        """Held and released mail that has the address anywhere."""
        rows = yield Read(_HELD, (after, STEP))
        found, unreadable = [], 0
        for ggrid, detail, released_to, released_by in rows:
            is_readable, is_found = _read(person, detail)
            is_found = is_found or person.is_in(f"{released_to}\n{released_by}")
            if is_readable and not is_found:
                continue
            mail = yield from _find_held(ggrid, is_readable=is_readable)
            is_about = mail is not None and (is_found or person.occurs(mail.record.detail))
            found += [mail] if mail and is_about else []
            unreadable += not is_readable and not is_about
        return FoundRows(tuple(found), rows[-1][0] if len(rows) == STEP else None, unreadable)

    @change
    def erase_held(
        self, person: Person, ggrid: str, pseudonym: str, by: Actor, *, delete: bool = False
    ) -> Work[HeldFate]:
        """Erase the address from held or released mail. With `delete`, held mail is deleted wherever the address is."""
        rows = yield Read(_LOCK_HELD, (ggrid,))
        is_readable = bool(rows) and _read(person, rows[0][0])[0]
        mail = yield from _find_held(ggrid, is_readable=is_readable)
        if mail is None or (mail.state == "releasing" and mail.lease >= now()):
            return "kept"
        ggrid, envelope = mail.record.ggrid, mail.record.envelope
        if person.is_only_recipient(envelope) or (delete and mail.state != "released"):
            yield from delete_held_rows([ggrid])
            yield from write_audit(now(), by, "quarantine.delete", envelope.tenant, count=1, sample=[ggrid])
            return "deleted"
        others = tuple(each for each in envelope.recipients if not person.is_address(each))
        if mail.state != "released":
            if len(others) == len(envelope.recipients):
                return "kept"
            without = msgspec.structs.replace(envelope, recipients=others)
            yield from rewrite_held(ggrid, msgspec.structs.replace(mail.record.detail, envelope=without))
            return "changed"
        release = mail.release and Release(
            mail.release.time,
            person.replace(mail.release.by, pseudonym),
            tuple(person.replace(each, pseudonym) for each in mail.release.recipients),
        )
        yield from rewrite_held(ggrid, person.erase_from(mail.record.detail, pseudonym), release)
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
    ) -> Work[tuple[tuple[FoundEntry, ...], tuple[int, str] | None]]:
        """List entries that have the address, in any scope."""
        rows = yield Read(_ENTRIES, (*after, ROWS))
        named = [row for row in rows if person.is_in("\n".join(row[1:]))]
        lists = {uid: (scope, name) for uid, scope, name in (yield Read(_LISTS))} if named else {}
        found = (_found_entry(person, row, *lists[row[0]]) for row in named if row[0] in lists)
        return tuple(found), (rows[-1][0], rows[-1][1]) if len(rows) == ROWS else None

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
    def audit_about(self, person: Person, after: int = 0) -> Work[tuple[tuple[AuditRecord, ...], int | None]]:
        """Records of the audit trail that have the address."""
        rows = yield Read(_AUDIT, (after, ROWS))
        found = tuple(
            parse_audit(row[:11])
            for row in rows
            if person.is_in(f"{row[3]}\n{row[9]}") or person.occurs(unpack_changes(row[11]))
        )
        return found, rows[-1][0] if len(rows) == ROWS else None

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

    @query
    def searches_about(
        self, person: Person, after: str = ""
    ) -> Work[tuple[tuple[tuple[str, str, str], ...], str | None]]:
        """Saved searches that have the address: id, name and query of each."""
        rows = yield Read(_SEARCHES, (after, ROWS))
        found = tuple((uid, name, query) for uid, name, query in rows if person.is_in(f"{name}\n{unquote_plus(query)}"))
        return found, rows[-1][0] if len(rows) == ROWS else None

    @change
    def erase_searches(self, ids: Sequence[str]) -> Work[int]:
        """Delete saved searches: without the address they would search for something else."""
        deleted: int = yield Write(_DELETE_SEARCHES, (Many(tuple(ids)),))
        return deleted

    @query
    def notes_about(self, person: Person, after: str = "") -> Work[tuple[tuple[tuple[str, str], ...], str | None]]:
        """Notes on messages that have the address: id and text of each."""
        rows = yield Read(_NOTES, (after, ROWS))
        found = tuple((uid, said) for uid, said in rows if person.is_in(said))
        return found, rows[-1][0] if len(rows) == ROWS else None

    @change
    def erase_notes(self, ids: Sequence[str]) -> Work[int]:
        """Delete notes on messages."""
        deleted: int = yield Write(_DELETE_NOTES, (Many(tuple(ids)),))
        return deleted

    @query
    def work_about(self, person: Person, after: str = "") -> Work[tuple[tuple[tuple[str, str], ...], str | None]]:
        """Actions on many messages whose results name the address, as the answer of a next hop may: id and results."""
        rows = yield Read(_WORK, (after, STEP))
        found = tuple((uid, results) for uid, results in rows if person.is_in(results))
        return found, rows[-1][0] if len(rows) == STEP else None

    @change
    def erase_work(self, person: Person, ids: Sequence[str], pseudonym: str) -> Work[int]:
        """Put the pseudonym into results of actions on many messages."""
        rows = yield Read(_LOCK_WORK, (Many(tuple(ids)),))
        for uid, results in rows:
            yield Write(_SET_WORK, (uid, person.replace(results, pseudonym)))
        return len(rows)

    @query
    def recipient_data_about(self, person: Person) -> Work[tuple[tuple[str, str], ...]]:
        """Digests, releases, requests and entries of a recipient: the table and some of each row."""
        found: list[tuple[str, str]] = []
        for table, shown in _OF_RECIPIENT.items():
            rows = yield Read(_RECIPIENT_ROWS.format(table, shown), (person.address, ROWS))
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
        """Where the address is that of a recipient of alerts or stands in their searches, or stands for somebody who
        has changed or decided something: the table, the column, and the value (of an alert its name, of rules the
        scope)."""
        found: list[tuple[str, str, str]] = []
        for name, settings in (yield Read(_ALERTS)):
            alert = msgspec.json.decode(settings)
            if any(map(person.is_in, (*alert.get("recipients", ()), alert.get("search", "")))):
                found.append(("alert_definitions", "settings", name))
        for scope, rules in (yield Read(_RULES)):
            if any(person.is_in(each.get(_CHANGED_BY, "")) for each in msgspec.json.decode(rules)):
                found.append(("rule_sets", "rules", scope))
        for table, columns in _AUTHORED.items():
            for column in columns:
                rows = yield Read(_VALUES.format(table, column))
                found += [(table, column, row[0]) for row in rows if person.is_in(row[0])]
        return tuple(found)

    @change
    def erase_settings(self, person: Person, found: Sequence[tuple[str, str, str]], pseudonym: str) -> Work[int]:
        """Take the address out of the recipients of alerts, and put the pseudonym into their searches and for who has
        changed something."""
        changed = 0
        for table, column, value in found:
            if column == "settings":
                changed += yield from _erase_from_alert(person, value, pseudonym)
            elif column == "rules":
                changed += yield from _erase_from_rules(person, value, pseudonym)
            elif column in _AUTHORED[table]:
                replaced = person.replace(value, pseudonym)
                changed += bool((yield Write(_SET_VALUE.format(table, column), (value, replaced))))
        return changed

    @change
    def note(self, action: str, by: Actor, pseudonym: str = "", count: int = 0) -> Work[None]:
        """Write to the audit trail that data of a person were exported or erased, without the address."""
        yield from write_audit(now(), by, f"privacy.{action}", count=count, sample=[pseudonym] if pseudonym else [])


# Who has changed a rule of the web interface last, in the JSON of the rules.
_CHANGED_BY = "modifiedBy"


def _erase_from_alert(person: Person, name: str, pseudonym: str) -> Work[int]:
    rows = yield Read(_LOCK_ALERT, (name,))
    if not rows:
        return 0
    settings = msgspec.json.decode(rows[0][0])
    settings["recipients"] = [each for each in settings.get("recipients", ()) if not person.is_in(each)]
    settings["search"] = person.replace(settings.get("search", ""), pseudonym)
    yield Write(_SET_ALERT, (name, msgspec.json.encode(settings).decode()))
    return 1


def _erase_from_rules(person: Person, scope: str, pseudonym: str) -> Work[int]:
    rows = yield Read(_LOCK_RULES, (scope,))
    if not rows:
        return 0
    rules = msgspec.json.decode(rows[0][0])
    if not any(person.is_in(each.get(_CHANGED_BY, "")) for each in rules):
        return 0  # another part of the same storage has done it
    for each in rules:
        each[_CHANGED_BY] = person.replace(each.get(_CHANGED_BY, ""), pseudonym)
    yield Write(_SET_RULES, (scope, msgspec.json.encode(rules).decode()))
    return 1


def _read(person: Person, packed: bytes) -> tuple[bool, bool]:
    """Whether a packed record can be read, and whether it has the address."""
    try:
        plain = decompress(packed)
        detail = DETAILS.decode(plain)
    except UNREADABLE:
        return False, False
    return True, person.may_be_in(plain) and person.occurs(detail)


def _read_row(person: Person, row: Row) -> tuple[bool, MessageRecord | None]:
    """Whether the record of a result can be read, and the result if it has the address: in its record, in its header
    section, or, where the record cannot be read, in the columns beside it."""
    packed, header = row[6:8]
    is_readable, is_found = _read(person, packed)
    if is_readable and not is_found and (header is None or not _has_header(person, header)):
        return True, None
    record = parse_record(*row[1:7])
    if is_readable:
        return True, record
    record = _complete(record, row[8:])
    return False, record if person.occurs(record.detail) or (header and _has_header(person, header)) else None


def _has_header(person: Person, packed: bytes) -> bool:
    try:
        # Bytes that are no UTF-8 become signs.
        return person.is_in(decompress(packed).decode("utf-8", "replace"))
    except UNREADABLE:
        return False


def _complete(record: MessageRecord, plain: Row) -> MessageRecord:
    """A record whose packed part cannot be read, with what the columns say."""
    tenant, verdict, decision, sender, recipients, subject = plain
    addresses = msgspec.json.decode(recipients, type=tuple[str, ...])
    report = msgspec.structs.replace(record.report, verdict=verdict, decision=decision, subject=subject)
    return msgspec.structs.replace(record, envelope=Envelope(sender, addresses, tenant=tenant), report=report)


def _find_held(ggrid: str, *, is_readable: bool) -> Work[HeldMessage | None]:
    """Held or released mail, with what its columns say where its record cannot be read."""
    mail = yield from find_held(ggrid, None)
    if mail is None or is_readable:
        return mail
    ((tenant, verdict, sender, subject),) = yield Read(_HELD_PLAIN, (ggrid,))
    addresses = [address for (address,) in (yield Read(_HELD_RECIPIENTS, (ggrid,)))]
    plain = (tenant, verdict, "quarantine", sender, msgspec.json.encode(addresses), subject)
    return msgspec.structs.replace(mail, record=_complete(mail.record, plain))


def _replace_values(person: Person, value: ChangedValue, pseudonym: str) -> ChangedValue:
    texts = (None if each is None else person.replace(each, pseudonym) for each in (value.before, value.after))
    return ChangedValue(person.replace(value.what, pseudonym), *texts)


def _found_entry(person: Person, row: Row, scope: str, name: str) -> FoundEntry:
    list_id, key, shown, comment, author = row
    is_entry = person.is_in(f"{key}\n{shown}")
    return FoundEntry(list_id, scope or None, name, key, shown, comment, author, is_entry)
