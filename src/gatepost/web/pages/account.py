"""The account of the signed-in user: password, second factor, security keys, recovery codes, time zone, sessions.

Whatever changes how the user signs in needs the password again, and a code or a security key where a second factor is
on: a browser that was left open, or a stolen cookie, must not be enough to take over the account. Attempts are counted
for the session, so that strangers who guess elsewhere do not keep the user from changing the password.

What a user has to do before anything else (`web/context.py`) is a page of its own, with the same forms.

Adding a security key takes two steps. The first takes the password, and a second factor where the user has one, and
opens a challenge of this session; the second takes what the new key has made of that challenge. A user whose role or
tenant needs a second factor can begin with a key.
"""

import asyncio
from typing import Any

import msgspec
from starlette.responses import Response

from gatepost.abby.authenticator import address_of
from gatepost.api.errors import INVALID_REQUEST, Failure
from gatepost.process.logs import Logger
from gatepost.store.errors import NotFound
from gatepost.store.second_factors import MAX_KEY_NAME, MAX_KEYS, KeyNotAdded
from gatepost.store.sessions import session_source
from gatepost.store.users import Credentials
from gatepost.web import credentials, second_factors
from gatepost.web.context import WebContext
from gatepost.web.credentials import password_fault
from gatepost.web.page_responses import json_response, redirect, with_status
from gatepost.web.request import COOKIE_NAME, NOT_VISIBLE, SignedInRequest, drop_cookie, read_browser_cookie
from gatepost.web.routing import PageResult, PageRoute, WebRoute
from gatepost.web.second_factors import (
    MAX_CODE,
    KeyFault,
    ask_for_key,
    check_code,
    check_key,
    find_second_factors,
    relying_party,
)
from gatepost.web.time_zones import UTC_NAME, zone_names

WRONG_PASSWORD = "The current password is wrong; nothing was changed."  # noqa: S105  a sentence
SAME_PASSWORD = "The new password is the current one; choose another. Nothing was changed."  # noqa: S105
WRONG_CODE = "The code of the current second factor is wrong or was already used; nothing was changed."
WRONG_NEW_CODE = "This code is wrong; nothing was changed. Check the clock of your device."
WRONG_KEY = "The answer of the security key was not accepted, or came too late; nothing was changed. Try again."
NEEDED = "You need a second factor, so the last one cannot be removed; nothing was changed. Set up another one first."
LOCKED = "Too many wrong attempts in this session; nothing was changed. Try again later."
BUSY = "The server is busy; nothing was changed. Try again in a moment."

# Marks of browsers and systems in a User-Agent (RFC 9110 section 10.1.5), the telling ones first: most browsers name
# others as well.
_BROWSERS = (("Edg/", "Edge"), ("OPR/", "Opera"), ("Firefox/", "Firefox"), ("Chrome/", "Chrome"), ("Safari/", "Safari"))
_SYSTEMS = (
    *(("iPhone", "iPhone"), ("iPad", "iPad"), ("Android", "Android"), ("Windows", "Windows")),
    *(("Mac OS X", "macOS"), ("Linux", "Linux")),
)

log = Logger("gatepost.abby")


def describe_browser(agent: str) -> str:
    """Return what a User-Agent says in words, such as `Firefox on Linux`; "" where it names no known browser."""
    browser = next((name for mark, name in _BROWSERS if mark in agent), "")
    system = next((name for mark, name in _SYSTEMS if mark in agent), "")
    return f"{browser} on {system}" if browser and system else browser


async def sign_out(context: WebContext, request: SignedInRequest) -> PageResult:
    """End the session of the request."""
    await context.store.sessions.end(request.session.id, request.actor, request.user.uid)
    answer = redirect("/sign-in?out=1" if request.user.external else "/sign-in", notice="signed-out")
    return drop_cookie(answer, COOKIE_NAME)


async def change_password(context: WebContext, request: SignedInRequest) -> PageResult:
    """Set another password, and end every other session of the user."""
    wanted = request.form.raw_text("new")
    if wanted != request.form.raw_text("again"):
        fault = "The two new passwords differ; nothing was changed."
    elif reason := password_fault(wanted, request.user.name):
        fault = f"The new password was not accepted: {reason}."
    elif wanted == request.form.raw_text("password"):
        fault = SAME_PASSWORD
    else:
        fault = await find_proof_fault(context, request, needs_code=False)
    if fault:
        return with_status(await show_account(context, request, fault=fault), 400)
    hashed = await context.passwords.hash(wanted)
    await context.store.users.set_password(request.user.uid, hashed, request.actor, **_list_kept(request))
    return redirect(_next_page(context, request), notice="password")


