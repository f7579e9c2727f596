"""`gatepost config`, `nodes` and `restart`: the configuration files, published versions of them, and the nodes.

A version is the configuration of all nodes, with policies, rules and models. Nodes take it over one after the other.
"""

from typing import TYPE_CHECKING, Annotated, Any

from gatepost.cli.commands import Argument, BadParameter, Group, Option
from gatepost.cli.deployment import Deployment, YesOption, find_actor, render_time
from gatepost.cli.printing import Output, print_json, print_table, print_text
from gatepost.process.hiding import hide
from gatepost.service.data_folder import StartError
from gatepost.times import now

if TYPE_CHECKING:
    from gatepost.store.publishing import NodeRecord, Rollout, Version, VersionContent, VersionInfo
    from gatepost.store.store import Store
    from gatepost.web.configuration import Difference

group = Group("Check the configuration files, publish them, and go back to an earlier version.")

WAIT_SECONDS = 900.0

ReasonOption = Annotated[str, Option("--reason", "-m", metavar="TEXT", help="Why; the history shows it.")]
WaitOption = Annotated[
    bool, Option("--wait", help="Wait until every node runs the version; fail if one cannot run it.")
]
NumberArgument = Annotated[
    int, Argument("The number of a version; config history lists them.", metavar="VERSION", least=1)
]


@group.command("check")
def check(*, place: Deployment, output: Output) -> None:
    """Read both files; print every fault, or the values that differ from their defaults."""
    from gatepost.service.changes import describe_running
    from gatepost.service.publishing import check_files
    from gatepost.settings.faults import ConfigError
    from gatepost.settings.files import differing_settings, find_warnings

    folder, running = place.config_folder, describe_running(place.data_folder)
    try:
        values = {file: differing_settings(settings) for file, settings in check_files(folder).items()}
    except ConfigError as fault:
        lines = [(each.file, str(each.line), each.key, each.sentence) for each in fault.faults]
        found = {"ok": False, "faults": fault.faults, "running": running}
        output.show_table(found, ("file", "line", "key", "fault"), lines)
        print_text(*(f"Note: {line}." for line in running if not output.json))
        raise SystemExit(1) from None
    warnings, own_users = find_warnings(folder), _warn_of_own_users(place)
    if output.json:
        found = {"ok": True, "values": values, "warnings": warnings, "ownUsers": own_users, "running": running}
        print_json(found)
        return
    print_text(*(f"Warning: {warning}." for warning in (*warnings, *own_users)))
    print_text(*(f"Note: {line}." for line in running))
    fine = "Both files are valid." if len(values) > 1 else f"{next(iter(values))} is valid; the other file is not here."
    print_text(f"{fine} Values that differ from the defaults:")
    every = [(file, key, str(value)) for file, settings in values.items() for key, value in settings.items()]
    print_table(("file", "key", "value"), every)


def _warn_of_own_users(place: Deployment) -> list[str]:
    """Return what mail of own users would meet, as the doctor says it."""
    from gatepost.service.doctor.own_users import check_own_users
    from gatepost.service.doctor.rows import read_files

    rows = check_own_users(read_files(place.config_folder), place.data_folder)
    return [f"{row.what}: {row.found}; {row.advice}" for row in rows if row.state != "ok"]


@group.command("publish")
def publish(*, reason: ReasonOption, wait: WaitOption = False, place: Deployment, output: Output) -> None:
    """Check the files and publish them, with policies, rules and models, as the next version for all nodes."""
    from gatepost.service.publishing import read_content
    from gatepost.store.publishing import digest_content

    async def run(store: "Store") -> "VersionInfo":
        history = await store.publishing.history(1)
        last = await store.publishing.find(history[0].number) if history else None
        content = read_content(place.config_folder, place.data_folder, last.content if last else None)
        running = (await store.publishing.rollout()).wanted
        if last and last.info.digest == digest_content(content) and running == last.info.number:
            raise StartError(f"Nothing has changed since version {running}, which all nodes shall run.")
        return await _publish(store, running, content, reason)

    _finish(place.with_store(run, any_node=True), wait, place, output)


@group.command("history")
def show_history(*, place: Deployment, output: Output) -> None:
    """List the versions, newest first: who, when and why, and which one is in force."""

    async def run(store: "Store") -> tuple[tuple["VersionInfo", ...], int, int]:
        rollout = await store.publishing.rollout()
        return await store.publishing.history(), rollout.wanted, rollout.failed

    versions, wanted, failed = place.with_store(run, any_node=True)
    states = {wanted: "wanted", failed: "failed"} if failed else {wanted: "wanted"}
    lines = [
        (str(each.number), states.get(each.number, ""), render_time(each.time), each.actor, each.reason)
        for each in versions
    ]
    found = {"wanted": wanted, "failed": failed, "versions": [_describe_version(each) for each in versions]}
    output.show_table(found, ("version", "state", "published", "by", "reason"), lines)


