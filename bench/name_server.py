"""A name server on loopback, for services that are started to be looked at or to be broken: nothing leaves the machine,
and their health does not tell of a name server that is away."""

import contextlib
import socket
import struct
import threading
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any


class NameServer:
    """A name server over UDP: well, silent, slow or lying. A healthy one knows these `texts` (TXT records by name), and
    no other name (NXDOMAIN)."""

    def __init__(self, texts: Mapping[str, str] = MappingProxyType({})) -> None:
        self._texts = texts
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._socket.getsockname()[1]}"
        self.state = "well"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                query, client = self._socket.recvfrom(4_096)
            except OSError:
                return
            if self.state == "silent":
                continue
            delay = 0.2 if self.state == "slow" else 0.0
            threading.Timer(delay, self._answer, (query, client)).start()

    def _answer(self, query: bytes, client: Any) -> None:
        end = 12
        while query[end]:
            end += query[end] + 1
        question, is_address = query[12 : end + 5], query[end + 1 : end + 3] == b"\0\1"
        text = self._texts.get(_read_name(query), "") if query[end + 1 : end + 3] == b"\0\x10" else ""
        if text:
            content = bytes([len(text)]) + text.encode()
            answer = b"\xc0\x0c\0\x10\0\1" + struct.pack(">IH", 1, len(content)) + content
            reply = query[:2] + b"\x81\x80\0\1\0\1\0\0\0\0" + question + answer
        elif self.state == "lying" and is_address:
            # As resolvers of access providers do: every name has an address, that of their own page.
            answer = b"\xc0\x0c\0\1\0\1" + struct.pack(">IH", 1, 4) + socket.inet_aton("127.0.0.2")
            reply = query[:2] + b"\x81\x80\0\1\0\1\0\0\0\0" + question + answer
        else:
            reply = query[:2] + b"\x81\x83\0\1\0\0\0\0\0\0" + question
        with contextlib.suppress(OSError):
            self._socket.sendto(reply, client)

    def close(self) -> None:
        self._socket.close()


def _read_name(query: bytes) -> str:
    labels, place = list[str](), 12
    while length := query[place]:
        labels.append(query[place + 1 : place + 1 + length].decode("ascii", "replace").lower())
        place += 1 + length
    return ".".join(labels)
