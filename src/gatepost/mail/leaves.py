"""The content of one leaf in every reading: decoded as declared, as others would, and the files carried inside.

The first reading is the part itself. Others stand beside it as parts with a path of their own: `1.2~by-line` is part
1.2 decoded line by line, `1.2~uu1` the first uuencoded file in it.
"""

import zlib
from collections.abc import Iterator

from gatepost.mail import binhex, tnef, uuencode, yenc
from gatepost.mail.budget import Budget
from gatepost.mail.carried import MOST_FILES, Carried
from gatepost.mail.encodings import (
    Decoded,
    base64_readings,
    decode_base64,
    decode_quoted_printable,
    looks_base64,
    quoted_printable_readings,
)
from gatepost.mail.entity import Entity
from gatepost.mail.message import Headers, Part

MOST_REREAD = 1 << 20
_MOST_GUNZIPPED = 16 << 20
_BROKEN = {
    "base64": "mime:broken-base64",
    "quoted-printable": "mime:broken-quoted-printable",
    "uuencode": "mime:broken-uuencode",
    "yenc": "mime:broken-yenc",
    "binhex": "mime:broken-binhex",
    "gzip64": "mime:broken-base64",
}
_WIDE = ("utf-16", "utf-32", "ucs", "unicode")
_CARRIERS = (
    (uuencode, b"begin", "uuencode"),
    (yenc, b"=ybegin ", "yenc"),
    (binhex, b"with BinHex", "binhex"),
)


def decode(body: bytes, encoding: str) -> Decoded:
    """Decode a body by the name of its encoding; "" is identity."""
    if not encoding:
        return Decoded(body)
    if encoding == "base64":
        return decode_base64(body)
    if encoding == "quoted-printable":
        return decode_quoted_printable(body)
    if encoding == "uuencode":
        return Decoded(*uuencode.decode(body))
    if encoding == "yenc":
        carried = next(yenc.find(body), None)
        return Decoded(carried.content, carried.whole) if carried else Decoded(yenc.decode(body), False)
    if encoding == "binhex":
        fork = binhex.decode(body)
        return Decoded(fork.content, fork.whole)
    return _gunzipped(decode_base64(body))


def read_leaf(path: str, entity: Entity, body: bytes, budget: Budget) -> list[Part]:
    """The part, then its other readings and the files inside it."""
    decoded = decode(body, entity.encodings[0])
    if not budget.decoded(len(decoded.content), path):
        return [_part(path, entity, b"")]
    content = decoded.content
    parts = [_part(path, entity, content)]
    seen: set[bytes] = set()
    for label, other in _others(path, entity, body, decoded, budget):
        if other and other not in seen and other != content and budget.alternative(len(other), path):
            seen.add(other)
            parts.append(_part(f"{path}~{label}", entity, other))
    others = (kind for kind in entity.types[1:] if budget.alternative(0, path))
    parts.extend(_part(f"{path}~{kind}", entity, content, kind) for kind in others)
    for number, carried in enumerate(_carried(path, entity, content, budget), 1):
        if budget.decoded(len(carried.content), path):
            parts.append(_carried_part(f"{path}~{carried.label}{number}", carried))
    _note(path, entity, content, budget)
    return parts


def readings(body: bytes, encoding: str) -> Iterator[tuple[str, bytes]]:
    """Every reading of a body in one encoding but the first."""
    if encoding == "base64":
        yield from base64_readings(body)
    elif encoding == "quoted-printable":
        yield from quoted_printable_readings(body)


def _others(path: str, entity: Entity, body: bytes, decoded: Decoded, budget: Budget) -> Iterator[tuple[str, bytes]]:
    first, *more = entity.encodings
    if not decoded.whole:
        budget.note(_BROKEN[first], path)
    if not decoded.whole or more:
        if len(body) > MOST_REREAD:
            budget.note("limit:alternatives", path)
            return
        for encoding in entity.encodings:
            yield from readings(body, encoding)
    for encoding in more:
        yield encoding or "as-is", decode(body, encoding).content
    if not first and looks_base64(body) and len(body) <= MOST_REREAD:
        if not more:
            budget.note("mime:undeclared-encoding", path)
        yield "base64", decode_base64(body).content
    elif first == "base64" and not decoded.whole and not looks_base64(body):
        yield "as-is", body


def _carried(path: str, entity: Entity, content: bytes, budget: Budget) -> Iterator[Carried]:
    if content.startswith(tnef.SIGNATURE):
        budget.note("mime:tnef", path)
        for carried in tnef.find(content):
            if not carried.whole:
                budget.note("mime:broken-tnef", path)
            yield carried
        return
    # A binary file may hold such a line by chance; what is not text has its own reader.
    if entity.types[0].startswith(("image/", "audio/", "video/")):
        return
    # The mark of yEnc holds that of uuencode: most content is searched for two marks, not for three.
    for module, mark, name in _CARRIERS if b"begin" in content else _CARRIERS[2:]:
        if mark not in content:
            continue
        for carried in module.find(content):
            budget.note(f"mime:{name}", path)
            if not carried.whole:
                budget.note(_BROKEN[name], path)
            yield carried
        if content.count(b"\n" + mark) > MOST_FILES:
            budget.note("limit:alternatives", path)


def _note(path: str, entity: Entity, content: bytes, budget: Budget) -> None:
    if len(entity.names) > 1:
        budget.note("mime:several-names", path, " | ".join(entity.names))
    kind = entity.types[0]
    if kind.startswith("text/") and b"\0" in content and not (entity.charset or "").lower().startswith(_WIDE):
        budget.note("mime:nul", path)
    elif kind == "message/partial":
        budget.note("mime:partial", path)
    elif kind == "message/external-body":
        budget.note("mime:external-body", path)


def _part(path: str, entity: Entity, content: bytes, kind: str | None = None) -> Part:
    return Part(
        path=path,
        headers=entity.headers,
        content_type=kind or entity.types[0],
        charset=entity.charset,
        disposition=entity.disposition,
        names=entity.names,
        content=content,
    )


def _carried_part(path: str, carried: Carried) -> Part:
    return Part(
        path=path,
        headers=Headers(),
        content_type=carried.content_type,
        disposition="attachment" if carried.names else "",
        names=carried.names,
        content=carried.content,
    )


def _gunzipped(decoded: Decoded) -> Decoded:
    stream = zlib.decompressobj(wbits=47)
    try:
        content = stream.decompress(decoded.content, _MOST_GUNZIPPED)
    except zlib.error:
        return Decoded(decoded.content, False)
    return Decoded(content, decoded.whole and stream.eof)
