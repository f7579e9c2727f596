"""One service with all sources, as an operator runs it, and a sender for each of them."""

import asyncio
import contextlib
import json
import subprocess
import sys
import tempfile
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import httpx
from bench.name_server import NameServer
from bench.ports import free_ports
from bench.processes import await_output
from tests.conftest import MailSink
from tests.milter.conftest import MailServer

TOKEN = "5f" * 32


class House(NamedTuple):
    """The folder and the ports of one service, and what its next hop took."""

    folder: Path
    abby: int
    guard: int
    smtp: int
    milter: int
    spamd: int
    rspamd: int
    delivered: list[tuple[str, tuple[str, ...], bytes]]


@contextlib.contextmanager
def open_house(texts: Mapping[str, str], more: str) -> Iterator[House]:
    """Run a service with every source; DNS has these TXT records, `guard.yml` these further lines."""
    dns = NameServer(dict(texts))
    with MailSink() as hop, tempfile.TemporaryDirectory(prefix="gatepost-all-sources-") as name:
        threading.Thread(target=hop.serve_forever, args=(0.02,), daemon=True).start()
        folder = Path(name)
        abby, guard, smtp, milter, spamd, rspamd = free_ports(6)
        ports = House(folder, abby, guard, smtp, milter, spamd, rspamd, hop.mail)
        (folder / "guard/core").mkdir(parents=True)
        (folder / "abby/abby").mkdir(parents=True)
        (folder / "guard/core/guard.yml").write_text(
            "scanSources:\n"
            f"  restApi: {{host: 127.0.0.1, port: {ports.guard}}}\n"
            f"  smtp: {{host: 127.0.0.1, port: {ports.smtp}, xclientHosts: ['127.0.0.1']}}\n"
            f"  milter: {{listen: '127.0.0.1:{ports.milter}'}}\n"
            f"  spamd: {{listen: '127.0.0.1:{ports.spamd}'}}\n"
            f"  rspamd: {{listen: '127.0.0.1:{ports.rspamd}'}}\n"
            f"{more}"
            f"delivery: {{nextHop: '{hop.url}'}}\n"
            f"dns: {{nameservers: ['{dns.address}']}}\n"
        )
        (folder / "abby/abby/abby.yml").write_text(
            f"listen: {{host: 127.0.0.1, port: {ports.abby}}}\ntls: 'off'\n"
            f"serviceProviders: {{core: {{hosts: ['https://127.0.0.1:{ports.guard}']}}}}\n"
            f"staticApiTokens: [{{name: border, token: '{TOKEN}', permissions: [messages.read, messages.search]}}]\n"
        )
        output = folder / "output"
        with output.open("wb") as file:
            arguments = [sys.executable, "-m", "gatepost", "serve", "--config", name, "--data", name]
            process = subprocess.Popen(arguments, stdout=file, stderr=file)
        try:
            await_output(process, output, "service listening")
            yield ports
        finally:
            process.terminate()
            process.wait(180)
            dns.close()
            hop.shutdown()


class Letter(NamedTuple):
    """A message and its envelope."""

    raw: bytes
    sender: str
    recipients: tuple[str, ...]


class Answer(NamedTuple):
    """Whether a message was held."""

    held: bool


async def send_smtp(house: House, told: dict[str, str], letter: Letter) -> Answer:
    """Over SMTP as a mail server in front does, with the attributes of XCLIENT or XFORWARD."""
    reader, writer = await asyncio.open_connection("127.0.0.1", house.smtp)

    async def ask(line: str) -> str:
        writer.write(line.encode() + b"\r\n")
        while (answer := (await reader.readline()).decode())[3:4] == "-":
            pass
        return answer

    assert (await reader.readline()).startswith(b"220")
    verb = told.get("verb", "")
    attributes = " ".join(f"{name}={value}" for name, value in told.items() if name != "verb")
    if verb == "XCLIENT":
        assert (await ask(f"{verb} {attributes}")).startswith("220")
    assert (await ask("EHLO mx.house.example")).startswith("250")
    if verb == "XFORWARD":
        assert (await ask(f"{verb} {attributes}")).startswith("250")
    assert (await ask(f"MAIL FROM:<{letter.sender}>")).startswith("250")
    for recipient in letter.recipients:
        assert (await ask(f"RCPT TO:<{recipient}>")).startswith("250")
    assert (await ask("DATA")).startswith("354")
    before = len(house.delivered)
    answer = await ask(letter.raw.decode() + ".")
    writer.close()
    assert answer.startswith("250"), answer
    return Answer(len(house.delivered) == before)


async def send_milter(house: House, told: dict[str, str], letter: Letter) -> Answer:
    server = MailServer(*await asyncio.open_connection("127.0.0.1", house.milter))
    await server.negotiate()
    await server.greet(told.get("address", "127.0.0.1"), b"client.example")
    if login := told.get("login"):
        server.send(b"D", b"M{auth_authen}\0" + login.encode() + b"\0")
    paths = (f"<{each}>".encode() for each in (letter.sender, *letter.recipients))
    await server.envelope(*paths)
    head, _, body = letter.raw.partition(b"\r\n\r\n")
    fields = [line.partition(b":")[::2] for line in head.replace(b"\r\n\t", b" ").split(b"\r\n")]
    await server.content([(name, value) for name, value in fields], body)
    frames = await server.end()
    server.writer.close()
    assert frames[-1][0] in (b"a", b"c", b"d"), frames
    return Answer(frames[-1][0] == b"d" or any(letter == b"q" for letter, _ in frames))


async def send_rspamd(house: House, told: dict[str, str], letter: Letter) -> Answer:
    headers = [("From", letter.sender), *(("Rcpt", each) for each in letter.recipients), *told.items()]
    async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
        url = f"http://127.0.0.1:{house.rspamd}/checkv2"
        answer = await client.post(url, content=letter.raw, headers=headers)
    return Answer(answer.json()["action"] != "no action")


async def send_spamd(house: House, _told: dict[str, str], letter: Letter) -> Answer:
    reader, writer = await asyncio.open_connection("127.0.0.1", house.spamd)
    named = "".join(f"User: {each}\r\n" for each in letter.recipients[:1])
    writer.write(f"CHECK SPAMC/1.5\r\n{named}Content-length: {len(letter.raw)}\r\n\r\n".encode() + letter.raw)
    answer = await reader.read()
    writer.close()
    return Answer(b"Spam: True" in answer)


async def send_rest(house: House, told: dict[str, str], letter: Letter) -> Answer:
    border = {"envelopeFrom": letter.sender, "envelopeRecipients": list(letter.recipients), **told}
    files: dict[str, tuple[str | None, str | bytes, str]] = {
        "parameters": (None, json.dumps({"borderMtaData": border}), "application/json"),
        "email": ("mail.eml", letter.raw, "message/rfc822"),
    }
    async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
        url = f"http://127.0.0.1:{house.abby}/v1/messageQueue/submitEmail"
        answer = await client.post(url, files=files, headers={"Authorization": f"Bearer {TOKEN}"})
    return Answer(answer.json()["decision"] != "deliver")


def forward(address: str) -> dict[str, str]:
    """What XFORWARD tells of a client."""
    return {"verb": "XFORWARD", "ADDR": address, "NAME": "client.example", "HELO": "client.example"}


SOURCES: dict[str, Callable[[House, dict[str, str], Letter], Awaitable[Answer]]] = {
    "smtp": send_smtp,
    "milter": send_milter,
    "rspamd": send_rspamd,
    "spamd": send_spamd,
    "rest": send_rest,
}
