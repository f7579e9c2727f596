"""Signing in and out: name and password, then a code where the user has an app for it.

Guessing is slowed down twice: for each address, as with tokens, and for each user, whose account closes for a while
that doubles. Whatever is wrong, the answer is the same sentence. A session is made anew at each step, so a cookie that
somebody planted before is never the one that is let in.
"""

import asyncio
from urllib.parse import urlsplit

import structlog
from starlette.requests import Request
from starlette.responses import Response

from gatepost.abby.credentials import address_of
from gatepost.abby.web import cookies, totp
from gatepost.abby.web.answers import html, see
from gatepost.abby.web.desk import Desk
from gatepost.abby.web.forms import Form, query, read_form
from gatepost.abby.web.notices import NOTICES
from gatepost.abby.web.site import IDLE_MILLISECONDS, OpenPage, Page, Row, session_of
from gatepost.abby.web.visit import Visit
from gatepost.api.errors import Failure
from gatepost.store.audit import Actor
from gatepost.store.users import Credentials, User

SESSION_SECONDS = 12 * 3600
CODE_SECONDS = 300
WRONG = "Name or password is wrong, or the account is closed for a while after too many tries."
WRONG_CODE = "That code is not the one of now, or was used before. Wait for the next one."

log = structlog.get_logger("gatepost.abby")


async def show(desk: Desk, request: Request) -> Response | Failure:
    """The form, or the way on for who is in already."""
    session = await session_of(desk, request)
    asked = query(request.url.query)
    if session and session.strong:
        return see(_target(asked.text("next")))
    done = NOTICES.get(asked.text("done"), "")
    return _form(desk, asked.text("next"), session is not None and not asked.has("again"), done=done)


async def enter(desk: Desk, request: Request) -> Response | Failure:
    """Name and password."""
    form = await read_form(request)
    if isinstance(form, Failure):
        return form
    found = await desk.store.credentials(form.text("name"))
    right = await desk.passwords.right(found.password if found else None, form.whole("password"))
    if not found or not right or _closed(desk, found):
        return await _refused(desk, request, form, found, right=right)
    return await _let_in(desk, request, found.user, form, strong=not found.user.totp)


async def enter_code(desk: Desk, request: Request) -> Response | Failure:
    """The second factor, for a session that has only the first."""
    form = await read_form(request)
    if isinstance(form, Failure):
        return form
    session = await session_of(desk, request)
    if session is None or session.strong:
        return see("/sign-in")
    found = await desk.store.credentials(session.user.name)
    if found is None or _closed(desk, found) or not await _code_fits(desk, found, form.text("code", 20)):
        return await _refused(desk, request, form, found, right=False, code=True)
    await desk.store.end_session(session.id, Actor("user", session.user.name, session.user.uid), session.user.uid)
    return await _let_in(desk, request, session.user, form, strong=True)


async def leave(desk: Desk, visit: Visit) -> Response | Failure:
    """End this session."""
    await desk.store.end_session(visit.session.id, visit.actor, visit.user.uid)
    return cookies.take_back(see("/sign-in?done=signed-out"))


def _closed(desk: Desk, found: Credentials) -> bool:
    return found.user.disabled or found.locked_until > desk.now()


async def _code_fits(desk: Desk, found: Credentials, typed: str) -> bool:
    step = totp.step_of(found.totp_secret, typed, desk.clock()) if found.totp_secret else None
    return step is not None and await desk.store.use_totp_step(found.user.uid, step)


async def _refused(
    desk: Desk, request: Request, form: Form, found: Credentials | None, *, right: bool, code: bool = False
) -> Response:
    address = address_of(request)
    log.warning("sign-in refused", name=form.text("name", 100), address=address, known=found is not None)
    # Who is locked out learns nothing from a right password, and does not make it worse with one.
    if found and not right:
        await desk.store.note_failure(found.user.uid, desk.now())
    if delay := desk.guesses.delay(address, None):
        await asyncio.sleep(delay)
    return _form(desk, form.text("next"), code, fault=WRONG_CODE if code else WRONG, name=form.text("name", 100))


async def _let_in(desk: Desk, request: Request, user: User, form: Form, *, strong: bool) -> Response:
    secret, digest = cookies.new_secret()
    seconds = SESSION_SECONDS if strong else CODE_SECONDS
    await desk.store.create_session(
        user.uid,
        digest,
        expires=desk.now() + seconds * 1000,
        address=request.client.host if request.client else "",
        agent=request.headers.get("user-agent", "")[:300],
        strong=strong,
    )
    if not strong:
        return cookies.give(_form(desk, form.text("next"), code=True), secret, seconds)
    await desk.store.note_sign_in(user.uid, desk.now())
    await desk.store.purge_sessions(desk.now(), IDLE_MILLISECONDS)
    log.info("signed in", user=user.name)
    return cookies.give(see(_target(form.text("next"))), secret, seconds)


def _form(desk: Desk, target: str, code: bool, *, fault: str = "", name: str = "", done: str = "") -> Response:
    page = desk.renderer.plain("sign-in.html", code=code, next=target, fault=fault, name=name, done=done)
    return html(page, 401 if fault else 200)


def _target(wanted: str) -> str:
    """Where to go then: a path of ours and nothing else. `//host` and `/\\host` are other hosts to a browser."""
    parts = urlsplit(wanted)
    inside = wanted.startswith("/") and not wanted.startswith(("//", "/\\")) and not parts.netloc
    return wanted if inside and wanted.isprintable() and not wanted.startswith("/sign-") else "/"


ROWS: tuple[Row, ...] = (
    OpenPage("GET", "/sign-in", show),
    OpenPage("POST", "/sign-in", enter),
    OpenPage("POST", "/sign-in/code", enter_code),
    Page("POST", "/sign-out", leave),
)
