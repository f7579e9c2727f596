"""Publishing to several nodes: the order, what a fault on the first node leads to, kills, and that no scan fails.

All tests use one deployment, one after the other: to start four processes takes longer than most tests.
"""

import asyncio
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import asyncpg
import httpx
import pytest
from bench.deployment import SECRET, TOKEN, Deployment, Load
from tests.command_line import run_command

pytestmark = pytest.mark.timeout(900)
DROP = '[verdicts]\nclean = {decision = "drop"}\n'


class WatchedDeployment(Deployment):
    """A deployment whose operator's commands run in the process of the tests, since each start costs CPU."""

    def run(self, *words: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
        """Run a command on the machine of abby."""
        with pytest.MonkeyPatch.context() as patch:
            for name, value in self.environment.items():
                patch.setenv(name, value)
            code, out, err = run_command(*words, "--config", folder or self.admin, "--data", self.folder / "cli")
        return subprocess.CompletedProcess(words, code, out, err)


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory, postgres_server: str) -> Iterator[Deployment]:
    async def create() -> None:
        connection = await asyncpg.connect(postgres_server)
        await connection.execute("CREATE DATABASE publishing TEMPLATE template0 ENCODING 'UTF8'")
        await connection.close()

    asyncio.run(create())
    url = postgres_server.replace("/postgres?", "/publishing?")
    made = WatchedDeployment(tmp_path_factory.mktemp("deployment"), url, guards=2)
    made.start()
    yield made
    made.stop()


def decide(deployment: Deployment) -> str:
    """How a message is decided; a node that was just started may not listen yet."""
    deadline = time.monotonic() + 120
    with deployment.client() as client:
        while True:
            try:
                return str(deployment.scan(client).json()["decision"])
            except httpx.ConnectError:
                assert time.monotonic() < deadline
                time.sleep(0.2)


def versions(found: dict[str, Any]) -> set[int]:
    return {node["version"] for node in found["nodes"]}


@pytest.mark.variant
def test_nothing_faulty_and_no_secret_is_published(deployment: Deployment) -> None:
    deployment.edit(slots=0)
    ended = deployment.publish("faulty", wait=False)
    assert ended.returncode == 1
    assert "mainWorkerCount" in ended.stderr
    deployment.edit()
    path = deployment.admin / "abby/abby/abby.yml"
    path.write_text(path.read_text().replace(f'"${{file:{deployment.secrets}/token}}"', f'"{TOKEN}"'))
    ended = deployment.publish("secret", wait=False)
    assert ended.returncode == 1
    assert "staticApiTokens[0].token is a secret in clear" in ended.stderr
    assert TOKEN not in ended.stderr + ended.stdout
    assert deployment.list_nodes()["wanted"] == 0


@pytest.mark.variant
def test_nodes_take_versions_over_in_turn_and_no_scan_fails(deployment: Deployment) -> None:
    """Three versions and a rollback, under load."""
    with Load(deployment, pause=0.4) as load:
        deployment.edit(policy=DROP)
        ended = deployment.publish("drop clean mail")
        assert ended.returncode == 0, ended.stderr
        assert decide(deployment) == "drop"
        deployment.edit()
        assert deployment.publish("deliver it").returncode == 0
        assert decide(deployment) == "deliver"
        rolled = deployment.run("config", "rollback", "1", "--wait")
        assert rolled.returncode == 0, rolled.stderr
        assert decide(deployment) == "drop"
        deployment.edit(policy=DROP, slots=8)
        ended = deployment.publish("more slots")
        assert ended.returncode == 0, ended.stderr
    assert not load.failed
    assert load.scans > 5
    assert load.sessions > 5
    assert versions(deployment.list_nodes()) == {4}
    # abby hears the slots of a restarted guard with its next answer, and tells of them later.
    deadline = time.monotonic() + 120
    while (slots := sorted(node["slots"] for node in deployment.watch_nodes()["nodes"])) != [8, 8, 16]:
        assert time.monotonic() < deadline, slots
        time.sleep(0.2)
    # The order: nobody begins before the one before has ended.
    for version in (1, 2, 3, 4):
        begun = [line for line in deployment.log("rollout turn begins") if line["version"] == version]
        done = [line for line in deployment.log("rollout turn ended") if line["version"] == version]
        assert len(begun) == 3
        assert [line["of"] for line in begun] == [line["of"] for line in done]
        for following, before in zip(begun[1:], done[:-1], strict=True):
            assert before["time"] <= following["time"]


