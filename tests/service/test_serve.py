"""`gatepost serve`, `guard` and `abby` as a person runs them: real processes, real HTTPS, ended by their ids."""

import json
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest
from bench.ports import free_ports
from tests.data_folders import prepare_with_free_ports, write_files
from tests.service.running_service import RunningCommand, connect

from gatepost.client import Client
from gatepost.client.calls import ApiError, Retries, UnreachableError
from gatepost.service.commands import EXAMPLE
from gatepost.service.running import REPEATED_SECONDS
from gatepost.settings.files import ABBY_FILE

FAULT_INJECTION = str(Path(__file__).parents[1] / "fault_injection.py")
MAIL = EXAMPLE.encode()
SLOW = b"X-Gatepost-Fault: check:sleep=1500\r\n" + MAIL
ONCE = Retries(attempts=1)
README = (Path(__file__).parents[2] / "README.md").read_text("utf-8")
# What talks to a running service; blocks that install or start one are not for here.
EXAMPLES = [
    (language, code)
    for language, code in re.findall(r"^```(python|sh)\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
    if language == "python" or re.match(r"curl |gatepost (scan|tenant|doctor|config|policy) ", code)
]


class Service(NamedTuple):
    """A running service with its first output."""

    process: RunningCommand
    data: Path
    port: int
    welcome: str


Start = Callable[..., RunningCommand]


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Start]:
    started: list[RunningCommand] = []

    def begin(*words: object) -> RunningCommand:
        output = tmp_path_factory.mktemp("run") / "output"
        started.append(RunningCommand(output, *words, GATEPOST_FAULT_INJECTION=FAULT_INJECTION))
        return started[-1]

    yield begin
    for process in started:
        process.stop(signal.SIGKILL)


def client(data: Path, port: int, token: str) -> Client:
    return Client(f"https://127.0.0.1:{port}", token, ca=data / "tls/certificate.pem", timeout=60, retries=ONCE)


def fetch(data: Path, port: int, path: str) -> httpx.Response:
    with connect(data, port) as asking:
        return asking.get(path)


def abby_yml(port: int, *cores: int) -> str:
    hosts = ", ".join(f'"https://127.0.0.1:{core}"' for core in cores)
    return (
        f"listen: {{host: 127.0.0.1, port: {port}}}\nserviceProviders: {{core: {{hosts: [{hosts}]}}}}\n"
        "staticApiTokens: [{name: test, token: t, permissions: [messages.read]}]\n"
    )


@pytest.fixture(scope="module")
def service(start: Start, tmp_path_factory: pytest.TempPathFactory) -> Service:
    """A first start that was interrupted after the files were written, since the default ports may be in use here."""
    data = tmp_path_factory.mktemp("a folder, with; an 'odd\" name") / "data"
    port = prepare_with_free_ports(data)
    process = start("serve", "--data", data)
    return Service(process, data, port, process.until())


@pytest.mark.variant
def test_a_service_with_fault_injection_says_so(service: Service) -> None:
    assert "GATEPOST_FAULT_INJECTION is set" in service.process.text


def test_the_welcome_tells_what_is_needed_and_no_secret(service: Service) -> None:
    """What is no terminal ends in a journal: the administrator's password is in a file."""
    token = (service.data / "token").read_text()
    file = service.data / "first-password"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert len(file.read_text().strip()) >= 20
    assert file.read_text().strip() not in service.process.text
    assert f"admin, password in {file}\n" in service.welcome
    assert f"https://127.0.0.1:{service.port}" in service.welcome
    assert str(service.data / "token") in service.welcome
    assert token not in service.process.text
    assert '"core":"local"' in service.welcome


