"""A real service with every output of events: each kind that can be caused arrives everywhere, and metrics say so.

The dashboard and the alert rules in `contrib/` are checked against what this service answers under `/metrics`.
"""

import html
import json
import re
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from bench.ports import free_ports
from prometheus_client.parser import text_string_to_metric_families
from ruamel.yaml import YAML
from tests.data_folders import write_files
from tests.events.receivers import Receiver, eventually, listen_on_loopback
from tests.service.running_service import RunningService

from gatepost.service.data_folder import DataFolder

ROOT = Path(__file__).parents[2]
FAULT_INJECTION = str(ROOT / "tests/fault_injection.py")
TOKEN, SECRET = "0123456789abcdef" * 2, "fedcba9876543210" * 4
EICAR = r"X5O!P%@AP[4\PZX54(P^)7CC)7}$EICAR" + "-STANDARD-ANTIVIRUS-TEST-FILE!$H+H*"
SUBJECT = "Hello =?utf-8?q?=E2=80=AE=0A=0Aworld?="
HEAD = f"From: Ann <ann@example.org>\r\nSubject: {SUBJECT}\r\n"
MALWARE = f"{HEAD}Content-Type: application/octet-stream\r\n\r\n{EICAR}\r\n".encode()
PLAIN = f"{HEAD}\r\nThe private text of a mail. See https://www.example.net/path\r\n".encode()
SLOW = b"X-Gatepost-Fault: check:sleep=9000\r\n" + PLAIN
PARAMETERS = {
    "borderMtaData": {
        "envelopeFrom": "ann@example.org",
        "envelopeRecipients": ["bob@example.com"],
        "remoteAddress": "192.0.2.5",
    }
}


class Deployment(RunningService):
    """A service, and everything that it sends events to."""

    patience = 120.0

    def __init__(self, folder: Path, receiver: Receiver, syslog: socket.socket, next_hop: Any) -> None:
        self.receiver, self.next_hop = receiver, next_hop
        core, port, smtp, milter = free_ports(4)
        guard = f"""
scanSources:
  restApi: {{port: {core}, keep: held}}
  smtp: {{port: {smtp}}}
  milter: {{listen: ["127.0.0.1:{milter}"]}}
delivery: {{nextHop: "{next_hop.url}"}}
mainWorkerCount: 2
workerProcesses: 2
stageLimit: 20000
events:
  node: mx1.example
  file: {{}}
  syslog: {{address: "udp://127.0.0.1:{syslog.getsockname()[1]}"}}
  webhooks: [{{url: "{receiver.url}", secret: "{SECRET}", batch: 5}}]
  mail: {{kinds: [health.changed, key.created], recipients: [ops@example.com], tls: "off"}}
"""
        abby = f"""
listen: {{host: 127.0.0.1, port: {port}}}
serviceProviders: {{core: {{hosts: ["https://127.0.0.1:{core}"]}}}}
staticApiTokens:
  - {{name: desk, token: {TOKEN}, permissions: [messages.read, messages.release, messages.releaseDangerous]}}
"""
        self.log: list[bytes] = []
        threading.Thread(target=self._listen, args=(syslog,), daemon=True).start()
        data = write_files(folder / "data", guard, abby)
        super().__init__(data, port, GATEPOST_FAULT_INJECTION=FAULT_INJECTION)
        file = DataFolder(data).first_password
        assert f"admin, password in {file}" in self.welcome, "a log keeps no password"
        self.password = file.read_text("utf-8").strip()

    def _listen(self, syslog: socket.socket) -> None:
        try:
            while True:
                self.log.append(syslog.recv(1 << 16))
        except OSError:
            pass

    def scan(self, client: httpx.Client, raw: bytes) -> str:
        files = {
            "parameters": (None, json.dumps(PARAMETERS).encode(), "application/json"),
            "email": ("m.eml", raw, "message/rfc822"),
        }
        headers = {"Authorization": f"Bearer {TOKEN}"}
        answer = client.post("/v1/messageQueue/submitEmail", files=files, headers=headers)
        assert answer.status_code == 200, answer.text
        return str(answer.json()["ggrid"])

    def events(self) -> list[dict[str, Any]]:
        """What stands in the file."""
        path = self.data / "events/events.jsonl"
        return [json.loads(line) for line in path.read_bytes().splitlines()] if path.exists() else []

    def kinds(self) -> set[str]:
        return {event["event"] for event in self.events()}


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory, lasting_next_hop: Any) -> Iterator[Deployment]:
    with Receiver() as receiver, listen_on_loopback(socket.SOCK_DGRAM) as syslog:
        receiver.answer = lambda number: 204 if number % 2 else 503
        syslog.settimeout(None)
        threading.Thread(target=receiver.serve_forever, args=(0.02,), daemon=True).start()
        made = Deployment(tmp_path_factory.mktemp("events"), receiver, syslog, lasting_next_hop)
        yield made
        made.popen.kill()
        made.popen.wait()
        receiver.shutdown()


