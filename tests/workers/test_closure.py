"""guard's event loop holds keys, sockets and the database, so it loads nothing that reads what a stranger wrote.

Only workers, and the loader that they are forked from, load the analysis and its parsers. `tests/test_layers.py` holds
the modules of this package to it.
"""

import subprocess
import sys

import pytest

PACKAGES = ("gatepost.guard", "gatepost.smtp", "gatepost.scanning")

LOADED = """
import importlib, pkgutil, sys
for name in sys.argv[1:]:
    module = importlib.import_module(name)
    for found in pkgutil.walk_packages(getattr(module, "__path__", ()), name + "."):
        importlib.import_module(found.name)
print(*sorted(sys.modules), sep="\\n")
"""


def loaded(*names: str) -> set[str]:
    done = subprocess.run([sys.executable, "-c", LOADED, *names], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.variant
def test_the_event_loop_loads_no_parser_of_others() -> None:
    """What all of them load together is all that one of them can load."""
    found = loaded(*PACKAGES)
    assert "gatepost.workers.pool" in found
    assert not found & {"numpy", "PIL", "selectolax", "yara_x", "zxingcpp"}


def test_what_the_loader_warms_up_is_the_analysis() -> None:
    assert "gatepost.analysis.stages" in loaded("gatepost.workers.warmup")
