"""`gatepost quarantine`: list, show, release, delete and export held mail, beside a running service.

On the host that has the bytes, a release happens in this process: the message goes to the next hop of `guard.yml` by
the same rules as in the service. A message that both release at the same moment is still sent once. For mail of other
hosts, the core that has it is asked (`cli.held_mail`).

`gatepost mailboxes` takes delivered messages out of the mailboxes of their recipients, and puts them back.
"""

import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

from gatepost.cli.commands import Argument, Group, Option
from gatepost.cli.deployment import (
    Deployment,
    GgridArgument,
    MailOwnerOption,
    TenantOption,
    YesOption,
    announce,
    parse_ggrid,
    parse_moment,
    parse_tenant_uid,
    render_time,
)
from gatepost.cli.printing import Output, escape, render_count
from gatepost.service.data_folder import StartError
from gatepost.times import DAY, now

if TYPE_CHECKING:
    from gatepost.cli.held_mail import HeldMail
    from gatepost.cli.ledger import HeldShown
    from gatepost.mailboxes.removal import CopyOutcome, MailRemover
    from gatepost.settings.delivery import RemediationSettings
    from gatepost.store.message_records import MessageRecord
    from gatepost.store.removed_mail import RemovedCopy
    from gatepost.store.store import Store


T = TypeVar("T")

group = Group("List, show, release, delete and export held mail, in the storage of this machine.")

GgridsArgument = Annotated[list[str], Argument(metavar="GGRID", help="The ids of the messages.")]


@group.command("list")
def show_list(
    query: Annotated[
        str | None,
        Argument(metavar="QUERY", help="As in the web interface: 'host:evil.example NOT verdict:spam after:7d'."),
    ] = None,
    *,
    tenant: MailOwnerOption = None,
    verdict: Annotated[str | None, Option(help="Only with this verdict.")] = None,
    sender: Annotated[str | None, Option(help="Only from this address or domain.")] = None,
    recipient: Annotated[str | None, Option(help="Only to this address or domain.")] = None,
    since: Annotated[str | None, Option(metavar="DATE", help="Only mail that was held since then.")] = None,
    released: Annotated[bool, Option("--released", help="Show released mail instead.")] = False,
    limit: Annotated[int, Option(least=1, most=1_000, help="Maximum number of messages.")] = 50,
    before: Annotated[str | None, Option(metavar="GGRID", help="Continue after this message.")] = None,
    place: Deployment,
    output: Output,
) -> None:
    """Print held mail, newest first."""
    from gatepost.cli import ledger
    from gatepost.cli.held_mail import with_held_mail
    from gatepost.store.held_search import HeldFilter

    wanted = HeldFilter(parse_tenant_uid(tenant), verdict, sender, recipient, parse_moment(since, "--since"), released)
    after = parse_ggrid(before) if before else None
    found = with_held_mail(place, lambda held: held.page(wanted, after, limit, query or ""))
    lines = [ledger.describe_held_line(mail) for mail in found]
    output.show_table(lines, ledger.HELD_COLUMNS, [ledger.render_held_line(each) for each in lines])
    if len(lines) == limit and not output.json:
        print(f"More with --before {lines[-1].ggrid}")


@group.command("show")
def show(ggrid: GgridArgument, *, tenant: MailOwnerOption = None, place: Deployment, output: Output) -> None:
    """Print one message with its ledger and the beginning of its text."""
    from gatepost.abby.cores import Down
    from gatepost.api.scanning import encode_scanning
    from gatepost.cli import ledger
    from gatepost.cli.held_mail import explain, with_held_mail
    from gatepost.scanning.held_mail import ExportOrder

    uid, owner = parse_ggrid(ggrid), parse_tenant_uid(tenant)

    async def find(held: "HeldMail") -> "HeldShown":
        mail = await held.one(uid, owner)
        if mail is None:
            raise _not_held(uid)
        raw = None if mail.release else await held.carry_out(ExportOrder(uid, owner, by=place.actor, is_reading=True))
        away = f"The text is not shown: {explain(raw)}." if isinstance(raw, Down) else ""
        return ledger.describe_held(mail, raw if isinstance(raw, bytes) else None, away)

    found = with_held_mail(place, find)
    if output.json:
        print(encode_scanning(found).decode())
    else:
        ledger.show_held_message(found)


