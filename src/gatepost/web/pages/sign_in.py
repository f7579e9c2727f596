"""Signing in: name and password, then a code or a security key where the user has a second factor; or through OpenID.

Guessing is slowed down twice, and both times before anything is checked. Attempts from one address take turns, each
longer than the last, whether they are right or wrong, and too many of them are refused. Attempts on one account are
taken from a limit in storage and given back if they are right (see `store.sessions`). A browser in which the user has
signed in before has limits of its own, so that strangers cannot lock the user out.

Whatever is wrong, the answer is the same sentence, and it takes as long. A session is created anew at each step, so a
cookie that an attacker planted before is never the one that is signed in. Names that nobody has are not logged: people
type passwords into the wrong field.

On the way through an OpenID provider, to it, back from it and out, whatever goes wrong is a page that says what to do,
and the log says why. What strangers can cause is bounded: an answer whose state is not that of the browser is refused
before the provider is asked, answers from one address take turns as passwords do, and only so many codes are exchanged
at once. The audit trail has what the provider vouched for: sign-ins, and people who came with a valid id token and have
no access.
"""

import asyncio
import hmac
from functools import partial
from typing import Literal, TypeAlias
from urllib.parse import urlsplit

import msgspec
from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import Response

from gatepost.abby.authenticator import LONGEST_WAIT, address_of
from gatepost.api.errors import INVALID_REQUEST, NOT_FOUND, OVERLOADED, UNAUTHORIZED, ErrorCode, Failure
from gatepost.events.schema import UserSignedIn, UserSignInFailed, bound
from gatepost.process.logs import Logger
from gatepost.settings.keys import AccessRuleSettings
from gatepost.store.audit import Actor
from gatepost.store.errors import StorageError
from gatepost.store.sessions import SignInAttempt, WebSession, address_source, browser_source
from gatepost.store.users import PROVIDER, Credentials, User
from gatepost.times import date_time
from gatepost.web.context import WebContext
from gatepost.web.forms import STRANGER, Form, parse_query, read_form, read_unsent
from gatepost.web.openid import (
    FLOW_COOKIE,
    Endpoints,
    Flow,
    Identity,
    OpenidClient,
    ProviderError,
    TokenError,
    alternative_names,
    begin_flow,
    describe_identity,
    find_access,
    read_flow,
    set_flow,
    verify_id_token,
    verify_logout_token,
)
from gatepost.web.page_responses import (
    NOTICE_COOKIE,
    PAGE_HEADERS,
    html_response,
    json_response,
    read_notice,
    redirect,
    set_notice,
)
from gatepost.web.request import (
    COOKIE_NAME,
    SignedInRequest,
    drop_cookie,
    new_session_secret,
    put_cookie,
    read_browser_cookie,
    set_browser_cookie,
)
from gatepost.web.routing import IDLE_MILLISECONDS, PageResult, PublicRoute, WebRoute, find_session, sign_in_page
from gatepost.web.second_factors import MAX_CODE, SecondFactors, ask_for_key, check_code, check_key, find_second_factors

Shown: TypeAlias = Literal["password", "code", "key"]

SESSION_SECONDS = 12 * 3600
CODE_SECONDS = 300
WRONG_SIGN_IN = "Name or password is wrong, or the account is locked for a while after too many attempts."
WRONG_CODE = "This code is wrong or was already used. Wait for the next one."
WRONG_KEY = "The answer of the security key was not accepted, or came too late. Try again."
FAULTS: dict[Shown, str] = {"password": WRONG_SIGN_IN, "code": WRONG_CODE, "key": WRONG_KEY}

TOO_MANY_ATTEMPTS = ErrorCode(
    "too_many_attempts", 429, "Too many attempts to sign in wait for their turn.", retry_after=int(LONGEST_WAIT)
)
TOO_MANY = Failure(TOO_MANY_ATTEMPTS, "too many attempts to sign in came from your address; try again in a minute")
OVER = Failure(UNAUTHORIZED, "this sign-in has taken too long, or you have no key for this address; start over")
BUSY = Failure(OVERLOADED, "too many people sign in at this moment; try again in a few seconds")

log = Logger("gatepost.abby")


class Origin(msgspec.Struct, frozen=True):
    """Where an attempt comes from: its address, and the digest of its cookie if its browser is known."""

    address: str
    browser: str | None = None

    @property
    def source(self) -> str:
        return browser_source(self.browser) if self.browser else address_source(self.address)


