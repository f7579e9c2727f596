"""The Sender Rewriting Scheme (SRS): the envelope sender of forwarded mail becomes one of ours, so that SPF passes.

A mailbox server that forwards mail to another place sends it with the sender of a stranger, whose SPF record does not
name our hosts. The border puts an address of its own in that place, and a bounce that comes back to it is sent on to
the one that it stands for:

    ann@x.example                        becomes  SRS0=hash=day=x.example=ann@srs.own.example
    SRS0=hash=day=x.example=ann@first    becomes  SRS1=hash=first==hash=day=x.example=ann@srs.own.example

The second form is for mail that another forwarder has rewritten: a bounce goes back to that one, and not through all of
them (section 5 of Meng Weng Wong's paper "Sender Rewriting Scheme", 2003, and what libsrs2 does).

Without the hash anybody could send mail through such an address to whomever they like, so it is an HMAC over the rest,
and it holds for three weeks. Local parts may come back in other letter case, therefore hash and day are written in
letters that have none (base32), and what is hashed is in lower case. The first key signs and every key is accepted, so
that keys can change: a new one is put first, and the old one is removed after three weeks.
"""

import hmac
import re
import time
from base64 import b32encode
from collections.abc import Callable, Sequence

from gatepost.names import normal_domain

MAX_DAYS = 21
# Bounces that come back are no longer than what was sent; a local part beyond this is left as it is.
MAX_LOCAL = 240
_HASH_LETTERS = 8
_DAYS = 1 << 10
_LETTERS = "abcdefghijklmnopqrstuvwxyz234567"
_FIRST = re.compile(r"srs0[=+-]([a-z2-7]{4,16})=([a-z2-7]{2})=([^=@]{1,255})=(.+)", re.IGNORECASE | re.DOTALL)
_LATER = re.compile(r"srs1[=+-]([a-z2-7]{4,16})=([^=@]{1,255})=([=+-].+)", re.IGNORECASE | re.DOTALL)
_OF_OTHERS = re.compile(r"srs1[=+-][^=@]{1,64}=([^=@]{1,255})=([=+-].+)", re.IGNORECASE | re.DOTALL)


class SenderRewriting:
    """Rewrites senders of strangers into the domain of the border, and back. `own` are domains whose senders stay."""

    def __init__(
        self, domain: str, keys: Sequence[str], own: Sequence[str] = (), clock: Callable[[], float] = time.time
    ) -> None:
        self.domain, self._clock = normal_domain(domain), clock
        self._keys = tuple(each.encode() for each in keys)
        self._own = frozenset(map(normal_domain, (*own, domain)))
        self.rewritten = self.returned = self.refused = 0

    def keeps(self, domain: str) -> bool:
        """Whether senders of a domain in normal form stay as they are."""
        return domain in self._own

    def rewrite(self, address: str) -> str:
        """Return the address that stands for a sender; the sender itself where it has none, or one that is too long."""
        local, at, domain = address.rpartition("@")
        if not at or not local or "=" in domain:
            return address
        if later := _OF_OTHERS.fullmatch(local):
            made = self._sign_later(later[1], later[2])
        elif local[:5].lower() in ("srs0=", "srs0+", "srs0-"):
            made = self._sign_later(domain, local[4:])
        else:
            today = self._today()
            day = _LETTERS[today >> 5] + _LETTERS[today & 31]
            made = f"SRS0={self._sign(self._keys[0], day, domain, local)}={day}={domain}={local}"
        if len(made) > MAX_LOCAL:
            return address
        self.rewritten += 1
        return f"{made}@{self.domain}"

    @staticmethod
    def is_rewritten(address: str) -> bool:
        """Whether an address has the form of a rewritten one."""
        return address[:4].lower() in ("srs0", "srs1") and address[4:5] in ("=", "+", "-")

    def reverse(self, address: str) -> str | None:
        """Return the address that a rewritten one stands for; None where it was not made here, or not lately."""
        local = address.rpartition("@")[0]
        found = self._reverse_first(local) or self._reverse_later(local)
        if found is None:
            self.refused += 1
        else:
            self.returned += 1
        return found

    def _reverse_first(self, local: str) -> str | None:
        match = _FIRST.fullmatch(local)
        if match is None:
            return None
        said, day, domain, name = match.groups()
        # A bounce may come to a node whose clock has not passed midnight yet: then the address is of tomorrow.
        age = (self._today() - _read_day(day) + 1) % _DAYS - 1
        return f"{name}@{domain}" if age <= MAX_DAYS and self._is_ours(said, day, domain, name) else None

    def _reverse_later(self, local: str) -> str | None:
        match = _LATER.fullmatch(local)
        if match is None or not self._is_ours(match[1], match[2], match[3]):
            return None
        return f"SRS0{match[3]}@{match[2]}"

    def _sign_later(self, first: str, rest: str) -> str:
        return f"SRS1={self._sign(self._keys[0], first, rest)}={first}={rest}"

    def _is_ours(self, said: str, *parts: str) -> bool:
        # Every key is tried, so that the time does not tell which one it was.
        right = [hmac.compare_digest(self._sign(key, *parts), said.lower()) for key in self._keys]
        return any(right)

    @staticmethod
    def _sign(key: bytes, *parts: str) -> str:
        whole = "\0".join(parts).lower().encode("utf-8", "surrogatepass")
        return b32encode(hmac.digest(key, whole, "sha256"))[:_HASH_LETTERS].decode().lower()

    def _today(self) -> int:
        return int(self._clock() // 86_400) % _DAYS


def _read_day(text: str) -> int:
    high, low = (_LETTERS.index(letter) for letter in text.lower())
    return high << 5 | low
