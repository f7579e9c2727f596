"""`gatepost completion`: a script by which a shell completes commands and options.

The script is made from the declarations of the commands and has all words in it, so that no program is started while
somebody types. It is made anew with each version: a package runs the command once and installs what it prints.
"""

from collections.abc import Callable, Iterator
from typing import Annotated

from gatepost.cli.commands import COMMANDS, Argument, BadParameter, Command, Group, list_parameters
from gatepost.cli.help import first_sentence

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


def completion(shell: Annotated[str, Argument(metavar="SHELL", help="bash, zsh or fish.")]) -> None:
    """Print a script that completes commands and options: `source <(gatepost completion bash)`.

    To have it in every shell, write it where the shell looks for completions: for bash
    ~/.local/share/bash-completion/completions/gatepost, for fish ~/.config/fish/completions/gatepost.fish.
    """
    print(render_completion(shell), end="")


def render_completion(shell: str) -> str:
    """Return the script for a shell; raises `BadParameter` for one that there is none for."""
    scripts: dict[str, Callable[[], str]] = {"bash": _write_bash, "zsh": _write_zsh, "fish": _write_fish}
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


def _write_fish() -> str:
    return "\n".join(_list_fish_lines()) + "\n"


def _list_fish_lines() -> Iterator[str]:
    for name, each in COMMANDS.commands.items():
        yield f"complete -c gatepost -n __fish_use_subcommand -a {name} -d {_quote(first_sentence(each))}"
        within = f"__fish_seen_subcommand_from {name}"
        if not isinstance(each, Group):
            yield from _list_fish_options(within, each)
            continue
        no_other = f"{within}; and not __fish_seen_subcommand_from {' '.join(each.commands)}"
        for sub, run in each.list_commands():
            yield f"complete -c gatepost -n {_quote(no_other)} -a {sub} -d {_quote(first_sentence(run))}"
            yield from _list_fish_options(f"{within}; and __fish_seen_subcommand_from {sub}", run)


def _list_fish_options(condition: str, command: Command) -> Iterator[str]:
    for each in list_parameters(command):
        for name in each.names:
            if name.startswith("--"):
                takes = "" if each.kind is bool else " -r"
                said = _quote(each.about.help)
                yield f"complete -c gatepost -n {_quote(condition)} -l {name[2:]}{takes} -d {said}"


def _quote(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