async def show_sign_in(context: WebContext, request: Request) -> PageResult:
    """Show the form for signing in, or redirect a user who is signed in already."""
    session = await find_session(context, request)
    query = parse_query(request.url.query)
    if session and session.strong:
        return redirect(safe_target(query.text("next")))
    notice = read_notice(request)
    is_half = session is not None and not query.has("again")
    second = await find_second_factors(context, request, session.user) if session and is_half else None
    done, has_left = notice.text if notice else "", query.has("out")
    page = sign_in_page(context, query.text("next"), second, done=done, has_left=has_left)
    return drop_cookie(page, NOTICE_COOKIE) if notice else page


async def sign_in(context: WebContext, request: Request) -> PageResult:
    """Check name and password, and start a session."""
    form = await read_form(request, STRANGER)
    if isinstance(form, Failure):
        return form
    found = await context.store.users.credentials(form.text("name"))
    if found and not context.sign_in.accepts(found.user):
        found = None
    origin = await _find_origin(context, request, found)
    if refused := await wait_for_turn(context, request, origin):
        return refused
    attempt: SignInAttempt | None = None
    async with context.passwords.queue(request.is_disconnected) as place:
        if place == "full" and not origin.browser:
            context.guesses.give_back(origin.address)
        if place != "ready":
            return BUSY
        if found and not found.user.disabled:
            attempt = await context.store.sessions.take_attempt(found.user.uid, origin.source, context.now())
        # Without an attempt the time is spent all the same, so that it does not tell who exists or is locked.
        if attempt is None:
            await context.store.sessions.take_attempt_of_nobody(origin.source, context.now())
        kept = found.password if found and attempt else None
        is_right = await context.passwords.verify(kept, form.raw_text("password"))
    if found is None or attempt is None or not is_right:
        return _refuse(context, form, found, origin, attempt)
    strong = not found.user.has_second_factor
    answer = await _start_session(context, request, found, form, origin, attempt, strong=strong)
    if context.passwords.is_outdated(found.password):
        renewed = await context.passwords.hash(form.raw_text("password"))
        await context.store.users.renew_password(found.user.uid, found.password, renewed)
    return answer


async def send_key_options(context: WebContext, request: Request) -> PageResult:
    """Send the browser what it needs to have a key sign, for a session that has only the password."""
    session = await find_session(context, request)
    if session is None or session.strong:
        return OVER
    options = await ask_for_key(context, request, session, "sign-in")
    return OVER if options is None else json_response(options)


async def finish_sign_in(context: WebContext, request: Request, shown: Shown) -> PageResult:
    """Check the code of the second factor, or what a key has signed, for a session that has only the password."""
    form = await read_form(request, STRANGER)
    if isinstance(form, Failure):
        return form
    session = await find_session(context, request)
    if session is None or session.strong:
        return redirect("/sign-in")
    found = await context.store.users.credentials(session.user.name)
    origin = await _find_origin(context, request, found)
    if refused := await wait_for_turn(context, request, origin):
        return refused
    second = await find_second_factors(context, request, session.user)
    if found is None or found.user.disabled:
        return _refuse(context, form, found, origin, None, shown, second)
    attempt = await context.store.sessions.take_attempt(found.user.uid, origin.source, context.now())
    proof = None
    if attempt and shown == "key":
        proof = await check_key(context, request, session, "sign-in", form, origin.address)
    elif attempt:
        proof = await check_code(context, found, form.text("code", MAX_CODE), origin.address)
    if attempt is None or proof is None:
        return _refuse(context, form, found, origin, attempt, shown, second)
    await context.store.sessions.replace(session.id, session.user.uid)
    answer = await _start_session(context, request, found, form, origin, attempt, strong=True, proof=proof)
    if proof == "recovery code" and answer.status_code < 400:
        set_notice(answer, "recovery-code", await context.store.second_factors.count_recovery_codes(found.user.uid))
    return answer


async def _find_origin(context: WebContext, request: Request, found: Credentials | None) -> Origin:
    address = address_of(request)
    browser = read_browser_cookie(request, found.user.uid) if found else None
    if found and browser and await context.store.sessions.is_known_browser(found.user.uid, browser):
        return Origin(address, browser)
    return Origin(address)


async def wait_for_turn(context: WebContext, request: Request, origin: Origin) -> Failure | None:
    """Wait for the turn of an address; a known browser has no need to, since its account counts its attempts."""
    if origin.browser:
        return None
    delay = context.guesses.take_turn(origin.address)
    if delay is None:
        return TOO_MANY
    if delay:
        await asyncio.sleep(delay)
        # The attempt of a client that has hung up stays counted and is not checked.
        return TOO_MANY if await request.is_disconnected() else None
    return None


