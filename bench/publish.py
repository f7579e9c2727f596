"""A publish under load: abby, three guards and PostgreSQL; versions that are taken over, and a faulty one.

One client sends scans over one kept connection, another sends a message over SMTP to each guard in turn, all the time.
A failed scan is any answer but 200. A refused session is a connection that is refused, or a reply of 5xx; after a reply
of 4xx, or a connection that was closed, the message is sent again, as mail servers do. A message is lost if it was
accepted and is not with the next hop. The faulty version is valid for the machine that publishes, and for no guard.
"""

import smtplib
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.deployment import Deployment, Load
from bench.gateway import Sink
from bench.lists import postgres_server

GUARDS = 3
POLICY = '[verdicts]\nspam = {decision = "drop"}\n'
# A variable that only the machine that publishes has.
FAULTY = 'events: {webhooks: [{url: "${env:BENCH_HOOK}", secret: "${env:BENCH_SECRET}"}]}'
ENVIRONMENT = {"BENCH_HOOK": "https://hooks.example/x", "BENCH_SECRET": "6d" * 32}


class MailLoad(Load):
    """Scans, and whole messages over SMTP instead of greetings."""

    def __init__(self, deployment: Deployment, name: str) -> None:
        super().__init__(deployment)
        self._name = name
        self.accepted: set[str] = set()
        self.again: Counter[str] = Counter()

    def _connect(self) -> None:
        while not self._ended.wait(0.1):
            for port in self._deployment.smtp_ports:
                identity = f"{self._name}-{self.sessions}@publish.example"
                self.sessions += 1
                for _ in range(600):
                    if self._send(port, identity):
                        break
                    time.sleep(0.1)
                else:
                    self.failed.append((port, f"{identity} was never accepted"))

    def _send(self, port: int, identity: str) -> bool:
        """Send one message; False if it has to come again."""
        raw = (
            f"From: Ann <ann@example.org>\r\nTo: bob@example.com\r\nSubject: Minutes\r\nMessage-ID: <{identity}>\r\n"
            "Date: Tue, 10 Nov 2026 09:12:00 +0000\r\n\r\nHello Bob\r\n"
        )
        try:
            with smtplib.SMTP("127.0.0.1", port, timeout=60) as client:
                client.sendmail("ann@example.org", ["bob@example.com"], raw)
        except smtplib.SMTPServerDisconnected:
            self.again["closed"] += 1
            return False
        except smtplib.SMTPRecipientsRefused as fault:
            return self._judge(port, next(iter(fault.recipients.values()))[0])
        except smtplib.SMTPResponseException as fault:
            return self._judge(port, fault.smtp_code)
        except ConnectionRefusedError as fault:
            self.failed.append((port, fault))
            return False
        except OSError:
            self.again["closed"] += 1
            return False
        self.accepted.add(identity)
        return True

    def _judge(self, port: int, code: int) -> bool:
        self.again[str(code)] += 1
        if code >= 500:
            self.failed.append((port, code))
        return code >= 500


def run() -> str:
    """Return the section of the results."""
    sink = Sink()
    try:
        with tempfile.TemporaryDirectory() as name, postgres_server(Path(name)) as url:
            deployment = Deployment(Path(name), url, GUARDS, f"smtp://127.0.0.1:{sink.port}")
            deployment.environment |= ENVIRONMENT
            deployment.start()
            try:
                return _measure(deployment, sink)
            finally:
                deployment.stop()
    finally:
        sink.close()


def _measure(deployment: Deployment, sink: Sink) -> str:
    lines = ["| What | Seconds | Scans | Failed | Messages | Refused | Sent again | Lost | Order |"]
    lines.append("|---|---:|---:|---:|---:|---:|---|---:|---|")
    steps: dict[str, Callable[[Deployment], str]] = {
        "a policy": lambda made: _publish(made, policy=POLICY, slots=6),
        "slots": lambda made: _publish(made, policy=POLICY, slots=8),
        "a faulty version": _publish_faulty,
        "restart --all": _restart_all,
    }
    for name, step in steps.items():
        with MailLoad(deployment, name.replace(" ", "-").replace(",", "")) as load:
            begun = time.monotonic()
            order = step(deployment)
            seconds = time.monotonic() - begun
        refused = [fault for fault in load.failed if _is_smtp(fault)]
        lost = [each for each in load.accepted if not sink.taken[each]]
        again = ", ".join(f"{count} × {what}" for what, count in sorted(load.again.items())) or "none"
        lines.append(
            f"| {name} | {seconds:.0f} | {load.scans} | {len(load.failed) - len(refused)} | {load.sessions} "
            f"| {len(refused)} | {again} | {len(lost)} | {order} |"
        )
    return "\n".join(lines)


def _publish(deployment: Deployment, **edits: Any) -> str:
    deployment.edit(**edits)
    ended = deployment.publish("bench")
    assert ended.returncode == 0, ended.stderr
    return _show_order(deployment, "rollout turn ended", deployment.list_nodes()["wanted"])


def _publish_faulty(deployment: Deployment) -> str:
    before = deployment.list_nodes()["wanted"]
    deployment.edit(policy=POLICY, slots=8, guard=FAULTY)
    ended = deployment.publish("bench, faulty")
    assert ended.returncode == 1, ended.stdout
    deployment.await_version(before)
    failed = [line["of"] for line in deployment.log("configuration version failed")]
    took = _show_order(deployment, "rollout turn ended", before + 1)
    return f"stopped at {', '.join(failed)}; took over: {took or 'nobody'}; all nodes run the version before"


def _restart_all(deployment: Deployment) -> str:
    known = len(deployment.log("node restart begins")), len(deployment.log("rollout turn ended"))
    ended = deployment.run("restart", "--all")
    assert ended.returncode == 0, ended.stderr
    deadline = time.monotonic() + 300
    while len(deployment.log("rollout turn ended")) < known[1] + len(deployment.all_nodes):
        assert time.monotonic() < deadline, "not every node has restarted"
        time.sleep(0.5)
    begun, done = deployment.log("node restart begins")[known[0] :], deployment.log("rollout turn ended")[known[1] :]
    assert [line["of"] for line in begun] == [line["of"] for line in done]
    assert all(end["time"] <= start["time"] for end, start in zip(done[:-1], begun[1:], strict=True))
    return ", ".join(line["of"] for line in begun)


def _show_order(deployment: Deployment, event: str, version: int) -> str:
    """Return the nodes in the order in which they took a version over. None began before the one before had ended."""
    done = [line for line in deployment.log(event) if line["version"] == version]
    begun = [line for line in deployment.log("rollout turn begins") if line["version"] == version]
    assert all(end["time"] <= start["time"] for end, start in zip(done, begun[1:], strict=False))
    return ", ".join(line["of"] for line in done)


def _is_smtp(fault: object) -> bool:
    return isinstance(fault, tuple) and fault[0] != "scan"
