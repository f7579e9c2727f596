"""Native forms of the hottest functions, where they were built.

`_speedups.c` holds them, each a twin of a Python function that stands beside the place where it is used. `native` is
that module, or None: then the Python twins are used, which give the same results and take longer.
`GATEPOST_PURE_PYTHON=1` has them used in any case.
"""

import os
from functools import cache
from pathlib import Path
from typing import Any

native: Any = None
if not os.environ.get("GATEPOST_PURE_PYTHON"):
    try:
        from gatepost import _speedups as native  # type: ignore[attr-defined,no-redef]
    except ImportError:
        native = None


@cache
def read_native() -> bytes:
    """Return the module as it is on disk: what it lays out in memory and others keep, another build may not read."""
    return Path(native.__file__).read_bytes()


def describe_speedups() -> str:
    """Return which form is in use, for people."""
    return "native" if native else "pure Python"
