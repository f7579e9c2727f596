"""What the next hops of a route answer to mail: counted by stage, judged by the share of the last minutes, and kept for
those who track a message, with the id in it.

A next hop that can be reached may still take nothing: a full mailbox store, a database that is away behind it, a relay
right that was lost. Its answers to MAIL, RCPT and DATA are the client's, so nothing fails here, and only these counts
show it.

An answer is `2xx`, `4xx`, `5xx`, `unknownRecipient` for a mailbox that does not exist, or `none` where the next hop
hung up or said nothing in time. Unknown recipients are never trouble: senders guess addresses. Permanent refusals need
a larger share than temporary ones, because a next hop refuses senders and messages for good reasons too.

A next hop that was ill is well again after a few messages in a row that it takes: the share of five minutes would
outlive the fault. While no mail comes it is tried instead (`Relay.try_out`), and then one message that it does not take
is enough to be ill again. After a relapse it needs twice as many, so that one which takes some mail stays ill.

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
from gatepost.process.periodic import Outage, PeriodicWork
from gatepost.smtp.next_hop import NextHopError
from gatepost.smtp.replies import ENHANCED_STATUS, SmtpReply
from gatepost.store.errors import StorageError
from gatepost.store.message_records import MAX_REPLY, Delivery

log = Logger("gatepost.guard")

Stage: TypeAlias = Literal["MAIL", "RCPT", "DATA"]
Answer: TypeAlias = Literal["2xx", "4xx", "5xx", "unknownRecipient", "none"]
_Kind: TypeAlias = tuple[Stage, Answer]

STAGES: tuple[Stage, ...] = ("MAIL", "RCPT", "DATA")
ANSWERS: tuple[Answer, ...] = ("2xx", "4xx", "5xx", "unknownRecipient", "none")

# The time that is judged, in slices that are forgotten one by one.
SLICE_SECONDS, SLICES = 15.0, 20
SPAN_SECONDS = SLICE_SECONDS * SLICES
# So many answers of that time, and this share of all of one stage, are more than an accident.
MIN_TEMPORARY, TEMPORARY_SHARE = 5, 0.2
MIN_PERMANENT, PERMANENT_SHARE = 10, 0.5
# So many messages that are taken in a row end it, twice as many after each relapse; and how often an ill next hop that
# gets no mail is tried.
WELL_AFTER, MOST_WELL_AFTER = 3, 48
TRY_SECONDS = 10.0


class HopAnswers:
    """The answers that one route got: `total` are all since the route was built, and those of the last minutes are
    judged. `trouble` is what the next hop answers instead of taking mail, as the end of a sentence that starts with it;
    "" where it takes most of it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        # The number of a slice, and its answers; the newest is the last.
        self._slices: deque[tuple[int, Counter[_Kind]]] = deque(maxlen=SLICES)
        # The last reply of each kind that was not positive: its code and status code, without its text, which may name
        # a recipient.
        self._said: dict[_Kind, str] = {}
        self.total: Counter[_Kind] = Counter()
        self.trouble = ""
        # While it is ill: which answers are the illness, how many good signs have come in a row of those that are
        # needed, and when the last sign of either sort came.
        self._bad: tuple[Answer, ...] = ()
        self._good, self._needed, self._seen_at, self._well_at = 0, WELL_AFTER, -SPAN_SECONDS, -SPAN_SECONDS
        # What its illness was, until it takes a message: that it was well when it was tried shows less.
        self._suspected: tuple[Answer, ...] = ()

    def count(self, stage: Stage, said: SmtpReply | None) -> None:
        """Count one answer; None where the next hop gave none."""
        kind = stage, _classify(stage, said)
        self.total[kind] += 1
        number = int(self._clock() / SLICE_SECONDS)
        if not self._slices or self._slices[-1][0] != number:
            self._slices.append((number, Counter()))
        self._slices[-1][1][kind] += 1
        if said is not None and not said.positive:
            self._said[kind] = _describe_code(said)
        if kind == ("DATA", "2xx"):
            self._suspected = ()
            self._note_good()
        elif kind[1] in self._bad:
            self._note_bad()
        elif not self.trouble and kind[1] in ("4xx", "5xx", "none"):
            self._look()

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
    def is_to_be_tried(self) -> bool:
        """Whether the next hop is ill and no mail shows how it is now."""
        return bool(self.trouble) and self._clock() - self._seen_at >= TRY_SECONDS

    def note_try(self, said: Sequence[SmtpReply | None]) -> None:
        """Note what the next hops said to a message that begins, when they were tried."""
        if {_classify("MAIL", each) for each in said} & {*self._bad, "none"}:
            self._note_bad()
        else:
            self._note_good()

    def _note_bad(self) -> None:
        self._good, self._seen_at, self._suspected = 0, self._clock(), self._bad

    def _note_good(self) -> None:
        if not self.trouble:
            return
        self._good, self._seen_at = self._good + 1, self._clock()
        if self._good >= self._needed:
            self._slices.clear()
            self.trouble, self._bad, self._well_at = "", (), self._clock()

    def _look(self) -> None:
        """Look whether the next hop is ill by the answers of the last minutes."""
        now = self._clock()
        oldest, recent = int(now / SLICE_SECONDS) - SLICES, Counter[_Kind]()
        for number, answers in self._slices:
            if number > oldest:
                recent.update(answers)
        found = next((each for stage in STAGES if (each := self._judge(stage, recent))), None)
        if found is None:
            return
        stage, worst = found
        is_relapse = now - self._well_at < SPAN_SECONDS
        self._needed = min(self._needed * 2, MOST_WELL_AFTER) if is_relapse else WELL_AFTER
        self._bad = ("5xx",) if worst == "5xx" else ("4xx", "none")
        said = "hangs up or does not answer at" if worst == "none" else f"answers {self._said.get(found) or worst} to"
        self.trouble = f"{said} {stage}"
        self._note_bad()

    def _judge(self, stage: Stage, recent: Counter[_Kind]) -> _Kind | None:
        """Return the answer at a stage that is the illness; None where the stage is well."""
        whole = sum(recent[stage, answer] for answer in ANSWERS)
        late, lost, refused = recent[stage, "4xx"], recent[stage, "none"], recent[stage, "5xx"]
        least = 1 if "4xx" in self._suspected else MIN_TEMPORARY
        if late + lost >= max(least, whole * TEMPORARY_SHARE):
            return stage, "4xx" if late >= lost else "none"
        least = 1 if "5xx" in self._suspected else MIN_PERMANENT
        return (stage, "5xx") if refused >= max(least, whole * PERMANENT_SHARE) else None


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


def _describe_code(said: SmtpReply) -> str:
    """Return code and status code of a reply for people; "" for a code that cannot be used."""
    status = ENHANCED_STATUS.match(said.lines[0]) if said.lines else None
    first, second, third = map(int, status[0].split(b".")) if status else (0, 0, 0)
    if first or second or third:
        return f"{said.code} {first}.{second}.{third}"
    return str(said.code) if said.code else ""


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
        failed = "replies of next hops wait to be written"
        self._writing = PeriodicWork(self.flush, FLUSH_SECONDS, failed, log, waits_first=True)
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
        async with Outage("replies of next hops are lost", log):
            await self.flush()

    async def flush(self) -> None:
        """Write what was noted; what storage does not take now is tried again. Raises `StorageError`."""
        while self._waiting:
            batch = [self._waiting.popleft() for _ in range(min(BATCH, len(self._waiting)))]
            try:
                await self._record(batch)
            except StorageError:
                self._waiting.extendleft(reversed(batch))
                raise
            self.written += len(batch)
