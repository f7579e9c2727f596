"""One pipe for all, nothing of the mail in it, and no line that a stranger can fake."""

import io
import json
import logging
import os
import re
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import pytest

from gatepost.process import logs
from gatepost.process.logs import Logger, LogOutput, configure

Logged = Callable[[], list[str]]
Start = Callable[..., Logged]


class Terminal(io.TextIOWrapper):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def start() -> Iterator[Start]:
    """`start(level, form)` sets logging up on a stream of its own; what it returns gives the lines written so far."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    streams: list[io.TextIOWrapper] = []

    def begin(
        level: Literal["debug", "info", "warning", "error"] = "info",
        form: Literal["auto", "json", "human"] = "json",
        terminal: bool = False,
    ) -> Logged:
        written = io.BytesIO()
        streams.append(Terminal(written) if terminal else io.TextIOWrapper(written))
        configure(level, form, streams[-1])
        return lambda: written.getvalue().decode().splitlines()

    yield begin
    logs.reset()
    logging.captureWarnings(capture=False)
    root.handlers[:] = handlers
    root.setLevel(level)


def events(lines: Logged) -> list[dict[str, Any]]:
    return [json.loads(line) for line in lines()]


def test_json(start: Start) -> None:
    lines = start()
    Logger("gatepost.guard").info("scanned", ggrid="g", size=3, odd=object)
    (event,) = events(lines)
    assert list(event)[:4] == ["time", "level", "event", "logger"]
    assert (event["level"], event["event"], event["logger"]) == ("info", "scanned", "gatepost.guard")
    assert (event["ggrid"], event["size"], event["odd"]) == ("g", 3, "<class 'object'>")
    assert time.strptime(event["time"][:19], "%Y-%m-%dT%H:%M:%S")
    assert event["time"][19] == "."
    assert event["time"].endswith("Z")


@pytest.mark.parametrize("form", ["json", "human"])
def test_what_is_in_the_mail_is_not_logged(start: Start, form: str) -> None:
    lines = start(form=form)
    Logger("gatepost").warning("x", subject="private", token="private", sender="private", recipients=["private"])
    assert "private" not in "".join(lines())
    assert "subject" in "".join(lines())


def test_levels(start: Start) -> None:
    lines = start(level="warning")
    log = Logger("gatepost")
    log.info("no")
    log.warning("yes")
    assert [event["event"] for event in events(lines)] == ["yes"]


@pytest.mark.parametrize(
    ("form", "terminal", "human"),
    [("auto", True, True), ("auto", False, False), ("json", True, False), ("human", False, True)],
)
def test_the_form_follows_the_terminal_unless_told(start: Start, form: str, terminal: bool, human: bool) -> None:
    lines = start(form=form, terminal=terminal)
    Logger("gatepost").info("hello")
    (line,) = lines()
    assert line.startswith("{") != human
    assert ("\x1b[" in line) == (human and terminal)


def test_a_stranger_cannot_fake_a_line(start: Start) -> None:
    lines = start(form="human")
    Logger("a\nb").error("evil\nline", path="/\x1b[2J\r\nfake", empty="", two="a b", bad="\ud800")
    (line,) = lines()
    assert "\x1b" not in line
    assert "path='/\\x1b[2J\\r\\nfake'" in line
    assert "two='a b'" in line
    start()
    Logger("gatepost").info("\ud800 as JSON too")


def test_libraries_and_warnings_come_through_the_same_pipe(start: Start) -> None:
    lines = start()
    logging.getLogger("uvicorn.error").warning("from %s", "uvicorn")
    logging.getLogger("httpx").info("HTTP Request: POST https://…")
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        logging.captureWarnings(capture=True)
        warnings.warn("careful", UserWarning, stacklevel=1)
        logging.captureWarnings(capture=False)
    assert [(event["logger"], event["level"]) for event in events(lines)] == [
        ("uvicorn.error", "warning"),
        ("py.warnings", "warning"),
    ]
    assert events(lines)[0]["event"] == "from uvicorn"


@pytest.mark.parametrize("form", ["json", "human"])
def test_a_traceback_has_no_values_of_variables(start: Start, form: str) -> None:
    lines = start(form=form)
    mail_text = "dear sir"
    try:
        raise ValueError(len(mail_text))
    except ValueError as fault:
        Logger("gatepost").error("broke", exc_info=fault)
        Logger("gatepost").exception("again")
        logging.getLogger("library").exception("theirs")
    text = "\n".join(lines())
    assert text.count("ValueError: 8") == 3
    assert mail_text not in text.replace('mail_text = "dear sir"', "")


def test_an_exception_without_one_is_no_trouble(start: Start) -> None:
    lines = start()
    Logger("gatepost").error("nothing is being handled", exc_info=True)
    assert events(lines)[0]["event"] == "nothing is being handled"


def test_a_full_disk_costs_lines_and_nothing_else(start: Start, tmp_path: Path) -> None:
    """A file that takes nothing, and then everything."""
    start()
    path = tmp_path / "log"
    path.symlink_to("/dev/full")
    with path.open("w") as stream:
        configure(form="json", stream=stream)
        log = Logger("gatepost")
        lost = LogOutput.lost
        log.info("one")
        log.warning("two")
        assert LogOutput.lost - lost == 2
        with (tmp_path / "room").open("w") as room:
            os.dup2(room.fileno(), stream.fileno())
        log.info("three")
        log.info("four")
    said = [json.loads(line) for line in (tmp_path / "room").read_text().splitlines()]
    assert [(event["event"], event["level"]) for event in said] == [
        ("log lines lost", "warning"),
        ("three", "info"),
        ("four", "info"),
    ]
    assert said[0]["lines"] == 2


@pytest.mark.parametrize("form", ["json", "human"])
def test_a_log_reader_that_has_ended_or_sleeps_breaks_nothing(form: Literal["json", "human"], start: Start) -> None:
    start()
    ours, theirs = os.pipe()
    with os.fdopen(theirs, "w") as stream:
        configure(form=form, stream=stream)
        log = Logger("gatepost")
        log.info("read")
        assert b"read" in os.read(ours, 1 << 16)
        os.set_blocking(theirs, False)
        for _ in range(2_000):
            log.info("x" * 100)
        assert os.read(ours, 1 << 20)
        log.info("room again")
        assert b"log lines lost" in os.read(ours, 1 << 20)
        os.close(ours)
        log.info("to nobody")
    log.info("to a closed file")


def test_every_module_logs_through_this_one() -> None:
    """Nothing else is configured, so whatever logged by itself would write to another place, or nothing at all."""
    for file in Path(logs.__file__).parent.rglob("*.py"):
        text = file.read_text("utf-8")
        assert "structlog" not in text, file
        assert not re.search(r"^\w+ = logging\.getLogger", text, re.MULTILINE), file


@pytest.mark.parametrize("library", ["httpx", "httpcore", "httpcore.connection"])
def test_libraries_log_no_address_of_a_request(library: str, capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("debug", "json")
    logging.getLogger(library).info("HTTP Request: GET https://feeds.example/T0SECRET")
    logging.getLogger("another").info("said")
    printed = capsys.readouterr().err
    assert "T0SECRET" not in printed
    assert "said" in printed


def test_secrets_in_fields_and_tracebacks_are_hidden(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("debug", "json")
    fault = OSError("smtp://ann:T0SECRET@relay.example does not answer")
    url = "postgresql://ann:T0SECRET@db.example/mail"
    try:
        raise fault
    except OSError:
        fields = {"reason": fault, "urls": [url], "more": {"a": url}, "path": Path(f"/x/{url}"), "n": 1}
        logs.Logger("x").exception(f"lost {url}", **fields)
    printed = capsys.readouterr().err
    assert "T0SECRET" not in printed
    assert printed.count("(hidden)@") == 6