@pytest.mark.skipif(shutil.which("curl") is None, reason="not run: curl is not installed")
def test_the_printed_command_works_as_printed(service: Service, tmp_path: Path) -> None:
    command = service.welcome[service.welcome.index("curl ") :].split("\n\n")[0]
    answer = subprocess.run(["sh", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert json.loads(answer.stdout)["verdict"] == "clean"


def test_a_scan_has_its_ledger_and_both_services_count(service: Service) -> None:
    with client(service.data, service.port, (service.data / "token").read_text()) as gatepost:
        result = gatepost.scan(MAIL, recipients=["b@example.com"])
        assert gatepost.message(result.ggrid).ledger.score == 0
        assert gatepost.status().message_queue_status == "GREEN"
    assert (
        'gatepost_scan_requests_total{decision="deliver",outcome="clean"}'
        in fetch(service.data, service.port, "/metrics").text
    )
    assert fetch(service.data, service.port, "/readyz").status_code == 200


def test_a_second_one_on_the_same_folder_is_refused(service: Service, start: Start) -> None:
    other = start("serve", "--data", service.data)
    assert other.popen.wait(90) == 1
    assert other.text == f"Another Gatepost (process {service.process.popen.pid}) already runs on {service.data}.\n"


def test_a_busy_port_is_one_sentence(service: Service, start: Start, tmp_path: Path) -> None:
    (free,) = free_ports(1)
    write_files(tmp_path, f"scanSources: {{restApi: {{port: {free}}}}}\n", abby_yml(service.port, free))
    other = start("serve", "--config", tmp_path, "--data", tmp_path / "data")
    assert other.popen.wait(90) == 1
    assert other.text.count("\n") == 1
    assert f"cannot listen on 127.0.0.1:{service.port}" in other.text
    assert "another program uses it; set another listen.port in abby.yml" in other.text


def test_a_faulty_file_is_reported_and_nothing_starts(start: Start, tmp_path: Path) -> None:
    write_files(tmp_path, "mainWorkerCont: 3\n", abby_yml(1, 2) + "listen: 3\n")
    other = start("serve", "--config", tmp_path, "--data", tmp_path / "data")
    assert other.popen.wait(90) == 1
    assert "guard.yml:1: mainWorkerCont is not a known key; did you mean mainWorkerCount?" in other.text
    assert "abby.yml:4: listen is already set in line 1" in other.text
    assert "Traceback" not in other.text


@pytest.mark.parametrize("block", EXAMPLES)
def test_the_readme_runs_as_printed(service: Service, tmp_path: Path, block: tuple[str, str]) -> None:
    """Examples take the service of `make serve`: its data folder is `data`, its port the default one."""
    (tmp_path / "data").symlink_to(service.data)
    language, code = block
    code = code.replace(":9081", f":{service.port}")
    command = [sys.executable, "-c", code] if language == "python" else ["sh", "-euc", code]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "GATEPOST_DATA": str(tmp_path / "data")}
    ended = subprocess.run(command, check=False, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    assert '"error"' not in ended.stdout


@pytest.mark.variant
def test_a_stop_finishes_what_is_in_flight_and_a_second_start_is_quiet(service: Service, start: Start) -> None:
    """The last test on this service: SIGTERM while a scan runs, then the same folder once more."""
    token = (service.data / "token").read_text()
    verdicts: list[str] = []

    def scan() -> None:
        with client(service.data, service.port, token) as gatepost:
            verdicts.append(gatepost.scan(SLOW, recipients=["b@example.com"]).verdict)

    thread = threading.Thread(target=scan)
    thread.start()
    _until_in_processing(service)
    assert service.process.stop(signal.SIGTERM) == 0
    thread.join()
    assert verdicts == ["clean"]
    assert "Traceback" not in service.process.text
    # So that the first command need not read the files that the service has read.
    assert b"abby.yml" in (service.data / "checked-configuration.json").read_bytes()

    before = {path: path.read_bytes() for path in service.data.rglob("*") if path.is_file() and "lock" not in path.name}
    again = start("serve", "--data", service.data)
    text = again.until()
    assert (service.data / "first-password").read_text().strip() not in text
    assert token not in text
    _stop_twice_at_once(service._replace(process=again), token)
    written = ("gatepost.db", "guard.loaded")  # storage, and when which files were loaded
    kept = {path: raw for path, raw in before.items() if not path.name.startswith(written)}
    assert {path: path.read_bytes() for path in kept} == kept


def _stop_twice_at_once(service: Service, token: str) -> None:
    def scan() -> None:
        with client(service.data, service.port, token) as gatepost, pytest.raises(UnreachableError):
            gatepost.scan(SLOW.replace(b"1500", b"30000"), recipients=["b@example.com"])

    thread = threading.Thread(target=scan)
    thread.start()
    _until_in_processing(service)
    service.process.popen.send_signal(signal.SIGTERM)
    service.process.until('"service stopping"')
    # A person presses the keys again when nothing seems to happen; what follows at once is no second signal.
    with pytest.raises(subprocess.TimeoutExpired):
        service.process.popen.wait(2 * REPEATED_SECONDS)
    assert service.process.stop(signal.SIGTERM) == 128 + signal.SIGTERM
    thread.join()


def _until_in_processing(service: Service) -> None:
    core = re.search(r"https://127\.0\.0\.1:(\d+)", (service.data / ABBY_FILE).read_text())
    assert core
    end = time.monotonic() + 180
    while "\ngatepost_in_processing 1.0" not in fetch(service.data, int(core[1]), "/metrics").text:
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.mark.variant
def test_one_process_each_with_https_between_them(start: Start, tmp_path: Path) -> None:
    """The general way over `hosts`: own processes, a shared data folder for secret and certificate."""
    guard_port, abby_port = free_ports(2)
    guard = f"scanSources: {{restApi: {{port: {guard_port}}}}}\nworkerProcesses: 1\n"
    folder = write_files(tmp_path, guard, abby_yml(abby_port, guard_port))
    core, api = start("guard", "--data", folder), start("abby", "--data", folder)
    core.until()
    assert f'"core":"https://127.0.0.1:{guard_port}"' in api.until('"core answers"')
    api.until()
    with client(folder, abby_port, "t") as gatepost:
        result = gatepost.scan(MAIL, sender="a@example.org", recipients=["b@example.com"])
        assert gatepost.message(result.ggrid).sha256
    assert fetch(folder, guard_port, "/load").status_code == 401
    assert (core.stop(), api.stop()) == (0, 0)


@pytest.mark.variant
def test_without_rest_source_scanning_is_disabled(start: Start, tmp_path: Path) -> None:
    guard_port, abby_port = free_ports(2)
    write_files(tmp_path, "workerProcesses: 1\n", abby_yml(abby_port, guard_port))
    process = start("serve", "--config", tmp_path, "--data", tmp_path / "data")
    process.until()
    with client(tmp_path / "data", abby_port, "t") as gatepost, pytest.raises(ApiError) as caught:
        gatepost.scan(MAIL, recipients=["b@example.com"])
    assert (caught.value.status, caught.value.code) == (503, "scanning_disabled")
    assert process.stop(signal.SIGINT) == 0
