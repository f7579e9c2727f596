"""Text for people and JSON for programs. Text from a message must not control the terminal that shows it.

Tables are printed by rich, which cuts and folds what does not fit and knows how wide each character is. A table that
fits and is ASCII needs none of that, so it is written here, the same, without loading rich.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from gatepost.cli.commands import Option, Options

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, ProgressColumn
    from rich.table import Table
    from rich.text import Text

Lines = Sequence[Sequence[str]]
Styles = Mapping[str, str]
NO_STYLES: Styles = {}

# The width of a table that goes to a file or a program, so that no line of it is wrapped.
WIDTH = 200
# What rich heeds of the environment beside the terminal itself.
_VARIABLES = frozenset({"COLUMNS", "FORCE_COLOR", "NO_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "JUPYTER_COLUMNS"})


class Output(Options, frozen=True):
    """How a command prints its result: as text for people, or as JSON for programs."""

    json: Annotated[bool, Option("--json", help="Print JSON instead of text.")] = False

    def show(self, value: Any, text: str) -> None:
        """Print a result."""
        if self.json:
            print_json(value)
        else:
            print(text)

    def show_table(self, value: Any, columns: Sequence[str], lines: Lines, *, styles: Styles = NO_STYLES) -> None:
        """Print a result that is a table for people; `styles` are those of cells by their text."""
        if self.json:
            print_json(value)
        else:
            print_table(columns, lines, styles=styles)


def print_json(value: Any, *, indent: int = 2) -> None:
    """Print one JSON value."""
    print(msgspec.json.format(msgspec.json.encode(value), indent=indent).decode())


def print_table(columns: Sequence[str], lines: Lines, *, styles: Styles = NO_STYLES) -> None:
    """Print a table of literal text; `styles` are those of cells by their text, on a terminal."""
    every = [columns, *lines]
    widths = [max(len(line[place]) for line in every) for place in range(len(columns))]
    is_wide = sum(widths) + 2 * len(widths) - 2 > _find_width()
    is_terminal = sys.stdout.isatty()
    if is_wide or (styles and is_terminal) or not all(cell.isascii() for line in every for cell in line):
        console().print(rows(table(*columns), lines, styles=styles))
        return
    for number, line in enumerate(every):
        text = "  ".join(_show(cell).ljust(width) for cell, width in zip(line, widths, strict=True))
        print(f"\x1b[1m{text}\x1b[0m" if number == 0 and is_terminal else text)


def _find_width() -> int:
    """Return how wide a table may be that is written here; 0 where rich has to find out."""
    if _VARIABLES & os.environ.keys():
        return 0
    if not sys.stdout.isatty():
        return WIDTH
    return 0 if os.environ.get("TERM", "dumb") in ("dumb", "unknown") else os.get_terminal_size(1).columns


def _show(text: str) -> str:
    """Return text without control characters and direction changes."""
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)


def print_text(*sentences: str) -> None:
    """Print text that may come from strangers, wrapped at the width of the terminal."""
    for sentence in sentences:
        if sentence.isascii() and sentence.isprintable() and len(sentence) <= _find_width():
            print(sentence)
        else:
            console().print(safe(sentence))


def render_count(number: int, one: str, many: str) -> str:
    """A number with its noun: `1 entry`, `2,000 entries`."""
    return f"{number:,} {one if number == 1 else many}"


def render_people(recipients: Sequence[str]) -> str:
    """Return the first recipients of a message."""
    return ", ".join(recipients[:3]) + (", …" if len(recipients) > 3 else "")


def console() -> "Console":
    """Return standard output; it is wide if it is no terminal, so that no line of a pipe is wrapped."""
    from rich.console import Console

    made = Console(highlight=False)
    return made if made.is_terminal else Console(highlight=False, width=WIDTH)


def progress_bar(*columns: "ProgressColumn", out: "Console | None" = None) -> "Progress":
    """Return a progress bar, on standard error unless stated otherwise. It is shown on a terminal only, and goes when
    the work is done."""
    from rich.console import Console
    from rich.progress import Progress

    out = out or Console(stderr=True)
    return Progress(*columns, console=out, transient=True, disable=not out.is_terminal)


def safe(text: str, style: str = "") -> "Text":
    """Return text without markup, control characters and direction changes."""
    from rich.text import Text

    return Text(_show(text), style)


def table(*columns: str) -> "Table":
    """Return a plain table."""
    from rich.table import Table

    made = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for column in columns:
        made.add_column(column, overflow="fold")
    return made


def rows(made: "Table", lines: Lines, *, styles: Styles = NO_STYLES) -> "Table":
    """Fill a table with text that is shown literally, and return it."""
    for line in lines:
        made.add_row(*(safe(cell, styles.get(cell, "")) for cell in line))
    return made


def escape(text: str, *, lines: bool = False) -> str:
    """Return text in which every control, format and direction character is written out: ESC is `\\x1b`."""
    return "".join(
        char if char.isprintable() or (lines and char == "\n") else char.encode("unicode_escape").decode()
        for char in (text.replace("\r\n", "\n") if lines else text)
    )
