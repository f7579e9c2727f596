"""The clock of the processes that are rehearsed: as wrong as the file says that `REHEARSAL_CLOCK` names.

Python loads this module in each process by its name. The file is mapped, since a sealed process may read none. Files,
databases and Postfix keep the clock of the machine, as they do where the clock of a node is wrong.
"""

import mmap
import os
import struct
import time


def move(path: str) -> None:
    """Let `time.time` and `time.time_ns` be that many seconds ahead from now on."""
    descriptor = os.open(path, os.O_RDONLY)
    page = mmap.mmap(descriptor, 8, access=mmap.ACCESS_READ)
    os.close(descriptor)
    real, real_ns = time.time, time.time_ns
    time.time = lambda: real() + struct.unpack("d", page)[0]
    time.time_ns = lambda: real_ns() + int(struct.unpack("d", page)[0] * 1e9)


if named := os.environ.get("REHEARSAL_CLOCK"):
    move(named)
