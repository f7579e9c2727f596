"""One line of what the doctor says.

The configuration of the machine that is examined: both files, or the one of the service that runs here.
"""

from pathlib import Path
from typing import Literal

import msgspec

from gatepost.settings.files import ABBY_FILE, GUARD_FILE, load, load_abby, load_guard
from gatepost.settings.keys import Abby, Guard

DoctorState = Literal["ok", "warn", "fail"]


class DoctorRow(msgspec.Struct, frozen=True):
    """One thing that was looked at. `advice` is empty where nothing needs to be done."""

    what: str
    state: DoctorState
    found: str
    advice: str = ""


class ExaminedFiles(msgspec.Struct, frozen=True):
    """What was read; None for a file that is not there."""

    guard: Guard | None = None
    abby: Abby | None = None

    @property
    def storage(self) -> str:
        """Where what is kept is kept."""
        settings = self.abby or self.guard
        return settings.storage.url if settings else ""


def read_files(folder: Path) -> ExaminedFiles:
    """Both files, or the one that is there; raises `ConfigError`."""
    has_guard, has_abby = (folder / GUARD_FILE).exists(), (folder / ABBY_FILE).exists()
    if has_guard and not has_abby:
        return ExaminedFiles(guard=load_guard(folder))
    if has_abby and not has_guard:
        return ExaminedFiles(abby=load_abby(folder))
    both = load(folder)
    return ExaminedFiles(both.guard, both.abby)
