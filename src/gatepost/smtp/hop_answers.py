"""What the next hops of a route answer to mail: counted by stage, and judged by the share of the last minutes.

A next hop that can be reached may still take nothing: a full mailbox store, a database that is away behind it, a relay
right that was lost. Its answers to MAIL, RCPT and DATA are the client's, so nothing fails here, and only these counts
show it.

An answer is `2xx`, `4xx`, `5xx`, `unknownRecipient` for a mailbox that does not exist, or `none` where the next hop
hung up or said nothing in time. Unknown recipients are never trouble: senders guess addresses. Permanent refusals need
a larger share than temporary ones, because a next hop refuses senders and messages for good reasons too.

The processes of a node judge together: each counts in cells of its own, which all of them read (`HopCells`). So the
share is that of the node, whichever process is asked, and a process that saw no mail of a route knows what the others
were answered, and whether they could reach it.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias

from gatepost.process.node_memory import NodeMemory
from gatepost.smtp.next_hop import NextHopError
from gatepost.smtp.replies import ENHANCED_STATUS, SmtpReply

Stage: TypeAlias = Literal["MAIL", "RCPT", "DATA"]
Answer: TypeAlias = Literal["2xx", "4xx", "5xx", "unknownRecipient", "none"]

STAGES: tuple[Stage, ...] = ("MAIL", "RCPT", "DATA")
ANSWERS: tuple[Answer, ...] = ("2xx", "4xx", "5xx", "unknownRecipient", "none")

# The time that is judged, in slices that are forgotten one by one.
SLICE_SECONDS, SLICES = 15.0, 20
# So many answers of that time, and this share of all of one stage, are more than an accident.
MIN_TEMPORARY, TEMPORARY_SHARE = 5, 0.2
MIN_PERMANENT, PERMANENT_SHARE = 10, 0.5


_KINDS: tuple[tuple[Stage, Answer], ...] = tuple((stage, answer) for stage in STAGES for answer in ANSWERS)
_PLACES = {kind: place for place, kind in enumerate(_KINDS)}
# What a process has of a route: whether it cannot reach it, the last answer of each kind, and the slices, each with its
# number and its counts.
_SAID = 1
_SLICES_START = _SAID + len(_KINDS)
_SLICE_WIDTH = 1 + len(_KINDS)
_WIDTH = _SLICES_START + SLICES * _SLICE_WIDTH
# Routes, with their next hops, since the node was started, whose answers are counted over its processes. Each process
# judges more than these alone.
MAX_ROUTES = 256

Column: TypeAlias = memoryview | list[int]


class HopColumns:
    """The cells of one route: those of all processes, of which this one writes only its own."""

    def __init__(self, columns: Sequence[Column], own: int = 0) -> None:
        self.all, self.own = tuple(columns), columns[own]
        # What a process before this one has left of a next hop that it could not reach.
        self.own[0] = 0

    @property
    def others(self) -> Sequence[Column]:
        """The cells of the other processes."""
        return [each for each in self.all if each is not self.own]


def _own_columns() -> HopColumns:
    """The cells of a process that is alone."""
    return HopColumns(([0] * _WIDTH,))


class HopCells:
    """The cells of all routes that the processes of a node share; made before the node forks. What a process has
    counted stays when it ends: its successor goes on with it."""

    def __init__(self, memory: NodeMemory) -> None:
        self._memory = memory
        self._keys = memory.allocate(MAX_ROUTES)
        self._columns = tuple(memory.allocate(MAX_ROUTES * _WIDTH) for _ in range(memory.members))

    def open(self, name: str) -> HopColumns | None:
        """Return the cells of a route; its name has to say where it leads. None where there is no room: places are not
        given to other routes, whose answers would be mixed with those of one that is still in use."""
        digest = self._memory.digest(name)
        with self._memory:
            keys = self._keys.tolist()
            known = digest if digest in keys else 0
            if known not in keys:
                return None
            place = keys.index(known)
            self._keys[place] = digest
        cut = [column[place * _WIDTH : (place + 1) * _WIDTH] for column in self._columns]
        return HopColumns(cut, self._memory.member)


def _slice_now(moment: float) -> int:
    """The number of the slice that a moment is in; 0 is none."""
    return int(moment / SLICE_SECONDS) + 1


class HopAnswers:
    """The answers that one route got. `total` has all that this process got since the route was built; what is judged
    is what all processes of the node got. The clock is the same for all of them."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, columns: HopColumns | None = None) -> None:
        self._clock = clock
        self._columns = columns or _own_columns()
        self.total: Counter[tuple[Stage, Answer]] = Counter()

    def count(self, stage: Stage, said: SmtpReply | None) -> None:
        """Count one answer; None where the next hop gave none."""
        key = stage, _classify(stage, said)
        self.total[key] += 1
        own, number = self._columns.own, _slice_now(self._clock())
        start = _SLICES_START + number % SLICES * _SLICE_WIDTH
        if own[start] != number:
            # Nobody adds a slice up whose number is old, so that it is emptied first.
            own[start] = 0
            for place in range(start + 1, start + _SLICE_WIDTH):
                own[place] = 0
            own[start] = number
        own[start + 1 + _PLACES[key]] += 1
        if said is not None and not said.positive:
            own[_SAID + _PLACES[key]] = _pack_code(said)

    def note_reached(self, reached: bool) -> None:
        """Tell the other processes whether this one can reach a next hop of the route."""
        self._columns.own[0] = int(not reached)

    @property
    def is_lost_elsewhere(self) -> bool:
        """Whether another process of the node can reach no next hop of the route."""
        return any(column[0] for column in self._columns.others)

    def count_promise(self, stage: Stage, promise: asyncio.Future[SmtpReply]) -> None:
        """Count the answer of a promise that is kept or broken; one that was cancelled says nothing."""
        if promise.cancelled():
            return
        fault = promise.exception()
        if fault is None:
            self.count(stage, promise.result())
        elif isinstance(fault, NextHopError):
            self.count(stage, None)

    @property
    def trouble(self) -> str:
        """What the next hop answers instead of taking mail, as the end of a sentence that starts with it; "" where it
        takes most of it."""
        recent = self._sum()
        if not any(count for (_, answer), count in recent.items() if answer in ("4xx", "5xx", "none")):
            return ""
        return next((said for stage in STAGES if (said := self._judge(stage, recent))), "")

    def _sum(self) -> dict[tuple[Stage, Answer], int]:
        """The answers of the last minutes, over all processes."""
        number = _slice_now(self._clock())
        counts = [0] * len(_KINDS)
        for column in self._columns.all:
            for start in range(_SLICES_START, _WIDTH, _SLICE_WIDTH):
                if number - SLICES < column[start] <= number:
                    found = column[start + 1 : start + _SLICE_WIDTH]
                    counts = [before + more for before, more in zip(counts, found, strict=True)]
        return dict(zip(_KINDS, counts, strict=True))

    def _judge(self, stage: Stage, recent: dict[tuple[Stage, Answer], int]) -> str:
        whole = sum(recent[stage, answer] for answer in ANSWERS)
        late, lost, refused = recent[stage, "4xx"], recent[stage, "none"], recent[stage, "5xx"]
        worst: Answer
        if late + lost >= max(MIN_TEMPORARY, whole * TEMPORARY_SHARE):
            worst = "4xx" if late >= lost else "none"
        elif refused >= max(MIN_PERMANENT, whole * PERMANENT_SHARE):
            worst = "5xx"
        else:
            return ""
        times = recent[stage, worst]
        often = f"{times:,} of {whole:,} times in the last {SLICES * SLICE_SECONDS / 60:.0f} minutes"
        if worst == "none":
            return f"hangs up or does not answer at {stage}, {often}"
        place = _SAID + _PLACES[stage, worst]
        packed = next((column[place] for column in (self._columns.own, *self._columns.others) if column[place]), 0)
        return f"answers {_describe_code(packed) or worst} to {stage}, {often}"


