"""The values of a message that has been read: frozen, with nothing left to guess.

The reader takes any bytes and returns a `Message`. A `Defect` says what was odd about them, and also what was not read
because a budget ran out. Where mail programs would disagree, each plausible reading is among `parts`.
"""

from typing import Literal

import msgspec

from gatepost.names import Address


class Envelope(msgspec.Struct, frozen=True):
    """What the border MTA saw (RFC 5321), as far as it told. An `outbound` message is one that own servers send to the
    world; its tenant is that of its sender, and `may_sign` says whether its client was proven to send for that
    tenant. `logged_in` says that the client had logged in, `local` that it was a program on the MTA's own machine."""

    sender: str = ""
    recipients: tuple[str, ...] = ()
    remote_address: str | None = None
    helo: str | None = None
    tenant: str | None = None
    outbound: bool = False
    may_sign: bool = False
    logged_in: bool = False
    local: bool = False


class Receipt(msgspec.Struct, frozen=True, omit_defaults=True):
    """How Gatepost got a message: the node, the client that sent it (an address; "" for the scanning API), the queue id
    that the message has at that client, and how many milliseconds it was throttled."""

    node: str = ""
    client: str = ""
    queue_id: str = ""
    throttled: int = 0


class Defect(msgspec.Struct, frozen=True):
    """Something odd, ambiguous or over a budget: `kind` is the id of the finding that it becomes."""

    kind: str
    where: str
    detail: str = ""


class Field(msgspec.Struct, frozen=True, gc=False):
    """One field: `raw` has every byte with its line end, `value` is unfolded and decoded, `name` in lower case."""

    name: str
    value: str
    raw: bytes


class Headers(msgspec.Struct, frozen=True):
    """The header fields in their order (RFC 5322 section 2.2)."""

    fields: tuple[Field, ...] = ()

    def all(self, name: str) -> tuple[str, ...]:
        return tuple([field.value for field in self.fields if field.name == name])

    def first(self, name: str) -> str | None:
        for field in self.fields:
            if field.name == name:
                return field.value
        return None


# What `content_signs` of `_speedups.c` sees in the bytes of a text at a glance: that they may hold a file in the text
# itself, draw a code, be or hold more than text; and that they are plain text or a page and nothing else. Without
# native code there are no signs, and every reader looks for itself.
NO_SIGNS = -1
EMBEDS, DRAWS, OPENS, IS_TEXT, IS_HTML = 1, 2, 4, 8, 16
MAX_SIGNED = 100_000


class Part(msgspec.Struct, frozen=True):
    """One MIME entity (RFC 2045 section 2.4).

    `path` is its place, "1.2" being the second child of the first; a second plausible reading of the same bytes
    has a path of its own ("1.2~base64"). The message itself is "1". `content` is the decoded body of a leaf (and of a
    message that is attached as a file), `names` every file name that any mail program might show for it. `signs` are
    those of a text, where it is not long.
    """

    path: str
    headers: Headers = Headers()
    content_type: str = "text/plain"
    charset: str | None = None
    disposition: str = ""
    names: tuple[str, ...] = ()
    content: bytes = b""
    children: tuple["Part", ...] = ()
    signs: int = NO_SIGNS

    def is_named(self, *endings: str) -> bool:
        """Return whether a name of it has one of these endings."""
        return bool(self.names) and any(name.lower().rstrip(". ").endswith(endings) for name in self.names)


# A part of one of these types is a message itself (RFC 2046 section 5.2.1, RFC 6532 section 3.7); so are some files.
MESSAGE_TYPES = frozenset({"message/rfc822", "message/global", "message/news"})
_FETCHED = frozenset({"image", "script", "css"})


class Link(msgspec.Struct, frozen=True):
    """One link: `target` as written, `url` in WHATWG normal form ("" where it has none), `shown` the text a person
    sees for it, `where` the part's path, `wrapped` the hosts of redirectors or wrappers that were peeled off, outermost
    first, `hidden` whether it stands where a reader cannot see it.
    """

    target: str
    url: str
    host: str
    shown: str
    where: str
    source: Literal["text", "html", "form", "image", "script", "css", "refresh", "file", "qr"]
    wrapped: tuple[str, ...] = ()
    hidden: bool = False

    @property
    def can_be_followed(self) -> bool:
        """Whether a reader can follow it; pictures, scripts and style sheets mean little."""
        return self.source not in _FETCHED


class Text(msgspec.Struct, frozen=True):
    """Text that a person reads in one part: `visible` is what shows, `hidden` what is there but does not show,
    `attached` whether it shows only once a file is opened. The form "document" is the text of a PDF or an office
    document, which the reader of files adds."""

    where: str
    form: Literal["plain", "html", "document"]
    visible: str
    hidden: str = ""
    attached: bool = False


class Message(msgspec.Struct, frozen=True):
    """A whole message as read: lines that ended with CR alone end with CRLF in `raw`, in which the body begins at
    `header_end`. `parts` holds every entity of every reading, depth first; `senders` are all in From fields."""

    raw: bytes = b""
    headers: Headers = Headers()
    header_end: int = 0
    parts: tuple[Part, ...] = ()
    texts: tuple[Text, ...] = ()
    links: tuple[Link, ...] = ()
    subject: str = ""
    senders: tuple[Address, ...] = ()
    reply_to: tuple[Address, ...] = ()
    recipients: tuple[Address, ...] = ()
    defects: tuple[Defect, ...] = ()

    @property
    def attached(self) -> tuple[Part, ...]:
        """The parts that are messages themselves, or files in which mail programs keep one."""
        parts = [part for part in self.parts if part.content_type in MESSAGE_TYPES or part.is_named(".eml", ".msg")]
        return tuple(part for part in parts if part.path != "1")

    @property
    def files(self) -> tuple[Part, ...]:
        """Every part whose bytes a file check must see: all that have any, whatever they claim to be."""
        return tuple([part for part in self.parts if part.content])
