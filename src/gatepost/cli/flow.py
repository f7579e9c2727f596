"""`gatepost flow`: which limits of flow control are reached now, on all nodes together."""

from typing import TYPE_CHECKING

from gatepost.cli.options import ConfigOption, DataOption, JsonOption, render_time
from gatepost.times import now

if TYPE_CHECKING:
    from gatepost.store.flow_counts import LimitedNow
    from gatepost.store.store import Store

MAX_COUNTED = 100_000


def flow(config: ConfigOption = None, data: DataOption = None, json: JsonOption = False) -> None:
    """Show which hosts, senders and recipients have reached a limit of flowControl, and until when."""
    from gatepost.cli.printing import console, escape, print_json, rows, table
    from gatepost.cli.publishing import with_node_store

    async def run(store: "Store") -> "tuple[tuple[LimitedNow, ...], int]":
        return await store.flow_counts.limited_now(now()), await store.flow_counts.greylist_size(MAX_COUNTED)

    found, entries = with_node_store(config, data, run)
    if json:
        limits = [{"limit": each.label, "counted": each.count, "until": render_time(each.expires)} for each in found]
        print_json({"limits": limits, "greylistEntries": entries})
        return
    lines = [(escape(each.label), f"{each.count:,}", render_time(each.expires)) for each in found]
    if lines:
        console().print(rows(table("limit", "counted", "until"), lines))
    else:
        print("No limit is reached now.")
    more = "at least " if entries == MAX_COUNTED else ""
    print(f"Greylisting knows {more}{entries:,} senders and networks.")