@pytest.fixture(scope="module")
def used(deployment: Deployment) -> Deployment:
    """The service after everything that causes an event was done once."""
    with deployment.client() as client:
        _fill_the_queue(deployment)
        released, deleted = deployment.scan(client, MALWARE), deployment.scan(client, MALWARE)
        deployment.scan(client, PLAIN)
        headers = {"Authorization": f"Bearer {TOKEN}"}
        assert client.post(f"/v1/messages/{released}/release", headers=headers).status_code == 200
        _use_pages(client, deployment.password, deleted)
        key = json.loads(deployment.run("apikey", "create", "playbook", "--json"))
        change = {"listName": "blocked-senders", "entries": [{"entry": "evil@example.net"}]}
        answer = client.post(
            "/api/public/lists/v1/addEntries", json=change, headers={"Authorization": f"apikey {key['key']}"}
        )
        assert answer.status_code == 200, answer.text
    deployment.run("quarantine", "delete", deleted)
    deployment.run("apikey", "revoke", key["id"])
    eventually(lambda: {"key.revoked", "list.changed", "message.deleted"} <= deployment.kinds())
    eventually(lambda: _is_green(deployment))
    return deployment


def _is_green(deployment: Deployment) -> bool:
    return [event["after"] for event in deployment.events() if event["event"] == "health.changed"][-1:] == ["ok"]


def _fill_the_queue(deployment: Deployment) -> None:
    """Take both slots for some seconds, until that was noticed: a busy machine may look away."""
    for _ in range(5):
        slow = [threading.Thread(target=_scan_alone, args=(deployment,)) for _ in range(2)]
        for thread in slow:
            thread.start()
        for thread in slow:
            thread.join()
        if any(event.get("after") == "failed" for event in deployment.events()):
            return


def _scan_alone(deployment: Deployment) -> None:
    with deployment.client() as client:
        deployment.scan(client, SLOW)


def _use_pages(client: httpx.Client, password: str, ggrid: str) -> None:
    wrong = client.post("/sign-in", data={"name": "admin", "password": "a wrong one"})
    assert wrong.status_code == 401
    client.post("/sign-in", data={"name": "my secret password", "password": "x"})
    answer = client.post("/sign-in", data={"name": "admin", "password": password})
    assert answer.status_code == 303
    cookie = {"Cookie": answer.headers["set-cookie"].partition(";")[0]}
    client.cookies.clear()
    assert "Choose your own password" in client.get("/", headers=cookie).text
    page = client.get("/account", headers=cookie).text
    found = re.search(r'name="csrf" value="([^"]+)"', page)
    assert found
    form = {"csrf": html.unescape(found[1])}
    reported = client.post(f"/messages/{ggrid}/report", data={**form, "says": "deliver"}, headers=cookie)
    assert reported.status_code == 303, reported.text


def test_every_kind_that_can_be_caused_was_told(used: Deployment) -> None:
    told = "scanned held released deleted reported"
    others = (
        "list.changed user.signedIn user.signInFailed key.created key.revoked node.state health.changed audit.recorded"
    )
    assert used.kinds() == {*(f"message.{each}" for each in told.split()), *others.split()}
    for event in used.events():
        assert list(event)[:5] == ["schema", "event", "id", "at", "node"]
        assert (event["schema"], event["node"]) == (1, "mx1.example")


