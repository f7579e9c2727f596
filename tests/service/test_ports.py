"""Ports that cannot be had are one sentence."""

import socket
from pathlib import Path

import pytest

from gatepost.service import plan
from gatepost.service.data_folder import DataFolder, StartError
from gatepost.settings.keys import GuardSettings


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
    ((_, hosts, port, key),) = plan.list_addresses(plan.Plan(DataFolder(Path("data")), settings))
    with pytest.raises(StartError) as refused:
        plan.bind(hosts, port, key)
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


def test_a_port_can_be_had_again_at_once() -> None:
    """A connection that this side closed first lingers; a restart gets the port all the same."""
    (first,) = plan.bind(("127.0.0.1",), 0, "x")
    port = plan.port_of([first])
    first.listen()
    plan.allow_reuse(first)
    with socket.create_connection(("127.0.0.1", port)) as visitor:
        first.setblocking(True)
        accepted, _ = first.accept()
        accepted.close()
        first.close()
        assert visitor.recv(1) == b""
    plan.close_sockets(plan.bind(("127.0.0.1",), port, "x"))


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
