"""A scan request as it comes over HTTPS: four bytes of length, big-endian, that much JSON, and then the raw message.

The parts come in whatever pieces the network makes; the message goes to the spool as it arrives.
"""

from collections.abc import Iterator
from itertools import chain

import msgspec

from gatepost.api.errors import EMPTY_EMAIL, INVALID_PARAMETERS, MALFORMED_REQUEST, PAYLOAD_TOO_LARGE, Failure
from gatepost.api.scanning import MAX_BODY
from gatepost.ids import canonical
from gatepost.scanning.request import ScanRequest, Source
from gatepost.scanning.spool import MessageBody, SpooledBody

# What a core answers to a scan whose result its storage could not keep (RFC 4918 section 11.5).
STORAGE_FAILED = 507
CONTENT_TYPE = "application/vnd.gatepost.scan"
MAX_HEAD = 4 << 20
CHUNK = 256 << 10
_LENGTH = 4


_decoder = msgspec.json.Decoder(ScanRequest)


class ScanUpload:
    """Takes the pieces of one request body. The spooled body is the caller's to close."""

    def __init__(self, body: SpooledBody) -> None:
        self._body = body
        self._start = bytearray()
        self._request: ScanRequest | None = None

    def feed(self, piece: bytes) -> Failure | None:
        """Take one piece; return what is wrong, after which no more may come."""
        rest = piece if self._request else self._read_start(piece)
        if isinstance(rest, Failure):
            return rest
        if self._body.size + len(rest) > MAX_BODY:
            return Failure(PAYLOAD_TOO_LARGE, f"the message is larger than {MAX_BODY} bytes")
        if rest:
            self._body.write(rest)
        return None

    def finish(self) -> ScanRequest | Failure:
        """Return the request, once all has come."""
        if self._request is None:
            return Failure(MALFORMED_REQUEST, "the body ends before the message begins")
        if not self._body.size:
            return Failure(EMPTY_EMAIL, "the message has no bytes")
        self._body.finish()
        return self._request

    def _read_start(self, piece: bytes) -> bytes | Failure:
        """Collect what comes before the message; returns what this piece has of the message."""
        self._start += piece
        if len(self._start) < _LENGTH:
            return b""
        end = _LENGTH + int.from_bytes(self._start[:_LENGTH])
        if end > MAX_HEAD:
            return Failure(PAYLOAD_TOO_LARGE, "the part before the message is too long")
        if len(self._start) < end:
            return b""
        head, rest = _read_head(bytes(self._start[_LENGTH:end])), bytes(self._start[end:])
        self._start.clear()
        if isinstance(head, Failure):
            return head
        self._request = head
        return rest


def _read_head(encoded: bytes) -> ScanRequest | Failure:
    try:
        head = _decoder.decode(encoded)
    except msgspec.ValidationError as fault:
        return Failure(INVALID_PARAMETERS, str(fault))
    except (ValueError, RecursionError):
        return Failure(MALFORMED_REQUEST, "the part before the message is not valid JSON in UTF-8")
    ggrid = canonical(head.ggrid)
    if ggrid is None:
        return Failure(INVALID_PARAMETERS, "ggrid must be a UUID")
    # What comes over HTTPS came by the scan API, unless abby says that a person uploaded it; it carries out no action.
    source: Source = "page" if head.source == "page" else "rest"
    return ScanRequest(ggrid, head.created, head.envelope, source)


def frame_request(request: ScanRequest, body: MessageBody) -> tuple[int, Iterator[bytes]]:
    """Return how long the body of a request over HTTPS is, and its pieces."""
    head = msgspec.json.encode(ScanRequest(request.ggrid, request.created, request.envelope, request.source or "rest"))
    return _LENGTH + len(head) + body.size, chain((len(head).to_bytes(_LENGTH, "big") + head,), body.chunks(CHUNK))
