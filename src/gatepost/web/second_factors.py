"""What a user shows besides the password: a code of an authenticator app, a recovery code, or a security key.

Signing in and the page Account use the same checks. Each of them uses up what was shown: a step of the app, a recovery
code, a challenge. Whoever calls them has taken an attempt from the limits before (`store.sessions`).

Security keys and passkeys are those of WebAuthn level 2. The relying party is `publicUrl`, or the host that the browser
names where `publicUrl` is not set or has an address in place of a name: keys belong to names (section 5.1.3 step 7). A
key signs the hash of that name and, with its browser, the origin of the page, so that a page that imitates this one
gets nothing which works here. Each key is stored with its name, and is asked for and believed only under that name.

Attestation is not asked for: any authenticator that the user trusts is one. Verification is that of python-fido2, which
is loaded in a thread when the first answer comes, since most deployments never need it. Answers are hostile bytes: each
part has a limit, and whatever the reader of an answer raises is a refusal.
"""

import asyncio
import base64
import binascii
import re
import secrets
from collections.abc import Sequence
from ipaddress import ip_address
from typing import Any, Literal, TypeAlias
from urllib.parse import urlsplit

import msgspec
from starlette.requests import Request

from gatepost.process.logs import Logger
from gatepost.store.second_factors import ChallengePurpose, NewSecurityKey, SecurityKey
from gatepost.store.sessions import WebSession
from gatepost.store.users import Credentials, User
from gatepost.web import credentials
from gatepost.web.context import WebContext
from gatepost.web.forms import Form

CHALLENGE_BYTES = 32
# How long a browser waits for the user, and how long an answer is taken.
WAIT_MILLISECONDS = 120_000
CHALLENGE_MILLISECONDS = 300_000
# COSE algorithms: ECDSA with P-256, Ed25519, RSA with SHA-256. Every authenticator knows one of them.
ALGORITHMS = (-7, -8, -257)
TRANSPORTS = ("usb", "nfc", "ble", "hybrid", "internal", "smart-card")
# The longest credential id (WebAuthn section 4), and what else an answer has, each in characters of Base64.
MAX_CREDENTIAL = 1_364
MAX_PARTS = {
    "key-client-data": 4_000,
    "key-attestation": 6_000,
    "key-authenticator-data": 4_000,
    "key-signature": 2_000,
}

_NAME = re.compile(r"[a-z0-9-]{1,63}(?:\.[a-z0-9-]{1,63}){0,20}", re.ASCII)


class RelyingParty(msgspec.Struct, frozen=True):
    """Whom keys sign for: the name, and the one origin whose pages may ask them."""

    id: str
    origin: str


class Assertion(msgspec.Struct, frozen=True):
    """What a key has signed, as it came: all parts are bytes of a stranger."""

    credential: str
    client_data: bytes
    authenticator_data: bytes
    signature: bytes


class KeyFault(msgspec.Struct, frozen=True):
    """Why an answer is refused. The reason is for the log; it holds nothing of the answer."""

    reason: str


def find_relying_party(public_url: str | None, host: str) -> RelyingParty | None:
    """Return whom keys sign for; `host` is the Host header. None where neither has a name."""
    return (_parse_origin(public_url) if public_url else None) or _parse_origin(f"https://{host}")


def _parse_origin(url: str) -> RelyingParty | None:
    try:
        parts = urlsplit(url)
        name, port = (parts.hostname or "").rstrip("."), parts.port
    except ValueError:
        return None
    if not _NAME.fullmatch(name) or len(name) > 253 or _is_address(name):
        return None
    return RelyingParty(name, f"https://{name}" if port in (None, 443) else f"https://{name}:{port}")


def _is_address(name: str) -> bool:
    """Is this an IPv4 address to a browser? It takes any name whose last label is a number for one."""
    try:
        ip_address(name)
    except ValueError:
        return name.rpartition(".")[2].isdigit()
    return True


def new_challenge() -> str:
    return encode(secrets.token_bytes(CHALLENGE_BYTES))


def encode(raw: bytes) -> str:
    """Return bytes in Base64 for URLs, without padding (RFC 4648 section 5)."""
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode("ascii")


