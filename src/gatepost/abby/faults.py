"""What is wrong with a body, field by field, in the words of JSON."""

from collections.abc import Iterable
from typing import Any

from gatepost.api.errors import ErrorCode, Failure

SHOWN = 20
_KINDS: tuple[tuple[Any, str], ...] = (
    (bool, "a boolean"),
    (str, "a string"),
    (int | float, "a number"),
    (list, "an array"),
    (dict, "an object"),
)


def listed(code: ErrorCode, faults: Iterable[str]) -> Failure:
    """All faults in one sentence; of very many the first, and how many more there are."""
    every = list(faults)
    more = f"; and {len(every) - SHOWN:,} more" if len(every) > SHOWN else ""
    return Failure(code, "; ".join(every[:SHOWN]) + more)


def wrong(name: str, value: Any, wanted: str, present: bool) -> str:
    """A field of the wrong kind, or none at all."""
    return f"{name} must be {wanted}, not {kind_of(value)}" if present else f"{name} is missing"


def kind_of(value: Any) -> str:
    """What JSON calls it."""
    return next((name for kind, name in _KINDS if isinstance(value, kind)), "null")
