"""Signing in and out: name and password, then a code where the user has an app for it.

Guessing is slowed down twice: for each address, as with tokens, and for each user, whose account closes for a while
that doubles. Whatever is wrong, the answer is the same sentence. A session is made anew at each step, so a cookie that
somebody planted before is never the one that is let in.

One's own account: password, second factor, and where one is signed in.
"""

import asyncio
from urllib.parse import urlsplit

import structlog
from starlette.requests import Request
from starlette.responses import Response

from gatepost.abby.authenticator import address_of
from gatepost.api.errors import Failure
from gatepost.store.audit import Actor
from gatepost.store.users import Credentials, User
from gatepost.web import credentials
from gatepost.web.context import WebContext
from gatepost.web.credentials import refused
from gatepost.web.forms import Form, query, read_form
from gatepost.web.rendering import NOTICES
from gatepost.web.request import SignedInRequest, clear_cookie, new_secret, set_cookie
from gatepost.web.responses import html_response, redirect
from gatepost.web.site import IDLE_MILLISECONDS, OpenPage, Page, Row, session_of

SESSION_SECONDS = 12 * 3600
CODE_SECONDS = 300
WRONG_SIGN_IN = "Name or password is wrong, or the account is closed for a while after too many tries."
WRONG_CODE = "That code is not the one of now, or was used before. Wait for the next one."

log = structlog.get_logger("gatepost.abby")


async def show_sign_in(desk: WebContext, request: Request) -> Response | Failure:
    """The form, or the way on for who is in already."""
    session = await session_of(desk, request)
    asked = query(request.url.query)
    if session and session.strong:
        return redirect(_target(asked.text("next")))
    done = NOTICES.get(asked.text("done"), "")
    return _form(desk, asked.text("next"), session is not None and not asked.has("again"), done=done)


async def enter(desk: WebContext, request: Request) -> Response | Failure:
    """Name and password."""
    form = await read_form(request)
    if isinstance(form, Failure):
        return form
    found = await desk.store.credentials(form.text("name"))
    right = await desk.passwords.right(found.password if found else None, form.whole("password"))
    if not found or not right or _closed(desk, found):
        return await _refused(desk, request, form, found, right=right)
    return await _let_in(desk, request, found.user, form, strong=not found.user.totp)


async def enter_code(desk: WebContext, request: Request) -> Response | Failure:
    """The second factor, for a session that has only the first."""
    form = await read_form(request)
    if isinstance(form, Failure):
        return form
    session = await session_of(desk, request)
    if session is None or session.strong:
        return redirect("/sign-in")
    found = await desk.store.credentials(session.user.name)
    if found is None or _closed(desk, found) or not await _code_fits(desk, found, form.text("code", 20)):
        return await _refused(desk, request, form, found, right=False, code=True)
    await desk.store.end_session(session.id, Actor("user", session.user.name, session.user.uid), session.user.uid)
    return await _let_in(desk, request, session.user, form, strong=True)


async def leave(desk: WebContext, visit: SignedInRequest) -> Response | Failure:
    """End this session."""
    await desk.store.end_session(visit.session.id, visit.actor, visit.user.uid)
    return clear_cookie(redirect("/sign-in?done=signed-out"))


def _closed(desk: WebContext, found: Credentials) -> bool:
    return found.user.disabled or found.locked_until > desk.now()


async def _code_fits(desk: WebContext, found: Credentials, typed: str) -> bool:
    step = credentials.step_of(found.totp_secret, typed, desk.clock()) if found.totp_secret else None
    return step is not None and await desk.store.use_totp_step(found.user.uid, step)


async def _refused(
    desk: WebContext, request: Request, form: Form, found: Credentials | None, *, right: bool, code: bool = False
) -> Response:
    address = address_of(request)
    log.warning("sign-in refused", name=form.text("name", 100), address=address, known=found is not None)
    # Who is locked out learns nothing from a right password, and does not make it worse with one.
    if found and not right:
        await desk.store.note_failure(found.user.uid, desk.now())
    if delay := desk.guesses.delay(address, None):
        await asyncio.sleep(delay)
    return _form(
        desk, form.text("next"), code, fault=WRONG_CODE if code else WRONG_SIGN_IN, name=form.text("name", 100)
    )


async def _let_in(desk: WebContext, request: Request, user: User, form: Form, *, strong: bool) -> Response:
    secret, digest = new_secret()
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
        return set_cookie(_form(desk, form.text("next"), code=True), secret, seconds)
    await desk.store.note_sign_in(user.uid, desk.now())
    await desk.store.purge_sessions(desk.now(), IDLE_MILLISECONDS)
    log.info("signed in", user=user.name)
    return set_cookie(redirect(_target(form.text("next"))), secret, seconds)


def _form(desk: WebContext, target: str, code: bool, *, fault: str = "", name: str = "", done: str = "") -> Response:
    page = desk.renderer.plain("sign-in.html", code=code, next=target, fault=fault, name=name, done=done)
    return html_response(page, 401 if fault else 200)