def one(deployment: Deployment, kind: str, **fields: Any) -> dict[str, Any]:
    """The only event of that kind with these fields."""
    found = [event for event in deployment.events() if event["event"] == kind]
    found = [event for event in found if all(event.get(name) == value for name, value in fields.items())]
    assert len(found) == 1, found
    return found[0]


def test_what_is_told_of_a_message(used: Deployment) -> None:
    event = one(used, "message.scanned", linkHosts=["www.example.net"], verdict="clean", size=len(PLAIN))
    assert event["envelopeFrom"] == "ann@example.org"
    assert event["recipients"] == ["bob@example.com"]
    assert event["from"] == ["ann@example.org"]
    assert event["subject"].startswith("Hello")
    assert (event["host"], event["source"], event["decision"]) == ("192.0.2.5", "rest", "deliver")
    held = [event for event in used.events() if event["event"] == "message.held"]
    assert [event["verdict"] for event in held] == ["malware", "malware"]
    malware = [event for event in used.events() if event.get("verdict") == "malware" and "files" in event]
    assert len(malware[0]["files"][0]["sha256"]) == 64


def test_who_did_it(used: Deployment) -> None:
    assert one(used, "message.released")["by"] == {"kind": "token", "name": "desk"}
    assert one(used, "message.deleted")["by"] == {"kind": "cli"}
    assert one(used, "message.reported")["by"]["name"] == "admin"
    assert one(used, "list.changed")["by"]["name"] == "playbook"
    assert one(used, "list.changed")["sample"] == ["evil@example.net"]
    assert one(used, "key.created")["name"] == "playbook"
    assert one(used, "user.signedIn")["user"] == "admin"
    assert one(used, "user.signInFailed", user="admin")["reason"] == "password"


def test_no_content_and_no_secret(used: Deployment) -> None:
    text = (used.data / "events/events.jsonl").read_text("utf-8")
    assert len(text.splitlines()) == text.count("\n")
    typed = (used.password, "my secret password", "a wrong one")
    for word in ("private text", EICAR, TOKEN, SECRET, *typed, "gp_"):
        assert word not in text


def test_health_follows_the_queue(used: Deployment) -> None:
    changes = [event for event in used.events() if event["event"] == "health.changed"]
    assert ("messageQueue", "failed") in [(event["component"], event["after"]) for event in changes]
    assert all(event["before"] != event["after"] for event in changes)
    assert changes[-1]["after"] == "ok"


def test_every_output_got_every_event(used: Deployment) -> None:
    ids = [event["id"] for event in used.events()]
    eventually(lambda: set(used.receiver.ids) >= set(ids))
    eventually(lambda: len(used.log) >= len(ids))
    logged = {json.loads(line[line.index(b"{") :])["id"] for line in used.log}
    assert logged >= set(ids)
    assert len(used.receiver.calls) > len(used.receiver.taken)


def test_people_were_told(used: Deployment) -> None:
    eventually(lambda: any(b"health.changed messageQueue failed" in raw for _, _, raw in used.next_hop.mail))
    told = next(each for each in used.next_hop.mail if b"health.changed messageQueue failed" in each[2])
    assert told[:2] == ("gatepost@mx1.example", ("ops@example.com",))


def test_the_command_tries_every_output(used: Deployment) -> None:
    used.receiver.answer = lambda _number: 200
    tried = json.loads(used.run("events", "test", "--json"))
    assert [(each["output"], each["ok"]) for each in tried["outputs"]] == [
        ("file", True),
        ("syslog", True),
        ("webhook-1", True),
        ("mail", True),
    ]
    assert tried["id"] in {event["id"] for event in used.events()}
    used.receiver.answer = lambda _number: 500
    shown = used.run("events", "test", code=1)
    assert re.search(r"webhook-1 +http://127.0.0.1:\d+/\(hidden\) +failed +answered 500", shown)
    used.receiver.answer = lambda _number: 200


