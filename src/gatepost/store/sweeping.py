"""What a deletion left behind goes in small steps, so that nobody else waits for it; a kill in between loses no step.

Lists of the scope `-`, results, held mail and acquaintances of departed tenants are out of sight already.
"""

from gatepost.store import findable, heldmail, messages, sightings, traffic
from gatepost.store.work import Read, Work, Write

BATCH = 2_000

_LIST = "SELECT id FROM lists WHERE scope = '-' ORDER BY id LIMIT 1 FOR UPDATE"
_ENTRIES = """DELETE FROM entries WHERE list_id = $1
AND key IN (SELECT key FROM entries WHERE list_id = $1 ORDER BY key LIMIT $2)"""
_PREFIXES = "DELETE FROM list_prefixes WHERE list_id = $1"
_ROW = "DELETE FROM lists WHERE id = $1"
_TENANT = "SELECT tenant FROM departed ORDER BY tenant LIMIT 1 FOR UPDATE"
_DEPARTED = "DELETE FROM departed WHERE tenant = $1"


def step() -> Work[bool]:
    """Do one step; False when nothing is left."""
    lists = yield Read(_LIST)
    if lists:
        list_id = lists[0][0]
        if not (yield Write(_ENTRIES, (list_id, BATCH))):
            yield Write(_PREFIXES, (list_id,))
            yield Write(_ROW, (list_id,))
        return True
    tenants = yield Read(_TENANT)
    if tenants and not (yield from _less(tenants[0][0])):
        yield Write(_DEPARTED, (tenants[0][0],))
    return bool(tenants)


def _less(tenant: str) -> Work[int]:
    """Some of what a departed tenant has left; the raw bytes of held mail go when the raw store is tidied."""
    if (yield from findable.enter_late()):
        return 1
    results = yield from messages.purge_tenant(tenant, BATCH)
    results += yield from traffic.forget(tenant, BATCH)
    known = yield from sightings.forget(tenant, BATCH)
    return results + known + (yield from heldmail.purge_tenant(tenant, BATCH))
