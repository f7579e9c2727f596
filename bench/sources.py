"""One tenant floods by one source, another sends a little by another: how much of that is put off, and how slow is it?

Every source by every source: SMTP, milter, the protocols of rspamd and spamd, and the scan API. The flood is of tenant
A, over 40 connections (more than there are slots) and from a process of its own at a lower priority, since clients are
other machines as a rule. Tenant B sends 20 messages a second over four connections, and each has its time from when it
was due. "Put off" is any answer but a result: a 4xx reply, a failure for now, a connection that is refused or lost. The
next hop runs in the process of the benchmark. No message of B is put off, and its p99 beside the flood is at most three
times that without it: that is the aim. `BENCH_SOURCES_FLOODS=smtp,rest` runs the floods of these sources alone, and
`BENCH_SOURCES_FLOOD=250` floods over more connections than a port takes (`maxConnections`).
"""

import asyncio
import contextlib
import json
import multiprocessing
import multiprocessing.connection
import os
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from statistics import median
from typing import Any, NamedTuple, Protocol, TypeAlias

from tests.blackbox.all_sources import TOKEN, House, open_house
from tests.command_line import run_command
from tests.milter.conftest import MailServer

from bench import load
from bench.sample import MAILS
from bench.smtp import wired

MESSAGES = int(os.environ.get("BENCH_SOURCES_MESSAGES", "100"))
RATE = float(os.environ.get("BENCH_SOURCES_RATE", "20"))
CONNECTIONS, FLOOD = 4, int(os.environ.get("BENCH_SOURCES_FLOOD", "40"))
SETTLE_SECONDS = 2.0
MOST_RATIO = 3.0
PARAGRAPHS = 20
SENDER = "ann@sender.example"


_CHOSEN = os.environ.get("BENCH_SOURCES_FLOODS", "smtp,milter,rspamd,spamd,rest").split(",")


class Tenant(NamedTuple):
    """Who mail is for: every source but the scan API tells it by the domain of the recipient."""

    uid: str
    domain: str

    @property
    def recipient(self) -> str:
        return f"bob@{self.domain}"


def make_tenants(house: House) -> tuple[Tenant, Tenant]:
    """The one that floods, and the quiet one."""
    made = []
    for name in ("flood", "quiet"):
        domain = f"{name}.example"
        code, uid, fault = run_command("tenant", "create", name, "--data", house.folder)
        assert code == 0, fault
        code, _, fault = run_command("tenant", "domains", uid.strip(), domain, "--data", house.folder)
        assert code == 0, fault
        made.append(Tenant(uid.strip(), domain))
    return made[0], made[1]


class PutOffError(Exception):
    """The answer to a message is that it should come again."""


class Client(Protocol):
    """A client of one source, who sends one message after another; a connection that is lost is opened again."""

    async def send(self, raw: bytes) -> None:
        """Send a message. Raises `PutOffError`, or `OSError` where the connection fails."""
        ...

    def close(self) -> None: ...


