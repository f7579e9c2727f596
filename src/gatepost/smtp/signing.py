"""Signatures on mail that leaves: DKIM for outbound mail, and DKIM and ARC for mail that an action has changed.

A message is gone through twice, once for the hash of its body and once to be sent, so that a large one is never in
memory as a whole. Signatures cover the message as it leaves, with the fields that guard adds on top of it.

Private keys are PEM files that nobody else may read, read again when they change. A key that was replaced by something
unusable stays in force as it was, and the log says so: mail that leaves unsigned can be refused elsewhere for good.
Keys are read in guard's own process and go nowhere from there.
"""

import asyncio
import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from gatepost.analysis.report import Report, undecided
from gatepost.auth.results import format_header
from gatepost.auth.signing import PrivateKey, SigningKey, hash_body, make_arc_set, make_dkim_signature
from gatepost.mail.message import Envelope, Field
from gatepost.names import normal_domain
from gatepost.process.logs import Logger
from gatepost.settings.delivery import SigningKeySettings
from gatepost.smtp.client import SenderClaim, Tenancy
from gatepost.smtp.trace import MAX_FIELDS, MAX_HEADER, split_header

# RFC 8301 section 3.2: at least 1024 bits, better 2048; keys of more than 4096 are not accepted everywhere.
LEAST_BITS, MOST_BITS = 1_024, 4_096
MAX_FILE = 64 << 10
_OTHERS = stat.S_IWGRP | stat.S_IRWXO

log = Logger("gatepost.guard")


class KeyFileError(ValueError):
    """A key file cannot be used; the text is the end of a sentence."""


def read_private_key(path: Path) -> PrivateKey:
    """Read a private key. Raises `KeyFileError`."""
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            content = file.read(MAX_FILE)
    except OSError as fault:
        raise KeyFileError(f"cannot be read: {(fault.strerror or 'unknown error').lower()}") from None
    if mode & _OTHERS:
        raise KeyFileError(f"can be read or changed by others (mode {stat.S_IMODE(mode):04o}): use chmod 0600")
    try:
        key = load_pem_private_key(content, None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise KeyFileError("is not a PEM file with a private key without a password") from None
    if isinstance(key, RSAPrivateKey):
        if not LEAST_BITS <= key.key_size <= MOST_BITS:
            raise KeyFileError(f"has a key of {key.key_size} bits: DKIM takes {LEAST_BITS} to {MOST_BITS}")
        return key
    if isinstance(key, Ed25519PrivateKey):
        return key
    raise KeyFileError("has a key that is neither RSA nor Ed25519")


class SigningKeys:
    """The keys of a core, by their domains."""

    def __init__(self, files: Sequence[SigningKeySettings]) -> None:
        self._by_domain: dict[str, list[SigningKeySettings]] = {}
        for each in files:
            self._by_domain.setdefault(each.domain, []).append(each)
        self._known: dict[str, tuple[tuple[int, int, int], PrivateKey]] = {}
        self._refused: dict[str, tuple[int, int, int]] = {}

    def find_domain(self, domain: str) -> str:
        """Return the domain that signs for this one: itself, or the nearest above it that has a key; "" if none has."""
        labels = domain.split(".")
        for start in range(len(labels) - 1):
            name = ".".join(labels[start:])
            if name in self._by_domain:
                return name
        return ""

    def of(self, domain: str) -> tuple[SigningKey, ...]:
        """Return the keys of a domain that has some. Raises `KeyFileError` where one could never be read."""
        return tuple(SigningKey(each.domain, each.selector, self._load(each)) for each in self._by_domain[domain])

    def _load(self, key: SigningKeySettings) -> PrivateKey:
        known = self._known.get(key.file)
        try:
            found = Path(key.file).stat()
            state = (found.st_mtime_ns, found.st_size, found.st_ino)
            if known and (known[0] == state or self._refused.get(key.file) == state):
                return known[1]
            private = read_private_key(Path(key.file))
        except (OSError, KeyFileError) as fault:
            if known is None:
                raise KeyFileError(str(fault)) from None
            if not isinstance(fault, OSError):
                self._refused[key.file] = state
            log.error("signing key stays as it was", domain=key.domain, selector=key.selector, reason=str(fault))
            return known[1]
        if known:
            log.info("signing key read again", domain=key.domain, selector=key.selector)
        self._known[key.file] = (state, private)
        return private


# The header that came, and what is added to it.
_MOST_HEADER = MAX_HEADER + (64 << 10)


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
        seal_key: SigningKeySettings | None = None,
        seals_all: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._keys, self._hostname, self._tenancy, self._clock = keys, hostname, tenancy, clock
        self._signs_changed, self._seals_all = signs_changed, seals_all
        self._seal_domain = seal_key.domain if seal_key else ""
        self._seal_keys = SigningKeys([seal_key]) if seal_key else None
        self.signed = self.sealed = 0

    async def choose(
        self, report: Report, envelope: Envelope, claim: SenderClaim | None = None, *, changed: bool
    ) -> "Signing | None":
        """Return how a message is signed; None if it is not. Outbound mail is signed by its `claim` only. Raises
        `UnsignedError` where a key is not there."""
        seals = not envelope.outbound and self._seal_keys is not None and (changed or self._seals_all)
        signs = envelope.outbound or (changed and self._signs_changed)
        try:
            keys = await self._find_keys(report, envelope, claim) if signs else ()
            seal = None
            if seals and self._seal_keys:
                seal = (await asyncio.to_thread(self._seal_keys.of, self._seal_domain))[0]
        except KeyFileError as fault:
            log.error("a key for signing cannot be used", reason=str(fault))
            raise UnsignedError from None
        if not keys and seal is None:
            return None
        self.signed += bool(keys)
        self.sealed += seal is not None
        return Signing(keys, seal, self._hostname, report, int(self._clock()))

    async def _find_keys(self, report: Report, envelope: Envelope, claim: SenderClaim | None) -> tuple[SigningKey, ...]:
        """Return the keys of the one author's domain. Outbound mail is signed for tenants alone that its client is
        bound to, inbound mail only where its author was proven before it was changed."""
        domains = {normal_domain(sender.rpartition("@")[2]) for sender in report.senders}
        if len(domains) != 1:
            return ()
        domain = self._keys.find_domain(author := domains.pop())
        if not domain:
            return ()
        owner = await self._tenancy.tenant_of(author) or await self._tenancy.tenant_of(domain)
        is_bound = claim is not None and claim.may_sign(owner)
        is_proven = is_bound if envelope.outbound else report.authentication.aligned
        return await asyncio.to_thread(self._keys.of, domain) if is_proven else ()


def sign_own_mail(keys: SigningKeys, domain: str, raw: bytes, moment: int) -> bytes:
    """Return the DKIM fields of a mail that we write ourselves in the name of a domain. Raises `KeyFileError`."""
    signer = keys.find_domain(domain)
    if not signer:
        raise KeyFileError(f"is not there for {domain}")
    return Signing(keys.of(signer), None, "", undecided(""), moment).make_fields([raw])


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
    for part in split_header(head, 2 * MAX_FIELDS):
        if part[1] is not None:
            yield Field(part[1].lower().decode("ascii"), "", part[0])


def _join(first: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    yield first
    yield from rest
