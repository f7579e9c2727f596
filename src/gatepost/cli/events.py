"""`gatepost audit` and `gatepost events`: who changed what, and the event stream with its outputs."""

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from gatepost.cli.commands import Group, Option
from gatepost.cli.deployment import Deployment, parse_moment, parse_tenant_uid, render_time
from gatepost.cli.printing import Output, print_json
from gatepost.service.data_folder import StartError

if TYPE_CHECKING:
    from gatepost.store.audit import AuditRecord
    from gatepost.store.store import Store

group = Group("Test the event stream, and print its schema.")

AUDIT_PAGE = 1_000


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


@group.command("schema")
def schema(*, output: Output) -> None:
    """Print the schema of all events as JSON Schema 2020-12."""
    from gatepost.events.schema import describe_schema

    # It is JSON either way: there is nothing else that a program could read.
    print_json(describe_schema(), indent=0 if output.json else 2)
