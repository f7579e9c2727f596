"""Deferred deletes: the rows of a deleted list or tenant go in small steps, so that other changes do not wait.

Deleting a list or a tenant hides its rows at once, in one transaction: lists get the scope `-`, a tenant is written to
the table `departed`. The steps here delete what is hidden. A kill in between loses no step, since the next purge goes
on with them.
"""

from gatepost.store.campaigns import delete_tenant_marks
from gatepost.store.engine import Operations, Read, Work, Write
from gatepost.store.held_mail import delete_tenant_held
from gatepost.store.learnt_models import delete_tenant_models
from gatepost.store.message_search import index_old_messages
from gatepost.store.messages import delete_tenant_messages
from gatepost.store.sightings import delete_tenant_sightings
from gatepost.store.traffic import delete_tenant_traffic
from gatepost.store.training_pools import delete_tenant_reports

BATCH = 2_000

_HIDDEN_LIST = "SELECT id FROM lists WHERE scope = '-' ORDER BY id LIMIT 1 FOR UPDATE"
_DELETE_ENTRIES = """DELETE FROM entries WHERE list_id = $1
AND key IN (SELECT key FROM entries WHERE list_id = $1 ORDER BY key LIMIT $2)"""
_DELETE_PREFIXES = "DELETE FROM list_prefixes WHERE list_id = $1"
_DELETE_LOOK_BACKS = "DELETE FROM look_backs WHERE list_id = $1"
_DELETE_QUEUE = "DELETE FROM look_back_queue WHERE list_id = $1"
_DELETE_LIST = "DELETE FROM lists WHERE id = $1"
_DELETED_TENANT = "SELECT tenant FROM departed ORDER BY tenant LIMIT 1 FOR UPDATE"
_FORGET_TENANT = "DELETE FROM departed WHERE tenant = $1"


class DeferredDeletes(Operations):
    """Operations that hide rows first and delete them afterwards."""

    async def _delete_hidden(self) -> None:
        """Delete the rows of all lists and tenants that were hidden."""
        await self._repeat(_delete_some)


def _delete_some() -> Work[int]:
    """Do one step; 0 when nothing is left."""
    lists = yield Read(_HIDDEN_LIST)
    if lists:
        list_id = lists[0][0]
        if not (yield Write(_DELETE_ENTRIES, (list_id, BATCH))):
            yield Write(_DELETE_PREFIXES, (list_id,))
            yield Write(_DELETE_LOOK_BACKS, (list_id,))
            yield Write(_DELETE_QUEUE, (list_id,))
            yield Write(_DELETE_LIST, (list_id,))
        return 1
    tenants = yield Read(_DELETED_TENANT)
    if tenants and not (yield from _delete_some_of_tenant(tenants[0][0])):
        yield Write(_FORGET_TENANT, (tenants[0][0],))
    return len(tenants)


def _delete_some_of_tenant(tenant: str) -> Work[int]:
    """Delete some rows of a deleted tenant; the raw bytes of its held mail go when the raw store is tidied."""
    if (yield from index_old_messages()):
        return 1
    deleted = yield from delete_tenant_messages(tenant, BATCH)
    deleted += yield from delete_tenant_traffic(tenant, BATCH)
    deleted += yield from delete_tenant_sightings(tenant, BATCH)
    deleted += yield from delete_tenant_marks(tenant, BATCH)
    deleted += yield from delete_tenant_reports(tenant, BATCH)
    deleted += yield from delete_tenant_models(tenant)
    return deleted + (yield from delete_tenant_held(tenant, BATCH))
