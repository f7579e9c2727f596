"""Signing in through an OpenID provider: to it, back from it, and out.

Whatever goes wrong is a page that says what to do, and the log says why. What strangers can cause is bounded: an answer
whose state is not that of the browser is refused before the provider is asked, answers from one address take turns as
passwords do, and only so many codes are exchanged at once. The audit trail has what the provider vouched for: sign-ins,
and people who came with a valid id token and have no access.
"""

import hmac

import structlog
from starlette.requests import Request
from starlette.responses import Response

from gatepost.abby.authenticator import address_of
from gatepost.api.errors import INVALID_REQUEST, NOT_FOUND, Failure
from gatepost.store.sessions import WebSession
from gatepost.store.users import PROVIDER, Credentials, User
from gatepost.web.context import WebContext
from gatepost.web.forms import STRANGER, Form, parse_query, read_form
from gatepost.web.openid.claims import Access, Identity, alternative_names, describe_identity, find_access
from gatepost.web.openid.client import Flow, OpenidClient, begin_flow, clear_flow, read_flow, set_flow
from gatepost.web.openid.provider import Endpoints, ProviderError
from gatepost.web.openid.tokens import TokenError, verify_id_token, verify_logout_token
from gatepost.web.page_responses import PAGE_HEADERS, html_response, redirect
from gatepost.web.pages.sign_in import BUSY, SESSION_SECONDS, Origin, describe_sign_in, safe_target, wait_for_turn
from gatepost.web.request import new_session_secret, set_cookie
from gatepost.web.routing import IDLE_MILLISECONDS, PublicRoute, WebRoute

MAX_CODE = 4_000
PROOF = "OpenID Connect"
NO_PROVIDER = Failure(NOT_FOUND, "no OpenID provider is configured")
NOT_BEGUN = "This sign-in was not begun in this browser, took longer than ten minutes, or is over already. Begin again."
UNAVAILABLE = "The provider does not answer as it should at this moment. Try again in a minute."
NOT_BELIEVED = "The answer of the provider could not be verified, so you are not signed in. Begin again."
REFUSED = "The provider did not sign you in. Begin again, or ask whoever manages it."
NO_ACCESS = (
    "You are known to the provider, but nothing there gives you access to Gatepost. Ask an administrator of Gatepost"
    " which group you need."
)
DISABLED = "Your account is disabled. Ask an administrator of Gatepost."

log = structlog.get_logger("gatepost.abby")


async def begin(context: WebContext, request: Request) -> Response | Failure:
    """Send the browser to the provider."""
    client = context.openid
    if client is None:
        return NO_PROVIDER
    try:
        endpoints = await client.provider.endpoints()
    except ProviderError as fault:
        return _refuse(context, UNAVAILABLE, str(fault), 503)
    flow = begin_flow(safe_target(parse_query(request.url.query).text("next")))
    return set_flow(redirect(client.authorization_url(endpoints, flow)), flow)


async def come_back(context: WebContext, request: Request) -> Response | Failure:
    """Take the answer of the provider, and start a session."""
    client = context.openid
    if client is None:
        return NO_PROVIDER
    flow, query = read_flow(request), parse_query(request.url.query)
    if flow is None or not hmac.compare_digest(query.text("state").encode(), flow.state.encode()):
        return _refuse(context, NOT_BEGUN, "the state is not that of the browser", 400)
    origin = Origin(address_of(request))
    if refused := await wait_for_turn(context, request, origin):
        return refused
    if client.exchanges.locked():
        context.guesses.give_back(origin.address)
        return BUSY
    async with client.exchanges:
        outcome = await _verify_answer(context, client, flow, query)
    if isinstance(outcome, Response):
        return clear_flow(outcome)
    return clear_flow(await _admit(context, request, client, outcome, flow, origin))


async def _verify_answer(
    context: WebContext, client: OpenidClient, flow: Flow, query: Form
) -> tuple[Identity, Access | None] | Response:
    """Return who has signed in and what that opens, or the page that says why nobody has."""
    try:
        endpoints = await client.provider.endpoints()
        if fault := _find_fault(client, endpoints, query):
            return _refuse(context, REFUSED, fault, 403)
        token = await client.provider.exchange(query.text("code", MAX_CODE), flow.verifier, client.redirect_uri)
        claims = await verify_id_token(token, client.provider, flow.nonce, context.clock())
    except ProviderError as fault:
        return _refuse(context, UNAVAILABLE, str(fault), 503)
    except TokenError as fault:
        return _refuse(context, NOT_BELIEVED, f"an id token is not believed: {fault}", 403)
    return describe_identity(claims, client.settings), find_access(claims, client.settings.access)


