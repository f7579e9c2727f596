"""`gatepost quarantine`: list, show, release, delete and export held mail, beside a running service.

A release happens in this process: the message goes to the next hop of `guard.yml` by the same rules as in the service.
A message that both release at the same moment is still sent once.
"""

import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from gatepost.cli.options import (
    ConfigOption,
    DataOption,
    JsonOption,
    config_folder,
    data_folder,
    parse_moment,
    parse_tenant_uid,
)
from gatepost.service.data_folder import StartError

if TYPE_CHECKING:
    from gatepost.cli.ledger import HeldShown
    from gatepost.guard.quarantine.quarantine import Quarantine
    from gatepost.scanning.held_mail import ReleaseOutcome

T = TypeVar("T")

app = typer.Typer(help="Held mail.", no_args_is_help=True)

GgridArgument = Annotated[str, typer.Argument(metavar="GGRID", help="The id of the message.")]
GgridsArgument = Annotated[list[str], typer.Argument(metavar="GGRID…", help="The ids of the messages.")]
TenantOption = Annotated[str | None, typer.Option("--tenant", metavar="UID", help="Only mail of this tenant.")]


@app.command("list")
def show_list(
    tenant: TenantOption = None,
    verdict: Annotated[str | None, typer.Option(help="Only with this verdict.")] = None,
    sender: Annotated[str | None, typer.Option(help="Only from this address or domain.")] = None,
    recipient: Annotated[str | None, typer.Option(help="Only to this address or domain.")] = None,
    since: Annotated[str | None, typer.Option(metavar="DATE", help="Only mail that was held since then.")] = None,
    released: Annotated[bool, typer.Option("--released", help="Show released mail instead.")] = False,
    limit: Annotated[int, typer.Option(min=1, max=1_000, help="Maximum number of messages.")] = 50,
    before: Annotated[str | None, typer.Option(metavar="GGRID", help="Continue after this message.")] = None,
    config: ConfigOption = None,
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """Print held mail, newest first."""
    from gatepost.cli import ledger
    from gatepost.cli.printing import console, print_json
    from gatepost.store.held_search import HeldFilter

    wanted = HeldFilter(parse_tenant_uid(tenant), verdict, sender, recipient, parse_moment(since, "--since"), released)
    after = _parse_ggrid(before) if before else None
    lines = [
        ledger.describe_held_line(mail)
        for mail in _with_quarantine(config, data, lambda held: held.page(wanted, after, limit))
    ]
    if json:
        print_json(lines)
        return
    ledger.show_held_lines(console(), lines)
    if len(lines) == limit:
        print(f"More with --before {lines[-1].ggrid}")


@app.command("show")
def show(
    ggrid: GgridArgument,
    tenant: TenantOption = None,
    config: ConfigOption = None,
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """Print one message with its ledger and the beginning of its text."""
    from gatepost.api.scanning import encode_scanning
    from gatepost.cli import ledger
    from gatepost.cli.printing import console

    uid, owner = _parse_ggrid(ggrid), parse_tenant_uid(tenant)

    async def find(held: "Quarantine") -> "HeldShown":
        mail = await held.one(uid, owner)
        if mail is None:
            raise _not_held(uid)
        return ledger.describe_held(mail, await held.raw(uid, owner))

    found = _with_quarantine(config, data, find)
    if json:
        print(encode_scanning(found).decode())
    else:
        ledger.show_held_message(console(), found)


@app.command("release")
def release(
    ggrids: GgridsArgument,
    to: Annotated[
        list[str] | None,
        typer.Option(
            "--to", metavar="ADDRESS", help="Send to this address instead of the original recipients; repeatable."
        ),
    ] = None,
    dangerous: Annotated[
        bool, typer.Option("--dangerous", help="Also release messages whose verdict is malware or phishing.")
    ] = False,
    tenant: TenantOption = None,
    config: ConfigOption = None,
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """Send held messages to the next hop, each once, without another analysis."""
    from gatepost.scanning.held_mail import ReleaseOrder
    from gatepost.store.audit import CLI

    uids, owner, recipients = [_parse_ggrid(ggrid) for ggrid in ggrids], parse_tenant_uid(tenant), tuple(to or ())

    async def release_all(held: "Quarantine") -> "list[ReleaseOutcome]":
        orders = [
            ReleaseOrder(uid, owner, by=CLI, recipients=recipients, anywhere=True, dangerous=dangerous) for uid in uids
        ]
        return [await held.carry_out(order) for order in orders]

    outcomes = _with_quarantine(config, data, release_all)
    if json:
        from gatepost.cli.printing import print_json

        print_json(outcomes)
    else:
        for uid, outcome in zip(uids, outcomes, strict=True):
            print(_describe_outcome(uid, outcome))
    if any(type(outcome).__name__ != "Released" for outcome in outcomes):
        raise typer.Exit(1)


@app.command("delete")
def delete(
    ggrids: GgridsArgument,
    tenant: TenantOption = None,
    config: ConfigOption = None,
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """Delete held messages permanently. Their results stay on record."""
    from gatepost.cli.printing import print_result
    from gatepost.scanning.held_mail import DeleteOrder
    from gatepost.store.audit import CLI

    uids, owner = [_parse_ggrid(ggrid) for ggrid in ggrids], parse_tenant_uid(tenant)

    async def delete_all(held: "Quarantine") -> list[bool]:
        return [await held.delete(DeleteOrder(uid, owner, by=CLI)) for uid in uids]

    done = _with_quarantine(config, data, delete_all)
    pairs = list(zip(uids, done, strict=True))
    lines = [f"{uid}: deleted" if gone else f"{uid}: not held, or being released" for uid, gone in pairs]
    print_result(json, [{"ggrid": uid, "deleted": gone} for uid, gone in pairs], "\n".join(lines))
    if not all(done):
        raise typer.Exit(1)


@app.command("export")
def export(
    ggrid: GgridArgument,
    folder: Annotated[Path, typer.Option("--folder", metavar="DIR", help="Folder to write to.")] = Path(),
    tenant: TenantOption = None,
    config: ConfigOption = None,
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """Write a held message to GGRID.eml, readable only by the current user."""
    from gatepost.cli.printing import print_result
    from gatepost.scanning.held_mail import ExportOrder, NotHeld
    from gatepost.store.audit import CLI

    uid, owner = _parse_ggrid(ggrid), parse_tenant_uid(tenant)
    goal = folder.expanduser().absolute() / f"{uid}.eml"
    raw = _with_quarantine(config, data, lambda held: held.carry_out(ExportOrder(uid, owner, by=CLI)))
    if isinstance(raw, NotHeld):
        raise _not_held(uid)
    # Exclusive: an existing file or link of that name is not written through.
    with os.fdopen(os.open(goal, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(raw)
    print_result(json, {"ggrid": uid, "file": str(goal), "bytes": len(raw)}, str(goal))


def _describe_outcome(uid: str, outcome: "ReleaseOutcome") -> str:
    from gatepost.scanning.held_mail import Busy, NotSent, Released

    if isinstance(outcome, Released):
        return f"{uid}: released to {', '.join(outcome.recipients)}"
    if isinstance(outcome, NotSent):
        return f"{uid}: still held; {outcome.reason}"
    return f"{uid}: is being released by another process" if isinstance(outcome, Busy) else f"{uid}: not held"


def _not_held(uid: str) -> StartError:
    return StartError(f"{uid} is not held.")


def _parse_ggrid(text: str) -> str:
    from gatepost.ids import canonical

    uid = canonical(text)
    if uid is None:
        raise typer.BadParameter("must be a UUID", param_hint="GGRID")
    return uid


def _log_only_errors() -> None:
    """Log only errors, to standard error: everything else is printed as the result of the command."""
    import logging
    import sys

    import structlog

    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )


def _with_quarantine(config: Path | None, data: Path | None, use: "Callable[[Quarantine], Awaitable[T]]") -> T:
    """Call `use` with the quarantine of the configuration."""
    import asyncio

    from gatepost.cli.change_events import emit_changes
    from gatepost.service.core import open_quarantine
    from gatepost.service.routes import open_outbound_routing, open_routing
    from gatepost.settings.files import load_guard
    from gatepost.store import open_store

    _log_only_errors()
    place = data_folder(data)
    folder = config_folder(config, place)
    settings = load_guard(folder)
    place.make()

    async def run() -> T:
        store = open_store(settings.storage.url, place.path)
        try:
            with emit_changes(folder, place, store):
                async with (
                    open_routing(settings, place) as routes,
                    open_outbound_routing(settings, routes, place) as outbound,
                    open_quarantine(settings, store, place, routes, outbound=outbound) as quarantine,
                ):
                    return await use(quarantine)
        finally:
            await store.close()

    return asyncio.run(run())