@pytest.mark.variant
def test_all_nodes_restart_one_after_the_other_and_the_command_waits_for_them(deployment: Deployment) -> None:
    before = {node["id"]: node["started"] for node in deployment.list_nodes()["nodes"]}
    with Load(deployment, pause=0.4) as load:
        ended = deployment.run("restart", "--all", "--wait", "--yes")
        assert ended.returncode == 0, ended.stderr
        after = {node["id"]: node for node in deployment.list_nodes()["nodes"]}
    assert "Restarts all nodes (" in ended.stderr
    assert "3 nodes have restarted and are healthy." in ended.stdout
    assert after.keys() == before.keys()
    assert all(node["started"] > before[name] and node["health"] != "silent" for name, node in after.items())
    assert not load.failed
    assert deployment.run("restart", "--wait", "--yes").returncode != 0, "one node is the service manager's"


@pytest.mark.variant
def test_history_and_differences_show_no_secret(deployment: Deployment) -> None:
    shown = "".join(deployment.run("config", *words).stdout for words in (["history"], ["diff", "4"], ["show", "4"]))
    assert "guard.yml mainWorkerCount: 6 -> 8" in shown
    assert "drop clean mail" in shown
    assert "back to version 1" in shown
    assert f"${{file:{deployment.secrets}/token}}" in shown
    assert SECRET not in shown
    assert TOKEN not in shown
    audit = deployment.run("audit", "--json").stdout
    assert all(action in audit for action in ("config.publish", "config.rollback", "config.takeOver"))


@pytest.mark.variant
def test_a_version_that_fails_on_the_first_node_stops_there(deployment: Deployment) -> None:
    before, decided = deployment.list_nodes()["wanted"], decide(deployment)
    # Valid on the machine that publishes, and on no other: the environment of the nodes has no such variable.
    hook = 'events: {webhooks: [{url: "${env:TEST_HOOK}", secret: "${env:TEST_SECRET}"}]}'
    deployment.edit(policy=DROP, slots=8, guard=hook)
    deployment.environment |= {"TEST_HOOK": "https://hooks.example/x", "TEST_SECRET": "6d" * 32}
    # abby may be the first, and can run it.
    ended = deployment.publish("bad")
    assert ended.returncode == 1
    assert f"Version {before + 1} failed on" in ended.stderr
    deployment.await_version(before)
    failed = deployment.list_nodes()["failed"]
    assert failed["version"] == before + 1
    assert "TEST_HOOK, which is not set" in failed["reason"]
    (line,) = deployment.log("configuration version failed")
    assert failed["node"] == line["node"]
    assert "config.fail" in deployment.run("audit", "--json").stdout
    assert decide(deployment) == decided


BEGUN, LEAVING = "rollout turn begins", "configuration change begins"


@pytest.mark.parametrize(
    ("slots", "moments"),
    [
        pytest.param(9, (None, LEAVING, None), id="one node", marks=pytest.mark.variant),
        pytest.param(10, (BEGUN, LEAVING, BEGUN), id="every node", marks=pytest.mark.long),
    ],
)
def test_kills_during_a_publish_leave_all_nodes_on_one_version(
    deployment: Deployment, slots: int, moments: tuple[str | None, ...]
) -> None:
    """Nodes are killed in their turn of a rollout, each at another moment, and come back."""
    before, was = deployment.list_nodes()["wanted"], decide(deployment)
    waiting = {
        node: (words, node.text.count(f'"{words}"'))
        for node, words in zip(deployment.all_nodes, moments, strict=True)
        if words
    }
    deployment.edit(slots=slots)
    published = deployment.publish("with kills", wait=False)
    assert published.returncode == 0, published.stderr
    number = int(published.stdout.split()[1])
    deadline = time.monotonic() + 400
    while waiting:
        for node, (words, counted) in list(waiting.items()):
            if node.text.count(f'"{words}"') > counted:
                node.kill()
                node.start()
                del waiting[node]
        assert time.monotonic() < deadline, waiting
        time.sleep(0.05)
    found = deployment.watch_nodes()
    while found["turn"] or versions(found) != {found["wanted"]}:
        assert time.monotonic() < deadline, found
        time.sleep(0.5)
        found = deployment.watch_nodes()
    assert found["wanted"] in (before, number)
    assert decide(deployment) == (was if found["wanted"] == before else "deliver")
