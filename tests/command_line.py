"""The command `gatepost` inside the test's own process: the same `main`, without a second of imports for each call.

What needs a process of its own (a service, a kill, a lock between two processes) starts one.
"""

import contextlib
import io
import sys

import pytest

from gatepost.cli import main


def run_command(*arguments: object, stdin: bytes | io.StringIO = b"") -> tuple[int, str, str]:
    """Run `gatepost` with these arguments; exit code, standard output and standard error."""
    out, err = io.StringIO(), io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True)  # logs are bytes
    code = 0
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        patch.setattr(sys, "argv", ["gatepost", *map(str, arguments)])
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)) if isinstance(stdin, bytes) else stdin)
        try:
            main()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
            if isinstance(end.code, str):
                err.write(f"{end.code}\n")
    return code, out.getvalue(), err.buffer.getvalue().decode()
