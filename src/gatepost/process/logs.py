"""Logging: one event per line, as JSON for programs or as short text for a terminal, for all libraries alike.

An event says what happened to which ggrid. It never contains mail content, addresses or secrets: the fields that could
hold them are blanked here. Values may come from strangers, so text for a terminal has its control characters escaped: a
log line cannot move the cursor or fake another line.

Nothing fails because a line cannot be written: a full disk or a log reader that has ended costs lines, not mail.

Every module has a `Logger` of its part; where the lines go is configured once for the process. Before that, warnings
and errors go to standard error.
"""

import json
import logging
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager
from pathlib import PurePath
from typing import Any, BinaryIO, ClassVar, Literal, TextIO

import msgspec

from gatepost.process.hiding import hide, hide_text

BLANKED = frozenset(
    "authorization body envelope headers password raw recipient recipients secret sender senders subject token".split()
)
LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
_COLOURS = {"debug": "\x1b[2m", "info": "\x1b[32m", "warning": "\x1b[33m", "error": "\x1b[31m", "critical": "\x1b[31m"}
_ENCODER = msgspec.json.Encoder(enc_hook=str)

Level = Literal["debug", "info", "warning", "error"]
Form = Literal["auto", "json", "human"]
Event = MutableMapping[str, Any]
Renderer = Callable[[Event], bytes]


class ExpectedError(Exception):
    """A failure that is ordinary, such as storage that does not answer; its text says what could not be done."""


class Logger:
    """Logs of one part of the program. `exc_info` is an exception, or True for the one that is handled."""

    def __init__(self, name: str) -> None:
        self.name = name

    def debug(self, event: str, /, **fields: Any) -> None:
        """Log an event that only the search for a fault needs."""
        if _process.level <= logging.DEBUG:
            self.log(logging.DEBUG, event, **fields)

    def info(self, event: str, /, **fields: Any) -> None:
        """Log an ordinary event."""
        if _process.level <= logging.INFO:
            self.log(logging.INFO, event, **fields)

    def warning(self, event: str, /, **fields: Any) -> None:
        """Log an event that somebody may have to do something about."""
        self.log(logging.WARNING, event, **fields)

    def error(self, event: str, /, **fields: Any) -> None:
        """Log an event that cost something."""
        self.log(logging.ERROR, event, **fields)

    def exception(self, event: str, /, **fields: Any) -> None:
        """Log an error with the exception that is being handled."""
        self.log(logging.ERROR, event, **{"exc_info": True, **fields})

    def log(self, level: int, event: str, /, **fields: Any) -> None:
        """Log an event of any level."""
        if level >= _process.level:
            _process.write(_complete(self.name, logging.getLevelName(level).lower(), event, fields))


def _write_to_standard_error(event: Event) -> None:
    LogOutput(sys.stderr.buffer, TextRenderer(colours=False)).write_event(event)


class _Process:
    """What is configured for the process: the lowest level that is logged, and what writes an event."""

    def __init__(self) -> None:
        self.level = logging.WARNING
        self.write: Callable[[Event], None] = _write_to_standard_error


_process = _Process()


def configure(level: Level = "info", form: Form = "auto", stream: TextIO | None = None) -> None:
    """Configure logging for the whole process; the default stream is standard error."""
    stream = sys.stderr if stream is None else stream
    human = form == "human" or (form == "auto" and stream.isatty())
    render = TextRenderer(colours=stream.isatty()) if human else render_json
    _process.level, _process.write = LEVELS[level], LogOutput(stream.buffer, render).write_event
    _redirect_standard_logging(level)


def reset() -> None:
    """Log as a process does that has configured nothing."""
    vars(_process).update(vars(_Process()))
    root = logging.getLogger()
    root.handlers[:] = [handler for handler in root.handlers if not isinstance(handler, Bridge)]
    root.setLevel(logging.WARNING)


@contextmanager
def capture() -> Iterator[list[Event]]:
    """Collect events of every level instead of writing them."""
    captured: list[Event] = []
    before = _process.level, _process.write
    _process.level, _process.write = logging.DEBUG, captured.append
    try:
        yield captured
    finally:
        _process.level, _process.write = before


