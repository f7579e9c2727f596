"""Held mail that one of its recipients has got, while it is held for the others.

A message is claimed for such a release as for any other (see `held_mail`), so releases of one message come one after
the other. When the last recipient has its copy, the message is released like one that went to all at once. What a
recipient says by releasing its own copy is that recipient's report and nobody else's: the sender does not become known
to the tenant by it.
"""

import msgspec

from gatepost.store.audit import Actor, write_audit
from gatepost.store.engine import Operations, Read, Work, Write, change, now, query, storable
from gatepost.store.held_mail import find_held
from gatepost.store.held_search import normalize_address
from gatepost.store.messages import MessageRecord, Release
from gatepost.store.sightings import note_release
from gatepost.store.training_pools import digest_of, teach_record

_SELECT = "SELECT address, released, released_by FROM recipient_releases WHERE ggrid = $1 ORDER BY released, address"
_INSERT = """INSERT INTO recipient_releases (ggrid, address, released, released_by) VALUES ($1, $2, $3, $4)
ON CONFLICT (ggrid, address) DO NOTHING"""
_GIVE_BACK = """UPDATE held SET state = 'held', holder = '', lease = 0
WHERE ggrid = $1 AND holder = $2 AND state = 'releasing'"""
_SET_RELEASED = """UPDATE held SET state = 'released', gone = 1, holder = '', lease = 0,
released = $2, released_by = $3, released_to = $4 WHERE ggrid = $1 AND state <> 'released'"""


class RecipientRelease(msgspec.Struct, frozen=True):
    """One recipient who has the message: since when, and by whose order."""

    address: str
    time: int
    by: str


class RecipientReleaseStore(Operations):
    """Which recipients have their copy of held mail."""

    @query
    def recipient_releases(self, ggrid: str) -> Work[tuple[RecipientRelease, ...]]:
        """The recipients who have got this message one by one, the first one first."""
        rows = yield Read(_SELECT, (storable(ggrid.lower()),))
        return tuple(RecipientRelease(*row) for row in rows)

    @change
    def mark_released_to(
        self, ggrid: str, recipient: str, by: Actor, release_id: str
    ) -> Work[tuple[RecipientRelease, bool]]:
        """Record that a recipient has its copy, once; `release_id` is the claim, which ends. Also says whether all
        recipients have theirs now, so that the bytes are no longer needed."""
        uid, address, moment = storable(ggrid.lower()), normalize_address(recipient), now()
        made = RecipientRelease(address, moment, storable(by.label))
        mail = yield from find_held(uid, None)
        if mail is None:
            return made, False
        if (yield Write(_INSERT, (uid, address, moment, made.by))):
            yield from _note(mail.record, recipient, by, release_id, moment)
        having = {row[0] for row in (yield Read(_SELECT, (uid,)))}
        recipients = tuple(map(storable, mail.record.envelope.recipients))
        if not set(map(normalize_address, recipients)) <= having:
            yield Write(_GIVE_BACK, (uid, release_id))
            return made, False
        encoded = msgspec.json.encode(recipients).decode()
        yield Write(_SET_RELEASED, (uid, moment, made.by, encoded))
        return made, True


def _note(record: MessageRecord, recipient: str, by: Actor, release_id: str, moment: int) -> Work[None]:
    """Put a release to one recipient on the audit trail, and into the pool of its tenant."""
    scope = record.envelope.tenant
    sample = (record.ggrid, release_id, storable(recipient))
    yield from write_audit(moment, by, "quarantine.release", scope, "", 1, sample)
    own = msgspec.structs.replace(record, envelope=msgspec.structs.replace(record.envelope, recipients=(recipient,)))
    is_own = by.kind == "recipient"
    # A pool has no address of a person: reporters are told apart by a digest.
    reporter = Actor("recipient", digest_of(normalize_address(recipient))) if is_own else by
    yield from teach_record(scope, reporter, own, "release", unwanted=False)
    if not is_own:
        yield from note_release(scope, record.report)


def as_release(made: RecipientRelease) -> Release:
    """The release of one recipient as that of a message."""
    return Release(made.time, made.by, (made.address,))
