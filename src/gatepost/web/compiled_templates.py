"""Compiled templates on disk, beside the compiled modules of this package.

Compiling all templates takes 0.7 s of CPU, of 2.6 that a start of the service took, so they are kept by the rules of
`kept_results`.

A template compiles to other code when a filter, a global or an option of the environment changes, which Jinja's own
checksum (the source of the template) does not see. So a file counts only with the stamp of all modules of this
installation: their sizes and times, as Python itself compares them.
"""

import hashlib
import marshal
from functools import cached_property
from pathlib import Path
from types import CodeType

import jinja2
from jinja2.bccache import Bucket, BytecodeCache

import gatepost
from gatepost.process.kept_results import KeptResult


class CompiledTemplates(BytecodeCache):
    """Keeps the code of each template in a file; one that cannot be read or written is compiled at every start."""

    def load_bytecode(self, bucket: Bucket) -> None:
        """Take the code of a template from its file; the bucket stays empty without one that fits."""
        content = self._keep(bucket).load()
        if content is None:
            return
        try:
            code = marshal.loads(content)  # noqa: S302  as Python itself reads what it compiled
        except (EOFError, ValueError, TypeError):
            return
        bucket.code = code if isinstance(code, CodeType) else None

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Write the code of a template."""
        if bucket.code is not None:
            self._keep(bucket).save(marshal.dumps(bucket.code))

    def _keep(self, bucket: Bucket) -> KeptResult:
        return KeptResult(__file__, f"template-{bucket.key}", (self._stamp, bucket.checksum.encode()))

    @cached_property
    def _stamp(self) -> bytes:
        """What the code of a template depends on besides its source and Python: Jinja, and the modules of Gatepost."""
        hashed = hashlib.sha256(jinja2.__version__.encode())
        for path in sorted(Path(gatepost.__file__).parent.rglob("*.py")):
            found = path.stat()
            hashed.update(f"\n{path} {found.st_size} {found.st_mtime_ns}".encode())
        return hashed.digest()
