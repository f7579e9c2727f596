"""`gatepost quarantine` as a person uses it, on a folder that a service may have open as well."""

import asyncio
import json
import socket
import stat
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from tests.cli.conftest import Run
from tests.command_line import run_command
from tests.conftest import MailSink
from tests.data_folders import with_store
from tests.idle_guard import IdleGuard

from gatepost.analysis.report import Report
from gatepost.api.server import server_config
from gatepost.cli.ledger import MAX_PREVIEW, render_preview
from gatepost.cli.printing import escape
from gatepost.guard.http_source import build_rest_app
from gatepost.ids import new_id
from gatepost.mail.message import Envelope
from gatepost.scanning.request import ScanRequest, ScanResult
from gatepost.scanning.spool import Spool
from gatepost.service.certificates import sign_certificate
from gatepost.service.commands import prepare
from gatepost.service.core import open_quarantine
from gatepost.service.data_folder import DataFolder
from gatepost.service.routes import open_routing
from gatepost.settings.files import ABBY_FILE, GUARD_FILE, load_guard
from gatepost.store import open_store
from gatepost.store.store import Store

RAW = (
    b"From: ann@x.example\r\nTo: bob@y.example\r\nSubject: \x1b]0;owned\x07\r\n"
    b"X-Private: not shown\r\n\r\nHello \x1b[2Jbob \xe2\x80\xae\r\nsecond line\r\n"
)
# Its bytes lie in the folder of the core; those of a shorter one are in the database.
LARGE = RAW + b"Very long.\r\n" * 6_000
Hold = Callable[..., str]


@pytest.fixture
def run(data: Path) -> Run:
    """`run("list")` gives exit code, standard output and standard error of `gatepost quarantine list`."""
    return lambda *words: run_command("quarantine", *words, "--data", data)


@pytest.fixture
def data(data: Path, next_hop: MailSink) -> Path:
    with (data / GUARD_FILE).open("a") as file:
        file.write(f'delivery: {{nextHop: "{next_hop.url}"}}\n')
    return data


@pytest.fixture
def hold(data: Path) -> Hold:
    def held(raw: bytes = RAW, sender: str = "ann@x.example", tenant: str | None = None, verdict: Any = "spam") -> str:
        async def kept(store: Store) -> str:
            place, settings = DataFolder(data), load_guard(data)
            async with open_quarantine(settings, store, place, None) as quarantine:
                with Spool(place.spool).new() as body:
                    body.write(raw)
                    await body.finish()
                    asked = ScanRequest(new_id(), 1, Envelope(sender, ("bob@y.example",), tenant=tenant))
                    report = Report(verdict, "quarantine", ("a:b",), 100, "because", subject="S\x1b[31m")
                    await quarantine.keep(asked, ScanResult(asked.ggrid, 1, 2, report), body)
            return asked.ggrid

        return with_store(data, kept)

    return held


def test_list_newest_first_with_filters_and_pages(run: Run, hold: Hold) -> None:
    tenant = new_id()
    first, second, third = hold(), hold(sender="eve@z.example", verdict="malware"), hold(tenant=tenant)

    def listed(*arguments: object) -> list[str]:
        code, out, _ = run("list", "--json", *arguments)
        assert code == 0
        return [each["ggrid"] for each in json.loads(out)]

    assert listed() == [third, second, first]
    assert listed("--tenant", tenant.upper()) == [third]
    assert listed("--verdict", "malware") == [second]
    assert listed("--sender", "z.example") == [second]
    assert listed("--recipient", "bob@y.example", "--sender", "ann@x.example") == [third, first]
    assert listed("--since", "2020-01-01", "--limit", 1) == [third]
    assert listed("--before", third, "--limit", 1) == [second]
    assert listed("--since", "2999-01-01") == []
    assert listed("--released") == []
    code, out, _ = run("list", "--limit", 3)
    assert code == 0
    assert "\x1b" not in out
    assert f"More with --before {first}" in out
    assert run("list", "--since", "yesterday")[0] == 2


def test_show_has_ledger_and_text_and_nothing_that_acts(run: Run, hold: Hold) -> None:
    ggrid = hold()
    code, out, _ = run("show", ggrid)
    assert code == 0
    assert "because" in out
    assert "second line" in out
    assert "\\x1b[2Jbob" in out
    assert "not shown" not in out
    assert not {char for char in out if not char.isprintable()} - {"\n"}
    code, out, _ = run("show", ggrid, "--json")
    shown = json.loads(out)
    assert (code, shown["state"], shown["analysis"]["ggrid"]) == (0, "held", ggrid)
    assert "\\x1b" in shown["preview"]
    assert run("show", new_id())[0] == 1
    assert run("show", "../../etc/passwd")[0] == 2
    assert run("show", ggrid, "--tenant", new_id())[0] == 1


