"""Find and print the delivered mail that new entries would have held, for `gatepost lists add` and `gatepost feeds`."""

from collections.abc import Sequence
from typing import Any

from gatepost.cli.deployment import Deployment, render_time
from gatepost.cli.printing import print_table, print_text
from gatepost.lists.catalogue import ListDefinition
from gatepost.lists.entries import NormalForm
from gatepost.rejudge.dry_run import can_look_back, look_back, run_waiting
from gatepost.rejudge.policies_in_force import with_stored_rules
from gatepost.service.data_folder import StartError
from gatepost.store.audit import CLI
from gatepost.store.look_backs import LookBack
from gatepost.store.message_records import MessageLine
from gatepost.store.store import Store

MAX_SHOWN = 100


def require_look_back(list_name: str, tenant: str | None, place: Deployment) -> None:
    """Raise `StartError` if one cannot look back for entries of a list, before anything is changed."""
    place.with_store(lambda store: _find_definition(store, tenant, list_name))


async def _find_definition(store: Store, tenant: str | None, list_name: str) -> ListDefinition:
    definition = await store.lists.definition(tenant, list_name)
    if definition is None or not can_look_back(definition):
        raise StartError(f"Looking back is possible only for lists that block something, not for {list_name}.")
    return definition


def find_delivered(
    list_name: str,
    tenant: str | None,
    entries: Sequence[str],
    *,
    days: int,
    place: Deployment,
    keep: bool,
) -> tuple[LookBack, Sequence[MessageLine]]:
    """Look back for entries of the command line, in the storage of the configuration; with `keep` the pages show it.

    With `lists.lookBack` the service would look back for them as well. What it would find is taken over here, unless it
    goes back further: then the pages show the service's.
    """
    policies, of_service = place.load_policies(), _days_of_service(place)

    async def work(store: Store) -> tuple[LookBack, Sequence[MessageLine]]:
        definition = await _find_definition(store, tenant, list_name)
        forms = (definition.normalise(entry) for entry in entries)
        keys = tuple(dict.fromkeys(form.key for form in forms if isinstance(form, NormalForm)))
        in_force = await with_stored_rules(policies, store.own_rules)
        is_ours = keep and days >= of_service
        waiting = await store.look_backs.take_for(tenant, list_name, keys) if is_ours and of_service else None
        found = await look_back(store, in_force, tenant, definition, keys, days, CLI)
        if is_ours and found.found:
            await store.look_backs.record(tenant, list_name, found)
        if waiting:
            await store.look_backs.finish(waiting)
        return found, await store.messages.lines([ggrid for ggrid, _ in found.hits])

    return place.with_store(work)


def _days_of_service(place: Deployment) -> int:
    """How many days the service itself looks back for entries of the List API; 0 where no abby.yml is here."""
    from gatepost.settings.faults import ConfigError

    try:
        return place.load_abby().lists.look_back
    except ConfigError:
        return 0


def run_waiting_look_backs(place: Deployment) -> list[dict[str, Any]]:
    """Look back for all entries that came through the List API and wait; return what was found, list by list."""
    policies, days = place.load_policies(), place.load_abby().lists.look_back

    async def work(store: Store) -> list[dict[str, Any]]:
        in_force = await with_stored_rules(policies, store.own_rules)
        return [
            {
                "list": waiting.list_name,
                "tenantUid": waiting.scope,
                "entries": found.entries,
                "considered": found.considered,
                "found": found.found,
            }
            async for waiting, found in run_waiting(store, in_force, days)
        ]

    return place.with_store(work)


def describe_look_back(found: LookBack, lines: Sequence[MessageLine]) -> dict[str, Any]:
    """A look back as JSON, with its messages."""
    entries = dict(found.hits)
    return {
        "days": found.days,
        "entries": found.entries,
        "considered": found.considered,
        "reached": render_time(found.reached) or None,
        "found": found.found,
        "messages": [
            {
                "ggrid": line.ggrid,
                "completed": render_time(line.completed),
                "tenantUid": line.tenant,
                "from": line.sender,
                "recipients": line.recipients,
                "subject": line.subject,
                "entry": entries.get(line.ggrid, ""),
            }
            for line in lines
        ],
    }


def print_look_back(found: LookBack, lines: Sequence[MessageLine]) -> None:
    """Print which delivered messages new entries would have held."""
    looked = f"of the {found.considered:,} messages delivered in the last {found.days} days"
    if found.reached is not None:
        since = render_time(found.reached)[:19]
        looked = f"of the {found.considered:,} messages delivered since {since}, where looking back ended"
    if not found.found:
        print_text(f"Looking back: the new entries would have held none {looked}.")
        return
    print_text(f"Delivered before it was known: the new entries would have held {found.found:,} {looked}.")
    entries = dict(found.hits)
    shown = [
        (
            render_time(line.completed)[:19],
            line.sender,
            ", ".join(line.recipients[:5]) + (f" and {len(line.recipients) - 5} more" if line.recipients[5:] else ""),
            line.subject[:80],
            entries.get(line.ggrid, ""),
            line.ggrid,
        )
        for line in lines[:MAX_SHOWN]
    ]
    print_table(("delivered", "from", "recipients", "subject", "entry", "ggrid"), shown)
    if found.found > len(shown):
        print(f"And {found.found - len(shown):,} more.")
