"""The two configuration files, read whole: either all settings, or all faults with file, line and key."""

from collections.abc import Iterable
from pathlib import Path
from typing import TypeVar

import msgspec

from gatepost.config import agreement, overrides
from gatepost.config.document import Document, Mistake, parse
from gatepost.config.fault import ConfigError, Fault, written
from gatepost.config.meaning import understand
from gatepost.settings import Abby, Guard, Section

__all__ = ["ABBY_FILE", "GUARD_FILE", "ConfigError", "Configuration", "Fault", "load", "load_abby", "load_guard"]

GUARD_FILE = Path("guard/core/guard.yml")
ABBY_FILE = Path("abby/abby/abby.yml")

S = TypeVar("S", bound=Section)


class Configuration(msgspec.Struct, frozen=True):
    """Both files of one folder."""

    guard: Guard
    abby: Abby


class _File(msgspec.Struct, frozen=True):
    """A file on its way to settings; `shown` is its name in faults."""

    shown: str
    document: Document

    def faults(self, mistakes: Iterable[Mistake]) -> list[Fault]:
        return [Fault(self.shown, mistake.line, written(mistake.key), mistake.sentence) for mistake in mistakes]

    def disagreements(self, found: Iterable[agreement.Disagreement]) -> list[Fault]:
        return self.faults(Mistake(self.document.line_of(key), key, sentence) for key, sentence in found)


def load(folder: Path) -> Configuration:
    """Both files, for a guard and an abby that run together; raises `ConfigError`."""
    guard_file, guard, faults = _read(folder / GUARD_FILE, Guard)
    abby_file, abby, more = _read(folder / ABBY_FILE, Abby)
    faults += more
    if guard:
        faults += guard_file.disagreements(agreement.guard_alone(guard))
        faults += overrides.faults(guard.policy)
    if abby:
        faults += abby_file.disagreements(agreement.abby_alone(abby))
        faults += overrides.faults(abby.policy)
    if guard and abby:
        faults += abby_file.disagreements(agreement.both(guard, abby))
    if faults or guard is None or abby is None:
        raise ConfigError(faults)
    return Configuration(guard, abby)


def load_guard(folder: Path) -> Guard:
    """`guard.yml` alone; raises `ConfigError`."""
    file, guard, faults = _read(folder / GUARD_FILE, Guard)
    if guard:
        faults += file.disagreements(agreement.guard_alone(guard))
        faults += overrides.faults(guard.policy)
    if faults or guard is None:
        raise ConfigError(faults)
    return guard


def load_abby(folder: Path) -> Abby:
    """`abby.yml` alone; raises `ConfigError`."""
    file, abby, faults = _read(folder / ABBY_FILE, Abby)
    if abby:
        faults += file.disagreements(agreement.abby_alone(abby))
        faults += overrides.faults(abby.policy)
    if faults or abby is None:
        raise ConfigError(faults)
    return abby


def _read(path: Path, model: type[S]) -> tuple[_File, S | None, list[Fault]]:
    try:
        raw = path.read_bytes()
    except OSError as fault:
        reason = (fault.strerror or "unknown error").lower()
        file = _File(str(path), Document(None, {}))
        return file, None, [Fault(str(path), 0, "", f"cannot be read: {reason}")]
    file = _File(str(path), parse(raw))
    settings, mistakes = understand(model, file.document, str(path.parent.absolute()))
    return file, settings, file.faults(mistakes)
