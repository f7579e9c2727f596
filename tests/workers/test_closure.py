"""guard's event loop holds keys, sockets and the database, so it loads nothing that reads what a stranger wrote.

Only workers, and the loader that they are forked from, load the analysis and its parsers.
"""

import subprocess
import sys

import pytest

PACKAGES = ("gatepost.guard", "gatepost.smtp", "gatepost.scanning")
WORKERS = ("pool", "process", "supervisor", "loader_client", "protocol", "status_page", "jobs")

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


def parses(module: str) -> bool:
    package, _, name = module.removeprefix("gatepost.").partition(".")
    if not module.startswith("gatepost."):
        return module in {"numpy", "PIL", "selectolax", "yara_x", "zxingcpp"}
    if package == "mail":
        return name not in {"", "message"}
    if package == "auth":
        # Signatures are made where the keys are: these hash bytes, and read no structure of mail.
        return name not in {"", "results", "signature", "signing"}
    return package in {"checks", "files", "textmodel", "analysis"} or module == "gatepost.view.message"


@pytest.mark.variant
def test_the_event_loop_loads_no_parser() -> None:
    """What all of them load together is all that one of them can load."""
    found = loaded(*PACKAGES, *(f"gatepost.workers.{name}" for name in WORKERS))
    assert not {module for module in found if parses(module)}


def test_what_the_loader_warms_up_is_the_analysis() -> None:
    assert "gatepost.analysis.stages" in loaded("gatepost.workers.warmup")
