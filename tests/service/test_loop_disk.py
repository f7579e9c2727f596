"""The event loop of a service opens, writes and looks at no file of the data folder: its disk may hang."""

import os
import smtplib
from pathlib import Path
from typing import Any

import pytest
from bench.noloss import _EICAR
from bench.ports import free_ports
from tests.conftest import MailSink
from tests.data_folders import write_files
from tests.service.running_service import RunningCommand, connect
from tests.service.watched_service import write_text

from gatepost.service.signing import write_key

# Notes what code of Gatepost does with files of a folder in a thread that runs an event loop. What is read of a file
# that is open, such as a message in the spool, is in the memory of the system.
PROGRAM = """
import asyncio, os, sys
import apsw
notes, folder = open(sys.argv.pop(1), "a", buffering=1), sys.argv.pop(1)
EVENTS = {"open", "os.rename", "os.remove", "os.mkdir", "os.listdir", "os.scandir", "os.link", "os.chmod"}

def note(event, path):
    if asyncio._get_running_loop() is None or not str(path).startswith(folder):
        return
    places, frame = [], sys._getframe(2)
    while frame is not None:
        if "/gatepost/" in frame.f_code.co_filename:
            places.append(f"{frame.f_globals['__name__']}:{frame.f_lineno}")
        frame = frame.f_back
    print(event, path, *places[:6], file=notes)

def look(event, arguments):
    if event in EVENTS:
        note(event, arguments[0])

def audited(event, call):
    def run(path, *arguments, **named):
        note(event, path)
        return call(path, *arguments, **named)
    return run

sys.addaudithook(look)
apsw.connection_hooks.append(lambda connection: note("sqlite", connection.filename))
os.stat, os.lstat = audited("stat", os.stat), audited("lstat", os.lstat)
from gatepost.cli import main
main()
"""
TOKEN, HEAD = "5f" * 32, "From: ann@shop.example\r\nSubject: Minutes\r\nMessage-ID: <1@shop.example>\r\n\r\n"
PARAMETERS = '{"borderMtaData": {"envelopeFrom": "ann@shop.example", "envelopeRecipients": ["bob@example.com"]}}'


def test_the_event_loop_waits_for_no_file(tmp_path: Path, lasting_next_hop: MailSink) -> None:
    data, notes = tmp_path / "data", tmp_path / "notes"
    core, api, smtp = free_ports(3)
    write_key(data / "guard/core/arc.pem", "ed25519")
    guard = f"""
scanSources: {{restApi: {{port: {core}}}, smtp: {{port: {smtp}}}}}
delivery: {{nextHop: "{lasting_next_hop.url}", tls: "off"}}
arc: {{key: {{domain: own.example, selector: s1, file: arc.pem}}, seal: always}}
events: {{file: {{}}}}
mainWorkerCount: 2
workerProcesses: 1
storage: {{url: "sqlite:gatepost.db"}}
"""
    abby = f"""
listen: {{host: 127.0.0.1, port: {api}}}
serviceProviders: {{core: {{hosts: ["https://127.0.0.1:{core}"]}}}}
staticApiTokens: [{{name: test, token: "{TOKEN}"}}]
storage: {{url: "sqlite:gatepost.db"}}
"""
    write_files(data, guard, abby)
    program = ("-c", PROGRAM, str(notes), str(data))
    service = RunningCommand(tmp_path / "output", "serve", "--data", data, program=program)
    try:
        service.until()
        started = notes.stat().st_size
        small = f"{HEAD}{write_text()}\r\n"
        large, held = small + "The same again.\r\n" * 200_000, f"{HEAD}{_EICAR}\r\n" + "Large, and held.\r\n" * 20_000
        for raw in (small, large, held):
            with smtplib.SMTP("127.0.0.1", smtp, timeout=60) as client:
                client.sendmail("ann@shop.example", ["bob@example.com"], raw)
        with connect(data, api) as http:
            for raw in (small, large):
                parts: dict[str, Any] = {
                    "parameters": (None, PARAMETERS, "application/json"),
                    "email": ("m.eml", raw.encode(), "message/rfc822"),
                }
                headers = {"Authorization": f"Bearer {TOKEN}"}
                assert http.post("/v1/messageQueue/submitEmail", files=parts, headers=headers).status_code == 200
        os.utime(data / "tls/certificate.pem")
        service.until('"certificate taken over"')
        assert lasting_next_hop.mail
        assert notes.read_text()[started:] == ""
    finally:
        service.stop()
    assert "gatepost" in notes.read_text(), "what a start does is seen"


pytestmark = pytest.mark.process
