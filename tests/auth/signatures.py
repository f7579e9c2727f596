"""A signer by its own slow reading of RFC 6376, and DNS that has its key."""

import base64
import hashlib
import re
from functools import cache
from typing import TypeVar

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import (
    RSAPrivateKey,
    RSAPrivateNumbers,
    RSAPublicNumbers,
    generate_private_key,
)
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from tests.asking import run_asking

from gatepost.auth.signature import SignedMessage
from gatepost.mail.message import Field
from gatepost.mail.reader import read
from gatepost.questions import Asking, Dns, DnsAnswer

T = TypeVar("T")
KEY = "sel._domainkey.example.org"
PrivateKey = RSAPrivateKey | Ed25519PrivateKey


@cache
def make_key(kind: str) -> PrivateKey:
    if kind == "ed25519":
        return Ed25519PrivateKey.generate()
    if kind == "weak":
        return _weak()
    return generate_private_key(65537, int(kind.removeprefix("rsa")))


def _weak() -> RSAPrivateKey:
    """An RSA key of 768 bits, which the library reads but does not make."""
    p, q = (1 << 384) - 317, (1 << 384) - 1437
    d = pow(65537, -1, (p - 1) * (q - 1))
    public = RSAPublicNumbers(65537, p * q)
    return RSAPrivateNumbers(p, q, d, d % (p - 1), d % (q - 1), pow(q, -1, p), public).private_key()


def make_record(key: PrivateKey) -> str:
    public = key.public_key()
    if isinstance(key, Ed25519PrivateKey):
        return f"v=DKIM1; k=ed25519; p={base64.b64encode(public.public_bytes(Encoding.Raw, PublicFormat.Raw)).decode()}"
    der = public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return f"v=DKIM1; k=rsa; p={base64.b64encode(der).decode()}"


def read_signed(raw: bytes) -> SignedMessage:
    message = read(raw)
    return SignedMessage(message.raw, message.header_end, message.headers.fields)


def _header(field: bytes, form: str) -> bytes:
    if form == "simple":
        return field.removesuffix(b"\r\n")
    name, _, value = field.partition(b":")
    return name.strip().lower() + b":" + re.sub(rb"[ \t]+", b" ", value.replace(b"\r\n", b"")).strip()


def _body(body: bytes, form: str) -> bytes:
    lines = body.split(b"\r\n")
    if form == "relaxed":
        lines = [re.sub(rb"[ \t]+", b" ", line).rstrip(b" ") for line in lines]
    while lines and not lines[-1]:
        lines.pop()
    return b"".join(line + b"\r\n" for line in lines) or (b"" if form == "relaxed" else b"\r\n")


def _sign(key: PrivateKey, data: bytes) -> bytes:
    if isinstance(key, Ed25519PrivateKey):
        return base64.b64encode(key.sign(hashlib.sha256(data).digest()))
    return base64.b64encode(key.sign(data, PKCS1v15(), SHA256()))


def _picked(fields: tuple[Field, ...], names: str, form: str) -> bytes:
    left = [*fields]
    data = b""
    for name in names.split(":"):
        found = next((field for field in reversed(left) if field.name == name.strip().lower()), None)
        if found:
            left.remove(found)
            data += _header(found.raw, form) + b"\r\n"
    return data


def sign(
    raw: bytes, key: PrivateKey, *, names: str = "from:to:subject:date", form: str = "relaxed/relaxed", **tags: str
) -> bytes:
    """A message in network form with a signature on top. Tags replace the usual ones; "" leaves one out."""
    header_form, _, body_form = form.partition("/")
    message = read(raw)
    length = int(tags["l"][:80]) if tags.get("l", "").isdigit() else None
    body = _body(raw[message.header_end :], body_form or "simple")[:length]
    usual = {
        "v": "1",
        "a": "ed25519-sha256" if isinstance(key, Ed25519PrivateKey) else "rsa-sha256",
        "c": form,
        "d": "example.org",
        "s": "sel",
        "h": names,
        "bh": base64.b64encode(hashlib.sha256(body).digest()).decode(),
    }
    name = tags.pop("field", "DKIM-Signature")
    listed = "; ".join(f"{tag}={value}" for tag, value in {**usual, **tags}.items() if value)
    field = f"{name}: {listed};\r\n\tb=".encode()
    value = _sign(key, _picked(message.headers.fields, names, header_form) + _header(field + b"\r\n", header_form))
    return field + value[:60] + b"\r\n\t " + value[60:] + b"\r\n" + raw


def add_seal(raw: bytes, key: PrivateKey, instance: int, chain: str = "", **tags: str) -> bytes:
    """A message with one more ARC set on top."""
    raw = f"ARC-Authentication-Results: i={instance}; mx.example; spf=pass\r\n".encode() + raw
    raw = sign(raw, key, field="ARC-Message-Signature", v="", i=str(instance), **tags)
    kinds = ("arc-authentication-results", "arc-message-signature", "arc-seal")
    mine = [field for field in reversed(read(raw).headers.fields) if field.name in kinds]
    kind = "ed25519-sha256" if isinstance(key, Ed25519PrivateKey) else "rsa-sha256"
    claim = chain or ("none" if instance == 1 else "pass")
    domain = tags.get("d", "example.org")
    seal = (
        f"ARC-Seal: i={instance}; a={kind}; cv={claim}; d={domain}; s={tags.get('s', 'sel')}; t=12345;\r\n b=".encode()
    )
    data = b"".join(_header(field.raw, "relaxed") + b"\r\n" for field in mine) + _header(seal, "relaxed")
    return seal + _sign(key, data) + b"\r\n" + raw


class Bench:
    """A key, a zone that has it, and the names that were asked for."""

    def __init__(self, kind: str = "rsa1024") -> None:
        self.key = make_key(kind)
        self.zone = {KEY: DnsAnswer("found", (make_record(self.key),))}
        self.asked: list[str] = []

    def run(self, asking: Asking[T]) -> T:
        return run_asking(asking, self.answer)

    def answer(self, question: Dns) -> DnsAnswer:
        self.asked.append(question.name)
        return self.zone.get(question.name, DnsAnswer("no-name"))
