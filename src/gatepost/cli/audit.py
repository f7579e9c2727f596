"""`gatepost audit`: who changed what, when, and with which key."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from gatepost.cli.options import (
    ConfigOption,
    DataOption,
    JsonOption,
    parse_moment,
    parse_tenant_uid,
    render_time,
    with_store,
)

if TYPE_CHECKING:
    from gatepost.store.audit import AuditRecord
    from gatepost.store.store import Store

PAGE = 1_000


def audit(
    tenant: Annotated[str | None, typer.Option("--tenant", metavar="UID", help="Only changes for this tenant.")] = None,
    since: Annotated[str | None, typer.Option(metavar="DATE", help="From this day or date-time on.")] = None,
    until: Annotated[
        str | None, typer.Option(metavar="DATE", help="Up to the end of this day, or up to this date-time.")
    ] = None,
    limit: Annotated[int, typer.Option(metavar="N", min=1, help="Maximum number of records.")] = 100,
    config: ConfigOption = None,
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """Print the audit trail, newest first. Records are never changed or deleted."""
    from gatepost.cli.printing import console, print_json, rows, table
    from gatepost.store.audit import AuditFilter

    uid = parse_tenant_uid(tenant)
    wanted = AuditFilter(uid, parse_moment(since, "--since"), parse_moment(until, "--until", end=True))

    async def read(store: "Store") -> list["AuditRecord"]:
        records: list[AuditRecord] = []
        before = None
        while len(records) < limit:
            page = await store.audit.page(wanted, before, min(PAGE, limit - len(records)))
            records += page.rows
            before = page.next
            if before is None:
                break
        return records

    records = with_store(config, data, read)
    if json:
        print_json([_describe(record) for record in records])
        return
    made = table("time", "who", "did", "scope", "list", "count", "entries")
    console().print(rows(made, [_row(record) for record in records]))


def _row(record: "AuditRecord") -> tuple[str, ...]:
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
