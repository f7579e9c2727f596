"""Learning: the pools of reports, the models that they have taught, with their figures, and the way back.

Administrators of the deployment see every pool, those of a tenant see their own. What a model would have held of mail
that was delivered before is shown to whoever may see messages.
"""

from typing import Any

import msgspec

from gatepost.api.errors import NOT_FOUND, Failure
from gatepost.store.learning import LEARNING, StoredModel
from gatepost.web.context import WebContext, find_scopes
from gatepost.web.forms import whole_number
from gatepost.web.page_responses import redirect
from gatepost.web.request import NOT_VISIBLE, SignedInRequest
from gatepost.web.routing import PageResult, PageRoute, WebRoute, about

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
    PageRoute("GET", "/learning", show_learning, "learning.read"),
    PageRoute("GET", "/learning/{version}", show_model, "learning.read"),
    PageRoute("POST", "/learning/{version}/rollback", roll_back, "learning.change"),
)
