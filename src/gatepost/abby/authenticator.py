"""Who calls the APIs: bearer tokens (RFC 6750 section 2.1) and the API keys of the List API; guessing is slowed down.

Tokens are stored and compared as SHA-256: digests have one length, and every one of them is compared, so the time taken
tells nothing. Guesses from one address wait, each longer than the last. A right guess waits like a wrong one, else an
attacker would only hang up sooner; but a token that worked from there before passes at once, so that an attacker behind
the same address does not slow down the others.

An API key (`Authorization: apikey <API_KEY>`) is 256 random bits, so a right one was never guessed, and never waits.
"""

import asyncio
import hashlib
import hmac
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from ipaddress import IPv6Address
from typing import TypeVar

import msgspec
from starlette.requests import Request

from gatepost.api.call_limits import CallingParty
from gatepost.api.errors import FORBIDDEN, UNAUTHORIZED, Failure
from gatepost.process.logs import Logger
from gatepost.settings.keys import StaticApiTokenSettings, TokenPermission
from gatepost.store.api_keys import ApiKey, ApiKeys
from gatepost.store.audit import Actor

FREE_GUESSES = 5
FIRST_DELAY = 0.25
LONGEST_DELAY = 8.0
LONGEST_WAIT = 60.0
FORGET_SECONDS = 600.0
MAX_ADDRESSES = 10_000

K = TypeVar("K")
V = TypeVar("V")


class Caller(msgspec.Struct, frozen=True):
    """Who calls: the name of the token, what it may do besides scanning, the digest it is known by, and the tenant that
    it is for, None for all."""

    name: str
    permissions: frozenset[str]
    digest: bytes
    tenant: str | None = None

    @property
    def actor(self) -> Actor:
        """The caller, as the audit trail names it."""
        return Actor("token", self.name)

    @property
    def party(self) -> CallingParty:
        """The caller, as costly calls are counted."""
        return CallingParty(f"token:{self.name}", self.tenant)

    def may(self, permission: TokenPermission) -> Failure | None:
        """Return None if the caller has the permission, else the failure that names it."""
        if permission in self.permissions:
            return None
        return Failure(FORBIDDEN, f"the token needs the permission {permission}")

    def scope_of(self, stated: str | None) -> str | Failure | None:
        """Return the tenant that a call is about, which states one or none: for a token of one tenant always that one,
        else the failure, which is the same whether another tenant exists or not."""
        if stated is None or self.tenant in (None, stated):
            return stated or self.tenant
        return Failure(FORBIDDEN, "tenantUid: the token is made for one tenant, and may act on that one only")


class Tokens:
    """The static tokens of the configuration, as digests."""

    def __init__(self, tokens: Iterable[StaticApiTokenSettings]) -> None:
        self._callers = tuple(
            Caller(each.name, frozenset(each.permissions), each.digest, each.tenant) for each in tokens
        )

    def find(self, presented: bytes) -> Caller | None:
        """Return the caller that has this token. Every token is compared, whichever matches."""
        digest, found = hashlib.sha256(presented).digest(), None
        for caller in self._callers:
            if hmac.compare_digest(caller.digest, digest):
                found = caller
        return found


class _WrongGuesses(msgspec.Struct, frozen=True):
    count: int = 0
    last: float = 0.0
    turn: float = 0.0


