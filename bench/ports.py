"""Loopback ports for services that are about to start.

They are taken from below the range that the system gives to clients, so that no connection takes one before the service
has bound it. A port that was given out is not given out again while this process runs, neither here nor by another
process on this machine that asks this module: the name of an abstract socket stands for the claim, and the system drops
it with the process. So tests that run in parallel never get the same one.
"""

import atexit
import random
import socket
from contextlib import ExitStack

CHOICE = range(15_000, 32_000)
_claims: list[socket.socket] = []


@atexit.register
def _release_claims() -> None:
    """Close the claims with the process: a socket that is left open is a warning."""
    for claim in _claims:
        claim.close()


def free_ports(count: int) -> list[int]:
    """Ports that nothing listens on now, neither with TCP nor with UDP."""
    found: list[int] = []
    while len(found) < count:
        port = random.choice(CHOICE)
        # Claimed before it is tried: to try a port is to listen on it for a moment, and whoever has claimed it may be
        # about to.
        if _claim(port) and _is_free(port):
            found.append(port)
    return found


def free_port() -> int:
    """One such port."""
    return free_ports(1)[0]


def bind_datagrams(port: int = 0) -> socket.socket:
    """A UDP socket on a free port, or on this one: a resolver asks from any port, and so may have it for a moment."""
    while True:
        datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            datagrams.bind(("127.0.0.1", port or free_port()))
        except OSError:
            datagrams.close()
        else:
            return datagrams


def _is_free(port: int) -> bool:
    with ExitStack() as held:
        try:
            held.enter_context(socket.create_server(("127.0.0.1", port)))
            datagrams = held.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            datagrams.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _claim(port: int) -> bool:
    claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        claim.bind(f"\0gatepost-port-{port}")
    except OSError:
        claim.close()
        return False
    _claims.append(claim)
    return True
