"""Declarations of commands: what is read here is what Typer reads, and a short command loads little."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import pytest
import typer.main
from tests.command_line import run_command
from tests.own_names import replace_in

from gatepost.cli import deployment
from gatepost.cli.commands import COMMANDS, Group, NotPlainError, Parameter, list_parameters, read_plain
from gatepost.service.commands import prepare
from gatepost.service.data_folder import DataFolder


def commands() -> Iterator[tuple[str, Any]]:
    """Every command by its words, with its function."""
    for name, found in COMMANDS.items():
        if isinstance(found, Group):
            yield from ((f"{name} {inner}", function) for inner, function in found.commands.items())
        else:
            yield name, found


@pytest.fixture(scope="module")
def of_typer() -> Any:
    return typer.main.get_command(COMMANDS.build_typer())


def read_by_typer(of_typer: Any, name: str, words: list[str]) -> dict[str, Any]:
    command = of_typer
    for part in name.split():
        command = command.commands[part]
    values: dict[str, Any] = dict(command.make_context(name, list(words)).params)
    values.pop("help", None)
    # What Typer makes of an absent list before it calls the command.
    return {key: None if value == () else value for key, value in values.items()}


def example(parameter: Parameter, number: int) -> str:
    """A value for a parameter, another one for each number."""
    kind = get_args(parameter.kind)[0] if type(None) in get_args(parameter.kind) else parameter.kind
    kind = get_args(kind)[0] if get_origin(kind) is list else kind
    if get_origin(kind) is Literal:
        return str(get_args(kind)[-1])
    return str((parameter.about.least or 0) + number) if kind is int else f"value-{number}"


def command_lines(parameters: list[Parameter]) -> Iterator[list[str]]:
    """Command lines with nothing that can be left out, and with everything, in both forms of writing it."""
    arguments = [example(each, 1) for each in parameters if not each.names]
    needed = [each for each in parameters if each.names and each.default is ...]
    yield [*arguments, *(word for each in needed for word in (each.names[0], example(each, 2)))]
    for equals in (False, True):
        words: list[str] = []
        for each in (each for each in parameters if each.names):
            if each.kind is bool:
                words.append(each.names[-1])
                continue
            for number in (3, 4) if each.is_list else (3,):
                long, value = each.names[0], example(each, number)
                words += [f"{long}={value}"] if equals else [long, value]
        yield [*arguments, *words]
        yield [*words, *arguments]


@pytest.mark.parametrize(("name", "function"), [pytest.param(*each, id=each[0]) for each in commands()])
def test_a_plain_line_is_read_as_typer_reads_it(name: str, function: Any, of_typer: Any) -> None:
    parameters = list_parameters(function)
    for words in command_lines(parameters):
        assert read_plain(parameters, words) == read_by_typer(of_typer, name, words)


def test_the_environment_stands_for_an_option(monkeypatch: pytest.MonkeyPatch, of_typer: Any) -> None:
    function = dict(commands())["tenant list"]
    for value in ("/somewhere", ""):
        monkeypatch.setenv("GATEPOST_DATA", value)
        read = read_plain(list_parameters(function), [])
        assert read == read_by_typer(of_typer, "tenant list", [])
        assert read["data"] == (Path(value) if value else None)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("audit", ["--limit", "0"]),
        ("audit", ["--limit", "ten"]),
        ("audit", ["--limit"]),
        ("audit", ["--lim", "5"]),
        ("audit", ["--json=yes"]),
        ("audit", ["more"]),
        ("audit", ["--limit", "-5"]),
        ("audit", ["--", "x"]),
        ("audit", ["--help"]),
        ("tenant create", []),
        ("user create", ["ann", "--role", "king"]),
        ("events tail", ["-n5"]),
    ],
)
def test_every_other_line_is_left_to_typer(name: str, words: list[str]) -> None:
    with pytest.raises(NotPlainError):
        read_plain(list_parameters(dict(commands())[name]), words)


def test_what_is_wrong_is_said_in_one_way(tmp_path: Path) -> None:
    """Whoever finds the fault, Typer or the command itself, it is said alike."""
    code, _, of_library = run_command("audit", "--limit", "ten", "--data", tmp_path)
    assert code == 2
    code, _, of_command = run_command("audit", "--since", "yesterday", "--data", tmp_path)
    assert code == 2
    assert of_library.splitlines()[:2] == of_command.splitlines()[:2]
    assert "Invalid value for '--limit'" in of_library
    assert "Invalid value for --since: must be a date such as 2030-01-31" in of_command


# What no command on storage needs: reading command lines for people, tables, settings, services and clients.
HEAVY = {
    *("typer", "rich", "pydantic", "ruamel", "prometheus_client", "starlette", "uvicorn", "cryptography", "httpx"),
    *("asyncpg", "structlog", "jinja2", "numpy", "gatepost.settings.keys", "gatepost.events", "gatepost.api"),
}


def loaded_by(*words: str) -> set[str]:
    """The modules that a process has loaded after a command."""
    program = (
        "import sys; from gatepost.cli import main\n"
        f"sys.argv = ['gatepost', *{words!r}]\n"
        "try: main()\nexcept SystemExit as end: assert not end.code, end.code\n"
        "print(*sys.modules, file=sys.stderr)"
    )
    environment = {**os.environ, "COLUMNS": ""}
    del environment["COLUMNS"]
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment)
    return set(ended.stderr.split())


@pytest.mark.parametrize(
    "words",
    [
        ("tenant", "list"),
        ("tenant", "create", "Example"),
        ("apikey", "list"),
        ("user", "list", "--json"),
        ("audit", "--limit", "5"),
        ("nodes",),
    ],
    ids=" ".join,
)
def test_a_command_on_storage_loads_what_it_uses(words: tuple[str, ...], tmp_path: Path) -> None:
    prepare(DataFolder(tmp_path), None)
    for first in ("tenant list", "nodes"):  # the configuration is sound from now on
        assert run_command(*first.split(), "--data", tmp_path)[0] == 0
    loaded = loaded_by(*words, "--data", str(tmp_path))
    assert not HEAVY & loaded
    assert len([name for name in loaded if name.startswith("gatepost.")]) <= 40
    assert len(loaded) <= 240


def test_a_configuration_is_read_again_when_something_of_it_changes(tmp_path: Path) -> None:
    folder = DataFolder(tmp_path)
    prepare(folder, None)
    assert run_command("tenant", "list", "--data", tmp_path)[0] == 0
    assert folder.checked_configuration.exists()
    assert folder.checked_configuration.stat().st_mode & 0o077 == 0
    file = tmp_path / "abby" / "abby" / "abby.yml"
    sound = file.read_text()
    file.write_text(f"{sound}\nnonsense: 1\n")
    code, _, fault = run_command("tenant", "list", "--data", tmp_path)
    assert code == 1
    assert "nonsense" in fault
    file.write_text(sound)
    assert run_command("tenant", "list", "--data", tmp_path)[0] == 0
    folder.token.unlink()  # abby.yml refers to it
    code, _, fault = run_command("tenant", "list", "--data", tmp_path)
    assert code == 1
    assert "token: no such file" in fault


def test_what_another_user_wrote_is_not_believed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = DataFolder(tmp_path)
    prepare(folder, None)
    run_command("tenant", "list", "--data", tmp_path)
    moved = folder.checked_configuration.read_text().replace("sqlite:", "sqlite:elsewhere-")
    folder.checked_configuration.write_text(moved)
    assert run_command("tenant", "list", "--data", tmp_path)[0] == 0
    assert list(tmp_path.glob("elsewhere-*"))
    for file in tmp_path.glob("elsewhere-*"):
        file.unlink()
    replace_in(monkeypatch, deployment, "os", geteuid=lambda: os.getuid() + 1)
    assert run_command("tenant", "list", "--data", tmp_path)[0] == 0
    assert not list(tmp_path.glob("elsewhere-*"))


def test_every_parameter_says_what_it_means() -> None:
    silent = [
        f"{name} {each.name}"
        for name, function in commands()
        for each in list_parameters(function)
        if not each.about.help
    ]
    assert silent == []


@pytest.mark.parametrize("name", [None, *(name for name, found in COMMANDS.items() if isinstance(found, Group))])
def test_lists_of_commands_have_whole_sentences(of_typer: Any, name: str | None) -> None:
    group = of_typer.commands[name] if name else of_typer
    shown = group.get_help(group.make_context("gatepost", ["--help"], resilient_parsing=True))
    assert "..." not in shown.partition("Commands:")[2]
