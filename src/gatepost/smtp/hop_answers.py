"""What the next hops of a route answer to mail: counted by stage, and judged by the share of the last minutes.

A next hop that can be reached may still take nothing: a full mailbox store, a database that is away behind it, a relay
right that was lost. Its answers to MAIL, RCPT and DATA are the client's, so nothing fails here, and only these counts
show it.

An answer is `2xx`, `4xx`, `5xx`, `unknownRecipient` for a mailbox that does not exist, or `none` where the next hop
hung up or said nothing in time. Unknown recipients are never trouble: senders guess addresses. Permanent refusals need
a larger share than temporary ones, because a next hop refuses senders and messages for good reasons too.
"""

import asyncio
import time
from collections import Counter, deque
from collections.abc import Callable
from typing import Literal, NamedTuple, TypeAlias

from gatepost.smtp.flow_control import is_unknown_recipient
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


class _Slice(NamedTuple):
    number: int
    counts: Counter[tuple[Stage, Answer]]


class HopAnswers:
    """The answers that one route got. `total` has all of them since the route was built."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._slices: deque[_Slice] = deque()
        # The last answer that did not take mail, by stage and kind: its code and status code, without its text, which
        # may name a recipient.
        self._said: dict[tuple[Stage, Answer], str] = {}
        self.total: Counter[tuple[Stage, Answer]] = Counter()

    def count(self, stage: Stage, said: SmtpReply | None) -> None:
        """Count one answer; None where the next hop gave none."""
        key = stage, _classify(stage, said)
        self.total[key] += 1
        number = int(self._clock() / SLICE_SECONDS)
        if not self._slices or self._slices[-1].number != number:
            self._slices.append(_Slice(number, Counter()))
            self._forget(number)
        self._slices[-1].counts[key] += 1
        if said is not None and not said.positive:
            self._said[key] = _describe_code(said)

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
        self._forget(int(self._clock() / SLICE_SECONDS))
        if not any(key[1] in ("4xx", "5xx", "none") for each in self._slices for key in each.counts):
            return ""
        recent: Counter[tuple[Stage, Answer]] = Counter()
        for each in self._slices:
            recent.update(each.counts)
        return next((said for stage in STAGES if (said := self._judge(stage, recent))), "")

    def _judge(self, stage: Stage, recent: Counter[tuple[Stage, Answer]]) -> str:
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
        return f"answers {self._said.get((stage, worst), worst)} to {stage}, {often}"

    def _forget(self, number: int) -> None:
        while self._slices and self._slices[0].number <= number - SLICES:
            self._slices.popleft()


def _classify(stage: Stage, said: SmtpReply | None) -> Answer:
    if said is None:
        return "none"
    if stage == "RCPT" and is_unknown_recipient(said):
        return "unknownRecipient"
    # What is neither is an answer that cannot be used, and the client is told to come again.
    return "2xx" if said.positive else "5xx" if 500 <= said.code < 600 else "4xx"


def _describe_code(said: SmtpReply) -> str:
    status = ENHANCED_STATUS.match(said.lines[0]) if said.lines else None
    return f"{said.code} {status[0].decode('ascii').strip()}" if status else str(said.code)
