"""The data folder: its files, their permissions, and the locks that keep it and a SQLite file to one instance.

The kernel drops a lock with the process that has it, however that ends (fcntl(2), "Record locking"): none is left over.
"""

import contextlib
import fcntl
import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from gatepost.store import sqlite_file_of

FOLDER_MODE = 0o700
CURRENT = "current.json"


class StartError(Exception):
    """The reason why a command cannot run, as one sentence for the operator."""


class NodeVersion(msgspec.Struct, frozen=True):
    """A version and the folder that it was written to; version 0 is the node's own files, and its folder a copy of what
    they were when the service read them."""

    number: int = 0
    folder: str = ""


class DataFolder(msgspec.Struct, frozen=True):
    """The files of a data folder; `path` is absolute."""

    path: Path

    @property
    def certificate(self) -> Path:
        """The certificate of both services if none is configured; clients verify it with the same file."""
        return self.path / "tls" / "certificate.pem"

    @property
    def key(self) -> Path:
        return self.path / "tls" / "key.pem"

    @property
    def secret(self) -> Path:
        """The secret that abby authenticates to guard with, if the configuration names none."""
        return self.path / "secret"

    @property
    def token(self) -> Path:
        """The token of the first start; `abby.yml` refers to it, and shells read it from here."""
        return self.path / "token"

    @property
    def first_password(self) -> Path:
        """The administrator's password of the first start, until it is changed."""
        return self.path / "first-password"

    @property
    def example(self) -> Path:
        return self.path / "example.eml"

    @property
    def spool(self) -> Path:
        """Bodies of messages in processing; they are deleted with the process."""
        return self.path / "spool"

    @property
    def models(self) -> Path:
        """Text models of the operator, and signatures of texts that the operator marked."""
        return self.path / "models"

    @property
    def next_hops(self) -> Path:
        """What next hops could do when they were last reached."""
        return self.path / "next-hops.json"

    def published(self, service: str) -> Path:
        """Where a service keeps the published versions that it runs."""
        return self.path / "published" / service

    def read_version(self, service: str) -> NodeVersion:
        """Return the version that a service runs, or shall start with; one whose folder has gone does not count."""
        try:
            raw = (self.published(service) / CURRENT).read_bytes()
            found = msgspec.json.decode(raw, type=NodeVersion)
        except (OSError, msgspec.DecodeError):
            return NodeVersion()
        return found if Path(found.folder).is_dir() else NodeVersion()

    @property
    def quarantine(self) -> Path:
        """Raw bytes of held mail, if `quarantine.url` is not set."""
        return self.path / "quarantine"

    def make(self) -> None:
        """Create the folder, readable only by this user; raises `StartError`."""
        with _explain_errors(self.path):
            self.path.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self.path):
                pass

    def write_once(self, file: Path, content: str | bytes) -> bool:
        """Write a file, readable only by this user, unless it is there; raises `StartError`."""
        if file.exists():
            return False
        self.replace(file, content)
        return True

    def replace(self, file: Path, content: str | bytes) -> None:
        """Write a file completely or not at all: after a kill there is the old content or the new one."""
        raw = content.encode() if isinstance(content, str) else content
        with _explain_errors(file):
            file.parent.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
            descriptor, fresh = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
            with os.fdopen(descriptor, "wb") as stream:
                stream.write(raw)
                stream.flush()
                os.fsync(stream.fileno())
            Path(fresh).replace(file)

    @contextlib.contextmanager
    def lock(self, *services: str) -> Iterator[None]:
        """Lock the folder for these services; raises `StartError` if another process has it.

        Record locks, not flock: they belong to the process, so worker processes do not inherit them.
        """
        with contextlib.ExitStack() as held:
            for service in services:
                held.enter_context(self._lock(service))
            yield

    @contextlib.contextmanager
    def lock_patiently(self, name: str) -> Iterator[None]:
        """Lock a name, and wait while another process has it."""
        file = self.path / f"{name}.lock"
        with _explain_errors(file):
            stream = file.open("a+")
        with stream:
            fcntl.lockf(stream, fcntl.LOCK_EX)
            yield

    def is_locked(self, service: str) -> bool:
        """Return whether a process has locked the folder for this service."""
        if not (self.path / f"{service}.lock").exists():
            return False
        try:
            with self._lock(service):
                return False
        except StartError:
            return True

    @contextlib.contextmanager
    def _lock(self, service: str) -> Iterator[None]:
        file = self.path / f"{service}.lock"
        with _explain_errors(file):
            stream = file.open("a+")
        with stream:
            try:
                fcntl.lockf(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                stream.seek(0)
                raise StartError(f"{_describe_owner(stream.read())} already runs on {self.path}.") from None
            stream.truncate(0)
            stream.write(str(os.getpid()))
            stream.flush()
            yield


@contextlib.contextmanager
def lock_sqlite_file(data: DataFolder, url: str, services: Sequence[str]) -> Iterator[None]:
    """Lock the folder of a SQLite file that is not in the data folder, if `url` names one; raises `StartError` if an
    instance with another data folder has it."""
    file = sqlite_file_of(url, data.path)
    folder = file.resolve().parent if file else data.path.resolve()
    with contextlib.ExitStack() as held:
        # A folder is not locked twice: closing the second descriptor would end the first lock.
        if folder != data.path.resolve():
            DataFolder(folder).make()
            try:
                held.enter_context(DataFolder(folder).lock(*services))
            except StartError as fault:
                reason = f"{file} is a SQLite file, which belongs to one instance: several need PostgreSQL"
                raise StartError(f"{fault} {reason}.") from None
        yield


def _describe_owner(text: str) -> str:
    return f"Another Gatepost (process {text})" if text.isdigit() else "Another Gatepost"


@contextlib.contextmanager
def _explain_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as fault:
        raise StartError(f"{path} cannot be written: {(fault.strerror or str(fault)).lower()}.") from None
