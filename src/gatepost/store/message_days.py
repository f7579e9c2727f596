"""Days of messages: on PostgreSQL, what is stored of a message lies in the partition of the day of its analysis.

PostgreSQL reads only the partitions that the times in a statement allow. A row of a message is asked for with its time
of completion beside its number. An id says when the message came, and the analysis ends soon after; what is not found
in the days around that time is looked for in all of them. SQLite has no partitions: there the
word `@day`, with which statements name the time for this purpose alone, keeps the engine from choosing an index by it.

`postgres_days` makes and drops the partitions.
"""

from collections.abc import Sequence

from gatepost.ids import canonical, id_time
from gatepost.store.engine import DAY_MILLISECONDS, Many, Read, Work
from gatepost.store.sql import Row, Sql

ALWAYS = (-(1 << 62), 1 << 62)
# Clocks of two machines differ, and an analysis takes its time.
_BEFORE, _AFTER = 3_600_000, DAY_MILLISECONDS


def day_of(time: int) -> int:
    """The day of a time in Unix milliseconds, counted from 1970."""
    return time // DAY_MILLISECONDS


def span_of(ggrids: Sequence[str]) -> tuple[int, int]:
    """The times between which these messages were probably completed."""
    times = [id_time(ggrid) for ggrid in ggrids if canonical(ggrid)]
    return (min(times) - _BEFORE, max(times) + _AFTER) if len(times) == len(ggrids) > 0 else ALWAYS


def by_keys(keys: Sequence[Row]) -> tuple[Many, int, int]:
    """The parameters of a statement for messages whose times of completion and row ids are known, at least one: the
    row ids, and the span of times, with its end."""
    times = [completed for completed, _ in keys]
    return Many(tuple(uid for _, uid in keys)), min(times), max(times)


def read_by_ggrid(statement: Sql, ggrid: str, *others: object) -> Work[Sequence[Row]]:
    """Rows of one message. The parameters of the statement are its id, the span of times, and the others."""
    rows: Sequence[Row] = ()
    for span in dict.fromkeys((span_of((ggrid,)), ALWAYS)):
        rows = yield Read(statement, (ggrid, *span, *others))
        if rows:
            break
    return rows


def read_by_ggrids(statement: Sql, ggrids: Sequence[str]) -> Work[list[Row]]:
    """Rows of some messages, whose first column is the id."""
    found: list[Row] = []
    wanted = dict.fromkeys(ggrids)
    for span in dict.fromkeys((span_of(ggrids), ALWAYS)):
        if wanted:
            rows = yield Read(statement, (Many(tuple(wanted)), *span))
            found += rows
            for row in rows:
                wanted.pop(row[0], None)
    return found