def metrics(deployment: Deployment) -> dict[str, set[str]]:
    """The names of all samples that Prometheus would store, with the names of their labels."""
    with deployment.client() as client:
        text = client.get("/metrics").text
    found: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(text):
        # A family without a sample yet, such as a counter of kills by reason: its labels are not known.
        found.setdefault(f"{family.name}_total" if family.type == "counter" else family.name, set())
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return found


def expressions() -> list[tuple[str, str]]:
    """Every PromQL expression in `contrib/`, with where it stands."""
    rules = YAML(typ="safe").load((ROOT / "contrib/prometheus/gatepost.rules.yml").read_text("utf-8"))
    board = json.loads((ROOT / "contrib/grafana/gatepost.json").read_text("utf-8"))
    alerts = [(rule["alert"], rule["expr"]) for group in rules["groups"] for rule in group["rules"]]
    panels = [(panel["title"], each["expr"]) for panel in board["panels"] for each in panel.get("targets", [])]
    return alerts + panels


# Labels that Prometheus adds, and that of a histogram's buckets.
ADDED = {"instance", "job", "le"}
EMPTY_UNTIL_IT_HAPPENS = {"gatepost_worker_kills_total": {"reason"}, "gatepost_smtp_messages_total": {"answer"}}
EMPTY_UNTIL_IT_HAPPENS["gatepost_feed_failures"] = {"feed"}
EMPTY_UNTIL_IT_HAPPENS["gatepost_next_hop_answers_total"] = {"route", "stage", "answer"}
# There only where reputation zones are configured (`test_faults.py` has one).
WITH_ZONES = {"gatepost_reputation_muted": {"zone"}}


def test_dashboard_and_rules_ask_for_metrics_that_exist(used: Deployment) -> None:
    there = {**WITH_ZONES, **metrics(used)}
    assert there["gatepost_build_info"] == {"node", "version", "python", "speedups"}
    assert len(expressions()) > 50
    for where, expression in expressions():
        names = set(re.findall(r"\b(?:gatepost|process)_[a-z_]+\b", expression))
        assert names or expression.startswith("up{"), where
        assert names <= there.keys(), f"{where}: {names - there.keys()}"
        labels = {name for found in re.findall(r"\bby \(([^)]*)\)", expression) for name in found.split(", ")}
        labels |= set(re.findall(r"[{,]\s*([a-z_]+)\s*=", expression))
        known = set().union(*(there[name] | EMPTY_UNTIL_IT_HAPPENS.get(name, set()) for name in names)) | ADDED
        assert labels <= known, f"{where}: {labels - known}"


def test_rules_say_what_to_do() -> None:
    rules = YAML(typ="safe").load((ROOT / "contrib/prometheus/gatepost.rules.yml").read_text("utf-8"))
    found = [rule for group in rules["groups"] for rule in group["rules"]]
    assert len({rule["alert"] for rule in found}) == len(found) > 10
    for rule in found:
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert rule["annotations"].keys() == {"summary", "description"}
        named = set(re.findall(r"\$labels\.([a-z]+)", str(rule["annotations"])))
        assert named <= {"instance", "output", "route", "stage", "zone"}


def test_the_dashboard_is_one_that_grafana_takes() -> None:
    board = json.loads((ROOT / "contrib/grafana/gatepost.json").read_text("utf-8"))
    ids = [panel["id"] for panel in board["panels"]]
    assert len(set(ids)) == len(ids)
    places = [tuple(panel["gridPos"][side] for side in "xywh") for panel in board["panels"]]
    assert all(x + width <= 24 for x, _, width, _ in places)
    assert {each["name"] for each in board["templating"]["list"]} == {"datasource", "instance"}
    assert all(
        each["datasource"]["uid"] == "${datasource}" for panel in board["panels"] for each in panel.get("targets", [])
    )


def test_a_stop_is_told(used: Deployment) -> None:
    assert used.stop() == 0
    states = [event["state"] for event in used.events() if event["event"] == "node.state"]
    assert states[0] == "started"
    assert states[-1] == "stopping"
