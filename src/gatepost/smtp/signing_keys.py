"""Private keys for DKIM and ARC: PEM files that nobody else may read, read again when they change.

A key that was replaced by something unusable stays in force as it was, and the log says so: mail that leaves unsigned
can be refused elsewhere for good. Keys are read in guard's own process and go nowhere from there.
"""

import os
import stat
from collections.abc import Sequence
from pathlib import Path

import msgspec
import structlog
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from gatepost.auth.signing import PrivateKey, SigningKey

# RFC 8301 section 3.2: at least 1024 bits, better 2048; keys of more than 4096 are not accepted everywhere.
LEAST_BITS, MOST_BITS = 1_024, 4_096
MAX_FILE = 64 << 10
_OTHERS = stat.S_IWGRP | stat.S_IRWXO

log = structlog.get_logger("gatepost.guard")


class KeyFileError(ValueError):
    """A key file cannot be used; the text is the end of a sentence."""


class KeyFile(msgspec.Struct, frozen=True):
    """Where a key is, and under which name its public half is published."""

    domain: str
    selector: str
    file: str


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

    def __init__(self, files: Sequence[KeyFile]) -> None:
        self._by_domain: dict[str, list[KeyFile]] = {}
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

    def _load(self, key: KeyFile) -> PrivateKey:
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
            log.error("key stays as it was", domain=key.domain, selector=key.selector, reason=str(fault))
            return known[1]
        if known:
            log.info("key read again", domain=key.domain, selector=key.selector)
        self._known[key.file] = (state, private)
        return private
