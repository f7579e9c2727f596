"""The system page: versions, how everything is, and the settings in force.

The examination is that of `gatepost doctor`; it takes a few seconds, so it runs when somebody asks for it, one at a
time.
"""

import asyncio
import platform
from collections.abc import Sequence

from starlette.responses import Response

from gatepost.api.errors import Failure
from gatepost.store.errors import StorageError
from gatepost.web.context import Diagnosis, WebContext
from gatepost.web.request import SignedInRequest
from gatepost.web.responses import html_response
from gatepost.web.site import Page, Row


async def show(desk: WebContext, visit: SignedInRequest) -> Response | Failure:
    """What runs here, and how it is."""
    return html_response(await _page(desk, visit, ()))


async def examine(desk: WebContext, visit: SignedInRequest) -> Response | Failure:
    """Look at everything."""
    async with desk.examining:
        found = await asyncio.to_thread(desk.installation.examine)
    return html_response(await _page(desk, visit, found))


async def _page(desk: WebContext, visit: SignedInRequest, found: Sequence[Diagnosis]) -> str:
    installation = desk.installation
    return desk.renderer.page(
        "system.html",
        visit,
        here="/system",
        installation=installation,
        python=f"{platform.python_implementation()} {platform.python_version()} on {platform.machine()}",
        now=desk.now(),
        started=int(installation.started * 1000),
        storage=await _storage(desk),
        cores=desk.cores.states,
        status=desk.cores.colour,
        found=found,
    )


async def _storage(desk: WebContext) -> str:
    try:
        await desk.store.tenants()
    except StorageError as fault:
        return str(fault)
    return ""


ROWS: tuple[Row, ...] = (
    Page("GET", "/system", show, "system.read"),
    Page("POST", "/system/examine", examine, "system.read"),
)