def _list_kept(request: SignedInRequest) -> dict[str, Any]:
    """Return what stays when the way to sign in changes: this session, and the mark of this browser."""
    return {"keep": request.session.id, "keep_browser": read_browser_cookie(request.http, request.user.uid)}


async def show_setup(context: WebContext, request: SignedInRequest) -> PageResult:
    """Show what the user has to do before anything else."""
    if context.sign_in.next_step(request.user) is None:
        return redirect("/")
    return await show_account(context, request)


def _next_page(context: WebContext, request: SignedInRequest) -> str:
    """Return where a change leads: to the next step of those that come first, or back to the account."""
    return "/account/setup" if context.sign_in.next_step(request.user) else "/account"


async def show_totp_setup(context: WebContext, request: SignedInRequest) -> PageResult:
    """Show a new secret; it is stored only when a code made from it comes back, together with the password."""
    return await show_account(context, request, secret=credentials.new_totp_secret())


async def confirm_totp(context: WebContext, request: SignedInRequest) -> PageResult:
    """Turn the second factor on, or replace it: the password and a code of the old one prove who asks, the new code
    that the app has the new secret."""
    secret = request.form.text("secret", 64)
    if not credentials.is_totp_secret(secret):
        return redirect("/account")
    step = credentials.match_totp_code(secret, request.form.text("code", 20), context.clock())
    # The new code is compared first: a code of the old factor can be used only once.
    fault = WRONG_NEW_CODE if step is None else await find_proof_fault(context, request, needs_code=True)
    if fault or step is None:
        return with_status(await show_account(context, request, fault=fault, secret=secret), 400)
    codes = credentials.new_recovery_codes()
    await _set_totp(context, request, secret, step, codes)
    return await render_codes(context, request, codes, is_new_factor=True)


async def renew_recovery_codes(context: WebContext, request: SignedInRequest) -> PageResult:
    """Replace the recovery codes; the new ones are shown in this response only."""
    if fault := await find_proof_fault(context, request, needs_code=True):
        return with_status(await show_account(context, request, fault=fault), 400)
    codes = credentials.new_recovery_codes()
    await context.store.second_factors.renew_recovery_codes(request.user.uid, hash_codes(request, codes), request.actor)
    return await render_codes(context, request, codes)


async def render_codes(
    context: WebContext, request: SignedInRequest, codes: tuple[str, ...], *, is_new_factor: bool = False
) -> Response:
    """Render the page with new recovery codes."""
    return await context.page(
        request, "recovery-codes.html", codes=codes, onward=_next_page(context, request), is_new_factor=is_new_factor
    )


def hash_codes(request: SignedInRequest, codes: tuple[str, ...]) -> list[str]:
    return [credentials.hash_recovery_code(request.user.uid, code) for code in codes]


async def remove_totp(context: WebContext, request: SignedInRequest) -> PageResult:
    """Turn the app off; this needs a second factor, else a new one could be set without the old."""
    if context.sign_in.needs_second_factor(request.user) and not request.user.keys:
        return with_status(await show_account(context, request, fault=NEEDED), 403)
    if fault := await find_proof_fault(context, request, needs_code=True):
        return with_status(await show_account(context, request, fault=fault), 400)
    await _set_totp(context, request, None)
    return redirect("/account", notice="totp-off")


async def _set_totp(
    context: WebContext, request: SignedInRequest, secret: str | None, step: int = 0, codes: tuple[str, ...] = ()
) -> None:
    """Set the second factor and end all other sessions, which began without it or with another one."""
    recovery = hash_codes(request, codes)
    await context.store.second_factors.set_totp(
        request.user.uid, secret, request.actor, step, recovery=recovery, **_list_kept(request)
    )


async def set_time_zone(context: WebContext, request: SignedInRequest) -> PageResult:
    """Set the time zone in which the user reads and writes times."""
    name = request.form.text("zone", 100)
    if name not in zone_names():
        fault = "This time zone is not known; nothing was changed."
        return with_status(await show_account(context, request, fault=fault), 400)
    await context.store.users.set_zone(request.user.uid, "" if name == UTC_NAME else name)
    return redirect("/account", notice="zone")


