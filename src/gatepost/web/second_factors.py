"""What a user shows besides the password: a code of an authenticator app, a recovery code, or a security key.

Signing in and the page Account use the same checks. Each of them uses up what was shown: a step of the app, a recovery
code, a challenge. Whoever calls them has taken an attempt from the limits before (`store.sessions`).
"""

import asyncio
from typing import Any, Literal, TypeAlias

import msgspec
import structlog
from starlette.requests import Request

from gatepost.store.second_factors import ChallengePurpose
from gatepost.store.sessions import WebSession
from gatepost.store.users import Credentials, User
from gatepost.web import credentials, webauthn
from gatepost.web.context import WebContext
from gatepost.web.forms import Form
from gatepost.web.webauthn import KeyFault, RelyingParty

# A recovery code with its hyphens, or with spaces around them.
MAX_CODE = 30

Proof: TypeAlias = Literal["second factor", "recovery code", "security key"]

log = structlog.get_logger("gatepost.abby")


class SecondFactors(msgspec.Struct, frozen=True):
    """What a user can show here: an app, and how many keys. `other_hosts` are those whose keys cannot be used on this
    one; `origin` is where keys can be used, "" where pages have no name."""

    app: bool = False
    keys: int = 0
    other_hosts: tuple[str, ...] = ()
    origin: str = ""


def relying_party(context: WebContext, request: Request) -> RelyingParty | None:
    """Return whom security keys sign for."""
    return webauthn.find_relying_party(context.public_url, request.headers.get("host", "")[:300])


async def find_second_factors(context: WebContext, request: Request, user: User) -> SecondFactors:
    """Return what a user can show besides the password."""
    party = relying_party(context, request)
    keys = await context.store.second_factors.security_keys(user.uid) if user.keys else ()
    usable = webauthn.keys_for(party, keys)
    others = sorted({key.rp_id for key in keys if key not in usable})
    return SecondFactors(user.totp, len(usable), tuple(others), party.origin if party else "")


async def check_code(context: WebContext, found: Credentials, typed: str, address: str) -> Proof | None:
    """Return what a code is: a current one of the user's app, or a recovery code; None if it is neither. A code that is
    right is used up."""
    if digest := credentials.hash_recovery_code(found.user.uid, typed):
        is_right = found.user.has_second_factor and await context.store.second_factors.use_recovery_code(
            found.user, digest, address
        )
        return "recovery code" if is_right else None
    secret = await context.store.second_factors.totp_secret(found)
    step = credentials.match_totp_code(secret, typed, context.clock()) if secret else None
    if step is None or not await context.store.second_factors.use_totp_step(found.user.uid, step):
        return None
    return "second factor"


async def ask_for_key(
    context: WebContext, request: Request, session: WebSession, purpose: ChallengePurpose
) -> dict[str, Any] | None:
    """Return what the browser needs to have a key sign, with a challenge of this session; None if the user has no key
    that can be used here."""
    party = relying_party(context, request)
    keys = webauthn.keys_for(party, await context.store.second_factors.security_keys(session.user.uid))
    if party is None or not keys:
        return None
    challenge = webauthn.new_challenge()
    until = context.now() + webauthn.CHALLENGE_MILLISECONDS
    await context.store.second_factors.set_challenge(session.id, purpose, challenge, until)
    return webauthn.request_options(party, keys, challenge)


async def check_key(
    context: WebContext, request: Request, session: WebSession, purpose: ChallengePurpose, form: Form, address: str
) -> Proof | None:
    """Return whether a key of the user has signed the open challenge of the session, which is used up either way."""
    challenge = await context.store.second_factors.take_challenge(session.id, purpose, context.now())
    party, assertion = relying_party(context, request), webauthn.read_assertion(form)
    outcome: Any = assertion
    if not challenge or party is None:
        outcome = KeyFault("no challenge is open")
    elif not isinstance(assertion, KeyFault):
        keys = await context.store.second_factors.security_keys(session.user.uid)
        outcome = await asyncio.to_thread(webauthn.verify_assertion, party, keys, challenge, assertion)
    if isinstance(outcome, KeyFault):
        log.warning("security key refused", user=session.user.name, reason=outcome.reason)
        return None
    key, counter = outcome
    use = await context.store.second_factors.use_security_key(session.user, key, counter, address)
    if use != "used":
        reason = "its signature counter went back: there may be a copy of it" if use == "copied" else "it was removed"
        log.warning("security key refused", user=session.user.name, reason=reason)
        return None
    return "security key"