def _find_fault(client: OpenidClient, endpoints: Endpoints, query: Form) -> str:
    """Return what is wrong with the answer itself; "" if its code can be exchanged. `iss` tells the answer of another
    provider, whose code must not reach this one (RFC 9207 section 2.4)."""
    issuer = query.text("iss", 2_000)
    if (issuer or endpoints.names_issuer) and issuer != client.settings.issuer:
        return "the answer is of another issuer"
    if error := query.text("error", 60):
        return f"the provider answered {error if error.isidentifier() else 'with an error'}"
    return "" if query.text("code", MAX_CODE) else "the answer has no code"


async def _admit(
    context: WebContext,
    request: Request,
    client: OpenidClient,
    outcome: tuple[Identity, Access | None],
    flow: Flow,
    origin: Origin,
) -> Response:
    identity, access = outcome
    if access is None:
        await _note_refusal(context, identity, origin.address, "no rule of access is met")
        return _refuse(context, NO_ACCESS, "a user of the provider meets no rule of access", 403)
    user = await context.store.users.admit_external(
        identity.external, alternative_names(identity), access.role, access.tenant
    )
    if not isinstance(user, User):
        await _note_refusal(context, identity, origin.address, "the tenant of the rule does not exist")
        return _refuse(context, NO_ACCESS, "the tenant of a rule of access does not exist", 403)
    secret, digest = new_session_secret()
    now = context.now()
    expires = now + SESSION_SECONDS * 1000
    if client.settings.max_age is not None:
        expires = min(expires, int(identity.proven * 1000) + client.settings.max_age * 60_000)
    session = await context.store.sessions.create(
        user.uid,
        digest,
        expires=expires,
        address=request.client.host if request.client else "",
        agent=request.headers.get("user-agent", "")[:300],
        strong=True,
        proven=Credentials(user, "", None),
        provider_session=identity.session,
    )
    if not isinstance(session, WebSession):
        await _note_refusal(context, identity, origin.address, "disabled")
        return _refuse(context, DISABLED, "a disabled user came from the provider", 403)
    context.guesses.give_back(origin.address)
    await context.store.users.note_sign_in(user.uid, now, origin.address, PROOF)
    await context.store.sessions.purge(now, IDLE_MILLISECONDS)
    context.events.emit(describe_sign_in, user, origin.address)
    log.info("signed in", user=user.name, provider=client.settings.issuer)
    return set_cookie(redirect(safe_target(flow.target)), secret, max(1, (expires - now) // 1000))


async def sign_out_there(context: WebContext, _request: Request) -> Response | Failure:
    """Send the browser to where the provider ends its own session."""
    if context.openid is None:
        return NO_PROVIDER
    try:
        url = context.openid.end_session_url(await context.openid.provider.endpoints())
    except ProviderError as fault:
        return _refuse(context, UNAVAILABLE, str(fault), 503)
    return redirect(url) if url else redirect("/sign-in")


async def end_sessions_of_provider(context: WebContext, request: Request) -> Response | Failure:
    """End the sessions that the provider names in a logout token, which it sends without a browser."""
    if context.openid is None:
        return NO_PROVIDER
    form = await read_form(request, STRANGER)
    if isinstance(form, Failure):
        return form
    try:
        token = await verify_logout_token(form.raw_text("logout_token"), context.openid.provider, context.clock())
    except (TokenError, ProviderError) as fault:
        log.warning("logout token refused", reason=str(fault), address=address_of(request))
        return Failure(INVALID_REQUEST, "the logout token could not be verified")
    ended = await context.store.sessions.end_of_provider(context.openid.settings.issuer, token.subject, token.session)
    log.info("the provider has ended sessions", sessions=ended)
    return Response(b"", 200, {**PAGE_HEADERS, "Cache-Control": "no-store"})


async def _note_refusal(context: WebContext, identity: Identity, address: str, reason: str) -> None:
    """Put on the audit trail whom the provider vouched for and who was not let in; the name there is not one here."""
    await context.store.audit.note(
        "user.signInFailed", PROVIDER, sample=[address, reason, identity.name, identity.external]
    )


def _refuse(context: WebContext, text: str, reason: str, status: int) -> Response:
    log.warning("sign-in through the provider refused", reason=reason)
    page = context.renderer.render_public("openid.html", fault=text, provider=context.sign_in_ways["provider"])
    return html_response(page, status)


PAGES: tuple[WebRoute, ...] = (
    PublicRoute("GET", "/sign-in/openid", begin),
    PublicRoute("GET", "/sign-in/openid/callback", come_back),
    PublicRoute("GET", "/sign-in/openid/sign-out", sign_out_there),
    PublicRoute("POST", "/sign-in/openid/logout", end_sessions_of_provider),
)
