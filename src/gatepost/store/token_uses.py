"""When the tokens of the Email Scanning API were last used, and from which address.

Tokens are settings, so storage has no other record of them; like the audit trail it knows them by name. A use is an
entry of a dictionary. It is written while its request goes on, at most once a minute for each token and process; of
several nodes the newest use wins.
"""

import asyncio

import msgspec

from gatepost.store.engine import Engine, Operations, Read, Work, Write, change, now, query, storable
from gatepost.store.errors import StorageError

# How exact "last used" is; each token costs at most one write in this time.
USE_MILLISECONDS = 60_000
MAX_TEXT = 300

_SET = """INSERT INTO token_uses AS kept (name, last_used, address) VALUES ($1, $2, $3) ON CONFLICT (name) DO UPDATE
SET last_used = excluded.last_used, address = excluded.address WHERE kept.last_used < excluded.last_used"""
_SELECT = "SELECT name, last_used, address FROM token_uses"


class TokenUse(msgspec.Struct, frozen=True):
    """The last use of a token: when, and from which address."""

    name: str
    last_used: int
    address: str


class TokenUseStore(Operations):
    """The last uses of tokens."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._token_uses: dict[str, int] = {}
        self._token_use_writers: set[asyncio.Task[None]] = set()

    def note_token_use(self, name: str, address: str) -> None:
        """Store that a token was used, while its request goes on; nothing if that was done within the last minute."""
        moment = now()
        if moment - self._token_uses.get(name, 0) < USE_MILLISECONDS:
            return
        self._token_uses[name] = moment
        task = asyncio.ensure_future(self._write_token_use(name, moment, address))
        self._token_use_writers.add(task)
        task.add_done_callback(self._token_use_writers.discard)

    @query
    def token_uses(self) -> Work[dict[str, TokenUse]]:
        """The last use of every token that was ever used, by its name."""
        return {row[0]: TokenUse(*row) for row in (yield Read(_SELECT))}

    async def _write_token_use(self, name: str, moment: int, address: str) -> None:
        try:
            await self._set_token_use(name, moment, address)
        except StorageError:
            # Whoever needs storage meets the same trouble and reports it; the next use in a minute is stored.
            return

    @change
    def _set_token_use(self, name: str, moment: int, address: str) -> Work[None]:
        yield Write(_SET, (storable(name[:MAX_TEXT]), moment, storable(address[:MAX_TEXT])))

    async def _finish_writing_token_uses(self) -> None:
        await asyncio.gather(*self._token_use_writers)