def _refuse(
    context: WebContext,
    form: Form,
    found: Credentials | None,
    origin: Origin,
    attempt: SignInAttempt | None,
    shown: Shown = "password",
    second: SecondFactors | None = None,
) -> Response:
    context.events.emit(_describe_refusal, found, origin.address, attempt, shown)
    log.warning("sign-in refused", user=found.user.name if found else None, address=origin.address)
    name, unsent = form.text("name", 100), read_unsent(form)
    page = sign_in_page(context, form.text("next"), second, fault=FAULTS[shown], name=name, unsent=unsent)
    if found and attempt:
        # After the answer: the time that it takes must not tell who exists. Locked accounts add nothing to the trail.
        page.background = BackgroundTask(_record_failure, context, found.user, origin.address, attempt, shown)
    return page


async def _record_failure(context: WebContext, user: User, address: str, attempt: SignInAttempt, shown: Shown) -> None:
    """Put a wrong password, code or key on the audit trail, and the lock that it set."""
    by, locked = Actor("user", user.name, user.uid), max([until for _, until in attempt.counted], default=0)
    try:
        await context.store.audit.note("user.signInFailed", by, user.tenant, sample=[address, f"wrong {shown}"])
        if locked:
            until = f"until {date_time(locked)}"
            await context.store.audit.note("user.lockedOut", by, user.tenant, sample=[address, until])
    except StorageError as fault:
        log.warning("a refused sign-in could not be put on record", reason=str(fault))


def _describe_refusal(
    found: Credentials | None, address: str, attempt: SignInAttempt | None, shown: Shown
) -> UserSignInFailed:
    user = found.user if found else None
    if user and user.disabled:
        reason: Literal["password", "code", "key", "locked", "disabled"] = "disabled"
    elif user and attempt is None:
        reason = "locked"
    else:
        reason = shown
    locked = max([until for _, until in attempt.counted], default=0) if attempt else 0
    return UserSignInFailed(
        tenant_uid=user.tenant if user else None,
        user=bound(user.name) if user else None,
        user_id=user.uid if user else None,
        address=bound(address),
        reason=reason,
        locked_until=date_time(locked) if locked else None,
    )


async def _create_session(
    context: WebContext,
    request: Request,
    proven: Credentials,
    expires: int,
    *,
    strong: bool = True,
    provider_session: str = "",
) -> tuple[str, WebSession] | None:
    """Start a session with what was proven; return its secret and it, None where the user may not sign in any more."""
    secret, digest = new_session_secret()
    session = await context.store.sessions.create(
        proven.user.uid,
        digest,
        expires=expires,
        address=request.client.host if request.client else "",
        agent=request.headers.get("user-agent", "")[:300],
        strong=strong,
        proven=proven,
        provider_session=provider_session,
    )
    return (secret, session) if isinstance(session, WebSession) else None


async def _note_sign_in(context: WebContext, user: User, address: str, proof: str) -> None:
    """Put a sign-in on record, and purge sessions that are over."""
    await context.store.users.note_sign_in(user.uid, context.now(), address, proof)
    await context.store.sessions.purge(context.now(), IDLE_MILLISECONDS)
    context.events.emit(_describe_sign_in, user, address)


def _describe_sign_in(user: User, address: str) -> UserSignedIn:
    return UserSignedIn(
        tenant_uid=user.tenant,
        user=bound(user.name),
        user_id=user.uid,
        address=bound(address),
        second_factor=user.has_second_factor,
    )


async def _start_session(
    context: WebContext,
    request: Request,
    found: Credentials,
    form: Form,
    origin: Origin,
    attempt: SignInAttempt,
    *,
    strong: bool,
    proof: str = "",
) -> Response:
    """Give back the attempt, which was right, and start a session with what was proven."""
    user, now = found.user, context.now()
    if not origin.browser:
        context.guesses.give_back(origin.address)
    seconds = SESSION_SECONDS if strong else CODE_SECONDS
    created = await _create_session(context, request, found, now + seconds * 1000, strong=strong)
    if created is None:
        return _refuse(context, form, found, origin, attempt)
    secret, session = created
    if not strong:
        await context.store.sessions.give_back_attempt(attempt)
        second = await find_second_factors(context, request, user)
        page = sign_in_page(context, form.text("next"), second, unsent=read_unsent(form))
        return put_cookie(page, COOKIE_NAME, secret, seconds)
    await context.store.sessions.finish_attempt(attempt, now)
    await _note_sign_in(context, user, origin.address, proof)
    log.info("user signed in", user=user.name)
    if (unsent := read_unsent(form)).path:
        answer = await context.page(SignedInRequest(request, session), "unsent.html", unsent=unsent)
    else:
        answer = redirect(safe_target(form.text("next")))
    return await _mark_browser(context, put_cookie(answer, COOKIE_NAME, secret, seconds), user.uid, origin)


