"""The command `gatepost`. Importing this package loads very little; each command loads what it needs when it runs."""

import gc
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn, cast

from gatepost import describe_build
from gatepost.process.hiding import hide, hide_text

if TYPE_CHECKING:
    from gatepost.cli.commands import Group
    from gatepost.settings.faults import ConfigError


# How seldom the collector of cycles looks while a command runs: nothing of what it imports is ever freed, and to look
# for it takes an eighth of a short command's time. Services keep the usual thresholds.
_RARE_COLLECTION = (50_000, 20, 20)
_SERVICES = frozenset({"serve", "guard", "abby"})


def main() -> None:
    """Run the command line; a fault that the operator can correct gives one sentence and exit code 1."""
    if sys.argv[1:2] == ["--version"]:
        print(f"gatepost {describe_build()}")
        return
    usual = gc.get_threshold()
    if not _SERVICES & set(sys.argv[1:2]):
        gc.set_threshold(*_RARE_COLLECTION)
    try:
        run(sys.argv[1:])
    except BrokenPipeError:
        # The reader of our output has closed it; nothing is left to flush to.
        sys.stdout = None
        sys.exit(1)
    except Exception as fault:
        sentence = _describe_fault(fault)
        if sentence is None:
            raise
        print(hide_text(sentence), file=sys.stderr)
        sys.exit(1)
    finally:
        gc.set_threshold(*usual)


def run(words: Sequence[str]) -> NoReturn:
    """Run the command that a command line names, and end the process with its exit code."""
    from gatepost.cli import commands

    called, found = "gatepost", cast("commands.Group | commands.Command", commands.COMMANDS)
    while isinstance(found, commands.Group) and words and words[0] in found.commands:
        called, found, words = f"{called} {words[0]}", found.commands[words[0]], words[1:]
    try:
        if isinstance(found, commands.Group):
            _refuse_group(found, words)
        parameters = commands.list_parameters(found)
        found(**commands.assemble(parameters, commands.read(parameters, words)))
    except commands.HelpWanted:
        from gatepost.cli.help import render_help

        # Without a command, help is what was wrong rather than what was asked for.
        print(render_help(called, found), file=sys.stdout if words else sys.stderr)
        sys.exit(0 if words else 2)
    except commands.UsageError as fault:
        from gatepost.cli.help import render_fault

        print(hide_text(render_fault(called, found, fault)), file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
    except EOFError:
        commands.abort()
    sys.exit(0)


def _refuse_group(group: "Group", words: Sequence[str]) -> NoReturn:
    from gatepost.cli.commands import HelpWanted, UsageError

    if not words or words[0] == "--help":
        raise HelpWanted
    what = "option" if words[0].startswith("-") else "command"
    raise UsageError(f"There is no {what} {hide(words[0])}.", words[0], group.commands)


def _describe_fault(fault: Exception) -> str | None:
    """Return the text for the operator; None for a fault of the program, which is shown with its traceback."""
    from gatepost.policy.rules import PolicyError
    from gatepost.service.data_folder import StartError
    from gatepost.settings.faults import ConfigError
    from gatepost.store.errors import StorageError

    if isinstance(fault, ConfigError):
        return _describe_configuration(fault)
    if isinstance(fault, StartError | StorageError | PolicyError):
        return str(fault)
    if isinstance(fault, OSError) and fault.filename is not None:
        return f"{fault.filename}: {(fault.strerror or 'cannot be used').lower()}."
    from gatepost.client.calls import ClientError, UnreachableError

    if isinstance(fault, UnreachableError):
        said = str(fault).rstrip(".")
        if "CERTIFICATE_VERIFY_FAILED" in said:
            return f"{said}. Name its certificate with --cacert."
        return f"{said}. Start it, or name another one with --url." if "cannot be reached" in said else f"{said}."
    return f"The request failed: {fault}." if isinstance(fault, ClientError) else None


def _describe_configuration(fault: "ConfigError") -> str:
    count = len(fault.faults)
    head = "The configuration has a fault:" if count == 1 else f"The configuration has {count} faults:"
    return "\n".join([head, *(f"  {each}" for each in fault.faults)])
