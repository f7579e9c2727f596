"""The command `gatepost`. Importing this loads next to nothing; each command loads what it needs when it runs."""

import sys

from gatepost import __version__


def main() -> None:
    """Run the command line; a fault that a person can mend is one sentence and exit 1, never a traceback."""
    if sys.argv[1:] == ["--version"]:
        print(f"gatepost {__version__}")
        return
    from gatepost.cli.app import app

    try:
        app()
    except BrokenPipeError:
        # Whoever read our output has seen enough; nothing is left to flush to.
        sys.stdout = None
        sys.exit(1)
    except Exception as fault:
        sentence = _sentence(fault)
        if sentence is None:
            raise
        print(sentence, file=sys.stderr)
        sys.exit(1)


def _sentence(fault: Exception) -> str | None:
    from gatepost.cli.faults import sentence

    return sentence(fault)
