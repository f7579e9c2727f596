"""What a node keeps in its data folder of the versions that it runs: which one, in which folder, and one that it tries.

A node that is killed at any moment starts with one whole version: the folder of a version is complete before it is
named here, and the name is replaced in one step. A version that needs a restart is noted as tried before the restart.
If the start with it fails, or the process ends before it was healthy, the next start uses the version before.
"""

import shutil
from pathlib import Path
from typing import TypeVar

import msgspec

from gatepost.ids import new_id
from gatepost.service.data_folder import DataFolder
from gatepost.service.publishing.version import renew_folder

T = TypeVar("T")
# A start that was cut off by chance is tried once more.
MAX_STARTS = 2


class NodeVersion(msgspec.Struct, frozen=True):
    """A version and the folder that it was written to; version 0 is the node's own files."""

    number: int = 0
    folder: str = ""


class Trial(msgspec.Struct, frozen=True):
    """A version that is tried by a restart. `starts` counts the starts with it; `fault` is why it failed."""

    version: NodeVersion
    before: NodeVersion
    starts: int = 0
    fault: str = ""


class NodeFiles:
    """The files of one node; `service` is `guard` or `abby`, of which one data folder may have both."""

    def __init__(self, data: DataFolder, service: str) -> None:
        self._data, self.service = data, service
        self.place = data.path / "published" / service
        self._current = self.place / "current.json"
        self._trial = self.place / "trial.json"
        self._id = data.path / f"{service}.node"

    def node_id(self) -> str:
        """Return the id of this node, which stays over restarts."""
        self._data.write_once(self._id, new_id())
        return self._id.read_text("ascii").strip()

    def current(self) -> NodeVersion:
        """Return the version that this node runs, or shall start with; one whose folder has gone does not count."""
        found = _read(self._current, NodeVersion)
        return found if found and Path(found.folder).is_dir() else NodeVersion()

    def set_current(self, version: NodeVersion) -> None:
        """Note that this node runs a version, and tidy up what is left of others."""
        self._data.replace(self._current, msgspec.json.encode(version))
        self._trial.unlink(missing_ok=True)
        self._remove_others()

    def trial(self) -> Trial | None:
        """Return the version that is tried, if one is."""
        return _read(self._trial, Trial)

    def set_trial(self, trial: Trial) -> None:
        """Note that a version is tried."""
        self._data.replace(self._trial, msgspec.json.encode(trial))

    def end_trial(self) -> None:
        """Note that nothing is tried any more."""
        self._trial.unlink(missing_ok=True)

    def choose(self) -> NodeVersion:
        """Return the version to start with; called once at the start of the node."""
        trial = self.trial()
        if trial is None:
            return self.current()
        if trial.fault or trial.starts >= MAX_STARTS or not _is_usable(trial.version):
            if not trial.fault:
                self.set_trial(msgspec.structs.replace(trial, fault="the node ended before it was healthy"))
            return self.current()
        self.set_trial(msgspec.structs.replace(trial, starts=trial.starts + 1))
        return trial.version

    def prepare_start(self, local: Path) -> Path:
        """Return the folder to start with: that of the version, with the local keys as they are now, or the node's own.
        Raises `StartError`."""
        version = self.choose()
        if not version.number:
            return local
        folder = renew_folder(Path(version.folder), version.number, local)
        fresh, trial = NodeVersion(version.number, str(folder)), self.trial()
        if trial and not trial.fault:
            self.set_trial(msgspec.structs.replace(trial, version=fresh))
        else:
            self._data.replace(self._current, msgspec.json.encode(fresh))
        return folder

    def renew(self, local: Path) -> Path:
        """Return a folder of the current version with the local keys as they are now; raises `StartError`."""
        version = self.current()
        if not version.number:
            return local
        folder = renew_folder(Path(version.folder), version.number, local)
        self._data.replace(self._current, msgspec.json.encode(NodeVersion(version.number, str(folder))))
        return folder

    def refuse_trial(self, reason: str) -> bool:
        """Note that the version that is tried cannot be started with; returns whether one was tried."""
        trial = self.trial()
        if trial is None or trial.fault:
            return False
        self.set_trial(msgspec.structs.replace(trial, fault=reason))
        return True

    def _remove_others(self) -> None:
        """Remove folders of versions that are not in use."""
        used = Path(self.current().folder).name
        for path in self.place.iterdir():
            if path.is_dir() and path.name != used:
                shutil.rmtree(path, ignore_errors=True)


def _is_usable(version: NodeVersion) -> bool:
    return version.number == 0 or Path(version.folder).is_dir()


def _read(path: Path, kind: type[T]) -> T | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except (OSError, msgspec.DecodeError):
        return None
