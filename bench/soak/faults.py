"""What befalls the node, and when.

Faults that the node survives come one after another all the time; those that restart it come in
groups at each quarter, so that there are long stretches in which growth can be measured.
"""

import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable

import psutil

from bench.soak.node import SoakNode

# Below this a run is a trial of the benchmark itself: one restart at each quarter.
LONG_SECONDS = 1200.0
SOFT = ("database away", "worker", "disk full", "DNS silent", "loader", "worker")
HARD = (
    ("node", "stop", "node"),
    ("stop", "node", "stop"),
    ("node", "node", "stop"),
)
HARD_SHORT = (("node",), ("stop",), ("node",))


class Faults:
    """The schedule of one run. `happened` counts; `skipped` says what could not be done here."""

    def __init__(self, node: SoakNode, seconds: float) -> None:
        self._node, self._seconds = node, seconds
        self._random = random.Random(4)
        self._gap = max(12.0, seconds / 72)
        self.lasting = min(20.0, self._gap / 3)
        self._over = threading.Event()
        self.happened: Counter[str] = Counter()
        self.skipped: set[str] = set()

    def run(self, say: Callable[[str], None]) -> None:
        """Let everything happen in its time; return when the time is over and the node is well."""
        began = time.monotonic()
        quarters = [began + self._seconds * quarter / 4 for quarter in (1, 2, 3)]
        groups = list(HARD if self._seconds >= LONG_SECONDS else HARD_SHORT)
        number = 0
        # The last fault leaves time to recover.
        while time.monotonic() < began + self._seconds - self._gap:
            if quarters and time.monotonic() >= quarters[0]:
                quarters.pop(0)
                names = groups.pop(0)
            else:
                names = (SOFT[number % len(SOFT)],)
                number += 1
            for name in names:
                say(name)
                self._happen(name)
                self._over.wait(self._gap if len(names) == 1 else min(30.0, self._gap))
                if self._over.is_set():
                    say("stopped")
                    return
        self._over.wait(max(0.0, began + self._seconds - time.monotonic()))
        say("end")

    def stop(self) -> None:
        """Let nothing more happen; what is counted so far is the result."""
        self._over.set()

    def _happen(self, name: str) -> None:
        node = self._node
        if (name == "disk full" and not node.has_disk) or (name == "database away" and not node.has_database):
            self.skipped.add(name)
            return
        self.happened[name] += 1
        if name in ("worker", "loader"):
            self._kill_one(name)
        elif name == "node":
            node.kill_all()
            node.start()
        elif name == "stop":
            node.stop()
            node.start()
        elif name == "disk full":
            node.fill_disk()
            self._over.wait(self.lasting)
            node.free_disk()
        elif name == "DNS silent":
            node.dns.answering = False
            self._over.wait(self.lasting)
            node.dns.answering = True
        else:
            node.stop_database()
            self._over.wait(self.lasting)
            node.start_database()

    def _kill_one(self, role: str) -> None:
        several = self._node.processes()[role]
        if several:
            try:
                self._random.choice(several).send_signal(signal.SIGKILL)
            except psutil.NoSuchProcess:
                pass