async def end_session(context: WebContext, request: SignedInRequest) -> PageResult:
    """End one session of the user."""
    await context.store.sessions.end(request.path_part("id"), request.actor, request.user.uid)
    return redirect("/account", notice="session-ended")


async def end_other_sessions(context: WebContext, request: SignedInRequest) -> PageResult:
    """End all sessions of the user except this one."""
    await context.store.sessions.end_all(request.user.uid, request.actor, keep=request.session.id)
    return redirect("/account", notice="sessions-ended")


async def find_proof_fault(context: WebContext, request: SignedInRequest, *, needs_code: bool) -> str:
    """Return what is wrong with the password, and the code or key, that came with a form; "" if they are right. The
    attempt is taken before it is checked, and given back if it was right."""
    found = await context.store.users.credentials(request.user.name)
    if found is None:
        return WRONG_PASSWORD
    source = session_source(request.session.id)
    async with context.passwords.queue(request.http.is_disconnected) as place:
        if place != "ready":
            return BUSY
        attempt = await context.store.sessions.take_attempt(found.user.uid, source, context.now())
        if attempt is None:
            return LOCKED
        if not await context.passwords.verify(found.password, request.form.raw_text("password")):
            log.warning("password refused", user=found.user.name)
            return WRONG_PASSWORD
    if needs_code and found.user.has_second_factor and (fault := await _find_factor_fault(context, request, found)):
        return fault
    await context.store.sessions.give_back_attempt(attempt)
    return ""


async def _find_factor_fault(context: WebContext, request: SignedInRequest, found: Credentials) -> str:
    address = address_of(request.http)
    if request.form.has("key-signature"):
        proof = await check_key(context, request.http, request.session, "proof", request.form, address)
        return "" if proof else WRONG_KEY
    if await check_code(context, found, request.form.text("old-code", MAX_CODE), address) is None:
        log.warning("second-factor code refused", user=found.user.name)
        return WRONG_CODE
    return ""


async def show_account(context: WebContext, request: SignedInRequest, *, fault: str = "", secret: str = "") -> Response:
    """Show password, second factor and sessions, or what the user has to do before anything else."""
    user = request.user
    step = context.sign_in.next_step(user)
    if step == "second-factor" and not secret:
        secret = credentials.new_totp_secret()
    return await context.page(
        request,
        "setup.html" if step else "account.html",
        step=step,
        fault=fault,
        needs_second_factor=context.sign_in.needs_second_factor(user),
        need=context.sign_in.describe_need(user),
        codes_left=await context.store.second_factors.count_recovery_codes(user.uid) if user.has_second_factor else 0,
        keys=await context.store.second_factors.security_keys(user.uid) if user.keys else (),
        most_keys=MAX_KEYS,
        second=await find_second_factors(context, request.http, user),
        secret=secret,
        picture=credentials.totp_qr_code(secret, request.user.name) if secret else None,
        sessions=await context.store.sessions.of_user(request.user.uid, context.now()),
        describe_browser=describe_browser,
        zones=zone_names(),
    )


NO_NAME = "Enter a name for the key, such as the place where you keep it. Nothing was changed."
NO_HOST = "Security keys belong to host names. Open these pages by a name, or set publicUrl. Nothing was changed."
FULL = f"You have {MAX_KEYS} keys, which is the limit. Remove one first; nothing was changed."
KNOWN = "This key is registered already; nothing was changed."
NOT_MADE = "The answer of the key was not accepted, or came too late; nothing was changed. Begin again."
NO_KEY = Failure(INVALID_REQUEST, "you have no security key that can be used at this address")


