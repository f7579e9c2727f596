"""What is wrong with a configuration: every fault with its file, line and key, all of them at once."""

from collections.abc import Iterable

import msgspec

from gatepost.config.document import Key


class Fault(msgspec.Struct, frozen=True, order=True):
    """One fault. `key` is written as in the file, `staticApiTokens[0].token`. "" is the file as a whole, and line 0
    none of its lines."""

    file: str
    line: int
    key: str
    sentence: str

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        return f"{place}: {self.key or 'the file'} {self.sentence}"


class ConfigError(Exception):
    """A configuration that nothing starts on."""

    def __init__(self, faults: Iterable[Fault]) -> None:
        self.faults = tuple(sorted(set(faults)))
        super().__init__("\n".join(str(fault) for fault in self.faults))


def written(key: Key) -> str:
    """A key's place as a person writes it."""
    text = ""
    for step in key:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            text += f".{step}" if text else step
    return text
