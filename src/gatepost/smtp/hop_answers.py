"""What the next hops of a route answer to mail: counted by stage, judged by the share of the last minutes, and kept for
those who track a message, with the id in it.

A next hop that can be reached may still take nothing: a full mailbox store, a database that is away behind it, a relay
right that was lost. Its answers to MAIL, RCPT and DATA are the client's, so nothing fails here, and only these counts
show it.

An answer is `2xx`, `4xx`, `5xx`, `unknownRecipient` for a mailbox that does not exist, or `none` where the next hop
hung up or said nothing in time. Unknown recipients are never trouble: senders guess addresses. Permanent refusals need
a larger share than temporary ones, because a next hop refuses senders and messages for good reasons too.

The processes of a node judge together: each counts in cells of its own, which all of them read (`HopCells`). So the
share is that of the node, whichever process is asked, and a process that saw no mail of a route knows what the others
were answered, and whether they could reach it.

The reply to a message comes after the record of the message is on disk, and the client waits for it to be passed on.
Writing it down must not make the client wait for one more commit: replies are gathered and written once a second, all
in one transaction. A process that is killed loses those of the last second; their messages then have no delivery on
record, which is what storage says of them. The log line of each message has the reply too. While storage is away,
replies wait in memory, up to `MAX_WAITING`; the oldest are dropped first.
"""

import asyncio
import re
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Literal, TypeAlias

from gatepost.process.logs import Logger
from gatepost.process.node_memory import NodeMemory
from gatepost.process.periodic import PeriodicWork
from gatepost.smtp.next_hop import NextHopError
from gatepost.smtp.replies import ENHANCED_STATUS, SmtpReply
from gatepost.store.errors import StorageError
from gatepost.store.message_records import MAX_REPLY, Delivery

log = Logger("gatepost.guard")

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


FLUSH_SECONDS = 1.0
MAX_WAITING = 20_000
# Deliveries of one transaction: other changes wait for it.
BATCH = 500

# An id is one word; what else a reply says is not one.
_ID = r"([A-Za-z0-9][A-Za-z0-9._+/-]{3,99})"
_FORMS = tuple(
    re.compile(form, re.ASCII | re.IGNORECASE)
    for form in (
        rf"\bqueued as {_ID}",  # Postfix, amavis, rspamd
        rf"\bid={_ID}",  # Exim: OK id=1tAbCd-00000001234-5xYz
        rf"\[InternalId={_ID}",  # Exchange
        rf"\breference {_ID}",  # Gatepost
        rf"\b(?:with|queue) id:? {_ID}",  # Stalwart, MailEnable
        rf"\bqueued \({_ID}\)",  # Haraka
        rf"^{_ID} Message accepted for delivery",  # sendmail, OpenSMTPD
        rf"^<[^<>]{{1,320}}> {_ID} Saved",  # Dovecot over LMTP
        rf"^ok:? +Message {_ID} accepted",  # Cisco
        r"^ok +(\d{6,12} qp \d{1,10})\b",  # qmail
        rf"^ok +\d{{6,12}} {_ID} - gsmtp",  # Google
    )
)
_ODD = re.compile(r"[^ -~]")


def render_reply(reply: SmtpReply) -> str:
    """Return the text of a reply on one line, cut, and without characters that a terminal would obey."""
    text = b" ".join(reply.lines)[: MAX_REPLY * 2].decode("utf-8", "replace")
    return _ODD.sub("?", text)[:MAX_REPLY].strip()


def find_queue_id(reply: SmtpReply) -> str:
    """Return the id that a server gave a message that it has accepted; "" if its reply names none."""
    if not reply.positive:
        return ""
    for line in reply.lines[:5]:
        text = ENHANCED_STATUS.sub(b"", line[:MAX_REPLY].strip(), count=1).decode("ascii", "replace").strip()
        for form in _FORMS:
            if found := form.search(text):
                return found[1].rstrip(".")
    return ""


class DeliveryLog:
    """Gathers replies, and writes them with `record` from `start` to `stop`. It belongs to one event loop."""

    def __init__(self, record: Callable[[Sequence[Delivery]], Awaitable[None]]) -> None:
        self._record = record
        self._waiting: deque[Delivery] = deque()
        failed = "replies of next hops could not be written"
        self._writing = PeriodicWork(self.flush, FLUSH_SECONDS, failed, log, waits_first=True)
        self._failing = False
        self.written = self.dropped = 0

    def note(self, delivery: Delivery) -> None:
        """Keep a reply; it is written within a second."""
        if len(self._waiting) >= MAX_WAITING:
            self._waiting.popleft()
            self.dropped += 1
        self._waiting.append(delivery)

    def start(self) -> None:
        """Write from now on."""
        self._writing.start()

    async def stop(self) -> None:
        await self._writing.finish()
        await self.flush()

    async def flush(self) -> None:
        """Write what was noted; what storage does not take now is tried again."""
        while self._waiting:
            batch = [self._waiting.popleft() for _ in range(min(BATCH, len(self._waiting)))]
            try:
                await self._record(batch)
            except StorageError as fault:
                self._waiting.extendleft(reversed(batch))
                if not self._failing:
                    log.warning("replies of next hops wait to be written", count=len(batch), reason=str(fault))
                self._failing = True
                return
            self.written += len(batch)
            self._failing = False
