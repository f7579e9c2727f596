"""A running service with everything around it that can fail, and what it tells of a fault in every place.

It runs as it is installed, but looks for warnings every second and not every minute. What it has to tell is read from
the table of `docs/faults.md`, so that the page and the service cannot disagree.
"""

import json
import re
import shutil
import smtplib
import ssl
import subprocess
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from html import unescape
from pathlib import Path
from random import choice
from typing import NamedTuple, TypeAlias

import httpx
from bench.name_server import NameServer
from bench.ports import free_ports
from prometheus_client.parser import text_string_to_metric_families
from tests.command_line import run_command
from tests.conftest import MailSink
from tests.data_folders import write_files
from tests.events.receivers import Receiver
from tests.service.running_service import RunningCommand

from gatepost.process.health import PARTS, Code
from gatepost.service.certificates import sign_certificate
from gatepost.service.data_folder import DataFolder
from gatepost.service.doctor.examination import check_nodes
from gatepost.service.doctor.rows import read_files
from gatepost.settings.files import ABBY_FILE

ROOT = Path(__file__).parents[2]
RULES = ROOT / "contrib/prometheus/gatepost.rules.yml"
TOKEN, SECRET = "5f" * 32, "6e" * 32
HEAD = b"From: ann@{host}\r\nTo: bob@example.com\r\nSubject: Minutes\r\nMessage-ID: <minutes@{host}>\r\n\r\n"
PEOPLE = (
    "Ann Bob Carla David Emma Frank Greta Henry Irene John Karin Leo Maria Nora Oscar Paula Quentin Rosa Simon Tina"
)
PLACES = "kitchen garden station library harbour museum office bakery theatre market school bridge workshop tower hotel"
THINGS = (
    "ladder bread drawings tickets keys camera soup chairs violin letters plants map boots paint lamp curtains books"
)
DEEDS = "carries repairs paints orders counts returns collects measures borrows packs cleans sorts prints draws sells"


def write_text() -> str:
    """A short letter that is unlike others, so that many of them are no campaign."""
    who, where, what, does = (each.split() for each in (PEOPLE, PLACES, THINGS, DEEDS))
    said = (f"{choice(who)} {choice(does)} the {choice(what)} near the {choice(where)}." for _ in range(6))
    return " ".join(said)


# Warnings are looked for every few seconds, by the questions since then: a mail whose questions are not answered takes
# more than one. A next hop that gets no mail is tried every second. A file says by how much the clock of this process
# is wrong.
START = """
import sys, time
from pathlib import Path
offset, real, real_ns = Path(sys.argv.pop(1)), time.time, time.time_ns
wrong = lambda: float(offset.read_text()) if offset.exists() else 0.0
time.time, time.time_ns = lambda: real() + wrong(), lambda: real_ns() + int(wrong() * 1e9)
from gatepost.smtp import hop_answers
hop_answers.TRY_SECONDS = 1.0
from gatepost.service import health
health.WARNING_SECONDS, health.DNS_QUERIES = 2.5, 2
from gatepost.cli import main
main()
"""
Samples: TypeAlias = dict[tuple[str, tuple[tuple[str, str], ...]], float]


class FaultRow(NamedTuple):
    """A row of the page: what is told of a fault."""

    fault: str
    status: str
    reason: str
    metric: str
    alert: str
    event: str
    log: str
    when: str
    back: str

    @property
    def part(self) -> tuple[Code | None, str]:
        """The code of the reason and an expression for its sentence; None where there is none."""
        found = re.fullmatch(r"`([A-Za-z]+)`: `([^`]+)`", self.reason)
        assert found or self.reason == "–", self.reason
        code = next((each for each in PARTS if found and each == found[1]), None)
        return (code, ".*".join(map(re.escape, found[2].split("…")))) if found else (None, "")


