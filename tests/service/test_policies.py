"""An operator's policy in a running service: a tenant's mail is judged by that tenant's file, and the ledger says so.

The examples of docs/policy.md are run as printed against the same service.
"""

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.command_line import run_command
from tests.data_folders import prepare_with_free_ports
from tests.service.running_service import RunningService

from gatepost.client import Client
from gatepost.client.calls import Retries
from gatepost.service.commands import EXAMPLE
from gatepost.settings.files import GUARD_FILE

PAGE = (Path(__file__).parents[2] / "docs" / "policy.md").read_text("utf-8")
DEPLOYMENT, RULES = re.findall(r"^```toml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)[:2]
CONFIGURED = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)[0]
EXAMPLES = [
    line for block in re.findall(r"^```sh\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL) for line in block.splitlines()
]
DOCUMENTED, MESSAGE = "0198c5a2-7c11-7d3e-9f00-00000000aa01", "0198c5a2-7c11-7d3e-9f00-00000000aa02"
ACME = (
    '[verdicts]\nclean = { decision = "bounce" }\n\n[kinds]\n"url:shortener" = { weight = 9.0, verdict = "phishing" }\n'
)
SHORT = EXAMPLE.encode() + b"\r\nSee https://bit.ly/3xyzabc for more.\r\n"


class Running(RunningService):
    """A service with a tenant that has a policy of its own."""

    tenant = ""


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    data = tmp_path_factory.mktemp("policies") / "data"
    port = prepare_with_free_ports(data)
    tenant = json.loads(gatepost("tenant", "create", "acme", "--json", "--data", data))["uid"]
    folder = (data / GUARD_FILE).parent
    (folder / "deployment.toml").write_text(DEPLOYMENT)
    (folder / "acme.toml").write_text(ACME)
    with (data / GUARD_FILE).open("a") as file:
        file.write(CONFIGURED.replace(DOCUMENTED, tenant))
    service = Running(data, port)
    service.tenant = tenant
    yield service
    service.stop()


def gatepost(*arguments: object, status: int = 0) -> str:
    """The command line, in this process: what it printed."""
    code, out, err = run_command(*arguments)
    assert code == status, out + err
    return out


def client(running: Running) -> Client:
    token = (running.data / "token").read_text()
    ca = running.data / "tls/certificate.pem"
    return Client(f"https://127.0.0.1:{running.port}", token, ca=ca, timeout=60, retries=Retries(attempts=1))


def test_a_tenant_s_policy_changes_the_decision_and_the_ledger_says_so(running: Running) -> None:
    with client(running) as service:
        plain = service.message(service.scan(SHORT, recipients=["b@example.com"]).ggrid)
        mine = service.message(service.scan(SHORT, recipients=["b@example.com"], tenant=running.tenant).ggrid)
        letter = service.message(
            service.scan(EXAMPLE.encode(), recipients=["b@example.com"], tenant=running.tenant).ggrid
        )
    assert (plain.verdict, plain.decision) == ("clean", "deliver")
    (line,) = [line for line in plain.ledger.findings if line.tag == "url:shortener"]
    assert line.override.startswith("weight 0.5 instead of 1.2 (deployment)")
    assert (mine.verdict, mine.decision) == ("clean", "bounce")
    (line,) = [line for line in mine.ledger.findings if line.tag == "url:shortener"]
    assert (float(line.weight), float(line.counted)) == (9.0, 4.0)  # the deployment's cap holds for the tenant as well
    assert "weight 9 instead of 1.2 (tenant)" in line.override
    assert "cap 4 instead of 5 (deployment)" in line.override
    assert "clean: decision bounce instead of deliver (tenant)" in mine.ledger.overrides
    assert mine.ledger.overrides[-1].startswith("by the shipped policy: clean, deliver, a score of ")
    assert letter.decision == "bounce"
    assert str(running.data) not in repr((plain, mine))


def test_trying_and_explaining_know_the_same_policy(running: Running, tmp_path: Path) -> None:
    with client(running) as service:
        ggrid = service.scan(SHORT, recipients=["b@example.com"], tenant=running.tenant).ggrid
    assert "0 lines of the ledger changed" in gatepost("try", "--message", ggrid, "--data", running.data)
    said = gatepost("policy", "explain", "url:shortener", "--tenant", running.tenant.upper(), "--data", running.data)
    assert re.search(r"kinds\.url:shortener\.weight +9 +tenant, \S+acme\.toml:5 +0\.5 \(deployment\), 1\.2", said)
    assert re.search(r"groups\.links\.cap +4 +deployment, \S+deployment\.toml:7 +5 \(shipped\)", said)
    milder = tmp_path / "milder.toml"
    milder.write_text('[verdicts.clean]\ndecision = "deliver"\n')
    tried = gatepost("try", "--policy", milder, "--tenant", running.tenant, "--data", running.data)
    assert re.search(r"bounce → deliver", tried)
    assert re.search(r"^([1-9]\d*) of \1 decisions would change\.$", tried, re.MULTILINE)
    same = (running.data / GUARD_FILE).with_name("deployment.toml")
    assert "0 of " in gatepost("try", "--policy", same, "--data", running.data)


def test_a_scan_at_the_keyboard_judges_alike(running: Running, tmp_path: Path) -> None:
    (tmp_path / "short.eml").write_bytes(SHORT)
    told = gatepost("scan", tmp_path / "short.eml", "--tenant", running.tenant, "--data", running.data)
    assert "clean → bounce" in told
    assert "policy: by the shipped policy" in told
    assert "clean → deliver" in gatepost("scan", tmp_path / "short.eml", "--data", running.data)


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_page_runs_as_printed(
    running: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, example: str
) -> None:
    (tmp_path / "data").symlink_to(running.data)
    for name, text in (("deployment.toml", DEPLOYMENT), ("rules.toml", RULES), ("letter.eml", SHORT.decode())):
        (tmp_path / name).write_text(text)
    if MESSAGE in example:
        with client(running) as service:
            example = example.replace(MESSAGE, service.scan(SHORT, recipients=["b@example.com"]).ggrid)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GATEPOST_DATA", str(tmp_path / "data"))
    program, *arguments = shlex.split(example.replace(DOCUMENTED, running.tenant))
    assert program == "gatepost"
    assert gatepost(*arguments)


def test_a_faulty_file_is_told_whole(running: Running, tmp_path: Path) -> None:
    faulty = tmp_path / "faulty.toml"
    faulty.write_text('[kinds]\n"url:shortner" = { weight = 1 }\n[verdicts.spam]\nthreshold = "high"\n')
    said = gatepost("policy", "check", faulty, "--data", running.data, status=1)
    assert "did you mean url:shortener?" in said
    assert re.search(r"4 +verdicts\.spam\.threshold +must be a number", said)
    fine = gatepost("policy", "check", (running.data / GUARD_FILE).with_name("deployment.toml"), "--data", running.data)
    assert re.search(r"kinds\.url:shortener\.weight +1\.2 +0\.5 +10", fine)
