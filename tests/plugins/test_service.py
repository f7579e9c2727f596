"""Plug-ins in workers, in a running service, in the commands, and in published versions."""

import asyncio
import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from bench.ports import free_ports
from bench.processes import await_output
from tests.command_line import run_command
from tests.plugins.conftest import DECLARED, MakePlugin

from gatepost.analysis.report import Line, Report
from gatepost.client import Client
from gatepost.client.calls import Retries
from gatepost.findings.kinds import TITLES
from gatepost.mail.message import Envelope
from gatepost.plugins import find_plugin
from gatepost.policy.rules import Policy, collect_titles
from gatepost.questions import Answers, Questions
from gatepost.scanning.spool import BytesBody
from gatepost.service.commands import prepare
from gatepost.service.data_folder import DataFolder
from gatepost.service.publishing import NodePublisher, read_content
from gatepost.settings.faults import ConfigError
from gatepost.settings.files import ABBY_FILE, GUARD_FILE, load, load_guard, load_policies
from gatepost.settings.keys import PolicySettings
from gatepost.workers import warmup
from gatepost.workers.jobs import Job
from gatepost.workers.pool import PoolSettings, WorkerPool
from gatepost.workers.protocol import JUDGE, FrameError, Judged, read_report
from gatepost.workers.supervisor import SealError

FINE = "example:parking-fine"
THING = "faulty:thing"
PLAIN = b"From: ann@other.example\r\nSubject: hello\r\n\r\nhello\r\n"


async def from_zone(_job: Job[Any], questions: Questions) -> Answers:
    return warmup.answers_to(questions)


def policy_with(plugins: Sequence[str]) -> Policy:
    return load_policies(PolicySettings(), plugins).deployment.policy


def analyse(plugins: Sequence[str], *raws: bytes, stage_limit: float = 20.0) -> list[Report]:
    """The reports of sealed workers that have these plug-ins."""

    async def main() -> list[Report]:
        settings = PoolSettings(1, 60.0, stage_limit, 256 << 20, plugins=tuple(plugins))
        pool = WorkerPool(settings, from_zone, policy_with(plugins))
        await pool.start()
        try:
            return [await pool.run(Job(JUDGE, "x", Envelope(), BytesBody(raw), warmup.NOW)) for raw in raws]
        finally:
            await pool.stop()

    return asyncio.run(main())


def test_sealed_workers_run_the_checks_of_enabled_plugins_only(example: str) -> None:
    plugin = find_plugin(example)
    attack, twin = (plugin.golden(folder)[0].read_bytes() for folder in ("attacks", "twins"))
    found, honest = analyse([example], attack, twin)
    (line,) = [line for line in found.lines if line.kind == FINE]
    assert (line.title, line.weight, line.strength) == (plugin.kinds[FINE].title, 300, 1.0)
    assert found.outcomes == honest.outcomes == ()
    assert FINE not in honest.tags
    (without,) = analyse([], attack)
    assert FINE not in without.tags
    assert set(found.tags) - {FINE} == set(without.tags)


@pytest.mark.parametrize(
    ("body", "state", "reason"),
    [
        ("raise KeyError('x')\n    yield", "failed", "it crashed (KeyError)"),
        (
            "import os\n    if b'broken' in reading.message.raw: os.abort()\n    yield",
            "skipped",
            "it crashed the worker",
        ),
        pytest.param(
            "while b'broken' in reading.message.raw: pass\n    yield THING.at('text')",
            "skipped",
            "it ran out of its time",
            marks=pytest.mark.variant,
        ),
    ],
    ids=["raises", "crashes", "stalls"],
)
def test_a_check_that_breaks_is_blamed_as_a_shipped_one(
    make_plugin: MakePlugin, body: str, state: str, reason: str
) -> None:
    (report,) = analyse([make_plugin(body=body)], PLAIN.replace(b"hello", b"broken"), stage_limit=2.0)
    outcomes = [(each.stage, each.state, each.reason) for each in report.outcomes]
    assert outcomes == [("check:faulty.thing", state, reason)]
    assert (report.verdict, report.decision) == ("unscannable", "quarantine")


