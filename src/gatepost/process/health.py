"""The health of a process as one value: a state, and its reasons.

Parts of a process note in one ledger what is wrong with them, and whoever tells people or programs reads it: the status
of the queue, `/readyz`, metrics, events, pages, `gatepost nodes` and `gatepost doctor` have the same words. `PARTS` is
the whole of what can be wrong. A reason names no address and no person, since clients are told it; the log has more.
That of `configuration`, which no client is told, says what a check of the files has said.

A reason of `GREEN` is a warning: mail flows, and an operator should look at something. A fault is logged once when it
begins and once when it is over, however often its sentence changes meanwhile.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import Annotated, Literal, NamedTuple, TypeAlias, get_args

import msgspec
from msgspec import Meta

from gatepost.process.logs import Logger
from gatepost.times import date_time

log = Logger("gatepost")

State: TypeAlias = Literal["GREEN", "YELLOW", "RED"]
SEVERITY: dict[State, int] = {"GREEN": 0, "YELLOW": 1, "RED": 2}
# What a part that is no queue of messages can have: an event is told of each.
Component: TypeAlias = Literal[
    "storage", "disk", "certificate", "quarantine", "dns", "smtp", "milter", "spamd", "rspamd", "clock", "slots",
    "sender", "feeds", "configuration",
]  # fmt: skip
Code: TypeAlias = Literal[Component, "full", "throttling", "nextHop", "cores"]
COMPONENTS: tuple[Component, ...] = get_args(Component)
# What a core says of its slots: no fault while another core has some.
OF_SLOTS: tuple[Code, ...] = ("full", "throttling")


class Part(NamedTuple):
    """What a fault of a part means, what ends it, and whether it is logged: some come and go with each message."""

    state: State
    clears: str
    is_logged: bool = True


# What the log says when a fault begins and when it is over.
_LOGGED: dict[State, tuple[str, str]] = {
    "RED": ("no message can be taken to its end", "messages can be taken to their end again"),
    "YELLOW": ("next hops do not take mail", "next hops take mail again"),
    "GREEN": ("health warning", "health warning is over"),
}
_NO_MORE_PUT_OFF = Part("GREEN", "It clears after a minute in which nothing is put off.")
PARTS: dict[Code, Part] = {
    "storage": Part("RED", "It clears within two seconds after storage keeps a change again."),
    "disk": Part("RED", "It clears within two seconds after the disk takes files again."),
    "full": Part("RED", "It clears when a message ends and its slot is free.", is_logged=False),
    "throttling": Part("YELLOW", "It clears when messages end and fewer slots are in use.", is_logged=False),
    "nextHop": Part("YELLOW", "It clears after a few messages in a row that are taken; without mail, within a minute."),
    "cores": Part("YELLOW", "It clears when every core answers.", is_logged=False),
    "certificate": Part("GREEN", "It clears within a minute after the file is renewed."),
    "quarantine": Part("GREEN", "It clears within a minute after there is room and mail is held."),
    "dns": Part("GREEN", "It clears within a minute after name servers answer."),
    "smtp": _NO_MORE_PUT_OFF,
    "milter": _NO_MORE_PUT_OFF,
    "spamd": _NO_MORE_PUT_OFF,
    "rspamd": _NO_MORE_PUT_OFF,
    "clock": Part("GREEN", "It clears an hour after the last jump."),
    "slots": Part("GREEN", "It clears a minute after no message waits while processors are idle."),
    "sender": Part("GREEN", "It clears an hour after a sender was over its limit last.", is_logged=False),
    "feeds": Part("GREEN", "It clears within a minute after the next run that succeeds."),
    "configuration": Part("GREEN", "It clears with the next change that is taken over.", is_logged=False),
}


class Reason(msgspec.Struct, frozen=True):
    """Why a state is what it is, in the words of every output. One of `GREEN` is a warning: mail flows."""

    code: Annotated[str, Meta(description="The part that it is about")]
    state: Annotated[State, Meta(description="The state that it causes")]
    sentence: Annotated[str, Meta(description="What is wrong, without a full stop")]
    since: Annotated[str, Meta(description="Since when", extra_json_schema={"format": "date-time"})]
    clears: Annotated[str, Meta(description="What ends it")]

    def __str__(self) -> str:
        return f"{self.sentence}, since {self.since[:19]}Z. {self.clears}"


class Health(msgspec.Struct, frozen=True):
    """How something is: the worst state of its reasons, and the reasons, worst first."""

    state: State = "GREEN"
    reasons: tuple[Reason, ...] = ()

    @classmethod
    def of(cls, reasons: Iterable[Reason]) -> "Health":
        found = tuple(sorted(reasons, key=lambda reason: -SEVERITY[reason.state]))
        return cls(found[0].state, found) if found else WELL

    @property
    def fault(self) -> str:
        """Why no message can be taken to its end; "" if slots are all that lacks."""
        return "; ".join(each.sentence for each in self.reasons if each.state == "RED" and each.code != "full")

    @property
    def trouble(self) -> str:
        """What makes the state."""
        return "; ".join(each.sentence for each in self.reasons if each.state != "GREEN")


WELL = Health()


def make_reason(code: Code, sentence: str, since: int) -> Reason:
    """Return a reason with the state and the words of its part."""
    return Reason(code, PARTS[code].state, sentence, date_time(since), PARTS[code].clears)


class HealthLedger:
    """What the parts of a process have noted. `ask` tells what must be true at the moment somebody reads, such as why
    mail waits for a next hop: a client that was told 451 is no sooner told than the status. `look` looks at what takes
    time; those who are asked for the state await it before. `clock` is the time of day in seconds."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._noted: dict[Code, Reason] = {}
        self._until: dict[Code, float] = {}
        self.ask: Callable[[], Mapping[Code, str]] = dict
        self.look: Callable[[], Awaitable[object]] = partial(asyncio.sleep, 0)

    def note(self, code: Code, sentence: str, detail: str = "", seconds: float | None = None) -> None:
        """Note what is wrong with a part, for so many seconds or until it is noted otherwise; with "" nothing is.
        `detail` is for the log alone."""
        before = self._noted.get(code)
        if not sentence:
            if before is not None:
                self._end(code)
            return
        if seconds is not None:
            self._until[code] = self._clock() + seconds
        if before is None or before.sentence != sentence:
            made = make_reason(code, sentence, int(self._clock() * 1_000))
            since = before.since if before else made.since
            self._noted = {**self._noted, code: msgspec.structs.replace(made, since=since)}
        part = PARTS[code]
        if before is None and part.is_logged:
            tell = log.error if part.state == "RED" else log.warning
            tell(_LOGGED[part.state][0], component=code, reason=sentence, **({"detail": detail} if detail else {}))

    def _end(self, code: Code) -> None:
        self._noted = {name: reason for name, reason in self._noted.items() if name != code}
        self._until.pop(code, None)
        if PARTS[code].is_logged:
            log.info(_LOGGED[PARTS[code].state][1], component=code)

    def noted(self, code: Code) -> Reason | None:
        """What was noted last of a part."""
        return self._noted.get(code)

    @property
    def reasons(self) -> tuple[Reason, ...]:
        """Everything that is wrong at this moment."""
        for code, sentence in self.ask().items():
            self.note(code, sentence)
        for code in [each for each, until in self._until.items() if until <= self._clock()]:
            self._end(code)
        return tuple(self._noted.values())

    @property
    def health(self) -> Health:
        """The value of this moment."""
        return Health.of(self.reasons)
