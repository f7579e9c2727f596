"""Learning: the pools of reports, the models that they have taught, with their figures, and the way back.

Administrators of the deployment see every pool, those of a tenant see their own. What a model would have held of mail
that was delivered before is shown to whoever may see messages.
"""

from typing import Any

import msgspec

from gatepost.api.errors import NOT_FOUND, Failure
from gatepost.store.learning import StoredModel
from gatepost.web.context import Scopes, WebContext, find_scopes
from gatepost.web.page_responses import redirect
from gatepost.web.request import NOT_VISIBLE, SignedInRequest
from gatepost.web.routing import PageResult, PageRoute, WebRoute

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
    runs = {run.tenant: run for run in await store.learning.runs()}
    scopes: Scopes = await find_scopes(context, request)
    return await context.page(
        request,
        "learning.html",
        here="/learning",
        pools=pools,
        runs=runs,
        models=[_describe(model) for model in models],
        scopes=scopes,
    )


async def show_model(context: WebContext, request: SignedInRequest) -> PageResult:
    """Show one model with its figures and what it would have held."""
    found = await _find_model(context, request)
    if isinstance(found, Failure):
        return found
    hits = found.look_back.hits if found.look_back and request.may("messages.read") else ()
    return await context.page(
        request,
        "learning-model.html",
        here="/learning",
        one=_describe(found),
        lines=await context.store.messages.lines(hits),
        scopes=await find_scopes(context, request),
    )


async def roll_back(context: WebContext, request: SignedInRequest) -> PageResult:
    """Withdraw a model that takes part; the one before it takes part again."""
    found = await _find_model(context, request)
    if isinstance(found, Failure):
        return found
    if found.state != "current":
        return redirect("/learning", notice="model-not-current")
    await context.store.learning.roll_back(found.tenant, request.actor)
    return redirect("/learning", notice="model-withdrawn")


async def _find_model(context: WebContext, request: SignedInRequest) -> StoredModel | Failure:
    number = request.path_part("version")
    if not (number.isascii() and number.isdigit() and len(number) <= 18):
        return NOT_VISIBLE
    found = await context.store.learning.find_model(int(number))
    if found is None:
        return NO_MODEL
    return found if request.user.tenant in (None, found.tenant) else NO_MODEL


def _describe(model: StoredModel) -> ModelLine:
    return ModelLine(model, msgspec.json.decode(model.figures))


PAGES: tuple[WebRoute, ...] = (
    PageRoute("GET", "/learning", show_learning, "learning.read"),
    PageRoute("GET", "/learning/{version}", show_model, "learning.read"),
    PageRoute("POST", "/learning/{version}/rollback", roll_back, "learning.change"),
)
