"""Commands read the configuration that is in force: the published version that the node runs, or else its own files."""

import ast
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, NoReturn, get_args, get_origin

import msgspec
import pytest
from tests.command_line import run_command

from gatepost.cli.commands import COMMANDS, Parameter, list_parameters
from gatepost.cli.deployment import ABBY_FILE, GUARD_FILE, Deployment
from gatepost.service.changes import NodeFiles
from gatepost.service.commands import prepare
from gatepost.service.data_folder import CURRENT, DataFolder, NodeVersion, StartError

SOURCE = Path(__file__).parents[2] / "src/gatepost/cli"
UID = "0198c5a2-7c11-7d3e-9f00-00000000aa01"
IN_FORCE, OWN = "what is in force is read", "the own files are read"
# What checks the files of this machine, and what starts a service, which takes over a version by itself.
OF_OWN_FILES = frozenset({"config check", "serve", "guard", "abby"})
# What makes a key, copies between addresses that are given, or looks at the file that it is given first.
OF_NO_FILES = frozenset({"dkim key", "storage copy", "restore"})
# Where the folder of the own files may be named: in these modules, and where what is in force is found.
NAMING = {"config.py": 4, "serve.py": 3, "deployment.py": 1}
COMMANDS_BY_NAME = {
    name: function
    for name, function in COMMANDS.list_commands()
    if any(each.name in ("data", "config") for each in list_parameters(function))
}
# Words without which a command is not understood.
MORE = {"restart": ["--all"], "learn mail": ["--unwanted"], "privacy erase": ["--yes"]}
EXAMPLES = {"kind": "url", "category": "block", "address": "ann@example.org", "name": "mine"}


def write_example(parameter: Parameter, folder: Path) -> str:
    """Return a value that a command takes."""
    if parameter.value_kind is Path:
        return str(folder / "given")
    if get_origin(parameter.value_kind) is Literal:
        return str(get_args(parameter.value_kind)[0])
    return str(parameter.about.least or 1) if parameter.value_kind is int else EXAMPLES.get(parameter.name, UID)


def write_words(name: str, folder: Path) -> list[str]:
    """Return what must be said after the name of a command."""
    words = list(MORE.get(name, ()))
    for each in list_parameters(COMMANDS_BY_NAME[name]):
        if not each.names:
            words.append(write_example(each, folder))
        elif each.default is ...:
            words += [each.names[0], write_example(each, folder)]
    return words


def refuse(sentence: str) -> Callable[[Any], NoReturn]:
    def read(_place: Deployment) -> NoReturn:
        raise StartError(sentence)

    return read


@pytest.mark.parametrize("name", COMMANDS_BY_NAME)
def test_each_command_reads_what_is_in_force(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Deployment, "folder_in_force", property(refuse(IN_FORCE)))
    monkeypatch.setattr(Deployment, "config_folder", property(refuse(OWN)))
    monkeypatch.setenv("GATEPOST_API_KEY", "key")
    for file in ("given", "token"):
        (tmp_path / file).write_text("x")
    places = ("--data", tmp_path, "--config", tmp_path)
    code, _, fault = run_command(*name.split(), *write_words(name, tmp_path), *places)
    wanted = OWN if name in OF_OWN_FILES else "" if name in OF_NO_FILES else IN_FORCE
    assert [each for each in (OWN, IN_FORCE) if each in fault] == [wanted] * bool(wanted), fault
    assert code == 1 or not wanted


def test_what_is_in_force_is_found_in_one_place() -> None:
    named = Counter(
        path.name
        for path in SOURCE.glob("*.py")
        for each in ast.walk(ast.parse(path.read_bytes()))
        if isinstance(each, ast.Attribute) and each.attr == "config_folder"
    )
    assert named == NAMING


def test_a_published_version_is_in_force_with_the_local_keys_of_the_node(tmp_path: Path) -> None:
    data = DataFolder(tmp_path / "data")
    data.make()
    prepare(data, None)
    place = Deployment(data=data.path)
    assert place.folder_in_force == data.path
    for service in ("abby", "guard"):
        version = data.published(service) / "7-x"
        for file in (GUARD_FILE, ABBY_FILE):
            (version / file).parent.mkdir(parents=True)
            (version / file).write_text(f"storage: {{url: 'sqlite:of-{service}.db'}}\n")
        current = msgspec.json.encode(NodeVersion(7, str(version)))
        (data.published(service) / CURRENT).write_bytes(current)
        assert place.folder_in_force == version == Path(NodeFiles(data, service).current().folder)
        assert place.find_storage() == f"sqlite:of-{service}.db"
    # The own files have a fault, and nothing reads them.
    (data.path / ABBY_FILE).write_text("nonsense: 1\n")
    code, _, fault = run_command("tenant", "list", "--data", data.path)
    assert (code, fault) == (0, "")
    assert (data.path / "of-guard.db").exists()
    # A version whose folder has gone is in force nowhere.
    for service in ("abby", "guard"):
        (data.published(service) / CURRENT).write_bytes(msgspec.json.encode(NodeVersion(7, str(tmp_path / "gone"))))
    assert place.folder_in_force == data.path
    code, _, fault = run_command("tenant", "list", "--data", data.path)
    assert code == 1
    assert "nonsense" in fault


def test_of_the_files_most_commands_read_where_storage_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = DataFolder(tmp_path)
    prepare(data, None)
    file = tmp_path / ABBY_FILE
    place = Deployment(data=tmp_path)
    file.write_text(f"{file.read_text()}\nnonsense: 1\n")
    assert place.find_storage() == "sqlite:gatepost.db"
    monkeypatch.setenv("WHERE", "elsewhere.db")
    file.write_text("storage: {url: 'sqlite:${env:WHERE}'}\n")
    assert place.find_storage() == "sqlite:elsewhere.db"
    for wrong, reason in (("sqlite:${env:NOWHERE}", "NOWHERE, which is not set"), ("5", "url"), ("mysql://x", "url")):
        file.write_text(f"storage: {{url: {wrong}}}\n" if wrong == "5" else f"storage: {{url: '{wrong}'}}\n")
        code, _, fault = run_command("tenant", "list", "--data", tmp_path)
        assert code == 1
        assert reason in fault