def read_page() -> dict[str, FaultRow]:
    """The rows of the page by their faults. "The same" is what stands in the row above."""
    rows: dict[str, FaultRow] = {}
    above: list[str] = []
    for line in (ROOT / "docs" / "faults.md").read_text("utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if not line.startswith("| ") or len(cells) != len(FaultRow._fields) or cells[0] == "Fault":
            continue
        above = [before if cell == "the same" else cell for cell, before in zip(cells, above or cells, strict=True)]
        rows[cells[0]] = FaultRow(*above)
    return rows


PAGE = read_page()
# What is told later, or in other cases.
_IN_BRACKETS = re.compile(r" \((?!\d+\))[^()]*\)")
_COUNTED = re.compile(r"`(gatepost_[a-z_]+)`(?: (\d+)| (rises))?")


def sign_in(client: httpx.Client, password: str) -> None:
    """Sign the first administrator in, who chooses a password of their own."""
    entered = client.post("/sign-in", data={"name": "admin", "password": password})
    assert entered.status_code == 303, entered.text
    csrf = re.search(r'name="csrf" value="([^"]+)"', client.get("/account").text)
    assert csrf
    own = f"{password}-new"
    client.post("/account/password", data={"csrf": csrf[1], "password": password, "new": own, "again": own})


class Watched:
    """A running service; `more_cores` are further ports at which its API expects cores."""

    def __init__(self, folder: Path, storage: str, sink: MailSink, more_cores: tuple[int, ...] = ()) -> None:
        self.folder, self.data, self.sink = folder, folder / "data", sink
        self.output, self.offset = folder / "output", folder / "offset"
        self.names, self.receiver = NameServer(), Receiver()
        threading.Thread(target=self.receiver.serve_forever, daemon=True).start()
        self.guard, self.abby, self.smtp, self.feed = free_ports(4)
        self.number = 0
        self.before: Samples = {}
        self._pages: httpx.Client | None = None
        self._log_start = self._health_start = 0
        guard = f"""
scanSources: {{restApi: {{port: {self.guard}, secret: "{SECRET}"}}, smtp: {{port: {self.smtp}}}}}
delivery: {{nextHop: "{sink.url}", tls: "off", timeout: 1000}}
quarantine: {{url: "s3://gatepost-quarantine/held"}}
dns: {{nameservers: ["{self.names.address}"], timeout: 1500}}
reputation:
  zones:
    - {{name: zone, zone: zone.example, asks: domain, answers: [{{codes: ["127.0.0.2"], means: listed, text: bad}}]}}
mainWorkerCount: 20
workerProcesses: 1
storage: {{url: "{storage}"}}
events: {{file: {{}}, webhooks: [{{url: "{self.receiver.url}", secret: "{"ab" * 32}"}}]}}
"""
        cores = ", ".join(f'"https://127.0.0.1:{port}"' for port in (self.guard, *more_cores))
        abby = f"""
listen: {{host: 127.0.0.1, port: {self.abby}}}
serviceProviders: {{core: {{hosts: [{cores}], secret: "{SECRET}"}}}}
staticApiTokens: [{{name: test, token: "{TOKEN}"}}]
storage: {{url: "{storage}"}}
feeds: [{{name: away, listName: blocked-urls, url: "http://127.0.0.1:{self.feed}/list", every: 60, allowHttp: true}}]
tls: {{certificate: own.pem, key: own.key}}
events: {{file: {{}}, webhooks: [{{url: "{self.receiver.url}", secret: "{"ab" * 32}"}}]}}
"""
        write_files(self.data, guard, abby)
        self.write_certificate(datetime.now(UTC))
        # Nobody listens there: the object store is away from the start.
        away = {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.feed}", "AWS_ALLOW_HTTP": "true"}
        away |= {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x", "AWS_REGION": "us-east-1"}
        program = ("-c", START, str(self.offset))
        running = RunningCommand(self.output, "serve", "--data", self.data, program=program, **away)
        running.until()
        self.process = running.popen
        trusted = ssl._create_unverified_context()
        self.client = httpx.Client(
            base_url=f"https://127.0.0.1:{self.abby}", verify=trusted, trust_env=False, timeout=60
        )

    def write_certificate(self, issued: datetime) -> None:
        folder = (self.data / ABBY_FILE).parent
        pem, key = sign_certificate(["127.0.0.1"], issued)
        (folder / "own.key").write_bytes(key)
        (folder / "own.pem").write_bytes(pem)

    @property
    def colour(self) -> str:
        answer = self.client.post("/v1/admin/status", headers={"Authorization": f"Bearer {TOKEN}"})
        assert answer.status_code == 200, (answer.status_code, answer.text)
        return str(answer.json()["messageQueueStatus"])

    @property
    def ready(self) -> int:
        return self.client.get("/readyz").status_code

    @property
    def metrics(self) -> str:
        return self.client.get("/metrics").text

    def read_samples(self) -> Samples:
        """Every sample that Prometheus would store now."""
        return {
            (sample.name, tuple(sorted(sample.labels.items()))): float(sample.value)
            for family in text_string_to_metric_families(self.metrics)
            for sample in family.samples
        }

    def figure(self, name: str) -> float:
        """The sum of a metric over its labels."""
        return _add_up(self.read_samples(), name)

    @property
    def log(self) -> str:
        """What was logged since the fault began."""
        return self.output.read_bytes()[self._log_start :].decode("utf-8", "replace")

    @property
    def health(self) -> list[tuple[str, str]]:
        """Component and state of every change of health that was told since the fault began."""
        return self._read_health()[self._health_start :]

    def read_health_reasons(self) -> list[str]:
        """What events of health said since the fault began."""
        return [each.get("reason", "") for each in self._read_events()[self._health_start :]]

    def _read_health(self) -> list[tuple[str, str]]:
        return [(each["component"], each["after"]) for each in self._read_events()]

    def _read_events(self) -> list[dict[str, str]]:
        file = self.data / "events/events.jsonl"
        found = [json.loads(line) for line in file.read_bytes().splitlines()] if file.exists() else []
        return [each for each in found if each["event"] == "health.changed"]

    @property
    def pages(self) -> httpx.Client:
        """A client that an administrator has signed in."""
        if self._pages is None:
            self._pages = httpx.Client(base_url=self.client.base_url, verify=False, trust_env=False, timeout=60)
            sign_in(self._pages, (self.data / "first-password").read_text().strip())
        return self._pages

    def read_outputs(self, code: Code) -> dict[str, str]:
        """The sentence about a part, with what ends it, in every output that is asked; "" where it has none. The status
        has no warnings."""

        def find(reasons: list[dict[str, str]]) -> str:
            found = next((each for each in reasons if each["code"] == code), None)
            return f"{found['sentence']}. {found['clears']}" if found else ""

        status = self.client.post("/v1/admin/status", headers={"Authorization": f"Bearer {TOKEN}"}).json()
        ready = self.client.get("/readyz")
        assert ("reasons" in status) == (status["messageQueueStatus"] != "GREEN"), status
        said = find(status.get("reasons", []))
        # The answer 503 is an error, which is one sentence.
        failed = f"{ready.json()['message']}. {said.partition('. ')[2]}" if ready.status_code == 503 else ""
        outputs = {} if PARTS[code].state == "GREEN" else {"status": said}
        outputs["readyz"] = failed or find(ready.json().get("reasons", []))
        if code == "cores":
            # No node says of itself that another is away.
            return outputs
        seen = self.read_samples().get(("gatepost_health_warning", (("component", code),)))
        return outputs | {"metrics": outputs["readyz"] if seen else ""}

    def read_stored_outputs(self, code: Code, words: str) -> dict[str, str]:
        """The same of those that cannot be read while storage is away."""
        ended, printed, _ = run_command("nodes", "--json", "--data", self.data)
        assert ended == 0, printed
        nodes = json.loads(printed)["nodes"]
        found = [each for node in nodes for each in node["reasons"] if each["code"] == code]
        said = {f"{each['sentence']}, since {each['since'][:19]}Z. {each['clears']}" for each in found}
        rows = check_nodes(read_files(self.data), DataFolder(self.data), datetime.now(UTC))
        doctor = "; ".join(row.found for row in rows if row.what.startswith("node "))
        page = re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]+>", "", self.pages.get("/system").text)))
        # Figures in a sentence change from look to look.
        read = {"nodes": "; ".join(said), "doctor": doctor, "page": page}
        return {name: match[0] if (match := re.search(words, text)) else "" for name, text in read.items()}

    def begin(self) -> None:
        """Wait until all is well and told to be so, and forget what was told: a fault begins."""

        def is_well() -> bool:
            told = [state for part, state in self._read_health() if part == "messageQueue"]
            return self.colour == "GREEN" and self.ready == 200 and told[-1:] in ([], ["ok"])

        self.until(is_well)
        self.before = self.read_samples()
        self._log_start, self._health_start = self.output.stat().st_size, len(self._read_health())

    def tells(self, fault: str, provoke: Callable[[], object] = lambda: None) -> None:
        """Wait until all that the page says of a fault is told, everywhere; `provoke` is what the fault shows by."""

        def is_told() -> bool:
            provoke()
            return not self.find_missing(fault)

        deadline = time.monotonic() + 90
        while not is_told():
            assert self.process.poll() is None, self.log[-3_000:]
            assert time.monotonic() < deadline, (self.find_missing(fault), self.health, self.log[-3_000:])
            time.sleep(0.1)
        if missing := self._find_silent_alerts(fault):
            raise AssertionError(f"alerts do not fire as they should: {missing}")

    def find_missing(self, fault: str) -> list[str]:
        """What the page says of a fault and the service does not."""
        row, missing = PAGE[fault], []
        colour, ready = row.status.split(", ")
        seen, log, events = self.read_samples(), self.log, self.health
        if (found := (self.colour, self.ready)) != (colour, int(ready)):
            missing.append(f"status {found}")
        for name, value, rises in _COUNTED.findall(row.metric):
            before, now = _add_up(self.before, name), _add_up(seen, name)
            has_risen = now > before or not (rises or name.endswith("_total"))
            is_right = now == float(value) if value else has_risen
            missing += [] if is_right and any(key[0] == name for key in seen) else [f"{name} {before} {now}"]
        for component, state in re.findall(r"`([A-Za-z]+)` (ok|degraded|failed)", row.event):
            missing += [] if (component, state) in events else [f"event {component} {state}"]
        for words in re.findall(r"`([^`]+)`", _IN_BRACKETS.sub("", row.log)):
            pattern = ".*".join(re.escape(part) for part in words.split("…"))
            missing += [] if re.search(pattern, log) else [f"log {words}"]
        return missing or self._find_silent_outputs(row)

    def _find_silent_outputs(self, row: FaultRow) -> list[str]:
        """The outputs without the reason of a fault; those that storage is needed for only where it is there. A core
        that does not answer is nothing that another node says of itself."""
        code, words = row.part
        if code is None:
            return []
        outputs = self.read_outputs(code) | {"event": "; ".join(self.read_health_reasons())}
        has_storage = code not in ("storage", "disk", "cores")
        outputs |= self.read_stored_outputs(code, words) if has_storage and all(outputs.values()) else {}
        return [f"{name} says {said!r}" for name, said in outputs.items() if not re.search(words, said)]

    def ends(self, fault: str) -> None:
        """Wait until every output says that a fault is over."""
        code, words = PAGE[fault].part

        def is_over() -> bool:
            if self.colour != "GREEN" or self.ready != 200:
                return False
            if code is None:
                return True
            outputs = self.read_outputs(code)
            return not any((outputs if any(outputs.values()) else self.read_stored_outputs(code, words)).values())

        # Each relapse doubles how often a next hop has to be well, and a busy machine answers some tries too late.
        self.until(is_over, 240)

    def _find_silent_alerts(self, fault: str) -> str:
        """What Prometheus says of alerts of a row that would not fire if this fault lasted, or that fired before it: by
        the rules themselves, with the samples of before and of now. What stands in brackets fires later."""
        alerts = re.findall(r"`(Gatepost[A-Za-z]+)`", _IN_BRACKETS.sub("", PAGE[fault].alert))
        if not alerts or shutil.which("promtool") is None:
            return ""
        now, series = self.read_samples(), []
        for key in now.keys() | self.before.keys():
            first, last = self.before.get(key, 0.0), now.get(key, 0.0)
            # Counters go on as they did, other values stay; one sample in a minute.
            is_counter = key[0].endswith(("_total", "_bucket", "_count", "_sum"))
            step = last - first if is_counter and last > first else 0.0
            labels = ",".join(f'{name}="{value}"' for name, value in (*key[1], ("instance", "i"), ("job", "gatepost")))
            series.append({"series": f"{key[0]}{{{labels}}}", "values": f"{first}+0x60 {last}+{step}x120"})
        checks = [
            {
                "expr": f'(count(ALERTS{{alertname="{alert}",alertstate="firing"}}) or vector(0)) > bool 0',
                "eval_time": moment,
                "exp_samples": [{"labels": "{}", "value": value}],
            }
            for alert in alerts
            for moment, value in (("59m", 0), ("179m", 1))
        ]
        document = {
            "rule_files": [str(RULES)],
            "evaluation_interval": "1m",
            "tests": [{"interval": "1m", "input_series": series, "promql_expr_test": checks}],
        }
        file = self.folder / "alerts.json"
        file.write_text(json.dumps(document))
        command = ["promtool", "test", "rules", str(file)]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        return f"{ended.stdout}{ended.stderr}"[-3_000:] if ended.returncode else ""

    def send(self, *, recipient: str = "bob@example.com", body: bytes = b"", times: int = 1) -> list[int]:
        """Send messages as a border MTA does; the replies to them, 0 where none came."""
        codes = []
        for _ in range(times):
            self.number += 1
            host = b"shop%d.com" % self.number
            text = b"%b\r\nSee https://%b/\r\n" % (write_text().encode(), host)
            raw = HEAD.replace(b"{host}", host) + (body or text)
            try:
                with smtplib.SMTP("127.0.0.1", self.smtp, timeout=60) as client:
                    client.sendmail(f"ann@shop{self.number}.com", [recipient], raw)
                codes.append(250)
            except smtplib.SMTPResponseException as fault:
                codes.append(fault.smtp_code)
            except smtplib.SMTPRecipientsRefused as fault:
                codes.append(fault.recipients[recipient][0])
            except (smtplib.SMTPException, OSError):
                codes.append(0)
        return codes

    def send_at_once(self, count: int) -> None:
        """Send so many messages at the same time, for a next hop or a name server that takes long."""
        threads = [threading.Thread(target=self.send) for _ in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def until(self, condition: Callable[[], object], seconds: float = 90.0) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, (self.colour, self.health, self.log[-3_000:])
            assert self.process.poll() is None, self.log[-3_000:]
            time.sleep(0.1)

    def stop(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.client.close()
        if self._pages:
            self._pages.close()
        self.names.close()
        self.receiver.shutdown()
        self.receiver.server_close()


def _add_up(samples: Samples, name: str) -> float:
    return sum(value for (found, _), value in samples.items() if found == name)
