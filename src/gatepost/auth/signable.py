"""A message as its signatures see it: signed header fields, and the body's hash.

Several signatures mostly cover the same bytes. Each field is made canonical once, and the body is hashed once for each
way of looking at it (canonicalisation, hash, length); a message may ask for a few of those, not for many.
"""

import hashlib

import msgspec

from gatepost.auth import canonical, taglist
from gatepost.mail.message import Field

BODIES_MAX = 4


class BodyHash(msgspec.Struct, frozen=True):
    """The hash of the canonical body, or of its first bytes, and how long the whole is."""

    digest: bytes
    length: int


class Signable:
    """One message for all its signatures, DKIM's and ARC's. `hashed` counts the bytes that were hashed of its body."""

    def __init__(self, raw: bytes, header_end: int, fields: tuple[Field, ...]) -> None:
        self.fields = fields
        self.hashed = 0
        self._raw = raw
        self._body_start = header_end
        self._bodies: dict[tuple[bool, str, int | None], BodyHash] = {}
        self._relaxed: dict[int, bytes] = {}
        self._names = [field.name for field in fields]
        self._places: dict[str, list[int]] = {}

    def places(self, name: str) -> list[int]:
        """Where the fields of a name stand, the topmost first. Most mail is not signed and needs no index."""
        if not self._places and name in self._names:
            for place, each in enumerate(self._names):
                self._places.setdefault(each, []).append(place)
        return self._places.get(name, [])

    def relaxed(self, place: int) -> bytes:
        """A field in relaxed form."""
        if place not in self._relaxed:
            self._relaxed[place] = canonical.relaxed_field(self.fields[place].raw)
        return self._relaxed[place]

    def header(self, names: tuple[str, ...], own: int, *, relaxed: bool) -> bytes:
        """What a signature in the field `own` over the named fields is made of (RFC 6376 section 3.7).

        A name that stands twice means the two lowest fields, from the bottom up; one that finds no field signs that
        there is none.
        """
        left: dict[str, list[int]] = {}
        lines = []
        for name in names:
            if name not in left:
                left[name] = [place for place in self.places(name) if place != own]
            if left[name]:
                place = left[name].pop()
                lines.append(self.relaxed(place) if relaxed else canonical.simple_field(self.fields[place].raw))
        lines.append(self.unsigned(own, relaxed=relaxed))
        return b"\r\n".join(lines)

    def unsigned(self, own: int, *, relaxed: bool) -> bytes:
        """The field of a signature itself, with b= empty."""
        form = canonical.relaxed_field if relaxed else canonical.simple_field
        return form(taglist.emptied(self.fields[own].raw, b"b"))

    def body(self, hashing: str, length: int | None, *, relaxed: bool) -> BodyHash | None:
        """The body's hash; None once too many different ones were asked for."""
        key = (relaxed, hashing, length)
        if key not in self._bodies:
            if len(self._bodies) >= BODIES_MAX:
                return None
            self._bodies[key] = self._hash_body(hashing, length, relaxed)
        return self._bodies[key]

    def _hash_body(self, hashing: str, length: int | None, relaxed: bool) -> BodyHash:
        digest = hashlib.new(hashing, usedforsecurity=False)
        total = 0
        for piece in canonical.body(self._raw, self._body_start, relaxed=relaxed):
            digest.update(piece if length is None else piece[: max(0, length - total)])
            total += len(piece)
        self.hashed += total
        return BodyHash(digest.digest(), total)
