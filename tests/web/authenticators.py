"""An authenticator in software: it makes keys and signs challenges as a security key and its browser do (WebAuthn)."""

import hashlib
import json
import secrets
import struct
from typing import Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from fido2 import cbor

from gatepost.web.second_factors import encode

USER_PRESENT, ATTESTED = 0x01, 0x40


class Authenticator:
    """One key. What a hostile one would say otherwise are its attributes, and options of each answer."""

    def __init__(self, origin: str, counter: int = 0, number: int = 0) -> None:
        """`number` chooses the private key; 0 is a new one."""
        self.origin, self.counter = origin, counter
        self.rp_id = origin.partition("://")[2].partition(":")[0]
        self.credential = hashlib.sha256(b"%d" % number).digest() if number else secrets.token_bytes(32)
        curve = ec.SECP256R1()
        self._private = ec.derive_private_key(number, curve) if number else ec.generate_private_key(curve)
        point = self._private.public_key().public_numbers()
        # RFC 9053 section 7.1.1: type EC2, algorithm ES256, curve P-256, and the coordinates.
        self.public: dict[int, Any] = {1: 2, 3: -7, -1: 1, -2: point.x.to_bytes(32), -3: point.y.to_bytes(32)}
        self.flags = USER_PRESENT
        self.cross_origin = False

    def client_data(self, kind: str, challenge: str) -> bytes:
        said = {"type": kind, "challenge": challenge, "origin": self.origin, "crossOrigin": self.cross_origin}
        return json.dumps(said).encode()

    def _data(self, flags: int) -> bytes:
        return hashlib.sha256(self.rp_id.encode()).digest() + struct.pack(">BI", flags, self.counter)

    def attestation(self) -> bytes:
        """The attestation object of the key (section 6.5), without a statement."""
        key = bytes(16) + struct.pack(">H", len(self.credential)) + self.credential + cbor.encode(self.public)
        return cbor.encode({"fmt": "none", "attStmt": {}, "authData": self._data(self.flags | ATTESTED) + key})

    def make(self, challenge: str, kind: str = "webauthn.create") -> dict[str, str]:
        """The fields of the form after a key was made."""
        return {
            "key-client-data": encode(self.client_data(kind, challenge)),
            "key-attestation": encode(self.attestation()),
            "key-transports": "usb telepathy nfc",
        }

    def sign(self, challenge: str, kind: str = "webauthn.get") -> dict[str, str]:
        """The fields of the form after the key has signed; the counter goes on, unless the key has none."""
        if self.counter:
            self.counter += 1
        client_data, data = self.client_data(kind, challenge), self._data(self.flags)
        digest = hashlib.sha256(client_data).digest()
        return {
            "key-id": encode(self.credential),
            "key-client-data": encode(client_data),
            "key-authenticator-data": encode(data),
            "key-signature": encode(self._private.sign(data + digest, ec.ECDSA(hashes.SHA256()))),
        }
