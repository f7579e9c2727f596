"""Two Gateposts on one database: what is changed through one holds for the next message that the other scans."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from bench.ports import free_ports
from bench.processes import await_output

from gatepost.client import Client
from gatepost.client.calls import Retries
from gatepost.settings.files import ABBY_FILE, GUARD_FILE
from gatepost.store import open_store

MAIL = (
    b"From: Ann <ann@sender.example>\r\nTo: b@rcpt.example\r\nSubject: minutes\r\n\r\n"
    b"The minutes are at https://files.example/minutes as usual.\r\n"
)
ENGINES = [pytest.param("sqlite", marks=pytest.mark.variant), "postgresql"]


class Node(NamedTuple):
    """One running Gatepost."""

    process: subprocess.Popen[bytes]
    client: Client


def started(service: str, folder: Path, storage: str, api_key: str) -> Node:
    """`gatepost serve` or `gatepost abby` in a process of its own, with a data folder of its own."""
    guard_port, abby_port = free_ports(2)
    files = {
        GUARD_FILE: f"scanSources: {{restApi: {{port: {guard_port}}}}}\nworkerProcesses: 1\n",
        ABBY_FILE: f"listen: {{host: 127.0.0.1, port: {abby_port}}}\n"
        f'serviceProviders: {{core: {{hosts: ["https://127.0.0.1:{guard_port}"]}}}}\n'
        "staticApiTokens: [{name: test, token: t}]\n",
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_text(f'{text}storage: {{url: "{storage}"}}\n')
    output = folder / "output"
    with output.open("wb") as sink:
        command = [sys.executable, "-m", "gatepost", service, "--config", str(folder), "--data", str(folder)]
        process = subprocess.Popen(command, stdout=sink, stderr=sink, env={**os.environ})
    await_output(process, output, '"service listening"')
    url, ca = f"https://127.0.0.1:{abby_port}", folder / "tls/certificate.pem"
    return Node(process, Client(url, "t", api_key=api_key, ca=ca, timeout=60, retries=Retries(attempts=1)))


async def _prepared(url: str) -> tuple[str, str]:
    store = open_store(url, Path("/"))
    tenant: Any = await store.tenants.create("Acme")
    secret: Any = await store.api_keys.create("test", None, read_only=False, expires=None)
    await store.close()
    return tenant.uid, secret[0]


@pytest.fixture
def nodes(storage: str, tmp_path: Path) -> Iterator[tuple[Node, Node, str]]:
    tenant, key = asyncio.run(_prepared(storage))
    running: list[Node] = []
    try:
        # Lists are changed through the first, and mail is scanned through the second: only that one needs a core.
        for service in ("abby", "serve"):
            (tmp_path / service).mkdir()
            running.append(started(service, tmp_path / service, storage, key))
        yield running[0], running[1], tenant
    finally:
        for node in running:
            node.client.close()
            node.process.send_signal(signal.SIGTERM)
        for node in running:
            node.process.wait(90)


@pytest.mark.parametrize("storage", ENGINES, indirect=True)
def test_a_change_through_one_holds_for_the_next_message_of_the_other(nodes: tuple[Node, Node, str]) -> None:
    one, two, tenant = nodes

    def tags(uid: str | None = None) -> tuple[str, ...]:
        found = two.client.scan(MAIL, sender="ann@sender.example", recipients=["b@rcpt.example"], tenant=uid).tags
        return tuple(tag for tag in found if tag.startswith("list:"))

    assert tags() == tags(tenant) == ()
    for name, entry in (
        ("blocked-senders", "sender.example"),
        ("blocked-urls", "files.example/minutes"),
        ("blocked-phrases", "the minutes are"),
    ):
        one.client.add_entries(name, [entry], tenant=tenant)
        assert tags(tenant) == (f"list:{name}",)
        assert tags() == (), "another scope does not have it"
        one.client.delete_entries(name, [entry], tenant=tenant)
        assert tags(tenant) == ()
        one.client.add_entries(name, [entry])
        assert tags() == tags(tenant) == (f"list:{name}",)
        one.client.delete_entries(name, [entry])
        assert tags() == ()


@pytest.mark.parametrize("storage", ENGINES, indirect=True)
@pytest.mark.variant
def test_a_name_that_one_protects_is_found_in_mail_through_the_other(nodes: tuple[Node, Node, str]) -> None:
    one, two, tenant = nodes

    def tags(domain: str, uid: str | None = tenant) -> tuple[str, ...]:
        mail = MAIL.replace(b"Ann <ann@sender.example>", f"Quillhaven Support <desk@{domain}>".encode())
        found = two.client.scan(mail, sender=f"desk@{domain}", recipients=["b@rcpt.example"], tenant=uid).tags
        return tuple(tag for tag in found if tag == "sender:brand-impersonation")

    assert tags("sender.example") == ()
    one.client.add_entries("protected-names", ["Quillhaven <quillhaven.example>"], tenant=tenant)
    assert tags("sender.example") == ("sender:brand-impersonation",)
    assert tags("mail.quillhaven.example") == ()
    assert tags("sender.example", None) == (), "another scope does not have it"
    one.client.delete_entries("protected-names", ["quillhaven <quillhaven.example>"], tenant=tenant)
    assert tags("sender.example") == ()
