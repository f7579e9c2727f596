"""Text for people and JSON for programs. Nothing of a message may act on the terminal that shows it."""

from collections.abc import Sequence
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text


def console() -> Console:
    """Standard output. Wide where it is no terminal, so that no line of a pipe is cut."""
    made = Console(highlight=False)
    return made if made.is_terminal else Console(highlight=False, width=200)


def safe(text: str) -> Text:
    """Text from a message or a stranger: no markup, no control characters, no direction tricks."""
    return Text("".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text))


def print_json(value: Any, *, indent: int = 2) -> None:
    """One JSON value."""
    print(msgspec.json.format(msgspec.json.encode(value), indent=indent).decode())


def table(*columns: str) -> Table:
    """A plain table."""
    made = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for column in columns:
        made.add_column(column, overflow="fold")
    return made


def rows(made: Table, lines: Sequence[Sequence[str]]) -> Table:
    """Fill a table with text that is shown as it stands."""
    for line in lines:
        made.add_row(*(safe(cell) for cell in line))
    return made
