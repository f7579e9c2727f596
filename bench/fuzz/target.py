"""One fuzz target: a function that reads bytes or text of strangers, with inputs to begin with.

A target takes any bytes and returns a value that can be compared. Faults that a reader states by an exception of its
own (`FrameError`, `ListFileError`) are values here; any other exception is a failure. `cheap` targets take
microseconds.
"""

import msgspec

from bench.fuzz.readers import Run
from bench.fuzz.seeds import Seeds


class Target(msgspec.Struct, frozen=True):
    """One reader. `most` bounds the size of an input."""

    name: str
    run: Run
    seeds: Seeds
    cheap: bool = False
    most: int = 8_192