def creation_options(party: RelyingParty, user: User, keys: Sequence[SecurityKey], challenge: str) -> dict[str, Any]:
    """Return what a browser needs to have a new key made (section 5.4); a key that the user has already is refused by
    the browser. The password comes first, so a key has to show presence only, and keeps no account of its own."""
    return {
        "challenge": challenge,
        "rp": {"id": party.id, "name": "Gatepost"},
        "user": {"id": encode(user.uid.encode("ascii")), "name": user.name, "displayName": user.name},
        "pubKeyCredParams": [{"type": "public-key", "alg": each} for each in ALGORITHMS],
        "timeout": WAIT_MILLISECONDS,
        "excludeCredentials": _describe(keys, party),
        "authenticatorSelection": {"residentKey": "discouraged", "userVerification": "discouraged"},
        "attestation": "none",
    }


def request_options(party: RelyingParty, keys: Sequence[SecurityKey], challenge: str) -> dict[str, Any]:
    """Return what a browser needs to have one of the user's keys sign (section 5.5)."""
    return {
        "challenge": challenge,
        "rpId": party.id,
        "timeout": WAIT_MILLISECONDS,
        "allowCredentials": _describe(keys, party),
        "userVerification": "discouraged",
    }


def keys_for(party: RelyingParty | None, keys: Sequence[SecurityKey]) -> list[SecurityKey]:
    """Return the keys that can be used for a relying party."""
    return [key for key in keys if party and key.rp_id == party.id]


def _describe(keys: Sequence[SecurityKey], party: RelyingParty) -> list[dict[str, Any]]:
    return [
        {"type": "public-key", "id": key.credential, "transports": key.transports.split()}
        for key in keys_for(party, keys)
    ]


def read_assertion(form: Form) -> Assertion | KeyFault:
    credential = form.raw_text("key-id")
    if not credential or len(credential) > MAX_CREDENTIAL:
        return KeyFault("no credential is named, or too long a one")
    parts = [_read_part(form, f"key-{name}") for name in ("client-data", "authenticator-data", "signature")]
    client_data, authenticator_data, signature = parts
    if client_data is None or authenticator_data is None or signature is None:
        return KeyFault("a part of the answer is missing or too long")
    return Assertion(credential, client_data, authenticator_data, signature)


def _read_part(form: Form, name: str) -> bytes | None:
    text = form.raw_text(name)
    if not text or len(text) > MAX_PARTS[name]:
        return None
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (ValueError, binascii.Error):
        return None


def verify_assertion(
    party: RelyingParty, keys: Sequence[SecurityKey], challenge: str, assertion: Assertion
) -> tuple[SecurityKey, int] | KeyFault:
    """Return the key that has signed, and its signature counter, which the caller has to compare (section 7.2). To be
    called in a thread."""
    key = next((key for key in keys_for(party, keys) if key.credential == assertion.credential), None)
    if key is None:
        return KeyFault("the credential is none of this user and host")
    try:
        return key, _verify_assertion(party, key, challenge, assertion)
    except Exception as fault:  # noqa: BLE001  the library raises whatever its readers meet in hostile bytes
        return KeyFault(_name_fault(fault))


def _verify_assertion(party: RelyingParty, key: SecurityKey, challenge: str, assertion: Assertion) -> int:
    from fido2.webauthn import (
        AttestedCredentialData,
        AuthenticationResponse,
        AuthenticatorAssertionResponse,
        AuthenticatorData,
        CollectedClientData,
    )

    client_data = CollectedClientData(assertion.client_data)
    _check_frame(client_data)
    data = AuthenticatorData(assertion.authenticator_data)
    stored = AttestedCredentialData(key.public_key)
    response = AuthenticationResponse(
        raw_id=stored.credential_id,
        response=AuthenticatorAssertionResponse(
            client_data=client_data, authenticator_data=data, signature=assertion.signature
        ),
    )
    _server(party).authenticate_complete(_state(challenge), [stored], response)
    return int(data.counter)


def verify_new_key(party: RelyingParty, challenge: str, form: Form) -> NewSecurityKey | KeyFault:
    """Return the key that an authenticator has made (section 7.1), without a name. To be called in a thread."""
    client_data, attestation = _read_part(form, "key-client-data"), _read_part(form, "key-attestation")
    if client_data is None or attestation is None:
        return KeyFault("a part of the answer is missing or too long")
    said = form.text("key-transports", 200).split()
    transports = " ".join(each for each in TRANSPORTS if each in said)
    try:
        return _verify_new_key(party, challenge, client_data, attestation, transports)
    except Exception as fault:  # noqa: BLE001  as above
        return KeyFault(_name_fault(fault))