@group.command("diff")
def diff(
    number: Annotated[int | None, Argument("The number of a version.", metavar="VERSION", least=1)] = None,
    other: Annotated[int | None, Argument("The version to compare it with.", metavar="OTHER", least=1)] = None,
    *,
    place: Deployment,
    output: Output,
) -> None:
    """Compare two versions, or one with the one before it; without a number, the files with the last version."""
    from gatepost.service.publishing import read_content
    from gatepost.store.publishing import VersionContent
    from gatepost.web.configuration import compare

    empty = VersionContent({}, {})

    async def run(store: "Store") -> "list[Difference]":
        versions = await store.publishing.history()
        if number is None:
            last = (await _require_version(store, versions[0].number)).content if versions else empty
            return compare(last, read_content(place.config_folder, place.data_folder, last))
        after = (await _require_version(store, number)).content
        if other is not None:
            return compare(after, (await _require_version(store, other)).content)
        before = [each.number for each in versions if each.number < number]
        return compare((await _require_version(store, before[0])).content if before else empty, after)

    found = place.with_store(run, any_node=True)
    if output.json:
        print_json(found)
        return
    for each in found:
        print_text(f"{f'{each.file} {each.key}'.rstrip()}: {each.before} -> {each.after}")
        print_text(*(f"    {line}" for line in each.lines))
    if not found:
        print("Nothing differs.")


@group.command("show")
def show_version(number: NumberArgument, *, place: Deployment, output: Output) -> None:
    """Show what a version holds: references to secrets, but no secrets."""
    found = place.with_store(lambda store: _require_version(store, number), any_node=True)
    sizes = {name: len(raw) for name, raw in found.content.files.items()}
    if output.json:
        print_json({**_describe_version(found.info), "documents": hide(found.content.documents), "files": sizes})
        return
    info = found.info
    print_text(f"Version {info.number}, {render_time(info.time)}, {info.actor}: {info.reason}")
    for name, document in found.content.documents.items():
        print_text(f"{name}:")
        print_json(hide(document))
    print_text(*(f"{name}: {size} bytes" for name, size in sizes.items()))


@group.command("rollback")
def roll_back(
    number: NumberArgument, *, reason: ReasonOption = "", wait: WaitOption = False, place: Deployment, output: Output
) -> None:
    """Publish the content of an earlier version again, as the next version."""

    async def run(store: "Store") -> "VersionInfo":
        found = await _require_version(store, number)
        why = reason or f"back to version {number}"
        running = (await store.publishing.rollout()).wanted
        return await _publish(store, running, found.content, why, number)

    _finish(place.with_store(run, any_node=True), wait, place, output)


async def _publish(
    store: "Store", running: int, content: "VersionContent", reason: str, origin: int = 0
) -> "VersionInfo":
    info = await store.publishing.publish(running, content, reason, find_actor(), origin)
    if info is None:
        raise StartError("Another version was published meanwhile; gatepost config history shows it. Try again.")
    return info


async def _require_version(store: "Store", number: int) -> "Version":
    found = await store.publishing.find(number)
    if found is None:
        raise StartError(f"There is no version {number}.")
    return found


def _describe_version(info: "VersionInfo") -> dict[str, object]:
    return {
        "version": info.number,
        "published": render_time(info.time),
        "by": info.actor,
        "reason": info.reason,
        "origin": info.origin or None,
        "digest": info.digest,
    }


def _finish(info: "VersionInfo", wait: bool, place: Deployment, output: Output) -> None:
    outcome = place.with_store(lambda store: _wait_for(store, info.number), any_node=True) if wait else ""
    if outcome:
        raise StartError(outcome)
    done = "every node runs it" if wait else "gatepost nodes shows which nodes run it"
    output.show(_describe_version(info), f"Version {info.number} is published; {done}.")


async def _wait_for(store: "Store", number: int) -> str:
    """Wait until every node that is there runs a version; returns why not, if it fails."""
    import asyncio
    import time

    deadline = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < deadline:
        rollout = await store.publishing.rollout()
        if rollout.failed == number:
            return f"Version {number} failed on {rollout.failed_node}: {rollout.failed_reason}"
        if rollout.wanted != number:
            return f"Version {rollout.wanted} was published meanwhile."
        nodes = [each for each in await store.publishing.nodes() if each.state(now()) != "silent"]
        if nodes and not rollout.holder and all(each.detail.version == number for each in nodes):
            return ""
        await asyncio.sleep(0.5)
    return f"Not every node runs version {number} after {WAIT_SECONDS / 60:.0f} minutes; gatepost nodes shows more."