class _Streams:
    """A connection that is opened when it is needed."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._open: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        self._open = await asyncio.open_connection("127.0.0.1", self._port, limit=1 << 20)
        return self._open

    def close(self) -> None:
        if self._open:
            self._open[1].close()
        self._open = None


class SmtpClient(_Streams):
    """Over SMTP, with one connection for all messages."""

    def __init__(self, house: House, tenant: Tenant) -> None:
        super().__init__(house.smtp)
        self._recipient = tenant.recipient

    async def send(self, raw: bytes) -> None:
        if not self._open:
            await self.connect()
            await self._read(b"2")
            await self._say(b"EHLO mx.sender.example")
        try:
            await self._say(f"MAIL FROM:<{SENDER}>".encode())
            await self._say(f"RCPT TO:<{self._recipient}>".encode())
            await self._say(b"DATA", b"3")
            await self._say(wired(raw).removesuffix(b"\r\n"), b"25")
        except PutOffError:
            await self._say(b"RSET")
            raise

    async def _say(self, line: bytes, wanted: bytes = b"2") -> None:
        assert self._open
        self._open[1].write(line + b"\r\n")
        await self._read(wanted)

    async def _read(self, wanted: bytes) -> None:
        assert self._open
        while (line := await self._open[0].readline())[3:4] == b"-":
            pass
        if not line or line.startswith(b"421"):
            raise ConnectionResetError(line.decode() or "closed")
        if not line.startswith(wanted):
            raise PutOffError(line.decode())


class MilterClient(_Streams):
    """As a mail server with its milter connection."""

    def __init__(self, house: House, tenant: Tenant) -> None:
        super().__init__(house.milter)
        self._recipient = tenant.recipient
        self._server: MailServer | None = None

    async def send(self, raw: bytes) -> None:
        if not self._open or not self._server:
            self._server = MailServer(*await self.connect())
            self._server.send(b"O", b"".join(number.to_bytes(4) for number in (6, 0x1FF, 0x1FFFFF)))
            await self._expect(await self._server.read(), b"O")
            self._server.steps = 0x1FFFFF
            await self._server.greet()
        server = self._server
        await self._expect(await server.ask(b"M", f"<{SENDER}>\0".encode()))
        await self._expect(await server.ask(b"R", f"<{self._recipient}>\0".encode()))
        head, _, body = raw.partition(b"\r\n\r\n")
        for line in head.replace(b"\r\n\t", b"\n\t").replace(b"\r\n ", b"\n ").split(b"\r\n"):
            name, _, value = line.partition(b":")
            server.send(b"L", name + b"\0" + value + b"\0")
        server.send(b"N")
        for start in range(0, len(body), 65_535):
            server.send(b"B", body[start : start + 65_535])
        frames = await server.end()
        await self._expect(frames[-1], b"a", b"d")

    async def _expect(self, frame: tuple[bytes, bytes], *wanted: bytes) -> None:
        assert self._server
        if not frame[0]:
            raise ConnectionResetError("closed")
        if frame[0] not in (wanted or (b"c",)):
            self._server.send(b"A")
            raise PutOffError(repr(frame))


class SpamdClient(_Streams):
    """As spamc, which opens a connection for each message."""

    def __init__(self, house: House, tenant: Tenant) -> None:
        super().__init__(house.spamd)
        self._recipient = tenant.recipient

    async def send(self, raw: bytes) -> None:
        reader, writer = await self.connect()
        head = f"CHECK SPAMC/1.5\r\nUser: {self._recipient}\r\nContent-length: {len(raw)}\r\n\r\n"
        writer.write(head.encode() + raw)
        answer = await reader.read()
        self.close()
        if b" EX_OK" not in answer.partition(b"\n")[0]:
            raise PutOffError(answer.decode())


class RspamdClient(_Streams):
    """As Haraka asks rspamd, with a connection for each message."""

    def __init__(self, house: House, tenant: Tenant) -> None:
        super().__init__(house.rspamd)
        self._recipient = tenant.recipient

    async def send(self, raw: bytes) -> None:
        reader, writer = await self.connect()
        head = f"POST /checkv2 HTTP/1.1\r\nFrom: {SENDER}\r\nRcpt: {self._recipient}\r\nContent-Length: {len(raw)}\r\n"
        writer.write(head.encode() + b"\r\n" + raw)
        answer = await reader.read()
        self.close()
        if b" 200 " not in answer.partition(b"\n")[0]:
            raise PutOffError(answer.decode())


class RestClient(_Streams):
    """Over the scan API, with one connection for all messages."""

    def __init__(self, house: House, tenant: Tenant) -> None:
        super().__init__(house.abby)
        self._tenant = tenant

    async def send(self, raw: bytes) -> None:
        reader, writer = self._open or await self.connect()
        envelope: dict[str, object] = {"envelopeFrom": SENDER, "envelopeRecipients": [self._tenant.recipient]}
        writer.write(load.upload(raw, envelope, TOKEN, tenant=self._tenant.uid))
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            length = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0])
            body = await reader.readexactly(length)
        except asyncio.IncompleteReadError:
            raise ConnectionResetError("closed") from None
        if b" 200 " not in head.partition(b"\n")[0] or json.loads(body)["decision"] == "undecided":
            raise PutOffError(body.decode())


CLIENTS: dict[str, Callable[[House, Tenant], Client]] = {
    "smtp": SmtpClient,
    "milter": MilterClient,
    "rspamd": RspamdClient,
    "spamd": SpamdClient,
    "rest": RestClient,
}


async def try_send(client: Client, raw: bytes) -> str:
    """Send a message; return why it was put off, "" if it was not."""
    try:
        await client.send(raw)
    except PutOffError as fault:
        return f"put off: {fault}"
    except OSError as fault:
        client.close()
        return f"no connection: {fault}"
    return ""


async def keep_sending(client: Client, over: asyncio.Event, counts: Counter[str], paragraphs: int) -> None:
    """Send one message after another until it is over, and count those that were taken and those that were not."""
    while not over.is_set():
        counts["put off" if await try_send(client, write_letter(paragraphs)) else "taken"] += 1
        await asyncio.sleep(0)
    client.close()


# Those that are honest.
_PARAGRAPHS = [mail.text for mail in MAILS[:4]]


def write_letter(paragraphs: int) -> bytes:
    """An honest letter. Each is another one, so that none is a copy of one before."""
    mark = uuid.uuid4().hex
    chosen = (_PARAGRAPHS[int(mark[each % 32], 16) % len(_PARAGRAPHS)] for each in range(paragraphs))
    text = "\n".join((f"Hello Bob, this is about {mark}.", *chosen, "Ann"))
    head = (
        f"From: Ann <{SENDER}>\nTo: bob@example.org\nSubject: Minutes of {mark[:6]}\nMessage-ID: <{mark}@x.example>\n"
    )
    return (head + "Date: Tue, 10 Nov 2026 09:12:00 +0000\n\n" + text + "\n").replace("\n", "\r\n").encode()


class Quiet(NamedTuple):
    """What the quiet tenant saw: its latencies in seconds, and why messages were put off."""

    latencies: list[float]
    faults: list[str]

    @property
    def p99(self) -> float:
        """Milliseconds."""
        ordered = sorted(self.latencies)
        return 1_000 * ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))]


async def _send_quietly(house: House, source: str, tenant: Tenant) -> Quiet:
    """Send at a rate; a latency begins when the message was due."""
    numbers, found = iter(range(MESSAGES)), Quiet([], [])
    began = time.perf_counter()

    async def work() -> None:
        client = CLIENTS[source](house, tenant)
        for number in numbers:
            due = began + number / RATE
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            if fault := await try_send(client, write_letter(PARAGRAPHS)):
                found.faults.append(fault)
            found.latencies.append(time.perf_counter() - due)
        client.close()

    await asyncio.gather(*(work() for _ in range(CONNECTIONS)))
    return found


Pipe: TypeAlias = "multiprocessing.connection.Connection[object, object]"


def _be_quiet(house: House, tenant: Tenant, told: Pipe) -> None:
    """Send by each source that is named, and tell what was seen."""
    while source := told.recv():
        told.send(asyncio.run(_send_quietly(house, str(source), tenant)))


def _flood(house: House, tenant: Tenant, told: Pipe) -> None:
    """Flood by each source that is named until something is said, and tell how many messages were taken."""
    os.nice(5)

    async def run(source: str) -> Counter[str]:
        over, counts = asyncio.Event(), Counter[str]()
        clients = [CLIENTS[source](house, tenant) for _ in range(FLOOD)]
        sending = [asyncio.create_task(keep_sending(each, over, counts, PARAGRAPHS)) for each in clients]
        await asyncio.to_thread(told.recv)
        over.set()
        await asyncio.wait(sending, timeout=60)
        return counts

    while source := told.recv():
        told.send(asyncio.run(run(str(source))))


@contextlib.contextmanager
def _in_process(work: Callable[[House, Tenant, Pipe], None], house: House, tenant: Tenant) -> Iterator[Pipe]:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=work, args=(house._replace(delivered=[]), tenant, theirs))
    process.start()
    try:
        yield ours
        ours.send(None)
        process.join(60)
    finally:
        process.kill()


def _receive(pipe: Pipe) -> Any:
    assert pipe.poll(300), "a client does not come to its end"
    return pipe.recv()


def run() -> str:
    """Every source alone, and beside each flood."""
    beside: dict[str, dict[str, Quiet]] = {}
    floods: dict[str, Counter[str]] = {}
    with open_house({}, "") as house:
        flooding, quiet = make_tenants(house)
        with _in_process(_be_quiet, house, quiet) as client, _in_process(_flood, house, flooding) as flood:

            def ask() -> dict[str, Quiet]:
                found = {}
                for source in CLIENTS:
                    client.send(source)
                    found[source] = _receive(client)
                return found

            ask()
            alone = ask()
            for source in _CHOSEN:
                flood.send(source)
                time.sleep(SETTLE_SECONDS)
                beside[source] = ask()
                flood.send("stop")
                floods[source] = _receive(flood)
    return _tell(alone, beside, floods)


def _tell(alone: dict[str, Quiet], beside: dict[str, dict[str, Quiet]], floods: dict[str, Counter[str]]) -> str:
    lines = [f"| B by | alone, p99 ms | {' | '.join(f'beside {each}: put off, p99 ms' for each in beside)} |"]
    lines.append("|---|---:|" + "---:|" * len(beside))
    for source, quiet in alone.items():
        cells = [f"{len(runs[source].faults)}, {runs[source].p99:.0f}" for runs in beside.values()]
        lines.append(f"| {source} | {quiet.p99:.0f} | {' | '.join(cells)} |")
    runs = [run for each in beside.values() for run in each.values()]
    faults = [fault for each in (*alone.values(), *runs) for fault in each.faults]
    ratios = {
        (flood, source): run.p99 / alone[source].p99 for flood, of in beside.items() for source, run in of.items()
    }
    (flood, source), most = max(ratios.items(), key=lambda pair: pair[1])
    held = "within" if most <= MOST_RATIO else "NOT within"
    told = f"{len(faults)} of {sum(len(run.latencies) for run in runs):,} messages of B were put off (aim: 0)"
    told += f"{f', such as {faults[0]!r}' if faults else ''}. The p99 of B is {median(ratios.values()):.1f} times that "
    told += f"without the flood (median), at most {most:.1f} times ({source} beside {flood}; {held} {MOST_RATIO:.0f}). "
    counts = "; ".join(f"{name}: {each['taken']:,} taken, {each['put off']:,} put off" for name, each in floods.items())
    return "\n".join([*lines, "", told + f"A's floods: {counts}. Load of the machine: {os.getloadavg()[0]:.1f}."])
