"""What docs/events.md prints works as printed."""

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import httpx
import msgspec
import pytest
from bench.ports import free_port
from tests.events.receivers import eventually, make_events

from gatepost.events.schema import EVENTS, Event, describe_schema
from gatepost.events.webhook import SIGNATURE, WebhookOutput, build_body, sign
from gatepost.settings.events import WebhookSettings
from gatepost.settings.files import GUARD_FILE, load_guard

PAGE = (Path(__file__).parents[2] / "docs/events.md").read_text("utf-8")
SECRET = "0123456789abcdef" * 4


def block(language: str, containing: str = "") -> str:
    found = re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    (text,) = [str(each) for each in found if containing in each]
    return text


def test_the_receiver_takes_signed_calls_only(tmp_path: Path) -> None:
    port, script, output = free_port(), tmp_path / "receiver.py", tmp_path / "output"
    script.write_text(block("python").replace("8090", str(port)))
    environment = {**os.environ, "WEBHOOK_SECRET": SECRET}
    with output.open("wb") as sink:
        process = subprocess.Popen([sys.executable, str(script)], env=environment, stdout=sink, stderr=sink)
    url, event = f"http://127.0.0.1:{port}/", make_events(1)[0]
    try:
        hook = WebhookOutput(
            "webhook-1", WebhookSettings.model_validate({"url": url, "secret": SECRET}), tmp_path, sends=False
        )
        eventually(lambda: _answers(url))
        assert hook.test(event) == ""
        assert f"{event.id} message.held" in output.read_text()
        body = build_body([event.line])
        for wrong in (sign("another", body, int(time.time())), sign(SECRET, body, 1_700_000_000), "", "t=x,v1=y"):
            assert httpx.post(url, content=body, headers={SIGNATURE: wrong}, trust_env=False).status_code == 403
    finally:
        process.kill()
        process.wait()


def _answers(url: str) -> bool:
    try:
        return httpx.post(url, content=b"{}", trust_env=False).status_code == 403
    except httpx.HTTPError:
        return False


@pytest.mark.skipif(shutil.which("openssl") is None, reason="not run: openssl is not installed")
def test_the_shell_checks_signatures(tmp_path: Path) -> None:
    body = build_body([make_events(1)[0].line])
    (tmp_path / "body.json").write_bytes(body)
    code = block("sh", "openssl dgst")

    def check(signature: str) -> str:
        environment = {**os.environ, "SIGNATURE": signature, "WEBHOOK_SECRET": SECRET}
        ended = subprocess.run(
            ["sh", "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        return ended.stdout

    right = sign(SECRET, body, 1_800_000_000)
    assert check(right) == "signed\n"
    assert check(right.replace("t=18", "t=19")) == ""
    assert check(sign("another", body, 1_800_000_000)) == ""


def test_the_configuration_is_read(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text(SECRET)
    text = block("yaml").replace("/run/secrets/gatepost-webhook", str(tmp_path / "secret"))
    (tmp_path / GUARD_FILE).parent.mkdir(parents=True)
    (tmp_path / GUARD_FILE).write_text(text)
    events = load_guard(tmp_path).events
    assert events.webhooks[0].secret == SECRET
    assert events.syslog
    assert events.mail


def test_the_example_is_an_event() -> None:
    line = block("json").strip()
    event = msgspec.json.decode(line, type=Event)
    assert line.startswith('{"schema":1,"event":"message.scanned"')
    assert msgspec.json.encode(event).decode().removeprefix('{"event":"message.scanned"') in line
    assert len(describe_schema()["oneOf"]) == len(EVENTS)
