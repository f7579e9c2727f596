"""Every page and action of the web interface, each with the permission it needs, and the site that is made of them."""

import time
from collections.abc import Callable

import msgspec
from starlette.routing import Route

from gatepost.abby.app import ApiServices
from gatepost.abby.authenticator import Guesses
from gatepost.api.responses import ErrorPage
from gatepost.web.context import Installation, WebContext
from gatepost.web.credentials import Passwords
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
from gatepost.web.rendering import PageRenderer
from gatepost.web.responses import Assets, environment
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


class Site(msgspec.Struct, frozen=True):
    """The web interface as a service takes it: the routes of all pages, and the page for failures."""

    routes: list[Route]
    error_page: ErrorPage


def build_site(
    services: ApiServices, installation: Installation | None = None, clock: Callable[[], float] = time.monotonic
) -> Site:
    """Return all pages over the store, cores and policies that the APIs use; `clock` times repeated guesses."""
    assets = Assets()
    renderer = PageRenderer(environment(assets.paths))
    context = WebContext(
        store=services.store,
        cores=services.cores,
        held_mail=services.held_mail,
        spool=services.spool,
        policies=services.policies,
        dry_runs=services.dry_runs,
        exports=services.exports,
        passwords=Passwords(),
        guesses=Guesses(clock),
        renderer=renderer,
        installation=installation or Installation(),
        scan_seconds=services.scan_seconds,
    )
    return Site(routes(context, assets, PAGES), renderer.error_page)