def _target(wanted: str) -> str:
    """Where to go then: a path of ours and nothing else. `//host` and `/\\host` are other hosts to a browser."""
    parts = urlsplit(wanted)
    inside = wanted.startswith("/") and not wanted.startswith(("//", "/\\")) and not parts.netloc
    return wanted if inside and wanted.isprintable() and not wanted.startswith("/sign-") else "/"


SIGN_IN_PAGES: tuple[Row, ...] = (
    OpenPage("GET", "/sign-in", show_sign_in),
    OpenPage("POST", "/sign-in", enter),
    OpenPage("POST", "/sign-in/code", enter_code),
    Page("POST", "/sign-out", leave),
)


WRONG_PASSWORD = "The current password is not right; nothing was changed."  # noqa: S105  a sentence
WRONG_NEW_CODE = "That code is not the one of now; nothing was changed. Is the clock of your device right?"


async def show_account(desk: WebContext, visit: SignedInRequest) -> Response | Failure:
    """The page."""
    return html_response(await _account_page(desk, visit))


async def change_password(desk: WebContext, visit: SignedInRequest) -> Response | Failure:
    """Set another password; every other session ends."""
    wanted = visit.form.whole("new")
    fault = ""
    if not await _proven(desk, visit):
        fault = WRONG_PASSWORD
    elif wanted != visit.form.whole("again"):
        fault = "The new password was not typed twice the same; nothing was changed."
    elif reason := refused(wanted, visit.user.name):
        fault = f"The new password is not taken: {reason}."
    if fault:
        return html_response(await _account_page(desk, visit, fault=fault), 400)
    await desk.store.set_password(
        visit.user.uid, await desk.passwords.hashed(wanted), visit.actor, keep=visit.session.id
    )
    return redirect("/account?done=password")


async def offer_totp(desk: WebContext, visit: SignedInRequest) -> Response | Failure:
    """Show a new secret; it means nothing until a code of it comes back, together with the password."""
    return html_response(await _account_page(desk, visit, secret=credentials.new_secret()))


async def confirm_totp(desk: WebContext, visit: SignedInRequest) -> Response | Failure:
    """The password proves who it is, and a code that the app has the secret."""
    secret = visit.form.text("secret", 64)
    if not credentials.is_secret(secret):
        return redirect("/account")
    if not await _proven(desk, visit):
        return html_response(await _account_page(desk, visit, fault=WRONG_PASSWORD, secret=secret), 400)
    step = credentials.step_of(secret, visit.form.text("code", 20), desk.clock())
    if step is None:
        return html_response(await _account_page(desk, visit, fault=WRONG_NEW_CODE, secret=secret), 400)
    await desk.store.set_totp(visit.user.uid, secret, visit.actor, step)
    return redirect("/account?done=totp-on")


async def remove_totp(desk: WebContext, visit: SignedInRequest) -> Response | Failure:
    """Sign in without a code from now on."""
    if not await _proven(desk, visit):
        return html_response(await _account_page(desk, visit, fault=WRONG_PASSWORD), 400)
    await desk.store.set_totp(visit.user.uid, None, visit.actor)
    return redirect("/account?done=totp-off")


async def end_session(desk: WebContext, visit: SignedInRequest) -> Response | Failure:
    """End one of one's own sessions."""
    await desk.store.end_session(visit.part("id"), visit.actor, visit.user.uid)
    return redirect("/account?done=session-ended")


async def end_others(desk: WebContext, visit: SignedInRequest) -> Response | Failure:
    """End all of them but this one."""
    await desk.store.end_sessions(visit.user.uid, visit.actor, keep=visit.session.id)
    return redirect("/account?done=sessions-ended")


async def _proven(desk: WebContext, visit: SignedInRequest) -> bool:
    """A browser that was left open must not be enough to take an account over."""
    found = await desk.store.credentials(visit.user.name)
    if found is None or found.locked_until > desk.now():
        return False
    right = await desk.passwords.right(found.password, visit.form.whole("password"))
    if not right:
        await desk.store.note_failure(visit.user.uid, desk.now())
    return right


async def _account_page(desk: WebContext, visit: SignedInRequest, *, fault: str = "", secret: str = "") -> str:
    return desk.renderer.page(
        "account.html",
        visit,
        here="/account",
        fault=fault,
        secret=secret,
        picture=credentials.picture(secret, visit.user.name) if secret else None,
        sessions=await desk.store.sessions(visit.user.uid, desk.now()),
    )


ACCOUNT_PAGES: tuple[Row, ...] = (
    Page("GET", "/account", show_account),
    Page("POST", "/account/password", change_password),
    Page("POST", "/account/totp", offer_totp),
    Page("POST", "/account/totp/confirm", confirm_totp),
    Page("POST", "/account/totp/remove", remove_totp),
    Page("POST", "/account/sessions/{id}/end", end_session),
    Page("POST", "/account/sessions/end", end_others),
)
