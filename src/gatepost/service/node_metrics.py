"""One set of metrics for a node of several processes: whichever of them is asked answers for all.

Every process writes its figures into a board, a file in memory, once a second; who is asked reads the boards of the
others. What is counted is added up. A process that ended leaves what it had counted behind, so that no counter of the
node ever falls. Of figures that belong to the node and not to a process, such as the messages in processing, the
answer has one.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from gatepost.logs import Logger
from gatepost.metrics import exposition
from gatepost.node_memory import NodeMemory
from gatepost.periodic import PeriodicWork

WRITE_SECONDS = 1.0

log = Logger("gatepost")


def _take_own(own: float, _other: float) -> float:
    return own


# Gauges that are not added up: each process knows them for the whole node, or the least or most of all counts.
_OF_THE_NODE: dict[str, Callable[[float, float], float]] = {
    "gatepost_in_processing": _take_own,
    "gatepost_in_processing_maximum": _take_own,
    "gatepost_queue_status": _take_own,
    "gatepost_workers_sealed": min,
    "gatepost_cores_answering": max,
    "gatepost_quarantine_held": max,
    "gatepost_quarantine_bytes": max,
    "gatepost_quarantine_bytes_maximum": max,
}


class _Sample(msgspec.Struct, frozen=True, array_like=True):
    name: str
    labels: tuple[tuple[str, str], ...]
    value: float


class Family(msgspec.Struct, frozen=True, array_like=True):
    """One metric as plain data, with its samples."""

    name: str
    documentation: str
    kind: str
    samples: tuple[_Sample, ...]


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(tuple[Family, ...])


class MetricBoards:
    """The boards of all processes of a node, and one for what ended ones have left; made before the node forks."""

    def __init__(self, memory: NodeMemory) -> None:
        self._memory = memory
        self._boards = [os.memfd_create("gatepost-metrics", os.MFD_CLOEXEC) for _ in range(memory.members + 1)]
        self._restarts = memory.allocate(1)

    def write(self, families: Iterable[Metric]) -> None:
        """Write the figures of this process."""
        self._write(self._memory.member, flatten(families))

    def read_others(self) -> list[tuple[Family, ...]]:
        """Return the figures of every other process, and what ended ones have left."""
        with self._memory:
            raw = [_read(board) for number, board in enumerate(self._boards) if number != self._memory.member]
        return [_decoder.decode(each) for each in raw if each]

    def retire(self, member: int) -> None:
        """Keep what a process that has ended had counted; for the parent."""
        with self._memory:
            ended, left = _read(self._boards[-1]), _read(self._boards[member])
        counted = [
            tuple(family for family in _decoder.decode(each) if family.kind != "gauge")
            for each in (ended, left)
            if each
        ]
        self._write(len(self._boards) - 1, merge(counted))
        self._write(member, ())
        self._restarts[0] += 1

    @property
    def restarts(self) -> int:
        """How many processes were started again."""
        return int(self._restarts[0])

    @property
    def members(self) -> int:
        """How many processes there are."""
        return self._memory.members

    def _write(self, number: int, families: tuple[Family, ...]) -> None:
        raw, board = _encoder.encode(families), self._boards[number]
        with self._memory:
            os.ftruncate(board, len(raw))
            os.pwrite(board, raw, 0)


class NodeMetrics(Collector):
    """The metrics of the node, as one of its processes tells them. `registry` has those of this process."""

    def __init__(self, registry: CollectorRegistry, boards: MetricBoards) -> None:
        self._own, self._boards = registry, boards
        self._merged = CollectorRegistry()
        self._merged.register(self)
        failed = "the metrics of this process could not be shared"
        self._writing = PeriodicWork(self._write, WRITE_SECONDS, failed, log)

    def render(self) -> bytes:
        """Return what `/metrics` answers."""
        return exposition(self._merged)

    def describe(self) -> Iterable[Metric]:
        """Nothing is asked before `/metrics` is."""
        return ()

    def collect(self) -> Iterator[Metric]:
        yield from map(unflatten, merge([flatten(self._own.collect()), *self._boards.read_others()]))
        yield GaugeMetricFamily("gatepost_front_processes", "Processes of this node", value=self._boards.members)
        yield CounterMetricFamily("gatepost_front_restarts", "Processes started again", value=self._boards.restarts)

    def start(self) -> None:
        """Let the other processes know the figures of this one, from now on."""
        self._writing.start()

    def end(self) -> None:
        """Write no longer."""
        self._writing.cancel()

    async def _write(self) -> None:
        self._boards.write(self._own.collect())


def merge(parts: Sequence[tuple[Family, ...]]) -> tuple[Family, ...]:
    """Put the figures of several processes together, those of the process that is asked first."""
    families: dict[str, Family] = {}
    values: dict[str, dict[tuple[str, tuple[tuple[str, str], ...]], float]] = {}
    for family in (each for part in parts for each in part):
        families.setdefault(family.name, family)
        known = values.setdefault(family.name, {})
        choose = _OF_THE_NODE.get(family.name)
        for sample in family.samples:
            key = (sample.name, sample.labels)
            before = known.get(key)
            if before is None:
                known[key] = sample.value
            else:
                known[key] = choose(before, sample.value) if choose else before + sample.value
    return tuple(
        msgspec.structs.replace(
            family, samples=tuple(_Sample(name, labels, value) for (name, labels), value in values[family.name].items())
        )
        for family in families.values()
    )


def flatten(families: Iterable[Metric]) -> tuple[Family, ...]:
    """Return metrics as plain data."""
    return tuple(
        Family(
            family.name,
            family.documentation,
            family.type,
            tuple(_Sample(each.name, tuple(each.labels.items()), float(each.value)) for each in family.samples),
        )
        for family in families
    )


def unflatten(family: Family) -> Metric:
    """Return the metric that plain data describes."""
    metric = Metric(family.name, family.documentation, family.kind)
    for sample in family.samples:
        metric.add_sample(sample.name, dict(sample.labels), sample.value)
    return metric


def _read(board: int) -> bytes:
    return os.pread(board, os.fstat(board).st_size, 0)