def test_preview_is_bounded_and_total() -> None:
    assert len(render_preview(b"Subject: " + b"x" * 1_000_000 + b"\r\n\r\n" + b"y" * 1_000_000)) < MAX_PREVIEW * 2
    assert len(render_preview(b"From: a\r\n" * 10_000)) < 3_000
    for raw in (b"", b"\0", b"\r\n\r\n", b"\xff" * 100, b"Content-Type: multipart/mixed\r\n\r\n--"):
        assert render_preview(raw) is not None
    assert escape("a\r\nb\tc\x9b\ud800\u2028", lines=True) == "a\nb\\tc\\x9b\\ud800\\u2028"
    assert escape("a\nb") == "a\\nb"


def test_a_release_of_malware_names_the_option_that_it_needs(run: Run, hold: Hold, next_hop: Any) -> None:
    ggrid = hold(verdict="malware")
    code, out, _ = run("release", ggrid)
    assert code == 1
    assert out.startswith(f"{ggrid}: still held; ")
    assert out.endswith("(say --dangerous)\n")
    assert not next_hop.mail
    assert run("release", ggrid, "--dangerous")[0] == 0
    assert len(next_hop.mail) == 1


def test_release_through_the_next_hop_of_the_configuration(run: Run, hold: Hold, next_hop: Any) -> None:
    ggrid, other = hold(), hold()
    assert run("release", ggrid)[:2] == (0, f"{ggrid}: released to bob@y.example\n")
    assert [raw.endswith(b"\r\n" + RAW) for _, _, raw in next_hop.mail] == [True]
    code, out, _ = run("release", ggrid, "--json")
    assert (code, json.loads(out)[0]["by"]) == (0, "cli")
    assert len(next_hop.mail) == 1
    assert run("release", other, "--to", "c@y.example", "--to", "d@y.example")[0] == 0
    assert next_hop.mail[1][1] == ("c@y.example", "d@y.example")
    assert run("release", new_id())[:2][0] == 1
    code, out, _ = run("list", "--released", "--json")
    assert [each["release"]["recipients"] for each in json.loads(out)] == [
        ["c@y.example", "d@y.example"],
        ["bob@y.example"],
    ]
    code, out, _ = run("show", ggrid)
    assert code == 0
    assert "by cli to bob@y.example" in out


def test_a_next_hop_that_refuses_is_said(run: Run, hold: Hold, next_hop: Any) -> None:
    ggrid = hold()
    next_hop.answers["RCPT"] = "550 no"
    assert run("release", ggrid)[:2] == (1, f"{ggrid}: still held; the next hop answered 550\n")
    next_hop.answers.clear()
    assert run("release", ggrid)[0] == 0


def test_delete(run: Run, hold: Hold) -> None:
    ggrid = hold()
    assert run("delete", ggrid, "--tenant", new_id())[0] == 1
    assert run("delete", ggrid)[:2] == (0, f"{ggrid}: deleted\n")
    assert run("delete", ggrid)[0] == 1
    assert run("list", "--json")[1] == "[]\n"


def test_export_is_private_and_named_by_the_ggrid_alone(run: Run, hold: Hold, tmp_path: Path) -> None:
    ggrid = hold()
    folder = tmp_path / "out"
    folder.mkdir()
    code, out, _ = run("export", ggrid.upper(), "--folder", folder)
    file = folder / f"{ggrid}.eml"
    assert (code, out) == (0, f"{file}\n")
    assert file.read_bytes() == RAW
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    # What stands there is neither replaced nor written through.
    code, _, said = run("export", ggrid, "--folder", folder)
    assert code == 1
    assert "exists" in said
    file.unlink()
    target = tmp_path / "target"
    file.symlink_to(target)
    assert run("export", ggrid, "--folder", folder)[0] == 1
    assert not target.exists()
    assert run("export", new_id(), "--folder", folder)[0] == 1


SECRET = "5f" * 32


