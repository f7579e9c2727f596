"""Text for people and JSON for programs. Text from a message must not control the terminal that shows it.

Everything here replaces control characters and changes of direction. Colours and progress are for terminals alone. A
table that is wider than the terminal has its widest columns folded.
"""

import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

import msgspec

from gatepost.cli.commands import Option, Options

Lines = Sequence[Sequence[str]]
Styles = Mapping[str, str]
NO_STYLES: Styles = {}

# The width of a table that goes to a file or a program, so that few lines of it are folded.
WIDTH = 200
_CODES = {"bold": 1, "dim": 2, "red": 31, "green": 32, "yellow": 33, "magenta": 35, "cyan": 36}
_BAR, _REFRESH_SECONDS = 40, 0.1


class Output(Options, frozen=True):
    """How a command prints its result: as text for people, or as JSON for programs."""

    json: Annotated[bool, Option("--json", help="Print JSON instead of text.")] = False

    def show(self, value: Any, text: str) -> None:
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
    print(msgspec.json.format(msgspec.json.encode(value), indent=indent).decode())


def print_table(columns: Sequence[str], lines: Lines, *, styles: Styles = NO_STYLES, indent: str = "") -> None:
    """Print a table of literal text; `styles` are those of cells by their text."""
    every = [[_make_safe(cell) for cell in line] for line in (columns, *lines)]
    widths = [max(_measure(line[place]) for line in every) for place in range(len(columns))]
    most = max(widths)
    while most > 1 and sum(widths) + 2 * len(widths) - 2 > _find_width() - len(indent):
        most -= 1
        widths = [min(width, most) for width in widths]
    for number, line in enumerate(every):
        folded = [list(_fold(cell, width)) for cell, width in zip(line, widths, strict=True)]
        painted = ["bold" if number == 0 else styles.get(cell, "") for cell in line]
        for row in range(max(map(len, folded))):
            parts = [cell[row] if row < len(cell) else "" for cell in folded]
            cells = [
                _paint(part, style) + " " * (width - _measure(part))
                for part, style, width in zip(parts, painted, widths, strict=True)
            ]
            print(indent + "  ".join(cells).rstrip())


def print_text(*sentences: str, lead: str = "", style: str = "", indent: str = "") -> None:
    """Print text that may come from strangers, folded at the width of the terminal. `lead` is the beginning of it that
    has a style, or without it the whole text has."""
    for sentence in sentences:
        width = _find_width() - len(indent) if sys.stdout.isatty() else sys.maxsize
        for number, line in enumerate(_fold(_make_safe(lead + sentence), width)):
            styled = len(lead) if lead and number == 0 else 0 if lead else len(line)
            print(f"{indent}{_paint(line[:styled], style)}{line[styled:]}")


def print_line(*parts: tuple[str, str]) -> None:
    """Print one line of parts, each with its style, however long it is."""
    print("".join(_paint(_make_safe(text), style) for text, style in parts))


def render_count(number: int, one: str, many: str) -> str:
    """A number with its noun: `1 entry`, `2,000 entries`."""
    return f"{number:,} {one if number == 1 else many}"


def render_people(recipients: Sequence[str]) -> str:
    """Return the first recipients of a message."""
    return ", ".join(recipients[:3]) + (", …" if len(recipients) > 3 else "")


def escape(text: str, *, lines: bool = False) -> str:
    """Return text in which every control, format and direction character is written out: ESC is `\\x1b`."""
    return "".join(
        char if char.isprintable() or (lines and char == "\n") else char.encode("unicode_escape").decode()
        for char in (text.replace("\r\n", "\n") if lines else text)
    )


class ProgressBar:
    """One line on the terminal of standard error that says how far some work is. It goes when the work is done."""

    def __init__(self, title: str) -> None:
        self._title, self._begun, self._shown = title, time.monotonic(), 0.0
        self._is_wanted = sys.stderr is not None and sys.stderr.isatty()

    def __enter__(self) -> "ProgressBar":
        self.update(0, None)
        return self

    def __exit__(self, *_: object) -> None:
        self.hide()

    def update(self, done: float, total: float | None, title: str = "") -> None:
        """Show that so much of a total, which may be unknown, is done. A line that is younger than a moment stays."""
        self._title = title or self._title
        if not self._is_wanted or time.monotonic() - self._shown < _REFRESH_SECONDS:
            return
        self._shown = time.monotonic()
        rest = "…"
        if total:
            share = min(done / total, 1)
            left = (self._shown - self._begun) * (1 - share) / share if share else 0
            rest = f"{'━' * int(_BAR * share):<{_BAR}} {share:4.0%}, {left // 60:.0f}:{left % 60:02.0f} left"
        print(f"\r\x1b[K{_make_safe(self._title)} {rest}", end="", file=sys.stderr, flush=True)

    def hide(self) -> None:
        """Take the line away, for others to be printed; the next update shows it again."""
        if self._is_wanted and self._shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
            self._shown = 0.0


def _make_safe(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)


def _paint(text: str, style: str) -> str:
    if not (text and style and sys.stdout.isatty()) or "NO_COLOR" in os.environ or os.environ.get("TERM") == "dumb":
        return text
    return f"\x1b[{';'.join(str(_CODES[each]) for each in style.split())}m{text}\x1b[0m"


def _find_width() -> int:
    if not sys.stdout.isatty():
        return WIDTH
    import shutil

    return shutil.get_terminal_size().columns


def _measure(text: str) -> int:
    """Return how many columns of a terminal a text takes."""
    return len(text) if text.isascii() else sum(map(_measure_character, text))


def _measure_character(character: str) -> int:
    from unicodedata import category, east_asian_width

    return 2 if east_asian_width(character) in "WF" else 0 if category(character) in ("Mn", "Me") else 1


def _fold(text: str, width: int) -> Iterator[str]:
    """Yield lines of at most this width, broken at spaces where that is possible."""
    if _measure(text) <= width:
        yield text
        return
    line, used = "", 0
    for word in text.split(" "):
        size = _measure(word)
        if line and used + 1 + size <= width:
            line, used = f"{line} {word}", used + 1 + size
            continue
        if line:
            yield line
        line, used = word, size
        if size > width:
            line, used = "", 0
            for character in word:
                size = _measure_character(character)
                if line and used + size > width:
                    yield line
                    line, used = "", 0
                line, used = line + character, used + size
    yield line