def _verify_new_key(
    party: RelyingParty, challenge: str, client_data: bytes, attestation: bytes, transports: str
) -> NewSecurityKey:
    from cryptography.exceptions import InvalidSignature
    from fido2.webauthn import (
        AttestationObject,
        AuthenticatorAttestationResponse,
        CollectedClientData,
        RegistrationResponse,
    )

    collected = CollectedClientData(client_data)
    _check_frame(collected)
    made = AttestationObject(attestation)
    credential = made.auth_data.credential_data
    if credential is None or not credential.credential_id or credential.public_key.get(3) not in ALGORITHMS:
        raise ValueError("there is no key of an algorithm that was asked for")
    if len(encode(credential.credential_id)) > MAX_CREDENTIAL:
        raise ValueError("the id of the credential is too long")
    answer = RegistrationResponse(
        raw_id=credential.credential_id,
        response=AuthenticatorAttestationResponse(client_data=collected, attestation_object=made),
    )
    _server(party).register_complete(_state(challenge), answer)
    try:
        # A key that can verify nothing, such as a point beside the curve, is found now and not at the next sign-in.
        credential.public_key.verify(b"", b"\0" * 64)
    except InvalidSignature:
        pass
    name = encode(credential.credential_id)
    return NewSecurityKey(name, party.id, bytes(credential), int(made.auth_data.counter), "", transports)


def _server(party: RelyingParty) -> Any:
    from fido2.server import Fido2Server
    from fido2.webauthn import PublicKeyCredentialRpEntity

    entity = PublicKeyCredentialRpEntity(id=party.id, name="Gatepost")
    return Fido2Server(entity, verify_origin=lambda origin: origin == party.origin)


def _state(challenge: str) -> dict[str, Any]:
    return {"challenge": challenge, "user_verification": None}


def _check_frame(client_data: Any) -> None:
    """Refuse an answer that a page gave from inside a frame of another site: no page of ours can be framed."""
    if client_data.cross_origin:
        raise ValueError("the answer comes from a frame of another site")


def _name_fault(fault: Exception) -> str:
    """Return a fault without the values in it: the library's own sentences, and else its kind."""
    said = str(fault)
    return said if isinstance(fault, ValueError) and said.isascii() and len(said) < 80 else type(fault).__name__


# A recovery code with its hyphens, or with spaces around them.
MAX_CODE = 30

Proof: TypeAlias = Literal["second factor", "recovery code", "security key"]

log = Logger("gatepost.abby")


class SecondFactors(msgspec.Struct, frozen=True):
    """What a user can show here: an app, and how many keys. `other_hosts` are those whose keys cannot be used on this
    one; `origin` is where keys can be used, "" where pages have no name."""

    app: bool = False
    keys: int = 0
    other_hosts: tuple[str, ...] = ()
    origin: str = ""


def relying_party(context: WebContext, request: Request) -> RelyingParty | None:
    """Return whom security keys sign for."""
    return find_relying_party(context.public_url, request.headers.get("host", "")[:300])


async def find_second_factors(context: WebContext, request: Request, user: User) -> SecondFactors:
    """Return what a user can show besides the password."""
    party = relying_party(context, request)
    keys = await context.store.second_factors.security_keys(user.uid) if user.keys else ()
    usable = keys_for(party, keys)
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
    keys = keys_for(party, await context.store.second_factors.security_keys(session.user.uid))
    if party is None or not keys:
        return None
    challenge = new_challenge()
    until = context.now() + CHALLENGE_MILLISECONDS
    await context.store.second_factors.set_challenge(session.id, purpose, challenge, until)
    return request_options(party, keys, challenge)


async def check_key(
    context: WebContext, request: Request, session: WebSession, purpose: ChallengePurpose, form: Form, address: str
) -> Proof | None:
    """Return whether a key of the user has signed the open challenge of the session, which is used up either way."""
    challenge = await context.store.second_factors.take_challenge(session.id, purpose, context.now())
    party, assertion = relying_party(context, request), read_assertion(form)
    outcome: Any = assertion
    if not challenge or party is None:
        outcome = KeyFault("no challenge is open")
    elif not isinstance(assertion, KeyFault):
        keys = await context.store.second_factors.security_keys(session.user.uid)
        outcome = await asyncio.to_thread(verify_assertion, party, keys, challenge, assertion)
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
