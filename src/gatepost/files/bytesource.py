"""A place in hostile bytes: every read is checked, and running out of bytes is one exception for readers to catch."""


class BrokenError(ValueError):
    """The bytes are not what they claim to be."""


class TooManyError(BrokenError):
    """There is more than is read."""


class Count:
    """So many steps through headers, and no more: millions of empty ones cost seconds and hold nothing."""

    def __init__(self, most: int) -> None:
        self._left = most

    def step(self) -> None:
        """One more, or `TooManyError`."""
        self._left -= 1
        if self._left < 0:
            raise TooManyError("too many headers")


class ByteSource:
    """Reads little-endian numbers and runs of bytes one after the other."""

    def __init__(self, data: bytes | memoryview, place: int = 0) -> None:
        self.data = data
        self.place = place

    @property
    def left(self) -> int:
        """How many bytes are still to come."""
        return max(0, len(self.data) - self.place)

    def take(self, count: int) -> bytes:
        """The next bytes, all of them or none."""
        if count < 0 or count > self.left:
            raise BrokenError("out of bytes")
        start = self.place
        self.place += count
        return bytes(self.data[start : self.place])

    def skip(self, count: int) -> None:
        """Go on; past the end is broken."""
        if count < 0 or count > self.left:
            raise BrokenError("out of bytes")
        self.place += count

    def number(self, size: int) -> int:
        """The next bytes as a number."""
        return int.from_bytes(self.take(size), "little")

    def text(self, limit: int = 4096) -> bytes:
        """Bytes up to a NUL, which is passed over."""
        end = bytes(self.data[self.place : self.place + limit]).find(b"\0")
        if end < 0:
            raise BrokenError("no end of a name")
        found = self.take(end)
        self.place += 1
        return found
