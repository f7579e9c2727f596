"""Text that only says something: what would act on a page or a terminal, or would not show, is written out.

A direction override (UAX 9 section 2.2) makes `exe.fdp` read `pdf.exe`; it is shown as `\\u202e`. The same goes for
control characters, zero-width ones, and halves of characters.
"""

import re

ELLIPSIS = "…"

_FORMATTING = "\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e0fff"
_ACTS = re.compile(f"[\x00-\x08\x0b-\x1f\x7f-\x9f{_FORMATTING}\ud800-\udfff]")
_IN_A_LINE = re.compile(f"[\x00-\x1f\x7f-\x9f{_FORMATTING}\ud800-\udfff]")
_LINE_END = re.compile("\r\n?")


def line(text: str) -> str:
    """Text for one line."""
    return _IN_A_LINE.sub(_code, text)


def block(text: str) -> str:
    """Text with lines and tabs of its own."""
    return _ACTS.sub(_code, _LINE_END.sub("\n", text))


def _code(found: re.Match[str]) -> str:
    number = ord(found[0])
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


class Allowance:
    """How many characters may still be shown of one kind of thing; `left_out` counts what was not."""

    def __init__(self, chars: int) -> None:
        self._left = chars
        self.left_out = 0

    def line(self, text: str, most: int) -> str:
        """One line of at most so many characters; one that is cut ends in an ellipsis."""
        return self._kept(line(text[:most]), len(text) > most, most)

    def block(self, text: str) -> tuple[str, int]:
        """As much of a text as there is room for, and how many of its characters are missing."""
        start = text[: self._left]
        shown = block(start)
        kept = shown[: self._left]
        self._left -= len(kept)
        return kept, len(text) - len(start) + len(shown) - len(kept)

    def another(self) -> bool:
        """Is there room for anything more? Where there is not, one thing more was left out."""
        if self._left > 0:
            return True
        self.left_out += 1
        return False

    def _kept(self, text: str, is_cut: bool, most: int) -> str:
        room = max(0, min(most, self._left))
        if is_cut or len(text) > room:
            text = text[: max(0, room - 1)] + ELLIPSIS if room else ""
        self._left -= len(text)
        return text
