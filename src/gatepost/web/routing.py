"""The routes of the web interface, and the checks that every request passes before its page function runs.

A route says how a page is requested, which function renders it, and which permission it needs. The checks are, in this
order: session, permission, origin, form, token of the form. A change is always a POST with the session's token, and a
request that a browser sends from another site (`Sec-Fetch-Site`, `Origin`) is refused before its form is read.
"""

import hmac
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from typing import Literal, TypeAlias, TypeVar
from urllib.parse import quote, urlsplit

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from gatepost.api.call_limits import CallKind
from gatepost.api.errors import FORBIDDEN, Failure
from gatepost.api.http import CallBesideMail, Endpoint, ErrorPage, Handler, Headers, end_with_client
from gatepost.scanning.spool import SpooledBody
from gatepost.store.errors import StorageError
from gatepost.store.sessions import WebSession
from gatepost.web.context import WebContext
from gatepost.web.forms import LONG_TEXT, SIGNED_IN, STRANGER, Form, Unsent, keep_unsent, read_form, read_upload
from gatepost.web.page_responses import (
    NOTICE_COOKIE,
    NOTICES,
    Assets,
    ProgressResponse,
    html_response,
    is_progress_wanted,
    redirect,
)
from gatepost.web.request import COOKIE_NAME, ROLES, PagePermission, SignedInRequest, drop_cookie, read_secret
from gatepost.web.second_factors import SecondFactors
from gatepost.web.time_zones import times_in

IDLE_MILLISECONDS = 2 * 3_600_000

PageResult: TypeAlias = Response | Failure
PageHandler: TypeAlias = Callable[[WebContext, SignedInRequest], Awaitable[PageResult]]
UploadHandler: TypeAlias = Callable[[WebContext, SignedInRequest, SpooledBody], Awaitable[PageResult]]
PublicHandler: TypeAlias = Callable[[WebContext, Request], Awaitable[PageResult]]

T = TypeVar("T")


def about(
    find: Callable[[WebContext, SignedInRequest], Awaitable[T | Failure]],
) -> Callable[[Callable[[WebContext, SignedInRequest, T], Awaitable[PageResult]]], PageHandler]:
    """Return a decorator for handlers of pages that are about one thing, such as a list that the path names: `find`
    looks for it, and where it fails, that is the answer."""

    def decorate(handler: Callable[[WebContext, SignedInRequest, T], Awaitable[PageResult]]) -> PageHandler:
        async def handle(context: WebContext, request: SignedInRequest) -> PageResult:
            found = await find(context, request)
            return found if isinstance(found, Failure) else await handler(context, request, found)

        return handle

    return decorate


CROSS_SITE = Failure(FORBIDDEN, "the request comes from another site; nothing was saved")
STALE_FORM = Failure(FORBIDDEN, "your session has changed. Reload the page and try again; nothing was saved")


class PageRoute(msgspec.Struct, frozen=True):
    """One page or action for signed-in users. `may` None needs no permission besides the session. `limited` is what it
    counts as among the calls of which only so many run at once. What a page asks for by itself `is_polled`: it is no
    use of the session, which ends all the same. What comes `before_setup` opens to users who have something to do
    first. A form that `has_long_text` may be larger than others: a policy, or a list that was pasted."""

    method: Literal["GET", "POST"]
    path: str
    handler: PageHandler
    may: PagePermission | None = None
    limited: CallKind | None = None
    is_polled: bool = False
    before_setup: bool = False
    has_long_text: bool = False


class UploadRoute(msgspec.Struct, frozen=True):
    """An action that takes an uploaded file of at most `limit` bytes; `limited` as for a page."""

    path: str
    handler: UploadHandler
    may: PagePermission
    limit: int
    limited: CallKind | None = None
    method: Literal["POST"] = "POST"


class PublicRoute(msgspec.Struct, frozen=True):
    """A page that needs no session, such as the one for signing in."""

    method: Literal["GET", "POST"]
    path: str
    handler: PublicHandler


WebRoute: TypeAlias = PageRoute | UploadRoute | PublicRoute


def build_routes(context: WebContext, assets: Assets, pages: tuple[WebRoute, ...]) -> list[Route]:
    """Return the routes for Starlette; a HEAD is answered like a GET."""
    routes = [Route("/static/{digest}/{name}", Endpoint(assets.serve), methods=["GET"])]
    paths = dict.fromkeys(page.path for page in pages)
    for path in paths:
        handlers: dict[str, Handler] = {
            page.method: _build_handler(context, page) for page in pages if page.path == path
        }
        routes.append(Route(path, CallBesideMail(_dispatch_by_method(handlers)), methods=list(handlers)))
    return routes


