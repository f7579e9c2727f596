"""Ports that cannot be had are one sentence."""

import asyncio
import os
import resource
import socket
from pathlib import Path

import pytest

from gatepost.api import connections
from gatepost.service import plan
from gatepost.service.data_folder import DataFolder, StartError
from gatepost.settings.keys import AbbySettings, GuardSettings


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "0.0.0.0"])
def test_a_busy_port_is_named_with_its_key(host: str) -> None:
    bound = plan.bind(("127.0.0.1",), 0, "x")
    port = plan.port_of(bound)
    with pytest.raises(StartError, match=rf"{host}:{port} \(listen.port\): another program uses it"):
        plan.bind((host,), port, "listen.port")
    plan.close_sockets(bound)


def test_a_busy_port_of_the_core_is_said_with_the_two_keys_that_name_it() -> None:
    bound = plan.bind(("127.0.0.1",), 0, "x")
    settings = GuardSettings.model_validate({"scanSources": {"restApi": {"port": plan.port_of(bound)}}})
    (door,) = plan.list_doors(plan.Plan(DataFolder(Path("data")), settings))
    with pytest.raises(StartError) as refused:
        plan.open_door(door)
    plan.close_sockets(bound)
    assert "scanSources.restApi.port in guard.yml" in str(refused.value)
    assert "serviceProviders.core.hosts in abby.yml" in str(refused.value)


@pytest.mark.parametrize(
    ("host", "words"), [("192.0.2.1", "does not have that address"), ("no.such.invalid", "cannot listen")]
)
def test_other_reasons(host: str, words: str) -> None:
    with pytest.raises(StartError, match=words):
        plan.bind((host,), 1, "listen.host")


def test_a_port_is_taken_before_anybody_can_connect() -> None:
    bound = plan.bind(("127.0.0.1",), 0, "x")
    with socket.socket() as visitor, pytest.raises(ConnectionRefusedError):
        visitor.connect(("127.0.0.1", plan.port_of(bound)))
    plan.close_sockets(bound)


async def test_a_port_can_be_had_again_at_once() -> None:
    """A connection that this side closed first lingers; a restart gets the port all the same."""
    first = plan.bind(("127.0.0.1",), 0, "x")
    port = plan.port_of(first)
    accepting = connections.Accepting(first, 1, lambda accepted, _address: accepted.close())
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    assert await reader.read() == b""
    accepting.stop()
    writer.close()
    plan.close_sockets(plan.bind(("127.0.0.1",), port, "x"))


async def test_without_a_descriptor_connections_wait_until_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    said = asyncio.Event()
    monkeypatch.setattr(connections.log, "warning", lambda *_, **__: said.set())
    bound = plan.bind(("127.0.0.1",), 0, "x")
    loop = asyncio.get_running_loop()
    taken: asyncio.Future[socket.socket] = loop.create_future()
    accepting = connections.Accepting(bound, 5, lambda accepted, _address: taken.set_result(accepted))
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    with socket.socket() as client:
        client.setblocking(False)
        free = os.dup(0)
        os.close(free)
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (free, before[1]))
            await loop.sock_connect(client, ("127.0.0.1", plan.port_of(bound)))
            await asyncio.wait_for(said.wait(), 60)
            assert not taken.done()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, before)
        (await asyncio.wait_for(taken, 60)).close()
    accepting.stop()


def test_instances_may_share_a_port_if_all_of_them_say_so() -> None:
    first = plan.bind(("127.0.0.1",), 0, "x", reuse_port=True)
    port = plan.port_of(first)
    second = plan.bind(("127.0.0.1",), port, "x", reuse_port=True)
    with pytest.raises(StartError, match=rf"127\.0\.0\.1:{port} \(x\): another program uses it\.$"):
        plan.bind(("127.0.0.1",), port, "x")
    plan.close_sockets((*first, *second))
    alone = plan.bind(("127.0.0.1",), port, "x")
    with pytest.raises(StartError, match=r"another program uses it\. All who share a port need reusePort and the same"):
        plan.bind(("127.0.0.1",), port, "x", reuse_port=True)
    plan.close_sockets(alone)


@pytest.mark.parametrize("wanted", [False, True])
def test_an_inherited_socket_stays_as_it_is_and_the_log_says_so(wanted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(plan.log, "warning", lambda text, **_: said.append(text))
    for given in (False, True):
        (first,) = plan.bind(("127.0.0.1",), 0, "x", reuse_port=given)
        known: plan.Inherited = {(int(socket.AF_INET), ("127.0.0.1", plan.port_of((first,)))): first}
        assert plan.bind(("127.0.0.1",), plan.port_of((first,)), "x", known, reuse_port=wanted) == (first,)
        assert not known
        first.close()
    assert said == ["reusePort does not hold for an inherited socket"]


def test_every_door_but_that_of_metrics_can_be_shared() -> None:
    names = ("restApi", "smtp", "milter", "spamd", "rspamd")
    sources: dict[str, dict[str, object]] = {name: {"reusePort": True} for name in names}
    sources["smtp"]["outbound"] = {"port": 10_587, "hosts": ["192.0.2.1"]}
    metrics = {"listen": "127.0.0.1:9100"}
    guard = GuardSettings.model_validate({"scanSources": sources, "metrics": metrics})
    cores = {"core": {"hosts": ["https://127.0.0.1:9785"]}}
    listen = {"listen": {"reusePort": True}, "metrics": metrics, "serviceProviders": cores}
    abby = AbbySettings.model_validate(listen)
    doors = plan.list_doors(plan.Plan(DataFolder(Path("data")), guard, abby))
    alone = {door.name for door in doors if not (door.section and door.section.reuse_port)}
    assert alone == {"metrics", "guard metrics"}
    assert len(doors) == 9


def test_several_addresses_and_both_families() -> None:
    (probe,) = plan.bind(("127.0.0.1",), 0, "x")
    port = plan.port_of((probe,))
    probe.close()
    for hosts in (("127.0.0.1", "::1", "127.0.0.1"), ("::",), ("::", "0.0.0.0")):
        bound = plan.bind(hosts, port, "listen.host")
        try:
            assert sorted(each.family for each in bound) == [socket.AF_INET, socket.AF_INET6]
            for each in bound:
                each.listen()
            for host in ("127.0.0.1", "::1"):
                socket.create_connection((host, port), 5).close()
        finally:
            plan.close_sockets(bound)


def test_one_address_that_is_not_there_gives_all_of_them_up() -> None:
    (probe,) = plan.bind(("127.0.0.1",), 0, "x")
    port = plan.port_of((probe,))
    probe.close()
    with pytest.raises(StartError, match=r"192\.0\.2\.1"):
        plan.bind(("127.0.0.1", "192.0.2.1"), port, "listen.host")
    plan.close_sockets(plan.bind(("127.0.0.1",), port, "x"))