class LogOutput:
    """The stream that lines go to. A line that it does not take is counted and lost; the next line that it takes is
    preceded by one that says how many."""

    # Of the whole process, for the metrics.
    lost: ClassVar[int] = 0

    def __init__(self, stream: BinaryIO, render: Renderer) -> None:
        # Not through Python's buffer: it would keep the line that failed, and fail again with every later one.
        self._stream: BinaryIO = getattr(stream, "raw", stream)
        self._render, self._untold, self._turn = render, 0, threading.Lock()

    def write_event(self, event: Event) -> None:
        """Write the line of an event and, where it is the first after some that were lost, their number before it."""
        line = self._render(event) + b"\n"
        with self._turn:
            self._write(line)

    def _write(self, line: bytes) -> None:
        if self._untold:
            lost = _complete("gatepost", "warning", "log lines lost", {"lines": self._untold})
            line = self._render(lost) + b"\n" + line
        try:
            self._write_whole(line)
        except (OSError, ValueError):  # ValueError: somebody has closed it
            self._untold += 1
            LogOutput.lost += 1
        else:
            self._untold = 0

    def _write_whole(self, line: bytes) -> None:
        """Write all of it: the kernel may take a part."""
        rest = memoryview(line)
        while rest:
            taken = self._stream.write(rest)
            if not taken:  # None: a pipe that does not wait is full
                raise BlockingIOError
            rest = rest[taken:]


class Bridge(logging.Handler):
    """Hands what libraries log the standard way to our pipe."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            Logger(record.name).log(record.levelno, record.getMessage(), exc_info=record.exc_info)
        except Exception:  # noqa: BLE001  as the standard library has it: a log line must not break its caller
            self.handleError(record)


def render_json(event: Event) -> bytes:
    """Render an event as one JSON object."""
    try:
        return _ENCODER.encode(event)
    except (UnicodeEncodeError, TypeError, ValueError):
        return json.dumps(event, default=str, skipkeys=True).encode("ascii")


class TextRenderer:
    """Renders an event as one line for people, with a traceback below it."""

    def __init__(self, *, colours: bool) -> None:
        self._colours = colours

    def __call__(self, event: Event) -> bytes:
        moment, level, logger = event.pop("time"), event.pop("level"), event.pop("logger", "")
        what, trace = event.pop("event"), event.pop("exception", "")
        start, end = (_COLOURS.get(level, ""), "\x1b[0m") if self._colours else ("", "")
        words = [moment[11:23], f"{start}{level:<7}{end}", _escape(what)]
        words += [f"{key}={_escape(value, quoted=True)}" for key, value in event.items()]
        if level != "info" and logger:
            words.append(f"({_escape(logger)})")
        lines = [" ".join(words), *(_escape(line) for line in trace.splitlines())]
        return "\n".join(lines).encode("utf-8", "backslashreplace")


def _complete(name: str, level: str, event: str, fields: dict[str, Any]) -> Event:
    """Return an event with time, level and logger first, private fields blanked, and a traceback as text."""
    fault = fields.pop("exc_info", None)
    seconds, milliseconds = divmod(time.time_ns() // 1_000_000, 1_000)
    moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
    complete: Event = {
        "time": f"{moment}.{milliseconds:03}Z",
        "level": level,
        "event": hide_text(event),
        "logger": name,
    }
    for key, value in fields.items():
        complete[key] = "(not logged)" if key in BLANKED else _hide_secrets(value)
    if fault:
        complete["exception"] = hide_text(_format_traceback(fault))
    return complete


def _hide_secrets(value: object) -> object:
    if isinstance(value, str | BaseException | PurePath):
        return hide_text(str(value))
    return hide(value) if isinstance(value, dict | list | tuple) else value


def _format_traceback(fault: object) -> str:
    """Return the traceback without the values of variables, which could be mail."""
    if isinstance(fault, BaseException):
        return "".join(traceback.format_exception(fault))
    found = fault if isinstance(fault, tuple) else sys.exc_info()
    return "".join(traceback.format_exception(found[1])) if found[1] else ""


def _escape(value: object, *, quoted: bool = False) -> str:
    text = str(value)
    if text.isprintable() and not (quoted and (" " in text or not text)):
        return text
    return repr(text) if quoted else repr(text)[1:-1]


def _redirect_standard_logging(level: str) -> None:
    root = logging.getLogger()
    root.handlers[:] = [Bridge()]
    # Libraries log each request at `info`; only their warnings matter, except at level `debug`.
    root.setLevel(logging.DEBUG if level == "debug" else max(LEVELS[level], logging.WARNING))
    # They log whole addresses, whose path may be a secret.
    for name in ("httpx", "httpcore"):
        logging.getLogger(name).setLevel(logging.WARNING)
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access", "uvicorn.asgi"):
        library = logging.getLogger(name)
        library.handlers.clear()
        library.propagate = True
    logging.captureWarnings(capture=True)
