"""`gatepost events`: try every output, and read the file of events."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gatepost.cli.options import ConfigOption, DataOption, JsonOption, config_folder, data_folder
from gatepost.service.data_folder import StartError

if TYPE_CHECKING:
    from rich.text import Text

    from gatepost.events.output import Output
    from gatepost.settings.events import EventFileSettings

app = typer.Typer(help="The event stream.", no_args_is_help=True)

# How much of the end of a file is read for its last lines.
TAIL_BYTES = 4 << 20
FOLLOW_SECONDS = 0.5
_STYLES = {"message": "cyan", "health": "bold yellow", "node": "bold", "user": "magenta", "key": "magenta"}
_FIRST = ("schema", "event", "id", "at", "node")


@app.callback()
def _group() -> None:
    """The event stream."""


@app.command("test")
def try_outputs(config: ConfigOption = None, data: DataOption = None, json: JsonOption = False) -> None:
    """Send a test event to every output, and print what became of it.

    The event is `node.state` with the state `test`. Alerts are tried as well. Exits with 1 if an output fails.
    """
    from gatepost import __version__
    from gatepost.cli.printing import console, print_json, safe, table
    from gatepost.events.schema import NodeState, encode_event
    from gatepost.events.stream import node_name

    outputs, events = _build_outputs(config, data)
    event = encode_event(NodeState(state="test", version=__version__), node_name(events))
    found = [(output, output.test(event)) for output in outputs]
    if json:
        tried = [
            {"output": each.name, "address": each.address, "ok": not fault, "fault": fault} for each, fault in found
        ]
        print_json({"id": event.id, "outputs": tried})
    else:
        from rich.text import Text

        made = table("output", "address", "state", "fault")
        for output, fault in found:
            state = Text("failed", "bold red") if fault else Text("ok", "green")
            made.add_row(output.name, safe(output.address), state, safe(fault))
        console().print(made)
    if any(fault for _, fault in found):
        raise typer.Exit(1)


@app.command("tail")
def tail(
    lines: Annotated[
        int, typer.Option("--lines", "-n", metavar="N", min=0, help="Number of events to begin with.")
    ] = 20,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with new events until interrupted.")] = False,
    kind: Annotated[
        str, typer.Option("--kind", metavar="KIND", help="Only events of this kind or group, such as message.")
    ] = "",
    config: ConfigOption = None,
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """Print the last events of the file output; with --json, as they stand in the file."""
    from gatepost.cli.printing import console

    path = _find_file(config, data)
    out = console()
    for line in _read_lines(path, lines, follow=follow, kind=kind):
        if json:
            print(line.decode("utf-8", "replace"), flush=follow)
        else:
            out.print(_render_line(line), soft_wrap=True)


@app.command("schema")
def schema(json: JsonOption = False) -> None:
    """Print the schema of all events as JSON Schema 2020-12."""
    from gatepost.cli.printing import print_json
    from gatepost.events.schema import describe_schema

    # It is JSON either way: there is nothing else that a program could read.
    print_json(describe_schema(), indent=0 if json else 2)


def _build_outputs(config: Path | None, data: Path | None) -> "tuple[list[Output], Any]":
    from gatepost.cli.change_events import load_event_source
    from gatepost.events.stream import OutputError, build_outputs
    from gatepost.service.event_stream import build_alert_mailer

    place = data_folder(data)
    settings = load_event_source(config_folder(config, place))
    events = settings.events
    if not events.enabled:
        raise StartError("No output is configured: write one under events in guard.yml, such as events: {file: {}}.")
    place.make()
    try:
        return build_outputs(events, place.path, sends=False, send_mail=build_alert_mailer(settings)), events
    except OutputError as fault:
        raise StartError(str(fault)) from None


def _find_file(config: Path | None, data: Path | None) -> Path:
    from gatepost.cli.change_events import load_event_source

    place = data_folder(data)
    file: EventFileSettings | None = load_event_source(config_folder(config, place)).events.file
    if file is None:
        raise StartError("Events are not written to a file: write events: {file: {}} in guard.yml.")
    path = place.path / file.path
    if not path.exists():
        raise StartError(f"There is no event yet in {path}.")
    return path


def _read_lines(path: Path, count: int, *, follow: bool, kind: str) -> Iterator[bytes]:
    """Yield the last lines of a file, then those that are added; a file that was renamed is read to its end first."""
    wanted = f'"event":"{kind}'.encode()
    file = path.open("rb")
    try:
        size = file.seek(0, 2)
        file.seek(max(0, size - TAIL_BYTES))
        last = [line for line in file.read().split(b"\n")[size > TAIL_BYTES :] if line and wanted in line]
        yield from last[len(last) - count :] if count < len(last) else last
        while follow:
            if line := file.readline():
                yield from [line.rstrip(b"\n")] if wanted in line else []
            elif path.exists() and not path.samefile(f"/proc/self/fd/{file.fileno()}"):
                file.close()
                file = path.open("rb")
            else:
                time.sleep(FOLLOW_SECONDS)
    finally:
        file.close()


def _render_line(line: bytes) -> "Text":
    """Return an event as one line for a terminal, in which no text of a stranger can act."""
    import msgspec
    from rich.text import Text

    from gatepost.cli.printing import escape

    try:
        event = msgspec.json.decode(line, type=dict[str, Any])
    except msgspec.DecodeError:
        return Text(escape(line.decode("utf-8", "replace")), "dim")
    kind = str(event.get("event", ""))
    shown = Text.assemble(
        (escape(str(event.get("at", ""))), "dim"), " ", (f"{escape(kind):<18}", _STYLES.get(kind.partition(".")[0], ""))
    )
    for name, value in event.items():
        if name not in _FIRST:
            text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
            shown.append(f" {escape(name)}=", "dim").append(escape(text))
    return shown
