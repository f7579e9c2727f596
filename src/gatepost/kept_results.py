"""What is worked out from files of this package, kept for later starts: templates, phrases and tables as they are used.

Python keeps what it compiles in `__pycache__`; these results are kept there by the same rules: only where the folder
can be written, not with `PYTHONDONTWRITEBYTECODE`, and under `PYTHONPYCACHEPREFIX`. Whoever can write there can change
the modules as well, so reading from there adds no trust. A result counts only with the digest of all that it was made
from. What makes one is imported only then.
"""

import hashlib
import importlib.util
import sys
from collections.abc import Callable, Iterable
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")


class KeptResult:
    """The bytes of one result, in a file beside the compiled form of a `module`; `sources` are what it was made
    from."""

    def __init__(self, module: str, name: str, sources: Iterable[bytes]) -> None:
        self._path = Path(importlib.util.cache_from_source(str(Path(module).with_name(f"{name}.py"))))
        digest = hashlib.sha256(sys.version.encode())
        for source in sources:
            digest.update(hashlib.sha256(source).digest())
        self._digest = digest.digest()

    def load(self) -> bytes | None:
        """Return the result, None where there is none that fits."""
        try:
            content = self._path.read_bytes()
        except OSError:
            return None
        return content[len(self._digest) :] if content.startswith(self._digest) else None

    def save(self, result: bytes) -> None:
        """Keep a result where that is possible; another process sees the whole file or none."""
        if sys.dont_write_bytecode:
            return
        import tempfile

        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=self._path.parent, prefix=self._path.name, delete=False) as file:
                file.write(self._digest + result)
            # Readable by whoever may read the modules: the service runs as another user than the one that installs it.
            Path(file.name).chmod(0o644)
            Path(file.name).replace(self._path)
        except OSError:
            return


def load_kept(module: str, name: str, sources: Iterable[bytes], kind: Any, make: Callable[[], T]) -> T:
    """Return a result of a type that msgpack has: the one that was kept, else made now, and kept."""
    kept = KeptResult(module, name, sources)
    try:
        found: T = msgspec.msgpack.decode(kept.load() or b"", type=kind)
        return found
    except (msgspec.DecodeError, UnicodeDecodeError):
        result = make()
        kept.save(msgspec.msgpack.encode(result))
        return result


def read_toml(file: Traversable, module: str) -> Any:
    """Return what a TOML file of the package says; it is kept beside `module`. `tomllib` takes a hundred times as long
    as msgpack."""

    def parse() -> Any:
        import tomllib

        return tomllib.loads(content.decode())

    content = file.read_bytes()
    return load_kept(module, f"kept-{file.name}", [content], Any, parse)
