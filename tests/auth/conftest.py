"""What tests of authentication share: a signer by its own slow reading of RFC 6376, and DNS from a literal."""

import base64
import hashlib
import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import TypeVar

import msgspec
import pytest
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

from gatepost.mail.message import Field
from gatepost.questions import Asking, Dns, DnsAnswer

T = TypeVar("T")
Zone = dict[str, DnsAnswer]
PrivateKey = RSAPrivateKey | Ed25519PrivateKey


class Signing(msgspec.Struct, frozen=True):
    """What tests need: secret keys by kind, their records, a signature over a message, and a way to answer."""

    key: Callable[[str], PrivateKey]
    record: Callable[[PrivateKey], str]
    signed: Callable[..., bytes]
    sealed: Callable[..., bytes]
    split: Callable[[bytes], tuple[int, tuple[Field, ...]]]


@cache
def _key(kind: str) -> PrivateKey:
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


def _record(key: PrivateKey) -> str:
    public = key.public_key()
    if isinstance(key, Ed25519PrivateKey):
        return f"v=DKIM1; k=ed25519; p={base64.b64encode(public.public_bytes(Encoding.Raw, PublicFormat.Raw)).decode()}"
    der = public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return f"v=DKIM1; k=rsa; p={base64.b64encode(der).decode()}"


def _split(raw: bytes) -> tuple[int, tuple[Field, ...]]:
    fields: list[bytes] = []
    end = 0
    for line in re.findall(rb"[^\n]*\n|[^\n]+\Z", raw):
        end += len(line)
        if not line.strip(b"\r\n"):
            break
        if line[:1] in b" \t" and fields:
            fields[-1] += line
        else:
            fields.append(line)
    named = (Field(line.partition(b":")[0].strip().decode("latin-1").lower(), "", line) for line in fields)
    return end, tuple(named)


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


def _signed(
    raw: bytes, key: PrivateKey, *, names: str = "from:to:subject:date", form: str = "relaxed/relaxed", **tags: str
) -> bytes:
    """A message in network form with a signature on top. Tags replace the usual ones; "" leaves one out."""
    header_form, _, body_form = form.partition("/")
    end, fields = _split(raw)
    length = int(tags["l"][:80]) if tags.get("l", "").isdigit() else None
    body = _body(raw[end:], body_form or "simple")[:length]
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
    value = _sign(key, _picked(fields, names, header_form) + _header(field + b"\r\n", header_form))
    return field + value[:60] + b"\r\n\t " + value[60:] + b"\r\n" + raw


def _sealed(raw: bytes, key: PrivateKey, instance: int, chain: str = "", **tags: str) -> bytes:
    """A message with one more ARC set on top."""
    raw = f"ARC-Authentication-Results: i={instance}; mx.example; spf=pass\r\n".encode() + raw
    raw = _signed(raw, key, field="ARC-Message-Signature", v="", i=str(instance), **tags)
    kinds = ("arc-authentication-results", "arc-message-signature", "arc-seal")
    mine = [field for field in reversed(_split(raw)[1]) if field.name in kinds]
    kind = "ed25519-sha256" if isinstance(key, Ed25519PrivateKey) else "rsa-sha256"
    claim = chain or ("none" if instance == 1 else "pass")
    domain = tags.get("d", "example.org")
    seal = (
        f"ARC-Seal: i={instance}; a={kind}; cv={claim}; d={domain}; s={tags.get('s', 'sel')}; t=12345;\r\n b=".encode()
    )
    data = b"".join(_header(field.raw, "relaxed") + b"\r\n" for field in mine) + _header(seal, "relaxed")
    return seal + _sign(key, data) + b"\r\n" + raw


@pytest.fixture(scope="session")
def signing() -> Signing:
    return Signing(_key, _record, _signed, _sealed, _split)


def _answered(asking: Asking[T], zone: Zone, asked: list[str] | None = None) -> T:
    try:
        questions = next(asking)
        while True:
            if asked is not None:
                asked.extend(question.name for question in questions)
            questions = asking.send(tuple(zone.get(question.name, DnsAnswer("no-name")) for question in questions))
    except StopIteration as stop:
        result: T = stop.value
        return result


@pytest.fixture(scope="session")
def answered() -> Callable[[Asking[T], Zone, list[str] | None], T]:
    """Answer an asking from a zone; the names it asked for go into a list."""
    return _answered


class Resolver:
    """Answers from `{"TXT example.com": "v=spf1 -all"}`; the value "FAILED" is a name server that does not answer."""

    def __init__(self, zone: Mapping[str, str | tuple[str, ...]]) -> None:
        self.zone = {key: (value,) if isinstance(value, str) else value for key, value in zone.items()}
        self.names = {key.partition(" ")[2] for key in self.zone}
        self.asked: list[str] = []
        self.trips = self.exchanges = 0

    def answer(self, question: Dns) -> DnsAnswer:
        key = f"{question.type} {question.name}"
        self.asked.append(key)
        records = self.zone.get(key)
        if records == ("FAILED",):
            return DnsAnswer("failed")
        if records:
            return DnsAnswer("found", records)
        below = any(name.endswith(f".{question.name}") for name in self.names)
        return DnsAnswer("no-data" if question.name in self.names or below else "no-name")

    def run(self, asking: Asking[T]) -> T:
        """Run an asking to its end; every question and every round trip is counted.

        `exchanges` are the round trips with a question that is new: a worker knows the answers to the others."""
        try:
            questions = next(asking)
            while True:
                self.trips += 1
                self.exchanges += any(f"{each.type} {each.name}" not in self.asked for each in questions)
                questions = asking.send(tuple(map(self.answer, questions)))
        except StopIteration as stop:
            result: T = stop.value
            return result


@pytest.fixture(scope="session")
def resolver() -> type[Resolver]:
    """DNS from a literal, with names that can fail and with counted questions."""
    return Resolver
