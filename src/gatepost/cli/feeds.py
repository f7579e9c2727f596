"""`gatepost feeds`: run the feeds of abby.yml, and show what came of them, on the storage of the configuration."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gatepost.cli.options import ConfigOption, DataOption, JsonOption, config_folder, data_folder, with_store
from gatepost.service.data_folder import StartError

if TYPE_CHECKING:
    from gatepost.feeds.run import FeedBusy, FeedOutcome, RunOptions
    from gatepost.settings.feeds import FeedSettings
    from gatepost.store.feeds import FeedState
    from gatepost.store.store import Store

app = typer.Typer(help="Feeds: lists that are filled from elsewhere.", no_args_is_help=True)

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The feed's name.")]

REFUSED, BUSY = 2, 3


@app.command("list")
def show_feeds(config: ConfigOption = None, data: DataOption = None, json: JsonOption = False) -> None:
    """Print every feed with its last result."""
    from gatepost.cli.feed_output import describe_feed, print_feeds
    from gatepost.cli.printing import print_json

    feeds, states = _load(config, data)
    if json:
        print_json([describe_feed(feed, states[feed.name]) for feed in feeds])
    else:
        print_feeds(feeds, states)


@app.command("show")
def show_feed(
    name: NameArgument, config: ConfigOption = None, data: DataOption = None, json: JsonOption = False
) -> None:
    """Print one feed: where it comes from, when it runs, and the numbers of its last run."""
    from gatepost.cli.feed_output import describe_feed, print_feed
    from gatepost.cli.printing import print_json

    feeds, states = _load(config, data)
    feed = _find(feeds, name)
    if json:
        print_json(describe_feed(feed, states[name]))
    else:
        print_feed(feed, states[name])


@app.command("run")
def run(
    name: NameArgument,
    input_file: Annotated[
        Path | None,
        typer.Option(
            "--input", metavar="FILE", help="Read this file instead of the feed's source; - for standard input."
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Change nothing; print what would change and what it would have held.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Accept a feed that lost many entries or has many invalid ones.")
    ] = False,
    look_back: Annotated[
        int | None,
        typer.Option(
            metavar="DAYS", min=0, max=365, help="Look for new entries in the delivered mail of so many days."
        ),
    ] = None,
    scheduled: Annotated[
        bool, typer.Option("--scheduled", help="Do nothing if the feed is not due, or if another process runs it.")
    ] = False,
    config: ConfigOption = None,
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """Run a feed now. A feed without url and file is read from standard input.

    The exit code is 0 if the feed was read, 2 if it was refused or could not be read, 3 if another process runs it.
    """
    from gatepost.cli.feed_output import describe_outcome, print_outcome
    from gatepost.cli.printing import print_json
    from gatepost.feeds.run import FeedBusy, RunOptions

    feed = _find(_load_settings(config, data), name)
    options = RunOptions(dry_run=dry_run, force=force, only_due=scheduled, days=look_back)
    outcome, lines = _run(feed, options, input_file, config, data)
    if isinstance(outcome, FeedBusy):
        if not scheduled:
            raise typer.Exit(_say_busy(name, outcome))
        return
    if json:
        print_json(describe_outcome(outcome, lines))
    else:
        print_outcome(feed, outcome, lines)
    if outcome.result in ("refused", "failed"):
        raise typer.Exit(REFUSED)


@app.command("clear")
def clear(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The feed's name, also if it is no longer in abby.yml.")],
    config: ConfigOption = None,
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """Delete all entries of a feed, for a feed that is no longer wanted. Entries of others stay."""
    from gatepost.cli.printing import print_result
    from gatepost.feeds.run import FeedRunner
    from gatepost.policy.layers import unchanged_policies

    async def work(store: "Store") -> int | None:
        state = await store.feeds.state(name)
        if not state.record.list_name:
            return None
        removed = await FeedRunner(store, unchanged_policies()).clear(name, state.record.scope, state.record.list_name)
        await store.feeds.forget(name)
        return removed

    removed = with_store(config, data, work)
    if removed is None:
        raise StartError(f"No feed named {name} has filled a list.")
    print_result(json, {"feed": name, "removed": removed}, f"{removed:,} entries of {name} deleted.")


def _run(
    feed: "FeedSettings", options: "RunOptions", input_file: Path | None, config: Path | None, data: Path | None
) -> tuple["FeedOutcome | FeedBusy", Any]:
    from rich.console import Console
    from rich.progress import Progress

    from gatepost.cli.list_files import STANDARD_INPUT, open_file
    from gatepost.cli.options import load_policies
    from gatepost.feeds.run import FeedBusy, FeedRunner
    from gatepost.rejudge.policies_in_force import with_stored_rules
    from gatepost.settings.feeds import PARTWISE

    if input_file is not None and feed.format in PARTWISE:
        raise StartError(f"A {feed.format} feed consists of many parts, so it cannot be read from one file.")
    policies = load_policies(config, data)
    wanted = input_file or (None if feed.is_scheduled else STANDARD_INPUT)
    console = Console(stderr=True)

    async def work(store: "Store") -> tuple["FeedOutcome | FeedBusy", Any]:
        with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
            task = bar.add_task(feed.name, total=None)
            in_force = await with_stored_rules(policies, store.own_rules)
            runner = FeedRunner(store, in_force, lambda done, total: bar.update(task, completed=done, total=total))
            if wanted is None:
                outcome = await runner.run(feed, options)
            else:
                with open_file(wanted) as stream:
                    outcome = await runner.run(feed, options, stream)
        found = None if isinstance(outcome, FeedBusy) else outcome.look_back
        return outcome, await store.messages.lines([ggrid for ggrid, _ in found.hits]) if found else ()

    return with_store(config, data, work)


def _say_busy(name: str, busy: "FeedBusy") -> int:
    import sys

    print(f"{busy.holder.rpartition(':')[0] or 'Another process'} is running the feed {name}.", file=sys.stderr)
    return BUSY


def _load(config: Path | None, data: Path | None) -> tuple[list["FeedSettings"], dict[str, "FeedState"]]:
    from gatepost.store.feeds import FeedState

    feeds = _load_settings(config, data)
    found = {state.name: state for state in with_store(config, data, lambda store: store.feeds.states())}
    return feeds, {feed.name: found.get(feed.name, FeedState(feed.name)) for feed in feeds}


def _load_settings(config: Path | None, data: Path | None) -> list["FeedSettings"]:
    from gatepost.service.schedules import load_web_feeds
    from gatepost.settings.files import load_abby

    place = data_folder(data)
    of_files = load_abby(config_folder(config, place)).feeds
    names = {feed.name for feed in of_files}
    of_web, _faults = with_store(config, data, lambda store: load_web_feeds(store, names, place.path, paused=True))
    return [*of_files, *of_web]


def _find(feeds: list["FeedSettings"], name: str) -> "FeedSettings":
    for feed in feeds:
        if feed.name == name:
            return feed
    known = ", ".join(feed.name for feed in feeds) or "none"
    raise StartError(f"There is no feed named {name} in abby.yml or the web interface; there are {known}.")
