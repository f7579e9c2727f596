"""CPU time that the host of a virtual machine gives to other guests.

Kernels of some virtual machines count it as CPU time of the thread that was running, so that a limit on the CPU time of
a callback can be exceeded by a callback that did nothing. `/proc/stat` counts it apart, as "steal" (proc(5)), for the
whole machine.
"""

from pathlib import Path

import pytest

# More than this, and a figure of CPU time shows nothing.
LIMIT = 0.05


class StolenTime:
    """The share that was stolen since this was made, of the CPU time that the processes of this machine wanted."""

    def __init__(self) -> None:
        self._before = _read_counters()

    @property
    def share(self) -> float:
        """Between 0 and 1."""
        stolen, wanted = (now - before for now, before in zip(_read_counters(), self._before, strict=True))
        return stolen / wanted if wanted else 0.0

    def expect(self, holds: bool, figures: str, log: str = "") -> None:
        """Fail with figures that are over their limit; where too much was stolen meanwhile, report "not run"."""
        if holds:
            return
        said = f"{figures}, while the host took {self.share:.1%} of the CPU time"
        if self.share > LIMIT:
            pytest.skip(f"not run: {said}")
        pytest.fail(f"{said}\n{log}")


def _read_counters() -> tuple[int, int]:
    """Stolen time, and all time except that in which there was nothing to do; in ticks, of all cores."""
    names = "user nice system idle iowait irq softirq steal".split()
    line = Path("/proc/stat").read_text().partition("\n")[0]
    ticks = dict(zip(names, map(int, line.split()[1:]), strict=False))
    wanted = sum(count for name, count in ticks.items() if name not in ("idle", "iowait"))
    return ticks.get("steal", 0), wanted
