"""`gatepost mailboxes`: take delivered messages out of the mailboxes of their recipients, and put them back."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated

from gatepost.cli.commands import Argument, Group, Option
from gatepost.cli.deployment import Deployment, TenantOption, YesOption, announce, parse_ggrid, render_time
from gatepost.cli.printing import Output, escape, render_count
from gatepost.service.data_folder import StartError
from gatepost.times import now

if TYPE_CHECKING:
    from gatepost.mailboxes.removal import CopyOutcome, MailRemover
    from gatepost.settings.delivery import RemediationSettings
    from gatepost.store.message_records import MessageRecord
    from gatepost.store.removed_mail import RemovedCopy
    from gatepost.store.store import Store

group = Group("Take delivered mail out of mailboxes, and put it back (remediation in abby.yml).")

DAY = 86_400_000
COLUMNS = ("ggrid", "mailbox", "state", "folder", "match", "reason")
GgridsArgument = Annotated[list[str], Argument(metavar="GGRID", help="The ids of the messages.")]

if TYPE_CHECKING:
    Acts = Callable[[MailRemover, MessageRecord], Awaitable[tuple[CopyOutcome, ...]]]


@group.command("remove")
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


@group.command("restore")
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


@group.command("list")
def show(
    *,
    tenant: TenantOption = None,
    days: Annotated[int, Option("--days", metavar="NUMBER", help="How many days back.", least=1, most=1_830)] = 7,
    place: Deployment,
    output: Output,
) -> None:
    """List what was taken out of mailboxes, or put back. Mailboxes are told apart by digests."""

    async def run(store: "Store") -> "tuple[RemovedCopy, ...]":
        return await store.removed_mail.listed(now() - days * DAY, tenant, every=tenant is None)

    found = place.with_store(run, any_node=True)
    lines = [
        (each.ggrid, each.mailbox[:8], each.state, escape(each.folder), render_time(each.modified), escape(each.by))
        for each in found
    ]
    output.show_table(found, ("ggrid", "mailbox", "state", "folder", "when", "by"), lines)
