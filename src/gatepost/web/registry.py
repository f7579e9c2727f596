"""Every page and action that there is, each with the permission it asks for."""

from starlette.routing import Route

from gatepost.web.context import WebContext
from gatepost.web.pages import (
    account,
    api_keys,
    audit,
    custom_lists,
    list_changes,
    list_import,
    lists,
    messages,
    overview,
    policy,
    quarantine,
    scan,
    system,
    tenants,
    users,
)
from gatepost.web.responses import Assets
from gatepost.web.site import Row, routes

PAGES: tuple[Row, ...] = (
    *account.SIGN_IN_PAGES,
    *account.ACCOUNT_PAGES,
    *overview.ROWS,
    *messages.MESSAGE_PAGES,
    *messages.REPLAY_PAGES,
    *quarantine.ROWS,
    *scan.ROWS,
    *lists.LIST_PAGES,
    *custom_lists.ROWS,
    *list_changes.ROWS,
    *lists.ENTRY_PAGES,
    *list_import.ROWS,
    *lists.EXPORT_PAGES,
    *api_keys.ROWS,
    *policy.ROWS,
    *tenants.ROWS,
    *users.ROWS,
    *audit.ROWS,
    *system.ROWS,
)


def web_routes(desk: WebContext, assets: Assets) -> list[Route]:
    """All pages, as routes."""
    return routes(desk, assets, PAGES)
