"""Which tests start a process or an HTTP server: found by following the names that their code uses.

`make test-fast` leaves those tests out, and nobody has to mark them. The code of a test and of its fixtures is followed
through the functions and classes of `tests` and `bench` to whatever starts something: `subprocess`, a fork, a pool of
workers, uvicorn. PostgreSQL is found by its fixtures, since a fixture for both engines names it for either. What a
command or a page of the product starts cannot be found in this way; such a test has the marker `process`.

`ProcessWatch` holds the tests to it in every run: a test that counts as fast fails where it starts something.
"""

import os
import subprocess
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from types import CodeType, FunctionType, ModuleType
from typing import Any

import pytest
import uvicorn
from tests.lasting_loader import LastingLoader

from gatepost.policy import condition_process
from gatepost.process import children
from gatepost.workers.supervisor import LoaderClient

# What starts something, by its name and by its module.
STARTERS = frozenset({"Popen", "fork", "create_subprocess_exec", "WorkerPool", "LoaderClient", "sync_playwright"})
STARTING_MODULES = (subprocess, uvicorn)
FOLLOWED = ("tests.", "bench.")


def starts_process(item: pytest.Item) -> bool:
    """Whether a test starts something, by its marker, its engine, or what its code and its fixtures name."""
    if item.get_closest_marker("process"):
        return True
    if not isinstance(item, pytest.Function):
        return False
    parameters = item.callspec.params.values() if hasattr(item, "callspec") else ()
    if any(each in ("postgres", "postgresql") for each in parameters) or any(
        "postgres" in each for each in item.fixturenames
    ):
        return True
    fixtures = item._fixtureinfo.name2fixturedefs.values()
    return any(map(_can_start, (item.function, *(each.func for found in fixtures for each in found))))


@cache
def _can_start(function: Callable[..., Any]) -> bool:
    seen: set[int] = set()
    waiting: list[Any] = [function]
    while waiting:
        value = waiting.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, type):
            waiting += [each for base in value.__mro__ if _is_followed(base) for each in vars(base).values()]
        if isinstance(value, property | staticmethod | classmethod):
            waiting += [getattr(value, "fget", None) or getattr(value, "__func__", None)]
        value = getattr(value, "__wrapped__", value)
        if not isinstance(value, FunctionType):
            continue
        names = set(_names(value.__code__))
        if names & STARTERS:
            return True
        for found in _resolve(value, names):
            if any(found is module for module in STARTING_MODULES):
                return True
            if _is_followed(found):
                waiting.append(found)
    return False


def _resolve(function: FunctionType, names: Iterable[str]) -> Iterator[Any]:
    """What names of a function stand for: globals, what is taken from a module of ours, and what it closes over."""
    for name in names:
        value = function.__globals__.get(name)
        yield value
        if isinstance(value, ModuleType) and value.__name__.startswith(FOLLOWED):
            yield from (vars(value)[other] for other in names if other in vars(value))
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # not set yet
            continue


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _names(inner)


def _is_followed(value: Any) -> bool:
    module = str(getattr(value, "__module__", ""))
    return module.startswith(FOLLOWED) and module != __name__


class ProcessWatch:
    """Notes the processes and servers that a test starts, and the loaders that it takes over."""

    def __init__(self) -> None:
        self.started: list[str] = []
        patch = pytest.MonkeyPatch()
        patch.setattr(subprocess.Popen, "__init__", self._noting(subprocess.Popen.__init__, 1))
        patch.setattr(os, "fork", self._noting(os.fork))
        patch.setattr(uvicorn.Server, "__init__", self._noting(uvicorn.Server.__init__))
        patch.setattr(LoaderClient, "start", self._noting(LoaderClient.start))
        patch.setattr(LastingLoader, "start", self._noting(LastingLoader.start))

    def _noting(self, start: Callable[..., Any], shown: int | None = None) -> Callable[..., Any]:
        def noted(*arguments: Any, **options: Any) -> Any:
            name = str(arguments[shown])[:200] if shown else start.__qualname__
            # Whoever reads a policy with rules has their conditions compiled in a process, and whoever runs a page
            # asks the nursery of its process for a child: both are there in a tenth of a second.
            if condition_process.PROCESS not in name and children.PROCESS not in name:
                self.started.append(name)
            return start(*arguments, **options)

        return noted
