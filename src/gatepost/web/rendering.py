"""The ways through the interface, in the order in which people need them.

What a page says after a change, by the word in `?done=`. A closed set: no address makes a page
say anything else.

Long work that a browser watches: percents, each on a line of its own, then an empty line, then the page.

Only a script asks for that (`Accept: text/x-progress`); without one the same page comes when the work is done. Whoever
leaves meanwhile does not stop the work.

Pages for people who are signed in: what every one of them shows, and the values that only it has.
"""

from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from typing import Any, TypeAlias

import msgspec
from jinja2 import Environment
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from gatepost.api.errors import Failure
from gatepost.api.responses import Headers
from gatepost.web.request import Permission, SignedInRequest
from gatepost.web.responses import PAGE_HEADERS, html_response


class Entry(msgspec.Struct, frozen=True):
    """One way: its name, where it leads, for whom."""

    name: str
    path: str
    may: Permission


ENTRIES = (
    Entry("Overview", "/", "overview.read"),
    Entry("Messages", "/messages", "messages.read"),
    Entry("Quarantine", "/quarantine", "quarantine.read"),
    Entry("Scan", "/scan", "messages.scan"),
    Entry("Lists", "/lists", "lists.read"),
    Entry("API keys", "/keys", "keys.read"),
    Entry("Policy", "/policy", "policy.read"),
    Entry("Tenants", "/tenants", "tenants.read"),
    Entry("Users", "/users", "users.read"),
    Entry("Audit trail", "/audit", "audit.read"),
    Entry("System", "/system", "system.read"),
)


NOTICES = {
    "signed-out": "You are signed out.",
    "password": "The password is changed. Other sessions of this user have ended.",
    "session-ended": "The session has ended.",
    "sessions-ended": "All other sessions have ended.",
    "totp-on": "Signing in now needs a code of your app.",
    "totp-off": "Signing in needs no code any more.",
    "key-revoked": "The key is revoked. Nothing can use it any more.",
    "added": "The entries are in the list.",
    "deleted": "Deleted.",
    "changed": "The change is saved.",
    "list-created": "The list is there; add its first entry.",
    "list-deleted": "The list and its entries are deleted.",
    "tenant-created": "The tenant is there. Give it its domains.",
    "tenant-deleted": "The tenant and all that was its own are deleted.",
    "user-created": "The user can sign in.",
    "user-deleted": "The user is deleted.",
    "released": "Released: the next hop has it.",
    "reported": "Thank you. The report is on record.",
    "blocked": "Blocked: the entry holds from the next message on.",
    "allowed": "Allowed: the entry holds from the next message on.",
}


PROGRESS = "text/x-progress"

ReportProgress: TypeAlias = Callable[[int], Awaitable[None]]


def is_watched(request: Request) -> bool:
    """Does a script of ours ask?"""
    return PROGRESS in request.headers.get("accept", "")


async def ignore_progress(_percent: int) -> None:
    """Nobody watches."""


class WatchedResponse(Response):
    """Does its work while it is sent. What the work needs open until then is in `held`."""

    def __init__(self, work: Callable[[ReportProgress], Awaitable[str]]) -> None:
        super().__init__(headers=PAGE_HEADERS, media_type=PROGRESS)
        del self.headers["content-length"]
        self._work = work
        self.held = ExitStack()

    async def __call__(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        with self.held:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})

            async def told(percent: int) -> None:
                await send({"type": "http.response.body", "body": b"%d\n" % percent, "more_body": True})

            page = await self._work(told)
            await send({"type": "http.response.body", "body": b"\n" + page.encode("utf-8", "replace")})


class PageRenderer:
    """Templates to text."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment

    def page(self, template: str, visit: SignedInRequest, **values: Any) -> str:
        """A page for somebody who is signed in."""
        return self._environment.get_template(template).render(
            visit=visit,
            user=visit.user,
            csrf=visit.session.csrf,
            navigation=[entry for entry in ENTRIES if visit.may(entry.may)],
            notice=NOTICES.get(visit.query.text("done"), ""),
            **values,
        )

    def plain(self, template: str, **values: Any) -> str:
        """A page for anybody, or a piece of one."""
        return self._environment.get_template(template).render(visit=None, notice="", **values)

    def error_page(self, failure: Failure, headers: Headers) -> Response:
        """The response to a failure, for a browser; it is outside the frame of the signed-in pages."""
        title = failure.error.code.replace("_", " ").capitalize()
        sentence = failure.message[:1].upper() + failure.message[1:].rstrip(".") + "."
        page = self._environment.get_template("error.html").render(title=title, message=sentence, error=failure.error)
        response = html_response(page, failure.error.status)
        response.headers.update(dict(headers))
        return response
