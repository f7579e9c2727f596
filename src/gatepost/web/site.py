"""Every page in one place, and the door that all of them stand behind.

A row says how a page is asked for, what it does, and what one must be allowed for it. The door checks, in this order:
session, permission, origin, form, token of the form. A change is only ever a POST, it carries the session's token, and
a browser that says it comes from elsewhere (`Sec-Fetch-Site`, `Origin`) is refused before the form is read.
"""

import hmac
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from typing import Literal, TypeAlias
from urllib.parse import quote, urlsplit

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from gatepost.api.errors import FORBIDDEN, Failure
from gatepost.api.responses import Endpoint, Handler
from gatepost.scanning.spool import SpooledBody
from gatepost.store.sessions import WebSession
from gatepost.web.context import WebContext
from gatepost.web.forms import Form, read_form, read_upload
from gatepost.web.rendering import WatchedResponse
from gatepost.web.request import Permission, SignedInRequest, permissions, read_cookie
from gatepost.web.responses import Assets, redirect

IDLE_MILLISECONDS = 2 * 3_600_000

Answer: TypeAlias = Response | Failure
PageHandler: TypeAlias = Callable[[WebContext, SignedInRequest], Awaitable[Answer]]
UploadHandler: TypeAlias = Callable[[WebContext, SignedInRequest, SpooledBody], Awaitable[Answer]]
OpenHandler: TypeAlias = Callable[[WebContext, Request], Awaitable[Answer]]

ELSEWHERE = Failure(FORBIDDEN, "the request comes from another site; nothing was changed")
STALE = Failure(FORBIDDEN, "the form is of another session; go back, load the page again, and send it again")


class Page(msgspec.Struct, frozen=True):
    """One page or action for those who are signed in. `may` None is open to everybody who is."""

    method: Literal["GET", "POST"]
    path: str
    handler: PageHandler
    may: Permission | None = None


class Upload(msgspec.Struct, frozen=True):
    """An action that takes a file of at most `limit` bytes."""

    path: str
    handler: UploadHandler
    may: Permission
    limit: int


class OpenPage(msgspec.Struct, frozen=True):
    """A page for everybody; it guards itself."""

    method: Literal["GET", "POST"]
    path: str
    handler: OpenHandler


Row: TypeAlias = Page | Upload | OpenPage


def routes(desk: WebContext, assets: Assets, rows: tuple[Row, ...]) -> list[Route]:
    """The rows as routes; a HEAD is answered like a GET."""
    made = [Route("/static/{digest}/{name}", Endpoint(assets.serve), methods=["GET"])]
    paths = dict.fromkeys(row.path for row in rows)
    for path in paths:
        handlers = {_method(row): _handler(desk, row) for row in rows if row.path == path}
        made.append(Route(path, Endpoint(_by_method(handlers)), methods=list(handlers)))
    return made


def _method(row: Row) -> str:
    return "POST" if isinstance(row, Upload) else row.method


def _by_method(handlers: dict[str, Handler]) -> Handler:
    def chosen(request: Request) -> Awaitable[Response | Failure | None]:
        return handlers["GET" if request.method == "HEAD" else request.method](request)

    return chosen


def _handler(desk: WebContext, row: Row) -> Handler:
    if isinstance(row, OpenPage):
        return lambda request: _opened(desk, row, request)
    if isinstance(row, Upload):
        return lambda request: _uploaded(desk, row, request)
    return lambda request: _visited(desk, row, request)


async def _opened(desk: WebContext, row: OpenPage, request: Request) -> Answer:
    if row.method == "POST" and not same_origin(request):
        return ELSEWHERE
    return await row.handler(desk, request)


async def _visited(desk: WebContext, row: Page, request: Request) -> Answer:
    session = await _entered(desk, row.may, request)
    if not isinstance(session, WebSession):
        return session
    if row.method == "GET":
        return await row.handler(desk, SignedInRequest(request, session))
    form = await read_form(request)
    if isinstance(form, Failure):
        return form
    return await row.handler(desk, SignedInRequest(request, session, form)) if _is_of(form, session) else STALE


async def _uploaded(desk: WebContext, row: Upload, request: Request) -> Answer:
    session = await _entered(desk, row.may, request)
    if not isinstance(session, WebSession):
        return session
    with ExitStack() as stack:
        body = stack.enter_context(desk.spool.new())
        form = await read_upload(request, body, row.limit)
        if isinstance(form, Failure):
            return form
        body.finish()
        answer = (
            await row.handler(desk, SignedInRequest(request, session, form), body) if _is_of(form, session) else STALE
        )
        if isinstance(answer, WatchedResponse):
            answer.held = stack.pop_all()
        return answer


async def _entered(desk: WebContext, may: Permission | None, request: Request) -> WebSession | Answer:
    session = await session_of(desk, request)
    if session is None or not session.strong:
        return _to_the_door(request)
    if may is not None and may not in permissions(session.user):
        return Failure(FORBIDDEN, f"your role, {session.user.role}, does not open this page")
    if request.method == "POST" and not same_origin(request):
        return ELSEWHERE
    return session


async def session_of(desk: WebContext, request: Request) -> WebSession | None:
    """The session that the request's cookie belongs to."""
    digest = read_cookie(request)
    return await desk.store.session(digest, desk.now(), IDLE_MILLISECONDS) if digest else None


def _to_the_door(request: Request) -> Response:
    if request.method != "GET" or request.url.path == "/":
        return redirect("/sign-in")
    target = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    return redirect(f"/sign-in?next={quote(target[:1000], safe='')}")


def same_origin(request: Request) -> bool:
    """Does a browser say that this comes from one of our own pages? Programs that are no browsers say nothing."""
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        return site in ("same-origin", "none")
    origin = request.headers.get("origin")
    return origin is None or urlsplit(origin).netloc == request.headers.get("host", "")


def _is_of(form: Form, session: WebSession) -> bool:
    return hmac.compare_digest(form.whole("csrf").encode("utf-8", "replace"), session.csrf.encode("ascii"))