def is_unknown_recipient(said: SmtpReply) -> bool:
    """Whether a reply to RCPT says that there is no such mailbox: 5.1.x (RFC 3463 section 3.2), or no status code."""
    if said.code < 500 or not said.lines:
        return False
    status = ENHANCED_STATUS.match(said.lines[0])
    return said.lines[0].startswith(b"5.1.") if status else said.code in (550, 551, 553)


def _classify(stage: Stage, said: SmtpReply | None) -> Answer:
    if said is None:
        return "none"
    if stage == "RCPT" and is_unknown_recipient(said):
        return "unknownRecipient"
    # What is neither is an answer that cannot be used, and the client is told to come again.
    return "2xx" if said.positive else "5xx" if 500 <= said.code < 600 else "4xx"


# A reply code and a status code (RFC 3463: three numbers, the last two of up to three digits) as one number.
_STATUS = 10_000_000


def _pack_code(said: SmtpReply) -> int:
    """Return code and status code of a reply, without its text, which may name a recipient."""
    status = ENHANCED_STATUS.match(said.lines[0]) if said.lines else None
    first, second, third = map(int, status[0].split(b".")) if status else (0, 0, 0)
    return said.code * _STATUS + first * 1_000_000 + second * 1_000 + third


def _describe_code(packed: int) -> str:
    """Return what was packed for people; "" for nothing."""
    code, status = divmod(packed, _STATUS)
    if not status:
        return str(code) if code else ""
    return f"{code} {status // 1_000_000}.{status // 1_000 % 1_000}.{status % 1_000}"
