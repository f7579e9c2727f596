"""Unsigned mail of an own user, and a stranger's mail in the same name, by every source that there is.

The domain publishes SPF `-all` and DMARC `p=reject`. What its own users send is delivered wherever a source tells that
they sent it, or tells nothing of the client; what a stranger sends is held as spoofing wherever the source tells the
client. It runs as an operator runs it: one service with all sources, asked over their ports.
"""

import asyncio
import json
import subprocess
import sys
import tempfile
import threading
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest
from bench.name_server import NameServer
from bench.ports import free_ports
from bench.processes import await_output
from tests.conftest import MailSink
from tests.milter.conftest import MailServer

OWN, PRIVATE, STRANGER = "203.0.113.9", "10.1.2.3", "192.0.2.66"
TEXTS = {"house.example": "v=spf1 ip4:203.0.113.250 -all", "_dmarc.house.example": "v=DMARC1; p=reject"}
TOKEN = "5f" * 32
OUTSIDE = f"from evil.example (evil.example [{STRANGER}]) by mx.house.example (Postfix) with ESMTPS id 4Xy"
HOME = f"from phone (line.isp.example [{STRANGER}])\r\n\tby mx.house.example (Postfix) with ESMTPSA id 4Xy"
# What a client says in HELO to look like somebody who had logged in.
FORGED = f"from x by mx with ESMTPSA (evil [{STRANGER}])\r\n\tby mx.house.example (Postfix) with ESMTP id 4Xy"


class House(NamedTuple):
    """The ports of one service, and what its next hop took."""

    abby: int
    guard: int
    smtp: int
    milter: int
    spamd: int
    rspamd: int
    delivered: list[tuple[str, tuple[str, ...], bytes]]


