"""The checklist of the first days, on the overview of administrators: what is left to do, with a link to each.

An item is done when what it asks for is there. Items that do not apply can be dismissed, for all administrators.
"""

import msgspec
from starlette.responses import Response

from gatepost.api.errors import Failure
from gatepost.store.message_plans import MessageFilter
from gatepost.store.users import User
from gatepost.web.context import WebContext
from gatepost.web.page_responses import redirect
from gatepost.web.request import NOT_VISIBLE, SignedInRequest
from gatepost.web.routing import PageRoute, WebRoute

ALL = "all"
DEFAULT_RETENTION = "30"


class ChecklistItem(msgspec.Struct, frozen=True):
    """Something to do: what, why, and the page for it."""

    name: str
    text: str
    why: str
    path: str
    is_done: bool = False


ITEMS: dict[str, ChecklistItem] = {
    each.name: each
    for each in (
        ChecklistItem(
            "password", "Choose your own password", "the first one was printed, and may be in a log", "/account"
        ),
        ChecklistItem("second-factor", "Set up a second factor", "a stolen password is then not enough", "/account"),
        ChecklistItem(
            "own-domains", "Enter your own domains", "mail that imitates them is found", "/lists/global/own-domains"
        ),
        ChecklistItem(
            "protected-people",
            "Enter people whose names strangers may not bear",
            "executives and whoever pays invoices",
            "/lists/global/protected-people",
        ),
        ChecklistItem("mail", "Connect a mail server or a program", "no message was scanned yet", "/tokens"),
        ChecklistItem(
            "retention", "Decide how long results and held mail are kept", "30 days unless set", "/configuration"
        ),
        ChecklistItem(
            "public-url",
            "Set the address of these pages (publicUrl)",
            "links in digests and alerts need it",
            "/configuration",
        ),
    )
}


async def find_checklist(context: WebContext, request: SignedInRequest) -> list[ChecklistItem]:
    """Return the items that were not dismissed; none for whoever cannot do them, or where all are done."""
    if request.user.tenant or not request.may("system.change"):
        return []
    dismissed = await context.store.publishing.dismissed_items()
    if ALL in dismissed:
        return []
    done = await _find_done(context, request.user)
    items = [
        msgspec.structs.replace(item, is_done=name in done) for name, item in ITEMS.items() if name not in dismissed
    ]
    return [] if all(item.is_done for item in items) else items


async def _find_done(context: WebContext, user: User) -> set[str]:
    settings = {key: value for _, key, value in context.installation.settings}
    sizes = {state.definition.name: state.size for state in await context.store.lists.all(None)}
    facts = {
        "password": not (user.must_change or user.first_password),
        "second-factor": user.has_second_factor or user.external is not None,
        "own-domains": sizes.get("own-domains", 0) > 0
        or any(each.domains for each in await context.store.tenants.all()),
        "protected-people": sizes.get("protected-people", 0) > 0,
        "mail": bool((await context.store.messages.search(MessageFilter(), limit=1)).rows),
        "retention": any(
            settings.get(key, DEFAULT_RETENTION) != DEFAULT_RETENTION
            for key in ("history.retention", "quarantine.retention")
        ),
        "public-url": any(key == "publicUrl" and value != "not set" for _, key, value in context.installation.settings),
    }
    return {name for name, is_done in facts.items() if is_done}


async def dismiss(context: WebContext, request: SignedInRequest) -> Response | Failure:
    """Dismiss an item, or all of them."""
    name = request.form.text("name", 30)
    if name not in ITEMS and name != ALL:
        return NOT_VISIBLE
    await context.store.publishing.dismiss_item(name, request.actor)
    return redirect("/", notice="item-dismissed")


PAGES: tuple[WebRoute, ...] = (PageRoute("POST", "/checklist/dismiss", dismiss, "system.change"),)
