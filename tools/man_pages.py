"""Generate manual pages from the declarations of the commands: `python -m tools.man_pages build/man`.

There is one page for the program, which names every command, and one for each command or group of the first level. The
format is man(7), which every Unix reads.
"""

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from gatepost import __version__
from gatepost.cli.commands import COMMANDS, Command, Group, list_parameters
from gatepost.cli.help import first_sentence, render_names, render_synopsis, split_paragraphs


def render_man_pages() -> dict[str, str]:
    """Return the text of every page by its file name."""
    commands = COMMANDS.commands
    pages = {"gatepost.1": _render_program(commands)}
    for name, each in commands.items():
        pages[f"gatepost-{name}.1"] = _render_command(name, each)
    return {name: "\n".join(lines) + "\n" for name, lines in pages.items()}


def _render_program(commands: Mapping[str, Command | Group]) -> Iterator[str]:
    yield from _head("gatepost", COMMANDS.help)
    yield from (".SH SYNOPSIS", ".B gatepost", ".I COMMAND", "[\\fIOPTIONS\\fR]", ".SH COMMANDS")
    for name, each in commands.items():
        yield from (".TP", f".BR gatepost-{_escape(name)} (1)", _escape(first_sentence(each)))
    yield from (
        ".SH ENVIRONMENT",
        *(".TP", ".B GATEPOST_DATA", "The data folder."),
        *(".TP", ".B GATEPOST_CONFIG", "The folder of the configuration, where it is not the data folder."),
    )


def _render_command(name: str, command: Command | Group) -> Iterator[str]:
    yield from _head(f"gatepost-{name}", first_sentence(command))
    if not isinstance(command, Group):
        yield ".SH SYNOPSIS"
        yield _synopsis(f"gatepost {name}", command)
        yield ".SH DESCRIPTION"
        yield from _body(command)
        return
    yield ".SH SYNOPSIS"
    yield from (f".B gatepost {_escape(name)}", ".I COMMAND", "[\\fIOPTIONS\\fR]")
    yield ".SH COMMANDS"
    for sub, run in command.list_commands():
        yield ".SS " + _synopsis(f"gatepost {name} {sub}", run)
        yield from _body(run)


def _head(name: str, about: str) -> Iterator[str]:
    yield f'.TH {name.upper()} 1 "" "Gatepost {__version__}" "Gatepost"'
    yield ".SH NAME"
    yield f"{_escape(name)} \\- {_escape(about.rstrip('.'))}"


def _synopsis(call: str, command: Command) -> str:
    return f"\\fB{_escape(render_synopsis(call, command))}\\fR"


def _body(command: Command) -> Iterator[str]:
    for paragraph in split_paragraphs(command):
        yield from (".PP", _escape(paragraph))
    for each in list_parameters(command):
        yield from (".TP", f"\\fB{_escape(render_names(each))}\\fR", _escape(each.about.help))


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