@pytest.fixture(scope="module")
def house() -> Iterator[House]:
    dns = NameServer(TEXTS)
    with MailSink() as hop, tempfile.TemporaryDirectory(prefix="gatepost-own-users-") as name:
        threading.Thread(target=hop.serve_forever, args=(0.02,), daemon=True).start()
        folder = Path(name)
        abby, guard, smtp, milter, spamd, rspamd = free_ports(6)
        ports = House(abby, guard, smtp, milter, spamd, rspamd, hop.mail)
        (folder / "guard/core").mkdir(parents=True)
        (folder / "abby/abby").mkdir(parents=True)
        (folder / "guard/core/guard.yml").write_text(
            "scanSources:\n"
            f"  restApi: {{host: 127.0.0.1, port: {ports.guard}}}\n"
            f"  smtp: {{host: 127.0.0.1, port: {ports.smtp}, xclientHosts: ['127.0.0.1']}}\n"
            f"  milter: {{listen: '127.0.0.1:{ports.milter}'}}\n"
            f"  spamd: {{listen: '127.0.0.1:{ports.spamd}'}}\n"
            f"  rspamd: {{listen: '127.0.0.1:{ports.rspamd}'}}\n"
            "ownNetworks: ['203.0.113.0/24', '10.0.0.0/8']\n"
            f"delivery: {{nextHop: '{hop.url}'}}\n"
            f"dns: {{nameservers: ['{dns.address}']}}\n"
        )
        (folder / "abby/abby/abby.yml").write_text(
            f"listen: {{host: 127.0.0.1, port: {ports.abby}}}\ntls: 'off'\n"
            f"serviceProviders: {{core: {{hosts: ['https://127.0.0.1:{ports.guard}']}}}}\n"
            f"staticApiTokens: [{{name: border, token: '{TOKEN}', permissions: [messages.read]}}]\n"
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


def write_mail(received: str) -> bytes:
    """A letter of an own user. Each is another one, so that none is a copy of one that was sent before."""
    mark = uuid.uuid4().hex
    top = f"Received: {received}; Tue, 10 Nov 2026 09:12:00 +0000\r\n" if received else ""
    return (
        f"{top}From: Ann <ann@house.example>\r\nTo: bob@house.example\r\nSubject: Minutes of {mark[:6]}\r\n"
        f"Date: Tue, 10 Nov 2026 09:12:00 +0000\r\nMessage-ID: <{mark}@house.example>\r\n\r\n"
        f"Hello Bob,\r\n\r\nhere are the minutes of Monday, number {mark}.\r\n\r\nAnn\r\n"
    ).encode()


class Answer(NamedTuple):
    """Whether a message was held."""

    held: bool


async def send_smtp(house: House, told: dict[str, str], received: str) -> Answer:
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
    assert (await ask("MAIL FROM:<ann@house.example>")).startswith("250")
    assert (await ask("RCPT TO:<bob@house.example>")).startswith("250")
    assert (await ask("DATA")).startswith("354")
    before = len(house.delivered)
    answer = await ask(write_mail(received).decode() + ".")
    writer.close()
    assert answer.startswith("250"), answer
    return Answer(len(house.delivered) == before)


async def send_milter(house: House, told: dict[str, str], received: str) -> Answer:
    server = MailServer(*await asyncio.open_connection("127.0.0.1", house.milter))
    await server.negotiate()
    await server.greet(told.get("address", "127.0.0.1"), b"client.example")
    if login := told.get("login"):
        server.send(b"D", b"M{auth_authen}\0" + login.encode() + b"\0")
    await server.envelope(b"<ann@house.example>", b"<bob@house.example>")
    head, _, body = write_mail(received).partition(b"\r\n\r\n")
    fields = [line.partition(b":")[::2] for line in head.replace(b"\r\n\t", b" ").split(b"\r\n")]
    await server.content([(name, value) for name, value in fields], body)
    frames = await server.end()
    server.writer.close()
    assert frames[-1][0] in (b"a", b"c", b"d"), frames
    return Answer(frames[-1][0] == b"d" or any(letter == b"q" for letter, _ in frames))


async def send_rspamd(house: House, told: dict[str, str], received: str) -> Answer:
    headers = {"From": "ann@house.example", "Rcpt": "bob@house.example", **told}
    async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
        url = f"http://127.0.0.1:{house.rspamd}/checkv2"
        answer = await client.post(url, content=write_mail(received), headers=headers)
    return Answer(answer.json()["action"] != "no action")


async def send_spamd(house: House, _told: dict[str, str], received: str) -> Answer:
    reader, writer = await asyncio.open_connection("127.0.0.1", house.spamd)
    mail = write_mail(received)
    writer.write(f"CHECK SPAMC/1.5\r\nContent-length: {len(mail)}\r\n\r\n".encode() + mail)
    answer = await reader.read()
    writer.close()
    return Answer(b"Spam: True" in answer)


async def send_rest(house: House, told: dict[str, str], received: str) -> Answer:
    border = {"envelopeFrom": "ann@house.example", "envelopeRecipients": ["bob@house.example"], **told}
    files: dict[str, tuple[str | None, str | bytes, str]] = {
        "parameters": (None, json.dumps({"borderMtaData": border}), "application/json"),
        "email": ("mail.eml", write_mail(received), "message/rfc822"),
    }
    async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
        url = f"http://127.0.0.1:{house.abby}/v1/messageQueue/submitEmail"
        answer = await client.post(url, files=files, headers={"Authorization": f"Bearer {TOKEN}"})
    return Answer(answer.json()["decision"] != "deliver")


def forward(address: str) -> dict[str, str]:
    return {"verb": "XFORWARD", "ADDR": address, "NAME": "client.example", "HELO": "client.example"}


def present(address: str, login: str = "") -> dict[str, str]:
    return {"verb": "XCLIENT", "ADDR": address, "NAME": "client.example", **({"LOGIN": login} if login else {})}


SOURCES: dict[str, Callable[[House, dict[str, str], str], object]] = {
    "smtp": send_smtp,
    "milter": send_milter,
    "rspamd": send_rspamd,
    "spamd": send_spamd,
    "rest": send_rest,
}
DELIVERED: list[tuple[str, dict[str, str], str]] = [
    # The source tells that an own user sent it.
    ("smtp", forward(OWN), ""),
    ("smtp", forward(PRIVATE), ""),
    ("smtp", forward(STRANGER), HOME),
    ("smtp", {"verb": "XFORWARD", "SOURCE": "LOCAL"}, ""),
    ("smtp", {**forward("127.0.0.1"), "SOURCE": "LOCAL"}, ""),
    ("smtp", present(OWN), ""),
    ("smtp", present(STRANGER, "ann"), ""),
    ("milter", {"address": "127.0.0.1"}, ""),
    ("milter", {"address": "::1"}, ""),
    ("milter", {"address": OWN}, ""),
    ("milter", {"address": STRANGER, "login": "ann"}, ""),
    ("rspamd", {"IP": OWN}, ""),
    ("rspamd", {"IP": STRANGER, "User": "ann@house.example"}, ""),
    ("rest", {"remoteAddress": OWN}, ""),
    ("rest", {"remoteAddress": PRIVATE}, ""),
    # The source tells nothing of the client, or a relay in front instead of it.
    ("smtp", {}, ""),
    ("smtp", {}, HOME),
    ("smtp", forward("192.168.7.7"), ""),
    ("rspamd", {"IP": "127.0.0.1"}, ""),
    ("rspamd", {}, ""),
    ("spamd", {}, ""),
    ("spamd", {}, HOME),
    ("rest", {}, ""),
    ("rest", {}, HOME),
    ("rest", {"remoteAddress": "127.0.0.1"}, ""),
]
HELD: list[tuple[str, dict[str, str], str]] = [
    ("smtp", forward(STRANGER), ""),
    ("smtp", forward(STRANGER), OUTSIDE),
    ("smtp", forward(STRANGER), FORGED),
    ("smtp", {**forward(STRANGER), "SOURCE": "LOCAL"}, ""),
    ("smtp", present(STRANGER), ""),
    # Who sends XCLIENT need not write a Received field: that on top may be the stranger's.
    ("smtp", present(STRANGER), HOME),
    ("smtp", {}, OUTSIDE),
    ("milter", {"address": STRANGER}, ""),
    ("milter", {"address": STRANGER}, HOME),
    ("rspamd", {"IP": STRANGER}, ""),
    ("rspamd", {"IP": STRANGER}, HOME),
    ("spamd", {}, OUTSIDE),
    ("rest", {"remoteAddress": STRANGER}, ""),
    ("rest", {"remoteAddress": STRANGER}, HOME),
    ("rest", {}, OUTSIDE),
]


def name_row(row: tuple[str, dict[str, str], str]) -> str:
    source, told, received = row
    fields = {HOME: "home", OUTSIDE: "outside", FORGED: "forged", "": ""}
    return " ".join((source, *told.values(), fields[received])).replace("client.example", "").strip()


@pytest.mark.parametrize("row", DELIVERED, ids=name_row)
def test_mail_of_own_users_is_delivered(house: House, row: tuple[str, dict[str, str], str]) -> None:
    source, told, received = row
    assert asyncio.run(SOURCES[source](house, told, received)) == Answer(held=False)  # type: ignore[arg-type]


@pytest.mark.parametrize("row", HELD, ids=name_row)
def test_mail_of_strangers_in_the_same_name_is_held(house: House, row: tuple[str, dict[str, str], str]) -> None:
    source, told, received = row
    assert asyncio.run(SOURCES[source](house, told, received)) == Answer(held=True)  # type: ignore[arg-type]
