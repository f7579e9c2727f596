"""`gatepost audit` and `gatepost events`: who changed what, and the event stream with its outputs and its file."""

import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from gatepost.cli.commands import Group, Option
from gatepost.cli.deployment import Deployment, parse_moment, parse_tenant_uid, render_time
from gatepost.cli.printing import Output, escape, print_json, print_line
from gatepost.service.data_folder import StartError

if TYPE_CHECKING:
    from gatepost.store.audit import AuditRecord
    from gatepost.store.store import Store

group = Group("Test and read the event stream.")

AUDIT_PAGE = 1_000
# How much of the end of a file is read for its last lines.
TAIL_BYTES = 4 << 20
FOLLOW_SECONDS = 0.5
_STYLES = {"message": "cyan", "health": "bold yellow", "node": "bold", "user": "magenta", "key": "magenta"}
_FIRST = ("schema", "event", "id", "at", "node")


def audit(
    *,
    tenant: Annotated[str | None, Option("--tenant", metavar="UID", help="Only changes for this tenant.")] = None,
    since: Annotated[str | None, Option(metavar="DATE", help="From this day or date-time on.")] = None,
    until: Annotated[
        str | None, Option(metavar="DATE", help="Up to the end of this day, or up to this date-time.")
    ] = None,
    limit: Annotated[int, Option(metavar="N", least=1, help="Maximum number of records.")] = 100,
    place: Deployment,
    output: Output,
) -> None:
    """Print the audit trail, newest first. Records are never changed or deleted."""
    from gatepost.store.audit import AuditFilter

    uid = parse_tenant_uid(tenant)
    wanted = AuditFilter(uid, parse_moment(since, "--since"), parse_moment(until, "--until", end=True))

    async def read(store: "Store") -> list["AuditRecord"]:
        records: list[AuditRecord] = []
        before = None
        while len(records) < limit:
            page = await store.audit.page(wanted, before, min(AUDIT_PAGE, limit - len(records)))
            records += page.rows
            before = page.next
            if before is None:
                break
        return records

    records = place.with_store(read)
    columns = ("time", "who", "did", "scope", "list", "count", "entries")
    output.show_table([_describe(record) for record in records], columns, [_render(record) for record in records])


def _render(record: "AuditRecord") -> tuple[str, ...]:
    who, what = record.actor.label, record.action
    sample = ", ".join(record.sample) + (", …" if record.count > len(record.sample) > 0 else "")
    return render_time(record.time), who, what, record.scope or "global", record.list, f"{record.count:,}", sample


def _describe(record: "AuditRecord") -> dict[str, Any]:
    return {
        "id": record.id,
        "time": render_time(record.time),
        "actor": record.actor,
        "action": record.action,
        "tenantUid": record.scope,
        "listName": record.list or None,
        "count": record.count,
        "sample": record.sample,
    }


@group.command("test")
def try_outputs(*, place: Deployment, output: Output) -> None:
    """Send a test event to every output, and print what became of it.

    The event is `node.state` with the state `test`. Exits with 1 if an output fails.
    """
    from gatepost import __version__
    from gatepost.events.schema import NodeState, encode_event
    from gatepost.events.stream import OutputError, build_outputs, node_name
    from gatepost.service.event_stream import build_mailer

    settings = place.load_node()
    events = settings.events
    if not events.enabled:
        raise StartError("No output is configured: write one under events in guard.yml, such as events: {file: {}}.")
    folder = place.data_folder
    folder.make()
    try:
        outputs = build_outputs(events, folder.path, sends=False, make_mailer=partial(build_mailer, settings))
    except OutputError as fault:
        raise StartError(str(fault)) from None
    event = encode_event(NodeState(state="test", version=__version__), node_name(events))
    tried = [(each.name, each.address, each.test(event)) for each in outputs]
    described = [{"output": name, "address": place, "ok": not fault, "fault": fault} for name, place, fault in tried]
    lines = [(name, place, "failed" if fault else "ok", fault) for name, place, fault in tried]
    columns, styles = ("output", "address", "state", "fault"), {"failed": "bold red", "ok": "green"}
    output.show_table({"id": event.id, "outputs": described}, columns, lines, styles=styles)
    if any(fault for *_, fault in tried):
        raise SystemExit(1)


@group.command("tail")
def tail(
    *,
    lines: Annotated[int, Option("--lines", "-n", metavar="N", least=0, help="Number of events to begin with.")] = 20,
    follow: Annotated[bool, Option("--follow", "-f", help="Go on with new events until interrupted.")] = False,
    kind: Annotated[
        str, Option("--kind", metavar="KIND", help="Only events of this kind or group, such as message.")
    ] = "",
    place: Deployment,
    output: Output,
) -> None:
    """Print the last events of the file output; with --json, as they stand in the file."""
    file = place.load_node().events.file
    if file is None:
        raise StartError("Events are not written to a file: write events: {file: {}} in guard.yml.")
    path = place.data_folder.path / file.path
    if not path.exists():
        raise StartError(f"There is no event yet in {path}.")
    for line in _read_lines(path, lines, follow=follow, kind=kind):
        if output.json:
            print(line.decode("utf-8", "replace"), flush=follow)
        else:
            _show_line(line)


@group.command("schema")
def schema(*, output: Output) -> None:
    """Print the schema of all events as JSON Schema 2020-12."""
    from gatepost.events.schema import describe_schema

    # It is JSON either way: there is nothing else that a program could read.
    print_json(describe_schema(), indent=0 if output.json else 2)


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


def _show_line(line: bytes) -> None:
    """Print an event as one line for a terminal, in which no text of a stranger can act."""
    try:
        event = msgspec.json.decode(line, type=dict[str, Any])
    except msgspec.DecodeError:
        print_line((escape(line.decode("utf-8", "replace")), "dim"))
        return
    kind = str(event.get("event", ""))
    shown = [
        (f"{escape(str(event.get('at', '')))} ", "dim"),
        (f"{escape(kind):<18}", _STYLES.get(kind.partition(".")[0], "")),
    ]
    for name, value in event.items():
        if name not in _FIRST:
            text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
            shown += [(f" {escape(name)}=", "dim"), (escape(text), "")]
    print_line(*shown)
