"""The data folder: what lies where in it, who may read it, and that one service at a time uses it."""

import contextlib
import fcntl
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec

SECRET_MODE = 0o600
FOLDER_MODE = 0o700


class StartError(Exception):
    """Why a command cannot start, as one sentence for the person who typed it."""


class DataFolder(msgspec.Struct, frozen=True):
    """Names in a data folder; `path` is absolute."""

    path: Path

    @property
    def certificate(self) -> Path:
        """The certificate that both services show where none is configured; also what it is verified with."""
        return self.path / "tls" / "certificate.pem"

    @property
    def key(self) -> Path:
        return self.path / "tls" / "key.pem"

    @property
    def secret(self) -> Path:
        """What abby proves itself to guard with, where the files name nothing."""
        return self.path / "secret"

    @property
    def token(self) -> Path:
        """The token of the first start, once more, so that a shell can read it. `abby.yml` is what counts."""
        return self.path / "token"

    @property
    def example(self) -> Path:
        return self.path / "example.eml"

    @property
    def spool(self) -> Path:
        """Bodies of waiting and running messages; nothing in it outlives the process."""
        return self.path / "spool"

    @property
    def models(self) -> Path:
        """Text models of the operator, and signatures of texts that the operator marked."""
        return self.path / "models"

    @property
    def quarantine(self) -> Path:
        """Raw bytes of held mail, where `quarantine.url` names no other place."""
        return self.path / "quarantine"

    def make(self) -> None:
        """Have the folder, for this user alone; raises `StartError`."""
        with _explained(self.path):
            self.path.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self.path):
                pass

    def write_once(self, file: Path, content: str | bytes) -> bool:
        """Write a file whole, readable by this user alone, unless it is there; raises `StartError`."""
        if file.exists():
            return False
        self.replace(file, content)
        return True

    def replace(self, file: Path, content: str | bytes) -> None:
        """Write a file whole or not at all: a kill leaves the old state or the new one."""
        raw = content.encode() if isinstance(content, str) else content
        with _explained(file):
            file.parent.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
            descriptor, fresh = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
            with os.fdopen(descriptor, "wb") as stream:
                stream.write(raw)
                stream.flush()
                os.fsync(stream.fileno())
            Path(fresh).replace(file)

    @contextlib.contextmanager
    def lock(self, *services: str) -> Iterator[None]:
        """Hold the folder for these services; raises `StartError` where another process has it.

        Record locks, not flock: they belong to the process, so worker processes do not inherit them.
        """
        with contextlib.ExitStack() as held:
            for service in services:
                held.enter_context(self._locked(service))
            yield

    @contextlib.contextmanager
    def lock_patiently(self, name: str) -> Iterator[None]:
        """Wait for a short piece of work that another process may be doing as well."""
        file = self.path / f"{name}.lock"
        with _explained(file):
            stream = file.open("a+")
        with stream:
            fcntl.lockf(stream, fcntl.LOCK_EX)
            yield

    def is_locked(self, service: str) -> bool:
        """Does a process hold the folder for this service?"""
        if not (self.path / f"{service}.lock").exists():
            return False
        try:
            with self._locked(service):
                return False
        except StartError:
            return True

    @contextlib.contextmanager
    def _locked(self, service: str) -> Iterator[None]:
        file = self.path / f"{service}.lock"
        with _explained(file):
            stream = file.open("a+")
        with stream:
            try:
                fcntl.lockf(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                stream.seek(0)
                raise StartError(f"{_who(stream.read())} already runs on {self.path}.") from None
            stream.truncate(0)
            stream.write(str(os.getpid()))
            stream.flush()
            yield


def _who(text: str) -> str:
    return f"Another Gatepost (process {text})" if text.isdigit() else "Another Gatepost"


@contextlib.contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as fault:
        raise StartError(f"{path} cannot be written: {(fault.strerror or str(fault)).lower()}.") from None
