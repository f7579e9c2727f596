"""Commands that are started for a test or a measurement."""

import subprocess
import time
from pathlib import Path


def await_output(process: subprocess.Popen[bytes], output: Path, words: str, seconds: float = 240.0) -> str:
    """Wait until a process has written these words into its output, and return the whole of it.

    A process that ended before, or that takes too long, is ended and fails the caller with what it wrote.
    """
    end = time.monotonic() + seconds
    while words not in (text := output.read_text("utf-8", "replace")):
        if process.poll() is not None or time.monotonic() > end:
            process.kill()
            process.wait()
            raise AssertionError(f"{words} was not written, but: {text}")
        time.sleep(0.02)
    return text
