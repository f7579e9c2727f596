"""Events of commands that work beside a running service, such as `gatepost apikey create`.

What such a command changes in storage is told to the same outputs. Nothing of the event stream is loaded where no
output is configured.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from gatepost.service.data_folder import DataFolder
from gatepost.settings.events import EventsSettings
from gatepost.settings.faults import ConfigError
from gatepost.settings.files import ABBY_FILE, GUARD_FILE, load_abby, load_guard
from gatepost.settings.keys import AbbySettings, GuardSettings

if TYPE_CHECKING:
    from gatepost.events.stream import EventStream
    from gatepost.store.store import Store


def load_event_source(folder: Path) -> GuardSettings | AbbySettings:
    """Return the settings whose `events` are in force on a machine: those of `guard.yml`, or those of `abby.yml` where
    there is no `guard.yml`. Raises `ConfigError`."""
    return load_guard(folder) if (folder / GUARD_FILE).exists() else load_abby(folder)


@contextmanager
def emit_changes(folder: Path, data: DataFolder, store: "Store") -> Iterator[None]:
    """Emit the events of what a command changes in storage. A command goes on where events cannot be written, and says
    so."""
    stream = _open_if_wanted(folder, data)
    if stream is None:
        yield
        return
    from gatepost.events.stream import observe_audit

    store.observe_changes(observe_audit(stream))
    try:
        yield
    finally:
        stream.close()


def _open_if_wanted(folder: Path, data: DataFolder) -> "EventStream | None":
    try:
        events = _load_events(folder)
    except (ConfigError, OSError) as fault:
        reason = fault.faults[0] if isinstance(fault, ConfigError) else fault
        print(f"No events are written: {reason}", file=sys.stderr)
        return None
    if not events.enabled:
        return None
    from gatepost.events.stream import OutputError, open_command_stream

    try:
        return open_command_stream(events, data.path)
    except OutputError as fault:
        print(f"No events are written. {fault}", file=sys.stderr)
        return None


def _load_events(folder: Path) -> EventsSettings:
    """Return the events that are in force. A file without that key is not read whole, which takes longer than most
    commands."""
    file = folder / GUARD_FILE if (folder / GUARD_FILE).exists() else folder / ABBY_FILE
    if not file.exists() or b"events" not in file.read_bytes():
        return EventsSettings()
    return load_event_source(folder).events
