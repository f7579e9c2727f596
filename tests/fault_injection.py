"""Fault injection: workers that misbehave on demand, for tests of everything around the analysis.

The loader of a test's workers loads this file by its path (`PoolSettings.fault_injection`, or the environment variable
GATEPOST_FAULT_INJECTION of a whole service). A message with `X-Gatepost-Fault: check:spin` then makes its worker spin
for ever in a check named `fault`; `parse:` does the same while the message is parsed, `rule:` in the second rule of the
policy, `rules:` in each of them, `every:` at the start of each stage. `hang` spins in native code, where the account of
the message interrupts nothing. The rest of the analysis is the real one. `lie`, `burn` and `share` do what code that
has taken a worker over could do: write on the status page that nothing executes, compute once the job is answered, and
take shared memory.
"""

import collections
import ctypes
import itertools
import mmap
import os
import re
import signal
import socket
import time
from collections.abc import Callable, Iterable

import msgspec

from gatepost.analysis.stages import Context
from gatepost.checks.reading import Check, Reading
from gatepost.findings.kinds import Finding
from gatepost.workers import worker
from gatepost.workers.protocol import IDLE, StatusPage

_HEADER = re.compile(
    rb"(?im)^X-Gatepost-Fault:[ \t]*(check|parse|every|rules?):([a-z]{1,10})(?:=([0-9]{1,6}))?[ \t]*\r?$"
)
_SEARCHED = 64 << 10
CHECK = "fault"
STAGES = (f"check:{CHECK}",)


def inject(raw: bytes, context: Context) -> Context:
    """Return the context that makes this message's fault happen; the same one where the message asks for none."""
    found = _HEADER.search(raw, 0, _SEARCHED)
    act = _ACTS.get(found[2].decode().lower()) if found else None
    if not found or not act:
        return context
    amount = int(found[3] or 0)
    if found[2].lower() == b"lie":
        act = _lie(context)
    if found[1].lower() != b"check":
        stage = {b"parse": "parse", b"rule": "rules:1", b"rules": "rules:"}.get(found[1].lower())
        return msgspec.structs.replace(context, mark=_faulty_marker(context.mark, stage, lambda: act(amount)))
    faulty = Check(CHECK, (), _faulty_check(lambda: act(amount)))
    return msgspec.structs.replace(context, extra=(*context.extra, faulty))


def _faulty_marker(mark: Callable[[str], None], broken: str | None, act: Callable[[], object]) -> Callable[[str], None]:
    def marked(stage: str) -> None:
        mark(stage)
        if broken is None or stage == broken or (broken == "rules:" and stage.startswith(broken)):
            act()

    return marked


def _faulty_check(act: Callable[[], object]) -> Callable[[Reading], Iterable[Finding]]:
    def check(_reading: Reading) -> Iterable[Finding]:
        act()
        return ()

    return check


def _spin(_amount: int) -> None:
    while True:
        pass


def _hang(_amount: int) -> None:
    """Compute for ever in native code, which sees no signal."""
    collections.deque(itertools.repeat(0), 0)


def _lie(context: Context) -> Callable[[int], None]:
    """Say on the status page, again and again, that this worker does nothing."""
    cells = getattr(context.mark, "__closure__", None) or ()
    (page,) = (cell.cell_contents for cell in cells if isinstance(cell.cell_contents, StatusPage))

    def lie(_amount: int) -> None:
        while True:
            page.enter(0, IDLE)

    return lie


def _burn(_amount: int) -> None:
    """Answer the job as it should be answered, then compute for ever."""
    end = worker.Worker._end

    def end_and_spin(self: worker.Worker, run: worker._Run, body: bytes) -> None:
        end(self, run, body)
        _spin(0)

    worker.Worker._end = end_and_spin  # type: ignore[method-assign]


def _share(megabytes: int) -> None:
    held = mmap.mmap(-1, megabytes << 20)
    held[:1] = b"x"


def _grow(_amount: int) -> None:
    """Allocate until the limit on data (RLIMIT_DATA) is met. Pages that are never written cost no time, so that a busy
    machine does not make a stall of it."""
    held = []
    while True:
        held.append(bytes(8 << 20))


def _die(_amount: int) -> None:
    ctypes.string_at(0)


def _crash(_amount: int) -> None:
    raise LookupError("a fault on demand")


def _open(_amount: int) -> None:
    os.close(os.open("/etc/hostname", os.O_RDONLY))


def _socket(_amount: int) -> None:
    socket.socket().close()


def _fork(_amount: int) -> None:
    if os.fork() == 0:
        os._exit(0)


def _kill(_amount: int) -> None:
    os.kill(os.getppid(), signal.SIGTERM)


def _sleep(milliseconds: int) -> None:
    time.sleep(milliseconds / 1000)


_ACTS: dict[str, Callable[[int], None]] = {
    "spin": _spin,
    "hang": _hang,
    "grow": _grow,
    "die": _die,
    "crash": _crash,
    "open": _open,
    "socket": _socket,
    "fork": _fork,
    "kill": _kill,
    "sleep": _sleep,
    "lie": _spin,
    "burn": _burn,
    "share": _share,
}
