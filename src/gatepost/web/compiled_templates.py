"""Compiled templates on disk, beside the compiled modules of this package.

Compiling all templates takes 0.7 s of CPU, of 2.6 that a start of the service took.
Python keeps what it compiles in `__pycache__`, and the templates are kept there by the same rules: only where the
folder can be written, not with `PYTHONDONTWRITEBYTECODE`, and under `PYTHONPYCACHEPREFIX`. Whoever can write there can
change the modules as well, so reading code from there adds no trust.

A template compiles to other code when a filter, a global or an option of the environment changes, which Jinja's own
checksum (the source of the template) does not see. So a file counts only with the stamp of all modules of this
installation: their sizes and times, as Python itself compares them.
"""

import hashlib
import importlib.util
import marshal
import sys
import tempfile
from functools import cached_property
from pathlib import Path
from types import CodeType

import jinja2
from jinja2.bccache import Bucket, BytecodeCache

import gatepost

_DIGEST_SIZE = hashlib.sha256().digest_size


class CompiledTemplates(BytecodeCache):
    """Keeps the code of each template in a file; one that cannot be read or written is compiled at every start."""

    def load_bytecode(self, bucket: Bucket) -> None:
        """Take the code of a template from its file; the bucket stays empty without one that fits."""
        try:
            content = self._path(bucket).read_bytes()
            if content[:_DIGEST_SIZE] == self._digest(bucket):
                code = marshal.loads(content[_DIGEST_SIZE:])  # noqa: S302  as Python itself reads what it compiled
                bucket.code = code if isinstance(code, CodeType) else None
        except (OSError, EOFError, ValueError, TypeError):
            bucket.reset()

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Write the code of a template; another process sees the whole file or none."""
        if sys.dont_write_bytecode or bucket.code is None:
            return
        path = self._path(bucket)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=path.parent, prefix=path.name, delete=False) as file:
                file.write(self._digest(bucket) + marshal.dumps(bucket.code))
            Path(file.name).replace(path)
        except OSError:
            return

    def _path(self, bucket: Bucket) -> Path:
        return Path(importlib.util.cache_from_source(str(Path(__file__).with_name(f"template-{bucket.key}.py"))))

    def _digest(self, bucket: Bucket) -> bytes:
        return hashlib.sha256(self._stamp + bucket.checksum.encode()).digest()

    @cached_property
    def _stamp(self) -> bytes:
        """What the code of a template depends on besides its source: Python, Jinja, and the modules of Gatepost."""
        hashed = hashlib.sha256(f"{sys.version} {jinja2.__version__}".encode())
        for path in sorted(Path(gatepost.__file__).parent.rglob("*.py")):
            found = path.stat()
            hashed.update(f"\n{path} {found.st_size} {found.st_mtime_ns}".encode())
        return hashed.digest()
