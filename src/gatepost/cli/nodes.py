"""`gatepost nodes` and `gatepost restart`: every node of the deployment, and a restart of all, one after the other."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from gatepost.cli.options import ConfigOption, DataOption, JsonOption, render_time
from gatepost.service.data_folder import StartError
from gatepost.times import now

if TYPE_CHECKING:
    from gatepost.store.publishing import NodeRecord, Rollout
    from gatepost.store.store import Store


def nodes(
    forget: Annotated[
        str | None,
        typer.Option("--forget", metavar="ID", help="Forget a node that is gone.", show_default=False),
    ] = None,
    config: ConfigOption = None,
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """Show every node: the version that it runs and the one that is wanted, its health, slots and last error."""
    from gatepost.cli.publishing import actor, with_node_store

    async def run(store: "Store") -> "tuple[Rollout, tuple[NodeRecord, ...]]":
        if forget is not None and not await store.publishing.forget_node(forget, actor()):
            raise StartError(f"There is no node {forget}.")
        return await store.publishing.rollout(), await store.publishing.nodes()

    rollout, found = with_node_store(config, data, run)
    _print_nodes(rollout, found, json)


def _print_nodes(rollout: "Rollout", found: "tuple[NodeRecord, ...]", json: bool) -> None:
    from gatepost.cli.printing import console, print_json, rows, safe, table

    if json:
        print_json({"wanted": rollout.wanted, "turn": rollout.holder or None, "failed": _describe_failure(rollout),
                    "nodes": [_plain(each, rollout) for each in found]})  # fmt: skip
        return
    lines = []
    for each in found:
        detail = each.detail
        health = each.health(now())
        version = f"{detail.version}" if detail.version == rollout.wanted else f"{detail.version} -> {rollout.wanted}"
        slots = f"{detail.in_processing} of {detail.slots}"
        notes = [*(["it is its turn"] if rollout.holder == each.id else []), detail.reason, detail.error]
        notes += [f"needs a restart: {', '.join(detail.waits_for_restart)}"] if detail.waits_for_restart else []
        lines.append((each.name, version, health, slots, render_time(detail.since), "; ".join(filter(None, notes))))
    out = console()
    out.print(rows(table("node", "version", "health", "slots", "since", "notes"), lines))
    if rollout.failed:
        failure = f"Version {rollout.failed} failed on {rollout.failed_node}: {rollout.failed_reason}"
        out.print(safe(failure))


def _describe_failure(rollout: "Rollout") -> dict[str, Any] | None:
    if not rollout.failed:
        return None
    when = render_time(rollout.failed_time)
    return {"version": rollout.failed, "node": rollout.failed_node, "reason": rollout.failed_reason, "time": when}


def _plain(node: "NodeRecord", rollout: "Rollout") -> dict[str, Any]:
    detail = node.detail
    return {
        "id": node.id,
        "name": node.name,
        "services": detail.services,
        "program": detail.program,
        "version": detail.version,
        "wanted": rollout.wanted,
        "health": node.health(now()),
        "reason": detail.reason,
        "inProcessing": detail.in_processing,
        "slots": detail.slots,
        "started": render_time(detail.started),
        "since": render_time(detail.since),
        "seen": render_time(node.seen),
        "error": detail.error,
        "waitsForRestart": detail.waits_for_restart,
    }


def restart(
    all_nodes: Annotated[bool, typer.Option("--all", help="All nodes, one after the other.")] = False,
    config: ConfigOption = None,
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """Restart every node, each only after the one before is healthy; ports stay open."""
    from gatepost.cli.printing import print_result
    from gatepost.cli.publishing import actor, with_node_store

    if not all_nodes:
        raise typer.BadParameter("is needed; one node is restarted by its service manager", param_hint="--all")
    number = with_node_store(config, data, lambda store: store.publishing.restart_all(actor()))
    print_result(json, {"restart": number}, "All nodes restart, one after the other; gatepost nodes shows them.")
