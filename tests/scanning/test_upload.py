"""Any bytes in any pieces: a request or a reason, never an exception."""

import asyncio
import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gatepost.api.errors import Failure
from gatepost.mail.message import Envelope
from gatepost.scanning.request import MAX_HEAD, ScanRequest, ScanUpload
from gatepost.scanning.spool import Spool

GGRID = "0198a000-0000-7000-8000-00000000000a"
GOOD: dict[str, object] = {
    "ggrid": GGRID,
    "created": 5,
    "envelope": {"sender": "a@b", "recipients": ["ü@d"], "remote_address": None},
}


def frame(head: object, body: bytes = b"mail") -> bytes:
    encoded = head if isinstance(head, bytes) else json.dumps(head).encode()
    return len(encoded).to_bytes(4) + encoded + body


def taken(folder: Path, data: bytes, size: int = 1 << 20) -> tuple[ScanRequest | Failure, bytes]:
    with Spool(folder, 1 << 20).new() as body:
        upload = ScanUpload(body)
        for start in range(0, len(data), size):
            fault = upload.feed(data[start : start + size])
            if fault:
                return fault, b""
        request = upload.finish()
        asyncio.run(body.finish())
        return request, body.read()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
@given(st.integers(1, 300), st.binary(min_size=1, max_size=200))
def test_pieces_of_any_size(tmp_path: Path, size: int, body: bytes) -> None:
    request, read = taken(tmp_path, frame(GOOD, body), size)
    assert isinstance(request, ScanRequest)
    assert (request.ggrid, request.created) == (GGRID, 5)
    assert request.envelope == Envelope("a@b", ("ü@d",))
    assert read == body


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.binary(max_size=300), st.integers(1, 50))
def test_any_bytes(tmp_path: Path, data: bytes, size: int) -> None:
    assert isinstance(taken(tmp_path, data, size)[0], Failure)
    assert isinstance(taken(tmp_path, frame(data), size)[0], Failure)


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", "malformed_request"),
        (b"\0\0", "malformed_request"),
        (frame(GOOD)[:20], "malformed_request"),
        (frame(b"{"), "malformed_request"),
        (frame(b"\xff"), "malformed_request"),
        (frame(b'{"x":' + b"[" * 100_000), "malformed_request"),
        (frame(b"[" * 100_000), "invalid_parameters"),
        (frame([]), "invalid_parameters"),
        (frame({**GOOD, "ggrid": "x"}), "invalid_parameters"),
        (frame({**GOOD, "created": "5"}), "invalid_parameters"),
        (frame({**GOOD, "envelope": {"sender": 5}}), "invalid_parameters"),
        (frame({"ggrid": GGRID}), "invalid_parameters"),
        (frame(GOOD, b""), "empty_email"),
        ((MAX_HEAD + 1).to_bytes(4), "payload_too_large"),
        (b"\xff\xff\xff\xff", "payload_too_large"),
        (frame(GOOD, bytes(52_428_801)), "payload_too_large"),
    ],
)
def test_refusals(tmp_path: Path, data: bytes, code: str) -> None:
    refused, _ = taken(tmp_path, data)
    assert isinstance(refused, Failure)
    assert refused.error.code == code


def test_exactly_fifty_mebibytes_are_fine(tmp_path: Path) -> None:
    request, body = taken(tmp_path, frame({**GOOD, "ggrid": GGRID.upper()}, bytes(52_428_800)))
    assert isinstance(request, ScanRequest)
    assert len(body) == 52_428_800
    assert request.ggrid == GGRID
