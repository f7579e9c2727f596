"""DKIM verification beside dkimpy, on the same signed messages in one run.

    python -m bench.dkim [messages]

Both verify the same message with the same 2048-bit key from memory, so neither waits for DNS. Without dkimpy its row
says "not run". The pathological rows show that the work grows with the size only.
"""

import base64
import hashlib
import random
import sys
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.util import find_spec

from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from gatepost.auth import dkim, signature
from gatepost.auth.signature import SignedMessage
from gatepost.mail.message import Field
from gatepost.questions import DnsAnswer

NOW = 1_700_000_000.0
HEADER = (
    b"Received: from a.example by b.example; Tue, 14 Nov 2023 22:13:20 +0000\r\n"
    b"From: Ann Example <ann@example.org>\r\nTo: Bob Example <bob@example.net>\r\nSubject: Minutes of the meeting\r\n"
    b"Date: Tue, 14 Nov 2023 22:13:20 +0000\r\nMessage-ID: <1@example.org>\r\nMIME-Version: 1.0\r\n"
    b"Content-Type: text/plain; charset=utf-8\r\n"
)
NAMES = ("from", "to", "subject", "date", "message-id", "mime-version", "content-type")
LIMIT_SECONDS = 2.0


def prose(size: int) -> bytes:
    """Text as people write it: words, some double spaces, some white space at line ends."""
    dice = random.Random(7)
    lines: list[bytes] = []
    while size > 0:
        words = (b"x" * dice.randint(2, 9) for _ in range(12))
        line = (b" " if dice.random() > 0.1 else b"  ").join(words) + (b" " if dice.random() < 0.1 else b"") + b"\r\n"
        lines.append(line)
        size -= len(line)
    return b"".join(lines)


def split(raw: bytes) -> tuple[int, tuple[Field, ...]]:
    """The fields of a message of ours: only its signature is folded."""
    head, _, _ = raw.partition(b"\r\n\r\n")
    fields: list[bytes] = []
    for line in head.split(b"\r\n"):
        if line[:1] in b" \t":
            fields[-1] += line + b"\r\n"
        else:
            fields.append(line + b"\r\n")
    named = tuple(Field(field.partition(b":")[0].decode().lower(), "", field) for field in fields)
    return len(head) + 4, named


def signed(body: bytes, key: RSAPrivateKey, form: str = "relaxed") -> bytes:
    """A message with a signature over header and body."""
    relaxed = form == "relaxed"
    digest = hashlib.sha256(b"".join(signature.canonicalise_body(body, 0, relaxed=relaxed))).digest()
    listed = f"v=1; a=rsa-sha256; c={form}/{form}; d=example.org; s=sel; h={':'.join(NAMES)}"
    field = f"DKIM-Signature: {listed};\r\n\tbh={base64.b64encode(digest).decode()};\r\n\tb=".encode()
    raw = field + b"\r\n" + HEADER + b"\r\n" + body
    end, fields = split(raw)
    data = SignedMessage(raw, end, fields).header(NAMES, 0, relaxed=relaxed)
    value = base64.b64encode(key.sign(data, PKCS1v15(), SHA256()))
    return field + value + b"\r\n" + HEADER + b"\r\n" + body


def by_gatepost(raw: bytes, record: str) -> bool:
    end, fields = split(raw)
    asking = dkim.verify(SignedMessage(raw, end, fields), NOW)
    next(asking)
    try:
        asking.send((DnsAnswer("found", (record,)),))
    except StopIteration as stop:
        return bool(stop.value[0].result == "pass")
    return False


def by_dkimpy(raw: bytes, record: str) -> bool:
    verifier = import_module("dkim").DKIM(raw)
    return bool(verifier.verify(dnsfunc=lambda *_args, **_options: record.encode()))


def has_peer() -> bool:
    """Is dkimpy here? Its package has the name of this file."""
    spec = find_spec("dkim")
    return spec is not None and spec.submodule_search_locations is not None


def rate(verify: Callable[[bytes, str], bool], raw: bytes, record: str, times: int) -> float:
    """Messages a second of processor time."""
    assert verify(raw, record), "a good signature must verify"
    start = time.process_time()
    for _ in range(times):
        verify(raw, record)
    return times / (time.process_time() - start)


def bait(size: int) -> Iterator[tuple[str, bytes]]:
    yield "spaces", b" " * size + b"x"
    yield "tabs and spaces", b" \t" * (size // 2) + b"x"
    yield "empty lines", b"\r\n" * (size // 2)
    yield "lines of white space", b" \r\n" * (size // 3) + b"x"
    yield "bare LF", b"x\n" * (size // 2)
    yield "one line", b"x" * size
    yield "short words", b"x  " * (size // 3)


def run(times: int = 2_000) -> str:
    """Both tables."""
    key = generate_private_key(65537, 2048)
    public = key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    record = f"v=DKIM1; k=rsa; p={base64.b64encode(public).decode()}"
    lines = ["| message | gatepost msg/s | dkimpy msg/s | ratio |", "|---|---|---|---|"]
    for size in (2_000, 23_000, 200_000):
        for form in ("relaxed", "simple"):
            raw = signed(prose(size), key, form)
            ours = rate(by_gatepost, raw, record, max(20, times * 2_000 // size))
            theirs, ratio = "not run", ""
            if has_peer():
                peer = rate(by_dkimpy, raw, record, max(5, times * 200 // size))
                theirs, ratio = f"{peer:.0f}", f"{ours / peer:.1f}"
            lines.append(f"| {size // 1000} KB {form} | {ours:.0f} | {theirs} | {ratio} |")
    lines += ["", "| 50 MiB of | seconds |", "|---|---|"]
    for name, body in bait(50 << 20):
        raw = signed(body, key)
        start = time.process_time()
        assert by_gatepost(raw, record)
        spent = time.process_time() - start
        lines.append(f"| {name} | {spent:.2f}{'' if spent < LIMIT_SECONDS else ' (over the limit)'} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(run(int(sys.argv[1]) if len(sys.argv) > 1 else 2_000))
