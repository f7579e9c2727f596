"""Text for people and JSON for programs. Text from a message must not control the terminal that shows it."""

from collections.abc import Sequence
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text


def console() -> Console:
    """Return standard output; it is wide if it is no terminal, so that no line of a pipe is wrapped."""
    made = Console(highlight=False)
    return made if made.is_terminal else Console(highlight=False, width=200)


def safe(text: str) -> Text:
    """Return text without markup, control characters and direction changes."""
    return Text("".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text))


def print_json(value: Any, *, indent: int = 2) -> None:
    """Print one JSON value."""
    print(msgspec.json.format(msgspec.json.encode(value), indent=indent).decode())


def print_result(json: bool, value: Any, text: str) -> None:
    """Print the result of a command, as JSON or as text."""
    if json:
        print_json(value)
    else:
        print(text)


def table(*columns: str) -> Table:
    """Return a plain table."""
    made = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for column in columns:
        made.add_column(column, overflow="fold")
    return made


def rows(made: Table, lines: Sequence[Sequence[str]]) -> Table:
    """Fill a table with text that is shown literally, and return it."""
    for line in lines:
        made.add_row(*(safe(cell) for cell in line))
    return made


def escape(text: str, *, lines: bool = False) -> str:
    """Return text in which every control, format and direction character is written out: ESC is `\\x1b`."""
    return "".join(
        char if char.isprintable() or (lines and char == "\n") else char.encode("unicode_escape").decode()
        for char in (text.replace("\r\n", "\n") if lines else text)
    )