async def _mark_browser(context: WebContext, answer: Response, uid: str, origin: Origin) -> Response:
    """Remember the browser. A cookie that storage does not know is replaced: somebody else may have planted it."""
    if origin.browser:
        await context.store.sessions.remember_browser(uid, origin.browser, context.now())
        return answer
    secret, digest = new_session_secret()
    await context.store.sessions.remember_browser(uid, digest, context.now())
    return set_browser_cookie(answer, uid, secret)


def safe_target(wanted: str) -> str:
    """Return the path to go to after signing in: one of this site only. `//host` and `/\\host` are other hosts to a
    browser."""
    parts = urlsplit(wanted)
    inside = wanted.startswith("/") and not wanted.startswith(("//", "/\\")) and not parts.netloc
    return wanted if inside and wanted.isprintable() and not wanted.startswith("/sign-") else "/"


MAX_AUTHORIZATION_CODE = 4_000
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


async def begin(context: WebContext, request: Request) -> PageResult:
    """Send the browser to the provider."""
    client = context.openid
    if client is None:
        return NO_PROVIDER
    try:
        endpoints = await client.provider.endpoints()
    except ProviderError as fault:
        return _refuse_openid(context, UNAVAILABLE, str(fault), 503)
    flow = begin_flow(safe_target(parse_query(request.url.query).text("next")))
    return set_flow(redirect(client.authorization_url(endpoints, flow)), flow)


async def come_back(context: WebContext, request: Request) -> PageResult:
    """Take the answer of the provider, and start a session."""
    client = context.openid
    if client is None:
        return NO_PROVIDER
    flow, query = read_flow(request), parse_query(request.url.query)
    if flow is None or not hmac.compare_digest(query.text("state").encode(), flow.state.encode()):
        return _refuse_openid(context, NOT_BEGUN, "the state is not that of the browser", 400)
    origin = Origin(address_of(request))
    if refused := await wait_for_turn(context, request, origin):
        return refused
    if client.exchanges.locked():
        context.guesses.give_back(origin.address)
        return BUSY
    async with client.exchanges:
        outcome = await _verify_answer(context, client, flow, query)
    if not isinstance(outcome, Response):
        outcome = await _admit(context, request, client, outcome, flow, origin)
    # The sign-in is over, whether it succeeded or not.
    return drop_cookie(outcome, FLOW_COOKIE)


async def _verify_answer(
    context: WebContext, client: OpenidClient, flow: Flow, query: Form
) -> tuple[Identity, AccessRuleSettings | None] | Response:
    """Return who has signed in and what that opens, or the page that says why nobody has."""
    try:
        endpoints = await client.provider.endpoints()
        if fault := _find_fault(client, endpoints, query):
            return _refuse_openid(context, REFUSED, fault, 403)
        token = await client.provider.exchange(
            query.text("code", MAX_AUTHORIZATION_CODE), flow.verifier, client.redirect_uri
        )
        claims = await verify_id_token(token, client.provider, flow.nonce, context.clock())
    except ProviderError as fault:
        return _refuse_openid(context, UNAVAILABLE, str(fault), 503)
    except TokenError as fault:
        return _refuse_openid(context, NOT_BELIEVED, f"an id token is not believed: {fault}", 403)
    return describe_identity(claims, client.settings), find_access(claims, client.settings.access)


def _find_fault(client: OpenidClient, endpoints: Endpoints, query: Form) -> str:
    """Return what is wrong with the answer itself; "" if its code can be exchanged. `iss` tells the answer of another
    provider, whose code must not reach this one (RFC 9207 section 2.4)."""
    issuer = query.text("iss", 2_000)
    if (issuer or endpoints.names_issuer) and issuer != client.settings.issuer:
        return "the answer is of another issuer"
    if error := query.text("error", 60):
        return f"the provider answered {error if error.isidentifier() else 'with an error'}"
    return "" if query.text("code", MAX_AUTHORIZATION_CODE) else "the answer has no code"


