"""A reload of a node of several processes, as its parent leads it.

The parent reads the files once and sends the settings to every front. Each front builds what they need beside what it
serves with, and says that it is prepared or why it cannot be. Only when all are prepared does the parent have them take
over; otherwise all drop what they built, and the settings before stay in force in every process.
"""

import contextlib
import os
import pickle
import socket
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from gatepost.service import systemd
from gatepost.service.data_folder import StartError
from gatepost.service.plan import Plan
from gatepost.service.reloading import ReadFiles, ReloadOutcome, read_again, report_outcome
from gatepost.settings.faults import ConfigError

PREPARE, TAKE_OVER, DROP = b"prepare", b"take over", b"drop"
PREPARED, UNPREPARED = b"prepared", b"unprepared "
RELOAD, RESTART, OUTCOME = b"reload ", b"restart", b"outcome "
# What building everything may take on a machine that is busy.
PREPARE_SECONDS = 120.0
MAX_SETTINGS = 64 << 20


class NodeReload:
    """At most one reload at a time; one that is asked for meanwhile follows. `fronts` returns the control sockets of
    the processes that serve."""

    def __init__(self, plan: Plan, fronts: Callable[[], dict[int, socket.socket]]) -> None:
        self.plan = plan
        self._fronts = fronts
        self._read: ReadFiles | None = None
        self._waiting: set[int] = set()
        self._prepared: set[int] = set()
        self._asker: int | None = None
        self._next: tuple[Path | None, int | None] | None = None
        self.deadline: float | None = None

    def begin(self, folder: Path | None = None, asker: int | None = None) -> None:
        """Read the files and have every front prepare; `asker` is the front that gets the outcome."""
        if self._read:
            self._next = (folder, asker)
            return
        systemd.notify_reloading()
        self._asker = asker
        try:
            self._read = read = read_again(self.plan, folder)
        except (ConfigError, StartError) as fault:
            self._end(ReloadOutcome(False, str(fault)))
            return
        fronts = self._fronts()
        self._waiting, self._prepared = set(fronts), set()
        self.deadline = time.monotonic() + PREPARE_SECONDS
        for number, control in fronts.items():
            if not _send_settings(control, read.plan):
                self.handle(number, UNPREPARED + b"it has ended")
                return

    def handle(self, number: int, words: bytes) -> bool:
        """Take what a front says; returns whether it was about a reload."""
        if words.startswith(RELOAD):
            self.begin(Path(os.fsdecode(words.removeprefix(RELOAD))), number)
        elif words == PREPARED:
            if number in self._waiting:
                self._waiting.discard(number)
                self._prepared.add(number)
                if not self._waiting:
                    self._take_over()
        elif words.startswith(UNPREPARED):
            if self._read:
                self._give_up(words.removeprefix(UNPREPARED).decode("utf-8", "replace"))
        else:
            return False
        return True

    def note_end(self, number: int) -> None:
        """A front has ended: without it there is nothing to take over."""
        if self._read and number in self._waiting | self._prepared:
            self._give_up("a process of the node ended")

    def check_deadline(self) -> None:
        """Give up on fronts that do not get prepared."""
        if self.deadline is not None and time.monotonic() >= self.deadline:
            self._give_up("a process of the node did not get ready in time")

    def _take_over(self) -> None:
        assert self._read is not None
        self.plan = self._read.plan
        for number, control in self._fronts().items():
            # One that was started meanwhile has the settings before: it is started again.
            _send(control, TAKE_OVER if number in self._prepared else RESTART)
        self._end(self._read.outcome)

    def _give_up(self, reason: str) -> None:
        for control in self._fronts().values():
            _send(control, DROP)
        self._end(ReloadOutcome(False, reason))

    def _end(self, outcome: ReloadOutcome) -> None:
        read, self._read, self.deadline = self._read, None, None
        self._waiting, self._prepared = set(), set()
        report_outcome(self.plan, read, outcome)
        systemd.notify_ready("serves" if outcome.taken else "serves with the settings before: a file is faulty")
        if self._asker is not None and (control := self._fronts().get(self._asker)):
            _send(control, OUTCOME + _encode(outcome))
        if self._next:
            (folder, asker), self._next = self._next, None
            self.begin(folder, asker)


def _encode(outcome: ReloadOutcome) -> bytes:
    """Return an outcome that fits into a packet; what is left out stands in the log."""
    short = (outcome.reason[:2_000], outcome.changed[:10], outcome.restart[:10])
    return msgspec.json.encode(ReloadOutcome(outcome.taken, *short))


def _send(control: socket.socket, words: bytes) -> None:
    with contextlib.suppress(OSError):
        control.send(words)


def _send_settings(control: socket.socket, plan: Plan) -> bool:
    """Send settings as a file in memory: they may be larger than a packet."""
    descriptor = os.memfd_create("gatepost-settings", os.MFD_CLOEXEC)
    try:
        with os.fdopen(os.dup(descriptor), "wb") as stream:
            pickle.dump((plan.guard, plan.abby, plan.config), stream)
        socket.send_fds(control, [PREPARE], [descriptor])
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


def receive_settings(descriptors: Iterable[int], plan: Plan) -> Plan:
    """Return the plan that the parent has sent, in a front with this plan."""
    for descriptor in descriptors:
        with os.fdopen(descriptor, "rb") as stream:
            stream.seek(0)
            guard, abby, config = pickle.load(stream)  # noqa: S301  from the parent, through a descriptor of its own
            return msgspec.structs.replace(plan, guard=guard, abby=abby, config=config)
    return plan
