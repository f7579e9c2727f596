"""Signing in and out, and the account of the signed-in user: password, second factor, sessions.

Guessing is slowed down twice: for each address, as with tokens, and for each user, whose account is locked for a time
that doubles. Whatever is wrong, the answer is the same sentence. A session is created anew at each step, so a cookie
that an attacker planted before is never the one that is signed in.
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
from gatepost.web.credentials import password_fault
from gatepost.web.forms import Form, parse_query, read_form
from gatepost.web.page_responses import html_response, redirect
from gatepost.web.rendering import NOTICES
from gatepost.web.request import SignedInRequest, clear_cookie, new_session_secret, set_cookie
from gatepost.web.routing import IDLE_MILLISECONDS, PageRoute, PublicRoute, WebRoute, find_session

SESSION_SECONDS = 12 * 3600
CODE_SECONDS = 300
WRONG_SIGN_IN = "Name or password is wrong, or the account is locked for a while after too many attempts."
WRONG_CODE = "This code is wrong or was already used. Wait for the next one."

WRONG_PASSWORD = "The current password is wrong; nothing was changed."  # noqa: S105  a sentence
WRONG_NEW_CODE = "This code is wrong; nothing was changed. Check the clock of your device."

log = structlog.get_logger("gatepost.abby")


async def show_sign_in(context: WebContext, request: Request) -> Response | Failure:
    """Show the form for signing in, or redirect a user who is signed in already."""
    session = await find_session(context, request)
    query = parse_query(request.url.query)
    if session and session.strong:
        return redirect(_safe_target(query.text("next")))
    done = NOTICES.get(query.text("done"), "")
    return _render_sign_in(context, query.text("next"), session is not None and not query.has("again"), done=done)


async def sign_in(context: WebContext, request: Request) -> Response | Failure:
    """Check name and password, and start a session."""
    form = await read_form(request)
    if isinstance(form, Failure):
        return form
    found = await context.store.credentials(form.text("name"))
    is_right = await context.passwords.verify(found.password if found else None, form.raw_text("password"))
    if not found or not is_right or _is_locked(context, found):
        return await _refuse_sign_in(context, request, form, found, is_right=is_right)
    return await _start_session(context, request, found.user, form, strong=not found.user.totp)


async def sign_in_with_code(context: WebContext, request: Request) -> Response | Failure:
    """Check the code of the second factor, for a session that has only the password."""
    form = await read_form(request)
    if isinstance(form, Failure):
        return form
    session = await find_session(context, request)
    if session is None or session.strong:
        return redirect("/sign-in")
    found = await context.store.credentials(session.user.name)
    if found is None or _is_locked(context, found) or not await _is_valid_code(context, found, form.text("code", 20)):
        return await _refuse_sign_in(context, request, form, found, is_right=False, code=True)
    await context.store.end_session(session.id, Actor("user", session.user.name, session.user.uid), session.user.uid)
    return await _start_session(context, request, session.user, form, strong=True)


async def sign_out(context: WebContext, request: SignedInRequest) -> Response | Failure:
    """End the session of the request."""
    await context.store.end_session(request.session.id, request.actor, request.user.uid)
    return clear_cookie(redirect("/sign-in?done=signed-out"))


def _is_locked(context: WebContext, found: Credentials) -> bool:
    return found.user.disabled or found.locked_until > context.now()


async def _is_valid_code(context: WebContext, found: Credentials, typed: str) -> bool:
    step = credentials.match_totp_code(found.totp_secret, typed, context.clock()) if found.totp_secret else None
    return step is not None and await context.store.use_totp_step(found.user.uid, step)


async def _refuse_sign_in(
    context: WebContext, request: Request, form: Form, found: Credentials | None, *, is_right: bool, code: bool = False
) -> Response:
    address = address_of(request)
    log.warning("sign-in refused", name=form.text("name", 100), address=address, known=found is not None)
    # A locked user learns nothing from a right password, and does not extend the lock with one.
    if found and not is_right:
        await context.store.note_failure(found.user.uid, context.now())
    if delay := context.guesses.delay(address, None):
        await asyncio.sleep(delay)
    return _render_sign_in(
        context, form.text("next"), code, fault=WRONG_CODE if code else WRONG_SIGN_IN, name=form.text("name", 100)
    )


async def _start_session(context: WebContext, request: Request, user: User, form: Form, *, strong: bool) -> Response:
    secret, digest = new_session_secret()
    seconds = SESSION_SECONDS if strong else CODE_SECONDS
    await context.store.create_session(
        user.uid,
        digest,
        expires=context.now() + seconds * 1000,
        address=request.client.host if request.client else "",
        agent=request.headers.get("user-agent", "")[:300],
        strong=strong,
    )
    if not strong:
        return set_cookie(_render_sign_in(context, form.text("next"), code=True), secret, seconds)
    await context.store.note_sign_in(user.uid, context.now())
    await context.store.purge_sessions(context.now(), IDLE_MILLISECONDS)
    log.info("signed in", user=user.name)
    return set_cookie(redirect(_safe_target(form.text("next"))), secret, seconds)


def _render_sign_in(
    context: WebContext, target: str, code: bool, *, fault: str = "", name: str = "", done: str = ""
) -> Response:
    page = context.renderer.render_public("sign-in.html", code=code, next=target, fault=fault, name=name, done=done)
    return html_response(page, 401 if fault else 200)


def _safe_target(wanted: str) -> str:
    """Return the path to go to after signing in: one of this site only. `//host` and `/\\host` are other hosts to a
    browser."""
    parts = urlsplit(wanted)
    inside = wanted.startswith("/") and not wanted.startswith(("//", "/\\")) and not parts.netloc
    return wanted if inside and wanted.isprintable() and not wanted.startswith("/sign-") else "/"


async def show_account(context: WebContext, request: SignedInRequest) -> Response | Failure:
    """Show password, second factor and sessions."""
    return html_response(await _render_account(context, request))


async def change_password(context: WebContext, request: SignedInRequest) -> Response | Failure:
    """Set another password, and end every other session of the user."""
    wanted = request.form.raw_text("new")
    fault = ""
    if not await _is_password_right(context, request):
        fault = WRONG_PASSWORD
    elif wanted != request.form.raw_text("again"):
        fault = "The two new passwords differ; nothing was changed."
    elif reason := password_fault(wanted, request.user.name):
        fault = f"The new password was not accepted: {reason}."
    if fault:
        return html_response(await _render_account(context, request, fault=fault), 400)
    await context.store.set_password(
        request.user.uid, await context.passwords.hash(wanted), request.actor, keep=request.session.id
    )
    return redirect("/account?done=password")


async def show_totp_setup(context: WebContext, request: SignedInRequest) -> Response | Failure:
    """Show a new secret; it is stored only when a code made from it comes back, together with the password."""
    return html_response(await _render_account(context, request, secret=credentials.new_totp_secret()))


async def confirm_totp(context: WebContext, request: SignedInRequest) -> Response | Failure:
    """Turn the second factor on: the password proves who asks, the code that the app has the secret."""
    secret = request.form.text("secret", 64)
    if not credentials.is_totp_secret(secret):
        return redirect("/account")
    if not await _is_password_right(context, request):
        return html_response(await _render_account(context, request, fault=WRONG_PASSWORD, secret=secret), 400)
    step = credentials.match_totp_code(secret, request.form.text("code", 20), context.clock())
    if step is None:
        return html_response(await _render_account(context, request, fault=WRONG_NEW_CODE, secret=secret), 400)
    await context.store.set_totp(request.user.uid, secret, request.actor, step)
    return redirect("/account?done=totp-on")


async def remove_totp(context: WebContext, request: SignedInRequest) -> Response | Failure:
    """Turn the second factor off."""
    if not await _is_password_right(context, request):
        return html_response(await _render_account(context, request, fault=WRONG_PASSWORD), 400)
    await context.store.set_totp(request.user.uid, None, request.actor)
    return redirect("/account?done=totp-off")


async def end_session(context: WebContext, request: SignedInRequest) -> Response | Failure:
    """End one session of the user."""
    await context.store.end_session(request.path_part("id"), request.actor, request.user.uid)
    return redirect("/account?done=session-ended")


async def end_other_sessions(context: WebContext, request: SignedInRequest) -> Response | Failure:
    """End all sessions of the user except this one."""
    await context.store.end_sessions(request.user.uid, request.actor, keep=request.session.id)
    return redirect("/account?done=sessions-ended")


async def _is_password_right(context: WebContext, request: SignedInRequest) -> bool:
    """Is the current password right? A browser that was left open must not be enough to take over an account."""
    found = await context.store.credentials(request.user.name)
    if found is None or found.locked_until > context.now():
        return False
    is_right = await context.passwords.verify(found.password, request.form.raw_text("password"))
    if not is_right:
        await context.store.note_failure(request.user.uid, context.now())
    return is_right


async def _render_account(context: WebContext, request: SignedInRequest, *, fault: str = "", secret: str = "") -> str:
    return context.renderer.render(
        "account.html",
        request,
        here="/account",
        fault=fault,
        secret=secret,
        picture=credentials.totp_qr_code(secret, request.user.name) if secret else None,
        sessions=await context.store.sessions(request.user.uid, context.now()),
    )


PAGES: tuple[WebRoute, ...] = (
    PublicRoute("GET", "/sign-in", show_sign_in),
    PublicRoute("POST", "/sign-in", sign_in),
    PublicRoute("POST", "/sign-in/code", sign_in_with_code),
    PageRoute("POST", "/sign-out", sign_out),
    PageRoute("GET", "/account", show_account),
    PageRoute("POST", "/account/password", change_password),
    PageRoute("POST", "/account/totp", show_totp_setup),
    PageRoute("POST", "/account/totp/confirm", confirm_totp),
    PageRoute("POST", "/account/totp/remove", remove_totp),
    PageRoute("POST", "/account/sessions/{id}/end", end_session),
    PageRoute("POST", "/account/sessions/end", end_other_sessions),
)
