"""Print feeds and their runs, for `gatepost feeds`."""

from collections.abc import Mapping, Sequence
from typing import Any

from gatepost.cli.look_back import describe_look_back, print_look_back
from gatepost.cli.options import render_time
from gatepost.cli.printing import console, rows, safe, table
from gatepost.feeds.run import FeedOutcome
from gatepost.settings.feeds import FeedSettings
from gatepost.store.feeds import FeedState
from gatepost.store.message_records import MessageLine


def describe_feed(feed: FeedSettings, state: FeedState) -> dict[str, Any]:
    """A feed as JSON."""
    record = state.record
    return {
        "feed": feed.name,
        "listName": feed.list_name,
        "tenantUid": feed.tenant,
        "source": feed.source,
        "format": feed.format,
        "every": feed.every if feed.is_scheduled else None,
        "result": record.result or None,
        "message": record.message,
        "succeeded": render_time(record.succeeded or None) or None,
        "finished": render_time(record.finished or None) or None,
        "nextRun": (render_time(state.next_run or None) or None) if feed.is_scheduled else None,
        "failures": record.failures,
        "counts": record.counts,
    }


def print_feeds(feeds: Sequence[FeedSettings], states: Mapping[str, FeedState]) -> None:
    """Print a table of feeds."""
    out = console()
    if not feeds:
        out.print("There are no feeds.")
        return
    lines = []
    for feed in feeds:
        state = states[feed.name]
        record = state.record
        lines.append(
            (
                *(feed.name, feed.list_name, feed.tenant or "all tenants"),
                f"{record.counts.entries:,}",
                record.result or "never run",
                render_time(record.succeeded or None)[:19],
                render_time(state.next_run or None)[:19] if feed.is_scheduled else "by hand",
            )
        )
    out.print(rows(table("feed", "list", "scope", "entries", "last result", "last success", "next run"), lines))
    for feed in feeds:
        if message := states[feed.name].record.message:
            out.print(safe(f"{feed.name}: {message}"))


def print_feed(feed: FeedSettings, state: FeedState) -> None:
    """Print one feed, a line for each thing."""
    described = describe_feed(feed, state)
    counts = described.pop("counts")
    lines = [(name, "" if value is None else str(value)) for name, value in described.items()]
    lines += [(name, f"{getattr(counts, name):,}") for name in counts.__struct_fields__]
    console().print(rows(table("", ""), lines))


def describe_outcome(outcome: FeedOutcome, lines: Sequence[MessageLine]) -> dict[str, Any]:
    """A run as JSON."""
    return {
        "feed": outcome.feed,
        "dryRun": outcome.dry_run,
        "result": outcome.result,
        "message": outcome.message,
        "counts": {name: getattr(outcome.counts, name) for name in outcome.counts.__struct_fields__},
        "rejected": outcome.rejected,
        "lookBack": describe_look_back(outcome.look_back, lines) if outcome.look_back else None,
    }


def print_outcome(feed: FeedSettings, outcome: FeedOutcome, lines: Sequence[MessageLine]) -> None:
    """Print what a run did."""
    out, counts = console(), outcome.counts
    if outcome.result in ("refused", "failed"):
        word = "was refused" if outcome.result == "refused" else "could not be read"
        out.print(safe(f"The feed {feed.name} {word}: {outcome.message}. Nothing was removed."))
        return
    if outcome.dry_run:
        out.print(safe("Nothing was changed. A run would do this:"))
    elif outcome.result == "unchanged":
        out.print(safe(f"{feed.name} has not changed; {feed.list_name} stays as it is."))
    names = {
        "entries": "entries in the feed",
        "added": "added",
        "updated": "updated",
        "removed": "removed",
        "expiring": "vanished, expire later",
        "kept": "of others, left alone",
        "repeated": "repeated",
        "invalid": "invalid, skipped",
        "expired": "expired, skipped",
        "other": "of other kinds, skipped",
    }
    shown = [(text, f"{getattr(counts, name):,}") for name, text in names.items() if getattr(counts, name)]
    if shown:
        out.print(rows(table("", ""), shown))
    for each in outcome.rejected:
        out.print(safe(f"Skipped {each.value[:100]!r}: it {each.reason}."), style="dim")
    if outcome.look_back:
        print_look_back(outcome.look_back, lines)