def nodes(
    *,
    forget: Annotated[str | None, Option("--forget", metavar="ID", help="Forget a node that is gone.")] = None,
    place: Deployment,
    output: Output,
) -> None:
    """Show every node: the version that it runs and the one that is wanted, its health, slots and last error."""

    async def run(store: "Store") -> "tuple[Rollout, tuple[NodeRecord, ...]]":
        if forget is not None and not await store.publishing.forget_node(forget, find_actor()):
            raise StartError(f"There is no node {forget}.")
        return await store.publishing.rollout(), await store.publishing.nodes()

    rollout, found = place.with_store(run, any_node=True)
    described = {
        "wanted": rollout.wanted,
        "turn": rollout.holder or None,
        "failed": _describe_failure(rollout),
        "nodes": [_describe_node(each, rollout) for each in found],
    }
    columns = ("node", "version", "health", "slots", "since", "notes")
    output.show_table(described, columns, [_render_node(each, rollout) for each in found])
    if rollout.failed and not output.json:
        print_text(f"Version {rollout.failed} failed on {rollout.failed_node}: {rollout.failed_reason}")


def _render_node(node: "NodeRecord", rollout: "Rollout") -> tuple[str, ...]:
    detail = node.detail
    version = f"{detail.version}" if detail.version == rollout.wanted else f"{detail.version} -> {rollout.wanted}"
    slots = f"{detail.in_processing} of {detail.slots}"
    notes = [*(["it is its turn"] if rollout.holder == node.id else []), *map(str, detail.health.reasons), detail.error]
    state, since = node.state(now()), render_time(detail.since)
    return node.name, version, state, slots, since, "; ".join(filter(None, notes))


def _describe_failure(rollout: "Rollout") -> dict[str, Any] | None:
    if not rollout.failed:
        return None
    when = render_time(rollout.failed_time)
    return {"version": rollout.failed, "node": rollout.failed_node, "reason": rollout.failed_reason, "time": when}


def _describe_node(node: "NodeRecord", rollout: "Rollout") -> dict[str, Any]:
    from msgspec.structs import asdict

    detail = node.detail
    return {
        "id": node.id,
        "name": node.name,
        "services": detail.services,
        "program": detail.program,
        "version": detail.version,
        "wanted": rollout.wanted,
        "health": node.state(now()),
        "reasons": [asdict(each) for each in detail.health.reasons],
        "inProcessing": detail.in_processing,
        "slots": detail.slots,
        "started": render_time(detail.started),
        "since": render_time(detail.since),
        "seen": render_time(node.seen),
        "error": detail.error,
    }


def restart(
    *,
    all_nodes: Annotated[bool, Option("--all", help="All nodes, one after the other.")] = False,
    wait: Annotated[bool, Option("--wait", help="Wait until every node has restarted and is healthy.")] = False,
    yes: YesOption = False,
    place: Deployment,
    output: Output,
) -> None:
    """Restart every node, each only after the one before is healthy; ports stay open."""
    if not all_nodes:
        raise BadParameter("is needed; one node is restarted by its service manager", "--all")
    present = place.with_store(_list_present, any_node=True)
    names = ", ".join(each.name for each in present) or "no node is there now"
    place.announce(f"Restarts all nodes ({names}) of", yes=yes, any_node=True)

    async def run(store: "Store") -> tuple[int, str]:
        number = await store.publishing.restart_all(find_actor())
        return number, await _wait_for_restart(store, present) if wait else ""

    number, fault = place.with_store(run, any_node=True)
    if fault:
        raise StartError(fault)
    done = f"{len(present)} nodes have restarted and are healthy." if wait else ""
    output.show({"restart": number}, done or "All nodes restart, one after the other; gatepost nodes shows them.")


async def _list_present(store: "Store") -> "list[NodeRecord]":
    return [each for each in await store.publishing.nodes() if each.state(now()) != "silent"]


async def _wait_for_restart(store: "Store", present: "list[NodeRecord]") -> str:
    """Wait until these nodes have started again and are healthy; returns why not, if that takes too long."""
    import asyncio
    import time

    before, late = {each.id: each.detail.started for each in present}, [each.name for each in present]
    deadline = time.monotonic() + WAIT_SECONDS
    while late and time.monotonic() < deadline:
        await asyncio.sleep(0.5)
        seen = {each.id: each for each in await store.publishing.nodes()}
        late = [
            each.name
            for each in present
            if each.id in seen
            and (
                seen[each.id].detail.started == before[each.id] or seen[each.id].state(now()) not in ("GREEN", "YELLOW")
            )
        ]
    if late:
        names, minutes = ", ".join(late), f"{WAIT_SECONDS / 60:.0f} minutes"
        return f"After {minutes}, these have not restarted or are not healthy: {names}. gatepost nodes shows why."
    return ""
