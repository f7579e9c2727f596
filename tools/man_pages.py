"""Generate manual pages from the declarations of the commands: `python -m tools.man_pages build/man`.

There is one page for the program, which names every command, and one for each command or group of the first level. The
format is man(7), which every Unix reads.
"""

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from gatepost import __version__
from gatepost.cli.commands import COMMANDS, Group, Parameter, list_parameters


def render_man_pages() -> dict[str, str]:
    """Return the text of every page by its file name."""
    commands = dict(COMMANDS.items())
    pages = {"gatepost.1": _render_program(commands)}
    for name, each in commands.items():
        pages[f"gatepost-{name}.1"] = _render_command(name, each)
    return {name: "\n".join(lines) + "\n" for name, lines in pages.items()}


def _render_program(commands: dict[str, Callable[..., None] | Group]) -> Iterator[str]:
    yield from _head("gatepost", COMMANDS.help)
    yield from (".SH SYNOPSIS", ".B gatepost", ".I COMMAND", "[\\fIOPTIONS\\fR]", ".SH COMMANDS")
    for name, each in commands.items():
        yield from (".TP", f".BR gatepost-{_escape(name)} (1)", _escape(_first_sentence(each)))
    yield from (
        ".SH ENVIRONMENT",
        *(".TP", ".B GATEPOST_DATA", "The data folder."),
        *(".TP", ".B GATEPOST_CONFIG", "The folder of the configuration, where it is not the data folder."),
    )


def _render_command(name: str, command: Callable[..., None] | Group) -> Iterator[str]:
    yield from _head(f"gatepost-{name}", _first_sentence(command))
    if not isinstance(command, Group):
        yield ".SH SYNOPSIS"
        yield _synopsis(f"gatepost {name}", command)
        yield ".SH DESCRIPTION"
        yield from _body(command)
        return
    yield ".SH SYNOPSIS"
    yield from (f".B gatepost {_escape(name)}", ".I COMMAND", "[\\fIOPTIONS\\fR]")
    yield ".SH COMMANDS"
    for sub, run in command.commands.items():
        yield ".SS " + _synopsis(f"gatepost {name} {sub}", run)
        yield from _body(run)


def _head(name: str, about: str) -> Iterator[str]:
    yield f'.TH {name.upper()} 1 "" "Gatepost {__version__}" "Gatepost"'
    yield ".SH NAME"
    yield f"{_escape(name)} \\- {_escape(about.rstrip('.'))}"


def _synopsis(call: str, command: Callable[..., None]) -> str:
    arguments = [_argument_name(each) for each in list_parameters(command) if not each.names]
    options = ["[OPTIONS]"] if any(each.names for each in list_parameters(command)) else []
    return " ".join([f"\\fB{_escape(call)}\\fR", *(f"\\fI{_escape(each)}\\fR" for each in arguments), *options])


def _body(command: Callable[..., None]) -> Iterator[str]:
    for paragraph in re.split(r"\n\s*\n", (command.__doc__ or "").strip()):
        yield from (".PP", _escape(" ".join(paragraph.split())))
    for each in list_parameters(command):
        names = ", ".join(_escape(name) for name in each.names) or _escape(_argument_name(each))
        value = "" if not each.names or each.kind is bool else f" \\fI{_escape(each.about.metavar or 'VALUE')}\\fR"
        yield from (".TP", f"\\fB{names}\\fR{value}", _escape(each.about.help or "A value."))


def _argument_name(parameter: Parameter) -> str:
    return f"{parameter.about.metavar or parameter.name.upper()}{'...' if parameter.is_list else ''}"


def _first_sentence(command: Callable[..., None] | Group) -> str:
    text = command.help if isinstance(command, Group) else command.__doc__ or ""
    return " ".join(re.split(r"\n\s*\n", text.strip())[0].split())


def _escape(text: str) -> str:
    """Return text that man(7) prints as it stands: a dash is a minus, and a line may not begin with a dot."""
    plain = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{plain}" if plain.startswith((".", "'")) else plain


def main() -> None:
    """Write all pages into a folder."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in render_man_pages().items():
        (folder / name).write_text(text, encoding="utf-8")
    print(f"{len(render_man_pages())} manual pages are in {folder}.")


if __name__ == "__main__":
    main()
