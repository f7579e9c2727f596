"""Rendering of pages: the templates with their filters, the navigation, and the notices.

Templates are compiled once. Every value is escaped; a missing name is an error, not a gap. Characters that would act on
the page or not show (control characters, direction overrides) are written out in every value, since any of them may be
foreign text. Only what a form sends back (`form_value`) keeps them: it must come back as it was. Notices are named by
the word in `?done=`, from a closed set, so that no link can make a page say anything else.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec
from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup, escape
from starlette.responses import Response

from gatepost.api.errors import Failure
from gatepost.api.responses import Headers
from gatepost.times import date_time
from gatepost.view.values import escape_block
from gatepost.web.page_responses import html_response
from gatepost.web.request import PagePermission, SignedInRequest


class NavigationLink(msgspec.Struct, frozen=True):
    """One link of the navigation: its label, its path, and the permission that shows it."""

    name: str
    path: str
    may: PagePermission


NAVIGATION = (
    NavigationLink("Overview", "/", "overview.read"),
    NavigationLink("Messages", "/messages", "messages.read"),
    NavigationLink("Quarantine", "/quarantine", "quarantine.read"),
    NavigationLink("Scan", "/scan", "messages.scan"),
    NavigationLink("Lists", "/lists", "lists.read"),
    NavigationLink("API keys", "/keys", "keys.read"),
    NavigationLink("Policy", "/policy", "policy.read"),
    NavigationLink("Tenants", "/tenants", "tenants.read"),
    NavigationLink("Users", "/users", "users.read"),
    NavigationLink("Learning", "/learning", "learning.read"),
    NavigationLink("Audit trail", "/audit", "audit.read"),
    NavigationLink("Nodes", "/nodes", "system.read"),
    NavigationLink("System", "/system", "system.read"),
)


NOTICES = {
    "signed-out": "You are signed out.",
    "password": "Password changed. All other sessions of this user have ended.",
    "session-ended": "Session ended.",
    "sessions-ended": "All other sessions ended.",
    "totp-on": "Signing in now requires a code from your app. All other sessions of this user have ended.",
    "totp-off": "Signing in no longer requires a code. All other sessions of this user have ended.",
    "model-withdrawn": "The model is withdrawn. All nodes follow within seconds.",
    "model-not-current": "This model did not take part any more; nothing was changed.",
    "key-revoked": "Key revoked. It no longer works.",
    "added": "Entries saved.",
    "deleted": "Deleted.",
    "changed": "Change saved.",
    "list-created": "List created. Add its first entry.",
    "list-deleted": "List and entries deleted.",
    "tenant-created": "Tenant created. Add its domains next.",
    "tenant-deleted": "Tenant deleted, with all its data.",
    "user-created": "User created.",
    "user-deleted": "User deleted.",
    "released": "Released: the next hop has accepted the message.",
    "reported": "Report recorded. Thank you.",
    "blocked": "Blocked from the next message on.",
    "allowed": "Allowed from the next message on.",
}


class PageRenderer:
    """Renders templates with the values that every page needs."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment

    def render(self, template: str, request: SignedInRequest, **values: Any) -> str:
        """Render a page for a signed-in user."""
        return self._environment.get_template(template).render(
            request=request,
            user=request.user,
            csrf=request.session.csrf,
            navigation=[entry for entry in NAVIGATION if request.may(entry.may)],
            notice=NOTICES.get(request.query.text("done"), ""),
            **values,
        )

    def render_public(self, template: str, **values: Any) -> str:
        """Render a page that needs no session, or a fragment of a page."""
        return self._environment.get_template(template).render(request=None, notice="", **values)

    def error_page(self, failure: Failure, headers: Headers) -> Response:
        """Return the response to a failure, for a browser; it has no navigation, since there may be no session."""
        title = failure.error.code.replace("_", " ").capitalize()
        sentence = failure.message[:1].upper() + failure.message[1:].rstrip(".") + "."
        page = self._environment.get_template("error.html").render(title=title, message=sentence, error=failure.error)
        response = html_response(page, failure.error.status)
        response.headers.update(dict(headers))
        return response


_SIZE_UNITS = ("bytes", "KB", "MB", "GB", "TB")


def build_environment(assets: Mapping[str, str]) -> Environment:
    """Return the environment of all templates; `assets` are the paths of style, script and icon by their names."""
    created = Environment(
        loader=PackageLoader("gatepost.web"),
        autoescape=select_autoescape(default_for_string=True, default=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
        finalize=write_out,
    )
    created.globals["asset"] = dict(assets)
    created.filters.update(
        moment=format_moment,
        machine=date_time,
        size=format_size,
        points=format_points,
        count=format_count,
        percent=format_percent,
        ago=format_ago,
        form_value=form_value,
    )
    return created


def write_out(value: Any) -> Any:
    """Return a value as a page shows it. Every expression of every template passes here; markup has passed before."""
    return escape_block(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def form_value(text: str) -> Markup:
    """Return text for the value of a field that is sent back: escaped, and otherwise as it is."""
    return escape(text)


def format_moment(milliseconds: int | None) -> str:
    """A time for people, in UTC; every page says so once."""
    if milliseconds is None:
        return "never"
    return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")


def format_ago(milliseconds: int, now: int) -> str:
    """How long ago a time was, roughly."""
    seconds = max(0, now - milliseconds) // 1000
    for unit, name in ((86_400, "day"), (3_600, "hour"), (60, "minute")):
        if seconds >= unit:
            number = seconds // unit
            return f"{number} {name}{'' if number == 1 else 's'} ago"
    return "just now"


def format_size(number: float) -> str:
    """`1536` as `1.5 KB`."""
    for unit in _SIZE_UNITS[:-1]:
        if number < 1000:
            return f"{number:.0f} {unit}" if number >= 100 else f"{round(number, 1):g} {unit}"
        number /= 1024
    return f"{number:.1f} {_SIZE_UNITS[-1]}"


def format_points(hundredths: int) -> str:
    """`250` as `2.5`."""
    return f"{hundredths / 100:g}"


def format_count(number: int) -> str:
    """`1234567` as `1,234,567`."""
    return f"{number:,}"


def format_percent(part: float, whole: float) -> str:
    """A share, with one decimal where it is small."""
    share = 100 * part / whole if whole else 0.0
    return f"{share:.1f} %" if 0 < share < 10 else f"{share:.0f} %"
