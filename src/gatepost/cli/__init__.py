"""The command `gatepost`. Importing this package loads very little; each command loads what it needs when it runs."""

import sys

from gatepost import __version__


def main() -> None:
    """Run the command line; a fault that the operator can correct gives one sentence and exit code 1."""
    if sys.argv[1:] == ["--version"]:
        print(f"gatepost {__version__}")
        return
    from gatepost.cli.app import app

    try:
        app()
    except BrokenPipeError:
        # The reader of our output has closed it; nothing is left to flush to.
        sys.stdout = None
        sys.exit(1)
    except Exception as fault:
        from gatepost.cli.faults import describe_fault

        sentence = describe_fault(fault)
        if sentence is None:
            raise
        print(sentence, file=sys.stderr)
        sys.exit(1)
