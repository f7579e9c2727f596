"""Questions to name servers over UDP, and over TCP where an answer does not fit (RFC 7766).

What makes an answer hard to forge for who does not see the question (RFC 5452): a random number for each query, and a
random one of several ports for each server, which are given up after some use; an answer must come from the server and
port that were asked, and repeat the question.

A question is sent up to `TRIES` times, to one server after the other. None has a timer of its own: `sweep` ends the
attempts whose time is over.
"""

import asyncio
import ipaddress
import os
import socket
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from gatepost.guard.answers.dns_message import Reply, build_query, build_question, is_reply, read_reply
from gatepost.questions import Dns

TRIES = 3
PORTS = 8
QUERIES_PER_PORT = 500
PORT = 53
MAX_TCP = 20
_MAX_SERVERS = 3
_READ_SIZE = 4_096
# Answers that are read before other callbacks get their turn.
_MAX_READ = 4
_RESOLV_CONF = Path("/etc/resolv.conf")
_FAILED = Reply("failed")

OnReply = Callable[[Dns, Reply], None]


class Server(NamedTuple):
    """Address and port of a name server."""

    host: str
    port: int

    @property
    def family(self) -> socket.AddressFamily:
        return socket.AF_INET6 if ":" in self.host else socket.AF_INET


class _Query:
    """A question on its way."""

    __slots__ = ("attempt", "deadline", "edns", "number", "question", "section")

    def __init__(self, question: Dns) -> None:
        self.question = question
        self.section = build_question(question)
        self.attempt = 0
        self.deadline = 0.0
        self.number = 0
        self.edns = True


class _UdpPort:
    """A connected socket: the system gives it a random port, and only the server's datagrams."""

    def __init__(self, server: Server) -> None:
        self.sock = socket.socket(server.family, socket.SOCK_DGRAM)
        self.pending: dict[int, _Query] = {}
        self.uses = 0
        self.sock.setblocking(False)
        try:
            self.sock.connect(server)
        except OSError:
            self.sock.close()
            raise


