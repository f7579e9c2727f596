"""Run guard and abby, together or one of them, from their settings to the last request.

Ports are bound first, then storage is opened, then the workers start, then the servers. What started last stops first:
servers finish their requests while the core still works, and the core ends before storage is closed.

A process that runs only one of the services does not load the other one.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

import structlog
from prometheus_client import CollectorRegistry

from gatepost.scanning.spool import Spool
from gatepost.service.http_servers import Serves, build_server, serve
from gatepost.service.metrics import build_metrics_app, render_on_demand
from gatepost.service.plan import Plan, SharedParts, bind_ports, port_of, release_ports
from gatepost.settings.files import load_policies
from gatepost.store import open_store
from gatepost.store.errors import StorageError
from gatepost.store.store import Store

log = structlog.get_logger("gatepost")

Started = Callable[[int, Store], Awaitable[None]]


async def run_plan(plan: Plan, stop: asyncio.Event, started: Started) -> None:
    """Run until asked to stop. `started` is called once everything serves, with abby's or guard's port."""
    async with contextlib.AsyncExitStack() as stack:
        bound = bind_ports(plan)
        stack.callback(release_ports, bound)
        store = open_store(plan.settings.storage.url, plan.data.path)
        stack.push_async_callback(store.close)
        if plan.abby:
            await _encrypt_second_factors(store)
        policies = load_policies(plan.settings.policy)
        shared = SharedParts(store, Spool(plan.data.spool), policies, CollectorRegistry(), bound)
        servers = await _build_servers(plan, shared, stack)
        port = port_of(next(bound[name] for name in ("abby", "guard", "smtp") if name in bound))
        await serve(servers, stop, lambda: started(port, store))


async def _encrypt_second_factors(store: Store) -> None:
    """Encrypt what an older version stored in clear. Mail is served also if the key is missing; the log says so."""
    try:
        if count := await store.encrypt_totp_secrets():
            log.info("second factors encrypted", count=count)
    except StorageError as fault:
        log.error("second factors not encrypted", reason=str(fault))


async def _build_servers(plan: Plan, shared: SharedParts, stack: contextlib.AsyncExitStack) -> list[Serves]:
    """Start the core, if there is one, and build a server for every address that is bound."""
    servers: list[Serves] = []
    own = None
    if plan.guard:
        from gatepost.service.core import build_core_servers, start_core

        core = await start_core(plan, plan.guard, shared, stack)
        servers += build_core_servers(plan, core, shared)
        own = core.own
    if plan.abby:
        from gatepost.service.api_service import build_api_server, start_feeds

        servers.append(build_api_server(plan, plan.abby, shared, own))
        start_feeds(plan, plan.abby, shared, stack)
    metrics = [shared.bound[name] for name in ("metrics", "guard metrics") if name in shared.bound]
    return [*servers, *(build_server(build_metrics_app(render_on_demand(shared.registry)), each) for each in metrics)]
