"""Publishing to several nodes: the order, what a fault on the first node leads to, kills, and that no scan fails."""

import smtplib
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from tests.service.publishing_deployment import SECRET, TOKEN, Deployment

DROP = '[verdicts]\nclean = {decision = "drop"}\n'


@pytest.fixture
def deployment(tmp_path: Path, postgres_url: str) -> Iterator[Deployment]:
    made = Deployment(tmp_path, postgres_url, guards=2)
    made.start()
    yield made
    made.stop()


class Load:
    """Scans and SMTP sessions that go on while nodes change; what fails is kept."""

    def __init__(self, deployment: Deployment) -> None:
        self._deployment = deployment
        self._ended = threading.Event()
        self.scans = self.sessions = 0
        self.failed: list[object] = []
        self._threads = [threading.Thread(target=each) for each in (self._scan, self._connect)]

    def __enter__(self) -> "Load":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join(120)

    def _scan(self) -> None:
        with self._deployment.client() as client:
            while not self._ended.wait(0.1):
                try:
                    answer = self._deployment.scan(client)
                    if answer.status_code != 200:
                        self.failed.append((answer.status_code, answer.text))
                except httpx.HTTPError as fault:
                    self.failed.append(fault)
                self.scans += 1

    def _connect(self) -> None:
        """A reply of 4xx is no fault: the client comes again. A refused connection is one."""
        while not self._ended.wait(0.2):
            for port in self._deployment.smtp_ports:
                try:
                    with smtplib.SMTP("127.0.0.1", port, timeout=60) as client:
                        code = client.ehlo()[0]
                        if code >= 500:
                            self.failed.append((port, code))
                except smtplib.SMTPServerDisconnected:
                    pass  # 421 between greeting and EHLO
                except smtplib.SMTPConnectError as fault:
                    if fault.smtp_code >= 500:
                        self.failed.append(fault)
                except OSError as fault:
                    self.failed.append((port, fault))
                self.sessions += 1


def test_a_version_is_taken_over_live_then_by_restart_and_no_scan_fails(deployment: Deployment) -> None:
    """One publish that is taken over live, and one that needs every guard to restart, under load."""
    with Load(deployment) as load:
        deployment.edit(policy=DROP)
        ended = deployment.publish("drop clean mail")
        assert ended.returncode == 0, ended.stderr
        with deployment.client() as client:
            assert deployment.scan(client).json()["decision"] == "drop"
        deployment.edit(policy=DROP, slots=8)
        ended = deployment.publish("more slots")
        assert ended.returncode == 0, ended.stderr
    assert not load.failed
    assert load.scans > 5
    assert load.sessions > 5
    found = deployment.list_nodes()
    assert {node["version"] for node in found["nodes"]} == {2}
    assert {node["health"] for node in found["nodes"]} == {"ok"}
    assert sorted(node["slots"] for node in found["nodes"]) == [8, 8, 16]
    # The order: nobody begins before the one before has ended.
    for version in (1, 2):
        begun = [line for line in deployment.log("version is taken over") if line["version"] == version]
        ended_turns = [line for line in deployment.log("version taken over") if line["version"] == version]
        assert len(begun) == len(ended_turns) == 3
        assert [line["of"] for line in begun] == [line["of"] for line in ended_turns]
        for following, before in zip(begun[1:], ended_turns[:-1], strict=True):
            assert before["time"] <= following["time"]
    assert {line["of"] for line in deployment.log("version needs a restart")} >= {"guard0", "guard1"}
    rolled = deployment.run("config", "rollback", "1", "--wait")
    assert rolled.returncode == 0, rolled.stderr
    assert {node["version"] for node in deployment.list_nodes()["nodes"]} == {3}
    shown = "".join(
        deployment.run("config", *words).stdout for words in (("history",), ("diff", "1", "2"), ("show", "2"))
    )
    assert "mainWorkerCount: 6 -> 8" in shown
    assert "drop clean mail" in shown
    assert SECRET not in shown
    assert TOKEN not in shown
    audit = deployment.run("audit", "--json").stdout
    assert all(action in audit for action in ("config.publish", "config.rollback", "config.takeOver"))


def test_a_version_that_fails_on_the_first_node_stops_there(deployment: Deployment) -> None:
    deployment.edit(policy=DROP)
    assert deployment.publish("good").returncode == 0
    # Valid on the machine that publishes, and on no other: the environment of the nodes has no such variable.
    hook = 'events: {webhooks: [{url: "${env:TEST_HOOK}", secret: "${env:TEST_SECRET}"}]}'
    deployment.edit(policy=DROP, guard=hook)
    deployment.environment |= {"TEST_HOOK": "https://hooks.example/x", "TEST_SECRET": "6d" * 32}
    ended = deployment.publish("bad")
    assert ended.returncode == 1
    assert "Version 2 failed on" in ended.stderr
    deployment.await_version(1)
    failed = deployment.list_nodes()["failed"]
    assert failed["version"] == 2
    assert "TEST_HOOK, which is not set" in failed["reason"]
    assert failed["node"] == deployment.log("version failed")[0]["node"]
    assert len(deployment.log("version failed")) == 1
    with deployment.client() as client:
        assert deployment.scan(client).status_code == 200


def test_nothing_faulty_and_no_secret_is_published(deployment: Deployment) -> None:
    deployment.edit(slots=0)
    ended = deployment.publish("faulty", wait=False)
    assert ended.returncode == 1
    assert "mainWorkerCount" in ended.stderr
    deployment.edit(abby="feeds: []\n")
    path = deployment.admin / "abby/abby/abby.yml"
    path.write_text(path.read_text().replace(f'"${{file:{deployment.secrets}/token}}"', f'"{TOKEN}"'))
    ended = deployment.publish("secret", wait=False)
    assert ended.returncode == 1
    assert "staticApiTokens[0].token is a secret in clear" in ended.stderr
    assert TOKEN not in ended.stderr + ended.stdout
    assert deployment.list_nodes()["wanted"] == 0


def test_kills_during_a_publish_leave_all_nodes_on_one_version(deployment: Deployment) -> None:
    """Every node is killed at another moment of a rollout that needs restarts, and comes back."""
    deployment.edit(policy=DROP, slots=9)
    assert deployment.publish("with kills", wait=False).returncode == 0
    for number, node in enumerate(deployment.all_nodes):
        words = ('"version is taken over"', '"version needs a restart"', '"version is taken over"')[number]
        deadline = threading.Event()
        for _ in range(600):
            if words in node.text or deadline.wait(0.1):
                break
        node.kill()
        node.start()
    deployment_versions: set[int] = set()
    for _ in range(240):
        found = deployment.list_nodes()
        deployment_versions = {node["version"] for node in found["nodes"]}
        if not found["turn"] and deployment_versions == {found["wanted"]}:
            break
        threading.Event().wait(1)
    assert len(deployment_versions) == 1
    with deployment.client() as client:
        assert deployment.scan(client).json()["decision"] == ("drop" if deployment_versions == {1} else "deliver")
