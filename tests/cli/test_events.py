"""`gatepost events`, and the events of other commands, as a person uses them."""

import json
import socket
from pathlib import Path

from tests.cli.conftest import Run
from tests.command_line import run_command
from tests.events.receivers import listen_on_loopback

from gatepost.events.webhook import EventSpool, read_segment, spool_name
from gatepost.settings.files import GUARD_FILE


def configure(data: Path, events: str) -> None:
    file = data / GUARD_FILE
    file.write_text(file.read_text() + f"\nevents: {events}\n")


def test_without_an_output_it_says_what_to_do(run: Run) -> None:
    code, out, err = run("events", "test")
    assert (code, out) == (1, "")
    assert "events: {file: {}}" in err


def test_changes_by_commands_are_told_to_every_output(run: Run, data: Path) -> None:
    url = "http://127.0.0.1:9/hook"
    with listen_on_loopback(socket.SOCK_DGRAM) as server:
        address = f"udp://127.0.0.1:{server.getsockname()[1]}"
        hook = f'{{url: "{url}", secret: x}}'
        configure(data, f'{{file: {{}}, syslog: {{address: "{address}"}}, webhooks: [{hook}]}}')
        assert run("apikey", "create", "playbook")[0] == 0
        logged = server.recv(1 << 16)
    (event,) = map(json.loads, (data / "events/events.jsonl").read_bytes().splitlines())
    assert (event["event"], event["name"], event["by"]) == ("key.created", "playbook", {"kind": "cli"})
    assert event["id"].encode() in logged
    # A service sends it later.
    spool = EventSpool(data / "events" / spool_name(url), 1 << 20)
    segment = spool.next_segment()
    assert segment
    assert [json.loads(line)["id"] for line in read_segment(segment)] == [event["id"]]
    spool.close()


def test_a_command_goes_on_without_events(run: Run, data: Path) -> None:
    configure(data, "{file: {maxSize: 1}}")
    code, out, err = run("apikey", "create", "playbook")
    assert code == 0
    assert out.startswith("gp_")
    assert "No events are written" in err
    assert "events.file.maxSize" in err


def test_a_test_names_the_output_that_fails(run: Run, data: Path) -> None:
    configure(data, f'{{file: {{}}, syslog: {{address: "unix:{data}/absent"}}}}')
    code, out, _ = run("events", "test")
    assert code == 1
    assert [line.split()[0] for line in out.splitlines()] == ["output", "file", "syslog"]
    assert "cannot be reached: no such file or directory" in out
    code, out, _ = run("events", "test", "--json")
    assert code == 1
    assert [each["ok"] for each in json.loads(out)["outputs"]] == [True, False]


def test_the_schema_is_json_schema() -> None:
    schema = json.loads(run_command("events", "schema")[1])
    assert schema["$schema"].endswith("2020-12/schema")
    assert schema["$defs"]["MessageScanned"]["properties"]["event"] == {"enum": ["message.scanned"]}