class CoreElsewhere:
    """The core that has the mail, behind its HTTPS port, in a thread of its own."""

    def __init__(self, data: Path) -> None:
        self._data, self._stop, self._ready = data, threading.Event(), threading.Event()
        self.port = 0
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()))

    def __enter__(self) -> "CoreElsewhere":
        place = DataFolder(self._data)
        certificate, key = sign_certificate(["127.0.0.1"], datetime.now(UTC))
        place.certificate.parent.mkdir()
        place.certificate.write_bytes(certificate)
        place.key.write_bytes(key)
        self._thread.start()
        assert self._ready.wait(180)
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(60)

    async def _serve(self) -> None:
        place, settings = DataFolder(self._data), load_guard(self._data)
        store = open_store(settings.storage.url, self._data)
        async with open_routing(settings, place) as routes, open_quarantine(settings, store, place, routes) as held:
            app = build_rest_app(IdleGuard(), SECRET, Spool(place.spool), bytes, held)
            server = uvicorn.Server(server_config(app, certificate=place.certificate, key=place.key))
            with socket.create_server(("127.0.0.1", 0)) as listener:
                self.port = listener.getsockname()[1]
                serving = asyncio.ensure_future(server._serve([listener]))
                self._ready.set()
                await asyncio.to_thread(self._stop.wait)
                server.should_exit = True
                await serving
        await store.close()


def _write_abby(folder: Path, data: Path, port: int) -> None:
    """The only file of a host that runs abby alone."""
    (folder / ABBY_FILE).parent.mkdir(parents=True, exist_ok=True)
    (folder / ABBY_FILE).write_text(
        f'storage: {{url: "sqlite:{data}/gatepost.db"}}\n'
        f'serviceProviders: {{core: {{hosts: ["https://127.0.0.1:{port}"], secret: "{SECRET}",'
        f' ca: "{data}/tls/certificate.pem"}}}}\n'
    )


def test_a_host_with_abby_alone_reaches_the_mail_of_its_cores(
    run: Run, hold: Hold, data: Path, tmp_path: Path, next_hop: Any
) -> None:
    here = tmp_path / "abby"
    first, second, third = hold(LARGE), hold(LARGE), hold(LARGE)
    with CoreElsewhere(data) as core:
        _write_abby(here, data, core.port)
        code, out, _ = run("list", "--json", "--config", here)
        assert (code, [each["ggrid"] for each in json.loads(out)]) == (0, [third, second, first])
        code, out, _ = run("show", first, "--config", here)
        assert (code, "second line" in out) == (0, True)
        assert run("export", first, "--folder", tmp_path, "--config", here)[0] == 0
        assert (tmp_path / f"{first}.eml").read_bytes() == LARGE
        assert run("release", first, "--config", here)[:2] == (0, f"{first}: released to bob@y.example\n")
        assert [raw.endswith(b"\r\n" + LARGE) for _, _, raw in next_hop.mail] == [True]
        assert run("delete", second, "--config", here)[:2] == (0, f"{second}: deleted\n")
        left = [path.stem for path in (data / "quarantine").rglob("*.eml")]
        assert left == [third], "released and deleted mail is gone from the folder of the core"
    # The core is away now: the command says which one has the mail, and changes nothing.
    name = f"{socket.gethostname()}:9785"
    code, out, _ = run("show", third, "--config", here)
    assert (code, f"the core that stores it ({name}) is not answering" in out.replace("\n", " ")) == (0, True)
    code, out, _ = run("release", third, "--config", here)
    assert (code, out) == (1, f"{third}: still held; the core that stores it ({name}) is not answering\n")
    code, out, _ = run("delete", third, "--config", here)
    assert (code, out) == (1, f"{third}: still held; the core that stores it ({name}) is not answering\n")
    code, _, said = run("export", third, "--folder", tmp_path, "--config", here)
    assert (code, name in said) == (1, True)
    assert run("release", third)[0] == 0, "the host that has it needs no service"


def test_a_guard_says_which_other_core_has_a_message(run: Run, hold: Hold, data: Path, tmp_path: Path) -> None:
    ggrid = hold(LARGE)
    other = tmp_path / "other"
    prepare(DataFolder(other), None)
    (other / ABBY_FILE).unlink()
    with (other / GUARD_FILE).open("a") as file:
        file.write(f'quarantine: {{url: "file:{other}/q"}}\nevents: {{node: other}}\n')
    code, out, _ = run("release", ggrid, "--config", other)
    assert (code, f"{ggrid}: still held; it lies at {socket.gethostname()}:9785" in out) == (1, True)
    code, out, _ = run("show", ggrid, "--config", other)
    assert (code, "it lies at" in out, "second line" in out) == (0, True, False)
