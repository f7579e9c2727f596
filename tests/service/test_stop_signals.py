"""Signals that end a service."""

import asyncio
import signal
import threading
from unittest.mock import Mock

import pytest
import uvloop

from gatepost.service import running


def test_a_signal_that_is_told_twice_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """One comes while uvloop reads another, and the loop tells it a second time."""
    exits, told = list[int](), list[int]()

    async def main() -> bool:
        stop, loop = asyncio.Event(), asyncio.get_running_loop()
        signals = running._StopSignals(stop, Mock(restarts=False), exits.append)

        def handle(number: int) -> None:
            told.append(number)
            signals.handle(number)

        loop.add_signal_handler(signal.SIGUSR2, handle, signal.SIGUSR2)
        # It has to come while the loop waits for something: the interpreter would handle it at once.
        threading.Timer(0.1, signal.pthread_kill, (threading.get_ident(), signal.SIGUSR1)).start()
        await stop.wait()
        await asyncio.sleep(0)
        while len(told) < 2:  # noqa: ASYNC110  the loop's next turns
            await asyncio.sleep(0.001)
        assert exits == []
        monkeypatch.setattr(running, "REPEATED_SECONDS", 0.0)
        signals.handle(signal.SIGTERM)
        return stop.is_set()

    before = signal.signal(signal.SIGUSR1, lambda *_: signal.raise_signal(signal.SIGUSR2))
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            assert runner.run(main())
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert (told, exits) == ([signal.SIGUSR2] * 2, [128 + signal.SIGTERM])
