"""`gatepost completion`: a script by which a shell completes commands and options.

The script is made from the declarations of the commands and has all words in it, so that no program is started while
somebody types. It is made anew with each version: a package runs the command once and installs what it prints.
"""

from collections.abc import Callable
from typing import Annotated

from gatepost.cli.commands import COMMANDS, Argument, BadParameter, Command, Group, list_parameters

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