@pytest.mark.parametrize(
    ("made", "sentence"),
    [
        ({"declared": DECLARED.replace("api = 2", "api = 9")}, "it is written for version 9 of the interface"),
        ({"code": "import not_there"}, "gatepost_faulty.checks:CHECKS cannot be imported: ModuleNotFoundError"),
    ],
    ids=["declaration", "code"],
)
def test_workers_do_not_start_with_a_faulty_plugin(
    make_plugin: MakePlugin, made: dict[str, str], sentence: str
) -> None:
    name = make_plugin(**made)

    async def main() -> None:
        pool = WorkerPool(PoolSettings(1, 60.0, 20.0, 256 << 20, plugins=(name,)), from_zone, policy_with([]))
        with pytest.raises(SealError) as refused:
            await pool.start()
        assert str(refused.value).startswith("The plug-in gatepost-faulty 0.1: ")
        assert sentence in str(refused.value)

    asyncio.run(main())


def test_guard_takes_no_tag_that_no_enabled_plugin_declares(example: str) -> None:
    policy = policy_with([example])
    line = Line(FINE, find_plugin(example).kinds[FINE].title, "text", {}, 100, 100, "phishing")
    body = msgspec.msgpack.encode(Judged(Report("clean", "deliver", (FINE,), 100, "", (line,))))
    assert read_report(body, collect_titles(policy)).tags == (FINE,)
    with pytest.raises(FrameError, match="a tag that is not in the registry"):
        read_report(body, TITLES)
    other = msgspec.structs.replace(line, title="Call the number below")
    with pytest.raises(FrameError, match="a finding that is not in the registry"):
        read_report(
            msgspec.msgpack.encode(Judged(Report("clean", "deliver", (FINE,), 1, "", (other,)))), collect_titles(policy)
        )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A data folder with both files."""
    data = tmp_path / "data"
    prepare(DataFolder(data), None)
    return data


def enable(data: Path, *names: str, file: Path = GUARD_FILE) -> None:
    with (data / file).open("a") as written:
        written.write(f"plugins: {json.dumps(names)}\n")


def test_the_configuration_names_what_is_wrong_with_a_plugin(folder: Path, make_plugin: MakePlugin) -> None:
    enable(folder, make_plugin(declared=DECLARED.replace("2.0", "-2.0")), "nobody-knows-it")
    with pytest.raises(ConfigError) as refused:
        load_guard(folder)
    faults = {each.key: each.sentence for each in refused.value.faults}
    assert faults["plugins[0]"].endswith("the weight of faulty:thing must be between 0 and 1000")
    assert faults["plugins[1]"].startswith("nobody-knows-it is not installed")
    assert all(each.line for each in refused.value.faults)


def test_a_name_that_is_none_and_another_list_in_abby_are_faults(folder: Path, example: str) -> None:
    enable(folder, "../etc")
    with pytest.raises(ConfigError, match=r"plugins\[0\]"):
        load_guard(folder)
    shutil.rmtree(folder)
    prepare(DataFolder(folder), None)
    enable(folder, example)
    enable(folder, f"{example}==1.0.0", file=ABBY_FILE)
    with pytest.raises(ConfigError, match=r"differs from plugins in guard\.yml"):
        load(folder)


def test_policy_files_may_weigh_kinds_of_enabled_plugins(folder: Path, example: str) -> None:
    (folder / GUARD_FILE).with_name("own.toml").write_text(f'[kinds]\n"{FINE}" = {{ weight = 7.5 }}\n')
    with (folder / GUARD_FILE).open("a") as file:
        file.write("policy:\n  file: own.toml\n")
    with pytest.raises(ConfigError, match="is not a known finding"):
        load_guard(folder)
    enable(folder, example)
    guard = load_guard(folder)
    assert load_policies(guard.policy, guard.plugins).deployment.policy.kinds[FINE].weight == 7.5


@pytest.mark.variant
@pytest.mark.process
def test_config_check_and_doctor_have_the_code_tried_in_a_child(folder: Path, make_plugin: MakePlugin) -> None:
    enable(folder, make_plugin(code="raise ValueError('no key')"))
    code, out, _ = run_command("config", "check", "--data", folder, "--json")
    (fault,) = json.loads(out)["faults"]
    assert (code, fault["key"]) == (1, "plugins")
    assert "cannot be imported: ValueError: no key" in fault["sentence"]
    rows = json.loads(run_command("doctor", "--data", folder, "--json")[1])
    (row,) = [row for row in rows if row["what"] == "plug-in gatepost-faulty"]
    assert (row["state"], "ValueError: no key" in row["found"]) == ("fail", True)
    assert "gatepost_faulty" not in sys.modules


@pytest.mark.variant
def test_commands_show_what_a_plugin_finds(folder: Path, example: str) -> None:
    enable(folder, example)
    assert run_command("config", "check", "--data", folder)[0] == 0
    listed = json.loads(run_command("plugins", "list", "--data", folder, "--json")[1])
    assert [(each["name"], each["version"], each["enabled"], each["kinds"]) for each in listed] == [
        (example, "1.0.0", True, [FINE])
    ]
    explained = run_command("policy", "explain", FINE, "--data", folder)[1]
    assert find_plugin(example).kinds[FINE].title in explained
    assert "for each phrase about a fine" in explained
    assert "plugin" in explained
    rows = json.loads(run_command("doctor", "--data", folder, "--json")[1])
    assert [row["found"] for row in rows if row["what"] == f"plug-in {example}"] == [f"1.0.0; it finds {FINE}"]
    message = find_plugin(example).golden("attacks")[0]
    assert FINE in run_command("scan", message, "--data", folder, "--json")[1]


@pytest.mark.variant
def test_golden_messages_are_tried(example: str, make_plugin: MakePlugin, tmp_path: Path) -> None:
    assert run_command("plugins", "test", example)[0] == 0
    make_plugin()
    twins = tmp_path / "site" / "gatepost_faulty" / "golden" / "twins"
    twins.mkdir(parents=True)
    (twins / "honest.eml").write_bytes(PLAIN)
    code, out, _ = run_command("plugins", "test", "gatepost-faulty", "--json")
    assert (code, json.loads(out)) == (1, [{"message": "twins/honest.eml", "tags": [THING], "passed": False}])
    code, _, err = run_command("plugins", "test", "nobody-knows-it")
    assert (code, "is not installed" in err) == (1, True)


@pytest.mark.variant
@pytest.mark.process
def test_a_published_version_names_exact_versions_and_other_ones_are_refused(
    folder: Path, make_plugin: MakePlugin
) -> None:
    name = make_plugin()
    enable(folder, name)
    place = DataFolder(folder)
    content = read_content(folder, place, None)
    assert content.documents["guard.yml"]["plugins"] == [f"{name}==0.1"]
    node = NodePublisher(folder, place)
    assert node.find_faults(content) == []
    site = folder.parent / "site"
    (site / "gatepost_faulty-0.1.dist-info").rename(site / "gatepost_faulty-0.2.dist-info")
    metadata = site / "gatepost_faulty-0.2.dist-info" / "METADATA"
    metadata.write_text(metadata.read_text().replace("0.1", "0.2"))
    (fault,) = node.find_faults(content)
    assert (fault.key, fault.sentence) == (
        "plugins[0]",
        "gatepost-faulty is wanted in version 0.1, but version 0.2 is installed here",
    )


def test_a_service_scans_with_a_plugin_and_takes_it_out_again(folder: Path, example: str) -> None:
    core, port = free_ports(2)
    for name in (GUARD_FILE, ABBY_FILE):
        path = folder / name
        path.write_text(path.read_text().replace("9785", str(core)).replace("9081", str(port)))
    with (folder / GUARD_FILE).open("a") as file:
        file.write("workerProcesses: 1\n")
    plain = (folder / GUARD_FILE).read_text()
    enable(folder, example)
    attack = find_plugin(example).golden("attacks")[0].read_bytes()
    output = folder.parent / "output"
    with output.open("wb") as sink:
        command = [sys.executable, "-m", "gatepost", "serve", "--data", str(folder)]
        service = subprocess.Popen(command, stdout=sink, stderr=sink)
    try:
        await_output(service, output, '"service listening"')
        token, ca = (folder / "token").read_text(), folder / "tls/certificate.pem"
        with Client(f"https://127.0.0.1:{port}", token, ca=ca, timeout=60, retries=Retries(attempts=1)) as client:
            found = client.message(client.scan(attack, recipients=["b@example.com"]).ggrid)
            (line,) = [line for line in found.ledger.findings if line.tag == FINE]
            assert line.title == find_plugin(example).kinds[FINE].title
            (folder / GUARD_FILE).write_text(plain)
            service.send_signal(signal.SIGHUP)
            await_output(service, output, '"configuration taken over"')
            assert FINE not in client.scan(attack, recipients=["b@example.com"]).tags
    finally:
        service.terminate()
        service.wait(90)


@pytest.mark.variant
def test_a_service_does_not_start_with_a_faulty_plugin(folder: Path, make_plugin: MakePlugin) -> None:
    enable(folder, make_plugin(code="import not_there"))
    command = [sys.executable, "-m", "gatepost", "serve", "--data", str(folder)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert ended.returncode == 1
    assert "The plug-in gatepost-faulty 0.1: gatepost_faulty.checks:CHECKS cannot be imported: Mod" in ended.stderr
