"""What abby may ask of a core about held mail: `POST /release`, `/look`, `/picture`, `/export` and `/delete`.

Each takes a small JSON object and answers JSON with a `type`, even where nothing is held; a message that is taken away
is answered as it is, as `message/rfc822`. `tenant` is the only one whose mail the caller may touch.
"""

from typing import Annotated, Protocol

import msgspec

from gatepost.api.errors import MALFORMED_REQUEST, Failure
from gatepost.guard.quarantine.held_mail import HeldMailOperations
from gatepost.scanning.held_mail import Busy, Deleted, NotHeld, Outcome
from gatepost.store.audit import Actor
from gatepost.view.values import NotShown, Picture, View

MESSAGE = "message/rfc822"

Reply = View | Picture | NotShown | Deleted | Outcome
_Index = Annotated[int, msgspec.Meta(ge=0, lt=1 << 31)]


class Order(Protocol):
    """Something to be done by a core that holds mail."""

    async def carried_out(self, custody: HeldMailOperations) -> Reply | bytes:
        """What came of it."""
        ...


class ReleaseOrder(msgspec.Struct, frozen=True):
    """Send a message on, by whose order, to its own recipients or to these."""

    ggrid: str
    by: Actor
    recipients: tuple[str, ...] = ()
    tenant: str | None = None

    async def carried_out(self, custody: HeldMailOperations) -> Outcome:
        """What came of it."""
        return await custody.release(self.ggrid, self.by, self.recipients, self.tenant)


class LookOrder(msgspec.Struct, frozen=True):
    """Show a message."""

    ggrid: str
    tenant: str | None = None

    async def carried_out(self, custody: HeldMailOperations) -> View | NotHeld | NotShown:
        """What came of it."""
        return await custody.look(self.ggrid, self.tenant)


class PictureOrder(msgspec.Struct, frozen=True):
    """Show one picture of a message."""

    ggrid: str
    index: _Index
    tenant: str | None = None

    async def carried_out(self, custody: HeldMailOperations) -> Picture | NotHeld | NotShown:
        """What came of it."""
        return await custody.picture(self.ggrid, self.index, self.tenant)


class ExportOrder(msgspec.Struct, frozen=True):
    """Hand out a message as it came."""

    ggrid: str
    by: Actor
    tenant: str | None = None

    async def carried_out(self, custody: HeldMailOperations) -> bytes | NotHeld:
        """What came of it."""
        return await custody.export(self.ggrid, self.by, self.tenant)


class DeleteOrder(msgspec.Struct, frozen=True):
    """Delete a message."""

    ggrid: str
    by: Actor
    tenant: str | None = None

    async def carried_out(self, custody: HeldMailOperations) -> Deleted | NotHeld | Busy:
        """What came of it."""
        return await custody.delete(self.ggrid, self.by, self.tenant)


PATHS: dict[str, type[Order]] = {
    "/release": ReleaseOrder,
    "/look": LookOrder,
    "/picture": PictureOrder,
    "/export": ExportOrder,
    "/delete": DeleteOrder,
}
_DECODERS: dict[str, msgspec.json.Decoder[Order]] = {path: msgspec.json.Decoder(kind) for path, kind in PATHS.items()}


def order(path: str, encoded: bytes) -> Order | Failure:
    """What a request to this path wants."""
    try:
        return _DECODERS[path].decode(encoded)
    except (ValueError, RecursionError):
        return Failure(MALFORMED_REQUEST, "the body is not such an order")
