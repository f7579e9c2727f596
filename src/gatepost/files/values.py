"""Files as found (attached, embedded, or inside another file), the budget of a message's files, and safe reading.

A zip of 42 KB can hold petabytes, so every byte that comes out of an archive is charged to one budget, and a reader
reports what the budget refused. Bytes that go in are charged too: entries may overlap, and a megabyte that unpacks to
nothing can be named by ten thousand of them. Password attempts and bytes that are worked on one by one in Python have
limits of their own, since they cost time rather than memory; so have pictures.

`ByteSource` reads numbers and runs of bytes one after the other. Every read is checked, and running out of bytes is one
exception for readers to catch.
"""

from typing import Literal

import msgspec

from gatepost.mail.message import NO_SIGNS, Link
from gatepost.pages.runner import MESSAGE_SECONDS, ScriptTime
from gatepost.process.cpu_account import FILES, CpuAccount

# Why the inside of a file was not read, or not wholly.
UnreadReason = Literal["encrypted", "depth", "count", "size", "ratio", "damaged", "unsupported", "pixels", "text"]


_BODIES = frozenset({"text", "html"})


class Trait(msgspec.Struct, frozen=True):
    """Something that a reader saw in a file and that a check may make a finding of: "macro", "pdf-javascript", …"""

    name: str
    detail: str = ""


class File(msgspec.Struct, frozen=True):
    """One file. `path` leads to it from the message ("1.2/invoice.zip/invoice.js"); `names` are all names it goes by;
    `type` is what the content is, `declared` what the message claims; `unread` says why its inside was not read;
    `traits` are what its reader saw in it, `links` the links in it, `text` what a person reads in it; `within` is the
    SHA-256 of the document that it is a part of. `shown` says that its text was read with the message that it is in."""

    path: str
    content: bytes
    type: str
    sha256: str
    names: tuple[str, ...] = ()
    declared: str = ""
    unread: tuple[UnreadReason, ...] = ()
    traits: tuple[Trait, ...] = ()
    links: tuple[Link, ...] = ()
    within: str = ""
    text: str = ""
    shown: bool = False
    signs: int = NO_SIGNS

    @property
    def document(self) -> str:
        """The SHA-256 of what a person would call the file: the document, where this is a part of one."""
        return self.within or self.sha256

    @property
    def is_body(self) -> bool:
        """Whether this is the message's own text: no scripts run in it, and its links are read with the message."""
        return self.declared.startswith("text/") and not self.names

    @property
    def is_attachment(self) -> bool:
        """Whether this is more than a body of text: it has a name, or is of another type."""
        return bool(self.names) or self.type not in _BODIES

    @property
    def not_read(self) -> tuple[str, ...]:
        """Everything that was not read, in words: why the walk stopped here, and what is encrypted in it."""
        return (*self.unread, *(f"encrypted ({form})" for form in dict.fromkeys(self.seen("encrypted"))))

    def seen(self, trait: str) -> tuple[str, ...]:
        """Return the details of one trait, as often as it was seen."""
        return tuple(found.detail for found in self.traits if found.name == trait)


class Member(msgspec.Struct, frozen=True):
    """One entry of an archive: every name that some program would give it, its bytes as far as they were read, and the
    password that opened it, where one had to be found. `declared` is the type of a body in a message that is a file,
    `shown` whether its text was read with that message."""

    names: tuple[str, ...]
    content: bytes
    unread: UnreadReason | None = None
    password: str = ""
    declared: str = ""
    shown: bool = False


class Contents(msgspec.Struct, frozen=True):
    """What a document's reader found in a file: files, traits, links, text for people, and what it did not read."""

    members: tuple[Member, ...] = ()
    traits: tuple[Trait, ...] = ()
    links: tuple[Link, ...] = ()
    unread: tuple[UnreadReason, ...] = ()
    text: str = ""


MAX_DEPTH = 12
MAX_FILES = 2_000
# Once half of the files are taken, plain texts and pictures take no more of them; there may be so many times as many.
PLAIN_TIMES = 10
MAX_BYTES = 128 << 20
MAX_READ = 256 << 20
MAX_RATIO = 250
MAX_IMAGES = 12
MAX_SMALL_IMAGES, SMALL_PIXELS = 40, 100_000
MAX_PIXELS = 24_000_000
MAX_ATTEMPTS = 2_000  # one is a block of a zip's key, about half a millisecond
MAX_SLOW = 1 << 20  # about a second
MAX_LIBRARY_CALLS = 200  # each costs a child, which is some milliseconds
MAX_TEXT = 1_000_000  # characters of documents in which links are looked for
MAX_TEXT_SOURCE = 16 << 20  # bytes of documents that are searched for text
RATIO_FREE = 4 << 20  # small files may be as dense as they like: a megabyte of zeros is an ordinary thing