@group.command("release")
def release(
    ggrids: GgridsArgument,
    *,
    to: Annotated[
        list[str] | None,
        Option("--to", metavar="ADDRESS", help="Send to this address instead of the original recipients; repeatable."),
    ] = None,
    dangerous: Annotated[
        bool, Option("--dangerous", help="Also release messages whose verdict is malware or phishing.")
    ] = False,
    tenant: MailOwnerOption = None,
    place: Deployment,
    output: Output,
) -> None:
    """Send held messages to the next hop, each once, without another analysis."""
    from gatepost.cli.held_mail import describe_release, release_all, with_held_mail
    from gatepost.scanning.held_mail import Released, ReleaseOrder

    uids, owner, recipients = [parse_ggrid(ggrid) for ggrid in ggrids], parse_tenant_uid(tenant), tuple(to or ())
    orders = [
        ReleaseOrder(uid, owner, by=place.actor, recipients=recipients, anywhere=True, dangerous=dangerous)
        for uid in uids
    ]
    outcomes = with_held_mail(place, lambda held: release_all(held, orders))
    output.show(outcomes, "\n".join(map(describe_release, uids, outcomes)))
    if not all(isinstance(outcome, Released) for outcome in outcomes):
        raise SystemExit(1)


@group.command("delete")
def delete(
    ggrids: GgridsArgument, *, tenant: MailOwnerOption = None, yes: YesOption = False, place: Deployment, output: Output
) -> None:
    """Delete held messages permanently. Their results stay on record."""
    from gatepost.cli.held_mail import DELETED, describe_deletion, with_held_mail
    from gatepost.scanning.held_mail import DeleteOrder

    uids, owner = [parse_ggrid(ggrid) for ggrid in ggrids], parse_tenant_uid(tenant)

    async def delete_all(held: "HeldMail") -> list[str]:
        return [describe_deletion(await held.carry_out(DeleteOrder(uid, owner, by=place.actor))) for uid in uids]

    place.announce(
        f"Deletes {render_count(len(uids), 'held message', 'held messages')} for good from the quarantine of",
        yes=yes,
        any_node=True,
    )
    done = with_held_mail(place, delete_all)
    pairs = list(zip(uids, done, strict=True))
    lines = [f"{uid}: {said}" for uid, said in pairs]
    output.show([{"ggrid": uid, "deleted": said == DELETED} for uid, said in pairs], "\n".join(lines))
    if any(said != DELETED for said in done):
        raise SystemExit(1)


