"""What `gatepost doctor` says, for the system page.

It runs in a process of its own: the doctor tries the locks of the data folder, and a record lock that the running
service holds would be lost if the service itself opened and closed its file (fcntl(2), "Advisory record locking").
"""

import subprocess
import sys
from pathlib import Path

import msgspec

SECONDS = 90.0


class Said(msgspec.Struct, frozen=True):
    """One row of what the doctor says."""

    what: str
    state: str
    found: str
    advice: str = ""


def examined(config: Path, data: Path) -> tuple[Said, ...]:
    """Look at everything. Where that fails, a row says so."""
    command = [sys.executable, "-m", "gatepost", "doctor", "--json", "--config", str(config), "--data", str(data)]
    try:
        ended = subprocess.run(command, check=False, capture_output=True, timeout=SECONDS)
        return msgspec.json.decode(ended.stdout, type=tuple[Said, ...])
    except (OSError, subprocess.SubprocessError, msgspec.MsgspecError) as fault:
        return (Said("examination", "fail", str(fault)[:300], "run gatepost doctor on the server"),)
