"""`gatepost config publish|history|diff|show|rollback`: versions of the configuration for all nodes."""

import getpass
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
    render_time,
    with_store,
)
from gatepost.service.data_folder import StartError

if TYPE_CHECKING:
    from gatepost.store.audit import Actor
    from gatepost.store.publishing import Version, VersionInfo
    from gatepost.store.store import Store

T = TypeVar("T")
WAIT_SECONDS = 900.0

ReasonOption = Annotated[str, typer.Option("--reason", "-m", metavar="TEXT", help="Why; the history shows it.")]
WaitOption = Annotated[
    bool, typer.Option("--wait", help="Wait until every node runs the version; fail if one cannot run it.")
]
NumberArgument = Annotated[int, typer.Argument(metavar="VERSION", min=1)]


def with_node_store(config: Path | None, data: Path | None, use: Callable[["Store"], Awaitable[T]]) -> T:
    """Call `use` with the storage of this node, whichever of the two files it has."""
    return with_store(config, data, use, any_node=True)


def actor() -> "Actor":
    """Return who runs this command."""
    from gatepost.store.audit import Actor

    try:
        return Actor("cli", getpass.getuser())
    except (KeyError, OSError):
        return Actor("cli")


def publish(
    reason: ReasonOption,
    wait: WaitOption = False,
    config: ConfigOption = None,
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """Check the files and publish them, with policies, rules and models, as the next version for all nodes."""
    from gatepost.service.publishing import digest_content, read_content

    place = data_folder(data)
    folder = config_folder(config, place)

    async def run(store: "Store") -> "VersionInfo":
        history = await store.publishing.history(1)
        last = await store.publishing.find(history[0].number) if history else None
        content = read_content(folder, place, last.content if last else None)
        digest = digest_content(content)
        rollout = await store.publishing.rollout()
        if last and last.info.digest == digest and rollout.wanted == last.info.number:
            raise StartError(f"Nothing has changed since version {last.info.number}, which all nodes shall run.")
        return await store.publishing.publish(content, digest, reason, actor())

    _finish(with_node_store(config, data, run), wait, config, data, json)


def rollback(
    number: NumberArgument,
    reason: ReasonOption = "",
    wait: WaitOption = False,
    config: ConfigOption = None,
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """Publish the content of an earlier version again, as the next version."""

    async def run(store: "Store") -> "VersionInfo":
        found = await _require_version(store, number)
        why = reason or f"back to version {number}"
        return await store.publishing.publish(found.content, found.info.digest, why, actor(), number)

    _finish(with_node_store(config, data, run), wait, config, data, json)


def history(config: ConfigOption = None, data: DataOption = None, json: JsonOption = False) -> None:
    """List the versions, newest first: who, when and why, and which one is in force."""
    from gatepost.cli.printing import console, print_json, rows, table

    async def run(store: "Store") -> tuple[tuple["VersionInfo", ...], int, int]:
        rollout = await store.publishing.rollout()
        return await store.publishing.history(), rollout.wanted, rollout.failed

    versions, wanted, failed = with_node_store(config, data, run)
    if json:
        print_json({"wanted": wanted, "failed": failed, "versions": [_plain(each) for each in versions]})
        return
    states = {wanted: "wanted", failed: "failed"} if failed else {wanted: "wanted"}
    lines = [
        (str(each.number), states.get(each.number, ""), render_time(each.time), each.actor, each.reason)
        for each in versions
    ]
    console().print(rows(table("version", "state", "published", "by", "reason"), lines))


def diff(
    number: Annotated[int | None, typer.Argument(metavar="[VERSION]", min=1, show_default=False)] = None,
    other: Annotated[int | None, typer.Argument(metavar="[OTHER]", min=1, show_default=False)] = None,
    config: ConfigOption = None,
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """Compare two versions, or one with the one before it; without a number, the files with the last version."""
    from gatepost.cli.printing import console, print_json, safe
    from gatepost.service.publishing import Difference, compare, read_content
    from gatepost.store.publishing import VersionContent

    place = data_folder(data)
    folder = config_folder(config, place)
    empty = VersionContent({}, {})

    async def run(store: "Store") -> list[Difference]:
        versions = await store.publishing.history()
        if number is None:
            last = (await _require_version(store, versions[0].number)).content if versions else empty
            return compare(last, read_content(folder, place, last))
        after = (await _require_version(store, number)).content
        if other is not None:
            return compare(after, (await _require_version(store, other)).content)
        before = [each.number for each in versions if each.number < number]
        return compare((await _require_version(store, before[0])).content if before else empty, after)

    found = with_node_store(config, data, run)
    if json:
        print_json(found)
        return
    out = console()
    for each in found:
        place_of = f"{each.file} {each.key}".rstrip()
        out.print(safe(f"{place_of}: {each.before} -> {each.after}"))
        for line in each.lines:
            out.print(safe(f"    {line}"))
    if not found:
        out.print("Nothing differs.")


def show(
    number: NumberArgument, config: ConfigOption = None, data: DataOption = None, json: JsonOption = False
) -> None:
    """Show what a version holds; it holds no secrets, only references to them."""
    from gatepost.cli.printing import console, print_json, safe

    found = with_node_store(config, data, lambda store: _require_version(store, number))
    sizes = {name: len(raw) for name, raw in found.content.files.items()}
    if json:
        print_json({**_plain(found.info), "documents": found.content.documents, "files": sizes})
        return
    out = console()
    info = found.info
    out.print(safe(f"Version {info.number}, {render_time(info.time)}, {info.actor}: {info.reason}"))
    for name, document in found.content.documents.items():
        out.print(safe(f"{name}:"))
        print_json(document)
    for name, size in sizes.items():
        out.print(safe(f"{name}: {size} bytes"))


async def _require_version(store: "Store", number: int) -> "Version":
    found = await store.publishing.find(number)
    if found is None:
        raise StartError(f"There is no version {number}.")
    return found


def _plain(info: "VersionInfo") -> dict[str, object]:
    return {
        "version": info.number,
        "published": render_time(info.time),
        "by": info.actor,
        "reason": info.reason,
        "origin": info.origin or None,
        "digest": info.digest,
    }


def _finish(info: "VersionInfo", wait: bool, config: Path | None, data: Path | None, json: bool) -> None:
    from gatepost.cli.printing import print_result

    outcome = with_node_store(config, data, lambda store: wait_for(store, info.number)) if wait else ""
    if outcome:
        raise StartError(outcome)
    done = "every node runs it" if wait else "gatepost nodes shows which nodes run it"
    print_result(json, _plain(info), f"Version {info.number} is published; {done}.")


async def wait_for(store: "Store", number: int) -> str:
    """Wait until every node that is there runs a version; returns why not, if it fails."""
    import asyncio
    import time

    from gatepost.times import now

    deadline = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < deadline:
        rollout = await store.publishing.rollout()
        if rollout.failed == number:
            return f"Version {number} failed on {rollout.failed_node}: {rollout.failed_reason}"
        if rollout.wanted != number:
            return f"Version {rollout.wanted} was published meanwhile."
        nodes = [each for each in await store.publishing.nodes() if each.health(now()) != "silent"]
        if nodes and not rollout.holder and all(each.detail.version == number for each in nodes):
            return ""
        await asyncio.sleep(0.5)
    return f"Not every node runs version {number} after {WAIT_SECONDS / 60:.0f} minutes; gatepost nodes shows more."
