"""Passwords: Argon2id (RFC 9106), off the event loop, and never faster for a name that does not exist.

One hash takes 64 MiB and some tens of milliseconds on purpose. Two at a time bound what strangers can make us spend;
the others wait. A name that nobody has is checked against a hash that no password fits, so that time tells nothing.
"""

import asyncio
import secrets

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

SHORTEST = 12
LONGEST = 256
AT_ONCE = 2


class Passwords:
    """Hashes and checks passwords."""

    def __init__(self) -> None:
        self._hasher = PasswordHasher()
        self._turn = asyncio.Semaphore(AT_ONCE)
        self._nobody = ""

    async def hashed(self, password: str) -> str:
        """What is kept of a password."""
        async with self._turn:
            return await asyncio.to_thread(self._hasher.hash, password)

    async def right(self, kept: str | None, password: str) -> bool:
        """Is it the password? None stands for a user who does not exist, and takes as long."""
        if not self._nobody:
            self._nobody = await self.hashed(secrets.token_hex(32))
        async with self._turn:
            return await asyncio.to_thread(self._fits, kept or self._nobody, password) and kept is not None

    def _fits(self, kept: str, password: str) -> bool:
        try:
            return self._hasher.verify(kept, password[: LONGEST + 1])
        except (VerificationError, InvalidHashError):
            return False


def refused(password: str, name: str) -> str:
    """Why a new password is not taken; empty where it is. Length is what counts, not odd characters."""
    if len(password) < SHORTEST:
        return f"it needs at least {SHORTEST} characters; a few words in a row are good"
    if len(password) > LONGEST:
        return f"it may have at most {LONGEST} characters"
    if name.casefold() in password.casefold() and len(password) < 2 * len(name) + 8:
        return "it must not be made of the user's name"
    if len(set(password)) < 5:
        return "it repeats the same few characters"
    return ""


def invented() -> str:
    """A password to begin with, in a form that people can type."""
    return "-".join(secrets.token_hex(3) for _ in range(4))