async def _admit(
    context: WebContext,
    request: Request,
    client: OpenidClient,
    outcome: tuple[Identity, AccessRuleSettings | None],
    flow: Flow,
    origin: Origin,
) -> Response:
    identity, access = outcome
    if access is None:
        await _note_refusal(context, identity, origin.address, "no rule of access is met")
        return _refuse_openid(context, NO_ACCESS, "a user of the provider meets no rule of access", 403)
    user = await context.store.users.admit_external(
        identity.external, alternative_names(identity), access.role, access.tenant
    )
    if not isinstance(user, User):
        await _note_refusal(context, identity, origin.address, "the tenant of the rule does not exist")
        return _refuse_openid(context, NO_ACCESS, "the tenant of a rule of access does not exist", 403)
    now = context.now()
    expires = now + SESSION_SECONDS * 1000
    if client.settings.max_age is not None:
        expires = min(expires, int(identity.proven * 1000) + client.settings.max_age * 60_000)
    created = await _create_session(
        context, request, Credentials(user, "", None), expires, provider_session=identity.session
    )
    if created is None:
        await _note_refusal(context, identity, origin.address, "disabled")
        return _refuse_openid(context, DISABLED, "a disabled user came from the provider", 403)
    context.guesses.give_back(origin.address)
    await _note_sign_in(context, user, origin.address, PROOF)
    log.info("user signed in", user=user.name, provider=client.settings.issuer)
    seconds = max(1, (expires - now) // 1000)
    return put_cookie(redirect(safe_target(flow.target)), COOKIE_NAME, created[0], seconds)


async def sign_out_there(context: WebContext, _request: Request) -> PageResult:
    """Send the browser to where the provider ends its own session."""
    if context.openid is None:
        return NO_PROVIDER
    try:
        url = context.openid.end_session_url(await context.openid.provider.endpoints())
    except ProviderError as fault:
        return _refuse_openid(context, UNAVAILABLE, str(fault), 503)
    return redirect(url) if url else redirect("/sign-in")


async def end_sessions_of_provider(context: WebContext, request: Request) -> PageResult:
    """End the sessions that the provider names in a logout token, which it sends without a browser. A token works once:
    whoever has seen one could end sessions that were begun after it. Addresses that send others have to wait."""
    if context.openid is None:
        return NO_PROVIDER
    origin = Origin(f"logout:{address_of(request)}")
    if refusal := await wait_for_turn(context, request, origin):
        return refusal
    form = await read_form(request, STRANGER)
    if isinstance(form, Failure):
        return form
    issuer, used = context.openid.settings.issuer, context.store.flow_counts
    now = context.clock()
    try:
        token = await verify_logout_token(form.raw_text("logout_token"), context.openid.provider, now)
        name = f"logout token {issuer} {token.id}"
        if await used.was_used(name, int(now * 1_000)):
            raise TokenError("it was used before")
    except (TokenError, ProviderError) as fault:
        log.warning("logout token refused", reason=str(fault), address=address_of(request))
        return Failure(INVALID_REQUEST, "the logout token could not be verified")
    # Noted after its work is done: if storage fails in between, the provider sends it again.
    ended = await context.store.sessions.end_of_provider(issuer, token.subject, token.session)
    await used.note_use(name, int(now * 1_000), int(token.until * 1_000))
    context.guesses.give_back(origin.address)
    log.info("the provider has ended sessions", sessions=ended)
    return Response(b"", 200, {**PAGE_HEADERS, "Cache-Control": "no-store"})


async def _note_refusal(context: WebContext, identity: Identity, address: str, reason: str) -> None:
    """Put on the audit trail whom the provider vouched for and who was not let in; the name there is not one here."""
    await context.store.audit.note(
        "user.signInFailed", PROVIDER, sample=[address, reason, identity.name, identity.external]
    )


def _refuse_openid(context: WebContext, text: str, reason: str, status: int) -> Response:
    log.warning("sign-in through the provider refused", reason=reason)
    page = context.renderer.render_public("openid.html", fault=text, provider=context.sign_in_ways["provider"])
    return html_response(page, status)


PAGES: tuple[WebRoute, ...] = (
    PublicRoute("GET", "/sign-in", show_sign_in),
    PublicRoute("POST", "/sign-in", sign_in),
    PublicRoute("POST", "/sign-in/code", partial(finish_sign_in, shown="code")),
    PublicRoute("POST", "/sign-in/key", partial(finish_sign_in, shown="key")),
    PublicRoute("POST", "/sign-in/key/options", send_key_options),
    PublicRoute("GET", "/sign-in/openid", begin),
    PublicRoute("GET", "/sign-in/openid/callback", come_back),
    PublicRoute("GET", "/sign-in/openid/sign-out", sign_out_there),
    PublicRoute("POST", "/sign-in/openid/logout", end_sessions_of_provider),
)
