"""What next hops could do when they were last reached, kept in a file of the data folder.

EHLO announces extensions before a next hop is asked. After a restart while it is down, what it last said is announced,
and not a guess. The file is this node's own, since every node has its own way to the next hops. Several processes of a
node may write it: each writes what it has seen anew over what the file has at that moment, and one that is lost to
another is seen again with the next connection.
"""

import contextlib
import os
from pathlib import Path

import msgspec
import structlog

log = structlog.get_logger("gatepost.guard")

# What is kept of one next hop, and of how many: names that no setting has any more are dropped at the limit.
MAX_FEATURES, MAX_TEXT, MAX_HOPS = 64, 256, 1_000
MAX_BYTES = 8 << 20

Features = dict[str, str]


class SeenFeatures:
    """Extensions by the URL of the next hop. Without a file, nothing is kept."""

    def __init__(self, file: Path | None) -> None:
        self._file = file

    def of(self, url: str) -> Features | None:
        """Return what a next hop could; None if that is not known."""
        return self._read().get(url)

    def keep(self, url: str, features: Features) -> None:
        """Note what a next hop can. A disk that takes nothing is logged and changes nothing."""
        if self._file is None:
            return
        known = self._read()
        known.pop(url, None)
        cut = {name[:MAX_TEXT]: value[:MAX_TEXT] for name, value in list(features.items())[:MAX_FEATURES]}
        kept = dict([*list(known.items())[-(MAX_HOPS - 1) :], (url, cut)])
        part = self._file.with_name(f"{self._file.name}.{os.getpid()}")
        try:
            part.write_bytes(msgspec.json.encode(kept))
            part.replace(self._file)
        except OSError as fault:
            log.warning("extensions of a next hop could not be kept", next_hop=url, reason=str(fault))
            with contextlib.suppress(OSError):
                part.unlink()

    def _read(self) -> dict[str, Features]:
        if self._file is None:
            return {}
        try:
            with self._file.open("rb") as file:
                return msgspec.json.decode(file.read(MAX_BYTES), type=dict[str, Features])
        except (OSError, msgspec.DecodeError):
            return {}
