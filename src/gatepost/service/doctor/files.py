"""The configuration of the machine that is examined: both files, or the one of the service that runs here."""

from pathlib import Path

import msgspec

from gatepost.config import ABBY_FILE, GUARD_FILE, load, load_abby, load_guard
from gatepost.settings import Abby, Guard


class Files(msgspec.Struct, frozen=True):
    """What was read; None for a file that is not there."""

    guard: Guard | None = None
    abby: Abby | None = None

    @property
    def storage(self) -> str:
        """Where what is kept is kept."""
        settings = self.abby or self.guard
        return settings.storage.url if settings else ""


def read_files(folder: Path) -> Files:
    """Both files, or the one that is there; raises `ConfigError`."""
    has_guard, has_abby = (folder / GUARD_FILE).exists(), (folder / ABBY_FILE).exists()
    if has_guard and not has_abby:
        return Files(guard=load_guard(folder))
    if has_abby and not has_guard:
        return Files(abby=load_abby(folder))
    both = load(folder)
    return Files(both.guard, both.abby)
