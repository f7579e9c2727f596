"""Every page and action that there is, each with the permission it asks for."""

from starlette.routing import Route

from gatepost.abby.web import (
    account,
    apikeys,
    auditing,
    customlists,
    entrypages,
    listchanges,
    listexport,
    listimport,
    listpages,
    messages,
    overview,
    policies,
    quarantine,
    replaying,
    scanning,
    signing,
    system,
    tenants,
    users,
)
from gatepost.abby.web.assets import Assets
from gatepost.abby.web.desk import Desk
from gatepost.abby.web.site import Row, routes

PAGES: tuple[Row, ...] = (
    *signing.ROWS,
    *account.ROWS,
    *overview.ROWS,
    *messages.ROWS,
    *replaying.ROWS,
    *quarantine.ROWS,
    *scanning.ROWS,
    *listpages.ROWS,
    *customlists.ROWS,
    *listchanges.ROWS,
    *entrypages.ROWS,
    *listimport.ROWS,
    *listexport.ROWS,
    *apikeys.ROWS,
    *policies.ROWS,
    *tenants.ROWS,
    *users.ROWS,
    *auditing.ROWS,
    *system.ROWS,
)


def web_routes(desk: Desk, assets: Assets) -> list[Route]:
    """All pages, as routes."""
    return routes(desk, assets, PAGES)
