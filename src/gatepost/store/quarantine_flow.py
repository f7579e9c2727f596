"""What came into the quarantine within a period, what left it, and what was held by mistake.

Nothing counts these as they happen. What came in and is still held, or was released, stands in an index of held mail;
what people did stands in the audit trail, which has one record for each release, deletion and report. Both are read up
to a bound, newest first, and the answer says where there is more. Mail that expired leaves no record: only the metric
`gatepost_quarantine_expired_total` counts it.
"""

import msgspec

from gatepost.ids import canonical, id_time
from gatepost.store.engine import Operations, Read, Row, Work, normalize_scope, search
from gatepost.store.feedback import ACTION as REPORTED

# How far held mail is counted, and how many records of the audit trail are read, whatever they are about.
MAX_COUNTED = 10_000
EXAMINED = 5_000

_RELEASED, _DELETED, _RESTORED = "quarantine.release", "quarantine.delete", "quarantine.restore"
_GOOD = "should have been delivered"

_COUNT = "SELECT count(*) FROM (SELECT 1 FROM held WHERE {} ORDER BY {} LIMIT $1) AS counted"
_IN_ORDER = _COUNT.format("(gone, kept) >= ($2, $3) AND (gone, kept) < ($2, $4)", "gone DESC, kept DESC")
_OF_TENANT = _COUNT.format(
    "(gone, tenant, kept) >= ($2, $5, $3) AND (gone, tenant, kept) < ($2, $5, $4)",
    "gone DESC, tenant DESC, kept DESC",
)
_ACTIONS = "SELECT action, actor_kind, sample FROM audit WHERE {} ORDER BY {} LIMIT $1"
_ACTIONS_OF_ALL = _ACTIONS.format("time >= $2 AND time < $3", "time DESC, id DESC")
_ACTIONS_OF_TENANT = _ACTIONS.format(
    "(scope, time) >= ($4, $2) AND (scope, time) < ($4, $3)", "scope DESC, time DESC, id DESC"
)

_samples = msgspec.json.Decoder(tuple[str, ...])


class QuarantineFlow(msgspec.Struct, frozen=True):
    """Messages of a period, each counted once. `came_in` are those that were held since its beginning, and `still_held`
    those of them that are; `released` and `deleted` are what was done in it, whenever the message came, `by_recipients`
    the releases by a link of a digest. `mistaken` are those that came in and were released or reported as good. With
    `more`, these are the newest ones and there are others."""

    came_in: int = 0
    still_held: int = 0
    released: int = 0
    by_recipients: int = 0
    deleted: int = 0
    mistaken: int = 0
    more: bool = False


class QuarantineFlowStore(Operations):
    """Figures of the quarantine."""

    @search
    def quarantine_flow(self, tenant: str | None, since: int, until: int) -> Work[QuarantineFlow]:
        """Count what came into the quarantine of a tenant, or of all (None), and what left it; `since` <= time <
        `until`, which is now."""
        scope = normalize_scope(tenant)
        counts = []
        for gone in (0, 1):
            limits = (MAX_COUNTED + 1, gone, since, until)
            rows = yield Read(_OF_TENANT, (*limits, scope)) if scope else Read(_IN_ORDER, limits)
            counts.append(int(rows[0][0]))
        period = (EXAMINED + 1, since, until)
        actions = yield Read(_ACTIONS_OF_TENANT, (*period, scope)) if scope else Read(_ACTIONS_OF_ALL, period)
        done = _Done()
        for row in actions[:EXAMINED]:
            done.take(row)
        more = len(actions) > EXAMINED or max(counts) > MAX_COUNTED
        held, released = (min(count, MAX_COUNTED) for count in counts)
        return done.describe(held, released, since=since, more=more)


class _Done:
    """What people did with messages, from the newest record to the oldest."""

    def __init__(self) -> None:
        self._released: set[str] = set()
        self._by_recipients: set[str] = set()
        self._reported: set[str] = set()
        self._deleted: set[str] = set()
        # Whose deletion was taken back by a later record.
        self._settled: set[str] = set()

    def take(self, row: Row) -> None:
        """Take one record of the audit trail."""
        action, kind, sample = row
        if action not in (_RELEASED, _DELETED, _RESTORED, REPORTED):
            return
        ggrid, *said = _samples.decode(sample)
        if action == _RELEASED:
            self._released.add(ggrid)
            if kind == "recipient":
                self._by_recipients.add(ggrid)
        elif action == REPORTED:
            if _GOOD in said[:1]:
                self._reported.add(ggrid)
        elif ggrid not in self._settled:
            self._settled.add(ggrid)
            if action == _DELETED:
                self._deleted.add(ggrid)

    def describe(self, held: int, released: int, *, since: int, more: bool) -> QuarantineFlow:
        """Return the figures; `held` and `released` are rows of messages that came in."""
        # Rows of deleted messages do not stay, and ids say when their messages came.
        deleted = sum(1 for ggrid in self._deleted if _came(ggrid, since))
        mistaken = sum(1 for ggrid in self._released | self._reported if _came(ggrid, since))
        return QuarantineFlow(
            held + released + deleted,
            held,
            len(self._released),
            len(self._by_recipients),
            len(self._deleted),
            mistaken,
            more,
        )


def _came(ggrid: str, since: int) -> bool:
    return canonical(ggrid) is not None and id_time(ggrid) >= since