class DnsTransport:
    """Asks name servers. `on_reply` is called once for each question, with "found", "no-data", "no-name" or "failed";
    never from within `ask`. `seconds` is the time of one attempt."""

    def __init__(self, servers: Sequence[Server], seconds: float, on_reply: OnReply) -> None:
        self._servers, self._seconds, self._on_reply = tuple(servers), seconds, on_reply
        self._loop = asyncio.get_running_loop()
        self._ports: list[list[_UdpPort]] = [[] for _ in self._servers]
        self._by_tcp: dict[asyncio.Task[None], _Query] = {}
        self._tcp_room = asyncio.Semaphore(MAX_TCP)
        self._closed = False

    def ask(self, question: Dns) -> None:
        """Send a question whose name DNS can hold."""
        self._send(_Query(question))

    def sweep(self) -> None:
        """Send again, or give up, what was not answered in time."""
        now = self._loop.time()
        for ports in self._ports:
            for port in list(ports):
                # They stand in the order in which they were sent.
                late = []
                for query in port.pending.values():
                    if query.deadline > now:
                        break
                    late.append(query)
                for query in late:
                    # Sending another one may have shown that the port is lost, and all of its questions with it.
                    if port.pending.pop(query.number, None):
                        self._send_again(query)
                self._close_if_used_up(ports, port)

    async def close(self) -> None:
        """Close all sockets; what was asked is not answered any more."""
        self._closed = True
        for ports in self._ports:
            for port in ports:
                self._close_port(port)
            ports.clear()
        for task in list(self._by_tcp):
            task.cancel()
        await asyncio.gather(*self._by_tcp, return_exceptions=True)

    def _send(self, query: _Query) -> None:
        if not self._servers:
            self._loop.call_soon(self._end, query, _FAILED)
            return
        chance = os.urandom(3)
        server = query.attempt % len(self._servers)
        try:
            port = self._choose_port(server, chance[0])
        except OSError:
            self._loop.call_soon(self._send_again, query)
            return
        query.number = _choose_number(port.pending, chance)
        query.deadline = self._loop.time() + self._seconds
        port.uses += 1
        port.pending[query.number] = query
        try:
            port.sock.send(build_query(query.number, query.section, edns=query.edns))
        except BlockingIOError:
            pass  # there is no room for it now: as if it were lost on the way
        except OSError:
            self._give_up(server, port)

    def _send_again(self, query: _Query) -> None:
        query.attempt += 1
        if query.attempt < TRIES and not self._closed:
            self._send(query)
        else:
            self._end(query, _FAILED)

    def _end(self, query: _Query, reply: Reply) -> None:
        if not self._closed:
            self._on_reply(query.question, reply)

    def _choose_port(self, server: int, chance: int) -> _UdpPort:
        ports = self._ports[server]
        fresh = [port for port in ports if port.uses < QUERIES_PER_PORT]
        if len(fresh) < PORTS:
            port = _UdpPort(self._servers[server])
            ports.append(port)
            self._loop.add_reader(port.sock.fileno(), self._read, server, port)
            return port
        return fresh[chance % len(fresh)]

    def _close_if_used_up(self, ports: list[_UdpPort], port: _UdpPort) -> None:
        if port.uses >= QUERIES_PER_PORT and not port.pending and port in ports:
            ports.remove(port)
            self._close_port(port)

    def _close_port(self, port: _UdpPort) -> None:
        self._loop.remove_reader(port.sock.fileno())
        port.sock.close()

    def _read(self, server: int, port: _UdpPort) -> None:
        try:
            for _ in range(_MAX_READ):
                self._take(port, port.sock.recv(_READ_SIZE))
        except BlockingIOError:
            pass
        except OSError:
            self._give_up(server, port)
            return
        self._close_if_used_up(self._ports[server], port)

    def _give_up(self, server: int, port: _UdpPort) -> None:
        """Send again, from other ports, what was sent from this one: the server's machine says that nobody listens.

        The system tells this once, to whatever uses the socket next, which may be another question than the one that
        was lost. uvloop never looks at the socket again after it. So the port goes, and nothing waits on it.
        """
        if port not in self._ports[server]:
            return
        self._ports[server].remove(port)
        self._close_port(port)
        for query in port.pending.values():
            self._loop.call_soon(self._send_again, query)
        port.pending.clear()

    def _take(self, port: _UdpPort, data: bytes) -> None:
        number = int.from_bytes(data[:2])
        query = port.pending.get(number)
        if query is None or not is_reply(data, number, query.section):
            return
        del port.pending[number]
        reply = read_reply(data, query.question, query.section)
        if reply.status == "truncated" or len(data) == _READ_SIZE:
            task = self._loop.create_task(self._ask_by_tcp(query))
            self._by_tcp[task] = query
            task.add_done_callback(self._by_tcp.pop)
        elif reply.status == "no-edns" and query.edns:
            query.edns = False
            self._send(query)
        else:
            self._finish(query, reply)

    def _finish(self, query: _Query, reply: Reply) -> None:
        """End a question, or ask the next server what this one could not tell."""
        if reply.status in ("found", "no-data", "no-name"):
            self._end(query, reply)
        elif query.attempt + 1 < min(TRIES, len(self._servers)):
            self._send_again(query)
        else:
            self._end(query, _FAILED)

    async def _ask_by_tcp(self, query: _Query) -> None:
        server = self._servers[query.attempt % len(self._servers)]
        try:
            async with self._tcp_room, asyncio.timeout(2 * self._seconds):
                reply = await _ask_by_tcp(server, query)
        except (OSError, EOFError):
            reply = _FAILED
        self._finish(query, reply)


def _choose_number(pending: dict[int, _Query], chance: bytes) -> int:
    number = int.from_bytes(chance[1:])
    while number in pending:
        number = int.from_bytes(os.urandom(2))
    return number


async def _ask_by_tcp(server: Server, query: _Query) -> Reply:
    reader, writer = await asyncio.open_connection(server.host, server.port)
    try:
        data = build_query(query.number, query.section, edns=query.edns)
        writer.write(len(data).to_bytes(2) + data)
        answer = await reader.readexactly(int.from_bytes(await reader.readexactly(2)))
    finally:
        writer.close()
    is_ours = is_reply(answer, query.number, query.section)
    return read_reply(answer, query.question, query.section) if is_ours else _FAILED


def parse_servers(texts: Sequence[str]) -> list[Server]:
    """The servers that `address` or `address:port` name; without any, those of the system. Others are left out."""
    found = [_parse_server(text) for text in texts or _read_system_servers()]
    return [server for server in found if server is not None]


def _parse_server(text: str) -> Server | None:
    host, port = text, ""
    if text.startswith("["):
        host, _, port = text[1:].rpartition("]:")
    elif text.count(":") == 1:
        host, _, port = text.partition(":")
    try:
        return Server(str(ipaddress.ip_address(host)), int(port or PORT))
    except ValueError:
        return None


def _read_system_servers() -> list[str]:
    """resolv.conf(5): the first three name servers, or the one on this machine."""
    try:
        lines = _RESOLV_CONF.read_text("utf-8", "replace").splitlines()
    except OSError:
        lines = []
    fields = [line.split() for line in lines]
    found = [each[1] for each in fields if len(each) > 1 and each[0] == "nameserver"]
    return found[:_MAX_SERVERS] or ["127.0.0.1"]
