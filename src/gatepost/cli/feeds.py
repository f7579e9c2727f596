"""`gatepost feeds`: run the feeds of abby.yml, and show what came of them, on the storage of the configuration."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from gatepost.cli.commands import Argument, Group, Option
from gatepost.cli.deployment import Deployment, YesOption, render_time
from gatepost.cli.printing import Output, ProgressBar, print_json, print_table, print_text, render_people
from gatepost.service.data_folder import StartError

if TYPE_CHECKING:
    from gatepost.feeds.run import FeedBusy, FeedOutcome, RunOptions
    from gatepost.settings.feeds import FeedSettings
    from gatepost.store.feeds import FeedState
    from gatepost.store.look_backs import LookBack
    from gatepost.store.message_records import MessageLine
    from gatepost.store.store import Store

group = Group("Show and run feeds, which fill lists from other sources.")

NameArgument = Annotated[str, Argument(metavar="NAME", help="The feed's name.")]

REFUSED, BUSY = 2, 3
MAX_SHOWN = 100
# The numbers of a run, as they are told to people.
_COUNTS = {
    "entries": "entries in the feed",
    "added": "added",
    "updated": "updated",
    "removed": "removed",
    "expiring": "vanished, expire later",
    "kept": "of others, left alone",
    "repeated": "repeated",
    "invalid": "invalid, skipped",
}


@group.command("list")
def show_feeds(*, place: Deployment, output: Output) -> None:
    """Print every feed with its last result."""
    feeds, states = _load(place)
    if output.json:
        print_json([_describe_feed(feed, states[feed.name]) for feed in feeds])
        return
    if not feeds:
        print("There are no feeds.")
        return
    columns = ("feed", "list", "scope", "entries", "last result", "last success", "next run")
    print_table(columns, [_render_feed(feed, states[feed.name]) for feed in feeds])
    messages = {feed.name: states[feed.name].record.message for feed in feeds}
    print_text(*(f"{name}: {message}" for name, message in messages.items() if message))


@group.command("show")
def show_feed(name: NameArgument, *, place: Deployment, output: Output) -> None:
    """Print one feed: where it comes from, when it runs, and the numbers of its last run."""
    feeds, states = _load(place)
    described = _describe_feed(_find(feeds, name), states[name])
    counts = described["counts"]
    lines = [(key, "" if value is None else str(value)) for key, value in described.items() if key != "counts"]
    lines += [(field, f"{getattr(counts, field):,}") for field in counts.__struct_fields__]
    output.show_table(described, ("", ""), lines)


@group.command("run")
def run(
    name: NameArgument,
    *,
    input_file: Annotated[
        Path | None,
        Option("--input", metavar="FILE", help="Read this file instead of the feed's source; - for standard input."),
    ] = None,
    dry_run: Annotated[
        bool, Option("--dry-run", help="Change nothing; print what would change and what it would have held.")
    ] = False,
    force: Annotated[
        bool, Option("--force", help="Accept a feed that lost many entries or has many invalid ones.")
    ] = False,
    look_back: Annotated[
        int | None,
        Option(metavar="DAYS", least=0, most=365, help="Look for new entries in the delivered mail of so many days."),
    ] = None,
    scheduled: Annotated[
        bool, Option("--scheduled", help="Do nothing if the feed is not due, or if another process runs it.")
    ] = False,
    place: Deployment,
    output: Output,
) -> None:
    """Run a feed now. A feed without url and file is read from standard input.

    The exit code is 0 if the feed was read, 2 if it was refused or could not be read, 3 if another process runs it.
    """
    from gatepost.feeds.run import FeedBusy, RunOptions

    feed = _find(_load_settings(place), name)
    options = RunOptions(dry_run=dry_run, force=force, only_due=scheduled, days=look_back)
    outcome, lines = _run(feed, options, input_file, place)
    if isinstance(outcome, FeedBusy):
        if scheduled:
            return
        print(f"{outcome.holder.rpartition(':')[0] or 'Another process'} is running the feed {name}.", file=sys.stderr)
        raise SystemExit(BUSY)
    if output.json:
        print_json(_describe_outcome(outcome, lines))
    else:
        _print_outcome(feed, outcome, lines)
    if outcome.result in ("refused", "failed"):
        raise SystemExit(REFUSED)


@group.command("clear")
def clear(
    name: Annotated[str, Argument(metavar="NAME", help="The feed's name, also if it is no longer in abby.yml.")],
    *,
    yes: YesOption = False,
    place: Deployment,
    output: Output,
) -> None:
    """Delete all entries of a feed, for a feed that is no longer wanted. Entries of others stay."""
    from gatepost.feeds.run import FeedRunner
    from gatepost.policy.layers import unchanged_policies

    async def work(store: "Store") -> int | None:
        state = await store.feeds.state(name)
        if not state.record.list_name:
            return None
        removed = await FeedRunner(store, unchanged_policies()).clear(name, state.record.scope, state.record.list_name)
        await store.feeds.forget(name)
        return removed

    place.announce(f"Deletes all entries of feed {name} from", yes=yes)
    removed = place.with_store(work)
    if removed is None:
        raise StartError(f"No feed named {name} has filled a list.")
    output.show({"feed": name, "removed": removed}, f"{removed:,} entries of {name} deleted.")


def _run(
    feed: "FeedSettings", options: "RunOptions", input_file: Path | None, place: Deployment
) -> "tuple[FeedOutcome | FeedBusy, Sequence[MessageLine]]":
    from gatepost.cli.list_changes import STANDARD_INPUT, open_file
    from gatepost.feeds.run import FeedBusy, FeedRunner
    from gatepost.rejudge.policies_in_force import with_stored_rules

    policies = place.load_policies()
    wanted = input_file or (None if feed.is_scheduled else STANDARD_INPUT)

    async def work(store: "Store") -> "tuple[FeedOutcome | FeedBusy, Sequence[MessageLine]]":
        with ProgressBar(feed.name) as bar:
            in_force = await with_stored_rules(policies, store.own_rules)
            runner = FeedRunner(store, in_force, bar.update)
            if wanted is None:
                outcome = await runner.run(feed, options)
            else:
                with open_file(wanted) as stream:
                    outcome = await runner.run(feed, options, stream)
        found = None if isinstance(outcome, FeedBusy) else outcome.look_back
        return outcome, await store.messages.lines([ggrid for ggrid, _ in found.hits]) if found else ()

    return place.with_store(work)


def _load(place: Deployment) -> tuple[list["FeedSettings"], dict[str, "FeedState"]]:
    from gatepost.store.feeds import FeedState

    feeds = _load_settings(place)
    found = {state.name: state for state in place.with_store(lambda store: store.feeds.states())}
    return feeds, {feed.name: found.get(feed.name, FeedState(feed.name)) for feed in feeds}


def _load_settings(place: Deployment) -> list["FeedSettings"]:
    from gatepost.service.schedules import load_web_feeds

    of_files, folder = place.load_abby().feeds, place.data_folder.path
    names = {feed.name for feed in of_files}
    of_web, _faults = place.with_store(lambda store: load_web_feeds(store, names, folder, paused=True))
    return [*of_files, *of_web]


def _find(feeds: list["FeedSettings"], name: str) -> "FeedSettings":
    for feed in feeds:
        if feed.name == name:
            return feed
    known = ", ".join(feed.name for feed in feeds) or "none"
    raise StartError(f"There is no feed named {name} in abby.yml or the web interface; there are {known}.")


def _render_feed(feed: "FeedSettings", state: "FeedState") -> tuple[str, ...]:
    record = state.record
    return (
        feed.name,
        feed.list_name,
        feed.tenant or "all tenants",
        f"{record.counts.entries:,}",
        record.result or "never run",
        render_time(record.succeeded or None)[:19],
        render_time(state.next_run or None)[:19] if feed.is_scheduled else "by hand",
    )


def _describe_feed(feed: "FeedSettings", state: "FeedState") -> dict[str, Any]:
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


def _describe_outcome(outcome: "FeedOutcome", lines: "Sequence[MessageLine]") -> dict[str, Any]:
    return {
        "feed": outcome.feed,
        "dryRun": outcome.dry_run,
        "result": outcome.result,
        "message": outcome.message,
        "counts": {name: getattr(outcome.counts, name) for name in outcome.counts.__struct_fields__},
        "rejected": outcome.rejected,
        "lookBack": _describe_look_back(outcome.look_back, lines) if outcome.look_back else None,
    }


def _print_outcome(feed: "FeedSettings", outcome: "FeedOutcome", lines: "Sequence[MessageLine]") -> None:
    if outcome.result in ("refused", "failed"):
        word = "was refused" if outcome.result == "refused" else "could not be read"
        print_text(f"The feed {feed.name} {word}: {outcome.message}. Nothing was removed.")
        return
    if outcome.dry_run:
        print("Nothing was changed. A run would do this:")
    elif outcome.result == "unchanged":
        print_text(f"{feed.name} has not changed; {feed.list_name} stays as it is.")
    counts = [(text, getattr(outcome.counts, name)) for name, text in _COUNTS.items()]
    if any(count for _, count in counts):
        print_table(("", ""), [(text, f"{count:,}") for text, count in counts if count])
    for each in outcome.rejected:
        print_text(f"Skipped {each.value[:100]!r}: it {each.reason}.", style="dim")
    if outcome.look_back:
        _print_look_back(outcome.look_back, lines)


def _describe_look_back(found: "LookBack", lines: "Sequence[MessageLine]") -> dict[str, Any]:
    entries = dict(found.hits)
    messages = [
        {"ggrid": line.ggrid, "completed": render_time(line.completed), "tenantUid": line.tenant, "from": line.sender,
         "recipients": line.recipients, "subject": line.subject, "entry": entries.get(line.ggrid, "")}
        for line in lines
    ]  # fmt: skip
    numbers = {"days": found.days, "entries": found.entries, "considered": found.considered, "found": found.found}
    return {**numbers, "reached": render_time(found.reached) or None, "messages": messages}


def _print_look_back(found: "LookBack", lines: "Sequence[MessageLine]") -> None:
    """Print which delivered messages new entries would have held."""
    looked = f"of the {found.considered:,} messages delivered in the last {found.days} days"
    if found.reached is not None:
        since = render_time(found.reached)[:19]
        looked = f"of the {found.considered:,} messages delivered since {since}, where looking back ended"
    print_text(f"Delivered before it was known: the new entries would have held {found.found:,} {looked}.")
    described = _describe_look_back(found, lines[:MAX_SHOWN])["messages"]
    shown = [
        (each["completed"][:19], each["from"], render_people(each["recipients"]), each["subject"][:80], each["entry"],
         each["ggrid"])
        for each in described
    ]  # fmt: skip
    if shown:
        print_table(("delivered", "from", "recipients", "subject", "entry", "ggrid"), shown)
    if found.found > len(shown):
        print(f"And {found.found - len(shown):,} more.")
