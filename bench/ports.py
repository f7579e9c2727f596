"""Loopback ports for services that are about to start.

They are taken from below the range that the system gives to clients, so that no connection takes one before the service
has bound it.
"""

import random
import socket
from contextlib import ExitStack

CHOICE = range(15_000, 32_000)


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on now."""
    found: list[int] = []
    with ExitStack() as held:
        while len(found) < count:
            port = random.choice(CHOICE)
            try:
                held.enter_context(socket.create_server(("127.0.0.1", port)))
            except OSError:
                continue
            found.append(port)
    return found
