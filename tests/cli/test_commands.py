"""Declarations of commands: what a command line means, what is said of a wrong one, and how little is loaded."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import pytest
from tests.command_line import run_command

from gatepost import describe_build
from gatepost.cli.commands import COMMANDS, Group, Parameter, list_parameters, read
from gatepost.cli.help import first_sentence
from gatepost.service.commands import prepare
from gatepost.service.data_folder import DataFolder


def example(parameter: Parameter, number: int) -> str:
    """A value for a parameter, another one for each number."""
    if get_origin(parameter.value_kind) is Literal:
        return str(get_args(parameter.value_kind)[-1])
    return str((parameter.about.least or 0) + number) if parameter.value_kind is int else f"value-{number}"


def meant(parameter: Parameter, number: int) -> Any:
    """What is read from an example."""
    text = example(parameter, number)
    return {int: int, Path: Path}.get(parameter.value_kind, str)(text)


def command_lines(parameters: list[Parameter]) -> Iterator[tuple[list[str], dict[str, Any]]]:
    """Command lines with nothing that can be left out, and with everything, in both forms of writing it; each with the
    values that it means."""
    arguments = [example(each, 1) for each in parameters if not each.names]
    of_arguments = {
        each.name: [meant(each, 1)] if each.is_list else meant(each, 1) for each in parameters if not each.names
    }
    needed = [each for each in parameters if each.names and each.default is ...]
    usual = {each.name: each.default for each in parameters}
    yield (
        [*arguments, *(word for each in needed for word in (each.names[0], example(each, 2)))],
        usual | of_arguments | {each.name: [meant(each, 2)] if each.is_list else meant(each, 2) for each in needed},
    )
    for equals in (False, True):
        words: list[str] = []
        values = dict(of_arguments)
        for each in (each for each in parameters if each.names):
            if each.kind is bool:
                words.append(each.names[-1])
                values[each.name] = True
                continue
            for number in (3, 4) if each.is_list else (3,):
                long, value = each.names[0], example(each, number)
                words += [f"{long}={value}"] if equals else [long, value]
            values[each.name] = [meant(each, 3), meant(each, 4)] if each.is_list else meant(each, 3)
        yield [*arguments, *words], values
        yield [*words, *arguments], values


COMMANDS_BY_NAME = dict(COMMANDS.list_commands())


@pytest.mark.parametrize(("name", "function"), [pytest.param(*each, id=each[0]) for each in COMMANDS_BY_NAME.items()])
def test_a_line_is_read_as_it_is_meant(name: str, function: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GATEPOST_DATA", raising=False)
    monkeypatch.delenv("GATEPOST_CONFIG", raising=False)
    parameters = list_parameters(function)
    for words, values in command_lines(parameters):
        assert read(parameters, words) == values


def test_the_environment_stands_for_an_option(monkeypatch: pytest.MonkeyPatch) -> None:
    parameters = list_parameters(COMMANDS_BY_NAME["tenant list"])
    for value in ("/somewhere", ""):
        monkeypatch.setenv("GATEPOST_DATA", value)
        assert read(parameters, [])["data"] == (Path(value) if value else None)
        assert read(parameters, ["--data", "/here"])["data"] == Path("/here")


@pytest.mark.parametrize(
    ("name", "words", "values"),
    [
        ("config publish", ["-mwhy"], {"reason": "why"}),
        ("config publish", ["-m", "why"], {"reason": "why"}),
        ("audit", ["--limit", "5", "--limit", "6"], {"limit": 6}),  # the last one counts
        ("lists delete", ["mine", "--", "--odd", "-x"], {"entries": ["--odd", "-x"]}),
        ("lists add", ["mine", "-"], {"entries": ["-"]}),
        ("lists add", ["mine", "x", "--comment="], {"comment": ""}),
        ("lists add", ["mine", "x", "--comment", "-5 days"], {"comment": "-5 days"}),
    ],
)
def test_seldom_forms(name: str, words: list[str], values: dict[str, Any]) -> None:
    found = read(list_parameters(COMMANDS_BY_NAME[name]), words)
    assert found | values == found


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("audit --limit 0", "Invalid value for --limit: must be a whole number of at least 1, not 0"),
        ("audit --limit ten", "Invalid value for --limit: must be a whole number of at least 1, not ten"),
        ("audit --limit -5", "Invalid value for --limit: must be a whole number of at least 1, not -5"),
        ("audit --limit 9999999999999999999", "Invalid value for --limit: must be a whole number of at least 1, not "),
        ("try --days 3651", "Invalid value for --days: must be a whole number from 1 to 3650, not 3651"),
        ("audit --limit", "--limit needs a value."),
        ("audit --lim 5", "There is no option --lim. Did you mean --limit?"),
        ("audit -x", "There is no option -x."),
        ("audit --json=yes", "--json takes no value."),
        ("audit more", "There is an argument too many: more"),
        ("audit -- --json", "There is an argument too many: --json"),
        ("audit --since yesterday", "Invalid value for --since: must be a date such as 2030-01-31"),
        ("tenant create", "NAME is missing."),
        ("user create ann --role king", "Invalid value for --role: must be one of "),
        ("lists ad", "There is no command ad. Did you mean add?"),
        ("lists --jsn", "There is no option --jsn."),
        ("lsts", "There is no command lsts. Did you mean lists?"),
        ("--json", "There is no option --json."),
    ],
)
def test_what_is_wrong_is_said_in_one_way(words: str, sentence: str, tmp_path: Path) -> None:
    """The usage, where help is, and the fault; with the exit code of wrong usage."""
    data = [] if words.startswith(("lists", "lsts", "--")) else [f"--data={tmp_path}"]
    first, *rest = words.split()
    group = [rest.pop(0)] if first in ("tenant", "user") else []
    code, out, err = run_command(first, *group, *data, *rest)
    usage, hint, empty, fault = err.splitlines()
    assert (code, out, empty) == (2, "", "")
    assert usage.startswith("Usage: gatepost")
    assert (hint[:13], hint[-18:]) == ("Try 'gatepost", " --help' for help.")
    assert fault.startswith(f"Error: {sentence}")


def test_help_on_everything() -> None:
    code, text, err = run_command("--help")
    assert (code, err) == (0, "")
    assert text.startswith("Usage: gatepost COMMAND\n\n  Gatepost, an e-mail security service.\n")
    assert "\n  --version  Show the version" in text
    assert [*re.findall(r"^  ([a-z]+) ", text.partition("Commands:")[2], re.MULTILINE)] == [*COMMANDS.commands]
    assert run_command() == (2, "", text)
    code, text, err = run_command("lists", "--help")
    assert (code, err) == (0, "")
    assert "\n  add     Add entries, or update existing ones.\n" in text
    assert run_command("lists") == (2, "", text)


def test_help_on_a_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    code, text, err = run_command("lists", "add", "x", "--help", "--nonsense")
    assert (code, err) == (0, "")
    assert text.startswith("Usage: gatepost lists add LIST ENTRY... [OPTIONS]\n\n  Add entries, or update")
    assert "\n  ENTRY...  Entries, or - for standard input.\n" in text
    assert "\n  --comment TEXT   A comment for people.\n" in text
    assert "\n                   [env var: GATEPOST_DATA]\n" in text
    assert "-m, --reason TEXT" in run_command("config", "publish", "--help")[1]
    assert "Maximum number of records. [default: 100]" in run_command("audit", "--help")[1]
    assert "[required]" in run_command("dkim", "key", "--help")[1]
    for name in COMMANDS_BY_NAME:
        code, text, err = run_command(*name.split(), "--help")
        assert (code, err) == (0, "")
        assert max(map(len, text.splitlines())) <= 78


def test_the_version_needs_no_command() -> None:
    code, text, err = run_command("--version")
    assert (code, err) == (0, "")
    assert text == f"gatepost {describe_build()}\n"
    assert run_command("--version", "lists") == (0, text, "")


# What no command on storage needs: help, tables, settings, services, clients, checks, parsers and models.
PARTS = "events api checks files textmodel analysis guard abby web workers client".split()
HEAVY = {
    *"rich pydantic prometheus_client starlette uvicorn cryptography httpx asyncpg structlog jinja2".split(),
    *("numpy", "selectolax", "gatepost.cli.help", "gatepost.settings.keys", "gatepost.mail.reader"),
    *(
        f"gatepost.{part}"
        for part in "events api checks files textmodel analysis guard abby web workers client".split()
    ),
}
# What help does without besides.
SERVICES = {"gatepost.analysis.stages", "gatepost.guard", "gatepost.settings.keys", "starlette", "httpx", "asyncio"}


def loaded_by(*words: str) -> set[str]:
    """The modules that a process has loaded after a command."""
    program = (
        "import sys; from gatepost.cli import main\n"
        f"sys.argv = ['gatepost', *{words!r}]\n"
        "try: main()\nexcept SystemExit as end: assert not end.code, end.code\n"
        "print(*sys.modules, file=sys.stderr)"
    )
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment)
    return set(ended.stderr.split())


@pytest.mark.parametrize("words", ["--version", "--help", "scan --help", "serve --help"])
def test_help_loads_neither_analysis_nor_service(words: str) -> None:
    assert SERVICES & loaded_by(*words.split()) == set()


@pytest.mark.parametrize(
    "words", ["tenant list", "tenant create Example", "apikey list", "user list --json", "audit --limit 5", "nodes"]
)
def test_a_command_on_storage_loads_what_it_uses(words: str, tmp_path: Path) -> None:
    prepare(DataFolder(tmp_path), None)
    loaded = loaded_by(*words.split(), "--data", str(tmp_path))
    assert HEAVY & loaded == set()
    assert len([name for name in loaded if name.startswith("gatepost.")]) <= 40
    assert len(loaded) <= 270


def test_every_parameter_says_what_it_means() -> None:
    silent = [
        f"{name} {each.name}"
        for name, function in COMMANDS_BY_NAME.items()
        for each in list_parameters(function)
        if not each.about.help
    ]
    assert silent == []


def test_lists_of_commands_have_whole_sentences() -> None:
    for found in (COMMANDS, *COMMANDS.commands.values()):
        if isinstance(found, Group):
            assert all(first_sentence(each).endswith(".") for each in found.commands.values())
