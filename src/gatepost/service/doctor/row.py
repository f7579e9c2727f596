"""One line of what the doctor says."""

from typing import Literal

import msgspec

State = Literal["ok", "warn", "fail"]


class Row(msgspec.Struct, frozen=True):
    """One thing that was looked at. `advice` is empty where nothing needs to be done."""

    what: str
    state: State
    found: str
    advice: str = ""