class UnpackBudget:
    """What one message may use. `read`, `spent`, `files`, `plain_files`, `attempts`, `slow`, `library_calls`, `images`,
    `pixels`, `text` and `text_source` are what was used of it; `untried` is how many passwords the file that is being
    opened could not try for want of attempts. Without `native`, libraries that are not memory-safe are not called: for
    processes that are not sealed, and no page runs. `cpu` is the account of the message, `script_time` is what pages
    that run may take of it, and `has_stalled` says that one of their scripts had no end."""

    def __init__(
        self,
        max_bytes: int = MAX_BYTES,
        max_files: int = MAX_FILES,
        *,
        native: bool = True,
        now: float | None = None,
        cpu: CpuAccount | None = None,
    ) -> None:
        self.max_bytes = max_bytes
        self.max_files = max_files
        self.native = native
        self.spent = 0
        self.read = 0
        self.files = 0
        self.plain_files = 0
        self.has_streamed = False
        self.attempts = 0
        self.untried = 0
        self.slow = 0
        self.library_calls = 0
        self.images = self.small_images = 0
        self.pixels = 0
        self.text = 0
        self.text_source = 0
        self.cpu = cpu or CpuAccount()
        self.script_time = ScriptTime() if now is None else ScriptTime(now, min(MESSAGE_SECONDS, self.cpu.left(FILES)))
        self.has_stalled = False

    def allowance(self, packed: int) -> int:
        """Return the most bytes that `packed` bytes of an archive may unpack to now."""
        if self.read + packed > MAX_READ:
            return 0
        return min(self.max_bytes - self.spent, max(RATIO_FREE, packed * MAX_RATIO))

    @property
    def is_tight(self) -> bool:
        """Whether half of the bytes are spent, so that the rest is kept for files which could do something."""
        return 2 * self.spent > self.max_bytes

    def shortage(self, packed: int) -> UnreadReason:
        """Return which limit `allowance(packed)` ran into."""
        if self.read + packed > MAX_READ:
            return "size"
        return "ratio" if max(RATIO_FREE, packed * MAX_RATIO) < self.max_bytes - self.spent else "size"

    def pay(self, packed: int, size: int) -> None:
        """Charge the budget for `packed` bytes that were read and gave `size` bytes."""
        self.read += packed
        self.spent += size

    def take_file(self) -> bool:
        """Take one more file; return False when the budget has none left."""
        if self.files >= self.max_files:
            return False
        self.files += 1
        return True

    @property
    def max_entries(self) -> int:
        """How many entries of an archive are looked at."""
        return PLAIN_TIMES * self.max_files

    @property
    def keeps_files(self) -> bool:
        """Whether so many files were taken that the rest is kept for those which could do something."""
        return 2 * self.files >= self.max_files

    def take_plain(self) -> bool:
        """Take one more plain text or picture that is not opened; return False when there were too many."""
        self.plain_files += 1
        return self.plain_files <= self.max_entries

    def take_stream(self) -> bool:
        """Take the one archive of a message that may be read piece by piece; return False for all others."""
        if self.has_streamed:
            return False
        self.has_streamed = True
        return True

    def take_attempt(self, cost: int = 1) -> bool:
        """Take one more password attempt; return False when the budget has none left."""
        if self.attempts + cost > MAX_ATTEMPTS:
            return False
        self.attempts += cost
        return True

    def take_image(self, pixels: int) -> bool:
        """Take one more picture with so many pixels; return False when the budget has none left."""
        if self.images >= MAX_IMAGES or self.pixels + pixels > MAX_PIXELS:
            return False
        self.images += 1
        self.pixels += pixels
        return True

    def take_small_image(self, pixels: int) -> bool:
        """Take one more picture of few dots; return False when there were many, or it is not small in all."""
        self.small_images += 1
        return self.small_images <= MAX_SMALL_IMAGES and pixels <= SMALL_PIXELS

    def take_slow(self, size: int) -> bool:
        """Take work on so many single bytes; return False when the budget has none left."""
        if self.slow + size > MAX_SLOW:
            return False
        self.slow += size
        return True

    def take_library_call(self) -> bool:
        """Take one more call of libarchive; return False when there were too many."""
        self.library_calls += 1
        return self.library_calls <= MAX_LIBRARY_CALLS

    def take_text_source(self, content: bytes) -> bytes:
        """Return as much of a document as may still be searched for text; once it runs out, nothing."""
        content = content[: MAX_TEXT_SOURCE - self.text_source] if self.text < MAX_TEXT else b""
        self.text_source += len(content)
        return content

    def take_text(self, text: str) -> str:
        """Return as much of a document's text as the budget has room for."""
        text = text[: MAX_TEXT - self.text]
        self.text += len(text)
        return text

    @property
    def slow_left(self) -> int:
        """How many single bytes may still be worked on."""
        return MAX_SLOW - self.slow


class BrokenError(ValueError):
    """The bytes are not what they claim to be."""


class TooManyError(BrokenError):
    """There is more than is read."""


class StepLimit:
    """A limit on steps through headers: millions of empty headers cost seconds and hold nothing."""

    def __init__(self, most: int) -> None:
        self._left = most

    def step(self) -> None:
        """Take one step; raise `TooManyError` when none is left."""
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
        """Return the next bytes, all of them or none."""
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
        """Return the next bytes as a number."""
        return int.from_bytes(self.take(size), "little")

    def text(self, limit: int = 4096) -> bytes:
        """Return bytes up to a NUL, which is passed over."""
        end = bytes(self.data[self.place : self.place + limit]).find(b"\0")
        if end < 0:
            raise BrokenError("no end of a name")
        found = self.take(end)
        self.place += 1
        return found
