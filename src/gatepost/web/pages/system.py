"""The system page: versions, state of storage and cores, and the settings in force; and the page of all nodes.

The health check is that of `gatepost doctor`. It takes a few seconds, so it runs on request, one at a time.
"""

import asyncio
import platform
from collections.abc import Sequence

from gatepost import __version__
from gatepost.events.schema import NodeState
from gatepost.store.errors import StorageError
from gatepost.web.context import WebContext
from gatepost.web.page_responses import redirect
from gatepost.web.request import SignedInRequest
from gatepost.web.routing import PageResult, PageRoute, WebRoute

# How many published versions the page of nodes shows.
VERSIONS = 20
# How values are written that nobody has set.
UNSET = ("not set", "none")


async def run_health_check(context: WebContext, request: SignedInRequest) -> PageResult:
    """Run the health check and show its result."""
    await context.store.audit.note("system.examine", request.actor)
    async with context.examining:
        found = await asyncio.to_thread(context.installation.examine)
    return await show_system(context, request, found)


async def send_test_event(context: WebContext, request: SignedInRequest) -> PageResult:
    """Hand a test event to every output, so that its receiver can be looked at."""
    if context.events.is_idle:
        return redirect("/system", notice="no-outputs")
    await context.store.audit.note("system.testEvent", request.actor)
    context.events.emit(lambda: NodeState(state="test", version=__version__))
    return redirect("/system", notice="event-sent")


async def show_system(context: WebContext, request: SignedInRequest, found: Sequence[object] = ()) -> PageResult:
    """Show versions, state and settings; `found` are the rows of a health check."""
    installation = context.installation
    return await context.page(
        request,
        "system.html",
        installation=installation,
        python=f"{platform.python_implementation()} {platform.python_version()} on {platform.machine()}",
        now=context.now(),
        started=int(installation.started * 1000),
        stated=[row for row in installation.settings if row[2] not in UNSET],
        unset=[row for row in installation.settings if row[2] in UNSET],
        storage=await _storage_fault(context),
        cores=context.cores.states,
        status=context.cores.colour,
        found=found,
    )


async def _storage_fault(context: WebContext) -> str:
    try:
        await context.store.tenants.all()
    except StorageError as fault:
        return str(fault)
    return ""


async def show_nodes(context: WebContext, request: SignedInRequest) -> PageResult:
    """Show every node with the version that it runs, its health and its last error, and the last versions. Publishing
    itself is done on the command line, where the files are."""
    moment = context.now()
    return await context.page(
        request,
        "nodes.html",
        rollout=await context.store.publishing.rollout(),
        nodes=[(node, node.health(moment)) for node in await context.store.publishing.nodes()],
        versions=await context.store.publishing.history(VERSIONS),
        now=moment,
    )


PAGES: tuple[WebRoute, ...] = (
    PageRoute("GET", "/nodes", show_nodes, "system.read"),
    PageRoute("GET", "/system", show_system, "system.read"),
    PageRoute("POST", "/system/examine", run_health_check, "system.read"),
    PageRoute("POST", "/system/test-event", send_test_event, "system.change"),
)
