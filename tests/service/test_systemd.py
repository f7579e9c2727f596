"""What the service manager is told, and that nothing waits long for one that does not read."""

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.own_names import replace_in

from gatepost.service import systemd


@pytest.fixture
def manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """The socket of a service manager that reads when the test does."""
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(tmp_path / "notify"))
        listening.settimeout(60)
        yield listening


def fill(path: str) -> None:
    """Send until the queue of a socket takes no more."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.setblocking(False)
        with suppress(BlockingIOError):
            while True:
                sender.sendto(b"X=1", path)


def test_states_and_signs_of_life(manager: socket.socket) -> None:
    systemd.notify_ready()
    assert manager.recv(4096) == f"READY=1\nSTATUS=serves\nMAINPID={os.getpid()}".encode()
    systemd.feed_watchdog()
    assert manager.recv(4096) == b"WATCHDOG=1"


def test_a_manager_that_does_not_read_costs_no_cpu(manager: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    """It waits in the kernel, if at all: with a time limit of its own, Python would ask again and again."""
    waited: list[tuple[float | None, bool]] = []

    class Sender(socket.socket):
        def sendto(self, data: Any, flags: int, address: Any) -> int:  # type: ignore[override]
            waited.append((self.gettimeout(), bool(flags & socket.MSG_DONTWAIT)))
            return super().sendto(data, flags, address)

    replace_in(monkeypatch, systemd, "socket", socket=Sender)
    fill(manager.getsockname())
    systemd.feed_watchdog()
    systemd.notify_stopping()
    assert waited == [(None, True), (None, False)]


def test_a_state_waits_for_a_manager_that_is_late(manager: socket.socket) -> None:
    fill(manager.getsockname())
    sending = threading.Thread(target=systemd.notify_stopping)
    sending.start()
    heard = b""
    while heard != b"STOPPING=1":
        heard = manager.recv(4096)
    sending.join()


def test_without_a_manager_nothing_happens(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for address in ("", "relative", str(tmp_path / "nobody")):
        monkeypatch.setenv("NOTIFY_SOCKET", address)
        systemd.notify_ready()
        systemd.feed_watchdog()
