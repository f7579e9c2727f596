"""`gatepost reports`: what is reported to others about their domains."""

from typing import TYPE_CHECKING, Annotated

from gatepost.cli.commands import Group, Option
from gatepost.cli.deployment import Deployment, render_time
from gatepost.cli.printing import Output, escape
from gatepost.times import now

if TYPE_CHECKING:
    from gatepost.store.sent_reports import SentReport
    from gatepost.store.store import Store

group = Group("List the reports that were sent to others about their domains.")

DAY = 86_400_000
DaysOption = Annotated[int, Option("--days", metavar="NUMBER", help="How many days back.", least=1, most=1_830)]


@group.command("sent")
def show_sent(*, days: DaysOption = 7, place: Deployment, output: Output) -> None:
    """List the reports to others about their domains, and what became of them."""

    async def run(store: "Store") -> "tuple[SentReport, ...]":
        return await store.sent_reports.listed(now() - days * DAY)

    found = place.with_store(run, any_node=True)
    lines = [
        (
            render_time(each.day * DAY)[:10],
            escape(each.domain),
            each.state,
            f"{each.messages:,}",
            escape(each.destinations) or "-",
            escape(each.reason),
        )
        for each in found
    ]
    output.show_table(found, ("day", "domain", "state", "messages", "sent to", "reason"), lines)
