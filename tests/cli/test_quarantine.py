"""`gatepost quarantine` as a person uses it, on a folder that a service may have open as well."""

import asyncio
import io
import json
import logging
import stat
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog

from gatepost.cli import main
from gatepost.cli.ledger import MAX_PREVIEW, render_preview
from gatepost.cli.printing import escape
from gatepost.ids import new_id
from gatepost.mail.message import Envelope
from gatepost.report import Report
from gatepost.scanning.request import ScanRequest, ScanResult
from gatepost.scanning.spool import Spool
from gatepost.service.core import open_quarantine
from gatepost.service.data_folder import DataFolder
from gatepost.service.first_start import prepare
from gatepost.settings.files import GUARD_FILE, load_guard
from gatepost.store import open_store

RAW = (
    b"From: ann@x.example\r\nTo: bob@y.example\r\nSubject: \x1b]0;owned\x07\r\n"
    b"X-Private: not shown\r\n\r\nHello \x1b[2Jbob \xe2\x80\xae\r\nsecond line\r\n"
)
Run = Callable[..., tuple[int, str, str]]
Hold = Callable[..., str]


@pytest.fixture(autouse=True)
def _logging() -> Iterator[None]:
    """What is held for a test is no output of the command, and what a command sets up ends with the test."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    yield
    structlog.reset_defaults()


@pytest.fixture
def run(data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """`run("list")` gives exit code, standard output and standard error of `gatepost quarantine list`."""

    def called(command: str, *arguments: object) -> tuple[int, str, str]:
        words = ["gatepost", "quarantine", command, *map(str, arguments), "--data", str(data)]
        monkeypatch.setattr(sys, "argv", words)
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO()))
        code = 0
        try:
            main()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 0
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return called


@pytest.fixture
def data(tmp_path: Path, next_hop: Any) -> Path:
    folder = tmp_path / "data"
    prepare(DataFolder(folder), None)
    with (folder / GUARD_FILE).open("a") as file:
        file.write(f'delivery: {{nextHop: "{next_hop.url}"}}\n')
    return folder


@pytest.fixture
def hold(data: Path) -> Hold:
    def held(raw: bytes = RAW, sender: str = "ann@x.example", tenant: str | None = None, verdict: Any = "spam") -> str:
        async def kept() -> str:
            place, settings = DataFolder(data), load_guard(data)
            store = open_store(settings.storage.url, data)
            async with open_quarantine(settings, store, place, None) as quarantine:
                with Spool(place.spool).new() as body:
                    body.write(raw)
                    body.finish()
                    asked = ScanRequest(new_id(), 1, Envelope(sender, ("bob@y.example",), tenant=tenant), body)
                    report = Report(verdict, "quarantine", ("a:b",), 100, "because", subject="S\x1b[31m")
                    await quarantine.keep(asked, ScanResult(asked.ggrid, 1, 2, report), body)
            await store.close()
            return asked.ggrid

        return asyncio.run(kept())

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
