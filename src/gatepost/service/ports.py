"""Bind ports before anything starts, so that a busy port gives one sentence instead of a half-started service.

A port is bound first and listened on when the service is ready: until then connections are refused. In between the
port must be taken for good: with SO_REUSEADDR two sockets can be bound to one port until one of them listens
(socket(7)). That option is therefore used only against the remains of closed connections, and set for all sockets once
the service listens.
"""

import errno
import socket
from collections.abc import Sequence

from gatepost.service.data_folder import StartError

_REASONS = {
    errno.EADDRINUSE: "another program uses it",
    errno.EADDRNOTAVAIL: "this machine does not have that address",
    errno.EACCES: "this user may not use that port; choose one above 1023",
}


def bind(host: str, port: int, key: str) -> tuple[socket.socket, ...]:
    """Bind a port on every address of a host name; `key` is the setting that an error names. Raises `StartError`."""
    bound: list[socket.socket] = []
    try:
        for family, address in _find_addresses(host, port):
            bound.append(_bind_one(family, address))
    except OSError as fault:
        close_sockets(bound)
        reason = _REASONS.get(fault.errno or 0, (fault.strerror or str(fault)).lower())
        raise StartError(f"Gatepost cannot listen on {render_address(host, port)} ({key}): {reason}.") from None
    return tuple(bound)


def close_sockets(sockets: Sequence[socket.socket]) -> None:
    """Close all of them, which frees their ports."""
    for each in sockets:
        each.close()


def port_of(sockets: Sequence[socket.socket]) -> int:
    """Return the port of bound sockets; the kernel chose it if 0 was asked for."""
    return int(sockets[0].getsockname()[1])


def render_address(host: str, port: int) -> str:
    """Return host and port as they are written in a URL."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _find_addresses(host: str, port: int) -> list[tuple[int, tuple[str, int]]]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    several = list(dict.fromkeys((family, (str(address[0]), port)) for family, _, _, _, address in found))
    # With port 0 each address would get a port of its own.
    return [(int(family), address) for family, address in several][: 1 if port == 0 else None]


def _bind_one(family: int, address: tuple[str, int]) -> socket.socket:
    try:
        return _try_bind(family, address, reuse=False)
    except OSError as fault:
        if fault.errno != errno.EADDRINUSE:
            raise
        return _try_bind(family, address, reuse=True)


def _try_bind(family: int, address: tuple[str, int], *, reuse: bool) -> socket.socket:
    created = socket.socket(family, socket.SOCK_STREAM)
    try:
        if reuse:
            allow_reuse(created)
        if family == socket.AF_INET6:
            created.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        created.setblocking(False)
        created.bind(address)
    except OSError:
        created.close()
        raise
    return created


def allow_reuse(listening: socket.socket) -> None:
    """Let the next start bind the port while closed connections are in TIME-WAIT (RFC 9293 section 3.6.1)."""
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