def _dispatch_by_method(handlers: dict[str, Handler]) -> Handler:
    def dispatch(request: Request) -> Awaitable[Response | Failure | None]:
        return handlers["GET" if request.method == "HEAD" else request.method](request)

    return dispatch


def _build_handler(context: WebContext, page: WebRoute) -> Handler:
    if isinstance(page, PublicRoute):
        return lambda request: _answer_public(context, page, request)
    if isinstance(page, UploadRoute):
        return lambda request: _answer_upload(context, page, request)
    return lambda request: _answer_page(context, page, request)


async def _answer_public(context: WebContext, page: PublicRoute, request: Request) -> PageResult:
    if page.method == "POST" and not is_same_origin(request):
        return CROSS_SITE
    return await page.handler(context, request)


async def _answer_page(context: WebContext, page: PageRoute, request: Request) -> PageResult:
    signed_in = await _authorize(context, page.may, request, is_use=not page.is_polled, before_setup=page.before_setup)
    if not isinstance(signed_in, SignedInRequest):
        return signed_in
    with ExitStack() as stack:
        # From the first byte of a form on: reading a large one costs as well.
        if too_many := _count_call(context, page, signed_in, stack):
            return await _in_frame(context, too_many, signed_in)
        if page.method == "POST":
            form = await read_form(request, LONG_TEXT if page.has_long_text else SIGNED_IN)
            if isinstance(form, Failure) or not _has_session_token(form, signed_in.session):
                return await _in_frame(context, form if isinstance(form, Failure) else STALE_FORM, signed_in)
            signed_in = msgspec.structs.replace(signed_in, form=form)
        stack.enter_context(times_in(signed_in.user.zone))
        work = page.handler(context, signed_in)
        # A search or a dry run that changes nothing ends with its client.
        is_read = page.limited and page.method == "GET"
        found = await end_with_client(request.receive, work) if is_read else await work
        answer = await _in_frame(context, found, signed_in)
    return answer if page.is_polled else _after_notice(answer, request)


async def _in_frame(context: WebContext, answer: PageResult, request: SignedInRequest) -> PageResult:
    """Return a failure as a page with the navigation, for a browser; everything else as it is."""
    if isinstance(answer, Failure) and "text/html" in request.http.headers.get("accept", ""):
        return await context.error_page(answer, request)
    return answer


def build_error_page(context: WebContext) -> ErrorPage:
    """Return what answers failures that no page function has seen, such as an address that does not exist: whoever is
    signed in keeps the navigation, and everybody else gets a page that says nothing of the site."""

    async def answer(failure: Failure, headers: Headers, request: Request) -> Response:
        # Where the service itself is at fault, storage is not asked who this is.
        session = await _find_user(context, request) if failure.error.status < 500 else None
        if session is None:
            return context.renderer.error_page(failure, headers)
        return await context.error_page(failure, SignedInRequest(request, session))

    return answer


async def _find_user(context: WebContext, request: Request) -> WebSession | None:
    """Return the session of a user who has nothing to do before the pages open."""
    try:
        session = await find_session(context, request, is_use=False)
    except StorageError:
        return None
    if session is None or not session.strong or context.sign_in.next_step(session.user):
        return None
    return session


def _after_notice(answer: PageResult, request: Request) -> PageResult:
    """Clear the notice that a page has shown. A script that sends a form asks for the page once more."""
    if NOTICE_COOKIE not in request.cookies or isinstance(answer, Failure) or is_progress_wanted(request):
        return answer
    is_page = answer.status_code != 303 and answer.media_type == "text/html"
    return drop_cookie(answer, NOTICE_COOKIE) if is_page else answer


async def _answer_upload(context: WebContext, page: UploadRoute, request: Request) -> PageResult:
    signed_in = await _authorize(context, page.may, request)
    if not isinstance(signed_in, SignedInRequest):
        return signed_in
    with ExitStack() as stack:
        # From the first byte on: an import, which goes on while its answer is sent, counts until it has ended.
        if too_many := _count_call(context, page, signed_in, stack):
            return await _in_frame(context, too_many, signed_in)
        body = stack.enter_context(context.spool.new())
        stack.enter_context(times_in(signed_in.user.zone))
        form = await read_upload(request, body, page.limit)
        if isinstance(form, Failure) or not _has_session_token(form, signed_in.session):
            return await _in_frame(context, form if isinstance(form, Failure) else STALE_FORM, signed_in)
        await body.finish()
        signed_in = msgspec.structs.replace(signed_in, form=form)
        answer = await _in_frame(context, await page.handler(context, signed_in, body), signed_in)
        if isinstance(answer, ProgressResponse):
            answer.resources = stack.pop_all()
        return answer


