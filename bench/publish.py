"""A publish under load: abby, three guards and PostgreSQL, one version taken over live and one by restarts.

One client sends scans over one kept connection, another opens SMTP sessions on every guard, all the time. A failed scan
is any answer but 200; a refused session is a connection that is refused or a reply of 5xx (4xx and 421 are allowed).
"""

import tempfile
import time
from pathlib import Path

from bench.deployment import Deployment, Load
from bench.lists import postgres_server

GUARDS = 3
DROP = '[verdicts]\nclean = {decision = "drop"}\n'


def run() -> str:
    """Return the section of the results."""
    with tempfile.TemporaryDirectory() as name, postgres_server(Path(name)) as url:
        deployment = Deployment(Path(name), url, GUARDS)
        deployment.start()
        try:
            return _measure(deployment)
        finally:
            deployment.stop()


def _measure(deployment: Deployment) -> str:
    lines = ["| Publish | Seconds | Scans | Failed | SMTP sessions | Refused | Order |"]
    lines.append("|---|---:|---:|---:|---:|---:|---|")
    for what, slots in (("live (policy)", 6), ("with restarts (slots)", 8), ("restart --all", 8)):
        with Load(deployment) as load:
            begun = time.monotonic()
            if what == "restart --all":
                deployment.run("restart", "--all")
                _await_restarts(deployment)
            else:
                deployment.edit(policy=DROP, slots=slots)
                ended = deployment.publish(what)
                assert ended.returncode == 0, ended.stderr
            seconds = time.monotonic() - begun
        scans = [fault for fault in load.failed if not _is_smtp(fault)]
        refused = [fault for fault in load.failed if _is_smtp(fault)]
        version = deployment.list_nodes()["wanted"]
        order = [line["of"] for line in deployment.log("version taken over") if line["version"] == version]
        shown = ", ".join(order) if what != "restart --all" else "see log"
        lines.append(
            f"| {what} | {seconds:.0f} | {load.scans} | {len(scans)} | {load.sessions} | {len(refused)} | {shown} |"
        )
    return "\n".join(lines)


def _await_restarts(deployment: Deployment) -> None:
    deadline = time.monotonic() + 300
    while len(deployment.log("turn ended")) < len(deployment.all_nodes):
        assert time.monotonic() < deadline
        time.sleep(0.5)


def _is_smtp(fault: object) -> bool:
    return isinstance(fault, tuple) and fault[0] != "scan"
