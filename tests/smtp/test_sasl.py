"""AUTH towards the next hop: which mechanism is used, what travels, and what a false server gets."""

import base64
import hashlib
import hmac

import pytest

from gatepost.smtp.next_hop import MAX_ITERATIONS, Credentials, NextHopError, authenticate
from gatepost.smtp.replies import SmtpReply

ME = Credentials("gate=,1", "correct horse")


def say(code: int, text: bytes = b"", plain: str = "") -> SmtpReply:
    return SmtpReply(code, (text or base64.b64encode(plain.encode()),))


class Link:
    """A connection whose server answers as it is told; `lines` is what was sent."""

    def __init__(self, offered: str, answers: list[SmtpReply], *, encrypted: bool = True) -> None:
        self.features, self.encrypted = ({"AUTH": offered} if offered else {}), encrypted
        self.lines: list[bytes] = []
        self._answers = answers

    async def ask(self, line: bytes) -> SmtpReply:
        self.lines.append(line)
        return self._answers.pop(0)


class Scram(Link):
    """A server that knows the password (RFC 5802 section 3), or one that only says so."""

    def __init__(self, mechanism: str = "SCRAM-SHA-256", *, password: str = ME.password, rounds: object = 4096) -> None:
        super().__init__(mechanism, [], encrypted=False)
        self._digest = mechanism.removeprefix("SCRAM-").replace("-", "").lower()
        self._password, self._rounds, self.proved = password, rounds, False

    async def ask(self, line: bytes) -> SmtpReply:
        self.lines.append(line)
        if len(self.lines) == 1:
            self._bare = base64.b64decode(line.split()[2]).decode().removeprefix("n,,")
            self._first = (
                f"{self._bare.partition(',')[2]}server,s={base64.b64encode(b'salt').decode()},i={self._rounds}"
            )
            return say(334, plain=self._first)
        if len(self.lines) == 2:
            final, _, proof = base64.b64decode(line).decode().rpartition(",p=")
            signed = f"{self._bare},{self._first},{final}".encode()
            salted = hashlib.pbkdf2_hmac(self._digest, self._password.encode(), b"salt", 4096)
            key = hmac.digest(salted, b"Client Key", self._digest)
            signature = hmac.digest(hashlib.new(self._digest, key).digest(), signed, self._digest)
            self.proved = base64.b64decode(proof) == bytes(a ^ b for a, b in zip(key, signature, strict=True))
            mine = hmac.digest(hmac.digest(salted, b"Server Key", self._digest), signed, self._digest)
            return say(334, plain=f"v={base64.b64encode(mine).decode()}")
        assert line == b""
        return say(235, b"2.7.0 ok")


@pytest.mark.parametrize(
    ("offered", "answers", "sent"),
    [
        ("LOGIN PLAIN", [say(235, b"2.7.0 ok")], [b"AUTH PLAIN AGdhdGU9LDEAY29ycmVjdCBob3JzZQ=="]),
        (
            "login",
            [say(334, plain="Username:"), say(334, plain="Password:"), say(235, b"ok")],
            [b"AUTH LOGIN", b"Z2F0ZT0sMQ==", b"Y29ycmVjdCBob3JzZQ=="],
        ),
    ],
)
async def test_passwords_travel_under_tls(offered: str, answers: list[SmtpReply], sent: list[bytes]) -> None:
    link = Link(offered, answers)
    await authenticate(link, ME)  # type: ignore[arg-type]
    assert link.lines == sent


@pytest.mark.parametrize(
    ("link", "said"),
    [
        (Link("PLAIN LOGIN", [], encrypted=False), "offers no AUTH mechanism that can be used without TLS"),
        (Link("", []), "offers no AUTH mechanism that can be used under TLS"),
        (Link("CRAM-MD5 GSSAPI", []), "offers no AUTH mechanism that can be used under TLS"),
        (Link("PLAIN", [say(535, b"5.7.8 no")]), "answered 535 to AUTH"),
        (Link("LOGIN", [say(334), say(334), say(454, b"later")]), "answered 454 to AUTH"),
        (Link("SCRAM-SHA-1", [say(334, b"!!")]), "sent a SCRAM challenge that cannot be used"),
        (Scram(rounds=1), "sent a SCRAM challenge that cannot be used"),
        (Scram(rounds=MAX_ITERATIONS + 1), "sent a SCRAM challenge that cannot be used"),
        (Scram(rounds="\u0664096"), "sent a SCRAM challenge that cannot be used"),
        (Scram(password="another"), "did not prove that it knows the password"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
async def test_what_does_not_work_is_said(link: Link, said: str) -> None:
    with pytest.raises(NextHopError, match=said):
        await authenticate(link, ME)  # type: ignore[arg-type]
    # Without TLS, the password never left.
    assert link.encrypted or not any(b"PLAIN" in line or b"LOGIN" in line for line in link.lines)


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-1"])
async def test_scram_proves_both_sides(mechanism: str) -> None:
    link = Scram(mechanism)
    await authenticate(link, ME)  # type: ignore[arg-type]
    assert link.proved
    assert base64.b64decode(link.lines[0].split()[2]).startswith(b"n,,n=gate=3D=2C1,r=")
    assert "correct horse" not in repr(ME)