def _count_call(
    context: WebContext, page: PageRoute | UploadRoute, request: SignedInRequest, stack: ExitStack
) -> Failure | None:
    """Count a call of a page that is limited until `stack` ends; a failure where there are too many already."""
    call = context.limits.begin(page.limited, request.party) if page.limited else None
    if isinstance(call, Failure):
        return call
    if call:
        stack.enter_context(call)
    return None


def _explain_refusal(request: SignedInRequest, may: PagePermission) -> str:
    """Return who cannot use a page, and who can."""
    role = request.user.role
    if request.user.tenant and may in ROLES.get(role, ()):
        return f"{role}s of one tenant cannot use this page. It is for {role}s of the whole deployment: ask one of them"
    others = [f"{name}s" for name, allowed in ROLES.items() if may in allowed]
    can = f"{', '.join(others[:-1])} and {others[-1]}" if len(others) > 1 else "".join(others)
    return f"{role}s cannot use this page. {can[:1].upper()}{can[1:]} can: ask one of them"


async def _authorize(
    context: WebContext,
    may: PagePermission | None,
    request: Request,
    *,
    is_use: bool = True,
    before_setup: bool = False,
) -> SignedInRequest | PageResult:
    session = await find_session(context, request, is_use=is_use)
    if session is None or not session.strong:
        return await _ask_to_sign_in(context, request)
    if not before_setup and context.sign_in.next_step(session.user):
        return redirect("/account/setup")
    signed_in = SignedInRequest(request, session)
    if may is not None and not signed_in.may(may):
        said = _explain_refusal(signed_in, may)
        return await _in_frame(context, Failure(FORBIDDEN, said), signed_in)
    if request.method == "POST" and not is_same_origin(request):
        return await _in_frame(context, CROSS_SITE, signed_in)
    return signed_in


async def find_session(context: WebContext, request: Request, *, is_use: bool = True) -> WebSession | None:
    """Return the session that the request's cookie belongs to; None too where its user may not sign in any more."""
    digest = read_secret(request, COOKIE_NAME)
    if digest is None:
        return None
    session = await context.store.sessions.find(digest, context.now(), IDLE_MILLISECONDS, is_use=is_use)
    return session if session and context.sign_in.accepts(session.user) else None


async def _ask_to_sign_in(context: WebContext, request: Request) -> PageResult:
    """Redirect to the form for signing in. What a form of ours brought along is kept in that form, and can be sent
    again afterwards: a session may end while somebody types."""
    if request.method == "GET":
        target = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        return redirect("/sign-in" if target == "/" else f"/sign-in?next={quote(target[:1000], safe='')}")
    if not is_same_origin(request):
        return CROSS_SITE
    form = await read_form(request, STRANGER)
    unsent = Unsent() if isinstance(form, Failure) else keep_unsent(request.url.path, request.url.query, form)
    return sign_in_page(context, fault=NOTICES["session-over"], unsent=unsent)


def sign_in_page(
    context: WebContext,
    target: str = "",
    second: SecondFactors | None = None,
    *,
    fault: str = "",
    name: str = "",
    done: str = "",
    unsent: Unsent | None = None,
    has_left: bool = False,
) -> Response:
    """Return the form for signing in: with name and password, or with a `second` factor of somebody who gave these."""
    page = context.renderer.render_public(
        "sign-in.html",
        **context.sign_in_ways,
        second=second,
        next=target,
        fault=fault,
        name=name,
        done=done,
        unsent=unsent or Unsent(),
        has_left=has_left,
    )
    return html_response(page, 401 if fault else 200)


def is_same_origin(request: Request) -> bool:
    """Does the browser say that the request comes from one of our own pages? Other clients say nothing and pass."""
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        return site in ("same-origin", "none")
    origin = request.headers.get("origin")
    return origin is None or _is_own_origin(origin, request)


def _is_own_origin(origin: str, request: Request) -> bool:
    """Is this the origin of our own pages (RFC 6454 section 4)? Behind a proxy that ends TLS the request comes as http
    and the page as https; the other way round never is our own."""
    try:
        parts = urlsplit(origin)
    except ValueError:
        return False
    return parts.scheme in ("https", request.url.scheme) and parts.netloc == request.headers.get("host", "")


def _has_session_token(form: Form, session: WebSession) -> bool:
    return hmac.compare_digest(form.raw_text("csrf").encode("utf-8", "replace"), session.csrf.encode("ascii"))
