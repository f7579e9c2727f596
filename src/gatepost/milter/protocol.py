"""The wire format of Sendmail's mail filter protocol ("milter"), versions 2 to 6, as Sendmail and Postfix speak it.

No RFC describes it; libmilter of Sendmail 8.18 is the reference. A frame has four bytes of length in network order, one
letter, and data. Texts in the data end with NUL. The mail server sends commands, and expects an answer to each, unless
both sides agreed at the beginning that some have none.

Everything is bounded: the length of a frame, the number of texts that are read of it, and the macros that are kept.
What does not fit is a `FrameError`, after which a connection is closed: the next byte could mean anything.
"""

import enum

import msgspec

MIN_VERSION, MAX_VERSION = 2, 6
# Bodies come in pieces of 64 KiB. A header field is one frame, and Postfix sends up to `header_size_limit` of it.
MAX_FRAME = 1 << 20
MAX_MACRO = 512
# Address and parameters of MAIL and RCPT; what comes behind is not looked at.
MAX_TEXTS = 32
MAX_MACROS = 64

_LENGTH = 4
_OPTIONS = 12

# Macros whose values are used, by the names that both mail servers give them: queue id, authenticated user, client.
QUEUE_ID, USER, CLIENT_ADDRESS = "i", "{auth_authen}", "{client_addr}"
MACROS = frozenset({QUEUE_ID, USER, CLIENT_ADDRESS})


class FrameError(ValueError):
    """Bytes that are no frame, or a frame that makes no sense where it came."""


class Action(enum.IntFlag):
    """What a filter may do to a message (SMFIF_…)."""

    ADD_FIELDS = 0x01
    CHANGE_FIELDS = 0x10
    QUARANTINE = 0x20


class Step(enum.IntFlag):
    """What is left out of the conversation (SMFIP_…). Those of `UNANSWERED` are sent and have no answer."""

    NO_REPLY_HEADER = 0x80
    NO_UNKNOWN = 0x100
    NO_DATA = 0x200
    NO_REPLY_CONNECT = 0x1000
    NO_REPLY_HELO = 0x2000
    NO_REPLY_DATA = 0x10000
    NO_REPLY_UNKNOWN = 0x20000
    NO_REPLY_END_OF_HEADER = 0x40000
    NO_REPLY_BODY = 0x80000
    LEADING_SPACE = 0x100000


class Command(bytes, enum.Enum):
    """The letters of commands (SMFIC_…)."""

    ABORT = b"A"
    BODY = b"B"
    CONNECT = b"C"
    MACRO = b"D"
    END_OF_MESSAGE = b"E"
    HELO = b"H"
    QUIT_NEW_CONNECTION = b"K"
    HEADER = b"L"
    MAIL = b"M"
    END_OF_HEADER = b"N"
    OPTIONS = b"O"
    QUIT = b"Q"
    RCPT = b"R"
    DATA = b"T"
    UNKNOWN = b"U"


UNANSWERED = {
    Command.CONNECT: Step.NO_REPLY_CONNECT,
    Command.HELO: Step.NO_REPLY_HELO,
    Command.DATA: Step.NO_REPLY_DATA,
    Command.UNKNOWN: Step.NO_REPLY_UNKNOWN,
    Command.HEADER: Step.NO_REPLY_HEADER,
    Command.END_OF_HEADER: Step.NO_REPLY_END_OF_HEADER,
    Command.BODY: Step.NO_REPLY_BODY,
}
_COMMANDS = {each.value: each for each in Command}


class Frame(msgspec.Struct, frozen=True):
    """One command of the mail server."""

    command: Command
    data: bytes = b""


class FrameReader:
    """Puts the bytes of a connection together to frames. It keeps at most one frame and the piece that was fed last,
    if `next` is called until it returns None."""

    def __init__(self, most: int = MAX_FRAME) -> None:
        self._most = most
        self._buffer = bytearray()

    def feed(self, data: bytes) -> None:
        """Add bytes as they came."""
        self._buffer += data

    def next(self) -> Frame | None:
        """Return the next frame if it is whole. Raises `FrameError` as soon as its length or its letter is wrong."""
        buffer = self._buffer
        if len(buffer) < _LENGTH:
            return None
        size = int.from_bytes(buffer[:_LENGTH])
        if not 1 <= size <= self._most:
            raise FrameError(f"a frame of {size} bytes")
        if len(buffer) == _LENGTH:
            return None
        command = _COMMANDS.get(bytes(buffer[_LENGTH : _LENGTH + 1]))
        if command is None:
            raise FrameError(f"an unknown command ({buffer[_LENGTH]:#04x})")
        end = _LENGTH + size
        if len(buffer) < end:
            return None
        frame = Frame(command, bytes(buffer[_LENGTH + 1 : end]))
        del buffer[:end]
        return frame


