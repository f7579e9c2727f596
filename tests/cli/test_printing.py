"""Tables, text and progress for people: folded to the width of a terminal, in characters that cannot act on it."""

import io
import sys
from contextlib import redirect_stdout

import pytest

from gatepost.cli.printing import ProgressBar, print_line, print_table, print_text


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.setenv("COLUMNS", "20")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    return Terminal()


def test_a_table_of_a_program_is_not_folded(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("name", "text"), [("a", "word " * 30), ("\x1b[1mb\u202e", "x")], styles={"a": "green"})
    assert capsys.readouterr().out == f"name    text\na       {('word ' * 30).strip()}\n\ufffd[1mb\ufffd  x\n"


def test_a_table_is_folded_to_the_terminal(terminal: Terminal) -> None:
    with redirect_stdout(terminal):
        print_table(("name", "text"), [("fail", "some words that are long"), ("b", "12345678901234567")])
    assert terminal.getvalue() == (
        "\x1b[1mname\x1b[0m  \x1b[1mtext\x1b[0m\n"
        "fail  some words\n      that are long\n"
        "b     12345678901234\n      567\n"
    )  # fmt: skip


def test_wide_characters_take_two_columns(terminal: Terminal) -> None:
    lines = [("你好", "x"), ("e\u0301e", "y"), ("你好你好你好你好你好", "z")]
    with redirect_stdout(terminal):
        print_table(("a", "b"), lines, styles={"x": "bold red"})
    assert terminal.getvalue().splitlines()[1:] == [
        "你好               \x1b[1;31mx\x1b[0m",
        "e\u0301e                 y",
        "你好你好你好你好   z",
        "你好",
    ]


def test_text_is_folded_and_harmless(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    with redirect_stdout(terminal):
        print_text("bold words and\x1b others here", lead="list: ", style="bold", indent="  ")
        print_line(("all of a line is ", ""), ("red", "red"))
        monkeypatch.setenv("NO_COLOR", "")
        print_text("dim", style="dim")
    assert terminal.getvalue() == (
        "  \x1b[1mlist: \x1b[0mbold words\n  and\ufffd others here\nall of a line is \x1b[31mred\x1b[0m\ndim\n"
    )


def test_progress_is_for_a_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    with ProgressBar("copying") as bar:
        bar.update(1, 2)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys, "stderr", shown := Terminal())
    with ProgressBar("copying") as bar:
        bar.update(1, None)  # too early to change the line
        bar.hide()
        bar.update(1, 2, "half\x1b")
    assert shown.getvalue() == (
        f"\r\x1b[Kcopying …\r\x1b[K\r\x1b[Khalf\ufffd {'━' * 20}{' ' * 20}  50%, 0:00 left\r\x1b[K"
    )
