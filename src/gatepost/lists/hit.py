"""An entry that a message hit."""

from typing import Literal

import msgspec

Scope = Literal["tenant", "global"]


class Hit(msgspec.Struct, frozen=True):
    """Which list, whose, and which entry, with what its author noted."""

    list: str
    scope: Scope
    key: str
    comment: str = ""
