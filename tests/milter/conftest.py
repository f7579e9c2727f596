"""A milter source on a loopback port or a Unix socket, with a core and a quarantine of straw, and a small mail server
that speaks the protocol to it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from tests.smtp.conftest import SourceParts, loop_runner

from gatepost.milter.session import MilterPart, MilterSession
from gatepost.service.plan import bind, port_of
from gatepost.smtp.commands import SmtpLimits
from gatepost.smtp.intake import AskerIntake

# What Postfix 3.7 and Sendmail 8.18 offer with version 6, and an old Sendmail with version 2.
ALL_ACTIONS, ALL_STEPS = 0x1FF, 0x1FFFFF
OLD_ACTIONS, OLD_STEPS = 0x3F, 0x7F
# Letters without an answer where the steps of version 6 were agreed on.
SILENT = frozenset(b"CHLNBT")

Frames = list[tuple[bytes, bytes]]


def pack(letter: bytes, data: bytes = b"") -> bytes:
    return (len(data) + 1).to_bytes(4) + letter + data


class MailServer:
    """One connection to the milter source."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.version, self.actions, self.steps = 6, 0, 0

    async def read(self) -> tuple[bytes, bytes]:
        """One frame; its letter is empty where the connection was closed."""
        async with asyncio.timeout(180):
            try:
                size = int.from_bytes(await self.reader.readexactly(4))
                frame = await self.reader.readexactly(size)
            except (asyncio.IncompleteReadError, ConnectionError):
                return b"", b""
        return frame[:1], frame[1:]

    def send(self, letter: bytes, data: bytes = b"") -> None:
        self.writer.write(pack(letter, data))

    async def ask(self, letter: bytes, data: bytes = b"") -> tuple[bytes, bytes]:
        """Send a command and read its answer, if it has one."""
        self.send(letter, data)
        return (b"c", b"") if self.steps & 0x80 and letter[0] in SILENT else await self.read()

    async def negotiate(self, version: int = 6, actions: int = ALL_ACTIONS, steps: int = ALL_STEPS) -> None:
        self.send(b"O", b"".join(number.to_bytes(4) for number in (version, actions, steps)))
        letter, data = await self.read()
        assert letter == b"O", (letter, data)
        numbers = (int.from_bytes(data[start : start + 4]) for start in (0, 4, 8))
        self.version, self.actions, self.steps = numbers

    async def greet(self, address: str = "192.0.2.7", helo: bytes = b"mail.sender.example") -> None:
        family = b"6" if ":" in address else b"4"
        await self.ask(b"C", b"mail.sender.example\0" + family + b"\x30\x39" + address.encode() + b"\0")
        await self.ask(b"H", helo + b"\0")

    async def envelope(self, sender: bytes = b"<a@x.example>", *recipients: bytes) -> None:
        assert await self.ask(b"M", sender + b"\0") == (b"c", b"")
        for recipient in recipients or (b"<b@y.example>",):
            assert await self.ask(b"R", recipient + b"\0") == (b"c", b"")

    async def content(self, fields: list[tuple[bytes, bytes]], body: bytes, piece: int = 65_535) -> None:
        """All but the end of the message."""
        for name, value in fields:
            spaced = value if self.steps & 0x100000 else value.lstrip(b" ")
            assert await self.ask(b"L", name + b"\0" + spaced + b"\0") == (b"c", b"")
        assert await self.ask(b"N") == (b"c", b"")
        for start in range(0, len(body), piece):
            assert await self.ask(b"B", body[start : start + piece]) == (b"c", b"")

    async def end(self, data: bytes = b"") -> Frames:
        """Send the end of the message; return all frames of the answer, without those that say that it takes time."""
        self.send(b"E", data)
        frames = []
        while True:
            frame = await self.read()
            if frame[0] != b"p":
                frames.append(frame)
            if frame[0] in (b"a", b"c", b"d", b"r", b"t", b"y", b""):
                return frames

    async def message(self, fields: list[tuple[bytes, bytes]], body: bytes = b"Hello\r\n") -> Frames:
        """A whole message with the usual envelope."""
        await self.envelope()
        await self.content(fields, body)
        return await self.end()


class MilterHouse(SourceParts):
    """The milter source and what is behind it."""

    def __init__(self, folder: Path, limits: SmtpLimits) -> None:
        super().__init__(folder)
        self.limits = limits
        self.intake: AskerIntake[MilterPart]
        self.address: str | int = 0

    def part(self, *, in_queue: bool = False, most: int = 100) -> MilterPart:
        return MilterPart(self.make_services(self.limits), most, quarantine=self.holding, in_queue=in_queue)

    async def connect(self, *, agreed: bool = True) -> MailServer:
        if isinstance(self.address, str):
            server = MailServer(*await asyncio.open_unix_connection(self.address))
        else:
            server = MailServer(*await asyncio.open_connection("127.0.0.1", self.address))
        self.clients.append(server)
        if agreed:
            await server.negotiate()
            await server.greet()
        return server


@contextlib.asynccontextmanager
async def housed_milter(
    folder: Path, *, limits: SmtpLimits | None = None, unix: bool = False, in_queue: bool = False, most: int = 100
) -> AsyncIterator[MilterHouse]:
    """A milter source of the test's own."""
    house = MilterHouse(folder, limits or SmtpLimits())
    sockets = bind((f"unix:{folder}/milter",) if unix else ("127.0.0.1",), 0, "test")
    house.address = str(folder / "milter") if unix else port_of(sockets)
    house.intake = AskerIntake("milter", house.part(in_queue=in_queue, most=most), MilterSession, sockets)
    async with house.serving(house.intake):
        yield house


House = Callable[..., contextlib.AbstractAsyncContextManager[MilterHouse]]


@pytest.fixture
def house(tmp_path: Path) -> House:
    """`async with house() as milter:` is a milter source of the test's own."""
    return lambda **options: housed_milter(tmp_path, **options)


__all__ = ["House", "house", "loop_runner"]