@group.command("export")
def export(
    ggrid: GgridArgument,
    *,
    folder: Annotated[Path, Option("--folder", metavar="DIR", help="Folder to write to.")] = Path(),
    tenant: MailOwnerOption = None,
    place: Deployment,
    output: Output,
) -> None:
    """Write a held message to GGRID.eml, readable only by the current user."""
    from gatepost.abby.cores import Down
    from gatepost.cli.held_mail import explain, with_held_mail
    from gatepost.scanning.held_mail import ExportOrder, NotHeld

    uid, owner = parse_ggrid(ggrid), parse_tenant_uid(tenant)
    goal = folder.expanduser().absolute() / f"{uid}.eml"
    raw = with_held_mail(place, lambda held: held.carry_out(ExportOrder(uid, owner, by=place.actor)))
    if isinstance(raw, NotHeld):
        raise _not_held(uid)
    if isinstance(raw, Down):
        raise StartError(f"{uid} is held, but {explain(raw)}.")
    # Exclusive: an existing file or link of that name is not written through.
    with os.fdopen(os.open(goal, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(raw)
    output.show({"ggrid": uid, "file": str(goal), "bytes": len(raw)}, str(goal))


def _not_held(uid: str) -> StartError:
    return StartError(f"{uid} is not held.")


mailboxes = Group("Take delivered mail out of mailboxes, and put it back (remediation in abby.yml).")

COLUMNS = ("ggrid", "mailbox", "state", "folder", "match", "reason")

if TYPE_CHECKING:
    Acts = Callable[[MailRemover, MessageRecord], Awaitable[tuple[CopyOutcome, ...]]]


@mailboxes.command("remove")
def remove(
    ggrids: GgridsArgument,
    *,
    dry_run: Annotated[bool, Option("--dry-run", help="Only say which copies would be removed.")] = False,
    yes: YesOption = False,
    place: Deployment,
    output: Output,
) -> None:
    """Take delivered messages out of the mailboxes of their recipients: those that looking back found, for example."""
    if not dry_run:
        servers = ", ".join(each.server for each in _require_remediation(place).servers)
        deed = f"Takes the copies of {render_count(len(ggrids), 'message', 'messages')} out of mailboxes"
        announce(f"{deed} at {servers}.", yes=yes)

    async def act(remover: "MailRemover", record: "MessageRecord") -> "tuple[CopyOutcome, ...]":
        return await remover.remove(record, place.actor, dry_run=dry_run)

    _act_on_all(ggrids, act, place, output)


@mailboxes.command("restore")
def restore(ggrids: GgridsArgument, *, place: Deployment, output: Output) -> None:
    """Put messages back that were moved out of mailboxes."""

    async def act(remover: "MailRemover", record: "MessageRecord") -> "tuple[CopyOutcome, ...]":
        return await remover.restore(record, place.actor)

    _act_on_all(ggrids, act, place, output)


def _require_remediation(place: Deployment) -> "RemediationSettings":
    settings = place.load_abby().remediation
    if settings is None:
        raise StartError("No mailboxes are configured: set remediation in abby.yml.")
    return settings


def _act_on_all(ggrids: list[str], act: "Acts", place: Deployment, output: Output) -> None:
    from gatepost.mailboxes.removal import CopyOutcome, MailRemover

    settings = _require_remediation(place)
    uids = [parse_ggrid(each) for each in ggrids]

    async def run(store: "Store") -> "list[tuple[str, CopyOutcome]]":
        remover = MailRemover(settings, store.removed_mail)
        found: list[tuple[str, CopyOutcome]] = []
        for uid in uids:
            record = await store.messages.find(uid)
            if record is None:
                found.append((uid, CopyOutcome("", "failed", reason="it is not on record")))
                continue
            outcomes = await act(remover, record)
            none = CopyOutcome("", "absent", reason="no mailbox of its recipients is configured, or nothing was moved")
            found += [(uid, each) for each in outcomes or (none,)]
        return found

    lines = place.with_store(run, any_node=True)
    shown = [
        {"ggrid": uid, "mailbox": each.address, "state": each.state, "folder": each.folder, "match": each.likeness,
         "reason": each.reason}
        for uid, each in lines
    ]  # fmt: skip
    rows = [tuple(escape(str(line[name])) for name in COLUMNS) for line in shown]
    output.show_table(shown, COLUMNS, rows)


@mailboxes.command("list")
def show_removed(
    *,
    tenant: TenantOption = None,
    days: Annotated[int, Option("--days", metavar="NUMBER", help="How many days back.", least=1, most=1_830)] = 7,
    place: Deployment,
    output: Output,
) -> None:
    """List what was taken out of mailboxes, or put back. Mailboxes are told apart by digests."""

    async def run(store: "Store") -> "tuple[RemovedCopy, ...]":
        return await store.removed_mail.listed(now() - days * DAY, tenant)

    found = place.with_store(run, any_node=True)
    lines = [
        (each.ggrid, each.mailbox[:8], each.state, escape(each.folder), render_time(each.modified), escape(each.by))
        for each in found
    ]
    output.show_table(found, ("ggrid", "mailbox", "state", "folder", "when", "by"), lines)
