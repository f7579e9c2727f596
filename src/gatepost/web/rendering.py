"""Rendering of pages: the templates with their filters, the navigation, and the pages for failures.

Templates are compiled once, before anything is served. Every value is escaped; a missing name is an error, not a gap.
Characters that would act on the page or not show (control characters, direction overrides) are written out in every
value, since any of them may be foreign text. Text with letters that are written from right to left is isolated (UAX 9
section 3.3.2), so that it cannot turn round what stands beside it. Only what a form sends back (`form_value`) is left
alone: it must come back as it was.
"""

import asyncio
import re
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec
from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup, escape
from starlette.responses import Response

from gatepost.api.errors import Failure
from gatepost.api.responses import Headers
from gatepost.report import shown_sender
from gatepost.times import date_time
from gatepost.view.values import escape_block
from gatepost.web.health_notes import HealthNote, note_for
from gatepost.web.message_lines import attachments, links_by_host, short_reason
from gatepost.web.notices import read_notice
from gatepost.web.page_responses import html_response
from gatepost.web.request import PagePermission, SignedInRequest
from gatepost.web.time_zones import current_zone_name, format_ago, format_moment, times_in


class NavigationLink(msgspec.Struct, frozen=True):
    """One link of the navigation: its label, its path, the permission that shows it, and the group it stands in."""

    name: str
    path: str
    may: PagePermission
    group: str = "Work"


NAVIGATION = (
    NavigationLink("Overview", "/", "overview.read"),
    NavigationLink("Messages", "/messages", "messages.read"),
    NavigationLink("Quarantine", "/quarantine", "quarantine.read"),
    NavigationLink("Requests", "/requests", "quarantine.read"),
    NavigationLink("Scan", "/scan", "messages.scan"),
    NavigationLink("Lists", "/lists", "lists.read", "Configure"),
    NavigationLink("Feeds", "/feeds", "feeds.read", "Configure"),
    NavigationLink("Policy", "/policy", "policy.read", "Configure"),
    NavigationLink("Rules", "/rules", "policy.read", "Configure"),
    NavigationLink("Digests", "/digests", "digests.read", "Configure"),
    NavigationLink("Learning", "/learning", "learning.read", "Configure"),
    NavigationLink("API keys", "/keys", "keys.read", "Administer"),
    NavigationLink("Tenants", "/tenants", "tenants.read", "Administer"),
    NavigationLink("Users", "/users", "users.read", "Administer"),
    NavigationLink("Audit trail", "/audit", "audit.read", "Administer"),
    NavigationLink("Configuration", "/configuration", "system.read", "Administer"),
    NavigationLink("Alerts", "/alerts", "system.read", "Administer"),
    NavigationLink("Nodes", "/nodes", "system.read", "Administer"),
    NavigationLink("System", "/system", "system.read", "Administer"),
)


# How much CPU rendering takes at a time, and how many pieces of a page are made between two looks at the clock.
TURN_SECONDS = 0.002
PIECES_BETWEEN_LOOKS = 8


def compile_templates(environment: Environment) -> None:
    """Compile all templates of an environment, which keeps them."""
    for name in environment.list_templates():
        environment.get_template(name)


class PageRenderer:
    """Renders templates with the values that every page needs; `health` returns the worst that is known."""

    def __init__(self, environment: Environment, health: Callable[[], HealthNote | None] = lambda: None) -> None:
        self._environment, self._health = environment, health

    async def render_in_turns(self, template: str, request: SignedInRequest, **values: Any) -> str:
        """Render a page for a signed-in user, with times in the zone of the user, and let others have the event loop
        after each turn: mail decides how long many pages are."""
        pieces: list[str] = []
        with times_in(request.user.zone):
            end = time.thread_time() + TURN_SECONDS
            for piece in self._generate(template, request, values):
                pieces.append(piece)
                if len(pieces) % PIECES_BETWEEN_LOOKS == 0 and time.thread_time() > end:
                    await asyncio.sleep(0)
                    end = time.thread_time() + TURN_SECONDS
        return "".join(pieces)

    def _generate(self, template: str, request: SignedInRequest, values: dict[str, Any]) -> Iterator[str]:
        return self._environment.get_template(template).generate(
            request=request,
            user=request.user,
            csrf=request.session.csrf,
            navigation=[entry for entry in NAVIGATION if request.may(entry.may)],
            notice=read_notice(request.http),
            health=note_for(self._health(), may_know=request.may("system.read")),
            **values,
        )

    def render_public(self, template: str, **values: Any) -> str:
        """Render a page that needs no session, or a fragment of a page."""
        return self._environment.get_template(template).render(request=None, notice=None, **values)

    def error_page(self, failure: Failure, headers: Headers) -> Response:
        """Return the response to a failure, for a browser; it has no navigation, since there may be no session."""
        page = self._environment.get_template("error.html").render(**_describe_failure(failure))
        return _failure_response(page, failure, headers)

    def error_page_in_frame(self, failure: Failure, request: SignedInRequest) -> Response:
        """Return the response to a failure for a signed-in user, who keeps the navigation."""
        with times_in(request.user.zone):
            page = "".join(self._generate("error-in-frame.html", request, _describe_failure(failure)))
        wait = failure.error.retry_after
        return _failure_response(page, failure, (*failure.headers, *((("Retry-After", str(wait)),) if wait else ())))


def _describe_failure(failure: Failure) -> dict[str, Any]:
    title = failure.error.code.replace("_", " ").capitalize()
    sentence = failure.message[:1].upper() + failure.message[1:].rstrip(".") + "."
    return {"title": title, "message": sentence, "error": failure.error}


def _failure_response(page: str, failure: Failure, headers: Headers) -> Response:
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
        cache_size=-1,  # there are as many as files
        finalize=write_out,
    )
    created.globals["asset"] = dict(assets)
    created.globals["zone"] = current_zone_name
    created.globals["shown_sender"] = shown_sender
    created.filters.update(
        moment=format_moment,
        machine=date_time,
        size=format_size,
        points=format_points,
        count=format_count,
        percent=format_percent,
        ago=format_ago,
        short_reason=short_reason,
        attachments=attachments,
        links_by_host=links_by_host,
        form_value=form_value,
    )
    return created


# Scripts that are written from right to left (UAX 9, classes R and AL), and digits that go with them (AN).
_RIGHT_TO_LEFT = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefe\U00010800-\U00010fff\U0001e800-\U0001efff]")
_ISOLATE, _END_OF_ISOLATE = "\u2068", "\u2069"


def write_out(value: Any) -> Any:
    """Return a value as a page shows it. Every expression of every template passes here; markup has passed before."""
    if not isinstance(value, str) or isinstance(value, Markup):
        return value
    if value.isascii() and value.isprintable():
        return value
    shown = escape_block(value)
    if shown.isascii() or not _RIGHT_TO_LEFT.search(shown):
        return shown
    # A line break ends an isolate, so each line has its own.
    return "\n".join(f"{_ISOLATE}{line}{_END_OF_ISOLATE}" for line in shown.split("\n"))


def form_value(text: str) -> Markup:
    """Return text for the value of a field that is sent back: escaped, and otherwise as it is."""
    return escape(text)


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
