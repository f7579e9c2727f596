"""One row of what the doctor finds, and the configuration that it examines."""

from pathlib import Path
from typing import Literal

import msgspec

from gatepost.settings.files import ABBY_FILE, GUARD_FILE, load, load_abby, load_guard
from gatepost.settings.keys import AbbySettings, GuardSettings
from gatepost.store.tenant_map import TenantMap

DoctorState = Literal["ok", "warn", "fail"]


class DoctorRow(msgspec.Struct, frozen=True):
    """One thing that was checked. `advice` is empty if nothing needs to be done."""

    what: str
    state: DoctorState
    found: str
    advice: str = ""


class ExaminedFiles(msgspec.Struct, frozen=True):
    """The settings of this machine; None for a file that is not there."""

    guard: GuardSettings | None = None
    abby: AbbySettings | None = None

    @property
    def storage(self) -> str:
        """The storage URL of the service that runs here."""
        settings = self.abby or self.guard
        return settings.storage.url if settings else ""

    @property
    def tenant_map(self) -> TenantMap:
        """Which tenants have their mail in other databases."""
        settings = self.abby or self.guard
        return TenantMap(settings.storage.databases, settings.storage.tenants) if settings else TenantMap()


def read_files(folder: Path) -> ExaminedFiles:
    """Read both files, or the one that is there; raises `ConfigError`."""
    has_guard, has_abby = (folder / GUARD_FILE).exists(), (folder / ABBY_FILE).exists()
    if has_guard and not has_abby:
        return ExaminedFiles(guard=load_guard(folder))
    if has_abby and not has_guard:
        return ExaminedFiles(abby=load_abby(folder, certificates=True))
    both = load(folder, certificates=True)
    return ExaminedFiles(both.guard, both.abby)
