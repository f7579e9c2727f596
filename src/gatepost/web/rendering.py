"""Rendering of pages: the templates with their filters, the navigation, the health note, and the pages for failures.

Templates are compiled once, before anything is served, and kept on disk. Every value is escaped; a
missing name is an error, not a gap. Characters that would act on the page or not show (control characters, direction
overrides) are written out in every value, since any of them may be foreign text. Text with letters that are written
from right to left is isolated (UAX 9 section 3.3.2), so that it cannot turn round what stands beside it. Only what a
form sends back (`form_value`) is left alone: it must come back as it was.

Every page shows the worst of what is known about the health of the service. What the cores say (storage, disk, next
hop, slots, and warnings of certificates, the quarantine, DNS and SMTP) comes with the load that abby asks them for
every few seconds. Feeds and nodes are looked up at most once a minute, when somebody opens a page. Users of a tenant
are told that mail waits, and not why: names of nodes and hosts are the operator's.

Compiling all templates takes 0.7 s of CPU, of 2.6 that a start of the service took, so their code is kept beside the
compiled modules of this package, by the rules of `kept_results`. A template compiles to other code when a filter, a
global or an option of the environment changes, which Jinja's own checksum (the source of the template) does not see. So
a file counts only with the stamp of all modules of this installation: their sizes and times, as Python itself compares
them.
"""

import asyncio
import hashlib
import marshal
import re
import time
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from types import CodeType
from typing import Any, Literal

import jinja2
import msgspec
from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from jinja2.bccache import Bucket, BytecodeCache
from markupsafe import Markup, escape
from starlette.responses import Response

import gatepost
from gatepost.analysis.report import shown_sender
from gatepost.api.errors import Failure
from gatepost.api.http import Headers
from gatepost.process.health import Health
from gatepost.process.kept_results import KeptResult
from gatepost.times import date_time
from gatepost.view.values import escape_block
from gatepost.web.message_lines import attachments, copies_path, links_by_host, short_reason
from gatepost.web.page_responses import html_response, read_notice
from gatepost.web.request import PagePermission, SignedInRequest
from gatepost.web.time_zones import current_zone_name, format_ago, format_brief, format_moment, times_in


class HealthNote(msgspec.Struct, frozen=True):
    """A sentence about what is wrong, how bad it is, and where to read on."""

    level: Literal["bad", "warn"]
    text: str
    path: str = ""


def note_of(health: Health, *, may_know: bool) -> HealthNote | None:
    """Return the worst of a health as this user may read it; None where all is well. People of a tenant are told that
    mail waits and not why, and of no warnings."""
    if not health.reasons or (health.state == "GREEN" and not may_know):
        return None
    worst, more = health.reasons[0], f" ({len(health.reasons) - 1} more)" if len(health.reasons) > 1 else ""
    level: Literal["bad", "warn"] = "bad" if worst.state == "RED" else "warn"
    if may_know:
        return HealthNote(level, f"{worst.sentence[:1].upper()}{worst.sentence[1:]}{more}.", "/system#health")
    return HealthNote(
        level, "No mail can be taken at the moment." if level == "bad" else "Mail is delayed at the moment."
    )


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
    NavigationLink("Alerts", "/alerts", "alerts.read", "Administer"),
    NavigationLink("Nodes", "/nodes", "system.read", "Administer"),
    NavigationLink("System", "/system", "system.read", "Administer"),
)


# How much CPU rendering takes at a time, and how many pieces of a page are made between two looks at the clock.
TURN_SECONDS = 0.002
PIECES_BETWEEN_LOOKS = 8


class PageRenderer:
    """Renders templates with the values that every page needs; `health` returns the worst that is known."""

    def __init__(self, environment: Environment, health: Callable[[], Health]) -> None:
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
        """Generate a page. `here` is the link of the navigation that it belongs to, that of its path unless stated."""
        common = {
            "request": request,
            "user": request.user,
            "csrf": request.session.csrf,
            "navigation": [entry for entry in NAVIGATION if request.may(entry.may)],
            "notice": read_notice(request.http),
            "health": note_of(self._health(), may_know=request.may("system.read")),
            "here": f"/{request.http.url.path.split('/')[1]}",
        }
        return self._environment.get_template(template).generate(common | values)

    def render_public(self, template: str, **values: Any) -> str:
        """Render a page that needs no session, or a fragment of a page."""
        return self._environment.get_template(template).render(request=None, notice=None, **values)

    def error_page(self, failure: Failure, headers: Headers) -> Response:
        """Return the response to a failure, for a browser; it has no navigation, since there may be no session."""
        page = self._environment.get_template("error.html").render(**_describe_failure(failure))
        return _failure_response(page, failure, headers)

    def error_page_in_frame(self, failure: Failure, request: SignedInRequest, frame: Mapping[str, Any]) -> Response:
        """Return the response to a failure for a signed-in user, who keeps the navigation."""
        with times_in(request.user.zone):
            values = {**frame, **_describe_failure(failure)}
            page = "".join(self._generate("error-in-frame.html", request, values))
        wait = failure.error.retry_after
        return _failure_response(page, failure, (*failure.headers, *((("Retry-After", str(wait)),) if wait else ())))


def _describe_failure(failure: Failure) -> dict[str, Any]:
    title = failure.error.code.replace("_", " ").capitalize()
    sentence = failure.message[:1].upper() + failure.message[1:].rstrip(".") + "."
    return {"title": title, "message": sentence, "error": failure.error, "here": ""}


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
        bytecode_cache=CompiledTemplates(),
        cache_size=-1,  # there are as many as files
        finalize=write_out,
    )
    created.globals["asset"] = dict(assets)
    created.globals["zone"] = current_zone_name
    created.globals["shown_sender"] = shown_sender
    created.filters.update(
        moment=format_moment,
        brief=format_brief,
        by=format_actor,
        machine=date_time,
        size=format_size,
        points=format_points,
        count=format_count,
        percent=format_percent,
        ago=format_ago,
        short_reason=short_reason,
        attachments=attachments,
        links_by_host=links_by_host,
        copies_path=copies_path,
        form_value=escape,
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


def format_actor(label: str) -> str:
    """`user:admin` as `admin`; who is no user stays named by kind."""
    return label.removeprefix("user:")


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


class CompiledTemplates(BytecodeCache):
    """Keeps the code of each template in a file; one that cannot be read or written is compiled at every start."""

    def load_bytecode(self, bucket: Bucket) -> None:
        """Take the code of a template from its file; the bucket stays empty without one that fits."""
        content = self._keep(bucket).load()
        if content is None:
            return
        try:
            code = marshal.loads(content)  # noqa: S302  as Python itself reads what it compiled
        except (EOFError, ValueError, TypeError):
            return
        bucket.code = code if isinstance(code, CodeType) else None

    def dump_bytecode(self, bucket: Bucket) -> None:
        if bucket.code is not None:
            self._keep(bucket).save(marshal.dumps(bucket.code))

    def _keep(self, bucket: Bucket) -> KeptResult:
        return KeptResult(__file__, f"template-{bucket.key}", (self._stamp, bucket.checksum.encode()))

    @cached_property
    def _stamp(self) -> bytes:
        """What the code of a template depends on besides its source and Python: Jinja, and the modules of Gatepost."""
        hashed = hashlib.sha256(jinja2.__version__.encode())
        for path in sorted(Path(gatepost.__file__).parent.rglob("*.py")):
            found = path.stat()
            hashed.update(f"\n{path} {found.st_size} {found.st_mtime_ns}".encode())
        return hashed.digest()