class Options(msgspec.Struct, frozen=True):
    """What one side offers, or both have agreed on."""

    version: int = MAX_VERSION
    actions: int = 0
    steps: int = 0

    def has(self, flag: Action | Step) -> bool:
        """Whether an action is allowed, or a step agreed on."""
        return bool((self.actions if isinstance(flag, Action) else self.steps) & flag)


_NEEDED = Action.ADD_FIELDS | Action.CHANGE_FIELDS
_WANTED_STEPS = Step(sum(UNANSWERED.values())) | Step.NO_UNKNOWN | Step.NO_DATA | Step.LEADING_SPACE


def parse_options(data: bytes) -> Options:
    """Read what the mail server offers (SMFIC_OPTNEG). Raises `FrameError`."""
    if len(data) < _OPTIONS:
        raise FrameError("an offer that is too short")
    return Options(*(int.from_bytes(data[start : start + 4]) for start in range(0, _OPTIONS, 4)))


def agree(offered: Options, *, quarantine: bool) -> Options:
    """Return what is taken of an offer; `quarantine` says that messages are to be held by the mail server if it can.
    Raises `FrameError` where fields that claim to be ours could not be removed."""
    if offered.version < MIN_VERSION:
        raise FrameError(f"version {offered.version} of the protocol")
    if offered.actions & _NEEDED != _NEEDED:
        raise FrameError("a mail server that lets no header fields be added and changed")
    wanted = _NEEDED | (Action.QUARANTINE if quarantine else 0)
    return Options(min(offered.version, MAX_VERSION), offered.actions & wanted, offered.steps & _WANTED_STEPS)


def parse_texts(data: bytes) -> list[bytes]:
    """Return the texts of a frame, as many as are looked at. Raises `FrameError` where the first one does not end."""
    *texts, rest = data.split(b"\0", MAX_TEXTS)
    if not texts or (rest and len(texts) < MAX_TEXTS):
        raise FrameError("a text that does not end")
    return texts


def parse_field(data: bytes) -> tuple[bytes, bytes]:
    """Return name and value of a header field (SMFIC_HEADER). Raises `FrameError`."""
    texts = parse_texts(data)
    if len(texts) != 2 or not texts[0]:
        raise FrameError("a header field that is not a name and a value")
    return texts[0], texts[1]


def parse_macros(data: bytes) -> dict[str, str]:
    """Return the macros (SMFIC_MACRO) that are used here; the first byte is the command that they belong to. What is
    too long or not printable is left out: it would be no queue id, name or address."""
    texts = data[1:].split(b"\0", 2 * MAX_MACROS)[: 2 * MAX_MACROS]
    found = {}
    for name, value in zip(texts[::2], texts[1::2], strict=False):
        key, text = name[:32].decode("latin-1"), value[: MAX_MACRO + 1].decode("utf-8", "replace")
        if key in MACROS and len(text) <= MAX_MACRO and text.isprintable():
            found[key] = text
    return found


def parse_connect(data: bytes) -> str:
    """Return the address of the SMTP client (SMFIC_CONNECT) as it is written, "" if it has none: a family other than
    IPv4 and IPv6. Raises `FrameError`."""
    _name, end, rest = data.partition(b"\0")
    if not end or not rest:
        raise FrameError("a connection without a family of addresses")
    if rest[:1] not in (b"4", b"6"):
        return ""
    return rest[3:].partition(b"\0")[0][:64].decode("ascii", "replace")


def pack(letter: bytes, data: bytes = b"") -> bytes:
    """Return one frame."""
    return (len(data) + 1).to_bytes(4) + letter + data


def pack_options(agreed: Options) -> bytes:
    """Return the answer to an offer."""
    numbers = (agreed.version, agreed.actions, agreed.steps)
    return pack(Command.OPTIONS.value, b"".join(number.to_bytes(4) for number in numbers))


CONTINUE, ACCEPT, DISCARD, TEMPORARY_FAILURE, PROGRESS = (pack(letter) for letter in (b"c", b"a", b"d", b"t", b"p"))


def pack_reply(code: int, text: bytes) -> bytes:
    """Return a refusal with the SMTP reply that the client is to get (SMFIR_REPLYCODE)."""
    return pack(b"y", b"%d " % code + text + b"\0")


def pack_quarantine(reason: str) -> bytes:
    """Return the wish that the mail server holds the message (SMFIR_QUARANTINE)."""
    return pack(b"q", reason.encode("ascii", "replace") + b"\0")


def pack_insertion(name: bytes, value: bytes) -> bytes:
    """Return the insertion of a field above all others (SMFIR_INSHEADER)."""
    return pack(b"i", bytes(4) + name + b"\0" + value + b"\0")


def pack_removal(name: bytes, number: int) -> bytes:
    """Return the removal of a field (SMFIR_CHGHEADER without a value): that with this number, from 1, among those of
    its name."""
    return pack(b"m", number.to_bytes(4) + name + b"\0\0")