async def begin_key(context: WebContext, request: SignedInRequest) -> PageResult:
    """Take the proofs of who asks, and show the page on which the new key is touched."""
    name, party = request.form.text("name", MAX_KEY_NAME), relying_party(context, request.http)
    keys = await context.store.second_factors.security_keys(request.user.uid)
    if not name or not name.isprintable():
        fault = NO_NAME
    elif party is None:
        fault = NO_HOST
    elif len(keys) >= MAX_KEYS:
        fault = FULL
    else:
        fault = await find_proof_fault(context, request, needs_code=True)
    if fault or party is None:
        return with_status(await show_account(context, request, fault=fault), 400)
    challenge = second_factors.new_challenge()
    until = context.now() + second_factors.CHALLENGE_MILLISECONDS
    await context.store.second_factors.set_challenge(request.session.id, "add", challenge, until)
    return await context.page(
        request,
        "security-key.html",
        name=name,
        origin=party.origin,
        options=second_factors.creation_options(party, request.user, keys, challenge),
        is_first=not request.user.has_second_factor,
    )


async def add_key(context: WebContext, request: SignedInRequest) -> PageResult:
    """Add the key that an authenticator has made. With the first second factor come recovery codes, which are shown in
    this response only."""
    challenge = await context.store.second_factors.take_challenge(request.session.id, "add", context.now())
    party, name = relying_party(context, request.http), request.form.text("name", MAX_KEY_NAME)
    if not challenge or party is None or not name or not name.isprintable():
        return with_status(await show_account(context, request, fault=NOT_MADE), 400)
    made = await asyncio.to_thread(second_factors.verify_new_key, party, challenge, request.form)
    if isinstance(made, KeyFault):
        log.warning("a new security key was refused", user=request.user.name, reason=made.reason)
        return with_status(await show_account(context, request, fault=NOT_MADE), 400)
    codes = () if request.user.has_second_factor else credentials.new_recovery_codes()
    added = await context.store.second_factors.add_security_key(
        request.user.uid,
        msgspec.structs.replace(made, name=name),
        request.actor,
        recovery=hash_codes(request, codes),
        **_list_kept(request),
    )
    if isinstance(added, NotFound):
        return NOT_VISIBLE
    if isinstance(added, KeyNotAdded):
        fault = FULL if added.reason == "full" else KNOWN
        return with_status(await show_account(context, request, fault=fault), 409)
    if not codes:
        return redirect("/account", notice="key-added")
    return await render_codes(context, request, codes, is_new_factor=True)


async def remove_key(context: WebContext, request: SignedInRequest) -> PageResult:
    """Remove a key; this needs a second factor, which may be the key itself."""
    keys = await context.store.second_factors.security_keys(request.user.uid)
    if request.path_part("id") not in {key.id for key in keys}:
        return NOT_VISIBLE
    is_last = len(keys) == 1 and not request.user.totp
    if is_last and context.sign_in.needs_second_factor(request.user):
        return with_status(await show_account(context, request, fault=NEEDED), 403)
    if fault := await find_proof_fault(context, request, needs_code=True):
        return with_status(await show_account(context, request, fault=fault), 400)
    removed = await context.store.second_factors.remove_security_key(
        request.user.uid, request.path_part("id"), request.actor, **_list_kept(request)
    )
    return NOT_VISIBLE if isinstance(removed, NotFound) else redirect("/account", notice="key-removed")


async def send_options(context: WebContext, request: SignedInRequest) -> PageResult:
    """Send the browser what it needs to have a key prove who asks for a change."""
    options = await ask_for_key(context, request.http, request.session, "proof")
    return NO_KEY if options is None else json_response(options)


PAGES: tuple[WebRoute, ...] = (
    PageRoute("POST", "/sign-out", sign_out, before_setup=True),
    PageRoute("GET", "/account", show_account),
    PageRoute("GET", "/account/setup", show_setup, before_setup=True),
    PageRoute("POST", "/account/password", change_password, before_setup=True),
    PageRoute("POST", "/account/zone", set_time_zone),
    PageRoute("POST", "/account/totp", show_totp_setup),
    PageRoute("POST", "/account/totp/confirm", confirm_totp, before_setup=True),
    PageRoute("POST", "/account/totp/remove", remove_totp),
    PageRoute("POST", "/account/recovery-codes", renew_recovery_codes),
    PageRoute("POST", "/account/sessions/{id}/end", end_session),
    PageRoute("POST", "/account/sessions/end", end_other_sessions),
    PageRoute("POST", "/account/keys", begin_key, before_setup=True),
    PageRoute("POST", "/account/keys/add", add_key, before_setup=True),
    PageRoute("POST", "/account/keys/options", send_options),
    PageRoute("POST", "/account/keys/{id}/remove", remove_key),
)
