"""What each process holds over time, and the slope of it."""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import psutil

from bench.soak.node import SoakNode

EVERY_SECONDS = 10.0
# So many looks lie between two lines about the run so far.
INTERIM_EVERY = 60
# A process fills its caches first; and a line through a few points says nothing.
WARM_UP_SECONDS, MIN_SAMPLES = 180.0, 30


class Counting(Protocol):
    """Whatever knows how many messages were answered so far."""

    @property
    def answered(self) -> int: ...


@dataclass(frozen=True)
class Sample:
    """One look at one process."""

    time: float
    messages: int
    memory: int
    descriptors: int
    threads: int


@dataclass
class Life:
    """One process from the first look to the last."""

    role: str
    samples: list[Sample] = field(default_factory=list)


@dataclass(frozen=True)
class Slope:
    """A line through the samples of one process: growth an hour, for 1,000 messages, and its standard error an hour."""

    minutes: float
    first: float
    last: float
    hourly: float
    error: float
    by_messages: float


class Sampler:
    """Looks at all processes until it is stopped."""

    def __init__(self, node: SoakNode, load: Counting) -> None:
        self._node, self._load = node, load
        self._over = threading.Event()
        self.lives: dict[tuple[int, float], Life] = {}
        self.sizes: list[tuple[int, dict[str, int]]] = []
        self.on_interim: Callable[[], None] = lambda: None

    def run(self) -> None:
        number = 0
        while not self._over.wait(EVERY_SECONDS):
            self._look()
            if number % 6 == 0:
                self.sizes.append((self._load.answered, self._node.sizes()))
            number += 1
            if number % INTERIM_EVERY == 0:
                self.on_interim()
        self.sizes.append((self._load.answered, self._node.sizes()))

    def stop(self) -> None:
        self._over.set()

    def _look(self) -> None:
        now, answered = time.monotonic(), self._load.answered
        for role, several in self._node.processes().items():
            for process in several:
                with contextlib.suppress(psutil.Error):
                    life = self.lives.setdefault((process.pid, process.create_time()), Life(role))
                    memory = process.memory_full_info().uss
                    life.samples.append(Sample(now, answered, memory, process.num_fds(), process.num_threads()))

    def slopes(self, value: Callable[[Sample], float]) -> Iterator[tuple[str, Slope]]:
        """The slope of each process that lived long enough, with its role."""
        for life in self.lives.values():
            start = life.samples[0].time if life.samples else 0.0
            samples = [each for each in life.samples if each.time - start >= WARM_UP_SECONDS]
            if len(samples) >= MIN_SAMPLES:
                yield life.role, slope(samples, value)


def slope(samples: list[Sample], value: Callable[[Sample], float]) -> Slope:
    """A least-squares line."""
    hours = np.array([(each.time - samples[0].time) / 3600 for each in samples])
    values = np.array([value(each) for each in samples], dtype=float)
    (hourly, start), residuals, *_ = np.polyfit(hours, values, 1, full=True)
    spread = ((hours - hours.mean()) ** 2).sum()
    error = float(np.sqrt(residuals[0] / (len(samples) - 2) / spread)) if len(residuals) else 0.0
    messages = samples[-1].messages - samples[0].messages
    grown = hourly * hours[-1]
    return Slope(
        float(hours[-1] * 60),
        float(start),
        float(start + grown),
        float(hourly),
        error,
        float(grown * 1000 / messages) if messages else 0.0,
    )
