"""The system: versions, state of storage and cores, settings in force, nodes, and the models that learn from reports.

The health check is that of `gatepost doctor`. It takes a few seconds, so it runs on request, one at a time.

Administrators of the deployment see the reports and models of every pool, those of a tenant see their own. What a model
would have held of mail that was delivered before is shown to users who may see messages.
"""

import asyncio
import platform
from collections.abc import Sequence
from typing import Any

import msgspec

from gatepost import __version__
from gatepost.api.errors import NOT_FOUND, Failure
from gatepost.events.schema import NodeState
from gatepost.store.learning import LEARNING, StoredModel
from gatepost.web.context import WebContext, find_scopes
from gatepost.web.forms import whole_number
from gatepost.web.page_responses import redirect
from gatepost.web.request import NOT_VISIBLE, SignedInRequest
from gatepost.web.routing import PageResult, PageRoute, WebRoute, about

# How many published versions the page of nodes shows.
VERSIONS = 20
# How values are written that nobody has set.
UNSET = ("not set", "none")


async def run_health_check(context: WebContext, request: SignedInRequest) -> PageResult:
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
        version=__version__,
        python=f"{platform.python_implementation()} {platform.python_version()} on {platform.machine()}",
        now=context.now(),
        started=int(installation.started * 1000),
        stated=[row for row in installation.settings if row[2] not in UNSET],
        unset=[row for row in installation.settings if row[2] in UNSET],
        cores=context.cores.states,
        queue=context.cores.health,
        found=found,
    )


async def show_nodes(context: WebContext, request: SignedInRequest) -> PageResult:
    """Show every node with the version that it runs, its health and its last error, and the last versions. Publishing
    itself is done on the command line, where the files are."""
    moment = context.now()
    return await context.page(
        request,
        "nodes.html",
        rollout=await context.store.publishing.rollout(),
        nodes=[(node, node.state(moment)) for node in await context.store.publishing.nodes()],
        versions=await context.store.publishing.history(VERSIONS),
        now=moment,
    )


NO_MODEL = Failure(NOT_FOUND, "this model is no longer kept; the last 20 of a pool are")


class ModelLine(msgspec.Struct, frozen=True):
    """A model as pages show it; `figures` are those of its training."""

    model: StoredModel
    figures: dict[str, Any]


async def show_learning(context: WebContext, request: SignedInRequest) -> PageResult:
    """Show the pools and the last models."""
    tenant, store = request.user.tenant, context.store
    pools = [pool for pool in await store.learning.pools() if tenant in (None, pool.tenant)]
    models = await store.learning.models(tenant, every=tenant is None)
    runs = {job.scope or None: job for job in await store.jobs.of_kind(LEARNING)}
    return await context.page(
        request,
        "learning.html",
        pools=pools,
        runs=runs,
        models=[_describe(model) for model in models],
        scopes=await find_scopes(context, request),
    )


async def _find_model(context: WebContext, request: SignedInRequest) -> StoredModel | Failure:
    number = whole_number(request.path_part("version"), -1)
    if number < 0:
        return NOT_VISIBLE
    found = await context.store.learning.find_model(number)
    return found if found and request.user.tenant in (None, found.tenant) else NO_MODEL


for_model = about(_find_model)


@for_model
async def show_model(context: WebContext, request: SignedInRequest, found: StoredModel) -> PageResult:
    """Show one model with its figures and what it would have held."""
    hits = found.look_back.hits if found.look_back and request.may("messages.read") else ()
    return await context.page(
        request,
        "learning-model.html",
        one=_describe(found),
        lines=await context.store.messages.lines(hits),
        scopes=await find_scopes(context, request),
    )


@for_model
async def roll_back(context: WebContext, request: SignedInRequest, found: StoredModel) -> PageResult:
    """Withdraw a model that takes part; the one before it takes part again."""
    if found.state != "current":
        return redirect("/learning", notice="model-not-current")
    await context.store.learning.roll_back(found.tenant, request.actor)
    return redirect("/learning", notice="model-withdrawn")


def _describe(model: StoredModel) -> ModelLine:
    return ModelLine(model, msgspec.json.decode(model.figures))


PAGES: tuple[WebRoute, ...] = (
    PageRoute("GET", "/nodes", show_nodes, "system.read"),
    PageRoute("GET", "/system", show_system, "system.read"),
    PageRoute("POST", "/system/examine", run_health_check, "system.read"),
    PageRoute("POST", "/system/test-event", send_test_event, "system.change"),
    PageRoute("GET", "/learning", show_learning, "learning.read"),
    PageRoute("GET", "/learning/{version}", show_model, "learning.read"),
    PageRoute("POST", "/learning/{version}/rollback", roll_back, "learning.change"),
)
