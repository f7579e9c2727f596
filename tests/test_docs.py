"""Docs cannot fall behind the code: the reference pages are what the code says now, and they leave nothing out."""

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import get_args

import pytest
from tools.licences import read_pins
from tools.reference import main, render_pages

from gatepost.api.errors import ERRORS
from gatepost.api.openapi import LISTS_API, SCANNING, Interface, document
from gatepost.checks.registry import CHECKS
from gatepost.lists.catalogue import LISTS
from gatepost.settings.keys import AbbySettings, GuardSettings
from gatepost.settings.values import Section

FOLDER = Path(__file__).parents[1] / "docs" / "reference"
NAMES = ("configuration.md", "api.md", "lists.md", "findings.md", "file-formats.md", "events.md", "cli.md")


@cache
def pages() -> dict[str, str]:
    """Made by the first test that asks, not at collection, which every worker of a parallel run does."""
    return render_pages()


@pytest.mark.parametrize("name", NAMES)
def test_the_page_on_disk_is_what_the_code_says(name: str) -> None:
    assert (FOLDER / name).read_text("utf-8") == pages()[name], "write it anew with: make docs"


def test_there_is_no_other_page() -> None:
    assert {path.name for path in FOLDER.iterdir()} == pages().keys() == set(NAMES)


def test_pages_are_written_where_they_are_wanted(tmp_path: Path) -> None:
    main(tmp_path / "new")
    assert {path.name: path.read_text("utf-8") for path in (tmp_path / "new").iterdir()} == pages()


def keys(model: type[Section]) -> Iterator[tuple[str, bool]]:
    """Every key of a file with whether it has a description, found another way than the page does."""
    for field in model.model_fields.values():
        yield str(field.alias), bool(field.description)
        todo = [field.annotation]
        while todo:
            annotation = todo.pop()
            todo += get_args(annotation)
            if isinstance(annotation, type) and issubclass(annotation, Section):
                yield from keys(annotation)


@pytest.mark.parametrize("model", [GuardSettings, AbbySettings])
def test_every_key_is_described(model: type[Section]) -> None:
    for key, described in keys(model):
        assert described, key
        assert f"{key}` |" in pages()["configuration.md"]


def test_every_finding_has_its_row() -> None:
    for check in CHECKS:
        for kind in check.kinds:
            assert f"| `{kind.id}` | " in pages()["findings.md"]


@pytest.mark.parametrize(("interface", "page"), [(SCANNING, "api.md"), (LISTS_API, "lists.md")])
def test_every_path_type_and_code_is_there(interface: Interface, page: str) -> None:
    described = document(interface)
    for path in described["paths"]:
        assert f" {path}\n" in pages()[page]
    for name in described["components"]["schemas"]:
        assert f"### {name}\n" in pages()[page]
    used = {error.code for operation in interface.operations for error in operation.errors}
    assert used <= {error.code for error in ERRORS}
    assert all(f"`{code}`" in pages()[page] for code in used)


def test_every_list_has_its_row() -> None:
    assert all(f"| `{definition.name}` | " in pages()["lists.md"] for definition in LISTS)


@pytest.mark.parametrize(
    "command",
    [
        "serve",
        "guard",
        "abby",
        "scan",
        "doctor",
        "config check",
        "tenant create",
        "tenant list",
        "policy explain",
        "lists import",
        "lists add",
        "apikey create",
        "apikey revoke",
        "tenant domains",
        "audit",
    ],
)
def test_every_command_has_its_heading(command: str) -> None:
    assert f"\n## gatepost {command}\n" in pages()["cli.md"]


def test_every_package_has_its_licence() -> None:
    root = FOLDER.parents[1]
    names = read_pins((root / "requirements" / "run.txt").read_text("utf-8"))
    rows = (root / "docs" / "licences.md").read_text("utf-8")
    assert names
    assert not [name for name in names if f"| {name} | " not in rows], "write it anew with: make docs"
