"""Signing keys of the settings: the signer of a core, the records that DNS must have, and whether it has them."""

import asyncio
import base64
import os
from pathlib import Path
from typing import Literal

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from gatepost.auth.signing import PrivateKey
from gatepost.guard.answers.dns import Resolver
from gatepost.questions import Dns
from gatepost.service.data_folder import StartError
from gatepost.service.routes import hostname
from gatepost.settings.delivery import SigningKeySettings
from gatepost.settings.keys import GuardSettings
from gatepost.smtp.client import Tenancy
from gatepost.smtp.signing import KeyFileError, Signer, SigningKeys, read_private_key

BITS = 2_048
# A string of a TXT record has at most 255 bytes (RFC 1035 section 3.3).
_STRING = 250


def list_keys(settings: GuardSettings) -> tuple[SigningKeySettings, ...]:
    """Return every key that the settings name, that of ARC last."""
    return (*settings.dkim.keys, *([settings.arc.key] if settings.arc else []))


def build_signer(settings: GuardSettings, tenancy: Tenancy) -> Signer | None:
    """Build what signs mail, if there is a key; raises `StartError` if one cannot be used."""
    keys = list_keys(settings)
    for each in keys:
        try:
            read_private_key(Path(each.file))
        except KeyFileError as fault:
            raise StartError(f"The key of {each.selector}, {each.domain} in guard.yml {fault}: {each.file}.") from None
    if not keys:
        return None
    arc = settings.arc
    return Signer(
        SigningKeys(settings.dkim.keys),
        hostname(settings),
        tenancy,
        signs_changed=settings.dkim.sign_changed,
        seal_key=arc.key if arc else None,
        seals_all=arc is not None and arc.seal == "always",
    )


def write_key(path: Path, algorithm: Literal["rsa", "ed25519"]) -> PrivateKey:
    """Make a key and write it to a new file that only its owner can read. Raises `OSError`; a file that is there stays
    as it is."""
    key: PrivateKey
    if algorithm == "rsa":
        key = generate_private_key(public_exponent=65_537, key_size=BITS)
    else:
        key = Ed25519PrivateKey.generate()
    content = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    return key


def make_record(key: PrivateKey) -> str:
    """Return the TXT record of the public half of a key (RFC 6376 section 3.6.1, RFC 8463 section 4)."""
    if isinstance(key, RSAPrivateKey):
        public = key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        return f"v=DKIM1; k=rsa; p={base64.b64encode(public).decode()}"
    public = key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    return f"v=DKIM1; k=ed25519; p={base64.b64encode(public).decode()}"


def render_record(name: str, record: str) -> str:
    """Return a record as a line of a zone file, in strings of allowed length."""
    strings = [record[start : start + _STRING] for start in range(0, len(record), _STRING)]
    return f"{name}. IN TXT ( " + " ".join(f'"{each}"' for each in strings) + " )"


class PublishedKey(msgspec.Struct, frozen=True, rename="camel"):
    """A key, the record that DNS must have for it, and what DNS has: `state` is ok, missing, different, unknown (DNS
    did not answer) or unusable (the file)."""

    domain: str
    selector: str
    name: str
    algorithm: str
    record: str
    state: Literal["ok", "missing", "different", "unknown", "unusable"]
    reason: str = ""


def compare_with_dns(settings: GuardSettings) -> tuple[PublishedKey, ...]:
    """Look up the record of every key, and compare it with the key."""
    return asyncio.run(_compare(settings))


async def _compare(settings: GuardSettings) -> tuple[PublishedKey, ...]:
    resolver = Resolver(settings.dns.nameservers, settings.dns.timeout / 1_000)
    try:
        return tuple([await _compare_one(resolver, each) for each in list_keys(settings)])
    finally:
        await resolver.close()


async def _compare_one(resolver: Resolver, stated: SigningKeySettings) -> PublishedKey:
    name = f"{stated.selector}._domainkey.{stated.domain}"
    try:
        key = read_private_key(Path(stated.file))
    except KeyFileError as fault:
        return PublishedKey(stated.domain, stated.selector, name, "", "", "unusable", f"{stated.file} {fault}")
    record = make_record(key)
    algorithm = f"rsa {key.key_size}" if isinstance(key, RSAPrivateKey) else "ed25519"
    answer = await resolver.ask(Dns(name, "TXT"))
    state: Literal["ok", "missing", "different", "unknown"] = "missing"
    reason = ""
    if answer.status == "failed":
        state, reason = "unknown", "DNS did not answer"
    elif answer.status == "found":
        state = "ok" if any(_public_part(each) == _public_part(record) for each in answer.records) else "different"
    return PublishedKey(stated.domain, stated.selector, name, algorithm, record, state, reason)


def _public_part(record: str) -> str:
    """Return what p= of a record spells, without blanks and padding."""
    tags = dict(piece.strip().partition("=")[::2] for piece in record.split(";"))
    return "".join(tags.get("p", "").split()).rstrip("=")
