"""Ports for tests: one that somebody else has claimed is not even tried."""

import random
import socket

import pytest
from bench import ports


def test_a_port_that_another_process_has_claimed_is_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """To try a port is to listen on it for a moment, in which its owner could not."""
    theirs, tried = ports.free_port(), list[int]()
    choose, given = random.choice, [theirs, theirs]
    monkeypatch.setattr(random, "choice", lambda choice: given.pop() if given else choose(choice))

    def try_port(port: int) -> bool:
        tried.append(port)
        return True

    monkeypatch.setattr(ports, "_is_free", try_port)
    found = ports.free_port()
    assert tried == [found]
    assert found != theirs
    assert not given


def test_a_port_is_free_for_tcp_and_udp() -> None:
    port = ports.free_port()
    with socket.create_server(("127.0.0.1", port)), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
        datagrams.bind(("127.0.0.1", port))
