"""How much of one message is read at most, what the reading has cost so far, and the defects that it noted.

Every loop over hostile bytes draws on a `ReadBudget`. When one of its limits is reached, reading goes on with less (the
rest of the bytes as one part, the header as far as it was read), and a `limit:` defect says so: nothing is left out in
silence. `ReadWork` counts the work, so that tests can say "linear" without a clock.

`DEFECTS` is the closed set of kinds that a `Defect` can have: `mime:` kinds are ambiguities or faults, `html:` kinds
are HTML that acts, and `limit:` kinds say that something was not read because a budget ran out.
"""

import msgspec

from gatepost.findings import kinds
from gatepost.findings.kinds import BY_ID, Kind
from gatepost.mail.message import Defect
from gatepost.process.cpu_account import NO_ACCOUNT, REREADING, SPENT, CpuAccount

_MIB = 1 << 20


class ReadLimits(msgspec.Struct, frozen=True):
    """The limits of one reading; header limits hold for each entity, all others for the whole message. A line that
    begins with `--`, as comments of SQL do, counts in `delimiters` once for each boundary that it is compared with."""

    parts: int = 2_000
    depth: int = 100
    delimiters: int = 4_000_000
    header_bytes: int = _MIB
    header_fields: int = 2_000
    all_header_fields: int = 20_000
    addresses: int = 2_000
    encoded_words: int = 2_000
    decoded_bytes: int = 160 * _MIB
    alternatives: int = 200
    alternative_bytes: int = 8 * _MIB
    defects: int = 200
    rich_text: int = 2 * _MIB


DEFAULT_LIMITS = ReadLimits()


class ReadWork(msgspec.Struct):
    """Counts of the work that a reading has done."""

    parts: int = 0
    fields: int = 0
    delimiters: int = 0
    decoded_bytes: int = 0
    alternatives: int = 0
    alternative_bytes: int = 0
    segments: int = 0
    addresses: int = 0
    rich_text: int = 0


class ReadBudget:
    """The mutable account of one reading: limits, work done, CPU of the message, and the defects found on the way."""

    __slots__ = ("_noted", "cpu", "defects", "limits", "work")

    def __init__(self, limits: ReadLimits | None = None, cpu: CpuAccount | None = None) -> None:
        self.limits = limits or DEFAULT_LIMITS
        self.cpu = cpu or NO_ACCOUNT
        self.work = ReadWork()
        self.defects: list[Defect] = []
        self._noted: set[tuple[str, str]] = set()

    def note(self, kind: Kind, where: str, detail: str = "") -> None:
        """Record a defect, each kind once for each place; past the cap only kinds that are new."""
        key = (kind.id, where)
        if key in self._noted:
            return
        if len(self.defects) >= self.limits.defects:
            key = (kind.id, "")
            if key in self._noted:
                return
            self._noted.add(key)
            if kind is not kinds.LIMIT_DEFECTS and any(defect.kind == kind.id for defect in self.defects):
                self.note(kinds.LIMIT_DEFECTS, "message")
                return
        self._noted.add(key)
        self.defects.append(Defect(kind.id, where, detail[:200]))

    def has(self, kind: Kind) -> bool:
        """Return whether a defect of this kind was noted."""
        return any(defect.kind == kind.id for defect in self.defects)

    def take_part(self, where: str) -> bool:
        """Take one more part; return False when the budget has none left."""
        if self.work.parts >= self.limits.parts:
            self.note(kinds.LIMIT_PARTS, where)
            return False
        self.work.parts += 1
        return True

    def take_decoded(self, size: int, where: str) -> bool:
        """Take the bytes of one part's content; return False when they are too many."""
        if self.work.decoded_bytes + size > self.limits.decoded_bytes:
            self.note(kinds.LIMIT_DECODED_SIZE, where)
            return False
        self.work.decoded_bytes += size
        return True

    def take_alternative(self, size: int, where: str) -> bool:
        """Take one more reading of bytes that were read already; return False when the budget has none left."""
        work, limits = self.work, self.limits
        if self.cpu.left(REREADING) <= 0:
            self.note(kinds.LIMIT_ALTERNATIVES, where, SPENT)
            return False
        if work.alternatives >= limits.alternatives or work.alternative_bytes + size > limits.alternative_bytes:
            self.note(kinds.LIMIT_ALTERNATIVES, where)
            return False
        work.alternatives += 1
        work.alternative_bytes += size
        return self.take_decoded(size, where)

    def take_delimiter(self, where: str) -> bool:
        """Take one more line that could be a boundary; return False when the budget has none left."""
        if self.work.delimiters >= self.limits.delimiters:
            self.note(kinds.LIMIT_BOUNDARIES, where)
            return False
        self.work.delimiters += 1
        return True


_OTHER_DEFECTS = (
    "text:bidi-override text:hidden text:invisible-characters limit:addresses limit:alternatives limit:boundaries "
    "limit:decoded-size limit:defects limit:depth limit:encoded-words limit:header-fields limit:header-size "
    "limit:html-attributes limit:html-depth limit:html-parts limit:html-size limit:links limit:parts limit:text-size"
)
DEFECTS: tuple[Kind, ...] = (
    *kinds.list_kinds("mime:", "html:"),
    *map(BY_ID.__getitem__, _OTHER_DEFECTS.split()),
)