class Guesses:
    """How often each address guessed wrong recently, how long its next attempt waits, and which tokens worked from it.

    Bounded: what was quiet longest is forgotten first.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._wrong: OrderedDict[str, _WrongGuesses] = OrderedDict()
        self._trusted: OrderedDict[tuple[str, bytes], None] = OrderedDict()

    def delay(self, address: str, caller: Caller | None) -> float:
        """Return the seconds that this attempt has to wait for its answer. Attempts from one address take turns."""
        now = self._clock()
        if caller is not None and self.is_free(address, caller):
            return 0.0
        wrong = self._recent(address, now)
        turn = min(max(now, wrong.turn) + _delay_after(wrong.count), now + LONGEST_WAIT)
        self.set_wrong(address, _WrongGuesses(wrong.count + (caller is None), now, turn))
        return turn - now if _delay_after(wrong.count) else 0.0

    def is_free(self, address: str, caller: Caller) -> bool:
        """Whether a right token is taken from this address without a delay."""
        if not self.wrong(address).count:  # as a rule
            return True
        return not self._recent(address, self._clock()).count or (address, caller.digest) in self._trusted

    def take_turn(self, address: str) -> float | None:
        """Count an attempt before it is checked, and return the seconds that it has to wait for its turn; None if so
        many wait already that it is refused. An attempt that turns out right is given back."""
        now = self._clock()
        wrong = self._recent(address, now)
        delay = _delay_after(wrong.count)
        turn = max(now, wrong.turn) + delay
        if turn > now + LONGEST_WAIT:
            return None
        self.set_wrong(address, _WrongGuesses(wrong.count + 1, now, turn))
        return turn - now if delay else 0.0

    def give_back(self, address: str) -> None:
        """Undo the count of an attempt that was right."""
        wrong = self.wrong(address)
        if wrong.count:
            self.set_wrong(address, msgspec.structs.replace(wrong, count=wrong.count - 1))

    def trust(self, address: str, caller: Caller) -> None:
        """Note that this token has worked from this address."""
        self._trusted[address, caller.digest] = None
        _touch_bounded(self._trusted, (address, caller.digest))

    def wrong(self, address: str) -> _WrongGuesses:
        return self._wrong.get(address, _NONE_WRONG)

    def set_wrong(self, address: str, wrong: _WrongGuesses) -> None:
        self._wrong[address] = wrong
        _touch_bounded(self._wrong, address)

    def _recent(self, address: str, now: float) -> _WrongGuesses:
        wrong = self.wrong(address)
        return _NONE_WRONG if wrong.count and now - wrong.last > FORGET_SECONDS else wrong


_NONE_WRONG = _WrongGuesses()


class ServiceGuesses(msgspec.Struct, frozen=True):
    """Guesses of tokens, of API keys, and of passwords on the pages."""

    tokens: Guesses = msgspec.field(default_factory=Guesses)
    keys: Guesses = msgspec.field(default_factory=Guesses)
    pages: Guesses = msgspec.field(default_factory=Guesses)


def _touch_bounded(kept: OrderedDict[K, V], newest: K) -> None:
    kept.move_to_end(newest)
    if len(kept) > MAX_ADDRESSES:
        kept.popitem(last=False)


def ignore_use(_name: str, _address: str) -> None:
    """The default for who does not store uses: do nothing."""


class Authenticator:
    """Authenticates callers by the static tokens of the configuration."""

    def __init__(self, tokens: Tokens, guesses: Guesses, note_use: Callable[[str, str], None] = ignore_use) -> None:
        """`note_use` is told the name of each token that is used, and the address of its client."""
        self._tokens = tokens
        self._guesses = guesses
        self._note_use = note_use

    async def enter(self, request: Request, permission: TokenPermission | None = None) -> Caller | Failure:
        """Return the caller that the Authorization header names, if it has the permission, or the failure."""
        presented = parse_authorization(request.scope["headers"], "Bearer", "ACCESS_TOKEN")
        if isinstance(presented, Failure):
            return presented
        caller = self._tokens.find(presented)
        host = client_host(request)
        address = guessing_address(host)
        delay = self._guesses.delay(address, caller)
        if delay:
            await asyncio.sleep(delay)
        if caller is None:
            return unauthorized("the token is not known", 'Bearer error="invalid_token"')
        self._guesses.trust(address, caller)
        self._note_use(caller.name, host)
        return (caller.may(permission) if permission else None) or caller

    def enter_at_once(self, headers: list[tuple[bytes, bytes]], host: str) -> Caller | None:
        """Return the caller, for a request that has to wait for nothing; None for one that is refused or delayed."""
        presented = parse_authorization(headers, "Bearer", "ACCESS_TOKEN")
        caller = None if isinstance(presented, Failure) else self._tokens.find(presented)
        address = guessing_address(host) if ":" in host else host
        if caller is None or not self._guesses.is_free(address, caller):
            return None
        self._guesses.trust(address, caller)
        self._note_use(caller.name, host)
        return caller


def parse_authorization(headers: list[tuple[bytes, bytes]], scheme: str, what: str) -> bytes | Failure:
    """Return the credential after the name of its scheme, which is case-insensitive (RFC 9110 section 11.1)."""
    stated, count = b"", 0
    for name, value in headers:
        if name == b"authorization":
            stated, count = value, count + 1
    if not count:
        return unauthorized(f"a credential is needed: Authorization: {scheme} <{what}>", scheme)
    named, _, credential = stated.partition(b" ")
    credential = credential.strip(b" ")
    if count > 1 or named.lower() != scheme.lower().encode() or not credential:
        return unauthorized(f"the Authorization header must read: {scheme} <{what}>", scheme)
    return credential


def unauthorized(message: str, challenge: str) -> Failure:
    """Return the failure for a missing or wrong credential; the challenge names the kind that is needed."""
    return Failure(UNAUTHORIZED, message, (("WWW-Authenticate", challenge),))


def _delay_after(count: int) -> float:
    if count < FREE_GUESSES:
        return 0.0
    return min(LONGEST_DELAY, FIRST_DELAY * 2.0 ** min(count - FREE_GUESSES, 10))


def client_host(request: Request) -> str:
    """Return the address of the client; "" where the server does not know it."""
    client = request.scope.get("client")
    return str(client[0]) if client else ""


def address_of(request: Request) -> str:
    """Return what the guesses of a client are counted for."""
    return guessing_address(client_host(request))


def guessing_address(host: str) -> str:
    """An IPv4 address as it is; of an IPv6 address the /64 that a host can choose addresses from."""
    if ":" not in host:
        return host
    try:
        address = IPv6Address(host)
    except ValueError:
        return host
    return str(address.ipv4_mapped or address.exploded[:19])


APIKEY_SCHEME = "apikey"

log = Logger("gatepost.abby")


class ApiKeyAuthenticator:
    """Authenticates callers of the List API by their API keys."""

    def __init__(self, store: ApiKeys, guesses: Guesses) -> None:
        self._store = store
        self._guesses = guesses

    async def enter(self, request: Request) -> ApiKey | Failure:
        """Return the key that the Authorization header carries, or the failure."""
        presented = parse_authorization(request.scope["headers"], APIKEY_SCHEME, "API_KEY")
        if isinstance(presented, Failure):
            return presented
        found = await self._store.authenticate(presented.decode("latin-1"), client_host(request))
        if isinstance(found, ApiKey):
            return found
        log.info("api key refused", reason=found.reason, key=found.key.id if found.key else None)
        delay = self._guesses.delay(address_of(request), None)
        if delay:
            await asyncio.sleep(delay)
        return unauthorized("the API key is unknown, expired or revoked", APIKEY_SCHEME)
