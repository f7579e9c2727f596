"""What is worked out from files of this package when it is first loaded, kept for later starts.

Python keeps what it compiles in `__pycache__`; these results are kept there by the same rules: only where the folder
can be written, not with `PYTHONDONTWRITEBYTECODE`, and under `PYTHONPYCACHEPREFIX`. Whoever can write there can change
the modules as well, so reading from there adds no trust. A result counts only with the digest of all that it was made
from.
"""

import hashlib
import importlib.util
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

T = TypeVar("T")


class KeptResult(Generic[T]):
    """One result in a file: `sources` are what it was made from."""

    def __init__(self, name: str, sources: Iterable[bytes], kind: type[T]) -> None:
        self._path = Path(importlib.util.cache_from_source(str(Path(__file__).with_name(f"kept-{name}.py"))))
        digest = hashlib.sha256(sys.version.encode())
        for source in sources:
            digest.update(hashlib.sha256(source).digest())
        self._digest, self._kind = digest.digest(), kind

    def load(self) -> T | None:
        """Return the result, None where there is none that fits."""
        try:
            content = self._path.read_bytes()
            if content[: len(self._digest)] != self._digest:
                return None
            return msgspec.msgpack.decode(content[len(self._digest) :], type=self._kind)
        except (OSError, msgspec.DecodeError, UnicodeDecodeError):
            return None

    def save(self, result: T) -> T:
        """Keep a result, and return it; another process sees the whole file or none."""
        if sys.dont_write_bytecode:
            return result
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=self._path.parent, prefix=self._path.name, delete=False) as file:
                file.write(self._digest + msgspec.msgpack.encode(result))
            # Readable by whoever may read the modules: the service runs as another user than the one that installs it.
            Path(file.name).chmod(0o644)
            Path(file.name).replace(self._path)
        except OSError:
            pass
        return result
