"""Signatures on mail that leaves: DKIM for outbound mail, and DKIM and ARC for mail that an action has changed.

A message is gone through twice, once for the hash of its body and once to be sent, so that a large one is never in
memory as a whole. Signatures cover the message as it leaves, with the fields that guard adds on top of it.
"""

import re
import time
from collections.abc import Callable, Iterable, Iterator

import structlog

from gatepost.auth.header import format_header
from gatepost.auth.signing import SigningKey, hash_body, make_arc_set, make_dkim_signature
from gatepost.mail.message import Envelope, Field
from gatepost.names import normal_domain
from gatepost.report import Report
from gatepost.smtp.client import Tenancy
from gatepost.smtp.signing_keys import KeyFile, KeyFileError, SigningKeys
from gatepost.smtp.trace import MAX_FIELDS, MAX_HEADER

_FIELD = re.compile(rb"([!-9;-~]++)[ \t]*+:[^\r\n]*+(?:\r\n[ \t][^\r\n]*+)*+\r\n")
_LINE = re.compile(rb"[^\r\n]*+\r\n")
# The header that came, and what is added to it.
_MOST_HEADER = MAX_HEADER + (64 << 10)

log = structlog.get_logger("gatepost.guard")


class UnsignedError(Exception):
    """A message that is to be signed cannot be: a key is not there."""


class Signer:
    """Signs with the keys of a core. `seal_key` seals with ARC: mail that was changed, or with `seals_all` all inbound
    mail. With `signs_changed`, inbound mail that was changed is signed by the domains that have keys."""

    def __init__(
        self,
        keys: SigningKeys,
        hostname: str,
        tenancy: Tenancy,
        *,
        signs_changed: bool = False,
        seal_key: KeyFile | None = None,
        seals_all: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._keys, self._hostname, self._tenancy, self._clock = keys, hostname, tenancy, clock
        self._signs_changed, self._seals_all = signs_changed, seals_all
        self._seal_domain = seal_key.domain if seal_key else ""
        self._seal_keys = SigningKeys([seal_key]) if seal_key else None
        self.signed = self.sealed = 0

    async def choose(self, report: Report, envelope: Envelope, *, changed: bool) -> "Signing | None":
        """Return how a message is signed; None if it is not. Raises `UnsignedError` where a key is not there."""
        seals = not envelope.outbound and self._seal_keys is not None and (changed or self._seals_all)
        signs = envelope.outbound or (changed and self._signs_changed)
        try:
            keys = await self._find_keys(report, envelope) if signs else ()
            seal = self._seal_keys.of(self._seal_domain)[0] if seals and self._seal_keys else None
        except KeyFileError as fault:
            log.error("a key for signing cannot be used", reason=str(fault))
            raise UnsignedError from None
        if not keys and seal is None:
            return None
        self.signed += bool(keys)
        self.sealed += seal is not None
        return Signing(keys, seal, self._hostname, report, int(self._clock()))

    async def _find_keys(self, report: Report, envelope: Envelope) -> tuple[SigningKey, ...]:
        """Return the keys of the one author's domain. A tenant's mail is not signed in the name of another one, and
        inbound mail only where its author was proven before it was changed."""
        domains = {normal_domain(sender.rpartition("@")[2]) for sender in report.senders}
        if len(domains) != 1:
            return ()
        domain = self._keys.find_domain(author := domains.pop())
        if not domain:
            return ()
        owner = await self._tenancy.tenant_of(author) or await self._tenancy.tenant_of(domain)
        is_proven = owner == envelope.tenant if envelope.outbound else report.authentication.aligned
        return self._keys.of(domain) if is_proven else ()


class Signing:
    """How one message is signed."""

    def __init__(
        self, keys: tuple[SigningKey, ...], seal: SigningKey | None, hostname: str, report: Report, now: int
    ) -> None:
        self._keys, self._seal, self._hostname, self._report, self._now = keys, seal, hostname, report, now

    def make_fields(self, pieces: Iterable[bytes]) -> bytes:
        """Return the fields that go on top of a message, which comes in pieces."""
        waiting = iter(pieces)
        head, rest = _split(waiting)
        fields = list(_read_fields(head))
        body_hash = hash_body(_join(rest, waiting))
        made = [make_dkim_signature(fields, body_hash, key, self._now) for key in self._keys]
        top = b"".join(each for each in made if each)
        if self._seal is not None:
            signed = [*_read_fields(top), *fields]
            results = format_header(self._hostname, self._report.authentication)
            chain = self._report.authentication.arc.result
            top = (make_arc_set(signed, body_hash, results, self._seal, self._now, chain) or b"") + top
        return top


def _split(pieces: Iterator[bytes]) -> tuple[bytes, bytes]:
    """Return the header section with its last line end, and what came of the body with it."""
    head = b""
    for piece in pieces:
        head += piece
        end = head.find(b"\r\n\r\n")
        if end >= 0:
            return head[: end + 2], head[end + 4 :]
        if len(head) > _MOST_HEADER:
            break
    return head, b""


def _read_fields(head: bytes) -> Iterator[Field]:
    position = count = 0
    while position < len(head) and count < 2 * MAX_FIELDS:
        count += 1
        match = _FIELD.match(head, position)
        if match is not None:
            yield Field(match[1].lower().decode("ascii"), "", match[0])
        else:
            match = _LINE.match(head, position)
        position = match.end() if match else len(head)


def _join(first: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    yield first
    yield from rest
