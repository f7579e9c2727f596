"""Replacing what one module of the package uses of the standard library, and nobody else.

`monkeypatch.setattr("gatepost.x.time.sleep", ...)` replaces `time.sleep` of the whole process: services of other tests,
which live in threads of this process for the whole session, would no longer sleep.
"""

from types import ModuleType, SimpleNamespace
from typing import Any

import pytest


def replace_in(patch: pytest.MonkeyPatch, module: ModuleType, name: str, **changed: Any) -> None:
    """Let `module` see the module that it imported as `name` with some functions changed."""
    seen: Any = getattr(module, name)
    patch.setattr(module, name, SimpleNamespace(**{**vars(seen), **changed}))
