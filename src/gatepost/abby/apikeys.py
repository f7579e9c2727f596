"""`Authorization: apikey <API_KEY>`: the keys of the List API.

A key is 256 bits of chance, so a right one was never guessed, and it never has to wait. Wrong ones wait, each longer
than the last, so that trying does not pay.
"""

import asyncio

import structlog
from starlette.requests import Request

from gatepost.abby.credentials import Guesses, address_of, authorization, unauthorized
from gatepost.api.errors import Failure
from gatepost.store.api_keys import ApiKey, ApiKeyStore

SCHEME = "apikey"

log = structlog.get_logger("gatepost.abby")


class KeyDoor:
    """Lets keys in, or says why not."""

    def __init__(self, store: ApiKeyStore, guesses: Guesses) -> None:
        self._store = store
        self._guesses = guesses

    async def enter(self, request: Request) -> ApiKey | Failure:
        """The key that the Authorization header carries."""
        presented = authorization(request, SCHEME, "API_KEY")
        if isinstance(presented, Failure):
            return presented
        found = await self._store.api_key(presented.decode("latin-1"))
        if isinstance(found, ApiKey):
            return found
        log.info("api key refused", reason=found.reason, key=found.key.id if found.key else None)
        delay = self._guesses.delay(address_of(request), None)
        if delay:
            await asyncio.sleep(delay)
        return unauthorized("the API key is unknown, expired or revoked", SCHEME)
