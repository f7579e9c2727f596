"""The two steps of `gatepost tenant move`."""

import asyncio
from collections.abc import Callable

from gatepost.cli.deployment import Deployment
from gatepost.cli.maintenance import show_progress
from gatepost.service.data_folder import StartError
from gatepost.store.tenant_databases import FIRST, find_moved_from
from gatepost.store.tenant_move import MoveOutcome, copy_tenant, delete_moved
from gatepost.store.upgrading import Progress

_NOW = """All of it is in database {0}, and mail of this tenant is put off (451, 503) until the map says so. Set
  storage.tenants: {{{1}: {0}}}
in guard.yml and abby.yml of every node (for the database first, delete the line), restart them, and then call
  gatepost tenant move {1} {0}
again: it deletes what is left in database {2}."""


def move(place: Deployment, uid: str, goal: str) -> tuple[dict[str, object], str]:
    """Copy the mail of a tenant, or delete what was copied; returns figures and what to say. Raises `StartError`."""
    url, tenant_map = place.find_storage_and_map()
    urls = {FIRST: url, **(tenant_map.databases if tenant_map else {})}
    if goal not in urls:
        raise StartError(f"There is no database {goal}: storage.databases has {', '.join(urls)}.")
    present = (tenant_map.tenants if tenant_map else {}).get(uid, FIRST)
    if present != goal:
        outcome = _run(
            "Copying", lambda progress: asyncio.run(copy_tenant(urls[present], urls[goal], goal, uid, progress))
        )
        return _figures(outcome), f"{outcome.rows:,} rows copied. " + _NOW.format(goal, uid, present)
    left = asyncio.run(find_moved_from(urls, goal, uid))
    if left is None:
        raise StartError(f"The mail of this tenant is in database {goal} already, and nothing is left elsewhere.")
    outcome = _run("Deleting", lambda progress: asyncio.run(delete_moved(urls[left], goal, uid, progress)))
    return _figures(outcome), f"{outcome.rows:,} results deleted in database {left}. The move is complete."


def _run(what: str, do: Callable[[Progress], MoveOutcome]) -> MoveOutcome:
    return show_progress(what, do)


def _figures(outcome: MoveOutcome) -> dict[str, object]:
    return {"rows": outcome.rows, "copied": outcome.is_copied, "done": outcome.is_done}
