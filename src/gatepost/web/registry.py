"""The web interface as a whole: every page and action, and the site that a service serves."""

from functools import cache

import msgspec
from jinja2 import Environment
from starlette.routing import Route

from gatepost.abby.app import ApiServices
from gatepost.api.http import ErrorPage
from gatepost.events.stream import NO_EVENTS, Emits
from gatepost.mailboxes.removal import MailRemover
from gatepost.web.context import Installation, SignInRules, WebContext
from gatepost.web.credentials import PasswordHashes
from gatepost.web.openid import OpenidClient
from gatepost.web.page_responses import Assets
from gatepost.web.pages import (
    access,
    account,
    alerts,
    audit,
    configuration,
    digests,
    feeds,
    list_changes,
    lists,
    message_entries,
    messages,
    overview,
    policy,
    quarantine,
    rules,
    searches,
    sign_in,
    system,
)
from gatepost.web.rendering import (
    PageRenderer,
    build_environment,
)
from gatepost.web.routing import WebRoute, build_error_page, build_routes
from gatepost.web.time_zones import zone_names

PAGES: tuple[WebRoute, ...] = (
    *sign_in.PAGES,
    *account.PAGES,
    *overview.PAGES,
    *searches.PAGES,
    *messages.PAGES,
    *message_entries.PAGES,
    *quarantine.PAGES,
    *digests.PAGES,
    *lists.PAGES,
    *list_changes.PAGES,
    *feeds.PAGES,
    *policy.PAGES,
    *rules.PAGES,
    *access.PAGES,
    *audit.PAGES,
    *configuration.PAGES,
    *system.PAGES,
    *alerts.PAGES,
)


class Site(msgspec.Struct, frozen=True):
    """The web interface as a service takes it: the routes of all pages, and the page for failures."""

    routes: list[Route]
    error_page: ErrorPage


@cache
def _assets_and_environment() -> tuple[Assets, Environment]:
    """Static files and templates: one of each for the process, whatever its settings are."""
    assets = Assets()
    return assets, build_environment(assets.paths)


def prepare_pages() -> None:
    """Compile what pages need. A template takes up to 0.1 s of CPU, which is to be spent off the event loop, before
    anybody asks for its page."""
    _, environment = _assets_and_environment()
    for name in environment.list_templates():
        environment.get_template(name)
    zone_names()


def build_site(
    services: ApiServices,
    installation: Installation | None = None,
    events: Emits = NO_EVENTS,
    rules: SignInRules | None = None,
    openid: OpenidClient | None = None,
    public_url: str | None = None,
    remover: MailRemover | None = None,
) -> Site:
    """Return all pages over the store, cores and policies that the APIs use; `events` is told of sign-ins, `rules`
    say who may sign in, `openid` is the way through a provider, `public_url` the address that people use, and
    `remover` what takes mail out of mailboxes."""
    assets, environment = _assets_and_environment()
    renderer = PageRenderer(environment, lambda: services.cores.health)
    context = WebContext(
        store=services.store,
        cores=services.cores,
        held_mail=services.held_mail,
        spool=services.spool,
        in_force=services.policies,
        dry_runs=services.dry_runs,
        exports=services.exports,
        limits=services.limits,
        passwords=PasswordHashes(),
        guesses=services.guesses.pages,
        renderer=renderer,
        installation=installation or Installation(),
        scan_seconds=services.scan_seconds,
        sign_in=rules or SignInRules(),
        openid=openid,
        public_url=public_url,
        remover=remover,
        events=events,
    )
    return Site(build_routes(context, assets, PAGES), build_error_page(context))
