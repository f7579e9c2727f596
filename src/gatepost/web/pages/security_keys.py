"""Security keys of the signed-in user: asked for, added and removed on the page Account.

Adding one takes two steps. The first takes the password, and a second factor where the user has one, and opens a
challenge of this session; the second takes what the new key has made of that challenge. A user whose role or tenant
needs a second factor can begin with a key.
"""

import asyncio

import structlog
from starlette.responses import Response

from gatepost.api.errors import INVALID_REQUEST, Failure
from gatepost.store.errors import NotFound
from gatepost.store.second_factors import MAX_KEY_NAME, MAX_KEYS, KeyNotAdded
from gatepost.web import credentials, webauthn
from gatepost.web.context import WebContext
from gatepost.web.page_responses import html_response, json_response, redirect
from gatepost.web.pages.account import NEEDED, find_proof_fault, hash_codes, render_account, render_codes
from gatepost.web.request import NOT_VISIBLE, SignedInRequest, read_browser_cookie
from gatepost.web.routing import PageRoute, WebRoute
from gatepost.web.second_factors import ask_for_key, relying_party
from gatepost.web.webauthn import KeyFault

NO_NAME = "Enter a name for the key, such as the place where you keep it. Nothing was changed."
NO_HOST = "Security keys belong to host names. Open these pages by a name, or set publicUrl. Nothing was changed."
FULL = f"You have {MAX_KEYS} keys, which is the limit. Remove one first; nothing was changed."
KNOWN = "This key is registered already; nothing was changed."
NOT_MADE = "The answer of the key was not accepted, or came too late; nothing was changed. Begin again."
NO_KEY = Failure(INVALID_REQUEST, "you have no security key that can be used at this address")

log = structlog.get_logger("gatepost.abby")


async def begin_key(context: WebContext, request: SignedInRequest) -> Response | Failure:
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
        return html_response(await render_account(context, request, fault=fault), 400)
    challenge = webauthn.new_challenge()
    until = context.now() + webauthn.CHALLENGE_MILLISECONDS
    await context.store.second_factors.set_challenge(request.session.id, "add", challenge, until)
    page = await context.renderer.render_in_turns(
        "security-key.html",
        request,
        here="/account",
        name=name,
        origin=party.origin,
        options=webauthn.creation_options(party, request.user, keys, challenge),
        is_first=not request.user.has_second_factor,
    )
    return html_response(page)


async def add_key(context: WebContext, request: SignedInRequest) -> Response | Failure:
    """Add the key that an authenticator has made. With the first second factor come recovery codes, which are shown in
    this response only."""
    challenge = await context.store.second_factors.take_challenge(request.session.id, "add", context.now())
    party, name = relying_party(context, request.http), request.form.text("name", MAX_KEY_NAME)
    if not challenge or party is None or not name or not name.isprintable():
        return html_response(await render_account(context, request, fault=NOT_MADE), 400)
    made = await asyncio.to_thread(webauthn.verify_new_key, party, challenge, request.form)
    if isinstance(made, KeyFault):
        log.warning("a new security key was refused", user=request.user.name, reason=made.reason)
        return html_response(await render_account(context, request, fault=NOT_MADE), 400)
    codes = () if request.user.has_second_factor else credentials.new_recovery_codes()
    added = await context.store.second_factors.add_security_key(
        request.user.uid,
        webauthn.with_name(made, name),
        request.actor,
        keep=request.session.id,
        keep_browser=read_browser_cookie(request.http, request.user.uid),
        recovery=hash_codes(request, codes),
    )
    if isinstance(added, NotFound):
        return NOT_VISIBLE
    if isinstance(added, KeyNotAdded):
        fault = FULL if added.reason == "full" else KNOWN
        return html_response(await render_account(context, request, fault=fault), 409)
    if not codes:
        return redirect("/account", notice="key-added")
    return html_response(await render_codes(context, request, codes, is_new_factor=True))


async def remove_key(context: WebContext, request: SignedInRequest) -> Response | Failure:
    """Remove a key; this needs a second factor, which may be the key itself."""
    keys = await context.store.second_factors.security_keys(request.user.uid)
    if request.path_part("id") not in {key.id for key in keys}:
        return NOT_VISIBLE
    is_last = len(keys) == 1 and not request.user.totp
    if is_last and context.sign_in.needs_second_factor(request.user):
        return html_response(await render_account(context, request, fault=NEEDED), 403)
    if fault := await find_proof_fault(context, request, needs_code=True):
        return html_response(await render_account(context, request, fault=fault), 400)
    removed = await context.store.second_factors.remove_security_key(
        request.user.uid,
        request.path_part("id"),
        request.actor,
        keep=request.session.id,
        keep_browser=read_browser_cookie(request.http, request.user.uid),
    )
    return NOT_VISIBLE if isinstance(removed, NotFound) else redirect("/account", notice="key-removed")


async def send_options(context: WebContext, request: SignedInRequest) -> Response | Failure:
    """Send the browser what it needs to have a key prove who asks for a change."""
    options = await ask_for_key(context, request.http, request.session, "proof")
    return NO_KEY if options is None else json_response(options)


PAGES: tuple[WebRoute, ...] = (
    PageRoute("POST", "/account/keys", begin_key, before_setup=True),
    PageRoute("POST", "/account/keys/add", add_key, before_setup=True),
    PageRoute("POST", "/account/keys/options", send_options),
    PageRoute("POST", "/account/keys/{id}/remove", remove_key),
)
