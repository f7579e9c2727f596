"""Help on commands, what is wrong with a command line, and `gatepost completion`: all of it is made from the
declarations of the commands.

The script by which a shell completes commands and options has all words in it, so that no program is started while
somebody types. It is made anew with each version: a package runs the command once and installs what it prints.
"""

import difflib
import re
import shutil
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Literal, get_args, get_origin

from gatepost.cli.commands import (
    COMMANDS,
    REQUIRED,
    Argument,
    BadParameter,
    Command,
    Group,
    Option,
    Parameter,
    UsageError,
    list_parameters,
)

Named = Group | Command
Row = tuple[str, str]
# Help is read best in lines of at most this length, and a column of names of at most that.
_WIDTH, _COLUMN = 100, 30
VERSION = ("--version", "Show the version, the schema and the commit.")


def render_fault(called: str, found: Named, fault: UsageError) -> str:
    """Return what is wrong with a command line, where help is, and what was perhaps meant."""
    near = difflib.get_close_matches(fault.word, fault.known)
    question = f" Did you mean {' or '.join(near)}?" if near else ""
    return f"{_render_usage(called, found)}\nTry '{called} --help' for help.\n\nError: {fault}{question}"


def render_help(called: str, found: Named) -> str:
    blocks = [_render_usage(called, found), *(_wrap(each, "  ") for each in split_paragraphs(found))]
    about_help = ("--help", "Show this message and exit.")
    if isinstance(found, Group):
        version = [VERSION] if called == "gatepost" else []
        blocks += _render_rows("Options", [*version, about_help])
        blocks += _render_rows("Commands", [(name, first_sentence(each)) for name, each in found.commands.items()])
    else:
        parameters = list_parameters(found)
        blocks += _render_rows("Arguments", [_describe(each) for each in parameters if not each.names])
        blocks += _render_rows("Options", [*(_describe(each) for each in parameters if each.names), about_help])
    return "\n\n".join(blocks)


def split_paragraphs(found: Named) -> list[str]:
    """Return what a command or a group says of itself, each paragraph in one line."""
    text = found.help if isinstance(found, Group) else found.__doc__ or ""
    return [" ".join(each.split()) for each in re.split(r"\n\s*\n", text.strip())]


def first_sentence(found: Named) -> str:
    """Return the first sentence of what a command or a group says of itself."""
    sentence, dot, _ = split_paragraphs(found)[0].partition(". ")
    return sentence + dot.strip()


def render_names(parameter: Parameter) -> str:
    """Return how a parameter is written on the command line: `-n, --lines N`, `FILE...`."""
    if not parameter.names:
        return f"{parameter.label}{'...' if parameter.is_list else ''}"
    names = ", ".join(sorted(parameter.names, key=len))
    return names if parameter.kind is bool else f"{names} {_render_value(parameter)}"


def render_synopsis(called: str, command: Command) -> str:
    """Return how a command is called."""
    parameters = list_parameters(command)
    arguments = [
        render_names(each) if each.default is REQUIRED else f"[{render_names(each)}]"
        for each in parameters
        if not each.names
    ]
    return " ".join([called, *arguments, *(["[OPTIONS]"] if any(each.names for each in parameters) else [])])


def _render_usage(called: str, found: Named) -> str:
    return f"Usage: {f'{called} COMMAND' if isinstance(found, Group) else render_synopsis(called, found)}"


def _render_value(parameter: Parameter) -> str:
    kind = parameter.value_kind
    if parameter.about.metavar:
        return parameter.about.metavar
    if get_origin(kind) is Literal:
        return f"[{'|'.join(get_args(kind))}]"
    return "N" if kind is int else "PATH" if kind is Path else "TEXT"


def _describe(parameter: Parameter) -> Row:
    notes = []
    if isinstance(parameter.about, Option) and parameter.about.variable:
        notes.append(f"env var: {parameter.about.variable}")
    if parameter.names and parameter.default is REQUIRED:
        notes.append("required")
    elif parameter.default not in (None, False, "", REQUIRED):
        notes.append(f"default: {parameter.default}")
    return render_names(parameter), " ".join([parameter.about.help, *(f"[{each}]" for each in notes)])


def _render_rows(title: str, rows: list[Row]) -> Iterator[str]:
    """Yield a block with a title and two columns; a long name has a line of its own."""
    if not rows:
        return
    column = min(max(len(name) for name, _ in rows), _COLUMN) + 4
    lines = [f"{title}:"]
    for name, text in rows:
        head = f"  {name}".ljust(column)
        if len(name) + 4 > column:
            lines.append(head)
            head = " " * column
        lines.append(_wrap(text, " " * column, head))
    yield "\n".join(lines)


def _wrap(text: str, indent: str, head: str | None = None) -> str:
    width = min(shutil.get_terminal_size().columns - 2, _WIDTH)
    return textwrap.fill(
        text,
        max(width, 50),
        initial_indent=indent if head is None else head,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


_BASH = """\
_gatepost() {{
  local word="${{COMP_WORDS[COMP_CWORD]}}" first="" second="" words="" place
  for ((place = 1; place < COMP_CWORD; place++)); do
    case "${{COMP_WORDS[place]}}" in
      -*) ;;
      *) if [ -z "$first" ]; then first="${{COMP_WORDS[place]}}"
         elif [ -z "$second" ]; then second="${{COMP_WORDS[place]}}"; fi ;;
    esac
  done
  case "$first" in
    "") words="{commands}" ;;
{cases}
  esac
  COMPREPLY=($(compgen -W "$words" -- "$word"))
  # Where no word fits, it is the name of a file.
  if [ ${{#COMPREPLY[@]}} -eq 0 ]; then COMPREPLY=($(compgen -f -- "$word")); fi
}}
complete -o filenames -F _gatepost gatepost
"""


def completion(shell: Annotated[str, Argument(metavar="SHELL", help="bash or zsh.")]) -> None:
    """Print a script that completes commands and options: `source <(gatepost completion bash)`.

    To have it in every shell, write it where bash looks for it: ~/.local/share/bash-completion/completions/gatepost.
    """
    print(render_completion(shell), end="")


def render_completion(shell: str) -> str:
    """Return the script for a shell; raises `BadParameter` for one that there is none for."""
    scripts: dict[str, Callable[[], str]] = {"bash": _write_bash, "zsh": _write_zsh}
    if shell not in scripts:
        raise BadParameter(f"must be one of {', '.join(scripts)}", "SHELL")
    return scripts[shell]()


def _join_options(command: Command) -> str:
    """The options of a command, and the one that every command has."""
    names = [name for each in list_parameters(command) for name in each.names if name.startswith("--")]
    return " ".join([*names, "--help"])


def _write_bash() -> str:
    cases = []
    for name, each in COMMANDS.commands.items():
        if isinstance(each, Group):
            inner = [f'      "") words="{" ".join(each.commands)} --help" ;;']
            inner += [f'      {sub}) words="{_join_options(run)}" ;;' for sub, run in each.list_commands()]
            cases += [f'    {name}) case "$second" in', *inner, "      esac ;;"]
        else:
            cases.append(f'    {name}) words="{_join_options(each)}" ;;')
    return _BASH.format(commands=" ".join([*COMMANDS.commands, "--help", "--version"]), cases="\n".join(cases))


def _write_zsh() -> str:
    """zsh reads completions of bash (zshcompsys(1), bashcompinit)."""
    return "autoload -U +X compinit && compinit\nautoload -U +X bashcompinit && bashcompinit\n" + _write_bash()
